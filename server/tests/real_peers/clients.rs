//! Clients in Go, C++ (through its Python binding) and Node find their broker by the name server.

use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;

use crate::broker::{Broker, Plan};
use crate::install::{self, required};
use crate::mqadmin::Tool;
use crate::process::Process;
use crate::support::process::Settings;
use crate::target;

const MESSAGES: &str = "20";
/// How long a client waits for the messages that it sent.
const SECONDS: &str = "60";
const LIMIT: Duration = Duration::from_secs(90);

#[test]
#[ignore = "real peers: cargo test -p server --test real_peers -- --ignored"]
fn clients_in_other_languages() {
    const TEST: &str = "clients_in_other_languages";
    let Some(java) = required(TEST, install::java()) else { return };
    let Some(server) = target::name_server(TEST, &Settings::default()) else { return };
    let addr = server.addr().to_string();
    let mut tool = Tool::start(&java);
    let broker = Broker::start(&java, Plan::master("broker-a", &addr));
    tool.wait_for_broker(server.addr(), &broker);
    // The Node client does not ask for the topic that new ones are made from, the others do.
    tool.make_topic(server.addr(), "node", &[&broker]);

    let home = TempDir::with_prefix("client-").expect("temporary home");
    let mut failures = Vec::new();
    for (language, client) in [("go", go()), ("cpp", cpp()), ("node", node())] {
        let Some(mut client) = required(&format!("{TEST}, {language}"), client) else { continue };
        client.args([&addr, language, MESSAGES, SECONDS]).current_dir(home.path()).env("HOME", home.path());
        match Process::run(language, &mut client, LIMIT) {
            Ok(printed) if printed.contains("> sent 20\n") && printed.contains("> received 20\n") => {}
            Ok(printed) | Err(printed) => failures.push(format!("{language}: {printed}")),
        }
        let route = tool.run(server.addr(), &format!("topicRoute -t {language}"));
        if !route.contains(&broker.addr) {
            failures.push(format!("{language}: its topic is not routed: {route}"));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

fn go() -> Result<Command, String> {
    let mut command = Command::new(install::go()?);
    command.env("ROCKETMQ_GO_LOG_LEVEL", "fatal");
    Ok(command)
}

fn cpp() -> Result<Command, String> {
    let packages = install::python()?;
    let mut command = Command::new("python3");
    command.env("PYTHONPATH", packages).arg(install::sources().join("python/traffic.py"));
    Ok(command)
}

fn node() -> Result<Command, String> {
    let packages = install::node()?;
    let mut command = Command::new("node");
    command.env("NODE_PATH", packages).arg(install::sources().join("node/traffic.js"));
    Ok(command)
}
