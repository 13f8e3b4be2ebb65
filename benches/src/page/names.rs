//! Names of conditions that are numbers in a file of results.

use super::unit::exact;

/// What is done to the registry while it is read, by its number: short names for charts.
const MIXES: [&str; 4] = ["lookups only", "one topic", "registrations", "permission or address"];
/// The mix without any change.
pub(crate) const STEADY: f64 = 0.0;
/// The mix in which a broker registers up to 10,000 topics, all of them changed, every 10 ms.
pub(crate) const RE_REGISTRATION: f64 = 2.0;
/// So many topics change in it at most.
const RE_REGISTERED: f64 = 1e4;
/// Changes of the writer, by their number.
const CHANGES: [&str; 5] = ["one topic", "permission", "address", "address, compared", "registration"];
/// A broker's permission is taken away or given back.
pub(crate) const PERMISSION: f64 = 1.0;
/// A broker returns under another address.
pub(crate) const ADDRESS: f64 = 2.0;
/// Operations whose instructions are counted, by their number.
const OPERATIONS: [&str; 13] = [
    "route of a topic, without its frame",
    "JSON header read",
    "binary header read",
    "frame cut",
    "answer written",
    "heartbeat",
    "registration of 1,000 topics, unchanged",
    "registration of 1,000 topics, all changed",
    "body of a registration of 1,000 topics read",
    "wipe of 1,000 topics",
    "list of 1,000 topics",
    "route query, whole server, one at a time",
    "route query, whole server, four at a time",
];

/// Of so many topics those that change in this mix.
pub(crate) fn changing(topics: f64) -> String {
    format!("{} of {} topics", exact(topics.min(RE_REGISTERED)), exact(topics))
}

pub(crate) fn mix(number: f64) -> String {
    name(&MIXES, number, "mix")
}

pub(crate) fn change(number: f64) -> String {
    name(&CHANGES, number, "change")
}

pub(crate) fn operation(number: f64) -> String {
    name(&OPERATIONS, number, "operation")
}

fn name(names: &[&str], number: f64, what: &str) -> String {
    let index = (number >= 0.0 && number.fract() == 0.0).then_some(number as usize);
    let name = index.and_then(|index| names.get(index));
    name.map_or_else(|| format!("{what} {number}"), |&name| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        instructions::Operation,
        matrix::{Change, Mix},
    };

    #[test]
    fn numbers_are_those_of_who_measures() {
        let lengths = [Mix::ALL.len(), Change::ALL.len(), Operation::ALL.len()];
        assert_eq!([MIXES.len(), CHANGES.len(), OPERATIONS.len()], lengths);
        assert_eq!([STEADY, RE_REGISTRATION], [Mix::Lookups.index(), Mix::Registrations.index()]);
        assert_eq!([PERMISSION, ADDRESS], [Change::Permission.index(), Change::Address.index()]);
    }

    #[test]
    fn a_number_without_a_name_is_shown() {
        assert_eq!(mix(STEADY), "lookups only");
        assert_eq!(mix(RE_REGISTRATION), "registrations");
        assert_eq!(changing(1e5), "10,000 of 100,000 topics");
        assert_eq!(changing(1e3), "1,000 of 1,000 topics");
        assert_eq!(mix(99.0), "mix 99");
        assert_eq!(change(-1.0), "change -1");
        assert_eq!(operation(0.5), "operation 0.5");
    }
}
