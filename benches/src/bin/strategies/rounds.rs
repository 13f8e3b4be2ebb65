//! One round of each measurement, for a strategy.

use std::{
    sync::{
        Barrier,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use hdrhistogram::Histogram;
use registry_core::{Command, Name, Outcome, QueueSettings, Reader, Registry};

use crate::{
    machine::{pin, thread_cpu_time, waited_for_core},
    world::{Asker, CHANGING, NOW, World, broker_name},
};

/// Time between two reads of the open loop: from this, and up to so much more.
const INTERVAL_NS: (u64, u64) = (4_000, 6_000);
/// Longer latencies are counted as this.
const LATENCY_MAX_NS: u64 = 60_000_000_000;
/// Time between two registrations.
const REWRITE_INTERVAL: Duration = Duration::from_millis(10);
/// Time between two changes of one topic, in which the readers have the processors.
const CHANGE_INTERVAL: Duration = Duration::from_micros(300);
/// For which part of a round of the open loop other programs may take the processors, before it is made again.
const DISTURBANCE_MAX: u32 = 500;
/// How often at most.
const REPEATS_MAX: u32 = 4;
/// Between rounds, in which two threads take all that two processors have: other programs get their turn here and not in
/// the next round, and no limit on real-time threads is reached.
const PAUSE: Duration = Duration::from_millis(20);

/// A strategy with a loaded registry.
pub(crate) trait Subject {
    fn name(&self) -> &'static str;
    /// Reads on one processor while the other one registers.
    fn open_loop(&mut self, length: Duration) -> OpenLoop;
    /// Reads a second of processor time and thread, with a thread on each of `cores`, added up.
    fn closed_loop(&mut self, cores: &[usize], length: Duration) -> f64;
    /// Times of so many changes.
    fn publish(&mut self, what: Change, count: usize) -> Vec<Duration>;
    /// Times of so many changes of one topic, while nobody reads or two threads do.
    fn change_under_readers(&mut self, readers: usize, count: usize) -> Vec<Duration>;
}

/// A change of the small tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// The write permission of all topics is taken away or given back.
    WritePermission,
    /// A broker says that it has another address, and nothing of topics.
    Address,
    /// A broker registers all its topics, none changed, under another address.
    AddressWithTopics,
    /// Of that, the time to publish: without the comparison of the topics.
    AddressWithTopicsPublished,
}

/// What a round of the open loop has shown.
#[derive(Clone, Debug)]
pub(crate) struct OpenLoop {
    /// Nanoseconds from when a read was due until its answer was there.
    pub(crate) latency: Histogram<u64>,
    pub(crate) torn: u64,
    pub(crate) rewrites: u64,
    /// Rounds that were made again, as other programs had disturbed them.
    pub(crate) repeats: u32,
    disturbance: Duration,
}

impl<R: Registry> Subject for World<R> {
    fn name(&self) -> &'static str {
        R::NAME
    }

    fn open_loop(&mut self, length: Duration) -> OpenLoop {
        let mut best = open_loop_once(self, length);
        // What was torn counts, however disturbed the round was.
        let mut torn = best.torn;
        while best.disturbance > length / DISTURBANCE_MAX && best.repeats < REPEATS_MAX {
            let again = open_loop_once(self, length);
            torn += again.torn;
            let repeats = best.repeats + 1;
            if again.disturbance < best.disturbance {
                best = again;
            }
            best.repeats = repeats;
        }
        best.torn = torn;
        best
    }

    fn closed_loop(&mut self, cores: &[usize], length: Duration) -> f64 {
        let (registry, topics) = (&self.registry, &self.topics);
        let start = &Barrier::new(cores.len());
        thread::sleep(PAUSE);
        thread::scope(|scope| {
            let loops: Vec<_> = cores
                .iter()
                .map(|&core| {
                    scope.spawn(move || {
                        pin(core);
                        let mut asker = Asker::new(registry.reader(), topics.clone(), core as u64 + 1);
                        start.wait();
                        read_for(&mut asker, length)
                    })
                })
                .collect();
            loops.into_iter().map(|each| each.join().expect("a reader does not panic")).sum()
        })
    }

    fn publish(&mut self, what: Change, count: usize) -> Vec<Duration> {
        let mut reader = self.registry.reader();
        let mut times = Vec::with_capacity(count);
        for turn in 0..count {
            let broker_name = broker_name(CHANGING);
            let command = match what {
                Change::WritePermission if turn % 2 == 0 => Command::WipeWritePerm { broker_name },
                Change::WritePermission => Command::AddWritePerm { broker_name },
                Change::Address => self.change_of_address(turn, false),
                Change::AddressWithTopics | Change::AddressWithTopicsPublished => self.change_of_address(turn, true),
            };
            let mut begin = Instant::now();
            let applied = self.writer.apply(&command, NOW);
            if what == Change::AddressWithTopicsPublished {
                begin = Instant::now();
            }
            self.writer.publish();
            times.push(begin.elapsed());
            assert!(!matches!(applied.outcome, Outcome::Refused(_)), "{:?}", applied.outcome);
            // As a worker of the server and the writer do between two changes.
            reader.refresh();
            self.writer.tick();
        }
        times
    }

    fn change_under_readers(&mut self, readers: usize, count: usize) -> Vec<Duration> {
        let Self { registry, writer, topics, .. } = self;
        let (registry, topics) = (&*registry, &*topics);
        let is_over = &AtomicBool::new(false);
        let start = &Barrier::new(readers + 1);
        thread::scope(|scope| {
            for core in 0..readers {
                scope.spawn(move || {
                    pin(core);
                    let mut asker = Asker::new(registry.reader(), topics.clone(), core as u64 + 1);
                    start.wait();
                    while !is_over.load(Ordering::Relaxed) {
                        asker.ask();
                    }
                });
            }
            start.wait();
            let topic = Name::from("one-more-topic");
            let queues = vec![(broker_name(CHANGING), QueueSettings::default())];
            let commands = [
                Command::RegisterTopic { topic: topic.clone(), queues },
                Command::DeleteTopic { topic, cluster: None },
            ];
            let times = commands.iter().cycle().take(count).map(|command| {
                thread::sleep(CHANGE_INTERVAL);
                let begin = Instant::now();
                writer.execute(command, NOW);
                let time = begin.elapsed();
                writer.tick();
                time
            });
            let times = times.collect();
            is_over.store(true, Ordering::Relaxed);
            times
        })
    }
}

fn open_loop_once<R: Registry>(world: &mut World<R>, length: Duration) -> OpenLoop {
    thread::sleep(PAUSE);
    let (registry, topics) = (world.registry.clone(), world.topics.clone());
    let is_over = &AtomicBool::new(false);
    let start = &Barrier::new(2);
    thread::scope(|scope| {
        let writer = scope.spawn(move || {
            pin(1);
            start.wait();
            rewrite_until(world, is_over)
        });
        let reader = scope.spawn(move || {
            pin(0);
            let mut asker = Asker::new(registry.reader(), topics, 1);
            start.wait();
            let round = read_open_loop(&mut asker, length);
            is_over.store(true, Ordering::Relaxed);
            round
        });
        let mut round = reader.join().expect("the reader does not panic");
        let (rewrites, waited) = writer.join().expect("the writer does not panic");
        round.rewrites = rewrites;
        round.disturbance += waited;
        round
    })
}

/// Registers the changing broker every ten milliseconds, or as fast as it goes; says how often, and how long the
/// processor was somebody else's.
fn rewrite_until<R: Registry>(world: &mut World<R>, is_over: &AtomicBool) -> (u64, Duration) {
    let waited_before = waited_for_core();
    let (mut rewrites, mut due) = (0, Instant::now());
    while !is_over.load(Ordering::Relaxed) {
        let command = world.next_rewrite();
        thread::sleep(due.saturating_duration_since(Instant::now()));
        world.writer.execute(&command, NOW);
        world.writer.tick();
        rewrites += 1;
        due = (due + REWRITE_INTERVAL).max(Instant::now());
    }
    (rewrites, waited_for_core() - waited_before)
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
    OpenLoop { latency, torn, rewrites: 0, repeats: 0, disturbance: waited_for_core() - waited_before }
}

/// Reads without a pause; how many reads a second of this thread's processor time.
fn read_for<R: Reader>(asker: &mut Asker<R>, length: Duration) -> f64 {
    let (begin, cpu_before) = (Instant::now(), thread_cpu_time());
    let mut reads = 0_u32;
    while begin.elapsed() < length {
        for _ in 0..64 {
            asker.ask();
        }
        reads += 64;
    }
    f64::from(reads) / (thread_cpu_time() - cpu_before).as_secs_f64()
}
