//! The small tables, as readers see them.

use std::sync::Arc;

use super::Group;
use crate::{CowMap, LiveKey, LiveRecord, Name};

/// Everything but the topics: broker groups, clusters, live brokers. Immutable; a write makes a new one, which shares
/// with the old what did not change.
#[derive(Clone, Debug)]
pub struct Root {
    pub(super) groups: Box<[Option<Arc<Group>>]>,
    pub(super) by_name: CowMap<Name, u32>,
    pub(super) live: CowMap<LiveKey, Arc<LiveRecord>>,
    pub(super) clusters: Arc<[(Name, Arc<[Name]>)]>,
    pub(super) version: u64,
    pub(super) topics_version: u64,
    pub(super) groups_version: u64,
}

impl Root {
    pub(super) fn empty() -> Self {
        Self {
            groups: Box::default(),
            by_name: CowMap::new(16),
            live: CowMap::new(64),
            clusters: Arc::default(),
            version: 0,
            topics_version: 0,
            groups_version: 0,
        }
    }

    /// Number of changes that led to this state. States of one registry are ordered by it.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Version of the state since which no list of topics (206, 224, 311, 312, 313) has changed: no topic was added,
    /// removed, or taken by another group, and no unit flag was changed.
    pub fn topics_version(&self) -> u64 {
        self.topics_version
    }

    /// Version of the state since which no group and no cluster has changed, and so neither 106 nor 304.
    pub fn groups_version(&self) -> u64 {
        self.groups_version
    }

    /// The group at the index that a slot names; `None` when the group is dead and the slot does not count.
    pub fn group(&self, index: u32) -> Option<&Group> {
        self.groups.get(index as usize)?.as_deref()
    }

    /// Index of the group of this name.
    pub fn group_index(&self, name: &str) -> Option<u32> {
        self.by_name.get(name).copied()
    }

    /// The group of this name.
    pub fn group_named(&self, name: &str) -> Option<&Group> {
        self.group(self.group_index(name)?)
    }

    /// All groups, in no particular order.
    pub fn groups(&self) -> impl Iterator<Item = &Group> {
        self.groups.iter().flatten().map(|group| &**group)
    }

    /// The clusters, sorted by name, each with the sorted names of the groups that it lists.
    pub fn clusters(&self) -> &[(Name, Arc<[Name]>)] {
        &self.clusters
    }

    /// The names of the groups that a cluster lists, sorted; none for an unknown cluster.
    pub fn groups_of_cluster(&self, cluster: &str) -> &[Name] {
        let place = self.clusters.binary_search_by(|(name, _)| (**name).cmp(cluster));
        place.map_or(&[], |at| &self.clusters[at].1)
    }

    /// What is known of a live broker.
    pub fn live(&self, key: &LiveKey) -> Option<&LiveRecord> {
        self.live.get(key).map(|record| &**record)
    }

    /// Number of live brokers.
    pub fn live_brokers(&self) -> usize {
        self.live.len()
    }
}
