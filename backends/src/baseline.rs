//! What the strategies are compared with, in tests and reports only: none of these may serve.

use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};
use registry_core::{Change, Entry, Image, Name, Publisher, Reader, Registry, Root, Stale, View};

use crate::{
    snapshot::Snapshot,
    sync::{RwLock, ShardedMap},
};

/// Concurrent maps without a protocol: each table is atomic for one key, and a query that needs two sees two states.
///
/// The proof must find this wrong; the report counts how often it is.
pub struct DirtyRegistry {
    root: RwLock<Arc<Root>>,
    topics: ShardedMap<Name, Option<Entry>>,
}

impl Registry for DirtyRegistry {
    const NAME: &'static str = "dirty";
    type Reader = DirtyHandle;
    type Publisher = DirtyHandle;

    fn new() -> (Arc<Self>, DirtyHandle) {
        let root = RwLock::new(Arc::clone(Image::empty().root()));
        let registry = Arc::new(Self { root, topics: ShardedMap::new() });
        let handle = registry.reader();
        (registry, handle)
    }

    fn reader(self: &Arc<Self>) -> DirtyHandle {
        DirtyHandle { registry: Arc::clone(self), root: Arc::clone(&self.root.read()) }
    }
}

/// Reads, or publishes, one table after the other.
pub struct DirtyHandle {
    registry: Arc<DirtyRegistry>,
    root: Arc<Root>,
}

impl Reader for DirtyHandle {
    type View<'a> = Self;

    fn read<R>(&mut self, mut query: impl FnMut(&Self) -> Result<R, Stale>) -> R {
        self.root = Arc::clone(&self.registry.root.read());
        match query(self) {
            Ok(result) => result,
            Err(stale) => unreachable!("this view does not notice: {stale:?}"),
        }
    }
}

impl View for DirtyHandle {
    fn root(&self) -> &Root {
        &self.root
    }

    fn share_root(&self) -> Arc<Root> {
        Arc::clone(&self.root)
    }

    fn with_topic<R>(&self, topic: &str, f: impl FnOnce(Option<&Entry>) -> R) -> Result<R, Stale> {
        Ok(self.registry.topics.with(topic, |entry| f(entry.and_then(Option::as_ref))))
    }

    fn for_each_topic(&self, mut f: impl FnMut(&str, &Entry)) -> Result<(), Stale> {
        self.registry.topics.try_for_each(|name, entry| {
            if let Some(entry) = entry {
                f(name, entry);
            }
            Ok(())
        })
    }
}

impl Publisher for DirtyHandle {
    fn publish(&mut self, change: Change) {
        *self.registry.root.write() = change.root;
        for (name, entry) in change.topics {
            self.registry.topics.update(name, |held| match held {
                Some(held) => {
                    *held = entry;
                    None
                }
                None => Some(entry),
            });
        }
    }
}

/// The same snapshots behind an `ArcSwap`: what one would build first.
pub struct ArcSwapRegistry {
    newest: ArcSwap<Snapshot>,
}

impl Registry for ArcSwapRegistry {
    const NAME: &'static str = "arc-swap";
    type Reader = ArcSwapReader;
    type Publisher = ArcSwapPublisher;

    fn new() -> (Arc<Self>, ArcSwapPublisher) {
        let registry = Arc::new(Self { newest: ArcSwap::from_pointee(Snapshot::empty()) });
        (Arc::clone(&registry), ArcSwapPublisher { registry, building: Snapshot::empty() })
    }

    fn reader(self: &Arc<Self>) -> ArcSwapReader {
        ArcSwapReader { registry: Arc::clone(self) }
    }
}

/// Loads the newest snapshot for each query.
pub struct ArcSwapReader {
    registry: Arc<ArcSwapRegistry>,
}

impl Reader for ArcSwapReader {
    type View<'a> = Snapshot;

    fn read<R>(&mut self, mut query: impl FnMut(&Snapshot) -> Result<R, Stale>) -> R {
        let snapshot: Guard<Arc<Snapshot>> = self.registry.newest.load();
        match query(&snapshot) {
            Ok(result) => result,
            Err(stale) => unreachable!("a snapshot never fails: {stale:?}"),
        }
    }
}

/// Builds and stores; whoever lets go of the old snapshot last drops it.
pub struct ArcSwapPublisher {
    registry: Arc<ArcSwapRegistry>,
    building: Snapshot,
}

impl Publisher for ArcSwapPublisher {
    fn publish(&mut self, change: Change) {
        self.building.apply(change);
        self.registry.newest.store(Arc::new(self.building.clone()));
    }
}

/// A map that never changes once a reader has it: the floor under every read.
pub struct FrozenRegistry {
    state: RwLock<Snapshot>,
}

impl Registry for FrozenRegistry {
    const NAME: &'static str = "frozen";
    type Reader = FrozenReader;
    type Publisher = FrozenPublisher;

    fn new() -> (Arc<Self>, FrozenPublisher) {
        let registry = Arc::new(Self { state: RwLock::new(Snapshot::empty()) });
        (Arc::clone(&registry), FrozenPublisher { registry })
    }

    fn reader(self: &Arc<Self>) -> FrozenReader {
        FrozenReader { state: self.state.read().clone() }
    }
}

/// Reads what was there when it was made.
pub struct FrozenReader {
    state: Snapshot,
}

impl Reader for FrozenReader {
    type View<'a> = Snapshot;

    fn read<R>(&mut self, mut query: impl FnMut(&Snapshot) -> Result<R, Stale>) -> R {
        match query(&self.state) {
            Ok(result) => result,
            Err(stale) => unreachable!("a snapshot never fails: {stale:?}"),
        }
    }
}

/// Changes what later readers begin with.
pub struct FrozenPublisher {
    registry: Arc<FrozenRegistry>,
}

impl Publisher for FrozenPublisher {
    fn publish(&mut self, change: Change) {
        self.registry.state.write().apply(change);
    }
}

opaque_debug!(
    DirtyRegistry,
    DirtyHandle,
    ArcSwapRegistry,
    ArcSwapReader,
    ArcSwapPublisher,
    FrozenRegistry,
    FrozenReader,
    FrozenPublisher
);
