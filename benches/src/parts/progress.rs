//! Says on the standard error what is going on: a bar on a terminal, else lines.

use std::{fmt::Display, time::Duration};

use indicatif::{ProgressBar, ProgressStyle};

/// The progress of a run.
#[derive(Clone, Debug)]
pub struct Progress {
    /// Seconds of the budget that are done, when somebody looks.
    bar: Option<ProgressBar>,
    /// Whether there are lines without one.
    has_lines: bool,
}

impl Progress {
    /// A bar on the standard error, or lines where that is no terminal. `seconds` is the budget of the whole run.
    pub fn new(seconds: u64) -> Self {
        let bar = ProgressBar::new(seconds);
        if bar.is_hidden() {
            return Self { bar: None, has_lines: true };
        }
        let style = ProgressStyle::with_template("{bar:30} {percent:>3} % of {elapsed_precise} {wide_msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.enable_steady_tick(Duration::from_millis(200));
        Self { bar: Some(bar), has_lines: true }
    }

    /// One that nobody sees.
    pub fn hidden() -> Self {
        Self { bar: None, has_lines: false }
    }

    /// Says something that is worth a line of its own.
    pub fn say(&self, what: impl Display) {
        match &self.bar {
            Some(bar) => bar.println(what.to_string()),
            None if self.has_lines => eprintln!("{what}"),
            None => {}
        }
    }

    /// Says what happens now, beside the bar.
    pub fn step(&self, what: impl Display) {
        if let Some(bar) = &self.bar {
            bar.set_message(what.to_string());
        }
    }

    /// So many more seconds of the budget are done.
    pub fn advance(&self, seconds: u64) {
        if let Some(bar) = &self.bar {
            bar.inc(seconds);
        }
    }

    /// Takes the bar away.
    pub fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
