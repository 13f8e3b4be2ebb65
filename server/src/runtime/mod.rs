//! Threads, sockets and timers: who runs what.
//!
//! | thread | runs | priority |
//! |---|---|---|
//! | `control` (the caller of [`Server::run`]) | accepting, signals, the scan for silent brokers, notices to brokers | normal |
//! | `worker-N` | the connections, and every lookup | normal |
//! | `writer` | changes of the registry, one at a time | normal |
//! | `decode` | inflating and parsing of registrations | low |
//! | `scan` | queries that look at everything | low |
//! | `storage` | KV and configuration files | normal |
//!
//! A request goes from its connection to at most two of these threads, one after the other, and the connection waits for
//! each before it takes its next request: requests of one connection are served in their order, no queue holds more
//! entries than there are connections, and whoever sends more than is served waits in its own socket.

mod background;
mod connection;
mod liveness;
mod notifier;
mod server;
mod worker;
mod writer;

pub use server::{Server, ServerError};
