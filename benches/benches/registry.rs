//! Single operations of the registry, one strategy beside the other.
//!
//! One thread, nobody else: what an operation costs, not what readers and the writer do to each other. Without sockets,
//! frames and parsing; answers are written as the server writes them.

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use benches::matrix::world::{
    CHANGING, CLUSTER, NOW, World, ask_route, broker_addr, broker_name, registration, topic_and_back, wipe_and_back,
};
use criterion::{BenchmarkGroup, Criterion, criterion_group, criterion_main, measurement::WallTime};
use registry_core::{
    Command, ConnectionId, LiveKey, Outcome, Reader, Registry, Unregistration, View,
    query::{self, Heartbeat, TopicNames},
};

const TOPICS: usize = 10_000;
const BROKERS: u64 = 2;
/// Brokers that leave together, as many as the writer takes at once, ...
const LEAVING: u64 = 64;
/// ... and topics of each.
const TOPICS_OF_LEAVING: usize = 100;

type Group<'c> = BenchmarkGroup<'c, WallTime>;
/// Adds an operation to its group, under one strategy.
type Operation = fn(&mut Group<'_>);

/// One group for each operation, in which the strategies stand side by side.
fn operations(criterion: &mut Criterion) {
    macro_rules! all_of_each {
        ($($module:ident: $registry:ty;)*) => { [$(operations_of::<$registry>(),)*] };
    }
    let strategies = backends::strategies!(all_of_each);
    for (at, (name, _)) in strategies[0].iter().enumerate() {
        let mut group = criterion.benchmark_group(*name);
        for operations in &strategies {
            (operations[at].1)(&mut group);
        }
        group.finish();
    }
}

fn operations_of<R: Registry>() -> [(&'static str, Operation); 8] {
    [
        ("route query", route::<R>),
        ("heartbeat", heartbeat::<R>),
        ("one topic added and deleted", one_topic::<R>),
        ("registration of 10k topics, unchanged version", unchanged::<R>),
        ("registration of 10k topics, all changed", changed::<R>),
        ("64 brokers of 100 topics unregister at once", batch_unregister::<R>),
        ("wipe of 10k topics and its reverse", wipe::<R>),
        ("list of 10k topics", topic_list::<R>),
    ]
}

/// A registry with 10,000 topics on 2 brokers.
fn world<R: Registry>() -> World<R> {
    World::new(TOPICS, BROKERS).expect("a registry without brokers takes two")
}

/// Executes a command as the server does, whose workers keep no old state alive.
fn execute<R: Registry>(world: &mut World<R>, reader: &mut R::Reader, command: &Command) -> Outcome {
    let outcome = world.writer.execute(command, NOW).outcome;
    reader.refresh();
    outcome
}

/// The route of one topic after the other.
fn route<R: Registry>(group: &mut Group<'_>) {
    let world = world::<R>();
    let mut reader = world.registry.reader();
    let mut out = Vec::new();
    let mut at = 0;
    group.bench_function(R::NAME, |bencher| {
        bencher.iter(|| {
            // A prime step: neighbours in the list are not neighbours in memory.
            at = (at + 7_919) % TOPICS;
            assert!(ask_route(&mut reader, &world.topics[at], &mut out));
            black_box(out.len())
        });
    });
}

fn heartbeat<R: Registry>(group: &mut Group<'_>) {
    let world = world::<R>();
    let mut reader = world.registry.reader();
    let key = LiveKey { cluster: CLUSTER.into(), addr: broker_addr(CHANGING) };
    group.bench_function(R::NAME, |bencher| {
        bencher.iter(|| {
            let heartbeat = reader.read(|view| Ok(query::heartbeat(view.root(), &key, NOW)));
            assert!(matches!(heartbeat, Heartbeat::Beaten));
        });
    });
}

fn topic_list<R: Registry>(group: &mut Group<'_>) {
    let world = world::<R>();
    let mut reader = world.registry.reader();
    let mut names = TopicNames::default();
    group.sample_size(20).bench_function(R::NAME, |bencher| {
        bencher.iter(|| {
            reader.scan(|view| query::all_topics(view, &mut names));
            black_box(names.to_list().len())
        });
    });
}

/// One topic is added on one broker and deleted again: two changes.
fn one_topic<R: Registry>(group: &mut Group<'_>) {
    let mut world = world::<R>();
    let mut reader = world.registry.reader();
    let [add, delete] = topic_and_back();
    group.bench_function(R::NAME, |bencher| {
        bencher.iter(|| {
            execute(&mut world, &mut reader, &add);
            execute(&mut world, &mut reader, &delete)
        });
    });
}

/// The write permission of 10,000 topics is taken away and given back: two changes.
fn wipe<R: Registry>(group: &mut Group<'_>) {
    let mut world = world::<R>();
    let mut reader = world.registry.reader();
    let [wipe, add] = wipe_and_back();
    group.bench_function(R::NAME, |bencher| {
        bencher.iter(|| {
            assert_eq!(execute(&mut world, &mut reader, &wipe), Outcome::TopicsChanged(TOPICS as u32));
            execute(&mut world, &mut reader, &add)
        });
    });
}

/// A broker registers again and says that nothing has changed.
fn unchanged<R: Registry>(group: &mut Group<'_>) {
    let mut world = world::<R>();
    let mut reader = world.registry.reader();
    let command = world.next_rewrite();
    execute(&mut world, &mut reader, &command);
    group.bench_function(R::NAME, |bencher| bencher.iter(|| execute(&mut world, &mut reader, &command)));
}

/// A broker registers again, with other settings for every topic.
fn changed<R: Registry>(group: &mut Group<'_>) {
    let mut world = world::<R>();
    let mut reader = world.registry.reader();
    group.sample_size(20).bench_function(R::NAME, |bencher| {
        bencher.iter_custom(|iterations| {
            let mut total = Duration::ZERO;
            for _ in 0..iterations {
                let command = world.next_rewrite();
                let start = Instant::now();
                let outcome = execute(&mut world, &mut reader, &command);
                total += start.elapsed();
                assert!(matches!(outcome, Outcome::Registered(_)));
            }
            total
        });
    });
}

/// Brokers leave, and the change is published as one: the time until no reader sees any of them. What they leave behind
/// is swept away afterwards.
fn batch_unregister<R: Registry>(group: &mut Group<'_>) {
    let mut world = world::<R>();
    let mut reader = world.registry.reader();
    let topics = world.topics[..TOPICS_OF_LEAVING].to_vec();
    let brokers = BROKERS..BROKERS + LEAVING;
    let come: Vec<_> =
        brokers.clone().map(|broker| Command::Register(Box::new(registration(broker, &topics, 8)))).collect();
    let leave: Vec<_> = brokers.map(unregistration).collect();
    group.sample_size(20).bench_function(R::NAME, |bencher| {
        bencher.iter_custom(|iterations| {
            let mut total = Duration::ZERO;
            for _ in 0..iterations {
                for command in &come {
                    assert!(matches!(execute(&mut world, &mut reader, command), Outcome::Registered(_)));
                }
                let start = Instant::now();
                let removed: u32 = leave.iter().map(|command| world.writer.apply(command, NOW).brokers_removed).sum();
                world.writer.publish();
                total += start.elapsed();
                assert_eq!(u64::from(removed), LEAVING);
                reader.refresh();
                while world.writer.tick() {}
            }
            total
        });
    });
}

fn unregistration(broker: u64) -> Command {
    Command::Unregister(Unregistration {
        cluster: CLUSTER.into(),
        broker_name: broker_name(broker),
        broker_id: 0,
        broker_addr: broker_addr(broker),
        connection: ConnectionId(broker),
    })
}

criterion_group! {
    name = benches;
    config = Criterion::default().warm_up_time(Duration::from_secs(1)).measurement_time(Duration::from_secs(3));
    targets = operations
}
criterion_main!(benches);
