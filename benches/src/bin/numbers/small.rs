//! A server with little in it: its start, its idle memory, and brokers that come and go.

use std::{
    net::SocketAddr,
    thread,
    time::{Duration, Instant},
};

use anyhow::ensure;
use benches::{
    client::{Client, Query},
    cluster::{Broker, Registered, shows, topic_names},
    process::Server,
};
use server::remoting::RequestCode;

use crate::{
    Lab, Row,
    report::{median_time, mib, ms, times},
};

/// Brokers that go at once.
const BROKERS: usize = 300;
/// The connections that carry them: a proxy or a broker container has many brokers on one.
const CONNECTIONS: usize = 8;
/// Topics of each of them.
const TOPICS: usize = 10;
/// A broker that is still there after that time stays until its heartbeats are missed, after two minutes.
const GONE_TIMEOUT: Duration = Duration::from_secs(5);

pub(crate) fn measure(lab: &Lab) -> anyhow::Result<Vec<Row>> {
    let [start, idle] = start_and_idle(lab)?;
    Ok(vec![start, idle, gone(lab)?, reconnects(lab)?])
}

fn start_and_idle(lab: &Lab) -> anyhow::Result<[Row; 2]> {
    lab.progress.say("start, idle memory");
    let rounds = lab.rounds(20);
    let ours = start_times(rounds, || lab.ours())?;
    let official = match lab.jars {
        Some(_) => Some(start_times(lab.rounds(5), || lab.official()?.ok_or_else(|| anyhow::anyhow!("no jars")))?),
        None => None,
    };
    let goal = ours <= Duration::from_millis(10);
    let start = Row {
        measure: "start to first answer, median",
        ours: ms(ours),
        official: official.map(ms).unwrap_or_default(),
        ratio: times(ours.as_secs_f64(), official.map(|time| time.as_secs_f64()), "official"),
        goal: Some(("<= 10 ms", goal)),
        ..Row::default()
    };

    let idle = |server: Server| -> anyhow::Result<u64> {
        thread::sleep(Duration::from_secs(1));
        server.resident()
    };
    let ours = idle(lab.ours()?)?;
    let official = lab.official()?.map(idle).transpose()?;
    let idle = Row {
        measure: "idle memory, resident",
        ours: mib(ours),
        official: official.map(mib).unwrap_or_default(),
        ratio: times(ours as f64, official.map(|bytes| bytes as f64), "official"),
        goal: Some(("<= 8 MiB", ours <= 8 << 20)),
        ..Row::default()
    };
    Ok([start, idle])
}

fn start_times(rounds: usize, mut start: impl FnMut() -> anyhow::Result<Server>) -> anyhow::Result<Duration> {
    let times = (0..rounds).map(|_| Ok(start()?.start_time())).collect::<anyhow::Result<Vec<_>>>()?;
    Ok(median_time(&times))
}

/// All brokers leave at once, by the loss of their connections.
fn gone(lab: &Lab) -> anyhow::Result<Row> {
    lab.progress.say("300 brokers gone");
    let rounds = lab.rounds(10);
    let ours = gone_max(lab.ours()?.addr(), rounds)?;
    let official = match lab.official()? {
        Some(server) => Some(gone_max(server.addr(), rounds)?),
        None => None,
    };
    let ratio = match (&ours, &official) {
        (Gone::After(ours), Some(Gone::After(official))) => {
            times(ours.as_secs_f64(), Some(official.as_secs_f64()), "official")
        }
        _ => String::new(),
    };
    let is_met = matches!(ours, Gone::After(time) if time <= Duration::from_millis(50));
    Ok(Row {
        measure: "300 brokers on 8 connections gone after the close, slowest round",
        ours: ours.to_string(),
        official: official.map(|gone| gone.to_string()).unwrap_or_default(),
        ratio,
        goal: Some(("<= 50 ms", is_met)),
        ..Row::default()
    })
}

/// What has become of brokers whose connections have ended.
enum Gone {
    /// All of them were gone after that time.
    After(Duration),
    /// So many were still there after [`GONE_TIMEOUT`].
    Left(usize),
}

impl std::fmt::Display for Gone {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::After(time) => f.write_str(&ms(*time)),
            Self::Left(brokers) => write!(f, "{brokers} left after {GONE_TIMEOUT:?}"),
        }
    }
}

fn gone_max(addr: SocketAddr, rounds: usize) -> anyhow::Result<Gone> {
    let topics = topic_names(TOPICS);
    let cluster_info = Query::new(RequestCode::GetBrokerClusterInfo, &[]);
    let mut watcher = Client::connect(addr)?;
    let empty = watcher.ask(&cluster_info)?;
    let mut slowest = Duration::ZERO;
    for _ in 0..rounds {
        let mut clients = (0..CONNECTIONS).map(|_| Client::connect(addr)).collect::<anyhow::Result<Vec<_>>>()?;
        for number in 0..BROKERS {
            Broker::new(number).register(&mut clients[number % CONNECTIONS], &topics)?;
        }
        let there = brokers_in(&watcher.ask(&cluster_info)?);
        ensure!(there == BROKERS, "{there} of {BROKERS} brokers are registered");
        let start = Instant::now();
        drop(clients);
        loop {
            let info = watcher.ask(&cluster_info)?;
            if info == empty {
                break;
            }
            if start.elapsed() > GONE_TIMEOUT {
                return Ok(Gone::Left(brokers_in(&info)));
            }
        }
        slowest = slowest.max(start.elapsed());
    }
    Ok(Gone::After(slowest))
}

/// How many brokers a cluster info names.
fn brokers_in(info: &[u8]) -> usize {
    memchr::memmem::find_iter(info, b"\"brokerAddrs\":").count()
}

/// Each broker reconnects: it registers over a new connection while the old one ends. From the moment at which that is
/// acknowledged, no query may miss it.
fn reconnects(lab: &Lab) -> anyhow::Result<Row> {
    lab.progress.say("300 reconnects");
    let ours = reconnects_lost(lab.ours()?.addr())?;
    let official = match lab.official()? {
        Some(server) => Some(reconnects_lost(server.addr())?),
        None => None,
    };
    Ok(Row {
        measure: "brokers that lose a route by reconnecting, of 300",
        ours: ours.to_string(),
        official: official.map(|lost| lost.to_string()).unwrap_or_default(),
        goal: Some(("0", ours == 0)),
        ..Row::default()
    })
}

fn reconnects_lost(addr: SocketAddr) -> anyhow::Result<usize> {
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
        let old = if number % 2 == 0 {
            drop(std::mem::replace(&mut one.client, Client::connect(addr)?));
            None
        } else {
            Some(std::mem::replace(&mut one.client, Client::connect(addr)?))
        };
        client.ask(&registration)?;
        drop(old);
        one.client = client;
        let since = Instant::now();
        while since.elapsed() < Duration::from_millis(5) {
            lost[number] |= !is_routed(&mut watcher, &topics[number], &one.broker)?;
        }
    }
    thread::sleep(Duration::from_millis(500));
    for (number, one) in registered.iter().enumerate() {
        lost[number] |= !is_routed(&mut watcher, &topics[number], &one.broker)?;
    }
    Ok(lost.iter().filter(|&&lost| lost).count())
}

fn is_routed(watcher: &mut Client, topic: &str, broker: &Broker) -> anyhow::Result<bool> {
    let (code, route) = watcher.call(&Query::route(topic))?;
    Ok(code == 0 && shows(&route, broker))
}
