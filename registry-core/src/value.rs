//! The values that brokers send and clients read.

use std::{fmt, net::IpAddr, ops::Range, sync::Arc};

/// A name of a topic, broker, cluster or address, shared between all places that mention it.
///
/// Names are stored as they were sent: the original neither trims nor validates them.
pub type Name = Arc<str>;

/// Milliseconds of a monotonic clock since an arbitrary start.
///
/// Time is passed in, so that a test can say what time it is and a jump of the wall clock expires nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Millis(pub u64);

/// Identity of a connection, never used twice in the life of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u64);

/// Where a request comes from, as far as shares of the tables are concerned: an address of IPv4, or the network (/64) of one of
/// IPv6, of which a peer has as many addresses as it likes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Source(u128);

impl From<IpAddr> for Source {
    fn from(addr: IpAddr) -> Self {
        match addr.to_canonical() {
            // Where the addresses of IPv6 have those of IPv4 themselves, so that no network is taken for one.
            IpAddr::V4(addr) => Self(addr.to_ipv6_mapped().to_bits()),
            IpAddr::V6(addr) => Self(addr.to_bits() >> 64 << 64),
        }
    }
}

/// What a broker says of a topic's queues on it (`QueueData` without the broker's name).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct QueueSettings {
    /// Number of queues to read from (`readQueueNums`).
    pub read_queues: i32,
    /// Number of queues to write to (`writeQueueNums`).
    pub write_queues: i32,
    /// Permission bits (`perm`): 4 read, 2 write, 1 inherit.
    pub perm: i32,
    /// Flag bits (`topicSysFlag`): 1 unit, 2 unit subscription.
    pub topic_sys_flag: i32,
}

impl QueueSettings {
    /// `PermName.PERM_WRITE`.
    pub const PERM_WRITE: i32 = 2;

    /// Says whether clients may send to these queues.
    pub fn is_writable(self) -> bool {
        self.perm & Self::PERM_WRITE != 0
    }

    /// The same queues without the write permission.
    #[must_use]
    pub fn read_only(self) -> Self {
        Self { perm: self.perm & !Self::PERM_WRITE, ..self }
    }
}

impl Default for QueueSettings {
    /// The defaults of the original's `TopicConfig`.
    fn default() -> Self {
        Self { read_queues: 16, write_queues: 16, perm: 6, topic_sys_flag: 0 }
    }
}

/// Version of a broker's topic table (`DataVersion`). Two versions are the same when all three fields are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct DataVersion {
    /// `stateVersion`: decides who keeps a broker id that two addresses claim.
    pub state_version: i64,
    /// `timestamp`, milliseconds of the broker's clock.
    pub timestamp: i64,
    /// `counter`; brokers may send null.
    pub counter: Option<i64>,
}

/// What a broker says of one static topic (`TopicQueueMappingInfo`).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct TopicMapping {
    /// `topic` as written inside the value.
    pub topic: Option<Name>,
    /// `bname`: the broker under which clients see this mapping.
    pub bname: Option<Name>,
    /// `scope`.
    pub scope: Option<Name>,
    /// `totalQueues`.
    pub total_queues: i32,
    /// `epoch`.
    pub epoch: i64,
    /// `dirty`.
    pub dirty: bool,
    /// `currIdMap`: logic id to physical id, sorted by key.
    pub curr_id_map: Option<Box<[(i32, i32)]>>,
}

/// The topics of one registration, without an allocation for each of them.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct TopicTable {
    text: String,
    entries: Vec<TopicTableEntry>,
    longest_name: usize,
    settings_runs: usize,
}

#[derive(Clone, PartialEq, Eq)]
struct TopicTableEntry {
    key: Range<u32>,
    name: Range<u32>,
    settings: QueueSettings,
}

impl TopicTable {
    /// Makes a table with room for `topics` topics and `bytes` bytes of names.
    pub fn with_capacity(topics: usize, bytes: usize) -> Self {
        let (text, entries) = (String::with_capacity(bytes), Vec::with_capacity(topics));
        Self { text, entries, ..Self::default() }
    }

    /// Adds a topic: `key` is its key in the broker's table, `name` the `topicName` inside the value, under which it
    /// is routed. Brokers send the same text for both.
    ///
    /// # Panics
    /// When the names together exceed 4 GiB; the frame limit lies far below.
    pub fn push(&mut self, key: &str, name: &str, settings: QueueSettings) {
        self.longest_name = self.longest_name.max(name.len());
        self.settings_runs += usize::from(self.entries.last().is_none_or(|last| last.settings != settings));
        let name_range = self.store(name);
        let key_range = if key == name { name_range.clone() } else { self.store(key) };
        self.entries.push(TopicTableEntry { key: key_range, name: name_range, settings });
    }

    fn store(&mut self, text: &str) -> Range<u32> {
        let start = u32::try_from(self.text.len()).expect("names of one registration fit in 4 GiB");
        self.text.push_str(text);
        let end = u32::try_from(self.text.len()).expect("names of one registration fit in 4 GiB");
        start..end
    }

    /// Bytes of all names and keys together.
    pub fn text_len(&self) -> usize {
        self.text.len()
    }

    /// Bytes of the longest name.
    pub fn longest_name(&self) -> usize {
        self.longest_name
    }

    /// How often the settings are not those of the topic before: no more of them are distinct.
    pub fn settings_runs(&self) -> usize {
        self.settings_runs
    }

    /// Number of topics.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Says whether there is no topic.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The topics in the order they were added: name and settings.
    pub fn iter(&self) -> impl Iterator<Item = (&str, QueueSettings)> {
        self.entries.iter().map(|entry| (self.text_of(&entry.name), entry.settings))
    }

    /// The keys in the order they were added.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(|entry| self.text_of(&entry.key))
    }

    /// Says whether a topic has another name than its key in the broker's table.
    pub fn has_aliases(&self) -> bool {
        self.entries.iter().any(|entry| entry.key != entry.name)
    }

    fn text_of(&self, range: &Range<u32>) -> &str {
        &self.text[range.start as usize..range.end as usize]
    }
}

impl fmt::Debug for TopicTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

/// Body of a registration (`RegisterBrokerBody`), parsed.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct RegisterBody {
    /// Version of the topic table. Parsers put the current time where the original does.
    pub data_version: DataVersion,
    /// The topics; `None` where the broker sent a null table or a null wrapper.
    pub topics: Option<TopicTable>,
    /// The static-topic mappings: table key and value.
    pub mappings: Vec<(Name, TopicMapping)>,
    /// The filter servers, nulls in the list included; `None` where the broker sent null or an old body: the stored
    /// list stays as it is.
    pub filter_servers: Option<Vec<Option<Name>>>,
}

/// A broker's registration (`REGISTER_BROKER`, 103).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registration {
    /// `clusterName`.
    pub cluster: Name,
    /// `brokerName`.
    pub broker_name: Name,
    /// `brokerId`; 0 is the master. Negative ids are accepted, as in the original.
    pub broker_id: i64,
    /// `brokerAddr`.
    pub broker_addr: Name,
    /// `haServerAddr`.
    pub ha_addr: Option<Name>,
    /// `heartbeatTimeoutMillis`, as sent.
    pub heartbeat_timeout_ms: Option<i64>,
    /// `enableActingMaster`; `None` means a broker that does not know the field.
    pub enable_acting_master: Option<bool>,
    /// `__ZONE_NAME`.
    pub zone: Option<Name>,
    /// The connection that carries the broker.
    pub connection: ConnectionId,
    /// Where it comes from: who is charged with what it brings.
    pub source: Source,
    /// The parsed body.
    pub body: RegisterBody,
    /// Hash of header and body as sent, by which an unchanged registration is recognised; 0 when unknown.
    pub fingerprint: u128,
}

/// A broker's farewell (`UNREGISTER_BROKER`, 104).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unregistration {
    /// `clusterName`.
    pub cluster: Name,
    /// `brokerName`.
    pub broker_name: Name,
    /// `brokerId`.
    pub broker_id: i64,
    /// `brokerAddr`.
    pub broker_addr: Name,
    /// The connection that carried the request.
    pub connection: ConnectionId,
}
