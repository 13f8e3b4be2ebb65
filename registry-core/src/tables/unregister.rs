//! How brokers leave: by farewell (104), with their connection, or by silence.

use super::{Tables, groups::Member, weight};
use crate::{Applied, ConnectionId, LiveKey, Millis, Name, Outcome, QueueSettings, Unregistration};

impl Tables {
    /// `UNREGISTER_BROKER` (104): the broker goes by name and address, whatever id and cluster it quotes.
    ///
    /// A farewell that is older than the broker's present registration is ignored: one that quotes an id which the
    /// address has given up, or one that comes over a connection which the broker has left.
    pub(super) fn unregister(&mut self, request: &Unregistration) -> Applied {
        let mut applied = Applied::new(Outcome::Done);
        let Some(index) = self.groups.index_of(&request.broker_name) else {
            return applied;
        };
        if self.is_late(index, request) {
            return applied;
        }
        let was_min = self.groups.at(index).min_id() == Some(request.broker_id);
        let gone = self.groups.at_mut(index).remove_members(|member| member.addr == request.broker_addr);
        let is_known = !gone.is_empty();
        applied.brokers_removed = u32::from(is_known);
        self.members_gone(index, &gone);
        // The entry under the cluster that the request names, if it was left without a group.
        let key = LiveKey { cluster: request.cluster.clone(), addr: request.broker_addr.clone() };
        if is_known && self.live.get(&key).is_some_and(|entry| entry.groups.is_empty()) {
            self.remove_live_entry(&key);
        }
        self.settle_group(index, was_min.then(|| request.broker_addr.clone()), &mut applied);
        applied
    }

    fn is_late(&self, index: u32, request: &Unregistration) -> bool {
        let members = self.groups.at(index).members().iter();
        members.filter(|member| member.addr == request.broker_addr).any(|member| {
            let key = member.live_key();
            let quotes_former_id = member.id != request.broker_id
                && self.live.get(&key).is_some_and(|entry| entry.former_ids.contains(&request.broker_id));
            quotes_former_id || self.live.has_moved_from(request.connection, &key)
        })
    }

    /// Every broker that the lost connection carries leaves; one that has moved to another connection stays.
    pub(super) fn disconnect(&mut self, connection: ConnectionId) -> Applied {
        let mut applied = Applied::new(Outcome::Done);
        for key in self.live.take_connection(connection) {
            self.remove_broker(&key, &mut applied);
        }
        applied
    }

    /// Removes the brokers that were silent for too long.
    pub(super) fn expire(&mut self, now: Millis) -> Applied {
        let mut applied = Applied::new(Outcome::Done);
        let mut expired: Vec<(LiveKey, ConnectionId)> = self
            .live
            .iter()
            .filter(|(_, entry)| entry.record.pulse.claim_if_older(now, entry.timeout_ms))
            .map(|(key, entry)| (key.clone(), entry.record.connection))
            .collect();
        expired.sort_unstable();
        for (key, _) in &expired {
            self.remove_broker(key, &mut applied);
        }
        applied.abandoned = expired.into_iter().map(|(_, connection)| connection).collect();
        applied.abandoned.sort_unstable();
        applied.abandoned.dedup();
        applied.abandoned.retain(|&connection| self.live.is_abandoned(connection));
        applied
    }

    /// Removes a live broker and its membership in every group.
    fn remove_broker(&mut self, key: &LiveKey, applied: &mut Applied) {
        let Some(entry) = self.live.get(key) else {
            return;
        };
        applied.brokers_removed += 1;
        let groups = entry.groups.clone();
        for index in groups {
            let group = self.groups.at_mut(index);
            let min_id = group.min_id();
            let gone = group.remove_members(|member| member.addr == key.addr && member.live_cluster == key.cluster);
            let was_min = gone.iter().any(|member| Some(member.id) == min_id);
            self.members_gone(index, &gone);
            self.settle_group(index, was_min.then(|| key.addr.clone()), applied);
        }
        self.remove_live_entry(key);
    }

    /// Takes the group out of the live entries of members that have left it.
    fn members_gone(&mut self, index: u32, gone: &[Member]) {
        if gone.is_empty() {
            return;
        }
        for member in gone {
            self.leave_live_entry(&member.live_key(), index, true);
        }
        self.group_changed(index);
        self.weigh_again(index);
    }

    /// A live entry loses a group; an entry that has none left goes too if `or_remove`.
    pub(super) fn leave_live_entry(&mut self, key: &LiveKey, index: u32, or_remove: bool) {
        let Some(entry) = self.live.get_mut(key) else {
            return;
        };
        entry.groups.retain(|&group| group != index);
        // The registration that made the record may be the one that joined this group: to repeat it would be news.
        entry.record.touch();
        if !entry.groups.is_empty() {
            return;
        }
        if or_remove {
            self.remove_live_entry(key);
        } else if let Some(oldest) = self.live.note_groupless(key.clone(), self.limits.groupless_brokers_max) {
            self.remove_live_entry(&oldest);
        }
    }

    fn remove_live_entry(&mut self, key: &LiveKey) {
        if let Some(entry) = self.live.remove(key) {
            self.ledger.release(entry.account, entry.charged);
            self.delta.live.insert(key.clone());
        }
    }

    /// What a farewell leaves behind: an empty group dies; one without a master, whose slaves may act as one, is no
    /// longer written to; and the others learn of a new smallest id.
    fn settle_group(&mut self, index: u32, min_left: Option<Name>, applied: &mut Applied) {
        let group = self.groups.at_mut(index);
        // Of several members that leave together the last is told of, and nobody of a group that is gone.
        if group.min_id().is_none() || min_left.is_some() {
            applied.min_id_changes.retain(|change| change.broker_name != group.name);
        }
        let Some(min_id) = group.min_id() else {
            self.bury_group(index);
            return;
        };
        if !group.enable_acting_master {
            return;
        }
        if min_id > 0 && group.change_settings(QueueSettings::read_only) {
            self.group_changed(index);
        }
        if min_left.is_some() {
            applied.min_id_changes.push(self.min_id_change(index, min_left, None, false));
        }
    }

    /// An empty group is gone for everybody at once; its slots in topics are swept later.
    fn bury_group(&mut self, index: u32) {
        let clusters = std::mem::take(&mut self.groups.at_mut(index).listed_in);
        for cluster in clusters {
            // The original looks only where the request says, and leaves the name behind elsewhere.
            self.unlist(index, &cluster);
        }
        self.delta.groups.insert(index);
        self.groups.bury(index);
        self.weigh_again(index);
        if self.groups.at(index).is_swept() {
            self.free_group(index);
        } else {
            self.sweep.add(index);
        }
    }

    /// A cluster does not list a group any more; one that lists none is gone.
    pub(super) fn unlist(&mut self, index: u32, name: &Name) {
        let Some(cluster) = self.clusters.get_mut(name) else {
            return;
        };
        cluster.groups.remove(&self.groups.at(index).name);
        if cluster.groups.is_empty() {
            self.ledger.release(cluster.account, weight::cluster(name));
            self.clusters.remove(name);
        }
        self.delta.clusters.insert(name.clone());
    }

    /// A dead group that no topic refers to is forgotten.
    pub(super) fn free_group(&mut self, index: u32) {
        let group = self.groups.at(index);
        self.ledger.release(group.account, group.charged);
        self.groups.free_swept(index);
    }
}
