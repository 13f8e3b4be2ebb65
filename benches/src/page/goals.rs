//! The goals of the server, and whether a run reaches them.

use super::{
    subject::{BACKENDS, DEFAULT_BACKEND, FLOOR, OFFICIAL},
    table::{Cell, MISSED, Table},
    unit::Unit,
};
use crate::results::{Measure, Results, Sample};

type At = &'static [(&'static str, f64)];

/// What is to be reached, and from which samples it follows.
struct Goal {
    measure: &'static str,
    limit: Limit,
    source: Source,
}

#[derive(Clone, Copy)]
enum Limit {
    AtLeast(f64),
    AtMost(f64),
    /// One for each strategy, in the order of [`BACKENDS`].
    AtMostEach([f64; BACKENDS.len()]),
}

enum Source {
    /// The value itself.
    Value(Measure, At),
    /// The value divided by that of the floor, of which another measure may be the one that counts.
    OverFloor(Measure, At, (Measure, At)),
    /// The value divided by that of the official server.
    OverOfficial(Measure, At),
}

const ONE_IN_FLIGHT: At = &[("connections", 16.0), ("in_flight", 1.0), ("topics", 1e3)];
const FOUR_IN_FLIGHT: At = &[("connections", 16.0), ("in_flight", 4.0), ("topics", 1e3)];
const UNDER_STORM: At = &[("in_flight", 4.0)];
const P99: At = &[("percentile", 99.0)];
const UNCHANGED: At = &[("changed", 0.0)];
const CHANGED: At = &[("changed", 1.0)];
const LARGE: At = &[("topics", 1e5)];
const LARGE_ON_FOUR_BROKERS: At = &[("topics", 1e5), ("brokers", 4.0)];
const IDLE_CONNECTIONS: At = &[("connections", 1e4)];
const LONG_LIST: At = &[("topics", 2e5)];

// The floor does what every server must: what is missing to 1 is the price of a registry, a parsed header and a real answer.
const RATE_MIN: f64 = 0.95;
const RATE_PIPELINED_MIN: f64 = 0.9;
const RATE_UNDER_STORM_MIN: f64 = 0.7;
const CPU_MAX: f64 = 1.1;
const CPU_PIPELINED_MAX: f64 = 1.2;
/// What clients of the official server would notice.
const OFFICIAL_RATE_MIN: f64 = 3.0;
const STORM_P99_US: f64 = 3e3;
const STORM_APPLIED_PERCENT: f64 = 90.0;
const STORM_REGISTRATION_P99_MS: f64 = 100.0;
const REGISTRATION_UNCHANGED_MS: f64 = 1.5;
const REGISTRATION_CHANGED_MS: [f64; BACKENDS.len()] = [6.0, 8.0, 8.0, 10.0, 10.0];
const WIPE_MS: f64 = 1.0;
const DEATH_MS: f64 = 2.0;
const DISTURBANCE_MAX: f64 = 2.0;
const AVALANCHE_S: f64 = 3.0;
const AVALANCHE_P99_US: f64 = 5e3;
const AVALANCHE_PEAK_MAX: f64 = 2.0;
const MEMORY_MIB: [f64; BACKENDS.len()] = [64.0, 80.0, 80.0, 80.0, 80.0];
const IDLE_MIB: f64 = 6.0;
const CONNECTION_KIB: f64 = 8.0;
const LIST_MS: f64 = 100.0;
const LIST_P99_MS: f64 = 5.0;
const START_MS: f64 = 10.0;
const GONE_MS: f64 = 50.0;

const fn goal(measure: &'static str, limit: Limit, source: Source) -> Goal {
    Goal { measure, limit, source }
}

#[rustfmt::skip]
const GOALS: &[Goal] = {
    use {Limit::*, Measure as M, Source::*};
    &[
        goal("route queries/s, 16 connections x 1 in flight, of the floor's",
            AtLeast(RATE_MIN), OverFloor(M::QueryRate, ONE_IN_FLIGHT, (M::QueryRate, ONE_IN_FLIGHT))),
        goal("route queries/s, 16 connections x 4 in flight, of the floor's",
            AtLeast(RATE_PIPELINED_MIN), OverFloor(M::QueryRate, FOUR_IN_FLIGHT, (M::QueryRate, FOUR_IN_FLIGHT))),
        goal("route queries/s, 16 x 4, while 2 brokers re-register 10,000 changed topics every 50 ms, of the floor's",
            AtLeast(RATE_UNDER_STORM_MIN), OverFloor(M::StormRate, UNDER_STORM, (M::QueryRate, FOUR_IN_FLIGHT))),
        goal("p99 of a route query during that storm", AtMost(STORM_P99_US), Value(M::StormLatency, P99)),
        goal("registrations of the storm that were applied", AtLeast(STORM_APPLIED_PERCENT), Value(M::StormApplied, &[])),
        goal("p99 of a registration of the storm, from when it was due",
            AtMost(STORM_REGISTRATION_P99_MS), Value(M::StormRegistration, P99)),
        goal("CPU of the server for a route query, 1 in flight, of the floor's",
            AtMost(CPU_MAX), OverFloor(M::QueryCpu, ONE_IN_FLIGHT, (M::QueryCpu, ONE_IN_FLIGHT))),
        goal("CPU of the server for a route query, 4 in flight, of the floor's",
            AtMost(CPU_PIPELINED_MAX), OverFloor(M::QueryCpu, FOUR_IN_FLIGHT, (M::QueryCpu, FOUR_IN_FLIGHT))),
        goal("CPU for a registration of 10,000 topics, unchanged",
            AtMost(REGISTRATION_UNCHANGED_MS), Value(M::RegistrationCpu, UNCHANGED)),
        goal("CPU for a registration of 10,000 topics, all changed",
            AtMostEach(REGISTRATION_CHANGED_MS), Value(M::RegistrationCpu, CHANGED)),
        goal("wipe over 100,000 topics", AtMost(WIPE_MS), Value(M::Wipe, LARGE)),
        goal("death of a broker visible, 100,000 topics x 4 brokers", AtMost(DEATH_MS), Value(M::Death, LARGE)),
        goal("p99 of route queries during wipes and deaths, of the p99 without",
            AtMost(DISTURBANCE_MAX), Value(M::Disturbance, LARGE)),
        goal("avalanche: 300 brokers x 1,000 topics registered", AtMost(AVALANCHE_S), Value(M::AvalancheTime, &[])),
        goal("p99 of route queries during the avalanche", AtMost(AVALANCHE_P99_US), Value(M::AvalancheLatency, P99)),
        goal("peak memory of the avalanche, of the settled", AtMost(AVALANCHE_PEAK_MAX), Value(M::AvalanchePeak, &[])),
        goal("memory, 100,000 topics x 4 brokers", AtMostEach(MEMORY_MIB), Value(M::Memory, LARGE_ON_FOUR_BROKERS)),
        goal("memory, idle", AtMost(IDLE_MIB), Value(M::IdleMemory, &[])),
        goal("memory of an idle connection, of 10,000", AtMost(CONNECTION_KIB), Value(M::ConnectionMemory, IDLE_CONNECTIONS)),
        goal("list of 200,000 topics", AtMost(LIST_MS), Value(M::TopicList, LONG_LIST)),
        goal("p99 of route queries of others during such lists", AtMost(LIST_P99_MS), Value(M::TopicListLatency, LONG_LIST)),
        goal("start to the first answer", AtMost(START_MS), Value(M::Start, &[])),
        goal("300 brokers on closed connections are gone", AtMost(GONE_MS), Value(M::Gone, &[])),
        goal("brokers of 300 that lose a route by reconnecting", AtMost(0.0), Value(M::Lost, &[])),
        goal("route queries/s, 16 x 1, of the official server's",
            AtLeast(OFFICIAL_RATE_MIN), OverOfficial(M::QueryRate, ONE_IN_FLIGHT)),
        goal("route queries/s, 16 x 4, of the official server's",
            AtLeast(OFFICIAL_RATE_MIN), OverOfficial(M::QueryRate, FOUR_IN_FLIGHT)),
    ]
};

/// What a run says of one goal.
#[derive(Clone, Debug)]
pub(crate) struct Verdict {
    pub(crate) measure: &'static str,
    pub(crate) subject: &'static str,
    /// `None` if it was not measured.
    pub(crate) is_met: Option<bool>,
    /// The value that is compared, as it is shown.
    pub(crate) value: String,
    /// What it follows from.
    pub(crate) note: String,
    pub(crate) goal: String,
}

/// Every goal, judged for one strategy.
pub(crate) fn judge(results: &Results, subject: &'static str) -> Vec<Verdict> {
    GOALS.iter().map(|goal| goal.judge(results, subject)).collect()
}

/// Goals and what was measured: the default strategy first, the others beside it.
pub(crate) fn table(results: &Results) -> Table {
    let judged = BACKENDS.map(|backend| judge(results, backend));
    let is_measured = |verdicts: &&Vec<Verdict>| verdicts.iter().any(|verdict| verdict.is_met.is_some());
    let [default, others @ ..] = &judged;
    let others: Vec<&Vec<Verdict>> = others.iter().filter(is_measured).collect();
    let mut table = Table::default();
    table.head.extend(["", "goal", DEFAULT_BACKEND, "met"].map(str::to_owned));
    let names = others.iter().filter_map(|verdicts| verdicts.first());
    table.head.extend(names.map(|verdict| verdict.subject.to_owned()));
    for (row, verdict) in default.iter().enumerate() {
        let met = match verdict.is_met {
            Some(true) => "yes",
            Some(false) => MISSED,
            None => "-",
        };
        let met = Cell { text: met.to_owned(), is_met: verdict.is_met, note: String::new() };
        let value = Cell { text: verdict.value.clone(), note: verdict.note.clone(), is_met: None };
        let mut cells = vec![verdict.measure.to_owned().into(), verdict.goal.clone().into(), value, met];
        let others = others.iter().filter_map(|verdicts| verdicts.get(row));
        cells.extend(others.map(|other| {
            // A goal of its own stands beside the value.
            let note = if other.goal == verdict.goal { String::new() } else { format!("goal {}", other.goal) };
            Cell { text: other.value.clone(), note, is_met: other.is_met }
        }));
        table.rows.push(cells);
    }
    table
}

impl Goal {
    fn judge(&self, results: &Results, subject: &'static str) -> Verdict {
        let unit = self.unit();
        let (limit, sign) = self.limit.of(subject);
        let mut verdict = Verdict {
            measure: self.measure,
            subject,
            is_met: None,
            value: "not measured".to_owned(),
            note: String::new(),
            goal: format!("{sign} {}", unit.show(limit)),
        };
        if let Some((value, note)) = self.source.value(results, subject) {
            verdict.is_met = Some(if sign == AT_MOST { value <= limit } else { value >= limit });
            verdict.value = unit.show(value);
            verdict.note = note;
        }
        verdict
    }

    const fn unit(&self) -> Unit {
        match self.source {
            Source::Value(measure, _) => Unit::of(measure),
            Source::OverFloor(..) | Source::OverOfficial(..) => Unit::Times,
        }
    }
}

const AT_MOST: &str = "\u{2264}";
const AT_LEAST: &str = "\u{2265}";

impl Limit {
    fn of(self, subject: &str) -> (f64, &'static str) {
        match self {
            Self::AtLeast(limit) => (limit, AT_LEAST),
            Self::AtMost(limit) => (limit, AT_MOST),
            Self::AtMostEach(limits) => {
                let place = BACKENDS.iter().position(|&backend| backend == subject).unwrap_or(0);
                (limits[place], AT_MOST)
            }
        }
    }
}

impl Source {
    /// The value, and what it follows from.
    fn value(&self, results: &Results, subject: &str) -> Option<(f64, String)> {
        match *self {
            Self::Value(measure, at) => {
                let sample = results.of(subject, measure, at)?;
                Some((sample.median().filter(|value| value.is_finite())?, spread(sample)))
            }
            Self::OverFloor(measure, at, (floor_measure, floor_at)) => {
                let sample = results.of(subject, measure, at)?;
                ratio(sample, results.of(FLOOR, floor_measure, floor_at)?)
            }
            Self::OverOfficial(measure, at) => {
                let official = results.find(measure, at).find(|sample| sample.subject.starts_with(OFFICIAL))?;
                ratio(results.of(subject, measure, at)?, official)
            }
        }
    }
}

fn ratio(sample: &Sample, other: &Sample) -> Option<(f64, String)> {
    let unit = Unit::of(sample.measure);
    let (ours, theirs) = (sample.median()?, other.median()?);
    let workers = match other.at.get(super::floor::WORKERS) {
        Some(1.0) => ", 1 worker".to_owned(),
        Some(workers) => format!(", {workers} workers"),
        None => String::new(),
    };
    Some((sample.ratio(other)?, format!("{} of {}{workers}", unit.show(ours), unit.show(theirs))))
}

fn spread(sample: &Sample) -> String {
    let unit = Unit::of(sample.measure);
    match sample.quartiles() {
        Some((low, high)) if low != high => format!("{} to {}", unit.show(low), unit.show(high)),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results(samples: Vec<Sample>) -> Results {
        super::super::floor::with_one(&Results { samples, ..Results::default() })
    }

    fn verdict(results: &Results, subject: &'static str, start: &str) -> Verdict {
        let found = judge(results, subject).into_iter().find(|verdict| verdict.measure.starts_with(start));
        found.unwrap()
    }

    #[test]
    fn a_ratio_is_that_to_the_better_floor() {
        let rate = |subject, rounds| Sample::new(Measure::QueryRate, subject, FOUR_IN_FLIGHT, rounds);
        let mut samples = vec![
            rate("rwlock", vec![91e3, 80e3, 95e3]),
            rate("floor 1 worker", vec![50e3, 50e3, 50e3]),
            rate("floor 2 workers", vec![100e3, 100e3, 100e3]),
        ];
        let met = verdict(&results(samples.clone()), "rwlock", "route queries/s, 16 connections x 4");
        assert_eq!((met.is_met, met.value.as_str()), (Some(true), "0.910\u{d7}"));
        assert_eq!(met.note, "91 k/s of 100 k/s, 2 workers");
        samples[0].rounds = vec![89e3, 80e3, 95e3];
        assert_eq!(
            verdict(&results(samples.clone()), "rwlock", "route queries/s, 16 connections x 4").is_met,
            Some(false)
        );
        samples.push(Sample::new(Measure::StormRate, "rwlock", UNDER_STORM, vec![75e3, 65e3, 71e3]));
        let storm = verdict(&results(samples.clone()), "rwlock", "route queries/s, 16 x 4, while");
        assert_eq!((storm.is_met, storm.value.as_str()), (Some(true), "0.710\u{d7}"));
        samples.truncate(1);
        assert_eq!(verdict(&results(samples), "rwlock", "route queries/s, 16 connections x 4").is_met, None);
    }

    #[test]
    fn strategies_have_goals_of_their_own() {
        let of = |subject| Sample::new(Measure::RegistrationCpu, subject, CHANGED, vec![7.0]);
        let results = results(BACKENDS.into_iter().map(of).collect());
        let met =
            BACKENDS.map(|backend| verdict(&results, backend, "CPU for a registration of 10,000 topics, all").is_met);
        assert_eq!(met, [Some(false), Some(true), Some(true), Some(true), Some(true)]);
    }

    #[test]
    fn every_goal_can_be_missed_and_met() {
        for goal in GOALS {
            for (factor, expected) in [(0.01, true), (100.0, false)] {
                let (limit, sign) = goal.limit.of("rwlock");
                let value = if limit == 0.0 { f64::from(u8::from(!expected)) } else { limit * factor };
                let expected = if sign == AT_MOST { expected } else { !expected };
                let samples = match goal.source {
                    Source::Value(measure, at) => vec![Sample::new(measure, "rwlock", at, vec![value])],
                    Source::OverFloor(measure, at, (floor, floor_at)) => vec![
                        Sample::new(measure, "rwlock", at, vec![value]),
                        Sample::new(floor, "floor", floor_at, vec![1.0]),
                    ],
                    Source::OverOfficial(measure, at) => vec![
                        Sample::new(measure, "rwlock", at, vec![value]),
                        Sample::new(measure, "official 5.5.0", at, vec![1.0]),
                    ],
                };
                let results = Results { samples, ..Results::default() };
                assert_eq!(goal.judge(&results, "rwlock").is_met, Some(expected), "{}: {value}", goal.measure);
            }
        }
    }

    #[test]
    fn the_table_shows_the_strategies_that_were_measured() {
        let start = |subject, ms| Sample::new(Measure::Start, subject, &[], vec![ms]);
        let table = table(&results(vec![start("rwlock", 2.0), start("epoch", 12.0)]));
        assert_eq!(table.head, ["", "goal", "rwlock", "met", "epoch"]);
        let row = table.rows.iter().find(|row| row[0].text.starts_with("start")).unwrap();
        assert_eq!((row[3].is_met, row[4].is_met), (Some(true), Some(false)));
        assert!(table.rows.iter().all(|row| row.len() == 5));
        assert!(table.markdown().contains("12 ms MISSED"));
    }
}
