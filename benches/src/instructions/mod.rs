//! Instructions of the operations that a name server spends its life with, counted by valgrind.
//!
//! Unlike a time, a count does not depend on who else uses the machine: it moves by fractions of a percent, so a change
//! of a few percent in the code is seen. It says nothing of caches, branches and the kernel.
//!
//! Each count is the difference of two runs, one of which does not do the operation: what a program does before and after
//! falls out. The seeds of hash tables are random, so operations go over so many keys that no collision matters.
//!
//! The program `instructions` compares with `benches/results/instructions.json`; [`count`] is what it calls.

mod baseline;
mod operations;
mod served;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, ensure};

pub use baseline::{Baseline, Comparison, LIMIT_PERCENT, compare};
pub use operations::run;

use crate::{
    process,
    results::{Measure, Sample},
};

/// What is counted. The order is that of [`Operation::ALL`], the index of `operation` in samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// The route of one of 1,000 topics on 8 brokers is looked up and written (105), without its frame.
    Lookup,
    /// The JSON header of a route query is read, as a Java client writes it.
    JsonHeader,
    /// The same in the binary encoding.
    BinaryHeader,
    /// A route query is cut out of what a connection has received.
    Frame,
    /// Header and length of an answer are written around a body, which is copied.
    Answer,
    /// The heartbeat of one of 4,000 brokers (904).
    Heartbeat,
    /// A broker registers 1,000 topics with the data version that is known: the writer's part.
    RegistrationUnchanged,
    /// A broker registers 1,000 topics, all of them with other settings: the writer's part.
    RegistrationChanged,
    /// The body of a registration of 1,000 topics is parsed.
    RegisterBody,
    /// The write permission of a broker with 1,000 topics is taken away, or given back (205).
    Wipe,
    /// All of 1,000 topics are listed (206).
    TopicList,
    /// The server answers a route query that came alone: all of its threads, from the read to the write.
    ServedRoute,
    /// The server answers one of four route queries that came at once.
    ServedRoutePipelined,
}

impl Operation {
    /// All of them.
    pub const ALL: [Self; 13] = [
        Self::Lookup,
        Self::JsonHeader,
        Self::BinaryHeader,
        Self::Frame,
        Self::Answer,
        Self::Heartbeat,
        Self::RegistrationUnchanged,
        Self::RegistrationChanged,
        Self::RegisterBody,
        Self::Wipe,
        Self::TopicList,
        Self::ServedRoute,
        Self::ServedRoutePipelined,
    ];

    /// Its name in files and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Lookup => "lookup",
            Self::JsonHeader => "json-header",
            Self::BinaryHeader => "binary-header",
            Self::Frame => "frame",
            Self::Answer => "answer",
            Self::Heartbeat => "heartbeat",
            Self::RegistrationUnchanged => "registration-unchanged",
            Self::RegistrationChanged => "registration-changed",
            Self::RegisterBody => "register-body",
            Self::Wipe => "wipe",
            Self::TopicList => "topic-list",
            Self::ServedRoute => "served-route",
            Self::ServedRoutePipelined => "served-route-pipelined",
        }
    }

    /// The operation of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|operation| operation.name() == name)
    }

    /// The operation with this index in [`ALL`](Self::ALL), which samples have.
    pub fn of_index(index: f64) -> Option<Self> {
        Self::ALL.into_iter().find(|operation| operation.index() == index)
    }

    /// Its index in [`ALL`](Self::ALL).
    pub fn index(self) -> f64 {
        f64::from(self as u8)
    }

    /// How often it is repeated: enough to drown what differs between two starts.
    const fn repetitions(self) -> u64 {
        match self {
            Self::Frame | Self::Answer | Self::Heartbeat => 100_000,
            Self::Lookup | Self::JsonHeader | Self::BinaryHeader => 40_000,
            Self::ServedRoute | Self::ServedRoutePipelined => 20_000,
            Self::Wipe => 5_000,
            Self::RegistrationUnchanged => 800,
            Self::RegistrationChanged => 160,
            Self::TopicList => 128,
            Self::RegisterBody => 40,
        }
    }
}

/// The programs that are counted.
#[derive(Clone, Debug)]
pub struct Programs {
    /// The program `instructions`, for what is counted in process.
    pub instructions: PathBuf,
    /// The name server.
    pub namesrv: PathBuf,
}

impl Programs {
    /// Those in the folder of the running program, where cargo puts them.
    ///
    /// # Errors
    /// When one is missing.
    pub fn beside_this_one() -> anyhow::Result<Self> {
        let this = std::env::current_exe()?;
        let beside = |name: &str| {
            let path = this.with_file_name(name);
            ensure!(path.exists(), "{} is missing: cargo build --release --bin {name}", path.display());
            Ok(path)
        };
        Ok(Self { instructions: beside("instructions")?, namesrv: beside("namesrv")? })
    }
}

/// Instructions of one operation.
///
/// # Errors
/// When there is no valgrind, or a program fails under it.
pub fn count(programs: &Programs, operation: Operation) -> anyhow::Result<f64> {
    let times = operation.repetitions();
    let none = total(programs, operation, 0)?;
    let all = total(programs, operation, times)?;
    ensure!(all > none, "{}: {all} instructions with it, {none} without", operation.name());
    Ok((all - none) as f64 / times as f64)
}

/// A sample for each operation, of the strategy that is the default.
///
/// # Errors
/// As [`count`].
pub fn measure(programs: &Programs, mut progress: impl FnMut(&str), mut add: impl FnMut(Sample)) -> anyhow::Result<()> {
    for operation in Operation::ALL {
        progress(operation.name());
        let at = [("operation", operation.index())];
        let count = count(programs, operation)?;
        add(Sample::new(Measure::Instructions, server::backend::DEFAULT, &at, vec![count]));
    }
    Ok(())
}

/// Instructions of a whole process that repeats the operation so often.
fn total(programs: &Programs, operation: Operation, times: u64) -> anyhow::Result<u64> {
    let folder = tempfile::tempdir()?;
    let counts = folder.path().join("counts");
    if matches!(operation, Operation::ServedRoute | Operation::ServedRoutePipelined) {
        served::run(&programs.namesrv, operation, times, &counts)?;
    } else {
        let mut command = valgrind(&programs.instructions, &counts);
        command.args(["--run", operation.name(), "--times", &times.to_string()]);
        process::run(&mut command)?;
    }
    total_of(&fs::read_to_string(&counts).context("the output of callgrind")?)
}

/// A command that runs `program` under callgrind, in an environment that is always the same.
fn valgrind(program: &Path, counts: &Path) -> Command {
    let mut command = Command::new("valgrind");
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command.args(["--tool=callgrind", "--quiet"]).arg(format!("--callgrind-out-file={}", counts.display()));
    command.arg(program);
    command
}

fn total_of(counts: &str) -> anyhow::Result<u64> {
    let total = counts.lines().find_map(|line| line.strip_prefix("totals: "));
    Ok(total.context("no totals in the output of callgrind")?.trim().parse()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_known_by_name_and_index() {
        for (index, operation) in Operation::ALL.into_iter().enumerate() {
            assert_eq!(operation.index(), index as f64);
            assert_eq!(Operation::of_index(index as f64), Some(operation));
            assert_eq!(Operation::named(operation.name()), Some(operation));
        }
        assert_eq!(Operation::named("wipes"), None);
        assert_eq!(Operation::of_index(0.5), None);
    }

    #[test]
    fn the_total_of_callgrind_is_read() {
        let counts = "version: 1\nevents: Ir\nsummary: 12\n\nfn=(0)\n0 12\n\ntotals: 12\n";
        assert_eq!(total_of(counts).unwrap(), 12);
        assert!(total_of("version: 1\n").is_err());
    }
}
