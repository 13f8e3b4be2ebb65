//! What becomes of a registry whose users do what they should not: panic, stall, or go away.
#![cfg(not(loom))]

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

use registry_core::{
    Change, Command, Image, Millis, Publisher, QueueSettings, Reader, Registry, Root, TableLimits, Tables, View,
    Writer,
    testkit::fixture::{Broker, table},
};

const TOPICS: [&str; 2] = ["t0", "t1"];

/// Long enough for whoever does not wait to have gone on, on a busy machine too.
const SOON: Duration = Duration::from_secs(60);
/// How long somebody who waits is watched.
const A_WHILE: Duration = Duration::from_millis(100);

/// A registration of the one broker: version v is the number of its queues, and the root's version.
fn registration(version: i32) -> Command {
    let settings = QueueSettings { read_queues: version, ..QueueSettings::default() };
    let broker = Broker::new("b", 0, "10.0.0.1:1").version(version.into());
    Command::Register(Box::new(broker.table(table(TOPICS, settings)).0))
}

/// The changes that lead to the versions from 1 to `last`.
fn changes(last: i32) -> Vec<Change> {
    let (mut tables, mut image) = (Tables::new(TableLimits::default()), Image::empty());
    (1..=last)
        .map(|version| {
            tables.apply(&registration(version), Millis(1));
            image.derive(&mut tables).expect("each registration changes something")
        })
        .collect()
}

/// The version that a view shows, in its root and in all of its topics.
fn version_in(view: &impl View) -> Result<u64, registry_core::Stale> {
    let mut topics = 0;
    view.for_each_topic(|name, entry| {
        let group = view.root().group(entry.slots[0].group).expect("the one group");
        let setting = group.setting(entry.slots[0].setting).expect("the slot names a setting");
        assert_eq!(setting.settings.read_queues as u64, view.root().version(), "topic {name} is of another state");
        topics += 1;
    })?;
    assert!(topics == TOPICS.len() || view.root().version() == 0, "a topic is missing");
    Ok(view.root().version())
}

fn version_of(reader: &mut impl Reader) -> u64 {
    reader.read(|view| version_in(view))
}

fn a_query_that_panics_harms_nobody<R: Registry>() {
    let (registry, mut publisher) = R::new();
    let (mut clumsy, mut other) = (registry.reader(), registry.reader());
    for (change, version) in changes(4).into_iter().zip(1..) {
        publisher.publish(change);
        let panicked = catch_unwind(AssertUnwindSafe(|| match version {
            1 => clumsy.read(|_| -> Result<(), _> { panic!("in a query, on purpose") }),
            2 => clumsy.read(|view| view.with_topic(TOPICS[0], |_| panic!("at a topic, on purpose"))),
            3 => clumsy.read(|view| view.for_each_topic(|_, _| panic!("in a scan, on purpose"))),
            _ => panic!("outside, on purpose"),
        }));
        assert!(panicked.is_err(), "the panic of a query is passed on");
        assert_eq!(version_of(&mut other), version, "another reader");
        assert_eq!(version_of(&mut clumsy), version, "the same reader again");
        publisher.tick();
    }
}

/// Lets a reader stall at a topic while ten changes are published: as many of them return as the strategy promises.
fn published_beside_a_stalled_reader<R: Registry>() {
    let expected = R::BESIDE_A_READ.at_a_topic.min(10);
    let (registry, mut publisher) = R::new();
    let mut changes = changes(11).into_iter();
    publisher.publish(changes.next().expect("the first"));
    let published = AtomicU64::new(0);
    let (stalled, is_stalled) = mpsc::channel();
    let (go_on, may_go_on) = mpsc::channel::<()>();
    thread::scope(|scope| {
        let registry = &registry;
        let stalling = scope.spawn(move || {
            let mut reader = registry.reader();
            let mut is_first = true;
            reader.read(|view| {
                let before = view.root().version();
                view.with_topic(TOPICS[0], |entry| {
                    assert!(entry.is_some());
                    if std::mem::take(&mut is_first) {
                        stalled.send(()).expect("the test listens");
                        let _ = may_go_on.recv();
                    }
                })?;
                assert_eq!(view.root().version(), before, "the state changed under the reader");
                version_in(view)
            })
        });
        is_stalled.recv().expect("the reader comes to the topic");
        let mut other = registry.reader();
        let published = &published;
        scope.spawn(move || {
            for change in changes {
                publisher.publish(change);
                published.fetch_add(1, Ordering::SeqCst);
            }
        });
        let began = Instant::now();
        while published.load(Ordering::SeqCst) < expected && began.elapsed() < SOON {
            thread::sleep(Duration::from_millis(1));
        }
        thread::sleep(A_WHILE);
        let meanwhile = published.load(Ordering::SeqCst);
        // Behind a writer that waits for a lock, readers may wait as well.
        let seen = (R::BESIDE_A_READ.between_topics > 0).then(|| other.read(|view| Ok(view.root().version())));
        drop(go_on);
        let stalled_saw = stalling.join().expect("the stalled reader ends well");
        assert_eq!(meanwhile, expected, "changes published while a reader stalled");
        assert!(seen.is_none_or(|seen| seen == expected + 1), "another reader saw {seen:?}");
        assert!((1..=11).contains(&stalled_saw));
    });
    assert_eq!(published.load(Ordering::SeqCst), 10, "the writer goes on when the reader does");
    assert_eq!(version_of(&mut registry.reader()), 11);
}

fn a_publisher_that_is_gone_leaves_its_last_state<R: Registry>() {
    let (registry, mut publisher) = R::new();
    let mut reader = registry.reader();
    changes(3).into_iter().for_each(|change| publisher.publish(change));
    drop(publisher);
    assert_eq!(version_of(&mut reader), 3);
    assert_eq!(version_of(&mut registry.reader()), 3, "a reader made afterwards");
}

fn a_writer_that_panics_leaves_its_last_state<R: Registry>() {
    let (registry, publisher) = R::new();
    let mut reader = registry.reader();
    let writer = thread::spawn(move || {
        let mut writer = Writer::new(publisher, TableLimits::default());
        writer.execute(&registration(1), Millis(1));
        writer.execute(&registration(2), Millis(1));
        writer.apply(&registration(3), Millis(1));
        panic!("between the tables and the publication, on purpose");
    });
    assert!(writer.join().is_err());
    assert_eq!(version_of(&mut reader), 2);
    assert_eq!(version_of(&mut registry.reader()), 2, "a reader made afterwards");
}

fn replaced_states_are_let_go<R: Registry>() {
    let (registry, mut publisher) = R::new();
    let mut idle = registry.reader();
    let mut roots: Vec<Weak<Root>> = Vec::new();
    for change in changes(5) {
        roots.push(Arc::downgrade(&change.root));
        publisher.publish(change);
        assert_eq!(version_of(&mut idle), roots.len() as u64);
    }
    // Two more of housekeeping: an epoch needs some to go by.
    for _ in 0..3 {
        idle.refresh();
        publisher.tick();
    }
    let held: Vec<bool> = roots.iter().map(|root| root.strong_count() > 0).collect();
    // Of two copies the second is one change behind.
    assert_eq!(held[..3], [false; 3], "old roots are kept: {held:?}");
    assert!(held[4], "the newest is there");
}

/// L4 and I4: however large a state is, no lookup waits for its end. Readers that stay on old states, one that looks at
/// each and one that comes back later, let go of them; what was there before a read is there after it, until the publisher
/// keeps house.
fn readers_free_nothing<R: Registry>() {
    let (registry, mut publisher) = R::new();
    let (mut diligent, mut late) = (registry.reader(), registry.reader());
    let mut roots: Vec<Weak<Root>> = Vec::new();
    let alive = |roots: &[Weak<Root>]| roots.iter().map(|root| root.strong_count() > 0).collect::<Vec<_>>();
    for change in changes(6) {
        roots.push(Arc::downgrade(&change.root));
        publisher.publish(change);
        let before = alive(&roots);
        // As many as it takes until the collector of an epoch has a reader do its work, several times.
        for _ in 0..1_000 {
            assert_eq!(version_of(&mut diligent), roots.len() as u64);
        }
        diligent.refresh();
        assert_eq!(alive(&roots), before, "a reader has freed a state");
    }
    let before = alive(&roots);
    for _ in 0..1_000 {
        assert_eq!(version_of(&mut late), 6);
    }
    assert_eq!(alive(&roots), before, "a reader has freed a state that it was late to leave");
    drop((diligent, late));
    assert_eq!(alive(&roots), before, "a reader that went away has freed a state");
}

/// A thread that has nothing to read says so now and then, and keeps no old state alive.
fn an_idle_reader_keeps_nothing<R: Registry>() {
    let (registry, mut publisher) = R::new();
    let mut changes = changes(4).into_iter();
    publisher.publish(changes.next().expect("the first"));
    let mut idle = registry.reader();
    let first = idle.read(|view| Ok(Arc::downgrade(&view.share_root())));
    changes.for_each(|change| publisher.publish(change));
    for _ in 0..3 {
        idle.refresh();
        publisher.tick();
    }
    assert_eq!(first.strong_count(), 0, "the state that an idle reader has read last is kept");
}

/// The writer's housekeeping is also the strategy's.
fn a_writer_keeps_house<R: Registry>() {
    let (registry, publisher) = R::new();
    let mut reader = registry.reader();
    let mut writer = Writer::new(publisher, TableLimits::default());
    let mut roots = Vec::new();
    for version in 1..=5 {
        writer.execute(&registration(version), Millis(1));
        roots.push(reader.read(|view| Ok(Arc::downgrade(&view.share_root()))));
    }
    for _ in 0..3 {
        reader.refresh();
        writer.tick();
    }
    let held: Vec<bool> = roots.iter().map(|root| root.strong_count() > 0).collect();
    assert_eq!(held[..3], [false; 3], "old roots are kept: {held:?}");
}

/// A server under steady changes finds no time for housekeeping: publishing alone keeps old states to a few.
fn old_states_are_few_without_housekeeping<R: Registry>() {
    let (registry, mut publisher) = R::new();
    let mut reader = registry.reader();
    let mut roots: Vec<Weak<Root>> = Vec::new();
    let mut most = 0;
    for (change, version) in changes(200).into_iter().zip(1..) {
        roots.push(Arc::downgrade(&change.root));
        publisher.publish(change);
        assert_eq!(version_of(&mut reader), version);
        roots.retain(|root| root.strong_count() > 0);
        most = most.max(roots.len());
    }
    assert!(most <= 8, "{most} states are there at once");
}

macro_rules! misbehaviours {
    ($($module:ident: $registry:path;)*) => {
        $(mod $module {
            #[test]
            fn a_query_that_panics_harms_nobody() {
                super::a_query_that_panics_harms_nobody::<$registry>();
            }

            #[test]
            fn a_reader_that_stalls() {
                super::published_beside_a_stalled_reader::<$registry>();
            }

            #[test]
            fn a_publisher_that_is_gone_leaves_its_last_state() {
                super::a_publisher_that_is_gone_leaves_its_last_state::<$registry>();
            }

            #[test]
            fn a_writer_that_panics_leaves_its_last_state() {
                super::a_writer_that_panics_leaves_its_last_state::<$registry>();
            }

            #[test]
            fn readers_free_nothing() {
                super::readers_free_nothing::<$registry>();
            }

            #[test]
            fn an_idle_reader_keeps_nothing() {
                super::an_idle_reader_keeps_nothing::<$registry>();
            }

            #[test]
            fn a_writer_keeps_house() {
                super::a_writer_keeps_house::<$registry>();
            }

            #[test]
            fn old_states_are_few_without_housekeeping() {
                super::old_states_are_few_without_housekeeping::<$registry>();
            }

            #[test]
            fn replaced_states_are_let_go() {
                super::replaced_states_are_let_go::<$registry>();
            }
        })*
    };
}
backends::strategies!(misbehaviours);
