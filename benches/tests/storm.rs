//! Storms against a name server, and against servers that are slow or leave.

mod requests;
mod support;

use std::{
    net::{SocketAddr, TcpListener, TcpStream},
    thread,
    time::Duration,
};

use benches::{
    client::{Client, Query},
    cluster::{queues_in_route, topic_names},
    faults::Fault,
    load,
    storm::{Storm, StormPlan},
    versions::queues_of,
};
use requests::answer_each;
use server::{
    limits::Limits,
    remoting::{Encoder, SerializeType},
};
use support::NameServer;

const PERIOD: Duration = Duration::from_millis(20);

#[test]
fn a_storm_applies_what_is_due() {
    let server = NameServer::start();
    let storm = Storm::start(server.addr, StormPlan::new(2, 50, PERIOD, true)).unwrap();
    let broker = storm.versions().names().next().unwrap().to_owned();
    let mut client = Client::connect(server.addr).unwrap();
    let first = storm.versions().acknowledged(0);
    let mut seen = Vec::new();
    while storm.progress().1 < 20 {
        let acknowledged = storm.versions().acknowledged(0);
        let route = client.ask(&Query::route(&topic_names(1)[0])).unwrap();
        let digits = queues_in_route(&route, &broker).unwrap();
        let queues: u32 = std::str::from_utf8(&route[digits]).unwrap().parse().unwrap();
        assert!(queues >= queues_of(acknowledged), "{queues} queues after {acknowledged}");
        assert!(seen.last().is_none_or(|&last| last <= queues), "{queues} after {seen:?}");
        seen.push(queues);
        thread::sleep(Duration::from_millis(1));
    }
    seen.dedup();
    assert!(seen.len() > 3 && seen[0] >= queues_of(first), "{seen:?}");
    let report = storm.finish().unwrap();
    assert_eq!(report.errors.total(), 0, "{}", report.errors);
    assert!(report.due >= 20 && report.sent <= report.due && report.applied == report.sent, "{report:?}");
    assert_eq!(report.latencies.len(), report.applied);
    assert_eq!(client.call(&Query::route(&topic_names(1)[0])).unwrap().0, 17, "the brokers are gone");
}

#[test]
fn lookups_follow_the_versions_of_a_storm() {
    let server = NameServer::start();
    let storm = Storm::start(server.addr, StormPlan::new(2, 50, PERIOD, true)).unwrap();
    let look = |topics: usize| {
        let (topics, duration) = (topic_names(topics), Duration::from_millis(300));
        load::closed_while_changing(server.addr, &topics, 4, 2, duration, storm.versions())
    };
    assert!(look(50).unwrap().answers > 100);
    assert!(look(51).unwrap_err().to_string().contains("code 17"), "the last one is of nobody");
    // A version that nobody has sent is never shown.
    storm.versions().acknowledge(1, storm.versions().acknowledged(1) + 1_000);
    assert!(look(50).unwrap_err().to_string().contains("queues after"));
    assert!(storm.finish().unwrap().errors.count(Fault::Stale) > 0);
}

#[test]
fn an_unchanged_storm_changes_nothing() {
    let server = NameServer::start();
    let storm = Storm::start(server.addr, StormPlan::new(1, 3, PERIOD, false)).unwrap();
    let mut client = Client::connect(server.addr).unwrap();
    let before = client.ask(&Query::route(&topic_names(1)[0])).unwrap();
    while storm.progress().1 < 5 {
        thread::sleep(PERIOD);
    }
    assert_eq!(client.ask(&Query::route(&topic_names(1)[0])).unwrap(), before);
    let report = storm.finish().unwrap();
    assert_eq!(report.errors.total(), 0, "{}", report.errors);
    assert!(report.applied >= 5, "{report:?}");
}

#[test]
fn a_slow_server_is_not_asked_less() {
    // Each answer takes three periods: of those that are due a third is applied.
    let addr = serve(|number| (number > 0).then_some(PERIOD * 3), i32::MAX);
    let storm = Storm::start(addr, StormPlan { in_flight_max: 2, ..StormPlan::new(1, 3, PERIOD, true) }).unwrap();
    thread::sleep(PERIOD * 30);
    let report = storm.finish().unwrap();
    assert!(report.due >= 25, "{report:?}");
    assert!(report.applied > 3 && report.applied < report.due / 2, "{report:?}");
    assert!(report.latencies.value_at_quantile(0.5) >= PERIOD.as_nanos() as u64 * 2, "{report:?}");
    // What it says to the route query is no route with the last version.
    assert_eq!((report.errors.total(), report.errors.count(Fault::Stale)), (1, 1), "{}", report.errors);
}

#[test]
fn what_is_due_after_a_lost_connection_counts() {
    let addr = serve(|_| None, 3);
    let storm = Storm::start(addr, StormPlan::new(1, 3, PERIOD, true)).unwrap();
    thread::sleep(PERIOD * 10);
    let report = storm.finish().unwrap();
    assert!(report.due >= 8 && report.applied == 2, "{report:?}");
    assert_eq!((report.errors.total(), report.errors.count(Fault::Closed)), (1, 1), "{}", report.errors);
}

#[test]
fn nobody_there_is_an_error() {
    let addr = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    assert!(Storm::start(addr, StormPlan::new(1, 3, PERIOD, true)).is_err());
    assert!(Storm::start(addr, StormPlan::new(0, 3, PERIOD, true)).is_err());
    assert!(Storm::start(addr, StormPlan::new(1, 50_001, PERIOD, true)).is_err());
}

/// Answers everything with success after `pause(number of the request)`; the first connection is closed after so many.
fn serve(pause: fn(i32) -> Option<Duration>, requests_max: i32) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    thread::spawn(move || {
        let (first, _) = listener.accept().unwrap();
        thread::spawn(move || answer(first, pause, requests_max));
        while let Ok((stream, _)) = listener.accept() {
            thread::spawn(|| answer(stream, |_| None, i32::MAX));
        }
    });
    addr
}

fn answer(stream: TcpStream, pause: fn(i32) -> Option<Duration>, requests_max: i32) {
    let encoder = Encoder::new(SerializeType::Json, &Limits::default());
    let mut numbers = 0..requests_max;
    answer_each(stream, |opaque| {
        thread::sleep(pause(numbers.next()?).unwrap_or_default());
        let mut answer = Vec::new();
        let mark = encoder.begin_success(&mut answer, opaque);
        encoder.finish(&mut answer, mark);
        Some(answer)
    });
}
