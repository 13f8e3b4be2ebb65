//! Route queries while brokers register all of their topics anew, whether or not the server keeps up.
//!
//! The floor has the same storm: it reads the registrations, and answers them like everything else. The name servers of
//! others work on several requests of a connection at once and may apply an older registration last; so their brokers wait
//! for the answer, and what is due meanwhile counts as not applied. That makes their storm weaker, not ours.

use std::time::Duration;

use anyhow::bail;

use super::{
    Effort,
    lab::{Lab, Subject},
    lookups::{Contestant, MS, US, record_latencies},
    queries::{BROKERS, CONNECTIONS, TOPICS},
    turns::Turns,
};
use crate::{
    cluster::topic_names,
    faults::Fault,
    load,
    results::{Measure, Results},
    storm::{Storm, StormPlan},
};

const IN_FLIGHT: usize = 4;
const STORM_BROKERS: usize = 2;
const STORM_TOPICS: usize = 10_000;
const STORM_PERIOD: Duration = Duration::from_millis(50);

pub(crate) fn measure(lab: &Lab, effort: Effort, results: &mut Results) -> anyhow::Result<()> {
    let topics = topic_names(TOPICS);
    // Not those that are asked for: so every answer can be compared byte by byte, and is as long as without a storm.
    let stormy = topic_names(STORM_TOPICS).iter().map(|name| format!("storm-{name}")).collect();
    let plan = StormPlan { topics: stormy, ..StormPlan::new(STORM_BROKERS, STORM_TOPICS, STORM_PERIOD, true) };
    let subjects = lab.backends().chain(lab.floors()).chain(lab.peers().filter(|_| effort.with_peers));
    let make = |subject| Contestant::start_warm(lab, subject, BROKERS, &topics);
    let mut turns = Turns::prepare(lab, "storm", subjects, results, make)?;
    for round in 0..effort.rounds {
        turns.round(round, results, |subject, contestant, results| {
            contestant.beat()?;
            let in_flight_max = if subject.is_peer() { 1 } else { plan.in_flight_max };
            one(subject, contestant, StormPlan { in_flight_max, ..plan.clone() }, effort, results)
        })?;
    }
    Ok(())
}

fn one(
    subject: Subject,
    Contestant { server, questions, .. }: &Contestant,
    plan: StormPlan,
    effort: Effort,
    results: &mut Results,
) -> anyhow::Result<()> {
    let storm = Storm::start(server.addr(), plan)?;
    let report = load::closed(server.addr(), questions, CONNECTIONS, IN_FLIGHT, effort.load)?;
    let storm = storm.finish()?;
    // The floor knows no topics: it cannot show the last registration.
    let canned = if matches!(subject, Subject::Floor(_)) { storm.errors.count(Fault::Stale) } else { 0 };
    if storm.errors.total() > canned {
        bail!("registrations: {}", storm.errors);
    }
    results.record(Measure::StormRate, subject, &[("in_flight", IN_FLIGHT as f64)], report.rate());
    results.record(Measure::StormApplied, subject, &[], storm.applied_percent());
    record_latencies(results, Measure::StormLatency, subject, &[], &report.latencies, US);
    record_latencies(results, Measure::StormRegistration, subject, &[], &storm.latencies, MS);
    Ok(())
}
