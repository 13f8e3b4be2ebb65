//! A healthy client whose latency is measured: it asks for one route every millisecond.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::broker::route;
use super::frame::{Client, Frame, Received};

/// Time between two questions.
const PERIOD: Duration = Duration::from_millis(1);
/// An answer that takes longer is as good as none.
const LONGEST: Duration = Duration::from_secs(60);

/// Asks for the route of a topic over and over, on its own thread and connection.
#[derive(Debug)]
pub(crate) struct LatencyProbe {
    done: Arc<AtomicBool>,
    thread: JoinHandle<Latencies>,
}

/// What a probe has measured.
#[derive(Clone, Debug, Default)]
pub(crate) struct Latencies {
    /// Sorted. Time counts from when a question was due, so that a stall is seen in all questions that it delays.
    times: Vec<Duration>,
    /// How often each code was answered.
    pub(crate) codes: BTreeMap<i64, u64>,
}

impl LatencyProbe {
    pub(crate) fn start(addr: SocketAddr, topic: &str) -> Self {
        let done = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&done);
        let request = route(topic).encode();
        let thread = thread::spawn(move || {
            let mut client = Client::connect(addr);
            let mut measured = Latencies::default();
            let mut due = Instant::now();
            while !ended.load(Ordering::Relaxed) || measured.times.is_empty() {
                client.send(&request);
                let Received::Frame(answer) = client.receive(LONGEST) else { break };
                measured.times.push(due.elapsed());
                *measured.codes.entry(Frame::parse(&answer).expect("a frame").code()).or_default() += 1;
                due += PERIOD;
                thread::sleep(due.saturating_duration_since(Instant::now()));
            }
            measured.times.sort_unstable();
            measured
        });
        Self { done, thread }
    }

    /// Measures for a while.
    pub(crate) fn measure(addr: SocketAddr, topic: &str, time: Duration) -> Latencies {
        let probe = Self::start(addr, topic);
        thread::sleep(time);
        probe.finish()
    }

    pub(crate) fn finish(self) -> Latencies {
        self.done.store(true, Ordering::Relaxed);
        self.thread.join().expect("the healthy connection is served")
    }
}

impl Latencies {
    pub(crate) fn count(&self) -> usize {
        self.times.len()
    }

    pub(crate) fn p50(&self) -> Duration {
        self.at(0.5)
    }

    pub(crate) fn p99(&self) -> Duration {
        self.at(0.99)
    }

    pub(crate) fn max(&self) -> Duration {
        self.times.last().copied().unwrap_or_default()
    }

    fn at(&self, share: f64) -> Duration {
        let last = self.times.len().saturating_sub(1);
        self.times.get((last as f64 * share).round() as usize).copied().unwrap_or_default()
    }
}
