//! Surprises of the wire format.

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::thread;
use std::time::Duration;

use serde_json::json;

use crate::support::broker::{Broker, cluster_info, request, route};
use crate::support::frame::{ANSWER_TIMEOUT, Client, Frame, Received, Request, raw_frame};
use crate::support::local::Local;
use crate::support::probe::Probe;
use crate::{assert_empty, body, clusters_of, route_of};

const QUIET: Duration = Duration::from_millis(100);

fn broker() -> Broker {
    Broker::new("b", 0, "10.0.0.1:10911", &["T", "U"])
}

/// A server on which the broker is registered, by a connection that stays.
fn with_broker() -> (Local, Client) {
    let server = Local::start(&[]);
    let mut client = Client::connect(server.addr());
    assert_eq!(client.code(&broker().register()), 0);
    (server, client)
}

fn next(client: &mut Client, what: &str) -> Frame {
    match client.receive(ANSWER_TIMEOUT) {
        Received::Frame(bytes) => Frame::parse(&bytes).expect("a frame"),
        other => panic!("{what}: {other:?}"),
    }
}

/// Cases 31 and 32: ids are bare for old clients, which read nothing else, and quoted for those who want JSON.
#[test]
fn ids_are_quoted_for_those_who_can_read_them() {
    let (_server, mut client) = with_broker();
    let bare = r#""brokerAddrs":{0:"10.0.0.1:10911"}"#;
    let quoted = r#""brokerAddrs":{"0":"10.0.0.1:10911"}"#;
    for (version, accepts, expected) in [
        (0, None, bare),
        (317, None, bare),
        (400, None, bare),
        (401, None, quoted),
        (513, None, quoted),
        (317, Some("true"), quoted),
        (317, Some("TRUE"), quoted),
        (317, Some("false"), bare),
        (513, Some("false"), quoted),
    ] {
        let mut request = Request { version, ..route("T") };
        request.fields.extend(accepts.map(|value| ("acceptStandardJsonOnly".to_string(), value.to_string())));
        let text = client.call(&request).text();
        assert!(text.contains(expected), "version {version}, {accepts:?}: {text}");
        let is_json = serde_json::from_str::<serde_json::Value>(&text).is_ok();
        assert_eq!(is_json, expected == quoted, "version {version}, {accepts:?}: {text}");
    }
    for request in [cluster_info(), request(901, &[("brokerName", "b"), ("clusterName", "DefaultCluster")])] {
        let text = client.call(&request.with("acceptStandardJsonOnly", "true")).text();
        assert!(text.contains(bare), "always bare: {text}");
    }
}

/// Case 33: the zone filter, in the JSON that was asked for.
#[test]
fn zones_are_filtered_and_keep_the_spelling_of_ids() {
    let (_server, mut client) = with_broker();
    for (name, id, zone) in [("za", 0, "za"), ("zb", 0, "zb"), ("orphan", 1, "zb")] {
        let zoned = Broker::new(name, id, &format!("10.0.1.{id}:{name}"), &["Z", "Y"]);
        assert_eq!(client.code(&zoned.with("__ZONE_NAME", zone).with("enableActingMaster", "true").register()), 0);
    }
    let mut names = |zone: &str, version: i32| {
        let request = route("Z").with("__ZONE_MODE", "true").with("__ZONE_NAME", zone);
        let answer = client.call(&Request { version, ..request });
        let is_json = serde_json::from_str::<serde_json::Value>(&answer.text()).is_ok();
        let route = body(&answer);
        let list = |key: &str| -> BTreeSet<String> {
            let names = route[key].as_array().expect("a list").iter();
            names.map(|entry| entry["brokerName"].as_str().expect("a name").to_string()).collect()
        };
        assert_eq!(list("brokerDatas"), list("queueDatas"), "{}", answer.show());
        (list("brokerDatas").into_iter().collect::<Vec<_>>().join(" "), is_json)
    };
    // A group without a master is kept wherever it is.
    assert_eq!(names("za", 513), ("orphan za".into(), true));
    assert_eq!(names("ZA", 513), ("orphan za".into(), true));
    assert_eq!(names("zb", 317), ("orphan zb".into(), false));
    assert_eq!(names("nowhere", 513), ("orphan".into(), true));
    assert_eq!(names(" ", 513), ("orphan za zb".into(), true));
}

/// Case 34: what Java reads as a header, we read.
#[test]
fn headers_are_read_leniently() {
    let (_server, mut client) = with_broker();
    let shapes = [
        r#"{"code":105,"extFields":{"topic":"T"},"flag":0,"language":"JAVA","opaque":7,"version":513}"#,
        r#"{"version":513,"opaque":7,"language":"GO","flag":0,"extFields":{"topic":"T"},"code":105}"#,
        r#"{"code":105,"extFields":{"topic":"T"},"opaque":7}"#,
        r#"{"code":105,"extFields":{"topic":"T"},"opaque":7,"who":1,"list":[{"a":[]}],"object":{"x":null}}"#,
        r#"{"code":105,"extFields":{"topic":"T","x":null},"opaque":7,"remark":null,"language":null,"flag":null}"#,
        " \r\n\t{ \"code\" : 105 , \"extFields\" : { \"topic\" : \"T\" } , \"opaque\" : 7 } \n",
        r#"{"code":"105","extFields":{"topic":"T"},"opaque":"7","version":"513","flag":"0"}"#,
        r#"{"code":1,"code":105,"extFields":{"topic":"X"},"extFields":{"topic":"T"},"opaque":1,"opaque":7}"#,
        r#"{'code':105,'extFields':{'topic':'T'},'opaque':7}"#,
        r#"{"code":105,"extFields":{"topic":"T",},"opaque":7,}"#,
        r#"/* who */{"code":105,/* what */"extFields":{"topic":"T"},"opaque":7}/* why */"#,
        "{\"code\":105,\"extFields\":{\"topic\":\"T\"},\"opaque\":7}\0",
        r#"{"code":105.0,"extFields":{"topic":"T"},"opaque":7.0}"#,
        r#"{"code":+105,"extFields":{"topic":"T"},"opaque":+7}"#,
        r#"{"code":0105,"extFields":{"topic":"T"},"opaque":007}"#,
        r#"{"code":105,"extFields":{"topic":"T"},"opaque":7,"flag":"","version":{}}"#,
        r#"{"code":105,"extFields":{"topic":"T"},"opaque":7,"flag":false}"#,
        r#"{"code":105,"extFields":{"topic":"T","n":5,"b":true,"o":{"a":1},"l":[1]},"opaque":7}"#,
        r#"{"code":105,"extFields":{"topic":"T"},"opaque":7,"language":9}"#,
        r#"{"code":105,"extFields":{"topic":"T"},"opaque":7,"language":"KLINGON"}"#,
        r#"{"\u0063ode":105,"extFields":{"to\u0070ic":"\u0054"},"opaque":7}"#,
        r#"{"code":105,"extFields":{"topic":"T","key":"\ud83e\udd80 \\ \/ \b"},"opaque":7}"#,
        r#"{"code":105,"extFields":{"topic":"T"},"opaque":7,"flag":252}"#,
    ];
    for shape in shapes {
        client.send(&raw_frame(0, shape.as_bytes(), b""));
        let answer = next(&mut client, shape);
        assert_eq!((answer.code(), answer.number("opaque")), (0, 7), "{shape}: {}", answer.show());
    }
    // No opaque is any opaque, an explicit null is 0; no topic is an unknown one; no code is an unknown one.
    for (header, code) in [
        (r#"{"code":105,"extFields":{"topic":"T"}}"#, 0),
        (r#"{"code":105,"extFields":{"topic":"T"},"opaque":null}"#, 0),
        (r#"{"code":105,"opaque":7}"#, 17),
        (r#"{"code":105,"extFields":null}"#, 17),
        ("{}            ", 3),
    ] {
        client.send(&raw_frame(0, header.as_bytes(), b""));
        assert_eq!(next(&mut client, header).code(), code, "{header}");
    }
    // A binary header whose sender speaks no language that we know.
    let mut unknown = Request { binary: true, ..route("T") }.encode();
    unknown[10] = 99;
    client.send(&unknown);
    assert_eq!(next(&mut client, "language 99").code(), 0);
}

/// Cases 35 and 36: bodies of brokers of all times.
#[test]
fn registrations_of_all_versions_are_read() {
    let (_server, mut client) = with_broker();
    let parts = broker().parts();
    let without_mappings = parts.0[..parts.0.len() - 4].to_vec();
    let old = broker().body()["topicConfigSerializeWrapper"].to_string().into_bytes();
    let short = crate::support::broker::Parts(without_mappings).zlib();
    let json = broker().body().to_string().into_bytes();
    for (what, version, is_compressed, body, code) in [
        ("compressed", 479, true, parts.zlib(), 0),
        ("compressed, without mappings, of 4.9", 400, true, short.clone(), 0),
        ("compressed, with more than 4.9 reads", 400, true, parts.zlib(), 0),
        ("compressed, without the mappings of 5.0", 413, true, short, 1),
        ("compressed, unsaid, as 5.x does", 513, false, parts.zlib(), 0),
        ("said to be compressed", 513, true, json.clone(), 1),
        ("a bare wrapper of 3.0", 20, false, old.clone(), 0),
        ("a bare wrapper of 3.0, said to be compressed", 20, true, old, 0),
        ("JSON of 4.x", 317, false, json.clone(), 0),
        ("JSON of the future", 9_999, false, json.clone(), 0),
        ("JSON of no version", -1, false, json, 1),
    ] {
        // A name for each, as what was registered before stays.
        let mut broker = broker();
        broker.name = what.into();
        broker.addr = format!("10.0.0.1:{what}");
        let compressed = if is_compressed { "true" } else { "false" };
        let request = broker.with("compressed", compressed).register_body(body);
        let answer = client.call(&Request { version, ..request });
        assert_eq!(answer.code(), code, "{what}: {}", answer.show());
        let route = route_of(&mut client, "T");
        let routed = route["queueDatas"].as_array().expect("a list").iter().any(|queue| queue["brokerName"] == what);
        assert_eq!(routed, code == 0, "{what}: {route}");
    }
}

/// Case 38: addresses with more than one colon.
#[test]
fn addresses_of_version_6_are_as_good_as_others() {
    if TcpListener::bind("[::1]:0").is_err() {
        eprintln!("SKIPPED addresses_of_version_6_are_as_good_as_others: this machine has no IPv6");
        return;
    }
    let server = Local::start(&[("bindAddress", "::1")]);
    assert!(server.addr().is_ipv6());
    for addr in ["[2001:db8::1]:10911", "[fe80::1%enp1s0]:10911", "2001:db8::2:10911"] {
        let mut client = Client::connect(server.addr());
        client.send(b"PROXY TCP6 2001:db8::9 2001:db8::1 1000 9876\r\n");
        assert_eq!(client.code(&Broker::new("b6", 0, addr, &["T", "U"]).register()), 0);
        assert_eq!(route_of(&mut client, "T")["brokerDatas"][0]["brokerAddrs"], json!({"0": addr}));
        let bare = client.call(&Request { version: 317, ..route("T") }).text();
        assert!(bare.contains(&format!("{{0:\"{addr}\"}}")), "{bare}");
    }
}

/// Case 39: load balancers introduce their clients, and ask for themselves.
#[test]
fn proxy_headers_are_taken() {
    let server = Local::start(&[]);
    let v2 = |command: u8, family: u8, rest: &[u8]| {
        let length = u8::try_from(rest.len()).expect("few bytes");
        [&b"\r\n\r\n\0\r\nQUIT\n"[..], &[0x20 | command, family, 0, length], rest].concat()
    };
    let addresses = [8, 8, 8, 8, 127, 0, 0, 1, 0x10, 0, 0x26, 0x94];
    let with_field = [&addresses[..], &[0xE0, 0, 3, b'a', b'b', b'c']].concat();
    for (what, header) in [
        ("TCP4", b"PROXY TCP4 8.8.8.8 127.0.0.1 1000 9876\r\n".to_vec()),
        ("TCP6", b"PROXY TCP6 2001:db8::9 ::1 1000 9876\r\n".to_vec()),
        ("UNKNOWN", b"PROXY UNKNOWN\r\n".to_vec()),
        ("UNKNOWN with addresses", b"PROXY UNKNOWN ffff::1 ffff::2 65535 65535\r\n".to_vec()),
        ("version 2", v2(1, 0x11, &addresses)),
        ("version 2 with a field", v2(1, 0x11, &with_field)),
        ("version 2, a health check", v2(0, 0, &[])),
        ("version 2, a health check with addresses", v2(0, 0x11, &addresses)),
    ] {
        let bytes = [&header[..], &route("T").encode()].concat();
        let mut whole = Client::connect(server.addr());
        whole.send(&bytes);
        assert_eq!(next(&mut whole, what).code(), 17, "{what}");
        let mut split = Client::connect(server.addr());
        for byte in bytes {
            split.send(&[byte]);
        }
        assert_eq!(next(&mut split, what).code(), 17, "{what}, byte by byte");
    }
}

/// Cases 40 and 41: raw UTF-8 in both spellings, and the cluster of every broker.
#[test]
fn names_are_raw_and_clusters_are_named() {
    let (_server, mut client) = with_broker();
    let names = ["%RETRY%g", "say \"no\" \\ or/and", "line\nbreak", "\u{1F980}中文"];
    let mut broker = Broker::new("中文", 0, "10.0.0.2:1", &names);
    broker.cluster = "クラスタ".into();
    assert_eq!(client.code(&broker.register()), 0);
    for name in names {
        for version in [317, 513] {
            let answer = client.call(&Request { version, ..route(name) });
            assert!(answer.text().contains(r#""brokerName":"中文","cluster":"クラスタ""#), "{name}: {}", answer.text());
        }
        let list = client.call(&request(206, &[]));
        assert!(body(&list)["topicList"].as_array().expect("a list").contains(&name.into()), "{name}");
    }
    assert!(client.call(&request(206, &[])).text().contains("\"\u{1F980}中文\""));
    let info = clusters_of(&mut client);
    assert_eq!(info["brokerAddrTable"]["中文"]["cluster"], "クラスタ");
    assert_eq!(info["clusterAddrTable"]["クラスタ"], json!(["中文"]));
}

/// Case 42: a one-way request is carried out and not answered; a binary request is answered in JSON.
#[test]
fn oneway_requests_are_applied_and_binary_ones_answered_in_json() {
    let server = Local::start(&[]);
    let mut client = Client::connect(server.addr());
    let oneway = |request: Request| Request { flag: 2, ..request };
    client.send(&oneway(broker().register()).encode());
    assert!(matches!(client.receive(QUIET), Received::Silence));
    let answer = client.call(&Request { binary: true, ..route("T") });
    assert_eq!((answer.code(), answer.binary), (0, false));
    assert_eq!(answer.header["serializeTypeCurrentRPC"], "JSON");
    // Nothing says when it is done, and a lookup does not wait for it.
    client.send(&oneway(request(205, &[("brokerName", "b")])).encode());
    assert!(matches!(client.receive(QUIET), Received::Silence));
    assert_eq!(crate::perm_and_queues(&mut client, "T"), (4, 8));
    client.send(&oneway(broker().unregister()).encode());
    assert!(matches!(client.receive(QUIET), Received::Silence));
    assert_empty(&mut client);
    // What would be an error is not answered either.
    client.send(&oneway(broker().register_body(b"garbage".to_vec())).encode());
    client.send(&oneway(request(9_999, &[])).encode());
    assert!(matches!(client.receive(QUIET), Received::Silence));
    assert_eq!(client.code(&route("T")), 17);
}

/// Case 26: a client that does not wait.
#[test]
fn two_thousand_requests_in_one_write_are_answered() {
    let (_server, mut client) = with_broker();
    let mut frames = Vec::new();
    for opaque in 0..2_000 {
        let request = if opaque % 50 == 0 { cluster_info() } else { route("T") };
        frames.extend(Request { opaque, ..request }.encode());
    }
    let mut sender = Client::new(client.stream().try_clone().expect("a second handle"));
    let sending = thread::spawn(move || sender.send(&frames));
    let opaques: BTreeSet<i64> = (0..2_000)
        .map(|number| {
            let answer = next(&mut client, &format!("answer {number}"));
            assert_eq!(answer.code(), 0);
            answer.number("opaque")
        })
        .collect();
    sending.join().expect("all is sent");
    assert_eq!(opaques, (0..2_000).collect());
}

/// Case 30: whoever speaks another protocol loses the connection, and nobody else notices.
#[test]
fn scanners_are_turned_away() {
    let server = Local::start(&[]);
    let probe = Probe::start(server.addr());
    for scan in [
        &b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"[..],
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"OPTIONS * RTSP/1.0\r\n\r\n",
        b"SSH-2.0-scanner\r\n",
        b"\x80\x00\x00\x28\x72\xFE\x1D\x13\x00\x00\x00\x00\x00\x00\x00\x02",
        b"\xFF\xFF\xFF\xFFxxxxxxxxxxxx",
        b"\x00\x00\x00\x10\x00\x00\x00\x0Cgarbage, 12.",
        b"\x00\x00\x00\x10\x07\x00\x00\x0Cgarbage, 12.",
        b"\x00\x00\x00\x10\x00\x00\x00\x7Fgarbage, 12.",
        b"*1\r\n$4\r\nPING\r\n",
        b"\x03\x00\x00\x13\x0E\xE0\x00\x00\x00\x00\x00\x01\x00\x08\x00\x0B\x00\x00\x00",
    ] {
        let mut client = Client::connect(server.addr());
        client.send(scan);
        let what = String::from_utf8_lossy(scan).into_owned();
        assert!(client.is_closed_within(Duration::from_secs(5)), "{what:?}: still open");
    }
    probe.finish();
    assert!(server.counts().keys().all(|name| name.starts_with("bad_frame.")), "{:?}", server.counts());
}
