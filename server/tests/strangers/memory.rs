//! Memory goes back to the system when it is free, and addresses are not reserved that nobody needs.

use std::time::Duration;

use super::peers::{MIB, given_back, in_512_mib};
use super::report::{at_most, holds};
use super::support::broker::{Broker, Topic, route};
use super::support::frame::Client;
use super::support::ours;
use super::support::process::{NameServer, Settings};

/// What may stay of anything, beside a tenth of what was there before.
const KEPT_BYTES: u64 = 8 * MIB;

#[test]
#[ignore = "takes long"]
fn a_million_topics_leave_no_memory_behind() {
    const TOPICS: usize = 100_000;
    let server = ours::start(&Settings::default());
    let mut client = Client::connect(server.addr());
    let brokers: Vec<_> = (0..10).map(|number| broker(number, TOPICS)).collect();
    let bodies: Vec<_> = brokers.iter().map(|broker| broker.parts().zlib()).collect();
    let before = server.memory("VmRSS");
    let mut most = 0;
    for _ in 0..3 {
        for (broker, body) in brokers.iter().zip(&bodies) {
            let request = broker.register_body(body.clone()).with("compressed", "true");
            assert_eq!(client.code(&request), 0, "{}", broker.name);
        }
        assert_eq!(client.code(&route(&brokers[9].topics[TOPICS - 1].name)), 0);
        most = most.max(server.memory("VmRSS"));
        for broker in &brokers {
            assert_eq!(client.code(&broker.unregister()), 0, "{}", broker.name);
        }
        assert_eq!(client.code(&route(&brokers[9].topics[TOPICS - 1].name)), 17);
    }
    holds("7", "a million topics take more than may stay", most > before + 4 * KEPT_BYTES);
    at_most(
        "7",
        "MiB after a million topics came and went",
        given_back(&server, kept_max(before)) / MIB,
        kept_max(before) / MIB,
    );
}

#[test]
fn abandoned_frames_leave_no_memory_behind() {
    const CONNECTIONS: usize = 12;
    let server = ours::start(&Settings::default());
    let before = server.memory("VmRSS");
    let unfinished = [&15_000_000_u32.to_be_bytes()[..], &100_u32.to_be_bytes(), &vec![b' '; 14_000_000]].concat();
    let mut clients: Vec<_> = (0..CONNECTIONS).map(|_| Client::connect(server.addr())).collect();
    for client in &mut clients {
        client.stream().set_write_timeout(Some(Duration::from_secs(2))).expect("a time-out");
        client.send(&unfinished);
    }
    drop(clients);
    at_most("7", "MiB after abandoned frames", given_back(&server, kept_max(before)) / MIB, kept_max(before) / MIB);
}

/// Each thread of glibc's would reserve 64 MiB for itself.
#[test]
fn many_threads_fit_under_a_limit_of_addresses() {
    let server = NameServer::start(in_512_mib, &Settings::with(&[("workerThreads", "16")]));
    let mut client = Client::connect(server.addr());
    let broker = broker(0, 50_000);
    let request = broker.register_body(broker.parts().zlib()).with("compressed", "true");
    assert_eq!(client.code(&request), 0);
    assert_eq!(client.code(&route(&broker.topics[0].name)), 0);
    at_most("7", "MiB of addresses, 16 workers", server.memory("VmSize") / MIB, 300);
}

fn broker(number: usize, topics: usize) -> Broker {
    let mut broker = Broker::new(&format!("broker-{number}"), 0, &format!("10.7.0.{number}:10911"), &[]);
    let name = |topic| format!("topic-of-a-million-{number}-{topic:06}");
    broker.topics = (0..topics).map(|topic| Topic { name: name(topic), queues: 8, perm: 6 }).collect();
    broker
}

fn kept_max(before: u64) -> u64 {
    (before + before / 10).max(before + KEPT_BYTES)
}
