//! Threads, sockets and timers: who runs what.
//!
//! | thread | runs | priority |
//! |---|---|---|
//! | `control` (the caller of [`Server::run`]) | accepting, signals, the scan for silent brokers, notices to brokers | normal |
//! | `worker-N` | the connections, and every lookup | normal |
//! | `writer` | changes of the registry, one at a time | normal |
//! | `register`, `decode` | reading registrations: small ones, large ones | low |
//! | `cluster`, `scan` | queries that look at all brokers, at all topics | low |
//! | `storage` | KV and configuration files | normal |
//!
//! ```text
//!   accept ─> place? ─> doors ─> connection ──┬──────────────> answer        server ─ worker ─ entry ─ connection
//!             (peers)   (entry)  (frames)     ├─> lane ───┬──> answer        lanes
//!                                   memory?   │           v
//!                                   (peers)   └────────> writer ─> answer    writer
//! ```
//!
//! A request goes from its connection to at most two of the other threads, one after the other. A connection has a bounded
//! number of requests under way, whose bytes are charged to the [budget](crate::peers); whoever sends more waits in its own
//! socket. Threads without which the server must not go on are [started](thread) as such: one that dies ends the process.

mod connection;
pub mod descriptors;
mod entry;
mod lanes;
mod liveness;
mod notifier;
mod server;
mod thread;
mod wire;
mod worker;
mod writer;

pub use server::{Server, ServerError};
