//! Which name server is under test.

use std::ops::{Deref, DerefMut};
use std::thread;

use crate::support::official;
use crate::support::ours;
use crate::support::process::{NameServer, Settings};

/// A name server that shows what it printed when its test fails.
#[derive(Debug)]
pub(crate) struct Server {
    name: &'static str,
    server: NameServer,
}

/// Starts the name server under test, ours unless `PEERS_TARGET=official`.
pub(crate) fn name_server(test: &str, settings: &Settings) -> Option<Server> {
    if is_official() {
        return official_server(test, settings);
    }
    Some(Server { name: "our name server", server: ours::start(settings) })
}

/// Starts the official name server.
pub(crate) fn official_server(test: &str, settings: &Settings) -> Option<Server> {
    Some(Server { name: "official name server", server: official::start(test, settings)? })
}

pub(crate) fn is_official() -> bool {
    match std::env::var("PEERS_TARGET").as_deref() {
        Err(_) | Ok("ours") => false,
        Ok("official") => true,
        Ok(other) => panic!("PEERS_TARGET is {other:?}; it may be ours or official"),
    }
}

impl Deref for Server {
    type Target = NameServer;

    fn deref(&self) -> &NameServer {
        &self.server
    }
}

impl DerefMut for Server {
    fn deref_mut(&mut self) -> &mut NameServer {
        &mut self.server
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if thread::panicking() {
            println!("--- {} {} printed:\n{}", self.name, self.server.addr(), self.server.output());
        }
    }
}
