//! The server over TCP, on every strategy that it was built with: what clients see at once is linearizable.

#[path = "../examples/lincheck/checker.rs"]
mod checker;
#[path = "support/mod.rs"]
mod support;

use std::{path::Path, process::Command};

use server::backend;
use support::process::{NameServer, Settings};

const HISTORIES: u32 = 40;

/// Our server on the strategy number `AT`.
fn launch<const AT: usize>(home: &Path, config_file: &Path, _: &Settings) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_namesrv"));
    command.arg("-c").arg(config_file).current_dir(home).env("ROCKETMQ_HOME", home).env("HOME", home);
    if backend::NAMES.len() > 1 {
        command.arg("--backend").arg(backend::NAMES[AT]);
    }
    command
}

#[test]
fn histories_of_clients_are_linearizable() {
    let launches = [launch::<0>, launch::<1>, launch::<2>, launch::<3>, launch::<4>];
    assert!(backend::NAMES.len() <= launches.len(), "a strategy is left out");
    for (launch, name) in launches.into_iter().zip(backend::NAMES) {
        let server = NameServer::start(launch, &Settings::default());
        let report = checker::run(server.addr(), HISTORIES, 1).expect("the server answers");
        assert_eq!(report.violations, [""; 0], "{name}");
        assert_eq!((report.histories, report.calls), (HISTORIES, 48 * HISTORIES as usize));
    }
}
