//! The part of the registry that heartbeats write: one atomic word for each broker, shared with every reader.

use std::sync::Arc;

use crate::{
    ConnectionId, DataVersion, Millis, Name,
    sync::{AtomicBool, AtomicU64, Ordering},
};

/// Key of a broker in the live table: cluster and address, as the broker sent them.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LiveKey {
    /// `clusterName`.
    pub cluster: Name,
    /// `brokerAddr`.
    pub addr: Name,
}

/// When a broker was last heard of, or that it is being removed.
///
/// Any thread may beat; only the writer claims. Once claimed, a pulse stays claimed: the broker is gone, and a new
/// registration starts a new pulse. So a heartbeat that was answered before the claim saves the broker, and one after
/// it is told so and waits for the writer.
#[derive(Debug)]
pub struct Pulse(AtomicU64);

/// The word of a claimed pulse: later than any time, so that the latest time never overwrites it.
const CLAIMED: u64 = u64::MAX;

impl Pulse {
    pub(crate) fn new(now: Millis) -> Self {
        Self(AtomicU64::new(now.0))
    }

    /// Stores a heartbeat. Returns `false` when the broker is being removed: the heartbeat came too late, and the
    /// caller asks the writer what became of the broker.
    ///
    /// One atomic read-modify-write; never waits.
    #[must_use]
    pub fn beat(&self, now: Millis) -> bool {
        self.0.fetch_max(now.0, Ordering::AcqRel) != CLAIMED
    }

    /// Claims the pulse for removal if no heartbeat is younger than `timeout_ms`.
    pub(crate) fn claim_if_older(&self, now: Millis, timeout_ms: u64) -> bool {
        let last = self.0.load(Ordering::Acquire);
        last.saturating_add(timeout_ms) < now.0
            && self.0.compare_exchange(last, CLAIMED, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Claims the pulse whatever its time: the broker leaves for another reason than its silence.
    pub(crate) fn claim(&self) {
        self.0.store(CLAIMED, Ordering::Release);
    }
}

/// What readers know of a live broker. Replaced by each registration, but for the pulse, which the broker keeps.
#[derive(Debug)]
pub struct LiveRecord {
    /// When the broker was last heard of.
    pub pulse: Arc<Pulse>,
    /// Version of its topic table.
    pub data_version: DataVersion,
    /// The connection that carries it.
    pub connection: ConnectionId,
    /// `haServerAddr`.
    pub ha_addr: Option<Name>,
    /// Name of the group that it registered with last.
    pub broker_name: Name,
    /// Its id in that group.
    pub broker_id: i64,
    fingerprint: u128,
    touched: AtomicBool,
}

impl LiveRecord {
    /// A record of this registration; one for which `is_recognised` is false never counts as unchanged when it is repeated.
    pub(crate) fn new(pulse: Arc<Pulse>, registration: &crate::Registration, is_recognised: bool) -> Self {
        Self {
            pulse,
            data_version: registration.body.data_version,
            connection: registration.connection,
            ha_addr: registration.ha_addr.clone(),
            broker_name: registration.broker_name.clone(),
            broker_id: registration.broker_id,
            fingerprint: if is_recognised { registration.fingerprint } else { 0 },
            touched: AtomicBool::new(false),
        }
    }

    /// Says whether a registration with this fingerprint would change nothing: it is the one that made this record,
    /// and nothing of the broker's group has been changed by anybody else since.
    pub fn is_unchanged(&self, fingerprint: u128) -> bool {
        fingerprint != 0 && fingerprint == self.fingerprint && !self.touched.load(Ordering::Acquire)
    }

    /// Something of the broker's group was changed by somebody else: its next registration must be looked at.
    pub(crate) fn touch(&self) {
        self.touched.store(true, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::{Millis, Pulse};

    #[test]
    fn a_heartbeat_before_the_claim_saves_and_one_after_it_is_told() {
        let pulse = Pulse::new(Millis(0));
        assert!(!pulse.claim_if_older(Millis(100), 100), "not yet older than its timeout");
        assert!(pulse.beat(Millis(50)));
        assert!(!pulse.claim_if_older(Millis(150), 100), "the heartbeat saved it");
        assert!(pulse.claim_if_older(Millis(151), 100));
        assert!(!pulse.beat(Millis(152)), "too late");
        assert!(!pulse.claim_if_older(Millis(10_000), 100), "a claim is never made twice");
    }

    #[test]
    fn time_never_goes_back_and_timeouts_never_overflow() {
        let pulse = Pulse::new(Millis(100));
        assert!(pulse.beat(Millis(90)));
        assert!(!pulse.claim_if_older(Millis(110), 10), "the later heartbeat counts");
        assert!(!pulse.claim_if_older(Millis(u64::MAX - 1), u64::MAX));
    }
}
