//! Strategies that break a promise on purpose, each another one: the tests of threads have to find them out.

use std::{
    collections::BTreeMap,
    fmt,
    marker::PhantomData,
    sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, mpsc},
    thread::{self, JoinHandle},
};

use super::ScratchView;
use crate::{Change, Entry, Image, Name, Publisher, Reader, Registry, Root, Stale, View};

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Topics in a map of their own, published one by one, and the root after them. Breaks: one state per answer.
pub struct TopicByTopic {
    root: RwLock<Arc<Root>>,
    topics: Mutex<BTreeMap<Name, Entry>>,
}

impl Registry for TopicByTopic {
    const NAME: &'static str = "topic-by-topic";
    type Reader = Shared<Self>;
    type Publisher = Shared<Self>;

    fn new() -> (Arc<Self>, Shared<Self>) {
        let root = RwLock::new(Arc::clone(Image::empty().root()));
        let registry = Arc::new(Self { root, topics: Mutex::default() });
        (Arc::clone(&registry), Shared { registry, turn: 0 })
    }

    fn reader(self: &Arc<Self>) -> Shared<Self> {
        Shared { registry: Arc::clone(self), turn: 0 }
    }
}

/// The reader's and the publisher's hold on a broken registry.
pub struct Shared<R> {
    registry: Arc<R>,
    turn: usize,
}

/// One root, and whatever the topics are at the moment.
pub struct TornView<'a> {
    root: Arc<Root>,
    registry: &'a TopicByTopic,
}

impl View for TornView<'_> {
    fn root(&self) -> &Root {
        &self.root
    }

    fn share_root(&self) -> Arc<Root> {
        Arc::clone(&self.root)
    }

    fn with_topic<R>(&self, topic: &str, f: impl FnOnce(Option<&Entry>) -> R) -> Result<R, Stale> {
        Ok(f(lock(&self.registry.topics).get(topic)))
    }

    fn for_each_topic(&self, mut f: impl FnMut(&str, &Entry)) -> Result<(), Stale> {
        lock(&self.registry.topics).iter().for_each(|(name, entry)| f(name, entry));
        Ok(())
    }
}

impl Reader for Shared<TopicByTopic> {
    type View<'a> = TornView<'a>;

    fn read<R>(&mut self, mut query: impl FnMut(&TornView<'_>) -> Result<R, Stale>) -> R {
        let root = Arc::clone(&self.registry.root.read().unwrap_or_else(PoisonError::into_inner));
        match query(&TornView { root, registry: &self.registry }) {
            Ok(result) => result,
            Err(stale) => unreachable!("never fails, only lies: {stale:?}"),
        }
    }
}

impl Publisher for Shared<TopicByTopic> {
    fn publish(&mut self, change: Change) {
        for (name, entry) in change.topics {
            let mut topics = lock(&self.registry.topics);
            match entry {
                Some(entry) => topics.insert(name, entry),
                None => topics.remove(&name),
            };
        }
        *self.registry.root.write().unwrap_or_else(PoisonError::into_inner) = change.root;
    }
}

/// One mutex, but a thread of its own applies the changes after they were answered. Breaks: acknowledged means visible.
pub struct AfterTheAnswer {
    state: Mutex<ScratchView>,
}

impl Registry for AfterTheAnswer {
    const NAME: &'static str = "after-the-answer";
    type Reader = Shared<Self>;
    type Publisher = LatePublisher;

    fn new() -> (Arc<Self>, LatePublisher) {
        let registry = Arc::new(Self { state: Mutex::new(ScratchView::empty()) });
        let (changes, queue) = mpsc::channel::<Change>();
        let applier = thread::spawn({
            let registry = Arc::clone(&registry);
            move || queue.iter().for_each(|change| lock(&registry.state).apply(change))
        });
        (registry, LatePublisher { changes: Some(changes), applier: Some(applier) })
    }

    fn reader(self: &Arc<Self>) -> Shared<Self> {
        Shared { registry: Arc::clone(self), turn: 0 }
    }
}

impl Reader for Shared<AfterTheAnswer> {
    type View<'a> = ScratchView;

    fn read<R>(&mut self, mut query: impl FnMut(&ScratchView) -> Result<R, Stale>) -> R {
        match query(&lock(&self.registry.state)) {
            Ok(result) => result,
            Err(stale) => unreachable!("never fails: {stale:?}"),
        }
    }
}

/// Hands changes to the thread that applies them, and does not wait.
pub struct LatePublisher {
    changes: Option<mpsc::Sender<Change>>,
    applier: Option<JoinHandle<()>>,
}

impl Publisher for LatePublisher {
    fn publish(&mut self, change: Change) {
        let changes = self.changes.as_ref().expect("it is there until the drop");
        changes.send(change).expect("the applier lives as long as the channel");
    }
}

impl Drop for LatePublisher {
    fn drop(&mut self) {
        self.changes = None;
        if let Some(applier) = self.applier.take() {
            // It panics only if a lock it takes is poisoned, which it ignores.
            _ = applier.join();
        }
    }
}

/// Two copies that are changed one after the other, and readers that take turns between them. Breaks: no time travel.
pub struct TwoCopies {
    copies: [Mutex<ScratchView>; 2],
}

impl Registry for TwoCopies {
    const NAME: &'static str = "two-copies";
    type Reader = Shared<Self>;
    type Publisher = Shared<Self>;

    fn new() -> (Arc<Self>, Shared<Self>) {
        let copies = [Mutex::new(ScratchView::empty()), Mutex::new(ScratchView::empty())];
        let registry = Arc::new(Self { copies });
        (Arc::clone(&registry), Shared { registry, turn: 0 })
    }

    fn reader(self: &Arc<Self>) -> Shared<Self> {
        Shared { registry: Arc::clone(self), turn: 0 }
    }
}

impl Reader for Shared<TwoCopies> {
    type View<'a> = ScratchView;

    fn read<R>(&mut self, mut query: impl FnMut(&ScratchView) -> Result<R, Stale>) -> R {
        self.turn ^= 1;
        match query(&lock(&self.registry.copies[self.turn])) {
            Ok(result) => result,
            Err(stale) => unreachable!("never fails: {stale:?}"),
        }
    }
}

impl Publisher for Shared<TwoCopies> {
    fn publish(&mut self, change: Change) {
        for copy in &self.registry.copies {
            lock(copy).apply(change.clone());
        }
    }
}

macro_rules! opaque_debug {
    ($($type:ty),*) => {$(
        impl fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($type)).finish_non_exhaustive()
            }
        }
    )*};
}

opaque_debug!(TopicByTopic, TornView<'_>, AfterTheAnswer, LatePublisher, TwoCopies);

impl<R> fmt::Debug for Shared<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("turn", &self.turn).field("registry", &PhantomData::<R>).finish()
    }
}
