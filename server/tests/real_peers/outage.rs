//! Three name servers, of which one after the other is killed under traffic.

use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use crate::broker::{Broker, Plan};
use crate::cluster::answer;
use crate::install::{self, required};
use crate::mqadmin::Tool;
use crate::process::{Program, wait_until};
use crate::support::process::Settings;
use crate::target;

/// The broker registers again every ten seconds, `registerNameServerPeriod`; the rest is for a busy machine.
const REGISTERED_AGAIN: Duration = Duration::from_secs(13);

#[test]
#[ignore = "real peers: cargo test -p server --test real_peers -- --ignored"]
fn a_name_server_dies_under_traffic() {
    const TEST: &str = "a_name_server_dies_under_traffic";
    let Some(java) = required(TEST, install::java()) else { return };
    let servers: Option<Vec<_>> = (0..3).map(|_| target::name_server(TEST, &Settings::default())).collect();
    let Some(mut servers) = servers else { return };
    let addrs: Vec<SocketAddr> = servers.iter().map(|server| server.addr()).collect();
    let all = addrs.iter().map(SocketAddr::to_string).collect::<Vec<_>>().join(";");
    let mut tool = Tool::start(&java);
    let broker = Broker::start(&java, Plan::master("broker-a", &all));
    for &addr in &addrs {
        tool.wait_for_broker(addr, &broker);
        tool.make_topic(addr, "steady", &[&broker]);
    }
    let mut traffic = Program::start(&java, "Traffic");
    assert_eq!(answer(&mut traffic, &["start", &all, "steady"]), "started");
    // The first lookup of a client fails with the server that it asks, so let it be over.
    wait_until("messages flow", Duration::from_secs(20), || sent_messages(&mut traffic) > 100);

    // A client uses one of the servers, which one is its own choice: so each of them dies once.
    for (server, addr) in servers.iter_mut().zip(addrs) {
        let before = sent_messages(&mut traffic);
        server.kill();
        // A client that starts meanwhile gives up when its first choice is the dead server; it may try again.
        let topic = format!("made-without-{}", addr.port());
        wait_until("a new client finds its way", Duration::from_secs(10), || {
            answer(&mut traffic, &["produce", &all, &topic, "5"]) == "sent 5 broker-a=5"
        });
        thread::sleep(Duration::from_secs(3));
        let after = sent_messages(&mut traffic);
        assert!(after > before, "nothing was sent while {addr} was down: {before}, {after}");
        server.restart();
        let restored = wait_until("the restarted server has all topics", REGISTERED_AGAIN, || {
            let listed = topics(&mut tool, addr);
            listed.contains("steady") && listed.contains(&topic) && listed == topics(&mut tool, other(addr, &all))
        });
        println!("{addr} has all routes {restored:?} after its restart");
    }
    println!("{}", answer(&mut traffic, &["stop"]));
}

/// The number of messages sent so far. Panics when a single one failed.
fn sent_messages(traffic: &mut Program) -> u64 {
    let status = answer(traffic, &["status"]);
    assert!(status.contains(" failed 0 "), "{status}");
    status.split(' ').nth(1).and_then(|sent| sent.parse().ok()).unwrap_or_else(|| panic!("{status}"))
}

fn topics(tool: &mut Tool, server: SocketAddr) -> String {
    let mut lines: Vec<String> = tool.run(server, "topicList").lines().map(str::to_owned).collect();
    lines.sort_unstable();
    lines.join("\n")
}

fn other(addr: SocketAddr, all: &str) -> SocketAddr {
    let other = all.split(';').find(|other| *other != addr.to_string()).expect("there are three");
    other.parse().expect("an address")
}
