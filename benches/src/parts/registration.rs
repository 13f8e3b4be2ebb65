//! What one registration of all of a broker's topics costs the server, which has nothing else to do.

use super::{Effort, lab::Lab, turns::Turns};
use crate::{
    client::Client,
    cluster::{Broker, topic_names},
    process::Server,
    results::{Measure, Results},
};

const TOPICS: usize = 10_000;

pub(crate) fn measure(lab: &Lab, effort: Effort, results: &mut Results) -> anyhow::Result<()> {
    let topics = topic_names(TOPICS);
    let count = if lab.is_quick { 5 } else { 30 };
    let subjects = lab.name_servers(effort.with_peers);
    let mut turns = Turns::prepare(lab, "registration", subjects, results, |subject| {
        let server = lab.start(subject, 0)?;
        let mut one = Registrant { client: Client::connect(server.addr())?, broker: Broker::new(0), server };
        for changed in [true, false] {
            one.register(&topics, changed, if subject.is_peer() { count } else { 2 })?;
        }
        Ok(one)
    })?;
    for round in 0..effort.rounds {
        for changed in [false, true] {
            turns.round(round, results, |subject, one, results| {
                let mean = one.register(&topics, changed, count)?;
                let at = [("changed", f64::from(u8::from(changed)))];
                results.record(Measure::RegistrationCpu, subject, &at, mean);
                Ok(())
            })?;
        }
    }
    Ok(())
}

struct Registrant {
    client: Client,
    broker: Broker,
    server: Server,
}

impl Registrant {
    /// Registers so many times: the mean of the server's CPU time, in milliseconds.
    fn register(&mut self, topics: &[String], changed: bool, count: usize) -> anyhow::Result<f64> {
        let before = self.server.cpu()?;
        for _ in 0..count {
            if changed {
                self.broker.version += 1;
                // Another number of queues, so that every topic is another one.
                self.broker.queues = 8 + (self.broker.version % 2) as u32;
            }
            self.client.ask(&self.broker.registration(topics.iter().map(String::as_str)))?;
        }
        Ok(self.server.cpu()?.since(&before).as_secs_f64() * 1e3 / count as f64)
    }
}
