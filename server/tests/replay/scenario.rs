//! Reads a recorded scenario and carries it out.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Map, Value};

use crate::expectations::{self, Entry, Expect};
use crate::support::canonical::{Body, Rule, compare, differences};
use crate::support::frame::{ANSWER_TIMEOUT, Client, Frame, Received, show, unhex};
use crate::support::process::{NameServer, Settings};
use crate::support::{official, ours};

const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);
/// The fixed ports of a scenario may be in use by the same scenario in another process.
const LISTEN_TIMEOUT: Duration = Duration::from_secs(60);

/// The folder of the recorded answers.
pub(crate) fn vectors() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/vectors")
}

/// A recorded scenario.
#[derive(Debug)]
pub(crate) struct Scenario {
    name: String,
    settings: Settings,
    pub(crate) steps: Vec<Step>,
}

#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) number: u64,
    conn: String,
    /// What the step is about, for messages.
    title: String,
    action: Action,
}

#[derive(Debug)]
enum Action {
    Open,
    Close,
    Wait(Duration),
    Restart,
    ExpectClose,
    ExpectNothing(Duration),
    Listen(u16),
    ExpectFrame { frame: Vec<u8>, rule: Rule },
    Exchange { send: Vec<u8>, answer: Option<Vec<u8>>, rule: Rule },
}

impl Step {
    /// The recorded answer is not the measure for ours.
    pub(crate) fn differs(&self) -> bool {
        matches!(&self.action, Action::Exchange { rule: Rule::Differs(_), .. })
    }

    pub(crate) fn may_differ(&self) -> bool {
        matches!(self.action, Action::Exchange { .. } | Action::ExpectNothing(_))
    }

    fn parse(line: &Value) -> Self {
        let text = |key: &str| line[key].as_str().unwrap_or_default();
        let number = |key: &str| line[key].as_u64().unwrap_or_default();
        let rule = || compare_rule(text("compare"));
        let millis = Duration::from_millis(number("ms"));
        let action = match text("event") {
            "open" => Action::Open,
            "close" => Action::Close,
            "wait_ms" => Action::Wait(millis),
            "restart" => Action::Restart,
            "expect_close" => Action::ExpectClose,
            "expect_nothing" => Action::ExpectNothing(millis),
            "listen" => Action::Listen(u16::try_from(number("port")).expect("a port")),
            "expect_frame" => Action::ExpectFrame { frame: unhex(text("frame_hex")), rule: rule() },
            "" => {
                let answer = line["answer_hex"].as_str().map(unhex);
                Action::Exchange { send: unhex(text("send_hex")), answer, rule: rule() }
            }
            other => panic!("unknown event {other}"),
        };
        let title = format!("{} {} {}", text("event"), text("code"), text("note"));
        Self { number: number("step"), conn: text("conn").to_string(), title: title.trim().to_string(), action }
    }
}

impl Scenario {
    pub(crate) fn read(name: &str) -> Self {
        let text = fs::read_to_string(vectors().join(format!("{name}.jsonl"))).expect("the recorded answers");
        let mut lines = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON lines"));
        let head = lines.next().expect("a header line");
        let pairs = |value: &Value| -> Vec<(String, String)> {
            let pairs = value.as_object().expect("an object").iter();
            pairs.map(|(key, value)| (key.clone(), value.as_str().expect("text").to_string())).collect()
        };
        let binary = match pairs(&head["system_properties"]).as_slice() {
            [] => false,
            [(key, value)] if key == "rocketmq.serialize.type" && value == "ROCKETMQ" => true,
            other => panic!("unknown system properties {other:?}"),
        };
        let settings = Settings { config: pairs(&head["config"]), binary, ..Settings::default() };
        Self { name: name.to_string(), settings, steps: lines.map(|line| Step::parse(&line)).collect() }
    }

    fn recorded(&self, number: u64) -> Option<&[u8]> {
        self.steps.iter().find(|step| step.number == number).and_then(|step| match &step.action {
            Action::Exchange { answer, .. } => answer.as_deref(),
            _ => None,
        })
    }
}

/// Carries out a scenario against a fresh server and panics with all steps that went wrong.
pub(crate) fn replay(name: &str) {
    let scenario = Scenario::read(name);
    // Its listeners must be there before the server is.
    let listeners: HashMap<String, Receiver<Vec<u8>>> = scenario
        .steps
        .iter()
        .filter_map(|step| match step.action {
            Action::Listen(port) => Some((step.conn.clone(), listen(port))),
            _ => None,
        })
        .collect();
    let against_official = std::env::var("REPLAY_TARGET").is_ok_and(|target| target == "official");
    let server = if against_official {
        match official::start(&format!("replay of {name}"), &scenario.settings) {
            Some(server) => server,
            None => return,
        }
    } else {
        ours::start(&scenario.settings)
    };
    let mut run = Run::new(&scenario, server, listeners, against_official);
    for step in &scenario.steps {
        run.carry_out(step);
    }
    let failures = run.failures;
    assert!(failures.is_empty(), "{} of {} steps:\n{}", failures.len(), scenario.steps.len(), failures.join("\n"));
}

/// A scenario being carried out.
struct Run<'a> {
    scenario: &'a Scenario,
    server: NameServer,
    against_official: bool,
    listeners: HashMap<String, Receiver<Vec<u8>>>,
    connections: HashMap<String, Client>,
    /// Connections after a step at which a close and an answer are both fine.
    undecided: HashSet<String>,
    /// Something happened that no answer confirmed: a close from our side, a one-way request.
    unconfirmed: bool,
    /// The codes of the answers so far, by step.
    codes: HashMap<u64, i64>,
    failures: Vec<String>,
}

impl<'a> Run<'a> {
    fn new(
        scenario: &'a Scenario,
        server: NameServer,
        listeners: HashMap<String, Receiver<Vec<u8>>>,
        against_official: bool,
    ) -> Self {
        Self {
            scenario,
            server,
            against_official,
            listeners,
            connections: HashMap::new(),
            undecided: HashSet::new(),
            unconfirmed: false,
            codes: HashMap::new(),
            failures: Vec::new(),
        }
    }

    fn carry_out(&mut self, step: &Step) {
        let result = match &step.action {
            Action::Listen(_) => Ok(()),
            Action::Open => {
                self.connections.insert(step.conn.clone(), Client::connect(self.server.addr()));
                Ok(())
            }
            Action::Close => {
                self.connections.remove(&step.conn);
                self.unconfirmed = true;
                Ok(())
            }
            Action::Wait(time) => {
                self.wait(*time);
                Ok(())
            }
            Action::Restart => {
                self.connections.clear();
                self.server.restart();
                Ok(())
            }
            Action::ExpectClose => self.expect_close(&step.conn),
            Action::ExpectNothing(time) => {
                match expectations::of(&self.scenario.name, step.number).filter(|_| !self.against_official) {
                    Some(Entry { expect: Expect::Closed, .. }) => self.expect_close(&step.conn),
                    _ => self.expect_nothing(&step.conn, *time),
                }
            }
            Action::ExpectFrame { frame, rule } => self.expect_frame(&step.conn, frame, rule),
            Action::Exchange { send, answer, rule } => self.exchange(step, send, answer.as_deref(), rule),
        };
        if let Err(why) = result {
            let place = format!("{}, step {} on {}: {}", self.scenario.name, step.number, step.conn, step.title);
            self.failures.push(format!("{place}\n  {why}"));
        }
    }

    /// Ours has applied what it has answered; only what is not answered needs the time.
    fn wait(&mut self, time: Duration) {
        if self.against_official || std::mem::take(&mut self.unconfirmed) {
            thread::sleep(time);
        }
    }

    fn expect_close(&mut self, conn: &str) -> Result<(), String> {
        let undecided = self.undecided.remove(conn);
        let mut client = self.connections.remove(conn).ok_or("no such connection")?;
        match client.receive(CLOSE_TIMEOUT) {
            Received::Closed(0) => Ok(()),
            _ if undecided => Ok(()),
            Received::Closed(bytes) => Err(format!("closed, but after {bytes} bytes")),
            Received::Silence => Err(format!("not closed within {CLOSE_TIMEOUT:?}")),
            Received::Frame(frame) => Err(format!("expected a close\n  got      {}", show(&frame))),
        }
    }

    fn expect_nothing(&mut self, conn: &str, time: Duration) -> Result<(), String> {
        if let Some(frames) = self.listeners.get(conn) {
            return match frames.recv_timeout(time) {
                Err(_) => Ok(()),
                Ok(frame) => Err(format!("expected nothing\n  got      {}", show(&frame))),
            };
        }
        match self.connections.get_mut(conn).ok_or("no such connection")?.receive(time) {
            Received::Silence => Ok(()),
            Received::Closed(_) => Err("expected nothing, but it was closed".into()),
            Received::Frame(frame) => Err(format!("expected nothing\n  got      {}", show(&frame))),
        }
    }

    fn expect_frame(&mut self, conn: &str, expected: &[u8], rule: &Rule) -> Result<(), String> {
        let frames = self.listeners.get(conn).ok_or("no such listener")?;
        let got =
            frames.recv_timeout(ANSWER_TIMEOUT).map_err(|_| format!("no frame\n  expected {}", show(expected)))?;
        compare(expected, &got, rule).map_err(|why| report(&why, expected, &got))
    }

    fn exchange(&mut self, step: &Step, send: &[u8], recorded: Option<&[u8]>, rule: &Rule) -> Result<(), String> {
        let addr = self.server.addr();
        let client = self.connections.entry(step.conn.clone()).or_insert_with(|| Client::connect(addr));
        client.send(send);
        let entry = expectations::of(&self.scenario.name, step.number).filter(|_| !self.against_official);
        if let Some(entry) = entry {
            return self
                .check_ours(step, entry, recorded)
                .map_err(|why| format!("{why}\n  section  {}", entry.section));
        }
        let Some(expected) = recorded else {
            self.unconfirmed = true;
            return Ok(());
        };
        match client.receive(ANSWER_TIMEOUT) {
            Received::Frame(got) => {
                self.note_code(step.number, &got);
                compare(expected, &got, rule).map_err(|why| report(&why, expected, &got))
            }
            Received::Closed(_) => Err(format!("closed\n  expected {}", show(expected))),
            Received::Silence => Err(format!("no answer\n  expected {}", show(expected))),
        }
    }

    /// Judges the answer to a step that has an expectation of ours.
    fn check_ours(&mut self, step: &Step, entry: &Entry, recorded: Option<&[u8]>) -> Result<(), String> {
        if matches!(entry.expect, Expect::Closed) {
            // The recording closes too, and the next step says so.
            return if recorded.is_none() {
                Ok(())
            } else {
                Err("the table expects a close, the file does not".into())
            };
        }
        let client = self.connections.get_mut(&step.conn).ok_or("no such connection")?;
        let got = match (client.receive(ANSWER_TIMEOUT), &entry.expect) {
            (Received::Frame(got), _) => got,
            (Received::Closed(0), Expect::ServedOrClosed) => {
                // A later step on this name opens it again.
                if recorded.is_some() {
                    self.connections.remove(&step.conn);
                }
                return Ok(());
            }
            (other, expect) => return Err(format!("expected {expect:?}\n  got      {other:?}")),
        };
        self.note_code(step.number, &got);
        if matches!(entry.expect, Expect::ServedOrClosed) {
            self.undecided.insert(step.conn.clone());
        }
        let frame = Frame::parse(&got)?;
        let verdict = self.judge(entry, recorded, &frame);
        verdict.map_err(|why| match recorded {
            Some(recorded) => format!(
                "{why}\n  expected {:?}\n  recorded {}\n  got      {}",
                entry.expect,
                show(recorded),
                frame.show()
            ),
            None => format!("{why}\n  expected {:?}\n  got      {}", entry.expect, frame.show()),
        })
    }

    fn judge(&self, entry: &Entry, recorded: Option<&[u8]>, got: &Frame) -> Result<(), String> {
        if let Expect::ServedOrClosed = entry.expect {
            return if got.number("flag") == 1 { Ok(()) } else { Err("not a response".into()) };
        }
        if let Expect::Codes(codes) = entry.expect {
            let bare = got.body.is_none() && got.number("flag") == 1;
            return if codes.contains(&got.code()) && bare { Ok(()) } else { Err("another answer".into()) };
        }
        let recorded = Frame::parse(recorded.ok_or("nothing was recorded to compare with")?)?;
        let expected = |body: Option<Vec<u8>>| Frame { body, ..recorded.clone() };
        match entry.expect {
            Expect::Recorded => equal(&recorded, got, &["remark"]),
            Expect::Quoted => {
                equal(&recorded, got, &["style"])?;
                let bare = got.body.as_deref().and_then(Body::parse).is_none_or(|body| body.bare_keys);
                if bare { Err("the body has bare ids".into()) } else { Ok(()) }
            }
            Expect::Body(bodies) => {
                let verdicts = bodies.iter().map(|body| equal(&expected(Some(body.as_bytes().to_vec())), got, &[]));
                verdicts.reduce(|left, right| left.or(right)).unwrap_or_else(|| Err("no body in the table".into()))
            }
            Expect::Answer { fields, body } => equal(&success(&recorded, fields, body), got, &[]),
            Expect::Lines(lines) => equal_lines(&recorded, got, lines),
            Expect::SameAs(step) => {
                let other = self.scenario.recorded(step).ok_or("no such step")?;
                equal(&Frame::parse(other)?, got, &[])
            }
            Expect::Follows(step) => {
                let accepted = self.codes.get(&step) == Some(&0);
                if exists(got) == accepted { Ok(()) } else { Err(format!("step {step} accepted: {accepted}")) }
            }
            Expect::ServedOrClosed | Expect::Codes(_) | Expect::Closed => unreachable!("judged before"),
        }
    }

    fn note_code(&mut self, step: u64, answer: &[u8]) {
        if let Ok(frame) = Frame::parse(answer) {
            self.codes.insert(step, frame.code());
        }
    }
}

/// Servers of the tests bind to loopback, those of the recordings did not.
fn compare_rule(text: &str) -> Rule {
    match Rule::parse(text).expect("a compare rule") {
        Rule::Canonical { mut ignore } if ignore.iter().any(|part| part == "body.listenPort") => {
            ignore.push("body.bindAddress".into());
            Rule::Canonical { ignore }
        }
        rule => rule,
    }
}

fn report(why: &str, expected: &[u8], got: &[u8]) -> String {
    format!("{why}\n  expected {}\n  got      {}", show(expected), show(got))
}

fn equal(expected: &Frame, got: &Frame, ignore: &[&str]) -> Result<(), String> {
    let ignore: Vec<String> = ignore.iter().map(|part| part.to_string()).collect();
    let places = differences(expected, got, &ignore);
    if places.is_empty() { Ok(()) } else { Err(places.join("; ")) }
}

/// A success with these fields and this body, in the frame of the recorded answer.
fn success(recorded: &Frame, fields: &[(&str, &str)], body: Option<&str>) -> Frame {
    let mut frame = Frame { body: body.map(|body| body.as_bytes().to_vec()), ..recorded.clone() };
    let fields: Map<String, Value> = fields.iter().map(|(key, value)| (key.to_string(), (*value).into())).collect();
    frame.header.insert("code".into(), 0.into());
    frame.header.insert("extFields".into(), fields.into());
    frame.header.shift_remove("remark");
    frame
}

/// The recorded configuration text with some lines replaced. Paths and addresses are the harness's own.
fn equal_lines(recorded: &Frame, got: &Frame, ours: &[&str]) -> Result<(), String> {
    let text = recorded.text();
    let key = |line: &str| line.split_once('=').map(|(key, _)| key.to_string());
    let lines = text.split('\n').map(|line| ours.iter().find(|ours| key(ours) == key(line)).copied().unwrap_or(line));
    let body = lines.collect::<Vec<_>>().join("\n").into_bytes();
    let own = ["rocketmqHome", "kvConfigPath", "configStorePath", "listenPort", "bindAddress"];
    let ignore: Vec<String> = own.iter().map(|key| format!("body.{key}")).collect();
    let places = differences(&Frame { body: Some(body), ..recorded.clone() }, got, &ignore);
    if places.is_empty() { Ok(()) } else { Err(places.join("; ")) }
}

/// A member group with members, or a route.
fn exists(answer: &Frame) -> bool {
    let Some(body) = answer.body.as_deref().and_then(Body::parse) else { return false };
    let members = &body.value["brokerMemberGroup"]["brokerAddrs"];
    answer.code() == 0 && members.as_object().is_none_or(|members| !members.is_empty())
}

/// Listens as a broker would; the frames of all connections arrive at the receiver.
fn listen(port: u16) -> Receiver<Vec<u8>> {
    let start = Instant::now();
    let listener = loop {
        match TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
            Ok(listener) => break listener,
            Err(error) => assert!(start.elapsed() < LISTEN_TIMEOUT, "port {port}: {error}"),
        }
        thread::sleep(Duration::from_millis(100));
    };
    let (frames, receiver) = channel();
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let frames = frames.clone();
            thread::spawn(move || forward(&mut Client::new(stream), &frames));
        }
    });
    receiver
}

fn forward(client: &mut Client, frames: &Sender<Vec<u8>>) {
    loop {
        match client.receive(Duration::from_secs(1)) {
            Received::Frame(frame) => {
                if frames.send(frame).is_err() {
                    return;
                }
            }
            Received::Closed(_) => return,
            Received::Silence => {}
        }
    }
}
