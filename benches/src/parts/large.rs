//! 100,000 topics on 4 brokers: memory, changes that concern all of them, and what lookups notice of these.

use std::{
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, ensure};
use server::remoting::RequestCode;

use super::{
    Effort,
    lab::{Lab, Subject},
    lookups::{bystanders, look_up, mib, ms},
    turns::Turns,
};
use crate::{
    client::{Client, Query},
    cluster::{Broker, Registered, populate, shows, topic_names},
    load::Question,
    process::Server,
    results::{Measure, Results, quantile},
};

const TOPICS: usize = 100_000;
const BROKERS: usize = 4;
/// Wipes of a round, unless they take too long; their median counts.
const WIPES: usize = 10;
/// No further wipe afterwards: one of another server may take a second, and brokers must not die meanwhile.
const WIPES_TIMEOUT: Duration = Duration::from_secs(1);
/// Time between two wipes while lookups are measured.
const WIPE_PERIOD: Duration = Duration::from_millis(20);
const GONE_TIMEOUT: Duration = Duration::from_secs(30);

pub(crate) fn measure(lab: &Lab, effort: Effort, results: &mut Results) -> anyhow::Result<()> {
    let topics = topic_names(TOPICS);
    let subjects = lab.name_servers(effort.with_peers);
    let mut turns = Turns::prepare(lab, "large", subjects, results, |subject| {
        let server = lab.start(subject, 0)?;
        let brokers = populate(server.addr(), 0..BROKERS, &topics)?;
        Ok(Large { topics: &topics, server, brokers, bystanders: Vec::new(), questions: Vec::new() })
    })?;
    lab.settle("large")?;
    turns.round(0, results, |subject, large, results| {
        let at = [("brokers", BROKERS as f64), ("topics", TOPICS as f64)];
        results.record(Measure::Memory, subject, &at, mib(large.server.resident()?));
        results.record(Measure::MemoryPeak, subject, &at, mib(large.server.resident_peak()?));
        (large.bystanders, large.questions) = bystanders(large.server.addr())?;
        look_up(large.server.addr(), &large.questions, lab.warm_up(subject))?;
        Ok(())
    })?;
    for round in 0..effort.rounds {
        turns.round(round, results, |subject, large, results| large.round(subject, effort.load, results))?;
    }
    Ok(())
}

struct Large<'t> {
    topics: &'t [String],
    server: Server,
    brokers: Vec<Registered>,
    bystanders: Vec<Registered>,
    questions: Vec<Question>,
}

impl Large<'_> {
    fn round(&mut self, subject: Subject, window: Duration, results: &mut Results) -> anyhow::Result<()> {
        let at = [("topics", TOPICS as f64)];
        self.beat()?;
        let mut wiper = Wiper::connect(&self.server)?;
        let (start, mut wipes) = (Instant::now(), Vec::new());
        while wipes.is_empty() || (wipes.len() < WIPES && start.elapsed() < WIPES_TIMEOUT) {
            wipes.push(ms(wiper.wipe(&self.topics[TOPICS / 2])?));
        }
        results.record(Measure::Wipe, subject, &at, quantile(&wipes, 0.5).context("no wipes")?);
        results.record(Measure::Death, subject, &at, ms(self.death()?));
        self.beat()?;

        let (addr, questions) = (self.server.addr(), std::mem::take(&mut self.questions));
        let quiet = look_up(addr, &questions, window)?.value_at_quantile(0.99);
        let disturbed = thread::scope(|scope| {
            let lookups = scope.spawn(|| look_up(addr, &questions, window));
            self.disturb(&mut wiper, window)?;
            lookups.join().expect("lookups do not panic")
        });
        self.questions = questions;
        results.record(Measure::Disturbance, subject, &at, disturbed?.value_at_quantile(0.99) as f64 / quiet as f64);
        self.return_broker()
    }

    /// Wipes all the time, and one death in the middle.
    fn disturb(&mut self, wiper: &mut Wiper, window: Duration) -> anyhow::Result<()> {
        let start = Instant::now();
        let mut dying = self.brokers.pop();
        for number in 0.. {
            let due = WIPE_PERIOD * number;
            if due.max(start.elapsed()) >= window {
                break;
            }
            thread::sleep(due.saturating_sub(start.elapsed()));
            wiper.wipe(&self.topics[TOPICS / 2])?;
            if due > window / 2 {
                dying = None;
            }
        }
        drop(dying);
        Ok(())
    }

    /// From the close of a broker's connection until a route query on another one does not show it. The broker returns.
    fn death(&mut self) -> anyhow::Result<Duration> {
        let mut watcher = Client::connect(self.server.addr())?;
        let query = Query::route(&self.topics[TOPICS / 3]);
        let Registered { broker, client } = self.brokers.pop().context("a broker")?;
        let start = Instant::now();
        drop(client);
        while shows(&watcher.ask(&query)?, &broker) {
            ensure!(start.elapsed() < GONE_TIMEOUT, "{} is still there after {GONE_TIMEOUT:?}", broker.name);
        }
        let time = start.elapsed();
        self.return_broker()?;
        Ok(time)
    }

    fn return_broker(&mut self) -> anyhow::Result<()> {
        self.brokers.extend(populate(self.server.addr(), BROKERS - 1..BROKERS, self.topics)?);
        Ok(())
    }

    fn beat(&mut self) -> anyhow::Result<()> {
        self.brokers.iter_mut().chain(&mut self.bystanders).try_for_each(Registered::beat)
    }
}

/// An operator who takes the write permission of a broker and gives it back.
struct Wiper {
    client: Client,
    wipe: Query,
    add: Query,
}

impl Wiper {
    fn connect(server: &Server) -> anyhow::Result<Self> {
        let name = Broker::new(1).name;
        let of_broker = |code| Query::new(code, &[("brokerName", &*name)]);
        Ok(Self {
            client: Client::connect(server.addr())?,
            wipe: of_broker(RequestCode::WipeWritePermOfBroker),
            add: of_broker(RequestCode::AddWritePermOfBroker),
        })
    }

    /// How long the answer to `wipeWritePerm` takes.
    fn wipe(&mut self, topic: &str) -> anyhow::Result<Duration> {
        let start = Instant::now();
        self.client.ask(&self.wipe)?;
        let time = start.elapsed();
        let route = Query::route(topic);
        ensure!(has_read_only(&self.client.ask(&route)?), "the wipe is not visible");
        self.client.ask(&self.add)?;
        ensure!(!has_read_only(&self.client.ask(&route)?), "the permission is not back");
        Ok(time)
    }
}

fn has_read_only(route: &[u8]) -> bool {
    memchr::memmem::find(route, b"\"perm\":4").is_some()
}
