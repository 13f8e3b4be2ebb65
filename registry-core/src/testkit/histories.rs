//! Concurrent histories of a registry: a small set of commands and queries, and the [`Model`] as their specification.
//!
//! Two brokers with two topics, and a topic that both always have. A broker registers in versions: version v is the
//! number of its read queues, so an answer tells the registration that it was made from. Times are part of the calls:
//! what a heartbeat saves and an expiry removes does not depend on when a thread gets its turn.

use std::{
    fmt,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use proptest::{prelude::*, strategy::ValueTree, test_runner::TestRunner};

use super::{
    Model, Probe,
    fixture::{Broker, CLUSTER},
    linearize::{self, Call, Recorder, Spec, Violation, history},
};
use crate::{
    Applied, Command, KeyStyle, Millis, Outcome, Publisher, QueueSettings, Reader, Registry, TableLimits, TopicTable,
    View, Writer,
    query::{self, Heartbeat},
};

/// Heartbeat timeout of the brokers, in milliseconds: the shortest that there is.
const TIMEOUT_MS: i64 = 1_000;

/// A call. Brokers and topics are 0 or 1; `at` is the time in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// 103 with the first `topics` of the two topics.
    Register {
        /// Which broker.
        broker: u8,
        /// Version of its table.
        version: u8,
        /// How many of the two topics.
        topics: u8,
        /// When.
        at: u64,
    },
    /// 104.
    Unregister(u8),
    /// The connection of a broker is lost.
    Disconnect(u8),
    /// 205.
    Wipe(u8),
    /// 327.
    Add(u8),
    /// 216.
    Delete(u8),
    /// 216 for both topics, published as one change. No request does that, so no random history has it.
    DeleteBoth,
    /// Silent brokers expire.
    Expire {
        /// When.
        at: u64,
    },
    /// 904.
    Beat {
        /// Which broker.
        broker: u8,
        /// When.
        at: u64,
    },
    /// 105.
    Route(u8),
    /// 106.
    ClusterInfo,
    /// 206.
    AllTopics,
    /// 224.
    TopicsOfCluster,
    /// 901.
    Members(u8),
}

/// The answer of a call: the body, or what the header would say.
pub type Answer = String;

/// What is done in one call, by the protocol's kinds of requests.
enum Kind {
    Write(Command, Millis),
    Together([Command; 2]),
    Beat(Box<Broker>, Millis),
    Ask(Probe),
}

impl Op {
    /// The command that the call gives to the writer, if it is one of those.
    pub fn command(self) -> Option<Command> {
        match self.kind() {
            Kind::Write(command, _) => Some(command),
            _ => None,
        }
    }

    /// The question that the call puts, if it is one of those.
    pub fn probe(self) -> Option<Probe> {
        match self.kind() {
            Kind::Ask(probe) => Some(probe),
            _ => None,
        }
    }

    fn kind(self) -> Kind {
        let start = Millis(1);
        match self {
            Self::Register { broker, version, topics, at } => {
                Kind::Write(Command::Register(Box::new(registration(broker, version, topics).0)), Millis(at))
            }
            Self::Unregister(broker) => Kind::Write(Command::Unregister(self::broker(broker).farewell()), start),
            Self::Disconnect(broker) => Kind::Write(Command::Disconnect(self::broker(broker).0.connection), start),
            Self::Wipe(broker) => {
                Kind::Write(Command::WipeWritePerm { broker_name: self::broker(broker).0.broker_name }, start)
            }
            Self::Add(broker) => {
                Kind::Write(Command::AddWritePerm { broker_name: self::broker(broker).0.broker_name }, start)
            }
            Self::Delete(topic) => Kind::Write(deletion(topic), start),
            Self::DeleteBoth => Kind::Together([deletion(0), deletion(1)]),
            Self::Expire { at } => Kind::Write(Command::Expire, Millis(at)),
            Self::Beat { broker, at } => Kind::Beat(Box::new(self::broker(broker)), Millis(at)),
            Self::Route(topic) => Kind::Ask(Probe::Route {
                topic: topic_name(topic).into(),
                style: KeyStyle::Quoted,
                acting_master: false,
                zone: None,
                order_conf: None,
            }),
            Self::ClusterInfo => Kind::Ask(Probe::ClusterInfo),
            Self::AllTopics => Kind::Ask(Probe::AllTopics),
            Self::TopicsOfCluster => Kind::Ask(Probe::TopicsOfCluster(CLUSTER.into())),
            Self::Members(broker) => {
                Kind::Ask(Probe::MemberGroup(Some(CLUSTER.into()), Some(self::broker(broker).0.broker_name)))
            }
        }
    }

    /// Makes the call, as a server makes it: queries, heartbeats and unchanged registrations by the reader, and by the
    /// writer what that cannot answer.
    pub fn run<P: Publisher>(self, reader: &mut impl Reader, writer: &impl WriterLock<P>) -> Answer {
        match self.kind() {
            Kind::Ask(probe) => reader.read(|view| {
                if self == Self::Route(1) {
                    writer.pause();
                }
                probe.ask(view)
            }),
            Kind::Beat(broker, at) => {
                let key = broker.key();
                let is_known = match reader.read(|view| Ok(query::heartbeat(view.root(), &key, at))) {
                    Heartbeat::Beaten => true,
                    Heartbeat::Unknown => false,
                    // What became of the broker, at the moment at which the writer has looked.
                    Heartbeat::Late => writer.with(|writer| {
                        let (cluster, broker_addr) = (key.cluster.clone(), key.addr.clone());
                        writer.execute(&Command::Heartbeat { cluster, broker_addr }, at);
                        writer.tables().live_record(&key).is_some()
                    }),
                };
                beat_answer(is_known)
            }
            Kind::Together(commands) => writer.with(|writer| {
                let [one, two] = commands.map(|command| writer.apply(&command, Millis(1)));
                writer.publish();
                answer(&one) + &answer(&two)
            }),
            Kind::Write(command, at) => {
                if let Command::Register(registration) = &command {
                    let (key, fingerprint) = (Broker((**registration).clone()).key(), registration.fingerprint);
                    let unchanged = reader.read(|view| {
                        let root = view.root();
                        Ok(query::unchanged_registration(root, &key, registration.connection, fingerprint, at))
                    });
                    if let Some(registered) = unchanged {
                        return answer(&Applied::new(Outcome::Registered(registered)));
                    }
                }
                writer.with(|writer| {
                    let applied = writer.execute(&command, at);
                    if applied.brokers_removed > 0 {
                        writer.tick();
                    }
                    answer(&applied)
                })
            }
        }
    }
}

impl Spec for Model {
    type Op = Op;
    type Ret = Answer;

    fn apply(&mut self, op: &Op) -> Answer {
        match op.kind() {
            Kind::Ask(probe) => self.ask(&probe),
            Kind::Beat(broker, at) => beat_answer(self.beat(&broker.key(), at)),
            Kind::Write(command, at) => answer(&Self::apply(self, &command, at)),
            Kind::Together([one, two]) => {
                answer(&Self::apply(self, &one, Millis(1))) + &answer(&Self::apply(self, &two, Millis(1)))
            }
        }
    }
}

fn deletion(topic: u8) -> Command {
    Command::DeleteTopic { topic: topic_name(topic).into(), cluster: None }
}

fn beat_answer(is_known: bool) -> Answer {
    if is_known { "beaten" } else { "unknown" }.into()
}

fn answer(applied: &Applied) -> Answer {
    format!("{:?}, {} removed", applied.outcome, applied.brokers_removed)
}

fn broker(broker: u8) -> Broker {
    Broker::new(["b0", "b1"][usize::from(broker)], 0, ["a0", "a1"][usize::from(broker)]).timeout(TIMEOUT_MS)
}

fn topic_name(topic: u8) -> &'static str {
    ["t0", "t1"][usize::from(topic)]
}

/// Each topic has settings of its own, so that they all are in the group and each topic in another place.
fn registration(of: u8, version: u8, topics: u8) -> Broker {
    let settings = |write_queues| QueueSettings { read_queues: version.into(), write_queues, ..Default::default() };
    let mut table = TopicTable::default();
    table.push("base", "base", settings(1));
    table.push("base-2", "base-2", settings(1));
    for topic in 0..topics {
        table.push(topic_name(topic), topic_name(topic), settings(2 + i32::from(topic)));
    }
    let fingerprint = 1 + u128::from(version) * 4 + u128::from(topics);
    broker(of).version(version.into()).table(table).fingerprint(fingerprint)
}

/// The lock of the writer: of real threads, or of a model of them.
pub trait WriterLock<P> {
    /// Runs `f` with the writer, alone.
    fn with<T>(&self, f: impl FnOnce(&mut Writer<P>) -> T) -> T;

    /// Called inside of some queries: lets other threads go on, where nobody else sees to it that they do.
    fn pause(&self) {}
}

impl<P> WriterLock<P> for Mutex<Writer<P>> {
    fn with<T>(&self, f: impl FnOnce(&mut Writer<P>) -> T) -> T {
        f(&mut self.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn pause(&self) {
        thread::yield_now();
    }
}

/// Calls to be made before the threads begin, and the calls of each thread.
#[derive(Clone, PartialEq, Eq)]
pub struct Scenario {
    /// Made one after the other, by the thread that then makes those of the first.
    pub before: Vec<Op>,
    /// The calls of each thread.
    pub threads: Vec<Vec<Op>>,
}

impl fmt::Debug for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "before: {:?}", self.before)?;
        (0..).zip(&self.threads).try_for_each(|(at, ops)| writeln!(f, "thread {at}: {ops:?}"))
    }
}

/// Times around the timeout: a broker that was heard of at 400 has expired at 1,600, but not at 1,200.
fn times() -> impl Strategy<Value = u64> {
    (1..6_u64).prop_map(|step| step * 400)
}

/// A change.
pub fn writes() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => (0..2_u8, 1..5_u8, 0..3_u8, times())
            .prop_map(|(broker, version, topics, at)| Op::Register { broker, version, topics, at }),
        2 => (0..2_u8).prop_map(Op::Unregister),
        1 => (0..2_u8).prop_map(Op::Disconnect),
        2 => (0..2_u8).prop_map(Op::Wipe),
        1 => (0..2_u8).prop_map(Op::Add),
        1 => (0..2_u8).prop_map(Op::Delete),
        2 => times().prop_map(|at| Op::Expire { at }),
    ]
}

/// A query, or a heartbeat.
pub fn reads() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => (0..2_u8).prop_map(Op::Route),
        2 => Just(Op::ClusterInfo),
        2 => Just(Op::AllTopics),
        1 => Just(Op::TopicsOfCluster),
        1 => (0..2_u8).prop_map(Op::Members),
        2 => (0..2_u8, times()).prop_map(|(broker, at)| Op::Beat { broker, at }),
    ]
}

/// Scenarios of three threads with 20 calls each: one that mostly writes, and two that mostly read.
pub fn long_scenarios() -> impl Strategy<Value = Scenario> {
    let thread = |reads_of_ten| {
        let op = prop_oneof![reads_of_ten => reads(), 10 - reads_of_ten => writes()];
        proptest::collection::vec(op, 20)
    };
    (thread(2), thread(9), thread(9)).prop_map(|(a, b, c)| Scenario { before: vec![], threads: vec![a, b, c] })
}

/// Makes `count` values, the same ones in every run.
pub fn values<S: Strategy>(strategy: &S, count: usize) -> Vec<S::Value> {
    let mut runner = TestRunner::deterministic();
    let value = |runner: &mut _| strategy.new_tree(runner).expect("nothing is filtered").current();
    (0..count).map(|_| value(&mut runner)).collect()
}

/// Lets real threads run a scenario on a new registry of the strategy `R` and says what cannot be explained.
///
/// # Panics
/// When a thread does, or the search for an explanation is given up.
pub fn violation_of<R: Registry>(scenario: &Scenario) -> Option<Violation> {
    let calls = record::<R>(scenario);
    linearize::check(&Model::default(), &calls).violation()
}

fn record<R: Registry>(scenario: &Scenario) -> Vec<Call<Op, Answer>> {
    let (registry, publisher) = R::new();
    let writer = Mutex::new(Writer::new(publisher, TableLimits::default()));
    let recorder = Recorder::new();
    let mut before = recorder.log(0);
    let mut reader = registry.reader();
    for &op in &scenario.before {
        before.call(op, |op| op.run(&mut reader, &writer));
    }
    let at_the_start = AtomicUsize::new(0);
    let run = |at: usize| {
        let mut log = recorder.log(at);
        let mut reader = Arc::clone(&registry).reader();
        at_the_start.fetch_add(1, Ordering::SeqCst);
        while at_the_start.load(Ordering::SeqCst) < scenario.threads.len() {
            thread::yield_now();
        }
        for &op in &scenario.threads[at] {
            log.call(op, |op| op.run(&mut reader, &writer));
        }
        log
    };
    let mut logs = vec![before];
    thread::scope(|scope| {
        let run = &run;
        let threads: Vec<_> = (0..scenario.threads.len()).map(|at| scope.spawn(move || run(at))).collect();
        logs.extend(threads.into_iter().map(|thread| thread.join().expect("a thread panicked")));
    });
    history(logs)
}
