//! How often a line may be written that a peer causes.

use std::{
    sync::{
        LazyLock, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

use tracing::{Level, error, info, warn};

/// Lines of one kind at once, and then in a minute: enough to see what happens and from where, while a peer that causes
/// it for a day writes 2 MB and not the disk full. (Each is counted all the same, see [`counters`](crate::counters).)
const LINES_PER_MINUTE: u64 = 10;
const MINUTE_MS: u64 = 60_000;

/// The limit of one kind of line, which peers can cause as often as they like.
///
/// ```text
/// static IGNORED: Limit = Limit::new(Level::INFO, "registration_ignored");
/// if IGNORED.admits() {
///     info!(broker_id, "registration ignored");
/// }
/// ```
///
/// What is left out is counted, and its number is said once a minute. Any thread may ask; nobody waits.
#[derive(Debug)]
pub(crate) struct Limit {
    reason: &'static str,
    level: Level,
    lines_per_minute: u64,
    /// When the allowance is whole again, in milliseconds of [`now_ms`]: each line moves it by its share of a minute, and
    /// none may move it further ahead than a minute.
    whole_at: AtomicU64,
    left_out: AtomicU64,
}

/// The limits that have left lines out since the last summary.
static EXCEEDED: Mutex<Vec<&'static Limit>> = Mutex::new(Vec::new());

impl Limit {
    /// Ten lines at once, and ten a minute. `level` is that of the line, `reason` tells it from others.
    pub(crate) const fn new(level: Level, reason: &'static str) -> Self {
        let (whole_at, left_out) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { reason, level, lines_per_minute: LINES_PER_MINUTE, whole_at, left_out }
    }

    /// One line a minute.
    pub(crate) const fn once_a_minute(level: Level, reason: &'static str) -> Self {
        Self { lines_per_minute: 1, ..Self::new(level, reason) }
    }

    /// Whether the line may be written; one that may not is counted.
    pub(crate) fn admits(&'static self) -> bool {
        let is_admitted = self.admits_at(now_ms());
        if !is_admitted && self.left_out.fetch_add(1, Ordering::Relaxed) == 0 {
            EXCEEDED.lock().unwrap_or_else(PoisonError::into_inner).push(self);
        }
        is_admitted
    }

    fn admits_at(&self, now: u64) -> bool {
        let share = MINUTE_MS / self.lines_per_minute;
        let next = |whole_at: u64| {
            let next = whole_at.max(now) + share;
            (next <= now + MINUTE_MS).then_some(next)
        };
        self.whole_at.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).is_ok()
    }

    fn say_left_out(&self) {
        let (reason, lines) = (self.reason, self.left_out.swap(0, Ordering::Relaxed));
        match self.level {
            Level::ERROR => error!(reason, lines, "more lines of this kind are left out"),
            Level::WARN => warn!(reason, lines, "more lines of this kind are left out"),
            _ => info!(reason, lines, "more lines of this kind are left out"),
        }
    }
}

/// Says how many lines were left out since the last time.
pub(super) fn say_left_out() {
    let exceeded = std::mem::take(&mut *EXCEEDED.lock().unwrap_or_else(PoisonError::into_inner));
    exceeded.into_iter().for_each(Limit::say_left_out);
}

fn now_ms() -> u64 {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    START.elapsed().as_millis() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many of a line each millisecond are admitted, from `start` on.
    fn admitted(limit: &Limit, start: u64, length: u64) -> usize {
        (start..start + length).filter(|&now| limit.admits_at(now)).count()
    }

    #[test]
    fn ten_at_once_and_ten_a_minute() {
        let limit = Limit::new(Level::INFO, "test");
        assert_eq!(admitted(&limit, 5, 1_000), 10);
        assert_eq!(admitted(&limit, 1_005, MINUTE_MS), 10);
        assert_eq!(admitted(&limit, 1_005 + MINUTE_MS, 10 * MINUTE_MS), 100);
        assert_eq!(admitted(&limit, 100 * MINUTE_MS, 1_000), 10, "after a rest all at once again");
    }

    #[test]
    fn once_a_minute() {
        let limit = Limit::once_a_minute(Level::WARN, "test");
        assert_eq!(admitted(&limit, 0, MINUTE_MS), 1);
        assert_eq!(admitted(&limit, MINUTE_MS, 5 * MINUTE_MS), 5);
    }

    #[test]
    fn what_is_left_out_is_counted() {
        static LIMIT: Limit = Limit::new(Level::INFO, "test");
        assert_eq!((0..30).filter(|_| LIMIT.admits()).count(), 10);
        assert_eq!(LIMIT.left_out.load(Ordering::Relaxed), 20);
        say_left_out();
        assert_eq!(LIMIT.left_out.load(Ordering::Relaxed), 0);
        assert!(!LIMIT.admits());
        assert_eq!(LIMIT.left_out.load(Ordering::Relaxed), 1, "and again");
    }
}
