//! The lock strategies side by side, in one process and without sockets: what readers and the writer do to each other.
//!
//! `cargo run --release -p benches --bin strategies -- [--quick] [--json FILE]`. Beside the strategies stand the floor, a
//! map that never changes for its readers, and `dirty`, concurrent maps without a protocol. What each table means is in
//! `docs/performance.md`.
#![forbid(unsafe_code)]

mod machine;
mod memory;
mod report;
mod rounds;
mod world;

use std::{fs, path::PathBuf, time::Duration};

use anyhow::{bail, ensure};
use backends::baseline::{DirtyRegistry, FrozenRegistry};
use clap::Parser;
use registry_core::Registry as _;
use serde_json::Value;

use crate::{
    memory::{Memory, REWRITES},
    report::{Cell, Goal, Section, Spread, micros, percentile, progress},
    rounds::{Change, OpenLoop, Subject},
    world::World,
};

/// Compares the lock strategies on this machine
#[derive(Debug, Parser)]
struct Flags {
    /// Three short rounds: to see that everything runs, not to quote
    #[arg(long)]
    quick: bool,
    /// Rounds, in which the strategies take turns
    #[arg(long, default_value_t = 15)]
    rounds: usize,
    /// Measure only the parts named: open, readers, changes, publishing, memory
    #[arg(long, value_name = "PART", value_delimiter = ',')]
    only: Vec<String>,
    /// Also write the numbers to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Print the memory of one strategy: what this program calls itself with
    #[arg(long, hide = true, value_name = "STRATEGY")]
    memory_of: Option<String>,
    /// Topics for `--memory-of`
    #[arg(long, hide = true, default_value_t = 50_000)]
    topics: usize,
}

fn main() -> anyhow::Result<()> {
    let flags = Flags::parse();
    if let Some(name) = &flags.memory_of {
        let Memory { loaded, rewritten } = memory_of(name, flags.topics)?;
        println!("{loaded} {rewritten}");
        return Ok(());
    }
    if cfg!(debug_assertions) {
        eprintln!("This is a debug build: run with --release for numbers that mean anything.");
    }
    let plan = Plan::new(&flags);
    let before = machine::describe();
    println!("{before}, {} rounds; median (quartiles) of the rounds\n", plan.rounds);
    let sections = measure(&flags.only, &plan)?;
    let after = machine::describe();
    println!("{after}");
    if let Some(path) = &flags.json {
        let all = serde_json::json!({ "machine": [before, after], "rounds": plan.rounds, "sections": sections });
        fs::write(path, serde_json::to_string_pretty(&all)?)?;
    }
    Ok(())
}

/// What can be measured, by the names of the flag `--only`.
const PARTS: [&str; 5] = ["open", "readers", "changes", "publishing", "memory"];

fn measure(only: &[String], plan: &Plan) -> anyhow::Result<Vec<Value>> {
    for part in only {
        ensure!(PARTS.contains(&part.as_str()), "{part} is none of {PARTS:?}");
    }
    let has = |part: &str| only.is_empty() || only.iter().any(|named| named == part);
    let mut sections = Vec::new();
    let mut show = |section: Section| {
        println!("{section}");
        sections.push(section.json());
    };
    if has("open") {
        for topics in [10_000, 50_000] {
            show(open_loop(&mut subjects(topics)?, topics, plan)?);
        }
    }
    if has("readers") {
        show(scaling(&mut subjects(10_000)?, plan));
    }
    if has("changes") {
        show(change_under_readers(&mut subjects(10_000)?, plan));
    }
    if has("publishing") {
        for topics in [1_000, 100_000] {
            show(publishing(&mut subjects(topics)?, topics, plan));
        }
    }
    if has("memory") {
        show(memory(50_000)?);
    }
    Ok(sections)
}

/// How long everything is measured.
#[derive(Debug)]
struct Plan {
    rounds: usize,
    /// Length of a round of the open loop.
    open: Duration,
    /// Length of a round of the closed loop.
    closed: Duration,
    /// Changes a round.
    changes: usize,
}

impl Plan {
    fn new(flags: &Flags) -> Self {
        let ms = Duration::from_millis;
        match flags.quick {
            true => Self { rounds: 3, open: ms(50), closed: ms(20), changes: 20 },
            false => Self { rounds: flags.rounds.max(1), open: ms(100), closed: ms(60), changes: 100 },
        }
    }

    /// Lets the strategies take turns; nobody is always first. The results of each, in the order of the rounds.
    fn rounds<T>(
        &self,
        subjects: &mut [Box<dyn Subject>],
        mut round: impl FnMut(&mut dyn Subject) -> T,
    ) -> Vec<Vec<T>> {
        let count = subjects.len();
        let mut results: Vec<Vec<T>> = subjects.iter().map(|_| Vec::new()).collect();
        for turn in 0..self.rounds {
            for at in (0..count).map(|at| (at + turn) % count) {
                results[at].push(round(&mut *subjects[at]));
            }
        }
        results
    }
}

/// The floor, the baseline and the strategies, each with so many topics on two brokers.
fn subjects(topics: usize) -> anyhow::Result<Vec<Box<dyn Subject>>> {
    progress(format_args!("loading {topics} topics"));
    macro_rules! worlds {
        ($($module:ident: $registry:ty;)*) => {
            vec![
                Box::new(World::<FrozenRegistry>::new(topics)?),
                Box::new(World::<DirtyRegistry>::new(topics)?),
                $(Box::new(World::<$registry>::new(topics)?),)*
            ]
        };
    }
    Ok(backends::strategies!(worlds))
}

/// Latency of reads that are due at random times, while all topics of a broker change again and again.
fn open_loop(subjects: &mut [Box<dyn Subject>], topics: usize, plan: &Plan) -> anyhow::Result<Section> {
    progress(format_args!("open loop, {topics} topics"));
    let results = plan.rounds(subjects, |subject| subject.open_loop(plan.open));
    let title = format!(
        "Open loop: a read every 4-10 us, {topics} topics on 2 brokers, one of which registers all of them anew every 10 ms"
    );
    let columns = &["p50 us", "p99 us", "p99.9 us", "max us", "p99 / floor", "changes/s", "torn", "repeated"];
    let mut section = Section::new(title, columns);
    let at = |round: &OpenLoop, quantile| round.latency.value_at_quantile(quantile) as f64 / 1e3;
    let p99s = |rounds: &[OpenLoop]| -> Vec<f64> { rounds.iter().map(|round| at(round, 0.99)).collect() };
    let floor = p99s(&results[0]);
    for (subject, rounds) in subjects.iter().zip(&results) {
        let spread = |quantile| Spread::of(rounds.iter().map(|round| at(round, quantile)));
        let ratio = Spread::of(p99s(rounds).iter().zip(&floor).map(|(ours, floor)| ours / floor));
        let torn = rounds.iter().map(|round| round.torn).sum();
        let changes = rounds.iter().map(|round| round.rewrites as f64 / plan.open.as_secs_f64());
        let cells = vec![
            Cell::spread(spread(0.5), 2),
            Cell::spread(spread(0.99), 2),
            Cell::spread(spread(0.999), 2),
            Cell::spread(spread(1.0), 0),
            Cell::spread(ratio, 2),
            Cell::number(Spread::of(changes).median, 0),
            Cell::count(torn),
            Cell::count(rounds.iter().map(|round| u64::from(round.repeats)).sum()),
        ];
        let goal = match subject.name() {
            // The check must see what is wrong where something is.
            "dirty" => Some(Goal::at_least(1.0, " torn", torn as f64)),
            "left-right" | "epoch" | "cached" => Some(Goal::at_most(3.0, "x", ratio.median)),
            "dashmap" => Some(Goal::at_most(5.0, "x", ratio.median)),
            _ => None,
        };
        section.row(subject.name(), cells, goal);
        ensure!(torn == 0 || subject.name() == "dirty", "{}: {torn} torn answers\n{section}", subject.name());
    }
    Ok(section)
}

/// What a second thread of readers adds.
fn scaling(subjects: &mut [Box<dyn Subject>], plan: &Plan) -> Section {
    progress("two readers");
    let results = plan.rounds(subjects, |subject| {
        // Either processor alone, as they need not be equally fast.
        let one = (subject.closed_loop(&[0], plan.closed) + subject.closed_loop(&[1], plan.closed)) / 2.0;
        let two = subject.closed_loop(&[0, 1], plan.closed);
        (one / 1e6, two / 1e6)
    });
    let title = "Two readers, closed loop, nothing changes: millions of reads a second of processor time".to_owned();
    let mut section = Section::new(title, &["one thread", "two threads", "two / one"]);
    for (subject, rounds) in subjects.iter().zip(&results) {
        let ratio = Spread::of(rounds.iter().map(|(one, two)| two / one));
        let cells = vec![
            Cell::spread(Spread::of(rounds.iter().map(|round| round.0)), 2),
            Cell::spread(Spread::of(rounds.iter().map(|round| round.1)), 2),
            Cell::spread(ratio, 2),
        ];
        let is_wait_free = matches!(subject.name(), "left-right" | "epoch" | "cached");
        section.row(subject.name(), cells, is_wait_free.then(|| Goal::at_least(1.9, "x", ratio.median)));
    }
    section
}

/// Times of changes of one topic, with readers and without.
fn change_under_readers(subjects: &mut [Box<dyn Subject>], plan: &Plan) -> Section {
    progress("changes under readers");
    let results = plan.rounds(subjects, |subject| {
        [0, 2].map(|readers| subject.change_under_readers(readers, plan.changes)).map(p50_and_p99)
    });
    let title = "One topic added or deleted, 10000 topics: time of the writer, while two threads read without a pause"
        .to_owned();
    let columns = &["p50 us, no readers", "p99 us, no readers", "p50 us", "p99 us"];
    let mut section = Section::new(title, columns);
    for (subject, rounds) in subjects.iter().zip(&results) {
        let spread = |pick: fn(&[(f64, f64); 2]) -> f64| Cell::spread(Spread::of(rounds.iter().map(pick)), 1);
        let cells = vec![spread(|r| r[0].0), spread(|r| r[0].1), spread(|r| r[1].0), spread(|r| r[1].1)];
        section.row(subject.name(), cells, None);
    }
    section
}

/// Times of changes of the small tables.
fn publishing(subjects: &mut [Box<dyn Subject>], topics: usize, plan: &Plan) -> Section {
    progress(format_args!("publishing, {topics} topics"));
    let results = plan.rounds(subjects, |subject| {
        let mut median = |what, count| p50_and_p99(subject.publish(what, count)).0;
        [
            median(Change::WritePermission, plan.changes),
            median(Change::Address, plan.changes),
            median(Change::AddressWithTopics, plan.changes / 20),
            median(Change::AddressWithTopicsPublished, plan.changes / 20),
        ]
    });
    let title = format!("Changes of the small tables, {topics} topics on 2 brokers: time of the writer, us");
    let columns = &["wipe or its reverse", "address", "address, with all topics", "of that, published"];
    let mut section = Section::new(title, columns);
    for (subject, rounds) in subjects.iter().zip(&results) {
        let spreads = [0, 1, 2, 3].map(|at| Spread::of(rounds.iter().map(|round| round[at])));
        let worst = spreads[0].median.max(spreads[1].median);
        let is_compared = !matches!(subject.name(), "frozen" | "dirty");
        let goal = is_compared.then(|| Goal::at_most(20.0, " us for the first two", worst));
        section.row(subject.name(), spreads.map(|spread| Cell::spread(spread, 1)).into(), goal);
    }
    section
}

/// Memory of each strategy after the topics have come, and after all of them were changed many times.
fn memory(topics: usize) -> anyhow::Result<Section> {
    let title = format!(
        "Resident memory, MiB, {topics} topics on 2 brokers, before and after {REWRITES} registrations that change all of them"
    );
    let mut section = Section::new(title, &["loaded", "rewritten", "rewritten / loaded", "rewritten / rwlock loaded"]);
    let mut rwlock = None;
    macro_rules! names {
        ($($module:ident: $registry:ty;)*) => { [$(<$registry>::NAME,)*] };
    }
    for name in backends::strategies!(names) {
        progress(format_args!("memory, {name}"));
        let Memory { loaded, rewritten } = memory::measure(name, topics)?;
        let (loaded, rewritten) = (loaded as f64, rewritten as f64);
        let least = *rwlock.get_or_insert(loaded);
        let mib = |bytes: f64| Cell::number(bytes / f64::from(1 << 20), 1);
        let cells =
            vec![mib(loaded), mib(rewritten), Cell::number(rewritten / loaded, 2), Cell::number(rewritten / least, 2)];
        section.row(name, cells, Some(Goal::at_most(2.2, "x", rewritten / loaded)));
    }
    Ok(section)
}

fn memory_of(name: &str, topics: usize) -> anyhow::Result<Memory> {
    macro_rules! measure_named {
        ($($module:ident: $registry:ty;)*) => {
            $(if name == <$registry>::NAME {
                return memory::measure_here::<$registry>(topics);
            })*
        };
    }
    backends::strategies!(measure_named);
    bail!("{name} is no strategy")
}

fn p50_and_p99(mut times: Vec<Duration>) -> (f64, f64) {
    (micros(percentile(&mut times, 50)), micros(percentile(&mut times, 99)))
}
