//! Registrations with bodies that lie, and names that nobody expects.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use flate2::{Compress, Compression, FlushCompress};
use serde_json::json;

use crate::support::broker::{Broker, Parts, cluster_info, request, route};
use crate::support::canonical::Body;
use crate::support::frame::{Client, Frame};
use crate::support::local::Local;
use crate::support::ours;
use crate::support::probe::Probe;
use crate::support::process::{NameServer, Settings};

const MIB: u64 = 1 << 20;
const FRAME_BYTES_MAX: usize = 16 << 20;

/// Room for a hostile registration, besides what the server has before it: what may be inflated (64 MiB), the frame
/// (16 MiB), and a little. Without a limit it would be gigabytes.
const BOMB_GROWTH_MAX: u64 = 88 * MIB;

fn broker() -> Broker {
    Broker::new("b", 0, "10.0.0.1:10911", &["T", "U"])
}

/// A zlib stream of a good start and `bytes` bytes of one topic over and over, which inflates to a thousand times that.
fn bomb(bytes: usize) -> Vec<u8> {
    let mut compress = Compress::new(Compression::default(), true);
    let mut deflate = |input: &[u8]| {
        let mut out = Vec::with_capacity(1 << 20);
        compress.compress_vec(input, &mut out, FlushCompress::Full).expect("a good state");
        out
    };
    let start = Parts::default().text(&broker().data_version().to_string()).number(1_000_000);
    let mut stream = deflate(&start.0);
    // After a full flush nothing refers to what came before, so the same bytes can be repeated.
    let topic = Parts::default().text(&format!("bomb 8 8 6 SINGLE_TAG {}", "x".repeat(60_000)));
    let piece = deflate(&topic.0.repeat(16));
    assert!(piece.len() < 10_000, "it inflates to a hundred times its length and more");
    while stream.len() + piece.len() < bytes {
        stream.extend(&piece);
    }
    stream
}

#[test]
fn a_bomb_is_refused_before_it_fills_the_memory() {
    let server = ours::start(&Settings::default());
    let probe = Probe::start(server.addr());
    let mut client = Client::connect(server.addr());
    // 200 kB that inflate to more than 64 MiB, and the longest frame: several GiB.
    for bytes in [200_000, FRAME_BYTES_MAX - 2_000] {
        let before = server.memory("VmRSS");
        let body = bomb(bytes);
        let answer = client.call(&broker().with("compressed", "true").register_body(body));
        assert_eq!(answer.code(), 1, "{}", answer.show());
        assert!(answer.remark().is_some_and(|remark| remark.contains("inflate_bytes_max")), "{}", answer.show());
        let grown = server.memory("VmHWM").saturating_sub(before);
        assert!(grown < BOMB_GROWTH_MAX, "{} MiB for a bomb of {bytes} bytes", grown / MIB);
    }
    assert_eq!(client.code(&route("T")), 17, "nothing of it is registered");
    assert_eq!(client.call(&cluster_info()).text(), r#"{"brokerAddrTable":{},"clusterAddrTable":{}}"#);
    probe.finish();
}

#[test]
fn lengths_and_counts_inside_a_body_are_claims() {
    let server = ours::start(&Settings::default());
    let mut client = Client::connect(server.addr());
    assert_eq!(client.code(&broker().with("compressed", "true").register_body(broker().parts().zlib())), 0);
    let before = server.memory("VmRSS");
    let version = || Parts::default().text(&broker().data_version().to_string());
    let topics = || version().number(1).text("T 8 8 6 SINGLE_TAG");
    for (what, parts) in [
        ("no part", Parts::default()),
        ("a negative length", Parts::default().number(-1)),
        ("a length of 2 GiB", Parts::default().number(i32::MAX)),
        ("a negative count", version().number(-1)),
        ("a count of 2^31-1", version().number(i32::MAX)),
        ("a million topics that are not there", version().number(1_000_000)),
        ("a topic of negative length", version().number(1).number(i32::MIN)),
        ("a topic of 2 GiB", version().number(1).number(i32::MAX)),
        ("no filter servers", topics()),
        ("filter servers of 2 GiB", topics().number(i32::MAX)),
        ("no mappings", topics().text("[]")),
        ("2^31-1 mappings", topics().text("[]").number(i32::MAX)),
        ("a mapping of 2 GiB", topics().text("[]").number(1).number(i32::MAX)),
    ] {
        let answer = client.call(&broker().at(2).with("compressed", "true").register_body(parts.zlib()));
        assert_eq!(answer.code(), 1, "{what}: {}", answer.show());
    }
    let grown = server.memory("VmHWM").saturating_sub(before);
    assert!(grown < 64 * MIB, "{} MiB for what is not there", grown / MIB);
    let answer = client.call(&broker().query_version());
    assert_eq!(answer.header["extFields"]["changed"], "false", "nothing was applied: {}", answer.show());
}

#[test]
fn a_refused_body_leaves_the_connection_and_the_registry_as_they_were() {
    let server = Local::start(&[]);
    let mut client = Client::connect(server.addr());
    let mut refused = |what: &str, request, remark: &str, counter: &str| {
        let before = server.counts();
        let answer: Frame = client.call(&request);
        assert_eq!(answer.code(), 1, "{what}: {}", answer.show());
        assert!(answer.remark().is_some_and(|text| text.contains(remark)), "{what}: {}", answer.show());
        assert_eq!(server.grown(&before), BTreeMap::from([(counter.to_string(), 1)]), "{what}");
    };
    let mut wrong = broker().register();
    wrong.body[10] ^= 1;
    refused("a flipped bit", wrong, "crc32 not match", "bad_request.bad_crc");
    let mut empty = broker().register();
    empty.body.clear();
    refused("a checksum without a body", empty, "crc32 not match", "bad_request.bad_crc");
    let garbage = |body: &[u8]| broker().with("compressed", "true").register_body(body.to_vec());
    let counter = "bad_request.bad_body";
    refused("no zlib", garbage(b"garbage garbage"), "zlib", counter);
    refused("raw deflate", garbage(&broker().parts().zlib()[2..]), "zlib", counter);
    let cut = broker().parts().zlib();
    refused("half a stream", garbage(&cut[..cut.len() / 2]), "zlib", counter);
    for body in ["null", "[]", "{", "{\"topicConfigSerializeWrapper\":5}", "\u{0}"] {
        refused(body, broker().register_body(body.into()), "", counter);
    }
    let unnamed = json!({"topicConfigSerializeWrapper": {"topicConfigTable": {"T": {"perm": 6}, "U": {}}}});
    refused("a topic without a name", broker().register_body(unnamed.to_string().into()), "topicName", counter);
    let mut long = broker();
    long.topics[0].name = "t".repeat(1_025);
    refused("a topic of 1 KiB and one", long.register(), "name_bytes_max", counter);
    assert_eq!(client.call(&cluster_info()).text(), r#"{"brokerAddrTable":{},"clusterAddrTable":{}}"#);

    // No body at all is a broker without topics; the connection has survived all of this.
    let mut empty = broker().register();
    empty.body.clear();
    empty.fields.retain(|(key, _)| key != "bodyCrc32");
    assert_eq!(client.code(&empty), 0);
    assert!(client.call(&cluster_info()).text().contains("10.0.0.1:10911"));
}

/// Every name that a peer invents is stored as it is, and comes back as it is.
#[test]
fn odd_names_come_back_and_do_not_forge_log_lines() {
    fn verbose(home: &Path, file: &Path, settings: &Settings) -> Command {
        let mut command = ours::launch(home, file, settings);
        command.env("RUST_LOG", "trace,mio=info");
        command
    }
    let server = NameServer::start(verbose, &Settings::default());
    let mut client = Client::connect(server.addr());
    let long = ["x".repeat(127), "x".repeat(128), "x".repeat(300), "x".repeat(504)];
    let mut names = vec![
        "",
        "a\nFORGED=1",
        "\r\nFORGED=2",
        "\u{1b}[31mred\u{7}",
        "a\0b",
        "../../etc/passwd",
        "\u{1F980}\u{FEFF}\u{202E}",
        "%RETRY%g",
        "say \"no\" \\ 'never'",
        "{0:1}",
        "中文",
        " ",
    ];
    names.extend(long.iter().map(String::as_str));
    for (number, name) in names.iter().enumerate() {
        let addr = format!("10.0.0.{number}:10911{}", if number == 1 { "\nFORGED=3" } else { "" });
        let mut broker = Broker::new(&format!("{name}-broker"), 0, &addr, &[name, "other"]);
        broker.cluster = format!("{name}-cluster");
        let shown: String = name.chars().take(20).collect();
        assert_eq!(client.code(&broker.register()), 0, "{shown:?}");
        let answer = client.call(&route(name));
        let body = Body::parse(answer.body.as_deref().unwrap_or_default()).expect(&shown).value;
        assert_eq!(body["brokerDatas"][0]["brokerName"], broker.name.as_str(), "{shown:?}");
        assert_eq!(body["brokerDatas"][0]["cluster"], broker.cluster.as_str(), "{shown:?}");
        assert_eq!(body["brokerDatas"][0]["brokerAddrs"]["0"], addr.as_str(), "{shown:?}");
        let cluster = Body::parse(&client.call(&cluster_info()).body.expect("a body")).expect(&shown).value;
        assert_eq!(cluster["brokerAddrTable"][&broker.name]["brokerAddrs"]["0"], addr.as_str(), "{shown:?}");
        assert_eq!(cluster["clusterAddrTable"][&broker.cluster], json!([broker.name]), "{shown:?}");
        let group = request(901, &[("brokerName", &broker.name), ("clusterName", &broker.cluster)]);
        let group = Body::parse(&client.call(&group).body.expect("a body")).expect(&shown).value;
        assert_eq!(group["brokerMemberGroup"]["brokerName"], broker.name.as_str(), "{shown:?}");
        assert_eq!(group["brokerMemberGroup"]["brokerAddrs"]["0"], addr.as_str(), "{shown:?}");
        // A few that are told in the log: refused, contested, unknown, unfit for a configuration.
        let mut rival = Broker::new(&broker.name, 0, "10.1.1.1:1", &[name, "other"]);
        rival.cluster = broker.cluster.clone();
        rival.state_version = -1;
        assert_eq!(client.code(&rival.register()), 0, "{shown:?}");
        assert_eq!(client.code(&rival.register_body(b"\nFORGED=4".to_vec())), 1);
        let update = crate::support::broker::update_config(&format!("a\\nFORGED\\=5{number}=x"));
        assert_eq!(client.code(&update), 1);
        assert_eq!(client.code(&broker.unregister()), 0);
    }
    let log = server.output();
    assert!(log.contains("registration ignored") && log.contains("registered"), "the log tells of them");
    for line in log.lines() {
        assert!(line.len() < 1_000, "a line of {} bytes: {:?}", line.len(), &line[..200]);
        assert!(!line.starts_with("FORGED"), "a line that a peer wrote: {line:?}");
        assert!(!line.contains('\u{7}') && !line.contains('\u{1b}'), "a raw control character: {line:?}");
    }
}
