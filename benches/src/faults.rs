//! What goes wrong under load, counted by kind: a load goes on when an answer is wrong.

use std::{
    fmt,
    io::{self, ErrorKind},
};

use serde::Serialize;

/// A kind of failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fault {
    /// A connection could not be made.
    Connect,
    /// A request of an open loop was not sent when it was due: too many wait for their answers.
    Unsent,
    /// A connection was lost.
    Closed,
    /// No answer in time.
    Timeout,
    /// What came is no frame or no answer.
    Garbage,
    /// An answer to a request that was not sent, or was answered before.
    Opaque,
    /// The code of an answer is another one than it must be.
    Code,
    /// The body of an answer is another one than it can be.
    Body,
    /// An answer older than one seen before, or than what was acknowledged when it was asked for.
    Stale,
}

impl Fault {
    /// Every kind.
    pub const ALL: [Self; 9] = [
        Self::Connect,
        Self::Unsent,
        Self::Closed,
        Self::Timeout,
        Self::Garbage,
        Self::Opaque,
        Self::Code,
        Self::Body,
        Self::Stale,
    ];

    /// A short name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::Unsent => "unsent",
            Self::Closed => "closed",
            Self::Timeout => "timeout",
            Self::Garbage => "garbage",
            Self::Opaque => "opaque",
            Self::Code => "code",
            Self::Body => "body",
            Self::Stale => "stale",
        }
    }
}

impl Fault {
    /// The kind of an error of a [`Client`](crate::client::Client).
    pub fn of(error: &anyhow::Error) -> Self {
        let io = error.chain().find_map(|cause| cause.downcast_ref::<io::Error>());
        match io.map(io::Error::kind) {
            Some(ErrorKind::WouldBlock | ErrorKind::TimedOut) => Self::Timeout,
            Some(ErrorKind::ConnectionRefused) => Self::Connect,
            Some(_) => Self::Closed,
            None => Self::Garbage,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How often each kind has occurred, and what was said about the first of each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    counts: [u64; Fault::ALL.len()],
    first: [Option<String>; Fault::ALL.len()],
}

impl Faults {
    /// Counts one. `words` is called for the first of a kind only.
    pub fn add(&mut self, fault: Fault, words: impl FnOnce() -> String) {
        self.add_many(fault, 1, words);
    }

    /// Counts some of the same kind.
    pub fn add_many(&mut self, fault: Fault, count: u64, words: impl FnOnce() -> String) {
        if count > 0 {
            self.counts[fault as usize] += count;
            self.first[fault as usize].get_or_insert_with(words);
        }
    }

    /// Counts those of another one, too.
    pub fn merge(&mut self, other: &Self) {
        for (fault, count, words) in other.iter() {
            self.add_many(fault, count, || words.to_owned());
        }
    }

    /// How many of a kind there were.
    pub fn count(&self, fault: Fault) -> u64 {
        self.counts[fault as usize]
    }

    /// How many there were.
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The kinds that have occurred, how often, and the words of the first.
    pub fn iter(&self) -> impl Iterator<Item = (Fault, u64, &str)> {
        let some = Fault::ALL.iter().filter(|&&fault| self.count(fault) > 0);
        some.map(|&fault| (fault, self.count(fault), self.first[fault as usize].as_deref().unwrap_or_default()))
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.total() == 0 {
            return f.write_str("none");
        }
        for (number, (fault, count, words)) in self.iter().enumerate() {
            write!(f, "{}{count} {fault} ({words})", if number > 0 { ", " } else { "" })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_each_kind_is_told() {
        let mut faults = Faults::default();
        assert_eq!(faults.to_string(), "none");
        faults.add(Fault::Code, || "code 17".into());
        faults.add(Fault::Code, || "code 1".into());
        let mut all = Faults::default();
        all.add(Fault::Timeout, || "2 s".into());
        all.merge(&faults);
        assert_eq!((all.total(), all.count(Fault::Code)), (3, 2));
        assert_eq!(all.to_string(), "1 timeout (2 s), 2 code (code 17)");
    }

    #[test]
    fn kinds_stand_at_their_numbers() {
        assert!(Fault::ALL.iter().enumerate().all(|(number, &fault)| number == fault as usize));
    }
}
