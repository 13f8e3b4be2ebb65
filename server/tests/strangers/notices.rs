//! Notices of a new smallest id (905): who is told, and what telling costs.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use crate::report::{at_most, holds};
use crate::support::broker::{Broker, put_kv};
use crate::support::frame::{Client, Frame, Received};
use crate::support::ours;
use crate::support::process::{NameServer, Settings};

const ROW: &str = "16";
/// `CONNECTIONS_MAX` of the notifier, and some files of others: new clients, a KV file.
const FILES_MAX: usize = 64 + 8;

fn server(settings: &[(&str, &str)]) -> NameServer {
    let mut all = vec![("notifyMinBrokerIdChanged", "true"), ("supportActingMaster", "true")];
    all.extend(settings);
    ours::start(&Settings::with(&all))
}

fn member(group: &str, id: i64, addr: &str) -> Broker {
    Broker::new(group, id, addr, &["A", "B"]).with("enableActingMaster", "true")
}

fn listener() -> (TcpListener, String) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let addr = listener.local_addr().expect("its address").to_string();
    (listener, addr)
}

/// The next connection; `None` when none comes in time.
fn accepted(listener: &TcpListener, timeout: Duration) -> Option<Client> {
    listener.set_nonblocking(true).expect("non-blocking");
    let deadline = Instant::now() + timeout;
    while Instant::now() < deadline {
        if let Ok((stream, _)) = listener.accept() {
            stream.set_nonblocking(false).expect("blocking");
            return Some(Client::new(stream));
        }
        thread::sleep(Duration::from_millis(2));
    }
    None
}

fn is_notice(client: &mut Client) -> bool {
    match client.receive(Duration::from_secs(10)) {
        Received::Frame(bytes) => Frame::parse(&bytes).expect("a frame").code() == 905,
        _ => false,
    }
}

fn count(server: &NameServer, what: &str) -> usize {
    fs::read_dir(format!("/proc/{}/{what}", server.pid())).expect("Linux's /proc").count()
}

#[test]
fn a_broker_that_restarts_between_two_notices_gets_both() {
    let server = server(&[]);
    let mut client = Client::connect(server.addr());
    let (broker, addr) = listener();
    let master = member("g", 0, "127.0.0.1:1");
    assert_eq!(client.code(&member("g", 1, &addr).register()), 0);
    assert_eq!(client.code(&master.register()), 0);
    let mut before = accepted(&broker, Duration::from_secs(10)).expect("a connection");
    holds(ROW, "the first notice comes", is_notice(&mut before));
    drop(before);
    assert_eq!(client.code(&master.unregister()), 0);
    let mut after = accepted(&broker, Duration::from_secs(10)).expect("a new connection");
    holds(ROW, "the notice after a restart comes", is_notice(&mut after));
}

#[test]
fn only_addresses_that_registered_themselves_are_dialled() {
    for (allowed, is_dialled) in [("", false), ("127.0.0.1", true)] {
        let server = server(&[("notifyAllowCidrs", allowed)]);
        let mut stranger = Client::connect_from(Ipv4Addr::new(127, 0, 0, 2), server.addr());
        let (victim, addr) = listener();
        assert_eq!(stranger.code(&member("g", 1, &addr).register()), 0);
        assert_eq!(stranger.code(&member("g", 0, "127.0.0.2:1").register()), 0);
        let wait = if is_dialled { Duration::from_secs(10) } else { Duration::from_secs(1) };
        let what = format!("notifyAllowCidrs={allowed}: an address of somebody else is dialled: {is_dialled}");
        holds(ROW, &what, accepted(&victim, wait).is_some() == is_dialled);
    }
}

#[test]
fn the_server_does_not_dial_itself() {
    let server = server(&[("notifyAllowCidrs", "127.0.0.0/8")]);
    let mut client = Client::connect(server.addr());
    let (broker, addr) = listener();
    let own = server.addr().to_string();
    let mapped = format!("[::ffff:127.0.0.1]:{}", server.addr().port());
    let any = format!("0.0.0.0:{}", server.addr().port());
    for (id, addr) in [(1, &own), (2, &mapped), (3, &any), (4, &addr)] {
        assert_eq!(client.code(&member("g", id, addr).register()), 0);
    }
    let before = count(&server, "fd");
    assert_eq!(client.code(&member("g", 0, "127.0.0.1:1").register()), 0);
    let mut told = accepted(&broker, Duration::from_secs(10)).expect("the broker is told");
    assert!(is_notice(&mut told));
    thread::sleep(Duration::from_millis(300));
    at_most(ROW, "descriptors for a group with the server's own address", count(&server, "fd") - before, 1);
}

#[test]
fn thousands_of_addresses_and_names_cost_a_handful_of_connections() {
    const GROUPS: i64 = 256;
    const MEMBERS: i64 = 16;
    const NAMES: i64 = 1_000;
    let server = server(&[("notifyAllowCidrs", "127.0.0.0/8"), ("notifyHostNames", "true")]);
    let everywhere = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).expect("a port");
    let port = everywhere.local_addr().expect("its address").port();
    let told = Arc::new(AtomicUsize::new(0));
    let (keep, _kept) = mpsc::channel();
    let counted = Arc::clone(&told);
    thread::spawn(move || {
        for stream in everywhere.incoming().map_while(Result::ok) {
            counted.fetch_add(1, Ordering::Relaxed);
            if keep.send(stream).is_err() {
                return;
            }
        }
    });
    let mut client = Client::connect(server.addr());
    for group in 0..GROUPS {
        for id in 1..=MEMBERS {
            let addr = format!("127.{}.{id}.1:{port}", group % 200 + 1);
            assert_eq!(client.code(&member(&format!("a{group}"), id, &addr).register()), 0);
        }
    }
    for name in 0..NAMES {
        let (group, id) = (format!("n{}", name / MEMBERS), name % MEMBERS + 1);
        assert_eq!(client.code(&member(&group, id, &format!("host-{name}.invalid:10911")).register()), 0);
    }
    let (files, threads) = (count(&server, "fd"), count(&server, "task"));
    let groups = (0..GROUPS).map(|n| format!("a{n}")).chain((0..=NAMES / MEMBERS).map(|n| format!("n{n}")));
    for (group, port) in groups.zip(1..) {
        assert_eq!(client.code(&member(&group, 0, &format!("127.0.0.1:{port}")).register()), 0);
    }
    let (mut files_most, mut threads_most) = (0, 0);
    let ends = Instant::now() + Duration::from_secs(3);
    let mut round = 0;
    while Instant::now() < ends {
        files_most = files_most.max(count(&server, "fd"));
        threads_most = threads_most.max(count(&server, "task"));
        round += 1;
        let addr: SocketAddr = server.addr();
        assert_eq!(Client::connect(addr).code(&put_kv("ns", "key", &round.to_string())), 0, "a KV put");
        thread::sleep(Duration::from_millis(5));
    }
    at_most(ROW, "descriptors for 4,096 addresses", files_most.saturating_sub(files), FILES_MAX);
    at_most(ROW, "threads for 1,000 host names", threads_most.saturating_sub(threads), 1);
    let connections = told.load(Ordering::Relaxed);
    holds(ROW, "brokers beyond the first connections are told, too", connections > 200);
}
