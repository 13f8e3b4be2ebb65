//! Clients that have asked once and say nothing more.

use super::{Effort, lab::Lab, turns::Turns};
use crate::{
    client::{Client, Query},
    process::Server,
    results::{Measure, Results},
};

const CONNECTIONS: usize = 10_000;

pub(crate) fn measure(lab: &Lab, effort: Effort, results: &mut Results) -> anyhow::Result<()> {
    // A minute of waiting for all of them is too much for a quick run.
    let mut subjects = lab.name_servers(effort.with_peers);
    subjects.retain(|&subject| !lab.is_quick || subject == lab.default_backend());
    let mut turns = Turns::prepare(lab, "connections", subjects, results, |_| Ok(()))?;
    for round in 0..effort.rounds {
        turns.round(round, results, |subject, (), results| {
            let server = lab.start(subject, 0)?;
            // What the first connections of all cost is not theirs.
            connect(&server, 100)?;
            let before = server.resident()?;
            let clients = connect(&server, CONNECTIONS)?;
            lab.settle("connections")?;
            let each = server.resident()?.saturating_sub(before) as f64 / CONNECTIONS as f64 / 1024.0;
            drop(clients);
            results.record(Measure::ConnectionMemory, subject, &[("connections", CONNECTIONS as f64)], each);
            Ok(())
        })?;
    }
    Ok(())
}

fn connect(server: &Server, count: usize) -> anyhow::Result<Vec<Client>> {
    let query = Query::route("no-such-topic");
    let connect = |_| {
        let mut client = Client::connect(server.addr())?;
        client.call(&query)?;
        // What the generator keeps for it is not measured, and is not needed.
        client.release_buffers();
        Ok(client)
    };
    (0..count).map(connect).collect()
}
