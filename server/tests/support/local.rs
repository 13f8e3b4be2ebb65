//! Our name server as a thread of the test: its counters can be read.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};

use server::config::{self, Environment};
use server::{backend, counters::Counters};
use tempfile::TempDir;
use tokio::sync::oneshot;

use super::process::{Settings, config_file, write_config};

/// A running name server, stopped on drop.
#[derive(Debug)]
pub(crate) struct Local {
    addr: SocketAddr,
    counters: Arc<Counters>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    home: TempDir,
}

impl Local {
    pub(crate) fn start(config: &[(&str, &str)]) -> Self {
        let home = TempDir::with_prefix("namesrv-").expect("temporary home");
        write_config(home.path(), 0, &Settings::with(config));
        let environment = Environment { home: Some(home.path().to_owned()), cores: 2, ..Environment::default() };
        let loaded = config::load(Some(&config_file(home.path())), &environment).expect("a good configuration");
        let (stop, stopped) = oneshot::channel();
        let (sender, started) = mpsc::channel();
        // A server stays on the thread that has started it.
        let thread = thread::spawn(move || {
            let server = backend::start(backend::DEFAULT, loaded.settings).expect("start the server");
            sender.send((server.local_addr(), server.counters())).expect("the test waits");
            let stopped = async { stopped.await.unwrap_or_default() };
            server.run(stopped).expect("run the server");
        });
        let (addr, counters) = started.recv().expect("the server starts");
        Self { addr, counters, stop: Some(stop), thread: Some(thread), home }
    }

    pub(crate) fn addr(&self) -> SocketAddr {
        self.addr
    }

    pub(crate) fn home(&self) -> &std::path::Path {
        self.home.path()
    }

    /// All counters that are not zero, as `kind.reason`.
    pub(crate) fn counts(&self) -> BTreeMap<String, u64> {
        let report = self.counters.report();
        let pair = |part: &str| {
            let (name, number) = part.split_once('=').expect("name=number");
            (name.to_string(), number.parse().expect("a number"))
        };
        report.split_whitespace().map(pair).collect()
    }

    /// The counters that grew since, and by how much.
    pub(crate) fn grown(&self, before: &BTreeMap<String, u64>) -> BTreeMap<String, u64> {
        let mut now = self.counts();
        for (name, number) in &mut now {
            *number -= before.get(name).copied().unwrap_or(0);
        }
        now.retain(|_, number| *number > 0);
        now
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        let _ = self.stop.take().map(|stop| stop.send(()));
        let ended = self.thread.take().map(JoinHandle::join);
        if !thread::panicking() {
            assert!(matches!(ended, Some(Ok(()))), "the server ends well");
        }
    }
}
