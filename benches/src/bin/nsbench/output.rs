//! The result: a table for people, JSON and CSV for programs.

use std::{
    fmt::Write as _,
    io::{self, Write as _},
};

use benches::{
    faults::{Fault, Faults},
    session::{Session, Summary},
    storm::StormReport,
};
use comfy_table::{CellAlignment, Table, presets::ASCII_MARKDOWN};
use hdrhistogram::Histogram;
use serde_json::{Map, Value, json};

use crate::flags::Output;

/// The percentiles that are told, and their names.
const PERCENTILES: [(f64, &str); 5] = [(50.0, "p50"), (90.0, "p90"), (99.0, "p99"), (99.9, "p99.9"), (100.0, "max")];

/// Prints it to the standard output.
pub(crate) fn print(output: Output, session: &Session, summary: &Summary) -> io::Result<()> {
    let text = match output {
        Output::Text => format!("{}\n", table(summary)),
        Output::Json => format!("{:#}\n", json_of(session, summary)),
        Output::Csv => csv(session, summary),
    };
    io::stdout().write_all(text.as_bytes())
}

fn table(summary: &Summary) -> Table {
    let mut table = Table::new();
    table.load_style(ASCII_MARKDOWN);
    let report = &summary.report;
    let storm = summary.storm.as_ref();
    let mut header = vec!["", "load"];
    header.extend(storm.map(|_| "beside"));
    table.set_header(header);
    let mut row = |name: &str, lookups: String, of_storm: &dyn Fn(&StormReport) -> String| {
        let mut cells = vec![name.to_owned(), lookups];
        cells.extend(storm.map(of_storm));
        table.add_row(cells);
    };
    row("right answers", report.answers.to_string(), &|storm| {
        format!("{} of {} due ({:.1} %)", storm.applied, storm.due, storm.applied_percent())
    });
    row("seconds", format!("{:.3}", report.elapsed.as_secs_f64()), &|_| String::new());
    row("right answers/s", format!("{:.0}", rate(summary)), &|_| String::new());
    for (percentile, name) in PERCENTILES {
        let ms = |histogram: &Histogram<u64>| format!("{:.3}", us_at(histogram, percentile) / 1e3);
        row(&format!("{name} ms"), ms(&report.latencies), &|storm| ms(&storm.latencies));
    }
    if report.sent_late_max > 0 {
        row("latest request ms", format!("{:.3}", report.sent_late_max as f64 / 1e6), &|_| String::new());
    }
    row("errors", summary.errors.total().to_string(), &|storm| storm.errors.total().to_string());
    for fault in Fault::ALL {
        let count = |errors: &Faults| errors.count(fault);
        if count(&summary.errors) + storm.map_or(0, |storm| count(&storm.errors)) > 0 {
            row(&format!("  {fault}"), count(&summary.errors).to_string(), &|storm| count(&storm.errors).to_string());
        }
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn json_of(session: &Session, summary: &Summary) -> Value {
    let report = &summary.report;
    let storm = summary.storm.as_ref().map(|storm| {
        json!({
            "due": storm.due, "sent": storm.sent, "applied": storm.applied,
            "latency_us": percentiles(&storm.latencies), "errors": errors(&storm.errors),
        })
    });
    json!({
        "target": session.addr.to_string(), "mix": session.mix, "connections": session.connections,
        "in_flight": session.per_second.is_none().then_some(session.in_flight), "per_second": session.per_second,
        "topics": session.topics, "threads": session.threads, "seed": session.seed,
        "answers": report.answers, "seconds": report.elapsed.as_secs_f64(), "rate": rate(summary),
        "latency_us": percentiles(&report.latencies), "sent_late_max_us": report.sent_late_max as f64 / 1e3,
        "errors": errors(&summary.errors), "beside": storm, "failure": summary.failure,
    })
}

fn percentiles(histogram: &Histogram<u64>) -> Map<String, Value> {
    PERCENTILES.iter().map(|&(percentile, name)| (name.to_owned(), us_at(histogram, percentile).into())).collect()
}

fn errors(errors: &Faults) -> Map<String, Value> {
    let count =
        |(fault, count, first): (Fault, u64, &str)| (fault.to_string(), json!({"count": count, "first": first}));
    errors.iter().map(count).collect()
}

/// A line of names and one of values, none of which needs quotes.
fn csv(session: &Session, summary: &Summary) -> String {
    let mut cells = vec![
        ("target".to_owned(), session.addr.to_string()),
        ("answers".to_owned(), summary.report.answers.to_string()),
        ("seconds".to_owned(), summary.report.elapsed.as_secs_f64().to_string()),
        ("rate".to_owned(), rate(summary).to_string()),
    ];
    let mut latencies = |prefix: &str, histogram: Option<&Histogram<u64>>| {
        for (percentile, name) in PERCENTILES {
            let value = histogram.map(|histogram| us_at(histogram, percentile).to_string()).unwrap_or_default();
            cells.push((format!("{prefix}{name}_us"), value));
        }
    };
    latencies("", Some(&summary.report.latencies));
    let storm = summary.storm.as_ref();
    latencies("beside_", storm.map(|storm| &storm.latencies));
    let of_storm = |of: fn(&StormReport) -> u64| storm.map(|storm| of(storm).to_string()).unwrap_or_default();
    cells.push(("beside_due".to_owned(), of_storm(|storm| storm.due)));
    cells.push(("beside_sent".to_owned(), of_storm(|storm| storm.sent)));
    cells.push(("beside_applied".to_owned(), of_storm(|storm| storm.applied)));
    cells.push(("beside_errors".to_owned(), of_storm(|storm| storm.errors.total())));
    cells.push(("errors".to_owned(), summary.errors.total().to_string()));
    cells.extend(Fault::ALL.map(|fault| (format!("errors_{fault}"), summary.errors.count(fault).to_string())));
    let mut text = String::new();
    let join = |of: fn(&(String, String)) -> &str| cells.iter().map(of).collect::<Vec<_>>().join(",");
    let _ = writeln!(text, "{}\n{}", join(|(name, _)| name), join(|(_, value)| value));
    text
}

fn us_at(histogram: &Histogram<u64>, percentile: f64) -> f64 {
    histogram.value_at_quantile(percentile / 100.0) as f64 / 1e3
}

/// Of nothing it is 0.
fn rate(summary: &Summary) -> f64 {
    if summary.report.answers == 0 { 0.0 } else { summary.report.rate() }
}
