//! What several integration tests share: frames, compare rules, and the two servers.
// Every test file compiles this module for itself and uses a part of it.
#![allow(dead_code)]

pub(crate) mod broker;
pub(crate) mod canonical;
pub(crate) mod frame;
pub(crate) mod latency;
pub(crate) mod local;
pub(crate) mod official;
pub(crate) mod ours;
pub(crate) mod probe;
pub(crate) mod process;
pub(crate) mod unwritable;
