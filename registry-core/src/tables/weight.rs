//! How much things weigh: in answers exactly or a little more, in memory as an estimate. The same thing always weighs the
//! same, so what was charged is released.

use super::{Tables, groups::Group, ledger::Usage, live::LiveEntry};
use crate::{LiveKey, Name, TopicMapping, json::string_len};

/// Memory of a topic, in tables and image, without its name: entries of two lists and two hash tables.
const TOPIC_BYTES: usize = 160;
/// Memory of a group's share in a topic.
const SLOT_BYTES: usize = 16;
/// Memory of a group, in tables and image, without its names.
const GROUP_BYTES: usize = 1_024;
/// Memory of one of a group's distinct settings, without the group's name.
const SETTING_BYTES: usize = 192;
/// Memory of a live broker without its names: its entry, its record, its pulse, in tables and image.
const BROKER_BYTES: usize = 640;
const CLUSTER_BYTES: usize = 256;
const MAPPING_BYTES: usize = 256;
/// Memory of a name beside its text.
const NAME_BYTES: usize = 32;
/// Keys, punctuation and numbers of a group in a route: `BrokerData` and `QueueData`.
const GROUP_TEXT_BYTES: usize = 224;
/// The longest id with its quotes, colon and comma.
const ID_TEXT_BYTES: usize = 24;
/// Keys, punctuation and the two single numbers of a mapping.
const MAPPING_TEXT_BYTES: usize = 128;

/// A topic, without what serves it.
pub(super) fn topic(name: &str) -> Usage {
    Usage { topics: 1, topic_list_bytes: string_len(name) + 1, bytes: TOPIC_BYTES + name.len(), ..Usage::default() }
}

/// A group's share in a topic.
pub(super) fn slot() -> Usage {
    Usage::of_bytes(SLOT_BYTES)
}

/// One of the distinct settings of a group.
pub(super) fn setting(group: &str) -> usize {
    SETTING_BYTES + string_len(group)
}

pub(super) fn cluster(name: &str) -> Usage {
    Usage { clusters: 1, bytes: CLUSTER_BYTES + name.len(), ..Usage::default() }
}

pub(super) fn mapping(mapping: &TopicMapping) -> Usage {
    let ids = mapping.curr_id_map.as_ref().map_or(0, |ids| ids.len() * 8);
    // The text is there in both spellings; the names once more.
    Usage::of_bytes(MAPPING_BYTES + 3 * mapping_text(mapping) + ids)
}

/// Bytes of a mapping in a route.
pub(super) fn mapping_text(mapping: &TopicMapping) -> usize {
    let names = [&mapping.bname, &mapping.bname, &mapping.scope, &mapping.topic];
    let names: usize = names.into_iter().flatten().map(|name| string_len(name)).sum();
    let ids = mapping.curr_id_map.iter().flat_map(|ids| ids.iter());
    // With quotes, colon and comma.
    let ids: usize = ids.map(|&(logic, physical)| digits(logic) + digits(physical) + 4).sum();
    MAPPING_TEXT_BYTES + names + ids
}

fn digits(number: i32) -> usize {
    let sign = usize::from(number < 0);
    sign + number.unsigned_abs().checked_ilog10().map_or(1, |log| log as usize + 1)
}

pub(super) fn broker(key: &LiveKey, entry: &LiveEntry) -> Usage {
    broker_of(key, entry.record.ha_addr.as_ref(), &entry.record.broker_name, &entry.filter_servers)
}

/// A live broker.
pub(super) fn broker_of(key: &LiveKey, ha_addr: Option<&Name>, group: &Name, filters: &[Option<Name>]) -> Usage {
    let names = [&key.cluster, &key.addr, group].into_iter().chain(ha_addr).chain(filters.iter().flatten());
    let names: usize = names.map(|name| name.len() + NAME_BYTES).sum();
    Usage { brokers: 1, bytes: BROKER_BYTES + names + filters.len() * 16, ..Usage::default() }
}

/// Bytes of a group in a route, but for its members.
pub(super) fn group_text(name: &str, cluster: &str, zone: Option<&Name>) -> usize {
    GROUP_TEXT_BYTES + 2 * string_len(name) + string_len(cluster) + zone.map_or(0, |zone| string_len(zone))
}

/// Bytes of a member in a route: its address, and its filter servers with the address once more.
pub(super) fn member_text(addr: &str, filters: &[Option<Name>]) -> usize {
    let addr = string_len(addr);
    let shown = filters.iter().map(|filter| filter.as_ref().map_or(4, |filter| string_len(filter)) + 1);
    let filters = if filters.is_empty() { 0 } else { addr + 4 + shown.sum::<usize>() };
    ID_TEXT_BYTES + addr + filters
}

/// A group whose route has `text` bytes, in so many clusters.
pub(super) fn group<'a>(name: &str, text: usize, settings: usize, listed_in: impl Iterator<Item = &'a Name>) -> Usage {
    // In 106 a group stands under its name, and its name in every cluster that lists it, under the cluster's.
    let listings: usize = listed_in.map(|cluster| string_len(cluster) + string_len(name) + 6).sum();
    let listed = Usage { groups: 1, cluster_info_bytes: listings, ..Usage::default() };
    let bytes = GROUP_BYTES + 2 * listings + settings * setting(name);
    listed.plus(Usage::of_bytes(bytes)).plus(group_growth(text))
}

/// So many bytes more in the routes of groups.
pub(super) fn group_growth(text: usize) -> Usage {
    // The text is there up to four times: in two spellings, and with an acting master.
    Usage { cluster_info_bytes: text, bytes: 4 * text, ..Usage::default() }
}

impl Tables {
    /// Bytes of a group in a route.
    pub(super) fn group_text(&self, group: &Group) -> usize {
        let members = group.members().iter();
        let members = members.map(|member| member_text(&member.addr, self.filter_servers(&member.live_key())));
        group_text(&group.name, &group.cluster, group.zone.as_ref()) + members.sum::<usize>()
    }

    /// What a group weighs. One that is dead takes memory until it is swept.
    pub(super) fn weigh_group(&self, group: &Group) -> Usage {
        let weight = group_usage(group, self.group_text(group));
        if group.is_dead() { Usage::of_bytes(weight.bytes) } else { weight }
    }

    /// A group has changed: it is charged with what it weighs now.
    pub(super) fn weigh_again(&mut self, index: u32) {
        let new = self.weigh_group(self.groups.at(index));
        let group = self.groups.at_mut(index);
        let (account, old) = (group.account, std::mem::replace(&mut group.charged, new));
        self.ledger.charge(account, new);
        self.ledger.release(account, old);
    }
}

/// What a group weighs whose route has `text` bytes.
pub(super) fn group_usage(held: &Group, text: usize) -> Usage {
    group(&held.name, text, held.settings().len(), held.listed_in.iter())
}
