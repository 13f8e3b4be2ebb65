//! Recording what threads do.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use super::Call;

/// Makes the logs of one history, which share a clock.
///
/// The clock is one atomic of `std`, on purpose also where a model of threads is run: what it orders is real time, and a
/// strategy must not need the clock to be told of it. On real processors its increments are full fences, so histories of
/// real threads do not show that a fence is missing where a call begins or ends; a model does.
#[derive(Clone, Debug, Default)]
pub struct Recorder {
    clock: Arc<AtomicU64>,
}

impl Recorder {
    /// Makes a recorder whose clock stands at 0.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes the log of one thread.
    pub fn log<O, R>(&self, thread: usize) -> Log<O, R> {
        Log { clock: Arc::clone(&self.clock), thread, calls: Vec::new() }
    }
}

/// The calls of one thread.
#[derive(Debug)]
pub struct Log<O, R> {
    clock: Arc<AtomicU64>,
    thread: usize,
    calls: Vec<Call<O, R>>,
}

impl<O, R> Log<O, R> {
    /// Makes a call and records it.
    pub fn call(&mut self, op: O, run: impl FnOnce(&O) -> R) {
        self.call_unsure(op, |op| Some(run(op)));
    }

    /// Makes a call that may never be answered, and records it.
    pub fn call_unsure(&mut self, op: O, run: impl FnOnce(&O) -> Option<R>) {
        let invoked = self.clock.fetch_add(1, Ordering::SeqCst);
        let ret = run(&op);
        let returned = if ret.is_some() { self.clock.fetch_add(1, Ordering::SeqCst) } else { u64::MAX };
        self.calls.push(Call { thread: self.thread, op, ret, invoked, returned });
    }
}

/// The calls of several logs, in the order in which they were made.
pub fn history<O, R>(logs: impl IntoIterator<Item = Log<O, R>>) -> Vec<Call<O, R>> {
    let mut calls: Vec<_> = logs.into_iter().flat_map(|log| log.calls).collect();
    calls.sort_unstable_by_key(|call| call.invoked);
    calls
}
