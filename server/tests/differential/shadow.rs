//! What the comparison must know of the state to keep away from the original's defects.
//!
//! Groups are read from the original after every step; the rest is followed from the requests.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde_json::Value;

use crate::op::Op;
use crate::request::{self, Names};
use crate::support::canonical::Body;
use crate::support::frame::Frame;

/// A broker as the live table keys it: cluster name and address.
pub(crate) type Broker = (String, String);

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Group {
    pub(crate) cluster: String,
    pub(crate) acting: bool,
    pub(crate) zone: Option<String>,
    pub(crate) addrs: BTreeMap<i64, String>,
}

impl Group {
    pub(crate) fn has(&self, addr: &str) -> bool {
        self.addrs.values().any(|other| other == addr)
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Live {
    /// The connection that registered last.
    pub(crate) link: i64,
    version: Value,
}

#[derive(Debug, Default)]
struct Past {
    ids: HashSet<i64>,
    links: HashSet<i64>,
}

/// What a registration will come to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Outcome {
    /// Refused before the tables are looked at.
    BadBody,
    /// The id belongs to an address with a higher state version: answered 0, ignored.
    Conflict,
    /// One topic, and the id is not in the group.
    SingleTopic,
    /// Accepted. Its topics count (`topics`), and settings and mappings are taken (`changed`).
    Accepted { topics: bool, changed: bool },
}

#[derive(Debug)]
pub(crate) struct Shadow {
    pub(crate) names: Names,
    pub(crate) groups: BTreeMap<String, Group>,
    pub(crate) live: HashMap<Broker, Live>,
    /// Ids that a live broker registered with, and connections that it came over.
    pasts: HashMap<Broker, Past>,
    /// Addresses that lost their id to another; the original keeps their live entries.
    pub(crate) ghosts: HashSet<Broker>,
    /// Topics that have queues, by the original's list.
    pub(crate) topics: HashSet<String>,
    /// (topic, broker) of static mappings that both servers must show.
    mappings: HashSet<(String, String)>,
    /// (topic, broker) of static mappings that the original forgot to remove.
    stale: HashSet<(String, String)>,
}

impl Shadow {
    pub(crate) fn new(names: Names) -> Self {
        Self {
            names,
            groups: BTreeMap::new(),
            live: HashMap::new(),
            pasts: HashMap::new(),
            ghosts: HashSet::new(),
            topics: HashSet::new(),
            mappings: HashSet::new(),
            stale: HashSet::new(),
        }
    }

    pub(crate) fn broker(&self, op: &Op) -> Broker {
        (self.names.cluster(op), self.names.addr(op))
    }

    pub(crate) fn group(&self, op: &Op) -> Option<&Group> {
        self.groups.get(&self.names.broker(op.broker))
    }

    /// The name of another group that has the address of the step, in the cluster of the step.
    pub(crate) fn other_group_with_address(&self, op: &Op) -> Option<&str> {
        let (cluster, addr) = self.broker(op);
        let name = self.names.broker(op.broker);
        let mut others = self.groups.iter().filter(|(other, _)| **other != name);
        others.find(|(_, group)| group.cluster == cluster && group.has(&addr)).map(|(name, _)| name.as_str())
    }

    /// The step comes over a connection that its broker has left, or quotes an id that it has given up.
    pub(crate) fn is_of_the_past(&self, op: &Op) -> bool {
        let broker = self.broker(op);
        let (Some(past), Some(live)) = (self.pasts.get(&broker), self.live.get(&broker)) else { return false };
        let id = self.group(op).and_then(|group| group.addrs.iter().find(|(_, addr)| **addr == broker.1));
        let is_present_id = id.is_some_and(|(id, _)| *id == op.id);
        (op.link != live.link && past.links.contains(&op.link)) || (!is_present_id && past.ids.contains(&op.id))
    }

    /// What the rules of 3.4 make of a registration.
    pub(crate) fn outcome(&self, op: &Op) -> Outcome {
        if request::has_wrong_checksum(op) {
            return Outcome::BadBody;
        }
        let (cluster, addr) = self.broker(op);
        let mut addrs = self.group(op).map(|group| group.addrs.clone()).unwrap_or_default();
        addrs.retain(|id, other| *other != addr || *id == op.id);
        let version = request::data_version(op);
        if let Some(old) = addrs.get(&op.id).filter(|old| **old != addr) {
            let state = |version: &Value| version["stateVersion"].as_i64().unwrap_or_default();
            let old = self.live.get(&(cluster.clone(), old.clone()));
            if old.is_some_and(|old| state(&old.version) > state(&version)) {
                return Outcome::Conflict;
            }
        }
        let first = !addrs.contains_key(&op.id);
        if first && request::topics(op).len() == 1 {
            return Outcome::SingleTopic;
        }
        addrs.insert(op.id, addr.clone());
        let smallest = addrs.keys().next() == Some(&op.id);
        let changed = first || self.live.get(&(cluster, addr)).is_none_or(|live| live.version != version);
        Outcome::Accepted { topics: op.id == 0 || (op.acting > 0 && smallest), changed }
    }

    /// Follows a step that was sent; `outcome` is what was foreseen for a registration.
    pub(crate) fn note(&mut self, op: &Op, outcome: Option<Outcome>, deletes_topics: bool) {
        let broker = self.broker(op);
        match (op.code, outcome) {
            (103, Some(Outcome::Conflict)) | (104, _) => self.forget(&broker),
            (103, Some(Outcome::Accepted { topics, changed })) => {
                self.note_registration(op, topics && changed, topics && deletes_topics)
            }
            (216, _) => {
                let topic = self.names.topic(op.topic);
                self.forget_mappings(|(mapped, _)| *mapped == topic);
            }
            _ => {}
        }
    }

    fn note_registration(&mut self, op: &Op, takes_mappings: bool, deletes_topics: bool) {
        let broker = self.broker(op);
        let replaced = self.group(op).and_then(|group| group.addrs.get(&op.id)).filter(|old| **old != broker.1);
        if let Some(old) = replaced.cloned() {
            let old = (broker.0.clone(), old);
            self.forget(&old);
            self.ghosts.insert(old);
        }
        self.ghosts.remove(&broker);
        let past = self.pasts.entry(broker.clone()).or_default();
        past.ids.insert(op.id);
        past.links.insert(op.link);
        self.live.insert(broker, Live { link: op.link, version: request::data_version(op) });
        let name = self.names.broker(op.broker);
        if deletes_topics && request::mappings(op).is_empty() {
            let kept: Vec<String> = request::topics(op).iter().map(|topic| self.names.topic(*topic)).collect();
            self.forget_mappings(|(topic, bname)| *bname == name && !kept.contains(topic));
        }
        if takes_mappings {
            for topic in request::mappings(op) {
                let mapping = (self.names.topic(topic), name.clone());
                self.stale.remove(&mapping);
                self.mappings.insert(mapping);
            }
        }
    }

    /// The group is what the outcome says, now that it was read again.
    pub(crate) fn foresaw(&self, op: &Op, outcome: Option<Outcome>) -> bool {
        let (_, addr) = self.broker(op);
        let holds = self.group(op).is_some_and(|group| group.addrs.get(&op.id) == Some(&addr));
        match outcome {
            Some(Outcome::Accepted { .. }) => holds,
            Some(Outcome::Conflict | Outcome::SingleTopic) => !holds,
            Some(Outcome::BadBody) | None => true,
        }
    }

    /// A connection was lost and took its broker along.
    pub(crate) fn note_loss(&mut self, broker: &Broker) {
        self.forget(broker);
    }

    fn forget(&mut self, broker: &Broker) {
        self.live.remove(broker);
        self.pasts.remove(broker);
        self.ghosts.remove(broker);
    }

    /// Takes the groups and topics from the original's answers to 106 and 206.
    pub(crate) fn read(&mut self, cluster_info: &Frame, topic_list: &Frame) {
        let before = std::mem::take(&mut self.groups);
        let info = cluster_info.body.as_deref().and_then(Body::parse).expect("a body of 106").value;
        let prefix = format!("s{}-", self.names.sequence);
        let groups = info["brokerAddrTable"].as_object().expect("a table").iter();
        self.groups = groups
            .filter(|(name, _)| name.starts_with(&prefix))
            .map(|(name, data)| (name.clone(), group(data)))
            .collect();
        let topics = topic_list.body.as_deref().and_then(Body::parse).expect("a body of 206").value;
        let topics = topics["topicList"].as_array().expect("a list").iter().filter_map(Value::as_str);
        self.topics = topics.map(str::to_string).collect();
        let gone: Vec<String> = before.into_keys().filter(|name| !self.groups.contains_key(name)).collect();
        let left = std::mem::take(&mut self.topics);
        self.forget_mappings(|(topic, broker)| gone.contains(broker) || !left.contains(topic));
        self.topics = left;
    }

    /// The brokers whose mapping of the topic only the original still shows; `true`: it should show no other.
    pub(crate) fn stale_mappings(&self, topic: &str) -> (Vec<&str>, bool) {
        let stale = self.stale.iter().filter(|(mapped, _)| mapped == topic).map(|(_, broker)| broker.as_str());
        (stale.collect(), !self.mappings.iter().any(|(mapped, _)| mapped == topic))
    }

    fn forget_mappings(&mut self, forgotten: impl Fn(&(String, String)) -> bool) {
        self.stale.extend(self.mappings.extract_if(forgotten));
    }
}

fn group(data: &Value) -> Group {
    let addrs = data["brokerAddrs"].as_object().expect("addresses").iter();
    Group {
        cluster: data["cluster"].as_str().unwrap_or_default().to_string(),
        acting: data["enableActingMaster"].as_bool().unwrap_or_default(),
        zone: data["zoneName"].as_str().map(str::to_string),
        addrs: addrs
            .map(|(id, addr)| (id.parse().expect("an id"), addr.as_str().unwrap_or_default().to_string()))
            .collect(),
    }
}
