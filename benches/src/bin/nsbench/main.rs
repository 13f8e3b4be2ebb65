//! `nsbench`: a load tool for name servers.
#![forbid(unsafe_code)]

mod flags;
mod output;
mod progress;
mod report;

use std::{
    net::{Ipv4Addr, TcpListener},
    process::ExitCode,
    sync::{Arc, atomic::AtomicBool},
};

use benches::floor;
use clap::Parser as _;

use crate::{
    flags::{Cli, Command, FloorFlags, LoadFlags},
    progress::Progress,
};

fn main() -> ExitCode {
    let cli = Cli::parse();
    let result = match &cli.command {
        None => load(&cli.load),
        Some(Command::Floor(flags)) => serve_floor(flags),
        Some(Command::Report(flags)) => report::run(flags),
    };
    result.unwrap_or_else(|error| {
        eprintln!("nsbench: {error:#}");
        ExitCode::FAILURE
    })
}

fn load(flags: &LoadFlags) -> anyhow::Result<ExitCode> {
    let session = flags.session()?;
    let mut progress = Progress::new(flags, &session);
    let summary = session.run(&*stop_signal()?, |moment| progress.tell(moment))?;
    progress.end();
    output::print(flags.output, &session, &summary)?;
    if let Some(failure) = &summary.failure {
        eprintln!("nsbench: {failure}");
    }
    for errors in [Some(&summary.errors), summary.storm.as_ref().map(|storm| &storm.errors)].into_iter().flatten() {
        for (fault, count, words) in errors.iter() {
            eprintln!("nsbench: {count} x {fault}, first: {words}");
        }
    }
    if summary.failure.is_none() && summary.report.answers == 0 {
        eprintln!("nsbench: not one right answer");
    }
    Ok(if summary.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Becomes true with the first Ctrl-C: what is measured by then is printed. The second one ends the program.
fn stop_signal() -> anyhow::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&stop);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    std::thread::spawn(move || {
        runtime.block_on(async {
            while tokio::signal::ctrl_c().await.is_ok() {
                if flag.swap(true, std::sync::atomic::Ordering::Relaxed) {
                    std::process::exit(130);
                }
            }
        });
    });
    Ok(stop)
}

fn serve_floor(flags: &FloorFlags) -> anyhow::Result<ExitCode> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, flags.port))?;
    println!("serving on {}", listener.local_addr()?);
    floor::run(&listener, flags.workers, flags.body_bytes)?;
    Ok(ExitCode::SUCCESS)
}
