//! How far a load is: a bar on a terminal, otherwise a line each second.

use std::{
    io::{self, IsTerminal as _},
    time::Duration,
};

use benches::session::{Moment, Session};
use indicatif::{ProgressBar, ProgressStyle};

use crate::flags::LoadFlags;

pub(crate) enum Progress {
    None,
    Lines,
    Bar(ProgressBar),
}

impl Progress {
    pub(crate) fn new(flags: &LoadFlags, session: &Session) -> Self {
        if flags.no_tui {
            return Self::None;
        }
        if !io::stderr().is_terminal() {
            return Self::Lines;
        }
        let seconds = session.duration.map(|duration| duration.as_secs().max(1));
        let bar = seconds.map_or_else(ProgressBar::new_spinner, ProgressBar::new);
        let template = if seconds.is_some() { "{bar:20} {msg}" } else { "{spinner} {msg}" };
        bar.set_style(ProgressStyle::with_template(template).expect("the template is good"));
        bar.set_message("preparing");
        bar.enable_steady_tick(Duration::from_millis(200));
        Self::Bar(bar)
    }

    pub(crate) fn tell(&mut self, moment: &Moment) {
        match self {
            Self::None => {}
            Self::Lines => eprintln!("{}", line(moment)),
            Self::Bar(bar) => {
                bar.set_position(moment.elapsed.as_secs());
                bar.set_message(line(moment));
            }
        }
    }

    pub(crate) fn end(&mut self) {
        if let Self::Bar(bar) = self {
            bar.finish_and_clear();
        }
    }
}

fn line(moment: &Moment) -> String {
    let Moment { elapsed, rate, p99, errors, storm } = moment;
    let storm = storm.map(|(due, applied)| format!("  applied {applied} of {due}")).unwrap_or_default();
    let p99 = *p99 as f64 / 1e6;
    format!("{:>4} s  {rate:>9.0} answers/s  p99 {p99:.3} ms  errors {errors}{storm}", elapsed.as_secs())
}
