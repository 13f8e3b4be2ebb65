//! `nsbench report`: measures everything and writes a page that shows it.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::ExitCode,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail};
use benches::{
    matrix::memory,
    page,
    parts::{self, Lab, NOT_ASKED_FOR, PARTS, Part, Progress, Wishes, load_average, machine},
    process,
    results::{BACKENDS, Results},
};
use clap::Args;
use rustix::process::Signal;
use tokio::signal::unix::{SignalKind, signal};

/// What to measure, and where to show it.
#[derive(Debug, Args)]
pub(crate) struct Flags {
    /// Fewer and shorter rounds, under three minutes: to see that everything runs, not to quote
    #[arg(long)]
    quick: bool,
    /// Measure only the parts named; without it all of them
    #[arg(long, value_name = "PARTS", value_delimiter = ',')]
    only: Vec<String>,
    /// Folder for report.html and results.json [default: target/report, or that of --from]
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// Leave other name servers out
    #[arg(long, conflicts_with = "install_peers")]
    no_peers: bool,
    /// Build rocketmq-rust when it is not there, which takes minutes
    #[arg(long)]
    install_peers: bool,
    /// Measure only these strategies
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_values = BACKENDS)]
    backends: Vec<String>,
    /// Measure this program instead of building `namesrv`; it has to know --backend
    #[arg(long, value_name = "FILE")]
    namesrv: Option<PathBuf>,
    /// Measure nothing, show what an earlier run has measured
    #[arg(long, value_name = "FILE", conflicts_with_all = ["quick", "only", "backends", "namesrv", "no_peers", "install_peers"])]
    from: Option<PathBuf>,
    /// Print the memory of a strategy with so many topics: what this program calls itself with
    #[arg(long, hide = true, num_args = 2, value_names = ["STRATEGY", "TOPICS"])]
    memory_of: Vec<String>,
}

/// As a shell says of a program that was interrupted.
const EXIT_INTERRUPTED: u8 = 130;
/// After a signal, what is measured is saved within that time, or not at all.
const INTERRUPT_TIMEOUT: Duration = Duration::from_secs(10);

pub(crate) fn run(flags: &Flags) -> anyhow::Result<ExitCode> {
    if let [strategy, topics] = &flags.memory_of[..] {
        memory::child(strategy, topics.parse()?)?;
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(file) = &flags.from {
        let folder = flags.out.as_deref().or(file.parent()).unwrap_or(Path::new("."));
        let results = Results::load(file)?;
        fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        render(&results, folder)?;
        conclude(&results, folder);
        return Ok(ExitCode::SUCCESS);
    }
    let parts = chosen(&flags.only)?;
    end_children_with_us()?;
    if cfg!(debug_assertions) {
        eprintln!("This is a debug build: run with --release for numbers that mean anything.");
    }
    let nsbench = env::current_exe()?;
    let target = nsbench.parent().and_then(Path::parent).context("a program is in a folder of the target folder")?;
    let folder = flags.out.clone().unwrap_or_else(|| target.join("report"));
    fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    let wishes = Wishes {
        is_quick: flags.quick,
        with_peers: !flags.no_peers,
        install_peers: flags.install_peers,
        backends: flags.backends.clone(),
        namesrv: flags.namesrv.clone(),
        target: target.to_owned(),
        nsbench,
    };
    let mut results = Results { machine: machine(), is_quick: flags.quick, ..Results::default() };
    let measured = measure(&parts, &wishes, &folder, &mut results);
    if process::are_ended() {
        save(&mut results, &folder)?;
        eprintln!("interrupted; what was measured is in {}", folder.display());
        return Ok(ExitCode::from(EXIT_INTERRUPTED));
    }
    measured?;
    conclude(&results, &folder);
    Ok(if results.missing.iter().any(parts::is_failure) { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn chosen(names: &[String]) -> anyhow::Result<Vec<Part>> {
    let known = || PARTS.iter().map(|part| part.name).collect::<Vec<_>>().join(", ");
    if let Some(unknown) = names.iter().find(|name| PARTS.iter().all(|part| part.name != **name)) {
        bail!("{unknown} is none of the parts {}", known());
    }
    let is_chosen = |part: &&Part| names.is_empty() || names.iter().any(|name| name == part.name);
    Ok(PARTS.iter().filter(is_chosen).copied().collect())
}

fn measure(parts: &[Part], wishes: &Wishes, folder: &Path, results: &mut Results) -> anyhow::Result<()> {
    let budget = |part: &Part| if wishes.is_quick { part.quick.seconds } else { part.full.seconds };
    let progress = Progress::new(parts.iter().map(budget).sum());
    let lab = Lab::prepare(wishes, progress.clone(), results)?;
    for part in PARTS.iter().filter(|part| parts.iter().all(|chosen| chosen.name != part.name)) {
        results.miss(part.name, format!("{NOT_ASKED_FOR} (--only)"));
    }
    save(results, folder)?;
    for (number, part) in parts.iter().enumerate() {
        progress.say(format_args!("{}/{} {}: {}", number + 1, parts.len(), part.name, part.what));
        let begin = Instant::now();
        let measured = parts::run(&lab, part, results);
        results.is_complete = measured.is_ok() && number + 1 == parts.len();
        save(results, folder)?;
        measured.inspect_err(|_| progress.finish())?;
        progress.say(format_args!("    {:.0} s", begin.elapsed().as_secs_f64()));
        progress.advance(budget(part));
    }
    progress.finish();
    Ok(())
}

/// Writes both files anew: a run that is ended has what it has measured.
fn save(results: &mut Results, folder: &Path) -> anyhow::Result<()> {
    results.machine.load.1 = load_average();
    results.save(&folder.join("results.json"))?;
    render(results, folder)
}

fn render(results: &Results, folder: &Path) -> anyhow::Result<()> {
    let file = folder.join("report.html");
    fs::write(&file, page::html(results)).with_context(|| file.display().to_string())
}

fn conclude(results: &Results, folder: &Path) {
    println!("{}", page::text(results));
    println!("{}", folder.join("report.html").display());
}

/// A signal that asks this program to end ends its children first, by which the run ends and saves what it has. A second
/// one, or a run that does not end, ends it at once.
fn end_children_with_us() -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let guard = runtime.enter();
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    // Not where `nohup` wants the run to go on.
    let mut hangup = if process::is_ignored(Signal::HUP) { None } else { Some(signal(SignalKind::hangup())?) };
    drop(guard);
    let wait = async move || {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = async { hangup.as_mut()?.recv().await }, if hangup.is_some() => {}
        }
    };
    let watch = move || {
        let mut wait = wait;
        runtime.block_on(async {
            wait().await;
            process::end_all();
            let _ = tokio::time::timeout(INTERRUPT_TIMEOUT, wait()).await;
            std::process::exit(EXIT_INTERRUPTED.into())
        })
    };
    thread::Builder::new().name("signals".into()).spawn(watch)?;
    Ok(())
}
