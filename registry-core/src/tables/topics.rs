//! Topics: which groups serve them.

use std::{hash::BuildHasher, sync::Arc};

use foldhash::fast::RandomState;
use hashbrown::HashTable;

use super::{Slot, groups::Groups};
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
    pub(crate) mappings: Option<Arc<[OwnedMapping]>>,
}

#[derive(Debug)]
struct Topic {
    name: Name,
    value: TopicValue,
}

/// All topics: a dense list, so that a sweep can walk it in steps, and an index by name.
#[derive(Default)]
pub(crate) struct Topics {
    list: Vec<Topic>,
    by_name: HashTable<u32>,
    hasher: RandomState,
}

/// What [`Topics::remove_groups`] removed.
#[derive(Debug, Default)]
pub(crate) struct Removed {
    pub(crate) slots: Vec<Slot>,
    pub(crate) mapping_owners: Vec<u32>,
    /// The groups of both, each once, that are to be told.
    pub(crate) touched: Vec<u32>,
}

impl Removed {
    pub(crate) fn is_empty(&self) -> bool {
        self.slots.is_empty() && self.mapping_owners.is_empty()
    }
}

impl Topics {
    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    pub(crate) fn find(&self, name: &str) -> Option<usize> {
        let hash = self.hasher.hash_one(name);
        self.by_name.find(hash, |&at| *self.list[at as usize].name == *name).map(|&at| at as usize)
    }

    /// Position of a topic, which is added with nothing in it if it is new.
    pub(crate) fn find_or_add(&mut self, name: &str) -> usize {
        if let Some(at) = self.find(name) {
            return at;
        }
        let at = u32::try_from(self.list.len()).expect("topics_max is below 2^32");
        self.list.push(Topic { name: name.into(), value: TopicValue { slots: Arc::default(), mappings: None } });
        let Self { list, by_name, hasher } = self;
        by_name.insert_unique(hasher.hash_one(name), at, |&at| hasher.hash_one(&*list[at as usize].name));
        at as usize
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

    /// Puts a mapping under its `bname` and returns the owner of the one that was there.
    pub(crate) fn put_mapping(&mut self, at: usize, owner: u32, mapping: TopicMapping) -> Option<u32> {
        let held = &mut self.list[at].value.mappings;
        let mut all: Vec<OwnedMapping> = held.as_deref().unwrap_or_default().to_vec();
        let replaced = match all.binary_search_by(|held| held.mapping.bname.cmp(&mapping.bname)) {
            Ok(place) => Some(std::mem::replace(&mut all[place], OwnedMapping { owner, mapping }).owner),
            Err(place) => {
                all.insert(place, OwnedMapping { owner, mapping });
                None
            }
        };
        *held = Some(all.into());
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
            removed.mapping_owners = gone.iter().map(|mapping| mapping.owner).collect();
            value.mappings = if kept.is_empty() { None } else { Some(kept.into()) };
        }
        removed.touched = removed.slots.iter().map(|slot| slot.group).chain(removed.mapping_owners.clone()).collect();
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
        let hash = self.hasher.hash_one(&*self.list[at].name);
        if let Ok(entry) = self.by_name.find_entry(hash, |&held| held as usize == at) {
            entry.remove();
        }
        self.list.swap_remove(at);
        if at < self.list.len() {
            let moved_from = self.list.len();
            let hash = self.hasher.hash_one(&*self.list[at].name);
            if let Some(held) = self.by_name.find_mut(hash, |&held| held as usize == moved_from) {
                *held = u32::try_from(at).expect("topics_max is below 2^32");
            }
        }
    }
}

impl std::fmt::Debug for Topics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(&self.list).finish()
    }
}
