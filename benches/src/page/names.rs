//! Names of conditions that are numbers in a file of results.

/// Loads of the comparison in process, by their number. The first one changes nothing.
const MIXES: [&str; 5] = ["steady", "rolling restart", "avalanche", "topic storm", "admin scan"];
/// The mix without any change.
pub(crate) const STEADY: f64 = 0.0;
/// Changes of the writer, by their number.
const CHANGES: [&str; 4] = ["topic", "wipe", "address", "register"];
/// Operations whose instructions are counted, by their number.
const OPERATIONS: [&str; 14] = [
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
    "registration of 1,000 topics, whole server, seen before",
];

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

    #[test]
    fn a_number_without_a_name_is_shown() {
        assert_eq!(mix(STEADY), "steady");
        assert_eq!(mix(99.0), "mix 99");
        assert_eq!(change(-1.0), "change -1");
        assert_eq!(operation(0.5), "operation 0.5");
    }
}
