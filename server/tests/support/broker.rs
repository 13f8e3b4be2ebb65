//! Brokers and clients as they speak: the requests of both.

use std::io::Write as _;

use serde_json::{Map, Value, json};

use super::frame::Request;

/// The version of a current client.
pub(crate) const VERSION: i32 = 513;

/// What a topic is registered with.
#[derive(Clone, Debug)]
pub(crate) struct Topic {
    pub(crate) name: String,
    pub(crate) queues: i64,
    pub(crate) perm: i64,
}

/// A broker, and how it registers.
#[derive(Clone, Debug)]
pub(crate) struct Broker {
    pub(crate) cluster: String,
    pub(crate) name: String,
    pub(crate) id: i64,
    pub(crate) addr: String,
    pub(crate) topics: Vec<Topic>,
    /// The counter of its data version.
    pub(crate) counter: i64,
    pub(crate) state_version: i64,
    /// Further fields of the registration.
    pub(crate) fields: Vec<(String, String)>,
}

impl Broker {
    /// A broker of `DefaultCluster` whose topics have 8 queues and permission 6.
    pub(crate) fn new(name: &str, id: i64, addr: &str, topics: &[&str]) -> Self {
        Self {
            cluster: "DefaultCluster".into(),
            name: name.into(),
            id,
            addr: addr.into(),
            topics: topics.iter().map(|name| Topic { name: name.to_string(), queues: 8, perm: 6 }).collect(),
            counter: 1,
            state_version: 0,
            fields: Vec::new(),
        }
    }

    /// The same broker with one more field in its registration.
    pub(crate) fn with(mut self, key: &str, value: &str) -> Self {
        self.fields.push((key.into(), value.into()));
        self
    }

    /// The same broker with another data version.
    pub(crate) fn at(mut self, counter: i64) -> Self {
        self.counter = counter;
        self
    }

    pub(crate) fn register(&self) -> Request {
        self.register_body(self.body().to_string().into_bytes())
    }

    /// A registration with this body, and with the checksum of it.
    pub(crate) fn register_body(&self, body: Vec<u8>) -> Request {
        let mut request = request(103, &self.identity()).with("haServerAddr", "10.9.9.9:10912");
        request.fields.push(("bodyCrc32".into(), (crc32fast::hash(&body) & 0x7FFF_FFFF).to_string()));
        request.fields.extend(self.fields.iter().cloned());
        Request { body, ..request }
    }

    /// The topic table.
    pub(crate) fn body(&self) -> Value {
        let table: Map<String, Value> = self.topics.iter().map(|topic| (topic.name.clone(), topic.config())).collect();
        json!({"filterServerList": [], "topicConfigSerializeWrapper": {
            "dataVersion": self.data_version(), "topicConfigTable": table,
        }})
    }

    pub(crate) fn data_version(&self) -> Value {
        json!({"counter": self.counter, "stateVersion": self.state_version, "timestamp": 1000})
    }

    pub(crate) fn unregister(&self) -> Request {
        request(104, &self.identity())
    }

    pub(crate) fn heartbeat(&self) -> Request {
        request(904, &self.identity())
    }

    pub(crate) fn query_version(&self) -> Request {
        Request { body: self.data_version().to_string().into_bytes(), ..request(322, &self.identity()) }
    }

    fn identity(&self) -> [(&str, &str); 4] {
        // A handful of brokers for each test: what is leaked here is a few bytes.
        let id: &str = self.id.to_string().leak();
        [("clusterName", &self.cluster), ("brokerName", &self.name), ("brokerAddr", &self.addr), ("brokerId", id)]
    }
}

impl Topic {
    fn config(&self) -> Value {
        json!({
            "attributes": {}, "order": false, "perm": self.perm, "readQueueNums": self.queues,
            "topicFilterType": "SINGLE_TAG", "topicName": self.name, "topicSysFlag": 0, "writeQueueNums": self.queues,
        })
    }
}

/// A request of a current client.
pub(crate) fn request(code: i32, fields: &[(&str, &str)]) -> Request {
    let fields = fields.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
    Request { code, version: VERSION, opaque: 7, fields, ..Request::default() }
}

/// GET_ROUTEINFO_BY_TOPIC.
pub(crate) fn route(topic: &str) -> Request {
    request(105, &[("topic", topic)])
}

/// GET_BROKER_CLUSTER_INFO.
pub(crate) fn cluster_info() -> Request {
    request(106, &[])
}

/// PUT_KV_CONFIG.
pub(crate) fn put_kv(namespace: &str, key: &str, value: &str) -> Request {
    request(100, &[("namespace", namespace), ("key", key), ("value", value)])
}

/// GET_KV_CONFIG.
pub(crate) fn get_kv(namespace: &str, key: &str) -> Request {
    request(101, &[("namespace", namespace), ("key", key)])
}

/// UPDATE_NAMESRV_CONFIG.
pub(crate) fn update_config(text: &str) -> Request {
    Request { body: text.as_bytes().to_vec(), ..request(318, &[]) }
}

/// GET_NAMESRV_CONFIG.
pub(crate) fn get_config() -> Request {
    request(319, &[])
}

/// The parts of a compressed registration, before they are compressed: each with its length in front, counts between.
#[derive(Debug, Default)]
pub(crate) struct Parts(pub(crate) Vec<u8>);

impl Parts {
    pub(crate) fn number(mut self, number: i32) -> Self {
        self.0.extend(number.to_be_bytes());
        self
    }

    pub(crate) fn text(self, text: &str) -> Self {
        let mut parts = self.number(i32::try_from(text.len()).expect("a short text"));
        parts.0.extend(text.as_bytes());
        parts
    }

    pub(crate) fn zlib(&self) -> Vec<u8> {
        let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(&self.0).and_then(|()| encoder.finish()).expect("memory takes all bytes")
    }
}

impl Broker {
    /// The topic table in the compressed form, as of 5.0.0: mappings at its end, which are none.
    pub(crate) fn parts(&self) -> Parts {
        let count = i32::try_from(self.topics.len()).expect("few topics");
        let mut parts = Parts::default().text(&self.data_version().to_string()).number(count);
        for Topic { name, queues, perm } in &self.topics {
            parts = parts.text(&format!("{name} {queues} {queues} {perm} SINGLE_TAG {{}}"));
        }
        parts.text("[]").number(0)
    }
}
