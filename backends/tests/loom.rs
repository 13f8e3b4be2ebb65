//! Every interleaving of a small scenario, on every strategy: one writer publishes two changes, readers read twice.
//!
//! Run by `ci/loom.sh`. The data of the states is not tracked by loom: what is shown is the order in which states are
//! seen, not the absence of data races, which in these strategies the compiler guarantees.
#![cfg(loom)]

use std::sync::{
    Arc, LazyLock,
    atomic::{AtomicU64, Ordering},
};

use backends::{CachedRegistry, RwLockRegistry};
use loom::{model::Builder, sync::atomic::AtomicU64 as LoomAtomicU64, thread};
use registry_core::{
    Change, Command, Image, KeyStyle, Millis, Publisher, QueueSettings, Reader, Registry, TableLimits, Tables, query,
    testkit::fixture::{Broker, table},
};

const TOPICS: [&str; 2] = ["t0", "t1"];

/// Registrations of one broker with all topics. Version v is the port of its address and the number of its queues.
static CHANGES: LazyLock<[Change; 3]> = LazyLock::new(|| {
    let (mut tables, mut image) = (Tables::new(TableLimits::default()), Image::empty());
    [1, 2, 3].map(|version| {
        let settings = QueueSettings { read_queues: version, ..QueueSettings::default() };
        let broker = Broker::new("b", 0, &format!("10.0.0.1:{version}")).table(table(TOPICS, settings));
        tables.apply(&Command::Register(Box::new(broker.version(version.into()).0)), Millis(1));
        image.derive(&mut tables).expect("each registration changes something")
    })
});

/// Reads a topic and returns the version of the state that the answer was made from.
fn version_of(reader: &mut impl Reader, topic: &str) -> u64 {
    let body = reader.read(|view| {
        let mut body = Vec::new();
        let style = KeyStyle::Bare;
        let query = query::RouteQuery { topic, style, acting_master: false, zone: None, order_conf: None };
        query::route(view, &query, &mut body)?;
        Ok(body)
    });
    let body = String::from_utf8(body).expect("answers are UTF-8");
    let after = |mark: &str| body.split_once(mark).and_then(|(_, rest)| rest.get(..1)?.parse().ok());
    let (port, queues): (Option<u64>, Option<u64>) = (after("10.0.0.1:"), after("\"readQueueNums\":"));
    assert_eq!(port, queues, "an answer of two states: {body}");
    port.expect("the first version was there from the start")
}

/// What the threads know of each other.
struct Board {
    /// The newest version whose publication is over. No atomic of loom's, on purpose: a publication that was over before
    /// a read began has to be seen however the reader knows of it.
    acknowledged: AtomicU64,
    /// Where the threads may be switched around `acknowledged`; relaxed, so that it orders nothing.
    crossing: LoomAtomicU64,
    /// The newest version that a thread has read, passed on as threads pass things on.
    seen: LoomAtomicU64,
}

/// The promises, for one reader thread.
fn read_twice<R: Registry>(registry: &Arc<R>, board: &Board, order: [usize; 2]) {
    let mut reader = registry.reader();
    let mut last = 0;
    for at in order {
        board.crossing.load(Ordering::Relaxed);
        let acknowledged = board.acknowledged.load(Ordering::SeqCst);
        let seen_before = board.seen.load(Ordering::Acquire);
        let version = version_of(&mut reader, TOPICS[at]);
        assert!(version >= acknowledged, "{acknowledged} was published before the read, which saw {version}");
        assert!(version >= last, "this thread went back from {last} to {version}");
        assert!(version >= seen_before, "another thread had seen {seen_before}, this one {version}");
        board.seen.fetch_max(version, Ordering::AcqRel);
        last = version;
    }
}

fn scenario<R: Registry>(readers: usize) {
    LazyLock::force(&CHANGES);
    let mut builder = Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(3));
    builder.check(move || {
        let (registry, mut publisher) = R::new();
        publisher.publish(CHANGES[0].clone());
        let board = Arc::new(Board {
            acknowledged: AtomicU64::new(1),
            crossing: LoomAtomicU64::new(1),
            seen: LoomAtomicU64::new(0),
        });
        let readers: Vec<_> = [[0, 1], [1, 0]][..readers]
            .iter()
            .map(|&order| {
                let (registry, board) = (Arc::clone(&registry), Arc::clone(&board));
                thread::spawn(move || read_twice(&registry, &board, order))
            })
            .collect();
        for (change, version) in CHANGES[1..].iter().zip(2..) {
            publisher.publish(change.clone());
            board.acknowledged.store(version, Ordering::SeqCst);
            board.crossing.store(version, Ordering::Relaxed);
        }
        publisher.tick();
        readers.into_iter().for_each(|reader| reader.join().expect("a reader panicked"));
        assert_eq!(version_of(&mut registry.reader(), TOPICS[0]), 3);
    });
}

mod cached {
    use super::*;

    #[test]
    fn one_reader() {
        scenario::<CachedRegistry>(1);
    }

    #[test]
    fn two_readers() {
        scenario::<CachedRegistry>(2);
    }
}

mod rwlock {
    use super::*;

    #[test]
    fn one_reader() {
        scenario::<RwLockRegistry>(1);
    }

    #[test]
    fn two_readers() {
        scenario::<RwLockRegistry>(2);
    }
}
