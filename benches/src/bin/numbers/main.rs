//! The numbers of the server, each beside its goal and, where there is one, beside a peer that runs at the same time.
//!
//! `cargo run --release -p benches --bin numbers -- [--quick] [--official]`. What each line means is in `docs/performance.md`.
#![forbid(unsafe_code)]

mod large;
mod queries;
mod report;
mod small;

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, ensure};
use benches::{
    official,
    process::{self, Server},
};
use clap::Parser;

use crate::report::{Progress, Row};

/// Measures the name server on this machine
#[derive(Debug, Parser)]
struct Flags {
    /// Fewer and shorter rounds: to see that everything runs, not to quote
    #[arg(long)]
    quick: bool,
    /// Also measure the official Java name server; needs `java`, and `mvn` for the first time
    #[arg(long)]
    official: bool,
    /// Measure this program instead of building `namesrv`
    #[arg(long, value_name = "FILE")]
    namesrv: Option<PathBuf>,
    /// Measure only the parts named: small, queries, large
    #[arg(long, value_name = "PART", value_delimiter = ',', default_values = ["small", "queries", "large"])]
    only: Vec<String>,
}

fn main() -> anyhow::Result<()> {
    let flags = Flags::parse();
    let lab = Lab::prepare(&flags)?;
    println!("{}", machine());
    let mut rows = Vec::new();
    for part in &flags.only {
        rows.extend(match part.as_str() {
            "small" => small::measure(&lab)?,
            "queries" => queries::measure(&lab)?,
            "large" => large::measure(&lab)?,
            other => anyhow::bail!("{other} is none of small, queries, large"),
        });
    }
    lab.progress.clear();
    println!("{}", report::table(&rows));
    println!("{}", machine());
    Ok(())
}

/// What is measured, and how long.
#[derive(Debug)]
struct Lab {
    namesrv: PathBuf,
    floor: PathBuf,
    jars: Option<PathBuf>,
    is_quick: bool,
    progress: Progress,
}

impl Lab {
    fn prepare(flags: &Flags) -> anyhow::Result<Self> {
        let progress = Progress;
        let folder = env::current_exe()?.parent().context("a program is in a folder")?.to_owned();
        let target = folder.parent().context("the target folder")?;
        if cfg!(debug_assertions) {
            eprintln!("This is a debug build: run with --release for numbers that mean anything.");
        }
        progress.say("building namesrv and floor");
        build(flags.namesrv.is_none())?;
        let jars = if flags.official {
            progress.say("fetching the official name server");
            Some(official::jars(target)?)
        } else {
            None
        };
        Ok(Self {
            namesrv: flags.namesrv.clone().unwrap_or_else(|| folder.join("namesrv")).canonicalize()?,
            floor: folder.join("nsbench"),
            jars,
            is_quick: flags.quick,
            progress,
        })
    }

    /// Our server.
    fn ours(&self) -> anyhow::Result<Server> {
        Server::start(|home, port| process::namesrv(&self.namesrv, home, port))
    }

    /// The official server, when it is to be measured.
    fn official(&self) -> anyhow::Result<Option<Server>> {
        let Some(jars) = &self.jars else { return Ok(None) };
        Server::start(|home, port| official::namesrv(jars, home, port)).map(Some)
    }

    /// The server that answers every request with so many bytes.
    fn floor(&self, workers: usize, body_bytes: usize) -> anyhow::Result<Server> {
        Server::start(|_, port| {
            let mut command = Command::new(&self.floor);
            command.arg("floor");
            for (flag, value) in [("--port", usize::from(port)), ("--workers", workers), ("--body-bytes", body_bytes)] {
                command.arg(flag).arg(value.to_string());
            }
            Ok(command)
        })
    }

    /// `count` of something, or a few in a quick run.
    fn rounds(&self, count: usize) -> usize {
        if self.is_quick { count.div_ceil(5).max(2) } else { count }
    }
}

/// Builds the programs that are measured, in the profile of this one: cargo builds no program for another one.
fn build(with_namesrv: bool) -> anyhow::Result<()> {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../Cargo.toml");
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(["build", "--quiet", "--manifest-path"]).arg(manifest).args(["-p", "benches", "--bin", "nsbench"]);
    if with_namesrv {
        command.args(["-p", "server", "--bin", "namesrv"]);
    }
    if !cfg!(debug_assertions) {
        command.arg("--release");
    }
    let status = command.status().context("cargo")?;
    ensure!(status.success(), "cargo build: {status}");
    Ok(())
}

/// Processors, and how busy they were in the last minute.
fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').next().unwrap_or("?");
    format!("{cores} cores, load {load}")
}
