//! What a server does with bad input and bad luck: the sender pays, everybody else is served.
//!
//! Rules that need a signal, a kill or another clock run against a process of their own, the others against a server in
//! a thread, whose counters can be read.

#[path = "../support/mod.rs"]
mod support;

mod bodies;
mod command_line;
mod durability;
mod frames;
mod liveness;
mod security;
mod shutdown;
