//! Route queries: every strategy, the floor and the other name servers by turns.

use super::{
    Effort,
    lab::{Lab, Subject},
    lookups::{Contestant, US, record_latencies},
    turns::Turns,
};
use crate::{
    cluster::topic_names,
    load::{self, Connected},
    process::CpuTime,
    results::{Measure, Results},
};

pub(super) const CONNECTIONS: usize = 16;
pub(super) const BROKERS: usize = 8;
pub(super) const TOPICS: usize = 1_000;
/// Queries a second of the open loop: a third of what the official server can do.
const OPEN_PER_SECOND: u32 = 10_000;
/// Connections of the open loop. rocketmq-rust does not answer what goes beyond 64 in flight on one of them, which a pause
/// of 0.4 s brings about with so many.
const OPEN_CONNECTIONS: usize = 64;

pub(crate) fn measure(lab: &Lab, effort: Effort, results: &mut Results) -> anyhow::Result<()> {
    let topics = topic_names(TOPICS);
    let subjects = lab.backends().chain(lab.floors()).chain(lab.peers().filter(|_| effort.with_peers));
    let make = |subject| Contestant::start_warm(lab, subject, BROKERS, &topics);
    let mut turns = Turns::prepare(lab, "queries", subjects, results, make)?;
    for in_flight in [1, 4] {
        for round in 0..effort.rounds {
            turns.round(round, results, |subject, contestant, results| {
                closed(subject, contestant, CONNECTIONS, in_flight, TOPICS, effort, results)
            })?;
        }
    }
    for round in 0..effort.rounds {
        turns.round(round, results, |subject, Contestant { server, questions, .. }, results| {
            let report = load::open(server.addr(), questions, OPEN_CONNECTIONS, OPEN_PER_SECOND, effort.load)?;
            let at = [("per_second", f64::from(OPEN_PER_SECOND))];
            record_latencies(results, Measure::OpenLatency, subject, &at, &report.latencies, US);
            Ok(())
        })?;
    }
    Ok(())
}

/// One closed loop: rate, latencies, and what it costs both sides.
pub(super) fn closed(
    subject: Subject,
    contestant: &mut Contestant,
    connections: usize,
    in_flight: usize,
    topics: usize,
    effort: Effort,
    results: &mut Results,
) -> anyhow::Result<()> {
    contestant.beat()?;
    let Contestant { server, questions, .. } = contestant;
    let connected = Connected::to(server.addr(), connections)?;
    let (before, generator_before) = (server.cpu()?, CpuTime::of(std::process::id())?);
    let report = connected.closed(questions, in_flight, effort.load)?;
    let cpu = server.cpu()?.since(&before);
    let generator = CpuTime::of(std::process::id())?.since(&generator_before);
    let at = [("connections", connections as f64), ("in_flight", in_flight as f64), ("topics", topics as f64)];
    results.record(Measure::QueryRate, subject, &at, report.rate());
    results.record(
        Measure::QueryCpu,
        subject,
        &at,
        cpu.as_secs_f64() * 1e6 / (report.answers + report.late_answers) as f64,
    );
    let busy = generator.as_secs_f64() / report.elapsed.as_secs_f64() * 100.0;
    results.record(Measure::GeneratorCpu, subject, &at, busy);
    record_latencies(results, Measure::QueryLatency, subject, &at, &report.latencies, US);
    Ok(())
}
