//! Who is alive: idle connections, lost connections, jumping clocks and stopped processes.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::Value;

use crate::support::broker::{Broker, cluster_info, route};
use crate::support::frame::{ANSWER_TIMEOUT, Client, Received};
use crate::support::local::Local;
use crate::support::ours;
use crate::support::process::{NameServer, Settings};

const HOUR: Duration = Duration::from_secs(3_600);

fn broker(number: u32) -> Broker {
    Broker::new(&format!("b{number}"), 0, &format!("10.0.0.{number}:10911"), &["T", &format!("T{number}")])
}

/// Waits until the topic has no route any more and says how long that took.
fn gone_after(client: &mut Client, topic: &str, limit: Duration) -> Duration {
    let start = Instant::now();
    while client.code(&route(topic)) != 17 {
        assert!(start.elapsed() < limit, "{topic} is still routed after {limit:?}");
        thread::sleep(Duration::from_millis(1));
    }
    start.elapsed()
}

#[test]
fn silent_connections_are_closed_when_their_time_is_over() {
    let server = Local::start(&[("serverChannelMaxIdleTimeSeconds", "2")]);
    let start = Instant::now();
    let mut silent = Client::connect(server.addr());
    let mut stalled = Client::connect(server.addr());
    stalled.send(b"abc");
    let mut after_answer = Client::connect(server.addr());
    assert_eq!(after_answer.code(&route("T")), 17);
    let mut busy = Client::connect(server.addr());
    while start.elapsed() < Duration::from_millis(1_500) {
        assert_eq!(busy.code(&route("T")), 17);
        thread::sleep(Duration::from_millis(100));
    }
    for client in [&mut silent, &mut stalled, &mut after_answer] {
        assert!(client.is_closed_within(Duration::from_secs(3)), "open after {:?}", start.elapsed());
        assert!(start.elapsed() > Duration::from_secs(1), "closed after {:?}", start.elapsed());
        assert!(start.elapsed() < Duration::from_secs(4), "closed after {:?}", start.elapsed());
    }
    assert_eq!(busy.code(&route("T")), 17, "whoever speaks stays");
    assert_eq!(server.counts().get("timed_out.idle"), Some(&3));
}

/// Probes of load balancers connect and close, all day long.
#[test]
fn a_bare_connection_leaves_no_line_in_the_log() {
    let server = ours::start(&Settings::default());
    let before = server.output();
    assert!(before.contains("serving"), "the log is seen");
    for _ in 0..20 {
        drop(Client::connect(server.addr()));
    }
    // Served after them.
    assert_eq!(Client::connect(server.addr()).code(&route("T")), 17);
    thread::sleep(Duration::from_millis(100));
    assert_eq!(server.output(), before);
}

#[test]
fn a_lost_connection_takes_its_brokers_with_it_at_once() {
    let server = Local::start(&[]);
    let mut client = Client::connect(server.addr());
    let mut fastest = Duration::MAX;
    for _ in 0..5 {
        let mut connection = Client::connect(server.addr());
        for number in 1..=3 {
            assert_eq!(connection.code(&broker(number).register()), 0);
        }
        assert_eq!(client.code(&route("T")), 0);
        drop(connection);
        fastest = fastest.min(gone_after(&mut client, "T", Duration::from_secs(5)));
        assert_eq!(client.call(&cluster_info()).text(), r#"{"brokerAddrTable":{},"clusterAddrTable":{}}"#);
    }
    // The best of five: what else the machine does is not measured.
    assert!(fastest < Duration::from_millis(50), "gone after {fastest:?}");
    server.wait_for("broker_removed.connection_lost", 15);
}

#[test]
fn the_late_end_of_an_old_connection_takes_nobody_with_it() {
    let server = Local::start(&[]);
    let mut client = Client::connect(server.addr());
    let mut old = Client::connect(server.addr());
    assert_eq!(old.code(&broker(1).register()), 0);
    assert_eq!(old.code(&broker(2).register()), 0);
    let mut new = Client::connect(server.addr());
    // The same registration, byte for byte: it is recognised, and moves to the new connection all the same.
    assert_eq!(new.code(&broker(1).register()), 0);
    drop(old);
    gone_after(&mut client, "T2", Duration::from_secs(5));
    assert_eq!(client.code(&route("T1")), 0, "the broker lives on its new connection");
    drop(new);
    gone_after(&mut client, "T1", Duration::from_secs(5));
}

#[test]
fn jumps_of_the_wall_clock_expire_nobody() {
    if faketime().is_none() {
        eprintln!("SKIPPED jumps_of_the_wall_clock_expire_nobody: faketime is not installed");
        return;
    }
    fn in_fake_time(home: &Path, file: &Path, settings: &Settings) -> Command {
        fs::write(home.join("time"), "+0").expect("write the time");
        let mut command = ours::launch(home, file, settings);
        // Without its launcher, which would leave the server behind when it is killed.
        command.env("LD_PRELOAD", faketime().expect("it is installed"));
        command.env("FAKETIME_DONT_FAKE_MONOTONIC", "1").env("FAKETIME_NO_CACHE", "1");
        command.env("FAKETIME_TIMESTAMP_FILE", home.join("time"));
        command
    }
    let settings = Settings::with(&[("scanNotActiveBrokerInterval", "50")]);
    let server = NameServer::start(in_fake_time, &settings);
    let mut client = Client::connect(server.addr());
    assert_eq!(client.code(&broker(1).register()), 0);
    for (offset, sign) in [("+1h", 1), ("-1h", -1), ("+0", 0)] {
        fs::write(server.home().join("time"), offset).expect("write the time");
        let seen = wall_clock(&mut client, 2 + sign);
        let now = i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_millis());
        let expected = now.expect("a time") + sign * i64::try_from(HOUR.as_millis()).expect("an hour");
        assert!((seen - expected).abs() < 60_000, "the server's wall clock jumped by {offset}: {}", seen - expected);
        // Several scans.
        thread::sleep(Duration::from_millis(300));
        assert_eq!(client.code(&route("T1")), 0, "nobody expired after {offset}");
    }
}

/// The library that fakes the time, as its launcher says.
fn faketime() -> Option<String> {
    let output = Command::new("faketime").args(["-m", "-f", "+0", "sh", "-c", "echo $LD_PRELOAD"]).output().ok()?;
    let path = String::from_utf8(output.stdout).ok()?;
    Some(path.trim().to_string()).filter(|path| !path.is_empty())
}

/// The time that the server gives a registration that has none.
fn wall_clock(client: &mut Client, counter: i64) -> i64 {
    let timeless = broker(9);
    let mut body = timeless.body();
    body["topicConfigSerializeWrapper"]["dataVersion"] = serde_json::json!({"counter": counter});
    assert_eq!(client.code(&timeless.register_body(body.to_string().into_bytes())), 0);
    let known = client.call(&timeless.query_version()).body.expect("the version that is known");
    let known: Value = serde_json::from_slice(&known).expect("JSON");
    known["timestamp"].as_i64().expect("a number")
}

/// The process is stopped for longer than the heartbeat timeout, while heartbeats arrive and wait.
#[test]
fn a_pause_of_the_process_expires_nobody_who_spoke() {
    let server = ours::start(&Settings::with(&[("scanNotActiveBrokerInterval", "500")]));
    let mut client = Client::connect(server.addr());
    let mut alive: Vec<(Broker, Client)> = (1..=20)
        .map(|number| {
            let broker = broker(number).with("heartbeatTimeoutMillis", "1000");
            (broker, Client::connect(server.addr()))
        })
        .collect();
    for (broker, connection) in &mut alive {
        assert_eq!(connection.code(&broker.register()), 0);
    }
    let dead = broker(99).with("heartbeatTimeoutMillis", "1000");
    assert_eq!(client.code(&dead.register()), 0);

    server.signal("STOP");
    thread::sleep(Duration::from_millis(1_800));
    // Each heartbeat has to wait for lookups before it: a scan that does not wait comes first.
    let before = cluster_info().encode().repeat(30);
    for (broker, connection) in &mut alive {
        connection.send(&before);
        connection.send(&broker.heartbeat().encode());
    }
    server.signal("CONT");
    for (_, connection) in &mut alive {
        for _ in 0..31 {
            assert!(matches!(connection.receive(ANSWER_TIMEOUT), Received::Frame(_)));
        }
    }
    let resumed = Instant::now();
    while resumed.elapsed() < Duration::from_secs(2) {
        for (broker, connection) in &mut alive {
            assert_eq!(connection.code(&broker.heartbeat()), 0);
        }
        let lost = alive.iter().filter(|(broker, _)| client_lost(&mut client_of(&server), broker)).count();
        assert_eq!(lost, 0, "{:?} after the pause", resumed.elapsed());
    }
    // Grace is for one round only.
    gone_after(&mut client_of(&server), "T99", Duration::from_secs(5));
}

fn client_of(server: &NameServer) -> Client {
    Client::connect(server.addr())
}

fn client_lost(client: &mut Client, broker: &Broker) -> bool {
    client.code(&route(&broker.topics[1].name)) != 0
}

#[test]
fn timeouts_that_brokers_ask_for_are_bounded() {
    let server = Local::start(&[("scanNotActiveBrokerInterval", "200")]);
    // Each on a connection of its own: whoever expires loses it.
    let register = |number: u32, timeout: &str| {
        let mut connection = Client::connect(server.addr());
        let broker = broker(number).with("heartbeatTimeoutMillis", timeout);
        let start = Instant::now();
        assert_eq!(connection.code(&broker.register()), 0);
        (start, connection)
    };
    let (start, mut shortest) = register(1, "1000");
    let others: Vec<_> = [(2, "0"), (3, "-1"), (4, "-9223372036854775808")]
        .map(|(number, timeout)| (format!("T{number}"), register(number, timeout)))
        .into();
    let forever = register(5, "9223372036854775807");
    let default = register(6, "none");
    let mut client = Client::connect(server.addr());
    // Three scans, and none of them is removed at once.
    while start.elapsed() < Duration::from_millis(700) {
        for number in 1..=6 {
            assert_eq!(client.code(&route(&format!("T{number}"))), 0, "T{number} after {:?}", start.elapsed());
        }
        thread::sleep(Duration::from_millis(20));
    }
    gone_after(&mut client, "T1", Duration::from_secs(5));
    let lasted = start.elapsed();
    assert!(lasted > Duration::from_millis(950), "gone after {lasted:?}");
    assert!(lasted < Duration::from_millis(2_500), "gone after {lasted:?}");
    assert!(shortest.is_closed_within(Duration::from_secs(2)), "its connection is closed");
    for (topic, (start, _connection)) in &others {
        gone_after(&mut client, topic, Duration::from_secs(5));
        assert!(start.elapsed() > Duration::from_millis(950), "{topic}: a second is the least");
    }
    for (number, (_, connection)) in [(5, forever), (6, default)] {
        assert_eq!(client.code(&route(&format!("T{number}"))), 0);
        connection.stream().set_nonblocking(true).expect("non-blocking");
        let error = connection.stream().peek(&mut [0]).expect_err("no end of the connection");
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
    }
    server.wait_for("broker_removed.expired", 4);
}
