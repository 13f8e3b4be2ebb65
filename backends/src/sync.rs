//! The locks and atomics of the strategies: the real ones, or loom's when a model explores every interleaving.
//!
//! The only file with `cfg(loom)`. Both sides have one shape: methods that return guards, without poisoning.
//! What the stand-ins do not show: fairness, writer priority and time-outs of `parking_lot`.

#![allow(dead_code, unused_imports, reason = "each strategy takes what it needs, and each may be left out")]

/// A line of its own for what many threads write or watch.
#[repr(align(128))]
pub(crate) struct Padded<T>(pub(crate) T);

#[cfg(all(not(loom), any(feature = "baselines", feature = "dashmap")))]
pub(crate) use real::ShardedMap;

#[cfg(not(loom))]
pub(crate) use parking_lot::{Mutex, RwLock};
#[cfg(not(loom))]
pub(crate) use real::Tracked;
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicU64, Ordering, fence};

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU64, Ordering};
#[cfg(loom)]
pub(crate) use model::{Mutex, RwLock, ShardedMap, Tracked, fence};

#[cfg(not(loom))]
mod real {
    #[cfg(any(feature = "baselines", feature = "dashmap"))]
    use std::{borrow::Borrow, hash::Hash};

    #[cfg(any(feature = "baselines", feature = "dashmap"))]
    use foldhash::fast::RandomState;

    /// A value that unsafe code shares. A model notices when it is read while it is changed; here it is the value alone.
    #[derive(Clone)]
    #[repr(transparent)]
    pub(crate) struct Tracked<T>(T);

    impl<T> Tracked<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(value)
        }

        /// To read it.
        pub(crate) fn get(&self) -> &T {
            &self.0
        }

        /// To change it, or to have it alone.
        pub(crate) fn get_mut(&mut self) -> &mut T {
            &mut self.0
        }
    }

    /// `DashMap`, by closures: no guard leaves a call.
    #[cfg(any(feature = "baselines", feature = "dashmap"))]
    pub(crate) struct ShardedMap<K, V>(dashmap::DashMap<K, V, RandomState>);

    #[cfg(any(feature = "baselines", feature = "dashmap"))]
    impl<K: Hash + Eq, V> ShardedMap<K, V> {
        pub(crate) fn new() -> Self {
            Self(dashmap::DashMap::default())
        }

        /// Runs `f` on the value of `key`, under the lock of its shard if there is one.
        pub(crate) fn with<Q, R>(&self, key: &Q, f: impl FnOnce(Option<&V>) -> R) -> R
        where
            K: Borrow<Q>,
            Q: Hash + Eq + ?Sized,
        {
            let held = self.0.get(key);
            f(held.as_deref())
        }

        /// Puts what `f` makes of the value of `key`, under the exclusive lock of its shard.
        pub(crate) fn update(&self, key: K, f: impl FnOnce(Option<&mut V>) -> Option<V>) {
            use dashmap::mapref::entry::Entry;
            match self.0.entry(key) {
                Entry::Occupied(mut held) => {
                    if let Some(value) = f(Some(held.get_mut())) {
                        held.insert(value);
                    }
                }
                Entry::Vacant(free) => {
                    if let Some(value) = f(None) {
                        free.insert(value);
                    }
                }
            }
        }

        /// Removes `key` if its value is as `is_old` says.
        pub(crate) fn remove_if(&self, key: &K, is_old: impl FnOnce(&V) -> bool) {
            self.0.remove_if(key, |_, value| is_old(value));
        }

        /// Gives memory back when most entries have gone.
        pub(crate) fn shrink(&self) {
            if registry_core::is_worth_shrinking(self.0.len(), self.0.capacity()) {
                self.0.shrink_to_fit();
            }
        }

        /// Runs `f` on every entry, under the lock of its shard, until it fails.
        pub(crate) fn try_for_each<E>(&self, mut f: impl FnMut(&K, &V) -> Result<(), E>) -> Result<(), E> {
            self.0.iter().try_for_each(|entry| f(entry.key(), entry.value()))
        }
    }
}

#[cfg(loom)]
mod model {
    use std::{borrow::Borrow, collections::BTreeMap};

    use loom::{
        lazy_static,
        sync::{
            self,
            atomic::{AtomicUsize, Ordering},
        },
    };

    lazy_static! {
        static ref FENCES: AtomicUsize = AtomicUsize::new(0);
    }

    /// A fence before which loom stops threads, as it does before an access of an atomic: it knows of no order between
    /// fences, so it would never put the fence of one thread behind that of another. The access orders nothing.
    pub(crate) fn fence(ordering: Ordering) {
        FENCES.fetch_add(0, Ordering::Relaxed);
        sync::atomic::fence(ordering);
    }

    /// A value with a witness, for loom to compare accesses with: each must come after the changes before it.
    pub(crate) struct Tracked<T> {
        value: T,
        witness: AtomicUsize,
    }

    impl<T> Tracked<T> {
        pub(crate) fn new(value: T) -> Self {
            let mut tracked = Self { value, witness: AtomicUsize::new(0) };
            tracked.get_mut();
            tracked
        }

        pub(crate) fn get(&self) -> &T {
            self.witness.load(Ordering::Relaxed);
            &self.value
        }

        pub(crate) fn get_mut(&mut self) -> &mut T {
            self.witness.with_mut(|_| ());
            &mut self.value
        }
    }

    impl<T: Clone> Clone for Tracked<T> {
        fn clone(&self) -> Self {
            Self::new(self.get().clone())
        }
    }

    /// `loom`'s mutex without poisoning.
    #[derive(Debug)]
    pub(crate) struct Mutex<T>(sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(sync::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> sync::MutexGuard<'_, T> {
            self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
        }
    }

    /// A sharded map with the locks of `loom`: what `DashMap` promises, no more. Two shards, so that two keys can meet in
    /// one or not.
    pub(crate) struct ShardedMap<K, V>([RwLock<BTreeMap<K, V>>; 2]);

    impl<K: Ord + AsRef<str>, V> ShardedMap<K, V> {
        pub(crate) fn new() -> Self {
            Self([RwLock::new(BTreeMap::new()), RwLock::new(BTreeMap::new())])
        }

        fn shard(&self, key: &str) -> &RwLock<BTreeMap<K, V>> {
            &self.0[key.bytes().map(usize::from).sum::<usize>() % 2]
        }

        pub(crate) fn with<R>(&self, key: &str, f: impl FnOnce(Option<&V>) -> R) -> R
        where
            K: Borrow<str>,
        {
            f(self.shard(key).read().get(key))
        }

        pub(crate) fn update(&self, key: K, f: impl FnOnce(Option<&mut V>) -> Option<V>) {
            let mut shard = self.shard(key.as_ref()).write();
            if let Some(value) = f(shard.get_mut(&key)) {
                shard.insert(key, value);
            }
        }

        pub(crate) fn remove_if(&self, key: &K, is_old: impl FnOnce(&V) -> bool) {
            let mut shard = self.shard(key.as_ref()).write();
            if shard.get(key).is_some_and(is_old) {
                shard.remove(key);
            }
        }

        #[expect(clippy::unused_self, reason = "a tree has no more room than it needs")]
        pub(crate) fn shrink(&self) {}

        pub(crate) fn try_for_each<E>(&self, mut f: impl FnMut(&K, &V) -> Result<(), E>) -> Result<(), E> {
            for shard in &self.0 {
                shard.read().iter().try_for_each(|(key, value)| f(key, value))?;
            }
            Ok(())
        }
    }

    /// `loom`'s read-write lock without poisoning.
    #[derive(Debug)]
    pub(crate) struct RwLock<T>(sync::RwLock<T>);

    impl<T> RwLock<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(sync::RwLock::new(value))
        }

        pub(crate) fn read(&self) -> sync::RwLockReadGuard<'_, T> {
            self.0.read().unwrap_or_else(|poisoned| poisoned.into_inner())
        }

        pub(crate) fn write(&self) -> sync::RwLockWriteGuard<'_, T> {
            self.0.write().unwrap_or_else(|poisoned| poisoned.into_inner())
        }
    }
}
