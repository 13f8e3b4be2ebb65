//! A wire-compatible RocketMQ name server.
//!
//! A request goes down this list and its answer comes back up:
//!
//! | module | does |
//! |---|---|
//! | `runtime` | threads, connections, timers, start and end |
//! | [`remoting`] | frames and headers: bytes in, requests out; answers in, bytes out |
//! | `service` | what each request means: a lookup, a change for the writer, a job for another thread |
//! | [`body`], [`json`] | bodies of requests |
//! | the crate `registry_core` | the rules of the registry and its queries |
//! | [`backend`] | which lock strategy the registry is shared by |
//!
//! Beside it: [`config`], [`kv`], the files of both ([`storage`]), [`limits`], [`memory`], [`counters`], and the log
//! ([`logging`]).
#![forbid(unsafe_code)]
// They panic when nobody can read them: `logging` is for what is to be said.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

pub mod backend;
pub mod body;
mod clock;
pub mod config;
pub mod counters;
pub mod doors;
pub mod json;
pub mod kv;
pub mod limits;
pub mod logging;
pub mod memory;
mod origins;
mod peers;
pub mod remoting;
mod runtime;
mod service;
pub mod storage;

pub use runtime::{Server, ServerError, descriptors};
