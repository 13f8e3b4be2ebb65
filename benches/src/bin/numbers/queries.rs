//! Route queries: ours, the floor and the official server by turns, so that all see the same noise.

use std::time::Duration;

use benches::{
    client::{Client, Query},
    cluster::{Registered, populate, topic_names},
    load::{self, Question, Report},
    process::{Server, cpu_of},
};

use crate::{
    Lab, Row,
    report::{median, times},
};

const CONNECTIONS: usize = 16;
const BROKERS: usize = 8;
const TOPICS: usize = 1_000;
/// Queries a second of the open loop: a third of what the official server can do.
const OPEN_PER_SECOND: u32 = 10_000;
/// The official server runs that long before it is measured: its compiler needs it.
const WARM_UP_JVM: Duration = Duration::from_secs(10);

pub(crate) fn measure(lab: &Lab) -> anyhow::Result<Vec<Row>> {
    let mut contestants = Vec::new();
    let ours = Contestant::name_server("namesrv", lab.ours()?)?;
    let body_bytes = ours.questions[0].expected.len();
    contestants.push(ours);
    for (name, workers) in [("floor", 1), ("floor of two", 2)] {
        contestants.push(Contestant::floor(name, lab.floor(workers, body_bytes)?)?);
    }
    if let Some(server) = lab.official()? {
        contestants.push(Contestant::name_server("official", server)?);
    }
    for contestant in &contestants {
        lab.progress.say(format_args!("warming {} up", contestant.name));
        let is_jvm = contestant.name == "official" && !lab.is_quick;
        let time = if is_jvm { WARM_UP_JVM } else { Duration::from_millis(500) };
        load::closed(contestant.server.addr(), &contestant.questions, CONNECTIONS, 4, time)?;
    }
    let mut rows = Vec::new();
    let names = [
        [
            "route queries/s, 16 connections x 1 in flight",
            "server CPU a query, 1 in flight",
            "load generator's CPU, 1 in flight",
            "latency, 1 in flight",
        ],
        [
            "route queries/s, 16 connections x 4 in flight",
            "server CPU a query, 4 in flight",
            "load generator's CPU, 4 in flight",
            "latency, 4 in flight",
        ],
    ];
    for (in_flight, [rate, cpu, generator, latency]) in [1, 4].into_iter().zip(names) {
        let results = rounds(lab, &mut contestants, |contestant, duration| {
            load::closed(contestant.server.addr(), &contestant.questions, CONNECTIONS, in_flight, duration)
        })?;
        let goal = results.official().map(|official| (">= 3x official", official.ratio(&results.ours().rates) >= 3.0));
        rows.push(results.row(rate, |result| &result.rates, |value| format!("{:.1} k", value / 1e3), goal));
        rows.push(results.row(cpu, |result| &result.cpu_us, |value| format!("{value:.2} us"), None));
        let busy = results.row(generator, |result| &result.generator_percent, |value| format!("{value:.0} %"), None);
        rows.push(Row { ratio: String::new(), ..busy });
        rows.push(results.latency_row(latency));
    }
    let results = rounds(lab, &mut contestants, |contestant, duration| {
        load::open(contestant.server.addr(), &contestant.questions, CONNECTIONS, OPEN_PER_SECOND, duration)
    })?;
    rows.push(results.latency_row("latency, open loop of 10 k queries/s"));
    Ok(rows)
}

struct Contestant {
    name: &'static str,
    server: Server,
    questions: Vec<Question>,
    brokers: Vec<Registered>,
}

impl Contestant {
    fn name_server(name: &'static str, server: Server) -> anyhow::Result<Self> {
        let topics = topic_names(TOPICS);
        let brokers = populate(server.addr(), 0..BROKERS, &topics)?;
        let mut client = Client::connect(server.addr())?;
        let learn = |topic: &String| Question::learn(&mut client, Query::route(topic));
        let questions = topics.iter().map(learn).collect::<anyhow::Result<_>>()?;
        Ok(Self { name, server, questions, brokers })
    }

    fn floor(name: &'static str, server: Server) -> anyhow::Result<Self> {
        let topics = topic_names(TOPICS);
        let mut client = Client::connect(server.addr())?;
        let learn = |topic: &String| Question::learn(&mut client, Query::route(topic));
        let questions = topics.iter().map(learn).collect::<anyhow::Result<_>>()?;
        Ok(Self { name, server, questions, brokers: Vec::new() })
    }
}

/// What one contestant did, a value for each round.
#[derive(Default)]
struct Results {
    rates: Vec<f64>,
    cpu_us: Vec<f64>,
    /// How busy the load generator was, in percent of a processor: at 100 it is what limits the rate.
    generator_percent: Vec<f64>,
    p50_us: Vec<f64>,
    p99_us: Vec<f64>,
}

impl Results {
    /// The median of the ratios of the rounds, of `ours` to this one's rates.
    fn ratio(&self, ours: &[f64]) -> f64 {
        median_ratio(ours, &self.rates)
    }
}

fn median_ratio(ours: &[f64], theirs: &[f64]) -> f64 {
    median(ours.iter().zip(theirs).map(|(ours, theirs)| ours / theirs)).unwrap_or_default()
}

/// Of all contestants, in their order.
struct AllResults(Vec<Results>);

fn rounds(
    lab: &Lab,
    contestants: &mut [Contestant],
    load: impl Fn(&Contestant, Duration) -> anyhow::Result<Report>,
) -> anyhow::Result<AllResults> {
    let duration = if lab.is_quick { Duration::from_millis(300) } else { Duration::from_secs(2) };
    let mut results: Vec<Results> = contestants.iter().map(|_| Results::default()).collect();
    for round in 0..if lab.is_quick { 3 } else { 5 } {
        for turn in 0..contestants.len() {
            // Nobody is always first.
            let at = (round + turn) % contestants.len();
            let contestant = &mut contestants[at];
            contestant.brokers.iter_mut().try_for_each(Registered::beat)?;
            lab.progress.say(format_args!("route queries, round {}, {}", round + 1, contestant.name));
            let (before, generator_before) = (contestant.server.cpu()?, cpu_of(std::process::id())?);
            let report = load(contestant, duration)?;
            let cpu = contestant.server.cpu()?.saturating_sub(before);
            let generator_cpu = cpu_of(std::process::id())?.saturating_sub(generator_before);
            let result = &mut results[at];
            result.rates.push(report.rate());
            result.cpu_us.push(cpu.as_secs_f64() * 1e6 / report.answers as f64);
            result.generator_percent.push(generator_cpu.as_secs_f64() / report.elapsed.as_secs_f64() * 100.0);
            result.p50_us.push(report.latency_us(0.5));
            result.p99_us.push(report.latency_us(0.99));
        }
    }
    Ok(AllResults(results))
}

impl AllResults {
    fn ours(&self) -> &Results {
        &self.0[0]
    }

    /// The better of the two, and how many workers it has.
    fn floor(&self) -> (&Results, usize) {
        let rate = |result: &Results| median(result.rates.iter().copied()).unwrap_or_default();
        let (one, two) = (&self.0[1], &self.0[2]);
        if rate(two) > rate(one) { (two, 2) } else { (one, 1) }
    }

    fn official(&self) -> Option<&Results> {
        self.0.get(3)
    }

    fn row(
        &self,
        measure: &'static str,
        values: impl Fn(&Results) -> &Vec<f64>,
        show: impl Fn(f64) -> String,
        goal: Option<(&'static str, bool)>,
    ) -> Row {
        let shown = |result: &Results| show(median(values(result).iter().copied()).unwrap_or_default());
        let ours = values(self.ours());
        let ratio = |result: &Results, name| times(median_ratio(ours, values(result)), Some(1.0), name);
        let (floor, workers) = self.floor();
        let mut ratios = vec![ratio(floor, "floor")];
        ratios.extend(self.official().map(|official| ratio(official, "official")));
        Row {
            measure,
            ours: shown(self.ours()),
            floor: format!("{} ({workers})", shown(floor)),
            official: self.official().map(shown).unwrap_or_default(),
            ratio: ratios.join(", "),
            goal,
        }
    }

    fn latency_row(&self, measure: &'static str) -> Row {
        let shown = |result: &Results| {
            let of = |values: &Vec<f64>| median(values.iter().copied()).unwrap_or_default() / 1e3;
            format!("p50 {:.2} p99 {:.2} ms", of(&result.p50_us), of(&result.p99_us))
        };
        let p50 = self.row(measure, |result| &result.p50_us, |_| String::new(), None);
        Row {
            ours: shown(self.ours()),
            floor: shown(self.floor().0),
            official: self.official().map(shown).unwrap_or_default(),
            ratio: format!("p50 {}", p50.ratio),
            ..p50
        }
    }
}
