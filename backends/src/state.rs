//! A state of the registry that is changed in place, for the strategies that guard one or keep two.

use std::sync::Arc;

use foldhash::fast::RandomState;
use hashbrown::HashMap;
use registry_core::{Entry, Image, Name, Root, Stale, View, is_worth_shrinking};

/// The root and the topics. While somebody can look at it, nobody changes it.
#[derive(Clone)]
pub struct State {
    pub(crate) root: Arc<Root>,
    pub(crate) topics: HashMap<Name, Entry, RandomState>,
}

impl State {
    pub(crate) fn empty() -> Self {
        Self { root: Arc::clone(Image::empty().root()), topics: HashMap::default() }
    }

    /// Gives memory back when most topics have gone. Moves a sixteenth of what there was, at most.
    pub(crate) fn shrink(&mut self) {
        if is_worth_shrinking(self.topics.len(), self.topics.capacity()) {
            self.topics.shrink_to(self.topics.len() * 2);
        }
    }
}

impl View for State {
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

opaque_debug!(State);
