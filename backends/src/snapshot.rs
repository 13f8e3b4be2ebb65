//! An immutable state of the registry, for the strategies that replace it as a whole.

use std::{fmt, sync::Arc};

use registry_core::{Change, CowMap, Entry, Image, Name, Root, Stale, View};

/// Shards of the topic map. A change copies the shards that it touches: with 256, the change of one topic copies a
/// 256th of the map, and publishing a snapshot copies 256 pointers.
const SHARDS: usize = if cfg!(loom) { 2 } else { 256 };

/// A step of the sweep touches every shard, so that a million topics in small steps would be copied a thousand times over.
pub(crate) const SWEEP_TOPICS: usize = 16_384;

/// One state of the registry: the root, and a topic map that shares with other snapshots what did not change between.
#[derive(Clone)]
pub struct Snapshot {
    root: Arc<Root>,
    topics: CowMap<Name, Entry>,
}

impl Snapshot {
    pub(crate) fn empty() -> Self {
        Self { root: Arc::clone(Image::empty().root()), topics: CowMap::new(SHARDS) }
    }

    /// The state after `change`. Cost: O(T / 256) for each shard that it touches, once.
    pub(crate) fn apply(&mut self, change: Change) {
        self.root = change.root;
        for (name, entry) in change.topics {
            match entry {
                Some(entry) => self.topics.insert(name, entry),
                None => {
                    self.topics.remove(&name);
                }
            }
        }
    }
}

impl View for Snapshot {
    fn root(&self) -> &Root {
        &self.root
    }

    fn share_root(&self) -> Arc<Root> {
        Arc::clone(&self.root)
    }

    fn with_topic<R>(&self, topic: &str, f: impl FnOnce(Option<&Entry>) -> R) -> Result<R, Stale> {
        Ok(f(self.topics.get(topic)))
    }

    fn for_each_topic(&self, mut f: impl FnMut(&str, &Entry)) -> Result<(), Stale> {
        self.topics.iter().for_each(|(name, entry)| f(name, entry));
        Ok(())
    }
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snapshot").field("root", &self.root).field("topics", &self.topics.len()).finish()
    }
}
