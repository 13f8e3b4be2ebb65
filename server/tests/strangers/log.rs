//! Row 4: a standard error, or output, that cannot be written ends nothing and holds nobody up; lines that peers cause are
//! few. What a panic costs then is in `fault_injection.rs`.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use crate::report::{at_most, holds};
use crate::support::broker::{Broker, get_kv, put_kv, request, route, update_config};
use crate::support::frame::{ANSWER_TIMEOUT, Client, Received, fields};
use crate::support::latency::{Latencies, LatencyProbe};
use crate::support::ours;
use crate::support::process::{NameServer, Settings, config_file, free_port, write_config};
use crate::support::unwritable::Unwritable;

/// README: "Limits".
const STOP_MS: u64 = 5_000;
/// A line each at `info`, and others at `debug`: many more than a pipe holds.
const REGISTRATIONS: i64 = 1_500;
const REFUSALS: i64 = 500;
const PUTS: usize = 60;
/// Lines of one kind at once, and in a minute.
const LINES_PER_MINUTE: u64 = 10;

fn launch_verbose(home: &Path, file: &Path, settings: &Settings) -> Command {
    let mut command = ours::launch(home, file, settings);
    command.env("RUST_LOG", "debug");
    command
}

fn settings(stderr: Option<Unwritable>) -> (Settings, Option<io::PipeReader>) {
    let (stderr, reader) = stderr.map(Unwritable::open).unzip();
    (Settings { stderr, ..Settings::with(&[("scanNotActiveBrokerInterval", "200")]) }, reader.flatten())
}

/// Everything that a thread of the server logs about, thousands of times; all of it is answered.
fn events(addr: SocketAddr) {
    let registrations = || {
        let mut client = Client::connect(addr);
        for version in 2..REGISTRATIONS {
            let broker = Broker { state_version: 5, ..Broker::new("a", 0, "10.0.0.1:1", &["T", "U"]).at(version) };
            assert_eq!(client.code(&broker.register()), 0);
            assert_eq!(client.code(&broker.heartbeat()), 0);
            let loser = Broker { state_version: 1, ..Broker::new("a", 0, "10.0.0.9:1", &["T", "U"]).at(version) };
            assert_eq!(client.code(&loser.register()), 0, "it is ignored, and not told");
            let visitor = Broker::new("visitor", 0, "10.0.0.2:1", &["V", "W"]);
            assert_eq!(client.code(&visitor.register()), 0);
            assert_eq!(client.code(&visitor.unregister()), 0);
        }
    };
    let refusals = || {
        let mut client = Client::connect(addr);
        for _ in 0..REFUSALS {
            assert_eq!(client.code(&update_config("noSuchKey=1")), 1);
            assert_eq!(client.code(&request(103, &[])), 1, "its fields are missing");
            let mut bad = Client::connect(addr);
            bad.send(b"no frame at all");
            assert!(bad.is_closed_within(ANSWER_TIMEOUT));
        }
    };
    let puts = || {
        let mut client = Client::connect(addr);
        for number in 0..PUTS {
            let number = number.to_string();
            assert_eq!(client.code(&put_kv("NS", "k", &number)), 0);
            assert_eq!(fields(&client.call(&get_kv("NS", "k"))).get("value"), Some(&number));
        }
    };
    thread::scope(|scope| {
        scope.spawn(registrations);
        scope.spawn(refusals);
        scope.spawn(puts);
    });
}

/// Runs the events, beside a probe, on a server that logs all of it, and ends it.
fn serve(name: &str, stderr: Option<Unwritable>) -> Latencies {
    let (settings, _reader) = settings(stderr);
    let mut server = NameServer::start(launch_verbose, &settings);
    let addr = server.addr();
    let mut carrier = Client::connect(addr);
    assert_eq!(carrier.code(&Broker::new("b", 0, "10.0.0.4:1", &["P", "Q"]).register()), 0);
    let silent = Broker::new("silent", 0, "10.0.0.3:1", &["S", "R"]).with("heartbeatTimeoutMillis", "2000");
    let mut its_own = Client::connect(addr);
    assert_eq!(its_own.code(&silent.register()), 0);
    assert_eq!(carrier.code(&route("S")), 0);

    let probe = LatencyProbe::start(addr, "P");
    events(addr);
    let start = Instant::now();
    while carrier.code(&route("S")) == 0 {
        assert!(start.elapsed() < Duration::from_secs(20), "{name}: a silent broker stays routed");
        thread::sleep(Duration::from_millis(20));
    }
    let latencies = probe.finish();
    assert_eq!(latencies.codes.keys().copied().collect::<Vec<_>>(), [0], "{name}: the route is there throughout");
    holds("4", &format!("{name}: the process goes on"), server.wait(Duration::ZERO).is_none());

    let start = Instant::now();
    server.signal("TERM");
    let status = server.wait(Duration::from_secs(30)).expect("it ends");
    at_most("4", &format!("{name}: stop, ms"), start.elapsed().as_millis() as u64, STOP_MS);
    assert_eq!(status.code(), Some(0), "{name}");
    latencies
}

/// Beside a server whose log is read, so that what else the machine does slows both.
fn serves_as_ever(name: &str, stderr: Unwritable) {
    /// One such pair at a time.
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let (healthy, troubled) = thread::scope(|scope| {
        let healthy = scope.spawn(|| serve(&format!("{name}, for comparison"), None));
        let troubled = serve(name, Some(stderr));
        (healthy.join().expect("it serves"), troubled)
    });
    // On a machine with more to do than processors, a tail of one is no measure for that of the other.
    let limit = (healthy.p50() * 3).max(Duration::from_millis(100));
    at_most("4", &format!("{name}: probe p50, us"), troubled.p50().as_micros(), limit.as_micros());
    let limit = (healthy.max() * 3).max(Duration::from_secs(3));
    at_most("4", &format!("{name}: probe max, us"), troubled.max().as_micros(), limit.as_micros());
}

#[test]
fn a_full_disk_under_the_log() {
    serves_as_ever("disk full", Unwritable::DiskFull);
}

#[test]
fn a_log_whose_reader_has_gone() {
    serves_as_ever("closed pipe", Unwritable::Closed);
}

#[test]
fn a_log_that_nobody_reads() {
    serves_as_ever("unread pipe", Unwritable::Unread);
}

/// A server in whose way stands whatever reads its output. It is up when it answers.
struct Start {
    child: Child,
    addr: SocketAddr,
    _home: tempfile::TempDir,
    _readers: Vec<io::PipeReader>,
}

impl Start {
    fn new(stdout: Option<Unwritable>, stderr: Option<Unwritable>, port: u16) -> Self {
        let home = tempfile::tempdir().expect("a home folder");
        // A warning before the boot line.
        write_config(home.path(), port, &Settings::with(&[("noSuchKey", "1")]));
        let mut command = ours::launch(home.path(), &config_file(home.path()), &Settings::default());
        let mut readers = Vec::new();
        let mut open = |stream: Option<Unwritable>| -> Stdio {
            let Some(stream) = stream else { return Stdio::null() };
            let (stream, reader) = stream.open();
            readers.extend(reader);
            stream.try_clone().expect("another descriptor").into()
        };
        let child = command.stdin(Stdio::null()).stdout(open(stdout)).stderr(open(stderr)).spawn().expect("spawn");
        Self { child, addr: ([127, 0, 0, 1], port).into(), _home: home, _readers: readers }
    }

    fn exit_code_within(&mut self, timeout: Duration) -> Option<i32> {
        let start = Instant::now();
        while start.elapsed() < timeout {
            if let Some(status) = self.child.try_wait().expect("wait for it") {
                return Some(status.code().expect("an exit code"));
            }
            thread::sleep(Duration::from_millis(5));
        }
        None
    }

    fn is_up_within(&self, timeout: Duration) -> bool {
        let start = Instant::now();
        while start.elapsed() < timeout {
            if TcpStream::connect(self.addr).is_ok() {
                return Client::connect(self.addr).code(&route("T")) == 17;
            }
            thread::sleep(Duration::from_millis(5));
        }
        false
    }
}

impl Drop for Start {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_start_without_anybody_who_reads() {
    for stream in Unwritable::ALL {
        for (name, stdout, stderr) in [
            ("standard error", None, Some(stream)),
            ("standard output", Some(stream), None),
            ("both", Some(stream), Some(stream)),
        ] {
            let mut server = Start::new(stdout, stderr, free_port());
            holds("4", &format!("start, {name}: {stream:?}"), server.is_up_within(Duration::from_secs(20)));
            thread::sleep(Duration::from_millis(100));
            assert_eq!(Client::connect(server.addr).code(&route("T")), 17, "{name}: {stream:?}: it goes on");
            let pid = server.child.id().to_string();
            assert!(Command::new("kill").args(["-TERM", &pid]).status().expect("run kill").success());
            assert_eq!(server.exit_code_within(Duration::from_secs(10)), Some(0), "{name}: {stream:?}");
        }
    }
}

#[test]
fn a_start_that_fails_without_anybody_who_reads() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("its address").port();
    for stream in Unwritable::ALL {
        let mut server = Start::new(Some(stream), Some(stream), port);
        let code = server.exit_code_within(Duration::from_secs(20));
        holds("4", &format!("failed start: {stream:?}: its exit code"), code == Some(255));
    }
}

#[test]
fn the_configuration_for_nobody_who_reads() {
    let home = tempfile::tempdir().expect("a home folder");
    for why in Unwritable::ALL {
        let (stream, reader) = why.open();
        let mut command = ours::bare(home.path(), &["-p"]);
        let mut child = command
            .stdout(stream.try_clone().expect("another descriptor"))
            .stderr(Stdio::null())
            .spawn()
            .expect("spawn");
        let start = Instant::now();
        while child.try_wait().expect("wait for it").is_none() && start.elapsed() < Duration::from_secs(20) {
            thread::sleep(Duration::from_millis(5));
        }
        let status = child.try_wait().expect("wait for it");
        let _ = child.kill();
        holds("4", &format!("-p: {why:?}"), status.and_then(|status| status.code()) == Some(0));
        drop(reader);
    }
}

/// Lines of a stream, as they come.
fn lines_of(stream: impl Read + Send + 'static) -> mpsc::Receiver<String> {
    let (sender, lines) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(stream).split(b'\n').map_while(Result::ok) {
            if sender.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
                return;
            }
        }
    });
    lines
}

/// The first of the lines to come that has this in it.
fn wait_for(lines: &mpsc::Receiver<String>, text: &str) -> String {
    let start = Instant::now();
    while let Ok(line) = lines.recv_timeout(Duration::from_secs(20).saturating_sub(start.elapsed())) {
        if line.contains(text) {
            return line;
        }
    }
    panic!("no line with {text:?}");
}

/// The number behind `key` in a line.
fn number(line: &str, key: &str) -> u64 {
    let (_, rest) = line.split_once(key).unwrap_or_else(|| panic!("{key} in {line}"));
    let digits = rest.trim_start_matches(|c: char| !c.is_ascii_digit());
    digits.split(|c: char| !c.is_ascii_digit()).next().and_then(|digits| digits.parse().ok()).expect("a number")
}

#[test]
fn what_finds_no_room_is_counted_and_said() {
    const REQUESTS: usize = 20_000;
    let (settings, reader) = settings(Some(Unwritable::Unread));
    let mut server = NameServer::start(launch_verbose, &settings);
    let frame = request(904, &[]).encode();
    let mut client = Client::connect(server.addr());
    // A line at `debug` each: more than the queue holds.
    for _ in 0..REQUESTS / 100 {
        client.send(&frame.repeat(100));
        for _ in 0..100 {
            assert!(matches!(client.receive(ANSWER_TIMEOUT), Received::Frame(_)));
        }
    }
    let lines = lines_of(reader.expect("a pipe"));
    let said = number(&wait_for(&lines, "lines of the log were lost"), "lines=");
    server.signal("TERM");
    let counted = number(&wait_for(&lines, "stopping"), "failure.log_dropped=");
    assert_eq!(server.wait(Duration::from_secs(10)).expect("it ends").code(), Some(0));
    holds("4", "lost lines are counted and said", said == counted && said > 0 && said < REQUESTS as u64);
}

#[test]
fn what_is_lost_while_nobody_is_there_is_said_to_the_next_reader() {
    let home = tempfile::tempdir().expect("a folder");
    let path = home.path().join("log");
    assert!(Command::new("mkfifo").arg(&path).status().expect("run mkfifo").success());
    // One that can be both is opened without waiting for the other.
    let first = File::options().read(true).write(true).open(&path).expect("the first reader");
    let log = File::options().write(true).open(&path).expect("the log");
    let settings = Settings { stderr: Some(std::sync::Arc::new(log.into())), ..Settings::default() };
    let server = NameServer::start(ours::launch, &settings);
    let mut line = String::new();
    let mut first = BufReader::new(first);
    while !line.contains("serving") {
        first.read_line(&mut line).expect("a line");
    }
    drop(first);

    let mut client = Client::connect(server.addr());
    let broker = Broker::new("b", 0, "10.0.0.1:1", &["T", "U"]);
    let mut come_and_go = || {
        assert_eq!(client.code(&broker.register()), 0);
        assert_eq!(client.code(&broker.unregister()), 0);
    };
    (0..3).for_each(|_| come_and_go());
    // Long enough for at least one of them to be tried in vain.
    thread::sleep(Duration::from_millis(500));
    let lines = lines_of(File::open(&path).expect("the next reader"));
    come_and_go();
    let (mut seen, mut lost) = (0, 0);
    while lost == 0 || seen + lost < 4 {
        let line = lines.recv_timeout(Duration::from_secs(20)).expect("all four lines are seen or said to be lost");
        seen += u64::from(line.contains("brokers removed"));
        if line.contains("lines of the log were lost") {
            assert!(line.contains("Broken pipe"), "{line}");
            lost += number(&line, "lines=");
        }
    }
    holds("4", "the log goes on, and says what was lost", seen + lost == 4 && seen > 0);
}

#[test]
fn lines_that_peers_cause_are_few() {
    const TIMES: usize = 300;
    let mut server = ours::start(&Settings::default());
    let start = Instant::now();
    let mut client = Client::connect(server.addr());
    let winner = Broker { state_version: 5, ..Broker::new("a", 0, "10.0.0.1:1", &["T", "U"]) };
    assert_eq!(client.code(&winner.register()), 0);
    for round in 0..TIMES {
        let loser = Broker { state_version: 1, ..Broker::new("a", 0, "10.0.0.9:1\nforged", &["T"]).at(round as i64) };
        assert_eq!(client.code(&loser.register()), 0);
        let visitor = Broker::new("visitor", 0, "10.0.0.2:1", &["V", "W"]);
        assert_eq!(client.code(&visitor.register()), 0);
        assert_eq!(client.code(&visitor.unregister()), 0);
        assert_eq!(client.code(&update_config("no\nsuch\u{1b}Key=1")), 1);
        assert_eq!(client.code(&update_config("")), 0);
    }
    let kinds = [
        "registration ignored",
        "brokers removed brokers=1 reason=\"unregistered\"",
        "configuration not updated",
        "configuration updated",
    ];
    // Ten at once, one more each six seconds, and one for what is being said.
    let limit = LINES_PER_MINUTE + start.elapsed().as_secs() / (60 / LINES_PER_MINUTE) + 1;
    server.signal("TERM");
    assert_eq!(server.wait(Duration::from_secs(10)).expect("it ends").code(), Some(0));
    thread::sleep(Duration::from_millis(100));
    let output = server.output();
    for (kind, reason) in
        kinds.into_iter().zip(["registration_ignored", "unregistered", "config_not_updated", "config_updated"])
    {
        let shown = output.lines().filter(|line| line.contains(kind)).count() as u64;
        at_most("4", &format!("lines: {kind}"), shown, limit);
        let left_out: u64 = output
            .lines()
            .filter(|line| line.contains("more lines of this kind") && line.contains(&format!("\"{reason}\"")))
            .map(|line| number(line, "lines="))
            .sum();
        assert_eq!(shown + left_out, TIMES as u64, "{kind}: all are accounted for\n{output}");
    }
    assert!(!output.lines().any(|line| line.starts_with("forged") || line.starts_with("such")), "{output}");
}
