//! Which name server is under test.

use crate::install::required;
use crate::support::official;
use crate::support::ours;
use crate::support::process::{NameServer, Settings};

/// Starts the name server under test, ours unless `PEERS_TARGET=official`.
pub(crate) fn name_server(test: &str, settings: &Settings) -> Option<NameServer> {
    if is_official() { official_server(test, settings) } else { Some(ours::start(settings)) }
}

/// Starts the official name server.
pub(crate) fn official_server(test: &str, settings: &Settings) -> Option<NameServer> {
    required(test, official::jars().map(drop))?;
    official::start(test, settings)
}

pub(crate) fn is_official() -> bool {
    match std::env::var("PEERS_TARGET").as_deref() {
        Err(_) | Ok("ours") => false,
        Ok("official") => true,
        Ok(other) => panic!("PEERS_TARGET is {other:?}; it may be ours or official"),
    }
}
