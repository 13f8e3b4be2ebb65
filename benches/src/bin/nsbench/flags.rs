//! The command line. Flags have the names that they have in oha, where they mean the same.

use std::{net::ToSocketAddrs as _, time::Duration};

use anyhow::{Context as _, bail};
use benches::{
    mix::Mix,
    session::{Popularity, Session},
};
use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::report;

/// Load for RocketMQ name servers, of whatever make.
///
/// Asks for routes of topics over many connections and checks every answer: its code, that it answers a request that
/// waits for one, that the route is whole and what it was, and that no version of a broker goes backwards. Exits with 0
/// only if all answers were right.
///
/// Before the load it registers brokers of its own (broker-000 and so on, in DefaultCluster) and unregisters them
/// afterwards: not for a name server that real clients use, unless with --no-populate.
#[derive(Debug, Parser)]
#[command(name = "nsbench", version, args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    #[command(flatten)]
    pub(crate) load: LoadFlags,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serve the same answer to every request, as fast as this machine allows: what a name server is compared with
    Floor(FloorFlags),
    /// Measure the strategies, the floor and other name servers, and write a page that shows it
    Report(report::Flags),
}

#[derive(Debug, Args)]
pub(crate) struct FloorFlags {
    /// Port on the loopback; 0 for a free one, which is printed
    #[arg(long)]
    pub(crate) port: u16,
    /// Threads that serve connections
    #[arg(long, default_value_t = 1)]
    pub(crate) workers: usize,
    /// Length of the body
    #[arg(long, default_value_t = 1_735)]
    pub(crate) body_bytes: usize,
}

#[derive(Debug, Args)]
pub(crate) struct LoadFlags {
    /// The name server
    #[arg(value_name = "HOST:PORT", required = true)]
    target: Option<String>,

    /// Requests to send at most [default: no limit, or with -z]
    #[arg(short = 'n', value_name = "N")]
    requests: Option<u64>,
    /// Connections
    #[arg(short = 'c', value_name = "N", default_value_t = 16)]
    connections: usize,
    /// Requests in flight on each connection, without -q
    #[arg(short = 'p', value_name = "N", default_value_t = 1)]
    in_flight: usize,
    /// How long requests are sent, as 500ms, 10s, 1m or 1h [default: 10s, without -n]
    #[arg(short = 'z', value_name = "DURATION", value_parser = duration)]
    duration: Option<Duration>,
    /// Requests a second of all connections: each is sent when it is due, whatever comes back, and its latency counts from
    /// then (so --latency-correction is always on)
    #[arg(short = 'q', value_name = "N")]
    per_second: Option<u64>,
    /// How long an answer may take
    #[arg(short = 't', long, value_name = "DURATION", value_parser = duration, default_value = "10s")]
    timeout: Duration,
    /// Threads that make the load
    #[arg(long, value_name = "N", default_value_t = 1)]
    threads: usize,
    /// Show no progress
    #[arg(long)]
    pub(crate) no_tui: bool,
    /// Form of the result
    #[arg(long, visible_alias = "output-format", value_name = "FORM", default_value = "text")]
    pub(crate) output: Output,

    /// Topics that are asked for
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    topics: usize,
    /// How often which topic is asked for: uniform, or zipf:EXPONENT
    #[arg(long, value_name = "HOW", default_value = "uniform")]
    popularity: Popularity,
    /// Brokers of each topic
    #[arg(long, value_name = "N", default_value_t = 8)]
    brokers: usize,
    /// Register nothing: ask for the topics that the server lists, and of one that lists none (`nsbench floor`) for any
    #[arg(long)]
    no_populate: bool,
    /// Beginning of the names of all topics [default: orders-of-shop-, with --no-populate any]
    #[arg(long, value_name = "TEXT")]
    topic_prefix: Option<String>,
    /// What is random is random by this number
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,

    /// What happens beside the lookups
    #[arg(long, value_name = "MIX", default_value = "steady")]
    mix: Mix,
    /// Brokers that register all of their topics again and again, or once in an avalanche [default: 0, avalanche 300]
    #[arg(long, value_name = "N")]
    storm_brokers: Option<usize>,
    /// Topics of each of them; in a storm the first of those that are asked for are among them [default: 10000, avalanche
    /// 1000]
    #[arg(long, value_name = "N")]
    storm_topics: Option<usize>,
    /// Time between two registrations of each of them, or between two steps of another mix [default: storm 50ms,
    /// rolling-restart 500ms, topic-storm 20ms, admin-scan 200ms]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    storm_period: Option<Duration>,
    /// Registrations of the storm change nothing
    #[arg(long)]
    storm_unchanged: bool,
}

/// Form of the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    Text,
    Json,
    Csv,
}

const DURATION: Duration = Duration::from_secs(10);
const TOPIC_PREFIX: &str = "orders-of-shop-";

impl LoadFlags {
    /// What these flags ask for.
    pub(crate) fn session(&self) -> anyhow::Result<Session> {
        let target = self.target.as_deref().context("no HOST:PORT")?;
        let mut addrs = target.to_socket_addrs().with_context(|| format!("{target:?} is no HOST:PORT"))?;
        let is_avalanche = self.mix == Mix::Avalanche;
        let period_ms = match self.mix {
            Mix::RollingRestart => 500,
            Mix::TopicStorm => 20,
            Mix::AdminScan => 200,
            Mix::Steady | Mix::Avalanche => 50,
        };
        if self.no_populate && matches!(self.mix, Mix::RollingRestart | Mix::TopicStorm) {
            bail!("this mix needs brokers, and --no-populate registers none");
        }
        let session = Session {
            addr: addrs.next().with_context(|| format!("{target} has no address"))?,
            threads: self.threads,
            connections: self.connections,
            in_flight: self.in_flight,
            per_second: self.per_second,
            requests: self.requests,
            duration: self.duration.or(self.requests.is_none().then_some(DURATION)),
            timeout: self.timeout,
            topics: self.topics,
            topic_prefix: self.prefix().to_owned(),
            brokers: self.brokers,
            populate: !self.no_populate,
            popularity: self.popularity,
            seed: self.seed,
            mix: self.mix,
            storm_brokers: self.storm_brokers.unwrap_or(if is_avalanche { 300 } else { 0 }),
            storm_topics: self.storm_topics.unwrap_or(if is_avalanche { 1_000 } else { 10_000 }),
            storm_period: self.storm_period.unwrap_or(Duration::from_millis(period_ms)),
            storm_changes: !self.storm_unchanged,
        };
        session.check()?;
        Ok(session)
    }

    fn prefix(&self) -> &str {
        self.topic_prefix.as_deref().unwrap_or(if self.no_populate { "" } else { TOPIC_PREFIX })
    }
}

fn duration(text: &str) -> anyhow::Result<Duration> {
    let unit = text.find(|char: char| !char.is_ascii_digit() && char != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(unit);
    let seconds = match unit {
        "ms" => 1e-3,
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3_600.0,
        _ => bail!("{text:?} is not a number with ms, s, m or h"),
    };
    let number: f64 = number.parse().with_context(|| format!("{text:?} has no number"))?;
    let duration = Duration::try_from_secs_f64(number * seconds)?;
    if duration > DURATION_MAX {
        bail!("{text} is longer than {} days", DURATION_MAX.as_secs() / 86_400);
    }
    Ok(duration)
}

/// Longer than any load.
const DURATION_MAX: Duration = Duration::from_secs(365 * 86_400);

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn flags_are_what_clap_expects() {
        Cli::command().debug_assert();
    }

    #[test]
    fn durations_have_units() {
        let of = |text| duration(text).ok();
        assert_eq!(of("500ms"), Some(Duration::from_millis(500)));
        assert_eq!(of("1.5m"), Some(Duration::from_secs(90)));
        assert_eq!(of("2h"), Some(Duration::from_secs(7_200)));
        for text in ["", "10", "s", "1.2.3s", "-1s", "1d", "1e9s", "999999h"] {
            assert!(of(text).is_none(), "{text}");
        }
    }

    #[test]
    fn a_floor_needs_no_target_and_a_load_needs_one() {
        assert!(Cli::try_parse_from(["nsbench", "floor", "--port", "0"]).unwrap().command.is_some());
        assert!(Cli::try_parse_from(["nsbench"]).is_err());
        let cli = Cli::try_parse_from(["nsbench", "-c", "4", "-z", "1s", "127.0.0.1:9876"]).unwrap();
        let session = cli.load.session().unwrap();
        assert_eq!((session.connections, session.duration), (4, Some(Duration::from_secs(1))));
        let without = |flag, value| {
            let cli = Cli::try_parse_from(["nsbench", flag, value, "127.0.0.1:9876"]).unwrap();
            cli.load.session().unwrap_err().to_string()
        };
        assert!(without("-c", "0").contains("connections"));
        assert!(without("-q", "0").contains("1 to 10000000"));
        assert!(without("--brokers", "0").contains("1 broker"));
    }
}
