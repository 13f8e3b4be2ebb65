//! What a body means, case by case. [`properties`] compares with a slow parser and with recorded answers.

mod properties;

use std::io::Write;

use flate2::{Compression, write::ZlibEncoder};
use serde_json::{Value, json};

use super::*;

const NOW: i64 = 1_795_971_484_217;
const VERSION: i32 = 513;

fn parse(body: &str) -> Result<RegisterBody, BodyError> {
    parse_register_body(Some(body.as_bytes()), VERSION, false, NOW, &BodyLimits::default())
}

fn parse_zlib(body: &[u8], version: i32) -> Result<RegisterBody, BodyError> {
    parse_register_body(Some(body), version, true, NOW, &BodyLimits::default())
}

/// A body whose wrapper has these fields.
fn wrapped(fields: &str) -> String {
    format!(r#"{{"filterServerList":[],"topicConfigSerializeWrapper":{{{fields}}}}}"#)
}

fn topics(body: &RegisterBody) -> Vec<(&str, QueueSettings)> {
    body.topics.as_ref().expect("a table").iter().collect()
}

fn settings(read_queues: i32, write_queues: i32, perm: i32, topic_sys_flag: i32) -> QueueSettings {
    QueueSettings { read_queues, write_queues, perm, topic_sys_flag }
}

fn zlib(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// Parts with their lengths in front; numbers as they are.
enum Part<'a> {
    Number(i32),
    Text(&'a str),
}
use Part::{Number, Text};

fn stream(parts: &[Part<'_>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for part in parts {
        match part {
            Number(number) => bytes.extend_from_slice(&number.to_be_bytes()),
            Text(text) => {
                bytes.extend_from_slice(&i32::try_from(text.len()).unwrap().to_be_bytes());
                bytes.extend_from_slice(text.as_bytes());
            }
        }
    }
    bytes
}

#[test]
fn the_body_of_a_broker() {
    let body = parse(
        r#"{"filterServerList":["127.0.0.1:1"],"topicConfigSerializeWrapper":{
        "dataVersion":{"counter":1,"stateVersion":2,"timestamp":3},
        "mappingDataVersion":{"$ref":"$.topicConfigSerializeWrapper.dataVersion"},
        "topicConfigTable":{
            "t1":{"attributes":{"+message.type":"NORMAL"},"order":false,"perm":4,"readQueueNums":1,
                "topicFilterType":"SINGLE_TAG","topicName":"t1","topicSysFlag":3,"writeQueueNums":2},
            "key":{"attributes":{"$ref":"$.x"},"topicName":"other"}},
        "topicQueueMappingDetailMap":{"t1":{"hostedQueues":{0:[{"a":1}]}}},
        "topicQueueMappingInfoMap":{"t1":{"bname":"b","currIdMap":{2:5,0:-1},"dirty":true,"epoch":9,"topic":"t","totalQueues":2}}}}"#,
    )
    .unwrap();
    assert_eq!(body.data_version, DataVersion { state_version: 2, timestamp: 3, counter: Some(1) });
    assert_eq!(topics(&body), [("t1", settings(1, 2, 4, 3)), ("other", settings(16, 16, 6, 0))]);
    assert_eq!(body.topics.as_ref().unwrap().keys().collect::<Vec<_>>(), ["t1", "key"]);
    assert_eq!(body.filter_servers, Some(vec![Some("127.0.0.1:1".into())]));
    let mapping = TopicMapping {
        topic: Some("t".into()),
        bname: Some("b".into()),
        scope: Some("__global__".into()),
        total_queues: 2,
        epoch: 9,
        dirty: true,
        curr_id_map: Some([(0, -1), (2, 5)].into()),
    };
    assert_eq!(body.mappings, [("t1".into(), mapping)]);
}

#[test]
fn absent_and_null_parts() {
    let now = version_of_now(NOW);
    let empty = RegisterBody {
        data_version: now,
        topics: Some(TopicTable::default()),
        mappings: Vec::new(),
        filter_servers: Some(Vec::new()),
    };
    assert_eq!(parse("{}"), Ok(empty.clone()));
    assert_eq!(parse(r#"{"topicConfigSerializeWrapper":{}}"#), Ok(empty.clone()));
    assert_eq!(parse(&wrapped(r#""dataVersion":null,"topicQueueMappingInfoMap":null"#)), Ok(empty.clone()));
    assert_eq!(parse(r#"{"topicConfigSerializeWrapper":null}"#), Ok(RegisterBody { topics: None, ..empty.clone() }));
    assert_eq!(parse(&wrapped(r#""topicConfigTable":null"#)), Ok(RegisterBody { topics: None, ..empty.clone() }));
    assert_eq!(parse(r#"{"filterServerList":null}"#), Ok(RegisterBody { filter_servers: None, ..empty.clone() }));

    let none = |version, compressed| parse_register_body(None, version, compressed, NOW, &BodyLimits::default());
    let zero = DataVersion { state_version: 0, timestamp: 0, counter: Some(0) };
    assert_eq!(none(VERSION, true), Ok(RegisterBody { data_version: zero, ..empty.clone() }));
    assert_eq!(none(36, false), Ok(RegisterBody { data_version: zero, filter_servers: None, ..empty }));
}

#[test]
fn null_numbers_are_zero_and_absent_ones_have_defaults() {
    let table = r#""topicConfigTable":{"a":{"topicName":"a","perm":null,"readQueueNums":null,"writeQueueNums":null,
        "topicSysFlag":null,"order":null,"attributes":null},"b":{"topicName":"b","readQueueNums":"3","writeQueueNums":7.9},
        "c":{"topicName":5},"":{"topicName":""},"$ref":{"topicName":"$ref"}}"#;
    let expected = [
        ("a", settings(0, 0, 0, 0)),
        ("b", settings(3, 7, 6, 0)),
        ("5", QueueSettings::default()),
        ("", QueueSettings::default()),
        ("$ref", QueueSettings::default()),
    ];
    assert_eq!(topics(&parse(&wrapped(table)).unwrap()), expected);
}

#[test]
fn mapping_defaults_and_nulls() {
    let body = parse(&wrapped(
        r#""topicQueueMappingInfoMap":{"N1":{"bname":"b","topic":"N1"},
        "N2":{"bname":"b","topic":null,"currIdMap":null,"scope":null,"totalQueues":null,"epoch":null,"dirty":null}}"#,
    ))
    .unwrap();
    let bname = Some(Name::from("b"));
    let first = TopicMapping {
        bname: bname.clone(),
        topic: Some("N1".into()),
        scope: Some("__global__".into()),
        curr_id_map: Some(Box::default()),
        ..TopicMapping::default()
    };
    assert_eq!(body.mappings, [("N1".into(), first), ("N2".into(), TopicMapping { bname, ..TopicMapping::default() })]);
}

#[test]
fn the_last_of_equal_keys_counts() {
    let body = parse(
        r#"{"filterServerList":["x"],"filterServerList":[],"topicConfigSerializeWrapper":null,"topicConfigSerializeWrapper":{
        "topicConfigTable":{"a":{"topicName":"z"},"b":{"topicName":"b"},"a":{"topicName":"y","topicName":"a","perm":2,"perm":4}},
        "topicQueueMappingInfoMap":{"a":{"bname":"1"},"c":{"bname":"2"},"a":{"bname":"3","currIdMap":{1:1,0:0,1:2}}}}}"#,
    )
    .unwrap();
    assert_eq!(topics(&body), [("b", QueueSettings::default()), ("a", settings(16, 16, 4, 0))]);
    assert_eq!(body.filter_servers, Some(Vec::new()));
    let mappings: Vec<_> = body.mappings.iter().map(|(key, value)| (&**key, value.bname.as_deref().unwrap())).collect();
    assert_eq!(mappings, [("c", "2"), ("a", "3")]);
    assert_eq!(body.mappings[1].1.curr_id_map.as_deref(), Some(&[(0, 0), (1, 2)][..]));
}

#[test]
fn broken_bodies_are_refused() {
    assert_eq!(parse("null"), Err(BodyError::Null));
    for body in [
        "[]",
        " ",
        "5",
        "\"x\"",
        "{bad",
        "nojson",
        "{}{}",
        r#"{"filterServerList":{}}"#,
        r#"{"filterServerList":"x"}"#,
        r#"{"topicConfigSerializeWrapper":[]}"#,
        &wrapped(r#""topicConfigTable":[]"#),
        &wrapped(r#""topicConfigTable":{"a":[]}"#),
        &wrapped(r#""topicConfigTable":{"a":{"topicName":"a","readQueueNums":2147483648}}"#),
        &wrapped(r#""dataVersion":[]"#),
        &wrapped(r#""topicQueueMappingInfoMap":{"a":1}"#),
    ] {
        assert!(matches!(parse(body), Err(BodyError::Json(_))), "{body}");
    }
    let body = Some(&b"{\"filterServerList\":[\"\xff\xfe\"]}"[..]);
    assert!(matches!(parse_register_body(body, VERSION, false, NOW, &BodyLimits::default()), Err(BodyError::Json(_))));
}

#[test]
fn half_values_refuse_the_whole_registration() {
    let unnamed = Err(BodyError::UnnamedTopic(Quoted::of("x")));
    for value in ["null", "{}", r#"{"perm":6}"#, r#"{"topicName":null}"#] {
        let table = format!(r#""topicConfigTable":{{"a":{{"topicName":"a"}},"x":{value}}}"#);
        assert_eq!(parse(&wrapped(&table)), unnamed, "{value}");
    }
    for (value, lacks) in [("null", "value"), ("{}", "bname"), (r#"{"bname":null}"#, "bname")] {
        let table = format!(r#""topicQueueMappingInfoMap":{{"x":{value}}}"#);
        assert_eq!(parse(&wrapped(&table)), Err(BodyError::IncompleteMapping(Quoted::of("x"), lacks)), "{value}");
    }
    for ids in ["{x:1}", r#"{"x":1}"#, "{0:null}", "{3000000000:0}"] {
        let table = format!(r#""topicQueueMappingInfoMap":{{"x":{{"bname":"b","currIdMap":{ids}}}}}"#);
        assert!(parse(&wrapped(&table)).is_err(), "{ids}");
    }
}

#[test]
fn the_version_decides_the_form() {
    let table =
        r#""dataVersion":{"counter":1,"stateVersion":0,"timestamp":1},"topicConfigTable":{"a":{"topicName":"a"}}"#;
    let old = format!("{{{table},\"topicQueueMappingInfoMap\":{{\"a\":{{\"bname\":\"b\"}}}}}}");
    let at = |body: &str, version, compressed| {
        parse_register_body(Some(body.as_bytes()), version, compressed, NOW, &BodyLimits::default())
    };
    for version in [0, 20, 36] {
        for compressed in [false, true] {
            let body = at(&old, version, compressed).unwrap();
            assert_eq!(topics(&body).len(), 1);
            assert!(body.mappings.is_empty() && body.filter_servers.is_none());
        }
        assert_eq!(topics(&at(&wrapped(table), version, false).unwrap()), [], "a new body has no table at its top");
        assert_eq!(at("null", version, false), Err(BodyError::Null));
    }
    for version in [37, 613, i32::MAX] {
        assert_eq!(topics(&at(&wrapped(table), version, false).unwrap()).len(), 1);
        assert_eq!(topics(&at(&old, version, false).unwrap()), [], "an old body has no wrapper");
    }
    assert_eq!(at(&old, -1, false), Err(BodyError::NegativeVersion(-1)));
}

#[test]
fn limits_hold() {
    let limits = BodyLimits {
        topics_max: 2,
        mappings_max: 2,
        filter_servers_max: 2,
        name_bytes_max: 5,
        part_bytes_max: 40,
        ..BodyLimits::default()
    };
    let parse = |body: &str| parse_register_body(Some(body.as_bytes()), VERSION, false, NOW, &limits);
    let topic = |name: &str| format!(r#""{name}":{{"topicName":"{name}"}}"#);
    let table = |names: &[&str]| {
        wrapped(&format!(
            r#""topicConfigTable":{{{}}}"#,
            names.iter().map(|name| topic(name)).collect::<Vec<_>>().join(",")
        ))
    };
    assert!(parse(&table(&["aaaaa", "b"])).is_ok());
    assert_eq!(parse(&table(&["a", "b", "c"])), Err(BodyError::TooMany { limit_name: "topics_max", limit: 2 }));
    let too_long = Err(BodyError::TooLong { bytes: 6, limit_name: "name_bytes_max", limit: 5 });
    assert_eq!(parse(&table(&["aaaaaa"])), too_long);
    assert_eq!(parse(&wrapped(r#""topicConfigTable":{"aaaaaa":{"topicName":"a"}}"#)), too_long);
    assert_eq!(parse(&wrapped(r#""topicQueueMappingInfoMap":{"a":{"bname":"aaaaaa"}}"#)), too_long);
    assert_eq!(parse(r#"{"filterServerList":["aaaaaa"]}"#), too_long);
    assert!(matches!(parse(r#"{"filterServerList":["a","b","c"]}"#), Err(BodyError::TooMany { .. })));
    let mappings = wrapped(r#""topicQueueMappingInfoMap":{"a":{"bname":"a"},"b":{"bname":"a"},"c":{"bname":"a"}}"#);
    assert_eq!(parse(&mappings), Err(BodyError::TooMany { limit_name: "mappings_max", limit: 2 }));

    let zlib_of = |parts: &[Part<'_>]| parse_register_body(Some(&zlib(&stream(parts))), VERSION, true, NOW, &limits);
    assert_eq!(zlib_of(&[Text("{}"), Number(3)]), Err(BodyError::TooMany { limit_name: "topics_max", limit: 2 }));
    assert_eq!(
        zlib_of(&[Text("{}"), Number(0), Text("[]"), Number(3)]),
        Err(BodyError::TooMany { limit_name: "mappings_max", limit: 2 })
    );
    assert_eq!(zlib_of(&[Text("{}"), Number(1), Text("aaaaaa 1 1 1 SINGLE_TAG")]), too_long);
    assert_eq!(zlib_of(&[Number(41)]), Err(BodyError::TooLong { bytes: 41, limit_name: "part_bytes_max", limit: 40 }));
}

#[test]
fn compressed_forms() {
    let mut parts = vec![
        Text(r#"{"counter":1,"stateVersion":2,"timestamp":3}"#),
        Number(3),
        Text("Z1 8 9 6 SINGLE_TAG"),
        Text("Z2 1 -1 4 MULTI_TAG {oops"),
        Text("Z1 1 2 3 SINGLE_TAG {\"a\":1} more"),
        Text(r#"["f"]"#),
    ];
    let body = parse_zlib(&zlib(&stream(&parts)), 412).unwrap();
    assert_eq!(body.data_version, DataVersion { state_version: 2, timestamp: 3, counter: Some(1) });
    assert_eq!(topics(&body), [("Z2", settings(1, -1, 4, 0)), ("Z1", settings(1, 2, 3, 0))]);
    assert_eq!((body.mappings.len(), &body.filter_servers), (0, &Some(vec![Some("f".into())])));
    assert_eq!(parse_zlib(&zlib(&stream(&parts)), 413), Err(BodyError::Ended("mapping count")));

    parts.extend([Number(1), Text(r#"{"bname":"b","currIdMap":{0:0},"topic":"ST"}"#), Text("trailing")]);
    let bytes = zlib(&stream(&parts));
    let with_mappings = parse_zlib(&bytes, 413).unwrap();
    assert_eq!(&*with_mappings.mappings[0].0, "ST");
    assert_eq!(parse_zlib(&bytes, 412), Ok(body), "mappings are trailing bytes there");
    let unannounced = parse_register_body(Some(&bytes), VERSION, false, NOW, &BodyLimits::default());
    assert_eq!(unannounced, Ok(with_mappings));
    let below_new = parse_register_body(Some(&bytes), 36, true, NOW, &BodyLimits::default());
    assert!(matches!(below_new, Err(BodyError::Json(_))));
}

#[test]
fn compressed_lists_of_filter_servers() {
    for (text, expected) in
        [("oops", Some(0)), ("", Some(0)), ("[]", Some(0)), ("null", None), ("[null,\"y\"]", Some(2))]
    {
        let body = parse_zlib(&zlib(&stream(&[Text("{}"), Number(0), Text(text)])), 400).unwrap();
        assert_eq!(body.filter_servers.map(|servers| servers.len()), expected, "{text}");
    }
}

#[test]
fn compressed_bodies_that_are_refused() {
    for line in
        ["A 8 8 6", "A 8 8 6 NONE", "A 8 x 6 SINGLE_TAG", "A  8 8 6 SINGLE_TAG", "", "A 8 8 2147483648 SINGLE_TAG"]
    {
        let bytes = zlib(&stream(&[Text("{}"), Number(1), Text(line), Text("[]"), Number(0)]));
        assert!(matches!(parse_zlib(&bytes, VERSION), Err(BodyError::TopicLine(..))), "{line}");
    }
    for mapping in ["null", "{}", r#"{"bname":"b"}"#, r#"{"topic":"t"}"#] {
        let bytes = zlib(&stream(&[Text("{}"), Number(0), Text("[]"), Number(1), Text(mapping)]));
        assert!(matches!(parse_zlib(&bytes, VERSION), Err(BodyError::IncompleteMapping(..))), "{mapping}");
    }
    let good = zlib(&stream(&[Text("{}"), Number(1), Text("A 8 8 6 SINGLE_TAG"), Text("[]"), Number(0)]));
    assert!(parse_zlib(&good, VERSION).is_ok());
    assert!(parse_zlib(&good[2..], VERSION).is_err(), "raw deflate");
    for end in 1..good.len() - 6 {
        assert!(parse_zlib(&good[..end], VERSION).is_err(), "cut at {end}");
    }
    assert!(matches!(parse_zlib(b"{\"filterServerList\":[]}", VERSION), Err(BodyError::Zlib(_))));
    assert!(parse_zlib(&[0x1f, 0x8b, 8, 0], VERSION).is_err(), "gzip");
}

#[test]
fn lengths_inside_are_only_claims() {
    let negative = |what| Err(BodyError::Negative { what, value: -1 });
    assert_eq!(parse_zlib(&zlib(&stream(&[Number(-1)])), VERSION), negative("dataVersion"));
    assert_eq!(parse_zlib(&zlib(&stream(&[Text("{}"), Number(-1)])), VERSION), negative("topic count"));
    assert_eq!(parse_zlib(&zlib(&stream(&[Text("{}"), Number(1), Number(-1)])), VERSION), negative("topic"));
    let topics_max = BodyLimits::default().topics_max;
    assert_eq!(
        parse_zlib(&zlib(&stream(&[Text("{}"), Number(i32::MAX)])), VERSION),
        Err(BodyError::TooMany { limit_name: "topics_max", limit: topics_max })
    );
    let claimed = zlib(&stream(&[Text("{}"), Number(i32::try_from(topics_max).unwrap())]));
    assert_eq!(parse_zlib(&claimed, VERSION), Err(BodyError::Ended("topic")));
    assert!(matches!(
        parse_zlib(&zlib(&stream(&[Number(i32::MAX)])), VERSION),
        Err(BodyError::TooLong { limit_name: "part_bytes_max", .. })
    ));
    let long = i32::try_from(BodyLimits::default().part_bytes_max).unwrap();
    assert_eq!(parse_zlib(&zlib(&stream(&[Number(long)])), VERSION), Err(BodyError::Ended("dataVersion")));
}

/// A short stream that inflates a thousandfold: topics with long attributes, each of them valid.
#[test]
fn a_bomb_stops_at_the_limit() {
    let limits = BodyLimits { inflate_bytes_max: 8 << 20, ..BodyLimits::default() };
    let attributes = "x".repeat(1 << 20);
    let line = format!("T 1 1 6 SINGLE_TAG {attributes}");
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(&stream(&[Text("{}"), Number(1000)])).unwrap();
    for _ in 0..10 {
        encoder.write_all(&stream(&[Text(&line)])).unwrap();
    }
    let bomb = encoder.finish().unwrap();
    assert!(bomb.len() < 20_000);
    assert_eq!(parse_register_body(Some(&bomb), VERSION, true, NOW, &limits), Err(BodyError::InflatedTooLong(8 << 20)));
    let zeros = zlib(&vec![0; 4 << 20]);
    assert!(matches!(parse_zlib(&zeros, VERSION), Err(BodyError::Json(_))), "a data version of no bytes");
}

#[test]
fn names_are_kept_as_sent() {
    let long = "n".repeat(1_024);
    for name in ["", "../../etc/passwd", "a\u{0}b", "\u{1}\u{7f}", "😀 é", "%RETRY%x", &long] {
        let body = json!({"topicConfigSerializeWrapper": {"topicConfigTable": {name: {"topicName": name}}}});
        assert_eq!(topics(&parse(&body.to_string()).unwrap())[0].0, name);
    }
    assert_eq!(
        topics(&parse(&wrapped(r#""topicConfigTable":{"q\"😀":{"topicName":"q\"😀"}}"#)).unwrap())[0].0,
        "q\"😀"
    );
}

/// Prints how long a registration of 10,000 topics takes. Run it alone: `cargo test --release -p server --lib
/// timing_of -- --ignored --nocapture`.
#[test]
#[ignore = "measures, decides nothing"]
fn timing_of_ten_thousand_topics() {
    let mut text = String::new();
    for number in 0..10_000 {
        text.push_str(&format!(
            r#""TopicOfSomeLength_{number:06}":{{"attributes":{{}},"order":false,"perm":6,"readQueueNums":8,"topicFilterType":"SINGLE_TAG","topicName":"TopicOfSomeLength_{number:06}","topicSysFlag":0,"writeQueueNums":8}},"#
        ));
    }
    let body = wrapped(&format!(r#""topicConfigTable":{{{}}}"#, text.trim_end_matches(',')));
    let best_of = |run: &dyn Fn() -> usize| {
        let times = (0..15).map(|_| {
            let start = std::time::Instant::now();
            assert_eq!(run(), 10_000);
            start.elapsed()
        });
        times.min().unwrap()
    };
    let ours = best_of(&|| parse(&body).unwrap().topics.unwrap().len());
    let theirs = best_of(&|| {
        let value: Value = serde_json::from_str(&body).unwrap();
        value["topicConfigSerializeWrapper"]["topicConfigTable"].as_object().unwrap().len()
    });
    let ratio = ours.as_secs_f64() / theirs.as_secs_f64();
    println!("{} bytes: parser {ours:?}, serde_json::Value {theirs:?}, ratio {ratio:.2}", body.len());
}
