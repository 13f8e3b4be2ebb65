//! Which parts are measured, at how many topics, and for how long.

use std::{fmt, time::Duration};

use super::{Change, Mix, machine, memory};

/// What is measured, and how long everything takes.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) rounds: usize,
    /// Length of a round of the open loop.
    pub(super) open: Duration,
    /// How often such a round is made again, when other programs had the processors.
    pub(super) repeats_max: usize,
    /// Length of a round of everything that goes on without a pause.
    pub(super) closed: Duration,
    /// Slices of a round in which the writer's stalls are looked for.
    pub(super) stall_slices: usize,
    /// Changes of a round that another thread has to see.
    pub(super) visible_changes: usize,
    pub(super) sizes: Vec<Size>,
    /// Sizes whose memory is measured, ...
    pub(super) memory_topics: Vec<usize>,
    /// ... and how often.
    pub(super) memory_rounds: usize,
}

/// A number of topics and what is measured with it.
#[derive(Clone, Debug)]
pub(super) struct Size {
    pub(super) topics: usize,
    pub(super) parts: Vec<Part>,
}

/// One measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// Reads that are due at random times.
    OpenLoop(Mix),
    /// So many threads that read without a pause.
    ClosedLoop(Mix, usize),
    /// Changes, while so many threads read without a pause.
    Changes(Change, usize),
    /// Changes of one topic over time, while two threads read without a pause.
    Stalls,
    /// Changes that another thread has to see.
    Visibility,
}

/// Readers beside which the writer's stalls are looked for.
pub(super) const STALL_READERS: usize = 2;

impl Plan {
    pub(super) fn new(is_quick: bool) -> Self {
        let ms = Duration::from_millis;
        let full = Self {
            rounds: 9,
            open: ms(100),
            repeats_max: 2,
            closed: ms(40),
            stall_slices: 30,
            visible_changes: 200,
            sizes: vec![Size::of(1_000, is_allowed), Size::of(10_000, is_allowed), Size::of(100_000, is_allowed)],
            memory_topics: vec![10_000, 100_000],
            memory_rounds: 2,
        };
        if !is_quick {
            return full;
        }
        Self {
            rounds: 3,
            open: ms(40),
            repeats_max: 0,
            closed: ms(15),
            stall_slices: 10,
            visible_changes: 50,
            sizes: full.sizes.into_iter().filter(|size| size.topics < 100_000).collect(),
            memory_topics: vec![10_000],
            memory_rounds: 1,
        }
    }

    /// Calls of the progress that count.
    pub(super) fn steps(&self) -> usize {
        let parts: usize = self.sizes.iter().map(|size| size.parts.len()).sum();
        parts * self.rounds + self.memory_topics.len() * memory::STRATEGIES.len()
    }

    #[cfg(test)]
    pub(super) fn for_tests() -> Self {
        let (open, closed) = (Duration::from_millis(5), Duration::from_millis(3));
        let mut size = Size::of(10_000, |_| true);
        size.topics = 50;
        Self { rounds: 2, open, closed, stall_slices: 3, visible_changes: 5, sizes: vec![size], ..Self::new(true) }
    }
}

impl Size {
    /// Everything at the size in the middle, at the others what may depend on the number of topics.
    fn of(topics: usize, is_allowed: fn(Part) -> bool) -> Self {
        let mut parts = Vec::new();
        if topics == 10_000 {
            parts.extend(Mix::ALL.map(Part::OpenLoop));
            parts.extend([1, 2, 4].map(|threads| Part::ClosedLoop(Mix::Lookups, threads)));
            parts.extend([1, 2].map(|threads| Part::ClosedLoop(Mix::Registrations, threads)));
            parts.extend(
                Change::ALL.into_iter().flat_map(|change| [0, 2].map(|readers| Part::Changes(change, readers))),
            );
            parts.extend([Change::OneTopic, Change::Registration].map(|change| Part::Changes(change, 1)));
            parts.extend([Part::Stalls, Part::Visibility]);
        } else {
            parts.extend([Mix::Lookups, Mix::Registrations].map(Part::OpenLoop));
            parts.extend([1, 2].map(|threads| Part::ClosedLoop(Mix::Lookups, threads)));
            parts.extend(Change::ALL.map(|change| Part::Changes(change, 0)));
        }
        parts.retain(|&part| is_allowed(part));
        Self { topics, parts }
    }
}

/// Whether the scheduler lets everybody run. Threads of a real-time class that never pause leave nothing for one more.
fn is_allowed(part: Part) -> bool {
    let threads = match part {
        Part::ClosedLoop(mix, threads) => threads + usize::from(mix != Mix::Lookups),
        Part::Changes(_, readers) => readers + 1,
        Part::Stalls => STALL_READERS + 1,
        Part::OpenLoop(_) | Part::Visibility => 2,
    };
    threads <= machine::cores() || !machine::is_real_time()
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OpenLoop(mix) => write!(f, "open loop, {}", mix.name()),
            Self::ClosedLoop(mix, threads) => write!(f, "{threads} readers, {}", mix.name()),
            Self::Changes(change, readers) => write!(f, "changes under {readers} readers, {}", change.name()),
            Self::Stalls => f.write_str("stalls of the writer"),
            Self::Visibility => f.write_str("visibility"),
        }
    }
}
