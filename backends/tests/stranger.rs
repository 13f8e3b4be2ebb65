//! A strategy that is not ours: what it takes to add one, and that every suite runs on it.
//!
//! In the crate it would be this file under `src`, a line `stranger = []` among the features, and a line
//! `stranger: $crate::StrangerRegistry;` in `strategies!`; the server has a feature and a line in `backend.rs` of its own.
#![cfg(not(loom))]

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use proptest::proptest;
use registry_core::{
    Change, Entry, Image, Name, Publisher, Reader, Registry, Root, Stale, View, conformance_suite,
    testkit::{generate, machine, threads},
};

/// Everything behind one mutex: nobody reads beside anybody.
#[derive(Debug)]
struct StrangerRegistry(Mutex<State>);

#[derive(Debug)]
struct State {
    root: Arc<Root>,
    topics: BTreeMap<Name, Entry>,
}

/// Both the reader and the publisher.
#[derive(Debug)]
struct Stranger(Arc<StrangerRegistry>);

impl Registry for StrangerRegistry {
    const NAME: &'static str = "stranger";
    type Reader = Stranger;
    type Publisher = Stranger;

    fn new() -> (Arc<Self>, Stranger) {
        let state = State { root: Arc::clone(Image::empty().root()), topics: BTreeMap::new() };
        let registry = Arc::new(Self(Mutex::new(state)));
        (Arc::clone(&registry), Stranger(registry))
    }

    fn reader(self: &Arc<Self>) -> Stranger {
        Stranger(Arc::clone(self))
    }
}

impl Stranger {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reader for Stranger {
    type View<'a> = State;

    fn read<R>(&mut self, mut query: impl FnMut(&State) -> Result<R, Stale>) -> R {
        query(&self.lock()).expect("nothing changes under the lock")
    }
}

impl View for State {
    fn root(&self) -> &Root {
        &self.root
    }

    fn share_root(&self) -> Arc<Root> {
        Arc::clone(&self.root)
    }

    fn with_topic<R>(&self, topic: &str, f: impl FnOnce(Option<&Entry>) -> R) -> Result<R, Stale> {
        Ok(f(self.topics.get(topic)))
    }

    fn for_each_topic(&self, mut f: impl FnMut(&str, &Entry)) -> Result<(), Stale> {
        self.topics.iter().for_each(|(name, entry)| f(name, entry));
        Ok(())
    }
}

impl Publisher for Stranger {
    fn publish(&mut self, change: Change) {
        let mut state = self.lock();
        state.root = change.root;
        for (name, entry) in change.topics {
            match entry {
                Some(entry) => drop(state.topics.insert(name, entry)),
                None => drop(state.topics.remove(&name)),
            }
        }
    }
}

conformance_suite!(suite, StrangerRegistry);

proptest! {
    #![proptest_config(machine::config())]

    #[test]
    fn machine(steps in generate::steps()) {
        machine::run::<StrangerRegistry>(&steps);
    }
}

#[test]
fn readers_see_one_state() {
    let findings = threads::storm::<StrangerRegistry>(300, 2, 1);
    assert_eq!(findings, findings.clean());
}
