//! Writers and readers on every strategy, as a plain program for sanitizers: a test harness has races of its own.
//!
//! `stress [versions]` fails when an answer broke a promise; run by `ci/sanitizers.sh`.

use std::process::ExitCode;

use registry_core::{Registry, testkit::threads};

const VERSIONS_DEFAULT: u64 = 2_000;
const READERS: usize = 3;

fn main() -> ExitCode {
    let versions = std::env::args().nth(1).map_or(Ok(VERSIONS_DEFAULT), |versions| versions.parse());
    let Ok(versions) = versions else {
        eprintln!("usage: stress [versions]");
        return ExitCode::FAILURE;
    };
    let mut is_clean = true;
    macro_rules! stress_all {
        ($($module:ident: $registry:path;)*) => { $(is_clean &= stress::<$registry>(versions);)* };
    }
    backends::strategies!(stress_all);
    if is_clean { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn stress<R: Registry>(versions: u64) -> bool {
    let findings = threads::storm::<R>(versions, READERS, u64::MAX);
    let beats = threads::heartbeat_storm::<R>(versions / 8, READERS);
    println!("{}: {findings:?}, {beats:?}", R::NAME);
    findings == findings.clean() && beats.betrayed == 0
}
