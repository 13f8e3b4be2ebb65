//! A healthy client that must not notice anything.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::broker::route;
use super::frame::Client;

/// Asks for an unknown topic over and over, on its own thread and connection.
#[derive(Debug)]
pub(crate) struct Probe {
    done: Arc<AtomicBool>,
    thread: JoinHandle<u64>,
}

impl Probe {
    pub(crate) fn start(addr: SocketAddr) -> Self {
        let done = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&done);
        let thread = thread::spawn(move || {
            let mut client = Client::connect(addr);
            let mut answers = 0;
            while !ended.load(Ordering::Relaxed) || answers == 0 {
                assert_eq!(client.code(&route("probe")), 17);
                answers += 1;
                thread::sleep(Duration::from_millis(1));
            }
            answers
        });
        Self { done, thread }
    }

    /// Ends the probe. Panics when a request of it was not answered as it should be.
    pub(crate) fn finish(self) {
        self.done.store(true, Ordering::Relaxed);
        assert!(self.thread.join().expect("the healthy connection is served") > 0);
    }
}
