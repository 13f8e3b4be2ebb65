//! What a run has measured: the raw numbers of the report, one round at a time.
//!
//! Whoever measures appends [`Sample`]s, whoever shows them looks for them by measure, subject and conditions. Medians and
//! ratios are made when they are shown, so the file holds every round.

use std::{collections::BTreeMap, fmt::Display, fs, io::Write as _, path::Path};

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

/// The strategies that may serve, the default one first.
pub const BACKENDS: [&str; 5] = ["rwlock", "dashmap", "left-right", "epoch", "cached"];

/// All numbers of one run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Results {
    /// Where and when.
    pub machine: Machine,
    /// Fewer and shorter rounds: not to be quoted.
    pub is_quick: bool,
    /// False as long as the run goes on, and for ever when it was interrupted.
    pub is_complete: bool,
    /// Everything that was measured.
    pub samples: Vec<Sample>,
    /// What was not measured, and why.
    pub missing: Vec<Missing>,
}

/// The machine and the moment.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Machine {
    /// Start of the run, UTC, as `2026-11-29 20:15`.
    pub date: String,
    /// Model of the processor.
    pub processor: String,
    /// Processors that the run may use.
    pub cores: usize,
    /// Memory in MiB.
    pub memory_mib: u64,
    /// Kernel.
    pub system: String,
    /// Compiler.
    pub compiler: String,
    /// Commit of the project, `-dirty` when the tree differs from it.
    pub commit: String,
    /// Load of the last minute at the start and at the end.
    pub load: (f64, f64),
}

/// One value under the same conditions, once for each round.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// What was measured.
    pub measure: Measure,
    /// Whose value it is: a strategy (`rwlock`, ...), a baseline (`floor`, `dirty`, ...), a peer (`official 5.5.0`, ...).
    pub subject: String,
    /// Under which conditions, as `{"in_flight": 4, "topics": 1000}`. Keys are listed at [`Measure`].
    pub at: BTreeMap<String, f64>,
    /// One value a round, in the unit of the measure. The rounds of subjects with the same conditions were interleaved, so
    /// a ratio is one of values with the same index.
    #[serde(deserialize_with = "rounds")]
    pub rounds: Vec<f64>,
}

/// A subject that a run leaves out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missing {
    /// A peer, or a part of the run.
    pub subject: String,
    /// Why.
    pub reason: String,
}

/// What is measured. The comment of each names its unit and the keys of its conditions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Measure {
    // Over TCP.
    /// Route queries a second, closed loop: `connections`, `in_flight`, `topics`.
    QueryRate,
    /// CPU time of the server for a route query, us: as `QueryRate`.
    QueryCpu,
    /// How busy the load generator was, percent of one processor: as `QueryRate`.
    GeneratorCpu,
    /// Latency of the closed loop, us: as `QueryRate`, and `percentile` (50, 90, 99, 99.9, 99.99, 100).
    QueryLatency,
    /// Latency of an open loop, us: `per_second`, `percentile`.
    OpenLatency,
    /// Route queries a second under a storm of registrations: `in_flight`.
    StormRate,
    /// Latency under the storm, us: `percentile`.
    StormLatency,
    /// Registrations that were applied of those that were due, percent.
    StormApplied,
    /// Time from when a registration of the storm was due to its answer, ms: `percentile`.
    StormRegistration,
    /// CPU time of the server for one registration of 10,000 topics, ms: `changed` (0, 1).
    RegistrationCpu,
    /// Round trip of a 205 that wipes, ms: `topics`.
    Wipe,
    /// From the close of a broker's connection until no route shows it, ms: `topics`.
    Death,
    /// p99 of lookups while wipes and deaths happen, as a multiple of the p99 without: `topics`.
    Disturbance,
    /// All 300 brokers registered, s.
    AvalancheTime,
    /// Latency of lookups meanwhile, us: `percentile`.
    AvalancheLatency,
    /// Peak of the resident memory, as a multiple of the settled one.
    AvalanchePeak,
    /// Settled resident memory, MiB: `topics`, `brokers`.
    Memory,
    /// Peak of the same, MiB: `topics`, `brokers`.
    MemoryPeak,
    /// Resident memory without topics and brokers, MiB.
    IdleMemory,
    /// Resident memory of an idle connection, KiB: `connections`.
    ConnectionMemory,
    /// Round trip of a list of all topics, ms: `topics`.
    TopicList,
    /// p99 of lookups of others meanwhile, ms: `topics`.
    TopicListLatency,
    /// From the creation of the process to its first answer, ms.
    Start,
    /// All of 300 brokers gone after their connections ended, ms; absent when they stay.
    Gone,
    /// Brokers of 300 that lose a route while they reconnect.
    Lost,
    /// CPU time of the server for a heartbeat, us: `topics`.
    HeartbeatCpu,
    /// Loss of a connection that carries one broker until no route shows it, ms: `brokers` not on it.
    ConnectionLoss,

    // In process. Where more threads than processors want to run, the conditions have `oversubscribed` (1) as well.
    /// Latency of a read, us, open loop: `mix` (see `matrix`), `topics`, `percentile`.
    ReadLatency,
    /// Millions of reads a second of wall time: `mix`, `threads`, `topics`.
    ReadRate,
    /// Millions of reads a second of processor time, that of all reading threads together: `mix`, `threads`, `topics`.
    ReadRateCpu,
    /// Answers that no state of the registry gives: `mix`, `topics`.
    Torn,
    /// Time of the writer for one change that it is told of and publishes, us: `change` (see `matrix`), `topics`, `readers`,
    /// `percentile`.
    ChangeTime,
    /// The longest that a change took in this slice of time, us: `ms` since the start of the round, `topics`, `readers`.
    WriterStall,
    /// From the begin of a change of one topic until another thread reads it, us: `topics`, `percentile`.
    Visibility,
    /// Resident memory of a process with the registry only, MiB: `topics`, `rewrites`.
    RegistryMemory,

    // By valgrind.
    /// Instructions of one hot operation: `operation` is its index in `instructions`.
    Instructions,
}

impl Results {
    /// Writes the file, whole or not at all.
    ///
    /// # Errors
    /// When the folder cannot be written.
    pub fn save(&self, file: &Path) -> anyhow::Result<()> {
        let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mut partial = tempfile::NamedTempFile::new_in(folder).with_context(|| folder.display().to_string())?;
        serde_json::to_writer_pretty(&mut partial, self)?;
        partial.write_all(b"\n")?;
        partial.persist(file)?;
        Ok(())
    }

    /// Reads such a file.
    ///
    /// # Errors
    /// When it cannot be read, or is none.
    pub fn load(file: &Path) -> anyhow::Result<Self> {
        let text = fs::read(file).with_context(|| file.display().to_string())?;
        serde_json::from_slice(&text).with_context(|| file.display().to_string())
    }

    /// Appends the value of one more round to the sample with exactly these conditions.
    pub fn record(&mut self, measure: Measure, subject: impl Display, at: &[(&str, f64)], value: f64) {
        let one = Sample::new(measure, subject.to_string(), at, vec![value]);
        let same = |sample: &&mut Sample| {
            sample.measure == one.measure && sample.subject == one.subject && sample.at == one.at
        };
        match self.samples.iter_mut().find(same) {
            Some(sample) => sample.rounds.push(value),
            None => self.samples.push(one),
        }
    }

    /// Names what is not measured, once for each reason.
    pub fn miss(&mut self, subject: impl Display, reason: impl Display) {
        let missing = Missing { subject: subject.to_string(), reason: reason.to_string() };
        if !self.missing.contains(&missing) {
            self.missing.push(missing);
        }
    }

    /// The samples of a measure that have these conditions, and maybe more.
    pub fn find<'r>(&'r self, measure: Measure, at: &'r [(&'r str, f64)]) -> impl Iterator<Item = &'r Sample> {
        self.samples.iter().filter(move |sample| sample.measure == measure && sample.has(at))
    }

    /// The first such sample of a subject.
    pub fn of(&self, subject: &str, measure: Measure, at: &[(&str, f64)]) -> Option<&Sample> {
        self.samples.iter().find(|sample| sample.subject == subject && sample.measure == measure && sample.has(at))
    }
}

impl Sample {
    /// A sample of these rounds.
    pub fn new(measure: Measure, subject: impl Into<String>, at: &[(&str, f64)], rounds: Vec<f64>) -> Self {
        let at = at.iter().map(|&(key, value)| (key.to_owned(), value)).collect();
        Self { measure, subject: subject.into(), at, rounds }
    }

    /// Whether it was taken under these conditions, and maybe more.
    pub fn has(&self, at: &[(&str, f64)]) -> bool {
        at.iter().all(|&(key, value)| self.at.get(key) == Some(&value))
    }

    /// The median of the rounds, if it is a number.
    pub fn median(&self) -> Option<f64> {
        quantile(&self.rounds, 0.5).filter(|median| median.is_finite())
    }

    /// The first and the third quartile of the rounds, each the one farther from the median where it is between two.
    pub fn quartiles(&self) -> Option<(f64, f64)> {
        let negated: Vec<f64> = self.rounds.iter().map(|value| -value).collect();
        quantile(&self.rounds, 0.25).zip(quantile(&negated, 0.25).map(|value| -value))
    }

    /// The median of the ratios of the rounds to those of `other`.
    pub fn ratio(&self, other: &Self) -> Option<f64> {
        let ratios: Vec<f64> = self.rounds.iter().zip(&other.rounds).map(|(ours, theirs)| ours / theirs).collect();
        quantile(&ratios, 0.5).filter(|ratio| ratio.is_finite())
    }
}

/// JSON has no numbers that are none: they are saved as `null`.
fn rounds<'de, D: serde::Deserializer<'de>>(input: D) -> Result<Vec<f64>, D::Error> {
    let rounds = Vec::<Option<f64>>::deserialize(input)?;
    Ok(rounds.into_iter().map(|value| value.unwrap_or(f64::NAN)).collect())
}

/// The value below which such a part of the values is, the nearest one of them; `None` of none.
pub fn quantile(values: &[f64], part: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(((sorted.len().checked_sub(1)?) as f64 * part) as usize).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_saved_is_loaded() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("results.json");
        let at = [("in_flight", 4.0), ("topics", 1e3)];
        let samples = vec![Sample::new(Measure::QueryRate, "rwlock", &at, vec![3.0, 1.0, 2.0])];
        let results = Results { samples, is_quick: true, ..Results::default() };
        results.save(&file).unwrap();
        let loaded = Results::load(&file).unwrap();
        assert_eq!(loaded.samples, results.samples);
        assert!(loaded.is_quick && !loaded.is_complete);
        assert_eq!(loaded.of("rwlock", Measure::QueryRate, &at[..1]).unwrap().median(), Some(2.0));
        assert!(loaded.of("rwlock", Measure::QueryRate, &[("in_flight", 1.0)]).is_none());
    }

    #[test]
    fn rounds_of_the_same_conditions_are_one_sample() {
        let mut results = Results::default();
        for (in_flight, value) in [(1.0, 10.0), (4.0, 20.0), (1.0, 11.0)] {
            results.record(Measure::QueryRate, "epoch", &[("in_flight", in_flight)], value);
        }
        results.record(Measure::QueryRate, "cached", &[("in_flight", 1.0)], 12.0);
        let rounds: Vec<_> = results.samples.iter().map(|sample| sample.rounds.clone()).collect();
        assert_eq!(rounds, [vec![10.0, 11.0], vec![20.0], vec![12.0]]);
    }

    #[test]
    fn ratios_are_those_of_rounds() {
        let ours = Sample::new(Measure::QueryRate, "rwlock", &[], vec![10.0, 2.0, 30.0]);
        let theirs = Sample::new(Measure::QueryRate, "floor", &[], vec![10.0, 4.0, 10.0]);
        assert_eq!(ours.ratio(&theirs), Some(1.0));
        assert_eq!(ours.ratio(&Sample::new(Measure::QueryRate, "floor", &[], Vec::new())), None);
        assert_eq!(quantile(&[4.0, 1.0, 3.0, 2.0], 0.5), Some(2.0));
    }

    #[test]
    fn numbers_that_are_none_are_saved_and_are_no_median() {
        let sample = Sample::new(Measure::QueryCpu, "rwlock", &[], vec![f64::NAN, 1.0, f64::INFINITY]);
        let text = serde_json::to_string(&sample).unwrap();
        let loaded: Sample = serde_json::from_str(&text).unwrap();
        assert!(loaded.rounds[0].is_nan() && loaded.rounds[1] == 1.0 && loaded.rounds[2].is_nan());
        assert_eq!(loaded.median(), None);
    }

    #[test]
    fn quartiles_are_on_both_sides() {
        let of = |rounds: &[f64]| Sample::new(Measure::QueryRate, "rwlock", &[], rounds.to_vec()).quartiles();
        assert_eq!(of(&[3.0, 1.0, 2.0]), Some((1.0, 3.0)));
        assert_eq!(of(&[5.0, 3.0, 1.0, 2.0, 4.0]), Some((2.0, 4.0)));
        assert_eq!((of(&[7.0]), of(&[])), (Some((7.0, 7.0)), None));
    }
}
