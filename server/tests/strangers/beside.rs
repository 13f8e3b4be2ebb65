//! The latency of a healthy connection while something goes on, beside that of a server to which nothing happens: what
//! else the machine does is in both.

use std::thread;
use std::time::Duration;

use crate::peers::Ongoing;
use crate::report::at_most;
use crate::support::broker::Broker;
use crate::support::frame::Client;
use crate::support::latency::LatencyProbe;
use crate::support::ours;
use crate::support::process::{NameServer, Settings};

/// A p99 may not exceed this, or the ratio of the row, whichever is larger.
pub(crate) const P99_FLOOR: Duration = Duration::from_millis(10);
const MEASURED: Duration = Duration::from_secs(2);
/// The best of so many rounds counts.
const ROUNDS: usize = 4;

/// A server that routes the topic `T`; its broker lives as long as the connection.
pub(crate) fn with_topic(config: &[(&str, &str)]) -> (NameServer, Client) {
    let server = ours::start(&Settings::with(config));
    let mut broker = Client::connect(server.addr());
    assert_eq!(broker.code(&Broker::new("b", 0, "10.0.0.1:10911", &["T", "U"]).register()), 0);
    (server, broker)
}

/// A row of latency: what it is about, and what it may be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct P99<'a> {
    pub(crate) row: &'a str,
    pub(crate) what: &'a str,
    /// To the p99 of a probe of the quiet server at the same time, or of this one before, whichever is larger.
    pub(crate) ratio: u32,
    pub(crate) floor: Duration,
}

impl P99<'_> {
    /// Measures the routes of the topic `T` while something goes on, which begins anew in each round.
    pub(crate) fn hold<T: Send + 'static>(self, server: &NameServer, begin: impl Fn() -> Ongoing<T>) {
        let Self { row, what, ratio, floor } = self;
        let (quiet, _broker) = with_topic(&[("workerThreads", "1")]);
        let alone = LatencyProbe::measure(server.addr(), "T", MEASURED / 4).p99();
        let mut best: Option<(Duration, Duration)> = None;
        for _ in 0..ROUNDS {
            let ongoing = begin();
            // What goes on has begun before it is measured.
            thread::sleep(Duration::from_millis(100));
            let control = LatencyProbe::start(quiet.addr(), "T");
            let beside = LatencyProbe::measure(server.addr(), "T", MEASURED).p99();
            let control = control.finish().p99();
            ongoing.finish();
            println!("p99 alone {alone:?}, of the quiet server {control:?}, beside {what} {beside:?}");
            let limit = (alone.max(control) * ratio).max(floor);
            if best.is_none_or(|(p99, before)| {
                beside.as_secs_f64() / limit.as_secs_f64() < p99.as_secs_f64() / before.as_secs_f64()
            }) {
                best = Some((beside, limit));
            }
            if beside <= limit {
                break;
            }
        }
        let (beside, limit) = best.expect("rounds");
        at_most(row, &format!("us p99 beside {what}"), beside.as_micros(), limit.as_micros());
    }
}
