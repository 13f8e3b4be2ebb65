//! The name server: `namesrv [-c FILE]`.
#![forbid(unsafe_code)]

use std::{
    future::Future,
    io::{self, IsTerminal, Write},
    process::ExitCode,
};

use server::{
    backend,
    config::{
        Environment, Loaded,
        cli::{Cli, EXIT_FAILED, Exit},
    },
};
use tokio::signal::unix::{SignalKind, signal};
use tracing::{info, warn};
use tracing_subscriber::EnvFilter;

fn main() -> ExitCode {
    server::memory::limit();
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(io::stderr().is_terminal())
        .with_writer(io::stderr)
        .init();
    match start() {
        Ok(()) => ExitCode::SUCCESS,
        Err(exit) => {
            print(&exit.stdout);
            // Whoever has closed our standard error does not want to know.
            let _ = io::stderr().write_all(exit.stderr.as_bytes());
            ExitCode::from(exit.code)
        }
    }
}

fn start() -> Result<(), Exit> {
    let cli = Cli::parse_from_args(std::env::args_os(), version())?;
    let loaded = cli.load(&Environment::of_process())?;
    print(&loaded.greeting().unwrap_or_default());
    let Loaded { settings, warnings, .. } = loaded;
    for warning in &warnings {
        warn!("{warning}");
    }
    let serialize_type = settings.config().serialize_type.name();
    let bind_address = settings.config().bind_address.clone();
    let server = backend::start(cli.backend(), settings).map_err(failed)?;
    let port = server.local_addr().port();
    print(&format!("The Name Server boot success. serializeType={serialize_type}, address {bind_address}:{port}\n"));
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

fn print(text: &str) {
    let mut stdout = io::stdout();
    // As for the standard error.
    let _ = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
}

/// Resolves with the first SIGTERM or SIGINT.
async fn stop_signal() {
    let wait = |kind| -> io::Result<_> {
        let mut signals = signal(kind)?;
        Ok(async move { signals.recv().await })
    };
    match (wait(SignalKind::terminate()), wait(SignalKind::interrupt())) {
        (Ok(terminate), Ok(interrupt)) => first(terminate, interrupt).await,
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
