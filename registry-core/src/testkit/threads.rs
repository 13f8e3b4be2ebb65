//! Real threads on a strategy: what its readers see while its writer writes, counted.
//!
//! The writer registers one broker again and again; version v is the port of its address (in the root) and the number
//! of read queues of all its topics (in the topics). Between, a second broker comes and goes. So every answer tells the
//! state that it was made from, and the readers compare it with what was acknowledged and seen before they asked. Every
//! fourth time two versions are published as one change, as a server does with commands that came together.

use std::{
    ops::RangeInclusive,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
};

use super::fixture::{Broker, table};
use crate::{
    Command, KeyStyle, Millis, Outcome, Publisher, QueueSettings, Reader, Registry, TableLimits, View, Writer,
    query::{self, Heartbeat},
};

const TOPICS: [&str; 12] = ["t00", "t01", "t02", "t03", "t04", "t05", "t06", "t07", "t08", "t09", "t10", "t11"];

/// What the readers of a [`storm`] have seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// Answers looked at.
    pub reads: u64,
    /// Answers of two states, and queries that met one and panicked.
    pub torn: u64,
    /// Answers older than one that somebody had before.
    pub time_travel: u64,
    /// Answers older than what was acknowledged before the question.
    pub stale: u64,
    /// Answers with the second broker while it was gone, or without it while it was there.
    pub ghosts: u64,
}

impl Findings {
    /// The same without any violation.
    #[must_use]
    pub fn clean(self) -> Self {
        Self { reads: self.reads, ..Self::default() }
    }

    fn add(&mut self, other: Self) {
        self.reads += other.reads;
        self.torn += other.torn;
        self.time_travel += other.time_travel;
        self.stale += other.stale;
        self.ghosts += other.ghosts;
    }
}

/// What writer and readers tell each other, outside the registry.
#[derive(Default)]
struct Board {
    /// The latest version whose registration has been answered.
    acknowledged: AtomicU64,
    /// The latest version that a reader has seen.
    seen: AtomicU64,
    /// Steps of the second broker, modulo 4: gone, coming, there, going.
    second: AtomicU64,
    /// Answers that the readers have had.
    answers: AtomicU64,
    is_over: AtomicBool,
}

/// How many answers a storm waits for, where the readers' threads start late.
const ANSWERS_MIN: u64 = 500;

/// Lets one writer publish `versions` versions while `readers` threads read, or more, until they have read something.
/// Stops at the first reader's finding of `enough` violations.
///
/// # Panics
/// When a thread does.
pub fn storm<R: Registry>(versions: u64, readers: usize, enough: u64) -> Findings {
    let (registry, publisher) = R::new();
    let board = Board::default();
    let mut writer = Writer::new(publisher, TableLimits::default());
    write_versions(&mut writer, &board, 1..=1);
    let mut findings = Findings::default();
    thread::scope(|scope| {
        let readers: Vec<_> = (0..readers)
            .map(|at| {
                let (registry, board) = (Arc::clone(&registry), &board);
                scope.spawn(move || read_until_over(registry.reader(), board, at, enough))
            })
            .collect();
        let mut written = 1;
        while written < versions * 100 && !board.is_over.load(Ordering::Relaxed) {
            if written >= versions && board.answers.load(Ordering::Relaxed) >= ANSWERS_MIN {
                break;
            }
            let count = if written.is_multiple_of(4) { 2 } else { 1 };
            write_versions(&mut writer, &board, written + 1..=written + count);
            written += count;
            second_comes_or_goes(&mut writer, &board);
            writer.tick();
        }
        board.is_over.store(true, Ordering::Relaxed);
        for reader in readers {
            findings.add(reader.join().expect("a reader panicked"));
        }
    });
    findings
}

fn write_versions<P: Publisher>(writer: &mut Writer<P>, board: &Board, versions: RangeInclusive<u64>) {
    let last = *versions.end();
    for version in versions {
        let number = i32::try_from(version).expect("few versions");
        let settings = QueueSettings { read_queues: number, ..Default::default() };
        let broker = Broker::new("first", 0, &format!("10.0.0.1:{version}")).version(number.into());
        apply(writer, &broker.table(table(TOPICS, settings)));
    }
    writer.publish();
    board.acknowledged.store(last, Ordering::Release);
}

fn second_comes_or_goes<P: Publisher>(writer: &mut Writer<P>, board: &Board) {
    let broker = Broker::new("second", 0, "10.0.0.2:1").table(table([TOPICS[0], TOPICS[1]], Default::default()));
    let is_gone = board.second.fetch_add(1, Ordering::SeqCst).is_multiple_of(4);
    if is_gone {
        apply(writer, &broker);
        writer.publish();
    } else {
        writer.execute(&Command::Unregister(broker.farewell()), Millis(1));
    }
    board.second.fetch_add(1, Ordering::SeqCst);
}

fn apply<P: Publisher>(writer: &mut Writer<P>, broker: &Broker) {
    let applied = writer.apply(&Command::Register(Box::new(broker.0.clone())), Millis(1));
    assert!(matches!(applied.outcome, Outcome::Registered(_)), "{applied:?}");
}

fn read_until_over(mut reader: impl Reader, board: &Board, at: usize, enough: u64) -> Findings {
    let mut findings = Findings::default();
    let mut turn = at;
    while !board.is_over.load(Ordering::Relaxed) {
        turn += 5;
        let before = (board.acknowledged.load(Ordering::Acquire), board.seen.load(Ordering::Acquire));
        let second = board.second.load(Ordering::SeqCst);
        let topic = (!turn.is_multiple_of(7)).then(|| TOPICS[turn % TOPICS.len()]);
        // A query that meets two states may name a setting that is not there.
        let Ok(body) = catch_unwind(AssertUnwindSafe(|| answer(&mut reader, topic))) else {
            findings.torn += 1;
            continue;
        };
        let is_second_stable = board.second.load(Ordering::SeqCst) == second;
        findings.reads += 1;
        board.answers.fetch_add(1, Ordering::Relaxed);
        judge(&body, topic, before, is_second_stable.then_some(second), &mut findings, board);
        if findings != findings.clean() && findings.torn + findings.time_travel + findings.stale >= enough {
            board.is_over.store(true, Ordering::Relaxed);
        }
    }
    findings
}

/// A route, or the cluster info.
fn answer(reader: &mut impl Reader, topic: Option<&str>) -> String {
    let body = reader.read(|view| {
        let mut body = Vec::new();
        match topic {
            None => query::cluster_info(view.root(), &mut body),
            Some(topic) => {
                let style = KeyStyle::Bare;
                let query = query::RouteQuery { topic, style, acting_master: false, zone: None, order_conf: None };
                query::route(view, &query, &mut body)?;
            }
        }
        Ok(body)
    });
    String::from_utf8(body).expect("answers are UTF-8")
}

fn judge(
    body: &str,
    topic: Option<&str>,
    (acknowledged, seen): (u64, u64),
    second: Option<u64>,
    findings: &mut Findings,
    board: &Board,
) {
    let Some(version) = number_after(body, "10.0.0.1:") else {
        findings.stale += 1;
        return;
    };
    if topic.is_some() && number_after(body, "\"readQueueNums\":") != Some(version) {
        findings.torn += 1;
    }
    findings.stale += u64::from(version < acknowledged);
    findings.time_travel += u64::from(version < seen);
    board.seen.fetch_max(version, Ordering::AcqRel);
    let shows_second = topic.is_none_or(|topic| TOPICS[..2].contains(&topic));
    if let Some(second) = second.filter(|_| shows_second) {
        let lists = body.contains("10.0.0.2:1\"");
        // While it comes or goes, either answer is right.
        findings.ghosts += u64::from((second.is_multiple_of(4) && lists) || (second % 4 == 2 && !lists));
    }
}

fn number_after(body: &str, mark: &str) -> Option<u64> {
    let (_, rest) = body.split_once(mark)?;
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    rest[..digits].parse().ok()
}

/// What became of the heartbeats of a [`heartbeat_storm`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Beats {
    /// Answered in time.
    pub beaten: u64,
    /// Answered in time, and the broker was gone before its timeout.
    pub betrayed: u64,
    /// Told that they were too late, or that the broker is unknown.
    pub told: u64,
    /// Brokers that expired.
    pub expired: u64,
}

/// Lets heartbeats of `threads` threads meet `rounds` expiries of some brokers, or more, until there were both. In each
/// round the clock jumps by more than the timeout, so a broker lives on only if a heartbeat comes between the jump and the
/// expiry.
///
/// # Panics
/// When a thread does.
pub fn heartbeat_storm<R: Registry>(rounds: u64, threads: usize) -> Beats {
    const TIMEOUT_MS: u64 = 1_000;
    let (registry, publisher) = R::new();
    let mut writer = Writer::new(publisher, TableLimits::default());
    let clock = AtomicU64::new(1);
    let heard = AtomicU64::new(0);
    let is_over = AtomicBool::new(false);
    let answered = AtomicU64::new(0);
    // Several, so that between the decision about one and its removal others are looked at.
    let brokers = ["b0", "b1", "b2", "b3"].map(|name| Broker::new(name, 0, name).timeout(1_000));
    let keys: Vec<_> = brokers.iter().map(Broker::key).collect();
    let mut beats = Beats::default();
    let beat_until_over = |mut reader: R::Reader| {
        let mut beats = Beats::default();
        for key in keys.iter().cycle() {
            if is_over.load(Ordering::Relaxed) {
                break;
            }
            let now = clock.load(Ordering::SeqCst);
            heard.fetch_add(1, Ordering::SeqCst);
            if reader.read(|view| Ok(query::heartbeat(view.root(), key, Millis(now)))) != Heartbeat::Beaten {
                beats.told += 1;
                continue;
            }
            beats.beaten += 1;
            answered.fetch_add(1, Ordering::Relaxed);
            let is_there = reader.read(|view| Ok(view.root().live(key).is_some()));
            // No expiry that can have been decided by now counts a time at which the heartbeat is too old.
            if !is_there && clock.load(Ordering::SeqCst) <= now + TIMEOUT_MS {
                beats.betrayed += 1;
            }
        }
        beats
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..threads)
            .map(|_| {
                let (registry, beat) = (Arc::clone(&registry), &beat_until_over);
                scope.spawn(move || beat(registry.reader()))
            })
            .collect();
        for round in 1..=rounds * 100 {
            if round > rounds && beats.expired > 0 && answered.load(Ordering::Relaxed) > 0 {
                break;
            }
            let now = 1 + round * (TIMEOUT_MS + 1);
            for broker in &brokers {
                writer.apply(&Command::Register(Box::new(broker.0.clone())), Millis(now - TIMEOUT_MS - 1));
            }
            writer.publish();
            clock.store(now, Ordering::SeqCst);
            if round.is_multiple_of(2) {
                // Until a heartbeat has come, so that more of them are on their way.
                let before = heard.load(Ordering::SeqCst);
                (0..10_000).take_while(|_| heard.load(Ordering::SeqCst) == before).for_each(|_| thread::yield_now());
            }
            (0..round % 64).for_each(|_| std::hint::spin_loop());
            beats.expired += u64::from(writer.execute(&Command::Expire, Millis(now)).brokers_removed);
            (0..round % 32).for_each(|_| std::hint::spin_loop());
        }
        is_over.store(true, Ordering::Relaxed);
        for thread in threads {
            let found = thread.join().expect("a thread panicked");
            beats.beaten += found.beaten;
            beats.betrayed += found.betrayed;
            beats.told += found.told;
        }
    });
    beats
}
