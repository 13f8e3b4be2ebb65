//! The two clocks: a monotonic one for everything that expires, and the wall's for what brokers compare.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use registry_core::Millis;

/// The process's clock. A jump of the wall clock moves nothing but [`wall_ms`](Self::wall_ms).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    start: Instant,
}

impl Clock {
    /// A clock that starts now.
    pub(crate) fn start() -> Self {
        Self { start: Instant::now() }
    }

    /// Milliseconds since the start, plus one: no time is zero.
    pub(crate) fn now(&self) -> Millis {
        Millis(u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX - 1).saturating_add(1))
    }

    /// Milliseconds since 1970 by the wall clock.
    pub(crate) fn wall_ms(&self) -> i64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
    }
}
