//! Where ours differs from the original on purpose, and how the random sequences keep away from it.
//!
//! Sections are those of the specification of the original; 6.1 lists its defects. Each of these differences has its
//! own test in the replay of recorded answers or in the tests of the registry.

use std::collections::HashSet;

use serde_json::Map;

use crate::op::{CLOSE, Op};
use crate::request::{self, ADDRS};
use crate::shadow::{Outcome, Shadow};
use crate::support::canonical::Body;
use crate::support::frame::Frame;

type Exclusion = fn(&Shadow, &Op) -> bool;

/// Steps that are not sent.
pub(crate) const SKIPPED: &[(&str, Exclusion)] = &[
    ("group_of_another_cluster", group_of_another_cluster),
    ("address_of_another_group", address_of_another_group),
    ("late_farewell", late_farewell),
    ("refusal_with_effects", refusal_with_effects),
    ("partial_topic_registration", partial_topic_registration),
    ("live_entry_of_a_replaced_address", live_entry_of_a_replaced_address),
    ("address_of_nobody", address_of_nobody),
];

/// The name of the exclusion that a step falls under.
pub(crate) fn of(shadow: &Shadow, op: &Op) -> Option<&'static str> {
    SKIPPED.iter().find(|(_, excluded)| excluded(shadow, op)).map(|(name, _)| *name)
}

/// 6.1 Q13: with another cluster than the group's, the original lists the name under both and, when it goes, removes
/// it from one; the live entry of such a registration outlives its connection (3.3, destroy by key).
fn group_of_another_cluster(shadow: &Shadow, op: &Op) -> bool {
    let cluster = shadow.names.cluster(op);
    matches!(op.code, 103 | 104) && shadow.group(op).is_some_and(|group| group.cluster != cluster)
}

/// 6.1 Q12, Q13: an address in two groups of a cluster has one live entry, which the first departure takes away; the
/// other group is left without one. Also 104 with a name that is not the group's.
fn address_of_another_group(shadow: &Shadow, op: &Op) -> bool {
    matches!(op.code, 103 | 104) && shadow.other_group_with_address(op).is_some()
}

/// 6.1 Q5: the original unregisters by address alone. Ours ignores a farewell that is older than the registration.
fn late_farewell(shadow: &Shadow, op: &Op) -> bool {
    op.code == 104 && shadow.is_of_the_past(op)
}

/// 6.1 Q11: a refused registration creates the group, sets zone and acting flag, and moves the address off its old id
/// in the original. Only refusals that have nothing to change are compared.
fn refusal_with_effects(shadow: &Shadow, op: &Op) -> bool {
    if op.code != 103 || !matches!(shadow.outcome(op), Outcome::Conflict | Outcome::SingleTopic) {
        return false;
    }
    let broker = shadow.broker(op);
    let zone = (op.zone > 0).then(|| format!("z{}", op.zone));
    let untouched = shadow
        .group(op)
        .is_some_and(|group| group.acting == (op.acting == 1) && group.zone == zone && !group.has(&broker.1));
    !untouched || shadow.live.contains_key(&broker) || shadow.ghosts.contains(&broker)
}

/// 6.1 Q16: 217 for a known topic is applied until the first unknown broker in the original.
fn partial_topic_registration(shadow: &Shadow, op: &Op) -> bool {
    if op.code != 217 || !shadow.topics.contains(&shadow.names.topic(op.topic)) {
        return false;
    }
    let known = |broker: &i64| shadow.groups.contains_key(&shadow.names.broker(*broker));
    let named = request::named_brokers(op);
    named.first().is_some_and(known) && !named.iter().all(known)
}

/// 6.1 Q12: the original still answers for an address that lost its id to another.
fn live_entry_of_a_replaced_address(shadow: &Shadow, op: &Op) -> bool {
    op.code == 322 && shadow.ghosts.contains(&shadow.broker(op))
}

/// Not a difference: the last address of the universe is the one that nobody registers or loses.
fn address_of_nobody(_: &Shadow, op: &Op) -> bool {
    matches!(op.code, 103 | CLOSE) && op.addr >= ADDRS
}

/// 6.1 Q12: an address that lost its id is new to ours, and known, with its data version and its filter servers, to
/// the original. It returns with a data version that neither has seen, and in a form that says which filter servers.
pub(crate) fn return_as_new(shadow: &Shadow, op: Op, unseen: i64) -> Op {
    if op.code != 103 || !shadow.ghosts.contains(&shadow.broker(&op)) {
        return op;
    }
    Op { counter: unseen, version: op.version.max(1), body: 0, ..op }
}

/// 6.1 Q9: a lost connection takes one of its brokers along in the original, all in ours. Every broker address has
/// connections of its own, two of them.
pub(crate) fn connection_of(shadow: &Shadow, op: &Op) -> (String, String, i64) {
    let (cluster, addr) = shadow.broker(op);
    (cluster, addr, op.link)
}

/// 6.1 Q28: the lists by flag look at one arbitrary broker of a topic in the original.
pub(crate) fn brokers_disagree_on_flags(route: &Frame) -> bool {
    let Some(route) = route.body.as_deref().and_then(Body::parse) else { return false };
    let queues = route.value["queueDatas"].as_array().cloned().unwrap_or_default();
    queues.iter().any(|queue| queue["topicSysFlag"] != queues[0]["topicSysFlag"])
}

/// Parts of an answer that are not compared. `expected` is the original's.
pub(crate) fn ignored(shadow: &Shadow, op: &Op, expected: &Frame) -> Vec<String> {
    let mut parts = Vec::new();
    // 3.7: the address of an arbitrary group.
    if op.code == 304 {
        parts.push("body.brokerAddr".to_string());
    }
    // 6.1 Q23: a zone-filtered route has bare ids in the original, whatever was asked for.
    if request::is_zone_filtered(op) {
        parts.push("style".to_string());
    }
    if op.code == 105 {
        parts.extend(stale_mappings(shadow, &shadow.names.topic(op.topic)));
        if has_an_address_twice(expected) {
            parts.push("body.filterServerTable".to_string());
        }
    }
    parts
}

/// 3.6: filter servers are shown by address alone. When two groups of a route, in two clusters, have the same address,
/// the original shows those of the group that hashing puts last, or none.
fn has_an_address_twice(route: &Frame) -> bool {
    let Some(route) = route.body.as_deref().and_then(Body::parse) else { return false };
    let groups = route.value["brokerDatas"].as_array().cloned().unwrap_or_default();
    let mut seen = HashSet::new();
    let mut addrs = groups.iter().filter_map(|group| group["brokerAddrs"].as_object()).flat_map(Map::values);
    !addrs.all(|addr| seen.insert(addr))
}

/// 6.1 Q14: the original never removes a static mapping.
fn stale_mappings(shadow: &Shadow, topic: &str) -> Vec<String> {
    const TABLE: &str = "body.topicQueueMappingByBroker";
    match shadow.stale_mappings(topic) {
        (stale, _) if stale.is_empty() => Vec::new(),
        (_, true) => vec![TABLE.to_string()],
        (stale, false) => stale.iter().map(|broker| format!("{TABLE}.{broker}")).collect(),
    }
}
