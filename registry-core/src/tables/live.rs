//! The live table: which brokers are heard of, over which connection, for which groups.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::Arc,
};

use super::{ledger::Usage, shrink};
use crate::{ConnectionId, LiveKey, Name, liveness::LiveRecord, sync::RandomState};

/// What the tables hold of one live broker.
#[derive(Debug)]
pub(crate) struct LiveEntry {
    pub(crate) record: Arc<LiveRecord>,
    pub(crate) timeout_ms: u64,
    pub(crate) filter_servers: Vec<Option<Name>>,
    /// Groups that have this broker as a member, each once.
    pub(crate) groups: Vec<u32>,
    /// Ids that the address had before the present one, the latest last. See [`FORMER_IDS_MAX`].
    pub(crate) former_ids: Vec<i64>,
    /// Connections that carried it before the present one, the latest last: a farewell over one of them is late. See
    /// [`FORMER_CONNECTIONS_MAX`].
    pub(crate) former_connections: Vec<ConnectionId>,
    /// Account of the source that registered it last.
    pub(crate) account: u32,
    pub(crate) charged: Usage,
}

/// How many former ids of a broker are remembered, to know its late farewells by: a switch of roles has two.
pub(crate) const FORMER_IDS_MAX: usize = 4;

/// How many former connections of a broker are remembered: one that reconnects leaves one behind, and its old process may have
/// a farewell under way on each.
pub(crate) const FORMER_CONNECTIONS_MAX: usize = 8;

impl LiveEntry {
    fn remember_connection(&mut self, former: ConnectionId) {
        remember(&mut self.former_connections, former, self.record.connection, FORMER_CONNECTIONS_MAX);
    }

    /// The address has another id from now on.
    pub(crate) fn remember_id(&mut self, former: i64, present: i64) {
        remember(&mut self.former_ids, former, present, FORMER_IDS_MAX);
    }
}

/// Puts what was before the present one last, each once; the oldest gives way.
fn remember<T: Copy + PartialEq>(all: &mut Vec<T>, former: T, present: T, max: usize) {
    all.retain(|&held| held != former && held != present);
    if former != present {
        all.push(former);
    }
    if all.len() > max {
        all.remove(0);
    }
}

/// All live brokers, by key and by connection.
#[derive(Debug, Default)]
pub(crate) struct LiveTable {
    entries: HashMap<LiveKey, LiveEntry, RandomState>,
    /// The keys that each connection carries.
    carried: HashMap<ConnectionId, HashSet<LiveKey>, RandomState>,
    /// Brokers that have lost their last group and were not removed, the oldest first; some may be gone, or in a group again.
    groupless: VecDeque<LiveKey>,
}

impl LiveTable {
    pub(crate) fn get(&self, key: &LiveKey) -> Option<&LiveEntry> {
        self.entries.get(key)
    }

    pub(crate) fn get_mut(&mut self, key: &LiveKey) -> Option<&mut LiveEntry> {
        self.entries.get_mut(key)
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = &LiveKey> {
        self.entries.keys()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&LiveKey, &LiveEntry)> {
        self.entries.iter()
    }

    /// Puts an entry; `former` is the connection that carried the broker until now.
    pub(crate) fn put(&mut self, key: LiveKey, mut entry: LiveEntry, former: Option<ConnectionId>) {
        let connection = entry.record.connection;
        if let Some(former) = former {
            entry.remember_connection(former);
            if former != connection {
                self.uncarry(former, &key);
            }
        }
        self.carried.entry(connection).or_default().insert(key.clone());
        self.entries.insert(key, entry);
    }

    /// Removes an entry, and all that was remembered of it. Its pulse is claimed, so that a heartbeat that found it before
    /// asks the writer.
    pub(crate) fn remove(&mut self, key: &LiveKey) -> Option<LiveEntry> {
        let entry = self.entries.remove(key)?;
        entry.record.pulse.claim();
        self.uncarry(entry.record.connection, key);
        Some(entry)
    }

    fn uncarry(&mut self, connection: ConnectionId, key: &LiveKey) {
        if let Some(keys) = self.carried.get_mut(&connection) {
            keys.remove(key);
            if keys.is_empty() {
                self.carried.remove(&connection);
            } else {
                shrink::set(keys);
            }
        }
    }

    /// Says whether the broker has moved from this connection to another one.
    pub(crate) fn has_moved_from(&self, connection: ConnectionId, key: &LiveKey) -> bool {
        self.entries.get(key).is_some_and(|entry| entry.former_connections.contains(&connection))
    }

    /// Forgets a lost connection and returns the brokers that it still carried, sorted.
    pub(crate) fn take_connection(&mut self, connection: ConnectionId) -> Vec<LiveKey> {
        let mut keys: Vec<_> = self.carried.remove(&connection).into_iter().flatten().collect();
        keys.sort_unstable();
        keys
    }

    /// Says whether a connection carries no live broker.
    pub(crate) fn is_abandoned(&self, connection: ConnectionId) -> bool {
        !self.carried.contains_key(&connection)
    }

    /// Notes that a broker stays without a group. Returns the one that has been so for the longest if they are too many.
    pub(crate) fn note_groupless(&mut self, key: LiveKey, max: usize) -> Option<LiveKey> {
        self.groupless.push_back(key);
        let oldest = if self.groupless.len() > max { self.groupless.pop_front() } else { None };
        oldest.filter(|key| self.entries.get(key).is_some_and(|entry| entry.groups.is_empty()))
    }

    /// Gives memory back, see [`shrink`].
    pub(crate) fn shrink(&mut self) {
        shrink::map(&mut self.entries);
        shrink::map(&mut self.carried);
        // A queue of keys, which are the memory: the brokers of those at its front may be gone.
        while self.groupless.front().is_some_and(|key| !self.entries.contains_key(key)) {
            self.groupless.pop_front();
        }
    }

    pub(crate) fn check(&self, groupless_max: usize) {
        for (key, entry) in &self.entries {
            let carried = self.carried.get(&entry.record.connection);
            assert!(carried.is_some_and(|keys| keys.contains(key)), "nobody carries {key:?}");
            assert!(
                entry.former_connections.len() <= FORMER_CONNECTIONS_MAX && entry.former_ids.len() <= FORMER_IDS_MAX
            );
        }
        let carried: usize = self.carried.values().map(HashSet::len).sum();
        assert_eq!(carried, self.entries.len(), "a connection carries what is gone, or another's");
        assert!(self.carried.values().all(|keys| !keys.is_empty()), "a connection is kept for nothing");
        assert!(self.groupless.len() <= groupless_max, "groupless brokers");
    }
}
