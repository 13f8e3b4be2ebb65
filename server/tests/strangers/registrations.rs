//! Registrations among those of others: a known broker is not held up, and one connection's requests do not wait in vain.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use crate::peers::{Ongoing, bomb, broker_with, millis, next, source};
use crate::report::{at_most, holds};
use crate::support::broker::{Broker, cluster_info, request, route};
use crate::support::frame::{Client, Received, Request};
use crate::support::ours;
use crate::support::process::Settings;

/// What a broker waits for the answer to a registration, by default.
const BROKER_TIMEOUT: Duration = Duration::from_secs(24);
const UNCHANGED_MAX_MS: u64 = 1_000;
const CHANGED_MAX_MS: u64 = 5_000;

/// 300 connections from one or from thirty addresses, which send 63 MiB in 63 kB over and over. Each waits for its
/// answer.
fn flood(addr: SocketAddr, sources: u8) -> Ongoing<usize> {
    const CONNECTIONS: u32 = 300;
    let body = bomb(&Broker::new("bomb", 0, "10.0.0.9:10911", &[]));
    println!("a bomb of {} bytes", body.len());
    let frame: Arc<[u8]> =
        Broker::new("bomb", 0, "10.0.0.9:10911", &[]).with("compressed", "true").register_body(body).encode().into();
    Ongoing::start(move |done| {
        let from = |number: u32| source(u8::try_from(100 + number % u32::from(sources)).expect("a few sources"));
        let mut clients: Vec<Client> =
            (0..CONNECTIONS).map(|number| Client::connect_from(from(number), addr)).collect();
        for client in &mut clients {
            client.send(&frame);
        }
        let mut answered = 0;
        while !done.load(Ordering::Relaxed) {
            for (number, client) in (0..).zip(&mut clients) {
                match client.receive(Duration::from_micros(200)) {
                    Received::Frame(_) => answered += 1,
                    Received::Silence => continue,
                    Received::Closed(_) => *client = Client::connect_from(from(number), addr),
                }
                client.send(&frame);
            }
        }
        answered
    })
}

/// How long a request takes to its answer of code 0; as long as its sender waits when it has none.
fn time_of(client: &mut Client, request: &Request) -> u64 {
    let start = Instant::now();
    client.send(&request.encode());
    match next(client, BROKER_TIMEOUT) {
        Some(answer) if answer.code() == 0 => millis(start.elapsed()),
        Some(answer) => panic!("{}", answer.show()),
        None => millis(BROKER_TIMEOUT),
    }
}

#[test]
fn a_known_broker_is_not_held_up_by_strangers() {
    for (sources, whose) in [(1, "one address"), (30, "30 addresses")] {
        let server = ours::start(&Settings::default());
        let addr = server.addr();
        let mut known = Client::connect_from(source(2), addr);
        let broker = broker_with("known", "10.0.0.2:10911", "topic-", 2_000);
        assert_eq!(known.code(&broker.register()), 0);
        let strangers = flood(addr, sources);
        thread::sleep(Duration::from_secs(1));
        let (mut unchanged, mut changed) = (0, 0);
        for counter in 2..5 {
            unchanged = unchanged.max(time_of(&mut known, &broker.clone().at(counter - 1).register()));
            changed = changed.max(time_of(&mut known, &broker.clone().at(counter).register()));
            if changed >= millis(BROKER_TIMEOUT) {
                break;
            }
        }
        let mut new = Client::connect_from(source(3), addr);
        let new = time_of(&mut new, &Broker::new("new", 0, "10.0.0.3:10911", &["T", "U"]).register());
        println!("{} bombs are answered", strangers.finish());
        let beside = format!("300 connections with bombs, {whose}");
        at_most("6", &format!("ms for an unchanged registration beside {beside}"), unchanged, UNCHANGED_MAX_MS);
        at_most("6", &format!("ms for a changed registration beside {beside}"), changed, CHANGED_MAX_MS);
        at_most("6", &format!("ms for a new broker's small registration beside {beside}"), new, CHANGED_MAX_MS);
    }
}

/// A broker that registers and beats on one connection lives, however long its registration waits.
#[test]
fn a_heartbeat_counts_when_it_arrives() {
    let server = ours::start(&Settings::with(&[("scanNotActiveBrokerInterval", "200")]));
    let addr = server.addr();
    let strangers = flood(addr, 1);
    let mut client = Client::connect(addr);
    let broker = broker_with("beats", "10.0.0.2:10911", "topic-", 50_000).with("heartbeatTimeoutMillis", "1000");
    // Made before: they take the time of a heartbeat or two.
    let mut registrations =
        (2..8).map(|counter| broker.clone().at(counter).register().encode()).collect::<Vec<_>>().into_iter();
    let mut connection = Client::connect_from(source(2), addr);
    let first = Broker::new("beats", 0, "10.0.0.2:10911", &["topic-0", "U"]).with("heartbeatTimeoutMillis", "1000");
    assert_eq!(connection.code(&first.register()), 0);
    let start = Instant::now();
    let mut lost = 0;
    while start.elapsed() < Duration::from_secs(5) {
        if let Some(registration) = registrations.next() {
            connection.send(&registration);
        }
        connection.send(&broker.heartbeat().encode());
        let wait = Instant::now();
        while wait.elapsed() < Duration::from_millis(300) {
            lost += u32::from(client.code(&route("topic-0")) != 0);
            thread::sleep(Duration::from_millis(2));
        }
        while next(&mut connection, Duration::from_micros(200)).is_some() {}
    }
    strangers.finish();
    at_most("6", "times that a broker was gone whose heartbeats came in time, behind its own job", lost, 0);
}

/// The opaques of the next answers, in the order in which they come.
fn order(client: &mut Client, count: usize) -> Vec<i64> {
    (0..count).map(|_| next(client, Duration::from_secs(20)).expect("an answer").number("opaque")).collect()
}

fn numbered(opaque: i32, request: Request) -> Vec<u8> {
    Request { opaque, ..request }.encode()
}

/// A dashboard asks for all and then for one; a broker registers all and then beats.
#[test]
fn independent_requests_of_one_connection_overtake() {
    let server = ours::start(&Settings::default());
    let mut broker = Client::connect(server.addr());
    let topics =
        |counter| broker_with("b", "10.0.0.1:10911", "a-topic-with-a-name-of-some-length-", 60_000).at(counter);
    assert_eq!(broker.code(&topics(1).register()), 0);
    let question = route("a-topic-with-a-name-of-some-length-7");
    for (what, slow) in [("the list of all topics", request(206, &[])), ("a large registration", topics(2).register())]
    {
        let mut client = Client::connect(server.addr());
        // The answer may be ready by chance, so a few times; one must be seen.
        let overtaken = (0..5).any(|_| {
            client.send(&[numbered(1, slow.clone()), numbered(2, question.clone())].concat());
            order(&mut client, 2) == [2, 1]
        });
        holds("19", &format!("a route overtakes {what} of its own connection"), overtaken);
    }
    // 106 is cheap, but on another thread: while that is busy with somebody's list, the route does not wait.
    let mut busy = Client::connect(server.addr());
    let mut client = Client::connect(server.addr());
    let mut longest = Duration::ZERO;
    for _ in 0..5 {
        busy.send(&request(206, &[]).encode().repeat(4));
        client.send(&[numbered(1, cluster_info()), numbered(2, question.clone())].concat());
        let start = Instant::now();
        while next(&mut client, Duration::from_secs(20)).expect("an answer").number("opaque") != 2 {}
        longest = longest.max(start.elapsed());
        while next(&mut client, Duration::from_millis(300)).is_some() {}
        for _ in 0..4 {
            assert!(next(&mut busy, Duration::from_secs(20)).is_some());
        }
    }
    at_most("19", "ms for a route behind 106 while lists are made", millis(longest), 100);
}

/// Whatever overtakes, the writes of one connection are applied and answered in their order.
#[test]
fn writes_of_one_connection_keep_their_order() {
    let server = ours::start(&Settings::default());
    let mut connection = Client::connect(server.addr());
    let mut client = Client::connect(server.addr());
    let mut wrong = 0;
    for round in 0..10 {
        let large = broker_with("b", "10.0.0.1:10911", &format!("r{round}-"), 10_000);
        let small = Broker::new("b", 0, "10.0.0.1:10911", &[&format!("last{round}"), "U"]);
        let counter = i64::from(round) * 10;
        // Large and slow, small and quick, a farewell, and the small one again, newer each time.
        let writes = [
            numbered(0, large.clone().at(counter + 1).register()),
            numbered(1, small.clone().at(counter + 2).register()),
            numbered(2, small.unregister()),
            numbered(3, large.at(counter + 3).register()),
            numbered(4, small.unregister()),
            numbered(5, small.clone().at(counter + 4).register()),
        ];
        connection.send(&writes.concat());
        wrong += usize::from(order(&mut connection, 6) != [0, 1, 2, 3, 4, 5]);
        // The last write is what is left.
        wrong += usize::from(client.code(&route(&format!("last{round}"))) != 0);
        wrong += usize::from(client.code(&route(&format!("r{round}-1"))) != 17);
    }
    at_most("19", "of 10 rounds of writes out of order", wrong, 0);
}

/// A route that is asked for behind a registration on the same connection sees what was acknowledged before it.
#[test]
fn what_was_acknowledged_is_seen_on_the_same_connection() {
    let server = ours::start(&Settings::default());
    let mut connection = Client::connect(server.addr());
    for round in 0..200 {
        let topic = format!("t{round}");
        let broker = Broker::new("b", 0, "10.0.0.1:10911", &[&topic, "U"]).at(i64::from(round) + 1);
        assert_eq!(connection.code(&broker.register()), 0);
        assert_eq!(connection.code(&route(&topic)), 0, "round {round}");
    }
    holds("19", "what was acknowledged is seen by the next request", true);
}
