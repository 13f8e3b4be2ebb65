//! S5: peers whose host is gone: nothing comes from them any more, no end either.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use crate::peers::{descriptors, millis};
use crate::report::at_most;
use crate::support::broker::{Broker, request, route};
use crate::support::frame::{Client, Received};
use crate::support::ours;
use crate::support::process::{NameServer, Settings};

const SERVER: Ipv4Addr = Ipv4Addr::new(10, 213, 47, 2);

/// A network of its own for the server, connected to ours by a cable that can be cut; gone when it is dropped.
struct Cable;

impl Cable {
    const SPACE: &str = "strangers";
    const OURS: &str = "strangers-a";

    /// `None`: not allowed here.
    fn lay() -> Option<Self> {
        let _ = ip(&["netns", "del", Self::SPACE]);
        let cable = ip(&["netns", "add", Self::SPACE]).then_some(Self)?;
        let is_laid =
            ip(&["link", "add", Self::OURS, "type", "veth", "peer", "name", "strangers-b", "netns", Self::SPACE])
                && ip(&["addr", "add", "10.213.47.1/24", "dev", Self::OURS])
                && ip(&["link", "set", Self::OURS, "up"])
                && ip(&["-n", Self::SPACE, "addr", "add", "10.213.47.2/24", "dev", "strangers-b"])
                && ip(&["-n", Self::SPACE, "link", "set", "strangers-b", "up"])
                && ip(&["-n", Self::SPACE, "link", "set", "lo", "up"]);
        is_laid.then_some(cable)
    }

    fn cut(&self) {
        assert!(ip(&["link", "set", Self::OURS, "down"]), "cut the cable");
    }

    fn mend(&self) {
        assert!(ip(&["link", "set", Self::OURS, "up"]), "mend the cable");
    }
}

impl Drop for Cable {
    fn drop(&mut self) {
        ip(&["netns", "del", Self::SPACE]);
    }
}

fn ip(arguments: &[&str]) -> bool {
    Command::new("ip").args(arguments).output().is_ok_and(|output| output.status.success())
}

fn in_the_other_network(home: &Path, file: &Path, settings: &Settings) -> Command {
    let server = ours::launch(home, file, settings);
    let mut command = Command::new("ip");
    command.args(["netns", "exec", Cable::SPACE]).arg(server.get_program()).args(server.get_args()).current_dir(home);
    for (key, value) in server.get_envs() {
        match value {
            Some(value) => command.env(key, value),
            None => command.env_remove(key),
        };
    }
    command
}

#[test]
fn a_peer_whose_host_is_gone_is_forgotten_in_time() {
    let Some(cable) = Cable::lay() else {
        println!("SKIP a_peer_whose_host_is_gone_is_forgotten_in_time: no network namespaces here");
        return;
    };
    let config = [
        ("bindAddress", "0.0.0.0"),
        ("serverChannelMaxIdleTimeSeconds", "4"),
        ("writeStallTimeoutMillis", "2000"),
        ("scanNotActiveBrokerInterval", "200"),
    ];
    let server = NameServer::start(in_the_other_network, &Settings::with(&config));
    let addr = SocketAddr::from((SERVER, server.addr().port()));
    let before = descriptors(&server);
    let broker = Broker::new("b", 0, "10.0.0.1:10911", &["T", "U"]).with("heartbeatTimeoutMillis", "2000");
    let mut connection = Client::connect(addr);
    assert_eq!(connection.code(&broker.register()), 0);
    let mut clients: Vec<Client> = (0..20).map(|_| Client::connect(addr)).collect();
    for client in &mut clients {
        assert_eq!(client.code(&route("T")), 0);
    }
    // One of them is owed an answer that never arrives.
    clients[0].send(&request(206, &[]).encode().repeat(200));
    let lost = Instant::now();
    cable.cut();
    // Its descriptors are seen from here, its port is not.
    while descriptors(&server) > before && lost.elapsed() < Duration::from_secs(15) {
        thread::sleep(Duration::from_millis(20));
    }
    at_most(
        "S5",
        "connections of a host that is gone, left after 15 s",
        descriptors(&server).saturating_sub(before),
        0,
    );
    at_most("S5", "ms until they are closed, serverChannelMaxIdleTimeSeconds=4", millis(lost.elapsed()), 6_000);
    cable.mend();
    let mut client = Client::connect(addr);
    let answer = client.call(&route("T"));
    at_most("S5", "routes of a broker whose host is gone", usize::from(answer.code() != 17), 0);
    assert!(!matches!(connection.receive(Duration::from_secs(5)), Received::Frame(_)), "the old connection is over");
}
