//! Brokers that leave and return, many at once.

use std::{
    net::SocketAddr,
    thread,
    time::{Duration, Instant},
};

use anyhow::ensure;
use server::remoting::RequestCode;

use super::{Effort, lab::Lab, lookups::ms, turns::Turns};
use crate::{
    client::{Client, Query},
    cluster::{Broker, Registered, shows, topic_names},
    results::{Measure, Results},
};

/// Brokers that go at once.
const BROKERS: usize = 300;
/// The connections that carry them: a proxy or a broker container has many brokers on one.
const CONNECTIONS: usize = 8;
/// Topics of each of them.
const TOPICS: usize = 10;
/// A broker that is still there after that time stays until its heartbeats are missed, after two minutes.
const GONE_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a route is watched after a broker has returned, and how long later all of them are looked at once more.
const WATCH: Duration = Duration::from_millis(5);
const WATCH_AGAIN: Duration = Duration::from_millis(500);

pub(crate) fn measure(lab: &Lab, effort: Effort, results: &mut Results) -> anyhow::Result<()> {
    let subjects = lab.name_servers(effort.with_peers);
    let mut turns = Turns::prepare(lab, "gone", subjects.clone(), results, |subject| Ok(Some(lab.start(subject, 0)?)))?;
    for round in 0..effort.rounds {
        turns.round(round, results, |subject, server, results| {
            // Where brokers stay, there is no second round.
            let Some(addr) = server.as_ref().map(crate::process::Server::addr) else { return Ok(()) };
            match gone_after(addr)? {
                Some(time) => results.record(Measure::Gone, subject, &[], ms(time)),
                None => *server = None,
            }
            Ok(())
        })?;
    }
    let watch = if lab.is_quick { WATCH / 5 } else { WATCH };
    let mut turns = Turns::prepare(lab, "gone", subjects, results, |subject| lab.start(subject, 0))?;
    turns.round(0, results, |subject, server, results| {
        results.record(Measure::Lost, subject, &[], lost_by_return(server.addr(), watch)? as f64);
        Ok(())
    })
}

/// All brokers leave at once, by the loss of their connections: when all are gone. `None` when some stay.
fn gone_after(addr: SocketAddr) -> anyhow::Result<Option<Duration>> {
    let topics = topic_names(TOPICS);
    let cluster_info = Query::new(RequestCode::GetBrokerClusterInfo, &[]);
    let mut watcher = Client::connect(addr)?;
    let empty = watcher.ask(&cluster_info)?;
    let mut clients = (0..CONNECTIONS).map(|_| Client::connect(addr)).collect::<anyhow::Result<Vec<_>>>()?;
    for number in 0..BROKERS {
        Broker::new(number).register(&mut clients[number % CONNECTIONS], &topics)?;
    }
    let there = brokers_in(&watcher.ask(&cluster_info)?);
    ensure!(there == BROKERS, "{there} of {BROKERS} brokers are registered");
    let start = Instant::now();
    drop(clients);
    while start.elapsed() < GONE_TIMEOUT {
        if watcher.ask(&cluster_info)? == empty {
            return Ok(Some(start.elapsed()));
        }
    }
    Ok(None)
}

/// How many brokers a cluster info names.
fn brokers_in(info: &[u8]) -> usize {
    memchr::memmem::find_iter(info, b"\"brokerAddrs\":").count()
}

/// Each broker registers over a new connection while its old one ends. From the moment at which that is acknowledged, no
/// query may miss it: how many brokers one has missed.
fn lost_by_return(addr: SocketAddr, watch: Duration) -> anyhow::Result<usize> {
    let topics = topic_names(BROKERS);
    let mut watcher = Client::connect(addr)?;
    let mut registered = Vec::new();
    for (number, topic) in topics.iter().enumerate() {
        let mut one = Registered { broker: Broker::new(number), client: Client::connect(addr)? };
        // Two topics: a first registration of exactly one is refused.
        one.broker.register(&mut one.client, &[topic.clone(), format!("{topic}-retry")])?;
        registered.push(one);
    }
    let mut lost = vec![false; BROKERS];
    for (number, one) in registered.iter_mut().enumerate() {
        let mut client = Client::connect(addr)?;
        let registration = one.broker.registration([topics[number].as_str(), &format!("{}-retry", topics[number])]);
        // By turns: the old connection ends just before the registration, and just after it.
        let mut old = Some(std::mem::replace(&mut one.client, Client::connect(addr)?));
        if number % 2 == 0 {
            old = None;
        }
        client.ask(&registration)?;
        drop(old);
        one.client = client;
        let since = Instant::now();
        while since.elapsed() < watch {
            lost[number] |= !is_routed(&mut watcher, &topics[number], &one.broker)?;
        }
    }
    thread::sleep(WATCH_AGAIN);
    for (number, one) in registered.iter().enumerate() {
        lost[number] |= !is_routed(&mut watcher, &topics[number], &one.broker)?;
    }
    Ok(lost.iter().filter(|&&lost| lost).count())
}

fn is_routed(watcher: &mut Client, topic: &str, broker: &Broker) -> anyhow::Result<bool> {
    let (code, route) = watcher.call(&Query::route(topic))?;
    Ok(code == 0 && shows(&route, broker))
}
