//! Checks that a running name server is linearizable: `lincheck --addr HOST:PORT [--histories N] [--seed N]`.
//!
//! Several connections register, unregister and query at once, with names that nobody else uses; each history must have
//! an order that explains the answers. Ends with 1 when one has none, and with 2 when the server cannot be asked.

mod checker;

use std::{
    net::{SocketAddr, ToSocketAddrs},
    process::ExitCode,
};

use clap::Parser;

use checker::Report;

/// What is asked for on the command line.
#[derive(Parser)]
struct Arguments {
    /// Host and port of the name server.
    #[arg(long, value_parser = resolve)]
    addr: SocketAddr,
    /// How many histories are recorded.
    #[arg(long, default_value_t = 200)]
    histories: u32,
    /// Of the random calls. The same seed makes the same calls, not the same turns.
    #[arg(long, default_value_t = 0)]
    seed: u64,
}

fn resolve(text: &str) -> Result<SocketAddr, String> {
    let mut addrs = text.to_socket_addrs().map_err(|error| error.to_string())?;
    addrs.next().ok_or_else(|| format!("{text} has no address"))
}

fn main() -> ExitCode {
    let Arguments { addr, histories, seed } = Arguments::parse();
    match checker::run(addr, histories, seed) {
        Ok(Report { histories, calls, violations }) => {
            violations.iter().for_each(|violation| println!("{violation}"));
            println!("{histories} histories of {calls} calls checked, {} violations", violations.len());
            if violations.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            eprintln!("{addr}: {error}");
            ExitCode::from(2)
        }
    }
}
