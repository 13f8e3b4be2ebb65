//! Who the peers are: one entry for each source address, shared by all of its connections.
//!
//! ```text
//!   connection ──┐
//!   connection ──┼──> Source { connections, bytes under way, brokers }
//!   connection ──┘
//! ```
//!
//! The source is the peer's address, or the one that a trusted proxy names. What one source may hold is limited, so that
//! others find room; a source that has brokers, or had some a short while ago, finds room that strangers do not.

use std::{
    collections::{HashMap, VecDeque},
    net::IpAddr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};

use foldhash::fast::RandomState;
use registry_core::Millis;

use crate::clock::Clock;

/// How long a source without connections is remembered as one that has brokers: as long as a broker takes to come back
/// after a restart of its machine.
const BROKER_MEMORY_MS: u64 = 600_000;
/// Sources without connections that are remembered: some 2 MiB. The oldest goes first.
const REMEMBERED_MAX: usize = 10_000;
/// Part of all connections that only sources with brokers may use: one in sixteen, ...
const BROKER_ROOM_DIVISOR: usize = 16;
/// ... but no more than the brokers of a very large cluster.
const BROKER_ROOM_MAX: usize = 1_024;

/// All sources.
#[derive(Debug)]
pub(crate) struct Sources {
    table: Mutex<Table>,
    open: AtomicUsize,
    connections_max: usize,
    per_source_max: usize,
    clock: Clock,
}

#[derive(Debug, Default)]
struct Table {
    sources: HashMap<IpAddr, Arc<Source>, RandomState>,
    /// Those that had brokers, in the order in which they left, and when.
    left: VecDeque<(IpAddr, u64)>,
}

/// One source address.
#[derive(Debug)]
pub(crate) struct Source {
    address: IpAddr,
    connections: AtomicUsize,
    /// Connections that carry brokers.
    brokers: AtomicUsize,
    /// When the last one that did ended; 0 for never.
    last_broker: AtomicU64,
    /// Bytes that the budget has lent to its connections.
    pub(super) bytes: AtomicUsize,
}

/// Why a connection is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Crowded {
    /// All sources together have as many as may be.
    #[error("one connection more than maxConnections {0} allows")]
    TooMany(usize),
    /// This source has as many as it may.
    #[error("one connection more than maxConnectionsPerIp {0} allows")]
    TooManyOfSource(usize),
}

impl Crowded {
    /// A short name for counters.
    pub(crate) fn reason(self) -> &'static str {
        match self {
            Self::TooMany(_) => "too_many",
            Self::TooManyOfSource(_) => "too_many_of_source",
        }
    }
}

/// The place of one connection, given back on drop.
#[derive(Debug)]
pub(crate) struct Place {
    sources: Arc<Sources>,
    source: Arc<Source>,
    has_brokers: bool,
}

impl Sources {
    pub(crate) fn new(connections_max: usize, per_source_max: Option<usize>, clock: Clock) -> Arc<Self> {
        Arc::new(Self {
            table: Mutex::default(),
            open: AtomicUsize::new(0),
            connections_max,
            per_source_max: per_source_max.unwrap_or(usize::MAX),
            clock,
        })
    }

    /// Takes a place for a connection of this source. Cost: O(1), and a lock that is held for as long.
    ///
    /// # Errors
    /// There is no place for it.
    pub(crate) fn enter(self: &Arc<Self>, address: IpAddr) -> Result<Place, Crowded> {
        let address = address.to_canonical();
        let mut table = self.lock();
        let known = table.sources.get(&address).cloned();
        let is_broker = known.as_ref().is_some_and(|source| source.is_broker(self.clock.now()));
        let open = self.open.load(Ordering::Relaxed);
        let room = if is_broker { self.connections_max } else { self.connections_max - self.broker_room() };
        if open >= room {
            return Err(Crowded::TooMany(self.connections_max));
        }
        if known.as_ref().is_some_and(|source| source.connections.load(Ordering::Relaxed) >= self.per_source_max) {
            return Err(Crowded::TooManyOfSource(self.per_source_max));
        }
        let source = known.unwrap_or_else(|| {
            let source = Source::new(address);
            table.sources.insert(address, Arc::clone(&source));
            source
        });
        source.connections.fetch_add(1, Ordering::Relaxed);
        self.open.fetch_add(1, Ordering::Relaxed);
        Ok(Place { sources: Arc::clone(self), source, has_brokers: false })
    }

    fn broker_room(&self) -> usize {
        (self.connections_max / BROKER_ROOM_DIVISOR).clamp(1, BROKER_ROOM_MAX).min(self.connections_max / 2)
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    /// A source is without connections since then.
    fn leave(&mut self, source: &Source, now: u64) {
        match source.last_broker.load(Ordering::Relaxed) {
            0 => _ = self.sources.remove(&source.address),
            last => self.left.push_back((source.address, last)),
        }
        while let Some(&(address, last)) = self.left.front()
            && (self.left.len() > REMEMBERED_MAX || now.saturating_sub(last) >= BROKER_MEMORY_MS)
        {
            self.left.pop_front();
            // It may have come back, or have left again meanwhile.
            let is_gone = |source: &Arc<Source>| {
                source.connections.load(Ordering::Relaxed) == 0 && source.last_broker.load(Ordering::Relaxed) == last
            };
            if self.sources.get(&address).is_some_and(is_gone) {
                self.sources.remove(&address);
            }
        }
    }
}

impl Source {
    fn new(address: IpAddr) -> Arc<Self> {
        Arc::new(Self {
            address,
            connections: AtomicUsize::new(0),
            brokers: AtomicUsize::new(0),
            last_broker: AtomicU64::new(0),
            bytes: AtomicUsize::new(0),
        })
    }

    pub(crate) fn address(&self) -> IpAddr {
        self.address
    }

    /// Whether it has brokers, or had some a short while ago.
    fn is_broker(&self, now: Millis) -> bool {
        let last = self.last_broker.load(Ordering::Relaxed);
        self.brokers.load(Ordering::Relaxed) > 0 || (last > 0 && now.0.saturating_sub(last) < BROKER_MEMORY_MS)
    }
}

impl Place {
    pub(crate) fn source(&self) -> &Arc<Source> {
        &self.source
    }

    /// The connection speaks for another source than its peer, as a proxy has told.
    ///
    /// # Errors
    /// There is no place for that source.
    pub(crate) fn move_to(&mut self, address: IpAddr) -> Result<(), Crowded> {
        *self = self.sources.enter(address)?;
        Ok(())
    }

    /// A broker has registered over this connection.
    pub(crate) fn has_brokers(&mut self) {
        if !std::mem::replace(&mut self.has_brokers, true) {
            self.source.brokers.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let Self { sources, source, has_brokers } = self;
        let now = sources.clock.now().0;
        let mut table = sources.lock();
        if *has_brokers {
            source.last_broker.store(now, Ordering::Relaxed);
            source.brokers.fetch_sub(1, Ordering::Relaxed);
        }
        sources.open.fetch_sub(1, Ordering::Relaxed);
        if source.connections.fetch_sub(1, Ordering::Relaxed) == 1 {
            table.leave(source, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(last: u8) -> IpAddr {
        [127, 0, 0, last].into()
    }

    fn sources(connections_max: usize, per_source_max: Option<usize>) -> Arc<Sources> {
        Sources::new(connections_max, per_source_max, Clock::start())
    }

    #[test]
    fn one_source_has_its_limit_and_leaves_nothing_behind() {
        let sources = sources(100, Some(2));
        let places = [sources.enter(ip(1)).unwrap(), sources.enter(ip(1)).unwrap()];
        assert_eq!(sources.enter(ip(1)).unwrap_err(), Crowded::TooManyOfSource(2));
        let other = sources.enter(ip(2)).unwrap();
        drop(places);
        assert!(sources.enter(ip(1)).is_ok());
        drop(other);
        assert_eq!(sources.lock().sources.len(), 0);
    }

    #[test]
    fn the_last_places_are_for_sources_with_brokers() {
        let sources = sources(32, None);
        let mut broker = sources.enter(ip(9)).unwrap();
        broker.has_brokers();
        let strangers: Vec<Place> = std::iter::from_fn(|| sources.enter(ip(1)).ok()).collect();
        assert_eq!(strangers.len(), 29, "two of 32 are kept, one has the broker");
        assert_eq!(sources.enter(ip(2)).unwrap_err(), Crowded::TooMany(32));
        // It comes back after its connection was lost.
        drop(broker);
        let returned = [sources.enter(ip(9)).unwrap(), sources.enter(ip(9)).unwrap(), sources.enter(ip(9)).unwrap()];
        assert_eq!(sources.enter(ip(9)).unwrap_err(), Crowded::TooMany(32));
        drop((strangers, returned));
        assert_eq!(sources.open.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_proxy_passes_its_place_on() {
        let sources = sources(32, Some(1));
        let mut first = sources.enter(ip(1)).unwrap();
        first.move_to(ip(7)).unwrap();
        let mut second = sources.enter(ip(1)).unwrap();
        assert_eq!(second.move_to(ip(7)), Err(Crowded::TooManyOfSource(1)));
        assert_eq!(sources.lock().sources.len(), 2);
    }

    #[test]
    fn sources_that_had_brokers_are_forgotten_when_there_are_many() {
        let sources = sources(32, None);
        let enter = |number: u32| {
            let mut place = sources.enter(IpAddr::V4(number.into())).unwrap();
            place.has_brokers();
            place
        };
        // Who comes again and again is remembered once it has left for good.
        let stays = enter(1);
        for number in 0..3 * REMEMBERED_MAX as u32 {
            drop(enter(number % 2 * number));
        }
        let table = sources.lock();
        assert!(table.left.len() <= REMEMBERED_MAX && table.sources.len() <= REMEMBERED_MAX + 1);
        assert!(table.sources.contains_key(&stays.source().address));
    }
}
