//! One lane: a thread, and the queue before it.

use std::{
    io,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use tracing::warn;

use super::fair::{FairQueue, Flow};
use crate::runtime::thread::spawn_critical;

/// The way to a lane. Cheap to clone; the thread ends when the last one is dropped.
///
/// The queue has no bound of its own: a connection has a bounded number of requests under way, and its bytes are charged
/// to the budget.
#[derive(Debug)]
pub(super) struct LaneHandle<J>(Arc<Closing<J>>);

/// What a lane does with its jobs.
pub(super) trait Work<J> {
    /// Does a job, or drops one that nobody waits for any more.
    fn serve(&mut self, job: J);

    /// Nothing has come for [`IDLE`].
    fn rest(&mut self);
}

/// After how long without a job a lane lets go of what it keeps.
const IDLE: Duration = Duration::from_secs(1);

#[derive(Debug)]
struct Closing<J>(Arc<Queue<J>>);

#[derive(Debug)]
struct Queue<J> {
    state: Mutex<State<J>>,
    ready: Condvar,
}

#[derive(Debug)]
struct State<J> {
    jobs: FairQueue<J>,
    is_open: bool,
}

enum Next<J> {
    Job(Flow, J),
    Idle,
    Closed,
}

impl<J: Send + 'static> LaneHandle<J> {
    /// Starts the thread `name`. `prepare` runs on it and makes what does the work.
    ///
    /// # Errors
    /// As [`spawn_critical`].
    pub(super) fn start<W: Work<J>>(
        name: &'static str,
        nice: i32,
        prepare: impl FnOnce() -> W + Send + 'static,
    ) -> io::Result<Self> {
        let state = State { jobs: FairQueue::new(), is_open: true };
        let queue = Arc::new(Queue { state: Mutex::new(state), ready: Condvar::new() });
        let jobs = Arc::clone(&queue);
        let prepare = move || {
            if nice > 0 {
                lower_priority(name, nice);
            }
            Ok(prepare())
        };
        spawn_critical(name, prepare, move |work| serve(&jobs, work))?;
        Ok(Self(Arc::new(Closing(queue))))
    }

    /// Puts a job of so many bytes into the queue.
    pub(super) fn push(&self, flow: Flow, bytes: usize, job: J) {
        self.0.0.lock().jobs.push(flow, bytes, job);
        self.0.0.ready.notify_one();
    }
}

impl<J> Clone for LaneHandle<J> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<J> Drop for Closing<J> {
    fn drop(&mut self) {
        self.0.lock().is_open = false;
        self.0.ready.notify_one();
    }
}

fn serve<J, W: Work<J>>(queue: &Queue<J>, mut work: W) {
    loop {
        match queue.next() {
            Next::Job(flow, job) => {
                let began = Instant::now();
                work.serve(job);
                let took = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
                queue.lock().jobs.charge(flow, took);
            }
            Next::Idle => work.rest(),
            Next::Closed => return,
        }
    }
}

impl<J> Queue<J> {
    /// Waits for a job.
    fn next(&self) -> Next<J> {
        let deadline = Instant::now() + IDLE;
        let mut state = self.lock();
        loop {
            if let Some((flow, job)) = state.jobs.pop() {
                return Next::Job(flow, job);
            }
            if !state.is_open {
                return Next::Closed;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Next::Idle;
            }
            state = self.ready.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<J>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Lookups and changes go first when there are fewer cores than threads.
fn lower_priority(name: &str, nice: i32) {
    // On Linux the calling thread alone; elsewhere it may be the process, where it does no good.
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::setpriority_process(None, nice) {
        warn!(%error, name, "cannot lower the priority of a thread");
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use registry_core::ConnectionId;

    use super::*;

    struct Echo(mpsc::Sender<u32>);

    impl Work<u32> for Echo {
        fn serve(&mut self, job: u32) {
            // The last handle goes while jobs wait.
            std::thread::sleep(Duration::from_millis(1));
            self.0.send(job).unwrap();
        }

        fn rest(&mut self) {}
    }

    #[test]
    fn a_lane_serves_what_it_got_and_ends_with_its_last_handle() {
        let (sender, done) = mpsc::channel();
        let lane = LaneHandle::start("echo", 0, move || Echo(sender)).unwrap();
        let flow = Flow { connection: ConnectionId(1), source: [127, 0, 0, 1].into(), is_known: false };
        let other = lane.clone();
        for job in 0..100 {
            lane.push(flow, 10, job);
        }
        drop(lane);
        other.push(flow, 10, 100);
        drop(other);
        let served: Vec<u32> = done.iter().collect();
        assert_eq!(served, (0..=100).collect::<Vec<_>>());
    }
}
