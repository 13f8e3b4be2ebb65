//! M3: everything that peers do, for a while: nothing grows. `SOAK_SECONDS` says for how long, 45 unless set.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::peers::{Ongoing, broker_with, descriptors, next, source};
use crate::report::at_most;
use crate::support::broker::{Broker, cluster_info, put_kv, request, route};
use crate::support::frame::{Client, raw_frame};
use crate::support::ours;
use crate::support::probe::Probe;
use crate::support::process::Settings;

const WARM_UP: Duration = Duration::from_secs(12);
const SECONDS: u64 = 45;
const PAUSE: Duration = Duration::from_millis(2);
const ANSWERED: Duration = Duration::from_secs(20);

/// Does something over and over, with a number that grows, on a thread of its own.
fn over_and_over(mut round: impl FnMut(u32, &AtomicBool) + Send + 'static) -> Ongoing<u32> {
    Ongoing::start(move |done| {
        let mut count = 0;
        while !done.load(Ordering::Relaxed) {
            round(count, done);
            count += 1;
            thread::sleep(PAUSE);
        }
        count
    })
}

fn asked(client: &mut Client, question: &crate::support::frame::Request) {
    client.send(&question.encode());
    next(client, ANSWERED).expect("an answer");
}

/// Brokers that come and go with ever other topics, some of them without a farewell.
fn changing_brokers(addr: SocketAddr) -> Ongoing<u32> {
    over_and_over(move |round, _| {
        let name = format!("b{}", round % 7);
        let broker = broker_with(&name, "10.0.0.1:10911", &format!("topic-{round}-"), 500).at(i64::from(round) + 1);
        let mut client = Client::connect_from(source(20), addr);
        asked(&mut client, &broker.register());
        asked(&mut client, &broker.heartbeat());
        if round % 2 == 0 {
            asked(&mut client, &broker.unregister());
        }
    })
}

/// Clients that ask for everything that there is to ask for, on connections that come and go.
fn asking_clients(addr: SocketAddr) -> Ongoing<u32> {
    over_and_over(move |round, _| {
        let mut client = Client::connect_from(source(21), addr);
        let unknown = format!("unknown-{round}");
        asked(&mut client, &route(&unknown));
        for question in [route("steady-1"), cluster_info(), request(206, &[]), request(224, &[("cluster", &unknown)])] {
            asked(&mut client, &question);
        }
        asked(&mut client, &put_kv("NS", &format!("k{}", round % 50), &unknown));
        asked(&mut client, &request(901, &[("clusterName", &unknown), ("brokerName", &unknown)]));
    })
}

/// Peers that are careless: broken frames and bodies, half a frame and gone, answers that nobody takes.
fn careless_peers(addr: SocketAddr) -> Ongoing<u32> {
    over_and_over(move |round, _| {
        let mut client = Client::connect_from(source(22), addr);
        match round % 5 {
            0 => client.send(&[0xFF; 64]),
            1 => client.send(&raw_frame(0, &[b'['; 50_000], b"")),
            2 => client.send(&broker_with("b", "10.0.0.1:10911", "t", 500).register().encode()[..20_000]),
            3 => client.send(&request(206, &[]).encode().repeat(20)),
            _ => client.send(&Broker::new("b", 0, "10.0.0.1:10911", &[]).register_body(vec![b'x'; 10_000]).encode()),
        }
    })
}

#[test]
#[ignore = "takes long"]
fn nothing_grows_while_peers_come_and_go() {
    let server = ours::start(&Settings::default());
    let addr = server.addr();
    let mut steady = Client::connect(addr);
    assert_eq!(steady.code(&broker_with("steady", "10.0.0.9:10911", "steady-", 1_000).register()), 0);
    let before = descriptors(&server);
    let probe = Probe::start(addr);
    let peers = [changing_brokers(addr), asking_clients(addr), careless_peers(addr)];
    thread::sleep(WARM_UP);

    let seconds = std::env::var("SOAK_SECONDS").map_or(SECONDS, |text| text.parse().expect("a number of seconds"));
    let measured = Duration::from_secs(seconds);
    let mut memory = Vec::new();
    let start = Instant::now();
    while start.elapsed() < measured {
        memory.push(server.memory("VmRSS"));
        assert_eq!(steady.code(&route("steady-1")), 0, "the steady broker's topics");
        thread::sleep(Duration::from_millis(20));
    }
    // What is under way comes on top now and then: of each third, a low value.
    let low = |part: &[u64]| {
        let mut part = part.to_vec();
        part.sort_unstable();
        part[part.len() / 10]
    };
    let third = memory.len() / 3;
    let (first, last) = (low(&memory[..third]), low(&memory[memory.len() - third..]));
    // Between the middles of the first and the last third lie two thirds of the time.
    let minutes = measured.as_secs_f64() / 60.0 * 2.0 / 3.0;
    let slope = (last as f64 - first as f64) / 1024.0 / minutes;
    let rounds: Vec<u32> = peers.into_iter().map(Ongoing::finish).collect();
    println!("rounds {rounds:?}; KiB first {} last {}", first >> 10, last >> 10);
    assert!(rounds.iter().all(|rounds| *rounds > 100), "too few rounds: {rounds:?}");
    at_most("M3", "KiB a minute that memory grows by", slope.max(0.0).round(), 1_024.0);
    probe.finish();
    let start = Instant::now();
    while descriptors(&server) > before && start.elapsed() < Duration::from_secs(3) {
        thread::sleep(Duration::from_millis(20));
    }
    at_most("M3", "descriptors left behind", descriptors(&server).saturating_sub(before), 0);
    assert_eq!(steady.code(&route("steady-1")), 0);
}
