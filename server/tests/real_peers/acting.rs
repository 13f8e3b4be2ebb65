//! A slave that acts as master when its master is gone. Its name sorts first: this is the longest of the tests.

use std::fs;
use std::net::SocketAddr;
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

    let config = [acting, ("brokerRole", "SLAVE"), ("slaveReadEnable", "true")];
    let plan = Plan { id: 1, ..Plan::master("broker-a", &addr).with(&config) };
    let slave = Broker::start(&java, plan);
    tool.wait_for_broker(server.addr(), &slave);
    // The slave copies messages at once, but topics for the first time after a minute.
    let folder = TempDir::with_prefix("topics-").expect("temporary folder");
    let export = format!("exportMetadata -b {} -t -f {}", slave.addr, folder.path().display());
    wait_until("the slave has the messages and the topic", Duration::from_secs(90), || {
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
