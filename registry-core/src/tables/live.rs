//! The live table: which brokers are heard of, over which connection, for which groups.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

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
}

/// How many former ids of a broker are remembered, to know its late farewells by: a switch of roles has two.
pub(crate) const FORMER_IDS_MAX: usize = 4;

impl LiveEntry {
    /// The address has another id from now on.
    pub(crate) fn remember_id(&mut self, former: i64, present: i64) {
        self.former_ids.retain(|&id| id != former && id != present);
        if former != present {
            self.former_ids.push(former);
        }
        if self.former_ids.len() > FORMER_IDS_MAX {
            self.former_ids.remove(0);
        }
    }
}

/// All live brokers, by key and by connection.
#[derive(Debug, Default)]
pub(crate) struct LiveTable {
    entries: HashMap<LiveKey, LiveEntry, RandomState>,
    /// Every key that a connection has carried and not taken back, even if another connection carries it now: by this
    /// a farewell over the old connection is known to be late.
    carried: HashMap<ConnectionId, HashSet<LiveKey>, RandomState>,
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

    pub(crate) fn put(&mut self, key: LiveKey, entry: LiveEntry) {
        self.carried.entry(entry.record.connection).or_default().insert(key.clone());
        self.entries.insert(key, entry);
    }

    /// Removes an entry. Its pulse is claimed, so that a heartbeat that found it before asks the writer.
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
            }
        }
    }

    /// Says whether the broker has moved from this connection to another one.
    pub(crate) fn has_moved_from(&self, connection: ConnectionId, key: &LiveKey) -> bool {
        self.carried.get(&connection).is_some_and(|keys| keys.contains(key))
            && self.entries.get(key).is_some_and(|entry| entry.record.connection != connection)
    }

    /// Forgets a lost connection and returns the brokers that it still carried, sorted.
    pub(crate) fn take_connection(&mut self, connection: ConnectionId) -> Vec<LiveKey> {
        let mut keys: Vec<_> = self
            .carried
            .remove(&connection)
            .into_iter()
            .flatten()
            .filter(|key| self.entries.get(key).is_some_and(|entry| entry.record.connection == connection))
            .collect();
        keys.sort_unstable();
        keys
    }

    /// Says whether a connection carries no live broker.
    pub(crate) fn is_abandoned(&self, connection: ConnectionId) -> bool {
        !self.carried.get(&connection).is_some_and(|keys| {
            keys.iter().any(|key| self.entries.get(key).is_some_and(|entry| entry.record.connection == connection))
        })
    }

    pub(crate) fn check(&self) {
        for (key, entry) in &self.entries {
            let carried = self.carried.get(&entry.record.connection);
            assert!(carried.is_some_and(|keys| keys.contains(key)), "nobody carries {key:?}");
        }
        assert!(self.carried.values().all(|keys| !keys.is_empty()), "a connection is kept for nothing");
    }
}
