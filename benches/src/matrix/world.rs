//! A registry under one strategy, with the brokers and topics that are measured.

use std::{hint::black_box, sync::Arc};

use anyhow::ensure;
use memchr::memmem;
use registry_core::{
    Command, ConnectionId, DataVersion, KeyStyle, Millis, Name, Outcome, QueueSettings, Reader, RegisterBody,
    Registration, Registry, Source, TableLimits, TopicTable, Writer,
    query::{self, RouteQuery},
};

use crate::cluster::topic_names;

/// When everything happens: no broker ever expires.
pub const NOW: Millis = Millis(1_000);
/// The broker that changes; the others never do.
pub const CHANGING: u64 = 1;
/// What the changing broker says of itself and of each of its topics, by turns. One digit, for the check.
const TURNS: [u8; 2] = [8, 9];
/// Most topics of the changing broker, unless it is asked for more.
pub const CHANGING_TOPICS: usize = 10_000;

/// A registry with so many topics, each of which all brokers have; the changing one has the first of them.
#[derive(Debug)]
pub struct World<R: Registry> {
    /// For readers.
    pub registry: Arc<R>,
    /// The one writer.
    pub writer: Writer<R::Publisher>,
    /// Names of the topics.
    pub topics: Arc<[String]>,
    /// Topics of the changing broker.
    pub changing: usize,
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
        let mut world = Self::empty(topics, topics.min(CHANGING_TOPICS), brokers);
        world.load()?;
        Ok(world)
    }

    /// Before the brokers have come, of which the changing one has `changing` topics.
    ///
    /// # Panics
    /// When these are more than there are.
    pub fn empty(topics: usize, changing: usize, brokers: u64) -> Self {
        let (registry, publisher) = R::new();
        let writer = Writer::new(publisher, TableLimits::default());
        let topics: Arc<[String]> = topic_names(topics).into();
        let rewrites = TURNS.map(|turn| registration(CHANGING, &topics[..changing], turn));
        Self { registry, writer, topics, changing, brokers, rewrites, version: 0 }
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

    /// For threads that ask: each makes its own [`Asker`].
    pub fn questions(&self) -> Questions<R> {
        let Self { registry, topics, changing, .. } = self;
        Questions { registry: Arc::clone(registry), topics: Arc::clone(topics), changing: *changing }
    }

    /// The changing broker registers: each of its topics has other settings than before, and so has the broker.
    pub fn next_rewrite(&mut self) -> Command {
        self.version += 1;
        let rewrite = &mut self.rewrites[self.version as usize % 2];
        rewrite.body.data_version.counter = Some(self.version);
        Command::Register(Box::new(rewrite.clone()))
    }

    /// The changing broker comes back under another address, with the topics of its last registration or without any.
    pub fn change_of_address(&self, turn: usize, with_topics: bool) -> Command {
        let last = &self.rewrites[self.version as usize % 2];
        let mut registration = last.clone();
        if !with_topics {
            registration.body.topics = None;
        }
        registration.broker_addr = format!("10.0.255.{}:10911", turn % 2).into();
        Command::Register(Box::new(registration))
    }
}

/// One more topic of the changing broker, and its deletion.
pub fn topic_and_back() -> [Command; 2] {
    let topic = Name::from(ONE_MORE_TOPIC);
    let queues = vec![(broker_name(CHANGING), QueueSettings::default())];
    [
        Command::RegisterTopic { topic: topic.clone(), queues, source: source() },
        Command::DeleteTopic { topic, cluster: None },
    ]
}

/// The topic that comes and goes.
pub const ONE_MORE_TOPIC: &str = "one-more-topic";

/// The write permission of all topics of the changing broker is taken away, and given back.
pub fn wipe_and_back() -> [Command; 2] {
    let broker_name = broker_name(CHANGING);
    [Command::WipeWritePerm { broker_name: broker_name.clone() }, Command::AddWritePerm { broker_name }]
}

/// Where all brokers come from.
fn source() -> Source {
    std::net::IpAddr::from(std::net::Ipv4Addr::LOCALHOST).into()
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
        source: source(),
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

/// What there is to be asked.
#[derive(Debug)]
pub struct Questions<R> {
    registry: Arc<R>,
    topics: Arc<[String]>,
    changing: usize,
}

impl<R: Registry> Questions<R> {
    /// An asker that draws its topics from this seed, for the thread that calls this.
    pub fn asker(&self, seed: u64) -> Asker<R::Reader> {
        Asker {
            reader: self.registry.reader(),
            topics: Arc::clone(&self.topics),
            changing: self.changing,
            at: 0,
            random: seed * 2 + 1,
            out: Vec::with_capacity(4096),
            check: Check::new(),
        }
    }
}

/// Asks for routes of random topics and says which answers are of two states.
#[derive(Debug)]
pub struct Asker<R> {
    reader: R,
    topics: Arc<[String]>,
    changing: usize,
    /// The topic that was asked for.
    at: usize,
    random: u64,
    out: Vec<u8>,
    check: Check,
}

impl<R: Reader> Asker<R> {
    /// A number below `end`, as xorshift draws it.
    pub fn random(&mut self, end: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 16) % end
    }

    /// Stitches the route of a random topic.
    pub fn ask(&mut self) {
        self.at = self.random(self.topics.len() as u64) as usize;
        let Self { reader, topics, at, out, .. } = self;
        ask_route(reader, &topics[*at], out);
        black_box(out.len());
    }

    /// Says whether the last answer is one that no state gives.
    pub fn is_torn(&self) -> bool {
        self.check.is_torn(&self.out, self.at < self.changing)
    }

    /// Says whether a topic has a route.
    pub fn has(&mut self, topic: &str) -> bool {
        ask_route(&mut self.reader, topic, &mut self.out)
    }

    /// Lets go of the state, as a worker of the server does that has nothing to read.
    pub fn refresh(&mut self) {
        self.reader.refresh();
    }
}

/// Knows the answers that some state gives: the changing broker is in the routes of its topics and in no other, and says
/// the same of itself, in the small tables, as of the topic.
#[derive(Debug)]
struct Check {
    of_broker: memmem::Finder<'static>,
    of_topic: memmem::Finder<'static>,
}

impl Check {
    fn new() -> Self {
        Self {
            of_broker: memmem::Finder::new("\"zoneName\":\""),
            of_topic: memmem::Finder::new("\"brokerName\":\"broker-1\",\"perm\":"),
        }
    }

    fn is_torn(&self, answer: &[u8], has_broker: bool) -> bool {
        let after = |finder: &memmem::Finder<'_>, skipped: usize| {
            finder.find(answer).and_then(|at| answer.get(at + finder.needle().len() + skipped))
        };
        // A permission has one digit.
        let of_topic = after(&self.of_topic, "6,\"readQueueNums\":".len());
        match (after(&self.of_broker, 0), of_topic) {
            (Some(of_broker), Some(of_topic)) => !has_broker || of_broker != of_topic,
            (None, None) => has_broker,
            _ => true,
        }
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

#[cfg(test)]
mod tests {
    use backends::RwLockRegistry;

    use super::*;

    /// The answers before and after each of these changes, for a topic of the changing broker.
    fn answers() -> Vec<Vec<u8>> {
        let mut world = World::<RwLockRegistry>::new(4, 3).unwrap();
        let mut reader = world.registry.reader();
        let changes = [world.next_rewrite(), wipe_and_back()[0].clone(), world.change_of_address(0, false)];
        let mut answer = || {
            let mut out = Vec::new();
            assert!(ask_route(&mut reader, "orders-of-shop-000003", &mut out));
            out
        };
        let mut answers = vec![answer()];
        for change in changes {
            world.writer.execute(&change, NOW);
            answers.push(answer());
        }
        answers
    }

    #[test]
    fn answers_of_one_state_are_whole_and_others_are_torn() {
        let answers = answers();
        for answer in &answers {
            assert!(!Check::new().is_torn(answer, true), "{}", String::from_utf8_lossy(answer));
            assert!(Check::new().is_torn(answer, false));
        }
        // The first part of one answer and the second of the next one: brokers and topics of two states.
        let cut = |answer: &[u8]| memmem::find(answer, b"\"queueDatas\"").unwrap();
        let [before, after, ..] = &answers[..] else { panic!("two answers") };
        let torn = [&before[..cut(before)], &after[cut(after)..]].concat();
        assert!(Check::new().is_torn(&torn, true));
    }

    #[test]
    fn the_changing_broker_has_the_first_topics() {
        let mut world = World::<RwLockRegistry>::empty(6, 2, 2);
        world.load().unwrap();
        let mut asker = world.questions().asker(1);
        for _ in 0..50 {
            asker.ask();
            assert!(!asker.is_torn());
        }
    }
}
