//! `REGISTER_BROKER` (103): decide first, then change; a refused registration changes nothing.

use std::sync::Arc;

use super::{
    HEARTBEAT_TIMEOUT_MS_DEFAULT, HEARTBEAT_TIMEOUT_MS_MAX, HEARTBEAT_TIMEOUT_MS_MIN, Tables,
    groups::{Group, Member},
    live::LiveEntry,
};
use crate::{
    Applied, LiveKey, Master, Millis, MinIdChange, Outcome, Refusal, Registered, Registration,
    liveness::{LiveRecord, Pulse},
};

/// What the registration finds before it changes anything.
struct Before {
    group: Option<u32>,
    /// Smallest id of the group before the registration; 0 for an empty one, as in the original.
    min_id: i64,
    /// Whether the broker is new under its id: every topic it brings is taken.
    is_first: bool,
    /// Whether its topic table has another version than last time.
    is_changed: bool,
    /// Whether its topics count: those of the master, or of the slave that would act as one.
    takes_topics: bool,
}

impl Before {
    /// Whether what the registration brings replaces what is there.
    fn is_refresh(&self) -> bool {
        self.is_first || self.is_changed
    }
}

impl Tables {
    pub(super) fn register(&mut self, registration: &Registration, now: Millis) -> Applied {
        let before = match self.admit(registration) {
            Ok(before) => before,
            Err(refusal) => return Applied::new(Outcome::Refused(refusal)),
        };
        let key = LiveKey { cluster: registration.cluster.clone(), addr: registration.broker_addr.clone() };
        let index = before.group.unwrap_or_else(|| self.found_group(registration));
        let is_group_changed = self.join_group(index, registration, &key, now);

        let group = self.groups.at(index);
        let mut are_topics_changed = false;
        if before.takes_topics {
            let is_read_only = registration.broker_id != 0 && group.enable_acting_master;
            are_topics_changed = self.take_topics(index, registration, &before, is_read_only);
        }
        if is_group_changed || are_topics_changed {
            self.touch_members(index, Some(&key));
        }

        let master = self.master_of(index, registration);
        let mut applied = Applied::new(Outcome::Registered(Registered { master }));
        if registration.broker_id < before.min_id {
            let ha_broker_addr = registration.ha_addr.clone();
            applied.min_id_changes.push(self.min_id_change(index, None, ha_broker_addr, true));
        }
        applied
    }

    /// Decides whether the broker may register. Changes nothing.
    fn admit(&self, registration: &Registration) -> Result<Before, Refusal> {
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
        self.check_room(registration, group, &before)?;
        Ok(before)
    }

    fn check_room(&self, registration: &Registration, group: Option<&Group>, before: &Before) -> Result<(), Refusal> {
        let full = |table, limit| Err(Refusal::TableFull { table, limit });
        let limits = &self.limits;
        match group {
            None if self.groups.len() >= limits.groups_max => return full("groups_max", limits.groups_max),
            Some(group)
                if group.member(registration.broker_id).is_none()
                    && group.members().iter().filter(|held| held.addr != registration.broker_addr).count()
                        >= limits.members_max =>
            {
                return full("members_max", limits.members_max);
            }
            _ => {}
        }
        if !before.takes_topics {
            return Ok(());
        }
        let body = &registration.body;
        let mappings = if before.is_refresh() { &body.mappings[..] } else { &[] };
        let brought = body.topics.as_ref().map_or(0, crate::TopicTable::len) + mappings.len();
        if self.topics.len() + brought <= limits.topics_max {
            return Ok(());
        }
        let names = body.topics.iter().flat_map(crate::TopicTable::iter).map(|(name, _)| name);
        let new = names.chain(mappings.iter().map(|(name, _)| &**name));
        let new = new.filter(|name| self.topics.find(name).is_none()).count();
        if self.topics.len() + new > limits.topics_max {
            return full("topics_max", limits.topics_max);
        }
        Ok(())
    }

    fn found_group(&mut self, registration: &Registration) -> u32 {
        let index = self.groups.add(Group::new(registration.broker_name.clone(), registration.cluster.clone()));
        self.delta.groups.insert(index);
        index
    }

    /// Makes the broker a member of its group, and live; says whether the group looks different from before.
    fn join_group(&mut self, index: u32, registration: &Registration, key: &LiveKey, now: Millis) -> bool {
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
        is_changed |= self.put_live_entry(index, registration, key, former_id, now);
        if is_changed {
            self.delta.groups.insert(index);
        }
        is_changed
    }

    fn list_in_cluster(&mut self, index: u32, registration: &Registration) -> bool {
        let group = self.groups.at_mut(index);
        if group.listed_in.contains(&registration.cluster) {
            return false;
        }
        group.listed_in.push(registration.cluster.clone());
        self.clusters.entry(registration.cluster.clone()).or_default().insert(registration.broker_name.clone());
        self.delta.clusters = true;
        true
    }

    /// Puts the live entry; says whether the group's filter servers changed.
    fn put_live_entry(
        &mut self,
        index: u32,
        registration: &Registration,
        key: &LiveKey,
        former_id: Option<i64>,
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
        let has_aliases = registration.body.topics.as_ref().is_some_and(crate::TopicTable::has_aliases);
        let is_recognised = !(self.delete_topic_with_registration && has_aliases);
        let record = Arc::new(LiveRecord::new(pulse, registration, is_recognised));
        let mut entry = match held {
            Some(held) => LiveEntry {
                record,
                timeout_ms,
                filter_servers: std::mem::take(&mut held.filter_servers),
                groups: std::mem::take(&mut held.groups),
                former_ids: std::mem::take(&mut held.former_ids),
            },
            None => LiveEntry { record, timeout_ms, filter_servers: vec![], groups: vec![], former_ids: vec![] },
        };
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
        if are_filters_changed {
            // Routes show them for every group that has the address.
            self.delta.groups.extend(&entry.groups);
        }
        self.live.put(key.clone(), entry);
        are_filters_changed
    }

    /// Takes the topics and mappings of a registration; says whether one of them is news.
    fn take_topics(&mut self, index: u32, registration: &Registration, before: &Before, is_read_only: bool) -> bool {
        let body = &registration.body;
        let Some(topics) = &body.topics else {
            return false;
        };
        let mut is_changed = false;
        if self.delete_topic_with_registration && body.mappings.is_empty() {
            is_changed |= self.remove_topics_not_in(index, topics);
        }
        let is_refresh = before.is_refresh();
        for (name, settings) in topics.iter() {
            // An equal version leaves alone what the broker already has: so a wiped permission stays wiped.
            let is_held = || self.topics.find(name).is_some_and(|at| self.topics.slot_of(at, index).is_some());
            if !is_refresh && is_held() {
                continue;
            }
            let settings = if is_read_only { settings.read_only() } else { settings };
            is_changed |= self.put_slot(name, index, settings);
        }
        if is_refresh {
            for (topic, mapping) in &body.mappings {
                is_changed |= self.put_mapping(topic, index, mapping);
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

    fn put_mapping(&mut self, topic: &str, owner: u32, mapping: &crate::TopicMapping) -> bool {
        let at = self.topics.find_or_add(topic);
        let (_, value) = self.topics.entry(at);
        let is_held = value
            .mappings
            .iter()
            .flat_map(|all| all.iter())
            .any(|held| held.owner == owner && held.mapping == *mapping);
        if is_held {
            return false;
        }
        if let Some(former) = self.topics.put_mapping(at, owner, mapping.clone()) {
            self.groups.at_mut(former).mappings -= 1;
        }
        self.groups.at_mut(owner).mappings += 1;
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
