//! A slow parser on `serde_json`, the recorded registrations, and properties of any body.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

/// Every registration among the recorded requests parses exactly when the original accepted its body.
#[test]
fn recorded_registrations() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/vectors");
    let (mut accepted, mut refused, mut compared) = (0, 0, 0);
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "jsonl") {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let file = path.file_stem().unwrap().to_str().unwrap();
        for step in text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()) {
            let is_registration = step["code"].as_str().is_some_and(|code| code.starts_with("103 "));
            let differs = step["compare"].as_str().is_some_and(|compare| compare.starts_with("differs"));
            if !is_registration || differs {
                continue;
            }
            let request = Recorded::from_hex(step["send_hex"].as_str().unwrap());
            let remark = step["answer_hex"].as_str().and_then(|hex| Recorded::from_hex(hex).remark());
            let was_refused =
                remark.is_some_and(|remark| remark.contains("RegisterBrokerBody") || remark.contains("MQVersion"));
            // The original has lost the flag there; we need none.
            let is_unannounced = !request.compressed && is_zlib(&request.body);

            let limits = BodyLimits::default();
            let body = Some(&*request.body);
            let parsed = parse_register_body(body, request.version, request.compressed, NOW, &limits);
            let context = format!("{file} step {}: {parsed:?}", step["step"]);
            assert_eq!(parsed.is_err(), was_refused && !is_unannounced, "{context}");
            match &parsed {
                Ok(_) => accepted += 1,
                Err(_) => refused += 1,
            }
            if let (Ok(parsed), Ok(value)) = (parsed, serde_json::from_slice::<Value>(&request.body))
                && request.version >= VERSION_3_0_11
                && !file.starts_with("14")
                && !file.starts_with("34")
            {
                assert_eq!(parsed, reference(&value), "{context}");
                compared += 1;
            }
        }
    }
    assert!(accepted > 150 && refused > 20 && compared > 100, "{accepted} {refused} {compared}");
}

/// What the test needs of a recorded frame.
struct Recorded {
    header: Vec<u8>,
    is_binary: bool,
    version: i32,
    compressed: bool,
    body: Vec<u8>,
}

impl Recorded {
    fn from_hex(hex: &str) -> Self {
        let frame: Vec<u8> =
            (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect();
        let header_end = 8 + (u32::from_be_bytes(frame[4..8].try_into().unwrap()) & 0xff_ffff) as usize;
        let (header, body) = (frame[8..header_end].to_vec(), frame[header_end..].to_vec());
        let is_binary = frame[4] == 1;
        if is_binary {
            let version = i32::from(i16::from_be_bytes([header[3], header[4]]));
            let name = b"compressed\0\0\0\x04true";
            let compressed = header.windows(name.len()).any(|window| window == name);
            return Self { header, is_binary, version, compressed, body };
        }
        let fields: Value = serde_json::from_slice(&header).unwrap();
        let version = fields["version"].as_i64().unwrap_or(0).try_into().unwrap();
        let compressed = fields["extFields"]["compressed"] == "true";
        Self { header, is_binary, version, compressed, body }
    }

    fn remark(&self) -> Option<String> {
        if self.is_binary {
            return None;
        }
        let fields: Value = serde_json::from_slice(&self.header).unwrap();
        fields["remark"].as_str().map(str::to_owned)
    }
}

/// The slow way to read a plain body.
fn reference(body: &Value) -> RegisterBody {
    let absent = json!({});
    let wrapper = body.get("topicConfigSerializeWrapper").unwrap_or(&absent);
    let table = |name: &str| wrapper.get(name).unwrap_or(&absent).as_object();
    let mut topics = None;
    if let Some(entries) = table("topicConfigTable").filter(|_| !wrapper.is_null()) {
        let mut all = TopicTable::default();
        for (key, topic) in entries {
            let number = |name: &str, absent| number(topic.get(name), absent).try_into().unwrap();
            let settings = QueueSettings {
                read_queues: number("readQueueNums", 16),
                write_queues: number("writeQueueNums", 16),
                perm: number("perm", 6),
                topic_sys_flag: number("topicSysFlag", 0),
            };
            all.push(key, topic["topicName"].as_str().unwrap(), settings);
        }
        topics = Some(all);
    }
    let mappings = table("topicQueueMappingInfoMap").into_iter().flatten();
    let version = wrapper.get("dataVersion").unwrap_or(&Value::Null);
    let filter_servers = body.get("filterServerList").unwrap_or(&json!([])).as_array().cloned();
    RegisterBody {
        data_version: DataVersion {
            state_version: number(version.get("stateVersion"), 0),
            timestamp: number(version.get("timestamp"), NOW),
            counter: if version.get("counter") == Some(&Value::Null) {
                None
            } else {
                Some(number(version.get("counter"), 0))
            },
        },
        topics,
        mappings: mappings.map(|(key, mapping)| (Name::from(&**key), reference_mapping(mapping))).collect(),
        filter_servers: filter_servers
            .map(|servers| servers.iter().map(|server| server.as_str().map(Name::from)).collect()),
    }
}

fn reference_mapping(mapping: &Value) -> TopicMapping {
    let name = |field: &str, absent: Option<&str>| match mapping.get(field) {
        None => absent.map(Name::from),
        Some(value) => value.as_str().map(Name::from),
    };
    let ids = mapping.get("currIdMap").unwrap_or(&json!({})).as_object().map(|ids| {
        let mut ids: Vec<(i32, i32)> =
            ids.iter().map(|(key, value)| (key.parse().unwrap(), number(Some(value), 0).try_into().unwrap())).collect();
        ids.sort_unstable();
        ids.into()
    });
    TopicMapping {
        topic: name("topic", None),
        bname: name("bname", None),
        scope: name("scope", Some("__global__")),
        total_queues: number(mapping.get("totalQueues"), 0).try_into().unwrap(),
        epoch: number(mapping.get("epoch"), 0),
        dirty: mapping.get("dirty").and_then(Value::as_bool).unwrap_or(false),
        curr_id_map: ids,
    }
}

fn number(value: Option<&Value>, absent: i64) -> i64 {
    match value {
        None => absent,
        Some(Value::String(text)) => text.parse().unwrap(),
        Some(value) => value.as_i64().unwrap_or(0),
    }
}

/// An object with some of the fields left out.
fn sparse(fields: Vec<(&'static str, BoxedStrategy<Value>)>) -> impl Strategy<Value = Value> {
    let fields: Vec<_> = fields
        .into_iter()
        .map(|(name, value)| prop::option::weighted(0.8, value).prop_map(move |value| value.map(|value| (name, value))))
        .collect();
    (fields, any::<bool>()).prop_map(|(mut fields, reverse)| {
        if reverse {
            fields.reverse();
        }
        fields.into_iter().flatten().map(|(name, value)| (name.to_owned(), value)).collect()
    })
}

fn number32() -> BoxedStrategy<Value> {
    prop_oneof![
        8 => any::<i32>().prop_map(Value::from),
        1 => any::<i32>().prop_map(|number| Value::from(number.to_string())),
        1 => Just(Value::Null),
    ]
    .boxed()
}

fn text() -> BoxedStrategy<Value> {
    prop_oneof!["[a-z%_]{0,40}", any::<String>()].prop_map(Value::from).boxed()
}

fn or_null(value: impl Strategy<Value = Value> + 'static) -> BoxedStrategy<Value> {
    prop_oneof![9 => value, 1 => Just(Value::Null)].boxed()
}

fn map_of(value: impl Strategy<Value = Value> + 'static, size: usize) -> impl Strategy<Value = Value> {
    prop::collection::vec((any::<String>(), value), 0..size)
        .prop_map(|entries| entries.into_iter().collect::<serde_json::Map<_, _>>().into())
}

fn with(
    object: impl Strategy<Value = Value>,
    name: &'static str,
    value: BoxedStrategy<Value>,
) -> impl Strategy<Value = Value> {
    (object, value).prop_map(move |(mut object, value)| {
        object[name] = value;
        object
    })
}

fn bodies() -> impl Strategy<Value = Value> {
    let topic = sparse(vec![
        ("attributes", or_null(map_of(text(), 3))),
        ("order", any::<bool>().prop_map(Value::from).boxed()),
        ("perm", number32()),
        ("readQueueNums", number32()),
        ("topicFilterType", text()),
        ("topicSysFlag", number32()),
        ("writeQueueNums", number32()),
    ]);
    let ids = prop::collection::btree_map(any::<i32>(), any::<i32>(), 0..8).prop_map(|ids| {
        ids.into_iter().map(|(key, value)| (key.to_string(), value.into())).collect::<serde_json::Map<_, _>>().into()
    });
    let mapping = sparse(vec![
        ("currIdMap", or_null(ids)),
        ("dirty", any::<bool>().prop_map(Value::from).boxed()),
        ("epoch", any::<i64>().prop_map(Value::from).boxed()),
        ("scope", or_null(text())),
        ("topic", or_null(text())),
        ("totalQueues", number32()),
    ]);
    let version = sparse(vec![
        ("counter", or_null(any::<i64>().prop_map(Value::from))),
        ("stateVersion", any::<i64>().prop_map(Value::from).boxed()),
        ("timestamp", or_null(any::<i64>().prop_map(Value::from))),
    ]);
    let wrapper = sparse(vec![
        ("dataVersion", or_null(version)),
        ("mappingDataVersion", map_of(text(), 2).boxed()),
        ("topicConfigTable", or_null(map_of(with(topic, "topicName", text()), 12))),
        ("topicQueueMappingInfoMap", or_null(map_of(with(mapping, "bname", text()), 4))),
    ]);
    sparse(vec![
        ("filterServerList", or_null(prop::collection::vec(text(), 0..4).prop_map(Value::from))),
        ("topicConfigSerializeWrapper", or_null(wrapper)),
        ("other", map_of(text(), 3).boxed()),
    ])
}

/// Objects of topics, most of them as brokers write them.
fn any_topic_object() -> impl Strategy<Value = String> {
    let field = prop::sample::select(vec![
        r#""perm":6"#,
        r#""perm": -2147483648 "#,
        r#""perm":2147483648"#,
        r#""perm":null"#,
        r#""readQueueNums":8.9"#,
        r#""readQueueNums":"7""#,
        r#""writeQueueNums":007"#,
        r#""topicSysFlag":1"#,
        r#""topicName":"A""#,
        r#""topicName":"é""#,
        r#""topicName":"\u0041""#,
        r#""topicName":null"#,
        r#""topicName":5"#,
        r#""attributes":{}"#,
        r#""attributes":{"+message.type":"NORMAL","x":null}"#,
        r#""attributes":{"a":{"b":[]}}"#,
        r#""order":false"#,
        r#""order":fals"#,
        r#""order":tru"#,
        r#""x":[1,2]"#,
        "",
    ]);
    let end = prop::sample::select(vec!["}", "}", "}", "}", ",}", "", "}}"]);
    (prop::collection::vec(field, 0..6), end).prop_map(|(fields, end)| format!("{}{end}", fields.join(",")))
}

proptest! {
    #[test]
    fn the_quick_way_leads_to_the_same_place(first in any_topic_object(), second in any_topic_object()) {
        // A comment is nothing for the quick way.
        let [quick, slow] = ["", "/**/"].map(|comment| {
            parse(&wrapped(&format!(r#""dataVersion":{{"counter":1}},"topicConfigTable":{{"T":{{{comment}{first},"U":{{{comment}{second}}}"#)))
        });
        prop_assert_eq!(quick.is_ok(), slow.is_ok());
        if let (Ok(quick), Ok(slow)) = (quick, slow) {
            prop_assert_eq!(quick, slow);
        }
    }

    #[test]
    fn plain_bodies_parse_as_the_reference_says(body in bodies()) {
        for text in [body.to_string(), serde_json::to_string_pretty(&body).unwrap()] {
            prop_assert_eq!(parse(&text), Ok(reference(&body)));
        }
    }

    #[test]
    fn compressed_says_the_same_as_plain(
        topics in prop::collection::vec(("[^ ]{0,20}", any::<i32>(), any::<i32>(), any::<i32>()), 0..20),
        servers in prop::collection::vec(any::<String>(), 0..3),
        counter in any::<i64>(),
    ) {
        let version = json!({"counter": counter, "stateVersion": 1, "timestamp": 2});
        let mut parts = stream(&[Text(&version.to_string()), Number(topics.len().try_into().unwrap())]);
        let mut plain = String::new();
        for (name, read, write, perm) in &topics {
            parts.extend(stream(&[Text(&format!("{name} {read} {write} {perm} SINGLE_TAG {{}}"))]));
            let topic = json!({"topicName": name, "readQueueNums": read, "writeQueueNums": write, "perm": perm});
            plain.push_str(&format!("{}:{topic},", json!(name)));
        }
        parts.extend(stream(&[Text(&json!(servers).to_string()), Number(0)]));
        let plain = format!(
            r#"{{"filterServerList":{},"topicConfigSerializeWrapper":{{"dataVersion":{version},"topicConfigTable":{{{plain}}}}}}}"#,
            json!(servers)
        );
        let parsed = parse(&plain);
        prop_assert!(parsed.is_ok());
        prop_assert_eq!(parse_zlib(&zlib(&parts), VERSION), parsed);
    }

    #[test]
    fn no_body_panics(
        bytes in prop::collection::vec(any::<u8>(), 0..200),
        valid in bodies(),
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        version in prop_oneof![Just(0), Just(400), Just(513), any::<i32>()],
        compressed in any::<bool>(),
    ) {
        let limits = BodyLimits::default();
        let mut edited = valid.to_string().into_bytes();
        for (index, byte) in &edits {
            let at = index.index(edited.len());
            edited[at] = *byte;
        }
        for body in [&*bytes, &edited, &zlib(&bytes), &zlib(&edited)] {
            let _ = parse_register_body(Some(body), version, compressed, NOW, &limits);
        }
    }
}
