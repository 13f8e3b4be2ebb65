//! A storm of registrations: brokers that register all of their topics again and again, at fixed times.
//!
//! The loop is open: a registration is due whether or not the earlier ones are answered, and its latency counts from when
//! it was due. So a slow server is told apart by what it did not apply, and not asked less. Each broker has a connection
//! and two threads of its own, one that sends and one that reads.
//!
//! The version of a changing registration stands in its data version, in its opaque, and, modulo a number, in the queues
//! of every topic: [`queues_of`]. Whoever asks for a route meanwhile sees how old the answer is.

mod frame;

use std::{
    collections::VecDeque,
    io::{self, ErrorKind, Read as _, Write as _},
    net::{Shutdown, SocketAddr, TcpStream},
    ops::Range,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail, ensure};
use bytes::{Buf as _, BytesMut};
use hdrhistogram::Histogram;

use self::frame::Frame;
use crate::{
    client::{Client, Codec, Query},
    cluster::{Broker, TOPICS_OF_ONE_REGISTRATION, queues_in_route},
    faults::{Fault, Faults},
    load::latency_histogram,
    versions::{Versions, queues_of},
};

/// Who registers what, and how often.
#[derive(Clone, Debug)]
pub struct StormPlan {
    /// The numbers of the brokers, of [`Broker::new`].
    pub brokers: Range<usize>,
    /// The topics of each of them, at most [`TOPICS_OF_ONE_REGISTRATION`].
    pub topics: Vec<String>,
    /// Time between two registrations of one broker. The brokers take turns within it.
    pub period: Duration,
    /// Each registration changes the data version and the queues of all topics; otherwise all are equal.
    pub changed: bool,
    /// How many registrations of one broker may wait for their answers. One that is due beyond that is not sent.
    pub in_flight_max: usize,
    /// How long after the end answers may still come, and how long a first answer or a write may take.
    pub timeout: Duration,
}

impl StormPlan {
    /// Brokers that no other part of this crate uses, with topics of the usual names.
    pub fn new(brokers: usize, topics: usize, period: Duration, changed: bool) -> Self {
        Self {
            brokers: FIRST_BROKER..FIRST_BROKER + brokers,
            topics: crate::cluster::topic_names(topics),
            period,
            changed,
            in_flight_max: IN_FLIGHT_MAX,
            timeout: TIMEOUT,
        }
    }
}

/// What came of a storm.
#[derive(Clone, Debug)]
pub struct StormReport {
    /// Registrations that were due before the end.
    pub due: u64,
    /// Those of them that were sent: the others found [`StormPlan::in_flight_max`] waiting.
    pub sent: u64,
    /// Those that were answered with success.
    pub applied: u64,
    /// Nanoseconds from when a registration was due to its answer.
    pub latencies: Histogram<u64>,
    /// What went wrong.
    pub errors: Faults,
}

impl StormReport {
    pub(crate) fn new() -> anyhow::Result<Self> {
        Ok(Self { due: 0, sent: 0, applied: 0, latencies: latency_histogram()?, errors: Faults::default() })
    }

    pub(crate) fn apply(&mut self, latency: Duration) {
        self.applied += 1;
        self.latencies.saturating_record(u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX));
    }

    pub(crate) fn merge(&mut self, other: &Self) -> anyhow::Result<()> {
        self.due += other.due;
        self.sent += other.sent;
        self.applied += other.applied;
        self.latencies.add(&other.latencies)?;
        self.errors.merge(&other.errors);
        Ok(())
    }

    /// The part of those that were due that was applied, in percent.
    pub fn applied_percent(&self) -> f64 {
        self.applied as f64 * 100.0 / self.due.max(1) as f64
    }
}

/// A running storm. Ends with [`finish`](Self::finish), or, without a report, when it is dropped.
#[derive(Debug)]
pub struct Storm {
    addr: SocketAddr,
    plan: StormPlan,
    versions: Arc<Versions>,
    /// When it ends, once that is known.
    end: Arc<OnceLock<Instant>>,
    members: Vec<Member>,
}

#[derive(Debug)]
struct Member {
    broker: Broker,
    counters: Arc<Counters>,
    sender: Option<JoinHandle<Faults>>,
    reader: Option<JoinHandle<Reader>>,
}

/// What the threads of one broker tell each other and the outside.
#[derive(Debug, Default)]
struct Counters {
    due: AtomicU64,
    sent: AtomicU64,
    applied: AtomicU64,
    /// The versions that wait for an answer, in the order of sending.
    in_flight: Mutex<VecDeque<u32>>,
    /// The sender has ended.
    is_sent: AtomicBool,
    /// The connection is of no use any more.
    is_lost: AtomicBool,
}

/// The first version. All opaques and data versions have ten digits, so that a frame keeps its length.
const VERSION_FIRST: u32 = 1_000_000_000;
const FIRST_BROKER: usize = 60_000;
/// A broker sends the next registration when the last one has failed or taken too long; a few may overlap.
const IN_FLIGHT_MAX: usize = 4;
/// A JVM that collects its garbage needs seconds.
const TIMEOUT: Duration = Duration::from_secs(30);
/// How often a reader looks whether it is over.
const READ_TIMEOUT: Duration = Duration::from_millis(50);
const READ_BYTES: usize = 4 << 10;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

impl Storm {
    /// Registers every broker once, prepares the registrations, and starts the threads: the first registration is due
    /// one period later.
    ///
    /// # Errors
    /// When a connection cannot be made, or a broker is refused.
    pub fn start(addr: SocketAddr, plan: StormPlan) -> anyhow::Result<Self> {
        ensure!(!plan.brokers.is_empty() && !plan.topics.is_empty(), "a storm of nobody or nothing");
        ensure!(
            plan.topics.len() <= TOPICS_OF_ONE_REGISTRATION,
            "{} topics are more than the {TOPICS_OF_ONE_REGISTRATION} of one registration",
            plan.topics.len()
        );
        ensure!(plan.period > Duration::ZERO && plan.in_flight_max > 0, "a storm needs a period and room for one");
        let mut prepared = Vec::new();
        for number in plan.brokers.clone() {
            let broker =
                Broker { version: VERSION_FIRST.into(), queues: queues_of(VERSION_FIRST), ..Broker::new(number) };
            let frame = Frame::of(&broker, &plan.topics)?;
            let mut link = Link::connect(addr, plan.timeout)?;
            link.register(&frame).with_context(|| format!("the first registration of {}", broker.name))?;
            prepared.push((broker, frame, link));
        }
        let names = prepared.iter().map(|(broker, ..)| broker.name.clone());
        let versions = Arc::new(Versions::new(names, VERSION_FIRST));
        let end = Arc::new(OnceLock::new());
        let start = Instant::now();
        let turn = plan.period / prepared.len() as u32;
        let members = prepared.into_iter().zip(0..).map(|((broker, frame, link), number)| {
            let counters = Arc::<Counters>::default();
            let clock = Clock { start: start + turn * number, period: plan.period, end: Arc::clone(&end) };
            let sender = Sender {
                frame,
                stream: link.stream.try_clone()?,
                clock: clock.clone(),
                counters: Arc::clone(&counters),
                changed: plan.changed,
                in_flight_max: plan.in_flight_max,
            };
            let (latencies, faults) = (latency_histogram()?, Faults::default());
            let newest = plan.changed.then(|| (Arc::clone(&versions), number as usize));
            let reader = Reader { link, clock, counters: Arc::clone(&counters), newest, latencies, faults };
            let sender = thread::Builder::new().name("storm-send".into()).spawn(move || sender.run())?;
            let reader = thread::Builder::new().name("storm-read".into()).spawn(move || reader.run())?;
            Ok(Member { broker, counters, sender: Some(sender), reader: Some(reader) })
        });
        let members = members.collect::<anyhow::Result<_>>()?;
        Ok(Self { addr, plan, versions, end, members })
    }

    /// The versions of its brokers. They change only when the storm changes anything.
    pub fn versions(&self) -> &Arc<Versions> {
        &self.versions
    }

    /// How many registrations were due, and how many are applied.
    pub fn progress(&self) -> (u64, u64) {
        let sum = |of: fn(&Counters) -> &AtomicU64| {
            self.members.iter().map(|member| of(&member.counters).load(Ordering::Relaxed)).sum()
        };
        (sum(|counters| &counters.due), sum(|counters| &counters.applied))
    }

    /// Ends the storm: waits for the answers that are missing, looks whether the last registration is visible in the route
    /// of a topic, and unregisters the brokers. What went wrong with any of it is in the report.
    ///
    /// # Errors
    /// When there is no memory for latencies.
    pub fn finish(mut self) -> anyhow::Result<StormReport> {
        let _ = self.end.set(Instant::now());
        let mut report = StormReport::new()?;
        let mut links = Vec::new();
        for member in &mut self.members {
            links.push(member.join(&mut report)?);
        }
        if let Err(error) = self.look_and_unregister(&mut report.errors) {
            report.errors.add(Fault::of(&error), || format!("at the end of a storm: {error:#}"));
        }
        Ok(report)
    }

    fn look_and_unregister(&self, errors: &mut Faults) -> anyhow::Result<()> {
        let mut client = Client::connect_for(self.addr, self.plan.timeout)?;
        for (place, member) in self.members.iter().enumerate() {
            // Of a broker that has lost its connection nothing needs to be there, and what is not answered may be.
            let is_lost = member.counters.is_lost.load(Ordering::Acquire);
            if !is_lost && member.counters.in_flight().is_empty() {
                member.check_visible(&mut client, &self.plan, self.versions.acknowledged(place), errors)?;
            }
            client.ask(&member.broker.unregistration())?;
        }
        Ok(())
    }
}

impl Drop for Storm {
    fn drop(&mut self) {
        let _ = self.end.set(Instant::now());
    }
}

impl Member {
    /// Waits for its threads. The connection is handed back: when it is closed, the broker is gone.
    fn join(&mut self, report: &mut StormReport) -> anyhow::Result<Option<Link>> {
        let (Some(sender), Some(reader)) = (self.sender.take(), self.reader.take()) else { return Ok(None) };
        report.errors.merge(&sender.join().expect("a sender does not panic"));
        let Reader { link, latencies, faults, .. } = reader.join().expect("a reader does not panic");
        report.errors.merge(&faults);
        report.latencies.add(latencies)?;
        report.due += self.counters.due.load(Ordering::Relaxed);
        report.sent += self.counters.sent.load(Ordering::Relaxed);
        report.applied += self.counters.applied.load(Ordering::Relaxed);
        Ok(Some(link))
    }

    fn check_visible(
        &self,
        client: &mut Client,
        plan: &StormPlan,
        version: u32,
        errors: &mut Faults,
    ) -> anyhow::Result<()> {
        let topic = &plan.topics[plan.topics.len() / 2];
        let (_, route) = client.call(&Query::route(topic))?;
        let shown = queues_in_route(&route, &self.broker.name)
            .and_then(|digits| std::str::from_utf8(&route[digits]).ok()?.parse::<u32>().ok());
        if shown != Some(queues_of(version)) {
            errors.add(Fault::Stale, || {
                let (name, queues) = (&self.broker.name, queues_of(version));
                format!("{topic} has {shown:?} queues on {name} after {queues} were acknowledged")
            });
        }
        Ok(())
    }
}

impl Counters {
    fn in_flight(&self) -> MutexGuard<'_, VecDeque<u32>> {
        self.in_flight.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says whether there is room for one more, and takes it.
    fn begin(&self, version: u32, in_flight_max: usize) -> bool {
        let mut in_flight = self.in_flight();
        let has_room = in_flight.len() < in_flight_max && !self.is_lost.load(Ordering::Acquire);
        if has_room {
            in_flight.push_back(version);
        }
        has_room
    }

    /// Says whether this one was in flight; it is no longer.
    fn end(&self, version: u32) -> bool {
        let mut in_flight = self.in_flight();
        let at = in_flight.iter().position(|&other| other == version);
        at.is_some_and(|at| in_flight.remove(at).is_some())
    }
}

/// When something is due, again and again, until an end that is not known before.
#[derive(Clone, Debug)]
pub(crate) struct Clock {
    pub(crate) start: Instant,
    pub(crate) period: Duration,
    pub(crate) end: Arc<OnceLock<Instant>>,
}

impl Clock {
    /// The first time is the start.
    pub(crate) fn due(&self, turn: u32) -> Instant {
        self.start + self.period * turn
    }

    /// Says whether the end has come.
    pub(crate) fn is_over(&self) -> bool {
        self.end.get().is_some()
    }

    /// Sleeps until this is due; false when the end comes first.
    pub(crate) fn wait_for(&self, turn: u32) -> bool {
        let due = self.due(turn);
        loop {
            let ends_before = self.end.get().is_some_and(|end| *end < due);
            let left = due.saturating_duration_since(Instant::now());
            if ends_before || left.is_zero() {
                return !ends_before;
            }
            thread::sleep(left.min(READ_TIMEOUT));
        }
    }
}

struct Sender {
    frame: Frame,
    stream: TcpStream,
    clock: Clock,
    counters: Arc<Counters>,
    changed: bool,
    in_flight_max: usize,
}

impl Sender {
    fn run(mut self) -> Faults {
        let mut faults = Faults::default();
        for version in VERSION_FIRST + 1.. {
            // Prepared before it is due, unless it is late already.
            if self.changed {
                self.frame.set_version(version);
            }
            self.frame.set_opaque(version);
            if !self.clock.wait_for(version - VERSION_FIRST) {
                break;
            }
            self.counters.due.fetch_add(1, Ordering::Relaxed);
            // What is late after the end is due, and not sent.
            if self.clock.is_over() || !self.counters.begin(version, self.in_flight_max) {
                continue;
            }
            match self.stream.write_all(&self.frame.bytes) {
                Ok(()) => _ = self.counters.sent.fetch_add(1, Ordering::Relaxed),
                Err(error) => {
                    self.counters.is_lost.store(true, Ordering::Release);
                    let _ = self.stream.shutdown(Shutdown::Both);
                    faults.add(Fault::Closed, || format!("while registering: {error}"));
                }
            }
        }
        self.counters.is_sent.store(true, Ordering::Release);
        faults
    }
}

#[derive(Debug)]
struct Reader {
    link: Link,
    clock: Clock,
    counters: Arc<Counters>,
    /// Where to acknowledge a version, and the place of the broker there; `None` when versions do not change.
    newest: Option<(Arc<Versions>, usize)>,
    latencies: Histogram<u64>,
    faults: Faults,
}

impl Reader {
    fn run(mut self) -> Self {
        while !self.is_over() {
            match self.link.read() {
                Ok(0) => self.lose(Fault::Closed, "the server has closed the connection of a broker".into()),
                Ok(_) => self.take_answers(),
                Err(error) if is_retry(&error) => {}
                Err(error) => self.lose(Fault::Closed, error.to_string()),
            }
        }
        let missing = self.counters.in_flight().len() as u64;
        if !self.counters.is_lost.load(Ordering::Acquire) {
            self.faults.add_many(Fault::Timeout, missing, || {
                format!("no answer to a registration {:?} after the end", self.link.timeout)
            });
        }
        self
    }

    fn is_over(&self) -> bool {
        if self.counters.is_lost.load(Ordering::Acquire) {
            return true;
        }
        let Some(end) = self.clock.end.get() else { return false };
        let is_sent = self.counters.is_sent.load(Ordering::Acquire);
        (is_sent && self.counters.in_flight().is_empty()) || end.elapsed() > self.link.timeout
    }

    fn lose(&mut self, fault: Fault, words: String) {
        if !self.counters.is_lost.swap(true, Ordering::AcqRel) {
            self.faults.add(fault, || words);
        }
    }

    fn take_answers(&mut self) {
        let now = Instant::now();
        loop {
            match self.link.answer() {
                Ok(None) => return,
                Ok(Some((version, code))) => self.take(version, code, now),
                Err(error) => return self.lose(Fault::Garbage, format!("{error:#}")),
            }
        }
    }

    fn take(&mut self, opaque: i32, code: i32, now: Instant) {
        let Some(version) = u32::try_from(opaque).ok().filter(|&version| self.counters.end(version)) else {
            return self
                .faults
                .add(Fault::Opaque, || format!("answer to registration {opaque}, which is not in flight"));
        };
        if code != 0 {
            return self.faults.add(Fault::Code, || format!("code {code} in answer to a registration"));
        }
        let latency = now.saturating_duration_since(self.clock.due(version - VERSION_FIRST));
        self.latencies.saturating_record(u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX));
        self.counters.applied.fetch_add(1, Ordering::Relaxed);
        if let Some((versions, place)) = &self.newest {
            versions.acknowledge(*place, version);
        }
    }
}

/// The connection of a broker.
#[derive(Debug)]
struct Link {
    timeout: Duration,
    stream: TcpStream,
    codec: Codec,
    input: BytesMut,
}

impl Link {
    fn connect(addr: SocketAddr, timeout: Duration) -> anyhow::Result<Self> {
        let stream = TcpStream::connect_timeout(&addr, CONNECT_TIMEOUT)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(READ_TIMEOUT))?;
        stream.set_write_timeout(Some(timeout))?;
        Ok(Self { timeout, stream, codec: Codec::new(), input: BytesMut::new() })
    }

    fn read(&mut self) -> io::Result<usize> {
        let mut chunk = [0; READ_BYTES];
        let read = self.stream.read(&mut chunk)?;
        self.input.extend_from_slice(&chunk[..read]);
        Ok(read)
    }

    /// Opaque and code of the next answer that is there.
    fn answer(&mut self) -> anyhow::Result<Option<(i32, i32)>> {
        let Some(answer) = self.codec.decode(&self.input)? else { return Ok(None) };
        let (result, consumed) = ((answer.opaque, answer.code), answer.consumed);
        self.input.advance(consumed);
        Ok(Some(result))
    }

    /// Sends the first registration and waits for its answer.
    fn register(&mut self, frame: &Frame) -> anyhow::Result<()> {
        self.stream.write_all(&frame.bytes)?;
        let begin = Instant::now();
        loop {
            if let Some((_, code)) = self.answer()? {
                ensure!(code == 0, "refused with code {code}");
                return Ok(());
            }
            match self.read() {
                Ok(0) => bail!("the server has closed the connection"),
                Ok(_) => {}
                Err(error) if is_retry(&error) => {
                    ensure!(begin.elapsed() < self.timeout, "no answer in {:?}", self.timeout);
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
}

fn is_retry(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}
