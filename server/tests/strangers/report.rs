//! The lines from which `ci/strangers.sh` makes its table.

use std::fmt::Display;

/// Says what was measured in a row, and fails the test when it is over the limit.
pub(crate) fn at_most<T: PartialOrd + Display>(row: &str, what: &str, measured: T, limit: T) {
    line(row, what, &measured, &format!("<= {limit}"));
    assert!(measured <= limit, "row {row}: {what}: {measured} is more than {limit}");
}

/// Says that something holds in a row, or fails the test.
pub(crate) fn holds(row: &str, what: &str, is_so: bool) {
    line(row, what, &is_so, "true");
    assert!(is_so, "row {row}: {what}");
}

fn line(row: &str, what: &str, measured: &dyn Display, limit: &str) {
    println!("STRANGERS|{row}|{what}|{measured}|{limit}");
}
