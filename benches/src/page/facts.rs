//! The few figures of a strategy on which advice rests.

use super::{
    names,
    subject::{BACKENDS, FLOOR},
};
use crate::results::{Measure, Results, Sample};

const CHANGED: &[(&str, f64)] = &[("changed", 1.0)];
const LARGE: &[(&str, f64)] = &[("topics", 1e5), ("brokers", 4.0)];
const PIPELINED: &[(&str, f64)] = &[("connections", 16.0), ("in_flight", 4.0), ("topics", 1e3)];
const P99: (&str, f64) = ("percentile", 99.0);

/// What a strategy costs and gives.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    pub(crate) backend: &'static str,
    /// Of lookups while much changes.
    pub(crate) tail: Option<Tail>,
    /// 100,000 topics on 4 brokers.
    pub(crate) memory_mib: Option<f64>,
    /// CPU of a registration that changes 10,000 topics.
    pub(crate) registration_ms: Option<f64>,
    /// The worst p99 of a change while readers read.
    pub(crate) writer_us: Option<f64>,
    /// Route queries a second, 16 connections with 4 in flight.
    pub(crate) rate: Option<f64>,
}

/// The p99 that is the worst one in comparison to the floor's.
#[derive(Clone, Debug)]
pub(crate) struct Tail {
    pub(crate) us: f64,
    pub(crate) over_floor: f64,
    /// Under which load.
    pub(crate) place: String,
}

/// Of every strategy of which there is a figure.
pub(crate) fn all(results: &Results) -> Vec<Facts> {
    let facts = BACKENDS.into_iter().map(|backend| of(results, backend));
    let is_known = |one: &Facts| {
        one.tail.is_some() || [one.memory_mib, one.registration_ms, one.writer_us, one.rate].iter().any(Option::is_some)
    };
    facts.filter(is_known).collect()
}

fn of(results: &Results, backend: &'static str) -> Facts {
    let median =
        |measure, at| results.of(backend, measure, at).and_then(Sample::median).filter(|value| value.is_finite());
    let changes = results.find(Measure::ChangeTime, &[P99]).filter(|sample| sample.subject == backend);
    let read = changes.filter(|sample| sample.at.get("readers").is_some_and(|&readers| readers > 0.0));
    Facts {
        backend,
        tail: tail_in_process(results, backend).or_else(|| tail_over_tcp(results, backend)),
        memory_mib: median(Measure::Memory, LARGE),
        registration_ms: median(Measure::RegistrationCpu, CHANGED),
        writer_us: read.filter_map(Sample::median).max_by(f64::total_cmp),
        rate: median(Measure::QueryRate, PIPELINED).filter(|&rate| rate > 0.0),
    }
}

/// Without sockets it is the strategy that is seen. Of several numbers of topics the worst.
fn tail_in_process(results: &Results, backend: &str) -> Option<Tail> {
    let at = [P99, ("mix", names::RE_REGISTRATION)];
    let samples = results.find(Measure::ReadLatency, &at).filter(|sample| sample.subject == backend);
    let tails = samples.filter_map(|sample| {
        let at: Vec<(&str, f64)> = sample.at.iter().map(|(key, &value)| (key.as_str(), value)).collect();
        let over_floor = sample.ratio(results.of(FLOOR, Measure::ReadLatency, &at)?)?;
        let topics = sample.at.get("topics").map_or_else(|| "topics".to_owned(), |&topics| names::changing(topics));
        let place = format!("in process, {topics} changing every 10 ms");
        Some(Tail { us: sample.median()?, over_floor, place })
    });
    tails.max_by(|one, two| one.over_floor.total_cmp(&two.over_floor))
}

/// The storm over TCP, against the floor without a storm: there is no other.
fn tail_over_tcp(results: &Results, backend: &str) -> Option<Tail> {
    let sample = results.of(backend, Measure::StormLatency, &[P99])?;
    let at: Vec<(&str, f64)> = PIPELINED.iter().copied().chain([P99]).collect();
    let floor =
        results.of(FLOOR, Measure::StormLatency, &[P99]).or_else(|| results.of(FLOOR, Measure::QueryLatency, &at))?;
    Some(Tail { us: sample.median()?, over_floor: sample.ratio(floor)?, place: "over TCP".to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tail_is_the_worst_while_brokers_register() {
        let at = |mix: f64, topics: f64| [("mix", mix), ("topics", topics), P99];
        let sample = |subject, mix, topics, us| Sample::new(Measure::ReadLatency, subject, &at(mix, topics), vec![us]);
        let samples = vec![
            sample(FLOOR, 2.0, 1e4, 2.0),
            sample(FLOOR, 2.0, 1e5, 4.0),
            sample(FLOOR, names::STEADY, 1e4, 1.0),
            // Without registrations it is another question.
            sample("cached", names::STEADY, 1e4, 100.0),
            sample("cached", 2.0, 1e4, 20.0),
            sample("cached", 2.0, 1e5, 24.0),
        ];
        let mut results = Results { samples, ..Results::default() };
        let tail = all(&results).pop().unwrap().tail.unwrap();
        assert_eq!((tail.us, tail.over_floor), (20.0, 10.0));
        assert_eq!(tail.place, "in process, 10,000 of 10,000 topics changing every 10 ms");
        results.samples.retain(|sample| sample.subject != FLOOR);
        assert!(all(&results).is_empty());
        results.samples.push(Sample::new(Measure::StormLatency, "cached", &[P99], vec![900.0]));
        results.samples.push(Sample::new(Measure::StormLatency, FLOOR, &[P99], vec![300.0]));
        assert_eq!(all(&results).pop().unwrap().tail.unwrap().over_floor, 3.0);
    }
}
