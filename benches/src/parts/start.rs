//! A server with nothing in it: its start and its memory.

use std::time::Duration;

use super::{
    Effort,
    lab::Lab,
    lookups::{mib, ms},
    turns::Turns,
};
use crate::{
    process,
    results::{Measure, Results},
};

/// Starts of a name server of others: one in Java takes seconds.
const PEER_ROUNDS: usize = 5;
/// How long after its first answer a server is idle.
const IDLE: Duration = Duration::from_secs(1);

pub(crate) fn measure(lab: &Lab, effort: Effort, results: &mut Results) -> anyhow::Result<()> {
    let subjects = lab.name_servers(effort.with_peers);
    let peer_rounds = if lab.is_quick { 1 } else { PEER_ROUNDS };
    let mut turns = Turns::prepare(lab, "start", subjects.clone(), results, |_| Ok(()))?;
    for round in 0..effort.rounds {
        turns.round(round, results, |subject, (), results| {
            if !subject.is_peer() || round < peer_rounds {
                results.record(Measure::Start, subject, &[], ms(lab.start(subject, 0)?.start_time()));
            }
            Ok(())
        })?;
    }
    for round in 0..effort.rounds.div_ceil(10) {
        let mut turns = Turns::prepare(lab, "start", subjects.clone(), results, |subject| lab.start(subject, 0))?;
        process::sleep(IDLE)?;
        turns.round(round, results, |subject, server, results| {
            results.record(Measure::IdleMemory, subject, &[], mib(server.resident()?));
            Ok(())
        })?;
    }
    Ok(())
}
