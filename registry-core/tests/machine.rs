//! Random commands: the tables alone against the naive model.

use proptest::proptest;
use registry_core::testkit::{Sequential, generate, machine};

proptest! {
    #![proptest_config(machine::config())]

    #[test]
    fn sequential(steps in generate::steps()) {
        machine::run::<Sequential>(&steps);
    }

    #[test]
    fn sequential_with_small_tables(steps in generate::steps()) {
        machine::run_limited::<Sequential>(&steps);
    }
}
