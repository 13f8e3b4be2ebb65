//! The strategies side by side, in process: `cargo run --release -p benches --example matrix -- [--quick] [--json FILE]`.
//!
//! A short summary of what `benches::matrix` measures; the report shows all of it.
#![forbid(unsafe_code)]

use std::{path::PathBuf, time::Instant};

use benches::{
    matrix::{self, Options, memory},
    results::{Measure, Results, Sample},
};
use clap::Parser;

/// Compares the lock strategies on this machine
#[derive(Debug, Parser)]
struct Flags {
    /// Three short rounds: to see that everything runs, not to quote
    #[arg(long)]
    quick: bool,
    /// Also write the numbers to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Print the memory of a strategy with so many topics: what this program calls itself with
    #[arg(long, hide = true, num_args = 2, value_names = ["STRATEGY", "TOPICS"])]
    memory_of: Vec<String>,
}

fn main() -> anyhow::Result<()> {
    let flags = Flags::parse();
    if let [strategy, topics] = &flags.memory_of[..] {
        return memory::child(strategy, topics.parse()?);
    }
    if cfg!(debug_assertions) {
        eprintln!("This is a debug build: run with --release for numbers that mean anything.");
    }
    let mut results = Results { is_quick: flags.quick, ..Results::default() };
    let options = Options { is_quick: flags.quick, child_arguments: vec!["--memory-of".to_owned()] };
    let begin = Instant::now();
    let mut part = String::new();
    let measured = matrix::measure(
        &options,
        &mut |progress| {
            if part != progress.part {
                part.clone_from(&progress.part);
                eprintln!("{:>4} s  {:>3}/{}  {part}", begin.elapsed().as_secs(), progress.done, progress.of);
            }
            Ok(())
        },
        &mut |sample| {
            if is_in_summary(&sample) {
                print(&sample);
            }
            results.samples.push(sample);
        },
    );
    results.is_complete = measured.is_ok();
    if let Some(file) = &flags.json {
        results.save(file)?;
    }
    measured
}

/// The tails, and what has no percentiles.
fn is_in_summary(sample: &Sample) -> bool {
    sample.at.get("percentile").is_none_or(|&percentile| percentile == 99.0) && sample.measure != Measure::WriterStall
}

fn print(sample: &Sample) {
    let at: Vec<_> = sample.at.iter().map(|(key, value)| format!("{key} {value}")).collect();
    let (Some(median), Some((low, high))) = (sample.median(), sample.quartiles()) else { return };
    let (measure, subject, at) = (format!("{:?}", sample.measure), &sample.subject, at.join(", "));
    println!("{measure:<15}{subject:<11}{median:>10.2} ({low:.2}-{high:.2})  {at}");
}
