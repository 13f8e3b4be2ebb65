//! A server with 100,000 topics on 4 brokers: its memory, and changes that concern all of them.

use std::{
    net::SocketAddr,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, ensure};
use benches::{
    client::{Client, Query},
    cluster::{Broker, Registered, populate, shows, topic_names},
    process::Server,
};
use server::remoting::RequestCode;

use crate::{
    Lab, Row,
    report::{median_time, mib, ms, times},
};

const TOPICS: usize = 100_000;
const BROKERS: usize = 4;
/// After that long nothing of the registrations is left: buffers of silent connections are given back after 5 s.
const SETTLE: Duration = Duration::from_secs(8);
const GONE_TIMEOUT: Duration = Duration::from_secs(30);

pub(crate) fn measure(lab: &Lab) -> anyhow::Result<Vec<Row>> {
    lab.progress.say("100,000 topics x 4 brokers");
    let ours = Numbers::of(lab, lab.ours()?)?;
    lab.progress.say("100,000 topics x 4 brokers, official");
    let official = lab.official()?.map(|server| Numbers::of(lab, server)).transpose()?;
    let memory = |measure, of: fn(&Numbers) -> u64, goal: Option<(&'static str, bool)>| Row {
        measure,
        ours: mib(of(&ours)),
        official: official.as_ref().map(|official| mib(of(official))).unwrap_or_default(),
        ratio: times(of(&ours) as f64, official.as_ref().map(|official| of(official) as f64), "official"),
        goal,
        ..Row::default()
    };
    let time = |measure, of: fn(&Numbers) -> Duration| Row {
        measure,
        ours: ms(of(&ours)),
        official: official.as_ref().map(|official| ms(of(official))).unwrap_or_default(),
        ratio: times(of(&ours).as_secs_f64(), official.as_ref().map(|official| of(official).as_secs_f64()), "official"),
        ..Row::default()
    };
    let goal = Some(("<= 80 MiB", ours.resident <= 80 << 20));
    Ok(vec![
        memory("memory, 100,000 topics x 4 brokers, settled", |numbers| numbers.resident, goal),
        memory("the same, peak since the start", |numbers| numbers.peak, None),
        time("registration of 100,000 topics in two frames, median of 4 brokers", |numbers| numbers.registration),
        time("wipe of the write permission over 100,000 topics, median", |numbers| numbers.wipe),
        time("death of one of 4 brokers visible, 100,000 topics, median", |numbers| numbers.death),
    ])
}

struct Numbers {
    resident: u64,
    peak: u64,
    registration: Duration,
    wipe: Duration,
    death: Duration,
}

impl Numbers {
    fn of(lab: &Lab, server: Server) -> anyhow::Result<Self> {
        let topics = topic_names(TOPICS);
        let mut brokers = Vec::new();
        let mut registrations = Vec::new();
        for number in 0..BROKERS {
            let client = Client::connect(server.addr())?;
            let mut one = Registered { broker: Broker::new(number), client };
            registrations.push(one.broker.register(&mut one.client, &topics)?);
            brokers.push(one);
        }
        thread::sleep(SETTLE);
        let resident = server.resident()?;
        let peak = server.resident_peak()?;
        brokers.iter_mut().try_for_each(Registered::beat)?;
        let wipe = wipes(server.addr(), &topics[TOPICS / 2], lab.rounds(20))?;
        let death = deaths(server.addr(), &topics, &mut brokers, lab.rounds(5))?;
        Ok(Self { resident, peak, registration: median_time(&registrations), wipe, death })
    }
}

/// How long an operator waits for the answer to `wipeWritePerm`.
fn wipes(addr: SocketAddr, topic: &str, rounds: usize) -> anyhow::Result<Duration> {
    let mut client = Client::connect(addr)?;
    let name = Broker::new(1).name;
    let wipe = Query::new(RequestCode::WipeWritePermOfBroker, &[("brokerName", &name)]);
    let add = Query::new(RequestCode::AddWritePermOfBroker, &[("brokerName", &name)]);
    let mut times = Vec::new();
    for _ in 0..rounds {
        let start = Instant::now();
        client.ask(&wipe)?;
        times.push(start.elapsed());
        ensure!(has_read_only(&client.ask(&Query::route(topic))?), "the wipe is not visible");
        client.ask(&add)?;
        ensure!(!has_read_only(&client.ask(&Query::route(topic))?), "the permission is not back");
    }
    Ok(median_time(&times))
}

fn has_read_only(route: &[u8]) -> bool {
    memchr::memmem::find(route, b"\"perm\":4").is_some()
}

/// From the close of a broker's connection until a route query on another one does not show it.
fn deaths(
    addr: SocketAddr,
    topics: &[String],
    brokers: &mut Vec<Registered>,
    rounds: usize,
) -> anyhow::Result<Duration> {
    let mut watcher = Client::connect(addr)?;
    let query = Query::route(&topics[TOPICS / 3]);
    let mut times = Vec::new();
    for _ in 0..rounds {
        brokers.iter_mut().try_for_each(Registered::beat)?;
        let Registered { broker, client } = brokers.pop().context("a broker")?;
        let start = Instant::now();
        drop(client);
        while shows(&watcher.ask(&query)?, &broker) {
            ensure!(start.elapsed() < GONE_TIMEOUT, "{} is still there after {GONE_TIMEOUT:?}", broker.name);
        }
        times.push(start.elapsed());
        brokers.extend(populate(addr, BROKERS - 1..BROKERS, topics)?);
    }
    Ok(median_time(&times))
}
