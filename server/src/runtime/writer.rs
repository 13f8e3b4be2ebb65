//! The thread of the registry's writer.

use std::{
    io,
    sync::{
        Arc,
        mpsc::{self, RecvTimeoutError},
    },
    time::{Duration, Instant},
};

use registry_core::{Applied, Command, Millis, Outcome, Publisher, TableLimits, Writer};
use tokio::sync::{mpsc as notices, oneshot};
use tracing::Level;

use super::{liveness::ConnectionCloser, notifier::Notice, thread::spawn_critical};
use crate::{body::Quoted, counters::Kind, logging::Limit, service::Shared};

/// How often the writer does its housekeeping.
const TICK: Duration = Duration::from_secs(1);
/// How long it sleeps between two steps of the sweep, which take about as long. A thread that computes on and on keeps its
/// processor for several milliseconds, whoever waits for it: here, lookups that miss a dead broker.
const SWEEP_PAUSE: Duration = Duration::from_micros(500);

/// Changes that are published as one, if they wait together; ...
const BATCH_MAX: usize = 64;
/// ... and for how long they are collected, so that a small one does not wait for many large ones.
const BATCH_TIME_MAX: Duration = Duration::from_millis(1);

/// A change and who waits for its outcome.
#[derive(Debug)]
struct Job {
    command: Command,
    /// When it was decided, where that is not when it is made.
    decided: Option<Millis>,
    reply: Option<oneshot::Sender<Applied>>,
}

/// Sends changes to the writer. Cheap to clone.
///
/// The queue has no bound of its own: a connection has one change at a time under way, and a bounded number of late
/// heartbeats.
#[derive(Clone, Debug)]
pub(crate) struct WriterHandle(mpsc::Sender<Job>);

/// The writer thread has ended: the process is about to.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the writer has stopped")]
pub(crate) struct WriterStopped;

impl WriterHandle {
    /// Asks for a change. When the outcome is there, every later query sees it.
    pub(crate) fn send(&self, command: Command) -> Result<oneshot::Receiver<Applied>, WriterStopped> {
        self.ask(command, None)
    }

    fn ask(&self, command: Command, decided: Option<Millis>) -> Result<oneshot::Receiver<Applied>, WriterStopped> {
        let (reply, outcome) = oneshot::channel();
        self.0.send(Job { command, decided, reply: Some(reply) }).map_err(|_| WriterStopped)?;
        Ok(outcome)
    }

    /// As [`send`](Self::send), for a thread that may wait.
    pub(crate) fn execute_blocking(&self, command: Command) -> Result<Applied, WriterStopped> {
        self.send(command)?.blocking_recv().map_err(|_| WriterStopped)
    }

    /// Removes the brokers that were silent for too long at the time `decided`, however late this is done.
    pub(crate) async fn expire(&self, decided: Millis) -> Result<Applied, WriterStopped> {
        self.ask(Command::Expire, Some(decided))?.await.map_err(|_| WriterStopped)
    }

    /// Makes a change that nobody waits for.
    pub(crate) fn submit(&self, command: Command) {
        // A writer that has stopped has nothing to change any more.
        let _ = self.0.send(Job { command, decided: None, reply: None });
    }
}

/// What follows from changes outside the registry.
pub(crate) struct Consequences {
    pub(crate) shared: Arc<Shared>,
    pub(crate) closer: ConnectionCloser,
    pub(crate) notices: notices::Sender<Notice>,
}

/// Starts the writer thread. It ends when the last handle is dropped; a panic ends the process (what readers see is whole
/// until then).
///
/// # Errors
/// As [`spawn_critical`].
pub(crate) fn spawn<P: Publisher>(publisher: P, consequences: Consequences) -> io::Result<WriterHandle> {
    let (sender, jobs) = mpsc::channel();
    let prepare = || Ok(Writer::new(publisher, TableLimits::default()));
    spawn_critical("writer", prepare, move |writer| run(writer, &jobs, &consequences))?;
    Ok(WriterHandle(sender))
}

fn run<P: Publisher>(mut writer: Writer<P>, jobs: &mpsc::Receiver<Job>, consequences: &Consequences) {
    let mut tick_due = Instant::now() + TICK;
    let mut batch = Vec::with_capacity(BATCH_MAX);
    loop {
        let mut has_removed = false;
        match jobs.recv_timeout(tick_due.saturating_duration_since(Instant::now())) {
            Ok(first) => has_removed = serve(&mut writer, first, jobs, &mut batch, consequences),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        if Instant::now() >= tick_due {
            let is_more = writer.tick();
            tick_due = Instant::now() + if is_more { SWEEP_PAUSE } else { TICK };
        }
        if has_removed {
            tick_due = tick_due.min(Instant::now() + SWEEP_PAUSE);
        }
    }
}

/// Makes the first change, and those that wait with it, visible as one, and answers them. Says whether brokers have gone,
/// so that there is something to sweep.
fn serve<P: Publisher>(
    writer: &mut Writer<P>,
    first: Job,
    jobs: &mpsc::Receiver<Job>,
    batch: &mut Vec<(Job, Applied)>,
    consequences: &Consequences,
) -> bool {
    let began = Instant::now();
    let now = consequences.shared.clock.now();
    let mut next = Some(first);
    while let Some(job) = next {
        #[cfg(feature = "fault-injection")]
        if matches!(&job.command, Command::DeleteTopic { topic, .. } if **topic == *crate::service::POISON) {
            panic!("injected in the writer");
        }
        let applied = writer.apply(&job.command, job.decided.unwrap_or(now));
        batch.push((job, applied));
        let has_room = batch.len() < BATCH_MAX && began.elapsed() < BATCH_TIME_MAX;
        next = if has_room { jobs.try_recv().ok() } else { None };
    }
    writer.publish();
    // Only now is anybody told.
    let mut has_removed = false;
    for (job, mut applied) in batch.drain(..) {
        consequences.follow(&job.command, &mut applied);
        has_removed |= applied.brokers_removed > 0;
        if let Some(reply) = job.reply {
            // Whoever asked may be gone.
            let _ = reply.send(applied);
        }
    }
    has_removed
}

static UNREGISTERED: Limit = Limit::new(Level::INFO, "unregistered");
static CONNECTION_LOST: Limit = Limit::new(Level::INFO, "connection_lost");
static EXPIRED: Limit = Limit::new(Level::INFO, "expired");
static REMOVED: Limit = Limit::new(Level::INFO, "removed");

impl Consequences {
    fn follow(&self, command: &Command, applied: &mut Applied) {
        if applied.brokers_removed > 0 {
            let (reason, limit) = match command {
                Command::Unregister(_) => ("unregistered", &UNREGISTERED),
                Command::Disconnect(_) => ("connection_lost", &CONNECTION_LOST),
                Command::Expire => ("expired", &EXPIRED),
                _ => ("other", &REMOVED),
            };
            self.shared.counters.add(Kind::BrokerRemoved, reason, u64::from(applied.brokers_removed));
            if limit.admits() {
                tracing::info!(brokers = applied.brokers_removed, reason, "brokers removed");
            }
        }
        if let (Command::Register(registration), Outcome::Registered(_)) = (command, &applied.outcome) {
            let (name, addr) = (&registration.broker_name, &registration.broker_addr);
            tracing::debug!(broker = %Quoted::of(name), addr = %Quoted::of(addr), "registered");
        }
        for connection in applied.abandoned.drain(..) {
            self.closer.close(connection);
        }
        if applied.min_id_changes.is_empty() || !self.shared.config.live().notify_min_broker_id_changed() {
            return;
        }
        for change in applied.min_id_changes.drain(..) {
            if self.notices.try_send(Notice(change)).is_err() {
                // As in the original, a notice that cannot be sent is lost: brokers ask for themselves every second.
                self.shared.counters.count(Kind::Failure, "notice_dropped");
            }
        }
    }
}
