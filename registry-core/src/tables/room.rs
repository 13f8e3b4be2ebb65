//! Whether there is room for what a command brings: decided before anything is changed.

use std::collections::{HashMap, HashSet};

use foldhash::fast::RandomState;

use super::{
    Tables,
    groups::Group,
    ledger::{Claim, Usage},
    register::Before,
    weight,
};
use crate::{LiveKey, Name, QueueSettings, Refusal, Registration, Source, TopicMapping, TopicTable};

/// What of a registration's topics and mappings is not taken, for want of room.
#[derive(Debug, Default)]
pub(super) struct LeftOut {
    /// Positions in the topic table and in the list of mappings, sorted.
    topics: Vec<usize>,
    mappings: Vec<usize>,
    /// Why the first of them is left out.
    why: Option<Refusal>,
}

impl LeftOut {
    pub(super) fn has_topic(&self, at: usize) -> bool {
        !self.topics.is_empty() && self.topics.binary_search(&at).is_ok()
    }

    pub(super) fn has_mapping(&self, at: usize) -> bool {
        !self.mappings.is_empty() && self.mappings.binary_search(&at).is_ok()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.why.is_none()
    }

    /// How many are left out, and why.
    pub(super) fn into_reason(self) -> Option<(usize, Refusal)> {
        let left_out = self.topics.len() + self.mappings.len();
        self.why.map(|refusal| (left_out, refusal))
    }
}

/// Topics that are being planned.
struct Plan<'a> {
    tables: &'a Tables,
    group: Option<u32>,
    group_name: &'a str,
    own: Source,
    of_group: Source,
    claim: Claim,
    new_topics: HashSet<&'a str, RandomState>,
    new_settings: HashSet<QueueSettings, RandomState>,
    /// Number of new mappings of each topic.
    new_mappings: HashMap<&'a str, usize, RandomState>,
}

impl Tables {
    /// Decides what of a registration there is room for. Changes nothing.
    ///
    /// # Errors
    /// There is no room for the broker itself; or it is new, and there is none for one of its topics.
    pub(super) fn check_room(&self, registration: &Registration, before: &Before) -> Result<LeftOut, Refusal> {
        let group = before.group.map(|index| self.groups.at(index));
        let of_group = group.map_or(registration.source, |group| self.ledger.source(group.account));
        let claim = self.check_broker(registration, group)?;
        self.ledger.check(&claim, registration.source, of_group, &self.limits)?;
        if !before.takes_topics {
            return Ok(LeftOut::default());
        }
        let topics = registration.body.topics.as_ref();
        let mappings = if before.is_refresh() { &registration.body.mappings[..] } else { &[] };
        if mappings.is_empty() && self.has_plenty(registration, claim, of_group, group) {
            return Ok(LeftOut::default());
        }

        let mut plan = Plan {
            tables: self,
            group: before.group,
            group_name: &registration.broker_name,
            own: registration.source,
            of_group,
            claim,
            new_topics: HashSet::default(),
            new_settings: HashSet::default(),
            new_mappings: HashMap::default(),
        };
        let is_read_only = self.is_read_only(registration);
        let mut left_out = LeftOut::default();
        for (at, (name, settings)) in topics.into_iter().flat_map(TopicTable::iter).enumerate() {
            let settings = if is_read_only { settings.read_only() } else { settings };
            if let Err(refusal) = plan.take_topic(name, settings, before.is_refresh()) {
                left_out.topics.push(at);
                left_out.why.get_or_insert(refusal);
            }
        }
        for (at, (topic, mapping)) in mappings.iter().enumerate() {
            if let Err(refusal) = plan.take_mapping(topic, mapping) {
                left_out.mappings.push(at);
                left_out.why.get_or_insert(refusal);
            }
        }
        let is_known =
            group.is_some_and(|group| group.members().iter().any(|held| held.addr == registration.broker_addr));
        match left_out.why {
            // A new broker comes whole or not at all.
            Some(refusal) if !is_known => Err(refusal),
            _ => Ok(left_out),
        }
    }

    /// Checks the room for a broker as a member of its group, and says what it takes in all.
    fn check_broker(&self, registration: &Registration, group: Option<&Group>) -> Result<Claim, Refusal> {
        let Registration { cluster, broker_name, broker_id, broker_addr, ha_addr, zone, .. } = registration;
        let limits = &self.limits;
        let full = |table, limit| Err(Refusal::TableFull { table, limit });
        let key = LiveKey { cluster: cluster.clone(), addr: broker_addr.clone() };
        let entry = self.live.get(&key);
        let held_filters = entry.map_or(&[][..], |entry| &entry.filter_servers);
        let filters = registration.body.filter_servers.as_deref().unwrap_or(held_filters);

        let members = group.map_or(&[][..], Group::members);
        let staying = || members.iter().filter(|held| held.addr != *broker_addr && held.id != *broker_id);
        if staying().count() >= limits.members_max {
            return full("members_max", limits.members_max);
        }
        let listed_in = group.map_or(&[][..], |group| &group.listed_in);
        let is_listed = listed_in.contains(cluster);
        if !is_listed
            && listed_in.len() >= limits.group_clusters_max
            && group.is_some_and(|group| self.unnamed_cluster(group, registration).is_none())
        {
            return full("group_clusters_max", limits.group_clusters_max);
        }
        let group_cluster = group.map_or(cluster, |group| &group.cluster);
        let others = staying().map(|held| weight::member_text(&held.addr, self.filter_servers(&held.live_key())));
        let text = weight::group_text(broker_name, group_cluster, zone.as_ref())
            + weight::member_text(broker_addr, filters)
            + others.sum::<usize>();
        if text > limits.group_bytes_max {
            return full("group_bytes_max", limits.group_bytes_max);
        }
        let in_others =
            entry.map_or(Ok(Usage::default()), |entry| self.check_other_groups(registration, entry, &key, filters))?;

        let settings = group.map_or(0, |group| group.settings().len());
        let listings = listed_in.iter().chain((!is_listed).then_some(cluster));
        let grown = weight::group(broker_name, text, settings, listings);
        let mut own = in_others;
        if !self.clusters.contains_key(cluster) {
            own = own.plus(weight::cluster(cluster));
        }
        let broker = weight::broker_of(&key, ha_addr.as_ref(), broker_name, filters);
        own = own.plus(broker.minus(entry.map_or(Usage::default(), |entry| entry.charged)));
        // Whoever has the id now goes, and makes room.
        let replaced = group.and_then(|group| group.member(*broker_id)).filter(|held| held.addr != *broker_addr);
        let replaced = replaced.and_then(|held| self.live.get(&held.live_key()));
        if let Some(replaced) = replaced.filter(|replaced| replaced.groups.len() == 1) {
            own = own.minus(replaced.charged);
        }
        Ok(Claim { own, group: grown.minus(group.map_or(Usage::default(), |group| group.charged)) })
    }

    /// Other groups of the same address show its filter servers, too: says what they grow by.
    fn check_other_groups(
        &self,
        registration: &Registration,
        entry: &super::live::LiveEntry,
        key: &LiveKey,
        filters: &[Option<Name>],
    ) -> Result<Usage, Refusal> {
        let limits = &self.limits;
        let full = |table, limit| Err(Refusal::TableFull { table, limit });
        let groups = entry.groups.iter().map(|&index| self.groups.at(index));
        let others: Vec<&Group> = groups.filter(|group| group.name != registration.broker_name).collect();
        if others.len() >= limits.broker_groups_max {
            return full("broker_groups_max", limits.broker_groups_max);
        }
        let shown = weight::member_text(&key.addr, filters);
        let more = shown.saturating_sub(weight::member_text(&key.addr, &entry.filter_servers));
        if more > 0 && others.iter().any(|group| self.group_text(group) + more > limits.group_bytes_max) {
            return full("group_bytes_max", limits.group_bytes_max);
        }
        Ok(weight::group_growth(others.len() * more))
    }

    /// The oldest cluster that lists a group although no member will name it after the registration; never the group's own.
    pub(super) fn unnamed_cluster(&self, group: &Group, registration: &Registration) -> Option<Name> {
        let staying = group
            .members()
            .iter()
            .filter(|held| held.addr != registration.broker_addr && held.id != registration.broker_id);
        let named: Vec<&Name> =
            staying.map(|held| &held.live_cluster).chain([&group.cluster, &registration.cluster]).collect();
        group.listed_in.iter().find(|cluster| !named.contains(cluster)).cloned()
    }

    /// Says whether all topics of a registration find room whatever they are, so that nobody has to look at each.
    fn has_plenty(&self, registration: &Registration, claim: Claim, of_group: Source, group: Option<&Group>) -> bool {
        let Some(topics) = &registration.body.topics else { return true };
        let (limits, name) = (&self.limits, &registration.broker_name);
        // Every topic new; every byte of a name an escape of six.
        let count = topics.len();
        let new = Usage {
            topics: count,
            topic_list_bytes: 6 * topics.text_len() + 3 * count,
            bytes: count * weight::topic("").bytes + topics.text_len(),
            ..Usage::default()
        };
        let settings_max = limits.group_settings_max - group.map_or(0, Group::settings_in_use);
        let runs = topics.settings_runs();
        let settings = if runs <= settings_max { Some(runs) } else { count_distinct(topics, settings_max) };
        let Some(settings) = settings else { return false };
        let share = Usage::of_bytes(count * weight::slot().bytes + settings * weight::setting(name));
        let claim = claim.plus(Claim { own: new, group: share });
        let groups = self.groups.indices() as usize;
        groups < limits.share_of(limits.topic_groups_max)
            && self.ledger.check(&claim, registration.source, of_group, limits).is_ok()
    }

    /// Says whether a group has room in a topic.
    fn check_topic_groups(&self, at: usize, of_group: Source, more: usize) -> Result<(), Refusal> {
        let (_, value) = self.topics.entry(at);
        let (table, limit) = ("topic_groups_max", self.limits.topic_groups_max);
        if value.slots.len() + more > limit {
            return Err(Refusal::TableFull { table, limit });
        }
        let share = self.limits.share_of(limit);
        if value.slots.len() + more <= share {
            return Ok(());
        }
        let is_own = |group: u32| self.ledger.source(self.groups.at(group).account) == of_group;
        if value.slots.iter().filter(|slot| is_own(slot.group)).count() + more > share {
            return Err(Refusal::ShareFull { table, share });
        }
        Ok(())
    }

    /// Checks the room for a topic that is registered by hand (217).
    pub(super) fn check_topic(
        &self,
        topic: &str,
        groups: &[u32],
        queues: &[(Name, QueueSettings)],
        source: Source,
    ) -> Result<(), Refusal> {
        self.limits.check_topic_name(topic)?;
        let at = self.topics.find(topic);
        let mut more = if at.is_none() { weight::topic(topic) } else { Usage::default() };
        let (mut new_slots, mut new_settings) = (HashSet::new(), HashSet::new());
        let mut new_settings_of: HashMap<u32, usize> = HashMap::new();
        for (&group, (name, settings)) in groups.iter().zip(queues) {
            if at.is_none_or(|at| self.topics.slot_of(at, group).is_none()) && new_slots.insert(group) {
                more = more.plus(weight::slot());
            }
            if !self.groups.at(group).has_setting(settings) && new_settings.insert((group, *settings)) {
                more = more.plus(Usage::of_bytes(weight::setting(name)));
                let new = new_settings_of.entry(group).or_default();
                *new += 1;
                let limit = self.limits.group_settings_max;
                if self.groups.at(group).settings_in_use() + *new > limit {
                    return Err(Refusal::TableFull { table: "group_settings_max", limit });
                }
            }
        }
        let held = at.map_or(0, |at| self.topics.entry(at).1.slots.len());
        let limit = self.limits.topic_groups_max;
        if !new_slots.is_empty() && held + new_slots.len() > limit {
            return Err(Refusal::TableFull { table: "topic_groups_max", limit });
        }
        // Who asks is charged with the topic only; whether there is room is asked as if with all.
        self.ledger.check(&Claim { own: more, group: Usage::default() }, source, source, &self.limits)
    }
}

/// Number of distinct settings in a table; `None` if more than `max`.
fn count_distinct(topics: &TopicTable, max: usize) -> Option<usize> {
    let mut seen: HashSet<QueueSettings, RandomState> = HashSet::default();
    let mut last = None;
    for (_, settings) in topics.iter() {
        // Most topics have the settings of the one before.
        if last != Some(settings) {
            last = Some(settings);
            seen.insert(settings);
            if seen.len() > max {
                return None;
            }
        }
    }
    Some(seen.len())
}

impl<'a> Plan<'a> {
    fn take_topic(&mut self, name: &'a str, settings: QueueSettings, is_refresh: bool) -> Result<(), Refusal> {
        let tables = self.tables;
        let at = tables.topics.find(name);
        let slot = at.zip(self.group).and_then(|(at, group)| tables.topics.slot_of(at, group));
        let held = slot.zip(self.group).map(|(slot, group)| tables.groups.at(group).setting(slot.setting));
        if held == Some(settings) || (held.is_some() && !is_refresh) {
            return Ok(());
        }
        let is_planned = self.new_topics.contains(name);
        let mut more = Claim::default();
        if at.is_none() && !is_planned {
            more.own = weight::topic(name);
        }
        if held.is_none() && !is_planned {
            if let Some(at) = at {
                tables.check_topic_groups(at, self.of_group, 1)?;
            }
            more.group = weight::slot();
        }
        let group = self.group.map(|group| tables.groups.at(group));
        let is_new_setting =
            !group.is_some_and(|group| group.has_setting(&settings)) && !self.new_settings.contains(&settings);
        if is_new_setting {
            let limit = tables.limits.group_settings_max;
            if group.map_or(0, Group::settings_in_use) + self.new_settings.len() >= limit {
                return Err(Refusal::TableFull { table: "group_settings_max", limit });
            }
            more.group = more.group.plus(Usage::of_bytes(weight::setting(self.group_name)));
        }
        self.take(more)?;
        self.new_topics.insert(name);
        if is_new_setting {
            self.new_settings.insert(settings);
        }
        Ok(())
    }

    fn take_mapping(&mut self, topic: &'a str, mapping: &TopicMapping) -> Result<(), Refusal> {
        let tables = self.tables;
        let at = tables.topics.find(topic);
        let held = at.and_then(|at| tables.topics.mapping_of(at, mapping.bname.as_ref()));
        let mut more = Claim::default();
        if at.is_none() && !self.new_topics.contains(topic) {
            more.own = weight::topic(topic);
        }
        let count = at.map_or(0, |at| tables.topics.entry(at).1.mappings.as_ref().map_or(0, |all| all.len()));
        let limit = tables.limits.topic_mappings_max;
        let new = self.new_mappings.get(topic).copied().unwrap_or(0) + usize::from(held.is_none());
        if count + new > limit {
            return Err(Refusal::TableFull { table: "topic_mappings_max", limit });
        }
        more.group = weight::mapping(mapping);
        if let Some(held) = held.filter(|held| Some(held.owner) == self.group) {
            more.group = more.group.minus(weight::mapping(&held.mapping));
        }
        self.take(more)?;
        self.new_topics.insert(topic);
        self.new_mappings.insert(topic, new);
        Ok(())
    }

    fn take(&mut self, more: Claim) -> Result<(), Refusal> {
        let claim = self.claim.plus(more);
        self.tables.ledger.check(&claim, self.own, self.of_group, &self.tables.limits)?;
        self.claim = claim;
        Ok(())
    }
}
