//! Our name server: the binary that cargo built for this test.

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::process::{NameServer, Settings};

pub(crate) fn start(settings: &Settings) -> NameServer {
    NameServer::start(launch, settings)
}

/// The command that starts it, for those who add to it.
pub(crate) fn launch(home: &Path, config_file: &Path, settings: &Settings) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_namesrv"));
    command
        .arg("-c")
        .arg(config_file)
        .current_dir(home)
        .env("ROCKETMQ_HOME", home)
        .env("HOME", home)
        .env_remove("ROCKETMQ_SERIALIZE_TYPE")
        .env_remove("NAMESRV_ADDR");
    if settings.binary {
        command.env("ROCKETMQ_SERIALIZE_TYPE", "ROCKETMQ");
    }
    if let Some(backend) = std::env::var_os("STRANGERS_BACKEND") {
        command.arg("--backend").arg(backend);
    }
    command
}

/// Runs the binary without a configuration of the harness.
pub(crate) fn bare(home: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_namesrv"));
    command.args(arguments).current_dir(home).env("HOME", home);
    for variable in ["ROCKETMQ_HOME", "ROCKETMQ_SERIALIZE_TYPE", "NAMESRV_ADDR"] {
        command.env_remove(variable);
    }
    command
}

/// Runs a command that ends by itself, and panics when it does not.
pub(crate) fn run_to_end(mut command: Command) -> Output {
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("spawn namesrv");
    let deadline = Instant::now() + Duration::from_secs(20);
    while child.try_wait().expect("wait for it").is_none() {
        if Instant::now() > deadline {
            let _ = child.kill();
            let output = child.wait_with_output();
            panic!("it serves instead of ending: {output:?}");
        }
        thread::sleep(Duration::from_millis(5));
    }
    child.wait_with_output().expect("its output")
}
