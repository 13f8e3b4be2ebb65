//! A registry under one strategy, with the brokers and topics that are measured.

use std::{hint::black_box, sync::Arc};

use anyhow::ensure;
use memchr::memmem;
use registry_core::{
    Command, ConnectionId, DataVersion, KeyStyle, Millis, Name, Outcome, QueueSettings, Reader, RegisterBody,
    Registration, Registry, TableLimits, TopicTable, Writer,
    query::{self, RouteQuery},
};

use crate::cluster::topic_names;

/// When everything happens: no broker ever expires.
pub const NOW: Millis = Millis(1_000);
/// The broker that changes; the others never do.
pub const CHANGING: u64 = 1;
/// What the changing broker says of itself and of each topic, by turns. One digit, for the check.
const TURNS: [u8; 2] = [8, 9];

/// A registry with so many topics, each of which all brokers have.
#[derive(Debug)]
pub struct World<R: Registry> {
    /// For readers.
    pub registry: Arc<R>,
    /// The one writer.
    pub writer: Writer<R::Publisher>,
    /// Names of the topics.
    pub topics: Arc<[String]>,
    brokers: u64,
    rewrites: [Registration; 2],
    version: i64,
}

impl<R: Registry> World<R> {
    /// A registry in which the brokers have registered, at least two of them.
    ///
    /// # Errors
    /// When the registry refuses a broker.
    pub fn new(topics: usize, brokers: u64) -> anyhow::Result<Self> {
        let mut world = Self::empty(topics, brokers);
        world.load()?;
        Ok(world)
    }

    /// Before the brokers have come.
    pub fn empty(topics: usize, brokers: u64) -> Self {
        let (registry, publisher) = R::new();
        let writer = Writer::new(publisher, TableLimits::default());
        let topics: Arc<[String]> = topic_names(topics).into();
        let rewrites = TURNS.map(|turn| registration(CHANGING, &topics, turn));
        Self { registry, writer, topics, brokers, rewrites, version: 0 }
    }

    /// Lets the brokers come.
    ///
    /// # Errors
    /// When the registry refuses one.
    pub fn load(&mut self) -> anyhow::Result<()> {
        for broker in (0..self.brokers).filter(|&broker| broker != CHANGING) {
            let command = Command::Register(Box::new(registration(broker, &self.topics, TURNS[0])));
            self.register(&command)?;
        }
        let command = self.next_rewrite();
        self.register(&command)?;
        self.writer.tick();
        Ok(())
    }

    fn register(&mut self, command: &Command) -> anyhow::Result<()> {
        let outcome = self.writer.execute(command, NOW).outcome;
        ensure!(matches!(outcome, Outcome::Registered(_)), "a broker is refused: {outcome:?}");
        Ok(())
    }

    /// The next registration of the changing broker: every topic has other settings than before, and so does the broker.
    pub fn next_rewrite(&mut self) -> Command {
        self.version += 1;
        let rewrite = &mut self.rewrites[self.version as usize % 2];
        rewrite.body.data_version.counter = Some(self.version);
        Command::Register(Box::new(rewrite.clone()))
    }

    /// The changing broker comes back under another address, with the topics of its last registration or without any.
    pub fn change_of_address(&mut self, turn: usize, with_topics: bool) -> Command {
        let mut registration = self.rewrites[self.version as usize % 2].clone();
        registration.broker_addr = format!("10.0.1.{}:10911", turn % 2).into();
        if !with_topics {
            registration.body.topics = None;
        }
        Command::Register(Box::new(registration))
    }
}

/// One more topic of the changing broker, and its deletion.
pub fn topic_and_back() -> [Command; 2] {
    let topic = Name::from("one-more-topic");
    let queues = vec![(broker_name(CHANGING), QueueSettings::default())];
    [Command::RegisterTopic { topic: topic.clone(), queues }, Command::DeleteTopic { topic, cluster: None }]
}

/// The write permission of all topics of the changing broker is taken away, and given back.
pub fn wipe_and_back() -> [Command; 2] {
    let broker_name = broker_name(CHANGING);
    [Command::WipeWritePerm { broker_name: broker_name.clone() }, Command::AddWritePerm { broker_name }]
}

/// A master registers these topics, and says this of each of them.
pub fn registration(broker: u64, topics: &[String], read_queues: u8) -> Registration {
    let mut table = TopicTable::with_capacity(topics.len(), topics.len() * 32);
    let settings = QueueSettings { read_queues: i32::from(read_queues), ..QueueSettings::default() };
    for topic in topics {
        table.push(topic, topic, settings);
    }
    let data_version = DataVersion { state_version: 0, timestamp: 1, counter: Some(0) };
    Registration {
        cluster: CLUSTER.into(),
        broker_name: broker_name(broker),
        broker_id: 0,
        broker_addr: broker_addr(broker),
        ha_addr: None,
        heartbeat_timeout_ms: None,
        enable_acting_master: None,
        zone: (broker == CHANGING).then(|| read_queues.to_string().into()),
        connection: ConnectionId(broker),
        body: RegisterBody { data_version, topics: Some(table), mappings: Vec::new(), filter_servers: None },
        fingerprint: 0,
    }
}

/// Name of the cluster of all brokers.
pub const CLUSTER: &str = "cluster";

/// Name of the broker with this number.
pub fn broker_name(broker: u64) -> Name {
    format!("broker-{broker}").into()
}

/// Its address.
pub fn broker_addr(broker: u64) -> Name {
    format!("10.0.{}.{}:10911", broker >> 8, broker & 255).into()
}

/// Asks for routes of random topics and says which answers are of two states.
#[derive(Debug)]
pub struct Asker<R> {
    reader: R,
    topics: Arc<[String]>,
    random: u64,
    out: Vec<u8>,
    of_broker: memmem::Finder<'static>,
    of_topic: memmem::Finder<'static>,
}

impl<R: Reader> Asker<R> {
    /// An asker that draws its topics from this seed.
    pub fn new(reader: R, topics: Arc<[String]>, seed: u64) -> Self {
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
    pub fn random(&mut self, end: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 16) % end
    }

    /// Stitches the route of a random topic.
    pub fn ask(&mut self) {
        let at = self.random(self.topics.len() as u64) as usize;
        let Self { reader, topics, out, .. } = self;
        ask_route(reader, &topics[at], out);
        black_box(out.len());
    }

    /// The last answer.
    pub fn answer(&self) -> &[u8] {
        &self.out
    }

    /// Says whether the last answer is one that no state gives: every state has both brokers in every route, and the
    /// changing one says the same of itself, in the small tables, as of the topic.
    pub fn is_torn(&self) -> bool {
        let after = |finder: &memmem::Finder<'_>| {
            finder.find(&self.out).and_then(|at| self.out.get(at + finder.needle().len()))
        };
        match (after(&self.of_broker), after(&self.of_topic)) {
            (Some(of_broker), Some(of_topic)) => of_broker != of_topic,
            _ => true,
        }
    }

    /// Lets go of the state, as a worker of the server does that has nothing to read.
    pub fn refresh(&mut self) {
        self.reader.refresh();
    }
}

/// Writes the route of a topic over `out`, as for a present client; says whether there is one.
pub fn ask_route(reader: &mut impl Reader, topic: &str, out: &mut Vec<u8>) -> bool {
    let query = RouteQuery { topic, style: KeyStyle::Quoted, acting_master: false, zone: None, order_conf: None };
    reader.read(|view| {
        out.clear();
        query::route(view, &query, out)
    })
}
