//! What several parts need to ask for routes.

use std::{net::SocketAddr, time::Duration};

use hdrhistogram::Histogram;

use super::lab::{Lab, Subject};
use crate::{
    client::{Client, Query},
    cluster::{Registered, populate, topic_names},
    load::{self, Question},
    process::Server,
    results::{Measure, Results},
};

/// Percentiles that are kept of each round.
const PERCENTILES: [f64; 6] = [50.0, 90.0, 99.0, 99.9, 99.99, 100.0];
/// Nanoseconds of a microsecond, the unit of most latencies.
pub(crate) const US: f64 = 1e3;
/// Nanoseconds of a millisecond.
pub(crate) const MS: f64 = 1e6;
/// Length of the route of a topic on 8 brokers: a floor answers with as many bytes.
pub const USUAL_BODY_BYTES: usize = 1_735;

/// A server with brokers in it, and what its answers must be.
#[derive(Debug)]
pub(crate) struct Contestant {
    pub(crate) server: Server,
    pub(crate) questions: Vec<Question>,
    pub(crate) brokers: Vec<Registered>,
}

impl Contestant {
    /// Starts a subject, and registers these topics of so many brokers unless it is a floor.
    pub(crate) fn start(lab: &Lab, subject: Subject, brokers: usize, topics: &[String]) -> anyhow::Result<Self> {
        let server = lab.start(subject, USUAL_BODY_BYTES)?;
        let is_floor = matches!(subject, Subject::Floor(_));
        let brokers = if is_floor { Vec::new() } else { populate(server.addr(), 0..brokers, topics)? };
        let questions = routes(server.addr(), topics)?;
        Ok(Self { server, questions, brokers })
    }

    /// As [`start`](Self::start), loaded for as long as it takes to be warm.
    pub(crate) fn start_warm(lab: &Lab, subject: Subject, brokers: usize, topics: &[String]) -> anyhow::Result<Self> {
        let one = Self::start(lab, subject, brokers, topics)?;
        lab.progress.step(format_args!("warming {subject} up"));
        load::closed(one.server.addr(), &one.questions, 16, 4, lab.warm_up(subject))?;
        Ok(one)
    }

    /// Keeps its brokers alive.
    pub(crate) fn beat(&mut self) -> anyhow::Result<()> {
        self.brokers.iter_mut().try_for_each(Registered::beat)
    }
}

/// Asks for the routes of these topics once; the answers are expected from then on.
pub(crate) fn routes(addr: SocketAddr, topics: &[String]) -> anyhow::Result<Vec<Question>> {
    let mut client = Client::connect(addr)?;
    topics.iter().map(|topic| Question::learn(&mut client, Query::route(topic))).collect()
}

/// A server with lookups of its own: topics on 8 brokers that stay as they are, whatever happens to others.
///
/// # Errors
/// When a broker is refused.
pub(crate) fn bystanders(addr: SocketAddr) -> anyhow::Result<(Vec<Registered>, Vec<Question>)> {
    let topics: Vec<String> = topic_names(1_000).iter().map(|name| format!("stock{name}")).collect();
    let brokers = populate(addr, 50_000..50_008, &topics)?;
    Ok((brokers, routes(addr, &topics)?))
}

/// Connections of the lookups that go on beside something else.
const BYSTANDER_CONNECTIONS: usize = 8;
/// Their lookups a second: far from the limit of each server, and enough for a p99 of a second.
const BYSTANDER_PER_SECOND: u32 = 5_000;

/// Lookups of an open loop for that long: their latencies, in nanoseconds.
pub(crate) fn look_up(addr: SocketAddr, questions: &[Question], duration: Duration) -> anyhow::Result<Histogram<u64>> {
    Ok(load::open(addr, questions, BYSTANDER_CONNECTIONS, BYSTANDER_PER_SECOND, duration)?.latencies)
}

/// Keeps the percentiles of a round, in a unit of so many nanoseconds.
pub(crate) fn record_latencies(
    results: &mut Results,
    measure: Measure,
    subject: Subject,
    at: &[(&str, f64)],
    latencies: &Histogram<u64>,
    unit: f64,
) {
    for percentile in PERCENTILES {
        let at: Vec<_> = at.iter().copied().chain([("percentile", percentile)]).collect();
        results.record(measure, subject, &at, latencies.value_at_percentile(percentile) as f64 / unit);
    }
}

/// Memory in MiB.
pub(crate) fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// Time in milliseconds.
pub(crate) fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_kept_by_round() {
        let mut results = Results::default();
        let mut latencies = Histogram::new(3).unwrap();
        (1..=1_000).for_each(|us| latencies.record(us * 1_000).unwrap());
        for _ in 0..2 {
            record_latencies(
                &mut results,
                Measure::OpenLatency,
                Subject::Floor(1),
                &[("per_second", 1e4)],
                &latencies,
                US,
            );
        }
        assert_eq!(results.samples.len(), PERCENTILES.len());
        let p99 = [("per_second", 1e4), ("percentile", 99.0)];
        let rounds = &results.of("floor 1 worker", Measure::OpenLatency, &p99).unwrap().rounds;
        assert!(rounds.len() == 2 && rounds.iter().all(|us| (990.0..992.0).contains(us)), "{rounds:?}");
    }
}
