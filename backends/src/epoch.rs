//! Immutable snapshots behind one atomic pointer, reclaimed by epochs: the `crossbeam-epoch` crate.
//!
//! # Guarantees
//! A query pins the present epoch and runs on the snapshot that the pointer shows: one state. A change builds the next
//! snapshot beside it and swaps the pointer, and answers after that. Linearizable.
//!
//! # Costs
//! * Memory: the newest state, and what replaced snapshots do not share with it until two epochs have gone by.
//! * A read: a store to a word of the reader's own with a full fence, and one load: wait-free, whatever the writer does.
//! * A change: as with [`cached`](crate::cached): a copy of the shards that it touches.
//! * Who waits: nobody for anybody, but in the allocator: the collector has readers free its own small blocks, and the system
//!   allocator may make one wait while the writer's thread frees an old snapshot (tens of microseconds at 10,000 changed
//!   topics, hundreds at 50,000).
//!
//! # Choose this when
//! Lookups must never wait, not even for a pointer copy after each change, and many cores look up.
//!
//! # Do not choose this when
//! You want to be sure of the code without reading `unsafe`; [`cached`](crate::cached) costs about the same.
//!
//! # When something goes wrong
//! A writer that panics leaves the last published snapshot to the readers. A reader that stalls inside a read keeps every
//! snapshot alive that is replaced meanwhile: memory grows with the writes, until it goes on; nobody waits for it. A
//! publisher that is dropped leaves the last state.
//!
//! # Invariants
//! * **I1**: the pointer always shows a snapshot that was made by `Owned::new` and is not null, until the registry is
//!   dropped.
//! * **I2**: a snapshot is freed only after it was taken out of the pointer, by whoever took it out, and two epochs later:
//!   no reader that could have loaded it is still pinned.
//! * **I3**: when the registry is dropped there is no reader and no publisher, each of which holds it.
//! * **I4**: a reader does not free snapshots. The epoch runs what was deferred on whichever thread pins next; so what is
//!   deferred only hands the snapshot back to the publisher, which drops it. Freed by readers, a snapshot of 10,000
//!   topics costs one of them half a millisecond.
//! * **I5**: each publication has a handle of its own, whose beginning frees what has waited for long enough, and whose end
//!   queues what was deferred: with one that is kept, 64 replaced snapshots would wait in its bag. After each swap a
//!   sequentially consistent fence makes it visible to every read that begins after the publication. (The end of the
//!   handle has such a fence, too; nothing depends on that.)
//! * **I6**: a reader that meets a snapshot first has a sequentially consistent fence behind it, so that every read that
//!   begins after its return sees that snapshot, too, though the publication may not have returned.
//!
//! The collector is private: the global one would mix the garbage of whoever else uses it into our readers' pins.

use std::sync::{Arc, mpsc};

use crossbeam_epoch::{Atomic, Collector, LocalHandle, Owned, Shared};
use registry_core::{BesideARead, Change, Publisher, Reader, Registry, Stale, View};

use crate::{
    snapshot::{self, Snapshot},
    sync::{Ordering, Tracked, fence},
};

/// The registry behind an epoch-protected pointer. See the [module](self).
pub struct EpochRegistry {
    current: Atomic<Tracked<Snapshot>>,
    collector: Collector,
}

impl Registry for EpochRegistry {
    const NAME: &'static str = "epoch";
    const BESIDE_A_READ: BesideARead = BesideARead { between_topics: u64::MAX, at_a_topic: u64::MAX };
    type Reader = EpochReader;
    type Publisher = EpochPublisher;

    fn new() -> (Arc<Self>, EpochPublisher) {
        let building = Snapshot::empty();
        let registry =
            Arc::new(Self { current: Atomic::new(Tracked::new(building.clone())), collector: Collector::new() });
        let (give_back, given_back) = mpsc::channel();
        let publisher = EpochPublisher { registry: Arc::clone(&registry), building, give_back, given_back };
        (registry, publisher)
    }

    fn reader(self: &Arc<Self>) -> EpochReader {
        EpochReader { handle: self.collector.register(), seen: 0, registry: Arc::clone(self) }
    }
}

impl Drop for EpochRegistry {
    fn drop(&mut self) {
        let current = std::mem::replace(&mut self.current, Atomic::null());
        // SAFETY: I3: nobody else can reach the pointer, which by I1 owns a snapshot.
        drop(unsafe { current.try_into_owned() });
    }
}

/// Reads what the pointer shows, pinned for the length of one query.
pub struct EpochReader {
    // Before the registry, whose collector it belongs to.
    handle: LocalHandle,
    /// Version of the newest state that it has met.
    seen: u64,
    registry: Arc<EpochRegistry>,
}

impl Reader for EpochReader {
    type View<'a> = Snapshot;

    fn read<R>(&mut self, mut query: impl FnMut(&Snapshot) -> Result<R, Stale>) -> R {
        let guard = self.handle.pin();
        let shared: Shared<'_, Tracked<Snapshot>> = self.registry.current.load(Ordering::Acquire, &guard);
        // SAFETY: I1: not null; I2: loaded under `guard`, so it is not freed while `guard` lives, which outlives `snapshot`.
        let snapshot = unsafe { shared.deref() };
        let version = snapshot.get().root().version();
        if version != self.seen {
            self.seen = version;
            // I6, pairs with the fence in the next reader's `pin`.
            fence(Ordering::SeqCst);
        }
        match query(snapshot.get()) {
            Ok(result) => result,
            Err(stale) => unreachable!("a snapshot never fails: {stale:?}"),
        }
    }
}

/// Builds the next snapshot beside the present one and swaps the pointer.
pub struct EpochPublisher {
    registry: Arc<EpochRegistry>,
    /// The state of the present snapshot, to build the next one from.
    building: Snapshot,
    give_back: mpsc::Sender<Box<Tracked<Snapshot>>>,
    given_back: mpsc::Receiver<Box<Tracked<Snapshot>>>,
}

impl EpochPublisher {
    /// Drops the snapshots that no reader can have any more (I4).
    fn drop_given_back(&self) {
        self.given_back.try_iter().for_each(drop);
    }
}

impl Publisher for EpochPublisher {
    const SWEEP_TOPICS: usize = snapshot::SWEEP_TOPICS;

    fn publish(&mut self, change: Change) {
        self.building.apply(change);
        // A handle for each publication: it is registered and taken back with the guard's end, some hundred nanoseconds.
        let handle = self.registry.collector.register();
        let guard = handle.pin();
        let next = Owned::new(Tracked::new(self.building.clone()));
        // Release: whoever loads the pointer sees what it shows. What comes back was made here.
        let replaced = self.registry.current.swap(next, Ordering::Release, &guard);
        let give_back = self.give_back.clone();
        let replaced = replaced.as_raw().cast_mut();
        let hand_back = move || {
            // SAFETY: I1: made by `Owned::new`, which is a box; I2: taken out of the pointer by the swap above, once, and run
            // when no reader that was pinned then is pinned any more.
            let mut replaced = unsafe { Box::from_raw(replaced) };
            // From here on it is ours alone.
            replaced.get_mut();
            // A publisher that is gone takes nothing back: then it is dropped here.
            let _ = give_back.send(replaced);
        };
        // SAFETY: the function may run on any thread and after this call: it owns all that it uses, and all of that is
        // `Send`.
        unsafe { guard.defer_unchecked(hand_back) };
        // I5.
        fence(Ordering::SeqCst);
        drop(guard);
        drop(handle);
        self.drop_given_back();
    }

    fn tick(&mut self) {
        // On an idle server nobody else moves the epoch on; two steps free what was replaced before.
        let handle = self.registry.collector.register();
        for _ in 0..3 {
            handle.pin().flush();
        }
        self.drop_given_back();
    }
}

opaque_debug!(EpochRegistry, EpochReader, EpochPublisher);
