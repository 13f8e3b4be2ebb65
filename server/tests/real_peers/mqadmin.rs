//! The administration tool: every command that talks to a name server prints the same against ours and the official one.

mod commands;

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use tempfile::TempDir;

use self::commands::{Case, Compare, DIRECT, NOT_RUN, THROUGH_NAME_SERVER};
use crate::broker::{Broker, CLUSTER, Plan};
use crate::cluster::answer;
use crate::install::{self, required};
use crate::process::{Program, wait_until};
use crate::support::process::{NameServer, Settings};
use crate::tap::Tap;
use crate::target;

/// The tool, kept running in one JVM.
#[derive(Debug)]
pub(crate) struct Tool(Program);

impl Tool {
    pub(crate) fn start(class_path: &str) -> Self {
        Self(Program::start(class_path, "Mqadmin"))
    }

    /// Runs one command, its words parted by blanks, against a name server, and gives what it printed.
    pub(crate) fn run(&mut self, name_server: SocketAddr, command: &str) -> String {
        let address = name_server.to_string();
        let mut words: Vec<&str> = command.split(' ').collect();
        words.splice(1..1, ["-n", &address]);
        self.0.ask(&words).join("\n")
    }

    /// Waits until the name server lists this broker, by its address.
    pub(crate) fn wait_for_broker(&mut self, name_server: SocketAddr, broker: &Broker) -> Duration {
        wait_until(&format!("{name_server} lists {}", broker.addr), Duration::from_secs(30), || {
            self.run(name_server, "clusterList").contains(&broker.addr)
        })
    }

    /// Makes a topic on every broker of the cluster and waits until its route names as many brokers.
    pub(crate) fn make_topic(&mut self, name_server: SocketAddr, topic: &str, brokers: &[&Broker]) {
        let printed = self.run(name_server, &format!("updateTopic -c {CLUSTER} -t {topic}"));
        assert!(printed.contains("success"), "{printed}");
        wait_until(&format!("{topic} is routed"), Duration::from_secs(15), || {
            let route = self.run(name_server, &format!("topicRoute -t {topic}"));
            brokers.iter().all(|broker| route.contains(&broker.addr))
        });
    }
}

#[test]
#[ignore = "real peers: cargo test -p server --test real_peers -- --ignored"]
fn every_command_prints_the_same() {
    const TEST: &str = "every_command_prints_the_same";
    let Some(java) = required(TEST, install::java()) else { return };
    let Some(official) = target::official_server(TEST, &Settings::default()) else { return };
    let Some(ours) = target::name_server(TEST, &Settings::default()) else { return };
    let mut tool = Tool::start(&java);
    let name_servers = format!("{};{}", ours.addr(), official.addr());
    let provider = "org.apache.rocketmq.auth";
    let broker = Broker::start(
        &java,
        Plan::master("broker-a", &name_servers).with(&[
            (
                "authenticationMetadataProvider",
                &format!("{provider}.authentication.provider.LocalAuthenticationMetadataProvider"),
            ),
            (
                "authorizationMetadataProvider",
                &format!("{provider}.authorization.provider.LocalAuthorizationMetadataProvider"),
            ),
        ]),
    );
    for server in [&ours, &official] {
        tool.wait_for_broker(server.addr(), &broker);
    }
    tool.make_topic(ours.addr(), "first", &[&broker]);
    tool.make_topic(official.addr(), "first", &[&broker]);
    let mut traffic = Program::start(&java, "Traffic");
    let sent = answer(&mut traffic, &["produce", &ours.addr().to_string(), "first", "100"]);
    assert_eq!(sent, "sent 100 broker-a=100");
    let received = answer(&mut traffic, &["consume", &ours.addr().to_string(), "first", "100", "60"]);
    assert_eq!(received, "received 100");

    let mut comparison = Comparison::new(tool, broker, &ours, &official);
    for case in THROUGH_NAME_SERVER {
        comparison.check(case, true);
    }
    for case in DIRECT {
        comparison.check(case, false);
    }
    comparison.every_command_is_listed();
    assert!(comparison.failures.is_empty(), "{}", comparison.failures.join("\n\n"));
}

/// One of the two name servers, behind a tap that shows what the tool asks it.
struct Side {
    name: &'static str,
    server: SocketAddr,
    tap: Tap,
    folder: TempDir,
}

impl Side {
    fn new(name: &'static str, server: &NameServer) -> Self {
        let folder = TempDir::with_prefix("mqadmin-").expect("temporary folder");
        commands::write_files(folder.path());
        Self { name, server: server.addr(), tap: Tap::start(server.addr()), folder }
    }
}

struct Comparison {
    tool: Tool,
    broker: Broker,
    sides: [Side; 2],
    failures: Vec<String>,
}

impl Comparison {
    fn new(tool: Tool, broker: Broker, ours: &NameServer, official: &NameServer) -> Self {
        // Names of one length: tables keep their columns.
        let sides = [Side::new("one", ours), Side::new("two", official)];
        Self { tool, broker, sides, failures: Vec::new() }
    }

    fn check(&mut self, case: &Case, asks_name_server: bool) {
        let [(ours, our_codes), (official, official_codes)] = [0, 1].map(|side| self.run(case, side));
        let mut fail = |why: String| {
            self.failures.push(format!("mqadmin {}: {why}\n--- ours\n{ours}\n--- official\n{official}", case.command));
        };
        if our_codes != official_codes {
            fail(format!("asked {our_codes:?} of ours, {official_codes:?} of the official"));
        } else if official_codes.is_empty() == asks_name_server {
            fail(format!("asked the name server {official_codes:?}"));
        } else if !official.contains(case.says) {
            fail(format!("does not print {:?}", case.says));
        } else if !case.compare.same(&ours, &official) {
            fail("prints something else".to_owned());
        }
    }

    /// What the command prints with a side's name server, without what differs by its very nature, and the codes of
    /// the requests that it sent there.
    fn run(&mut self, case: &Case, side: usize) -> (String, BTreeSet<i64>) {
        let side = &self.sides[side];
        let folder = side.folder.path().display().to_string();
        let command = case
            .command
            .replace("{broker}", &self.broker.addr)
            .replace("{cluster}", CLUSTER)
            .replace("{folder}", &folder)
            .replace("{side}", side.name)
            .replace("{first_message}", &first_message_id(&self.broker.addr));
        let printed = self.tool.run(side.tap.addr(), &command);
        let printed = printed
            .replace(&side.tap.addr().to_string(), "NAMESERVER")
            .replace(&self.sides[0].server.to_string(), "NAMESERVER")
            .replace(&self.sides[1].server.to_string(), "NAMESERVER")
            .replace(&folder, "FOLDER")
            .replace(&format!("-{}", self.sides[0].name), "-SIDE")
            .replace(&format!("-{}", self.sides[1].name), "-SIDE");
        (printed, side.tap.take_codes())
    }

    fn every_command_is_listed(&mut self) {
        let help = self.tool.0.ask(&[]).join("\n");
        let offered: BTreeSet<&str> =
            help.lines().filter_map(|line| line.strip_prefix("   ")?.split_whitespace().next()).collect();
        let cases = THROUGH_NAME_SERVER.iter().chain(DIRECT).map(|case| case.command);
        let listed: BTreeSet<&str> = cases
            .filter_map(|command| command.split(' ').next())
            .chain(NOT_RUN.iter().map(|(command, _)| *command))
            .collect();
        if offered != listed {
            self.failures.push(format!(
                "commands of the tool that are not listed: {:?}; listed ones that it does not have: {:?}",
                offered.difference(&listed).collect::<Vec<_>>(),
                listed.difference(&offered).collect::<Vec<_>>(),
            ));
        }
    }
}

impl Compare {
    fn same(self, ours: &str, official: &str) -> bool {
        let mut both = [ours, official].map(|printed| printed.lines().map(str::trim_end).collect::<Vec<_>>());
        match self {
            Self::Exact => {}
            Self::AnyOrder => both.iter_mut().for_each(|lines| lines.sort_unstable()),
            Self::Shape => {
                let mut shapes = both.map(|lines| lines.into_iter().map(shape).collect::<Vec<_>>());
                shapes.iter_mut().for_each(|lines| lines.sort_unstable());
                return shapes[0] == shapes[1];
            }
            Self::Config => {
                let [ours, official] = both;
                return official.iter().all(|line| is_own_setting(line) || ours.contains(line));
            }
        }
        both[0] == both[1]
    }
}

/// A message is found by the address of its broker and its place there, 0 for the first.
fn first_message_id(broker: &str) -> String {
    let addr: SocketAddr = broker.parse().expect("an address");
    format!("7F000001{:08X}{:016X}", addr.port(), 0)
}

/// The line with each number, and the blanks beside it, replaced by `#`.
fn shape(line: &str) -> String {
    let mut shape = String::new();
    for word in line.split(' ').filter(|word| !word.is_empty()) {
        let mut in_number = false;
        for c in word.chars() {
            // Message ids are hexadecimal numbers, and a number may have a fraction.
            let is_digit = c.is_ascii_digit() || (in_number && (c == '.' || ('A'..='F').contains(&c)));
            if !(is_digit && in_number) {
                shape.push(if is_digit { '#' } else { c });
            }
            in_number = is_digit;
        }
        shape.push(' ');
    }
    shape
}

/// Paths and ports of the two servers are their own.
fn is_own_setting(line: &str) -> bool {
    let key = line.split(' ').next().unwrap_or_default();
    ["kvConfigPath", "configStorePath", "rocketmqHome", "listenPort"].contains(&key)
}

#[test]
fn comparison_sees_differences() {
    assert!(Compare::Exact.same("a\nb  \n", "a\nb\n"));
    assert!(!Compare::Exact.same("b\na", "a\nb"));
    assert!(Compare::AnyOrder.same("b\na", "a\nb"));
    assert!(!Compare::AnyOrder.same("a\na", "a\nb"));
    assert!(Compare::Shape.same("x  1.25 7F00A1", "x 30  9"));
    assert!(!Compare::Shape.same("x 1", "x one"));
    assert!(!Compare::Shape.same("x 1", "x 1\nx 2"));
    let official = "listenPort  =  1\nclusterTest  =  false";
    assert!(Compare::Config.same("clusterTest  =  false\nown  =  1\nlistenPort  =  2", official));
    assert!(!Compare::Config.same("clusterTest  =  true\nlistenPort  =  2", official));
}
