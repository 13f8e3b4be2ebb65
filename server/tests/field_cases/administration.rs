//! What operators ran into: permissions, acting masters, readiness, KV.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::broker::{Broker, cluster_info, get_kv, put_kv, request, route};
use crate::support::frame::{Client, fields};
use crate::support::local::Local;
use crate::{perm_and_queues, route_of};

/// Case 43: a slave stands in for its master, in the order in which everything went wrong.
#[test]
fn an_acting_master_is_read_only_and_steps_back() {
    const SYNC: &str = "rmq_sys_SYNC_BROKER_MEMBER_b";
    let server = Local::start(&[("supportActingMaster", "true")]);
    let mut client = Client::connect(server.addr());
    let member = |id: i64, counter: i64| {
        let broker = Broker::new("b", id, &format!("10.0.0.{id}:1"), &["T", SYNC]).at(counter);
        broker.with("enableActingMaster", "true")
    };
    let mut seen = |step: &str, perm: i64, addrs: serde_json::Value, raw: serde_json::Value| {
        let (is, _) = perm_and_queues(&mut client, "T");
        assert_eq!(is, perm, "{step}");
        assert_eq!(route_of(&mut client, "T")["brokerDatas"][0]["brokerAddrs"], addrs, "{step}");
        assert_eq!(route_of(&mut client, SYNC)["brokerDatas"][0]["brokerAddrs"], raw, "{step}");
    };
    let mut slave = Client::connect(server.addr());
    let mut master = Client::connect(server.addr());
    let (promoted, alone) = (json!({"0": "10.0.0.1:1"}), json!({"1": "10.0.0.1:1"}));
    let both = json!({"0": "10.0.0.0:1", "1": "10.0.0.1:1"});
    assert_eq!(slave.code(&member(1, 1).register()), 0);
    seen("the slave alone", 4, promoted.clone(), alone.clone());
    assert_eq!(master.code(&member(0, 1).register()), 0);
    seen("its master has come", 6, both.clone(), both.clone());
    assert_eq!(slave.code(&member(1, 1).register()), 0);
    seen("the slave registers again", 6, both.clone(), both.clone());
    assert_eq!(slave.code(&member(1, 2).register()), 0);
    seen("the slave has a newer table", 6, both.clone(), both.clone());
    assert_eq!(master.code(&member(0, 1).unregister()), 0);
    seen("the master has left", 4, promoted.clone(), alone.clone());
    assert_eq!(master.code(&member(0, 1).register()), 0);
    seen("the master is back", 6, both.clone(), both);
    let lost = Instant::now();
    drop(master);
    while perm_and_queues(&mut slave, "T").0 == 6 {
        assert!(lost.elapsed() < Duration::from_secs(5), "the lost master is still there");
    }
    seen("the master is lost", 4, promoted, alone);
}

/// Case 44: write permission is wiped, stays wiped, and comes back as 6.
#[test]
fn a_wiped_permission_survives_heartbeats() {
    let server = Local::start(&[]);
    let mut client = Client::connect(server.addr());
    let mut broker = Broker::new("b", 0, "10.0.0.1:1", &["rw", "r", "inherit"]);
    for (topic, perm) in broker.topics.iter_mut().zip([6, 4, 7]) {
        topic.perm = perm;
    }
    let perms = |client: &mut Client| ["rw", "r", "inherit"].map(|topic| perm_and_queues(client, topic).0);
    let count = |client: &mut Client, code: i32, name: &str| {
        let answer = client.call(&request(code, &[("brokerName", name)]));
        assert_eq!(answer.code(), 0);
        fields(&answer).into_iter().collect::<Vec<_>>()
    };
    let number = |key: &str, value: &str| vec![(key.to_string(), value.to_string())];
    assert_eq!(client.code(&broker.register()), 0);
    assert_eq!(perms(&mut client), [6, 4, 7]);
    assert_eq!(count(&mut client, 205, "nobody"), number("wipeTopicCount", "0"));
    assert_eq!(count(&mut client, 205, "b"), number("wipeTopicCount", "3"));
    assert_eq!(perms(&mut client), [4, 4, 5]);
    // All that a broker says every few seconds, with the data version that it had.
    for request in [broker.register(), broker.heartbeat(), broker.query_version(), broker.register()] {
        assert_eq!(client.code(&request), 0);
        assert_eq!(perms(&mut client), [4, 4, 5]);
    }
    assert_eq!(count(&mut client, 327, "b"), number("addTopicCount", "3"));
    assert_eq!(perms(&mut client), [6, 6, 6], "bit for bit as the original");
    assert_eq!(client.code(&broker.at(2).register()), 0);
    assert_eq!(perms(&mut client), [6, 4, 7]);
}

/// Case 45: a changed permission is in the next route.
#[test]
fn a_changed_permission_is_in_the_next_route() {
    let server = Local::start(&[]);
    let mut client = Client::connect(server.addr());
    let mut broker = Broker::new("b", 0, "10.0.0.1:1", &["T", "U"]);
    for counter in 1..50 {
        let perm = if counter % 2 == 0 { 4 } else { 6 };
        broker.topics[0].perm = perm;
        assert_eq!(client.code(&broker.clone().at(counter).register()), 0);
        assert_eq!(perm_and_queues(&mut client, "T").0, perm);
    }
}

/// Case 50: a key that is none stops nobody from starting.
#[test]
fn a_value_without_a_key_is_not_stored() {
    let server = Local::start(&[]);
    let mut client = Client::connect(server.addr());
    let without = |absent: &str| {
        let mut request = put_kv("ORDER_TOPIC_CONFIG", "T", "b:4");
        request.fields.retain(|(key, _)| key != absent);
        request
    };
    for absent in ["key", "namespace"] {
        let answer = client.call(&without(absent));
        assert_eq!((answer.code(), answer.remark()), (1, Some("namespace or key is null")), "{absent}");
    }
    let list = request(219, &[("namespace", "ORDER_TOPIC_CONFIG")]);
    assert_eq!(client.code(&list), 22, "the namespace does not exist");
    let broker = Broker::new("b", 0, "10.0.0.1:1", &["T", "U"]);
    assert_eq!(client.call(&broker.register()).body, None, "nothing to tell the broker");
    assert!(!server.home().join("kvConfig.json").exists(), "nothing to store");

    // No value is no key, but the namespace exists from then on.
    assert_eq!(client.code(&without("value")), 0);
    assert_eq!(client.code(&get_kv("ORDER_TOPIC_CONFIG", "T")), 22);
    assert_eq!(client.call(&list).text(), r#"{"table":{}}"#);
    assert_eq!(client.call(&broker.register()).text(), r#"{"table":{}}"#);
    assert_eq!(client.code(&put_kv("ORDER_TOPIC_CONFIG", "T", "b:4")), 0);
    assert_eq!(client.call(&broker.register()).text(), r#"{"table":{"T":"b:4"}}"#);
}

/// Case 52: a server that has just started does not tell clients that their topics do not exist.
#[test]
fn a_server_that_is_not_ready_says_so() {
    let server = Local::start(&[("needWaitForService", "true"), ("waitSecondsForService", "2")]);
    let start = Instant::now();
    let mut client = Client::connect(server.addr());
    let broker = Broker::new("b", 0, "10.0.0.1:1", &["T", "U"]);
    for topic in ["T", "unknown"] {
        let answer = client.call(&route(topic));
        assert_eq!((answer.code(), answer.remark()), (1, Some("name server not ready")), "{topic}");
    }
    assert_eq!(client.code(&broker.register()), 0, "brokers are welcome");
    assert_eq!(client.code(&cluster_info()), 0);
    assert_eq!(client.code(&route("T")), 1, "registered or not");
    while client.code(&route("T")) == 1 {
        assert!(start.elapsed() < Duration::from_secs(4), "not ready after {:?}", start.elapsed());
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(start.elapsed() > Duration::from_millis(1_500), "ready after {:?}", start.elapsed());
    assert_eq!((client.code(&route("T")), client.code(&route("unknown"))), (0, 17), "and it stays so");
}
