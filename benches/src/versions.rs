//! Versions of brokers that register again and again, as routes show them.

use std::sync::atomic::{AtomicU32, Ordering};

/// Versions that the queues of a topic tell apart.
pub const VERSIONS: u32 = 9_000;
/// Queues have four digits, so that a route keeps its length.
const QUEUES_MIN: u32 = 1_000;

/// `readQueueNums` and `writeQueueNums` of every topic at this version: four digits, the same again after [`VERSIONS`].
pub fn queues_of(version: u32) -> u32 {
    QUEUES_MIN + version % VERSIONS
}

/// Says whether topics with `queues` are older than those with `floor`, both of [`queues_of`]: of the two ways around the
/// circle the shorter one counts.
pub fn is_older(queues: u32, floor: u32) -> bool {
    (queues + VERSIONS - floor) % VERSIONS >= VERSIONS / 2
}

/// The newest version of each broker that was acknowledged: a route that is asked for later shows it or a newer one.
#[derive(Debug)]
pub struct Versions {
    brokers: Vec<(String, AtomicU32)>,
}

impl Versions {
    /// Of brokers with these names, all at the same version.
    pub fn new(names: impl IntoIterator<Item = String>, version: u32) -> Self {
        Self { brokers: names.into_iter().map(|name| (name, version.into())).collect() }
    }

    /// The names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.brokers.iter().map(|(name, _)| &**name)
    }

    /// The newest version of the broker at this place.
    pub fn acknowledged(&self, place: usize) -> u32 {
        self.brokers[place].1.load(Ordering::Acquire)
    }

    /// A registration with this version was answered with success.
    pub fn acknowledge(&self, place: usize, version: u32) {
        self.brokers[place].1.fetch_max(version, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_told_apart_until_they_repeat() {
        assert_eq!((queues_of(0), queues_of(8_999), queues_of(9_000)), (1_000, 9_999, 1_000));
        for (version, floor, older) in
            [(5, 5, false), (6, 5, false), (5, 6, true), (9_001, 8_999, false), (8_999, 9_001, true)]
        {
            assert_eq!(is_older(queues_of(version), queues_of(floor)), older, "{version} {floor}");
        }
    }

    #[test]
    fn the_newest_counts() {
        let versions = Versions::new(["a".into(), "b".into()], 7);
        versions.acknowledge(1, 9);
        versions.acknowledge(1, 8);
        assert_eq!((versions.acknowledged(0), versions.acknowledged(1)), (7, 9));
        assert!(versions.names().eq(["a", "b"]));
    }
}
