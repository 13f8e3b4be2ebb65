//! Lists of topics: 206, 224, 311, 312, 313.
//!
//! A list is made in two steps: a query collects the names from one state, as they come; what takes long, to sort and to
//! encode them, follows when the query has returned.

use crate::{Entry, QueueSettings, Root, Stale, View, json::write_string};

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

/// The names of topics, as a query has collected them: one after the other in one piece of text.
#[derive(Clone, Debug, Default)]
pub struct TopicNames {
    text: String,
    /// Where each name ends.
    ends: Vec<usize>,
}

impl TopicNames {
    /// Room for so many names that have so many bytes together: with enough of it nothing is allocated while they are
    /// collected.
    pub fn with_capacity(names: usize, bytes: usize) -> Self {
        Self { text: String::with_capacity(bytes), ends: Vec::with_capacity(names) }
    }

    /// Number of names.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Says whether there is no name.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Bytes of all names.
    pub fn bytes(&self) -> usize {
        self.text.len()
    }

    /// The body of an answer with these names, sorted (`TopicList`).
    ///
    /// Cost: O(T log T) in their number.
    pub fn to_list(&self) -> Vec<u8> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        let mut names: Vec<&str> = starts.zip(&self.ends).map(|(start, &end)| &self.text[start..end]).collect();
        names.sort_unstable();
        // Two quotes and a comma for each; what has to be escaped makes it grow.
        let mut out = Vec::with_capacity(LIST_START.len() + self.text.len() + 3 * names.len() + 2);
        out.extend_from_slice(LIST_START);
        write_names(&mut out, names.into_iter());
        out.push(b'}');
        out
    }

    fn clear(&mut self) {
        self.text.clear();
        self.ends.clear();
    }

    fn push(&mut self, name: &str) {
        self.text.push_str(name);
        self.ends.push(self.text.len());
    }
}

const LIST_START: &[u8] = b"{\"topicList\":";

/// Collects the names of all topics (`GET_ALL_TOPIC_LIST_FROM_NAMESERVER`, 206) in the place of what `names` held.
///
/// Cost: O(T) in the number of topics: a copy of each name.
///
/// # Errors
/// [`Stale`], for the strategy.
pub fn all_topics(view: &impl View, names: &mut TopicNames) -> Result<(), Stale> {
    collect(view, names, |root, entry| entry.slots.iter().any(|slot| root.group(slot.group).is_some()))
}

/// Collects the names of the topics that a cluster serves (`GET_TOPICS_BY_CLUSTER`, 224); none for an unknown cluster.
///
/// Cost: O(T) in the number of topics; O(1) for an unknown cluster.
///
/// # Errors
/// [`Stale`], for the strategy.
pub fn topics_of_cluster(view: &impl View, cluster: &str, names: &mut TopicNames) -> Result<(), Stale> {
    let root = view.root();
    let mut groups: Vec<u32> =
        root.groups_of_cluster(cluster).iter().filter_map(|name| root.group_index(name)).collect();
    if groups.is_empty() {
        names.clear();
        return Ok(());
    }
    groups.sort_unstable();
    collect(view, names, |_, entry| entry.slots.iter().any(|slot| groups.binary_search(&slot.group).is_ok()))
}

/// Collects the names of topics by their unit flags (311, 312, 313).
///
/// The original looks at the flags of one group of the topic, whichever comes first; here it is the first by name.
/// Cost: O(T) in the number of topics.
///
/// # Errors
/// [`Stale`], for the strategy.
pub fn unit_topics(view: &impl View, which: UnitTopics, names: &mut TopicNames) -> Result<(), Stale> {
    collect(view, names, |root, entry| {
        let mut served = entry.slots.iter().filter_map(|slot| root.group(slot.group)?.setting(slot.setting));
        served.next().is_some_and(|setting| which.has(setting.settings))
    })
}

/// Runs under whatever guard the strategy has: it copies, and does nothing else.
fn collect(view: &impl View, names: &mut TopicNames, has: impl Fn(&Root, &Entry) -> bool) -> Result<(), Stale> {
    names.clear();
    let root = view.root();
    view.for_each_topic(|name, entry| {
        if has(root, entry) {
            names.push(name);
        }
    })
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

#[cfg(test)]
mod tests {
    use super::TopicNames;

    #[test]
    fn names_are_sorted_and_escaped() {
        let mut names = TopicNames::with_capacity(4, 16);
        assert_eq!(names.to_list(), b"{\"topicList\":[]}");
        for name in ["b", "", "a\"b", "é", "a"] {
            names.push(name);
        }
        assert_eq!(names.to_list(), "{\"topicList\":[\"\",\"a\",\"a\\\"b\",\"b\",\"é\"]}".as_bytes());
        assert_eq!((names.len(), names.bytes(), names.is_empty()), (5, 7, false));
    }

    #[test]
    fn a_list_takes_no_more_memory_than_it_has_bytes() {
        let mut names = TopicNames::default();
        (0..1_000).for_each(|number| names.push(&format!("orders-{number}")));
        let list = names.to_list();
        assert!(list.capacity() - list.len() <= 1, "{} bytes for {}", list.capacity(), list.len());
    }
}
