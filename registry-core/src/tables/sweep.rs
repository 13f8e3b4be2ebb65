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
    /// Cost: O(`topics`). Nothing that a reader can see changes.
    pub fn sweep(&mut self, topics: usize) -> bool {
        if self.sweep.walking.is_empty() {
            if self.sweep.waiting.is_empty() {
                return false;
            }
            self.sweep.walking = std::mem::take(&mut self.sweep.waiting);
            self.sweep.below = self.topics.len();
        }
        let walking = std::mem::take(&mut self.sweep.walking);
        let mut below = self.sweep.below.min(self.topics.len());
        let end = below.saturating_sub(topics);
        while below > end {
            below -= 1;
            self.remove_from_topic(below, |group| walking.contains(&group));
        }
        self.sweep.below = below;
        self.sweep.walking = walking;
        let are_swept = self.sweep.walking.iter().all(|&group| self.groups.at(group).is_swept());
        if below > 0 && !are_swept {
            return true;
        }
        for group in std::mem::take(&mut self.sweep.walking) {
            self.groups.free_swept(group);
        }
        !self.sweep.waiting.is_empty()
    }
}
