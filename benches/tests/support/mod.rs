//! A name server as a thread of the test.

use std::{
    fs,
    net::SocketAddr,
    sync::mpsc,
    thread::{self, JoinHandle},
};

use server::{
    backend,
    config::{self, Environment},
};
use tempfile::TempDir;
use tokio::sync::oneshot;

/// A running name server, stopped on drop.
#[derive(Debug)]
pub(crate) struct NameServer {
    pub(crate) addr: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    _home: TempDir,
}

impl NameServer {
    pub(crate) fn start() -> Self {
        let home = TempDir::with_prefix("nsbench-").expect("a temporary home");
        let file = home.path().join("namesrv.properties");
        fs::write(&file, "listenPort=0\nbindAddress=127.0.0.1\n").expect("write the configuration");
        let environment = Environment { home: Some(home.path().to_owned()), cores: 2, ..Environment::default() };
        let loaded = config::load(Some(&file), &environment).expect("a good configuration");
        let (stop, stopped) = oneshot::channel();
        let (sender, started) = mpsc::channel();
        // A server stays on the thread that has started it.
        let thread = thread::spawn(move || {
            let server = backend::start(backend::DEFAULT, loaded.settings).expect("start the server");
            sender.send(server.local_addr()).expect("the test waits");
            server.run(async { stopped.await.unwrap_or_default() }).expect("run the server");
        });
        let addr = started.recv().expect("the server starts");
        Self { addr, stop: Some(stop), thread: Some(thread), _home: home }
    }
}

impl Drop for NameServer {
    fn drop(&mut self) {
        let _ = self.stop.take().map(|stop| stop.send(()));
        let ended = self.thread.take().map(JoinHandle::join);
        if !thread::panicking() {
            assert!(matches!(ended, Some(Ok(()))), "the server ends well");
        }
    }
}
