//! The rules once more, as naively as they can be written: maps of maps, no indices, no sharing, no deltas.
//!
//! It transcribes the tables of the original, with its defects repaired as [`Tables`](crate::Tables) repairs them, and
//! shares no code with it. Every step may walk everything. It knows no limits of size.

use std::collections::{BTreeMap, BTreeSet};

use super::Probe;
use crate::{
    Applied, Command, ConnectionId, DataVersion, KeyStyle, LiveKey, Master, Millis, MinIdChange, Name, Outcome,
    QueueSettings, Refusal, Registered, Registration, TopicMapping, Unregistration, query::UnitTopics,
};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Member {
    addr: Name,
    live: LiveKey,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Group {
    cluster: Name,
    acting: bool,
    zone: Option<Name>,
    members: BTreeMap<i64, Member>,
}

impl Group {
    fn min_id(&self) -> i64 {
        self.members.keys().next().copied().unwrap_or(0)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Live {
    last: u64,
    timeout: u64,
    version: DataVersion,
    connection: ConnectionId,
    ha: Option<Name>,
    filters: Vec<Option<Name>>,
    former_ids: Vec<i64>,
    former_connections: Vec<ConnectionId>,
}

/// The state of the naive registry.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Model {
    groups: BTreeMap<Name, Group>,
    clusters: BTreeMap<Name, BTreeSet<Name>>,
    live: BTreeMap<LiveKey, Live>,
    topics: BTreeMap<Name, BTreeMap<Name, QueueSettings>>,
    /// Topic, `bname`, group that brought it, mapping.
    mappings: BTreeMap<Name, BTreeMap<Option<Name>, (Name, TopicMapping)>>,
    delete_topic_with_registration: bool,
}

impl Model {
    /// Applies a command at time `now`.
    pub fn apply(&mut self, command: &Command, now: Millis) -> Applied {
        let mut applied = Applied::new(Outcome::Done);
        match command {
            Command::Register(registration) => return self.register(registration, now),
            Command::Unregister(request) => self.unregister(request, &mut applied),
            Command::Disconnect(connection) => {
                let keys = self.keys_where(|live| live.connection == *connection);
                keys.iter().for_each(|key| self.remove_broker(key, &mut applied));
            }
            Command::Heartbeat { cluster, broker_addr } => {
                self.beat(&LiveKey { cluster: cluster.clone(), addr: broker_addr.clone() }, now);
            }
            Command::Expire => {
                let keys = self.keys_where(|live| live.last.saturating_add(live.timeout) < now.0);
                let connections: BTreeSet<_> = keys.iter().map(|key| self.live[key].connection).collect();
                keys.iter().for_each(|key| self.remove_broker(key, &mut applied));
                let in_use = |connection| self.live.values().any(|live| live.connection == connection);
                applied.abandoned = connections.into_iter().filter(|&connection| !in_use(connection)).collect();
            }
            Command::WipeWritePerm { broker_name } => {
                applied.outcome = self.change_perms(broker_name, |perm| perm & !2);
            }
            Command::AddWritePerm { broker_name } => applied.outcome = self.change_perms(broker_name, |_| 6),
            Command::DeleteTopic { topic, cluster } => self.delete_topic(topic, cluster.as_deref().unwrap_or("")),
            Command::RegisterTopic { topic, queues, .. } => {
                if queues.iter().all(|(broker, _)| self.groups.contains_key(broker)) {
                    for (broker, settings) in queues {
                        self.topics.entry(topic.clone()).or_default().insert(broker.clone(), *settings);
                    }
                }
            }
            Command::DeleteTopicWithRegistration(on) => self.delete_topic_with_registration = *on,
        }
        applied
    }

    /// A heartbeat; says whether the broker is known.
    pub fn beat(&mut self, key: &LiveKey, now: Millis) -> bool {
        self.live.get_mut(key).map(|live| live.last = live.last.max(now.0)).is_some()
    }

    fn refusal(&self, r: &Registration) -> Option<Refusal> {
        let holder = self.groups.get(&r.broker_name).and_then(|group| group.members.get(&r.broker_id));
        match holder {
            Some(holder) if holder.addr != r.broker_addr => {
                let key = LiveKey { cluster: r.cluster.clone(), addr: holder.addr.clone() };
                let held = self.live.get(&key).map(|live| live.version.state_version);
                (held > Some(r.body.data_version.state_version))
                    .then(|| Refusal::IdHeld { broker_id: r.broker_id, holder: holder.addr.clone() })
            }
            Some(_) => None,
            None => match r.body.topics.as_ref().map(|topics| topics.len()) {
                None => Some(Refusal::NoTopicTable),
                Some(1) => Some(Refusal::SingleTopicFirst),
                Some(_) => None,
            },
        }
    }

    fn register(&mut self, r: &Registration, now: Millis) -> Applied {
        if let Some(refusal) = self.refusal(r) {
            return Applied::new(Outcome::Refused(refusal));
        }
        let key = LiveKey { cluster: r.cluster.clone(), addr: r.broker_addr.clone() };
        self.clusters.entry(r.cluster.clone()).or_default().insert(r.broker_name.clone());
        let group = self.groups.entry(r.broker_name.clone()).or_insert_with(|| Group {
            cluster: r.cluster.clone(),
            acting: false,
            zone: None,
            members: BTreeMap::new(),
        });
        group.acting = r.enable_acting_master.unwrap_or(false);
        group.zone.clone_from(&r.zone);
        let acting = group.acting;
        let former_min = group.min_id();
        let former_id = group.members.iter().find(|(_, member)| member.addr == r.broker_addr).map(|(id, _)| *id);
        group.members.retain(|id, member| member.addr != r.broker_addr || *id == r.broker_id);
        let replaced = group.members.insert(r.broker_id, Member { addr: r.broker_addr.clone(), live: key.clone() });
        let min_id = group.min_id();

        let is_refresh =
            replaced.is_none() || self.live.get(&key).is_none_or(|live| live.version != r.body.data_version);
        if let Some(replaced) = replaced.filter(|replaced| replaced.addr != r.broker_addr)
            && !self.is_member(&replaced.live)
        {
            self.remove_live(&replaced.live);
        }
        self.put_live(r, &key, former_id.filter(|id| *id != r.broker_id), now);

        let is_prime_slave = r.enable_acting_master.is_some() && r.broker_id != 0 && min_id == r.broker_id;
        if r.broker_id == 0 || is_prime_slave {
            self.take_topics(r, is_refresh, is_prime_slave && acting);
        }

        let group = &self.groups[&r.broker_name];
        let master = group.members.get(&0).filter(|_| r.broker_id != 0).and_then(|master| {
            let key = LiveKey { cluster: r.cluster.clone(), addr: master.addr.clone() };
            let live = self.live.get(&key)?;
            Some(Master { addr: master.addr.clone(), ha_addr: live.ha.clone() })
        });
        let mut applied = Applied::new(Outcome::Registered(Registered { master }));
        if r.broker_id < former_min {
            let others = group.members.iter().filter(|(id, _)| group.members.len() == 1 || **id != min_id);
            applied.min_id_changes.push(MinIdChange {
                broker_name: r.broker_name.clone(),
                min_broker_id: min_id,
                min_broker_addr: group.members[&min_id].addr.clone(),
                offline_broker_addr: None,
                ha_broker_addr: r.ha_addr.clone(),
                recipients: others.map(|(_, member)| member.addr.clone()).collect(),
            });
        }
        applied
    }

    fn put_live(&mut self, r: &Registration, key: &LiveKey, former_id: Option<i64>, now: Millis) {
        let held = self.live.remove(key);
        let mut former_ids = held.as_ref().map(|held| held.former_ids.clone()).unwrap_or_default();
        if let Some(former_id) = former_id {
            former_ids.retain(|id| *id != former_id && *id != r.broker_id);
            former_ids.push(former_id);
            former_ids = former_ids.split_off(former_ids.len().saturating_sub(4));
        }
        let mut former_connections = held.as_ref().map(|held| held.former_connections.clone()).unwrap_or_default();
        if let Some(held) = &held {
            former_connections.retain(|connection| *connection != held.connection);
            former_connections.push(held.connection);
        }
        former_connections.retain(|connection| *connection != r.connection);
        former_connections = former_connections.split_off(former_connections.len().saturating_sub(8));
        let filters = r.body.filter_servers.clone();
        let live = Live {
            last: held.as_ref().map_or(0, |held| held.last).max(now.0),
            timeout: r.heartbeat_timeout_ms.map_or(120_000, |ms| ms.clamp(1_000, 3_600_000).unsigned_abs()),
            version: r.body.data_version,
            connection: r.connection,
            ha: r.ha_addr.clone(),
            filters: filters.or(held.map(|held| held.filters)).unwrap_or_default(),
            former_ids,
            former_connections,
        };
        self.live.insert(key.clone(), live);
    }

    fn take_topics(&mut self, r: &Registration, is_refresh: bool, is_read_only: bool) {
        let (broker, body) = (&r.broker_name, &r.body);
        let Some(table) = &body.topics else {
            return;
        };
        if self.delete_topic_with_registration && body.mappings.is_empty() {
            let served = self.topics.iter().filter(|(_, queues)| queues.contains_key(broker));
            let missing =
                served.map(|(topic, _)| topic.clone()).filter(|topic| !table.keys().any(|key| key == &**topic));
            for topic in missing.collect::<Vec<_>>() {
                self.remove_from_topic(&topic, |name| name == broker);
            }
        }
        for (topic, settings) in table.iter() {
            let queues = self.topics.entry(topic.into()).or_default();
            if is_refresh || !queues.contains_key(broker) {
                let perm = if is_read_only { settings.perm & !2 } else { settings.perm };
                queues.insert(broker.clone(), QueueSettings { perm, ..settings });
            }
        }
        if is_refresh {
            for (topic, mapping) in &body.mappings {
                let by_broker = self.mappings.entry(topic.clone()).or_default();
                by_broker.insert(mapping.bname.clone(), (broker.clone(), mapping.clone()));
            }
        }
    }

    fn unregister(&mut self, request: &Unregistration, applied: &mut Applied) {
        let Some(group) = self.groups.get(&request.broker_name) else {
            return;
        };
        let was_min = group.min_id() == request.broker_id;
        let member = group.members.iter().find(|(_, member)| member.addr == request.broker_addr);
        if let Some((&id, member)) = member {
            let key = member.live.clone();
            let live = &self.live[&key];
            let is_over_old_connection = live.former_connections.contains(&request.connection);
            if is_over_old_connection || (id != request.broker_id && live.former_ids.contains(&request.broker_id)) {
                return;
            }
            applied.brokers_removed = 1;
            self.groups.get_mut(&request.broker_name).expect("found above").members.remove(&id);
            let named = LiveKey { cluster: request.cluster.clone(), addr: request.broker_addr.clone() };
            for key in [key, named] {
                if !self.is_member(&key) {
                    self.remove_live(&key);
                }
            }
        }
        self.settle(&request.broker_name, was_min.then(|| request.broker_addr.clone()), applied);
    }

    fn remove_broker(&mut self, key: &LiveKey, applied: &mut Applied) {
        applied.brokers_removed += 1;
        for name in self.groups.keys().cloned().collect::<Vec<_>>() {
            let group = self.groups.get_mut(&name).expect("the name is a key");
            let min_id = group.min_id();
            let Some(id) = group.members.iter().find(|(_, member)| member.live == *key).map(|(id, _)| *id) else {
                continue;
            };
            group.members.remove(&id);
            self.settle(&name, (id == min_id).then(|| key.addr.clone()), applied);
        }
        self.remove_live(key);
    }

    fn settle(&mut self, name: &Name, min_left: Option<Name>, applied: &mut Applied) {
        let group = &self.groups[name];
        if group.members.is_empty() || min_left.is_some() {
            applied.min_id_changes.retain(|change| change.broker_name != *name);
        }
        if group.members.is_empty() {
            self.groups.remove(name);
            for names in self.clusters.values_mut() {
                names.remove(name);
            }
            self.clusters.retain(|_, names| !names.is_empty());
            for topic in self.topics.keys().chain(self.mappings.keys()).cloned().collect::<Vec<_>>() {
                self.remove_from_topic(&topic, |held| held == name);
            }
            return;
        }
        if !group.acting {
            return;
        }
        let min_id = group.min_id();
        if let Some(left) = min_left {
            applied.min_id_changes.push(MinIdChange {
                broker_name: name.clone(),
                min_broker_id: min_id,
                min_broker_addr: group.members[&min_id].addr.clone(),
                offline_broker_addr: Some(left),
                ha_broker_addr: None,
                recipients: group.members.values().map(|member| member.addr.clone()).collect(),
            });
        }
        if min_id > 0 {
            self.change_perms(name, |perm| perm & !2);
        }
    }

    fn change_perms(&mut self, broker: &Name, change: impl Fn(i32) -> i32) -> Outcome {
        let mut count = 0;
        for settings in self.topics.values_mut().filter_map(|queues| queues.get_mut(broker)) {
            settings.perm = change(settings.perm);
            count += 1;
        }
        Outcome::TopicsChanged(count)
    }

    fn delete_topic(&mut self, topic: &Name, cluster: &str) {
        let names = self.clusters.get(cluster).cloned().unwrap_or_default();
        self.remove_from_topic(topic, |name| cluster.is_empty() || names.contains(name));
    }

    fn remove_from_topic(&mut self, topic: &Name, leaves: impl Fn(&Name) -> bool) {
        if let Some(queues) = self.topics.get_mut(topic) {
            queues.retain(|broker, _| !leaves(broker));
        }
        if let Some(by_broker) = self.mappings.get_mut(topic) {
            by_broker.retain(|_, (owner, _)| !leaves(owner));
        }
        self.topics.retain(|_, queues| !queues.is_empty());
        self.mappings.retain(|_, by_broker| !by_broker.is_empty());
    }

    fn keys_where(&self, picks: impl Fn(&Live) -> bool) -> Vec<LiveKey> {
        self.live.iter().filter(|(_, live)| picks(live)).map(|(key, _)| key.clone()).collect()
    }

    fn is_member(&self, key: &LiveKey) -> bool {
        self.groups.values().any(|group| group.members.values().any(|member| member.live == *key))
    }

    fn remove_live(&mut self, key: &LiveKey) {
        self.live.remove(key);
    }
}

/// Answers, written out with nothing kept from one to the next.
impl Model {
    /// What the registry has to answer.
    pub fn ask(&self, probe: &Probe) -> String {
        match probe {
            Probe::Route { topic, style, acting_master, zone, order_conf } => {
                self.route(topic, *style, *acting_master, zone.as_deref(), order_conf.as_deref())
            }
            Probe::ClusterInfo => {
                let groups = self.groups.iter().map(|(name, group)| {
                    format!("{name:?}:{}", broker_data(name, group, &ids_of(group), KeyStyle::Bare))
                });
                let clusters = self.clusters.iter().map(|(cluster, names)| format!("{cluster:?}:{}", list(names)));
                format!("{{\"brokerAddrTable\":{{{}}},\"clusterAddrTable\":{{{}}}}}", joined(groups), joined(clusters))
            }
            Probe::AllTopics => topic_list(self.topics.keys()),
            Probe::TopicsOfCluster(cluster) => {
                let names = self.clusters.get(cluster).cloned().unwrap_or_default();
                let served = self.topics.iter().filter(|(_, queues)| queues.keys().any(|name| names.contains(name)));
                topic_list(served.map(|(topic, _)| topic))
            }
            Probe::SystemTopics => {
                let names: BTreeSet<&Name> =
                    self.clusters.iter().flat_map(|(cluster, names)| std::iter::once(cluster).chain(names)).collect();
                let first = self.clusters.values().flatten().next().map(|name| &self.groups[name]);
                let addr = first.map_or(String::new(), |group| {
                    format!("\"brokerAddr\":{:?},", group.members[&group.min_id()].addr)
                });
                format!("{{{addr}{}", &topic_list(names.into_iter())[1..])
            }
            Probe::UnitTopics(which) => {
                let picks = |flag: i32| match which {
                    UnitTopics::Unit => flag & 1 == 1,
                    UnitTopics::UnitSubscription => flag & 2 == 2,
                    UnitTopics::UnitSubscriptionOnly => flag & 3 == 2,
                };
                let first = |queues: &BTreeMap<Name, QueueSettings>| {
                    queues.values().next().is_some_and(|settings| picks(settings.topic_sys_flag))
                };
                topic_list(self.topics.iter().filter(|(_, queues)| first(queues)).map(|(topic, _)| topic))
            }
            Probe::MemberGroup(cluster, name) => {
                let group = name.as_ref().and_then(|name| self.groups.get(name));
                let addrs = group.map_or(String::new(), |group| addrs_of(&ids_of(group), KeyStyle::Bare));
                let name = name.as_ref().map_or(String::new(), |name| format!(",\"brokerName\":{name:?}"));
                let cluster = cluster.as_ref().map_or(String::new(), |cluster| format!(",\"cluster\":{cluster:?}"));
                format!("{{\"brokerMemberGroup\":{{\"brokerAddrs\":{{{addrs}}}{name}{cluster}}}}}")
            }
            Probe::DataVersion(key, version) => {
                let known = self.live.get(key).map(|live| live.version);
                format!("changed={} known={known:?}", known.is_none() || known != *version)
            }
        }
    }

    fn route(&self, topic: &Name, style: KeyStyle, acting: bool, zone: Option<&str>, order: Option<&str>) -> String {
        let Some(queues) = self.topics.get(topic) else {
            return "none".into();
        };
        let (mut brokers, mut shown_queues, mut filters) = (Vec::new(), Vec::new(), BTreeMap::new());
        for (name, settings) in queues {
            let group = &self.groups[name];
            let mut ids = ids_of(group);
            let is_rewritten = acting
                && !topic.starts_with("rmq_sys_SYNC_BROKER_MEMBER_")
                && group.acting
                && !ids.contains_key(&0)
                && settings.perm & 2 == 0;
            if is_rewritten {
                let addr = ids.remove(&group.min_id()).expect("the smallest id is there");
                ids.insert(0, addr);
            }
            if let Some(zone) = zone
                && ids.contains_key(&0)
                && group.zone.as_deref().map(str::to_lowercase) != Some(zone.to_lowercase())
            {
                continue;
            }
            brokers.push(broker_data(name, group, &ids, style));
            shown_queues.push(format!(
                "{{\"brokerName\":{name:?},\"perm\":{},\"readQueueNums\":{},\"topicSysFlag\":{},\"writeQueueNums\":{}}}",
                settings.perm, settings.read_queues, settings.topic_sys_flag, settings.write_queues
            ));
            // Of members that registered under the cluster of their group.
            for member in group.members.values().filter(|member| member.live.cluster == group.cluster) {
                let servers = &self.live[&member.live].filters;
                if !servers.is_empty() {
                    // The table has one list an address; of several clusters' lists any may stand, here the smallest.
                    let piece = format!("{:?}:{}", member.addr, filter_list(servers));
                    let shown = filters.entry(member.addr.clone()).or_insert_with(|| piece.clone());
                    *shown = piece.min(shown.clone());
                }
            }
        }
        let filters = joined(filters.into_values());
        let order = order.map_or(String::new(), |order| format!(",\"orderTopicConf\":{order:?}"));
        format!(
            "{{\"brokerDatas\":[{}],\"filterServerTable\":{{{filters}}}{order},\"queueDatas\":[{}]{}}}",
            brokers.join(","),
            shown_queues.join(","),
            self.mappings_of(topic, style),
        )
    }

    fn mappings_of(&self, topic: &Name, style: KeyStyle) -> String {
        let all = self.mappings.get(topic).into_iter().flatten();
        let pieces = all.filter_map(|(bname, (_, mapping))| {
            let bname = bname.as_ref()?;
            let text = |key: &str, value: &Option<Name>| {
                value.as_ref().map_or(String::new(), |value| format!("\"{key}\":{value:?},"))
            };
            let ids = mapping.curr_id_map.as_ref().map_or(String::new(), |ids| {
                let ids =
                    ids.iter().map(|(logic, physical)| format!("{}:{physical}", int_key(i64::from(*logic), style)));
                format!("\"currIdMap\":{{{}}},", joined(ids))
            });
            Some(format!(
                "{bname:?}:{{\"bname\":{bname:?},{ids}\"dirty\":{},\"epoch\":{},{}{}\"totalQueues\":{}}}",
                mapping.dirty,
                long(mapping.epoch, style),
                text("scope", &mapping.scope),
                text("topic", &mapping.topic),
                mapping.total_queues
            ))
        });
        let pieces = joined(pieces);
        if pieces.is_empty() { pieces } else { format!(",\"topicQueueMappingByBroker\":{{{pieces}}}") }
    }
}

fn ids_of(group: &Group) -> BTreeMap<i64, Name> {
    group.members.iter().map(|(id, member)| (*id, member.addr.clone())).collect()
}

fn int_key(key: i64, style: KeyStyle) -> String {
    if style == KeyStyle::Quoted { format!("\"{key}\"") } else { key.to_string() }
}

fn long(value: i64, style: KeyStyle) -> String {
    let is_exact = (-(1 << 53) + 1..1 << 53).contains(&value);
    if style == KeyStyle::Quoted && !is_exact { format!("\"{value}\"") } else { value.to_string() }
}

fn addrs_of(ids: &BTreeMap<i64, Name>, style: KeyStyle) -> String {
    joined(ids.iter().map(|(id, addr)| format!("{}:{addr:?}", int_key(*id, style))))
}

fn broker_data(name: &Name, group: &Group, ids: &BTreeMap<i64, Name>, style: KeyStyle) -> String {
    let zone = group.zone.as_ref().map_or(String::new(), |zone| format!(",\"zoneName\":{zone:?}"));
    format!(
        "{{\"brokerAddrs\":{{{}}},\"brokerName\":{name:?},\"cluster\":{:?},\"enableActingMaster\":{}{zone}}}",
        addrs_of(ids, style),
        group.cluster,
        group.acting
    )
}

fn joined(pieces: impl Iterator<Item = String>) -> String {
    pieces.collect::<Vec<_>>().join(",")
}

fn filter_list(servers: &[Option<Name>]) -> String {
    let servers =
        servers.iter().map(|server| server.as_ref().map_or("null".to_owned(), |server| format!("{server:?}")));
    format!("[{}]", servers.collect::<Vec<_>>().join(","))
}

fn list<'a>(names: impl IntoIterator<Item = &'a Name>) -> String {
    format!("[{}]", joined(names.into_iter().map(|name| format!("{name:?}"))))
}

fn topic_list<'a>(names: impl Iterator<Item = &'a Name>) -> String {
    format!("{{\"topicList\":{}}}", list(names))
}
