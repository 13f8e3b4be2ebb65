//! A wire-compatible RocketMQ name server.
#![forbid(unsafe_code)]

pub mod backend;
pub mod body;
mod clock;
pub mod config;
pub mod counters;
pub mod json;
pub mod kv;
pub mod limits;
pub mod remoting;
mod runtime;
mod service;
pub mod storage;

pub use runtime::{Server, ServerError};
