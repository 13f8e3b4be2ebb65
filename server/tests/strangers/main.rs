//! What a server withstands among careless and hostile peers, row by row: each test runs the real binary, measures, and
//! prints the row, what it measured and the limit (`ci/strangers.sh` makes a table of these lines).
//!
//! The strategy is that of the build, or the one that the variable `STRANGERS_BACKEND` names in a build of all of them.

#[path = "../support/mod.rs"]
mod support;

mod memory;
mod report;
