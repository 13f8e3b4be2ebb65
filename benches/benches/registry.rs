//! Single operations of the registry, one strategy beside the other.
//!
//! One thread, nobody else: what an operation costs, not what readers and the writer do to each other. Without sockets,
//! frames and parsing; answers are written as the server writes them.

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use backends::{CachedRegistry, RwLockRegistry};
use benches::cluster::topic_names;
use criterion::{BenchmarkGroup, Criterion, criterion_group, criterion_main, measurement::WallTime};
use registry_core::{
    Command, ConnectionId, DataVersion, KeyStyle, LiveKey, Millis, Name, Outcome, QueueSettings, Reader, RegisterBody,
    Registration, Registry, TableLimits, TopicTable, View, Writer,
    query::{self, Heartbeat, RouteQuery},
};

const TOPICS: usize = 10_000;
const BROKERS: u64 = 2;
const NOW: Millis = Millis(1_000);

/// A registry with 10,000 topics on 2 brokers.
struct World<R: Registry> {
    topics: Vec<String>,
    writer: Writer<R::Publisher>,
    reader: R::Reader,
}

impl<R: Registry> World<R> {
    fn new() -> Self {
        let (registry, publisher) = R::new();
        let reader = registry.reader();
        let writer = Writer::new(publisher, TableLimits::default());
        let mut world = Self { topics: topic_names(TOPICS), writer, reader };
        for broker in 0..BROKERS {
            let command = world.registration(broker, 1, QueueSettings::default());
            assert!(matches!(world.execute(&command), Outcome::Registered(_)));
        }
        world
    }

    fn registration(&self, broker: u64, version: i64, settings: QueueSettings) -> Command {
        let mut topics = TopicTable::with_capacity(TOPICS, TOPICS * 32);
        for topic in &self.topics {
            topics.push(topic, topic, settings);
        }
        let data_version = DataVersion { state_version: 0, timestamp: 1, counter: Some(version) };
        Command::Register(Box::new(Registration {
            cluster: "cluster".into(),
            broker_name: broker_name(broker),
            broker_id: 0,
            broker_addr: broker_addr(broker),
            ha_addr: None,
            heartbeat_timeout_ms: None,
            enable_acting_master: None,
            zone: None,
            connection: ConnectionId(broker),
            body: RegisterBody { data_version, topics: Some(topics), mappings: Vec::new(), filter_servers: None },
            fingerprint: 0,
        }))
    }

    fn execute(&mut self, command: &Command) -> Outcome {
        let outcome = self.writer.execute(command, NOW).outcome;
        // As a worker of the server does, so that no old state is kept alive.
        self.reader.refresh();
        outcome
    }
}

fn broker_name(broker: u64) -> Name {
    format!("broker-{broker}").into()
}

fn broker_addr(broker: u64) -> Name {
    format!("10.0.0.{broker}:10911").into()
}

/// One group for each operation, in which the strategies stand side by side.
macro_rules! compare {
    ($criterion:expr, $operation:ident, $name:literal) => {{
        let mut group = $criterion.benchmark_group($name);
        $operation::<RwLockRegistry>(&mut group);
        $operation::<CachedRegistry>(&mut group);
        group.finish();
    }};
}

fn operations(criterion: &mut Criterion) {
    compare!(criterion, route, "route query");
    compare!(criterion, heartbeat, "heartbeat");
    compare!(criterion, one_topic, "one topic added and deleted");
    compare!(criterion, unchanged, "registration of 10k topics, unchanged version");
    compare!(criterion, changed, "registration of 10k topics, all changed");
    compare!(criterion, wipe, "wipe of 10k topics and its reverse");
    compare!(criterion, topic_list, "list of 10k topics");
}

type Group<'c> = BenchmarkGroup<'c, WallTime>;

/// The route of one topic after the other.
fn route<R: Registry>(group: &mut Group<'_>) {
    let mut world = World::<R>::new();
    let mut out = Vec::new();
    let mut at = 0;
    group.bench_function(R::NAME, |bencher| {
        bencher.iter(|| {
            // A prime step: neighbours in the list are not neighbours in memory.
            at = (at + 7_919) % TOPICS;
            let topic = world.topics[at].as_str();
            let query =
                RouteQuery { topic, style: KeyStyle::Quoted, acting_master: false, zone: None, order_conf: None };
            let is_found = world.reader.read(|view| {
                out.clear();
                query::route(view, &query, &mut out)
            });
            assert!(is_found);
            black_box(out.len())
        });
    });
}

fn heartbeat<R: Registry>(group: &mut Group<'_>) {
    let mut world = World::<R>::new();
    let key = LiveKey { cluster: "cluster".into(), addr: broker_addr(1) };
    group.bench_function(R::NAME, |bencher| {
        bencher.iter(|| {
            let heartbeat = world.reader.read(|view| Ok(query::heartbeat(view.root(), &key, NOW)));
            assert!(matches!(heartbeat, Heartbeat::Beaten));
        });
    });
}

fn topic_list<R: Registry>(group: &mut Group<'_>) {
    let mut world = World::<R>::new();
    let mut out = Vec::new();
    group.sample_size(20).bench_function(R::NAME, |bencher| {
        bencher.iter(|| {
            world.reader.read(|view| {
                out.clear();
                query::all_topics(view, &mut out)
            });
            black_box(out.len())
        });
    });
}

/// One topic is added on one broker and deleted again: two changes.
fn one_topic<R: Registry>(group: &mut Group<'_>) {
    let mut world = World::<R>::new();
    let topic = Name::from("one-more-topic");
    let queues = vec![(broker_name(1), QueueSettings::default())];
    let add = Command::RegisterTopic { topic: topic.clone(), queues };
    let delete = Command::DeleteTopic { topic, cluster: None };
    group.bench_function(R::NAME, |bencher| {
        bencher.iter(|| {
            world.execute(&add);
            world.execute(&delete)
        });
    });
}

/// The write permission of 10,000 topics is taken away and given back: two changes.
fn wipe<R: Registry>(group: &mut Group<'_>) {
    let mut world = World::<R>::new();
    let wipe = Command::WipeWritePerm { broker_name: broker_name(1) };
    let add = Command::AddWritePerm { broker_name: broker_name(1) };
    group.bench_function(R::NAME, |bencher| {
        bencher.iter(|| {
            assert_eq!(world.execute(&wipe), Outcome::TopicsChanged(TOPICS as u32));
            world.execute(&add)
        });
    });
}

/// A broker registers again and says that nothing has changed.
fn unchanged<R: Registry>(group: &mut Group<'_>) {
    let mut world = World::<R>::new();
    let registration = world.registration(1, 1, QueueSettings::default());
    group.bench_function(R::NAME, |bencher| bencher.iter(|| world.execute(&registration)));
}

/// A broker registers again, with other settings for every topic.
fn changed<R: Registry>(group: &mut Group<'_>) {
    let mut world = World::<R>::new();
    let mut version = 1;
    group.sample_size(20).bench_function(R::NAME, |bencher| {
        bencher.iter_custom(|iterations| {
            let mut total = Duration::ZERO;
            for _ in 0..iterations {
                version += 1;
                let settings = QueueSettings { read_queues: 8 + (version % 2) as i32, ..QueueSettings::default() };
                let registration = world.registration(1, version, settings);
                let start = Instant::now();
                let outcome = world.execute(&registration);
                total += start.elapsed();
                assert!(matches!(outcome, Outcome::Registered(_)));
            }
            total
        });
    });
}

criterion_group! {
    name = benches;
    config = Criterion::default().warm_up_time(Duration::from_secs(1)).measurement_time(Duration::from_secs(3));
    targets = operations
}
criterion_main!(benches);
