//! Which strategy to build for which load, as it follows from the numbers of a run.
//!
//! Each rule looks at one figure of all strategies, takes those that are as good as the best within the noise, and picks
//! the one of them that needs the least memory. No name of a strategy stands in a rule.

use super::{
    facts::{Facts, all},
    goals,
    unit::Unit,
};
use crate::results::Results;

/// Values that differ by less are the same: the noise of a run on a shared machine.
const NOISE: f64 = 1.1;
/// Tails are noisier.
const TAIL_NOISE: f64 = 1.25;
/// With a p99 of more than so many times the floor's, lookups wait for registrations.
pub(crate) const TAIL_MAX: f64 = 5.0;
/// A registry that never changes answers within some microseconds; when its p99 is larger, the scheduler was measured.
const FLOOR_MAX_US: f64 = 500.0;
/// Who wants a good tail pays for it with so many times the smallest memory at most.
const MEMORY_BUDGET: f64 = 1.35;
/// A strategy that is worse than the best by such a factor loses there.
const LOSS: f64 = 1.25;
/// The same for the rate, which no strategy changes much.
const RATE_LOSS: f64 = 1.05;
/// And for tails of the writer, which differ by orders of magnitude.
const WRITER_LOSS: f64 = 3.0;

/// A load, and the strategy for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Advice {
    pub(crate) load: &'static str,
    pub(crate) pick: &'static str,
    pub(crate) reason: String,
}

/// Where a strategy loses, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Losses {
    pub(crate) backend: &'static str,
    pub(crate) losses: Vec<String>,
}

/// What the run advises; rules whose figures are missing are left out, and one strategy alone needs no advice.
pub(crate) fn advise(results: &Results) -> Vec<Advice> {
    let facts = all(results);
    if facts.len() < 2 {
        return Vec::new();
    }
    let rules =
        [no_special_load(results, &facts), tails(&facts), memory(&facts), writes(&facts), writer(&facts), rate(&facts)];
    rules.into_iter().flatten().collect()
}

/// Where each strategy of the run loses.
pub(crate) fn losses(results: &Results) -> Vec<Losses> {
    let facts = all(results);
    let of = |one: &Facts| Losses { backend: one.backend, losses: losses_of(results, one, &facts) };
    facts.iter().map(of).collect()
}

/// The strategy with the fewest missed goals.
fn no_special_load(results: &Results, facts: &[Facts]) -> Option<Advice> {
    let missed = |one: &Facts| judged(results, one.backend).1;
    let fewest = facts.iter().map(missed).min()?;
    let best: Vec<&Facts> = facts.iter().filter(|one| missed(one) == fewest).collect();
    let pick = thriftiest(&best)?;
    let (met, missed) = judged(results, pick.backend);
    if met + missed == 0 {
        return None;
    }
    let memory = pick.memory_mib.map(|mib| format!(", and needs {}", Unit::Mib.show(mib))).unwrap_or_default();
    let reason = format!("It reaches the most goals, {met} of {}{memory}.{}", met + missed, others(&best, pick));
    Some(Advice { load: "No special load", pick: pick.backend, reason })
}

/// Goals that are met, and those that are missed.
fn judged(results: &Results, backend: &'static str) -> (usize, usize) {
    let verdicts = goals::judge(results, backend);
    let count = |met| verdicts.iter().filter(|verdict| verdict.is_met == Some(met)).count();
    (count(true), count(false))
}

/// The lowest tail of lookups while much changes, for memory within the budget.
fn tails(facts: &[Facts]) -> Option<Advice> {
    let measured: Vec<&Facts> = facts.iter().filter(|one| one.tail.is_some()).collect();
    let ratio = |one: &Facts| one.tail.as_ref().map(|tail| tail.over_floor);
    let smallest = smallest(facts, |one| one.memory_mib);
    let is_thrifty = |one: &&&Facts| match (one.memory_mib, smallest) {
        (Some(memory), Some(smallest)) => memory <= smallest * MEMORY_BUDGET,
        _ => true,
    };
    let thrifty: Vec<&Facts> = measured.iter().filter(is_thrifty).copied().collect();
    let candidates = if thrifty.iter().any(|one| ratio(one) <= Some(TAIL_MAX)) { thrifty } else { measured };
    let best = lowest(&candidates, ratio, TAIL_NOISE);
    let pick = thriftiest(&best)?;
    let tail = pick.tail.as_ref()?;
    let floor_us = tail.us / tail.over_floor;
    let verdict = match tail.over_floor {
        _ if floor_us > FLOOR_MAX_US => " The floor waited as well: the machine was busy, and this says little.",
        over_floor if over_floor > TAIL_MAX => " Lookups wait with every strategy of this run.",
        _ => "",
    };
    let reason = format!(
        "The p99 of a lookup is {} at worst ({}), {} the floor's.{}{verdict}",
        Unit::Us.show(tail.us),
        tail.place,
        Unit::Times.show(tail.over_floor),
        others(&best, pick)
    );
    Some(Advice { load: "Brokers re-register often, and the tail of lookups counts", pick: pick.backend, reason })
}

/// The smallest memory.
fn memory(facts: &[Facts]) -> Option<Advice> {
    let all: Vec<&Facts> = facts.iter().collect();
    // Ties are real here: memory is hardly noisy.
    let best = lowest(&all, |one| one.memory_mib, 1.0);
    let pick = best.first()?;
    let memory = pick.memory_mib?;
    let largest = facts.iter().filter_map(|one| one.memory_mib).fold(memory, f64::max);
    let reason = format!(
        "{} for 100,000 topics on 4 brokers; the others need up to {}.",
        Unit::Mib.show(memory),
        Unit::Mib.show(largest)
    );
    Some(Advice { load: "Memory is short", pick: pick.backend, reason })
}

/// The cheapest registration.
fn writes(facts: &[Facts]) -> Option<Advice> {
    cheapest(
        facts,
        "Large registrations that change much, and processor time is dear",
        |one| one.registration_ms,
        |cost| format!("A registration that changes 10,000 topics takes {} of processor time.", Unit::Ms.show(cost)),
    )
}

/// The writer with the lowest tail while readers read.
fn writer(facts: &[Facts]) -> Option<Advice> {
    cheapest(
        facts,
        "Brokers must not wait for their answers while all processors look up",
        |one| one.writer_us,
        |cost| format!("The p99 of a change is {} at worst while readers read without a pause.", Unit::Us.show(cost)),
    )
}

/// The highest rate of lookups.
fn rate(facts: &[Facts]) -> Option<Advice> {
    cheapest(
        facts,
        "Nothing but lookups",
        |one| one.rate.map(|rate| 1.0 / rate),
        |cost| format!("{} over 16 connections with 4 requests in flight.", Unit::PerSecond.show(1.0 / cost)),
    )
}

fn cheapest(
    facts: &[Facts],
    load: &'static str,
    cost: impl Fn(&Facts) -> Option<f64>,
    tell: impl Fn(f64) -> String,
) -> Option<Advice> {
    let all: Vec<&Facts> = facts.iter().collect();
    let best = lowest(&all, &cost, NOISE);
    let pick = thriftiest(&best)?;
    let reason = format!("{}{}", tell(cost(pick)?), others(&best, pick));
    Some(Advice { load, pick: pick.backend, reason })
}

/// Those whose value is at most `noise` times the lowest.
fn lowest<'f>(facts: &[&'f Facts], value: impl Fn(&Facts) -> Option<f64>, noise: f64) -> Vec<&'f Facts> {
    let values = facts.iter().filter_map(|one| value(one));
    let Some(lowest) = values.min_by(f64::total_cmp) else { return Vec::new() };
    facts.iter().copied().filter(|one| value(one).is_some_and(|value| value <= lowest * noise)).collect()
}

fn smallest(facts: &[Facts], value: impl Fn(&Facts) -> Option<f64>) -> Option<f64> {
    facts.iter().filter_map(value).min_by(f64::total_cmp)
}

/// Of several the one with the smallest memory; without figures the first one.
fn thriftiest<'f>(facts: &[&'f Facts]) -> Option<&'f Facts> {
    let memory = |one: &Facts| one.memory_mib.unwrap_or(f64::INFINITY);
    facts.iter().copied().min_by(|one, two| memory(one).total_cmp(&memory(two)))
}

/// Those that are as good.
fn others(best: &[&Facts], pick: &Facts) -> String {
    let names: Vec<&str> = best.iter().map(|one| one.backend).filter(|&name| name != pick.backend).collect();
    match names.as_slice() {
        [] => String::new(),
        names => format!(" As good within the noise, for no less memory: {}.", names.join(", ")),
    }
}

fn losses_of(results: &Results, one: &Facts, facts: &[Facts]) -> Vec<String> {
    let mut losses = Vec::new();
    if let Some(tail) = one.tail.as_ref().filter(|tail| tail.over_floor > TAIL_MAX) {
        losses.push(format!(
            "not for clusters that re-register often: the p99 of a lookup reaches {}, {} the floor's ({})",
            Unit::Us.show(tail.us),
            Unit::Times.show(tail.over_floor),
            tail.place
        ));
    }
    let mut compare = |value: &dyn Fn(&Facts) -> Option<f64>, limit: f64, tell: &dyn Fn(f64, f64) -> String| {
        if let (Some(own), Some(best)) = (value(one), smallest(facts, value))
            && best > 0.0
            && own > best * limit
        {
            losses.push(tell(own, own / best));
        }
    };
    let times = |factor| Unit::Times.show(factor);
    compare(&|one| one.memory_mib, NOISE, &|own, factor| {
        format!("memory: {}, {} the smallest", Unit::Mib.show(own), times(factor))
    });
    compare(&|one| one.registration_ms, LOSS, &|own, factor| {
        format!(
            "a registration that changes 10,000 topics takes {}, {} the cheapest",
            Unit::Ms.show(own),
            times(factor)
        )
    });
    compare(&|one| one.writer_us, WRITER_LOSS, &|own, factor| {
        format!("the p99 of a change reaches {} while readers read, {} the lowest", Unit::Us.show(own), times(factor))
    });
    compare(&|one| one.rate.map(|rate| 1.0 / rate), RATE_LOSS, &|own, factor| {
        format!("{} route queries, the best strategy has {} as many", Unit::PerSecond.show(1.0 / own), times(factor))
    });
    let (met, missed) = judged(results, one.backend);
    if missed > 0 {
        losses.push(format!("misses {missed} of {} goals, see the table above", met + missed));
    }
    losses
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{Measure, Sample};

    const P99: [(&str, f64); 3] = [("mix", 2.0), ("topics", 1e4), ("percentile", 99.0)];

    /// Two strategies: one with a bad tail and a small memory, one the other way round.
    fn run(tails: [f64; 2], memory: [f64; 2], registration: [f64; 2]) -> Results {
        let mut samples = vec![Sample::new(Measure::ReadLatency, "floor", &P99, vec![1.5])];
        for (index, backend) in ["rwlock", "epoch"].into_iter().enumerate() {
            let mut add =
                |measure, at: &[(&str, f64)], value| samples.push(Sample::new(measure, backend, at, vec![value]));
            add(Measure::ReadLatency, &P99, tails[index]);
            add(Measure::Memory, &[("topics", 1e5), ("brokers", 4.0)], memory[index]);
            add(Measure::RegistrationCpu, &[("changed", 1.0)], registration[index]);
            add(Measure::QueryRate, &[("connections", 16.0), ("in_flight", 4.0), ("topics", 1e3)], 4e5);
        }
        Results { samples, ..Results::default() }
    }

    fn pick(results: &Results, load: &str) -> &'static str {
        let advice = advise(results);
        advice.iter().find(|advice| advice.load.contains(load)).unwrap().pick
    }

    #[test]
    fn the_tail_decides_for_clusters_that_re_register() {
        let results = run([781.0, 2.0], [60.0, 66.0], [5.0, 9.0]);
        assert_eq!(pick(&results, "re-register"), "epoch");
        assert_eq!(pick(&results, "Memory"), "rwlock");
        assert_eq!(pick(&results, "change much"), "rwlock");
        assert!(losses(&results)[0].losses[0].contains("not for clusters that re-register often"));
        assert!(losses(&results)[1].losses.iter().any(|loss| loss.contains("1.80\u{d7} the cheapest")));
    }

    #[test]
    fn other_numbers_give_other_answers() {
        let results = run([2.0, 781.0], [70.0, 60.0], [9.0, 5.0]);
        assert_eq!(pick(&results, "re-register"), "rwlock");
        assert_eq!(pick(&results, "Memory"), "epoch");
        assert_eq!(pick(&results, "change much"), "epoch");
        assert!(losses(&results)[1].losses[0].contains("not for clusters"));
        // As good within the noise: then memory decides.
        assert_eq!(pick(&run([2.0, 2.2], [70.0, 60.0], [5.0, 5.2]), "re-register"), "epoch");
        assert_eq!(pick(&run([2.2, 2.0], [60.0, 70.0], [5.2, 5.0]), "change much"), "rwlock");
    }

    #[test]
    fn a_good_tail_has_its_price_and_a_limit() {
        assert_eq!(pick(&run([6.0, 2.0], [60.0, 90.0], [5.0, 5.0]), "re-register"), "rwlock");
        assert_eq!(pick(&run([60.0, 2.0], [60.0, 90.0], [5.0, 5.0]), "re-register"), "epoch");
        let both = run([60.0, 50.0], [60.0, 66.0], [5.0, 5.0]);
        let advice = advise(&both);
        assert!(advice.iter().any(|advice| advice.reason.contains("Lookups wait with every strategy")), "{advice:?}");
    }

    #[test]
    fn a_busy_machine_is_told() {
        let mut busy = run([2_000.0, 2_100.0], [60.0, 66.0], [5.0, 5.0]);
        busy.samples[0].rounds = vec![1_900.0];
        assert!(advise(&busy).iter().any(|advice| advice.reason.contains("The floor waited as well")));
    }

    #[test]
    fn nothing_measured_is_no_advice() {
        assert_eq!(advise(&Results::default()), []);
        assert_eq!(losses(&Results::default()), []);
        let mut alone = run([2.0, 3.0], [60.0, 60.0], [5.0, 5.0]);
        alone.samples.retain(|sample| sample.subject != "epoch");
        assert_eq!(advise(&alone), []);
    }
}
