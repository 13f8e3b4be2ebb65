//! Counts the instructions of hot operations and compares them with the committed baseline.
//!
//! `ci/instructions.sh` builds what it needs and runs it.
#![forbid(unsafe_code)]

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

use anyhow::ensure;
use benches::{
    instructions::{self, Baseline, Comparison, LIMIT_PERCENT, Operation, Programs},
    process,
};
use clap::Parser;

/// Counts the instructions of hot operations, under valgrind
#[derive(Debug, Parser)]
struct Flags {
    /// Write the baseline instead of comparing with it
    #[arg(long)]
    update: bool,
    /// Count only these
    #[arg(long, value_name = "OPERATION", value_delimiter = ',', value_parser = operation, conflicts_with = "update")]
    only: Vec<Operation>,
    /// The baseline
    #[arg(long, value_name = "FILE", default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/results/instructions.json"))]
    baseline: PathBuf,
    /// Repeat this operation, and count nothing: what the program calls itself with
    #[arg(long, hide = true, value_name = "OPERATION", value_parser = operation)]
    run: Option<Operation>,
    /// How often `--run` does
    #[arg(long, hide = true, default_value_t = 1)]
    times: u64,
}

fn operation(name: &str) -> Result<Operation, String> {
    let names = || Operation::ALL.map(Operation::name).join(", ");
    Operation::named(name).ok_or_else(|| format!("one of {}", names()))
}

fn main() -> anyhow::Result<ExitCode> {
    let flags = Flags::parse();
    if let Some(operation) = flags.run {
        instructions::run(operation, flags.times)?;
        return Ok(ExitCode::SUCCESS);
    }
    ensure!(!cfg!(debug_assertions), "a debug build has counts of its own: build with --release");
    if flags.update { update(&flags.baseline) } else { check(&flags) }
}

fn update(file: &Path) -> anyhow::Result<ExitCode> {
    let programs = Programs::beside_this_one()?;
    let mut counts = BTreeMap::new();
    for operation in Operation::ALL {
        let count = instructions::count(&programs, operation)?;
        println!("{:<24}{count:>13.1}", operation.name());
        // The rest is noise, and would be in every diff.
        counts.insert(operation.name().to_owned(), (count * 10.0).round() / 10.0);
    }
    Baseline { compiler: version("rustc")?, valgrind: version("valgrind")?, instructions: counts }.save(file)?;
    println!("{} is written", file.display());
    Ok(ExitCode::SUCCESS)
}

fn check(flags: &Flags) -> anyhow::Result<ExitCode> {
    let programs = Programs::beside_this_one()?;
    let baseline = Baseline::load(&flags.baseline)?;
    for (before, now) in [(&baseline.compiler, version("rustc")?), (&baseline.valgrind, version("valgrind")?)] {
        if *before != now {
            println!("note: the baseline is of {before}, this is {now}");
        }
    }
    println!("{:<24}{:>13}{:>13}{:>10}", "operation", "baseline", "now", "change");
    let (mut worse, mut better) = (0, 0);
    let is_chosen = |operation: &Operation| flags.only.is_empty() || flags.only.contains(operation);
    for operation in Operation::ALL.into_iter().filter(is_chosen) {
        let before = baseline.of(operation);
        let now = instructions::count(&programs, operation)?;
        let (change, verdict) = match instructions::compare(before, now) {
            Comparison::Same(percent) => (format!("{percent:+.2} %"), ""),
            Comparison::Better(percent) => {
                better += 1;
                (format!("{percent:+.2} %"), "  better")
            }
            Comparison::Worse(percent) => {
                worse += 1;
                (format!("{percent:+.2} %"), "  WORSE")
            }
            Comparison::Unknown => {
                worse += 1;
                ("-".to_owned(), "  NOT IN THE BASELINE")
            }
        };
        let before = before.map_or("-".to_owned(), |before| format!("{before:.1}"));
        println!("{:<24}{before:>13}{now:>13.1}{change:>10}{verdict}", operation.name());
    }
    if better > 0 {
        println!("{better} took less by more than {LIMIT_PERCENT} %: ci/instructions.sh --update keeps it so");
    }
    if worse > 0 {
        println!(
            "{worse} took more by more than {LIMIT_PERCENT} %, or are new: if that is meant, ci/instructions.sh --update"
        );
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}

fn version(program: &str) -> anyhow::Result<String> {
    Ok(String::from_utf8(process::run(Command::new(program).arg("--version"))?)?.trim().to_owned())
}
