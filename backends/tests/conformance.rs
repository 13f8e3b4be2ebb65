//! The rules of the protocol, on every strategy.
#![cfg(not(loom))]

use backends::{CachedRegistry, RwLockRegistry};
use registry_core::conformance_suite;

conformance_suite!(cached, CachedRegistry);
conformance_suite!(rwlock, RwLockRegistry);
