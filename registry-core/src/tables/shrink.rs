//! Memory goes back when tables have become empty.
//!
//! A table that holds less than a sixteenth of what it has room for moves to a smaller one. That costs a move of what it
//! holds, so it is never long: of 100,000 live brokers 6,250 are moved.

use std::{
    collections::{HashMap, HashSet},
    hash::{BuildHasher, Hash},
};

use hashbrown::HashTable;

/// Tables smaller than this are left alone.
const CAPACITY_MIN: usize = 256;

/// Says whether a table with room for `capacity` entries is worth a move.
pub fn is_worth_it(len: usize, capacity: usize) -> bool {
    capacity >= CAPACITY_MIN && len < capacity / 16
}

pub(super) fn list<T>(list: &mut Vec<T>) {
    if is_worth_it(list.len(), list.capacity()) {
        list.shrink_to(list.len() * 2);
    }
}

/// `hash` says where an entry belongs in the smaller table.
pub(crate) fn table<T>(table: &mut HashTable<T>, hash: impl Fn(&T) -> u64) {
    if is_worth_it(table.len(), table.capacity()) {
        table.shrink_to(table.len() * 2, hash);
    }
}

pub(super) fn map<K: Hash + Eq, V, S: BuildHasher>(map: &mut HashMap<K, V, S>) {
    if is_worth_it(map.len(), map.capacity()) {
        map.shrink_to(map.len() * 2);
    }
}

pub(super) fn set<K: Hash + Eq, S: BuildHasher>(set: &mut HashSet<K, S>) {
    if is_worth_it(set.len(), set.capacity()) {
        set.shrink_to(set.len() * 2);
    }
}
