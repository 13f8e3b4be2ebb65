//! The scan for silent brokers, and the closing of connections that nobody is behind any more.

use std::time::Duration;

use registry_core::{Command, ConnectionId};
use tokio::{
    sync::mpsc,
    time::{Instant, MissedTickBehavior, interval_at},
};
use tracing::warn;

use super::{worker::WorkerMessage, writer::WriterHandle};

/// Closes connections on whichever worker has them.
#[derive(Clone, Debug)]
pub(crate) struct Departures(Vec<mpsc::UnboundedSender<WorkerMessage>>);

impl Departures {
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

/// Removes silent brokers every `interval`, for ever.
///
/// A scan that comes late removes nobody: the process was paused, or the machine was, and the heartbeats of that time
/// are still in the sockets. The next scan finds whoever is really gone.
pub(crate) async fn scan(interval: Duration, writer: WriterHandle) {
    let mut ticks = interval_at(Instant::now() + interval, interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut last = std::time::Instant::now();
    loop {
        ticks.tick().await;
        let since = last.elapsed();
        last = std::time::Instant::now();
        if is_late(since, interval) {
            warn!(?since, ?interval, "the scan for silent brokers is late: a round of grace");
            continue;
        }
        if writer.execute(Command::Expire).await.is_err() {
            return;
        }
    }
}

/// A scan is late when a whole further one would have fitted in.
fn is_late(since: Duration, interval: Duration) -> bool {
    since >= interval.saturating_mul(2)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::is_late;

    #[test]
    fn a_pause_is_late_and_jitter_is_not() {
        let interval = Duration::from_secs(5);
        assert!(!is_late(Duration::from_secs(5), interval));
        assert!(!is_late(Duration::from_millis(9_999), interval));
        assert!(is_late(Duration::from_secs(10), interval));
        assert!(is_late(Duration::from_secs(200), interval));
    }
}
