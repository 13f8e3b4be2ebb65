//! Every interleaving of small scenarios, on every strategy, checked against the sequential specification.
//!
//! A writer and readers run as threads of loom's; after each interleaving their calls must have an order that explains
//! the answers (see `testkit::linearize`). The clock of the histories is no atomic of loom's, on purpose: a publication
//! that was over before a read began has to be seen, however the reader knows of it. Run by `ci/loom.sh`, which says how
//! real `left-right` and `crossbeam-epoch` come under the model; `DashMap` and `parking_lot` have stand-ins.
//!
//! `LOOM_MAX_PREEMPTIONS` bounds how often a thread is stopped (2), `LOOM_SCENARIOS` how many random scenarios are tried.
#![cfg(loom)]

use std::{
    alloc::{GlobalAlloc, Layout, System},
    ptr,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use backends::baseline::DirtyRegistry;
use loom::{model::Builder, sync, sync::atomic::AtomicUsize as SharedByThreads, thread};
use proptest::{collection::vec, strategy::Strategy};
use registry_core::{
    Publisher, Registry, TableLimits, Writer,
    testkit::{
        Model,
        histories::{Answer, Op, Scenario, WriterLock, reads, values, writes},
        linearize::{self, Log, Recorder, history},
    },
};

/// Gives memory back late, so that no address is used twice within one interleaving.
///
/// An epoch's lists compare addresses, and under loom also old ones. If an old address could be that of something new, the
/// same turns would not always lead to the same steps, as loom needs it.
struct LateAllocator(Mutex<Late>);

/// Freed blocks, the oldest first. Each begins with a [`Freed`].
struct Late {
    oldest: *mut Freed,
    newest: *mut Freed,
    bytes: usize,
}

struct Freed {
    next: *mut Self,
    layout: Layout,
}

/// More than any interleaving allocates.
const LATE_BYTES: usize = 16 << 20;

// SAFETY: the pointers are to blocks that nobody else has.
unsafe impl Send for Late {}

#[global_allocator]
static ALLOCATOR: LateAllocator =
    LateAllocator(Mutex::new(Late { oldest: ptr::null_mut(), newest: ptr::null_mut(), bytes: 0 }));

/// The layout of a block that has room for a [`Freed`].
fn roomy(layout: Layout) -> Layout {
    let (size, align) = (layout.size().max(size_of::<Freed>()), layout.align().max(align_of::<Freed>()));
    Layout::from_size_align(size, align).unwrap_or(layout)
}

// SAFETY: memory comes from the system's allocator with a layout that is at least as large and as aligned as asked for, and
// goes back with the same layout, once.
unsafe impl GlobalAlloc for LateAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: not of size 0.
        unsafe { System.alloc(roomy(layout)) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        let block: *mut Freed = block.cast();
        let mut late = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the block is ours now, and has room for a `Freed`.
        unsafe { block.write(Freed { next: ptr::null_mut(), layout: roomy(layout) }) };
        if late.newest.is_null() {
            late.oldest = block;
        } else {
            // SAFETY: a block in the list is ours and begins with a `Freed`.
            unsafe { (*late.newest).next = block };
        }
        late.newest = block;
        late.bytes += roomy(layout).size();
        while late.bytes > LATE_BYTES && late.oldest != late.newest {
            let oldest = late.oldest;
            // SAFETY: as above.
            let Freed { next, layout } = unsafe { oldest.read() };
            late.oldest = next;
            late.bytes -= layout.size();
            // SAFETY: allocated with this layout, and out of the list.
            unsafe { System.dealloc(oldest.cast(), layout) };
        }
    }
}

/// Steps of one interleaving; the collector of an epoch makes some hundred with each read.
const BRANCHES_MAX: usize = 20_000;

/// Interleavings of one scenario after which it is left, unless `LOOM_MAX_PERMUTATIONS` says otherwise. Most scenarios have
/// some hundred; where a strategy's library makes a hundred steps where others make ten, most of their orders lead to the
/// same.
const INTERLEAVINGS_MAX: usize = 20_000;

/// How long the scenarios of one test are explored, together, unless `LOOM_MAX_DURATION` says how long each of them is.
const TEST_DURATION_MAX: Duration = Duration::from_secs(30);

/// The writer under a lock of loom's.
struct ModelLock<P>(sync::Mutex<Writer<P>>);

impl<P> WriterLock<P> for ModelLock<P> {
    fn with<T>(&self, f: impl FnOnce(&mut Writer<P>) -> T) -> T {
        f(&mut self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner()))
    }
}

/// What the threads of one interleaving share.
struct Stage<R: Registry> {
    registry: Arc<R>,
    writer: ModelLock<R::Publisher>,
    recorder: Recorder,
    /// Touched between calls, so that loom stops threads there. Relaxed: it orders nothing.
    turn: SharedByThreads,
}

impl<R: Registry> Stage<R> {
    fn new() -> Self {
        let (registry, publisher) = R::new();
        let writer = ModelLock(sync::Mutex::new(Writer::new(publisher, TableLimits::default())));
        Self { registry, writer, recorder: Recorder::new(), turn: SharedByThreads::new(0) }
    }

    /// Makes the calls of a thread. Readers are made before and dropped after: how they come and go is not explored.
    fn run(&self, thread: usize, mut reader: R::Reader, ops: &[Op]) -> (Log<Op, Answer>, R::Reader) {
        let mut log = self.recorder.log(thread);
        for &op in ops {
            self.turn.fetch_add(1, Ordering::Relaxed);
            log.call(op, |op| op.run(&mut reader, &self.writer));
        }
        self.turn.fetch_add(1, Ordering::Relaxed);
        (log, reader)
    }
}

/// Says which scenario it was when a model panics; loom may end the process before anybody else can.
struct Announce<'a>(&'a str, &'a Scenario);

impl Drop for Announce<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{} panicked in\n{:?}", self.0, self.1);
        }
    }
}

/// Explores a scenario. Returns the number of interleavings, whether that is all of them, and what is wrong with the
/// first one that cannot be explained.
fn explore<R: Registry>(scenario: &Scenario, duration_max: Duration) -> (usize, bool, Option<String>) {
    let mut builder = Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(2));
    builder.max_branches = BRANCHES_MAX;
    // How often loom looks at the next line.
    builder.checkpoint_interval = 1_000;
    builder.max_permutations = builder.max_permutations.or(Some(INTERLEAVINGS_MAX));
    builder.max_duration = builder.max_duration.or(Some(duration_max));
    let (max, time_max, began) = (builder.max_permutations, builder.max_duration, Instant::now());
    let interleavings = Arc::new(AtomicUsize::new(0));
    let found = Arc::new(Mutex::new(None));
    let (scenario, count, finding) = (scenario.clone(), Arc::clone(&interleavings), Arc::clone(&found));
    builder.check(move || {
        let _announce = Announce(R::NAME, &scenario);
        let number = count.fetch_add(1, Ordering::Relaxed) + 1;
        let stage = Arc::new(Stage::<R>::new());
        let reader = || stage.registry.reader();
        let mut ran = vec![stage.run(0, reader(), &scenario.before)];
        let others: Vec<_> = (1..scenario.threads.len())
            .map(|at| {
                let (stage, reader, ops) = (Arc::clone(&stage), reader(), scenario.threads[at].clone());
                thread::spawn(move || stage.run(at, reader, &ops))
            })
            .collect();
        ran.push(stage.run(0, reader(), &scenario.threads[0]));
        ran.extend(others.into_iter().map(|other| other.join().expect("a thread panicked")));
        let (logs, readers): (Vec<_>, Vec<_>) = ran.into_iter().unzip();
        drop(readers);
        let mut finding = finding.lock().unwrap_or_else(PoisonError::into_inner);
        if finding.is_none() {
            let violation = linearize::check(&Model::default(), &history(logs)).violation();
            *finding =
                violation.map(|violation| format!("{} in interleaving {number}: {violation}{scenario:?}", R::NAME));
        }
    });
    let found = found.lock().unwrap_or_else(PoisonError::into_inner).take();
    let interleavings = interleavings.load(Ordering::Relaxed);
    let is_explored = max.is_none_or(|max| interleavings + 1 < max) && time_max.is_none_or(|max| began.elapsed() < max);
    (interleavings, is_explored, found)
}

/// Explores scenarios and says how many interleavings that were.
fn all_linearizable<R: Registry>(title: &str, scenarios: &[Scenario]) {
    let (start, mut interleavings, mut left) = (Instant::now(), 0, 0);
    for scenario in scenarios {
        let (explored, is_explored, violation) =
            explore::<R>(scenario, TEST_DURATION_MAX / u32::try_from(scenarios.len()).expect("few"));
        interleavings += explored;
        left += usize::from(!is_explored);
        if let Some(violation) = violation {
            panic!("{violation}");
        }
    }
    let (count, took) = (scenarios.len(), start.elapsed().as_secs_f64());
    println!(
        "{:10} {title:16} {count:3} scenarios {interleavings:7} interleavings {took:6.1} s, {left} scenarios not to the end",
        R::NAME
    );
}

fn register(broker: u8, version: u8, at: u64) -> Op {
    Op::Register { broker, version, topics: 2, at }
}

/// One change beside one query.
fn smallest() -> Vec<Scenario> {
    let scenario =
        |writer, reader| Scenario { before: vec![register(0, 1, 400)], threads: vec![vec![writer], vec![reader]] };
    vec![
        scenario(register(0, 2, 400), Op::Route(0)),
        scenario(Op::Unregister(0), Op::AllTopics),
        scenario(Op::Expire { at: 1_600 }, Op::Beat { broker: 0, at: 1_200 }),
    ]
}

/// A reader of several topics and tables beside a writer that changes all of them: L1 and L2 of the newest value, D1 to D3
/// of the two versions of a topic, I1, I2 and I5 of the epoch's pointer.
fn several_queries() -> Vec<Scenario> {
    let scenario = |before: &[Op], writer: &[Op], reader: &[Op]| Scenario {
        before: before.to_vec(),
        threads: vec![writer.to_vec(), reader.to_vec()],
    };
    let both = [register(0, 1, 1), register(1, 1, 1)];
    vec![
        scenario(&both[..1], &[register(0, 2, 1), register(0, 3, 1)], &[Op::Route(0), Op::Route(1)]),
        scenario(&both[..1], &[register(0, 2, 1), register(0, 3, 1)], &[Op::Route(1), Op::AllTopics, Op::Route(0)]),
        scenario(&[], &[register(0, 1, 1), register(1, 1, 1)], &[Op::AllTopics, Op::ClusterInfo, Op::Route(0)]),
        scenario(&both, &[Op::Unregister(0), Op::Wipe(1)], &[Op::Route(0), Op::Members(0), Op::Route(1)]),
        scenario(&both[..1], &[Op::Unregister(0), register(0, 2, 1)], &[Op::AllTopics, Op::Route(1)]),
        scenario(&both[..1], &[Op::Delete(0), register(1, 1, 1), Op::Delete(1)], &[Op::TopicsOfCluster, Op::Route(0)]),
        scenario(&both[..1], &[Op::Delete(0), Op::Wipe(0), register(0, 2, 1)], &[Op::Route(0)]),
        scenario(&both, &[Op::Disconnect(0), Op::Expire { at: 5_000 }], &[Op::ClusterInfo, Op::AllTopics]),
    ]
}

/// Readers whose thread is the first: it can be stopped twice at no more than two preemptions, in the middle of a change
/// and after several (D2, D3).
fn overtaken() -> Vec<Scenario> {
    let scenario = |before: &[Op], reader: &[Op], writer: &[Op]| Scenario {
        before: before.to_vec(),
        threads: vec![reader.to_vec(), writer.to_vec()],
    };
    let both = [register(0, 1, 1), register(1, 1, 1)];
    vec![
        scenario(&both[..1], &[Op::Route(0)], &[Op::Delete(0), Op::Wipe(0)]),
        scenario(&both[..1], &[Op::AllTopics], &[Op::Delete(0), Op::Wipe(0)]),
        scenario(&both, &[Op::Route(0)], &[Op::Unregister(0), Op::Wipe(1)]),
        scenario(&both[..1], &[Op::AllTopics], &[Op::DeleteBoth, Op::Wipe(0)]),
        scenario(&both[..1], &[Op::Route(1)], &[Op::Wipe(0), Op::Add(0), Op::Wipe(0), Op::Add(0)]),
        scenario(&both[..1], &[Op::Route(0)], &[register(0, 2, 1), register(0, 3, 1), register(0, 4, 1)]),
    ]
}

/// Two readers, who must not see two changes in two orders, or one of them and then none: L3, and I2 with two readers pinned.
fn two_readers() -> Vec<Scenario> {
    let scenario = |writer: &[Op], readers: [&[Op]; 2]| Scenario {
        before: vec![register(0, 1, 1)],
        threads: vec![writer.to_vec(), readers[0].to_vec(), readers[1].to_vec()],
    };
    vec![
        scenario(&[register(0, 2, 1)], [&[Op::Route(0)], &[Op::Route(1)]]),
        scenario(&[register(1, 1, 1)], [&[Op::ClusterInfo], &[Op::AllTopics]]),
    ]
}

/// Heartbeats beside the removal of the broker: one that was answered in time saves it.
fn heartbeats() -> Vec<Scenario> {
    let (in_time, too_late) = (Op::Beat { broker: 0, at: 1_200 }, Op::Beat { broker: 0, at: 400 });
    let expire = Op::Expire { at: 1_600 };
    let scenario = |threads: &[&[Op]]| Scenario {
        before: vec![register(0, 1, 400)],
        threads: threads.iter().map(|ops| ops.to_vec()).collect(),
    };
    vec![
        scenario(&[&[expire], &[in_time, Op::Members(0)]]),
        scenario(&[&[expire, Op::Members(0)], &[in_time]]),
        scenario(&[&[expire], &[too_late, in_time, Op::Route(0)]]),
        scenario(&[&[expire, register(0, 1, 1_600)], &[in_time, Op::ClusterInfo]]),
        scenario(&[&[expire, Op::Members(0)], &[register(0, 1, 1_600), Op::Members(0)]]),
        scenario(&[&[Op::Disconnect(0), register(0, 2, 400), expire], &[in_time, Op::Members(0)]]),
        scenario(&[&[expire], &[in_time], &[too_late]]),
    ]
}

fn random_scenarios() -> impl Strategy<Value = Scenario> {
    (vec(writes(), 1..3), vec(writes(), 1..4), vec(reads(), 1..4))
        .prop_map(|(before, writer, reader)| Scenario { before, threads: vec![writer, reader] })
}

fn random<R: Registry>() {
    let count = std::env::var("LOOM_SCENARIOS").map_or(RANDOM_SCENARIOS, |count| count.parse().expect("a number"));
    all_linearizable::<R>("random", &values(&random_scenarios(), count));
}

macro_rules! models {
    ($($module:ident: $registry:path;)*) => {
        $(mod $module {
            #[test]
            fn smallest() {
                super::all_linearizable::<$registry>("smallest", &super::smallest());
            }

            #[test]
            fn several_queries() {
                super::all_linearizable::<$registry>("several queries", &super::several_queries());
            }

            #[test]
            fn overtaken() {
                super::all_linearizable::<$registry>("overtaken", &super::overtaken());
            }

            #[test]
            fn two_readers() {
                super::all_linearizable::<$registry>("two readers", &super::two_readers());
            }

            #[test]
            fn heartbeats() {
                super::all_linearizable::<$registry>("heartbeats", &super::heartbeats());
            }

            #[test]
            fn random() {
                super::random::<$registry>();
            }
        })*
    };
}
backends::strategies!(models);

/// Random scenarios for each strategy.
const RANDOM_SCENARIOS: usize = 40;

#[test]
fn maps_without_a_protocol_are_found_out() {
    let mut found = several_queries()
        .iter()
        .filter_map(|scenario| explore::<DirtyRegistry>(scenario, TEST_DURATION_MAX).2)
        .collect::<Vec<_>>();
    println!("{} scenarios show that maps without a protocol are not linearizable, for example:", found.len());
    println!("{}", found.pop().expect("a dirty read is found"));
}
