//! Brokers come, serve and go: a broker of today with a producer and a consumer, and a second one that crashes.

use std::time::Duration;

use crate::broker::{Broker, Plan};
use crate::install::{self, required};
use crate::mqadmin::Tool;
use crate::process::{Program, wait_until};
use crate::support::process::Settings;
use crate::target;

/// The last line of an answer is the answer; a library may have printed before it.
pub(crate) fn answer(program: &mut Program, words: &[&str]) -> String {
    let lines = program.ask(words);
    lines.iter().rev().find_map(|line| line.strip_prefix("> ")).unwrap_or_else(|| panic!("{lines:?}")).to_owned()
}

#[test]
#[ignore = "real peers: cargo test -p server --test real_peers -- --ignored"]
fn brokers_come_and_go() {
    const TEST: &str = "brokers_come_and_go";
    let Some(java) = required(TEST, install::java()) else { return };
    let Some(server) = target::name_server(TEST, &Settings::default()) else { return };
    let addr = server.addr().to_string();
    let mut tool = Tool::start(&java);
    let mut traffic = Program::start(&java, "Traffic");

    let first = Broker::start(&java, Plan::master("broker-a", &addr));
    tool.wait_for_broker(server.addr(), &first);
    assert_eq!(answer(&mut traffic, &["produce", &addr, "first", "100"]), "sent 100 broker-a=100");
    assert_eq!(answer(&mut traffic, &["consume", &addr, "first", "100", "60"]), "received 100");

    let mut second = Broker::start(&java, Plan::master("broker-b", &addr));
    tool.wait_for_broker(server.addr(), &second);
    tool.make_topic(server.addr(), "both", &[&first, &second]);
    let sent = answer(&mut traffic, &["produce", &addr, "both", "100"]);
    assert!(sent.contains("broker-a=") && sent.contains("broker-b="), "{sent}");
    assert_eq!(answer(&mut traffic, &["consume", &addr, "both", "100", "60"]), "received 100");

    second.kill();
    let gone = wait_until("the killed broker is gone", Duration::from_secs(5), || {
        !tool.run(server.addr(), "topicRoute -t both").contains(&second.addr)
    });
    println!("a killed broker is out of the route after {gone:?}");
    assert!(!tool.run(server.addr(), "clusterList").contains("broker-b"));
    assert_eq!(answer(&mut traffic, &["produce", &addr, "both", "20"]), "sent 20 broker-a=20");

    first.terminate();
    let gone = wait_until("the stopped broker is gone", Duration::from_secs(20), || {
        tool.run(server.addr(), "topicRoute -t both").contains("CODE: 17")
    });
    println!("a stopped broker is out of the route after {gone:?}");
}
