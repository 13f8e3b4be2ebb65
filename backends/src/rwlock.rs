//! One `parking_lot::RwLock` over everything: the strategy of the original, done with care.
//!
//! # Guarantees
//! A query holds the shared lock from beginning to end, so it sees one state; a change is applied under the exclusive
//! lock, so it is seen whole or not at all, and by every read that begins after it. Linearizable by construction.
//!
//! # Costs
//! * Memory: the state once.
//! * A read: one atomic increment and decrement of a word that all readers share; on many cores that word is the limit.
//! * A change: O(changed topics) under the exclusive lock. Decoding, comparing and encoding are done before it is taken,
//!   and what the change replaces is dropped after it is released.
//! * Who waits: readers wait while a change is applied (about 0.1 us a topic); the writer waits for the queries that
//!   are running, the longest of which collects the names of all topics (4 ms per 100,000). While it waits for that one it
//!   has not asked for the lock yet, so other readers go on.
//!
//! # Choose this when
//! Memory counts most, changes are small or rare, or you want the strategy that is easiest to be sure of.
//!
//! # Do not choose this when
//! The tail of lookups must not show a large registration, or many cores look up at once.
//!
//! # When something goes wrong
//! A writer that panics does so before or after the exclusive lock is held, which is free of code that could: readers go on
//! with the last state. A reader that stalls inside a read stops the writer, and with it every reader that comes after.
//! A publisher that is dropped leaves the last state.

use std::sync::Arc;

use registry_core::{Change, Entry, Name, Publisher, Reader, Registry, Stale};

use crate::{
    state::State,
    sync::{Mutex, Padded, RwLock},
};

/// The registry behind one read-write lock. See the [module](self).
pub struct RwLockRegistry {
    // A line of its own: readers write to the lock word, and would otherwise share its line with what they read.
    state: Padded<RwLock<State>>,
    /// Held by a scan, and while a change is applied: a publisher that waits for a scan does so here, where it is in no
    /// reader's way. One that waits for the lock itself keeps every later reader out.
    scans: Mutex<()>,
}

impl Registry for RwLockRegistry {
    const NAME: &'static str = "rwlock";
    type Reader = RwLockReader;
    type Publisher = RwLockPublisher;

    fn new() -> (Arc<Self>, RwLockPublisher) {
        let registry = Arc::new(Self { state: Padded(RwLock::new(State::empty())), scans: Mutex::new(()) });
        (Arc::clone(&registry), RwLockPublisher { registry })
    }

    fn reader(self: &Arc<Self>) -> RwLockReader {
        RwLockReader { registry: Arc::clone(self) }
    }
}

/// Reads under the shared lock, held for the length of one query.
pub struct RwLockReader {
    registry: Arc<RwLockRegistry>,
}

impl Reader for RwLockReader {
    type View<'a> = State;

    fn read<R>(&mut self, mut query: impl FnMut(&State) -> Result<R, Stale>) -> R {
        let state = self.registry.state.0.read();
        match query(&state) {
            Ok(result) => result,
            Err(stale) => unreachable!("a view under the lock never fails: {stale:?}"),
        }
    }

    fn scan<R>(&mut self, query: impl FnMut(&State) -> Result<R, Stale>) -> R {
        let registry = Arc::clone(&self.registry);
        let _no_change = registry.scans.lock();
        self.read(query)
    }
}

/// Applies changes under the exclusive lock.
pub struct RwLockPublisher {
    registry: Arc<RwLockRegistry>,
}

impl Publisher for RwLockPublisher {
    fn publish(&mut self, change: Change) {
        let Change { mut root, topics } = change;
        let mut replaced: Vec<(Option<Name>, Option<Entry>)> = Vec::with_capacity(topics.len());
        {
            let _no_scan = self.registry.scans.lock();
            let mut state = self.registry.state.0.write();
            std::mem::swap(&mut state.root, &mut root);
            for (name, entry) in topics {
                replaced.push(match entry {
                    Some(entry) => (None, state.topics.insert(name, entry)),
                    None => state.topics.remove_entry(&name).map_or((Some(name), None), |(n, e)| (Some(n), Some(e))),
                });
            }
            state.shrink();
        }
        // The lock is free: readers go on while the old values are dropped.
        drop((root, replaced));
    }
}

opaque_debug!(RwLockRegistry, RwLockReader, RwLockPublisher);
