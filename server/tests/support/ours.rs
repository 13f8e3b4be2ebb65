//! Our name server: the binary that cargo built for this test.

use std::path::Path;
use std::process::Command;

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
    command
}
