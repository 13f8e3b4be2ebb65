//! Simulated brokers: registrations as brokers of 5.x send them.

use std::{
    fmt::Write as _,
    net::SocketAddr,
    time::{Duration, Instant},
};

use anyhow::ensure;
use server::remoting::RequestCode;

use crate::client::{Client, Query};

/// Topics of one registration: 50,000 of usual names are half of the largest frame. Whoever has more registers in parts,
/// as brokers do that split their registrations.
pub const TOPICS_OF_ONE_REGISTRATION: usize = 50_000;

/// Name of the cluster that all brokers are in.
pub const CLUSTER: &str = "DefaultCluster";

/// A master that has no slave.
#[derive(Clone, Debug)]
pub struct Broker {
    /// `brokerName`.
    pub name: String,
    /// `brokerAddr`.
    pub addr: String,
    /// Counter of its data version: a registration with the same one changes no topic.
    pub version: u64,
    /// Queues of each of its topics, for reading and for writing.
    pub queues: u32,
}

impl Broker {
    /// The broker with this number.
    pub fn new(number: usize) -> Self {
        let addr = format!("10.{}.{}.{}:10911", number >> 16 & 255, number >> 8 & 255, number & 255);
        Self { name: format!("broker-{number:03}"), addr, version: 0, queues: 8 }
    }

    /// A registration of these topics with the present data version.
    pub fn registration<'t>(&self, topics: impl IntoIterator<Item = &'t str>) -> Query {
        let mut body = format!(
            "{{\"filterServerList\":[],\"topicConfigSerializeWrapper\":{{\"dataVersion\":{{\"counter\":{},\
             \"stateVersion\":0,\"timestamp\":1700000000000}},\"topicConfigTable\":{{",
            self.version
        );
        let queues = self.queues;
        for (number, topic) in topics.into_iter().enumerate() {
            let comma = if number > 0 { "," } else { "" };
            let _ = write!(
                body,
                "{comma}\"{topic}\":{{\"attributes\":{{}},\"order\":false,\"perm\":6,\"readQueueNums\":{queues},\
                 \"topicFilterType\":\"SINGLE_TAG\",\"topicName\":\"{topic}\",\"topicSysFlag\":0,\"writeQueueNums\":{queues}}}"
            );
        }
        // No queue is mapped: brokers of 5.x say so, and some servers want to hear it.
        body.push_str(
            "},\"mappingDataVersion\":{\"counter\":0,\"stateVersion\":0,\"timestamp\":1700000000000},\
             \"topicQueueMappingDetailMap\":{},\"topicQueueMappingInfoMap\":{}}}",
        );
        // The checksum has no sign bit (`UtilAll.crc32`).
        let crc = crc32fast::hash(body.as_bytes()) & 0x7fff_ffff;
        let fields = [
            ("brokerId", "0"),
            ("bodyCrc32", &crc.to_string()),
            ("clusterName", CLUSTER),
            ("brokerAddr", &self.addr),
            ("enableActingMaster", "false"),
            ("haServerAddr", &self.addr.replace("10911", "10912")),
            ("compressed", "false"),
            ("brokerName", &self.name),
        ];
        Query { body: body.into(), ..Query::new(RequestCode::RegisterBroker, &fields) }
    }

    /// The fields that name it in an unregistration or a heartbeat.
    fn named(&self, code: RequestCode) -> Query {
        let names =
            [("clusterName", CLUSTER), ("brokerAddr", &*self.addr), ("brokerName", &*self.name), ("brokerId", "0")];
        Query::new(code, &names)
    }

    /// Its unregistration.
    pub fn unregistration(&self) -> Query {
        self.named(RequestCode::UnregisterBroker)
    }

    /// Its heartbeat.
    pub fn heartbeat(&self) -> Query {
        self.named(RequestCode::BrokerHeartbeat)
    }

    /// Registers topics over `client`, in as many parts as it takes. Says how long the answers took.
    ///
    /// # Errors
    /// When a part is refused.
    pub fn register(&mut self, client: &mut Client, topics: &[String]) -> anyhow::Result<Duration> {
        let mut waited = Duration::ZERO;
        for part in topics.chunks(TOPICS_OF_ONE_REGISTRATION) {
            self.version += 1;
            let registration = self.registration(part.iter().map(String::as_str));
            let start = Instant::now();
            client.ask(&registration)?;
            waited += start.elapsed();
        }
        Ok(waited)
    }
}

/// Names of topics, of some 20 characters as people give them.
pub fn topic_names(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("orders-of-shop-{number:06}")).collect()
}

/// A broker and its connection: when that is dropped, the broker is gone.
#[derive(Debug)]
pub struct Registered {
    /// The broker.
    pub broker: Broker,
    /// The connection that carries it.
    pub client: Client,
}

impl Registered {
    /// Sends a heartbeat: a broker that sends none for two minutes is dead.
    ///
    /// # Errors
    /// When it is refused.
    pub fn beat(&mut self) -> anyhow::Result<()> {
        self.client.ask(&self.broker.heartbeat())?;
        Ok(())
    }
}

/// Registers brokers with these numbers, each with all topics and over its own connection.
///
/// # Errors
/// When one is refused, or one of the topics does not show all of them afterwards.
pub fn populate(
    addr: SocketAddr,
    brokers: std::ops::Range<usize>,
    topics: &[String],
) -> anyhow::Result<Vec<Registered>> {
    let mut registered = Vec::new();
    for number in brokers {
        let mut one = Registered { broker: Broker::new(number), client: Client::connect(addr)? };
        one.broker.register(&mut one.client, topics)?;
        registered.push(one);
    }
    if let Some(topic) = topics.last() {
        let route = Client::connect(addr)?.ask(&Query::route(topic))?;
        for Registered { broker, .. } in &registered {
            ensure!(shows(&route, broker), "the route of {topic} does not show {}", broker.name);
        }
    }
    Ok(registered)
}

/// `readQueueNums` that a route shows of a broker's topic: where its digits are.
pub fn queues_in_route(route: &[u8], broker_name: &str) -> Option<std::ops::Range<usize>> {
    const KEY: &[u8] = b"\"readQueueNums\":";
    let name = format!("\"brokerName\":\"{broker_name}\"");
    memchr::memmem::find_iter(route, KEY).find_map(|key| {
        // The entry of a broker is an object without others inside.
        let begin = memchr::memrchr(b'{', &route[..key])?;
        let end = key + memchr::memchr(b'}', &route[key..])?;
        memchr::memmem::find(&route[begin..end], name.as_bytes())?;
        let digits = key + KEY.len();
        let count = route[digits..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        (count > 0).then_some(digits..digits + count)
    })
}

/// Says whether a route shows a broker: its address among the brokers, and its queues.
pub fn shows(route: &[u8], broker: &Broker) -> bool {
    let has = |text: &str| memchr::memmem::find(route, text.as_bytes()).is_some();
    has(&format!("\"{}\"", broker.addr)) && has(&format!("\"brokerName\":\"{}\"", broker.name))
}

#[cfg(test)]
mod tests {
    use server::body::{BodyLimits, parse_register_body};

    use super::*;

    #[test]
    fn a_registration_is_one_for_the_server() {
        let topics = topic_names(3);
        let query = Broker { version: 7, ..Broker::new(0) }.registration(topics.iter().map(String::as_str));
        let body = parse_register_body(Some(&query.body), 513, false, 0, &BodyLimits::default()).unwrap();
        assert_eq!(body.data_version.counter, Some(7));
        let parsed = body.topics.unwrap();
        assert!(parsed.iter().map(|(name, _)| name).eq(topics.iter().map(String::as_str)));
        assert!(parsed.iter().all(|(_, settings)| settings.is_writable() && settings.read_queues == 8));
    }

    #[test]
    fn the_largest_registration_fits_a_frame() {
        let topics = topic_names(TOPICS_OF_ONE_REGISTRATION);
        let query = Broker::new(0).registration(topics.iter().map(String::as_str));
        assert!(query.body.len() < 12 << 20, "{}", query.body.len());
    }

    #[test]
    fn queues_are_found_in_the_entry_of_their_broker() {
        let route = br#"{"brokerDatas":[{"brokerName":"b-1"}],"queueDatas":[{"brokerName":"b-2","readQueueNums":8},{"brokerName":"b-1","perm":6,"readQueueNums":1234}]}"#;
        let digits = |name| queues_in_route(route, name).map(|digits| &route[digits]);
        assert_eq!((digits("b-1"), digits("b-2"), digits("b-3")), (Some(&b"1234"[..]), Some(&b"8"[..]), None));
        assert_eq!(queues_in_route(br#""readQueueNums":8"#, "b-1"), None);
    }

    #[test]
    fn a_route_shows_a_broker_by_address_and_queues() {
        let broker = Broker::new(258);
        assert_eq!(broker.addr, "10.0.1.2:10911");
        assert!(shows(br#"{"brokerAddrs":{"0":"10.0.1.2:10911"},"brokerName":"broker-258"}"#, &broker));
        assert!(!shows(br#"{"brokerAddrs":{"0":"10.0.1.2:10912"},"brokerName":"broker-258"}"#, &broker));
        assert!(!shows(br#"{"brokerAddrs":{"0":"10.0.1.2:10911"},"brokerName":"broker-25"}"#, &broker));
    }
}
