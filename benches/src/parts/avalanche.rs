//! All brokers register in the same second, as after a failure of the network, while clients ask for routes.

use std::{
    net::SocketAddr,
    ops::Range,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, ensure};
use server::remoting::RequestCode;

use super::{
    Effort,
    lab::{Lab, Subject},
    lookups::{US, bystanders, look_up, record_latencies},
    turns::Turns,
};
use crate::{
    client::{Client, Query},
    cluster::{Broker, Registered, topic_names},
    load::Question,
    process::Server,
    results::{Measure, Results},
};

const BROKERS: usize = 300;
/// Topics of each of them.
const TOPICS: usize = 1_000;
/// So many brokers have the same topics: a route has as many brokers.
const BROKERS_OF_A_TOPIC: usize = 10;
/// All registrations are due within that time, evenly.
const SPREAD: Duration = Duration::from_secs(1);

pub(crate) fn measure(lab: &Lab, effort: Effort, results: &mut Results) -> anyhow::Result<()> {
    for round in 0..effort.rounds {
        let subjects = lab.name_servers(effort.with_peers);
        let mut turns = Turns::prepare(lab, "avalanche", subjects, results, |subject| Slope::new(lab, subject))?;
        turns.round(round, results, |subject, slope, results| slope.slide(subject, effort.load, results))?;
        lab.settle("avalanche")?;
        turns.round(round, results, |subject, slope, results| {
            let (peak, settled) = (slope.peak, slope.server.resident()?);
            results.record(Measure::AvalanchePeak, subject, &[], peak as f64 / settled as f64);
            Ok(())
        })?;
    }
    Ok(())
}

struct Slope {
    server: Server,
    bystanders: Vec<Registered>,
    questions: Vec<Question>,
    /// The connections that carry the brokers.
    clients: Vec<Client>,
    peak: u64,
}

impl Slope {
    fn new(lab: &Lab, subject: Subject) -> anyhow::Result<Self> {
        let server = lab.start(subject, 0)?;
        let (bystanders, questions) = bystanders(server.addr())?;
        look_up(server.addr(), &questions, lab.warm_up(subject))?;
        Ok(Self { server, bystanders, questions, clients: Vec::new(), peak: 0 })
    }

    fn slide(&mut self, subject: Subject, window: Duration, results: &mut Results) -> anyhow::Result<()> {
        self.bystanders.iter_mut().try_for_each(Registered::beat)?;
        let addr = self.server.addr();
        let prepared = prepare(addr, 0..BROKERS)?;
        let (took, lookups) = thread::scope(|scope| {
            let questions = &self.questions;
            let lookups = scope.spawn(move || look_up(addr, questions, window));
            let start = Instant::now();
            let brokers = prepared.into_iter().enumerate().map(|(number, (mut client, query))| {
                let due = start + SPREAD * number as u32 / BROKERS as u32;
                scope.spawn(move || -> anyhow::Result<_> {
                    thread::sleep(due.saturating_duration_since(Instant::now()));
                    client.ask(&query)?;
                    Ok((client, start.elapsed()))
                })
            });
            let brokers: Vec<_> = brokers.collect();
            let mut took = Duration::ZERO;
            for broker in brokers {
                let (client, elapsed) = broker.join().expect("a broker does not panic")?;
                took = took.max(elapsed);
                self.clients.push(client);
            }
            anyhow::Ok((took, lookups.join().expect("lookups do not panic")?))
        })?;
        self.peak = self.server.resident_peak()?;
        let info = Client::connect(addr)?.ask(&Query::new(RequestCode::GetBrokerClusterInfo, &[]))?;
        let there = memchr::memmem::find_iter(&info, b"\"brokerAddrs\":").count();
        let all = BROKERS + self.bystanders.len();
        ensure!(there == all, "{there} of {all} brokers are registered");
        results.record(Measure::AvalancheTime, subject, &[], took.as_secs_f64());
        record_latencies(results, Measure::AvalancheLatency, subject, &[], &lookups, US);
        Ok(())
    }
}

/// A connection and a registration of each broker.
fn prepare(addr: SocketAddr, brokers: Range<usize>) -> anyhow::Result<Vec<(Client, Query)>> {
    let topics = topic_names(BROKERS.div_ceil(BROKERS_OF_A_TOPIC) * TOPICS);
    let sets: Vec<&[String]> = topics.chunks(TOPICS).collect();
    let prepare = |number: usize| {
        let set = sets.get(number / BROKERS_OF_A_TOPIC).context("topics of each broker")?;
        let broker = Broker { version: 1, ..Broker::new(number) };
        Ok((Client::connect(addr)?, broker.registration(set.iter().map(String::as_str))))
    };
    brokers.map(prepare).collect()
}
