//! Counts of what went wrong, and of what the registry lost.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};

/// Counters of faults and removals, by kind and reason. None of them is on the path of a healthy request.
#[derive(Debug, Default)]
pub struct Counters(Mutex<BTreeMap<(Kind, &'static str), u64>>);

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Kind {
    /// A connection that was closed for what its peer sent: frames and headers that cannot be read.
    BadFrame,
    /// A connection that was closed for what its peer did not do in time.
    TimedOut,
    /// A connection that was closed as soon as it was accepted.
    Rejected,
    /// A request that was answered with an error for its body or its fields.
    BadRequest,
    /// A registration that changed nothing.
    Refused,
    /// A registration that was taken without some of its topics.
    LeftOut,
    /// A broker that was removed.
    BrokerRemoved,
    /// Something of ours that failed.
    Failure,
}

impl Kind {
    /// Name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::BadFrame => "bad_frame",
            Self::TimedOut => "timed_out",
            Self::Rejected => "rejected",
            Self::BadRequest => "bad_request",
            Self::Refused => "refused",
            Self::LeftOut => "left_out",
            Self::BrokerRemoved => "broker_removed",
            Self::Failure => "failure",
        }
    }
}

impl Counters {
    /// Counts one more.
    pub fn count(&self, kind: Kind, reason: &'static str) {
        self.add(kind, reason, 1);
    }

    /// Counts `number` more.
    pub fn add(&self, kind: Kind, reason: &'static str, number: u64) {
        *self.lock().entry((kind, reason)).or_default() += number;
    }

    /// How often it was counted.
    pub fn value(&self, kind: Kind, reason: &'static str) -> u64 {
        self.lock().get(&(kind, reason)).copied().unwrap_or(0)
    }

    /// All counters that are not zero, sorted, as `kind.reason=number`.
    pub fn report(&self) -> String {
        let counts = self.lock();
        let parts: Vec<String> =
            counts.iter().map(|((kind, reason), number)| format!("{}.{reason}={number}", kind.name())).collect();
        parts.join(" ")
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<(Kind, &'static str), u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
