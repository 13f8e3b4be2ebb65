//! Brokers of an older line, and brokers with settings that concern the name server.

use std::thread;
use std::time::Duration;

use crate::broker::{Broker, Plan};
use crate::cluster::answer;
use crate::install::{self, required};
use crate::mqadmin::Tool;
use crate::process::{Program, wait_until};
use crate::support::process::Settings;
use crate::target;

#[test]
#[ignore = "real peers: cargo test -p server --test real_peers -- --ignored"]
fn old_broker_and_clients() {
    const TEST: &str = "old_broker_and_clients";
    let Some(java) = required(TEST, install::java()) else { return };
    let Some(old_java) = required(TEST, install::old_java()) else { return };
    let Some(server) = target::name_server(TEST, &Settings::default()) else { return };
    let addr = server.addr().to_string();
    let mut tool = Tool::start(&java);
    let broker = Broker::start(&old_java, Plan::master("broker-old", &addr));
    tool.wait_for_broker(server.addr(), &broker);
    // The tool asks the broker itself for its release, which may not answer yet.
    wait_until("the broker tells its release", Duration::from_secs(30), || {
        tool.run(server.addr(), "clusterList").contains("V4_9_7")
    });

    tool.make_topic(server.addr(), "made", &[&broker]);
    for (class_path, topic) in [(&old_java, "old"), (&java, "new")] {
        let mut traffic = Program::start(class_path, "Traffic");
        assert_eq!(answer(&mut traffic, &["produce", &addr, topic, "50"]), "sent 50 broker-old=50");
        assert_eq!(answer(&mut traffic, &["consume", &addr, topic, "50", "60"]), "received 50");
        assert!(tool.run(server.addr(), &format!("topicRoute -t {topic}")).contains(&broker.addr));
    }
}

/// The official name server refuses such a registration: the broker compresses the body and does not say so.
#[test]
#[ignore = "real peers: cargo test -p server --test real_peers -- --ignored"]
fn compressed_registration() {
    const TEST: &str = "compressed_registration";
    let Some(java) = required(TEST, install::java()) else { return };
    let Some(server) = target::name_server(TEST, &Settings::default()) else { return };
    let addr = server.addr().to_string();
    let mut tool = Tool::start(&java);
    let plan = Plan::master("broker-small", &addr).with(&[("compressedRegister", "true")]);
    let broker = Broker::start(&java, plan);
    if target::is_official() {
        thread::sleep(Duration::from_secs(3));
        assert!(!tool.run(server.addr(), "clusterList").contains(&broker.addr));
        return;
    }
    tool.wait_for_broker(server.addr(), &broker);
    let mut traffic = Program::start(&java, "Traffic");
    assert_eq!(answer(&mut traffic, &["produce", &addr, "small", "20"]), "sent 20 broker-small=20");
}

#[test]
#[ignore = "real peers: cargo test -p server --test real_peers -- --ignored"]
fn binary_headers() {
    const TEST: &str = "binary_headers";
    let Some(java) = required(TEST, install::java()) else { return };
    let Some(server) = target::name_server(TEST, &Settings::default()) else { return };
    let addr = server.addr().to_string();
    let mut tool = Tool::start(&java);
    let broker = Broker::start(&java, Plan { binary: true, ..Plan::master("broker-binary", &addr) });
    tool.wait_for_broker(server.addr(), &broker);
    tool.make_topic(server.addr(), "made", &[&broker]);
    let mut traffic = Program::start(&java, "Traffic");
    assert_eq!(answer(&mut traffic, &["produce", &addr, "binary", "20"]), "sent 20 broker-binary=20");
    assert_eq!(answer(&mut traffic, &["consume", &addr, "binary", "20", "60"]), "received 20");
}
