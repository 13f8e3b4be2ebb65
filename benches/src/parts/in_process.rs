//! What is measured without a connection: the strategies side by side, and instructions of hot operations.

use std::process::Command;

use anyhow::ensure;

use super::{Effort, NOT_ASKED_FOR, NOT_INSTALLED, lab::Lab};
use crate::{instructions, matrix, process, results::Results};

/// The strategies in one process; all of them, whichever are chosen.
pub(crate) fn strategies(lab: &Lab, _: Effort, results: &mut Results) -> anyhow::Result<()> {
    let child_arguments = ["report", "--memory-of"].map(str::to_owned).into();
    let options = matrix::Options { is_quick: lab.is_quick, child_arguments };
    let mut progress = |matrix::Progress { part, done, of }: &matrix::Progress| {
        ensure!(!process::are_ended(), "interrupted");
        lab.progress.step(format_args!("matrix: {done}/{of}, {part}"));
        Ok(())
    };
    matrix::measure(&options, &mut progress, &mut |sample| results.samples.push(sample))
}

/// Instructions by valgrind, which is slow: not in a quick run.
pub(crate) fn instructions(lab: &Lab, _: Effort, results: &mut Results) -> anyhow::Result<()> {
    let reason = if lab.is_quick {
        format!("{NOT_ASKED_FOR} (--quick)")
    } else if process::run(Command::new("valgrind").arg("--version")).is_err() {
        format!("{NOT_INSTALLED}: valgrind")
    } else {
        let programs = lab.build_instructions()?;
        let step = |operation: &str| lab.progress.step(format_args!("instructions: {operation}"));
        return instructions::measure(&programs, step, |sample| results.samples.push(sample));
    };
    results.miss("instructions", reason);
    Ok(())
}
