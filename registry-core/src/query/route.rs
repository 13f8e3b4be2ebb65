//! `GET_ROUTEINFO_BY_TOPIC` (105).

use crate::{Entry, Group, KeyStyle, Root, Setting, Stale, View, json::write_string};

/// Topics on which brokers look their own group up; they want to see real ids (`TopicValidator.SYNC_BROKER_MEMBER_GROUP_PREFIX`).
const SYNC_MEMBER_PREFIX: &str = "rmq_sys_SYNC_BROKER_MEMBER_";

/// A question for the route of a topic.
#[derive(Clone, Copy, Debug)]
pub struct RouteQuery<'a> {
    /// `topic`.
    pub topic: &'a str,
    /// How numeric keys are written.
    pub style: KeyStyle,
    /// Whether the smallest id of a group without master is shown as 0 (`supportActingMaster`).
    pub acting_master: bool,
    /// Only brokers of this zone, or without a master (`__ZONE_NAME` with `__ZONE_MODE`).
    pub zone: Option<&'a str>,
    /// `orderTopicConf` of the topic.
    pub order_conf: Option<&'a str>,
}

/// Writes the route (`TopicRouteData`) of a topic; says `false` and writes nothing when the topic has none.
///
/// The route is one consistent whole: queue data, broker data, filter servers and mappings are of one state.
/// Cost: O(groups of the topic) lookups and O(bytes of the answer) copied; no allocation beyond `out`.
///
/// # Errors
/// [`Stale`], for the strategy.
pub fn route(view: &impl View, query: &RouteQuery<'_>, out: &mut Vec<u8>) -> Result<bool, Stale> {
    let start = out.len();
    let is_found = view.with_topic(query.topic, |entry| match entry {
        Some(entry) => write_route(view.root(), entry, query, out),
        None => false,
    });
    if is_found.is_err() {
        out.truncate(start);
    }
    is_found
}

pub(super) fn write_route(root: &Root, entry: &Entry, query: &RouteQuery<'_>, out: &mut Vec<u8>) -> bool {
    let served = || {
        entry.slots.iter().filter_map(|slot| {
            let group = root.group(slot.group)?;
            Some((group, group.setting(slot.setting)?))
        })
    };
    if served().next().is_none() {
        return false;
    }
    let acting_master = query.acting_master && !query.topic.starts_with(SYNC_MEMBER_PREFIX);
    let acting = |group: &Group, setting: &Setting| {
        acting_master && !setting.settings.is_writable() && group.acting_broker_data(query.style).is_some()
    };
    let shown = || {
        served().filter(|&(group, setting)| match query.zone {
            None => true,
            Some(zone) => {
                let has_master = group.has_master() || acting(group, setting);
                !has_master || group.zone.as_deref().is_some_and(|held| is_same_zone(held, zone))
            }
        })
    };

    out.extend_from_slice(b"{\"brokerDatas\":[");
    write_list(out, shown(), |out, (group, setting)| {
        let data = if acting(group, setting) { group.acting_broker_data(query.style) } else { None };
        out.extend_from_slice(data.unwrap_or_else(|| group.broker_data(query.style)));
    });
    out.extend_from_slice(b"],\"filterServerTable\":{");
    if shown().any(|(group, _)| !group.filter_servers.is_empty()) {
        write_filter_servers(out, shown().map(|(group, _)| group));
    }
    out.push(b'}');
    if let Some(order_conf) = query.order_conf {
        out.extend_from_slice(b",\"orderTopicConf\":");
        write_string(out, order_conf);
    }
    out.extend_from_slice(b",\"queueDatas\":[");
    write_list(out, shown(), |out, (group, setting)| out.extend_from_slice(group.queue_data(setting)));
    out.push(b']');
    write_mappings(root, entry, query.style, out);
    out.push(b'}');
    true
}

fn write_list<T>(out: &mut Vec<u8>, items: impl Iterator<Item = T>, mut write: impl FnMut(&mut Vec<u8>, T)) {
    for (at, item) in items.enumerate() {
        if at > 0 {
            out.push(b',');
        }
        write(out, item);
    }
}

/// Writes the filter servers of all addresses, sorted by address. Hardly any broker has some, since 4.9.
fn write_filter_servers<'a>(out: &mut Vec<u8>, groups: impl Iterator<Item = &'a Group>) {
    let mut pieces: Vec<_> = groups.flat_map(|group| group.filter_servers.iter()).collect();
    pieces.sort();
    pieces.dedup_by(|a, b| a.0 == b.0);
    write_list(out, pieces.into_iter(), |out, (_, piece)| out.extend_from_slice(piece));
}

fn write_mappings(root: &Root, entry: &Entry, style: KeyStyle, out: &mut Vec<u8>) {
    let Some(mappings) = &entry.mappings else {
        return;
    };
    let shown = || mappings.iter().filter(|mapping| root.group(mapping.owner).is_some());
    if shown().next().is_none() {
        return;
    }
    out.extend_from_slice(b",\"topicQueueMappingByBroker\":{");
    write_list(out, shown(), |out, mapping| out.extend_from_slice(mapping.piece(style)));
    out.push(b'}');
}

/// Equal but for case, as `String.equalsIgnoreCase`.
fn is_same_zone(a: &str, b: &str) -> bool {
    a.eq_ignore_ascii_case(b) || (!a.is_ascii() && !b.is_ascii() && a.to_lowercase() == b.to_lowercase())
}
