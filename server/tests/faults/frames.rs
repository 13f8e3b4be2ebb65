//! Frames that are none, and requests that nobody knows.

use std::collections::BTreeMap;
use std::io::Write;
use std::net::Shutdown;
use std::thread;
use std::time::{Duration, Instant};

use crate::support::broker::{request, route};
use crate::support::frame::{ANSWER_TIMEOUT, Client, Frame, Received, raw_frame};
use crate::support::local::Local;
use crate::support::ours;
use crate::support::probe::Probe;
use crate::support::process::Settings;

const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);
/// How long nothing must come where nothing is to come.
const QUIET: Duration = Duration::from_millis(200);
const MIB: u64 = 1 << 20;

/// Sends `bytes` on a connection of their own and expects its end, and one more of the counter, of no other.
fn costs_its_connection(server: &Local, what: &str, bytes: &[u8], counter: &str) {
    let before = server.counts();
    let mut bad = Client::connect(server.addr());
    bad.send(bytes);
    assert!(bad.is_closed_within(CLOSE_TIMEOUT), "{what}: still open");
    assert_eq!(server.grown(&before), BTreeMap::from([(counter.to_string(), 1)]), "{what}");
}

#[test]
fn a_bad_frame_closes_its_connection_and_no_other() {
    let server = Local::start(&[]);
    let probe = Probe::start(server.addr());
    // Only the length word: nothing else is waited for.
    for (word, counter) in [
        (0_u32, "bad_frame.truncated"),
        (1, "bad_frame.truncated"),
        (3, "bad_frame.truncated"),
        (0x8000_0000, "bad_frame.negative"),
        (0xFFFF_FFFF, "bad_frame.negative"),
        (16_777_213, "bad_frame.too_long"),
        (0x7FFF_FFFF, "bad_frame.too_long"),
    ] {
        costs_its_connection(&server, &format!("length {word:#x}"), &word.to_be_bytes(), counter);
    }
    for serialize_type in [2, 7, 255] {
        let frame = raw_frame(serialize_type, br#"{"code":106}"#, b"");
        costs_its_connection(&server, &format!("type {serialize_type}"), &frame, "bad_frame.bad_serialize_type");
    }
    for (header_length, counter) in [
        (0_u32, "bad_frame.header_overrun"),
        (17, "bad_frame.header_overrun"),
        (0xFF_FFFF, "bad_frame.header_too_long"),
    ] {
        let mut frame = [20_u32.to_be_bytes(), header_length.to_be_bytes()].concat();
        frame.resize(24, b'x');
        costs_its_connection(&server, &format!("header of {header_length}"), &frame, counter);
    }
    probe.finish();
}

#[test]
fn a_bad_header_closes_its_connection_and_no_other() {
    let server = Local::start(&[]);
    let probe = Probe::start(server.addr());
    let deep = [r#"{"code":105,"x":"#.as_bytes(), &[b'['; 10_000]].concat();
    for header in [
        &deep[..],
        b"not json",
        b"null",
        b"[    ]",
        br#"{"code":105}x"#,
        br#"{"code":NaN}"#,
        b"{\"remark\":\"\xFF\xFE\"}",
    ] {
        let what = String::from_utf8_lossy(&header[..header.len().min(30)]).into_owned();
        costs_its_connection(&server, &what, &raw_frame(0, header, b""), "bad_frame.bad_json");
    }
    let fixed = |remark: i32, ext: i32| {
        let start = [0, 105, 0, 1, 61, 0, 0, 0, 1, 0, 0, 0, 0];
        [&start[..], &remark.to_be_bytes(), &ext.to_be_bytes()].concat()
    };
    let with_entries = |entries: &[u8]| [&fixed(0, 12)[..], entries].concat();
    for (what, header) in [
        ("a negative remark", fixed(-1, 0)),
        ("a remark longer than all", fixed(1 << 30, 0)),
        ("fields longer than all", fixed(0, i32::MAX)),
        ("a negative key", with_entries(b"\xFF\xFFxxxxxxxxxx")),
        ("a value longer than the fields", with_entries(b"\x00\x01k\x7F\xFF\xFF\xFFxxxxx")),
        ("an entry that is cut off", with_entries(b"\x00\x01k")),
    ] {
        costs_its_connection(&server, what, &raw_frame(1, &header, b""), "bad_frame.bad_binary_header");
    }
    probe.finish();
}

#[test]
fn a_long_header_with_what_nobody_knows_is_served_up_to_the_limit() {
    let server = Local::start(&[]);
    let mut client = Client::connect(server.addr());
    let header = |bytes: usize| {
        let start = r#"{"code":"106","opaque":9,"who":[1,{}],"remark":""#;
        format!("{start}{}\"}} ", "x".repeat(bytes - start.len() - 3)).into_bytes()
    };
    client.send(&raw_frame(0, &header(65_536), b""));
    let Received::Frame(answer) = client.receive(ANSWER_TIMEOUT) else { panic!("no answer") };
    let answer = Frame::parse(&answer).expect("a frame");
    assert_eq!((answer.code(), answer.number("opaque")), (0, 9));
    let frame = raw_frame(0, &header(65_537), b"");
    costs_its_connection(&server, "a header over the limit", &frame[..8], "bad_frame.header_too_long");
}

#[test]
fn a_frame_that_is_cut_off_is_a_quiet_end() {
    let server = Local::start(&[]);
    let probe = Probe::start(server.addr());
    let frame = route("T").encode();
    let before = server.counts();
    for length in (1..frame.len()).step_by(7) {
        let mut client = Client::connect(server.addr());
        client.send(&frame[..length]);
        client.stream().shutdown(Shutdown::Write).expect("half a close");
        assert!(client.is_closed_within(CLOSE_TIMEOUT), "cut at {length}");
    }
    assert_eq!(server.grown(&before), BTreeMap::new(), "nothing went wrong");
    probe.finish();
}

#[test]
fn what_is_sent_byte_by_byte_is_served() {
    let server = Local::start(&[]);
    let mut client = Client::connect(server.addr());
    for byte in route("T").encode() {
        client.send(&[byte]);
    }
    let Received::Frame(answer) = client.receive(ANSWER_TIMEOUT) else { panic!("no answer") };
    assert_eq!(Frame::parse(&answer).expect("a frame").code(), 17);
}

#[test]
fn an_unknown_code_is_answered_and_nothing_else_is() {
    let server = Local::start(&[]);
    let before = server.counts();
    let mut client = Client::connect(server.addr());
    for code in [0, 905, 9999, -1] {
        let answer = client.call(&request(code, &[]));
        let remark = format!(" request type {code} not supported");
        assert_eq!((answer.code(), answer.remark()), (3, Some(remark.as_str())));
        assert_eq!(answer.number("opaque"), 7);
    }
    assert_eq!(server.grown(&before), BTreeMap::from([("bad_request.unknown_code".into(), 4)]));

    // A response to nothing, and one-way queries: known, unknown, and one for another thread.
    let mut response = request(0, &[]);
    response.flag = 1;
    client.send(&response.encode());
    for code in [105, 106, 9999, 205, 103] {
        let mut oneway = request(code, &[("topic", "T"), ("brokerName", "b")]);
        oneway.flag = 2;
        client.send(&oneway.encode());
    }
    assert!(matches!(client.receive(QUIET), Received::Silence), "nothing is answered");
    assert_eq!(client.code(&route("T")), 17, "the connection is as good as before");
}

/// Frames whose length is only a claim cost what has arrived, and a little.
#[test]
fn claimed_lengths_take_no_memory() {
    let server = ours::start(&Settings::default());
    let probe = Probe::start(server.addr());
    thread::sleep(Duration::from_millis(100));
    let (before, reserved) = (server.memory("VmRSS"), server.memory("VmSize"));
    let mut held: Vec<Client> = (0..50).map(|_| Client::connect(server.addr())).collect();
    for client in &mut held {
        client.send(&16_777_212_u32.to_be_bytes());
    }
    for _ in 0..50 {
        let mut client = Client::connect(server.addr());
        client.send(&16_777_213_u32.to_be_bytes());
        assert!(client.is_closed_within(CLOSE_TIMEOUT));
    }
    for client in &mut held {
        client.send(b"0123456789");
    }
    thread::sleep(Duration::from_millis(100));
    let peak = server.memory("VmHWM");
    assert!(peak - before < 16 * MIB, "{} MiB for 50 claims of 16 MiB", (peak - before) / MIB);
    // Nor is any set aside; allocators have arenas of 64 MiB.
    let grown = server.memory("VmPeak").saturating_sub(reserved);
    assert!(grown < 300 * MIB, "{} MiB reserved for 50 claims of 16 MiB", grown / MIB);
    probe.finish();
}

/// A frame of 16 MiB that arrives slowly is held once, not in ever new copies.
#[test]
fn a_long_frame_is_held_once() {
    let server = ours::start(&Settings::default());
    let before = server.memory("VmRSS");
    let mut client = Client::connect(server.addr());
    // For another thread, which gets the frame itself.
    let mut list = request(206, &[]);
    list.body = vec![b' '; 16_777_216 - 200];
    for part in list.encode().chunks(1 << 20) {
        client.send(part);
        thread::sleep(Duration::from_millis(2));
    }
    let Received::Frame(answer) = client.receive(ANSWER_TIMEOUT) else { panic!("no answer") };
    assert_eq!(Frame::parse(&answer).expect("a frame").code(), 0);
    let peak = server.memory("VmHWM");
    assert!(peak - before < 30 * MIB, "{} MiB for a frame of 16 MiB", (peak - before) / MIB);
}

/// A client that asks and never reads: what it asks for stays with it, and its time is limited.
#[test]
fn a_client_that_never_reads_is_bounded() {
    let server = ours::start(&Settings::default());
    let mut broker = Client::connect(server.addr());
    let names: Vec<String> = (0..2_000).map(|number| format!("a-topic-with-a-name-of-some-length-{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let registration = crate::support::broker::Broker::new("b", 0, "10.0.0.1:10911", &names).register();
    assert_eq!(broker.code(&registration), 0);
    let probe = Probe::start(server.addr());
    let before = server.memory("VmRSS");

    // 2,000 answers of 80 kB each would be 160 MB, and 2,000 requests as many.
    let reader = Client::connect(server.addr());
    let mut stream = reader.stream().try_clone().expect("a second handle");
    stream.set_write_timeout(Some(Duration::from_millis(300))).expect("a timeout");
    let mut list = request(206, &[]);
    list.body = vec![0; 80_000];
    let list = list.encode();
    let refused = (0..2_000).find(|_| stream.write_all(&list).is_err());
    assert!(refused.is_some(), "the server reads on and on");
    let grown = server.memory("VmHWM").saturating_sub(before);
    assert!(grown < 32 * MIB, "{} MiB for a client that does not read", grown / MIB);

    // Closed after 15 seconds without progress, which the kernel tells by its reset.
    let start = Instant::now();
    while stream.take_error().expect("the state of the socket").is_none() {
        assert!(start.elapsed() < Duration::from_secs(20), "still open");
        thread::sleep(Duration::from_millis(50));
    }
    assert!(start.elapsed() > Duration::from_secs(10), "closed after {:?}: it may be slow", start.elapsed());
    probe.finish();
}
