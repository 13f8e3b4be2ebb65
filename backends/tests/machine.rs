//! Random commands: every strategy against the tables, and the tables against the naive model.
#![cfg(not(loom))]

use backends::{CachedRegistry, RwLockRegistry};
use proptest::proptest;
use registry_core::testkit::{generate, machine};

proptest! {
    #![proptest_config(machine::config())]

    #[test]
    fn cached(steps in generate::steps()) {
        machine::run::<CachedRegistry>(&steps);
    }

    #[test]
    fn rwlock(steps in generate::steps()) {
        machine::run::<RwLockRegistry>(&steps);
    }
}
