//! The scan for silent brokers, and the closing of connections that nobody is behind any more.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use registry_core::{ConnectionId, Millis};
use tokio::{
    sync::mpsc,
    time::{Instant, MissedTickBehavior, interval_at},
};
use tracing::warn;

use super::{worker::WorkerMessage, writer::WriterHandle};
use crate::service::Shared;

/// Closes connections on whichever worker has them.
#[derive(Clone, Debug)]
pub(crate) struct ConnectionCloser(Vec<mpsc::UnboundedSender<WorkerMessage>>);

impl ConnectionCloser {
    pub(crate) fn new(workers: Vec<mpsc::UnboundedSender<WorkerMessage>>) -> Self {
        Self(workers)
    }

    /// Closes a connection; one that is gone already stays so.
    pub(crate) fn close(&self, connection: ConnectionId) {
        for worker in &self.0 {
            // A worker that has stopped has closed all of its connections.
            let _ = worker.send(WorkerMessage::Close(connection));
        }
    }
}

/// When a worker was last seen at work.
#[derive(Clone, Debug, Default)]
pub(crate) struct Attendance(Arc<[AtomicU64; 2]>);

impl Attendance {
    /// The worker is at work.
    pub(super) fn note(&self, now: Millis) {
        let [last, grace_ends] = &*self.0;
        let since = now.0.saturating_sub(last.swap(now.0, Ordering::Relaxed));
        if since > GRACE.as_millis() as u64 {
            grace_ends.store(now.0 + GRACE.as_millis() as u64, Ordering::Relaxed);
        }
    }

    /// Whether it is late, or was a moment ago.
    fn is_late(&self, now: Millis) -> bool {
        let [last, grace_ends] = &*self.0;
        let since = now.0.saturating_sub(last.load(Ordering::Relaxed));
        since > GRACE.as_millis() as u64 || now.0 < grace_ends.load(Ordering::Relaxed)
    }
}

/// A worker that was not at work for so long has heartbeats in its sockets; and after our own lateness nobody is removed
/// for so long, in which they are read.
const GRACE: Duration = Duration::from_secs(1);

/// Removes silent brokers every `interval`, until the server leaves.
///
/// Nobody is removed for our own lateness: while a worker, or this scan, comes late (the process was paused, or the machine
/// was) the heartbeats of that time are still in the sockets. A later scan finds whoever is really gone.
pub(crate) async fn scan(interval: Duration, shared: Arc<Shared>, workers: Vec<Attendance>, writer: WriterHandle) {
    let mut ticks = interval_at(Instant::now() + interval, interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut last = std::time::Instant::now();
    let mut grace_ends = last;
    loop {
        ticks.tick().await;
        let now = shared.clock.now();
        let since = last.elapsed();
        last = std::time::Instant::now();
        if is_late(since, interval) || workers.iter().any(|worker| worker.is_late(now)) {
            warn!(?since, ?interval, "the scan for silent brokers, or a worker, is late: a round of grace");
            grace_ends = last + GRACE;
        }
        if last < grace_ends || !shared.phase.removes() {
            continue;
        }
        if writer.expire(now).await.is_err() {
            return;
        }
    }
}

/// A scan is late when a whole further one would have fitted in, and it is not just a short pause.
fn is_late(since: Duration, interval: Duration) -> bool {
    since >= interval.saturating_mul(2).max(interval + GRACE / 2)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use registry_core::Millis;

    use super::{Attendance, is_late};

    #[test]
    fn a_pause_is_late_and_jitter_is_not() {
        let interval = Duration::from_secs(5);
        assert!(!is_late(Duration::from_secs(5), interval));
        assert!(!is_late(Duration::from_millis(9_999), interval));
        assert!(is_late(Duration::from_secs(10), interval));
        assert!(is_late(Duration::from_secs(200), interval));
        assert!(!is_late(Duration::from_millis(400), Duration::from_millis(10)), "a busy machine is no pause");
    }

    #[test]
    fn a_worker_that_comes_back_has_a_moment_to_read_what_waits() {
        let worker = Attendance::default();
        worker.note(Millis(500));
        assert!(!worker.is_late(Millis(1_500)));
        assert!(worker.is_late(Millis(1_501)), "it may have died, or been paused");
        worker.note(Millis(9_000));
        assert!(worker.is_late(Millis(9_999)));
        worker.note(Millis(9_900));
        assert!(!worker.is_late(Millis(10_000)));
    }
}
