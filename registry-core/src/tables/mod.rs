//! The sequential registry: the tables of the original and every rule about them, as single-threaded code.
//!
//! This is the specification in code: no other place repeats a rule. It knows names and values, not bytes; time is
//! passed in. Each command leaves a [`Delta`] of what it changed, from which the image that readers see is derived.
//!
//! **Shape.** A topic holds a short list of [`Slot`]s, one for each broker group that serves it: an index of the group
//! and an index of one of the group's distinct settings. So what concerns a whole group (a wiped permission, an
//! address, a death) changes the group alone, whatever the number of its topics. The slots of a dead group are skipped
//! by everybody and removed later, in bounded steps ([`Tables::sweep`]); its index is not used again before the last
//! one is gone.

mod groups;
mod ledger;
mod limits;
mod live;
mod names;
mod register;
mod room;
mod shrink;
mod sweep;
mod topics;
mod unregister;
mod weight;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

pub(crate) use groups::{Group, Groups};
use ledger::{Ledger, Usage};
pub use limits::TableLimits;
use live::LiveTable;
pub use shrink::is_worth_it as is_worth_shrinking;
pub(crate) use shrink::table as shrink_table;
use topics::Topics;
pub(crate) use topics::{OwnedMapping, TopicValue};

use crate::{Applied, Command, LiveKey, Millis, Name, Outcome, QueueSettings, Source, liveness::LiveRecord};

/// One broker group's share in a topic: indices of the group and of one of its settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Index of the broker group in the root.
    pub group: u32,
    /// Index of the setting in the group.
    pub setting: u32,
}

/// Shortest heartbeat timeout that a broker may ask for, in milliseconds. The original takes 0 and expires at once.
pub const HEARTBEAT_TIMEOUT_MS_MIN: u64 = 1_000;
/// Longest heartbeat timeout that a broker may ask for, in milliseconds: a dead broker must go some day.
pub const HEARTBEAT_TIMEOUT_MS_MAX: u64 = 3_600_000;
/// Heartbeat timeout of a broker that asks for none, in milliseconds (`DEFAULT_BROKER_CHANNEL_EXPIRED_TIME`).
pub const HEARTBEAT_TIMEOUT_MS_DEFAULT: u64 = 120_000;

/// What changed since the last delta was taken.
#[derive(Debug, Default)]
pub(crate) struct Delta {
    /// Topics in the order of their changes: the new value, or that the topic is gone. The last entry of a name counts.
    pub(crate) topics: Vec<(Name, Option<TopicValue>)>,
    /// Indices of groups that changed, came or died.
    pub(crate) groups: BTreeSet<u32>,
    /// Keys of live entries that came, changed or went.
    pub(crate) live: BTreeSet<LiveKey>,
    /// Clusters that came, changed or went.
    pub(crate) clusters: BTreeSet<Name>,
    /// Whether a list of topics changed, for another reason than that a group came or died.
    pub(crate) topic_lists: bool,
}

impl Delta {
    pub(crate) fn is_empty(&self) -> bool {
        self.topics.is_empty() && self.groups.is_empty() && self.live.is_empty() && self.clusters.is_empty()
    }
}

/// A cluster: the groups that it lists, never none.
#[derive(Debug)]
struct Cluster {
    groups: BTreeSet<Name>,
    /// Account of the source that named it first.
    account: u32,
}

/// The sequential registry.
#[derive(Debug, Default)]
pub struct Tables {
    topics: Topics,
    groups: Groups,
    clusters: BTreeMap<Name, Cluster>,
    live: LiveTable,
    ledger: Ledger,
    delta: Delta,
    sweep: sweep::Sweep,
    limits: TableLimits,
    delete_topic_with_registration: bool,
}

impl Tables {
    /// Makes empty tables.
    pub fn new(limits: TableLimits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// Applies one command at time `now` and says what follows from it.
    ///
    /// A refused command has changed nothing; but a broker that is live, and whose registration is refused for a limit, has
    /// been heard of. Cost: O(1) in the number of topics, but for `Register` (the topics it brings; all topics with
    /// `deleteTopicWithBrokerRegistration`) and `Expire` (all live brokers).
    pub fn apply(&mut self, command: &Command, now: Millis) -> Applied {
        match command {
            Command::Register(registration) => self.register(registration, now),
            Command::Unregister(request) => self.unregister(request),
            Command::Disconnect(connection) => self.disconnect(*connection),
            Command::Heartbeat { cluster, broker_addr } => {
                self.heartbeat(cluster, broker_addr, now);
                Applied::new(Outcome::Done)
            }
            Command::Expire => self.expire(now),
            Command::WipeWritePerm { broker_name } => self.change_permissions(broker_name, QueueSettings::read_only),
            Command::AddWritePerm { broker_name } => {
                // The original sets exactly 6, inherit bit and all.
                self.change_permissions(broker_name, |settings| QueueSettings { perm: 6, ..settings })
            }
            Command::DeleteTopic { topic, cluster } => {
                self.delete_topic(topic, cluster.as_deref());
                Applied::new(Outcome::Done)
            }
            Command::RegisterTopic { topic, queues, source } => self.register_topic(topic, queues, *source),
            Command::DeleteTopicWithRegistration(on) => {
                self.delete_topic_with_registration = *on;
                // A registration that took nothing away before may do so now.
                self.live.iter().for_each(|(_, entry)| entry.record.touch());
                Applied::new(Outcome::Done)
            }
        }
    }

    fn heartbeat(&self, cluster: &Name, addr: &Name, now: Millis) {
        if let Some(entry) = self.live.get(&LiveKey { cluster: cluster.clone(), addr: addr.clone() }) {
            let beaten = entry.record.pulse.beat(now);
            debug_assert!(beaten, "the pulse of an entry in the table is never claimed");
        }
    }

    /// 205 and 327: changes every setting of the group, and counts the topics that have it.
    fn change_permissions(&mut self, broker_name: &str, change: impl Fn(QueueSettings) -> QueueSettings) -> Applied {
        let Some(index) = self.groups.index_of(broker_name) else {
            return Applied::new(Outcome::TopicsChanged(0));
        };
        let group = self.groups.at_mut(index);
        let topics = group.topics();
        if group.change_settings(change) {
            self.group_changed(index);
        }
        Applied::new(Outcome::TopicsChanged(topics))
    }

    fn delete_topic(&mut self, topic: &str, cluster: Option<&str>) {
        let Some(at) = self.topics.find(topic) else {
            return;
        };
        match cluster {
            None | Some("") => self.remove_topic(at),
            Some(cluster) => {
                let Some(cluster) = self.clusters.get(cluster) else {
                    return;
                };
                let (_, value) = self.topics.entry(at);
                let owners = value.mappings.iter().flat_map(|all| all.iter()).map(|mapping| mapping.owner);
                let groups = value.slots.iter().map(|slot| slot.group).chain(owners);
                let is_listed = |&group: &u32| {
                    self.groups.alive_at(group).is_some_and(|group| cluster.groups.contains(&group.name))
                };
                let mut leaving: Vec<u32> = groups.filter(is_listed).collect();
                leaving.sort_unstable();
                self.remove_from_topic(at, |group| leaving.binary_search(&group).is_ok());
            }
        }
    }

    /// 217: all or nothing, where the original applies until the first unknown broker.
    fn register_topic(&mut self, topic: &Name, queues: &[(Name, QueueSettings)], source: Source) -> Applied {
        let groups: Option<Vec<u32>> = queues.iter().map(|(broker, _)| self.groups.index_of(broker)).collect();
        let Some(groups) = groups.filter(|groups| !groups.is_empty()) else {
            return Applied::new(Outcome::Done);
        };
        if let Err(refusal) = self.check_topic(topic, &groups, queues, source) {
            return Applied::new(Outcome::Refused(refusal));
        }
        for (group, (_, settings)) in groups.into_iter().zip(queues) {
            if self.put_slot(topic, group, *settings, source) {
                self.touch_members(group, None);
            }
        }
        Applied::new(Outcome::Done)
    }

    /// Position of a topic, which is added with nothing in it if it is new, and `source` is charged with it.
    fn find_or_add_topic(&mut self, topic: &str, source: Source) -> usize {
        if let Some(at) = self.topics.find(topic) {
            return at;
        }
        let account = self.ledger.account(source);
        self.ledger.charge(account, weight::topic(topic));
        self.topics.add(topic, account)
    }

    /// Makes `group` serve `topic` with `settings`; says whether that is news. `source` is charged with a new topic.
    fn put_slot(&mut self, topic: &str, group: u32, settings: QueueSettings, source: Source) -> bool {
        let at = self.find_or_add_topic(topic, source);
        let held = self.topics.slot_of(at, group);
        if let Some(held) = held
            && self.groups.at(group).setting(held.setting) == settings
        {
            return false;
        }
        let listed_as = |setting: QueueSettings| setting.topic_sys_flag;
        let former = held.map(|held| listed_as(self.groups.at(group).setting(held.setting)));
        self.delta.topic_lists |= former != Some(listed_as(settings));
        let (setting, is_new_setting) = self.groups.at_mut(group).take_setting(settings);
        match held {
            Some(held) => self.groups.at_mut(group).release_setting(held.setting),
            None => self.ledger.charge(self.groups.at(group).account, weight::slot()),
        }
        if is_new_setting {
            self.delta.groups.insert(group);
            self.weigh_again(group);
        }
        self.topics.put_slot(at, Slot { group, setting }, &self.groups);
        self.note_topic(at);
        true
    }

    /// Removes a topic with its slots and mappings.
    fn remove_topic(&mut self, at: usize) {
        self.remove_from_topic(at, |_| true);
    }

    /// Removes from a topic what the groups that `leaves` picks have in it, and the topic when nobody is left.
    ///
    /// Mappings go with the group that brought them, and with the topic (the original never removes them).
    fn remove_from_topic(&mut self, at: usize, leaves: impl Fn(u32) -> bool) {
        let removed = self.topics.remove_groups(at, leaves);
        if removed.is_empty() {
            return;
        }
        for group in &removed.touched {
            self.touch_members(*group, None);
        }
        for slot in &removed.slots {
            let group = self.groups.at_mut(slot.group);
            // What the dead leave behind is in no list.
            self.delta.topic_lists |= !group.is_dead();
            group.release_setting(slot.setting);
            self.ledger.release(group.account, weight::slot());
        }
        for mapping in &removed.mappings {
            self.mapping_gone(mapping);
        }
        self.note_topic(at);
        if self.topics.is_vacant(at) {
            let (name, _) = self.topics.entry(at);
            self.ledger.release(self.topics.account(at), weight::topic(name));
            self.topics.remove(at);
        }
    }

    fn mapping_gone(&mut self, gone: &OwnedMapping) {
        let owner = self.groups.at_mut(gone.owner);
        owner.mappings -= 1;
        self.ledger.release(owner.account, weight::mapping(&gone.mapping));
    }

    fn note_topic(&mut self, at: usize) {
        let (name, value) = self.topics.entry(at);
        let change = if value.slots.is_empty() && value.mappings.is_none() { None } else { Some(value.clone()) };
        self.delta.topics.push((name.clone(), change));
    }

    /// A change of the group that its members' next registrations must look at.
    fn group_changed(&mut self, index: u32) {
        self.delta.groups.insert(index);
        self.touch_members(index, None);
    }

    /// Takes the fast path of an unchanged registration from every member but `but`.
    fn touch_members(&self, index: u32, but: Option<&LiveKey>) {
        for member in self.groups.at(index).members() {
            let key = member.live_key();
            if Some(&key) == but {
                continue;
            }
            if let Some(entry) = self.live.get(&key) {
                entry.record.touch();
            }
        }
    }

    pub(crate) fn take_delta(&mut self) -> Delta {
        std::mem::take(&mut self.delta)
    }

    /// The group at `index`, unless it is dead or the index is free.
    pub(crate) fn group(&self, index: u32) -> Option<&Group> {
        self.groups.alive_at(index)
    }

    /// Upper bound of the group indices in use.
    pub(crate) fn group_indices(&self) -> u32 {
        self.groups.indices()
    }

    /// The names of all clusters, sorted.
    pub(crate) fn clusters(&self) -> impl Iterator<Item = &Name> {
        self.clusters.keys()
    }

    /// The names of the groups that a cluster lists, sorted.
    pub(crate) fn cluster(&self, name: &Name) -> Option<&BTreeSet<Name>> {
        self.clusters.get(name).map(|cluster| &cluster.groups)
    }

    pub(crate) fn live_record(&self, key: &LiveKey) -> Option<&Arc<LiveRecord>> {
        self.live.get(key).map(|entry| &entry.record)
    }

    pub(crate) fn filter_servers(&self, key: &LiveKey) -> &[Option<Name>] {
        self.live.get(key).map_or(&[], |entry| &entry.filter_servers)
    }

    pub(crate) fn live_keys(&self) -> impl Iterator<Item = &LiveKey> {
        self.live.keys()
    }

    pub(crate) fn topic_values(&self) -> impl Iterator<Item = (&Name, &TopicValue)> {
        self.topics.iter()
    }

    /// For how many topics there is room: in the list, and in the index. For tests.
    #[doc(hidden)]
    pub fn topic_room(&self) -> (usize, usize) {
        self.topics.room()
    }

    /// Checks the counters and references that the tables keep about themselves.
    ///
    /// # Panics
    /// When one of them is wrong. For tests: cost O(everything).
    #[doc(hidden)]
    pub fn check(&self) {
        let mut topics: HashMap<u32, u32> = HashMap::new();
        let mut mappings: HashMap<u32, u32> = HashMap::new();
        let mut settings: HashMap<(u32, u32), u32> = HashMap::new();
        for (name, value) in self.topics.iter() {
            assert!(!value.slots.is_empty() || value.mappings.is_some(), "topic {name} is kept for nothing");
            for slot in value.slots.iter() {
                *topics.entry(slot.group).or_default() += 1;
                *settings.entry((slot.group, slot.setting)).or_default() += 1;
            }
            for mapping in value.mappings.iter().flat_map(|all| all.iter()) {
                *mappings.entry(mapping.owner).or_default() += 1;
            }
        }
        self.groups.check(&topics, &mappings, &settings);
        for (cluster, Cluster { groups, .. }) in &self.clusters {
            assert!(!groups.is_empty(), "cluster {cluster} is empty");
            for name in groups {
                let group = self.groups.index_of(name).map(|index| self.groups.at(index));
                let is_listed = group.is_some_and(|group| group.listed_in.contains(cluster));
                assert!(is_listed, "cluster {cluster} lists {name}, which does not know");
            }
        }
        let listings: usize = self.groups.all().map(|group| group.listed_in.len()).sum();
        assert_eq!(listings, self.clusters.values().map(|cluster| cluster.groups.len()).sum::<usize>());
        self.live.check(self.limits.groupless_brokers_max);
        for index in 0..self.groups.indices() {
            for member in self.groups.alive_at(index).into_iter().flat_map(Group::members) {
                let entry = self.live.get(&member.live_key()).expect("a member has a live entry");
                assert!(entry.groups.contains(&index), "the live entry of {member:?} does not know its group");
            }
        }
        self.check_ledger();
    }

    /// Counts anew what the ledger has counted step by step, and checks the limits.
    fn check_ledger(&self) {
        let mut held: HashMap<u32, Usage> = HashMap::new();
        let mut charge = |account: u32, usage: Usage| {
            let held = held.entry(account).or_default();
            *held = held.plus(usage);
        };
        for (at, (name, value)) in self.topics.iter().enumerate() {
            charge(self.topics.account(at), weight::topic(name));
            for slot in value.slots.iter() {
                charge(self.groups.at(slot.group).account, weight::slot());
            }
            for OwnedMapping { owner, mapping } in value.mappings.iter().flat_map(|all| all.iter()) {
                charge(self.groups.at(*owner).account, weight::mapping(mapping));
            }
        }
        for group in self.groups.all() {
            assert_eq!(group.charged, self.weigh_group(group), "weight of {}", group.name);
            charge(group.account, group.charged);
        }
        for (name, cluster) in &self.clusters {
            charge(cluster.account, weight::cluster(name));
        }
        for (key, entry) in self.live.iter() {
            assert_eq!(entry.charged, weight::broker(key, entry), "weight of {key:?}");
            charge(entry.account, entry.charged);
        }
        self.ledger.check_against(&held);
        self.check_limits();
    }

    fn check_limits(&self) {
        let limits = &self.limits;
        let Usage { groups, clusters, brokers, topics, topic_list_bytes, cluster_info_bytes, bytes } =
            self.ledger.total();
        assert_eq!((groups, clusters, brokers), (self.groups.len(), self.clusters.len(), self.live.iter().count()));
        assert_eq!(topics, self.topics.len());
        assert!(groups <= limits.groups_max && clusters <= limits.clusters_max && brokers <= limits.brokers_max);
        assert!(topics <= limits.topics_max && topic_list_bytes <= limits.topic_list_bytes_max);
        assert!(cluster_info_bytes <= limits.cluster_info_bytes_max && bytes <= limits.registry_bytes_max);
        for group in self.groups.all() {
            assert!(self.group_text(group) <= limits.group_bytes_max, "bytes of {}", group.name);
            assert!(group.members().len() <= limits.members_max, "members of {}", group.name);
            assert!(group.listed_in.len() <= limits.group_clusters_max, "clusters of {}", group.name);
            assert!(group.settings().len() <= limits.group_settings_max, "settings of {}", group.name);
        }
        for (name, value) in self.topics.iter() {
            assert!(value.slots.len() <= limits.topic_groups_max, "groups of {name}");
            assert!(
                value.mappings.as_ref().is_none_or(|all| all.len() <= limits.topic_mappings_max),
                "mappings of {name}"
            );
        }
        assert!(self.live.iter().all(|(_, entry)| entry.groups.len() <= limits.broker_groups_max));
    }
}
