//! A registry with its writer, one reader and a clock that stands still until it is told to move.

use std::{collections::BTreeMap, fmt, sync::Arc};

use super::Probe;
use crate::{
    Applied, Command, ConnectionId, DataVersion, KeyStyle, LiveKey, Millis, MinIdChange, Name, Outcome, QueueSettings,
    Reader, RegisterBody, Registered, Registration, Registry, Root, Source, TableLimits, TopicMapping, TopicTable,
    Unregistration, View, Writer,
    query::{self, BrokerVersion, Heartbeat, UnitTopics},
};

/// The cluster of everybody who names none.
pub const CLUSTER: &str = "DefaultCluster";

/// A broker and what it registers with. Starts as a master with the topics `base` and `t1`, 8 queues each way, perm 6.
#[derive(Clone, Debug)]
pub struct Broker(pub Registration);

impl Broker {
    /// A broker of the group `name`, with the address `addr`, over a connection of its own.
    pub fn new(name: &str, id: i64, addr: &str) -> Self {
        let body = RegisterBody {
            data_version: DataVersion { state_version: 0, timestamp: 1_000, counter: Some(1) },
            topics: Some(table(["base", "t1"], settings(6))),
            mappings: vec![],
            filter_servers: Some(vec![]),
        };
        let connection = addr.bytes().fold(1_000, |sum, byte| sum * 31 % 1_000_003 + u64::from(byte));
        Self(Registration {
            cluster: CLUSTER.into(),
            broker_name: name.into(),
            broker_id: id,
            broker_addr: addr.into(),
            ha_addr: Some(format!("ha-{addr}").into()),
            heartbeat_timeout_ms: None,
            enable_acting_master: None,
            zone: None,
            connection: ConnectionId(connection),
            source: source(1),
            body,
            fingerprint: 0,
        })
    }

    /// Of another cluster.
    #[must_use]
    pub fn cluster(mut self, cluster: &str) -> Self {
        self.0.cluster = cluster.into();
        self
    }

    /// Under another id.
    #[must_use]
    pub fn id(mut self, id: i64) -> Self {
        self.0.broker_id = id;
        self
    }

    /// With `enableActingMaster`.
    #[must_use]
    pub fn acting(mut self, enable_acting_master: bool) -> Self {
        self.0.enable_acting_master = Some(enable_acting_master);
        self
    }

    /// With `__ZONE_NAME`.
    #[must_use]
    pub fn zone(mut self, zone: &str) -> Self {
        self.0.zone = Some(zone.into());
        self
    }

    /// With `heartbeatTimeoutMillis`.
    #[must_use]
    pub fn timeout(mut self, ms: i64) -> Self {
        self.0.heartbeat_timeout_ms = Some(ms);
        self
    }

    /// Over another connection.
    #[must_use]
    pub fn over(mut self, connection: u64) -> Self {
        self.0.connection = ConnectionId(connection);
        self
    }

    /// With another data version, as far as its counter goes.
    #[must_use]
    pub fn version(mut self, counter: i64) -> Self {
        self.0.body.data_version.counter = Some(counter);
        self
    }

    /// With another `stateVersion`.
    #[must_use]
    pub fn state(mut self, state_version: i64) -> Self {
        self.0.body.data_version.state_version = state_version;
        self
    }

    /// With these topics, all alike.
    #[must_use]
    pub fn topics<const N: usize>(self, names: [&str; N], settings: QueueSettings) -> Self {
        self.table(table(names, settings))
    }

    /// With this topic table.
    #[must_use]
    pub fn table(mut self, table: TopicTable) -> Self {
        self.0.body.topics = Some(table);
        self
    }

    /// Without a topic table.
    #[must_use]
    pub fn no_table(mut self) -> Self {
        self.0.body.topics = None;
        self
    }

    /// With a static-topic mapping.
    #[must_use]
    pub fn mapping(mut self, topic: &str, mapping: TopicMapping) -> Self {
        self.0.body.mappings.push((topic.into(), mapping));
        self
    }

    /// With these filter servers.
    #[must_use]
    pub fn filters<const N: usize>(mut self, filters: [&str; N]) -> Self {
        self.0.body.filter_servers = Some(filters.map(|filter| Some(Name::from(filter))).to_vec());
        self
    }

    /// From another source.
    #[must_use]
    pub fn from(mut self, number: u8) -> Self {
        self.0.source = source(number);
        self
    }

    /// With the fingerprint that a server would have given it.
    #[must_use]
    pub fn fingerprint(mut self, fingerprint: u128) -> Self {
        self.0.fingerprint = fingerprint;
        self
    }

    /// Its key in the live table.
    pub fn key(&self) -> LiveKey {
        LiveKey { cluster: self.0.cluster.clone(), addr: self.0.broker_addr.clone() }
    }

    /// Its farewell, over its connection.
    pub fn farewell(&self) -> Unregistration {
        Unregistration {
            cluster: self.0.cluster.clone(),
            broker_name: self.0.broker_name.clone(),
            broker_id: self.0.broker_id,
            broker_addr: self.0.broker_addr.clone(),
            connection: self.0.connection,
        }
    }
}

/// A source; all fixtures register from the first unless they say otherwise.
pub fn source(number: u8) -> Source {
    std::net::IpAddr::from([192, 0, 2, number]).into()
}

/// Settings with 8 queues each way and a permission.
pub fn settings(perm: i32) -> QueueSettings {
    QueueSettings { read_queues: 8, write_queues: 8, perm, topic_sys_flag: 0 }
}

/// A topic table with the same settings everywhere.
pub fn table<const N: usize>(names: [&str; N], settings: QueueSettings) -> TopicTable {
    let mut table = TopicTable::default();
    names.iter().for_each(|name| table.push(name, name, settings));
    table
}

/// See the [module](self).
pub struct Fixture<R: Registry> {
    /// The writer.
    pub writer: Writer<R::Publisher>,
    /// A reader, on another view of the same registry.
    pub reader: R::Reader,
    now: Millis,
}

impl<R: Registry> Fixture<R> {
    /// An empty registry.
    #[expect(clippy::new_without_default, reason = "a test says what it makes")]
    pub fn new() -> Self {
        Self::with_limits(TableLimits::default())
    }

    /// An empty registry with limits.
    pub fn with_limits(limits: TableLimits) -> Self {
        let (registry, publisher) = R::new();
        let reader = Arc::clone(&registry).reader();
        Self { writer: Writer::new(publisher, limits), reader, now: Millis(1_000_000) }
    }

    /// Time passes.
    pub fn advance(&mut self, ms: u64) {
        self.now.0 += ms;
    }

    /// Executes commands that are published as one change.
    pub fn apply_together(&mut self, commands: impl IntoIterator<Item = Command>) {
        for command in commands {
            self.writer.apply(&command, self.now);
        }
        self.writer.publish();
    }

    /// The small tables of the present state.
    pub fn root(&mut self) -> Arc<Root> {
        self.reader.read(|view| Ok(view.share_root()))
    }

    /// Executes a command.
    pub fn apply(&mut self, command: Command) -> Applied {
        self.writer.execute(&command, self.now)
    }

    /// Registers a broker, whatever comes of it.
    pub fn try_register(&mut self, broker: &Broker) -> Applied {
        self.apply(Command::Register(Box::new(broker.0.clone())))
    }

    /// Registers a broker.
    ///
    /// # Panics
    /// When it is refused.
    pub fn register(&mut self, broker: &Broker) -> Registered {
        match self.try_register(broker).outcome {
            Outcome::Registered(registered) => registered,
            other => panic!("{broker:?} is not registered: {other:?}"),
        }
    }

    /// Registers a broker and says who is told of a new smallest id.
    pub fn register_and_tell(&mut self, broker: &Broker) -> Vec<MinIdChange> {
        let applied = self.try_register(broker);
        assert!(matches!(applied.outcome, Outcome::Registered(_)), "{broker:?} is not registered: {applied:?}");
        applied.min_id_changes
    }

    /// Unregisters a broker by its own farewell.
    pub fn unregister(&mut self, broker: &Broker) -> Applied {
        self.apply(Command::Unregister(broker.farewell()))
    }

    /// Loses a broker's connection.
    pub fn disconnect(&mut self, broker: &Broker) -> Applied {
        self.apply(Command::Disconnect(broker.0.connection))
    }

    /// Expires silent brokers.
    pub fn expire(&mut self) -> Applied {
        self.apply(Command::Expire)
    }

    /// Wipes the write permission of a broker and says how many topics it has.
    pub fn wipe(&mut self, name: &str) -> Outcome {
        self.apply(Command::WipeWritePerm { broker_name: name.into() }).outcome
    }

    /// Adds the write permission of a broker and says how many topics it has.
    pub fn add(&mut self, name: &str) -> Outcome {
        self.apply(Command::AddWritePerm { broker_name: name.into() }).outcome
    }

    /// Deletes a topic.
    pub fn delete_topic(&mut self, topic: &str, cluster: Option<&str>) {
        self.apply(Command::DeleteTopic { topic: topic.into(), cluster: cluster.map(Name::from) });
    }

    /// Adds a topic on brokers (217).
    pub fn register_topic<const N: usize>(&mut self, topic: &str, brokers: [&str; N], settings: QueueSettings) {
        let outcome = self.try_register_topic(topic, brokers, settings).outcome;
        assert_eq!(outcome, Outcome::Done, "{topic} on {brokers:?}");
    }

    /// Adds a topic on brokers (217), whatever comes of it.
    pub fn try_register_topic<const N: usize>(
        &mut self,
        topic: &str,
        brokers: [&str; N],
        settings: QueueSettings,
    ) -> Applied {
        let queues = brokers.map(|name| (name.into(), settings)).to_vec();
        self.apply(Command::RegisterTopic { topic: topic.into(), queues, source: source(1) })
    }

    /// Sweeps until nothing is left to sweep.
    pub fn sweep(&mut self) {
        while self.writer.tick() {}
    }

    /// A heartbeat (904).
    pub fn beat(&mut self, key: &LiveKey) -> Heartbeat {
        let now = self.now;
        self.reader.read(|view| Ok(query::heartbeat(View::root(view), key, now)))
    }

    /// A question for a data version (322).
    pub fn ask_version(&mut self, key: &LiveKey, version: Option<DataVersion>) -> BrokerVersion {
        let now = self.now;
        self.reader.read(|view| Ok(query::query_data_version(View::root(view), key, version, now)))
    }

    /// What a registration is answered without the writer, if nothing changed.
    pub fn recognised(&mut self, broker: &Broker) -> Option<Registered> {
        let (key, now) = (broker.key(), self.now);
        let (connection, fingerprint) = (broker.0.connection, broker.0.fingerprint);
        self.reader.read(|view| Ok(query::unchanged_registration(View::root(view), &key, connection, fingerprint, now)))
    }

    /// Puts a question.
    pub fn ask(&mut self, probe: &Probe) -> String {
        self.reader.read(|view| probe.ask(view))
    }

    /// The body of a route as it is sent; `none` without one.
    pub fn route_body(&mut self, topic: &str, style: KeyStyle, acting_master: bool, zone: Option<&str>) -> String {
        let zone = zone.map(Name::from);
        self.ask(&Probe::Route { topic: topic.into(), style, acting_master, zone, order_conf: None })
    }

    /// A route in short: `name{id=addr,..} .. / name:perm:read:write ..`; `none` without one.
    pub fn route(&mut self, topic: &str) -> String {
        in_short(&self.route_body(topic, KeyStyle::Quoted, false, None))
    }

    /// As [`Fixture::route`], with `supportActingMaster`.
    pub fn acting_route(&mut self, topic: &str) -> String {
        in_short(&self.route_body(topic, KeyStyle::Quoted, true, None))
    }

    /// As [`Fixture::route`], for a client in a zone.
    pub fn zone_route(&mut self, topic: &str, zone: &str) -> String {
        in_short(&self.route_body(topic, KeyStyle::Quoted, false, Some(zone)))
    }

    /// The body of 106.
    pub fn cluster_info(&mut self) -> String {
        self.ask(&Probe::ClusterInfo)
    }

    /// The body of 901 for a group.
    pub fn member_group(&mut self, cluster: &str, name: &str) -> String {
        self.ask(&Probe::MemberGroup(Some(cluster.into()), Some(name.into())))
    }

    /// The names in the answer to a list query.
    pub fn list(&mut self, probe: &Probe) -> Vec<String> {
        let body: serde_json::Value = serde_json::from_str(&self.ask(probe)).expect("a list is JSON");
        let names = body["topicList"].as_array().expect("a list has topicList");
        names.iter().map(|name| name.as_str().expect("a name").to_owned()).collect()
    }

    /// The names of all topics (206).
    pub fn topics(&mut self) -> Vec<String> {
        self.list(&Probe::AllTopics)
    }

    /// The names of the topics of a cluster (224).
    pub fn topics_of(&mut self, cluster: &str) -> Vec<String> {
        self.list(&Probe::TopicsOfCluster(cluster.into()))
    }

    /// The names of topics by unit flags (311, 312, 313).
    pub fn unit_topics(&mut self, which: UnitTopics) -> Vec<String> {
        self.list(&Probe::UnitTopics(which))
    }

    /// Everything that can be asked of the registry about some names, to compare two states.
    pub fn everything(&mut self) -> BTreeMap<String, String> {
        let mut probes = vec![Probe::ClusterInfo, Probe::AllTopics, Probe::SystemTopics];
        for topic in self.topics() {
            for (style, acting_master) in [(KeyStyle::Bare, false), (KeyStyle::Quoted, true)] {
                let topic = topic.as_str().into();
                probes.push(Probe::Route { topic, style, acting_master, zone: None, order_conf: None });
            }
        }
        probes.into_iter().map(|probe| (format!("{probe:?}"), self.ask(&probe))).collect()
    }
}

impl<R: Registry> fmt::Debug for Fixture<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fixture").field("strategy", &R::NAME).field("now", &self.now).finish_non_exhaustive()
    }
}

fn in_short(body: &str) -> String {
    if body == "none" {
        return body.into();
    }
    let route: serde_json::Value = serde_json::from_str(body).expect("a route in standard style is JSON");
    let list = |key: &str| route[key].as_array().expect("a list").iter();
    let brokers = list("brokerDatas").map(|group| {
        let addrs = group["brokerAddrs"].as_object().expect("an object").iter();
        let addrs: Vec<_> = addrs.map(|(id, addr)| format!("{id}={}", addr.as_str().expect("text"))).collect();
        format!("{}{{{}}}", group["brokerName"].as_str().expect("text"), addrs.join(","))
    });
    let queues = list("queueDatas").map(|queue| {
        let [perm, read, write] = ["perm", "readQueueNums", "writeQueueNums"].map(|key| queue[key].clone());
        format!("{}:{perm}:{read}:{write}", queue["brokerName"].as_str().expect("text"))
    });
    let (brokers, queues): (Vec<_>, Vec<_>) = (brokers.collect(), queues.collect());
    format!("{} / {}", brokers.join(" "), queues.join(" "))
}
