//! Reads, while a writer changes the registry or does not.

use std::{
    ops::Add,
    sync::{
        Barrier,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use hdrhistogram::Histogram;
use registry_core::{Reader, Registry};

use super::{
    Change, Mix, Value, at_threads,
    machine::{cores, pin, thread_cpu_time, waited_for_core},
    plan::Plan,
    world::{Asker, NOW, World},
};
use crate::results::Measure;

/// Percentiles of the latencies that are kept.
const PERCENTILES: [f64; 9] = [50.0, 75.0, 90.0, 95.0, 99.0, 99.5, 99.9, 99.99, 100.0];
/// Time between two reads of the open loop: from this, and up to so much more.
const INTERVAL_NS: (u64, u64) = (4_000, 6_000);
/// Longer latencies are counted as this.
const LATENCY_MAX_NS: u64 = 60_000_000_000;
/// For which part of a round of the open loop other programs may take the processors, before it is made again, if
/// the plan allows it.
const DISTURBANCE_MAX: u32 = 500;
/// Between rounds, in which two threads take all that two processors have: other programs get their turn here and not in
/// the next round, and no limit on real-time threads is reached. Tests, of which no number counts, do not wait.
pub(super) const PAUSE: Duration = Duration::from_millis(if cfg!(test) { 0 } else { 20 });

impl Mix {
    /// Time from one change to the next.
    fn interval(self) -> Duration {
        match self {
            Self::Registrations => Duration::from_millis(10),
            Self::Lookups | Self::OneTopic | Self::SmallTables => Duration::from_millis(1),
        }
    }

    fn change(self, turn: usize) -> Option<Change> {
        match self {
            Self::Lookups => None,
            Self::OneTopic => Some(Change::OneTopic),
            Self::Registrations => Some(Change::Registration),
            Self::SmallTables if turn % 4 < 2 => Some(Change::Permission),
            Self::SmallTables => Some(Change::Address),
        }
    }
}

/// Reads on one processor that are due at random times, while the writer on another one follows the mix.
///
/// A round in which other programs had the processors is made again; what was torn counts, however disturbed it was.
pub(super) fn open_loop<R: Registry>(world: &mut World<R>, mix: Mix, plan: &Plan) -> Vec<Value> {
    let length = plan.open;
    let mut best = open_loop_once(world, mix, length);
    let mut torn = best.torn;
    for _ in 0..plan.repeats_max {
        if best.disturbance <= length / DISTURBANCE_MAX {
            break;
        }
        let again = open_loop_once(world, mix, length);
        torn += again.torn;
        if again.disturbance < best.disturbance {
            best = again;
        }
    }
    let latency = |percentile: f64| {
        let us = best.latency.value_at_percentile(percentile) as f64 / 1e3;
        (Measure::ReadLatency, at_threads(&[("mix", mix.index()), ("percentile", percentile)], 2), us)
    };
    let torn = (Measure::Torn, vec![("mix", mix.index())], torn as f64);
    PERCENTILES.into_iter().map(latency).chain([torn]).collect()
}

/// What a round of the open loop has shown.
struct OpenLoop {
    /// Nanoseconds from when a read was due until its answer was there.
    latency: Histogram<u64>,
    torn: u64,
    /// How long threads have waited for a processor.
    disturbance: Duration,
}

fn open_loop_once<R: Registry>(world: &mut World<R>, mix: Mix, length: Duration) -> OpenLoop {
    let (mut rounds, waited) = beside_writer(world, mix, &[0], |asker| read_open_loop(asker, length));
    let OpenLoop { latency, torn, disturbance } = rounds.remove(0);
    OpenLoop { latency, torn, disturbance: disturbance + waited }
}

/// Reads a second of so many threads that never pause, each on its processor, while the writer follows the mix.
pub(super) fn closed_loop<R: Registry>(world: &mut World<R>, mix: Mix, threads: usize, length: Duration) -> Vec<Value> {
    let mut rates = |cores: &[usize]| -> Rates {
        let (threads, _) = beside_writer(world, mix, cores, |asker| read_for(asker, length));
        threads.into_iter().fold(Rates::default(), |sum, thread| sum + thread)
    };
    let Rates { reads, wall_seconds, cpu_seconds } = if threads == 1 && mix == Mix::Lookups {
        // One processor after the other, as they need not be equally fast.
        let [first, second] = [rates(&[0]), rates(&[1])];
        Rates { wall_seconds: first.wall_seconds + second.wall_seconds, ..first + second }
    } else {
        rates(&(0..threads).map(|thread| thread % cores()).collect::<Vec<_>>())
    };
    let running = threads + usize::from(mix != Mix::Lookups);
    let at = at_threads(&[("mix", mix.index()), ("threads", threads as f64)], running);
    let millions = f64::from(reads) / 1e6;
    vec![(Measure::ReadRate, at.clone(), millions / wall_seconds), (Measure::ReadRateCpu, at, millions / cpu_seconds)]
}

/// Runs `read` on a thread for each of `cores`, and beside them the writer, on the next one if there is one. Also says how
/// long the writer has waited for its processor.
fn beside_writer<R: Registry, T: Send>(
    world: &mut World<R>,
    mix: Mix,
    cores: &[usize],
    read: impl Fn(&mut Asker<R::Reader>) -> T + Sync,
) -> (Vec<T>, Duration) {
    thread::sleep(PAUSE);
    let has_writer = mix != Mix::Lookups;
    let (questions, read, is_over) = (&world.questions(), &read, &AtomicBool::new(false));
    let start = &Barrier::new(cores.len() + usize::from(has_writer));
    thread::scope(|scope| {
        let writer = has_writer.then(|| {
            scope.spawn(move || {
                pin(cores.len());
                start.wait();
                write_until(world, mix, is_over)
            })
        });
        let readers: Vec<_> = (1..)
            .zip(cores)
            .map(|(seed, &core)| {
                scope.spawn(move || {
                    pin(core);
                    let mut asker = questions.asker(seed);
                    start.wait();
                    read(&mut asker)
                })
            })
            .collect();
        let results = readers.into_iter().map(|reader| reader.join().expect("a reader does not panic")).collect();
        is_over.store(true, Ordering::Relaxed);
        let waited = writer.map(|writer| writer.join().expect("the writer does not panic"));
        (results, waited.unwrap_or_default())
    })
}

/// Makes the changes of the mix when they are due; says how long the processor was somebody else's.
fn write_until<R: Registry>(world: &mut World<R>, mix: Mix, is_over: &AtomicBool) -> Duration {
    let waited_before = waited_for_core();
    let mut due = Instant::now();
    for turn in 0.. {
        // What was done is undone before the end.
        if is_over.load(Ordering::Relaxed) && turn % 2 == 0 {
            break;
        }
        let Some(change) = mix.change(turn) else { break };
        let command = change.command(world, turn);
        thread::sleep(due.saturating_duration_since(Instant::now()));
        world.writer.execute(&command, NOW);
        world.writer.tick();
        due = (due + mix.interval()).max(Instant::now());
    }
    waited_for_core() - waited_before
}

/// Reads at times that do not depend on how long a read takes.
fn read_open_loop<R: Reader>(asker: &mut Asker<R>, length: Duration) -> OpenLoop {
    let mut latency = Histogram::new_with_bounds(1, LATENCY_MAX_NS, 3).expect("good bounds");
    let mut torn = 0;
    let waited_before = waited_for_core();
    let (start, length) = (Instant::now(), length.as_nanos() as u64);
    let elapsed = || start.elapsed().as_nanos() as u64;
    let mut due = INTERVAL_NS.0;
    while due < length {
        while elapsed() < due {
            std::hint::spin_loop();
        }
        asker.ask();
        latency.saturating_record(elapsed() - due);
        torn += u64::from(asker.is_torn());
        due += INTERVAL_NS.0 + asker.random(INTERVAL_NS.1 + 1);
    }
    asker.refresh();
    OpenLoop { latency, torn, disturbance: waited_for_core() - waited_before }
}

/// What threads have read side by side.
#[derive(Clone, Copy, Debug, Default)]
struct Rates {
    reads: u32,
    /// Of the slowest thread.
    wall_seconds: f64,
    /// Of all threads.
    cpu_seconds: f64,
}

impl Add for Rates {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            reads: self.reads + other.reads,
            wall_seconds: self.wall_seconds.max(other.wall_seconds),
            cpu_seconds: self.cpu_seconds + other.cpu_seconds,
        }
    }
}

/// Reads without a pause.
fn read_for<R: Reader>(asker: &mut Asker<R>, length: Duration) -> Rates {
    let (begin, cpu_before) = (Instant::now(), thread_cpu_time());
    let mut reads = 0;
    while begin.elapsed() < length {
        for _ in 0..64 {
            asker.ask();
        }
        reads += 64;
    }
    let cpu = thread_cpu_time() - cpu_before;
    Rates { reads, wall_seconds: begin.elapsed().as_secs_f64(), cpu_seconds: cpu.as_secs_f64() }
}
