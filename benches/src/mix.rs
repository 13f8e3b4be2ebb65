//! What happens beside the lookups of a load.
//!
//! Everything here is due at fixed times, as in a [`storm`](crate::storm), and its latency counts from then. Each step asks
//! for what it does and looks whether it is visible once it is acknowledged.

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use anyhow::{Context as _, ensure};
use clap::ValueEnum;
use memchr::memmem;
use serde::{Deserialize, Serialize};
use server::remoting::RequestCode;

use crate::{
    client::{Client, Query},
    cluster::{Broker, CLUSTER, Registered, TOPICS_OF_ONE_REGISTRATION, queues_in_route, shows},
    faults::Fault,
    storm::{Clock, Storm, StormPlan, StormReport},
    versions::{Versions, queues_of},
};

/// A mix of requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mix {
    /// Lookups, of each hundred one heartbeat instead, and the storm of registrations if there are storm brokers
    #[default]
    Steady,
    /// The brokers unregister, leave and come back one after the other, one each storm period
    RollingRestart,
    /// The storm brokers, with storm topics each, connect and register within the first second
    Avalanche,
    /// A topic is created or deleted each storm period, one at a time
    TopicStorm,
    /// Each storm period all topics, all brokers and the topics of the cluster are listed
    AdminScan,
}

/// How it is done.
#[derive(Clone, Debug)]
pub struct MixPlan {
    /// What.
    pub mix: Mix,
    /// Where.
    pub addr: SocketAddr,
    /// Brokers of a storm or an avalanche; a storm of none is no storm.
    pub brokers: usize,
    /// The topics of each of them: of a storm these, of an avalanche so many others.
    pub topics: Vec<String>,
    /// Time between two steps.
    pub period: Duration,
    /// Registrations of a storm change all topics.
    pub changed: bool,
    /// How long an answer may take.
    pub timeout: Duration,
}

/// Brokers that are there for the whole load, with all topics each.
#[derive(Clone, Debug)]
pub struct Population {
    addr: SocketAddr,
    topics: Arc<[String]>,
    timeout: Duration,
    brokers: Arc<Mutex<Vec<Registered>>>,
    /// Their versions, should they change.
    versions: Arc<Versions>,
}

/// How often brokers send heartbeats: connections are closed after two minutes of silence.
const BEAT_INTERVAL: Duration = Duration::from_secs(10);
/// Brokers of an avalanche that share their topics.
const AVALANCHE_GROUP: usize = 8;
const AVALANCHE_FIRST_BROKER: usize = 70_000;
const AVALANCHE_TIME: Duration = Duration::from_secs(1);

impl Population {
    /// Registers so many brokers, each over its own connection.
    ///
    /// # Errors
    /// When one is refused.
    pub fn register(addr: SocketAddr, brokers: usize, topics: &[String], timeout: Duration) -> anyhow::Result<Self> {
        let registered = (0..brokers).map(|number| {
            let mut one = Registered { broker: Broker::new(number), client: Client::connect_for(addr, timeout)? };
            register(&mut one, topics).with_context(|| format!("cannot register {}", one.broker.name))?;
            Ok(one)
        });
        let brokers = registered.collect::<anyhow::Result<Vec<_>>>()?;
        let version = brokers.first().map_or(0, |one| one.broker.version as u32);
        let versions = Arc::new(Versions::new(brokers.iter().map(|one| one.broker.name.clone()), version));
        Ok(Self { addr, topics: topics.into(), timeout, brokers: Arc::new(Mutex::new(brokers)), versions })
    }

    /// Nobody.
    pub fn none(addr: SocketAddr, timeout: Duration) -> Self {
        let (brokers, versions) = (Arc::default(), Arc::new(Versions::new([], 0)));
        Self { addr, topics: Arc::default(), timeout, brokers, versions }
    }

    /// The names of the brokers.
    pub fn names(&self) -> Vec<String> {
        self.versions.names().map(str::to_owned).collect()
    }

    /// Their heartbeats, as requests.
    pub fn heartbeats(&self) -> Vec<Query> {
        self.brokers().iter().map(|one| one.broker.heartbeat()).collect()
    }

    /// Sends heartbeats for as long as `clock` runs.
    fn keep_alive(&self, clock: &Clock) {
        let beats = Clock { period: BEAT_INTERVAL, ..clock.clone() };
        for turn in 1.. {
            if !beats.wait_for(turn) {
                return;
            }
            // Of a broker that cannot send, lookups tell.
            self.brokers().iter_mut().for_each(|one| _ = one.beat());
        }
    }

    /// Unregisters all, as far as that is possible.
    pub fn unregister(&self) {
        for mut one in self.brokers().drain(..) {
            let _ = one.client.call(&one.broker.unregistration());
        }
    }

    /// A broker unregisters, leaves, comes back with another version, and is visible.
    fn restart(&self, place: usize) -> Step {
        let mut brokers = self.brokers();
        let one = brokers.get_mut(place).ok_or((Fault::Connect, "no broker".to_owned()))?;
        // A connection that is lost already has unregistered it, too.
        let _ = one.client.call(&one.broker.unregistration());
        one.client = Client::connect_for(self.addr, self.timeout).map_err(wrong)?;
        register(one, &self.topics).map_err(wrong)?;
        self.versions.acknowledge(place, one.broker.version as u32);
        let Some(topic) = self.topics.last() else { return Ok(()) };
        let (_, route) = one.client.call(&Query::route(topic)).map_err(wrong)?;
        let queues = one.broker.queues.to_string();
        let shown = queues_in_route(&route, &one.broker.name).map(|digits| &route[digits]);
        if shown != Some(queues.as_bytes()) {
            return Err((
                Fault::Stale,
                format!("{} has registered {queues} queues, which are not visible", one.broker.name),
            ));
        }
        Ok(())
    }

    fn brokers(&self) -> MutexGuard<'_, Vec<Registered>> {
        self.brokers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The queues of its topics tell the version that it has afterwards.
fn register(one: &mut Registered, topics: &[String]) -> anyhow::Result<()> {
    let parts = topics.len().div_ceil(TOPICS_OF_ONE_REGISTRATION) as u64;
    one.broker.queues = queues_of((one.broker.version + parts) as u32);
    one.broker.register(&mut one.client, topics)?;
    Ok(())
}

/// What happens beside the lookups, until it is finished.
#[derive(Debug)]
pub struct Disturbance {
    kind: Kind,
    end: Arc<OnceLock<Instant>>,
    keeper: Option<JoinHandle<()>>,
    /// Of brokers whose routes change, and are looked up.
    versions: Option<Arc<Versions>>,
}

#[derive(Debug)]
enum Kind {
    None,
    Storm(Storm),
    Steps { threads: Vec<JoinHandle<anyhow::Result<StormReport>>>, progress: Arc<Progress> },
}

#[derive(Debug, Default)]
struct Progress {
    due: AtomicU64,
    applied: AtomicU64,
}

impl Disturbance {
    /// Starts it.
    ///
    /// # Errors
    /// When a storm cannot be started, or the mix needs brokers that are not there.
    pub fn start(plan: &MixPlan, population: &Population) -> anyhow::Result<Self> {
        let end = Arc::new(OnceLock::new());
        let clock = Clock { start: Instant::now(), period: plan.period, end: Arc::clone(&end) };
        let (steps, versions) = match plan.mix {
            Mix::Steady if plan.brokers == 0 => (None, None),
            Mix::Steady => {
                let storm = StormPlan::new(plan.brokers, 0, plan.period, plan.changed);
                let storm =
                    Storm::start(plan.addr, StormPlan { topics: plan.topics.clone(), timeout: plan.timeout, ..storm })?;
                let versions = Some(Arc::clone(storm.versions()));
                return Ok(Self { kind: Kind::Storm(storm), keeper: Some(keep(population, clock)), end, versions });
            }
            Mix::RollingRestart => {
                let count = population.brokers().len();
                ensure!(count > 1, "a rolling restart needs two brokers or more, there are {count}");
                let (brokers, versions) = (population.clone(), Arc::clone(&population.versions));
                let restart = move |turn: u32| brokers.restart(turn as usize % count);
                (Some(vec![(clock.clone(), Box::new(restart) as Stepper)]), Some(versions))
            }
            Mix::Avalanche => {
                let mut steps = Vec::new();
                for number in 0..plan.brokers {
                    let start = clock.start + AVALANCHE_TIME / plan.brokers as u32 * number as u32;
                    // The second time never comes.
                    let clock = Clock { start, period: Duration::from_secs(1 << 30), ..clock.clone() };
                    steps.push((clock, avalanche_step(plan, number)));
                }
                (Some(steps), None)
            }
            Mix::TopicStorm => {
                let broker = population.names().into_iter().next().context("a topic storm needs a broker")?;
                (Some(vec![(clock.clone(), topic_step(plan, broker))]), None)
            }
            Mix::AdminScan => (Some(vec![(clock.clone(), scan_step(plan, population))]), None),
        };
        let keeper = Some(keep(population, clock));
        let Some(steps) = steps else { return Ok(Self { kind: Kind::None, keeper, end, versions }) };
        let progress = Arc::<Progress>::default();
        let start = |(clock, step): (Clock, Stepper)| {
            let progress = Arc::clone(&progress);
            thread::spawn(move || repeat(&clock, &progress, step))
        };
        let threads = steps.into_iter().map(start).collect();
        Ok(Self { kind: Kind::Steps { threads, progress }, keeper, end, versions })
    }

    /// The brokers whose queues change in the routes that are looked up.
    pub fn versions(&self) -> Option<&Arc<Versions>> {
        self.versions.as_ref()
    }

    /// How many steps were due, and how many are done; `None` when nothing happens.
    pub fn progress(&self) -> Option<(u64, u64)> {
        match &self.kind {
            Kind::None => None,
            Kind::Storm(storm) => Some(storm.progress()),
            Kind::Steps { progress, .. } => {
                Some((progress.due.load(Ordering::Relaxed), progress.applied.load(Ordering::Relaxed)))
            }
        }
    }

    /// Ends it, and says what came of it.
    ///
    /// # Errors
    /// When there is no memory for latencies.
    pub fn finish(mut self) -> anyhow::Result<Option<StormReport>> {
        let _ = self.end.set(Instant::now());
        if let Some(keeper) = self.keeper.take() {
            keeper.join().expect("a keeper does not panic");
        }
        match std::mem::replace(&mut self.kind, Kind::None) {
            Kind::None => Ok(None),
            Kind::Storm(storm) => storm.finish().map(Some),
            Kind::Steps { threads, .. } => {
                let mut all = StormReport::new()?;
                for thread in threads {
                    all.merge(&thread.join().expect("a step does not panic")?)?;
                }
                Ok(Some(all))
            }
        }
    }
}

impl Drop for Disturbance {
    fn drop(&mut self) {
        let _ = self.end.set(Instant::now());
    }
}

fn keep(population: &Population, clock: Clock) -> JoinHandle<()> {
    let population = population.clone();
    thread::spawn(move || population.keep_alive(&clock))
}

/// What came of one step.
type Step = Result<(), (Fault, String)>;
type Stepper = Box<dyn FnMut(u32) -> Step + Send>;

/// Does a step whenever it is due, or later, if the one before takes too long.
fn repeat(clock: &Clock, progress: &Progress, mut step: Stepper) -> anyhow::Result<StormReport> {
    let mut report = StormReport::new()?;
    for turn in 0.. {
        if !clock.wait_for(turn) {
            break;
        }
        report.due += 1;
        progress.due.fetch_add(1, Ordering::Relaxed);
        if clock.is_over() {
            continue;
        }
        report.sent += 1;
        match step(turn) {
            Ok(()) => {
                report.apply(clock.due(turn).elapsed());
                progress.applied.fetch_add(1, Ordering::Relaxed);
            }
            Err((fault, words)) => report.errors.add(fault, || words),
        }
    }
    Ok(report)
}

/// A client that connects again when something has gone wrong.
struct Caller {
    addr: SocketAddr,
    timeout: Duration,
    client: Option<Client>,
}

impl Caller {
    fn new(plan: &MixPlan) -> Self {
        Self { addr: plan.addr, timeout: plan.timeout, client: None }
    }

    fn call(&mut self, query: &Query) -> Result<(i32, Vec<u8>), (Fault, String)> {
        let mut client = match self.client.take() {
            Some(client) => client,
            None => Client::connect_for(self.addr, self.timeout).map_err(wrong)?,
        };
        let answer = client.call(query).map_err(wrong)?;
        self.client = Some(client);
        Ok(answer)
    }

    /// The body of an answer with this code.
    fn expect(&mut self, expected: i32, query: &Query) -> Result<Vec<u8>, (Fault, String)> {
        match self.call(query)? {
            (code, body) if code == expected => Ok(body),
            (code, _) => Err((Fault::Code, format!("code {code} in answer to {:?} {:?}", query.code, query.fields))),
        }
    }
}

fn wrong(error: anyhow::Error) -> (Fault, String) {
    (Fault::of(&error), format!("{error:#}"))
}

/// The broker stays until the step is dropped.
fn avalanche_step(plan: &MixPlan, number: usize) -> Stepper {
    let broker = Broker { version: 1, ..Broker::new(AVALANCHE_FIRST_BROKER + number) };
    let group = number / AVALANCHE_GROUP;
    let topics: Vec<String> = (0..plan.topics.len()).map(|topic| format!("avalanche-{group:03}-{topic:06}")).collect();
    let registration = broker.registration(topics.iter().map(String::as_str));
    let mut caller = Caller::new(plan);
    Box::new(move |_| {
        caller.expect(0, &registration)?;
        let route = caller.expect(0, &Query::route(&topics[topics.len() / 2]))?;
        if !shows(&route, &broker) {
            return Err((Fault::Stale, format!("{} has registered and is not visible", broker.name)));
        }
        Ok(())
    })
}

/// One step makes a topic, the next one deletes it.
fn topic_step(plan: &MixPlan, broker: String) -> Stepper {
    /// `TOPIC_NOT_EXIST`.
    const ABSENT: i32 = 17;
    let mut caller = Caller::new(plan);
    let body = format!(
        "{{\"brokerDatas\":[],\"queueDatas\":[{{\"brokerName\":\"{broker}\",\"perm\":6,\"readQueueNums\":8,\
         \"topicSysFlag\":0,\"writeQueueNums\":8}}]}}"
    );
    Box::new(move |turn| {
        let topic = format!("topic-storm-{:09}", turn / 2);
        if turn % 2 == 0 {
            let create = Query::new(RequestCode::RegisterTopicInNamesrv, &[("topic", &topic)]);
            caller.expect(0, &Query { body: body.clone().into(), ..create })?;
            caller.expect(0, &Query::route(&topic))?;
        } else {
            caller.expect(0, &Query::new(RequestCode::DeleteTopicInNamesrv, &[("topic", &topic)]))?;
            caller.expect(ABSENT, &Query::route(&topic))?;
        }
        Ok(())
    })
}

/// What the lists must contain is there for the whole load.
fn scan_step(plan: &MixPlan, population: &Population) -> Stepper {
    let mut caller = Caller::new(plan);
    let (topics, brokers) = (Arc::clone(&population.topics), population.names());
    let all_topics = Query::new(RequestCode::GetAllTopicListFromNameserver, &[]);
    let of_cluster = Query::new(RequestCode::GetTopicsByCluster, &[("cluster", CLUSTER)]);
    let all_brokers = Query::new(RequestCode::GetBrokerClusterInfo, &[]);
    Box::new(move |_| {
        for query in [&all_topics, &of_cluster] {
            // Nothing of a cluster that is not ours is known.
            if topics.is_empty() && query.code == RequestCode::GetTopicsByCluster {
                continue;
            }
            let body = caller.expect(0, query)?;
            let listed = topics_in(&body).map_err(|error| (Fault::Body, format!("{:?}: {error}", query.code)))?;
            let listed: std::collections::HashSet<&str> = listed.into_iter().collect();
            if let Some(missing) = topics.iter().find(|topic| !listed.contains(&***topic)) {
                return Err((Fault::Body, format!("{missing} is missing in answer to {:?}", query.code)));
            }
        }
        let body = caller.expect(0, &all_brokers)?;
        // Its broker ids are keys without quotes: it is no JSON.
        let is_listed = |name: &&String| memmem::find(&body, format!("\"{name}\":{{").as_bytes()).is_some();
        match brokers.iter().find(|name| !is_listed(name)) {
            Some(missing) => Err((Fault::Body, format!("{missing} is missing in answer to {:?}", all_brokers.code))),
            None => Ok(()),
        }
    })
}

/// The names in a list of topics.
///
/// # Errors
/// When it is none.
pub fn topics_in(body: &[u8]) -> serde_json::Result<Vec<&str>> {
    #[derive(Deserialize)]
    struct TopicList<'b> {
        #[serde(borrow, rename = "topicList")]
        topics: Vec<&'b str>,
    }
    serde_json::from_slice::<TopicList<'_>>(body).map(|list| list.topics)
}
