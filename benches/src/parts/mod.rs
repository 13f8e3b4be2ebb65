//! What the report measures, part by part: most of it over TCP, as clients and brokers see it.
//!
//! A part starts the servers that it compares, loads them by turns, and appends what it has seen to the [`Results`]. A
//! subject that fails is left out of the rest of the part and named as missing; a part that fails is named in its stead.

mod avalanche;
mod connections;
mod gone;
mod growth;
mod in_process;
mod lab;
mod large;
mod lists;
mod lookups;
mod machine;
mod progress;
mod queries;
mod registration;
mod start;
mod storm;
mod turns;

use std::time::Duration;

use anyhow::ensure;

pub use self::{
    lab::{Lab, Wishes},
    lookups::USUAL_BODY_BYTES,
    machine::{load_average, machine},
    progress::Progress,
};
use crate::{
    peers, process,
    results::{Missing, Results},
};

/// A part of the report.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it is about.
    pub what: &'static str,
    /// What a quick run spends on it.
    pub quick: Effort,
    /// What a full run spends on it.
    pub full: Effort,
    /// Measures it.
    pub measure: fn(&Lab, Effort, &mut Results) -> anyhow::Result<()>,
}

/// How much of a run a part takes.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Rounds, in each of which every subject has its turn.
    pub rounds: usize,
    /// How long one load of one subject lasts.
    pub load: Duration,
    /// Whether other name servers take part: the Java one alone needs seconds to start and to warm up.
    pub with_peers: bool,
    /// About how many seconds all of it takes, on two cores with all strategies and peers. It is what the progress bar
    /// believes.
    pub seconds: u64,
}

const fn effort(rounds: usize, load_ms: u64, with_peers: bool, seconds: u64) -> Effort {
    Effort { rounds, load: Duration::from_millis(load_ms), with_peers, seconds }
}

/// Every part in the order of the run: the budget of a run is the sum of the last column. Without building, a quick run
/// has to end in three minutes and a full one in thirty.
#[rustfmt::skip]
pub const PARTS: &[Part] = &[
    //                                                            rounds, ms of a load, peers, seconds
    Part { name: "start", what: "start and idle memory",
        quick: effort(3, 0, true, 8), full: effort(20, 0, true, 20), measure: start::measure },
    Part { name: "queries", what: "route queries, closed and open loop",
        quick: effort(3, 150, true, 20), full: effort(5, 1_200, true, 190), measure: queries::measure },
    Part { name: "storm", what: "route queries while brokers register all of their topics anew",
        quick: effort(1, 600, true, 16), full: effort(5, 2_000, true, 115), measure: storm::measure },
    Part { name: "registration", what: "CPU time of registrations",
        quick: effort(2, 0, false, 3), full: effort(5, 0, true, 50), measure: registration::measure },
    Part { name: "large", what: "100,000 topics on 4 brokers: memory, wipe, death",
        quick: effort(1, 500, false, 17), full: effort(5, 1_000, true, 150), measure: large::measure },
    Part { name: "avalanche", what: "300 brokers register in the same second",
        quick: effort(1, 1_500, false, 18), full: effort(3, 3_000, true, 140), measure: avalanche::measure },
    Part { name: "lists", what: "lists of 200,000 topics",
        quick: effort(1, 500, false, 7), full: effort(5, 1_000, true, 75), measure: lists::measure },
    Part { name: "connections", what: "memory of idle connections",
        quick: effort(1, 0, false, 8), full: effort(1, 0, true, 75), measure: connections::measure },
    Part { name: "growth", what: "how costs grow with topics, connections and brokers",
        quick: effort(1, 150, false, 14), full: effort(5, 700, false, 130), measure: growth::measure },
    Part { name: "gone", what: "brokers that leave and return",
        quick: effort(1, 0, false, 7), full: effort(5, 0, true, 60), measure: gone::measure },
    // How many rounds these have is their own business.
    Part { name: "matrix", what: "the strategies in process",
        quick: effort(0, 0, false, 35), full: effort(0, 0, false, 240), measure: in_process::strategies },
    Part { name: "instructions", what: "instructions of hot operations",
        quick: effort(0, 0, false, 0), full: effort(0, 0, false, 60), measure: in_process::instructions },
];

/// How the reason of something that was left out on purpose begins.
pub const NOT_ASKED_FOR: &str = "not asked for";
/// How the reason of something that needs a program of others begins.
pub const NOT_INSTALLED: &str = "not installed";

/// Whether something of ours was to be measured and could not be. What is others' may be missing.
pub fn is_failure(Missing { subject, reason }: &Missing) -> bool {
    let is_peer = [peers::OFFICIAL, peers::ROCKETMQ_RUST].contains(&subject.as_str());
    !is_peer && !reason.starts_with(NOT_ASKED_FOR) && !reason.starts_with(NOT_INSTALLED)
}

/// Measures one part. When it fails, that is noted and the run can go on.
///
/// # Errors
/// When the run is interrupted: what the part has measured so far is kept.
pub fn run(lab: &Lab, part: &Part, results: &mut Results) -> anyhow::Result<()> {
    let effort = if lab.is_quick { part.quick } else { part.full };
    if let Err(error) = (part.measure)(lab, effort, results) {
        ensure!(!process::are_ended(), "interrupted");
        lab.progress.say(format_args!("{} failed: {error:#}", part.name));
        results.miss(part.name, format!("{error:#}"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_budgets_leave_time_to_spare() {
        let sum = |of: fn(&Part) -> Effort| PARTS.iter().map(|part| of(part).seconds).sum::<u64>();
        let (quick, full) = (sum(|part| part.quick), sum(|part| part.full));
        assert!(quick <= 160 && full <= 24 * 60, "{quick} s, {full} s");
    }

    #[test]
    fn a_part_that_fails_is_named_and_the_run_goes_on() {
        let part = Part { measure: |_, _, _| anyhow::bail!("no ports left"), ..PARTS[0] };
        let mut results = Results::default();
        run(&Lab::for_tests(), &part, &mut results).unwrap();
        let missing = Missing { subject: "start".into(), reason: "no ports left".into() };
        assert_eq!(results.missing, [missing]);
        assert!(is_failure(&results.missing[0]));
        let of = |subject: &str, reason: &str| Missing { subject: subject.into(), reason: reason.into() };
        let others = [of(peers::OFFICIAL, "storm: closed"), of("gone", "not asked for (--only)")];
        assert!(!others.iter().any(is_failure));
    }
}
