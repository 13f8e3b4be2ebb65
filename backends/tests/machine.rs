//! Random commands: every strategy against the tables, and the tables against the naive model.
#![cfg(not(loom))]

use proptest::proptest;
use registry_core::testkit::{generate, machine};

macro_rules! machines {
    ($($module:ident: $registry:path;)*) => {
        proptest! {
            #![proptest_config(machine::config())]
            $(
                #[test]
                fn $module(steps in generate::steps()) {
                    machine::run::<$registry>(&steps);
                }
            )*
        }
    };
}
backends::strategies!(machines);
