//! Lists of all topics, and what others notice of them.

use std::{
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, ensure};
use server::remoting::RequestCode;

use super::{
    Effort,
    lab::{Lab, Subject},
    lookups::{Contestant, MS, look_up, ms, routes},
    turns::Turns,
};
use crate::{
    client::{Client, Query},
    cluster::{populate, topic_names},
    process::Server,
    results::{Measure, Results, quantile},
};

const TOPICS: usize = 200_000;
/// Topics that are looked up meanwhile.
const LOOKUPS: usize = 1_000;
/// An operator's tools ask again and again, though not that often.
const PERIOD: Duration = Duration::from_millis(200);

pub(crate) fn measure(lab: &Lab, effort: Effort, results: &mut Results) -> anyhow::Result<()> {
    let topics = topic_names(TOPICS);
    let asked: Vec<String> = topics.iter().step_by(TOPICS / LOOKUPS).cloned().collect();
    let mut turns = Turns::prepare(lab, "lists", lab.name_servers(effort.with_peers), results, |subject| {
        let server = lab.start(subject, 0)?;
        let brokers = populate(server.addr(), 0..1, &topics)?;
        let questions = routes(server.addr(), &asked)?;
        look_up(server.addr(), &questions, lab.warm_up(subject))?;
        Ok(Contestant { server, questions, brokers })
    })?;
    for round in 0..effort.rounds {
        turns.round(round, results, |subject, contestant, results| {
            contestant.beat()?;
            lists_beside_lookups(subject, contestant, effort.load, results)
        })?;
    }
    Ok(())
}

fn lists_beside_lookups(
    subject: Subject,
    Contestant { server, questions, .. }: &Contestant,
    window: Duration,
    results: &mut Results,
) -> anyhow::Result<()> {
    let (times, lookups) = thread::scope(|scope| {
        let lookups = scope.spawn(|| look_up(server.addr(), questions, window));
        let times = lists(server, window)?;
        anyhow::Ok((times, lookups.join().expect("lookups do not panic")?))
    })?;
    let at = [("topics", TOPICS as f64)];
    results.record(Measure::TopicList, subject, &at, quantile(&times, 0.5).context("no list")?);
    results.record(Measure::TopicListLatency, subject, &at, lookups.value_at_quantile(0.99) as f64 / MS);
    Ok(())
}

/// Asks for all topics again and again: the round trips, in milliseconds.
fn lists(server: &Server, window: Duration) -> anyhow::Result<Vec<f64>> {
    let mut client = Client::connect(server.addr())?;
    let all = Query::new(RequestCode::GetAllTopicListFromNameserver, &[]);
    let mut times = Vec::new();
    let start = Instant::now();
    for number in 0.. {
        let due = PERIOD * number;
        if due.max(start.elapsed()) >= window {
            break;
        }
        thread::sleep(due.saturating_sub(start.elapsed()));
        let begin = Instant::now();
        let list = client.ask(&all)?;
        times.push(ms(begin.elapsed()));
        let listed = memchr::memmem::find_iter(&list, b"\"orders-of-shop-").count();
        ensure!(listed == TOPICS, "{listed} topics in a list of {TOPICS}");
    }
    Ok(times)
}
