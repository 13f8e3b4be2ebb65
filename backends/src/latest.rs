//! A pointer to the newest of a sequence of immutable values, which readers keep a copy of and check by its number.
//!
//! Shared by the strategies that need no more than this to be consistent: [`cached`](crate::cached) points to the whole
//! state, [`dashmap`](crate::dashmap) to the small tables.
//!
//! * **L1**: the number is raised after the value is in its place and under the same lock, so a number and the value that
//!   was copied with it belong together, and a number that has been seen is that of a value that can be had.
//! * **L2**: a publication that returned before a [`LatestReader::refresh`] began is seen by it: between the raise of the
//!   number and the return, and between the begin and the look at the number, stands a sequentially consistent fence.
//! * **L3**: numbers only grow, so a reader never goes back; and a value that one reader has returned with is seen by every
//!   refresh that begins later, though its publication may not have returned. So a reader that takes a new value has a
//!   sequentially consistent fence behind it, as the publication has.
//! * **L4**: whoever replaces a value keeps it until nobody else does, so a reader never runs the destructor of a large
//!   one.

use std::sync::Arc;

use crate::sync::{AtomicU64, Mutex, Ordering, Padded, fence};

/// The newest value and its number.
pub(crate) struct Latest<T> {
    number: Padded<AtomicU64>,
    value: Mutex<Arc<T>>,
}

impl<T> Latest<T> {
    pub(crate) fn new(value: Arc<T>) -> Self {
        Self { number: Padded(AtomicU64::new(0)), value: Mutex::new(value) }
    }

    fn copy(&self) -> (u64, Arc<T>) {
        let value = self.value.lock();
        // L1: under the lock, under which it is raised.
        (self.number.0.load(Ordering::Relaxed), Arc::clone(&value))
    }
}

/// A reader's copy of the newest value.
pub(crate) struct LatestReader<T> {
    number: u64,
    value: Arc<T>,
}

impl<T> LatestReader<T> {
    pub(crate) fn new(latest: &Latest<T>) -> Self {
        let (number, value) = latest.copy();
        Self { number, value }
    }

    /// Takes the newest value, if it has changed. One atomic load; after a change a mutex for the copy of a pointer.
    pub(crate) fn refresh(&mut self, latest: &Latest<T>) {
        // L2, pairs with the fence in `publish`.
        fence(Ordering::SeqCst);
        // Relaxed: the value is had under the lock, and what is kept has been.
        if latest.number.0.load(Ordering::Relaxed) != self.number {
            (self.number, self.value) = latest.copy();
            // L3, pairs with the fence at the beginning of the next reader's refresh.
            fence(Ordering::SeqCst);
        }
    }

    pub(crate) fn value(&self) -> &T {
        &self.value
    }

    pub(crate) fn shared(&self) -> &Arc<T> {
        &self.value
    }
}

/// The values that were replaced and that a reader may still hold (L4).
pub(crate) struct Replaced<T>(Vec<Arc<T>>);

impl<T> Replaced<T> {
    pub(crate) fn new() -> Self {
        Self(Vec::new())
    }

    /// Puts `value` in the place of the newest.
    pub(crate) fn publish(&mut self, latest: &Latest<T>, value: Arc<T>) {
        let replaced = {
            let mut newest = latest.value.lock();
            let replaced = std::mem::replace(&mut *newest, value);
            latest.number.0.fetch_add(1, Ordering::Relaxed);
            replaced
        };
        // L2, pairs with the fence in `refresh`.
        fence(Ordering::SeqCst);
        self.0.push(replaced);
        self.drop_unused();
    }

    /// Drops the values that no reader holds any more.
    pub(crate) fn drop_unused(&mut self) {
        // A count of one cannot grow again: only `Latest` gave out copies, and it has forgotten this value.
        self.0.retain(|value| Arc::strong_count(value) > 1);
    }
}
