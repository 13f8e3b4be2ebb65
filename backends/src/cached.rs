//! Immutable snapshots, and in each reader a cached pointer to the newest one that is checked by a version number.
//!
//! # Guarantees
//! A query runs on one immutable snapshot, so it sees one state. The writer puts the new snapshot in its place before it
//! raises the version, and answers after that: a read that begins later finds the version raised and takes the new
//! snapshot. Versions only grow, and a reader never goes back to an older snapshot. Linearizable.
//!
//! # Costs
//! * Memory: the newest state, what older snapshots do not share with it while a reader still holds one, and for a
//!   moment the copy that a change makes of the shards it touches.
//! * A read: one atomic load of a word that is written only when something is published; no read-modify-write, nothing
//!   that readers share. After a change, once for each reader: a mutex for the time of one pointer copy.
//! * A change: copies the shards it touches, O(T / 256) each, in the worst case the whole map of pointers; one topic
//!   costs tens of microseconds at 100,000 topics, a root-only change (wipe, address, death) next to nothing.
//! * Who waits: readers never wait for a change to be built or dropped, only for each other's pointer copy. The writer
//!   waits for nobody, and it alone drops old snapshots.
//!
//! # Choose this when
//! The tail of lookups counts, and you want it without unsafe code.
//!
//! # Do not choose this when
//! Memory is short, or single topics change all the time on a registry of very many.
//!
//! # How an old snapshot is let go
//! The publisher keeps every snapshot that it has replaced and drops it in a later [`tick`](Publisher::tick) or publish,
//! when it holds the last reference: so a reader never runs the destructor of a large state. A reader that has
//! nothing to read calls [`refresh`](Reader::refresh), or it would keep its snapshot, and the publisher all its own parts,
//! alive.

use std::sync::Arc;

use registry_core::{Change, Publisher, Reader, Registry, Stale};

use crate::{
    snapshot::Snapshot,
    sync::{AtomicU64, Mutex, Ordering, fence},
};

/// The registry as a versioned snapshot. See the [module](self).
pub struct CachedRegistry {
    version: Padded<AtomicU64>,
    newest: Mutex<Arc<Snapshot>>,
}

/// A line of its own: every read loads the word inside, which only a publication writes.
#[repr(align(128))]
struct Padded<T>(T);

impl CachedRegistry {
    /// The newest snapshot and a version that is not newer than it.
    fn newest(&self) -> (u64, Arc<Snapshot>) {
        let newest = self.newest.lock();
        // Under the lock, and the version is raised under it: they belong together.
        (self.version.0.load(Ordering::Relaxed), Arc::clone(&newest))
    }
}

impl Registry for CachedRegistry {
    const NAME: &'static str = "cached";
    type Reader = CachedReader;
    type Publisher = CachedPublisher;

    fn new() -> (Arc<Self>, CachedPublisher) {
        let newest = Arc::new(Snapshot::empty());
        let building = (*newest).clone();
        let registry = Arc::new(Self { version: Padded(AtomicU64::new(0)), newest: Mutex::new(newest) });
        (Arc::clone(&registry), CachedPublisher { registry, building, replaced: Vec::new() })
    }

    fn reader(self: &Arc<Self>) -> CachedReader {
        let (version, snapshot) = self.newest();
        CachedReader { registry: Arc::clone(self), version, snapshot }
    }
}

/// Reads the snapshot that it holds, after a look at whether it is still the newest.
pub struct CachedReader {
    registry: Arc<CachedRegistry>,
    version: u64,
    snapshot: Arc<Snapshot>,
}

impl Reader for CachedReader {
    type View<'a> = Snapshot;

    fn read<R>(&mut self, mut query: impl FnMut(&Snapshot) -> Result<R, Stale>) -> R {
        self.refresh();
        match query(&self.snapshot) {
            Ok(result) => result,
            Err(stale) => unreachable!("a snapshot never fails: {stale:?}"),
        }
    }

    fn refresh(&mut self) {
        // Pairs with the fence of the publisher: a publication that was over before this read began is seen by the load,
        // whatever way the news of its end has taken.
        fence(Ordering::SeqCst);
        if self.registry.version.0.load(Ordering::Acquire) != self.version {
            (self.version, self.snapshot) = self.registry.newest();
        }
    }
}

/// Builds the next snapshot beside the newest and puts it in its place.
pub struct CachedPublisher {
    registry: Arc<CachedRegistry>,
    /// The state of the newest snapshot, to build the next one from.
    building: Snapshot,
    /// Snapshots that a reader may still hold.
    replaced: Vec<Arc<Snapshot>>,
}

impl Publisher for CachedPublisher {
    fn publish(&mut self, change: Change) {
        self.building.apply(change);
        let next = Arc::new(self.building.clone());
        let replaced = {
            let mut newest = self.registry.newest.lock();
            let replaced = std::mem::replace(&mut *newest, next);
            let version = self.registry.version.0.load(Ordering::Relaxed);
            self.registry.version.0.store(version + 1, Ordering::Release);
            replaced
        };
        fence(Ordering::SeqCst);
        self.replaced.push(replaced);
        self.tick();
    }

    fn tick(&mut self) {
        // A count of one cannot grow again: only the registry gave out copies, and it has forgotten this snapshot.
        self.replaced.retain(|snapshot| Arc::strong_count(snapshot) > 1);
    }
}

opaque_debug!(CachedRegistry, CachedReader, CachedPublisher);
