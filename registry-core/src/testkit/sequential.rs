//! The registry without concurrency to speak of, and a view of tables without any strategy.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::{Change, Entry, Image, Name, Publisher, Reader, Registry, Root, Stale, Tables, View};

/// A state in plain sight: a root and an ordinary map of topics.
#[derive(Clone, Debug)]
pub struct ScratchView {
    root: Arc<Root>,
    topics: BTreeMap<Name, Entry>,
}

impl ScratchView {
    /// The state of an empty registry.
    pub fn empty() -> Self {
        Self { root: Arc::clone(Image::empty().root()), topics: BTreeMap::new() }
    }

    /// The whole state of `tables`, made from scratch.
    pub fn of(tables: &Tables) -> Self {
        let (root, topics) = Image::from_scratch(tables);
        Self { root: Arc::new(root), topics }
    }

    /// The state after `change`.
    pub fn apply(&mut self, change: Change) {
        self.root = change.root;
        for (name, entry) in change.topics {
            match entry {
                Some(entry) => self.topics.insert(name, entry),
                None => self.topics.remove(&name),
            };
        }
    }

    /// The topics and what is held of them.
    pub fn topics(&self) -> &BTreeMap<Name, Entry> {
        &self.topics
    }
}

impl View for ScratchView {
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

/// The tables alone: one mutex over a [`ScratchView`]. What every strategy is compared with.
pub struct Sequential {
    state: Mutex<ScratchView>,
}

impl Sequential {
    fn state(&self) -> MutexGuard<'_, ScratchView> {
        // A panicking query has changed nothing.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Registry for Sequential {
    const NAME: &'static str = "sequential";
    type Reader = SequentialReader;
    type Publisher = SequentialPublisher;

    fn new() -> (Arc<Self>, SequentialPublisher) {
        let registry = Arc::new(Self { state: Mutex::new(ScratchView::empty()) });
        (Arc::clone(&registry), SequentialPublisher { registry })
    }

    fn reader(self: &Arc<Self>) -> SequentialReader {
        SequentialReader { registry: Arc::clone(self) }
    }
}

/// Reads under the mutex.
pub struct SequentialReader {
    registry: Arc<Sequential>,
}

impl Reader for SequentialReader {
    type View<'a> = ScratchView;

    fn read<R>(&mut self, mut query: impl FnMut(&ScratchView) -> Result<R, Stale>) -> R {
        match query(&self.registry.state()) {
            Ok(result) => result,
            Err(stale) => unreachable!("a view under the mutex never fails: {stale:?}"),
        }
    }
}

/// Applies changes under the mutex.
pub struct SequentialPublisher {
    registry: Arc<Sequential>,
}

impl Publisher for SequentialPublisher {
    fn publish(&mut self, change: Change) {
        self.registry.state().apply(change);
    }
}

impl fmt::Debug for Sequential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sequential").finish_non_exhaustive()
    }
}

impl fmt::Debug for SequentialReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SequentialReader").finish_non_exhaustive()
    }
}

impl fmt::Debug for SequentialPublisher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SequentialPublisher").finish_non_exhaustive()
    }
}
