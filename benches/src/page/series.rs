//! From samples to lines of a chart.

use std::collections::BTreeMap;

use super::subject::slot;
use crate::results::{Measure, Results, Sample};

/// The values of one subject in a chart.
#[derive(Clone, Debug)]
pub(crate) struct Series {
    pub(crate) subject: String,
    /// In ascending order of `x`.
    pub(crate) points: Vec<Point>,
}

/// The rounds of one sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Point {
    pub(crate) x: f64,
    pub(crate) low: f64,
    pub(crate) median: f64,
    pub(crate) high: f64,
}

impl Point {
    /// `None` of a sample without rounds, or with values that are no numbers.
    pub(crate) fn new(x: f64, sample: &Sample) -> Option<Self> {
        let (low, high) = sample.quartiles()?;
        let point = Self { x, low, median: sample.median()?, high };
        [x, low, point.median, high].iter().all(|value| value.is_finite()).then_some(point)
    }
}

/// Keys that say something of a sample and are no condition of it: workers of the floor, more threads than processors.
const NOTES: [&str; 2] = [super::floor::WORKERS, "oversubscribed"];

/// Conditions, as they are compared.
pub(crate) type At = Vec<(String, f64)>;

/// The series of a measure by one of its conditions.
pub(crate) fn along(results: &Results, measure: Measure, at: &[(&str, f64)], key: &str) -> Vec<Series> {
    let points = results.find(measure, at).filter_map(|sample| {
        let x = *sample.at.get(key)?;
        Some((sample.subject.as_str(), Point::new(x, sample)?))
    });
    collect(points)
}

/// Several samples of each subject side by side: the place of each group is its number.
pub(crate) fn beside(results: &Results, groups: &[(Measure, Vec<(&str, f64)>)]) -> Vec<Series> {
    let points = groups.iter().enumerate().flat_map(|(place, (measure, at))| {
        let found = results.find(*measure, at);
        found.filter_map(move |sample| Some((sample.subject.as_str(), Point::new(place as f64, sample)?)))
    });
    collect(points)
}

/// Puts points in the order in which subjects and values stand; of two points at the same place the first is kept.
fn collect<'p>(points: impl Iterator<Item = (&'p str, Point)>) -> Vec<Series> {
    let mut subjects: BTreeMap<(usize, &str), Vec<Point>> = BTreeMap::new();
    for (subject, point) in points {
        subjects.entry((slot(subject), subject)).or_default().push(point);
    }
    let series = subjects.into_iter().map(|((_, subject), mut points)| {
        points.sort_by(|one, two| one.x.total_cmp(&two.x));
        points.dedup_by(|two, one| one.x == two.x);
        Series { subject: subject.to_owned(), points }
    });
    series.collect()
}

/// The conditions without `key` under which a measure was taken at two or more values of `key`, those with the most
/// samples first.
pub(crate) fn sweeps(results: &Results, measure: Measure, at: &[(&str, f64)], key: &str) -> Vec<At> {
    let mut found: Vec<(At, Vec<f64>, usize)> = Vec::new();
    for sample in results.find(measure, at) {
        let Some(&value) = sample.at.get(key) else { continue };
        let is_other = |name: &str| name != key && !NOTES.contains(&name);
        let others = sample.at.iter().filter(|(name, _)| is_other(name));
        let others: At = others.map(|(name, &value)| (name.clone(), value)).collect();
        let place = found.iter().position(|(at, ..)| *at == others).unwrap_or_else(|| {
            found.push((others, Vec::new(), 0));
            found.len() - 1
        });
        let (_, values, samples) = &mut found[place];
        *samples += 1;
        if !values.contains(&value) {
            values.push(value);
        }
    }
    found.retain(|(_, values, _)| values.len() >= 2);
    found.sort_by_key(|&(.., samples)| std::cmp::Reverse(samples));
    found.into_iter().map(|(at, ..)| at).collect()
}

/// Conditions as [`Results::find`] wants them.
pub(crate) fn borrowed(at: &At) -> Vec<(&str, f64)> {
    at.iter().map(|(key, value)| (key.as_str(), *value)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subjects_and_points_are_in_order() {
        let at = |topics: f64, percentile: f64| [("topics", topics), ("percentile", percentile)];
        let sample = |subject, topics, percentile, value| {
            Sample::new(Measure::ReadLatency, subject, &at(topics, percentile), vec![value, value + 1.0, value + 2.0])
        };
        let samples = vec![
            sample("floor", 1e3, 99.0, 3.0),
            sample("epoch", 1e4, 99.0, 2.0),
            sample("epoch", 1e3, 99.0, 1.0),
            sample("epoch", 1e3, 50.0, 0.5),
            Sample::new(Measure::ReadLatency, "cached", &at(1e3, 99.0), Vec::new()),
            Sample::new(Measure::ReadLatency, "cached", &at(1e3, 99.0), vec![f64::NAN]),
        ];
        let results = Results { samples, ..Results::default() };
        let series = along(&results, Measure::ReadLatency, &[("percentile", 99.0)], "topics");
        let shown: Vec<(&str, Vec<f64>)> = series
            .iter()
            .map(|series| (series.subject.as_str(), series.points.iter().map(|point| point.median).collect()))
            .collect();
        assert_eq!(shown, [("epoch", vec![2.0, 3.0]), ("floor", vec![4.0])]);
        let sweeps = sweeps(&results, Measure::ReadLatency, &[], "topics");
        assert_eq!(sweeps, [vec![("percentile".to_owned(), 99.0)]]);
    }
}
