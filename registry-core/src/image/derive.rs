//! Deriving the image from the tables: the change that a delta makes, and the whole from scratch.

use std::{collections::BTreeMap, sync::Arc};

use super::{Change, Entry, Group, Root};
use crate::{
    LiveKey, Name,
    tables::{Delta, Tables, is_worth_shrinking},
};

/// The writer's image: the newest root, from which the next one is derived.
#[derive(Debug)]
pub struct Image {
    root: Arc<Root>,
}

impl Image {
    /// The image of empty tables.
    pub fn empty() -> Self {
        Self { root: Arc::new(Root::empty()) }
    }

    /// The newest root.
    pub fn root(&self) -> &Arc<Root> {
        &self.root
    }

    /// Takes what has changed in the tables since the last call and makes the change of the image; `None` if nothing
    /// did.
    ///
    /// Cost: O(what changed), O(groups) pointers for a new root, and O(clusters and groups of those that changed) for clusters.
    pub fn derive(&mut self, tables: &mut Tables) -> Option<Change> {
        let delta = tables.take_delta();
        if delta.is_empty() {
            return None;
        }
        let mut root = (*self.root).clone();
        root.version += 1;
        apply_groups(&mut root, tables, &delta);
        for key in &delta.live {
            match tables.live_record(key) {
                Some(record) => root.live.insert(key.clone(), Arc::clone(record)),
                None => {
                    root.live.remove(key);
                }
            }
        }
        apply_clusters(&mut root, tables, &delta);
        let are_clusters_changed = !delta.clusters.is_empty();
        // A group that comes or dies is listed, or no more.
        if delta.topic_lists || are_clusters_changed {
            root.topics_version = root.version;
        }
        if !delta.groups.is_empty() || are_clusters_changed {
            root.groups_version = root.version;
        }
        self.root = Arc::new(root);
        let topics =
            delta.topics.into_iter().map(|(name, value)| (name, value.map(|value| Entry::new(&value)))).collect();
        Some(Change { root: Arc::clone(&self.root), topics })
    }

    /// The whole image of the tables, made from scratch: the truth that [`Image::derive`] is tested against.
    #[doc(hidden)]
    pub fn from_scratch(tables: &Tables) -> (Root, BTreeMap<Name, Entry>) {
        let mut root = Root::empty();
        let groups = 0..tables.group_indices();
        root.groups = groups.map(|index| tables.group(index).map(|group| Arc::new(group_of(tables, group)))).collect();
        for (index, group) in (0..).zip(&root.groups) {
            if let Some(group) = group {
                root.by_name.insert(group.name.clone(), index);
            }
        }
        for key in tables.live_keys() {
            let record = tables.live_record(key).expect("the key is in the table");
            root.live.insert(key.clone(), Arc::clone(record));
        }
        root.clusters = clusters_of(tables);
        let topics = tables.topic_values().map(|(name, value)| (name.clone(), Entry::new(value))).collect();
        (root, topics)
    }
}

fn apply_groups(root: &mut Root, tables: &Tables, delta: &Delta) {
    let indices = tables.group_indices() as usize;
    if root.groups.len() < indices {
        let mut groups = std::mem::take(&mut root.groups).into_vec();
        // Room for more, so that a thousand new groups do not copy the list a thousand times over.
        groups.resize(indices.next_power_of_two(), None);
        root.groups = groups.into();
    }
    for &index in &delta.groups {
        // One that was born and died between two deltas was never here, and its index may be gone.
        let Some(place) = root.groups.get_mut(index as usize) else { continue };
        let held = place.take();
        // The index may be another group's by now, and the name may have another index: an earlier turn has put it.
        if let Some(held) = held
            && root.by_name.get(&held.name) == Some(&index)
        {
            root.by_name.remove(&held.name);
        }
        if let Some(group) = tables.group(index) {
            root.by_name.insert(group.name.clone(), index);
            root.groups[index as usize] = Some(Arc::new(group_of(tables, group)));
        }
    }
    if is_worth_shrinking(indices, root.groups.len()) {
        // What is behind is gone: the tables have given its indices up.
        root.groups = root.groups.iter().take(indices.next_power_of_two()).cloned().collect();
    }
}

fn group_of(tables: &Tables, group: &crate::tables::Group) -> Group {
    let mut filter_servers: Vec<(Name, Vec<Option<Name>>)> = group
        .members()
        .iter()
        // The original looks filter servers up under the cluster of the group.
        .filter(|member| member.live_cluster == group.cluster)
        .map(|member| {
            let key = LiveKey { cluster: group.cluster.clone(), addr: member.addr.clone() };
            (member.addr.clone(), tables.filter_servers(&key).to_vec())
        })
        .filter(|(_, filters)| !filters.is_empty())
        .collect();
    filter_servers.sort();
    Group::new(group, filter_servers)
}

fn clusters_of(tables: &Tables) -> Arc<[(Name, Arc<[Name]>)]> {
    let names = |cluster| tables.cluster(cluster).into_iter().flatten().cloned().collect();
    tables.clusters().map(|cluster| (cluster.clone(), names(cluster))).collect()
}

fn apply_clusters(root: &mut Root, tables: &Tables, delta: &Delta) {
    if delta.clusters.is_empty() {
        return;
    }
    let mut clusters = root.clusters.to_vec();
    for cluster in &delta.clusters {
        let place = clusters.binary_search_by(|(name, _)| name.cmp(cluster));
        match (place, tables.cluster(cluster)) {
            (Ok(at), Some(names)) => clusters[at].1 = names.iter().cloned().collect(),
            (Ok(at), None) => drop(clusters.remove(at)),
            (Err(at), Some(names)) => clusters.insert(at, (cluster.clone(), names.iter().cloned().collect())),
            // Came and went between two deltas.
            (Err(_), None) => {}
        }
    }
    root.clusters = clusters.into();
}
