//! `nsbench`: a load tool for name servers.
#![forbid(unsafe_code)]

use std::{
    net::{Ipv4Addr, TcpListener},
    process::ExitCode,
};

use benches::floor;
use clap::{Args, Parser, Subcommand};

#[derive(Debug, Parser)]
#[command(version, about)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve the same answer to every request, as fast as this machine allows: what a name server is compared with
    Floor(FloorFlags),
}

#[derive(Debug, Args)]
struct FloorFlags {
    /// Port on the loopback; 0 for a free one, which is printed
    #[arg(long)]
    port: u16,
    /// Threads that serve connections
    #[arg(long, default_value_t = 1)]
    workers: usize,
    /// Length of the body
    #[arg(long, default_value_t = 1_735)]
    body_bytes: usize,
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Floor(flags) => serve_floor(&flags),
    };
    match result {
        Ok(code) => code,
        Err(error) => {
            eprintln!("nsbench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn serve_floor(flags: &FloorFlags) -> anyhow::Result<ExitCode> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, flags.port))?;
    println!("serving on {}", listener.local_addr()?);
    floor::run(&listener, flags.workers, flags.body_bytes)?;
    Ok(ExitCode::SUCCESS)
}
