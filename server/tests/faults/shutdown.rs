//! The end of a server: quick, with a good exit code, and with every answer that it owes.

use std::collections::BTreeSet;
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use crate::support::broker::{Broker, cluster_info, request, route};
use crate::support::frame::{ANSWER_TIMEOUT, Client, Frame, Received, Request};
use crate::support::ours;
use crate::support::process::Settings;

const EXIT_TIMEOUT: Duration = Duration::from_secs(10);

#[test]
fn an_idle_server_ends_at_once() {
    for signal in ["TERM", "INT"] {
        let mut server = ours::start(&Settings::default());
        let mut idle = Client::connect(server.addr());
        assert_eq!(idle.code(&route("T")), 17);
        let mut half = Client::connect(server.addr());
        half.send(&route("T").encode()[..20]);
        let start = Instant::now();
        server.signal(signal);
        let status = server.wait(EXIT_TIMEOUT).expect("it ends");
        assert_eq!(status.code(), Some(0), "{signal}");
        assert!(start.elapsed() < Duration::from_secs(1), "{signal}: ended after {:?}", start.elapsed());
        assert!(idle.is_closed_within(Duration::from_secs(1)));
    }
}

/// A request of every kind: on the worker, by the writer, on the decode thread, on the scan thread, to the disk.
fn mixed(number: i32) -> Request {
    let broker = Broker::new("b", 0, "10.0.0.1:10911", &["T", "U"]).at(number.into());
    let mixed = match number % 16 {
        0 => broker.register(),
        1 => cluster_info(),
        2 => request(205, &[("brokerName", "b")]),
        3 if number < 200 => crate::support::broker::put_kv("NS", "k", &number.to_string()),
        _ => route("T"),
    };
    Request { opaque: number, ..mixed }
}

#[test]
fn what_was_sent_before_the_end_is_answered() {
    const REQUESTS: i32 = 600;
    let mut server = ours::start(&Settings::default());
    let (addr, connections) = (server.addr(), 3);
    let frames: Vec<u8> = (0..REQUESTS).flat_map(|number| mixed(number).encode()).collect();
    let mut clients: Vec<Client> = (0..connections).map(|_| Client::connect(addr)).collect();
    let readers: Vec<_> = clients
        .iter()
        .map(|client| {
            let mut reader = Client::new(client.stream().try_clone().expect("a second handle"));
            thread::spawn(move || {
                // Answers may overtake each other.
                let mut answered = BTreeSet::new();
                while let Received::Frame(answer) = reader.receive(ANSWER_TIMEOUT) {
                    let answer = Frame::parse(&answer).expect("a frame");
                    assert!(answered.insert(answer.number("opaque")), "answered twice: {}", answer.show());
                    assert!(matches!(answer.code(), 0 | 17), "{}", answer.show());
                }
                answered
            })
        })
        .collect();
    for client in &mut clients {
        client.send(&frames);
    }
    server.signal("TERM");
    for reader in readers {
        let answered = reader.join().expect("good answers");
        assert!(answered.into_iter().eq(0..i64::from(REQUESTS)), "all are answered");
    }
    assert_eq!(server.wait(EXIT_TIMEOUT).expect("it ends").code(), Some(0));
    assert!(TcpStream::connect(addr).is_err(), "nobody listens any more");
}

/// With `enableShutdownGracefully`, clients that know the answer are sent away for a while, the others are served.
#[test]
fn a_graceful_end_sends_new_clients_away() {
    let config = [("enableShutdownGracefully", "true"), ("shutdownWaitTimeSeconds", "1")];
    let mut server = ours::start(&Settings::with(&config));
    let mut client = Client::connect(server.addr());
    assert_eq!(client.code(&route("T")), 17);
    let start = Instant::now();
    server.signal("TERM");
    while client.code(&route("T")) == 17 {
        assert!(start.elapsed() < Duration::from_millis(900), "nobody is sent away");
        thread::sleep(Duration::from_millis(2));
    }
    let answer = client.call(&route("T"));
    assert_eq!((answer.code(), answer.remark()), (1500, Some("please go away")));
    let mut old = Client::connect(server.addr());
    assert_eq!(old.code(&Request { version: 475, ..route("T") }), 17);
    assert_eq!(old.code(&Request { version: 476, ..route("T") }), 1500);
    assert_eq!(server.wait(EXIT_TIMEOUT).expect("it ends").code(), Some(0));
    let lasted = start.elapsed();
    assert!(lasted > Duration::from_millis(900) && lasted < Duration::from_secs(3), "ended after {lasted:?}");
}
