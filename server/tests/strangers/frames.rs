//! Frames that cost more than they should: long headers, slow ones, many at once.

use std::io::Write;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use crate::beside::{P99, P99_FLOOR, with_topic};
use crate::peers::{MIB, Ongoing, bomb, broker_with, is_closed, millis, next};
use crate::report::{at_most, holds};
use crate::support::broker::{Broker, request, route};
use crate::support::frame::{ANSWER_TIMEOUT, Client, Received, raw_frame};

/// The longest frame that is read.
const FRAME_BYTES_MAX: usize = 16 << 20;
/// The default of `headerBytesMax`.
const HEADER_BYTES_MAX: usize = 65_536;

/// Headers that are as long as a frame may be, and take long to read.
fn long_headers() -> [(&'static str, Vec<u8>); 3] {
    let fill = |start: &str, filling: &str| {
        let mut header = start.as_bytes().to_vec();
        let rest = FRAME_BYTES_MAX - 64 - header.len();
        header.extend(filling.as_bytes().iter().cycle().take(rest));
        header
    };
    [
        ("nested arrays", fill(r#"{"code":105,"x":["#, "[[[[]]]],")),
        ("commas", fill(r#"{"code":105,"x":["#, "0,")),
        ("control characters", fill(r#"{"code":105,"x":""#, "\\u0001\\n")),
    ]
}

#[test]
fn a_long_header_ends_its_connection_at_its_length_word() {
    let (server, _broker) = with_topic(&[]);
    for length in [HEADER_BYTES_MAX + 1, FRAME_BYTES_MAX - 8] {
        let mut client = Client::connect(server.addr());
        // The two length words, and nothing of the header.
        client.send(&raw_frame(0, &vec![b' '; length], b"")[..8]);
        let start = Instant::now();
        let is_closed = client.is_closed_within(Duration::from_secs(2));
        holds("8", &format!("closed at the length word of a header of {length} bytes"), is_closed);
        at_most("8", "ms to the end of a connection with a long header", millis(start.elapsed()), 1_000);
    }
    let longest = |bytes: usize| {
        let start = br#"{"code":105,"extFields":{"topic":"T"},"opaque":7,"remark":""#;
        [&start[..], &vec![b'x'; bytes - start.len() - 2], br#""}"#].concat()
    };
    let mut client = Client::connect(server.addr());
    client.send(&raw_frame(0, &longest(HEADER_BYTES_MAX), b""));
    let answer = next(&mut client, ANSWER_TIMEOUT).expect("an answer");
    holds("8", "a header of headerBytesMax is served", answer.code() == 0);

    let (server, _broker) = with_topic(&[("headerBytesMax", "1000000")]);
    let mut client = Client::connect(server.addr());
    client.send(&raw_frame(0, &longest(1_000_000), b""));
    assert_eq!(next(&mut client, ANSWER_TIMEOUT).expect("the limit is a setting").code(), 0);
}

#[test]
#[ignore = "measures times"]
fn long_headers_do_not_show_in_the_latency_of_others() {
    let (server, _broker) = with_topic(&[("workerThreads", "1")]);
    let addr = server.addr();
    let before = server.memory("VmRSS");
    for (what, header) in long_headers() {
        let frame = raw_frame(0, &header, b"");
        let what = format!("headers of 16 MiB: {what}");
        P99 { row: "8", what: &what, ratio: 2, floor: P99_FLOOR }.hold(&server, || {
            let frame = frame.clone();
            Ongoing::start(move |done| {
                while !done.load(Ordering::Relaxed) {
                    let client = Client::connect(addr);
                    client.stream().set_write_timeout(Some(Duration::from_secs(1))).expect("a timeout");
                    let _ = client.stream().write_all(&frame);
                    // A sender of 16 MiB over a network would take longer.
                    thread::sleep(Duration::from_millis(20));
                }
            })
        });
    }
    at_most("8", "MiB taken by headers of 16 MiB", server.memory("VmHWM").saturating_sub(before) / MIB, 16);
}

/// One connection that asks without a pause, after a long frame has made its buffer large.
#[test]
#[ignore = "measures times"]
fn a_connection_that_pipelines_has_no_more_than_its_turn() {
    let (server, _broker) = with_topic(&[("workerThreads", "1")]);
    let addr = server.addr();
    let row = P99 { row: "9", what: "one connection that pipelines, one worker", ratio: 3, floor: P99_FLOOR };
    row.hold(&server, || {
        Ongoing::start(move |done| {
            let mut client = Client::connect(addr);
            let long = broker_with("long", "10.0.0.2:10911", "topic-", 2_500).register().encode();
            assert!(long.len() > 400_000, "{} bytes", long.len());
            client.send(&long);
            assert!(next(&mut client, ANSWER_TIMEOUT).is_some());
            let mut stream = client.stream().try_clone().expect("a second handle");
            let questions = route("T").encode().repeat(5_000);
            stream.set_write_timeout(Some(Duration::from_secs(2))).expect("a timeout");
            let sender = Ongoing::start(
                move |done| while !done.load(Ordering::Relaxed) && stream.write_all(&questions).is_ok() {},
            );
            // Reads as fast as it can, without looking.
            let mut stream = client.stream();
            let mut chunk = vec![0; 1 << 20];
            while !done.load(Ordering::Relaxed) {
                let _ = std::io::Read::read(&mut stream, &mut chunk);
            }
            client.stream().shutdown(std::net::Shutdown::Both).expect("it is open");
            sender.finish();
        })
    });
}

/// What is complete and waits for its turn is not late, however long the turn takes.
#[test]
fn the_clock_of_a_frame_runs_for_missing_bytes_only() {
    let (server, _broker) = with_topic(&[("frameReadTimeoutMillis", "500"), ("workerThreads", "1")]);
    let addr = server.addr();
    let registration = |number: u32| Broker::new("bomb", 0, &format!("10.0.1.{number}:10911"), &[]);
    let body = bomb(&registration(0));
    let bombs: Vec<u8> = (0..30)
        .flat_map(|number| registration(number).with("compressed", "true").register_body(body.clone()).encode())
        .collect();
    let start = Instant::now();
    let mut client = Client::connect(addr);
    let mut stream = client.stream().try_clone().expect("a second handle");
    let last = broker_with("last", "10.0.0.9:10911", "last-", 2_000).register().encode();
    let sender = thread::spawn(move || {
        // Everything at once, but the end of the last frame, which comes in time.
        let (head, tail) = last.split_at(last.len() / 2);
        stream.write_all(&bombs).and_then(|()| stream.write_all(head)).expect("the server reads");
        thread::sleep(Duration::from_millis(100));
        stream.write_all(tail)
    });
    let mut answered = 0;
    while let Received::Frame(_) = client.receive(ANSWER_TIMEOUT) {
        answered += 1;
        if answered == 31 {
            break;
        }
    }
    println!("{answered} of 31 answers after {:?}", start.elapsed());
    assert!(start.elapsed() > Duration::from_millis(600), "too fast to show anything");
    at_most("12", "frames that were whole in time and have no answer", 31 - answered, 0);
    sender.join().expect("sent").expect("the connection is open");
    assert_eq!(Client::connect(addr).code(&route("last-0")), 0);
}

/// Each frame has its time: a connection on which some frame is always incomplete is not slow.
#[test]
fn the_clock_of_a_frame_begins_with_its_first_byte() {
    let (server, _broker) = with_topic(&[("frameReadTimeoutMillis", "1000")]);
    let mut client = Client::connect(server.addr());
    let frame = route("T").encode();
    client.send(&frame[..10]);
    let mut served = 0;
    for _ in 0..30 {
        thread::sleep(Duration::from_millis(100));
        // The rest of one and the start of the next, in one write.
        client.send(&[&frame[10..], &frame[..10]].concat());
        served += usize::from(next(&mut client, ANSWER_TIMEOUT).is_some_and(|answer| answer.code() == 0));
    }
    at_most("12", "refused of 30 frames, of which the next has always begun", 30 - served, 0);
}

/// S1: frames that come byte by byte for ever.
#[test]
#[ignore = "measures times"]
fn slow_frames_are_closed_in_time_and_cost_nobody_else() {
    const CONNECTIONS: usize = 500;
    let (server, _broker) = with_topic(&[("frameReadTimeoutMillis", "2000")]);
    let addr = server.addr();
    let before = server.memory("VmRSS");
    let (mut slow, first_closed, last_closed) = slow_frames(addr, CONNECTIONS);
    slow.retain(|client| !is_closed(client));
    at_most("S1", "slow frames still open 10 s after a time-out of 2 s", slow.len(), 0);
    at_most("S1", "ms until the last slow frame is closed", millis(last_closed), 5_000);
    assert!(first_closed > Duration::from_secs(1), "closed after {first_closed:?}");
    let grown = server.memory("VmHWM").saturating_sub(before);
    at_most("S1", "KiB for each slow frame", grown / 1_024 / CONNECTIONS as u64, 64);
    P99 { row: "S1", what: "500 slow frames", ratio: 3, floor: P99_FLOOR }
        .hold(&server, || Ongoing::start(move |_| slow_frames(addr, CONNECTIONS)));
}

/// Sends frames byte by byte, five a second, until their connections are closed, for 10 s at most. Says when the first
/// and the last were closed.
fn slow_frames(addr: SocketAddr, count: usize) -> (Vec<Client>, Duration, Duration) {
    let frame = broker_with("b", "10.0.0.1:10911", "t", 100).register().encode();
    let mut slow: Vec<Client> = (0..count).map(|_| Client::connect(addr)).collect();
    let start = Instant::now();
    let mut first_closed = None;
    for byte in frame.chunks(1) {
        for client in &mut slow {
            client.send(byte);
        }
        thread::sleep(Duration::from_millis(200));
        let before = slow.len();
        slow.retain(|client| !is_closed(client));
        if slow.len() < before && first_closed.is_none() {
            first_closed = Some(start.elapsed());
        }
        if slow.is_empty() || start.elapsed() > Duration::from_secs(10) {
            break;
        }
    }
    (slow, first_closed.unwrap_or(Duration::MAX), start.elapsed())
}

/// S4: a hundred thousand requests at once.
#[test]
fn what_is_pipelined_is_answered_and_takes_little_memory() {
    const REQUESTS: i32 = 100_000;
    let (server, _broker) = with_topic(&[]);
    let before = server.memory("VmRSS");
    let mut client = Client::connect(server.addr());
    let mut stream = client.stream().try_clone().expect("a second handle");
    let sender = thread::spawn(move || {
        for start in (0..REQUESTS).step_by(1_000) {
            let frames: Vec<u8> = (start..start + 1_000)
                .flat_map(|opaque| {
                    // Now and then one for another thread.
                    let question = if opaque % 500 == 3 { request(106, &[]) } else { route("T") };
                    crate::support::frame::Request { opaque, ..question }.encode()
                })
                .collect();
            stream.write_all(&frames).expect("the server reads");
        }
    });
    let mut seen = vec![false; usize::try_from(REQUESTS).expect("a number")];
    for _ in 0..REQUESTS {
        let answer = next(&mut client, ANSWER_TIMEOUT).expect("an answer");
        assert_eq!(answer.code(), 0, "{}", answer.show());
        let opaque = usize::try_from(answer.number("opaque")).expect("an opaque of ours");
        assert!(!std::mem::replace(&mut seen[opaque], true), "{opaque} is answered twice");
    }
    sender.join().expect("all are sent");
    at_most("S4", "of 100,000 pipelined requests without an answer", seen.iter().filter(|seen| !**seen).count(), 0);
    let grown = server.memory("VmHWM").saturating_sub(before);
    at_most("S4", "MiB for 100,000 pipelined requests", grown / MIB, 16);
}

/// S8: what is cheap to send and costly to answer, as fast as ten peers can.
#[test]
#[ignore = "measures times"]
fn costly_questions_of_some_do_not_delay_the_routes_of_others() {
    let (server, mut broker) = with_topic(&[]);
    let addr = server.addr();
    let topics = broker_with("b", "10.0.0.1:10911", "a-topic-with-a-name-of-some-length-", 10_000).at(2);
    assert_eq!(broker.code(&topics.register()), 0);
    assert_eq!(broker.code(&Broker::new("c", 0, "10.0.0.3:10911", &["T", "U"]).register()), 0);
    let row = P99 { row: "S8", what: "ten peers that ask for all topics", ratio: 3, floor: P99_FLOOR };
    row.hold(&server, || {
        Ongoing::start(move |done| {
            let list = request(206, &[]).encode();
            let mut peers: Vec<Client> = (0..10).map(|_| Client::connect(addr)).collect();
            while !done.load(Ordering::Relaxed) {
                for peer in &mut peers {
                    peer.send(&list);
                }
                for peer in &mut peers {
                    assert!(matches!(peer.receive(ANSWER_TIMEOUT), Received::Frame(_)));
                }
            }
        })
    });
}
