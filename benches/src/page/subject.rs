//! Whose values they are: names, the order in which they stand, and the place in the palette.

pub(crate) use crate::results::BACKENDS;

/// The strategy that is built without a feature, and that the goals are about.
pub(crate) const DEFAULT_BACKEND: &str = BACKENDS[0];
/// The program that does the least.
pub(crate) const FLOOR: &str = "floor";
/// Concurrent maps without a protocol: what no lock at all would give, wrong answers included.
pub(crate) const DIRTY: &str = "dirty";
/// The subject of the official server starts so; its release follows.
pub(crate) const OFFICIAL: &str = "official";
/// The subject of the other server in Rust starts so.
pub(crate) const ROCKETMQ_RUST: &str = "rocketmq-rust";

/// Places of the palette in `style.css`; the last ones are for subjects that are not known here.
pub(crate) const SLOTS: usize = 12;

const FLOOR_SLOT: usize = BACKENDS.len();
const FREE_SLOT: usize = FLOOR_SLOT + 4;

/// The floor in process: a registry that never changes for its readers.
const FROZEN: &str = "frozen";

/// Whether it is the floor, of so many workers or in process.
pub(crate) fn is_floor(subject: &str) -> bool {
    subject == FLOOR || subject == FROZEN || subject.starts_with("floor ")
}

/// Whether it is another program.
pub(crate) fn is_peer(subject: &str) -> bool {
    subject.starts_with(OFFICIAL) || subject.starts_with(ROCKETMQ_RUST)
}

/// The place in the palette, and in lists: the same in all charts.
pub(crate) fn slot(subject: &str) -> usize {
    if let Some(place) = BACKENDS.iter().position(|&backend| backend == subject) {
        return place;
    }
    match subject {
        _ if is_floor(subject) => FLOOR_SLOT,
        DIRTY => FLOOR_SLOT + 1,
        _ if subject.starts_with(OFFICIAL) => FLOOR_SLOT + 2,
        _ if subject.starts_with(ROCKETMQ_RUST) => FLOOR_SLOT + 3,
        other => FREE_SLOT + other.bytes().map(usize::from).sum::<usize>() % (SLOTS - FREE_SLOT),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_subjects_have_places_of_their_own() {
        let known = ["rwlock", "dashmap", "left-right", "epoch", "cached", "floor", "dirty", "official 5.5.0"];
        for (place, subject) in known.iter().enumerate() {
            assert_eq!(slot(subject), place, "{subject}");
        }
        assert_eq!(slot("floor 2 workers"), slot("floor"));
        assert!((9..SLOTS).contains(&slot("something new")));
    }
}
