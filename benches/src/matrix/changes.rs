//! Changes: how long the writer takes for them, and when others see them.

use std::{
    sync::{
        Barrier,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use registry_core::{Outcome, Registry};

use super::{
    Change, Value, at_threads,
    machine::{cores, pin},
    plan::STALL_READERS,
    reads::PAUSE,
    world::{NOW, ONE_MORE_TOPIC, World},
};
use crate::results::{Measure, quantile};

/// Percentiles of the times that are kept.
const PERCENTILES: [f64; 4] = [50.0, 90.0, 99.0, 100.0];
/// Time between two changes, in which the readers have the processors.
const CHANGE_INTERVAL: Duration = Duration::from_micros(300);
/// Unit of the writer's stalls.
const SLICE: Duration = Duration::from_millis(5);
/// A change that is not seen after this is never seen.
const VISIBLE_TIMEOUT: Duration = Duration::from_secs(10);

/// One change: when it began, since the start of the round, and how long the writer took.
#[derive(Clone, Copy, Debug)]
struct Timed {
    begin: Duration,
    time: Duration,
}

/// Times of changes, while so many threads read without a pause.
pub(super) fn under_readers<R: Registry>(
    world: &mut World<R>,
    change: Change,
    readers: usize,
    length: Duration,
) -> Vec<Value> {
    let times = changes(world, change, readers, length);
    let us: Vec<f64> = times.iter().map(|timed| micros(timed.time)).collect();
    let value = |percentile: f64| {
        let at = [("change", change.index()), ("readers", readers as f64), ("percentile", percentile)];
        (Measure::ChangeTime, at_threads(&at, readers + 1), quantile(&us, percentile / 100.0).unwrap_or_default())
    };
    PERCENTILES.map(value).into()
}

/// The longest that a change of one topic took, slice by slice of the time, while two threads read without a pause.
pub(super) fn stalls<R: Registry>(world: &mut World<R>, slices: usize) -> Vec<Value> {
    let times = changes(world, Change::OneTopic, STALL_READERS, SLICE * slices as u32);
    let value = |(slice, longest): (usize, Duration)| {
        let at = [("ms", slice as f64 * SLICE.as_secs_f64() * 1e3), ("readers", STALL_READERS as f64)];
        (Measure::WriterStall, at_threads(&at, STALL_READERS + 1), micros(longest))
    };
    longest_by_slice(&times, slices).into_iter().enumerate().map(value).collect()
}

/// A change counts in every slice in which the writer was busy with it.
fn longest_by_slice(times: &[Timed], slices: usize) -> Vec<Duration> {
    let mut longest = vec![Duration::ZERO; slices];
    let slice_of = |moment: Duration| (moment.as_nanos() / SLICE.as_nanos()) as usize;
    for timed in times {
        let busy = slice_of(timed.begin)..=slice_of(timed.begin + timed.time);
        for slice in busy {
            if let Some(longest) = longest.get_mut(slice) {
                *longest = timed.time.max(*longest);
            }
        }
    }
    longest
}

/// Makes changes, one after the other with a pause between them. Each thread has a processor, while there are some.
fn changes<R: Registry>(world: &mut World<R>, change: Change, readers: usize, length: Duration) -> Vec<Timed> {
    thread::sleep(PAUSE);
    let (questions, is_over, start) = (&world.questions(), &AtomicBool::new(false), &Barrier::new(readers + 1));
    thread::scope(|scope| {
        for reader in 0..readers {
            scope.spawn(move || {
                pin(reader % cores());
                let mut asker = questions.asker(reader as u64 + 1);
                start.wait();
                while !is_over.load(Ordering::Relaxed) {
                    asker.ask();
                }
            });
        }
        let writer = scope.spawn(move || {
            pin(readers);
            let mut idle = questions.asker(0);
            start.wait();
            let times = change_for(world, change, length, || idle.refresh());
            is_over.store(true, Ordering::Relaxed);
            times
        });
        writer.join().expect("the writer does not panic")
    })
}

/// Makes changes; `between` them, a worker of the server without requests does what it does.
fn change_for<R: Registry>(
    world: &mut World<R>,
    change: Change,
    length: Duration,
    mut between: impl FnMut(),
) -> Vec<Timed> {
    let mut times = Vec::new();
    let start = Instant::now();
    for turn in 0.. {
        // What was done is undone before the end.
        if start.elapsed() >= length && turn % 2 == 0 {
            break;
        }
        let command = change.command(world, turn);
        thread::sleep(CHANGE_INTERVAL);
        let begin = start.elapsed();
        let outcome = world.writer.execute(&command, NOW).outcome;
        times.push(Timed { begin, time: start.elapsed() - begin });
        assert!(!matches!(outcome, Outcome::Refused(_)), "{}: {outcome:?}", change.name());
        between();
        world.writer.tick();
    }
    times
}

/// Times from when the writer begins with a change of one topic until a thread that reads without a pause has seen it.
pub(super) fn visibility<R: Registry>(world: &mut World<R>, changes: usize) -> anyhow::Result<Vec<Value>> {
    thread::sleep(PAUSE);
    let questions = &world.questions();
    let (moments, seen_at) = mpsc::channel();
    let delays = thread::scope(|scope| {
        scope.spawn(move || {
            pin(0);
            let mut asker = questions.asker(1);
            let begin = Instant::now();
            for change in 0..changes {
                // The topic comes first, then it goes.
                while asker.has(ONE_MORE_TOPIC) != (change % 2 == 0) {
                    if begin.elapsed() > VISIBLE_TIMEOUT {
                        return;
                    }
                }
                if moments.send(Instant::now()).is_err() {
                    return;
                }
            }
        });
        let writer = scope.spawn(move || {
            pin(1);
            let mut delays = Vec::with_capacity(changes);
            for change in 0..changes {
                let command = Change::OneTopic.command(world, change);
                thread::sleep(CHANGE_INTERVAL);
                let begin = Instant::now();
                world.writer.execute(&command, NOW);
                world.writer.tick();
                let seen_at = seen_at.recv_timeout(VISIBLE_TIMEOUT).context("a change is not seen")?;
                delays.push(micros(seen_at.saturating_duration_since(begin)));
            }
            anyhow::Ok(delays)
        });
        writer.join().expect("the writer does not panic")
    })?;
    let value = |percentile: f64| {
        let delay = quantile(&delays, percentile / 100.0).unwrap_or_default();
        (Measure::Visibility, at_threads(&[("percentile", percentile)], 2), delay)
    };
    Ok(PERCENTILES.map(value).into())
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stall_counts_in_every_slice_that_it_touches() {
        let ms = Duration::from_millis;
        let timed = |begin, time| Timed { begin: ms(begin), time: ms(time) };
        let times = [timed(1, 2), timed(4, 7), timed(12, 1), timed(19, 100)];
        assert_eq!(longest_by_slice(&times, 5), [ms(7), ms(7), ms(7), ms(100), ms(100)]);
        assert_eq!(longest_by_slice(&[], 2), [ms(0); 2]);
    }
}
