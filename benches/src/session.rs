//! A whole run of the load tool: population, what happens beside, load threads, and the end of all of it.

use std::{
    net::SocketAddr,
    str::FromStr,
    sync::atomic::{AtomicBool, AtomicU64},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, ensure};
use hdrhistogram::Histogram;
use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};
use rand_distr::{Distribution as _, Zipf};
use server::remoting::RequestCode;

use crate::{
    client::{Client, Query},
    cluster::TOPICS_OF_ONE_REGISTRATION,
    faults::Faults,
    load::{self, Expected, Frames, Live, Outcome, Pace, Plan, Report, Routes},
    mix::{Disturbance, Mix, MixPlan, Population, topics_in},
    storm::StormReport,
};

/// What is measured, and how.
#[derive(Clone, Debug)]
pub struct Session {
    /// The name server.
    pub addr: SocketAddr,
    /// Threads that make the load.
    pub threads: usize,
    /// Connections of all of them.
    pub connections: usize,
    /// Requests in flight on each connection of a closed loop.
    pub in_flight: usize,
    /// Requests a second of an open loop; a closed one when there is none.
    pub per_second: Option<u64>,
    /// How many requests are sent at most.
    pub requests: Option<u64>,
    /// How long requests are sent at most.
    pub duration: Option<Duration>,
    /// An answer that takes longer does not count.
    pub timeout: Duration,
    /// How many topics are asked for.
    pub topics: usize,
    /// What their names begin with.
    pub topic_prefix: String,
    /// How many brokers have them.
    pub brokers: usize,
    /// Registers the brokers before and unregisters them afterwards; otherwise the topics are those that the server lists.
    pub populate: bool,
    /// How often which topic is asked for.
    pub popularity: Popularity,
    /// Of everything that is random.
    pub seed: u64,
    /// What happens beside the lookups.
    pub mix: Mix,
    /// Brokers of a storm or an avalanche.
    pub storm_brokers: usize,
    /// Topics of each of them.
    pub storm_topics: usize,
    /// Time between two steps of what happens beside.
    pub storm_period: Duration,
    /// Registrations of a storm change all topics.
    pub storm_changes: bool,
}

/// How often which topic is asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Popularity {
    /// All equally often.
    Uniform,
    /// The n-th one with a probability of 1/n to this power.
    Zipf(f64),
}

impl FromStr for Popularity {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        match text.split_once(':').unwrap_or((text, "1")) {
            ("uniform", _) if !text.contains(':') => Ok(Self::Uniform),
            ("zipf", exponent) => {
                let exponent: f64 = exponent.parse().with_context(|| format!("{exponent:?} is no exponent"))?;
                ensure!((0.0..=100.0).contains(&exponent), "the exponent {exponent} is not between 0 and 100");
                Ok(Self::Zipf(exponent))
            }
            _ => anyhow::bail!("{text:?} is neither uniform nor zipf[:EXPONENT]"),
        }
    }
}

/// What a session looks like while it runs: of the time since the last one.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    /// Since the start.
    pub elapsed: Duration,
    /// Right answers a second.
    pub rate: f64,
    /// Of their latencies, in nanoseconds.
    pub p99: u64,
    /// What was wrong since the start.
    pub errors: u64,
    /// Steps of what happens beside that were due since the start, and those that are done.
    pub storm: Option<(u64, u64)>,
}

/// What came of a session, as far as it came.
#[derive(Clone, Debug)]
pub struct Summary {
    /// The lookups that were right.
    pub report: Report,
    /// What was wrong with the others.
    pub errors: Faults,
    /// What happened beside.
    pub storm: Option<StormReport>,
    /// Why the session could not be what it should have been.
    pub failure: Option<String>,
}

impl Summary {
    /// Nothing was wrong.
    pub fn is_good(&self) -> bool {
        let storm = self.storm.as_ref().map_or(0, |storm| storm.errors.total());
        self.failure.is_none() && self.errors.total() == 0 && storm == 0 && self.report.answers > 0
    }
}

/// Of topics that need a name when none is given.
const TOPIC_PREFIX: &str = "nsbench-";
/// Far more than one machine can send; what is due and not sent is counted one by one.
const PER_SECOND_MAX: u64 = 10_000_000;
/// How often a session tells how far it is.
const MOMENT: Duration = Duration::from_secs(1);
/// How often it looks whether it is over.
const LOOK: Duration = Duration::from_millis(20);
/// Longer than anybody waits.
const FOREVER: Duration = Duration::from_secs(1 << 30);
/// Of so many requests of a steady load one is a heartbeat.
const HEARTBEAT_EVERY: usize = 100;
/// The order of requests repeats after at least so many.
const ORDER_MIN: usize = 1 << 16;
/// And after at most so many, unless there are more topics.
const ORDER_MAX: usize = 1 << 20;

impl Session {
    /// Runs it, and tells each second how far it is. Ends early when `stop` is true.
    ///
    /// # Errors
    /// When there is no memory for latencies. Everything else is told in the summary.
    pub fn run(&self, stop: &AtomicBool, tell: impl FnMut(&Moment)) -> anyhow::Result<Summary> {
        let report = Report::new()?;
        let mut summary = Summary { report, errors: Faults::default(), storm: None, failure: None };
        if let Err(error) = self.try_run(&mut summary, stop, tell) {
            summary.failure = Some(format!("{error:#}"));
        }
        Ok(summary)
    }

    fn try_run(&self, summary: &mut Summary, stop: &AtomicBool, tell: impl FnMut(&Moment)) -> anyhow::Result<()> {
        let mut client =
            Client::connect_for(self.addr, self.timeout).with_context(|| format!("cannot connect to {}", self.addr))?;
        let prefix = if self.topic_prefix.is_empty() { TOPIC_PREFIX } else { &*self.topic_prefix };
        let names = |count| (0..count).map(|number| format!("{prefix}{number:06}")).collect();
        let (topics, population) = if self.populate {
            let topics: Vec<String> = names(self.topics);
            let population = Population::register(self.addr, self.brokers, &topics, self.timeout)?;
            (Some(topics), population)
        } else {
            (self.listed_topics(&mut client)?, Population::none(self.addr, self.timeout))
        };
        drop(client);
        let is_canned = topics.is_none();
        let plan = MixPlan {
            mix: self.mix,
            addr: self.addr,
            brokers: self.storm_brokers,
            topics: names(self.storm_topics),
            period: self.storm_period,
            changed: self.storm_changes,
            timeout: self.timeout,
        };
        let disturbance = Disturbance::start(&plan, &population)?;
        let does_restart = self.mix == Mix::RollingRestart;
        let expected = Expected {
            brokers: if does_restart { Vec::new() } else { population.names() },
            is_ours: self.populate,
            is_fixed: (self.populate && !does_restart) || is_canned,
            is_canned,
            versions: disturbance.versions().cloned(),
        };
        let topics = topics.unwrap_or_else(|| names(self.topics));
        let mut queries: Vec<Query> = topics.iter().map(|topic| Query::route(topic)).collect();
        if self.mix == Mix::Steady {
            queries.extend(population.heartbeats());
        }
        let questions = Questions { queries, topics: topics.len(), expected };
        let result = self.load(&questions, &disturbance, summary, stop, tell);
        summary.storm = disturbance.finish()?;
        population.unregister();
        result
    }

    /// The topics of a server that is populated already; `None` when what it says is no list.
    fn listed_topics(&self, client: &mut Client) -> anyhow::Result<Option<Vec<String>>> {
        let (code, body) = client.call(&Query::new(RequestCode::GetAllTopicListFromNameserver, &[]))?;
        ensure!(code == 0, "{} does not list its topics: code {code}", self.addr);
        let Ok(listed) = topics_in(&body) else { return Ok(None) };
        let mut topics: Vec<&str> = listed.into_iter().filter(|name| name.starts_with(&self.topic_prefix)).collect();
        topics.sort_unstable();
        topics.truncate(self.topics);
        ensure!(!topics.is_empty(), "{} lists no topic that begins with {:?}", self.addr, self.topic_prefix);
        Ok(Some(topics.into_iter().map(str::to_owned).collect()))
    }

    fn load(
        &self,
        Questions { queries, topics, expected }: &Questions,
        disturbance: &Disturbance,
        summary: &mut Summary,
        stop: &AtomicBool,
        tell: impl FnMut(&Moment),
    ) -> anyhow::Result<()> {
        let frames = Frames::new(queries);
        let left = self.requests.map(AtomicU64::new);
        let threads = self.threads.clamp(1, self.connections);
        let lives: Vec<Live> = (0..threads).map(|_| Live::new()).collect();
        let orders = (0..threads).map(|number| self.order(*topics, queries.len(), number as u64));
        let orders = orders.collect::<anyhow::Result<Vec<_>>>()?;
        thread::scope(|scope| {
            let spawn = |number: usize| {
                let plan = Plan {
                    addr: self.addr,
                    frames: &frames,
                    order: &orders[number],
                    connections: self.connections / threads + usize::from(number < self.connections % threads),
                    pace: self.pace(number as u64, threads as u64),
                    duration: self.duration.unwrap_or(FOREVER),
                    left: left.as_ref(),
                    timeout: self.timeout,
                    ends_with_fault: false,
                    stop,
                    live: Some(&lives[number]),
                };
                scope.spawn(move || load::run(&plan, Routes::new(queries, expected.clone())))
            };
            let loads: Vec<_> = (0..threads).map(spawn).collect();
            watch(&lives, disturbance, || loads.iter().all(thread::ScopedJoinHandle::is_finished), tell);
            let mut result = Ok(());
            for load in loads {
                // What the others have measured counts even so.
                match load.join().expect("a load does not panic") {
                    Ok(Outcome { report, faults }) => {
                        summary.errors.merge(&faults);
                        summary.report.merge(&report)?;
                    }
                    Err(error) => result = Err(error),
                }
            }
            result
        })
    }

    fn pace(&self, first: u64, of: u64) -> Pace {
        match self.per_second {
            Some(per_second) => Pace::Open { per_second, first, of },
            None => Pace::Closed { in_flight: self.in_flight },
        }
    }

    /// Which question is asked when: the topics first, then everything else.
    fn order(&self, topics: usize, questions: usize, thread: u64) -> anyhow::Result<Vec<u32>> {
        let mut random = StdRng::seed_from_u64(self.seed.wrapping_add(thread));
        let zipf = match self.popularity {
            Popularity::Uniform => None,
            Popularity::Zipf(exponent) => Some(Zipf::new(topics as f64, exponent)?),
        };
        let length = (topics * 4).clamp(ORDER_MIN, ORDER_MAX.max(topics));
        let question = |number: usize| {
            if questions > topics && number % HEARTBEAT_EVERY == HEARTBEAT_EVERY - 1 {
                return random.random_range(topics..questions) as u32;
            }
            match &zipf {
                // Ranks begin with 1.
                Some(zipf) => (zipf.sample(&mut random) as u32).saturating_sub(1).min(topics as u32 - 1),
                None => random.random_range(0..topics) as u32,
            }
        };
        Ok((0..length).map(question).collect())
    }

    /// What cannot be asked for.
    ///
    /// # Errors
    /// Names the value and what it can be.
    pub fn check(&self) -> anyhow::Result<()> {
        ensure!(
            self.connections > 0 && self.in_flight > 0 && self.topics > 0,
            "connections, requests in flight and topics must be 1 or more"
        );
        let per_second = self.per_second.unwrap_or(1);
        ensure!(
            (1..=PER_SECOND_MAX).contains(&per_second),
            "requests a second are 1 to {PER_SECOND_MAX}, not {per_second}"
        );
        ensure!(self.timeout > Duration::ZERO, "no answer comes in no time");
        ensure!(self.storm_period > Duration::ZERO, "the period of a storm cannot be 0");
        ensure!(!self.populate || self.brokers > 0, "topics are registered by 1 broker or more");
        ensure!(u32::try_from(self.topics).is_ok(), "{} topics are too many", self.topics);
        let topics_max = TOPICS_OF_ONE_REGISTRATION;
        ensure!(
            self.storm_brokers == 0 || (1..=topics_max).contains(&self.storm_topics),
            "a storm registers 1 to {topics_max} topics at once, not {}",
            self.storm_topics
        );
        Ok(())
    }
}

/// What is asked, and what can be the answer.
struct Questions {
    /// Routes first, then everything else.
    queries: Vec<Query>,
    topics: usize,
    expected: Expected,
}

/// Tells each second how far the loads are, until they are over.
fn watch(lives: &[Live], disturbance: &Disturbance, is_over: impl Fn() -> bool, mut tell: impl FnMut(&Moment)) {
    let start = Instant::now();
    let mut last: Option<(Instant, Histogram<u64>)> = None;
    let mut next = start + MOMENT;
    while !is_over() {
        thread::sleep(LOOK);
        let now = Instant::now();
        if now < next {
            continue;
        }
        next += MOMENT;
        let Ok(mut all) = Report::new() else { continue };
        let mut errors = 0;
        for (report, faults) in lives.iter().filter_map(Live::get) {
            // Of the same bounds, as all are.
            let _ = all.merge(&report);
            errors += faults;
        }
        let mut recent = all.latencies.clone();
        let since = last.as_ref().map_or(start, |(since, before)| {
            let _ = recent.subtract(before);
            *since
        });
        tell(&Moment {
            elapsed: now - start,
            rate: recent.len() as f64 / (now - since).as_secs_f64(),
            p99: recent.value_at_quantile(0.99),
            errors,
            storm: disturbance.progress(),
        });
        last = Some((now, all.latencies));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn popularities_are_read() {
        assert_eq!("uniform".parse::<Popularity>().unwrap(), Popularity::Uniform);
        assert_eq!("zipf".parse::<Popularity>().unwrap(), Popularity::Zipf(1.0));
        assert_eq!("zipf:0.8".parse::<Popularity>().unwrap(), Popularity::Zipf(0.8));
        for text in ["uniform:1", "zipf:", "zipf:-1", "zipf:x", "zip", "zipf:NaN", ""] {
            assert!(text.parse::<Popularity>().is_err(), "{text}");
        }
    }
}
