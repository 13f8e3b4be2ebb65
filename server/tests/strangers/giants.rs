//! B5: tables of the size of the largest clusters that people have.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::beside::{P99, with_topic};
use crate::peers::{MIB, Ongoing, best_of, broker_with, millis};
use crate::report::at_most;
use crate::support::broker::{Broker, request, route};
use crate::support::frame::Client;
use crate::support::ours;
use crate::support::process::Settings;

fn compressed(broker: &Broker) -> Vec<u8> {
    broker.clone().with("compressed", "true").register_body(broker.parts().zlib()).encode()
}

fn registered(client: &mut Client, frame: &[u8]) -> Duration {
    let start = Instant::now();
    client.send(frame);
    let answer =
        crate::peers::next(client, Duration::from_secs(24)).expect("an answer in the time that a broker waits");
    assert_eq!(answer.code(), 0, "{}", answer.show());
    start.elapsed()
}

#[test]
#[ignore = "measures times"]
fn a_broker_with_a_hundred_thousand_topics() {
    const TOPICS: usize = 100_000;
    let (server, _small) = with_topic(&[]);
    let addr = server.addr();
    let before = server.memory("VmRSS");
    let giant = broker_with("giant", "10.0.0.1:10911", "a-topic-with-a-name-of-some-length-", TOPICS);
    let mut client = Client::connect(addr);
    let mut longest = registered(&mut client, &compressed(&giant));
    let per_topic = server.memory("VmRSS").saturating_sub(before) / TOPICS as u64;
    // Each registration is prepared before, so that only the server works.
    let frames: Arc<Vec<_>> = Arc::new((2..8).map(|counter| compressed(&giant.clone().at(counter))).collect());
    for frame in frames.iter() {
        longest = longest.max(registered(&mut client, frame));
    }
    at_most("B5", "ms for a registration of 100,000 topics", millis(longest), 5_000);
    // Some strategies let lookups wait while a change is applied, and this one is large.
    let floor = Duration::from_millis(25);
    P99 { row: "B5", what: "a broker that registers 100,000 topics", ratio: 3, floor }.hold(&server, || {
        let frames = Arc::clone(&frames);
        Ongoing::start(move |done| {
            let mut client = Client::connect(addr);
            for frame in frames.iter().cycle() {
                if done.load(Ordering::Relaxed) {
                    break;
                }
                registered(&mut client, frame);
            }
        })
    });
    at_most("B5", "bytes for each of 100,000 topics", per_topic, 1_024);
}

#[test]
#[ignore = "takes long"]
fn three_hundred_brokers_with_ten_thousand_topics() {
    const BROKERS: u16 = 300;
    const TOPICS: usize = 10_000;
    let server = ours::start(&Settings::default());
    let addr = server.addr();
    let mut connections = Vec::new();
    let mut longest = Duration::ZERO;
    let start = Instant::now();
    for number in 0..BROKERS {
        let host = format!("10.1.{}.{}:10911", number / 200, number % 200);
        let broker = broker_with(&format!("broker-{number}"), &host, "a-topic-with-a-name-of-some-length-", TOPICS);
        let from =
            Ipv4Addr::new(127, 1, u8::try_from(number / 200).expect("few"), u8::try_from(number % 200).expect("few"));
        let mut client = Client::connect_from(from, addr);
        longest = longest.max(registered(&mut client, &compressed(&broker)));
        connections.push(client);
    }
    println!("all registered after {:?}, {} MiB", start.elapsed(), server.memory("VmRSS") / MIB);
    at_most("B5", "ms for the longest of 300 registrations of 10,000 topics", millis(longest), 5_000);
    let mut client = Client::connect(addr);
    let answer = client.call(&route("a-topic-with-a-name-of-some-length-77"));
    assert_eq!(answer.code(), 0);
    at_most("B5", "kB of a route with 300 brokers", answer.bytes.len() / 1_000, 100);
    at_most("B5", "MiB with 300 brokers of 10,000 topics", server.memory("VmHWM") / MIB, 512);
}

#[test]
#[ignore = "measures times"]
fn a_list_of_two_hundred_thousand_topics() {
    let server = ours::start(&Settings::default());
    let addr = server.addr();
    let mut connections = Vec::new();
    for number in 0..2 {
        let prefix = format!("a-topic-with-a-name-of-some-length-{number}-");
        let broker = broker_with(&format!("b{number}"), &format!("10.0.0.{number}:10911"), &prefix, 100_000);
        let mut client = Client::connect(addr);
        registered(&mut client, &compressed(&broker));
        connections.push(client);
    }
    let mut client = Client::connect(addr);
    let longest = best_of(3, || {
        let start = Instant::now();
        let answer = client.call(&request(206, &[]));
        assert!(answer.bytes.len() > 8_000_000, "{} bytes", answer.bytes.len());
        start.elapsed()
    });
    at_most("B5", "ms for a list of 200,000 topics", millis(longest), 1_000);
}
