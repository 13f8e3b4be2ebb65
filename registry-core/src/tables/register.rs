//! `REGISTER_BROKER` (103): decide first, then change; a refused registration changes nothing.
//!
//! Where there is no room, a new broker is refused as a whole, and so is one that is known but takes more room itself (another
//! cluster, a longer name). Either way a broker that is live has been heard of. A known broker is never refused for its topics:
//! those that find room are taken in the order in which it brings them, the others are left out and named in the answer, and
//! everything else that it says counts.

use std::{collections::BTreeSet, sync::Arc};

use super::{
    Cluster, HEARTBEAT_TIMEOUT_MS_DEFAULT, HEARTBEAT_TIMEOUT_MS_MAX, HEARTBEAT_TIMEOUT_MS_MIN, Tables, Usage,
    groups::{Group, Member},
    live::LiveEntry,
    room::LeftOut,
    weight,
};
use crate::{
    Applied, LiveKey, Master, Millis, MinIdChange, Outcome, Refusal, Registered, Registration, Source, TopicMapping,
    liveness::{LiveRecord, Pulse},
};

/// What the registration finds before it changes anything.
pub(super) struct Before {
    pub(super) group: Option<u32>,
    /// Smallest id of the group before the registration; 0 for an empty one, as in the original.
    min_id: i64,
    /// Whether the broker is new under its id: every topic it brings is taken.
    is_first: bool,
    /// Whether its topic table has another version than last time.
    is_changed: bool,
    /// Whether its topics count: those of the master, or of the slave that would act as one.
    pub(super) takes_topics: bool,
}

impl Before {
    /// Whether what the registration brings replaces what is there.
    pub(super) fn is_refresh(&self) -> bool {
        self.is_first || self.is_changed
    }
}

impl Tables {
    pub(super) fn register(&mut self, registration: &Registration, now: Millis) -> Applied {
        let (before, left_out) = match self.admit(registration) {
            Ok(admitted) => admitted,
            Err(refusal) => {
                if refusal.is_limit() {
                    self.heartbeat(&registration.cluster, &registration.broker_addr, now);
                }
                return Applied::new(Outcome::Refused(refusal));
            }
        };
        let key = LiveKey { cluster: registration.cluster.clone(), addr: registration.broker_addr.clone() };
        let index = before.group.unwrap_or_else(|| self.found_group(registration));
        let is_group_changed = self.join_group(index, registration, &key, left_out.is_empty(), now);

        let mut are_topics_changed = false;
        if before.takes_topics {
            are_topics_changed = self.take_topics(index, registration, &before, &left_out);
        }
        if is_group_changed || are_topics_changed {
            self.touch_members(index, Some(&key));
        }

        let mut applied = Applied::new(match left_out.into_reason() {
            None => Outcome::Registered(Registered { master: self.master_of(index, registration) }),
            Some((left_out, refusal)) => Outcome::RegisteredInPart { left_out, refusal },
        });
        if registration.broker_id < before.min_id {
            let ha_broker_addr = registration.ha_addr.clone();
            applied.min_id_changes.push(self.min_id_change(index, None, ha_broker_addr, true));
        }
        applied
    }

    /// Decides whether the broker may register. Changes nothing.
    fn admit(&self, registration: &Registration) -> Result<(Before, LeftOut), Refusal> {
        self.limits.check_registration(registration)?;
        let Registration { broker_id, broker_addr, body, .. } = registration;
        let index = self.groups.index_of(&registration.broker_name);
        let group = index.map(|index| self.groups.at(index));
        let holder = group.and_then(|group| group.member(*broker_id));

        if let Some(holder) = holder
            && holder.addr != *broker_addr
        {
            // The original looks the holder up under the newcomer's cluster.
            let key = LiveKey { cluster: registration.cluster.clone(), addr: holder.addr.clone() };
            let newer = self
                .live
                .get(&key)
                .is_some_and(|entry| entry.record.data_version.state_version > body.data_version.state_version);
            if newer {
                return Err(Refusal::IdHeld { broker_id: *broker_id, holder: holder.addr.clone() });
            }
        }
        let is_first = holder.is_none_or(|holder| holder.addr.is_empty());
        if holder.is_none() {
            match &body.topics {
                None => return Err(Refusal::NoTopicTable),
                Some(topics) if topics.len() == 1 => return Err(Refusal::SingleTopicFirst),
                Some(_) => {}
            }
        }
        let key = LiveKey { cluster: registration.cluster.clone(), addr: broker_addr.clone() };
        let would_be_first =
            group.into_iter().flat_map(Group::members).all(|held| held.addr == *broker_addr || held.id >= *broker_id);
        let is_prime_slave = registration.enable_acting_master.is_some() && would_be_first;
        let before = Before {
            group: index,
            min_id: group.and_then(Group::min_id).unwrap_or(0),
            is_first,
            is_changed: self.live.get(&key).is_none_or(|entry| entry.record.data_version != body.data_version),
            takes_topics: body.topics.is_some() && (*broker_id == 0 || is_prime_slave),
        };
        let left_out = self.check_room(registration, &before)?;
        Ok((before, left_out))
    }

    /// Whether the topics of a registration count without the write permission: those of a slave that may act as master.
    pub(super) fn is_read_only(&self, registration: &Registration) -> bool {
        registration.broker_id != 0 && registration.enable_acting_master.unwrap_or(false)
    }

    fn found_group(&mut self, registration: &Registration) -> u32 {
        let (name, cluster) = (registration.broker_name.clone(), registration.cluster.clone());
        let account = self.ledger.account(registration.source);
        let index = self.groups.add(Group::new(name, cluster, account));
        self.weigh_again(index);
        self.delta.groups.insert(index);
        index
    }

    /// Makes the broker a member of its group, and live; says whether the group looks different from before.
    fn join_group(
        &mut self,
        index: u32,
        registration: &Registration,
        key: &LiveKey,
        is_whole: bool,
        now: Millis,
    ) -> bool {
        let mut is_changed = self.list_in_cluster(index, registration);
        let group = self.groups.at_mut(index);
        let enable_acting_master = registration.enable_acting_master.unwrap_or(false);
        if group.enable_acting_master != enable_acting_master || group.zone != registration.zone {
            group.enable_acting_master = enable_acting_master;
            group.zone.clone_from(&registration.zone);
            is_changed = true;
        }

        // One address has one id: a change of roles gives up the old one.
        let moved =
            group.remove_members(|held| held.addr == registration.broker_addr && held.id != registration.broker_id);
        let member = Member {
            id: registration.broker_id,
            addr: registration.broker_addr.clone(),
            live_cluster: registration.cluster.clone(),
        };
        let replaced = group.put_member(member.clone());
        // Also by its cluster alone: routes show only the filter servers of members in the group's own cluster.
        is_changed |= !moved.is_empty() || replaced.as_ref() != Some(&member);
        let former_id = moved.last().map(|member| member.id);
        for gone in moved.into_iter().chain(replaced) {
            let gone_key = gone.live_key();
            if gone_key == *key {
                continue;
            }
            if gone.addr == member.addr {
                // The same broker under another cluster name: that entry lives on until it expires, without a group.
                self.leave_live_entry(&gone_key, index, false);
            } else {
                self.leave_live_entry(&gone_key, index, true);
            }
        }
        is_changed |= self.put_live_entry(index, registration, key, former_id, is_whole, now);
        if is_changed {
            self.delta.groups.insert(index);
            self.weigh_again(index);
        }
        is_changed
    }

    fn list_in_cluster(&mut self, index: u32, registration: &Registration) -> bool {
        let group = self.groups.at(index);
        let name = &registration.cluster;
        if group.listed_in.contains(name) {
            return false;
        }
        if group.listed_in.len() >= self.limits.group_clusters_max
            && let Some(unnamed) = self.unnamed_cluster(group, registration)
        {
            self.groups.at_mut(index).listed_in.retain(|cluster| *cluster != unnamed);
            self.unlist(index, &unnamed);
        }
        self.groups.at_mut(index).listed_in.push(name.clone());
        if !self.clusters.contains_key(name) {
            let account = self.ledger.account(registration.source);
            self.ledger.charge(account, weight::cluster(name));
            self.clusters.insert(name.clone(), Cluster { groups: BTreeSet::new(), account });
        }
        if let Some(cluster) = self.clusters.get_mut(name) {
            cluster.groups.insert(registration.broker_name.clone());
        }
        self.delta.clusters.insert(name.clone());
        true
    }

    /// Puts the live entry; says whether the group's filter servers changed.
    fn put_live_entry(
        &mut self,
        index: u32,
        registration: &Registration,
        key: &LiveKey,
        former_id: Option<i64>,
        is_whole: bool,
        now: Millis,
    ) -> bool {
        let timeout_ms = match registration.heartbeat_timeout_ms {
            None => HEARTBEAT_TIMEOUT_MS_DEFAULT,
            Some(asked) => u64::try_from(asked).unwrap_or(0).clamp(HEARTBEAT_TIMEOUT_MS_MIN, HEARTBEAT_TIMEOUT_MS_MAX),
        };
        self.delta.live.insert(key.clone());
        let held = self.live.get_mut(key);
        let pulse = match &held {
            Some(held) => {
                let beaten = held.record.pulse.beat(now);
                debug_assert!(beaten, "the pulse of an entry in the table is never claimed");
                Arc::clone(&held.record.pulse)
            }
            None => Arc::new(Pulse::new(now)),
        };
        // Topics under other keys than their names are removed and taken again each time, and may come out otherwise.
        let has_aliases = || registration.body.topics.as_ref().is_some_and(crate::TopicTable::has_aliases);
        let is_recognised = is_whole && !(self.delete_topic_with_registration && has_aliases());
        let record = Arc::new(LiveRecord::new(pulse, registration, is_recognised));
        let account = self.ledger.account(registration.source);
        let former = held.as_ref().map(|held| (held.account, held.charged));
        let former_connection = held.as_ref().map(|held| held.record.connection);
        let mut entry = LiveEntry {
            record,
            timeout_ms,
            filter_servers: Vec::new(),
            groups: Vec::new(),
            former_ids: Vec::new(),
            former_connections: Vec::new(),
            account,
            charged: Usage::default(),
        };
        if let Some(held) = held {
            entry.filter_servers = std::mem::take(&mut held.filter_servers);
            entry.groups = std::mem::take(&mut held.groups);
            entry.former_ids = std::mem::take(&mut held.former_ids);
            entry.former_connections = std::mem::take(&mut held.former_connections);
        }
        if !entry.groups.contains(&index) {
            entry.groups.push(index);
        }
        if let Some(former_id) = former_id {
            entry.remember_id(former_id, registration.broker_id);
        }
        let mut are_filters_changed = false;
        if let Some(filter_servers) = &registration.body.filter_servers
            && entry.filter_servers != *filter_servers
        {
            entry.filter_servers.clone_from(filter_servers);
            are_filters_changed = true;
        }
        entry.charged = weight::broker(key, &entry);
        self.ledger.charge(account, entry.charged);
        if let Some((account, charged)) = former {
            self.ledger.release(account, charged);
        }
        let groups = entry.groups.clone();
        self.live.put(key.clone(), entry, former_connection);
        if are_filters_changed {
            // Routes show them for every group that has the address.
            for group in groups {
                self.delta.groups.insert(group);
                self.weigh_again(group);
            }
        }
        are_filters_changed
    }

    /// Takes the topics and mappings of a registration; says whether one of them is news.
    fn take_topics(&mut self, index: u32, registration: &Registration, before: &Before, left_out: &LeftOut) -> bool {
        let is_read_only = self.is_read_only(registration);
        let source = registration.source;
        let body = &registration.body;
        let Some(topics) = &body.topics else {
            return false;
        };
        let mut is_changed = false;
        if self.delete_topic_with_registration && body.mappings.is_empty() {
            is_changed |= self.remove_topics_not_in(index, topics);
        }
        let is_refresh = before.is_refresh();
        for (at, (name, settings)) in topics.iter().enumerate() {
            if left_out.has_topic(at) {
                continue;
            }
            // An equal version leaves alone what the broker already has: so a wiped permission stays wiped.
            let is_held = || self.topics.find(name).is_some_and(|at| self.topics.slot_of(at, index).is_some());
            if !is_refresh && is_held() {
                continue;
            }
            let settings = if is_read_only { settings.read_only() } else { settings };
            is_changed |= self.put_slot(name, index, settings, source);
        }
        if is_refresh {
            for (at, (topic, mapping)) in body.mappings.iter().enumerate() {
                if !left_out.has_mapping(at) {
                    is_changed |= self.put_mapping(topic, index, mapping, source);
                }
            }
        }
        is_changed
    }

    fn remove_topics_not_in(&mut self, index: u32, topics: &crate::TopicTable) -> bool {
        let kept: std::collections::HashSet<&str, foldhash::fast::RandomState> = topics.keys().collect();
        let served = self.topics.iter().enumerate();
        let leaving: Vec<usize> = served
            .filter(|(_, (name, value))| value.slots.iter().any(|slot| slot.group == index) && !kept.contains(&***name))
            .map(|(at, _)| at)
            .collect();
        // From the end: the removal of a topic moves the last one into its place.
        for &at in leaving.iter().rev() {
            self.remove_from_topic(at, |group| group == index);
        }
        !leaving.is_empty()
    }

    fn put_mapping(&mut self, topic: &str, owner: u32, mapping: &TopicMapping, source: Source) -> bool {
        let at = self.find_or_add_topic(topic, source);
        let held = self.topics.mapping_of(at, mapping.bname.as_ref());
        if held.is_some_and(|held| held.owner == owner && held.mapping == *mapping) {
            return false;
        }
        let group = self.groups.at_mut(owner);
        group.mappings += 1;
        self.ledger.charge(group.account, weight::mapping(mapping));
        if let Some(replaced) = self.topics.put_mapping(at, owner, mapping.clone()) {
            self.mapping_gone(&replaced);
        }
        self.note_topic(at);
        true
    }

    /// The master that a slave is told: id 0 of the group, if alive under the cluster that the slave named.
    fn master_of(&self, index: u32, registration: &Registration) -> Option<Master> {
        if registration.broker_id == 0 {
            return None;
        }
        let master = self.groups.at(index).member(0)?;
        let key = LiveKey { cluster: registration.cluster.clone(), addr: master.addr.clone() };
        let entry = self.live.get(&key)?;
        Some(Master { addr: master.addr.clone(), ha_addr: entry.record.ha_addr.clone() })
    }

    /// What the members are told of the group's new smallest id.
    pub(super) fn min_id_change(
        &self,
        index: u32,
        offline_broker_addr: Option<crate::Name>,
        ha_broker_addr: Option<crate::Name>,
        spare_min: bool,
    ) -> MinIdChange {
        let group = self.groups.at(index);
        let members = group.members();
        let min = &members[0];
        let recipients = members
            .iter()
            .filter(|member| !spare_min || members.len() == 1 || member.id != min.id)
            .map(|member| member.addr.clone())
            .collect();
        MinIdChange {
            broker_name: group.name.clone(),
            min_broker_id: min.id,
            min_broker_addr: min.addr.clone(),
            offline_broker_addr,
            ha_broker_addr,
            recipients,
        }
    }
}
