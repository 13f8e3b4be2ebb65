//! Interleavings by hand: changes are published inside of a query, between its looks at the state.
//!
//! One thread, so nothing is left to chance, and the real maps and collectors run. After each change the query looks at
//! everything again and has to find the state of its root, or be told that it is stale and run again with a newer one.
#![cfg(not(loom))]

use std::{collections::BTreeMap, sync::mpsc, thread, time::Duration};

use proptest::{collection::vec, prelude::*};
use registry_core::{
    Change, Entry, Image, Millis, Name, Publisher, Reader, Registry, Stale, TableLimits, Tables, View,
    testkit::{
        ScratchView,
        histories::{Op, values, writes},
    },
};

/// Something that the publisher does.
#[derive(Clone, Debug)]
enum Step {
    /// One change of several commands, as a server makes of those that came together.
    Publish(Vec<Op>),
    Tick,
}

/// Makes changes, and remembers the state after each.
struct Author {
    tables: Tables,
    image: Image,
    /// By version.
    states: Vec<ScratchView>,
}

impl Author {
    fn new() -> Self {
        Self { tables: Tables::new(TableLimits::default()), image: Image::empty(), states: vec![ScratchView::empty()] }
    }

    fn newest(&self) -> u64 {
        self.states.len() as u64 - 1
    }

    fn change(&mut self, ops: &[Op]) -> Option<Change> {
        for op in ops {
            let now = if matches!(op, Op::Expire { .. }) { Millis(5_000) } else { Millis(1) };
            self.tables.apply(&op.command().expect("a change"), now);
            self.tables.sweep(10);
        }
        let change = self.image.derive(&mut self.tables)?;
        let mut state = self.states[self.states.len() - 1].clone();
        state.apply(change.clone());
        self.states.push(state);
        Some(change)
    }

    fn run(&mut self, step: &Step, publisher: &mut impl Publisher) {
        match step {
            Step::Publish(ops) => {
                if let Some(change) = self.change(ops) {
                    publisher.publish(change);
                }
            }
            Step::Tick => publisher.tick(),
        }
    }

    /// The view shows the state of its root, wherever one looks.
    fn check(&self, view: &impl View) -> Result<(), Stale> {
        let version = view.root().version();
        let expected = &self.states[usize::try_from(version).expect("few")];
        // Each registry has an empty root of its own.
        assert!(version == 0 || std::ptr::eq(view.root(), expected.root()), "the root of version {version}");
        for name in ["t0", "t1", "base", "base-2", "none"] {
            view.with_topic(name, |held| assert_eq!(held, expected.topics().get(name), "{name} in version {version}"))?;
        }
        let mut all: BTreeMap<Name, Entry> = BTreeMap::new();
        view.for_each_topic(|name, entry| assert!(all.insert(name.into(), entry.clone()).is_none(), "{name} twice"))?;
        assert_eq!(&all, expected.topics(), "all topics in version {version}");
        Ok(())
    }
}

/// Runs `before`, and then `inside` while one query runs.
fn overtake<R: Registry>(before: &[Step], inside: &[Step]) {
    let (registry, mut publisher) = R::new();
    let (mut reader, mut author) = (registry.reader(), Author::new());
    before.iter().for_each(|step| author.run(step, &mut publisher));
    let published = author.newest();
    let most = published.saturating_add(R::BESIDE_A_READ.between_topics);
    let mut steps = inside.iter();
    let seen = reader.read(|view| {
        author.check(view)?;
        while author.newest() < most
            && let Some(step) = steps.next()
        {
            author.run(step, &mut publisher);
            author.check(view)?;
        }
        Ok(view.root().version())
    });
    assert!(seen >= published, "version {seen}, and {published} was published before");
    let newest = author.newest();
    reader.read(|view| author.check(view));
    assert_eq!(reader.read(|view| Ok(view.root().version())), newest);
    for step in steps {
        author.run(step, &mut publisher);
        reader.read(|view| author.check(view));
    }
}

fn register(version: u8) -> Op {
    Op::Register { broker: 0, version, topics: 2, at: 1 }
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![4 => vec(writes(), 1..3).prop_map(Step::Publish), 1 => Just(Step::Tick)]
}

/// D1, D2 and whatever else makes a query see one state, at every place between two looks.
fn a_query_that_is_overtaken_sees_one_state<R: Registry>() {
    let publish = |ops: &[Op]| Step::Publish(ops.to_vec());
    let before = [publish(&[register(1)])];
    let gone = publish(&[Op::Delete(0), Op::Delete(1)]);
    // What is removed for good only between changes, while the query needs what was there before.
    overtake::<R>(&before, &[gone.clone(), Step::Tick]);
    overtake::<R>(&before, &[gone.clone(), Step::Tick, publish(&[register(2)])]);
    // And with the next change.
    overtake::<R>(&before, &[gone.clone(), publish(&[Op::Wipe(0)])]);
    overtake::<R>(&before, &[gone.clone(), publish(&[register(2)]), Step::Tick]);
    overtake::<R>(&[before[0].clone(), gone], &[publish(&[register(2)]), Step::Tick, publish(&[Op::Delete(1)])]);
    // No more steps inside than a query is run again for: then it keeps the publisher from beginning.
    for (before, inside) in values(&(vec(step(), 1..5), vec(step(), 1..7)), 300) {
        overtake::<R>(&before, &inside);
    }
}

/// How long a publisher that may have to wait for the query is waited for.
const A_WHILE: Duration = Duration::from_millis(300);

/// D3: another thread publishes two changes each time that the query runs, for as long as it can. The query ends, and its
/// last run sees one state.
fn a_query_that_is_overtaken_each_time_ends<R: Registry>() {
    let (registry, mut publisher) = R::new();
    let mut author = Author::new();
    let changes: Vec<Change> = (1..40).filter_map(|version| author.change(&[register(version)])).collect();
    let all = changes.len() as u64;
    let mut changes = changes.into_iter();
    publisher.publish(changes.next().expect("the first"));
    let (ask, asked) = mpsc::channel::<()>();
    let (answer, answers) = mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(move || {
            while asked.recv().is_ok() {
                changes.by_ref().take(2).for_each(|change| publisher.publish(change));
                let _ = answer.send(());
            }
            changes.for_each(|change| publisher.publish(change));
        });
        let (mut runs, mut is_alone) = (0, false);
        registry.reader().read(|view| {
            runs += 1;
            assert!(runs < 20, "the query has no end");
            if !is_alone {
                ask.send(()).expect("the publisher listens");
                is_alone = answers.recv_timeout(A_WHILE).is_err();
            }
            author.check(view)
        });
        println!("{}: the query ran {runs} times", R::NAME);
        drop(ask);
    });
    assert_eq!(registry.reader().read(|view| Ok(view.root().version())), all);
}

macro_rules! interleavings {
    ($($module:ident: $registry:path;)*) => {
        $(mod $module {
            #[test]
            fn a_query_that_is_overtaken_sees_one_state() {
                super::a_query_that_is_overtaken_sees_one_state::<$registry>();
            }

            #[test]
            fn a_query_that_is_overtaken_each_time_ends() {
                super::a_query_that_is_overtaken_each_time_ends::<$registry>();
            }
        })*
    };
}
backends::strategies!(interleavings);
