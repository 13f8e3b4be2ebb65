//! How numbers are shown.

use std::{
    io::{IsTerminal as _, Write as _, stderr},
    time::Duration,
};

use comfy_table::{CellAlignment, ContentArrangement, Table, presets::ASCII_MARKDOWN};

/// One line of the table.
#[derive(Debug, Default)]
pub(crate) struct Row {
    /// What was measured.
    pub(crate) measure: &'static str,
    /// Of our server.
    pub(crate) ours: String,
    /// Of the floor.
    pub(crate) floor: String,
    /// Of the official server.
    pub(crate) official: String,
    /// Ours against the others.
    pub(crate) ratio: String,
    /// What is to be reached, and whether it is.
    pub(crate) goal: Option<(&'static str, bool)>,
}

/// The table, as Markdown.
pub(crate) fn table(rows: &[Row]) -> Table {
    let mut table = Table::new();
    table.load_style(ASCII_MARKDOWN).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(["measure", "namesrv", "floor", "official", "ratio", "goal", "met"]);
    for row in rows {
        let (goal, met) = row.goal.map_or(("", ""), |(goal, met)| (goal, if met { "yes" } else { "NO" }));
        let or_dash = |text: &str| if text.is_empty() { "-".to_owned() } else { text.to_owned() };
        table.add_row([
            row.measure,
            &row.ours,
            &or_dash(&row.floor),
            &or_dash(&row.official),
            &row.ratio,
            &or_dash(goal),
            &or_dash(met),
        ]);
    }
    for column in table.column_iter_mut().skip(1).take(3) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// The median of something; of an even count the lower one. `None` for nothing.
pub(crate) fn median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len().checked_sub(1)? / 2).copied()
}

/// The median of durations; zero for none.
pub(crate) fn median_time(times: &[Duration]) -> Duration {
    Duration::from_secs_f64(median(times.iter().map(Duration::as_secs_f64)).unwrap_or_default())
}

pub(crate) fn mib(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

pub(crate) fn ms(time: Duration) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1e3)
}

/// How many times `peer` the value `ours` is, or which part of it.
pub(crate) fn times(ours: f64, peer: Option<f64>, name: &str) -> String {
    match peer.map(|peer| ours / peer) {
        Some(ratio) if ratio.is_finite() && ratio > 0.0 && ratio < 0.1 => format!("1/{:.0} of {name}", 1.0 / ratio),
        Some(ratio) if ratio.is_finite() => format!("{ratio:.2}x {name}"),
        _ => String::new(),
    }
}

/// Says on the standard error what is going on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Progress;

impl Progress {
    pub(crate) fn say(self, what: impl std::fmt::Display) {
        let mut out = stderr().lock();
        let start = if out.is_terminal() { "\r\x1b[K" } else { "" };
        let end = if out.is_terminal() { "" } else { "\n" };
        let _ = write!(out, "{start}{what} ...{end}").and_then(|()| out.flush());
    }

    pub(crate) fn clear(self) {
        if stderr().is_terminal() {
            eprint!("\r\x1b[K");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert_eq!(median([3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median([4.0, 1.0, 3.0, 2.0]), Some(2.0));
        assert_eq!(median([]), None);
    }

    #[test]
    fn ratios_are_readable() {
        assert_eq!(times(3.0, Some(2.0), "floor"), "1.50x floor");
        assert_eq!(times(1.0, Some(500.0), "official"), "1/500 of official");
        assert_eq!(times(0.0, Some(2.0), "floor"), "0.00x floor");
        assert_eq!(times(1.0, Some(0.0), "floor") + &times(1.0, None, "floor"), "");
    }

    #[test]
    fn a_goal_that_is_missed_is_told() {
        let row = Row { measure: "m", ours: "9".into(), goal: Some(("<= 8", false)), ..Row::default() };
        let text = table(&[row]).to_string();
        assert!(text.contains("<= 8") && text.contains("NO"), "{text}");
    }
}
