//! Two servers that get the same requests, and the comparison of their answers.

use std::collections::{BTreeMap, HashMap};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::exclusions;
use crate::op::{CLOSE, Op};
use crate::request::{self, ADDRS, BROKERS, Names, TOPICS};
use crate::shadow::Shadow;
use crate::support::canonical::{Body, differences};
use crate::support::frame::{Client, Frame, Request};
use crate::support::process::{NameServer, Settings};
use crate::support::{official, ours};

/// The original applies unregistrations and lost connections a moment later.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(3);
const MEMBER_GROUP: i64 = 901;

/// One of the two servers.
#[derive(Debug)]
struct Peer {
    name: &'static str,
    server: NameServer,
    /// Unregistrations are queued: what was answered may not be visible yet.
    queues: bool,
    /// Never carries a broker of the sequence.
    queries: Client,
    links: HashMap<(String, String, i64), Client>,
}

/// Where the two servers differed.
#[derive(Debug)]
pub(crate) struct Failure {
    /// So many steps were enough.
    pub(crate) steps: usize,
    pub(crate) why: String,
}

/// Both servers, and what is known of their state.
#[derive(Debug)]
pub(crate) struct World {
    peers: [Peer; 2],
    shadow: Shadow,
    deletes_topics: bool,
    opaque: i32,
    /// The namespace of order configurations exists, which outlasts the sequence.
    pub(crate) has_order_namespace: bool,
    /// How many steps were sent, and how many were not, by exclusion.
    pub(crate) sent: usize,
    pub(crate) skipped: BTreeMap<&'static str, usize>,
}

impl World {
    /// `None`: no official server here. `DIFFERENTIAL_PEER=official` puts a second one in the place of ours.
    pub(crate) fn start(what: &str, settings: &Settings) -> Option<Self> {
        let twice = std::env::var("DIFFERENTIAL_PEER").is_ok_and(|peer| peer == "official");
        let first = Peer::new("official", official::start(what, settings)?, true);
        let second = if twice {
            Peer::new("second official", official::start(what, settings)?, true)
        } else {
            Peer::new("ours", ours::start(settings), false)
        };
        let deletes = ("deleteTopicWithBrokerRegistration".to_string(), "true".to_string());
        Some(Self {
            peers: [first, second],
            shadow: Shadow::new(Names { sequence: 0 }),
            deletes_topics: settings.config.contains(&deletes),
            opaque: 0,
            has_order_namespace: false,
            sent: 0,
            skipped: BTreeMap::new(),
        })
    }

    /// Carries out a sequence, which finds both servers without brokers and leaves them so.
    pub(crate) fn run(&mut self, sequence: u32, ops: &[Op]) -> Result<(), Failure> {
        self.shadow = Shadow::new(Names { sequence });
        for (index, op) in ops.iter().enumerate() {
            let what = format!("after step {} ({op}):", index + 1);
            self.step(op).map_err(|why| Failure { steps: index + 1, why: format!("{what}\n{why}") })?;
        }
        let at_end = |why| Failure { steps: ops.len(), why };
        self.look_at_everything().map_err(|why| at_end(format!("at the end:\n{why}")))?;
        self.clear().map_err(|why| at_end(format!("when all brokers left:\n{why}")))
    }

    fn step(&mut self, op: &Op) -> Result<(), String> {
        // First the form in which it is sent: that one has to be comparable.
        let op = &exclusions::return_as_new(&self.shadow, op.clone(), 1000 + i64::from(self.opaque));
        if let Some(exclusion) = exclusions::of(&self.shadow, op) {
            *self.skipped.entry(exclusion).or_default() += 1;
            return Ok(());
        }
        self.sent += 1;
        let outcome = (op.code == 103).then(|| self.shadow.outcome(op));
        if op.code == CLOSE {
            self.close(op)?;
        } else {
            self.has_order_namespace |= op.code == 100 && op.namespace == 1;
            self.exchange(op)?;
            self.shadow.note(op, outcome, self.deletes_topics);
        }
        if op.code == 104 {
            self.peers.iter_mut().filter(|peer| peer.queues).try_for_each(Peer::settle)?;
        }
        self.look_around(op)?;
        match self.shadow.foresaw(op, outcome) {
            true => Ok(()),
            false => Err(format!("foreseen for the registration: {outcome:?}, the original did something else")),
        }
    }

    /// Sends a request to both and compares the answers.
    fn exchange(&mut self, op: &Op) -> Result<(), String> {
        self.opaque += 1;
        let request = request::request(self.shadow.names, op, self.opaque);
        let link = exclusions::connection_of(&self.shadow, op);
        // Only registrations and unregistrations come from a broker's own connection.
        let own = matches!(op.code, 103 | 104) && op.addr < ADDRS;
        let [expected, got] = self.peers.each_mut().map(|peer| {
            let addr = peer.server.addr();
            let client = match own {
                true => peer.links.entry(link.clone()).or_insert_with(|| Client::connect(addr)),
                false => &mut peer.queries,
            };
            client.call(&request)
        });
        self.judge(op, &request, &expected, &got)
    }

    fn judge(&mut self, op: &Op, request: &Request, expected: &Frame, got: &Frame) -> Result<(), String> {
        let mut ignored = exclusions::ignored(&self.shadow, op);
        // The text of a Java exception is nobody's contract.
        if expected.remark().is_some_and(|remark| remark.contains("Exception")) {
            ignored.push("remark".into());
        }
        let mut places = differences(expected, got, &ignored);
        if !places.is_empty() && matches!(op.code, 311..=313) && self.differ_by_flags_alone(expected, got) {
            places.clear();
        }
        if places.is_empty() {
            return Ok(());
        }
        let [first, second] = self.peers.each_ref().map(|peer| peer.name);
        let request = Frame::parse(&request.encode())?.show();
        let places = places.join("\n    ");
        Err(format!("  {request}\n    {places}\n  {first}: {}\n  {second}: {}", expected.show(), got.show()))
    }

    fn differ_by_flags_alone(&mut self, expected: &Frame, got: &Frame) -> bool {
        let topics = |frame: &Frame| -> Vec<Value> {
            let body = frame.body.as_deref().and_then(Body::parse);
            body.and_then(|body| body.value["topicList"].as_array().cloned()).unwrap_or_default()
        };
        let (expected, got) = (topics(expected), topics(got));
        (0..TOPICS).all(|topic| {
            let name = Value::from(self.shadow.names.topic(topic));
            expected.contains(&name) == got.contains(&name) || {
                let op = Op { code: 105, topic, ..Op::default() };
                exclusions::brokers_disagree_on_flags(&self.peers[0].ask(self.shadow.names, &op))
            }
        })
    }

    /// Loses a connection, and waits for the broker that goes with it.
    fn close(&mut self, op: &Op) -> Result<(), String> {
        let link = exclusions::connection_of(&self.shadow, op);
        for peer in &mut self.peers {
            peer.links.remove(&link);
        }
        let broker = self.shadow.broker(op);
        let takes_broker = self.shadow.live.get(&broker).is_some_and(|live| live.link == op.link);
        if !takes_broker {
            return Ok(());
        }
        let mut groups = self.shadow.groups.iter();
        if let Some((name, _)) = groups.find(|(_, group)| group.cluster == broker.0 && group.has(&broker.1)) {
            for peer in &mut self.peers {
                peer.wait_for_departure(name, &broker.1)?;
            }
        }
        self.shadow.note_loss(&broker);
        Ok(())
    }

    /// Compares what a step may have changed, and reads it.
    fn look_around(&mut self, op: &Op) -> Result<(), String> {
        let names = self.shadow.names;
        let [info, list] = [106, 206].map(|code| self.peers[0].ask(names, &Op { code, ..Op::default() }));
        self.shadow.read(&info, &list);
        let look = Op {
            broker: op.broker,
            addr: op.addr,
            version: op.version,
            counter: op.counter,
            state: op.state,
            ..Op::default()
        };
        for code in [106, 206, 901, 322] {
            self.look(&Op { code, ..look.clone() })?;
        }
        for topic in 0..TOPICS {
            self.look(&Op { code: 105, topic, ..look.clone() })?;
        }
        Ok(())
    }

    fn look_at_everything(&mut self) -> Result<(), String> {
        for code in [106, 206, 304, 311, 312, 313] {
            self.look(&Op { code, ..Op::default() })?;
        }
        for broker in 0..BROKERS {
            for code in [901, 224] {
                self.look(&Op { code, broker, ..Op::default() })?;
            }
            for addr in 0..ADDRS {
                self.look(&Op { code: 322, broker, addr, ..Op::default() })?;
            }
        }
        for topic in 0..TOPICS {
            for version in [1, 4] {
                self.look(&Op { code: 105, topic, version, ..Op::default() })?;
                self.look(&Op { code: 105, topic, version, zone: 1, ..Op::default() })?;
            }
        }
        for namespace in 0..2 {
            self.look(&Op { code: 219, namespace, ..Op::default() })?;
        }
        Ok(())
    }

    /// A query that is not counted as a step.
    fn look(&mut self, op: &Op) -> Result<(), String> {
        if exclusions::of(&self.shadow, op).is_some() {
            return Ok(());
        }
        self.exchange(op)
    }

    /// Removes all brokers of the sequence from both servers, and what it put into the common namespace.
    fn clear(&mut self) -> Result<(), String> {
        let names = self.shadow.names;
        let prefix = format!("s{}-", names.sequence);
        for key in 0..3 {
            self.exchange(&Op { code: 102, namespace: 1, key, ..Op::default() })?;
        }
        let groups = std::mem::take(&mut self.shadow.groups);
        for peer in &mut self.peers {
            peer.links.clear();
            for (name, group) in &groups {
                for (id, addr) in &group.addrs {
                    peer.unregister(name, &group.cluster, addr, *id);
                }
            }
            let mut left = String::new();
            let gone = within(SETTLE_TIMEOUT, || {
                left = peer.ask(names, &Op { code: 106, ..Op::default() }).text();
                !left.contains(&prefix)
            });
            if !gone {
                return Err(format!("{} still has after {SETTLE_TIMEOUT:?}: {left}", peer.name));
            }
        }
        for code in [106, 206] {
            self.exchange(&Op { code, ..Op::default() })?;
        }
        Ok(())
    }
}

impl Peer {
    fn new(name: &'static str, server: NameServer, queues: bool) -> Self {
        let queries = Client::connect(server.addr());
        Self { name, server, queues, queries, links: HashMap::new() }
    }

    fn ask(&mut self, names: Names, op: &Op) -> Frame {
        self.queries.call(&request::request(names, op, 0))
    }

    fn unregister(&mut self, name: &str, cluster: &str, addr: &str, id: i64) {
        let fields = [("brokerName", name), ("clusterName", cluster), ("brokerAddr", addr)];
        self.broker_request(104, &fields, id);
    }

    /// Waits until all that was unregistered so far is applied: a broker that is unregistered after it has gone.
    fn settle(&mut self) -> Result<(), String> {
        const NAME: &str = "the last one";
        const ADDR: &str = "10.255.255.255:10911";
        let fields = [("brokerName", NAME), ("clusterName", NAME), ("brokerAddr", ADDR)];
        self.broker_request(103, &fields, 0);
        self.unregister(NAME, NAME, ADDR, 0);
        self.wait_for_departure(NAME, ADDR)
    }

    fn wait_for_departure(&mut self, group: &str, addr: &str) -> Result<(), String> {
        let request = Request {
            code: i32::try_from(MEMBER_GROUP).expect("a code"),
            version: 513,
            fields: vec![("brokerName".into(), group.into())],
            ..Request::default()
        };
        let quoted = format!("{addr:?}");
        if within(SETTLE_TIMEOUT, || !self.queries.call(&request).text().contains(&quoted)) {
            return Ok(());
        }
        Err(format!("{} still has {addr} in {group} after {SETTLE_TIMEOUT:?}", self.name))
    }

    fn broker_request(&mut self, code: i32, fields: &[(&str, &str)], id: i64) {
        let id = ("brokerId".to_string(), id.to_string());
        let fields = fields.iter().map(|(key, value)| (key.to_string(), value.to_string())).chain([id]);
        let request = Request { code, version: 513, fields: fields.collect(), ..Request::default() };
        let answer = self.queries.call(&request);
        assert_eq!(answer.code(), 0, "{}: {}", self.name, answer.show());
    }
}

fn within(timeout: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + timeout;
    loop {
        if condition() {
            return true;
        }
        if Instant::now() > deadline {
            return false;
        }
        thread::sleep(Duration::from_millis(1));
    }
}
