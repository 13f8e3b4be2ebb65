//! Tables that strangers fill, and what they leave behind.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::peers::source;
use crate::report::{at_most, holds};
use crate::support::broker::{Broker, Parts, Topic, cluster_info, request, route};
use crate::support::frame::{Client, Frame, Received};
use crate::support::ours;
use crate::support::process::Settings;

fn topics(client: &mut Client) -> usize {
    let list: Value = serde_json::from_str(&client.call(&request(206, &[])).text()).expect("a list");
    list["topicList"].as_array().expect("topics").len()
}

fn is_empty(client: &mut Client) -> bool {
    client.call(&cluster_info()).text() == r#"{"brokerAddrTable":{},"clusterAddrTable":{}}"# && topics(client) == 0
}

/// Waits for so many answers.
fn answers(client: &mut Client, count: usize) {
    for _ in 0..count {
        assert!(matches!(client.receive(Duration::from_secs(20)), Received::Frame(_)));
    }
}

/// One connection registers, another takes the broker over and unregisters it.
#[test]
fn what_is_unregistered_is_forgotten() {
    const ROUNDS: usize = 3_000;
    let server = ours::start(&Settings::default());
    let mut first = Client::connect(server.addr());
    let mut second = Client::connect(server.addr());
    let round = |first: &mut Client, second: &mut Client, number: usize| {
        let long = |what: &str| format!("{what}-{number}-{}", "x".repeat(480));
        let mut broker = Broker::new(&long("broker"), 0, &long("addr"), &[&long("topic"), &long("other")]);
        broker.cluster = long("cluster");
        assert_eq!(first.code(&broker.register()), 0);
        assert_eq!(second.code(&broker.clone().at(2).register()), 0);
        assert_eq!(second.code(&broker.unregister()), 0);
    };
    // What is allocated once is not what this is about.
    (0..200).for_each(|number| round(&mut first, &mut second, number));
    let before = server.memory("VmRSS");
    (200..200 + ROUNDS).for_each(|number| round(&mut first, &mut second, number));
    let grown = server.memory("VmRSS").saturating_sub(before) >> 10;
    at_most("3", "kiB after a broker was taken over and unregistered 3,000 times", grown, 1_024);
    holds("3", "and nothing is registered", is_empty(&mut second));
}

#[test]
fn one_broker_under_many_cluster_names_leaves_few() {
    const CLUSTERS: usize = 20_000;
    let server = ours::start(&Settings::default());
    let mut client = Client::connect(server.addr());
    let mut broker = Broker::new("b", 0, "10.0.0.1:10911", &["T", "U"]);
    for part in 0..CLUSTERS / 100 {
        for number in 0..100 {
            broker.cluster = format!("cluster-{part}-{number}");
            client.send(&broker.register().encode());
        }
        answers(&mut client, 100);
    }
    let info = client.call(&cluster_info()).text();
    let (_, clusters) = info.split_once("clusterAddrTable").expect("the clusters");
    let clusters = clusters.matches("\"cluster-").count();
    at_most("3", "clusters after one broker named 20,000", clusters, 16);
    assert_eq!(client.code(&broker.unregister()), 0);
    holds("3", "and none when it has gone", is_empty(&mut client));
}

/// A registration of topics with names of about a thousand bytes: 34,000 of them are what one source may have.
fn with_long_topics(broker: &Broker, prefix: &str, topics: usize) -> Vec<u8> {
    let count = i32::try_from(topics).expect("few topics");
    let mut parts = Parts::default().text(&broker.data_version().to_string()).number(count);
    for number in 0..topics {
        parts = parts.text(&format!("{prefix}-{number}-{:z<1000} 8 8 6 SINGLE_TAG", ""));
    }
    broker.register_body(parts.text("[]").number(0).zlib()).with("compressed", "true").encode()
}

/// Strangers fill the table of topics while a known broker registers four times a second, each time with a new topic.
#[test]
fn a_full_table_leaves_known_brokers_alive_with_what_they_have() {
    let server = ours::start(&Settings::with(&[("scanNotActiveBrokerInterval", "200")]));
    let addr = server.addr();
    let mut honest = Client::connect_from(source(2), addr);
    let mut broker = Broker::new("honest", 0, "10.0.0.2:10911", &["T", "U"]).with("heartbeatTimeoutMillis", "1500");
    assert_eq!(honest.code(&broker.register()), 0);

    let fill = |number: u8| {
        let mut stranger = Client::connect_from(source(number), addr);
        let large = Broker::new(&format!("s{number}"), 0, &format!("10.0.{number}.1:10911"), &["V", "W"]);
        assert_eq!(stranger.code(&large.register()), 0);
        stranger.send(&with_long_topics(&large.at(2), &number.to_string(), 40_000));
        let Received::Frame(answer) = stranger.receive(Duration::from_secs(30)) else { panic!("no answer") };
        (stranger, Frame::parse(&answer).expect("a frame"))
    };
    let (_one, answer) = fill(3);
    println!("{}", answer.show());
    holds("3", "one source has no more than its share", answer.code() == 1 && answer.show().contains("share"));
    broker.counter = 2;
    broker.topics.push(Topic { name: "new".into(), queues: 8, perm: 6 });
    holds("3", "beside it others have room", honest.code(&broker.register()) == 0);
    let (_two, _) = fill(4);

    let start = Instant::now();
    let mut client = Client::connect(addr);
    let (mut gone, mut refused) = (0, 0);
    while start.elapsed() < Duration::from_secs(5) {
        broker.counter += 1;
        broker.topics[0].queues = 8 + broker.counter;
        // As long as those of the strangers, so that it finds no room.
        let name = format!("{}-{:y<1000}", broker.counter, "");
        broker.topics.push(Topic { name, queues: 8, perm: 6 });
        let answer = honest.call(&broker.register());
        refused += i64::from(answer.code() != 0);
        broker.topics.pop();
        let route = client.call(&route("T"));
        gone += i64::from(!route.text().contains(&format!("\"readQueueNums\":{}", broker.topics[0].queues)));
        std::thread::sleep(Duration::from_millis(250));
    }
    holds("3", "new topics are refused while a table is full", refused > 10);
    at_most("3", "times that a known broker was gone, or not up to date, beside a full table", gone, 0);
    assert_eq!(client.code(&route("new")), 0);
}

/// Numbers that no double holds are strings where JSON is standard, and bare in the old spelling.
#[test]
fn large_numbers_are_written_as_the_original_writes_them() {
    let server = ours::start(&Settings::default());
    let mut client = Client::connect(server.addr());
    let broker = Broker::new("b", 0, "10.0.0.1:10911", &["T", "U"]);
    let mut wrong = 0;
    for (counter, (epoch, is_exact)) in (1..).zip([
        ((1_i64 << 53) - 1, true),
        (1 << 53, false),
        (i64::MAX, false),
        (-(1 << 53) + 1, true),
        (-(1 << 53), false),
        (i64::MIN, false),
    ]) {
        let broker = broker.clone().at(counter);
        let mut body = broker.body();
        body["topicConfigSerializeWrapper"]["topicQueueMappingInfoMap"] = json!({"T": {"bname": "b", "epoch": epoch}});
        assert_eq!(client.code(&broker.register_body(body.to_string().into_bytes())), 0);
        let quoted = if is_exact { format!("\"epoch\":{epoch},") } else { format!("\"epoch\":\"{epoch}\",") };
        let standard = route("T").with("acceptStandardJsonOnly", "true");
        let mut old = route("T");
        old.version = 300;
        wrong += usize::from(!client.call(&standard).text().contains(&quoted));
        wrong += usize::from(!client.call(&old).text().contains(&format!("\"epoch\":{epoch},")));
    }
    at_most("22", "of 12 answers with numbers about 2^53, written otherwise than by the original", wrong, 0);
}
