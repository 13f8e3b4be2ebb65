//! The name server: `namesrv [-c FILE]`.
#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr)]

use std::{
    future::Future,
    io,
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use server::{
    backend,
    config::{
        Environment, Loaded,
        cli::{Cli, EXIT_FAILED, EXIT_OK, Exit},
    },
    logging::{self, print},
};
use signal_hook::flag;
use tokio::signal::unix::{SignalKind, signal};
use tracing::{info, warn};

/// How long the start waits for whoever reads the standard output; it goes on all the same.
const START_PRINT_WAIT: Duration = Duration::from_millis(500);
/// How long a text that the process was run for waits for its reader.
const EXIT_PRINT_WAIT: Duration = Duration::from_secs(5);

/// The server has been asked to end, and has.
const DONE: Exit = Exit { code: EXIT_OK, stdout: String::new(), stderr: String::new() };

fn main() -> ExitCode {
    // Before anything is opened, and before a thread is started.
    server::descriptors::raise_limit();
    server::memory::limit();
    let ended =
        logging::start().map_err(|error| failed(format!("cannot start the log: {error}"))).and_then(|()| start());
    let exit = ended.err().unwrap_or(DONE);
    print(&exit.stdout, EXIT_PRINT_WAIT);
    logging::finish(&exit.stderr);
    ExitCode::from(exit.code)
}

fn start() -> Result<(), Exit> {
    let cli = Cli::parse_from_args(std::env::args_os(), version())?;
    let loaded = cli.load(&Environment::of_process())?;
    print(&loaded.greeting().unwrap_or_default(), START_PRINT_WAIT);
    let Loaded { settings, warnings, .. } = loaded;
    for warning in &warnings {
        warn!("{warning}");
    }
    let config = settings.config().clone();
    let server = backend::start(cli.backend(), settings).map_err(failed)?;
    let (serialize_type, address) = (config.serialize_type.name(), config.address_with(server.local_addr().port()));
    let boot = format!("The Name Server boot success. serializeType={serialize_type}, address {address}\n");
    print(&boot, START_PRINT_WAIT);
    info!(from = %config.admins(), "the configuration may be changed over the network (318), see adminAllowCidrs");
    info!(backend = cli.backend(), address = %server.local_addr(), version = env!("CARGO_PKG_VERSION"), "serving");
    server.run(stop_signal()).map_err(failed)
}

fn version() -> &'static str {
    const VERSION: &str = env!("CARGO_PKG_VERSION");
    // Said once, for the life of the process.
    Box::leak(format!("{VERSION} (backend {})", backend::NAMES.join(", ")).into_boxed_str())
}

fn failed(error: impl std::fmt::Display) -> Exit {
    Exit { code: EXIT_FAILED, stdout: String::new(), stderr: format!("{error}\n") }
}

/// Resolves with the first SIGTERM or SIGINT. The second one ends the process at once, with 128 and its number.
async fn stop_signal() {
    let wait = |kind: SignalKind| -> io::Result<_> {
        let is_second = Arc::new(AtomicBool::new(false));
        flag::register_conditional_shutdown(kind.as_raw_value(), 128 + kind.as_raw_value(), Arc::clone(&is_second))?;
        let mut signals = signal(kind)?;
        Ok((is_second, async move { signals.recv().await }))
    };
    match (wait(SignalKind::terminate()), wait(SignalKind::interrupt())) {
        (Ok((is_second_terminate, terminate)), Ok((is_second_interrupt, interrupt))) => {
            first(terminate, interrupt).await;
            for is_second in [is_second_terminate, is_second_interrupt] {
                is_second.store(true, Ordering::SeqCst);
            }
        }
        _ => {
            warn!("cannot watch for signals: they end the process at once");
            std::future::pending().await
        }
    }
}

async fn first(a: impl Future, b: impl Future) {
    tokio::select! {
        _ = a => {}
        _ = b => {}
    }
}
