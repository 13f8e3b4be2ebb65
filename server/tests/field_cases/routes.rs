//! Lost, stale and torn routes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::broker::{Broker, cluster_info, request, route, update_config};
use crate::support::frame::{Client, Request};
use crate::support::local::Local;
use crate::{assert_empty, clusters_of, perm_and_queues, route_of};

/// How long the tests with concurrent writers run.
const CHURN: Duration = Duration::from_millis(1_500);

fn broker(name: &str, id: i64, addr: &str) -> Broker {
    Broker::new(name, id, addr, &["T", "U"])
}

fn start() -> (Local, Client) {
    let server = Local::start(&[]);
    let client = Client::connect(server.addr());
    (server, client)
}

/// Case 1: the end of the old connection, noticed late, takes the reconnected broker with it.
#[test]
fn a_broker_that_reconnects_is_not_lost() {
    let (server, mut client) = start();
    let registration = broker("b", 0, "10.0.0.1:1").register();
    let mut connection = Client::connect(server.addr());
    assert_eq!(connection.code(&registration), 0);
    let mut lost = 0;
    for _ in 0..300 {
        drop(connection);
        connection = Client::connect(server.addr());
        assert_eq!(connection.code(&registration), 0);
        lost += (0..3).filter(|_| client.code(&route("T")) != 0).count();
    }
    thread::sleep(Duration::from_millis(100));
    lost += usize::from(client.code(&route("T")) != 0);
    assert_eq!(lost, 0, "lookups without the broker");
}

/// A registration that is still on its way through the server when its sender has gone.
#[test]
fn a_registration_without_its_connection_leaves_nothing() {
    let (server, mut client) = start();
    for number in 0..100 {
        let mut connection = Client::connect(server.addr());
        let broker = broker(&format!("b{number}"), 0, &format!("10.0.0.1:{number}"));
        connection.send(&broker.register().encode());
    }
    // What comes after them has found them done.
    thread::sleep(Duration::from_millis(100));
    wait_until_empty(&mut client, Duration::from_secs(5));
    let removed = server.counts();
    assert!(removed.get("broker_removed.connection_lost").is_some_and(|&number| number > 50), "{removed:?}");
}

/// Case 2: an unregistration of a former id, at the address of what is now the master.
#[test]
fn an_unregistration_of_a_former_id_spares_the_new_one() {
    let (_server, mut client) = start();
    assert_eq!(client.code(&broker("a", 1, "10.0.0.1:1").register()), 0);
    assert_eq!(client.code(&broker("a", 0, "10.0.0.1:1").register()), 0);
    assert_eq!(client.code(&broker("a", 1, "10.0.0.1:1").unregister()), 0);
    assert_eq!(route_of(&mut client, "T")["brokerDatas"][0]["brokerAddrs"], json!({"0": "10.0.0.1:1"}));
}

/// Case 3: one address under two names.
#[test]
fn a_renamed_broker_leaves_no_ghost() {
    let (server, mut client) = start();
    let mut connection = Client::connect(server.addr());
    for name in ["old", "new"] {
        assert_eq!(connection.code(&Broker::new(name, 0, "10.0.0.1:1", &[name, "x"]).register()), 0);
    }
    drop(connection);
    wait_until_empty(&mut client, Duration::from_secs(5));
    assert_eq!((client.code(&route("old")), client.code(&route("new"))), (17, 17));
}

/// Case 4: a container of brokers is lost with its connection, not one broker of it.
#[test]
fn all_brokers_of_lost_connections_go_at_once() {
    let (server, mut client) = start();
    let mut connections: Vec<Client> = (0..8).map(|_| Client::connect(server.addr())).collect();
    for number in 0..300 {
        let broker = broker(&format!("b{number}"), 0, &format!("10.0.0.1:{number}"));
        assert_eq!(connections[number % 8].code(&broker.register()), 0);
    }
    assert_eq!(clusters_of(&mut client)["brokerAddrTable"].as_object().expect("a table").len(), 300);
    drop(connections);
    let took = wait_until_empty(&mut client, Duration::from_secs(10));
    assert!(took < Duration::from_secs(1), "{took:?} for 300 brokers");
    assert_eq!(client.code(&route("T")), 17);
}

fn wait_until_empty(client: &mut Client, limit: Duration) -> Duration {
    let start = Instant::now();
    while client.call(&cluster_info()).text() != r#"{"brokerAddrTable":{},"clusterAddrTable":{}}"# {
        assert!(start.elapsed() < limit, "left after {limit:?}: {}", client.call(&cluster_info()).text());
    }
    start.elapsed()
}

/// Case 5: 106 while brokers come and go.
#[test]
fn cluster_info_is_never_torn() {
    let (server, mut client) = start();
    let done = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = (0..3)
        .map(|writer| {
            let (addr, done) = (server.addr(), Arc::clone(&done));
            thread::spawn(move || {
                let mut connection = Client::connect(addr);
                let brokers: Vec<Broker> = (0..4)
                    .map(|id| broker(&format!("b{writer}-{}", id % 2), id, &format!("10.0.{writer}.{id}:1")))
                    .collect();
                while !done.load(Ordering::Relaxed) {
                    for broker in &brokers {
                        assert_eq!(connection.code(&broker.register()), 0);
                    }
                    for broker in &brokers {
                        assert_eq!(connection.code(&broker.unregister()), 0);
                    }
                }
            })
        })
        .collect();
    let start = Instant::now();
    let (mut reads, mut seen) = (0, 0);
    while start.elapsed() < CHURN {
        let info = clusters_of(&mut client);
        let brokers = info["brokerAddrTable"].as_object().expect("a table");
        let listed = info["clusterAddrTable"].as_object().expect("a table");
        let listed: Vec<&str> = listed
            .values()
            .flat_map(|names| names.as_array().expect("a list"))
            .map(|name| name.as_str().expect("a name"))
            .collect();
        assert_eq!(brokers.keys().map(String::as_str).collect::<Vec<_>>(), listed, "{info}");
        assert!(brokers.values().all(|broker| broker["brokerAddrs"] != json!({})), "{info}");
        (reads, seen) = (reads + 1, seen + brokers.len());
    }
    done.store(true, Ordering::Relaxed);
    writers.into_iter().for_each(|writer| writer.join().expect("all are answered"));
    assert!(reads > 20 && seen > 0, "{reads} answers with {seen} brokers");
}

/// Case 6: two lookups after each other never see an older state in the second one, nor two states in one.
#[test]
fn lookups_of_two_topics_do_not_travel_in_time() {
    const TOPICS: usize = 100;
    let (server, mut client) = start();
    let done = Arc::new(AtomicBool::new(false));
    let acknowledged = Arc::new(AtomicI64::new(0));
    let names: Vec<String> = (0..TOPICS).map(|number| format!("T{number}")).collect();
    let writer = {
        let (addr, done, acknowledged, names) =
            (server.addr(), Arc::clone(&done), Arc::clone(&acknowledged), names.clone());
        thread::spawn(move || {
            let mut connection = Client::connect(addr);
            let topics: Vec<&str> = names.iter().map(String::as_str).collect();
            for version in 1.. {
                if done.load(Ordering::Relaxed) {
                    return;
                }
                let mut broker = Broker::new("b", 0, &format!("10.0.0.1:{version}"), &topics).at(version);
                broker.topics.iter_mut().for_each(|topic| topic.queues = version);
                assert_eq!(connection.code(&broker.register()), 0);
                acknowledged.store(version, Ordering::SeqCst);
            }
        })
    };
    while acknowledged.load(Ordering::SeqCst) == 0 {
        thread::sleep(Duration::from_millis(1));
    }
    let mut version_of = |topic: &str| {
        let route = route_of(&mut client, topic);
        let queues = route["queueDatas"][0]["readQueueNums"].as_i64().expect("a number");
        let addr = route["brokerDatas"][0]["brokerAddrs"]["0"].as_str().expect("an address");
        assert_eq!(addr, format!("10.0.0.1:{queues}"), "one state in one answer");
        queues
    };
    let start = Instant::now();
    let (mut reads, mut last) = (0, 0);
    while start.elapsed() < CHURN {
        let before = acknowledged.load(Ordering::SeqCst);
        for topic in [&names[0], &names[TOPICS - 1], &names[reads % TOPICS]] {
            let version = version_of(topic);
            assert!(version >= before, "{topic}: {version} after {before} was acknowledged");
            assert!(version >= last, "{topic}: {version} after {last} was seen");
            last = version;
        }
        reads += 1;
    }
    done.store(true, Ordering::Relaxed);
    writer.join().expect("all are answered");
    assert!(reads > 20 && last > 5, "{reads} rounds, {last} versions");
}

/// Case 7: what was acknowledged is in effect, on every connection.
#[test]
fn an_acknowledged_unregistration_is_in_effect() {
    let (server, mut client) = start();
    let mut connection = Client::connect(server.addr());
    let broker = broker("b", 0, "10.0.0.1:1");
    for _ in 0..200 {
        assert_eq!(connection.code(&broker.register()), 0);
        assert_eq!(client.code(&route("T")), 0);
        assert_eq!(connection.code(&broker.unregister()), 0);
        assert_eq!(client.code(&route("T")), 17);
    }
}

/// Case 9: an unregistration that names another cluster has no effect or the whole one.
#[test]
fn an_unregistration_of_another_cluster_is_not_half_done() {
    let (_server, mut client) = start();
    let good = broker("b", 0, "10.0.0.1:1");
    assert_eq!(client.code(&good.register()), 0);
    let mut other = good.clone();
    other.cluster = "other".into();
    assert_eq!(client.code(&other.unregister()), 0);
    let is_routed = client.code(&route("T")) == 0;
    let info = clusters_of(&mut client);
    let is_listed = info["clusterAddrTable"]["DefaultCluster"] == json!(["b"]);
    let is_known = info["brokerAddrTable"]["b"]["brokerAddrs"]["0"] == "10.0.0.1:1";
    let version = client.call(&good.query_version());
    let is_live = version.header["extFields"]["changed"] == "false";
    assert!([is_listed, is_known, is_live].iter().all(|&is| is == is_routed), "{info}, {}", version.show());
    assert_eq!(client.code(&good.unregister()), 0);
    assert_empty(&mut client);
}

/// Case 10: a first registration with one topic only is refused without a trace.
#[test]
fn a_first_registration_with_one_topic_leaves_no_ghost() {
    let (server, mut client) = start();
    let answer = client.call(&Broker::new("a", 0, "10.0.0.1:1", &["T"]).register());
    assert_eq!((answer.code(), answer.remark()), (1, Some("register broker failed")));
    assert_empty(&mut client);
    assert_eq!(server.counts().get("refused.single_topic_first"), Some(&1));
    assert_eq!(client.code(&broker("a", 0, "10.0.0.1:1").register()), 0);
    assert_eq!((client.code(&route("T")), client.code(&route("U"))), (0, 0));
}

/// Case 11: a topic that its broker has deleted is unrouted, if the server is told to, and no static topic is concerned.
#[test]
fn a_topic_deleted_on_its_broker_is_unrouted() {
    let (server, mut client) = start();
    let all = ["A", "B", "C"];
    let register = |client: &mut Client, topics: &[&str], version: i64| {
        assert_eq!(client.code(&Broker::new("b", 0, "10.0.0.1:1", topics).at(version).register()), 0);
    };
    register(&mut client, &all, 1);
    register(&mut client, &all[..2], 2);
    assert_eq!(client.code(&route("C")), 0, "kept by default");
    assert_eq!(client.code(&update_config("deleteTopicWithBrokerRegistration=true")), 0);
    // The same bytes as before, and not the same meaning any more.
    register(&mut client, &all[..2], 2);
    assert_eq!((client.code(&route("C")), client.code(&route("B"))), (17, 0));

    let mut mapped = Broker::new("b", 0, "10.0.0.1:1", &["A", "D"]).at(3).body();
    mapped["topicConfigSerializeWrapper"]["topicQueueMappingInfoMap"] =
        json!({"A": {"bname": "b", "topic": "A", "totalQueues": 1, "currIdMap": {"0": 0}}});
    let request = Broker::new("b", 0, "10.0.0.1:1", &[]).register_body(mapped.to_string().into_bytes());
    assert_eq!(client.code(&request), 0);
    assert_eq!(client.code(&route("B")), 0, "nothing is deleted next to a mapping");

    let from_start = Local::start(&[("deleteTopicWithBrokerRegistration", "true")]);
    let mut other = Client::connect(from_start.addr());
    register(&mut other, &all, 1);
    register(&mut other, &all[..2], 2);
    assert_eq!(other.code(&route("C")), 17);
    drop(server);
}

/// Cases 12 and 13: 216 takes a topic from where it is told to, and the next registration brings it back.
#[test]
fn a_deleted_topic_comes_back_with_the_next_registration() {
    let (_server, mut client) = start();
    let brokers: Vec<Broker> = [("a", "C1"), ("b", "C2")]
        .map(|(name, cluster)| Broker { cluster: cluster.into(), ..broker(name, 0, &format!("10.0.0.{name}:1")) })
        .into();
    let register = |client: &mut Client| {
        for broker in &brokers {
            assert_eq!(client.code(&broker.register()), 0);
        }
    };
    let names = |client: &mut Client| {
        let answer = client.call(&route("T"));
        if answer.code() == 17 {
            return vec![];
        }
        let route = crate::body(&answer);
        let names = route["brokerDatas"].as_array().expect("a list").iter();
        names.map(|broker| broker["brokerName"].as_str().expect("a name").to_string()).collect()
    };
    register(&mut client);
    for (cluster, left) in
        [(Some("nowhere"), vec!["a", "b"]), (Some("C1"), vec!["b"]), (Some(""), vec![]), (None, vec![])]
    {
        let delete = request(216, &[("topic", "T")]);
        let delete = match cluster {
            Some(cluster) => delete.with("clusterName", cluster),
            None => delete,
        };
        assert_eq!(client.code(&delete), 0);
        assert_eq!(names(&mut client), left, "deleted in {cluster:?}");
        // The same bytes: an unchanged registration is looked at again.
        register(&mut client);
        assert_eq!(names(&mut client), ["a", "b"], "after {cluster:?}");
    }
}

/// Case 15: content counts with a new data version only.
#[test]
fn queues_change_with_the_data_version_only() {
    let (_server, mut client) = start();
    let mut broker = broker("b", 0, "10.0.0.1:1");
    assert_eq!(client.code(&broker.register()), 0);
    broker.topics[0].queues = 16;
    assert_eq!(client.code(&broker.register()), 0);
    assert_eq!(perm_and_queues(&mut client, "T"), (6, 8));
    assert_eq!(client.code(&broker.at(2).register()), 0);
    assert_eq!(perm_and_queues(&mut client, "T"), (6, 16));
}

/// Case 16: a broker that returns and does not know yet that it has lost its role.
#[test]
fn a_returning_master_does_not_evict_the_new_one() {
    let (_server, mut client) = start();
    let member = |id: i64, addr: &str, state_version: i64| Broker { state_version, ..broker("n", id, addr) };
    assert_eq!(client.code(&member(0, "10.0.0.1:1", 5).register()), 0);
    let answer = client.call(&member(0, "10.0.0.2:1", 4).register());
    assert_eq!(answer.code(), 0, "it is not told");
    assert!(answer.header["extFields"].as_object().is_some_and(serde_json::Map::is_empty), "{}", answer.show());
    assert_eq!(route_of(&mut client, "T")["brokerDatas"][0]["brokerAddrs"], json!({"0": "10.0.0.1:1"}));
    assert_eq!(client.code(&member(1, "10.0.0.2:1", 4).register()), 0);
    let both = json!({"0": "10.0.0.1:1", "1": "10.0.0.2:1"});
    assert_eq!(route_of(&mut client, "T")["brokerDatas"][0]["brokerAddrs"], both);
}

/// Cases 17 and 18: once its last broker is gone a topic does not exist, which is not the same as an empty route.
#[test]
fn a_topic_without_brokers_does_not_exist() {
    let server = Local::start(&[("scanNotActiveBrokerInterval", "100")]);
    let mut client = Client::connect(server.addr());
    let broker = broker("b", 0, "10.0.0.1:1").with("heartbeatTimeoutMillis", "1000");
    for how in ["unregistered", "lost", "silent"] {
        let mut connection = Client::connect(server.addr());
        assert_eq!(connection.code(&broker.register()), 0);
        match how {
            "unregistered" => assert_eq!(connection.code(&broker.unregister()), 0),
            "lost" => drop(connection),
            _ => assert!(connection.is_closed_within(Duration::from_secs(5))),
        }
        let start = Instant::now();
        let mut answer = client.call(&route("T"));
        while how == "lost" && answer.code() == 0 && start.elapsed() < Duration::from_secs(1) {
            answer = client.call(&route("T"));
        }
        assert_eq!(answer.code(), 17, "{how}: {}", answer.show());
        assert!(answer.body.is_none() && answer.remark().is_some_and(|remark| remark.contains("topic: T\n")));
    }
}

/// Case 19: what two servers know is what they say, byte for byte.
#[test]
fn servers_that_know_the_same_say_the_same() {
    let brokers: Vec<Broker> = (0..12)
        .map(|number| {
            let addr = format!("10.0.0.{number}:1");
            let mut broker = broker(&format!("b{}", number % 5), number / 5, &addr).with("enableActingMaster", "true");
            broker.cluster = format!("C{}", number % 5 % 2);
            broker
        })
        .collect();
    let answers: Vec<Vec<Vec<u8>>> = [false, true]
        .map(|backwards| {
            let (server, mut client) = start();
            let mut order: Vec<&Broker> = brokers.iter().collect();
            if backwards {
                order.reverse();
            }
            for broker in order {
                assert_eq!(client.code(&broker.register()), 0);
            }
            let old = Request { version: 317, ..route("T") };
            let lists = [206, 304].map(|code| request(code, &[]));
            let group = request(901, &[("brokerName", "b1"), ("clusterName", "C1")]);
            let mut requests = vec![route("T"), old, cluster_info(), group];
            requests.extend(lists);
            let answers = requests.iter().map(|request| client.call(request).bytes).collect();
            drop(server);
            answers
        })
        .into();
    for (one, other) in answers[0].iter().zip(&answers[1]) {
        assert_eq!(String::from_utf8_lossy(one), String::from_utf8_lossy(other));
    }
}
