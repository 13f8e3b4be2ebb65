//! Real peers against our name server: brokers of two lines, their administration tool, and clients in four languages.
//!
//! `PEERS_TARGET=official` runs the same tests against the official name server, which shows that the tests are right.
//! What is missing on the machine is printed as `SKIP test: why`; with `REQUIRE_PEERS=1` it is a failure.

#![cfg(unix)]

mod acting;
mod broker;
mod clients;
mod cluster;
mod install;
mod mqadmin;
mod outage;
mod process;
mod releases;
#[path = "../support/mod.rs"]
mod support;
mod tap;
mod target;
