//! X7: names that collide in hash tables of others cost no more than any names.

use std::collections::HashMap;
use std::hash::BuildHasher;
use std::io::Write;
use std::thread;
use std::time::{Duration, Instant};

use foldhash::fast::FixedState;

use crate::peers::{best_of, next};
use crate::report::at_most;
use crate::support::broker::{Broker, Topic, route};
use crate::support::frame::{ANSWER_TIMEOUT, Client};
use crate::support::ours;
use crate::support::process::Settings;

const NAMES: usize = 100_000;
const ROUNDS: usize = 3;

/// Names of equal length whose hashes have the same low bits, with a hasher whose seeds everybody knows: they begin at a
/// handful of places of a table.
fn crafted_for_a_fixed_seed() -> Vec<String> {
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let finders: Vec<_> = (0..threads).map(|first| thread::spawn(move || find_crafted(first, threads))).collect();
    let mut names: Vec<_> = finders.into_iter().flat_map(|finder| finder.join().expect("names")).collect();
    names.truncate(NAMES);
    names
}

/// A part of these names: of the candidates from `first` on, every `step`-th.
fn find_crafted(first: usize, step: usize) -> Vec<String> {
    const BITS: u32 = 14;
    let hasher = FixedState::default();
    let mut found = Vec::new();
    let mut name = *b"crafted-00000000";
    for number in (first as u64..).step_by(step) {
        if found.len() == NAMES.div_ceil(step) {
            break;
        }
        // Eight letters of 32.
        for (place, letter) in name[8..].iter_mut().enumerate() {
            *letter = b"abcdefghijklmnopqrstuvwxyz012345"[(number >> (5 * place) & 31) as usize];
        }
        let text = str::from_utf8(&name).expect("letters");
        if hasher.hash_one(text).trailing_zeros() >= BITS {
            found.push(text.to_owned());
        }
    }
    found
}

/// Names whose `String.hashCode` of Java is the same for all of them.
fn crafted_for_java() -> Vec<String> {
    let name = |number: usize| (0..17).map(|bit| if number >> bit & 1 == 0 { "Aa" } else { "BB" }).collect();
    (0..NAMES).map(name).collect()
}

/// Names of this length that nobody has chosen.
fn ordinary(length: usize) -> Vec<String> {
    let hasher = FixedState::with_seed(1);
    let name = |number: usize| format!("{:016x}{:018x}", hasher.hash_one(number), hasher.hash_one(!number));
    (0..NAMES).map(|number| name(number)[..length].to_owned()).collect()
}

/// How long it takes to register the names, to register them again in another state, and to look them all up.
fn time_of(names: &[String]) -> (Duration, Duration) {
    let server = ours::start(&Settings::default());
    let mut client = Client::connect(server.addr());
    let topics = names.iter().map(|name| Topic { name: name.clone(), queues: 8, perm: 6 }).collect();
    let broker = Broker { topics, ..Broker::new("b", 0, "10.0.0.1:10911", &[]) };
    let body = broker.parts().zlib();
    let start = Instant::now();
    for counter in 1..3 {
        let request = broker.clone().at(counter).with("compressed", "true").register_body(body.clone());
        let answer = client.call(&request);
        assert_eq!(answer.code(), 0, "{}", answer.show());
    }
    let registered = start.elapsed();

    let questions: Vec<u8> = names.iter().step_by(2).flat_map(|name| route(name).encode()).collect();
    let mut stream = client.stream().try_clone().expect("a second handle");
    let start = Instant::now();
    let sender = thread::spawn(move || stream.write_all(&questions));
    for _ in 0..names.len() / 2 {
        assert_eq!(next(&mut client, ANSWER_TIMEOUT).expect("an answer").code(), 0);
    }
    sender.join().expect("sent").expect("the server reads");
    (registered, start.elapsed())
}

#[test]
#[ignore = "measures times"]
fn names_that_collide_elsewhere_cost_no_more() {
    for (what, names) in [("a fixed seed", crafted_for_a_fixed_seed()), ("Java", crafted_for_java())] {
        assert_eq!(names.len(), NAMES);
        assert_eq!(names.iter().map(|name| (name, ())).collect::<HashMap<_, _>>().len(), NAMES, "they differ");
        let ordinary = ordinary(names[0].len());
        let part = |times: &dyn Fn() -> (Duration, Duration)| {
            let mut lookups = Vec::new();
            let register = best_of(ROUNDS, || {
                let (register, lookup) = times();
                lookups.push(lookup);
                register
            });
            (register, lookups.into_iter().min().expect("rounds"))
        };
        let (usual_register, usual_lookup) = part(&|| time_of(&ordinary));
        let (register, lookup) = part(&|| time_of(&names));
        let limit = |usual: Duration| (usual * 3).as_millis();
        let names = format!("100,000 names crafted for {what}");
        at_most("X7", &format!("ms to register {names}, twice"), register.as_millis(), limit(usual_register));
        at_most("X7", &format!("ms to look up half of {names}"), lookup.as_millis(), limit(usual_lookup));
    }
}
