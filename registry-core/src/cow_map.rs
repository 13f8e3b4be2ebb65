//! A hash map whose clones share what has not changed since.

use std::{borrow::Borrow, fmt, hash::BuildHasher, hash::Hash, sync::Arc};

use foldhash::fast::RandomState;
use hashbrown::HashTable;

use crate::tables::shrink_table;

/// A hash map of copy-on-write shards.
///
/// A clone copies one pointer for each shard. A write to a map whose shards are shared with a clone copies the shard it
/// touches, once: many writes between two clones cost as if the map were not shared.
///
/// A shard that has become much too large for what it holds gives its memory back when an entry is removed.
///
/// Costs, for n entries in s shards: `get` O(1); `clone` O(s); the first write to a shard after a clone O(n / s); each
/// further one O(1).
#[derive(Clone)]
pub struct CowMap<K, V> {
    shards: Box<[Shard<K, V>]>,
    hasher: RandomState,
    len: usize,
}

type Shard<K, V> = Arc<HashTable<(K, V)>>;

impl<K: Hash + Eq + Clone, V: Clone> CowMap<K, V> {
    /// Makes an empty map of `shards` shards, rounded up to a power of two.
    pub fn new(shards: usize) -> Self {
        let shards = (0..shards.next_power_of_two()).map(|_| Arc::default()).collect();
        Self { shards, hasher: RandomState::default(), len: 0 }
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Says whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The value of `key`.
    pub fn get<Q>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let hash = self.hasher.hash_one(key);
        self.shards[self.shard_of(hash)].find(hash, |(held, _)| held.borrow() == key).map(|(_, value)| value)
    }

    /// Puts `value` under `key`.
    pub fn insert(&mut self, key: K, value: V) {
        let hash = self.hasher.hash_one(&key);
        let shard = self.shard_of(hash);
        let table = Arc::make_mut(&mut self.shards[shard]);
        if let Some((_, held)) = table.find_mut(hash, |(held, _)| *held == key) {
            *held = value;
            return;
        }
        let hasher = &self.hasher;
        table.insert_unique(hash, (key, value), |(key, _)| hasher.hash_one(key));
        self.len += 1;
    }

    /// Removes `key`, and says whether it was there.
    pub fn remove<Q>(&mut self, key: &Q) -> bool
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let hash = self.hasher.hash_one(key);
        let shard = self.shard_of(hash);
        if self.shards[shard].find(hash, |(held, _)| held.borrow() == key).is_none() {
            return false;
        }
        let table = Arc::make_mut(&mut self.shards[shard]);
        if let Ok(entry) = table.find_entry(hash, |(held, _)| held.borrow() == key) {
            entry.remove();
            self.len -= 1;
        }
        let hasher = &self.hasher;
        shrink_table(table, |(key, _)| hasher.hash_one(key));
        true
    }

    /// All entries, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.shards.iter().flat_map(|shard| shard.iter().map(|(key, value)| (key, value)))
    }

    /// The shard of a hash, by bits that the shard's own table uses neither for its buckets (the lowest) nor for its
    /// tags (the highest seven).
    fn shard_of(&self, hash: u64) -> usize {
        (hash >> 40) as usize & (self.shards.len() - 1)
    }
}

impl<K: fmt::Debug, V: fmt::Debug> fmt::Debug for CowMap<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.shards.iter().flat_map(|shard| shard.iter().map(|(k, v)| (k, v)))).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::CowMap;

    #[test]
    fn memory_goes_back_when_entries_go() {
        let room = |map: &CowMap<u32, u32>| map.shards.iter().map(|shard| shard.capacity()).sum::<usize>();
        let mut map = CowMap::new(4);
        for key in 0..100_000 {
            map.insert(key, key);
        }
        let kept = map.clone();
        for key in 100..100_000 {
            assert!(map.remove(&key));
        }
        assert!(room(&map) < 4_000, "room for {} of 100 entries", room(&map));
        assert!((0..100).all(|key| map.get(&key) == Some(&key)));
        assert_eq!(kept.len(), 100_000);
        assert!((0..100_000).all(|key| kept.get(&key) == Some(&key)));
    }

    proptest! {
        #[test]
        fn agrees_with_a_plain_map_and_clones_keep_their_state(
            ops in prop::collection::vec((0u8..40, prop::option::of(any::<u16>()), any::<bool>()), 0..200),
        ) {
            let mut map = CowMap::new(8);
            let mut model = BTreeMap::new();
            let mut kept = Vec::new();
            for (key, value, keep) in ops {
                match value {
                    Some(value) => {
                        map.insert(key, value);
                        model.insert(key, value);
                    }
                    None => prop_assert_eq!(map.remove(&key), model.remove(&key).is_some()),
                }
                if keep {
                    kept.push((map.clone(), model.clone()));
                }
            }
            kept.push((map, model));
            for (map, model) in kept {
                prop_assert_eq!(map.len(), model.len());
                prop_assert_eq!(map.is_empty(), model.is_empty());
                for key in 0..40 {
                    prop_assert_eq!(map.get(&key), model.get(&key));
                }
                let all: BTreeMap<_, _> = map.iter().map(|(key, value)| (*key, *value)).collect();
                prop_assert_eq!(all, model);
            }
        }
    }
}
