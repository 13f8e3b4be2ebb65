//! Two copies of the maps, one for the readers and one for the writer, which change places: the `left-right` crate.
//!
//! # Guarantees
//! A query runs inside a guard on the copy that readers have, which nobody changes while a guard is held: it sees one
//! state. A change is made on the other copy, which then becomes the readers' by one swap of a pointer; the publisher
//! answers after that. Linearizable: a reader that meets a change first has a sequentially consistent fence behind it, as
//! the publication has, so that every read that begins after its return sees the change, too.
//!
//! # Costs
//! * Memory: the maps twice, their values once (both copies share them).
//! * A read: two atomic writes to a word of the reader's own, and one load: wait-free, whatever the writer does.
//! * A change: made twice, once on each copy, the second time when the next change is published.
//! * Who waits: readers never. The writer waits, before it touches the copy that was the readers' until the last change,
//!   for every reader that is still in it: a reader that stalls inside a read stops the writer at the second change after.
//!   While it waits it spins, yielding its core; for a scan, which collects the names of all topics (4 ms per 100,000),
//!   it sleeps.
//!
//! # Choose this when
//! Lookups must never wait, many cores look up, and memory for a second map is there.
//!
//! # Do not choose this when
//! Memory is short.
//!
//! # When something goes wrong
//! A writer that panics while it makes a change has not swapped: readers go on with the last state. A publisher that is
//! dropped hands its half over to the registry, so readers go on with the last state, too.
//!
//! # What must not be done
//! A handle is made once for each thread: making one waits for a publication that waits for readers, and making one
//! inside a read would never end. [`Reader::read`] takes `&mut self` and the handle is private, so it cannot happen.

use std::sync::Arc;

use left_right::{Absorb, ReadHandle, ReadHandleFactory, WriteHandle};
use registry_core::{BesideARead, Change, Publisher, Reader, Registry, Stale};

use crate::{
    state::State,
    sync::{Mutex, Ordering, Tracked, fence},
};

/// Both copies come to equal states: a change says everything, and nothing else is looked at.
impl Absorb<Change> for Tracked<State> {
    fn absorb_first(&mut self, change: &mut Change, _: &Self) {
        apply(self.get_mut(), change.clone());
    }

    fn absorb_second(&mut self, change: Change, _: &Self) {
        apply(self.get_mut(), change);
    }

    fn sync_with(&mut self, first: &Self) {
        self.get_mut().clone_from(first.get());
    }
}

fn apply(state: &mut State, change: Change) {
    state.root = change.root;
    for (name, entry) in change.topics {
        match entry {
            Some(entry) => drop(state.topics.insert(name, entry)),
            None => drop(state.topics.remove(&name)),
        }
    }
    state.shrink();
}

type Writer = WriteHandle<Tracked<State>, Change>;

/// The registry in two copies. See the [module](self).
pub struct LeftRightRegistry {
    readers: ReadHandleFactory<Tracked<State>>,
    /// The writing half of a publisher that is gone: while it exists, readers can read.
    abandoned: Mutex<Option<Writer>>,
    /// Held by a scan, and while a change is published: a publisher that waits for a scan sleeps here. One that waits for a
    /// guard turns and turns, and takes the processor from whoever holds it.
    scans: Mutex<()>,
}

impl Registry for LeftRightRegistry {
    const NAME: &'static str = "left-right";
    const BESIDE_A_READ: BesideARead = BesideARead { between_topics: 1, at_a_topic: 1 };
    type Reader = LeftRightReader;
    type Publisher = LeftRightPublisher;

    fn new() -> (Arc<Self>, LeftRightPublisher) {
        let (mut writer, reader) = left_right::new_from_empty(Tracked::new(State::empty()));
        // Readers can enter from the first publication on.
        writer.publish();
        let registry = Arc::new(Self { readers: reader.factory(), abandoned: Mutex::new(None), scans: Mutex::new(()) });
        (Arc::clone(&registry), LeftRightPublisher { registry, writer: Some(writer) })
    }

    fn reader(self: &Arc<Self>) -> LeftRightReader {
        LeftRightReader { handle: self.readers.handle(), seen: 0, registry: Arc::clone(self) }
    }
}

/// Reads the copy that is the readers' when it enters.
pub struct LeftRightReader {
    handle: ReadHandle<Tracked<State>>,
    /// Version of the newest state that it has met.
    seen: u64,
    /// Keeps the writing half, which may be in there.
    registry: Arc<LeftRightRegistry>,
}

impl Reader for LeftRightReader {
    type View<'a> = State;

    fn read<R>(&mut self, mut query: impl FnMut(&State) -> Result<R, Stale>) -> R {
        let Some(state) = self.handle.enter() else {
            unreachable!("the writing half is with the publisher or with the registry, and both outlive this reader");
        };
        let version = state.get().root.version();
        if version != self.seen {
            self.seen = version;
            // Pairs with the fence in the next reader's `enter`.
            fence(Ordering::SeqCst);
        }
        match query(state.get()) {
            Ok(result) => result,
            Err(stale) => unreachable!("a copy under a guard never fails: {stale:?}"),
        }
    }

    fn scan<R>(&mut self, query: impl FnMut(&State) -> Result<R, Stale>) -> R {
        let registry = Arc::clone(&self.registry);
        let _no_change = registry.scans.lock();
        self.read(query)
    }
}

/// Makes each change on the copy that readers do not have, and swaps.
pub struct LeftRightPublisher {
    registry: Arc<LeftRightRegistry>,
    writer: Option<Writer>,
}

impl Publisher for LeftRightPublisher {
    fn publish(&mut self, change: Change) {
        let Some(writer) = &mut self.writer else {
            return;
        };
        writer.append(change);
        let _no_scan = self.registry.scans.lock();
        writer.publish();
    }
}

impl Drop for LeftRightPublisher {
    fn drop(&mut self) {
        *self.registry.abandoned.lock() = self.writer.take();
    }
}

opaque_debug!(LeftRightRegistry, LeftRightReader, LeftRightPublisher);
