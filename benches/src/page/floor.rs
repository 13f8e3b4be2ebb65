//! One floor for each row: the better of those with different numbers of workers.

use std::collections::BTreeMap;

use super::subject::{FLOOR, is_floor};
use crate::results::{Measure, Results, Sample};

/// The condition that says how many workers the floor of a row has.
pub(crate) const WORKERS: &str = "workers";

/// The same results with the samples of one floor for each measure and its conditions, under the name [`FLOOR`].
///
/// Of the query rates it is the one with the higher median; CPU time and latency of queries are those of the same server
/// in the same rounds. Elsewhere it is the one with the lower median.
pub(crate) fn with_one(results: &Results) -> Results {
    let (floors, others): (Vec<Sample>, Vec<Sample>) =
        results.samples.iter().cloned().partition(|sample| is_floor(&sample.subject));
    let mut kept: Vec<Sample> = Vec::new();
    for sample in &floors {
        if best(&floors, sample) == Some(sample.subject.as_str()) {
            let mut sample = sample.clone();
            if let Some(workers) = workers(&sample.subject) {
                sample.at.insert(WORKERS.to_owned(), workers);
            }
            FLOOR.clone_into(&mut sample.subject);
            kept.push(sample);
        }
    }
    Results { samples: others.into_iter().chain(kept).collect(), ..results.clone() }
}

/// The floor that stands for the row of this sample.
fn best<'f>(floors: &'f [Sample], of: &Sample) -> Option<&'f str> {
    use Measure as M;
    let by_rate = matches!(of.measure, M::QueryRate | M::QueryCpu | M::QueryLatency | M::GeneratorCpu);
    let measure = if by_rate { M::QueryRate } else { of.measure };
    let is_same = |sample: &Sample| base(&sample.at) == base(&of.at);
    let rows = floors.iter().filter(|sample| sample.measure == measure && is_same(sample));
    let higher = matches!(measure, M::QueryRate | M::StormRate | M::ReadRate | M::ReadRateCpu);
    let worth = |sample: &&Sample| {
        let median = sample.median().unwrap_or(f64::NEG_INFINITY);
        if higher { median } else { -median }
    };
    let found = rows.max_by(|one, two| worth(one).total_cmp(&worth(two))).map(|sample| sample.subject.as_str());
    // Without a rate nothing is better than anything: the first one.
    found.or_else(|| floors.iter().find(|sample| sample.measure == of.measure).map(|sample| sample.subject.as_str()))
}

/// The conditions without those that split one row into several samples.
fn base(at: &BTreeMap<String, f64>) -> Vec<(&str, f64)> {
    at.iter().map(|(key, &value)| (key.as_str(), value)).filter(|&(key, _)| key != "percentile").collect()
}

/// `floor 2 workers` has 2.
fn workers(subject: &str) -> Option<f64> {
    subject.split(' ').nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_faster_floor_is_the_one_whose_cpu_time_counts() {
        let (one, four) = ([("in_flight", 1.0)], [("in_flight", 4.0)]);
        let rate = |subject, at, rate| Sample::new(Measure::QueryRate, subject, at, vec![rate]);
        let cpu = |subject, at, cpu| Sample::new(Measure::QueryCpu, subject, at, vec![cpu]);
        let samples = vec![
            rate("floor 1 worker", &one, 130e3),
            rate("floor 2 workers", &one, 110e3),
            rate("floor 1 worker", &four, 300e3),
            rate("floor 2 workers", &four, 430e3),
            cpu("floor 1 worker", &one, 7.0),
            cpu("floor 2 workers", &one, 6.0),
            cpu("floor 1 worker", &four, 2.0),
            cpu("floor 2 workers", &four, 2.5),
            rate("rwlock", &four, 400e3),
        ];
        let results = with_one(&Results { samples, ..Results::default() });
        let of = |measure, at| results.of(FLOOR, measure, at).and_then(Sample::median);
        assert_eq!(results.samples.len(), 5);
        assert_eq!((of(Measure::QueryRate, &one), of(Measure::QueryCpu, &one)), (Some(130e3), Some(7.0)));
        assert_eq!((of(Measure::QueryRate, &four), of(Measure::QueryCpu, &four)), (Some(430e3), Some(2.5)));
        assert!(results.of(FLOOR, Measure::QueryRate, &[("in_flight", 4.0), (WORKERS, 2.0)]).is_some());
    }
}
