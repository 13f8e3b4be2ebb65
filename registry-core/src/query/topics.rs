//! Lists of topics: 206, 224, 311, 312, 313.

use crate::{Entry, QueueSettings, Root, Stale, View, json::write_string, mutant};

/// Which topics a unit list names, by the flags of the topic's first group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnitTopics {
    /// Unit topics (`GET_UNIT_TOPIC_LIST`, 311).
    Unit,
    /// Topics with unit subscriptions (`GET_HAS_UNIT_SUB_TOPIC_LIST`, 312).
    UnitSubscription,
    /// Topics with unit subscriptions that are not unit topics (`GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST`, 313).
    UnitSubscriptionOnly,
}

impl UnitTopics {
    fn has(self, settings: QueueSettings) -> bool {
        let is_unit = settings.topic_sys_flag & 1 != 0;
        let is_subscription = settings.topic_sys_flag & 2 != 0;
        match self {
            Self::Unit => is_unit,
            Self::UnitSubscription => is_subscription,
            Self::UnitSubscriptionOnly => is_subscription && !is_unit,
        }
    }
}

/// Writes the names of all topics (`GET_ALL_TOPIC_LIST_FROM_NAMESERVER`, 206).
///
/// Cost: O(T log T) in the number of topics.
///
/// # Errors
/// [`Stale`], for the strategy.
pub fn all_topics(view: &impl View, out: &mut Vec<u8>) -> Result<(), Stale> {
    write_topics(view, out, |root, entry| {
        let counts = |group| root.group(group).is_some() || mutant::is("lists.topics_of_the_dead");
        entry.slots.iter().any(|slot| counts(slot.group))
    })
}

/// Writes the names of the topics that a cluster serves (`GET_TOPICS_BY_CLUSTER`, 224); none for an unknown cluster.
///
/// Cost: O(T log T) in the number of topics.
///
/// # Errors
/// [`Stale`], for the strategy.
pub fn topics_of_cluster(view: &impl View, cluster: &str, out: &mut Vec<u8>) -> Result<(), Stale> {
    let root = view.root();
    let clusters = root.clusters();
    let names = clusters.binary_search_by(|(name, _)| (**name).cmp(cluster)).map_or(&[][..], |at| &clusters[at].1);
    let mut groups: Vec<u32> = names.iter().filter_map(|name| root.group_index(name)).collect();
    groups.sort_unstable();
    write_topics(view, out, |_, entry| entry.slots.iter().any(|slot| groups.binary_search(&slot.group).is_ok()))
}

/// Writes the names of topics by their unit flags (311, 312, 313).
///
/// The original looks at the flags of one group of the topic, whichever comes first; here it is the first by name.
/// Cost: O(T log T) in the number of topics.
///
/// # Errors
/// [`Stale`], for the strategy.
pub fn unit_topics(view: &impl View, which: UnitTopics, out: &mut Vec<u8>) -> Result<(), Stale> {
    write_topics(view, out, |root, entry| {
        let mut served = entry.slots.iter().filter_map(|slot| root.group(slot.group)?.setting(slot.setting));
        served.next().is_some_and(|setting| which.has(setting.settings))
    })
}

fn write_topics(view: &impl View, out: &mut Vec<u8>, has: impl Fn(&Root, &Entry) -> bool) -> Result<(), Stale> {
    let root = view.root();
    let mut names: Vec<Box<str>> = Vec::new();
    view.for_each_topic(|name, entry| {
        if has(root, entry) {
            names.push(name.into());
        }
    })?;
    names.sort_unstable();
    out.extend_from_slice(b"{\"topicList\":");
    write_names(out, names.iter().map(|name| &**name));
    out.push(b'}');
    Ok(())
}

/// Writes a list of strings.
pub(super) fn write_names<'a>(out: &mut Vec<u8>, names: impl Iterator<Item = &'a str>) {
    out.push(b'[');
    for (at, name) in names.enumerate() {
        if at > 0 {
            out.push(b',');
        }
        write_string(out, name);
    }
    out.push(b']');
}
