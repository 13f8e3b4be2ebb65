//! Is there an order of these concurrent calls that explains every answer?
//!
//! Threads record the calls that they make, each with the moments between which it took place ([`Recorder`], [`Log`]). A
//! history is linearizable when its calls can be put in one order that keeps the order in time of calls that do not
//! overlap, and in which a sequential specification ([`Spec`]) gives every answer that was given. [`check`] searches for
//! such an order, and says where the search ended when there is none.
//!
//! Nothing here knows what the calls are about.

mod checker;
mod recorder;
#[cfg(test)]
mod tests;

use std::{fmt::Debug, hash::Hash};

pub use checker::{NODES_MAX, Verdict, Violation, check};
pub use recorder::{Log, Recorder, history};

/// What the calls mean when they are made one after the other. The value is the state.
pub trait Spec: Clone + Eq + Hash {
    /// A call.
    type Op: Clone + Debug;
    /// Its answer, as far as it is compared.
    type Ret: Clone + PartialEq + Debug;

    /// Makes the call and says what has to be answered.
    fn apply(&mut self, op: &Self::Op) -> Self::Ret;
}

/// A recorded call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call<O, R> {
    /// Which thread made it. A thread makes one call at a time.
    pub thread: usize,
    /// The call.
    pub op: O,
    /// Its answer; `None` where none came: such a call may have taken effect at any time after it was made, or never.
    pub ret: Option<R>,
    /// Stamp of the moment before the call.
    pub invoked: u64,
    /// Stamp of the moment after the answer; `u64::MAX` where none came.
    pub returned: u64,
}
