//! How the numbers are shown.

use std::{
    fmt,
    io::{IsTerminal as _, Write as _, stderr},
    time::Duration,
};

use comfy_table::{CellAlignment, ContentArrangement, Table, presets::ASCII_MARKDOWN};
use serde_json::{Map, Value, json};

/// The rounds of one measure: their quartiles.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    pub(crate) low: f64,
    pub(crate) median: f64,
    pub(crate) high: f64,
}

impl Spread {
    /// Of at least one value; of an even count the lower ones.
    pub(crate) fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let at = |quarter: usize| values.get(values.len().saturating_sub(1) * quarter / 4).copied().unwrap_or(f64::NAN);
        Self { low: at(1), median: at(2), high: at(3) }
    }

    /// Median and quartiles with so many digits after the point.
    pub(crate) fn show(&self, digits: usize) -> String {
        let Self { low, median, high } = self;
        format!("{median:.digits$} ({low:.digits$}-{high:.digits$})")
    }

    fn json(&self) -> Value {
        json!({ "q1": self.low, "median": self.median, "q3": self.high })
    }
}

/// A value of a table, as it is shown and as it is stored.
#[derive(Debug)]
pub(crate) struct Cell(String, Value);

impl Cell {
    pub(crate) fn spread(spread: Spread, digits: usize) -> Self {
        Self(spread.show(digits), spread.json())
    }

    pub(crate) fn count(count: u64) -> Self {
        Self(count.to_string(), count.into())
    }

    pub(crate) fn number(number: f64, digits: usize) -> Self {
        Self(format!("{number:.digits$}"), json!(number))
    }
}

/// What is to be reached, and whether it is.
#[derive(Debug)]
pub(crate) struct Goal {
    pub(crate) text: String,
    pub(crate) is_met: bool,
}

impl Goal {
    pub(crate) fn at_most(limit: f64, unit: &str, value: f64) -> Self {
        Self { text: format!("<= {limit}{unit}"), is_met: value <= limit }
    }

    pub(crate) fn at_least(limit: f64, unit: &str, value: f64) -> Self {
        Self { text: format!(">= {limit}{unit}"), is_met: value >= limit }
    }
}

/// One table.
#[derive(Debug)]
pub(crate) struct Section {
    title: String,
    columns: &'static [&'static str],
    rows: Vec<(&'static str, Vec<Cell>, Option<Goal>)>,
}

impl Section {
    pub(crate) fn new(title: String, columns: &'static [&'static str]) -> Self {
        Self { title, columns, rows: Vec::new() }
    }

    pub(crate) fn row(&mut self, strategy: &'static str, cells: Vec<Cell>, goal: Option<Goal>) {
        debug_assert_eq!(cells.len(), self.columns.len());
        self.rows.push((strategy, cells, goal));
    }

    pub(crate) fn json(&self) -> Value {
        let rows = self.rows.iter().map(|(strategy, cells, goal)| {
            let mut row = Map::new();
            row.insert("strategy".into(), (*strategy).into());
            for (column, Cell(_, value)) in self.columns.iter().zip(cells) {
                row.insert((*column).into(), value.clone());
            }
            if let Some(goal) = goal {
                row.insert("goal".into(), goal.text.clone().into());
                row.insert("met".into(), goal.is_met.into());
            }
            Value::from(row)
        });
        json!({ "title": self.title, "rows": rows.collect::<Vec<_>>() })
    }
}

impl fmt::Display for Section {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = Table::new();
        table.load_style(ASCII_MARKDOWN).set_content_arrangement(ContentArrangement::Disabled);
        table.set_header([&["strategy"], self.columns, &["goal", "met"]].concat());
        for (strategy, cells, goal) in &self.rows {
            let (text, met) = match goal {
                Some(goal) => (goal.text.as_str(), if goal.is_met { "yes" } else { "NO" }),
                None => ("-", "-"),
            };
            let cells = cells.iter().map(|Cell(text, _)| text.as_str());
            table.add_row([*strategy].into_iter().chain(cells).chain([text, met]));
        }
        for column in table.column_iter_mut().skip(1).take(self.columns.len()) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        write!(f, "{}\n\n{table}\n", self.title)
    }
}

/// Says on the standard error what is going on.
pub(crate) fn progress(what: impl fmt::Display) {
    let mut out = stderr().lock();
    let (start, end) = if out.is_terminal() { ("\r\x1b[K", "") } else { ("", "\n") };
    let _ = write!(out, "{start}{what} ...{end}").and_then(|()| out.flush());
}

pub(crate) fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

/// The value below which so many percent of `times` are; zero for none.
pub(crate) fn percentile(times: &mut [Duration], percent: usize) -> Duration {
    times.sort_unstable();
    times.get(times.len().saturating_sub(1) * percent / 100).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles() {
        let spread = Spread::of([5.0, 1.0, 4.0, 2.0, 3.0]);
        assert_eq!(spread, Spread { low: 2.0, median: 3.0, high: 4.0 });
        assert_eq!(spread.show(1), "3.0 (2.0-4.0)");
        assert_eq!(Spread::of([7.0]), Spread { low: 7.0, median: 7.0, high: 7.0 });
    }

    #[test]
    fn percentiles() {
        let mut times: Vec<_> = (0..=100).rev().map(Duration::from_micros).collect();
        assert_eq!(percentile(&mut times, 50), Duration::from_micros(50));
        assert_eq!(percentile(&mut times, 99), Duration::from_micros(99));
        assert_eq!(percentile(&mut [], 99), Duration::ZERO);
    }

    #[test]
    fn a_goal_that_is_missed_is_told_in_both_forms() {
        let mut section = Section::new("title".into(), &["p99 us"]);
        section.row("cached", vec![Cell::number(9.25, 1)], Some(Goal::at_most(3.0, "x", 9.25)));
        let text = section.to_string();
        assert!(text.contains("9.2") && text.contains("<= 3x") && text.contains("NO"), "{text}");
        assert_eq!(section.json()["rows"][0]["met"], false);
        assert_eq!(section.json()["rows"][0]["p99 us"], 9.25);
    }
}
