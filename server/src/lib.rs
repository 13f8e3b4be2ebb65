//! A wire-compatible RocketMQ name server.
#![forbid(unsafe_code)]

pub mod body;
pub mod config;
pub mod json;
pub mod kv;
pub mod limits;
pub mod remoting;
pub mod storage;
