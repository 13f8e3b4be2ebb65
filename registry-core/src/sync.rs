//! The atomics of the live table: the real ones, or loom's when a model explores every interleaving.
//!
//! The only file of this crate with `cfg(loom)`.

#[cfg(not(loom))]
pub(crate) use foldhash::fast::RandomState;
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

// A model runs the same scenario again and again, and each time the same steps must follow from the same turns.
#[cfg(loom)]
pub(crate) use foldhash::fast::FixedState as RandomState;
#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU64, Ordering};
