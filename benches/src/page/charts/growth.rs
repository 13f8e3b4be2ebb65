//! How costs grow.

use super::swept;
use crate::{
    page::{
        axis::{Axis, Scale},
        chart::Mark,
        section::{Section, Wanted},
        series::{At, along, borrowed, sweeps},
        subject::BACKENDS,
        table::Table,
        unit::{Unit, count},
    },
    results::{Measure, Results},
};

/// A measure along one of its conditions.
struct Growth {
    measure: Measure,
    key: &'static str,
    label: &'static str,
    part: &'static str,
    title: &'static str,
    is_log: bool,
    caption: &'static str,
    /// One size has a goal; more of them are a chart, and not missed otherwise.
    is_optional: bool,
}

const fn growth(measure: Measure, key: &'static str, title: &'static str, caption: &'static str) -> Growth {
    Growth { measure, key, label: key, part: "growth", title, is_log: false, caption, is_optional: false }
}

#[rustfmt::skip]
const GROWTHS: &[Growth] = &[
    growth(Measure::QueryRate, "topics", "Route queries a second by topics",
        "Higher is better. Should be flat but for caches: what does not fit into them comes from memory. It does not show \
         popular topics: all are asked for equally often."),
    growth(Measure::QueryRate, "connections", "Route queries a second by connections",
        "Higher is better. With one connection it is the time of a wake-up; with thousands, generator and kernel have more \
         sockets to look after, too. It does not show connections that are idle."),
    growth(Measure::QueryCpu, "topics", "Processor time of a route query by topics",
        "Lower is better. Should be flat but for caches: a lookup is one of a hash table, whatever its size."),
    growth(Measure::QueryCpu, "connections", "Processor time of a route query by connections",
        "Lower is better. Falls where one wake-up serves many connections. Most of it is the kernel\u{2019}s."),
    Growth { is_log: true,
        ..growth(Measure::Memory, "topics", "Settled memory by topics",
            "Lower is better. Both axes are logarithmic: what grows in proportion ends as a straight line. It does not show the \
             peak while registrations are parsed.") },
    growth(Measure::HeartbeatCpu, "topics", "Processor time of a heartbeat by topics",
        "Lower is better. Should be flat: a heartbeat touches one broker, not its topics. Many were in flight on one \
         connection: a heartbeat that comes alone costs a wake-up more."),
    Growth { label: "brokers that are not on it",
        ..growth(Measure::ConnectionLoss, "brokers", "Loss of a connection with one broker until no route shows it",
            "Lower is better. Should be flat: the others have nothing to do with it. Most of it is wake-ups; a broker with many \
             topics takes longer.") },
    Growth { part: "large", is_optional: true,
        ..growth(Measure::Death, "topics", "Death of a broker visible, by topics",
            "Lower is better. Grows with the topics of the broker that died.") },
    Growth { part: "lists", is_optional: true,
        ..growth(Measure::TopicList, "topics", "List of all topics",
            "Lower is better. Grows with the answer. The lookups of others meanwhile are in the table of goals.") },
];

pub(super) fn section(results: &Results) -> Section {
    let mut section = Section::new(
        "growth",
        "How the cost grows",
        "The same measures with more topics, connections and brokers. What should not depend on them is a flat line.",
    );
    for growth in GROWTHS {
        let Growth { measure, key, label, part, title, is_log, caption, is_optional } = growth;
        let at = sweeps(results, *measure, &[], key).into_iter().next();
        if at.is_none() && *is_optional {
            continue;
        }
        let wanted = Wanted {
            id: format!("{}-by-{key}", file_name(*measure)),
            title: (*title).to_owned(),
            part,
            x: Axis::counted(label, Scale::Log),
            y: Axis::measured(what(*measure), if *is_log { Scale::Log } else { Scale::Linear }, Unit::of(*measure)),
            mark: Mark::Line,
            caption: format!("{caption}{}", others_of(at.as_ref())),
        };
        section.add(wanted, swept(results, *measure, at.as_ref(), key));
    }
    section.more = table(results);
    section
}

/// What stands beside the axis of a measure.
const fn what(measure: Measure) -> &'static str {
    match measure {
        Measure::QueryRate => "queries a second",
        Measure::Memory => "memory",
        _ => "time",
    }
}

/// The name of a measure as it is in files.
fn file_name(measure: Measure) -> String {
    let name = serde_json::to_value(measure).ok();
    name.as_ref().and_then(|name| name.as_str()).unwrap_or("measure").to_owned()
}

/// The conditions that stay the same.
fn others_of(at: Option<&At>) -> String {
    let named: Vec<String> = at
        .into_iter()
        .flatten()
        .map(|(key, value)| match key.as_str() {
            "in_flight" => format!("{value} in flight"),
            key => format!("{} {key}", count(*value)),
        })
        .collect();
    if named.is_empty() { String::new() } else { format!(" With {}.", named.join(", ")) }
}

/// The cost of the largest as a multiple of that of the smallest.
fn table(results: &Results) -> String {
    let rows = [
        ("processor time of a route query", Measure::QueryCpu, "topics"),
        ("processor time of a heartbeat", Measure::HeartbeatCpu, "topics"),
        ("loss of a connection until it is seen", Measure::ConnectionLoss, "brokers"),
    ];
    let mut table = Table {
        head: ["", "from", "to", "cost at the end, of that at the start"].map(str::to_owned).into(),
        rows: Vec::new(),
    };
    for (name, measure, key) in rows {
        let Some(at) = sweeps(results, measure, &[], key).into_iter().next() else { continue };
        for series in along(results, measure, &borrowed(&at), key) {
            let is_ours = BACKENDS.contains(&series.subject.as_str());
            let (Some(first), Some(last)) = (series.points.first(), series.points.last()) else { continue };
            if !is_ours || first.x == last.x || first.median <= 0.0 {
                continue;
            }
            table.rows.push(vec![
                format!("{name}, {}", series.subject).into(),
                format!("{} {key}", count(first.x)).into(),
                format!("{} {key}", count(last.x)).into(),
                Unit::Times.show(last.median / first.median).into(),
            ]);
        }
    }
    if table.rows.is_empty() {
        return String::new();
    }
    format!("<h3>What should not grow</h3>\n{}", table.html("narrow"))
}
