//! The rules of the protocol, on every strategy.
#![cfg(not(loom))]

use registry_core::conformance_suite;

macro_rules! suites {
    ($($module:ident: $registry:path;)*) => { $(conformance_suite!($module, $registry);)* };
}
backends::strategies!(suites);
