//! Random sequences of requests to the official server and ours: equal answers, and equal state after every step.
//!
//! - `DIFFERENTIAL_STEPS`: steps for each configuration, 2,000 by default.
//! - `DIFFERENTIAL_SEED`: the seed of the sequences; it is printed. Without it always the same, so that a failure comes from
//!   the change that is tested; 0 takes one from the clock, to look for more.
//! - `DIFFERENTIAL_PEER=official`: two official servers, to see that the test itself is steady.
//! - `REQUIRE_PEERS=1`: fail, do not skip, without Java or Maven.

#[path = "../support/mod.rs"]
mod support;

mod exclusions;
mod op;
mod request;
mod shadow;
mod world;

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use op::Op;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use support::official::say;
use support::process::Settings;
use world::{Failure, World};

const STEPS: usize = 2_000;
const SEED: u64 = 20_261_129;
const SEQUENCE: std::ops::Range<usize> = 1..60;
/// Many tries start two servers; a failing sequence is shown as short as it has become by then.
const SHRINK_TIME: Duration = Duration::from_secs(60);
/// Sequences that once failed. They run first.
const REGRESSIONS: &str = include_str!("regressions.txt");

#[test]
fn default_configuration() {
    compare("default", &Settings::default());
}

#[test]
fn acting_master() {
    compare("supportActingMaster", &Settings::with(&[("supportActingMaster", "true")]));
}

#[test]
fn topics_deleted_by_registration() {
    compare("deleteTopicWithBrokerRegistration", &Settings::with(&[("deleteTopicWithBrokerRegistration", "true")]));
}

#[test]
fn a_failing_sequence_is_shortened() {
    let ops: Vec<Op> = (0..40).map(|id| Op { id, ..Op::default() }).collect();
    let fails = |ops: &[Op]| {
        let first = ops.iter().position(|op| op.id == 7)?;
        let steps = first + 2 + ops[first..].iter().skip(1).position(|op| op.id == 30)?;
        Some(Failure { steps, why: "7, later 30".into() })
    };
    let (ops, _) = shorten(ops.clone(), fails(&ops).expect("it fails"), fails);
    assert_eq!(ops.iter().map(|op| op.id).collect::<Vec<_>>(), [7, 30]);
}

#[test]
fn steps_are_read_as_they_are_written() {
    let ops =
        vec![Op { code: 103, id: -1, topics: 3, ..Op::default() }, Op { code: op::CLOSE, addr: 2, ..Op::default() }];
    assert_eq!(op::parse(&op::lines(&ops)), Ok(vec![ops]));
    assert!(op::parse("code=103 colour=1").is_err());
}

fn compare(what: &str, settings: &Settings) {
    let target: usize = from_environment("DIFFERENTIAL_STEPS").unwrap_or(STEPS);
    let clock = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs());
    let seed: u64 = from_environment("DIFFERENTIAL_SEED").unwrap_or(SEED);
    let seed = if seed == 0 { clock() } else { seed };
    say(&format!("differential {what}: DIFFERENTIAL_SEED={seed} DIFFERENTIAL_STEPS={target}"));
    let Some(mut world) = World::start(&format!("differential {what}"), settings) else { return };

    let mut sequence = 0;
    for ops in op::parse(REGRESSIONS).expect("regressions.txt") {
        sequence += 1;
        if let Err(failure) = world.run(sequence, &ops) {
            panic!("a sequence of regressions.txt:\n{}{}", op::lines(&ops), failure.why);
        }
    }
    let mut runner = runner(what, seed);
    let strategy = proptest::collection::vec(op::any_op(), SEQUENCE);
    while world.sent < target {
        sequence += 1;
        let ops = strategy.new_tree(&mut runner).expect("a sequence").current();
        let had_order_namespace = world.has_order_namespace;
        if let Err(failure) = world.run(sequence, &ops) {
            drop(world);
            let (ops, failure) = if had_order_namespace { with_order_namespace(ops, failure) } else { (ops, failure) };
            let mut world = None;
            let mut sequence = 0;
            let fails = |ops: &[Op]| {
                sequence += 1;
                let again = world.get_or_insert_with(|| World::start(what, settings).expect("it started before"));
                let failure = again.run(sequence, ops).err();
                // A failure may leave the servers unequal.
                if failure.is_some() || again.has_order_namespace {
                    world = None;
                }
                failure
            };
            let (ops, why) = shorten(ops, failure, fails);
            panic!("{what}, seed {seed}, sequence {sequence}. For regressions.txt:\n{}\n{why}", op::lines(&ops));
        }
    }
    let World { sent, skipped, .. } = &world;
    say(&format!("differential {what}: {sent} steps in {sequence} sequences; not sent: {skipped:?}"));
}

/// The same from the beginning: with the one thing that earlier sequences leave behind.
fn with_order_namespace(mut ops: Vec<Op>, failure: Failure) -> (Vec<Op>, Failure) {
    let made = [100, 102].map(|code| Op { code, namespace: 1, ..Op::default() });
    let steps = failure.steps + made.len();
    ops.splice(..0, made);
    (ops, Failure { steps, ..failure })
}

/// Looks for a shorter sequence that fails too, leaving out parts of half the length, a quarter, ... one step.
fn shorten(
    mut ops: Vec<Op>,
    mut failure: Failure,
    mut fails: impl FnMut(&[Op]) -> Option<Failure>,
) -> (Vec<Op>, String) {
    let start = Instant::now();
    ops.truncate(failure.steps);
    let mut part = ops.len() / 2;
    while part > 0 {
        let mut from = 0;
        while from < ops.len() && start.elapsed() < SHRINK_TIME {
            let mut fewer = ops.clone();
            fewer.drain(from..ops.len().min(from + part));
            match fails(&fewer) {
                Some(other) => {
                    fewer.truncate(other.steps);
                    (ops, failure) = (fewer, other);
                }
                None => from += part,
            }
        }
        part /= 2;
    }
    (ops, failure.why)
}

fn runner(what: &str, seed: u64) -> TestRunner {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_be_bytes());
    bytes[8..16].copy_from_slice(&u64::from(crc32fast::hash(what.as_bytes())).to_be_bytes());
    TestRunner::new_with_rng(Config::default(), TestRng::from_seed(RngAlgorithm::ChaCha, &bytes))
}

fn from_environment<T: std::str::FromStr>(name: &str) -> Option<T> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text}: not a number")))
}
