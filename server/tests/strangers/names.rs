//! Names without end, and what they do to the answers that others get.

use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::peers::{MIB, source};
use crate::report::{at_most, holds};
use crate::support::broker::{Broker, Parts, Topic, cluster_info, get_kv, put_kv, request, route};
use crate::support::frame::{Client, Frame, Received, Request};
use crate::support::ours;
use crate::support::process::Settings;

/// Java clients read no longer frame.
const FRAME_BYTES_MAX: usize = 16 << 20;
const LONG: usize = 1_025;

fn long() -> String {
    "x".repeat(LONG)
}

fn broker(name: &str) -> Broker {
    Broker::new(name, 0, "10.0.0.1:10911", &["T", "U"])
}

/// A registration whose body has something else in its wrapper.
fn wrapped(change: impl FnOnce(&mut Value)) -> Request {
    let mut body = broker("b").body();
    change(&mut body);
    broker("b").register_body(body.to_string().into_bytes())
}

fn mapped(mapping: Value) -> Request {
    wrapped(|body| body["topicConfigSerializeWrapper"]["topicQueueMappingInfoMap"] = json!({ "T": mapping }))
}

/// Everything that brings a name, with one that is too long.
fn requests_with_long_names() -> Vec<(&'static str, Request)> {
    let long = long();
    let topic = Topic { name: long.clone(), queues: 8, perm: 6 };
    let with_topic = Broker { topics: vec![topic.clone(), topic], ..broker("b") };
    let queues = json!({"queueDatas": [{"brokerName": "known", "perm": 6, "readQueueNums": 8, "writeQueueNums": 8}]});
    let queues_of_long = json!({"queueDatas": [{"brokerName": long, "perm": 6}]});
    let ids: serde_json::Map<String, Value> = (0..20_000).map(|id| (id.to_string(), json!(id))).collect();
    vec![
        ("103 cluster", Broker { cluster: long.clone(), ..broker("b") }.register()),
        ("103 broker name", broker(&long).register()),
        ("103 address", Broker { addr: long.clone(), ..broker("b") }.register()),
        ("103 zone", broker("b").with("__ZONE_NAME", &long).register()),
        ("103 HA address", broker("b").with("haServerAddr", &long).register()),
        ("103 topic", with_topic.register()),
        ("103 compressed topic", with_topic.register_body(with_topic.parts().zlib()).with("compressed", "true")),
        ("103 filter server", wrapped(|body| body["filterServerList"] = json!([long]))),
        ("103 broker name of a mapping", mapped(json!({"bname": long, "topic": "T"}))),
        ("103 scope of a mapping", mapped(json!({"bname": "b", "scope": long}))),
        ("103 topic of a mapping", mapped(json!({"bname": "b", "topic": long}))),
        ("103 queues of a mapping", mapped(json!({"bname": "b", "currIdMap": ids}))),
        ("217 topic", Request { body: queues.to_string().into(), ..request(217, &[("topic", &long)]) }),
        ("217 broker name", Request { body: queues_of_long.to_string().into(), ..request(217, &[("topic", "T")]) }),
        ("100 namespace", put_kv(&long, "key", "value")),
        ("100 key", put_kv("namespace", &long, "value")),
        ("100 value", put_kv("namespace", "key", &"x".repeat(65_537))),
    ]
}

#[test]
fn every_name_meets_its_limit_before_it_is_kept() {
    // Headers of 1 MiB, so that the limits of names are what ends them.
    let server = ours::start(&Settings::with(&[("headerBytesMax", "1048576"), ("adminAllowCidrs", "127.0.0.0/8")]));
    let mut client = Client::connect(server.addr());
    let known = Broker::new("known", 0, "10.0.0.9:10911", &["T", "U"]);
    assert_eq!(client.code(&known.register()), 0);
    let everything = [cluster_info(), request(206, &[]), route("T"), route(&long()), get_kv("namespace", "key")];
    let state = |client: &mut Client| everything.clone().map(|question| client.call(&question).text());
    let before = state(&mut client);
    let mut kept = Vec::new();
    for (what, request) in requests_with_long_names() {
        let code = Client::connect(server.addr()).code(&request);
        // 217 for brokers that nobody knows is answered as by the original, and ignored.
        if (code == 0 && what != "217 broker name") || state(&mut client) != before {
            kept.push(what);
        }
    }
    println!("kept: {kept:?}");
    at_most("2", "of 17 names that are too long, kept", kept.len(), 0);

    // What only names something keeps nothing, however long.
    let resident = server.memory("VmRSS");
    let long = "x".repeat(60_000);
    let unknown = Broker { cluster: long.clone(), addr: long.clone(), ..broker(&long) };
    for _ in 0..200 {
        for request in [
            unknown.unregister(),
            unknown.heartbeat(),
            unknown.query_version(),
            request(205, &[("brokerName", &long)]),
            request(327, &[("brokerName", &long)]),
            request(216, &[("topic", &long), ("clusterName", &long)]),
            request(102, &[("namespace", &long), ("key", &long)]),
            request(224, &[("cluster", &long)]),
            request(901, &[("clusterName", &long), ("brokerName", &long)]),
            route(&long),
        ] {
            client.call(&request);
        }
    }
    assert_eq!(state(&mut client), before);
    let grown = server.memory("VmRSS").saturating_sub(resident) / MIB;
    at_most("2", "MiB after 2,000 requests that name what nobody knows, 200 MB on the wire", grown, 32);
}

/// Strangers found groups that serve a topic of somebody else, join its broker's group, and bring mappings, each as large
/// as it may be.
#[test]
fn strangers_do_not_push_a_route_or_the_list_of_groups_over_what_clients_read() {
    const GROUPS: usize = 2_600;
    let server = ours::start(&Settings::default());
    let mut client = Client::connect(server.addr());
    let victim = Broker::new("victim", 0, "10.0.0.9:10911", &["T", "U"]);
    assert_eq!(client.code(&victim.register()), 0);
    let mut connections = Vec::new();
    for number in 3..6 {
        let mut stranger = Client::connect_from(source(number), server.addr());
        for group in 0..GROUPS {
            // Each byte takes six in an answer.
            let name = format!("{number}-{group}-{}", "\u{1}".repeat(170));
            let addr = format!("10.0.{number}.1:{group}{}", "y".repeat(150));
            let broker = Broker { addr, ..Broker::new(&name, 0, "", &["T", "U"]) };
            stranger.send(&broker.with("enableActingMaster", "true").register().encode());
            // In the socket there is room for more.
            if group % 50 == 49 {
                (0..50).for_each(|_| drop(stranger.receive(Duration::from_secs(20))));
            }
        }
        let slaves: Vec<_> = (1..20).map(|id| Broker { id, ..slave(&victim, id, 500) }).collect();
        for slave in slaves {
            stranger.call(&slave.register());
        }
        let ids: serde_json::Map<String, Value> = (0..2_400).map(|id| (id.to_string(), json!(id))).collect();
        for group in 0..40 {
            let mut body = broker("m").body();
            body["topicConfigSerializeWrapper"]["topicQueueMappingInfoMap"] =
                json!({"T": {"bname": format!("{number}-{group}"), "currIdMap": ids}});
            let broker = Broker::new(&format!("m-{number}-{group}"), 0, &format!("10.0.{number}.2:{group}"), &[]);
            stranger.call(&broker.register_body(body.to_string().into_bytes()));
        }
        connections.push(stranger);
    }
    for (what, question) in [("the victim's route", route("T")), ("the list of groups", cluster_info())] {
        let answer = client.call(&question);
        let text = answer.text();
        holds("2", &format!("{what} has the victim"), answer.code() == 0 && text.contains("10.0.0.9:10911"));
        at_most("2", &format!("bytes of {what} among strangers"), answer.bytes.len(), FRAME_BYTES_MAX);
    }
    let route = client.call(&route("T")).bytes.len();
    holds("2", "the strangers have done what they could", route > 4_000_000);
    assert_eq!(client.code(&victim.at(2).register()), 0, "the victim itself goes on");
}

fn slave(master: &Broker, id: i64, bytes: usize) -> Broker {
    Broker { id, addr: format!("{id:x<bytes$}"), topics: vec![], ..master.clone() }
}

/// Little on the wire that becomes much: names as long as they may be, compressed. Somebody asks for the list of them.
#[test]
fn long_names_in_compressed_registrations_take_little_and_hold_nobody_up() {
    const TOPICS: usize = 40_000;
    let server = ours::start(&Settings::default());
    let mut client = Client::connect(server.addr());
    assert_eq!(client.code(&broker("known").register()), 0);
    let before = server.memory("VmRSS");
    let mut connections = Vec::new();
    for number in 3..9 {
        let mut stranger = Client::connect_from(source(number), server.addr());
        let name = format!("stranger-{number}");
        let mut large = Broker::new(&name, 0, &format!("10.0.{number}.1:10911"), &["V", "W"]);
        assert_eq!(stranger.code(&large.register()), 0);
        // A known broker, whose topics are taken while there is room.
        large.counter = 2;
        let mut parts = Parts::default().text(&large.data_version().to_string()).number(TOPICS as i32);
        for topic in 0..TOPICS {
            parts = parts.text(&format!("{number}-{topic}-{:z<1000} 8 8 6 SINGLE_TAG", ""));
        }
        let body = parts.text("[]").number(0).zlib();
        println!("{} bytes on the wire", body.len());
        stranger.send(&large.register_body(body).with("compressed", "true").encode());
        let Received::Frame(answer) = stranger.receive(Duration::from_secs(30)) else { panic!("no answer") };
        println!("{}", Frame::parse(&answer).expect("a frame").show());
        connections.push(stranger);
    }
    thread::sleep(Duration::from_secs(1));
    let grown = server.memory("VmRSS").saturating_sub(before) / MIB;
    at_most("2", "MiB after registrations with 240 MB of names", grown, 256);
    let mut asking = Client::connect_from(source(9), server.addr());
    asking.send(&request(206, &[]).encode());
    let mut longest = Duration::ZERO;
    for _ in 0..300 {
        let start = std::time::Instant::now();
        assert_eq!(client.code(&route("T")), 0);
        longest = longest.max(start.elapsed());
        thread::sleep(Duration::from_millis(1));
    }
    at_most("2", "ms for a lookup while all these names are listed", crate::peers::millis(longest), 1_000);
    let Received::Frame(list) = asking.receive(Duration::from_secs(30)) else { panic!("no list") };
    // Longer than the client of the tests reads: the length word says it.
    let bytes = u32::from_be_bytes(list[..4].try_into().expect("four bytes"));
    assert!(bytes > 60 << 20, "the list is full, not of {bytes} bytes");
    at_most("2", "bytes of the list of all topics", bytes, (64 << 20) + 200);
}
