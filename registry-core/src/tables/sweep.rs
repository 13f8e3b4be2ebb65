//! Removal of what dead groups left in the topics, a bounded step at a time.

use super::Tables;

/// The dead groups whose slots are still in topics, and how far the present walk has come.
#[derive(Debug, Default)]
pub(crate) struct Sweep {
    /// Groups that the present walk removes.
    walking: Vec<u32>,
    /// Groups that died since it began: the next walk's.
    waiting: Vec<u32>,
    /// The walk goes down the list of topics and has yet to look at those below this position. What is removed behind
    /// it, or moved there, has been looked at; new topics never have slots of dead groups.
    below: usize,
}

impl Sweep {
    pub(super) fn add(&mut self, group: u32) {
        self.waiting.push(group);
    }
}

impl Tables {
    /// Looks at up to `topics` topics and removes what dead groups left in them; says whether there is more to do.
    ///
    /// Gives memory back that tables have become too large for. Cost: O(`topics`), and O(dead groups). Nothing that a reader
    /// can see changes.
    pub fn sweep(&mut self, topics: usize) -> bool {
        self.live.shrink();
        self.groups.shrink();
        if self.sweep.walking.is_empty() {
            if self.sweep.waiting.is_empty() {
                return false;
            }
            self.sweep.walking = std::mem::take(&mut self.sweep.waiting);
            self.sweep.below = self.topics.len();
            for &group in &self.sweep.walking {
                self.groups.at_mut(group).is_walked = true;
            }
        }
        let mut below = self.sweep.below.min(self.topics.len());
        let end = below.saturating_sub(topics);
        while below > end {
            below -= 1;
            self.remove_walked(below);
        }
        self.sweep.below = below;
        self.free_swept();
        !self.sweep.walking.is_empty() || !self.sweep.waiting.is_empty()
    }

    /// Removes from a topic what the groups of the present walk have in it.
    fn remove_walked(&mut self, at: usize) {
        let (_, value) = self.topics.entry(at);
        let owners = value.mappings.iter().flat_map(|all| all.iter()).map(|mapping| mapping.owner);
        let groups = value.slots.iter().map(|slot| slot.group).chain(owners);
        let mut leaving: Vec<u32> = groups.filter(|&group| self.groups.at(group).is_walked).collect();
        leaving.sort_unstable();
        if !leaving.is_empty() {
            self.remove_from_topic(at, |group| leaving.binary_search(&group).is_ok());
        }
    }

    /// Frees the indices of groups that are in no topic any more.
    fn free_swept(&mut self) {
        let mut walking = std::mem::take(&mut self.sweep.walking);
        walking.retain(|&group| {
            let is_swept = self.groups.at(group).is_swept();
            if is_swept {
                self.free_group(group);
            }
            !is_swept
        });
        self.sweep.walking = walking;
    }
}
