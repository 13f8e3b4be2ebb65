//! Histories of real threads, checked against the sequential specification: every strategy, and those that are wrong.
#![cfg(not(loom))]

use backends::baseline::DirtyRegistry;
use registry_core::{
    Registry,
    testkit::{
        Sequential,
        broken::{AfterTheAnswer, TopicByTopic, TwoCopies},
        histories::{long_scenarios, values, violation_of},
    },
};

/// Histories for each strategy: `HISTORIES`, or enough for a second of an unoptimised build.
fn count() -> usize {
    std::env::var("HISTORIES").map_or(200, |count| count.parse().expect("HISTORIES is a number"))
}

fn is_linearizable<R: Registry>() {
    for scenario in values(&long_scenarios(), count()) {
        if let Some(violation) = violation_of::<R>(&scenario) {
            panic!("{}: {violation}\n{scenario:?}", R::NAME);
        }
    }
}

/// Runs until the strategy was found out, or it is clear that it will not be.
fn is_found_out<R: Registry>() {
    let scenarios = values(&long_scenarios(), 500);
    let turns = (0..20_000).find(|turn| violation_of::<R>(&scenarios[turn % scenarios.len()]).is_some());
    let turns = turns.unwrap_or_else(|| panic!("{} was not found out", R::NAME));
    println!("{}: found out in history {}", R::NAME, turns + 1);
}

macro_rules! linearizable {
    ($($module:ident: $registry:path;)*) => {
        $(#[test]
        fn $module() {
            is_linearizable::<$registry>();
        })*
    };
}
backends::strategies!(linearizable);

#[test]
fn sequential() {
    is_linearizable::<Sequential>();
}

#[test]
fn maps_without_a_protocol_are_found_out() {
    is_found_out::<DirtyRegistry>();
}

#[test]
fn topics_published_one_by_one_are_found_out() {
    is_found_out::<TopicByTopic>();
}

#[test]
fn a_publication_after_the_answer_is_found_out() {
    is_found_out::<AfterTheAnswer>();
}

#[test]
fn two_copies_are_found_out() {
    is_found_out::<TwoCopies>();
}
