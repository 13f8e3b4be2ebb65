//! Reads a running name server while brokers register all their topics again and again, and counts the answers that
//! no order of the registrations explains.
//!
//! `cargo run --release -p benches --bin consistency -- --addr HOST:PORT [--reads N]`. Every registration of a broker has a
//! number, which stands in its zone (small tables), in the settings of each topic and in each static-topic mapping. So:
//!
//! * **torn**: an answer shows two numbers of one broker, or a part of what comes and goes as a whole;
//! * **back in time**: a reader sees a smaller number than before, on whatever topic, or than was acknowledged when it asked;
//! * **gone**: a broker is seen though its unregistration was acknowledged before, or missed though its registration was.
//!
//! Meanwhile a third broker registers over a new connection again and again, while its old one ends: its route must always
//! be there (**lost**).
//!
//! Ends with 1 when there was one of these.
#![forbid(unsafe_code)]

use std::{
    fmt::Write as _,
    net::{SocketAddr, ToSocketAddrs},
    process::ExitCode,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
    time::Duration,
};

use benches::client::{Client, Query};
use clap::Parser;
use memchr::memmem;
use server::remoting::RequestCode;

/// Counts inconsistent answers of a running name server
#[derive(Debug, Parser)]
struct Flags {
    /// Host and port of the name server
    #[arg(long, value_parser = resolve)]
    addr: SocketAddr,
    /// Reads that are checked
    #[arg(long, default_value_t = 1_000_000)]
    reads: u64,
    /// Connections that read
    #[arg(long, default_value_t = 2)]
    readers: u64,
    /// How often a third broker changes its connection
    #[arg(long, default_value_t = 10_000)]
    reconnects: u64,
    /// Topics of each broker, all of them static, too
    #[arg(long, default_value_t = 200)]
    topics: usize,
}

/// Between two registrations of a broker.
const PAUSE: Duration = Duration::from_millis(2);
const STABLE: &str = "consistency-stable";
const PASSING: &str = "consistency-passing";
const MOVING: &str = "consistency-moving";

fn resolve(text: &str) -> Result<SocketAddr, String> {
    let mut addrs = text.to_socket_addrs().map_err(|error| error.to_string())?;
    addrs.next().ok_or_else(|| format!("{text} has no address"))
}

fn main() -> anyhow::Result<ExitCode> {
    let flags = Flags::parse();
    let world = &World::default();
    let mut stable = Client::connect(flags.addr)?;
    let mut passing = Client::connect(flags.addr)?;
    register_stable(&mut stable, world, flags.topics)?;
    let (counts, lost) = thread::scope(|scope| {
        let moving = scope.spawn(|| reconnect(flags.addr, flags.reconnects));
        let writers = [
            scope.spawn(|| while_reading(world, || register_stable(&mut stable, world, flags.topics))),
            scope.spawn(|| while_reading(world, || come_and_go(&mut passing, world, flags.topics))),
        ];
        let flags = &flags;
        let readers: Vec<_> = (0..flags.readers).map(|seed| scope.spawn(move || read(flags, world, seed))).collect();
        let counts: Vec<_> = readers.into_iter().map(|each| each.join().expect("a reader does not panic")).collect();
        let lost = moving.join().expect("a writer does not panic");
        world.is_over.store(true, Ordering::Relaxed);
        for writer in writers {
            writer.join().expect("a writer does not panic")?;
        }
        anyhow::Ok((counts.into_iter().collect::<anyhow::Result<Vec<Counts>>>()?, lost?))
    })?;
    stable.ask(&unregistration(STABLE))?;

    let sum = |of: fn(&Counts) -> u64| counts.iter().map(of).sum::<u64>();
    let reads = [0, 1, 2, 3, 4].map(|kind| counts.iter().map(|counts| counts.reads[kind]).sum::<u64>());
    let [stable, passing, cluster, by_cluster, all] = reads;
    println!(
        "reads: 105 {stable} of topics that stay, {passing} of topics that come and go, 106 {cluster}, 224 {by_cluster}, 206 {all}"
    );
    println!(
        "registrations: {}, arrivals {}",
        world.acknowledged.load(Ordering::Relaxed),
        world.turns.load(Ordering::Relaxed) / 4
    );
    let (torn, back, gone) = (sum(|counts| counts.torn), sum(|counts| counts.back), sum(|counts| counts.gone));
    println!(
        "violations: torn {torn}, back in time {back}, gone {gone}, lost {lost} of {} reconnects",
        flags.reconnects
    );
    counts.iter().flat_map(|counts| &counts.first).for_each(|first| println!("{first}"));
    Ok(if torn + back + gone + lost == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What the writers know.
#[derive(Debug, Default)]
struct World {
    is_over: AtomicBool,
    /// Number of the stable broker's last acknowledged registration.
    acknowledged: AtomicU64,
    /// State of the passing broker: 4n gone, 4n + 1 coming, 4n + 2 there, 4n + 3 going.
    turns: AtomicU64,
}

fn while_reading(world: &World, mut change: impl FnMut() -> anyhow::Result<()>) -> anyhow::Result<()> {
    while !world.is_over.load(Ordering::Relaxed) {
        change()?;
        thread::sleep(PAUSE);
    }
    Ok(())
}

fn register_stable(client: &mut Client, world: &World, topics: usize) -> anyhow::Result<()> {
    let number = world.acknowledged.load(Ordering::Relaxed) + 1;
    client.ask(&registration(STABLE, topics, number))?;
    world.acknowledged.store(number, Ordering::SeqCst);
    Ok(())
}

fn come_and_go(client: &mut Client, world: &World, topics: usize) -> anyhow::Result<()> {
    let turn = world.turns.load(Ordering::Relaxed);
    world.turns.store(turn + 1, Ordering::SeqCst);
    client.ask(&registration(PASSING, topics, turn / 4 + 1))?;
    world.turns.store(turn + 2, Ordering::SeqCst);
    thread::sleep(PAUSE);
    world.turns.store(turn + 3, Ordering::SeqCst);
    client.ask(&unregistration(PASSING))?;
    world.turns.store(turn + 4, Ordering::SeqCst);
    Ok(())
}

/// Moves a broker to new connections. By turns the old one ends before the new registration, and after it. Says how often a
/// route was lost after the registration was acknowledged.
fn reconnect(addr: SocketAddr, reconnects: u64) -> anyhow::Result<u64> {
    let mut client = Client::connect(addr)?;
    let mut broker = Client::connect(addr)?;
    let (registration, route) = (registration(MOVING, 2, 1), Query::route("consistency-moving-0"));
    broker.ask(&registration)?;
    let mut lost = 0;
    for number in 0..reconnects {
        let mut next = Client::connect(addr)?;
        if number % 2 == 0 {
            drop(broker);
            next.ask(&registration)?;
            broker = next;
        } else {
            next.ask(&registration)?;
            drop(std::mem::replace(&mut broker, next));
        }
        for _ in 0..3 {
            lost += u64::from(client.call(&route)?.0 != 0);
        }
    }
    Ok(lost)
}

/// A registration of topics `BROKER-0`, `BROKER-1`, ..., in which everything has `number`.
fn registration(broker: &str, topics: usize, number: u64) -> Query {
    let (mut configs, mut mappings) = (String::new(), String::new());
    for topic in 0..topics {
        let comma = if topic > 0 { "," } else { "" };
        let _ = write!(
            configs,
            "{comma}\"{broker}-{topic}\":{{\"perm\":6,\"readQueueNums\":{number},\"topicName\":\"{broker}-{topic}\",\
             \"topicSysFlag\":0,\"writeQueueNums\":8}}"
        );
        let _ = write!(
            mappings,
            "{comma}\"{broker}-{topic}\":{{\"bname\":\"{broker}\",\"currIdMap\":{{}},\"dirty\":false,\"epoch\":{number},\
             \"scope\":\"__global__\",\"topic\":\"{broker}-{topic}\",\"totalQueues\":8}}"
        );
    }
    let body = format!(
        "{{\"filterServerList\":[],\"topicConfigSerializeWrapper\":{{\"dataVersion\":{{\"counter\":{number},\
         \"stateVersion\":0,\"timestamp\":1700000000000}},\"topicConfigTable\":{{{configs}}},\
         \"topicQueueMappingInfoMap\":{{{mappings}}}}}}}"
    );
    // The checksum has no sign bit (`UtilAll.crc32`).
    let crc = (crc32fast::hash(body.as_bytes()) & 0x7fff_ffff).to_string();
    let zone = number.to_string();
    let mut query = Query::new(RequestCode::RegisterBroker, &fields(broker));
    let more =
        [("bodyCrc32", crc.as_str()), ("compressed", "false"), ("enableActingMaster", "false"), ("__ZONE_NAME", &zone)];
    query.fields.extend(more.map(|(key, value)| (key, value.to_owned())));
    query.body = body.into();
    query
}

fn unregistration(broker: &str) -> Query {
    Query::new(RequestCode::UnregisterBroker, &fields(broker))
}

fn fields(broker: &str) -> [(&'static str, &str); 5] {
    // Addresses and clusters only have to be different.
    [("brokerName", broker), ("brokerAddr", broker), ("clusterName", broker), ("brokerId", "0"), ("haServerAddr", "")]
}

/// What a reader has seen.
#[derive(Debug, Default)]
struct Counts {
    reads: [u64; 5],
    torn: u64,
    back: u64,
    gone: u64,
    /// The first violation, with the answer.
    first: Option<String>,
}

fn read(flags: &Flags, world: &World, seed: u64) -> anyhow::Result<Counts> {
    let mut client = Client::connect(flags.addr)?;
    let mut counts = Counts::default();
    let mut random = seed * 2 + 1;
    let mut newest = 0;
    for _ in 0..flags.reads.div_ceil(flags.readers.max(1)) {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let topic = (random >> 32) as usize % flags.topics.max(1);
        let kind = match random % 64 {
            0 => 4,
            1 => 3,
            2..4 => 2,
            4..16 => 1,
            _ => 0,
        };
        let query = match kind {
            0 => Query::route(&format!("{STABLE}-{topic}")),
            1 => Query::route(&format!("{PASSING}-{topic}")),
            2 => Query::new(RequestCode::GetBrokerClusterInfo, &[]),
            3 => Query::new(RequestCode::GetTopicsByCluster, &[("cluster", PASSING)]),
            _ => Query::new(RequestCode::GetAllTopicListFromNameserver, &[]),
        };
        let acknowledged = world.acknowledged.load(Ordering::SeqCst);
        let before = world.turns.load(Ordering::SeqCst);
        let (code, body) = client.call(&query)?;
        let after = world.turns.load(Ordering::SeqCst);
        counts.reads[kind] += 1;
        // Where it has come or gone meanwhile, both answers are good.
        let passing = (before == after && before.is_multiple_of(2)).then_some(before % 4 == 2);
        let verdict = match kind {
            0 => number_of_route(STABLE, code, &body).and_then(|number| in_time(number, acknowledged, &mut newest)),
            1 if code == 0 => number_of_route(PASSING, code, &body).and_then(|_| as_known(passing, true)),
            1 => as_known(passing, false),
            2 => number_of_cluster(STABLE, &body)
                .and_then(|number| in_time(number, acknowledged, &mut newest))
                .and_then(|()| is_in_cluster(PASSING, &body))
                .and_then(|seen| as_known(passing, seen)),
            _ => all_or_none(PASSING, flags.topics, &body).and_then(|seen| as_known(passing, seen)),
        };
        if let Err(violation) = verdict {
            match violation {
                Violation::Torn => counts.torn += 1,
                Violation::Back => counts.back += 1,
                Violation::Gone => counts.gone += 1,
            }
            let show = || {
                format!(
                    "{violation:?}: {:?}: code {code}: {}",
                    query.fields,
                    String::from_utf8_lossy(&body[..body.len().min(2_000)])
                )
            };
            counts.first.get_or_insert_with(show);
        }
    }
    Ok(counts)
}

/// What is wrong with an answer.
#[derive(Debug)]
enum Violation {
    Torn,
    Back,
    Gone,
}

/// The one number in the route of a broker's topic.
fn number_of_route(broker: &str, code: i32, body: &[u8]) -> Result<u64, Violation> {
    let zone = number_after(body, b"\"zoneName\":\"");
    let queues = number_after(body, b"\"readQueueNums\":");
    let mapping = number_after(body, b"\"epoch\":");
    let is_whole = code == 0 && zone == queues && zone == mapping && memmem::find(body, broker.as_bytes()).is_some();
    zone.filter(|_| is_whole).ok_or(Violation::Torn)
}

/// The number in the broker's entry of the cluster information.
fn number_of_cluster(broker: &str, body: &[u8]) -> Result<u64, Violation> {
    let name = format!("\"brokerName\":\"{broker}\"");
    let entry = memmem::find(body, name.as_bytes()).and_then(|at| body.get(at..)).ok_or(Violation::Torn)?;
    let is_listed = is_in_cluster(broker, body)?;
    number_after(entry, b"\"zoneName\":\"").filter(|_| is_listed).ok_or(Violation::Torn)
}

/// Whether the broker is there, in both tables or in none.
fn is_in_cluster(broker: &str, body: &[u8]) -> Result<bool, Violation> {
    let has = |text: String| memmem::find(body, text.as_bytes()).is_some();
    let (in_brokers, in_clusters) =
        (has(format!("\"brokerName\":\"{broker}\"")), has(format!("\"{broker}\":[\"{broker}\"]")));
    if in_brokers == in_clusters { Ok(in_brokers) } else { Err(Violation::Torn) }
}

/// Whether the broker's topics are in a list: all of them or none.
fn all_or_none(broker: &str, topics: usize, body: &[u8]) -> Result<bool, Violation> {
    let prefix = format!("\"{broker}-");
    match memmem::find_iter(body, prefix.as_bytes()).count() {
        0 => Ok(false),
        found if found == topics => Ok(true),
        _ => Err(Violation::Torn),
    }
}

fn in_time(number: u64, acknowledged: u64, newest: &mut u64) -> Result<(), Violation> {
    if number < acknowledged || number < *newest {
        return Err(Violation::Back);
    }
    *newest = number;
    Ok(())
}

fn as_known(known: Option<bool>, seen: bool) -> Result<(), Violation> {
    if known.is_none_or(|known| known == seen) { Ok(()) } else { Err(Violation::Gone) }
}

fn number_after(body: &[u8], key: &[u8]) -> Option<u64> {
    let digits = body.get(memmem::find(body, key)? + key.len()..)?;
    let length = digits.iter().take_while(|byte| byte.is_ascii_digit()).count();
    std::str::from_utf8(&digits[..length]).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUTE: &str = r#"{"brokerDatas":[{"brokerName":"b","zoneName":"7"}],"queueDatas":[{"readQueueNums":7}],"topicQueueMappingByBroker":{"b":{"epoch":7}}}"#;

    #[test]
    fn a_route_has_one_number() {
        assert!(matches!(number_of_route("b", 0, ROUTE.as_bytes()), Ok(7)));
        for torn in
            [ROUTE.replace("epoch\":7", "epoch\":6"), ROUTE.replace("Nums\":7", "Nums\":8"), ROUTE.replace("zone", "")]
        {
            assert!(matches!(number_of_route("b", 0, torn.as_bytes()), Err(Violation::Torn)), "{torn}");
        }
    }

    #[test]
    fn what_is_half_there_is_torn() {
        let whole = r#"{"brokerAddrTable":{"b":{"brokerName":"b","zoneName":"3"}},"clusterAddrTable":{"b":["b"]}}"#;
        assert!(matches!(number_of_cluster("b", whole.as_bytes()), Ok(3)));
        assert!(matches!(is_in_cluster("c", whole.as_bytes()), Ok(false)));
        assert!(matches!(is_in_cluster("b", whole.replace("[\"b\"]", "[]").as_bytes()), Err(Violation::Torn)));
        assert!(matches!(all_or_none("b", 2, br#"["b-0","b-1"]"#), Ok(true)));
        assert!(matches!(all_or_none("b", 3, br#"["b-0","b-1"]"#), Err(Violation::Torn)));
    }

    #[test]
    fn time_and_acknowledgements_count() {
        let mut newest = 5;
        assert!(matches!(in_time(4, 0, &mut newest), Err(Violation::Back)));
        assert!(matches!(in_time(6, 7, &mut newest), Err(Violation::Back)));
        assert!(in_time(7, 7, &mut newest).is_ok() && newest == 7);
        assert!(matches!(as_known(Some(false), true), Err(Violation::Gone)));
        assert!(as_known(None, true).is_ok());
    }
}
