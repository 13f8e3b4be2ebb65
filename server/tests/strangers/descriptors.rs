//! Descriptors and connections: floods of them, and limits that are too small.

use std::fs::{self, File};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::beside::{P99, P99_FLOOR, with_topic};
use crate::peers::{Ongoing, descriptors, is_closed, limited, millis, next, raise_file_limit, source};
use crate::report::{at_most, holds};
use crate::support::broker::{Broker, put_kv, route};
use crate::support::frame::Client;
use crate::support::ours;
use crate::support::process::{NameServer, Settings, config_file, free_port, write_config};

const ANSWERED: Duration = Duration::from_secs(2);

/// Opens connections until `count` are tried, and keeps those that the server serves.
fn served(addr: SocketAddr, from: u8, count: usize) -> Vec<Client> {
    let mut clients: Vec<Client> = (0..count).map(|_| Client::connect_from(source(from), addr)).collect();
    for client in &mut clients {
        client.send(&route("T").encode());
    }
    // All together: who waits in the backlog is not waited for one by one.
    let deadline = Instant::now() + ANSWERED;
    clients.retain_mut(|client| {
        let left = deadline.saturating_duration_since(Instant::now());
        next(client, left.max(Duration::from_millis(1))).is_some()
    });
    clients
}

/// How long it takes until a new connection from this source is served.
fn served_after(addr: SocketAddr, from: u8, limit: Duration) -> Option<Duration> {
    let start = Instant::now();
    while start.elapsed() < limit {
        let mut client = Client::connect_from(source(from), addr);
        client.send(&route("T").encode());
        if next(&mut client, ANSWERED).is_some() {
            return Some(start.elapsed());
        }
        thread::sleep(Duration::from_millis(5));
    }
    None
}

fn warnings(server: &NameServer) -> usize {
    server.output().lines().filter(|line| line.contains("WARN") || line.contains("ERROR")).count()
}

#[test]
fn a_flood_of_connections_leaves_room_for_files() {
    raise_file_limit();
    fn with_200(home: &Path, file: &Path, settings: &Settings) -> Command {
        limited("--nofile=200:200", home, file, settings)
    }
    fn with_256(home: &Path, file: &Path, settings: &Settings) -> Command {
        limited("--nofile=256:256", home, file, settings)
    }
    for (row, launch, flood) in [("5", with_200 as crate::support::process::Launch, 300), ("S6", with_256, 1_000)] {
        let server = NameServer::start(launch, &Settings::with(&[("workerThreads", "16")]));
        let mut first = Client::connect(server.addr());
        assert_eq!(first.code(&put_kv("NS", "k", "before")), 0);
        let before = warnings(&server);
        let held = served(server.addr(), 9, flood);
        println!("{} of {flood} connections are served", held.len());
        assert!(held.len() > 20, "{} of {flood} connections are served", held.len());
        let start = Instant::now();
        let mut failed = 0;
        let mut extra = Vec::new();
        // New ones come all the time.
        while start.elapsed() < Duration::from_secs(2) {
            extra.push(Client::connect_from(source(9), server.addr()));
            failed += u32::from(first.code(&put_kv("NS", "k", "while")) != 0);
            thread::sleep(Duration::from_millis(10));
        }
        at_most(row, "KV puts that failed while no descriptor was free for a connection", failed, 0);
        let open = extra.iter().filter(|client| !is_closed(client)).count();
        at_most(row, "connections beyond the limit that are kept waiting", open, 0);
        at_most(row, "warnings in 2 s of it", warnings(&server) - before, 2);
        drop((held, extra));
        let recovered = served_after(server.addr(), 3, Duration::from_secs(5)).map_or(99_999, millis);
        at_most(row, "ms until a new connection is served when the others have gone", recovered, 1_000);
        assert_eq!(first.code(&route("T")), 17, "the process is the same");
    }
}

#[test]
fn the_soft_limit_is_raised_before_anything_is_opened() {
    fn with_40(home: &Path, file: &Path, settings: &Settings) -> Command {
        limited("--nofile=40:1024", home, file, settings)
    }
    let server = NameServer::start(with_40, &Settings::with(&[("workerThreads", "16")]));
    at_most("5", "of 50 connections dropped, soft limit 40, 16 workers", 50 - served(server.addr(), 9, 50).len(), 0);
}

/// A hard limit that is too small for the threads: refused with a word, before the boot line, or served as promised.
#[test]
fn a_limit_that_is_too_small_refuses_the_start_or_serves() {
    for files in [12, 20, 40, 64, 100] {
        let home = TempDir::with_prefix("namesrv-").expect("temporary home");
        let settings = Settings::with(&[("workerThreads", "16")]);
        let port = free_port();
        write_config(home.path(), port, &settings);
        let output = home.path().join("output");
        let mut command =
            limited(&format!("--nofile={files}:{files}"), home.path(), &config_file(home.path()), &settings);
        let stream = || Stdio::from(File::options().create(true).append(true).open(&output).expect("a file"));
        let mut child = command.stdin(Stdio::null()).stdout(stream()).stderr(stream()).spawn().expect("spawn");
        let deadline = Instant::now() + Duration::from_secs(10);
        let said = || fs::read_to_string(&output).expect("what it says");
        let mut ended = None;
        while ended.is_none() && !said().contains("boot success") && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(10));
            ended = child.try_wait().expect("its state");
        }
        let what = format!("{files} open files and 16 workers");
        match ended {
            Some(status) => {
                println!("{what}: {status}: {}", said());
                assert!(!said().contains("boot success"), "{what}: {}", said());
                let named =
                    ["open files", "nofile", "descriptors"].iter().any(|word| said().to_lowercase().contains(word));
                let is_good = status.code().is_some_and(|code| code != 0 && code != 101) && named;
                holds("5", &format!("{what}: the start is refused, and the limit named"), is_good);
            }
            None => {
                let addr = SocketAddr::from(([127, 0, 0, 1], port));
                let mut first = Client::connect(addr);
                first.send(&route("T").encode());
                let mut is_good = next(&mut first, ANSWERED).is_some();
                let held = served(addr, 9, 50);
                is_good &= !held.is_empty();
                first.send(&put_kv("NS", "k", "v").encode());
                is_good &= next(&mut first, ANSWERED).is_some_and(|answer| answer.code() == 0);
                println!("{what}: {} of 50 are served", held.len());
                child.kill().and_then(|()| child.wait()).expect("it runs");
                holds("5", &format!("{what}: it serves and stores"), is_good);
            }
        }
    }
}

#[test]
fn the_limits_of_connections_are_settings() {
    let server = ours::start(&Settings::with(&[("maxConnections", "50")]));
    let held = served(server.addr(), 9, 60);
    at_most("5", "of 60 connections served, maxConnections=50", held.len(), 50);
    assert!(held.len() >= 40, "{} of 50 connections are served", held.len());

    let server = ours::start(&Settings::with(&[("maxConnectionsPerIp", "10")]));
    let held = served(server.addr(), 9, 15);
    at_most("14", "of 15 connections of one source served, maxConnectionsPerIp=10", held.len(), 10);
    assert_eq!(held.len(), 10);
    at_most("14", "of 10 connections of another source dropped", 10 - served(server.addr(), 8, 10).len(), 0);
    drop(held);
    let again = served_after(server.addr(), 9, Duration::from_secs(5)).map_or(99_999, millis);
    at_most("14", "ms until the first source is served again", again, 1_000);
}

/// Brokers come back to a server whose connections one source has taken: those that it has, and those that it just had.
#[test]
fn room_is_kept_for_addresses_with_brokers() {
    let server = ours::start(&Settings::with(&[("maxConnections", "100")]));
    let broker = |number: u8| {
        Broker::new(&format!("b{number}"), 0, &format!("10.0.0.{number}:10911"), &[&format!("T{number}"), "U"])
    };
    let mut alive = Client::connect_from(source(2), server.addr());
    assert_eq!(alive.code(&broker(2).register()), 0);
    let mut lost = Client::connect_from(source(3), server.addr());
    assert_eq!(lost.code(&broker(3).register()), 0);
    drop(lost);
    thread::sleep(Duration::from_millis(100));

    let addr = server.addr();
    let flood = Ongoing::start(move |done| {
        let mut held = Vec::new();
        while !done.load(Ordering::Relaxed) {
            held.push(Client::connect_from(source(9), addr));
            held.retain(|client| !is_closed(client));
            thread::sleep(Duration::from_millis(if held.len() < 90 { 0 } else { 5 }));
        }
        held.len()
    });
    thread::sleep(Duration::from_millis(700));
    for (what, number) in [("has", 2), ("just had", 3)] {
        let mut longest = Duration::ZERO;
        for _ in 0..5 {
            let start = Instant::now();
            let code = loop {
                let mut client = Client::connect_from(source(number), addr);
                client.send(&broker(number + 10).register().encode());
                match next(&mut client, ANSWERED) {
                    Some(answer) => break Some(answer.code()),
                    None if start.elapsed() > Duration::from_secs(3) => break None,
                    None => thread::sleep(Duration::from_millis(5)),
                }
            };
            longest = longest.max(if code == Some(0) { start.elapsed() } else { Duration::MAX });
        }
        let longest = if longest == Duration::MAX { 99_999 } else { millis(longest) };
        at_most("14", &format!("ms until an address that {what} a broker is served in a flood"), longest, 1_000);
    }
    let held = flood.finish();
    println!("the flood held {held} connections");
    assert!(held >= 50, "the flood held {held} connections only");
    assert_eq!(alive.code(&route("T2")), 0, "its own broker is on its first connection");
}

/// S7: connections that come and go, as fast as they can.
#[test]
#[ignore = "measures times"]
fn connections_that_come_and_go_leave_nothing_behind() {
    let (server, _broker) = with_topic(&[]);
    let before = descriptors(&server);
    let memory = server.memory("VmRSS");
    let addr = server.addr();
    let row = P99 { row: "S7", what: "5,000 connections a second that come and go", ratio: 3, floor: P99_FLOOR };
    row.hold(&server, || Ongoing::start(move |done| come_and_go(addr, done)));
    let start = Instant::now();
    while descriptors(&server) > before && start.elapsed() < Duration::from_secs(2) {
        thread::sleep(Duration::from_millis(10));
    }
    at_most("S7", "descriptors left behind", descriptors(&server).saturating_sub(before), 0);
    let grown = server.memory("VmRSS").saturating_sub(memory);
    at_most("S7", "KiB left behind", grown >> 10, 4_096);
    assert!(TcpListener::bind(addr).is_err(), "it listens");
}

/// Opens and resets connections, 5,000 a second.
fn come_and_go(addr: SocketAddr, done: &AtomicBool) {
    let start = Instant::now();
    let mut count = 0;
    while !done.load(Ordering::Relaxed) {
        let stream = std::net::TcpStream::connect(addr).expect("it accepts");
        // Reset at once, so that ports are free again.
        socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO)).expect("linger");
        count += 1;
        let due = start + Duration::from_micros(200) * count;
        thread::sleep(due.saturating_duration_since(Instant::now()));
    }
    println!("{count} connections came and went");
    assert!(count > 1_000, "{count} connections are no flood");
}
