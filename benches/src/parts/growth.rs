//! How costs grow: with topics, with connections, with brokers that are not concerned.

use std::time::{Duration, Instant};

use anyhow::ensure;
use server::remoting::RequestCode;

use super::{
    Effort,
    lab::{Lab, Subject},
    lookups::{Contestant, mib, ms, routes},
    queries::{self, closed},
    turns::Turns,
};
use crate::{
    client::{Client, Query},
    cluster::{Broker, populate, shows, topic_names},
    load::{self, Question},
    results::{Measure, Results, quantile},
};

/// Topics, on two brokers.
const TOPICS: [usize; 4] = [1_000, 10_000, 100_000, 1_000_000];
/// With more of them only the default strategy is measured.
const TOPICS_OF_ALL_STRATEGIES_MAX: usize = 100_000;
const BROKERS: usize = 2;
/// Topics that are asked for, at most: evenly spread over all of them.
const QUESTIONS_MAX: usize = 100_000;
/// Requests in flight on each connection: other than in the part `queries`, whose routes have more brokers.
const IN_FLIGHT: usize = 8;
/// Connections; 16 are those of the part `queries`.
const CONNECTIONS: [usize; 3] = [1, 256, 4_096];
/// Brokers that are not on the lost connection.
const BYSTANDERS: [usize; 4] = [10, 100, 300, 1_000];
const TOPICS_OF_A_BROKER: usize = 10;
/// Losses of a round; their median counts.
const LOSSES: usize = 10;
const GONE_TIMEOUT: Duration = Duration::from_secs(5);

pub(crate) fn measure(lab: &Lab, effort: Effort, results: &mut Results) -> anyhow::Result<()> {
    by_topics(lab, effort, results)?;
    by_connections(lab, effort, results)?;
    by_brokers(lab, effort, results)
}

fn by_topics(lab: &Lab, effort: Effort, results: &mut Results) -> anyhow::Result<()> {
    let sizes = if lab.is_quick { &TOPICS[..2] } else { &TOPICS[..] };
    let mut servers = Vec::new();
    for &count in sizes {
        let topics = topic_names(count);
        let asked: Vec<String> = topics.iter().step_by(count.div_ceil(QUESTIONS_MAX)).cloned().collect();
        let subjects =
            lab.backends().filter(|&one| count <= TOPICS_OF_ALL_STRATEGIES_MAX || one == lab.default_backend());
        let turns = Turns::prepare(lab, "growth", subjects, results, |subject| {
            let server = lab.start(subject, 0)?;
            let brokers = populate(server.addr(), 0..BROKERS, &topics)?;
            let is_asked = subject == lab.default_backend();
            let questions = if is_asked { routes(server.addr(), &asked)? } else { Vec::new() };
            Ok(Contestant { server, questions, brokers })
        })?;
        servers.push((count, turns));
    }
    lab.settle("growth")?;
    for (count, turns) in &mut servers {
        turns.round(0, results, |subject, contestant, results| {
            let at = [("brokers", BROKERS as f64), ("topics", *count as f64)];
            results.record(Measure::Memory, subject, &at, mib(contestant.server.resident()?));
            results.record(Measure::MemoryPeak, subject, &at, mib(contestant.server.resident_peak()?));
            Ok(())
        })?;
        // The others have shown what they are here for.
        turns.keep(lab.default_backend());
    }
    for round in 0..effort.rounds {
        for (count, turns) in &mut servers {
            turns.round(round, results, |subject, contestant, results| {
                closed(subject, contestant, queries::CONNECTIONS, IN_FLIGHT, *count, effort, results)?;
                heartbeats(subject, contestant, *count, effort, results)
            })?;
        }
    }
    Ok(())
}

/// CPU time of a heartbeat, of many on one connection.
fn heartbeats(
    subject: Subject,
    contestant: &Contestant,
    topics: usize,
    effort: Effort,
    results: &mut Results,
) -> anyhow::Result<()> {
    let heartbeat = |number| Question { query: Broker::new(number).heartbeat(), expected: Box::default() };
    let questions: Vec<Question> = (0..BROKERS).map(heartbeat).collect();
    let Contestant { server, .. } = contestant;
    let before = server.cpu()?;
    let report = load::closed(server.addr(), &questions, 1, IN_FLIGHT, effort.load / 2)?;
    let each = server.cpu()?.since(&before).as_secs_f64() * 1e6 / (report.answers + report.late_answers) as f64;
    results.record(Measure::HeartbeatCpu, subject, &[("topics", topics as f64)], each);
    Ok(())
}

fn by_connections(lab: &Lab, effort: Effort, results: &mut Results) -> anyhow::Result<()> {
    let topics = topic_names(queries::TOPICS);
    let subjects = [lab.default_backend()].into_iter().chain(lab.floors());
    let make = |subject| Contestant::start_warm(lab, subject, queries::BROKERS, &topics);
    let mut turns = Turns::prepare(lab, "growth", subjects, results, make)?;
    let counts = if lab.is_quick { &CONNECTIONS[..2] } else { &CONNECTIONS[..] };
    for round in 0..effort.rounds {
        for &connections in counts {
            // The answers of a short round of thousands would all be those of the start.
            let load = if connections > 1_000 { effort.load * 2 } else { effort.load };
            let effort = Effort { load, ..effort };
            turns.round(round, results, |subject, contestant, results| {
                closed(subject, contestant, connections, 1, queries::TOPICS, effort, results)
            })?;
        }
    }
    Ok(())
}

fn by_brokers(lab: &Lab, effort: Effort, results: &mut Results) -> anyhow::Result<()> {
    for brokers in BYSTANDERS {
        let mut turns = Turns::prepare(lab, "growth", [lab.default_backend()], results, |subject| {
            let server = lab.start(subject, 0)?;
            let mut client = Client::connect(server.addr())?;
            let topics = topic_names(TOPICS_OF_A_BROKER);
            for number in 0..brokers {
                Broker::new(number).register(&mut client, &topics)?;
            }
            Ok((server, client))
        })?;
        for round in 0..effort.rounds {
            turns.round(round, results, |subject, (server, client), results| {
                let there = client.ask(&Query::new(RequestCode::GetBrokerClusterInfo, &[]))?;
                ensure!(memchr::memmem::find_iter(&there, b"\"brokerAddrs\":").count() == brokers, "brokers are lost");
                let losses = (0..LOSSES).map(|_| loss(server.addr())).collect::<anyhow::Result<Vec<_>>>()?;
                let median = quantile(&losses, 0.5).unwrap_or_default();
                results.record(Measure::ConnectionLoss, subject, &[("brokers", brokers as f64)], median);
                Ok(())
            })?;
        }
    }
    Ok(())
}

/// From the close of a connection with one broker on it until its topic does not show it, in milliseconds.
fn loss(addr: std::net::SocketAddr) -> anyhow::Result<f64> {
    let topics = ["of-one-broker-1".to_owned(), "of-one-broker-2".to_owned()];
    let mut registered = populate(addr, 40_000..40_001, &topics)?;
    let mut watcher = Client::connect(addr)?;
    let query = Query::route(&topics[0]);
    watcher.ask(&query)?;
    let Some(one) = registered.pop() else { anyhow::bail!("no broker") };
    let start = Instant::now();
    drop(one.client);
    loop {
        let (code, route) = watcher.call(&query)?;
        if code != 0 || !shows(&route, &one.broker) {
            return Ok(ms(start.elapsed()));
        }
        ensure!(start.elapsed() < GONE_TIMEOUT, "the broker is still there after {GONE_TIMEOUT:?}");
    }
}
