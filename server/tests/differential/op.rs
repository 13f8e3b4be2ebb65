//! One step of a random sequence: a request, or the loss of a connection, as small numbers.
//!
//! Numbers, so that a failing sequence can be printed, kept in a file and run again.

use std::fmt;
use std::str::FromStr;

use proptest::prelude::*;

/// Not a request: a broker's connection is closed.
pub(crate) const CLOSE: i64 = 0;

macro_rules! op {
    ($($(#[$doc:meta])* $field:ident: $range:expr,)*) => {
        /// What each number means for a code is said in `request`.
        #[derive(Clone, Debug, Default, PartialEq)]
        pub(crate) struct Op {
            /// The request code, or `CLOSE`.
            pub(crate) code: i64,
            $($(#[$doc])* pub(crate) $field: i64,)*
        }

        impl Op {
            fn from_numbers(code: i64, numbers: &[i64]) -> Self {
                let mut numbers = numbers.iter();
                let used = used_fields(code);
                let mut op = Self { code, $($field: *numbers.next().expect("a number for each field"),)* };
                $(if !used.contains(&stringify!($field)) {
                    op.$field = 0;
                })*
                op
            }
        }

        /// Any step.
        pub(crate) fn any_op() -> impl Strategy<Value = Op> {
            let numbers: Vec<std::ops::Range<i64>> = vec![$($range),*];
            (any_code(), numbers).prop_map(|(code, numbers)| Op::from_numbers(code, &numbers))
        }

        impl fmt::Display for Op {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "code={}", self.code)?;
                $(if self.$field != 0 {
                    write!(f, " {}={}", stringify!($field), self.$field)?;
                })*
                Ok(())
            }
        }

        impl FromStr for Op {
            type Err = String;

            fn from_str(line: &str) -> Result<Self, String> {
                let mut op = Self::default();
                for pair in line.split_whitespace() {
                    let (key, value) = pair.split_once('=').ok_or(format!("{pair}: not name=number"))?;
                    let value = value.parse().map_err(|error| format!("{pair}: {error}"))?;
                    match key {
                        "code" => op.code = value,
                        $(stringify!($field) => op.$field = value,)*
                        _ => return Err(format!("{pair}: no such field")),
                    }
                }
                Ok(op)
            }
        }
    };
}

op! {
    /// Which of the two connections of a broker address.
    link: 0..2,
    binary: 0..2,
    /// Index into `VERSIONS`.
    version: 0..5,
    broker: 0..3,
    /// The last one registers nowhere; other requests name it.
    addr: 0..5,
    /// 7: under the other cluster.
    other_cluster: 0..8,
    /// Minus one is negative on the wire.
    id: -1..3,
    topic: 0..5,
    /// A bit for each topic of a registration.
    topics: 0..32,
    /// A bit for each topic that also has a static mapping.
    mappings: 0..32,
    counter: 0..3,
    state: 0..3,
    /// 0: no field.
    acting: 0..3,
    /// 0: no zone.
    zone: 0..3,
    perm: 0..4,
    queues: 0..3,
    filters: 0..4,
    /// 1: compressed, when the version allows it.
    compressed: 0..4,
    /// 7: a wrong checksum, 6: none.
    checksum: 0..8,
    /// 15: no body.
    body: 0..16,
    /// A bit for each broker that 217 names; 8 is an unknown one.
    brokers: 0..16,
    /// Standard JSON is asked for, or a cluster is named.
    option: 0..2,
    key: 0..3,
    namespace: 0..2,
    value: 0..4,
}

/// The fields that mean something for a code; the others stay 0.
fn used_fields(code: i64) -> Vec<&'static str> {
    let fields = match code {
        CLOSE => return vec!["link", "broker", "addr", "other_cluster"],
        103 => {
            "link broker addr other_cluster id topics mappings counter state acting zone perm queues filters \
             compressed checksum body"
        }
        104 => "link broker addr other_cluster id",
        105 => "topic zone option",
        205 | 327 => "broker",
        216 => "topic option broker other_cluster",
        217 => "topic brokers perm queues",
        224 | 901 => "broker other_cluster",
        322 => "broker addr other_cluster counter state",
        904 => "broker addr other_cluster",
        100 => "namespace key value",
        101 | 102 => "namespace key",
        219 => "namespace",
        _ => "",
    };
    fields.split_whitespace().chain(["binary", "version"]).collect()
}

/// Registrations, losses and removals make the states; all else looks at them or changes a little.
fn any_code() -> impl Strategy<Value = i64> {
    prop_oneof![
        12 => Just(103),
        3 => Just(104),
        2 => Just(CLOSE),
        4 => Just(105),
        2 => Just(205),
        2 => Just(327),
        2 => Just(216),
        3 => Just(217),
        2 => Just(322),
        1 => prop_oneof![Just(904), Just(901), Just(106), Just(206), Just(224), Just(304)],
        1 => prop_oneof![Just(311), Just(312), Just(313)],
        2 => prop_oneof![Just(100), Just(101), Just(102), Just(219)],
    ]
}

/// Writes a sequence as lines that `parse` reads.
pub(crate) fn lines(ops: &[Op]) -> String {
    ops.iter().map(|op| format!("{op}\n")).collect()
}

/// Reads sequences: one step a line, a blank line between two sequences, `#` for comments.
pub(crate) fn parse(text: &str) -> Result<Vec<Vec<Op>>, String> {
    let mut sequences = vec![Vec::new()];
    for line in text.lines().map(str::trim).filter(|line| !line.starts_with('#')) {
        if line.is_empty() {
            sequences.push(Vec::new());
        } else {
            sequences.last_mut().expect("never empty").push(line.parse()?);
        }
    }
    sequences.retain(|sequence| !sequence.is_empty());
    Ok(sequences)
}
