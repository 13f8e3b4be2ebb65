//! Requests that make the server fail on purpose, for tests of what a failure costs. Only with the feature
//! `fault-injection`, never in a server that serves.

use registry_core::{Command, Reader};

use super::{Answer, Call, Handled, Lane, Service};

/// Panics on the thread that serves lookups.
const PANIC_ON_WORKER: i32 = 99_901;
/// Panics on a background thread.
const PANIC_IN_BACKGROUND: i32 = 99_902;
/// Panics in the writer.
const PANIC_IN_WRITER: i32 = 99_903;
/// The topic whose deletion makes the writer panic.
pub(crate) const POISON: &str = "fault-injection: the writer panics";

impl<R: Reader> Service<R> {
    pub(super) fn injected(&self, call: Call<'_>, is_deferred: bool) -> Option<Handled> {
        match call.request.code {
            PANIC_ON_WORKER => panic!("injected on a worker"),
            PANIC_IN_BACKGROUND if is_deferred => panic!("injected in the background"),
            PANIC_IN_BACKGROUND => Some(Handled::Deferred(Lane::Scan)),
            PANIC_IN_WRITER => {
                Some(Handled::Change(Command::DeleteTopic { topic: POISON.into(), cluster: None }, Answer::Success))
            }
            _ => None,
        }
    }
}
