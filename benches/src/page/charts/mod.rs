//! Which charts the page has, and what each does not show.

mod growth;
mod in_process;
mod peers;
mod tcp;

use super::{
    axis::{Axis, Scale},
    markup::{Escaped, put},
    section::Section,
    series::{At, Series, along, borrowed},
    subject,
    unit::Unit,
};
use crate::results::{Measure, Results};

/// All sections in their order.
pub(crate) fn sections(results: &Results) -> Vec<Section> {
    vec![
        tcp::lookups(results),
        tcp::storms(results),
        in_process::section(results),
        growth::section(results),
        peers::section(results),
        peers::instructions(results),
    ]
}

/// Links to all sections.
pub(crate) fn contents(sections: &[Section]) -> String {
    let mut out = String::new();
    for section in sections {
        put!(out, "<a href=\"#{}\">{}</a>\n", section.id, Escaped(section.title));
    }
    out
}

const PERCENTILE: &str = "percentile";
/// The conditions of the rates that have goals.
const CONNECTIONS: (&str, f64) = ("connections", 16.0);
const TOPICS: (&str, f64) = ("topics", 1e3);
/// Of a measure with many conditions, so many charts are drawn; the numbers of the others are in the file of results.
const CHARTS_MAX: usize = 3;

fn log_us(label: &'static str) -> Axis {
    Axis::measured(label, Scale::Log, Unit::Us)
}

fn linear(label: &'static str, measure: Measure) -> Axis {
    Axis::measured(label, Scale::Linear, Unit::of(measure))
}

/// Which programs a chart compares.
fn only(series: Vec<Series>, keep: impl Fn(&str) -> bool) -> Vec<Series> {
    series.into_iter().filter(|series| keep(&series.subject)).collect()
}

fn ours(subject: &str) -> bool {
    !subject::is_peer(subject)
}

/// Values of a condition, ascending.
fn values(results: &Results, measure: Measure, key: &str) -> Vec<f64> {
    let mut values: Vec<f64> = results.find(measure, &[]).filter_map(|sample| sample.at.get(key).copied()).collect();
    values.sort_by(f64::total_cmp);
    values.dedup();
    values
}

/// The conditions of the first charts; `None` alone if there is no sample, and the chart is named as not measured.
fn first(sweeps: Vec<At>, charts: usize) -> Vec<Option<At>> {
    if sweeps.is_empty() { vec![None] } else { sweeps.into_iter().take(charts).map(Some).collect() }
}

/// The series under these conditions. Who took part at one value only is no line beside those that have one.
fn swept(results: &Results, measure: Measure, at: Option<&At>, key: &str) -> Vec<Series> {
    let mut series = at.map(|at| along(results, measure, &borrowed(at), key)).unwrap_or_default();
    if series.iter().any(|one| one.points.len() > 1) {
        series.retain(|one| one.points.len() > 1);
    }
    series
}

/// Makes an id unique by the conditions.
fn suffix(at: Option<&At>) -> String {
    at.into_iter().flatten().map(|(key, value)| format!("-{key}-{value}")).collect()
}
