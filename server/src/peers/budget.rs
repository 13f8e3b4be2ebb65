//! The memory that peers may hold: bytes are charged before they are taken, and given back when they are let go.
//!
//! ```text
//!   memoryBytesMax ┬ a quarter only for connections that carry brokers
//!                  └ the rest for anybody ┬ at most five eighths of all for one source address
//!                                         └ at most half of all for one connection
//!
//!   a frame's length is known ─> charge ─> it is read, waits, is worked on ─> answered ─> given back
//! ```
//!
//! Charged are frames that are incomplete or wait for a lane, bodies that are inflated and parsed, lists while anybody is
//! still taking them, and answers that a peer does not take. A frame that is answered as soon as it is read is not: it stands
//! in a buffer that the worker lends.
//!
//! Who gets nothing waits: its frame stays in its socket, or it is told `SYSTEM_BUSY`. While somebody waits, the time in
//! which the others must get on with what they hold is short ([`Budget::is_short`]).

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
};

use registry_core::{ConnectionId, Millis};

use super::sources::Source;

/// How long the budget counts as short after somebody has got nothing, in milliseconds: longer than a worker's tick.
const SHORT_MS: u64 = 1_000;

/// All of the memory.
#[derive(Debug)]
pub(crate) struct Budget {
    used: AtomicUsize,
    bytes_max: usize,
    /// Until when it is short.
    short_until: AtomicU64,
}

/// What one connection holds, and for whom.
#[derive(Debug)]
pub(crate) struct Account {
    budget: Arc<Budget>,
    source: Arc<Source>,
    connection: ConnectionId,
    used: AtomicUsize,
    has_brokers: AtomicBool,
}

/// Bytes that are taken; given back on drop.
#[derive(Debug)]
#[must_use = "the bytes are given back when it is dropped"]
pub(crate) struct Charge {
    account: Arc<Account>,
    bytes: usize,
}

/// There is no memory for it now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{bytes} bytes exceed what is left of {limit} {max}")]
pub(crate) struct OverBudget {
    bytes: usize,
    limit: &'static str,
    max: usize,
}

impl Budget {
    pub(crate) fn new(bytes_max: usize) -> Arc<Self> {
        Arc::new(Self { used: AtomicUsize::new(0), bytes_max, short_until: AtomicU64::new(0) })
    }

    /// Bytes that are taken now.
    pub(crate) fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// Somebody has got nothing.
    pub(crate) fn note_short(&self, now: Millis) {
        self.short_until.fetch_max(now.0 + SHORT_MS, Ordering::Relaxed);
    }

    /// Whether somebody waits for memory, or did a moment ago.
    pub(crate) fn is_short(&self, now: Millis) -> bool {
        now.0 < self.short_until.load(Ordering::Relaxed)
    }
}

impl Account {
    pub(crate) fn new(budget: &Arc<Budget>, source: &Arc<Source>, connection: ConnectionId) -> Arc<Self> {
        Arc::new(Self {
            budget: Arc::clone(budget),
            source: Arc::clone(source),
            connection,
            used: AtomicUsize::new(0),
            has_brokers: AtomicBool::new(false),
        })
    }

    pub(crate) fn source(&self) -> &Arc<Source> {
        &self.source
    }

    pub(crate) fn connection(&self) -> ConnectionId {
        self.connection
    }

    /// The connection carries brokers.
    pub(crate) fn note_brokers(&self) {
        self.has_brokers.store(true, Ordering::Relaxed);
    }

    pub(crate) fn has_brokers(&self) -> bool {
        self.has_brokers.load(Ordering::Relaxed)
    }

    /// Takes memory. Never waits; any thread.
    ///
    /// # Errors
    /// The connection, its source or all together would hold more than they may. Nothing is taken.
    pub(crate) fn charge(self: &Arc<Self>, bytes: usize) -> Result<Charge, OverBudget> {
        let max = self.budget.bytes_max;
        let open = if self.has_brokers() { max } else { max - max / 4 };
        let steps = [
            (&self.used, "a connection's share,", max / 2),
            (&self.source.bytes, "a source's share,", max / 8 * 5),
            (&self.budget.used, "memoryBytesMax", open),
        ];
        for (at, &(used, limit, max)) in steps.iter().enumerate() {
            let take = |held: usize| held.checked_add(bytes).filter(|&sum| sum <= max);
            if used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_err() {
                for (used, ..) in &steps[..at] {
                    used.fetch_sub(bytes, Ordering::Relaxed);
                }
                return Err(OverBudget { bytes, limit, max });
            }
        }
        Ok(Charge { account: Arc::clone(self), bytes })
    }

    fn give_back(&self, bytes: usize) {
        for used in [&self.used, &self.source.bytes, &self.budget.used] {
            used.fetch_sub(bytes, Ordering::Relaxed);
        }
    }
}

impl Charge {
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.account.give_back(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;
    use crate::{clock::Clock, peers::Sources};

    struct World {
        sources: Arc<Sources>,
        budget: Arc<Budget>,
    }

    impl World {
        fn new(bytes_max: usize) -> Self {
            Self { sources: Sources::new(100, None, Clock::start()), budget: Budget::new(bytes_max) }
        }

        fn account(&self, last: u8) -> Arc<Account> {
            let place = self.sources.enter(IpAddr::from([127, 0, 0, last])).unwrap();
            let account = Account::new(&self.budget, place.source(), ConnectionId(1));
            std::mem::forget(place);
            account
        }
    }

    #[test]
    fn what_is_taken_is_given_back() {
        let world = World::new(1_000);
        let account = world.account(1);
        let charge = account.charge(250).unwrap();
        assert_eq!((world.budget.used(), account.source().bytes.load(Ordering::Relaxed)), (250, 250));
        drop(charge);
        assert_eq!((world.budget.used(), account.source().bytes.load(Ordering::Relaxed)), (0, 0));
    }

    #[test]
    fn connections_sources_and_strangers_have_shares() {
        let world = World::new(1_000);
        let one = [world.account(1), world.account(1)];
        assert!(one[0].charge(501).is_err(), "half for a connection");
        let held = [one[0].charge(500).unwrap(), one[1].charge(125).unwrap()];
        let refused = one[1].charge(1).unwrap_err();
        assert_eq!(refused.to_string(), "1 bytes exceed what is left of a source's share, 625");
        let two = world.account(2);
        let more = two.charge(125).unwrap();
        assert!(world.account(3).charge(1).is_err(), "the last quarter is for brokers");
        assert_eq!(world.budget.used(), 750, "who is refused takes nothing");
        let broker = world.account(3);
        broker.note_brokers();
        let known = broker.charge(250).unwrap();
        assert!(broker.charge(1).is_err());
        drop((held, more, known));
        assert_eq!(world.budget.used(), 0);
        assert!(one.iter().all(|account| account.used.load(Ordering::Relaxed) == 0), "nor of its own share");
    }

    #[test]
    fn it_is_short_for_a_moment_after_somebody_got_nothing() {
        let budget = Budget::new(1_000);
        assert!(!budget.is_short(Millis(5)));
        budget.note_short(Millis(5));
        assert!(budget.is_short(Millis(1_004)) && !budget.is_short(Millis(1_005)));
    }
}
