//! Brokers of an older line, and brokers with settings that concern the name server.

use std::fs;
use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use tempfile::TempDir;

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
    assert!(tool.run(server.addr(), "clusterList").contains("V4_9_7"));

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
fn slave_acts_as_master() {
    const TEST: &str = "slave_acts_as_master";
    let Some(java) = required(TEST, install::java()) else { return };
    let settings = Settings::with(&[("supportActingMaster", "true")]);
    let Some(server) = target::name_server(TEST, &settings) else { return };
    let addr = server.addr().to_string();
    let mut tool = Tool::start(&java);
    let acting = ("enableSlaveActingMaster", "true");
    let mut master = Broker::start(&java, Plan::master("broker-a", &addr).with(&[acting]));
    tool.wait_for_broker(server.addr(), &master);
    let mut traffic = Program::start(&java, "Traffic");
    assert_eq!(answer(&mut traffic, &["produce", &addr, "kept", "50"]), "sent 50 broker-a=50");

    let config = [acting, ("brokerRole", "SLAVE")];
    let plan = Plan { id: 1, ..Plan::master("broker-a", &addr).with(&config) };
    let slave = Broker::start(&java, plan);
    tool.wait_for_broker(server.addr(), &slave);
    // The slave copies messages and topics from its master in its own time.
    let folder = TempDir::with_prefix("topics-").expect("temporary folder");
    let export = format!("exportMetadata -b {} -t -f {}", slave.addr, folder.path().display());
    wait_until("the slave has the messages and the topic", Duration::from_secs(40), || {
        tool.run(server.addr(), &export);
        let topics = fs::read_to_string(folder.path().join("topic.json")).unwrap_or_default();
        let [theirs, its] = [&master, &slave].map(|broker| messages_end(&mut tool, server.addr(), broker));
        topics.contains("kept") && theirs == its
    });
    let route = tool.run(server.addr(), "topicRoute -t kept");
    assert!(route.contains(&format!("0:\"{}\"", master.addr)), "{route}");

    master.kill();
    let acted = wait_until("the slave acts as master", Duration::from_secs(20), || {
        tool.run(server.addr(), "topicRoute -t kept").contains(&format!("0:\"{}\"", slave.addr))
    });
    println!("a slave acts as master after {acted:?}");
    let route = tool.run(server.addr(), "topicRoute -t kept");
    assert!(route.contains("\"enableActingMaster\":true") && !route.contains(&master.addr), "{route}");
    assert_eq!(answer(&mut traffic, &["consume", &addr, "kept", "50", "60"]), "received 50");
}

/// The line that says how far the messages of a broker go.
fn messages_end(tool: &mut Tool, server: SocketAddr, broker: &Broker) -> Option<String> {
    let status = tool.run(server, &format!("brokerStatus -b {}", broker.addr));
    status.lines().find(|line| line.starts_with("commitLogMaxOffset")).map(str::to_owned)
}
