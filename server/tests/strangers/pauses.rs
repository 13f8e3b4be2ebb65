//! A process that is paused: its own lateness is nobody's fault.

use std::thread;
use std::time::{Duration, Instant};

use crate::report::at_most;
use crate::support::broker::{Broker, cluster_info, route};
use crate::support::frame::Client;
use crate::support::ours;
use crate::support::process::{NameServer, Settings};

const BROKERS: usize = 20;
/// Longer than all time-outs, which are shortened to 2 s.
const PAUSE: Duration = Duration::from_secs(8);
const CONFIG: [(&str, &str); 4] = [
    ("serverChannelMaxIdleTimeSeconds", "2"),
    ("scanNotActiveBrokerInterval", "200"),
    ("frameReadTimeoutMillis", "2000"),
    ("writeStallTimeoutMillis", "2000"),
];

fn brokers(server: &NameServer) -> Vec<(Broker, Client)> {
    let broker = |number| {
        let topics = ["T", &format!("T{number}")];
        let broker = Broker::new(&format!("b{number}"), 0, &format!("10.0.0.{number}:10911"), &topics);
        (broker.with("heartbeatTimeoutMillis", "2000"), Client::connect(server.addr()))
    };
    let mut brokers: Vec<_> = (0..BROKERS).map(broker).collect();
    for (broker, connection) in &mut brokers {
        assert_eq!(connection.code(&broker.register()), 0);
    }
    brokers
}

/// Brokers that are gone at some moment until `time` has passed since the process goes on; all of them beat.
fn lost_since(server: &NameServer, brokers: &mut [(Broker, Client)], time: Duration) -> usize {
    let resumed = Instant::now();
    let mut client = Client::connect(server.addr());
    let mut lost = [false; BROKERS];
    let mut beaten = Instant::now();
    while resumed.elapsed() < time {
        for (number, is_lost) in lost.iter_mut().enumerate() {
            if client.code(&route(&format!("T{number}"))) != 0 && !*is_lost {
                println!("b{number} is gone {:?} after the pause", resumed.elapsed());
                *is_lost = true;
            }
        }
        if beaten.elapsed() > Duration::from_millis(500) {
            for (broker, connection) in &mut *brokers {
                connection.send(&broker.heartbeat().encode());
            }
            beaten = Instant::now();
        }
        thread::sleep(Duration::from_millis(5));
    }
    lost.iter().filter(|lost| **lost).count()
}

/// Heartbeats that came while the process was paused wait in their sockets when it goes on.
#[test]
fn a_pause_loses_nobody_whose_heartbeat_waits() {
    let server = ours::start(&Settings::with(&CONFIG));
    let mut brokers = brokers(&server);
    server.signal("STOP");
    thread::sleep(PAUSE / 2);
    for (broker, connection) in &mut brokers {
        // Behind questions, so that it is not the first thing that is read.
        connection.send(&cluster_info().encode().repeat(20));
        connection.send(&broker.heartbeat().encode());
    }
    thread::sleep(PAUSE / 2);
    server.signal("CONT");
    at_most(
        "13",
        "of 20 brokers lost after a pause of 4 time-outs",
        lost_since(&server, &mut brokers, Duration::from_secs(4)),
        0,
    );
}

/// Brokers that could not speak, as their machine was paused as well, have one period to do so.
#[test]
#[ignore = "takes long"]
fn a_pause_leaves_a_round_of_grace() {
    let server = ours::start(&Settings::with(&CONFIG));
    let mut brokers = brokers(&server);
    server.signal("STOP");
    thread::sleep(PAUSE);
    server.signal("CONT");
    // The first heartbeats come half a second later.
    at_most(
        "13",
        "of 20 brokers lost that speak half a second after a pause",
        lost_since(&server, &mut brokers, Duration::from_secs(4)),
        0,
    );
}

/// What was on its way when the process was paused, half a frame and an answer that nobody took yet, is not late.
#[test]
fn a_pause_closes_no_connection() {
    let server = ours::start(&Settings::with(&CONFIG));
    let mut broker = Client::connect(server.addr());
    assert_eq!(broker.code(&Broker::new("b", 0, "10.0.0.1:10911", &["T", "U"]).register()), 0);
    let mut silent = Client::connect(server.addr());
    let mut half = Client::connect(server.addr());
    let question = route("T").encode();
    for client in [&mut silent, &mut half] {
        assert_eq!(client.code(&route("T")), 0);
    }
    half.send(&question[..30]);
    thread::sleep(Duration::from_millis(100));
    server.signal("STOP");
    thread::sleep(PAUSE);
    half.send(&question[30..]);
    server.signal("CONT");
    let answered = |client: &mut Client| crate::peers::next(client, Duration::from_secs(5)).is_some();
    let mut closed = usize::from(!answered(&mut half));
    thread::sleep(Duration::from_millis(300));
    silent.send(&question);
    closed += usize::from(!answered(&mut silent));
    broker.send(&question);
    closed += usize::from(!answered(&mut broker));
    at_most("13", "of 3 connections closed for a pause of the server", closed, 0);
}
