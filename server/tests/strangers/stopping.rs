//! A server that stops: nothing is taken from anybody, and nobody decides how long it takes.

use std::collections::BTreeMap;
use std::io::Write;
use std::net::SocketAddr;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::peers::{broker_with, fill, millis, next};
use crate::report::{at_most, holds};
use crate::support::broker::{Broker, request, route};
use crate::support::frame::{ANSWER_TIMEOUT, Client, Frame, Received, Request};
use crate::support::ours;
use crate::support::process::{NameServer, Settings};

/// The default of `drainTimeoutMillis`, and a second for the rest.
const STOP_MAX: Duration = Duration::from_millis(3_000 + 1_000);
/// A second signal ends the process at once.
const AT_ONCE: Duration = Duration::from_millis(500);
const EXIT_TIMEOUT: Duration = Duration::from_secs(40);

/// How often something was answered: the code, and the remark of what is no success.
type Answers = BTreeMap<(i64, String), u64>;

/// Asks without a pause, many questions at a time, until the connection ends.
fn ask_without_pause(addr: SocketAddr, question: &Request) -> JoinHandle<Answers> {
    let client = Client::connect(addr);
    let mut stream = client.stream().try_clone().expect("a second handle");
    let questions = question.encode().repeat(50);
    thread::spawn(move || while stream.write_all(&questions).is_ok() {});
    let mut reader = client;
    thread::spawn(move || {
        let mut answers = Answers::new();
        while let Received::Frame(bytes) = reader.receive(ANSWER_TIMEOUT) {
            let answer = Frame::parse(&bytes).expect("a frame");
            let remark = if answer.code() == 0 { "" } else { answer.remark().unwrap_or_default() };
            *answers.entry((answer.code(), remark.to_string())).or_default() += 1;
        }
        answers
    })
}

/// A question of a client that is not sent away by a graceful end.
fn old_route(topic: &str) -> Request {
    Request { version: 475, ..route(topic) }
}

fn wrong(answers: &Answers) -> u64 {
    let is_wrong = |(code, remark): &(i64, String)| !(*code == 0 || *code == 1 && remark.contains("not ready"));
    answers.iter().filter(|(answer, _)| is_wrong(answer)).map(|(_, count)| count).sum()
}

fn add(all: &mut Answers, more: Answers) {
    for (answer, count) in more {
        *all.entry(answer).or_default() += count;
    }
}

#[test]
fn routes_stay_right_while_the_server_drains() {
    let mut all = Answers::new();
    for _ in 0..3 {
        let mut server = ours::start(&Settings::default());
        let mut broker = Client::connect(server.addr());
        assert_eq!(broker.code(&Broker::new("b", 0, "10.0.0.1:10911", &["T", "U"]).register()), 0);
        let clients: Vec<_> = (0..4).map(|_| ask_without_pause(server.addr(), &route("T"))).collect();
        thread::sleep(Duration::from_millis(200));
        server.signal("TERM");
        for client in clients {
            add(&mut all, client.join().expect("good answers"));
        }
        assert_eq!(server.wait(EXIT_TIMEOUT).expect("it ends").code(), Some(0));
    }
    println!("{all:?}");
    assert!(all.values().sum::<u64>() > 1_000, "too few questions: {all:?}");
    at_most("1", "wrong answers about a live topic while the server drains", wrong(&all), 0);
}

/// Brokers that go, or are silent, while clients are sent away: the others must not learn of it from this server.
#[test]
fn nothing_is_removed_while_clients_are_sent_away() {
    let config =
        [("enableShutdownGracefully", "true"), ("shutdownWaitTimeSeconds", "3"), ("scanNotActiveBrokerInterval", "50")];
    let mut server = ours::start(&Settings::with(&config));
    let mut silent = Client::connect(server.addr());
    let timeout = ("heartbeatTimeoutMillis", "1000");
    let broker = |name: &str, topic: &str| Broker::new(name, 0, &format!("10.0.0.1:{topic}"), &[topic, "U"]);
    let mut leaving = Client::connect(server.addr());
    assert_eq!(leaving.code(&broker("leaving", "1").register()), 0);
    let mut away = Client::connect(server.addr());
    assert_eq!(away.code(&route("2")), 17);
    assert_eq!(silent.code(&broker("silent", "2").with(timeout.0, timeout.1).register()), 0);
    server.signal("TERM");
    let start = Instant::now();
    while away.code(&route("2")) != 1500 {
        assert!(start.elapsed() < Duration::from_millis(900), "nobody is sent away");
        thread::sleep(Duration::from_millis(2));
    }
    drop(leaving);
    let mut client = Client::connect(server.addr());
    let mut all = Answers::new();
    while start.elapsed() < Duration::from_millis(2_500) {
        for topic in ["1", "2"] {
            let answer = client.call(&old_route(topic));
            *all.entry((answer.code(), answer.remark().unwrap_or_default().to_string())).or_default() += 1;
        }
        thread::sleep(Duration::from_millis(5));
    }
    println!("{all:?}");
    at_most("1", "wrong answers about brokers lost while clients are sent away", wrong(&all), 0);
    assert_eq!(server.wait(EXIT_TIMEOUT).expect("it ends").code(), Some(0));
}

/// Peers with which a server would never be done: one takes no answer, one asks without end, one owes half a frame.
fn endless_peers(server: &NameServer) -> Vec<Client> {
    let addr = server.addr();
    let names = broker_with("b", "10.0.0.1:10911", "a-topic-with-a-name-of-some-length-", 20_000);
    let mut broker = Client::connect(addr);
    assert_eq!(broker.code(&names.register()), 0);
    let list = request(206, &[]).encode().repeat(50);
    let takes_nothing = fill(addr, &list);
    ask_without_pause(addr, &route("T"));
    let mut half = Client::connect(addr);
    half.send(&route("T").encode()[..20]);
    thread::sleep(Duration::from_millis(300));
    vec![broker, takes_nothing, half]
}

#[test]
fn no_peer_decides_how_long_a_stop_takes() {
    for (what, config, limit) in [
        ("ms to stop, peers that never end, default", &[][..], STOP_MAX),
        ("ms to stop, drainTimeoutMillis=500", &[("drainTimeoutMillis", "500")], Duration::from_millis(1_500)),
    ] {
        let mut server = ours::start(&Settings::with(config));
        let _peers = endless_peers(&server);
        let start = Instant::now();
        server.signal("TERM");
        let status = server.wait(EXIT_TIMEOUT).expect("it ends");
        at_most("18", what, millis(start.elapsed()), millis(limit));
        assert_eq!(status.code(), Some(0), "the first signal and a clean end");
    }
}

#[test]
fn a_second_signal_ends_at_once() {
    let graceful = [("enableShutdownGracefully", "true"), ("shutdownWaitTimeSeconds", "20")];
    for (what, config, first, second, code) in [
        ("draining", &[][..], "TERM", "TERM", 143),
        ("draining", &[], "TERM", "INT", 130),
        ("sending away", &graceful, "INT", "TERM", 143),
        ("sending away", &graceful, "TERM", "INT", 130),
    ] {
        let mut server = ours::start(&Settings::with(config));
        let _peers = endless_peers(&server);
        server.signal(first);
        thread::sleep(Duration::from_millis(200));
        assert!(server.wait(Duration::ZERO).is_none(), "it has ended before the second signal");
        let start = Instant::now();
        server.signal(second);
        let status = server.wait(EXIT_TIMEOUT).expect("it ends");
        at_most("18", &format!("ms to end after SIG{second} while {what}"), millis(start.elapsed()), millis(AT_ONCE));
        holds("18", &format!("exit code {code} after SIG{second} while {what}"), status.code() == Some(code));
    }
}

/// D5: a stop under load. Every request that was sent before the signal is answered, and nobody is let in after it.
#[test]
fn what_was_asked_before_a_stop_is_answered() {
    const CONNECTIONS: usize = 32;
    let mut server = ours::start(&Settings::default());
    let addr = server.addr();
    let mut broker = Client::connect(addr);
    assert_eq!(broker.code(&Broker::new("b", 0, "10.0.0.1:10911", &["T", "U"]).register()), 0);
    let mut clients: Vec<Client> = (0..CONNECTIONS).map(|_| Client::connect(addr)).collect();
    for client in &mut clients {
        assert_eq!(client.code(&route("T")), 0);
    }
    for client in &mut clients {
        client.send(&route("T").encode().repeat(100));
    }
    let start = Instant::now();
    server.signal("TERM");
    let mut answered = 0;
    for client in &mut clients {
        while let Some(answer) = next(client, ANSWER_TIMEOUT) {
            assert_eq!(answer.code(), 0, "{}", answer.show());
            answered += 1;
        }
    }
    assert_eq!(server.wait(EXIT_TIMEOUT).expect("it ends").code(), Some(0));
    at_most("D5", "ms to stop under load", millis(start.elapsed()), 2_000);
    at_most("D5", "requests before the signal without an answer", CONNECTIONS * 100 - answered, 0);
    holds("D5", "nobody is let in after the end", std::net::TcpStream::connect(addr).is_err());
}
