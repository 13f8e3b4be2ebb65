//! Recording and checking histories over TCP.

use std::{
    io::{self, Read, Write},
    net::{SocketAddr, TcpStream},
    sync::Barrier,
    thread,
    time::Duration,
};

use proptest::{
    collection::vec,
    prelude::*,
    strategy::ValueTree,
    test_runner::{Config, RngAlgorithm, TestRng, TestRunner},
};
use registry_core::{
    Command, Registration, Unregistration,
    testkit::{
        Model, Probe,
        histories::Op,
        linearize::{Log, Recorder, Spec, check, history},
    },
};
use serde_json::{Map, Value, json};
use server::{
    limits::Limits,
    remoting::{Decoded, Encoder, FrameDecoder, Request, RequestHeader, SerializeType},
};

/// Connections that call at once. The first two carry one broker each, all of them ask.
const THREADS: usize = 4;
/// Calls of each connection in a history.
const CALLS: usize = 12;
/// Violations after which it is clear enough.
const VIOLATIONS_MAX: usize = 5;
/// A server that is silent for so long is not there.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// `ResponseCode.TOPIC_NOT_EXIST`.
const TOPIC_NOT_EXIST: i32 = 17;

/// What was found.
#[derive(Debug, Default)]
pub(crate) struct Report {
    /// Histories recorded.
    pub(crate) histories: u32,
    /// Calls in them.
    pub(crate) calls: usize,
    /// Why each history that is not linearizable is not.
    pub(crate) violations: Vec<String>,
}

/// The model, seen through the wire: answers are values, without what the protocol leaves open.
#[derive(Clone, PartialEq, Eq, Hash, Default)]
struct Wire(Model);

impl Spec for Wire {
    type Op = Op;
    type Ret = String;

    fn apply(&mut self, op: &Op) -> String {
        let answer = Spec::apply(&mut self.0, op);
        match op.probe() {
            None if answer.contains("Refused") => "refused".into(),
            None => "done".into(),
            Some(_) if answer == "none" => answer,
            Some(_) => values_of(answer.as_bytes(), "").unwrap_or(answer),
        }
    }
}

/// Records and checks `histories` histories of the server at `addr`.
///
/// # Errors
/// The server cannot be reached, ends a connection, is silent, or answers something that is none.
pub(crate) fn run(addr: SocketAddr, histories: u32, seed: u64) -> io::Result<Report> {
    let mut report = Report::default();
    let mut connections = (0..THREADS).map(|_| Connection::open(addr)).collect::<io::Result<Vec<_>>>()?;
    let mut seed_bytes = [0; 32];
    seed_bytes[..8].copy_from_slice(&seed.to_be_bytes());
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &seed_bytes);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    // Of no other run on the same server.
    let run = std::process::id();
    for number in 0..histories {
        let scenario =
            scenarios().new_tree(&mut runner).map_err(|reason| io::Error::other(reason.to_string()))?.current();
        let prefix = format!("lincheck-{run}-{seed}-{number}-");
        let calls = history(record(&mut connections, &scenario, &prefix)?);
        report.histories += 1;
        report.calls += calls.len();
        if let Some(violation) = check(&Wire::default(), &calls).violation() {
            report.violations.push(format!("history {number}: {violation}"));
            if report.violations.len() >= VIOLATIONS_MAX {
                break;
            }
        }
    }
    Ok(report)
}

/// The calls of each thread. A broker is changed over its own connection alone: to whom it belongs is not the question.
fn scenarios() -> impl Strategy<Value = Vec<Vec<Op>>> {
    let read = || {
        prop_oneof![
            5 => (0..2_u8).prop_map(Op::Route),
            2 => Just(Op::ClusterInfo),
            1 => Just(Op::AllTopics),
            1 => (0..2_u8).prop_map(Op::Members),
        ]
    };
    let write = |broker| {
        prop_oneof![
            3 => (1..4_u8, 0..3_u8).prop_map(move |(version, topics)| Op::Register { broker, version, topics, at: 1 }),
            1 => Just(Op::Unregister(broker)),
        ]
    };
    let writer = |broker| vec(prop_oneof![2 => write(broker), 1 => read()], CALLS);
    let reader = || vec(read(), CALLS);
    (writer(0), writer(1), reader(), reader()).prop_map(|(a, b, c, d)| vec![a, b, c, d])
}

fn record(connections: &mut [Connection], scenario: &[Vec<Op>], prefix: &str) -> io::Result<Vec<Log<Op, String>>> {
    let recorder = Recorder::new();
    let start = Barrier::new(connections.len());
    let logs: io::Result<Vec<_>> = thread::scope(|scope| {
        let threads: Vec<_> = connections
            .iter_mut()
            .zip(scenario)
            .enumerate()
            .map(|(at, (connection, ops))| {
                let (mut log, start) = (recorder.log(at), &start);
                scope.spawn(move || {
                    start.wait();
                    let mut failure = None;
                    for &op in ops {
                        log.call_unsure(op, |&op| {
                            connection.call(op, prefix).map_err(|error| failure = Some(error)).ok()
                        });
                        if let Some(error) = failure {
                            return Err(error);
                        }
                    }
                    Ok(log)
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("a thread panicked")).collect()
    });
    // When all is recorded: the next history is not to pay for this one's brokers.
    for (broker, connection) in (0..2).zip(connections) {
        connection.call(Op::Unregister(broker), prefix)?;
    }
    logs
}

/// A blocking client.
struct Connection {
    stream: TcpStream,
    encoder: Encoder,
    limits: Limits,
    received: Vec<u8>,
    opaque: i32,
}

/// What a server has answered.
struct Answer {
    code: i32,
    body: Vec<u8>,
}

impl Connection {
    fn open(addr: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(addr)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
        let limits = Limits::default();
        let encoder = Encoder::new(SerializeType::Json, &limits);
        Ok(Self { stream, encoder, limits, received: Vec::new(), opaque: 0 })
    }

    /// Makes a call with names that begin with `prefix`, and reduces the answer to what the specification says.
    fn call(&mut self, op: Op, prefix: &str) -> io::Result<String> {
        let name = |name: &str| format!("{prefix}{name}");
        if let Some(command) = op.command() {
            let answer = match command {
                Command::Register(registration) => self.register(&registration, prefix)?,
                Command::Unregister(request) => self.unregister(&request, prefix)?,
                other => return Err(invalid(format!("{other:?} is not sent"))),
            };
            return Ok(if answer.code == 0 { "done" } else { "refused" }.into());
        }
        let answer = match op.probe() {
            Some(Probe::Route { topic, .. }) => self.request(105, &[("topic", &name(&topic))], b"")?,
            Some(Probe::ClusterInfo) => self.request(106, &[], b"")?,
            Some(Probe::AllTopics) => self.request(206, &[], b"")?,
            Some(Probe::MemberGroup(Some(cluster), Some(broker))) => {
                self.request(901, &[("clusterName", &name(&cluster)), ("brokerName", &name(&broker))], b"")?
            }
            other => return Err(invalid(format!("{other:?} is not asked"))),
        };
        match answer.code {
            0 => values_of(&answer.body, prefix).ok_or_else(|| invalid("the body is no JSON".into())),
            TOPIC_NOT_EXIST => Ok("none".into()),
            // No order of calls explains a refusal to answer: the original's 106 does that under writes.
            code => Ok(format!("error {code}")),
        }
    }

    fn register(&mut self, registration: &Registration, prefix: &str) -> io::Result<Answer> {
        let Registration { cluster, broker_name, broker_id, broker_addr, body, .. } = registration;
        let [cluster, broker_name, broker_addr] =
            [cluster, broker_name, broker_addr].map(|name| format!("{prefix}{name}"));
        let topics = body.topics.iter().flat_map(|table| table.iter()).map(|(topic, settings)| {
            let topic = format!("{prefix}{topic}");
            let value = json!({
                "topicName": topic, "readQueueNums": settings.read_queues, "writeQueueNums": settings.write_queues,
                "perm": settings.perm, "topicSysFlag": settings.topic_sys_flag, "order": false,
                "topicFilterType": "SINGLE_TAG",
            });
            (topic, value)
        });
        let version = body.data_version;
        let body = json!({
            "filterServerList": [],
            "topicConfigSerializeWrapper": {
                "dataVersion": {
                    "counter": version.counter, "stateVersion": version.state_version, "timestamp": version.timestamp,
                },
                "topicConfigTable": topics.collect::<Map<_, _>>(),
            },
        });
        let ext = [
            ("brokerAddr", &*broker_addr),
            ("brokerId", &broker_id.to_string()),
            ("brokerName", &broker_name),
            ("clusterName", &cluster),
            ("compressed", "false"),
            ("haServerAddr", &broker_addr),
        ];
        self.request(103, &ext, body.to_string().as_bytes())
    }

    fn unregister(&mut self, request: &Unregistration, prefix: &str) -> io::Result<Answer> {
        let Unregistration { cluster, broker_name, broker_id, broker_addr, .. } = request;
        let [cluster, broker_name, broker_addr] =
            [cluster, broker_name, broker_addr].map(|name| format!("{prefix}{name}"));
        let ext = [
            ("brokerAddr", &*broker_addr),
            ("brokerId", &broker_id.to_string()),
            ("brokerName", &broker_name),
            ("clusterName", &cluster),
        ];
        self.request(104, &ext, b"")
    }

    fn request(&mut self, code: i32, ext: &[(&str, &str)], body: &[u8]) -> io::Result<Answer> {
        self.opaque += 1;
        let mut out = Vec::new();
        let header = RequestHeader { code, flag: 0, opaque: self.opaque, ext: Some(ext) };
        let mark = self.encoder.begin_request(&mut out, &header);
        out.extend_from_slice(body);
        self.encoder.finish(&mut out, mark);
        self.stream.write_all(&out)?;
        loop {
            if let Some(answer) = self.take_answer()? {
                return Ok(answer);
            }
            let mut chunk = [0; 16 * 1024];
            match self.stream.read(&mut chunk)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                count => self.received.extend_from_slice(&chunk[..count]),
            }
        }
    }

    /// The answer to the last request, if it is there. Requests of the server are left out.
    fn take_answer(&mut self) -> io::Result<Option<Answer>> {
        loop {
            let frame = match FrameDecoder::new().decode(&self.received, &self.limits) {
                Ok(Decoded::Frame(frame)) => frame,
                Ok(Decoded::Incomplete { .. }) => return Ok(None),
                Err(error) => return Err(invalid(error.to_string())),
            };
            let header = Request::decode(&frame, &self.limits).map_err(|error| invalid(error.to_string()))?;
            let is_answer = header.is_response() && header.opaque == self.opaque;
            let answer = Answer { code: header.code, body: frame.body.unwrap_or_default().to_vec() };
            let consumed = frame.consumed;
            drop(header);
            self.received.drain(..consumed);
            if is_answer {
                return Ok(Some(answer));
            }
        }
    }
}

fn invalid(reason: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason)
}

/// A body as comparable text: keys quoted and sorted, lists sorted, and of names only those that begin with `prefix`,
/// without it. `None` for something else than JSON.
fn values_of(body: &[u8], prefix: &str) -> Option<String> {
    let mut value: Value = serde_json::from_str(&with_quoted_keys(std::str::from_utf8(body).ok()?)).ok()?;
    if let Some(fields) = value.as_object_mut() {
        let is_ours = |name: &str| name.starts_with(prefix);
        for list in ["brokerAddrTable", "clusterAddrTable"] {
            if let Some(table) = fields.get_mut(list).and_then(Value::as_object_mut) {
                table.retain(|name, _| is_ours(name));
            }
        }
        if let Some(topics) = fields.get_mut("topicList").and_then(Value::as_array_mut) {
            topics.retain(|name| name.as_str().is_some_and(is_ours));
        }
        // An older or newer server may say more of a list than its names.
        fields.retain(|key, value| key != "brokerAddr" && !value.is_null());
    }
    sort(&mut value);
    let text = value.to_string();
    Some(if prefix.is_empty() { text } else { text.replace(prefix, "") })
}

fn sort(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.sort_keys();
            // Whether an absent thing is written as null is not the question, nor is it what switches are off.
            fields.retain(|key, value| !value.is_null() && key != "enableActingMaster");
            fields.values_mut().for_each(sort);
        }
        Value::Array(items) => {
            items.iter_mut().for_each(sort);
            items.sort_by_cached_key(Value::to_string);
        }
        _ => {}
    }
}

/// Puts quotes around numeric keys, which servers write without.
fn with_quoted_keys(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 16);
    let (mut is_in_string, mut is_escaped) = (false, false);
    let mut rest = text;
    while let Some(char) = rest.chars().next() {
        out.push(char);
        rest = &rest[char.len_utf8()..];
        match char {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = is_in_string,
            '"' => is_in_string = !is_in_string,
            '{' | ',' if !is_in_string => {
                let digits = rest.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b'-').count();
                if digits > 0 && rest[digits..].starts_with(':') {
                    out.push('"');
                    out.push_str(&rest[..digits]);
                    out.push('"');
                    rest = &rest[digits..];
                }
            }
            _ => {}
        }
    }
    out
}
