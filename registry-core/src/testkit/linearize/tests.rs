//! The checker against a search that tries every order.

use std::{
    sync::atomic::{AtomicI32, Ordering},
    thread,
};

use proptest::{collection, prelude::*};

use super::{Call, Recorder, Spec, Verdict, check, history};

/// A register of a number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Register(i32);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Op {
    Read,
    Write(i32),
    Add(i32),
}

impl Spec for Register {
    type Op = Op;
    type Ret = i32;

    fn apply(&mut self, op: &Op) -> i32 {
        match *op {
            Op::Read => {}
            Op::Write(value) => self.0 = value,
            Op::Add(value) => self.0 += value,
        }
        self.0
    }
}

type Calls = Vec<Call<Op, i32>>;

fn call(thread: usize, op: Op, ret: i32, invoked: u64, returned: u64) -> Call<Op, i32> {
    Call { thread, op, ret: Some(ret), invoked, returned }
}

fn pending(thread: usize, op: Op, invoked: u64) -> Call<Op, i32> {
    Call { thread, op, ret: None, invoked, returned: u64::MAX }
}

#[test]
fn overlapping_calls_may_change_places_and_others_may_not() {
    let overlapping = vec![call(0, Op::Write(1), 1, 0, 3), call(1, Op::Read, 0, 1, 2)];
    assert_eq!(check(&Register(0), &overlapping), Verdict::Linearizable(vec![1, 0]));
    let after = vec![call(0, Op::Write(1), 1, 0, 1), call(1, Op::Read, 0, 2, 3)];
    let violation = check(&Register(0), &after).violation().expect("a read of the past");
    let text = violation.to_string();
    assert!(text.contains("thread 1: Read -> 0 would be answered 1"), "{text}");
    assert!(text.contains("up to that of\n  [   2,    3] thread 1: Read -> 0"), "{text}");
}

#[test]
fn what_was_seen_once_stays_seen() {
    let calls = vec![call(0, Op::Write(1), 1, 0, 9), call(1, Op::Read, 1, 1, 2), call(2, Op::Read, 0, 3, 4)];
    assert!(check(&Register(0), &calls).violation().is_some());
}

#[test]
fn a_call_without_an_answer_may_have_been_made_or_not() {
    let calls = |read| vec![pending(0, Op::Write(1), 0), call(1, Op::Read, read, 1, 2), call(1, Op::Read, read, 3, 4)];
    assert_eq!(check(&Register(0), &calls(0)), Verdict::Linearizable(vec![1, 2]));
    assert_eq!(check(&Register(0), &calls(1)), Verdict::Linearizable(vec![0, 1, 2]));
    assert!(check(&Register(0), &calls(2)).violation().is_some());
}

#[test]
fn an_explanation_ends_with_the_first_answer_that_has_none() {
    let mut calls: Calls = (0..50)
        .map(|at| {
            call(0, Op::Write(i32::try_from(at).expect("small")), i32::try_from(at).expect("small"), 2 * at, 2 * at + 1)
        })
        .collect();
    calls[20].ret = Some(77);
    let text = check(&Register(0), &calls).violation().expect("it is wrong").to_string();
    assert!(text.contains("Write(20) -> 77") && !text.contains("Write(21)"), "{text}");
}

/// Runs threads on something that is, or is not, a register.
fn record(register: &(impl Fn(usize, Op) -> i32 + Sync)) -> Calls {
    let recorder = Recorder::new();
    let logs = thread::scope(|scope| {
        let run = |at: usize| {
            let mut log = recorder.log(at);
            for turn in 0..200 {
                let op = if (turn + at).is_multiple_of(3) { Op::Add(1) } else { Op::Read };
                log.call(op, |op| register(at, *op));
            }
            log
        };
        let threads: Vec<_> = (0..3).map(|at| scope.spawn(move || run(at))).collect();
        threads.into_iter().map(|thread| thread.join().expect("a thread panicked")).collect::<Vec<_>>()
    });
    history(logs)
}

#[test]
fn an_atomic_is_accepted() {
    let value = AtomicI32::new(0);
    let calls = record(&|_, op| match op {
        Op::Add(by) => value.fetch_add(by, Ordering::SeqCst) + by,
        _ => value.load(Ordering::SeqCst),
    });
    assert_eq!(check(&Register(0), &calls).violation(), None);
}

#[test]
fn a_thread_that_reads_a_copy_is_found_out() {
    let (value, copy) = (AtomicI32::new(0), AtomicI32::new(0));
    let calls = record(&|thread, op| match op {
        Op::Add(by) => value.fetch_add(by, Ordering::SeqCst) + by,
        _ if thread == 2 => copy.swap(value.load(Ordering::SeqCst), Ordering::SeqCst),
        _ => value.load(Ordering::SeqCst),
    });
    assert!(check(&Register(0), &calls).violation().is_some());
}

/// Whether any order of the calls that are left explains them.
fn is_linearizable_by_force(state: Register, left: &[Call<Op, i32>]) -> bool {
    left.iter().all(|call| call.ret.is_none())
        || (0..left.len()).any(|at| {
            let mut rest = left.to_vec();
            let call = rest.remove(at);
            let mut state = state;
            let ret = state.apply(&call.op);
            rest.iter().all(|other| other.returned > call.invoked)
                && call.ret.is_none_or(|given| given == ret)
                && is_linearizable_by_force(state, &rest)
        })
}

fn is_an_order_of(order: &[usize], calls: &[Call<Op, i32>]) -> bool {
    let mut state = Register(0);
    let keeps_time = order
        .iter()
        .enumerate()
        .all(|(place, &at)| order[place + 1..].iter().all(|&later| calls[later].returned > calls[at].invoked));
    let is_answered = |&at: &usize| {
        let ret = state.apply(&calls[at].op);
        calls[at].ret.is_none_or(|given| given == ret)
    };
    let is_whole = calls.iter().enumerate().all(|(at, call)| call.ret.is_none() || order.contains(&at));
    keeps_time && is_whole && order.iter().all(is_answered)
}

/// Up to six calls of three threads with small answers, so that about half of the histories are right.
fn small_histories() -> impl Strategy<Value = Calls> {
    let op = prop_oneof![Just(Op::Read), (1..3).prop_map(Op::Write), Just(Op::Add(1))];
    let event = (0..3_usize, op, prop_oneof![8 => (0..4).prop_map(Some), 1 => Just(None)]);
    collection::vec(event, 0..12).prop_map(|events| {
        // A thread's next turn ends the call that it is in, or begins one.
        let (mut calls, mut open): (Calls, [Option<usize>; 3]) = (Vec::new(), [None; 3]);
        for (stamp, (thread, op, ret)) in (0..).zip(events) {
            match open[thread].take() {
                Some(at) if ret.is_some() => (calls[at].ret, calls[at].returned) = (ret, stamp),
                Some(_) => open[thread] = None,
                None => {
                    open[thread] = Some(calls.len());
                    calls.push(pending(thread, op, stamp));
                }
            }
        }
        calls
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn it_agrees_with_trying_every_order(calls in small_histories()) {
        match check(&Register(0), &calls) {
            Verdict::Linearizable(order) => prop_assert!(is_an_order_of(&order, &calls), "{order:?} of {calls:?}"),
            Verdict::Violated(violation) => {
                prop_assert!(!is_linearizable_by_force(Register(0), &calls), "{violation}");
            }
            Verdict::Unknown => prop_assert!(false, "given up"),
        }
    }
}
