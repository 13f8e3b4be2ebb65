//! What a server withstands among careless and hostile peers, row by row: each test runs the real binary, measures, and
//! prints the row, what it measured and the limit (`ci/strangers.sh` makes a table of these lines).
//!
//! The strategy is that of the build, or the one that the variable `STRANGERS_BACKEND` names in a build of all of them.
//! What is ignored takes long, or measures times: it wants an optimised build, and the machine for itself.

#[path = "../support/mod.rs"]
mod support;

mod beside;
mod peers;
mod report;

mod config;
mod descriptors;
mod doors;
mod files;
mod frames;
mod giants;
mod half_open;
mod hashing;
mod lists;
mod log;
mod memory;
mod memory_budget;
mod names;
mod notices;
mod pauses;
mod registrations;
mod restarts;
mod soak;
mod stopping;
mod tables;
