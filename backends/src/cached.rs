//! Immutable snapshots, and in each reader a cached pointer to the newest one that is checked by a number.
//!
//! # Guarantees
//! A query runs on one immutable snapshot, so it sees one state. The writer puts the new snapshot in its place before it
//! raises the number, and answers after that: a read that begins later finds the number raised and takes the new
//! snapshot. Numbers only grow, and a reader never goes back to an older snapshot. Linearizable; the steps are named L1
//! to L4 in the module `latest`.
//!
//! # Costs
//! * Memory: the newest state, what older snapshots do not share with it while a reader still holds one, and for a
//!   moment the copy that a change makes of the shards it touches.
//! * A read: one full fence and one atomic load of a word that is written only when something is published; no
//!   read-modify-write, and nothing that readers write to together. After a change, once for each reader: a mutex for
//!   the time of one pointer copy.
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
//! # When something goes wrong
//! A writer that panics leaves the last published snapshot to the readers. A reader that stalls inside a read keeps the
//! parts of its snapshot alive that newer ones have replaced, and nobody waits for it. A publisher that is dropped leaves
//! the last state.
//!
//! # How an old snapshot is let go
//! The publisher keeps every snapshot that it has replaced and drops it in a later [`tick`](Publisher::tick) or publish,
//! when it holds the last reference: so a reader never runs the destructor of a large state. A reader that has
//! nothing to read calls [`refresh`](Reader::refresh), or it would keep its snapshot, and the publisher all its own parts,
//! alive.

use std::sync::Arc;

use registry_core::{BesideARead, Change, Publisher, Reader, Registry, Stale};

use crate::{
    latest::{Latest, LatestReader, Replaced},
    snapshot::{self, Snapshot},
};

/// The registry as a numbered snapshot. See the [module](self).
pub struct CachedRegistry {
    newest: Latest<Snapshot>,
}

impl Registry for CachedRegistry {
    const NAME: &'static str = "cached";
    const BESIDE_A_READ: BesideARead = BesideARead { between_topics: u64::MAX, at_a_topic: u64::MAX };
    type Reader = CachedReader;
    type Publisher = CachedPublisher;

    fn new() -> (Arc<Self>, CachedPublisher) {
        let newest = Snapshot::empty();
        let building = newest.clone();
        let registry = Arc::new(Self { newest: Latest::new(Arc::new(newest)) });
        (Arc::clone(&registry), CachedPublisher { registry, building, replaced: Replaced::new() })
    }

    fn reader(self: &Arc<Self>) -> CachedReader {
        CachedReader { registry: Arc::clone(self), snapshot: LatestReader::new(&self.newest) }
    }
}

/// Reads the snapshot that it holds, after a look at whether it is still the newest.
pub struct CachedReader {
    registry: Arc<CachedRegistry>,
    snapshot: LatestReader<Snapshot>,
}

impl Reader for CachedReader {
    type View<'a> = Snapshot;

    fn read<R>(&mut self, mut query: impl FnMut(&Snapshot) -> Result<R, Stale>) -> R {
        self.refresh();
        match query(self.snapshot.value()) {
            Ok(result) => result,
            Err(stale) => unreachable!("a snapshot never fails: {stale:?}"),
        }
    }

    fn refresh(&mut self) {
        self.snapshot.refresh(&self.registry.newest);
    }
}

/// Builds the next snapshot beside the newest and puts it in its place.
pub struct CachedPublisher {
    registry: Arc<CachedRegistry>,
    /// The state of the newest snapshot, to build the next one from.
    building: Snapshot,
    replaced: Replaced<Snapshot>,
}

impl Publisher for CachedPublisher {
    const SWEEP_TOPICS: usize = snapshot::SWEEP_TOPICS;

    fn publish(&mut self, change: Change) {
        self.building.apply(change);
        self.replaced.publish(&self.registry.newest, Arc::new(self.building.clone()));
    }

    fn tick(&mut self) {
        self.replaced.drop_unused();
    }
}

opaque_debug!(CachedRegistry, CachedReader, CachedPublisher);
