//! A registry under one strategy, with the brokers and topics that are measured.

use std::{hint::black_box, sync::Arc};

use anyhow::ensure;
use benches::cluster::topic_names;
use memchr::memmem;
use registry_core::{
    Command, ConnectionId, DataVersion, KeyStyle, Millis, Name, Outcome, QueueSettings, Reader, RegisterBody,
    Registration, Registry, TableLimits, TopicTable, Writer,
    query::{self, RouteQuery},
};

pub(crate) const NOW: Millis = Millis(1_000);
/// The broker that changes; broker 0 never does.
pub(crate) const CHANGING: u64 = 1;
/// What the changing broker says of itself and of each topic, by turns. One digit, for the check.
const TURNS: [u8; 2] = [8, 9];

/// A registry with so many topics on two brokers.
pub(crate) struct World<R: Registry> {
    pub(crate) registry: Arc<R>,
    pub(crate) writer: Writer<R::Publisher>,
    pub(crate) topics: Arc<[String]>,
    rewrites: [Registration; 2],
    version: i64,
}

impl<R: Registry> World<R> {
    pub(crate) fn new(topics: usize) -> anyhow::Result<Self> {
        let mut world = Self::empty(topics);
        world.load()?;
        Ok(world)
    }

    /// Before the brokers have come.
    pub(crate) fn empty(topics: usize) -> Self {
        let (registry, publisher) = R::new();
        let topics: Arc<[String]> = topic_names(topics).into();
        let rewrites = TURNS.map(|turn| registration(CHANGING, &topics, turn));
        Self { registry, writer: Writer::new(publisher, TableLimits::default()), topics, rewrites, version: 0 }
    }

    pub(crate) fn load(&mut self) -> anyhow::Result<()> {
        let first = Command::Register(Box::new(registration(0, &self.topics, TURNS[0])));
        let outcome = self.writer.execute(&first, NOW).outcome;
        ensure!(matches!(outcome, Outcome::Registered(_)), "the first broker: {outcome:?}");
        let command = self.next_rewrite();
        let outcome = self.writer.execute(&command, NOW).outcome;
        ensure!(matches!(outcome, Outcome::Registered(_)), "the second broker: {outcome:?}");
        self.writer.tick();
        Ok(())
    }

    /// The next registration of the changing broker: every topic has other settings than before, and so does the broker.
    pub(crate) fn next_rewrite(&mut self) -> Command {
        self.version += 1;
        let rewrite = &mut self.rewrites[self.version as usize % 2];
        rewrite.body.data_version.counter = Some(self.version);
        Command::Register(Box::new(rewrite.clone()))
    }

    /// The changing broker comes back under another address, with the topics of its last registration or without any.
    pub(crate) fn change_of_address(&mut self, turn: usize, with_topics: bool) -> Command {
        let mut registration = self.rewrites[self.version as usize % 2].clone();
        registration.broker_addr = format!("10.0.1.{}:10911", turn % 2).into();
        if !with_topics {
            registration.body.topics = None;
        }
        Command::Register(Box::new(registration))
    }
}

fn registration(broker: u64, topics: &[String], turn: u8) -> Registration {
    let mut table = TopicTable::with_capacity(topics.len(), topics.len() * 32);
    let settings = QueueSettings { read_queues: i32::from(turn), ..QueueSettings::default() };
    for topic in topics {
        table.push(topic, topic, settings);
    }
    let data_version = DataVersion { state_version: 0, timestamp: 1, counter: Some(0) };
    Registration {
        cluster: "cluster".into(),
        broker_name: broker_name(broker),
        broker_id: 0,
        broker_addr: format!("10.0.0.{broker}:10911").into(),
        ha_addr: None,
        heartbeat_timeout_ms: None,
        enable_acting_master: None,
        zone: (broker == CHANGING).then(|| turn.to_string().into()),
        connection: ConnectionId(broker),
        body: RegisterBody { data_version, topics: Some(table), mappings: Vec::new(), filter_servers: None },
        fingerprint: 0,
    }
}

pub(crate) fn broker_name(broker: u64) -> Name {
    format!("broker-{broker}").into()
}

/// Asks for routes of random topics and says which answers are of two states.
pub(crate) struct Asker<R> {
    reader: R,
    topics: Arc<[String]>,
    random: u64,
    out: Vec<u8>,
    of_broker: memmem::Finder<'static>,
    of_topic: memmem::Finder<'static>,
}

impl<R: Reader> Asker<R> {
    pub(crate) fn new(reader: R, topics: Arc<[String]>, seed: u64) -> Self {
        Self {
            reader,
            topics,
            random: seed * 2 + 1,
            out: Vec::with_capacity(4096),
            of_broker: memmem::Finder::new("\"zoneName\":\""),
            of_topic: memmem::Finder::new("\"brokerName\":\"broker-1\",\"perm\":6,\"readQueueNums\":"),
        }
    }

    /// A number below `end`, as xorshift draws it.
    pub(crate) fn random(&mut self, end: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 16) % end
    }

    /// Stitches the route of a random topic.
    pub(crate) fn ask(&mut self) {
        let at = self.random(self.topics.len() as u64) as usize;
        let Self { reader, topics, out, .. } = self;
        let topic = topics[at].as_str();
        let query = RouteQuery { topic, style: KeyStyle::Quoted, acting_master: false, zone: None, order_conf: None };
        reader.read(|view| {
            out.clear();
            query::route(view, &query, out)
        });
        black_box(out.len());
    }

    /// Says whether the last answer is one that no state gives: every state has both brokers in every route, and the
    /// changing one says the same of itself, in the small tables, as of the topic.
    pub(crate) fn is_torn(&self) -> bool {
        let after = |finder: &memmem::Finder<'_>| {
            finder.find(&self.out).and_then(|at| self.out.get(at + finder.needle().len()))
        };
        match (after(&self.of_broker), after(&self.of_topic)) {
            (Some(of_broker), Some(of_topic)) => of_broker != of_topic,
            _ => true,
        }
    }

    pub(crate) fn refresh(&mut self) {
        self.reader.refresh();
    }
}
