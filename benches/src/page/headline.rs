//! The most important facts, first.

use super::{
    goals,
    markup::{Escaped, put},
    subject::{DEFAULT_BACKEND, FLOOR, OFFICIAL},
    unit::Unit,
};
use crate::results::{Measure, Results, Sample};

const AT: &[(&str, f64)] = &[("connections", 16.0), ("in_flight", 4.0), ("topics", 1e3)];
const LARGE: &[(&str, f64)] = &[("topics", 1e5), ("brokers", 4.0)];
const P99: &[(&str, f64)] = &[("percentile", 99.0)];

/// The run in a sentence.
pub(crate) fn sentence(results: &Results) -> String {
    let Some(ours) = results.of(DEFAULT_BACKEND, Measure::QueryRate, AT) else {
        return "Performance of namesrv".to_owned();
    };
    let Some(rate) = ours.median() else { return "Performance of namesrv".to_owned() };
    // A number and its unit stay on one line.
    let show = |unit: Unit, value| unit.show(value).replace(' ', "\u{a0}");
    let mut out = format!("{} route queries a second", show(Unit::PerSecond, rate).trim_end_matches("/s"));
    if let Some(ratio) = results.of(FLOOR, Measure::QueryRate, AT).and_then(|floor| ours.ratio(floor)) {
        put!(out, ": {} of a server that only sends a canned answer", show(Unit::Percent, 100.0 * ratio));
    }
    if let Some(ratio) = official(results).and_then(|official| ours.ratio(official)) {
        put!(out, ", {} the official one", show(Unit::Times, ratio));
    }
    out
}

fn official(results: &Results) -> Option<&Sample> {
    results.find(Measure::QueryRate, AT).find(|sample| sample.subject.starts_with(OFFICIAL))
}

/// Goals of the default strategy: those that are met, and those that were measured.
pub(crate) fn goals_met(results: &Results) -> (usize, usize) {
    let judged: Vec<bool> =
        goals::judge(results, DEFAULT_BACKEND).iter().filter_map(|verdict| verdict.is_met).collect();
    (judged.iter().filter(|&&is_met| is_met).count(), judged.len())
}

/// A few numbers in large type; those that were not measured are left out.
pub(crate) fn figures(results: &Results) -> String {
    let median = |measure, at: &[(&str, f64)]| {
        let value = results.of(DEFAULT_BACKEND, measure, at).and_then(Sample::median);
        value.map(|value| Unit::of(measure).show(value))
    };
    let (met, judged) = goals_met(results);
    let figures = [
        (Some(format!("{met} of {judged}")).filter(|_| judged > 0), "goals reached"),
        (median(Measure::QueryCpu, AT), "processor time for a route query, 4 in flight"),
        (median(Measure::StormLatency, P99), "p99 of a route query while 20,000 topics change every 50 ms"),
        (median(Measure::Memory, LARGE), "memory with 100,000 topics on 4 brokers"),
        (median(Measure::Start, &[]), "from start to the first answer"),
    ];
    let mut out = String::new();
    for (value, what) in figures {
        if let Some(value) = value {
            put!(out, "<div><dt>{}</dt><dd>{}</dd></div>\n", Escaped(what), Escaped(&value));
        }
    }
    let facts = format!("Figures of {DEFAULT_BACKEND}, the default strategy.");
    if out.is_empty() {
        return format!("<p class=\"note\">{}</p>\n", Escaped(&facts));
    }
    format!("<dl class=\"figures\">\n{out}</dl>\n<p class=\"note\">{}</p>\n", Escaped(&facts))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::{floor, synthetic};

    #[test]
    fn the_sentence_says_what_is_known() {
        let mut results = floor::with_one(&synthetic::results());
        let whole = sentence(&results);
        assert!(
            whole.contains("k route queries a second") && whole.contains("canned") && whole.contains("official"),
            "{whole}"
        );
        results.samples.retain(|sample| sample.subject == DEFAULT_BACKEND);
        let alone = sentence(&results);
        assert!(alone.ends_with("route queries a second"), "{alone}");
        results.samples.clear();
        assert_eq!(sentence(&results), "Performance of namesrv");
        assert!(!figures(&results).contains("<dl"));
    }
}
