//! Topics: which groups serve them.

use std::{hash::BuildHasher, sync::Arc};

use foldhash::fast::RandomState;
use hashbrown::HashTable;

use super::{Slot, groups::Groups, shrink};
use crate::{Name, TopicMapping};

/// A static-topic mapping and the group whose broker brought it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OwnedMapping {
    pub(crate) owner: u32,
    pub(crate) mapping: TopicMapping,
}

/// What the tables hold of one topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TopicValue {
    /// Sorted by the name of the group. May hold slots of dead groups, which do not count.
    pub(crate) slots: Arc<[Slot]>,
    /// Sorted by `bname`, which is unique in the list.
    pub(crate) mappings: Option<Arc<Vec<OwnedMapping>>>,
}

#[derive(Debug)]
struct Topic {
    name: Name,
    value: TopicValue,
    /// Account of the source that made it.
    account: u32,
}

/// Parts of the index by name: each is moved by itself when it grows or shrinks, so that a change never waits for a move of
/// millions of topics.
const SHARDS: usize = 256;

/// All topics: a dense list, so that a sweep can walk it in steps, and an index by name.
pub(crate) struct Topics {
    list: Vec<Topic>,
    by_name: Box<[HashTable<u32>]>,
    hasher: RandomState,
}

impl Default for Topics {
    fn default() -> Self {
        Self {
            list: Vec::new(),
            by_name: (0..SHARDS).map(|_| HashTable::new()).collect(),
            hasher: RandomState::default(),
        }
    }
}

/// What [`Topics::remove_groups`] removed.
#[derive(Debug, Default)]
pub(crate) struct Removed {
    pub(crate) slots: Vec<Slot>,
    pub(crate) mappings: Vec<OwnedMapping>,
    /// The groups of both, each once, that are to be told.
    pub(crate) touched: Vec<u32>,
}

impl Removed {
    pub(crate) fn is_empty(&self) -> bool {
        self.slots.is_empty() && self.mappings.is_empty()
    }
}

impl Topics {
    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    pub(crate) fn find(&self, name: &str) -> Option<usize> {
        let hash = self.hasher.hash_one(name);
        self.by_name[shard_of(hash)].find(hash, |&at| *self.list[at as usize].name == *name).map(|&at| at as usize)
    }

    /// Adds a topic with nothing in it, which must be new, and returns its position.
    pub(crate) fn add(&mut self, name: &str, account: u32) -> usize {
        let at = self.list.len();
        let value = TopicValue { slots: Arc::default(), mappings: None };
        self.list.push(Topic { name: name.into(), value, account });
        let Self { list, by_name, hasher } = self;
        let hash = hasher.hash_one(name);
        let rehash = |&at: &u32| hasher.hash_one(&*list[at as usize].name);
        by_name[shard_of(hash)].insert_unique(hash, position(at), rehash);
        at
    }

    /// Account of the source that made the topic.
    pub(crate) fn account(&self, at: usize) -> u32 {
        self.list[at].account
    }

    pub(crate) fn entry(&self, at: usize) -> (&Name, &TopicValue) {
        let topic = &self.list[at];
        (&topic.name, &topic.value)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Name, &TopicValue)> {
        self.list.iter().map(|topic| (&topic.name, &topic.value))
    }

    pub(crate) fn slot_of(&self, at: usize, group: u32) -> Option<Slot> {
        self.list[at].value.slots.iter().copied().find(|slot| slot.group == group)
    }

    /// Puts a slot in the place of its group's old one, or where the group's name belongs.
    pub(crate) fn put_slot(&mut self, at: usize, slot: Slot, groups: &Groups) {
        let slots = &mut self.list[at].value.slots;
        if let Some(place) = slots.iter().position(|held| held.group == slot.group) {
            let mut new: Arc<[Slot]> = slots.iter().copied().collect();
            Arc::get_mut(&mut new).expect("nobody else has it yet")[place] = slot;
            *slots = new;
            return;
        }
        let name = &groups.at(slot.group).name;
        let place = slots.partition_point(|held| groups.at(held.group).name <= *name);
        *slots = slots[..place].iter().copied().chain([slot]).chain(slots[place..].iter().copied()).collect();
    }

    /// The mapping of a topic under a `bname`.
    pub(crate) fn mapping_of(&self, at: usize, bname: Option<&Name>) -> Option<&OwnedMapping> {
        let all = self.list[at].value.mappings.as_ref()?;
        let place = all.binary_search_by(|held| held.mapping.bname.as_ref().cmp(&bname)).ok()?;
        Some(&all[place])
    }

    /// Puts a mapping under its `bname` and returns the one that was there.
    pub(crate) fn put_mapping(&mut self, at: usize, owner: u32, mapping: TopicMapping) -> Option<OwnedMapping> {
        let held = &mut self.list[at].value.mappings;
        let mut all: Vec<OwnedMapping> = held.as_ref().map(|all| all.to_vec()).unwrap_or_default();
        let replaced = match all.binary_search_by(|held| held.mapping.bname.cmp(&mapping.bname)) {
            Ok(place) => Some(std::mem::replace(&mut all[place], OwnedMapping { owner, mapping })),
            Err(place) => {
                all.insert(place, OwnedMapping { owner, mapping });
                None
            }
        };
        *held = Some(Arc::new(all));
        replaced
    }

    /// Removes the slots and mappings of the groups that `leaves` picks.
    pub(crate) fn remove_groups(&mut self, at: usize, leaves: impl Fn(u32) -> bool) -> Removed {
        let value = &mut self.list[at].value;
        let mut removed = Removed::default();
        if value.slots.iter().any(|slot| leaves(slot.group)) {
            let (gone, kept): (Vec<Slot>, Vec<Slot>) = value.slots.iter().partition(|slot| leaves(slot.group));
            removed.slots = gone;
            value.slots = kept.into();
        }
        if let Some(mappings) = &value.mappings
            && mappings.iter().any(|mapping| leaves(mapping.owner))
        {
            let (gone, kept): (Vec<_>, Vec<_>) = mappings.iter().cloned().partition(|mapping| leaves(mapping.owner));
            removed.mappings = gone;
            value.mappings = if kept.is_empty() { None } else { Some(Arc::new(kept)) };
        }
        let owners = removed.mappings.iter().map(|mapping| mapping.owner);
        removed.touched = removed.slots.iter().map(|slot| slot.group).chain(owners).collect();
        removed.touched.sort_unstable();
        removed.touched.dedup();
        removed
    }

    pub(crate) fn is_vacant(&self, at: usize) -> bool {
        let value = &self.list[at].value;
        value.slots.is_empty() && value.mappings.is_none()
    }

    /// Removes the topic at `at`; the last one takes its place.
    pub(crate) fn remove(&mut self, at: usize) {
        let Self { list, by_name, hasher } = self;
        let hash = hasher.hash_one(&*list[at].name);
        let shard = &mut by_name[shard_of(hash)];
        if let Ok(entry) = shard.find_entry(hash, |&held| held as usize == at) {
            entry.remove();
        }
        list.swap_remove(at);
        shrink::list(list);
        if at < list.len() {
            let moved_from = list.len();
            let hash = hasher.hash_one(&*list[at].name);
            if let Some(held) = by_name[shard_of(hash)].find_mut(hash, |&held| held as usize == moved_from) {
                *held = position(at);
            }
        }
        shrink::table(&mut by_name[shard_of(hash)], |&at| hasher.hash_one(&*list[at as usize].name));
    }

    /// For how many topics there is room: in the list, and in the index.
    pub(crate) fn room(&self) -> (usize, usize) {
        (self.list.capacity(), self.by_name.iter().map(HashTable::capacity).sum())
    }
}

/// The part of a hash, by bits that its table uses neither for its buckets (the lowest) nor for its tags (the highest seven).
fn shard_of(hash: u64) -> usize {
    (hash >> 40) as usize % SHARDS
}

fn position(at: usize) -> u32 {
    u32::try_from(at).expect("topics_max is below 2^32")
}

impl std::fmt::Debug for Topics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.list.iter()).finish()
    }
}
