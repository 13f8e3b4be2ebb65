//! The goals of the server, and whether a run reaches them.

use super::{
    names,
    subject::{BACKENDS, DEFAULT_BACKEND, FLOOR, OFFICIAL, is_peer},
    table::{Cell, MISSED, Table},
    unit::{Unit, trimmed},
};
use crate::results::{Measure, Results, Sample};

type At = &'static [(&'static str, f64)];

/// What is to be reached, and from which samples it follows.
struct Goal {
    measure: &'static str,
    limit: Limit,
    source: Source,
}

/// The bound of a value, for each strategy in the order of [`BACKENDS`].
#[derive(Clone, Copy)]
struct Limit {
    bound: Bound,
    each: [f64; BACKENDS.len()],
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Bound {
    AtLeast,
    AtMost,
}

/// A strategy without a goal.
const NONE: f64 = f64::NAN;

enum Source {
    /// The value itself.
    Value(Measure, At),
    /// The value divided by that of the floor, of which another measure may be the one that counts.
    OverFloor(Measure, At, (Measure, At)),
    /// The value divided by that of the official server.
    OverOfficial(Measure, At),
    /// The value divided by that of the same strategy under other conditions.
    OverItself(Measure, At, At),
    /// The value divided by that of the default strategy under other conditions.
    OverDefault(Measure, At, At),
}

const ONE_IN_FLIGHT: At = &[("connections", 16.0), ("in_flight", 1.0), ("topics", 1e3)];
const FOUR_IN_FLIGHT: At = &[("connections", 16.0), ("in_flight", 4.0), ("topics", 1e3)];
const UNDER_STORM: At = &[("in_flight", 4.0)];
const CHANGING: At = &[("mix", names::RE_REGISTRATION), ("topics", 1e4), ("percentile", 99.0)];
const CHANGING_LARGE: At = &[("mix", names::RE_REGISTRATION), ("topics", 1e5), ("percentile", 99.0)];
const ONE_READER: At = &[("mix", names::STEADY), ("topics", 1e4), ("threads", 1.0)];
const TWO_READERS: At = &[("mix", names::STEADY), ("topics", 1e4), ("threads", 2.0)];
const PERMISSION: At = &[("change", names::PERMISSION), ("topics", 1e5), ("readers", 0.0), ("percentile", 50.0)];
const ADDRESS: At = &[("change", names::ADDRESS), ("topics", 1e5), ("readers", 0.0), ("percentile", 50.0)];
const LOADED: At = &[("topics", 1e5), ("rewrites", 0.0)];
const REWRITTEN: At = &[("topics", 1e5), ("rewrites", 20.0)];
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
const TAIL_MAX: [f64; BACKENDS.len()] = [NONE, 5.0, 3.0, 3.0, 3.0];
const TWO_READERS_MIN: [f64; BACKENDS.len()] = [NONE, NONE, 1.9, 1.9, 1.9];
/// Whatever the number of topics.
const SMALL_CHANGE_US: f64 = 20.0;
/// A second copy of everything, and something for the allocator.
const REWRITTEN_MAX: f64 = 2.2;

const fn at_least(limit: f64) -> Limit {
    Limit { bound: Bound::AtLeast, each: [limit; BACKENDS.len()] }
}

const fn at_most(limit: f64) -> Limit {
    Limit { bound: Bound::AtMost, each: [limit; BACKENDS.len()] }
}

const fn goal(measure: &'static str, limit: Limit, source: Source) -> Goal {
    Goal { measure, limit, source }
}

/// The goals of the server, each strategy compiled into it.
#[rustfmt::skip]
const SERVER: &[Goal] = {
    use {Bound::AtMost, Measure as M, Source::*};
    &[
        goal("route queries/s, 16 connections x 1 in flight, of the floor's",
            at_least(RATE_MIN), OverFloor(M::QueryRate, ONE_IN_FLIGHT, (M::QueryRate, ONE_IN_FLIGHT))),
        goal("route queries/s, 16 connections x 4 in flight, of the floor's",
            at_least(RATE_PIPELINED_MIN), OverFloor(M::QueryRate, FOUR_IN_FLIGHT, (M::QueryRate, FOUR_IN_FLIGHT))),
        goal("route queries/s, 16 x 4, while 2 brokers re-register 10,000 changed topics every 50 ms, of the floor's under the same storm",
            at_least(RATE_UNDER_STORM_MIN), OverFloor(M::StormRate, UNDER_STORM, (M::StormRate, UNDER_STORM))),
        goal("p99 of a route query during that storm", at_most(STORM_P99_US), Value(M::StormLatency, P99)),
        goal("registrations of the storm that were applied", at_least(STORM_APPLIED_PERCENT), Value(M::StormApplied, &[])),
        goal("p99 of a registration of the storm, from when it was due",
            at_most(STORM_REGISTRATION_P99_MS), Value(M::StormRegistration, P99)),
        goal("CPU of the server for a route query, 1 in flight, of the floor's",
            at_most(CPU_MAX), OverFloor(M::QueryCpu, ONE_IN_FLIGHT, (M::QueryCpu, ONE_IN_FLIGHT))),
        goal("CPU of the server for a route query, 4 in flight, of the floor's",
            at_most(CPU_PIPELINED_MAX), OverFloor(M::QueryCpu, FOUR_IN_FLIGHT, (M::QueryCpu, FOUR_IN_FLIGHT))),
        goal("CPU for a registration of 10,000 topics, unchanged",
            at_most(REGISTRATION_UNCHANGED_MS), Value(M::RegistrationCpu, UNCHANGED)),
        goal("CPU for a registration of 10,000 topics, all changed",
            Limit { bound: AtMost, each: REGISTRATION_CHANGED_MS }, Value(M::RegistrationCpu, CHANGED)),
        goal("wipe over 100,000 topics", at_most(WIPE_MS), Value(M::Wipe, LARGE)),
        goal("death of a broker visible, 100,000 topics x 4 brokers", at_most(DEATH_MS), Value(M::Death, LARGE)),
        goal("p99 of route queries during wipes and deaths, of the p99 without",
            at_most(DISTURBANCE_MAX), Value(M::Disturbance, LARGE)),
        goal("avalanche: 300 brokers x 1,000 topics registered", at_most(AVALANCHE_S), Value(M::AvalancheTime, &[])),
        goal("p99 of route queries during the avalanche", at_most(AVALANCHE_P99_US), Value(M::AvalancheLatency, P99)),
        goal("peak memory of the avalanche, of the settled", at_most(AVALANCHE_PEAK_MAX), Value(M::AvalanchePeak, &[])),
        goal("memory, 100,000 topics x 4 brokers", Limit { bound: AtMost, each: MEMORY_MIB }, Value(M::Memory, LARGE_ON_FOUR_BROKERS)),
        goal("memory, idle", at_most(IDLE_MIB), Value(M::IdleMemory, &[])),
        goal("memory of an idle connection, of 10,000", at_most(CONNECTION_KIB), Value(M::ConnectionMemory, IDLE_CONNECTIONS)),
        goal("list of 200,000 topics", at_most(LIST_MS), Value(M::TopicList, LONG_LIST)),
        goal("p99 of route queries of others during such lists", at_most(LIST_P99_MS), Value(M::TopicListLatency, LONG_LIST)),
        goal("start to the first answer", at_most(START_MS), Value(M::Start, &[])),
        goal("300 brokers on closed connections are gone", at_most(GONE_MS), Value(M::Gone, &[])),
        goal("brokers of 300 that lose a route by reconnecting", at_most(0.0), Value(M::Lost, &[])),
        goal("route queries/s, 16 x 1, of the official server's",
            at_least(OFFICIAL_RATE_MIN), OverOfficial(M::QueryRate, ONE_IN_FLIGHT)),
        goal("route queries/s, 16 x 4, of the official server's",
            at_least(OFFICIAL_RATE_MIN), OverOfficial(M::QueryRate, FOUR_IN_FLIGHT)),
    ]
};

/// The goals of the strategies alone, in process. Those without one pay for something else: `rwlock` has its readers wait.
#[rustfmt::skip]
const STRATEGIES: &[Goal] = {
    use {Bound::{AtLeast, AtMost}, Measure as M, Source::*};
    &[
        goal("p99 of a lookup while 10,000 of 10,000 topics change every 10 ms, of the floor's",
            Limit { bound: AtMost, each: TAIL_MAX }, OverFloor(M::ReadLatency, CHANGING, (M::ReadLatency, CHANGING))),
        goal("p99 of a lookup while 10,000 of 100,000 topics change every 10 ms, of the floor's",
            Limit { bound: AtMost, each: TAIL_MAX },
            OverFloor(M::ReadLatency, CHANGING_LARGE, (M::ReadLatency, CHANGING_LARGE))),
        goal("lookups a second of processor time by two readers, of those by one",
            Limit { bound: AtLeast, each: TWO_READERS_MIN }, OverItself(M::ReadRateCpu, TWO_READERS, ONE_READER)),
        goal("permission of a broker changed, 100,000 topics", at_most(SMALL_CHANGE_US), Value(M::ChangeTime, PERMISSION)),
        goal("address of a broker changed, 100,000 topics", at_most(SMALL_CHANGE_US), Value(M::ChangeTime, ADDRESS)),
        goal("memory after all topics of a broker were changed often, of rwlock's before",
            at_most(REWRITTEN_MAX), OverDefault(M::RegistryMemory, REWRITTEN, LOADED)),
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

/// Every goal of the server, judged for one strategy.
pub(crate) fn judge(results: &Results, subject: &'static str) -> Vec<Verdict> {
    SERVER.iter().map(|goal| goal.judge(results, subject)).collect()
}

/// Goals of the server and what was measured: the default strategy first, the others beside it.
pub(crate) fn table(results: &Results) -> Table {
    table_of(results, SERVER)
}

/// The same of the strategies in process.
pub(crate) fn table_of_strategies(results: &Results) -> Table {
    table_of(results, STRATEGIES)
}

/// What the goals are about, as it was measured of the default strategy and of other name servers; rows of which these have
/// no value are left out.
pub(crate) fn table_of_peers(results: &Results) -> Table {
    let mut peers: Vec<&str> = results.samples.iter().map(|sample| sample.subject.as_str()).collect();
    peers.retain(|subject| is_peer(subject));
    peers.sort_unstable();
    peers.dedup();
    let mut table = Table::default();
    table.head.extend(["", DEFAULT_BACKEND].into_iter().chain(peers.iter().copied()).map(str::to_owned));
    for goal in SERVER {
        let (Source::Value(measure, at) | Source::OverFloor(measure, at, _)) = goal.source else { continue };
        let cell = |subject: &str| match results.of(subject, measure, at) {
            Some(sample) => Cell {
                text: sample.median().map_or_else(|| "-".to_owned(), |value| Unit::of(measure).show(value)),
                note: spread(sample),
                is_met: None,
            },
            None => Cell::from("-".to_owned()),
        };
        if peers.iter().any(|peer| results.of(peer, measure, at).is_some()) {
            let name = goal.measure.trim_end_matches(", of the floor's").to_owned();
            table.rows.push(
                [Cell::from(name), cell(DEFAULT_BACKEND)]
                    .into_iter()
                    .chain(peers.iter().map(|peer| cell(peer)))
                    .collect(),
            );
        }
    }
    table
}

fn table_of(results: &Results, goals: &[Goal]) -> Table {
    let judged = BACKENDS.map(|backend| goals.iter().map(|goal| goal.judge(results, backend)).collect::<Vec<_>>());
    let is_measured = |verdicts: &&Vec<Verdict>| verdicts.iter().any(|verdict| verdict.value != NOT_MEASURED);
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
        let mut verdict = Verdict {
            measure: self.measure,
            subject,
            is_met: None,
            value: NOT_MEASURED.to_owned(),
            note: String::new(),
            goal: self.limit.show(subject, unit),
        };
        if let Some((value, note)) = self.source.value(results, subject) {
            verdict.is_met = self.limit.is_met(subject, value);
            verdict.value = unit.show(value);
            verdict.note = note;
        }
        verdict
    }

    const fn unit(&self) -> Unit {
        match self.source {
            Source::Value(measure, _) => Unit::of(measure),
            _ => Unit::Times,
        }
    }
}

const NOT_MEASURED: &str = "not measured";

impl Limit {
    /// `None` without a goal.
    fn of(self, subject: &str) -> Option<f64> {
        let place = BACKENDS.iter().position(|&backend| backend == subject)?;
        self.each.get(place).copied().filter(|limit| limit.is_finite())
    }

    fn is_met(self, subject: &str, value: f64) -> Option<bool> {
        let limit = self.of(subject)?;
        Some(if self.bound == Bound::AtMost { value <= limit } else { value >= limit })
    }

    fn show(self, subject: &str, unit: Unit) -> String {
        let sign = if self.bound == Bound::AtMost { '\u{2264}' } else { '\u{2265}' };
        match self.of(subject) {
            Some(limit) => format!("{sign} {}", trimmed(&unit.show(limit))),
            None => "-".to_owned(),
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
            Self::OverItself(measure, at, other) => {
                ratio(results.of(subject, measure, at)?, results.of(subject, measure, other)?)
            }
            Self::OverDefault(measure, at, other) => {
                ratio(results.of(subject, measure, at)?, results.of(DEFAULT_BACKEND, measure, other)?)
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
        let storm = |subject, rounds| Sample::new(Measure::StormRate, subject, UNDER_STORM, rounds);
        samples.push(storm("rwlock", vec![75e3, 65e3, 71e3]));
        // Of the floor that is the better one under the storm.
        samples.push(storm("floor 1 worker", vec![100e3, 100e3, 100e3]));
        samples.push(storm("floor 2 workers", vec![90e3, 90e3, 90e3]));
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
        // The last strategy has every goal.
        let subject = "cached";
        for goal in SERVER.iter().chain(STRATEGIES) {
            let limit = goal.limit.of(subject).unwrap();
            for value in [limit * 0.01, limit + 1.0] {
                let one = |subject: &str, measure, at, value| Sample::new(measure, subject, at, vec![value]);
                let samples = match goal.source {
                    Source::Value(measure, at) => vec![one(subject, measure, at, value)],
                    Source::OverFloor(measure, at, (floor, floor_at)) => {
                        vec![one(subject, measure, at, value), one("floor", floor, floor_at, 1.0)]
                    }
                    Source::OverOfficial(measure, at) => {
                        vec![one(subject, measure, at, value), one("official 5.5.0", measure, at, 1.0)]
                    }
                    Source::OverItself(measure, at, other) => {
                        vec![one(subject, measure, at, value), one(subject, measure, other, 1.0)]
                    }
                    Source::OverDefault(measure, at, other) => {
                        vec![one(subject, measure, at, value), one(DEFAULT_BACKEND, measure, other, 1.0)]
                    }
                };
                let results = Results { samples, ..Results::default() };
                let expected = (value <= limit) == (goal.limit.bound == Bound::AtMost);
                assert_eq!(goal.judge(&results, subject).is_met, Some(expected), "{}: {value}", goal.measure);
            }
        }
    }

    #[test]
    fn a_strategy_without_a_goal_does_not_miss_it() {
        let sample = |subject, us| Sample::new(Measure::ReadLatency, subject, CHANGING, vec![us]);
        let results = results(vec![sample("rwlock", 800.0), sample("dashmap", 12.0), sample("frozen", 2.0)]);
        let table = table_of_strategies(&results);
        let row = &table.rows[0];
        assert_eq!((row[1].text.as_str(), row[2].text.as_str(), row[3].text.as_str()), ("-", "400\u{d7}", "-"));
        assert_eq!(
            (row[4].text.as_str(), row[4].note.as_str(), row[4].is_met),
            ("6\u{d7}", "goal \u{2264} 5\u{d7}", Some(false))
        );
    }

    #[test]
    fn what_peers_have_shown_stands_beside_us() {
        let start = |subject, ms| Sample::new(Measure::Start, subject, &[], vec![ms]);
        let table = table_of_peers(&results(vec![start("rwlock", 2.0), start("official 5.5.0", 2_260.0)]));
        assert_eq!(table.head, ["", "rwlock", "official 5.5.0"]);
        let rows: Vec<Vec<&str>> =
            table.rows.iter().map(|row| row.iter().map(|cell| cell.text.as_str()).collect()).collect();
        assert_eq!(rows, [["start to the first answer", "2 ms", "2.26 s"]]);
        assert!(table_of_peers(&Results::default()).rows.is_empty());
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
