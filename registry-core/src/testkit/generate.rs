//! Commands in a universe so small that brokers meet: on one address, under one id, over one connection, in one topic.

use std::hash::{DefaultHasher, Hash, Hasher};

use proptest::{collection::vec, option, prelude::*, sample::select};

use super::Probe;
use crate::{
    Command, ConnectionId, DataVersion, KeyStyle, LiveKey, Name, QueueSettings, RegisterBody, Registration, Source,
    TopicMapping, TopicTable, Unregistration, query::UnitTopics,
};

const CLUSTERS: [&str; 3] = ["c0", "c1", "c2"];
const BROKERS: [&str; 4] = ["b0", "b1", "b2", "b3"];
const ADDRS: [&str; 4] = ["10.0.0.1:1", "10.0.0.2:1", "10.0.0.3:1", "[fe80::1]:1"];
const TOPICS: [&str; 6] = ["t0", "t1", "t2", "t3", "t\"4\"", "rmq_sys_SYNC_BROKER_MEMBER_b0"];

/// One step of a run.
#[derive(Clone, Debug)]
pub enum Step {
    /// A command of the writer.
    Apply(Command),
    /// Commands that came together, of the writer: published as one change, as a server does it.
    Batch(Vec<Command>),
    /// A registration that was made before in this run, counted from the first, byte for byte. If it is recognised as
    /// unchanged and `is_short_cut` is set, the writer does not see it.
    Repeat {
        /// Which one, modulo their number.
        at: usize,
        /// Whether the short cut is taken where there is one.
        is_short_cut: bool,
    },
    /// A registration that was made before, but for one thing.
    Amend {
        /// Which one, modulo their number.
        at: usize,
        /// What is different.
        twist: Twist,
    },
    /// A heartbeat (904), as a server does it: to the writer only if it is late.
    Beat(LiveKey),
    /// A question for a data version (322), which is a heartbeat too.
    Ask(LiveKey, Option<DataVersion>),
    /// Time passes, in milliseconds.
    Advance(u64),
    /// The sweep looks at so many topics.
    Sweep(usize),
}

/// What a broker changes between two registrations.
#[derive(Clone, Debug)]
pub enum Twist {
    /// Its cluster.
    Cluster(Name),
    /// Its group.
    Group(Name),
    /// Its id.
    Id(i64),
    /// Its address.
    Addr(Name),
    /// Its connection.
    Connection(u64),
    /// The version of its topics, and nothing else of them.
    Version(DataVersion),
    /// It brings no topic table, and says nothing of filter servers.
    Nothing,
}

impl Twist {
    /// The registration with this difference.
    pub(super) fn apply(&self, mut registration: Registration) -> Registration {
        match self {
            Self::Cluster(cluster) => registration.cluster = cluster.clone(),
            Self::Group(name) => registration.broker_name = name.clone(),
            Self::Id(id) => registration.broker_id = *id,
            Self::Addr(addr) => registration.broker_addr = addr.clone(),
            Self::Connection(connection) => {
                registration.connection = ConnectionId(*connection);
                registration.source = source_of(*connection);
            }
            Self::Version(version) => registration.body.data_version = *version,
            Self::Nothing => {
                registration.body.topics = None;
                registration.body.filter_servers = None;
            }
        }
        registration.fingerprint = fingerprint(&registration);
        registration
    }
}

fn twist() -> impl Strategy<Value = Twist> {
    prop_oneof![
        3 => name(&CLUSTERS[..2]).prop_map(Twist::Cluster),
        1 => name(&BROKERS).prop_map(Twist::Group),
        2 => (-1..4i64).prop_map(Twist::Id),
        1 => name(&ADDRS).prop_map(Twist::Addr),
        2 => (1..5u64).prop_map(Twist::Connection),
        1 => data_version().prop_map(Twist::Version),
        1 => Just(Twist::Nothing),
    ]
}

fn name(names: &'static [&'static str]) -> impl Strategy<Value = Name> + Clone {
    select(names).prop_map(Name::from)
}

fn live_key() -> impl Strategy<Value = LiveKey> {
    (name(&CLUSTERS[..2]), name(&ADDRS)).prop_map(|(cluster, addr)| LiveKey { cluster, addr })
}

fn data_version() -> impl Strategy<Value = DataVersion> {
    let counter = prop_oneof![Just(None), Just(Some(1))];
    (0..3i64, 1..3i64, counter).prop_map(|(state_version, timestamp, counter)| DataVersion {
        state_version,
        timestamp,
        counter,
    })
}

fn settings() -> impl Strategy<Value = QueueSettings> {
    (select(&[6, 4, 7, 2, 0][..]), select(&[4, 8][..]), 0..4i32).prop_map(|(perm, read_queues, topic_sys_flag)| {
        QueueSettings { read_queues, write_queues: 8, perm, topic_sys_flag }
    })
}

fn topic_table() -> impl Strategy<Value = TopicTable> {
    let topic = (name(&TOPICS), settings(), proptest::bool::weighted(0.05)).boxed();
    prop_oneof![6 => vec(topic.clone(), 2..6), 1 => vec(topic, 0..2)].prop_map(|topics| {
        let mut table = TopicTable::default();
        for (topic, settings, has_other_key) in topics {
            table.push(if has_other_key { "other" } else { &topic }, &topic, settings);
        }
        table
    })
}

fn mapping() -> impl Strategy<Value = (Name, TopicMapping)> {
    let bname = prop_oneof![4 => name(&BROKERS).prop_map(Some), 1 => Just(Some("foreign".into())), 1 => Just(None)];
    let ids = option::of((0..3usize).prop_map(|count| [(0, 0), (1, 3)].into_iter().take(count).collect()));
    (name(&TOPICS), bname, ids, select(&[0, 1, -(1 << 53), (1 << 53) - 1][..]), option::of(Just("__global__".into())))
        .prop_map(|(topic, bname, curr_id_map, epoch, scope)| {
            let inner = (epoch == 0).then(|| topic.clone());
            let mapping =
                TopicMapping { topic: inner, bname, scope, total_queues: 2, epoch, dirty: epoch == 1, curr_id_map };
            (topic, mapping)
        })
}

fn body() -> impl Strategy<Value = RegisterBody> {
    let filters = prop_oneof![3 => Just(None), 1 => Just(Some(0)), 2 => (1..3usize).prop_map(Some)];
    let filters = filters.prop_map(|count| count.map(|count| vec![Some("f1".into()), None][..count].to_vec()));
    let mappings = prop_oneof![4 => Just(vec![]), 1 => vec(mapping(), 1..3)];
    (data_version(), option::weighted(0.95, topic_table()), mappings, filters).prop_map(
        |(data_version, topics, mappings, filter_servers)| RegisterBody {
            data_version,
            topics,
            mappings,
            filter_servers,
        },
    )
}

/// Registrations of brokers, each with the fingerprint that a server would give it.
pub fn registration() -> impl Strategy<Value = Registration> {
    let who = (name(&CLUSTERS[..2]), name(&BROKERS), prop_oneof![1 => Just(-1), 8 => 0..4i64], name(&ADDRS));
    let acting = prop_oneof![1 => Just(None), 3 => Just(Some(true)), 1 => Just(Some(false))];
    let timeout = select(&[None, None, Some(0), Some(2_000), Some(i64::MAX)][..]);
    let zone = select(&[None, Some("za"), Some("ZB")][..]);
    (who, acting, timeout, zone, 1..5u64, option::of(Just("ha:1".into())), body()).prop_map(
        |((cluster, broker_name, broker_id, broker_addr), acting, timeout, zone, connection, ha_addr, body)| {
            let mut registration = Registration {
                cluster,
                broker_name,
                broker_id,
                broker_addr,
                ha_addr,
                heartbeat_timeout_ms: timeout,
                enable_acting_master: acting,
                zone: zone.map(Name::from),
                connection: ConnectionId(connection),
                source: source_of(connection),
                body,
                fingerprint: 0,
            };
            registration.fingerprint = fingerprint(&registration);
            registration
        },
    )
}

/// A connection comes from one of two sources.
fn source_of(connection: u64) -> Source {
    super::fixture::source(if connection.is_multiple_of(2) { 1 } else { 2 })
}

/// A hash of all that a broker sends.
fn fingerprint(registration: &Registration) -> u128 {
    let mut hasher = DefaultHasher::new();
    let sent = Registration { connection: ConnectionId(0), source: source_of(0), ..registration.clone() };
    format!("{sent:?}{:?}", sent.body.topics.iter().flat_map(TopicTable::keys).collect::<Vec<_>>()).hash(&mut hasher);
    u128::from(hasher.finish()) | 1 << 64
}

fn command() -> impl Strategy<Value = Command> {
    let unregister = (name(&CLUSTERS), name(&BROKERS), -1..4i64, name(&ADDRS), 1..6u64);
    let unregister = unregister.prop_map(|(cluster, broker_name, broker_id, broker_addr, connection)| {
        let connection = ConnectionId(connection);
        Command::Unregister(Unregistration { cluster, broker_name, broker_id, broker_addr, connection })
    });
    let queues = vec((name(&BROKERS), settings()), 0..3);
    prop_oneof![
        20 => registration().prop_map(|registration| Command::Register(Box::new(registration))),
        6 => unregister,
        3 => (1..5u64).prop_map(|connection| Command::Disconnect(ConnectionId(connection))),
        1 => live_key().prop_map(|key| Command::Heartbeat { cluster: key.cluster, broker_addr: key.addr }),
        4 => Just(Command::Expire),
        2 => name(&BROKERS).prop_map(|broker_name| Command::WipeWritePerm { broker_name }),
        2 => name(&BROKERS).prop_map(|broker_name| Command::AddWritePerm { broker_name }),
        2 => (name(&TOPICS), option::of(prop_oneof![1 => Just("".into()), 3 => name(&CLUSTERS)]))
            .prop_map(|(topic, cluster)| Command::DeleteTopic { topic, cluster }),
        2 => (name(&TOPICS), queues, 1..5u64).prop_map(|(topic, queues, connection)| {
            Command::RegisterTopic { topic, queues, source: source_of(connection) }
        }),
        1 => any::<bool>().prop_map(Command::DeleteTopicWithRegistration),
    ]
}

/// One step.
pub fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        20 => command().prop_map(Step::Apply),
        4 => vec(command(), 2..5).prop_map(Step::Batch),
        1 => vec(name(&TOPICS), 2..4).prop_map(|topics| {
            Step::Batch(topics.into_iter().map(|topic| Command::DeleteTopic { topic, cluster: None }).collect())
        }),
        6 => (any::<usize>(), any::<bool>()).prop_map(|(at, is_short_cut)| Step::Repeat { at, is_short_cut }),
        8 => (any::<usize>(), twist()).prop_map(|(at, twist)| Step::Amend { at, twist }),
        2 => live_key().prop_map(Step::Beat),
        1 => (live_key(), option::of(data_version())).prop_map(|(key, version)| Step::Ask(key, version)),
        4 => select(&[400, 1_000, 1_001, 2_000, 119_000, 3_600_001][..]).prop_map(Step::Advance),
        3 => (1..4usize).prop_map(Step::Sweep),
    ]
}

/// A run of up to 40 steps.
pub fn steps() -> impl Strategy<Value = Vec<Step>> {
    vec(step(), 1..40)
}

/// Questions about everything that there can be in the universe.
pub fn probes() -> Vec<Probe> {
    let mut probes = vec![Probe::ClusterInfo, Probe::AllTopics, Probe::SystemTopics];
    for which in [UnitTopics::Unit, UnitTopics::UnitSubscription, UnitTopics::UnitSubscriptionOnly] {
        probes.push(Probe::UnitTopics(which));
    }
    for topic in TOPICS.iter().chain(&["nope"]) {
        let route = |style, acting_master, zone: Option<&str>, order_conf: Option<&str>| Probe::Route {
            topic: (*topic).into(),
            style,
            acting_master,
            zone: zone.map(Name::from),
            order_conf: order_conf.map(Name::from),
        };
        // Of both spellings, one after the other: these are the routes that are kept.
        probes.push(route(KeyStyle::Bare, false, None, None));
        probes.push(route(KeyStyle::Quoted, false, None, None));
        probes.push(route(KeyStyle::Quoted, true, None, Some("b0:4;b1:4")));
        probes.push(route(KeyStyle::Quoted, false, Some("zb"), None));
        probes.push(route(KeyStyle::Bare, true, Some("za"), None));
    }
    probes.extend(CLUSTERS.iter().map(|cluster| Probe::TopicsOfCluster((*cluster).into())));
    probes.extend(BROKERS.iter().map(|broker| Probe::MemberGroup(Some("any".into()), Some((*broker).into()))));
    probes.push(Probe::MemberGroup(None, None));
    for key in live_keys() {
        let version = DataVersion { state_version: 0, timestamp: 1, counter: Some(1) };
        probes.push(Probe::DataVersion(key.clone(), Some(version)));
        probes.push(Probe::DataVersion(key, None));
    }
    probes
}

/// All keys that a live broker can have.
pub(super) fn live_keys() -> impl Iterator<Item = LiveKey> {
    let key = |cluster: &&str, addr: &&str| LiveKey { cluster: (*cluster).into(), addr: (*addr).into() };
    CLUSTERS.iter().flat_map(move |cluster| ADDRS.iter().map(move |addr| key(cluster, addr)))
}

/// All names that a broker group can have.
pub(super) fn broker_names() -> impl Iterator<Item = &'static str> {
    BROKERS.into_iter()
}
