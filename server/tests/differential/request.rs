//! From the numbers of a step to the bytes of its request.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::ZlibEncoder;
use serde_json::{Map, Value, json};

use crate::op::Op;
use crate::support::frame::Request;

pub(crate) const BROKERS: i64 = 3;
/// Addresses that brokers register with.
pub(crate) const ADDRS: i64 = 4;
pub(crate) const TOPICS: i64 = 5;
/// Old wrapper bodies, compressed bodies without mappings, bare ids and quoted ids.
const VERSIONS: [i32; 5] = [20, 317, 400, 413, 513];
/// From here on a body may be compressed (3.0.11).
const FIRST_NEW_BODY: i32 = 37;
/// From here on a compressed body has mappings (5.0.0).
const FIRST_MAPPINGS: i32 = 413;
const PERMISSIONS: [i64; 4] = [6, 4, 2, 7];
const QUEUES: [i64; 3] = [8, 4, 1];
/// The namespace that comes back with registrations.
const ORDER: &str = "ORDER_TOPIC_CONFIG";

/// The names of one sequence. Nothing of another sequence has the same.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Names {
    pub(crate) sequence: u32,
}

impl Names {
    pub(crate) fn broker(self, index: i64) -> String {
        format!("s{}-b{index}", self.sequence)
    }

    pub(crate) fn topic(self, index: i64) -> String {
        format!("s{}-T{index}", self.sequence)
    }

    /// Half of the addresses are used in one cluster only.
    pub(crate) fn addr(self, op: &Op) -> String {
        let [.., high, middle, low] = self.sequence.to_be_bytes();
        let own = if op.broker == 2 && op.addr < ADDRS / 2 { 100 } else { 0 };
        format!("10.{high}.{middle}.{low}:{}", 10911 + own + op.addr)
    }

    /// Brokers 0 and 1 are at home in one cluster, 2 in another.
    pub(crate) fn cluster(self, op: &Op) -> String {
        let home = i64::from(op.broker == 2);
        let index = if op.other_cluster == 7 { 1 - home } else { home };
        self.cluster_number(index)
    }

    pub(crate) fn cluster_number(self, index: i64) -> String {
        format!("s{}-c{index}", self.sequence)
    }

    pub(crate) fn namespace(self, op: &Op) -> String {
        if op.namespace == 0 { format!("s{}-ns", self.sequence) } else { ORDER.to_string() }
    }

    fn key(self, op: &Op) -> String {
        self.topic(op.key)
    }
}

pub(crate) fn version(op: &Op) -> i32 {
    VERSIONS[usize::try_from(op.version).expect("an index")]
}

/// The zone filter applies to the answer.
pub(crate) fn is_zone_filtered(op: &Op) -> bool {
    op.code == 105 && op.zone > 0
}

/// The topics that a registration names.
pub(crate) fn topics(op: &Op) -> Vec<i64> {
    if has_body(op) { (0..TOPICS).filter(|topic| op.topics >> topic & 1 == 1).collect() } else { Vec::new() }
}

/// The topics for which a registration brings a static mapping.
pub(crate) fn mappings(op: &Op) -> Vec<i64> {
    let carried = if is_compressed(op) { version(op) >= FIRST_MAPPINGS } else { version(op) >= FIRST_NEW_BODY };
    topics(op).into_iter().filter(|topic| carried && op.mappings >> topic & 1 == 1).collect()
}

/// The data version of a registration or a query.
pub(crate) fn data_version(op: &Op) -> Value {
    if op.code == 103 && !has_body(op) {
        return json!({"counter": 0, "stateVersion": 0, "timestamp": 0});
    }
    json!({"counter": op.counter, "stateVersion": op.state, "timestamp": 1000})
}

pub(crate) fn has_wrong_checksum(op: &Op) -> bool {
    op.checksum == 7
}

/// The brokers that 217 names, by index; the last one does not exist.
pub(crate) fn named_brokers(op: &Op) -> Vec<i64> {
    (0..=BROKERS).filter(|broker| op.brokers >> broker & 1 == 1).collect()
}

/// The request of a step.
pub(crate) fn request(names: Names, op: &Op, opaque: i32) -> Request {
    let broker = ("brokerName", names.broker(op.broker));
    let cluster = ("clusterName", names.cluster(op));
    let addr = ("brokerAddr", names.addr(op));
    let id = ("brokerId", op.id.to_string());
    let topic = ("topic", names.topic(op.topic));
    let namespace = ("namespace", names.namespace(op));
    let key = ("key", names.key(op));
    let mut body = Vec::new();
    let fields = match op.code {
        103 => {
            body = registration_body(names, op);
            registration_fields(op, &body, vec![broker, cluster, addr, id])
        }
        104 => vec![broker, cluster, addr, id],
        105 => route_fields(op, topic),
        106 | 206 | 304 | 311 | 312 | 313 => vec![],
        205 | 327 => vec![broker],
        216 if op.option == 1 => vec![topic, cluster],
        216 => vec![topic],
        217 => {
            body = topic_body(names, op);
            vec![topic]
        }
        224 => vec![("cluster", names.cluster(op))],
        322 => {
            body = data_version(op).to_string().into_bytes();
            vec![cluster, addr]
        }
        901 => vec![cluster, broker],
        904 => vec![cluster, addr],
        100 if op.value == 3 => vec![namespace, ("value", "no key".into())],
        100 => vec![namespace, key, ("value", format!("{}:{}", names.broker(0), op.value))],
        101 | 102 => vec![namespace, key],
        219 => vec![namespace],
        other => panic!("no request for code {other}"),
    };
    Request {
        code: i32::try_from(op.code).expect("a code"),
        version: version(op),
        opaque,
        flag: 0,
        fields: fields.into_iter().map(|(key, value)| (key.to_string(), value)).collect(),
        body,
        binary: op.binary == 1,
    }
}

fn registration_fields(op: &Op, body: &[u8], mut fields: Vec<(&'static str, String)>) -> Vec<(&'static str, String)> {
    fields.push(("haServerAddr", format!("10.1.1.1:{}", 10912 + op.addr)));
    match op.acting {
        1 => fields.push(("enableActingMaster", "true".into())),
        2 => fields.push(("enableActingMaster", "false".into())),
        _ => {}
    }
    if op.zone > 0 {
        fields.push(("__ZONE_NAME", format!("z{}", op.zone)));
    }
    if is_compressed(op) {
        fields.push(("compressed", "true".into()));
    }
    let checksum = if body.is_empty() { 0 } else { crc32fast::hash(body) & 0x7FFF_FFFF };
    match op.checksum {
        6 => {}
        7 => fields.push(("bodyCrc32", (checksum ^ 1 | 2).to_string())),
        _ => fields.push(("bodyCrc32", checksum.to_string())),
    }
    fields
}

fn route_fields(op: &Op, topic: (&'static str, String)) -> Vec<(&'static str, String)> {
    let mut fields = vec![topic];
    if op.option == 1 {
        fields.push(("acceptStandardJsonOnly", "true".into()));
    }
    if is_zone_filtered(op) {
        fields.push(("__ZONE_MODE", "true".into()));
        fields.push(("__ZONE_NAME", format!("Z{}", op.zone)));
    }
    fields
}

fn has_body(op: &Op) -> bool {
    op.body != 15
}

fn is_compressed(op: &Op) -> bool {
    op.compressed == 1 && version(op) >= FIRST_NEW_BODY
}

fn registration_body(names: Names, op: &Op) -> Vec<u8> {
    if !has_body(op) {
        return Vec::new();
    }
    if is_compressed(op) {
        return compressed_body(names, op);
    }
    let table: Map<String, Value> = topics(op)
        .into_iter()
        .map(|topic| {
            let config = json!({
                "topicName": names.topic(topic), "perm": perm(op), "readQueueNums": queues(op),
                "writeQueueNums": queues(op), "topicSysFlag": topic % 4, "topicFilterType": "SINGLE_TAG",
                "order": false,
            });
            (names.topic(topic), config)
        })
        .collect();
    let mut wrapper = json!({"dataVersion": data_version(op), "topicConfigTable": table});
    if version(op) < FIRST_NEW_BODY {
        return wrapper.to_string().into_bytes();
    }
    let mappings: Map<String, Value> =
        mappings(op).into_iter().map(|topic| (names.topic(topic), mapping(names, op, topic))).collect();
    wrapper["topicQueueMappingInfoMap"] = mappings.into();
    let mut body = json!({"topicConfigSerializeWrapper": wrapper});
    if op.filters < 3 {
        body["filterServerList"] = filters(op);
    }
    body.to_string().into_bytes()
}

fn compressed_body(names: Names, op: &Op) -> Vec<u8> {
    let mut plain = Vec::new();
    let count = |plain: &mut Vec<u8>, n: usize| plain.extend(u32::try_from(n).expect("few").to_be_bytes());
    let block = |plain: &mut Vec<u8>, text: String| {
        count(plain, text.len());
        plain.extend(text.as_bytes());
    };
    block(&mut plain, data_version(op).to_string());
    let topics = topics(op);
    count(&mut plain, topics.len());
    for topic in topics {
        let (name, queues, perm) = (names.topic(topic), queues(op), perm(op));
        block(&mut plain, format!("{name} {queues} {queues} {perm} SINGLE_TAG"));
    }
    block(&mut plain, filters(op).to_string());
    if version(op) >= FIRST_MAPPINGS {
        let mappings = mappings(op);
        count(&mut plain, mappings.len());
        for topic in mappings {
            block(&mut plain, mapping(names, op, topic).to_string());
        }
    }
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(&plain).expect("in memory");
    encoder.finish().expect("in memory")
}

fn mapping(names: Names, op: &Op, topic: i64) -> Value {
    json!({
        "bname": names.broker(op.broker), "currIdMap": {"0": 0, "1": op.counter}, "dirty": false,
        "epoch": op.counter + 10, "scope": "__global__", "topic": names.topic(topic), "totalQueues": queues(op),
    })
}

fn topic_body(names: Names, op: &Op) -> Vec<u8> {
    let queues: Vec<Value> = named_brokers(op)
        .into_iter()
        .map(|broker| {
            json!({
                "brokerName": names.broker(broker), "perm": perm(op), "readQueueNums": queues(op),
                "writeQueueNums": queues(op), "topicSysFlag": op.topic % 4,
            })
        })
        .collect();
    json!({"brokerDatas": [], "filterServerTable": {}, "queueDatas": queues}).to_string().into_bytes()
}

fn filters(op: &Op) -> Value {
    match op.filters {
        1 => json!(["10.9.9.1:1"]),
        2 => json!(["10.9.9.2:1", "10.9.9.1:1"]),
        _ => json!([]),
    }
}

fn perm(op: &Op) -> i64 {
    PERMISSIONS[usize::try_from(op.perm).expect("an index")]
}

fn queues(op: &Op) -> i64 {
    QUEUES[usize::try_from(op.queues).expect("an index")]
}
