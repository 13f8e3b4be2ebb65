//! An official broker on loopback, with its store in a temporary folder.

use std::fmt::Write as _;
use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::process::Command;

use tempfile::TempDir;

use crate::process::{Process, java};
use crate::support::process::free_port;

/// All brokers of the tests are in this cluster.
pub(crate) const CLUSTER: &str = "peers";

/// A broker to start: the name, the id (0 is the master), the name servers, and further lines of its configuration.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan<'a> {
    pub(crate) name: &'a str,
    pub(crate) id: u32,
    pub(crate) name_servers: &'a str,
    pub(crate) config: &'a [(&'a str, &'a str)],
    /// The broker sends requests with binary headers.
    pub(crate) binary: bool,
}

impl<'a> Plan<'a> {
    pub(crate) fn master(name: &'a str, name_servers: &'a str) -> Self {
        Self { name, id: 0, name_servers, config: &[], binary: false }
    }

    pub(crate) fn with(self, config: &'a [(&'a str, &'a str)]) -> Self {
        Self { config, ..self }
    }
}

/// A running broker; it is killed on drop.
#[derive(Debug)]
pub(crate) struct Broker {
    pub(crate) addr: String,
    process: Process,
    _home: TempDir,
}

impl Broker {
    /// Starts a broker of the release on the class path and waits until it serves.
    pub(crate) fn start(class_path: &str, plan: Plan<'_>) -> Self {
        let home = TempDir::with_prefix("broker-").expect("temporary home");
        let port = port_with_neighbours();
        let store = home.path().join("store");
        let mut config = String::new();
        let mut line = |key: &str, value: &str| writeln!(config, "{key}={value}").expect("a string grows");
        line("brokerClusterName", CLUSTER);
        line("brokerName", plan.name);
        line("brokerId", &plan.id.to_string());
        line("brokerIP1", "127.0.0.1");
        line("brokerIP2", "127.0.0.1");
        line("listenPort", &port.to_string());
        line("namesrvAddr", plan.name_servers);
        line("autoCreateTopicEnable", "true");
        line("diskMaxUsedSpaceRatio", "99");
        line("mappedFileSizeCommitLog", "16777216");
        line("storePathRootDir", &store.display().to_string());
        line("storePathCommitLog", &store.join("commitlog").display().to_string());
        // The shortest that a broker accepts.
        line("registerNameServerPeriod", "10000");
        for (key, value) in plan.config {
            line(key, value);
        }
        let file = home.path().join("broker.conf");
        fs::write(&file, config).expect("write the configuration");
        // The 4.9 line does not start without this file.
        fs::create_dir_all(home.path().join("conf")).expect("make conf");
        fs::write(home.path().join("conf/logback_broker.xml"), "<configuration/>").expect("write logback_broker.xml");

        let mut command = java(class_path, home.path());
        command.arg("org.apache.rocketmq.broker.BrokerStartup").arg("-c").arg(file);
        if plan.binary {
            command.env("ROCKETMQ_SERIALIZE_TYPE", "ROCKETMQ");
        }
        let process = Process::start(&format!("broker {}", plan.name), &mut command, "boot success");
        Self { addr: format!("127.0.0.1:{port}"), process, _home: home }
    }

    /// Ends the broker at once, as a crash would.
    pub(crate) fn kill(&mut self) {
        self.process.kill();
    }

    /// Asks the broker to end, as an operator would. Does not wait.
    pub(crate) fn terminate(&self) {
        let status = Command::new("kill").arg("-TERM").arg(self.process.pid().to_string()).status().expect("run kill");
        assert!(status.success(), "kill: {status}");
    }
}

/// A broker also listens two ports below its own (for clients in a hurry) and one above (for its slaves).
fn port_with_neighbours() -> u16 {
    loop {
        let port = free_port();
        if [port - 2, port + 1].iter().all(|&port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()) {
            return port;
        }
    }
}
