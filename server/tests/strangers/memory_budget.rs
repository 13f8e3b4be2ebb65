//! Memory: one budget over all that peers make the server hold, and what is given up is given back.

use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crate::peers::{MIB, bomb, broker_with, fill, given_back, in_512_mib, is_closed, next, raise_file_limit, source};
use crate::report::{at_most, holds};
use crate::support::broker::{Broker, request, route};
use crate::support::frame::{ANSWER_TIMEOUT, Client, Received};
use crate::support::ours;
use crate::support::probe::Probe;
use crate::support::process::{Launch, NameServer, Settings};

/// The default of `memoryBytesMax`.
const BUDGET: u64 = 256 * MIB;
/// What is no part of the budget: the allocator's reserve, stacks, the buffers of workers. A quarter, as noise.
const BESIDE: u64 = 64 * MIB;
const FRAME_BYTES_MAX: usize = 16 << 20;

/// What is left beyond what was there, in MiB, when memory is within a tenth of it, or 16 MiB, whichever is larger, or the
/// time for that is over.
fn left_over(server: &NameServer, before: u64) -> u64 {
    given_back(server, before + (before / 10).max(16 * MIB)).saturating_sub(before) / MIB
}

/// As the limit of [`left_over`].
fn left_over_max(before: u64) -> u64 {
    (before / 10).max(16 * MIB) / MIB
}

/// 60 connections with a frame of 16 MiB that lacks its last byte.
fn endless_frames(addr: SocketAddr) -> Vec<Client> {
    let mut list = request(206, &[]);
    list.body = vec![b' '; FRAME_BYTES_MAX - 300];
    let frame = list.encode();
    let frame = Arc::new(frame[..frame.len() - 1].to_vec());
    let senders: Vec<_> = (0..60)
        .map(|number| {
            let frame = Arc::clone(&frame);
            thread::spawn(move || fill_from(addr, 20 + number % 4, &frame))
        })
        .collect();
    // A server that has ended lets nobody in, which the test sees for itself.
    senders.into_iter().flat_map(thread::JoinHandle::join).collect()
}

fn fill_from(addr: SocketAddr, from: u8, bytes: &[u8]) -> Client {
    let client = Client::connect_from(source(from), addr);
    client.stream().set_write_timeout(Some(Duration::from_millis(500))).expect("a timeout");
    let _ = client.stream().write_all(bytes);
    client
}

/// A known broker registers and a probe is answered, whatever others hold.
fn serves(known: &mut Client, broker: &Broker) -> bool {
    let mut is_good = known.call(&broker.register()).code() == 0;
    is_good &= known.code(&route("topic-1")) == 0;
    is_good & (known.code(&broker.heartbeat()) == 0)
}

fn known_broker(server: &NameServer) -> (Client, Broker) {
    let broker = broker_with("known", "10.0.0.2:10911", "topic-", 1_000);
    let mut known = Client::connect_from(source(2), server.addr());
    assert_eq!(known.code(&broker.register()), 0);
    (known, broker)
}

#[test]
fn frames_that_never_end_share_one_budget() {
    let server = ours::start(&Settings::default());
    let (mut known, broker) = known_broker(&server);
    let before = server.memory("VmRSS");
    let probe = Probe::start(server.addr());
    let clients = endless_frames(server.addr());
    thread::sleep(Duration::from_millis(500));
    let peak = server.memory("VmHWM");
    at_most("7", "MiB for 60 frames of 16 MiB that never end", peak / MIB, (BUDGET + BESIDE) / MIB);
    holds("7", "a known broker registers and is routed meanwhile", serves(&mut known, &broker.at(2)));
    drop(clients);
    at_most("7", "MiB of them left after they are closed", left_over(&server, before), left_over_max(before));
    probe.finish();
}

/// A smaller budget is kept as well.
#[test]
#[ignore = "takes long"]
fn the_budget_is_a_setting() {
    let server = ours::start(&Settings::with(&[("memoryBytesMax", "67108864")]));
    let clients = endless_frames(server.addr());
    thread::sleep(Duration::from_millis(300));
    at_most(
        "7",
        "MiB for the same, memoryBytesMax=64 MiB",
        server.memory("VmHWM") / MIB,
        (64 * MIB + BESIDE / 2) / MIB,
    );
    drop(clients);
}

#[test]
#[ignore = "takes long"]
fn a_limit_of_address_space_aborts_nothing() {
    for (what, config) in [("default", &[][..]), ("memoryBytesMax=64 MiB", &[("memoryBytesMax", "67108864")])] {
        let mut server = NameServer::start(in_512_mib as Launch, &Settings::with(config));
        let (mut known, broker) = known_broker(&server);
        let clients = endless_frames(server.addr());
        thread::sleep(Duration::from_millis(500));
        let ended = server.wait(Duration::ZERO);
        println!("{what}: {ended:?}");
        holds("7", &format!("no abort in 512 MiB of address space, {what}"), ended.is_none());
        holds("7", &format!("a known broker is served in them, {what}"), serves(&mut known, &broker.at(2)));
        drop(clients);
        assert_eq!(Client::connect(server.addr()).code(&route("topic-1")), 0);
    }
}

/// 200 clients that ask for a list of 14 MB and take nothing of it.
#[test]
fn answers_that_nobody_takes_share_the_budget() {
    const READERS: usize = 200;
    let server = ours::start(&Settings::default());
    let (mut known, broker) = known_broker(&server);
    for number in 0..4_u8 {
        let name = format!("b{number}");
        let prefix = format!("a-topic-with-quite-a-long-name-so-that-the-list-is-long-{number}-");
        let mut client = Client::connect_from(source(30 + number), server.addr());
        let topics = broker_with(&name, &format!("10.0.1.{number}:10911"), &prefix, 52_000);
        let body = topics.parts().zlib();
        assert_eq!(client.code(&topics.with("compressed", "true").register_body(body)), 0);
        // Brokers live as long as their connections.
        std::mem::forget(client);
    }
    let list = Client::connect(server.addr()).call(&request(206, &[]));
    let list_bytes = list.bytes.len() as u64;
    println!("a list of {} MB", list_bytes / 1_000_000);
    assert!(list_bytes > 12_000_000, "a list of {list_bytes} bytes");
    let before = server.memory("VmRSS");
    let probe = Probe::start(server.addr());
    let question = request(206, &[]).encode();
    let readers: Vec<Client> = (0..READERS)
        .map(|number| {
            let mut client = Client::connect_from(source(40 + u8::try_from(number % 20).expect("few")), server.addr());
            client.send(&question);
            client
        })
        .collect();
    // Until no more answers are made.
    let (start, mut settled, mut peak) = (Instant::now(), Instant::now(), 0);
    while settled.elapsed() < Duration::from_secs(2) && start.elapsed() < Duration::from_secs(20) {
        thread::sleep(Duration::from_millis(50));
        if server.memory("VmHWM") > peak + MIB {
            (settled, peak) = (Instant::now(), server.memory("VmHWM"));
        }
    }
    let grown = server.memory("VmHWM").saturating_sub(before);
    at_most("7", "MiB for 200 readers that take nothing of 14 MB", grown / MIB, (BUDGET + BESIDE) / MIB);
    holds("7", "a known broker registers and is routed beside them", serves(&mut known, &broker.at(2)));
    drop(readers);
    at_most("7", "MiB of them left after they are closed", left_over(&server, before), left_over_max(before));
    probe.finish();
}

/// Topics that are registered and removed, three times over.
#[test]
#[ignore = "takes long"]
fn removed_topics_give_their_memory_back() {
    const BROKERS: u8 = 10;
    const TOPICS: usize = 100_000;
    let server = ours::start(&Settings::default());
    let (_known, _) = known_broker(&server);
    let before = server.memory("VmRSS");
    for round in 0..3 {
        let mut connections = Vec::new();
        for number in 0..BROKERS {
            let prefix = format!("round-{round}-of-broker-{number}-topic-");
            let broker = broker_with(&format!("b{number}"), &format!("10.0.1.{number}:10911"), &prefix, TOPICS);
            let mut client = Client::connect_from(source(50 + number), server.addr());
            let body = broker.parts().zlib();
            let answer = client.call(&broker.clone().with("compressed", "true").register_body(body));
            assert_eq!(answer.code(), 0, "{}", answer.show());
            connections.push((client, broker));
        }
        println!("round {round}: {} MiB with all topics", server.memory("VmRSS") / MIB);
        for (client, broker) in &mut connections {
            assert_eq!(client.code(&broker.unregister()), 0);
        }
    }
    let what = "MiB left of a million topics, registered and removed three times";
    at_most("7", what, left_over(&server, before), left_over_max(before));
}

/// B4: bombs at once, one of them as long as a frame may be.
#[test]
fn bombs_at_once_stay_in_the_budget() {
    const BOMBS: usize = 8;
    let server = ours::start(&Settings::default());
    let (mut known, broker) = known_broker(&server);
    let before = server.memory("VmRSS");
    let body = bomb(&Broker::new("bomb", 0, "10.0.0.9:10911", &[]));
    let bombs: Vec<_> = (0..BOMBS)
        .map(|number| {
            let broker = Broker::new(&format!("bomb{number}"), 0, "10.0.0.9:10911", &[]);
            let frame = broker.with("compressed", "true").register_body(body.clone()).encode();
            let mut client = Client::connect_from(source(60 + u8::try_from(number).expect("few")), server.addr());
            client.send(&frame);
            client
        })
        .collect();
    let start = Instant::now();
    holds("B4", "a known broker registers and is routed beside 8 bombs", serves(&mut known, &broker.at(2)));
    at_most(
        "B4",
        "ms for a known broker's registration, route and heartbeat beside them",
        start.elapsed().as_millis(),
        5_000,
    );
    let mut answered = 0;
    for mut client in bombs {
        answered += usize::from(next(&mut client, Duration::from_secs(20)).is_some());
    }
    at_most("B4", "of 8 bombs without an answer", BOMBS - answered, 0);
    let grown = server.memory("VmHWM").saturating_sub(before);
    at_most("B4", "MiB for 8 bombs of 63 MiB at once", grown / MIB, 88);
}

/// M1: what an idle connection costs.
#[test]
fn an_idle_connection_is_cheap() {
    let count = raise_file_limit().saturating_sub(500).min(10_000);
    let server = ours::start(&Settings::with(&[("maxConnections", "20000")]));
    let mut first = Client::connect(server.addr());
    assert_eq!(first.code(&route("T")), 17);
    let before = server.memory("VmRSS");
    // Each has been served once.
    let question = route("T").encode();
    let idle: Vec<Client> = (0..count)
        .map(|_| {
            let mut client = Client::connect(server.addr());
            client.send(&question);
            assert!(matches!(client.receive(ANSWER_TIMEOUT), Received::Frame(_)));
            client
        })
        .collect();
    let each = server.memory("VmRSS").saturating_sub(before) / idle.len() as u64;
    assert!(count >= 1_000, "{count} connections are too few to measure: raise the limit of open files");
    at_most("M1", &format!("bytes for each of {count} idle connections"), each, 4_096);
    assert_eq!(idle.iter().filter(|client| is_closed(client)).count(), 0);
}

/// M2: everything at once, in an address space that has room for the budget and no more.
#[test]
#[ignore = "takes long"]
fn all_of_it_at_once_ends_nobody() {
    let settings = Settings::with(&[("memoryBytesMax", "134217728"), ("workerThreads", "2")]);
    let mut server = NameServer::start(in_512_mib as Launch, &settings);
    let (mut known, broker) = known_broker(&server);
    let addr = server.addr();
    let probe = Probe::start(addr);
    let body = bomb(&Broker::new("bomb", 0, "10.0.0.9:10911", &[]));
    let bombs: Vec<Client> = (0..20)
        .map(|number| {
            let broker = Broker::new(&format!("bomb{number}"), 0, "10.0.0.9:10911", &[]);
            let mut client = Client::connect_from(source(60), addr);
            client.send(&broker.with("compressed", "true").register_body(body.clone()).encode());
            client
        })
        .collect();
    let mut stranger = Client::connect_from(source(61), addr);
    let topics = broker_with("stranger", "10.0.0.8:10911", "a-topic-with-a-name-of-some-length-", 50_000);
    stranger.send(&topics.register().encode());
    let endless = endless_frames(addr);
    let list = request(206, &[]).encode().repeat(20);
    let readers: Vec<Client> = (0..40).map(|_| fill(addr, &list)).collect();
    let claims: Vec<Client> = (0..60).map(|_| fill(addr, &16_000_000_u32.to_be_bytes())).collect();
    let start = Instant::now();
    let (mut good, mut tried) = (0, 0);
    while start.elapsed() < Duration::from_secs(8) {
        tried += 1;
        good += u32::from(serves(&mut known, &broker.clone().at(i64::from(tried) + 1)));
    }
    println!("{tried} rounds of a known broker");
    holds("M2", "no abort with everything at once in 512 MiB", server.wait(Duration::ZERO).is_none());
    at_most("M2", "registrations and routes of a known broker that failed meanwhile", tried - good, 0);
    at_most("M2", "MiB with everything at once, memoryBytesMax=128 MiB", server.memory("VmHWM") / MIB, 128 + 64);
    probe.finish();
    drop((bombs, stranger, endless, readers, claims));
    assert_eq!(Client::connect(addr).code(&route("topic-1")), 0);
}

/// S3: one reader that asks for many lists and takes nothing.
#[test]
fn a_reader_that_takes_nothing_is_closed_in_its_time() {
    let server = ours::start(&Settings::with(&[("writeStallTimeoutMillis", "2000")]));
    let topics = broker_with("b", "10.0.0.1:10911", "a-topic-with-a-name-of-some-length-", 50_000);
    let mut broker = Client::connect(server.addr());
    assert_eq!(broker.code(&topics.register()), 0);
    assert_eq!(Client::connect(server.addr()).code(&request(206, &[])), 0);
    let before = server.memory("VmRSS");
    let probe = Probe::start(server.addr());
    let client = fill(server.addr(), &request(206, &[]).encode().repeat(50));
    let start = Instant::now();
    thread::sleep(Duration::from_millis(500));
    let grown = server.memory("VmHWM").saturating_sub(before);
    at_most("S3", "MiB for 50 lists that nobody takes", grown / MIB, 16);
    // Its end shows as a reset, as there is always something left to be read.
    let is_over = || client.stream().take_error().expect("the state of the socket").is_some();
    while !is_over() && start.elapsed() < Duration::from_secs(10) {
        thread::sleep(Duration::from_millis(20));
    }
    at_most("S3", "ms until it is closed, writeStallTimeoutMillis=2000", start.elapsed().as_millis(), 4_000);
    probe.finish();
}
