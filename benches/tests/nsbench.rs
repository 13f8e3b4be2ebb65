//! The load tool against a name server, the floor, and servers that fail.

mod requests;
mod support;

use std::{
    io::{BufRead as _, BufReader},
    net::{SocketAddr, TcpListener, TcpStream},
    process::{Child, Command, Output, Stdio},
    thread,
    time::Duration,
};

use requests::answer_each;
use serde_json::Value;
use server::{
    limits::Limits,
    remoting::{Encoder, SerializeType},
};
use support::NameServer;

/// What came of a run.
struct Run {
    is_good: bool,
    stdout: String,
    stderr: String,
}

impl Run {
    fn of(addr: SocketAddr, flags: &str) -> Self {
        let output =
            Command::new(env!("CARGO_BIN_EXE_nsbench")).args(flags.split_whitespace()).arg(addr.to_string()).output();
        let Output { status, stdout, stderr } = output.expect("run nsbench");
        let text = |bytes| String::from_utf8(bytes).expect("text");
        Self { is_good: status.success(), stdout: text(stdout), stderr: text(stderr) }
    }

    /// A run that must be good, as JSON.
    fn good(addr: SocketAddr, flags: &str) -> Value {
        let run = Self::of(addr, &format!("{flags} --output json"));
        assert!(run.is_good, "{flags}: {}{}", run.stdout, run.stderr);
        let value: Value = serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error}: {}", run.stdout));
        assert_eq!(value["errors"], serde_json::json!({}));
        assert!(number(&value["answers"]) > 0);
        value
    }

    /// A run that must fail, say why in these words, and print its table nevertheless.
    fn bad(addr: SocketAddr, flags: &str, words: &str) -> Self {
        let run = Self::of(addr, flags);
        assert!(!run.is_good, "{flags}: {}{}", run.stdout, run.stderr);
        assert!(run.stderr.contains(words), "{words:?} is not in {:?}", run.stderr);
        for row in ["right answers", "p99.9 ms", "errors"] {
            assert!(run.stdout.contains(&format!("| {row} ")), "no {row} in {}", run.stdout);
        }
        run
    }

    /// The number of the lookups in a row of the table.
    fn row(&self, name: &str) -> u64 {
        let line = self
            .stdout
            .lines()
            .find_map(|line| line.strip_prefix('|')?.trim_start().strip_prefix(name)?.split('|').nth(1));
        line.and_then(|cell| cell.trim().parse().ok()).unwrap_or_else(|| panic!("no {name} in {}", self.stdout))
    }
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no number"))
}

/// `nsbench floor`, ended on drop.
struct Floor(Child, SocketAddr);

impl Floor {
    fn start() -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_nsbench"));
        command.args(["floor", "--port", "0", "--workers", "2", "--body-bytes", "100"]).stdout(Stdio::piped());
        let mut child = command.spawn().expect("start the floor");
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).expect("a line");
        let addr = line.trim().rsplit(' ').next().unwrap().parse().expect("an address");
        Self(child, addr)
    }
}

impl Drop for Floor {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

const SHORT: &str = "-z 600ms -c 4 --topics 30 --brokers 3";

#[test]
fn a_steady_load_is_right_in_every_form() {
    let server = NameServer::start();
    let value = Run::good(server.addr, "-n 5000 -c 4 -p 3 --threads 2 --topics 100 --popularity zipf:0.9");
    assert_eq!(number(&value["answers"]), 5_000);
    let latency = |name: &str| value["latency_us"][name].as_f64().unwrap();
    let all = ["p50", "p90", "p99", "p99.9", "max"].map(latency);
    assert!(all.is_sorted() && all[0] > 1.0, "{all:?}");

    let text = Run::of(server.addr, "-n 300 --topics 10 --brokers 2");
    assert!(text.is_good && text.row("right answers") == 300 && text.row("errors") == 0, "{}", text.stdout);

    let csv = Run::of(server.addr, "-n 300 --topics 10 --brokers 2 --output csv");
    let lines: Vec<Vec<&str>> = csv.stdout.lines().map(|line| line.split(',').collect()).collect();
    let [names, values] = &lines[..] else { panic!("{}", csv.stdout) };
    assert_eq!(names.len(), values.len());
    let cell = |name| values[names.iter().position(|other| *other == name).unwrap()];
    assert_eq!((cell("answers"), cell("errors"), cell("beside_due")), ("300", "0", ""));
    assert!(cell("p99_us").parse::<f64>().unwrap() > 1.0);
}

#[test]
fn an_open_loop_sends_what_is_due() {
    let server = NameServer::start();
    let value = Run::good(server.addr, "-z 1s -q 500 --threads 2 -c 4 --topics 10 --brokers 2");
    assert_eq!(number(&value["answers"]), 500);
    assert!(value["sent_late_max_us"].as_f64().unwrap() > 0.0);
}

#[test]
fn a_storm_is_seen_by_lookups() {
    let server = NameServer::start();
    let value =
        Run::good(server.addr, &format!("{SHORT} -p 4 --storm-brokers 2 --storm-topics 40 --storm-period 20ms"));
    let beside = &value["beside"];
    assert!(number(&beside["due"]) >= 40 && number(&beside["applied"]) > 5, "{beside}");
    let unchanged = format!("{SHORT} --storm-brokers 1 --storm-topics 40 --storm-period 20ms --storm-unchanged");
    assert!(number(&Run::good(server.addr, &unchanged)["beside"]["applied"]) > 5);
}

#[test]
fn every_mix_is_right() {
    let server = NameServer::start();
    for flags in [
        "--mix rolling-restart --storm-period 50ms",
        "--mix avalanche --storm-brokers 20 --storm-topics 10 -z 1500ms",
        "--mix topic-storm",
        "--mix admin-scan --storm-period 50ms",
    ] {
        let value = Run::good(
            server.addr,
            &format!("-c 4 --topics 30 --brokers 3 {flags} {}", if flags.contains("-z") { "" } else { "-z 600ms" }),
        );
        let beside = &value["beside"];
        assert!(number(&beside["applied"]) >= 3 && beside["errors"] == serde_json::json!({}), "{flags}: {beside}");
        if flags.contains("avalanche") {
            assert_eq!((number(&beside["due"]), number(&beside["applied"])), (20, 20));
        }
    }
    // Everybody is gone.
    Run::bad(server.addr, "-z 100ms --no-populate", "lists no topic");
}

#[test]
fn a_server_with_topics_is_asked_for_them() {
    let server = NameServer::start();
    let mut populated = Command::new(env!("CARGO_BIN_EXE_nsbench"));
    populated.args("-z 30s --topics 20 --brokers 2 -q 10 --topic-prefix mine-".split(' ')).arg(server.addr.to_string());
    let mut populated = populated.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    // A first line of progress: it is populated.
    BufReader::new(populated.stderr.take().unwrap()).read_line(&mut String::new()).unwrap();
    let value = Run::good(server.addr, "-z 300ms --no-populate --topic-prefix mine- --mix admin-scan");
    let _ = populated.kill();
    let _ = populated.wait();
    assert!(number(&value["beside"]["applied"]) > 0);
}

#[test]
fn the_floor_is_asked_for_anything() {
    let floor = Floor::start();
    let value = Run::good(floor.1, "-n 2000 -c 4 -p 4 --no-populate");
    assert_eq!(number(&value["answers"]), 2_000);
    // It is no name server: what it says is no route.
    let run = Run::bad(floor.1, "-n 100", "no JSON");
    assert!(run.row("body") > 50 && run.row("errors") == run.row("body"), "{}", run.stdout);
}

#[test]
fn nobody_there() {
    let addr = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let run = Run::bad(addr, "-z 1s", "Connection refused");
    assert_eq!(run.row("right answers"), 0);
}

#[test]
fn a_server_that_closes() {
    let run =
        Run::bad(serve(|number, frame| (number < 50).then(|| right(frame))), "--no-populate -c 2 -z 5s", "closed");
    assert!(run.row("right answers") >= 10 && run.row("closed") > 0, "{}", run.stdout);
}

#[test]
fn the_load_goes_on_without_a_connection() {
    // The first connection is the one that asks what there is.
    let one_leaves = |number, frame: &Frame| (frame.connection != 1 || number < 5).then(|| right(frame));
    for pace in ["-p 4", "-q 1000"] {
        let run = Run::bad(serve(one_leaves), &format!("--no-populate -c 3 -n 300 {pace}"), "closed");
        let (answers, errors) = (run.row("right answers"), run.row("closed"));
        assert!(answers >= 280 && (1..=20).contains(&errors) && run.row("errors") == errors, "{}", run.stdout);
    }
}

#[test]
fn a_server_that_talks_garbage() {
    let run = Run::bad(
        serve(|number, frame| Some(if number < 50 { right(frame) } else { vec![0xff; 64] })),
        "--no-populate -c 2 -z 5s",
        "garbage",
    );
    assert!(run.row("right answers") >= 10 && run.row("garbage") > 0, "{}", run.stdout);
}

#[test]
fn a_server_that_is_slow() {
    let slow = |number, frame: &Frame| {
        thread::sleep(Duration::from_millis(if number < 50 { 0 } else { 400 }));
        Some(right(frame))
    };
    let run = Run::bad(serve(slow), "--no-populate -c 2 -z 900ms --timeout 200ms", "no answer in 200ms");
    assert!(run.row("right answers") >= 10 && run.row("timeout") > 0, "{}", run.stdout);
    assert_eq!(run.row("errors"), run.row("timeout"), "late answers are no other errors: {}", run.stderr);
    let started = std::time::Instant::now();
    let silent = serve(|_, _| Some(Vec::new()));
    Run::bad(silent, "--timeout 200ms", "no answer to RegisterBroker");
    assert!(started.elapsed() < Duration::from_secs(5));
}

#[test]
fn a_server_that_answers_others() {
    let twice = |number, frame: &Frame| Some(right(frame).repeat(if number % 10 == 9 { 2 } else { 1 }));
    let run = Run::bad(serve(twice), "--no-populate -c 1 -n 100", "not in flight");
    assert!(run.row("right answers") == 100 && run.row("opaque") >= 9, "{}", run.stdout);
    let other_code = |number, frame: &Frame| Some(answer(frame, if number % 10 == 9 { 17 } else { 0 }, b"body"));
    let run = Run::bad(serve(other_code), "--no-populate -c 1 -n 100", "code 17");
    assert!(run.row("right answers") == 90 && run.row("code") == 10, "{}", run.stdout);
    let other_body = |number, frame: &Frame| Some(answer(frame, 0, if number % 10 == 9 { b"bodx" } else { b"body" }));
    let run = Run::bad(serve(other_body), "--no-populate -c 1 -n 100 --topics 3", "has changed");
    assert!(run.row("body") >= 9, "{}", run.stdout);
}

#[test]
fn what_happens_beside_is_looked_at() {
    // It says yes to everything and does nothing.
    let yes = serve(|_, frame| Some(right(frame)));
    for (mix, fault) in [
        ("steady --storm-period 50ms", "stale"),
        ("rolling-restart --storm-period 50ms", "stale"),
        ("avalanche", "stale"),
        ("topic-storm", "code"),
        ("admin-scan --storm-period 50ms", "body"),
    ] {
        let flags = format!("-z 300ms --topics 3 --storm-brokers 3 --storm-topics 3 --output json --mix {mix}");
        let run = Run::of(yes, &flags);
        let value: Value = serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error}: {}", run.stdout));
        assert!(!run.is_good && number(&value["beside"]["errors"][fault]["count"]) > 0, "{mix}: {value}");
        assert!(number(&value["errors"]["body"]["count"]) > 0, "{value}");
    }
}

#[test]
fn what_cannot_be_sent_is_counted() {
    let silent_after = |number, frame: &Frame| Some(if number < 100 { right(frame) } else { Vec::new() });
    let run = Run::bad(serve(silent_after), "--no-populate -c 1 -z 1s -q 1000000 --timeout 1500ms", "requests wait");
    let sum = run.row("right answers") + run.row("unsent") + run.row("timeout");
    assert!(sum == 1_000_000 && run.row("unsent") > 100_000, "{}", run.stdout);
}

#[test]
fn flags_that_make_no_sense() {
    let addr = SocketAddr::from(([127, 0, 0, 1], 1));
    for (flags, words) in [
        ("-c 0", "connections"),
        ("-z 10", "ms, s, m or h"),
        ("--popularity zapf", "neither uniform nor zipf"),
        ("--mix rolling-restart --no-populate", "needs brokers"),
        ("--mix rolling-restart --storm-topics 0 --storm-brokers 1", "1 to 50000"),
        ("--output xml", "possible values"),
    ] {
        let run = Run::of(addr, flags);
        assert!(!run.is_good && run.stderr.contains(words), "{flags}: {}", run.stderr);
    }
    let help = Command::new(env!("CARGO_BIN_EXE_nsbench")).arg("--help").output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    for mix in ["steady", "rolling-restart", "avalanche", "topic-storm", "admin-scan"] {
        assert!(help.contains(&format!("- {mix}:")), "{mix} is not explained");
    }
}

/// A request of which only the opaque is of interest.
struct Frame {
    opaque: i32,
    /// Connections are counted, too.
    connection: usize,
}

/// A server that counts the requests of each connection, and closes the connection when there is no answer.
fn serve(answer: fn(u32, &Frame) -> Option<Vec<u8>>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    thread::spawn(move || {
        for (connection, stream) in listener.incoming().enumerate() {
            thread::spawn(move || serve_one(stream.unwrap(), connection, answer));
        }
    });
    addr
}

fn serve_one(stream: TcpStream, connection: usize, answer: fn(u32, &Frame) -> Option<Vec<u8>>) {
    let mut numbers = 0..;
    answer_each(stream, |opaque| answer(numbers.next()?, &Frame { opaque, connection }));
}

fn right(frame: &Frame) -> Vec<u8> {
    answer(frame, 0, b"body")
}

fn answer(frame: &Frame, code: i32, body: &[u8]) -> Vec<u8> {
    let encoder = Encoder::new(SerializeType::Json, &Limits::default());
    let mut out = Vec::new();
    if code == 0 {
        let mark = encoder.begin_success(&mut out, frame.opaque);
        out.extend_from_slice(body);
        encoder.finish(&mut out, mark);
        return out;
    }
    let header =
        format!("{{\"code\":{code},\"flag\":1,\"language\":\"JAVA\",\"opaque\":{},\"version\":513}}", frame.opaque);
    let length = |bytes: usize| u32::try_from(bytes).unwrap().to_be_bytes();
    [&length(header.len() + 4), &length(header.len()), header.as_bytes()].map(<[u8]>::to_vec).concat()
}
