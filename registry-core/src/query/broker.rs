//! Single brokers: heartbeats (904), data versions (322), member groups (901), unchanged registrations (103).

use crate::{
    ConnectionId, DataVersion, KeyStyle, LiveKey, Master, Millis, Registered, Root, image::write_addrs,
    json::write_string,
};

/// What became of a heartbeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heartbeat {
    /// The broker is alive: no expiry that is decided from now on counts an older time than this.
    Beaten,
    /// No such broker is registered.
    Unknown,
    /// The broker is being removed. The caller sends [`Command::Heartbeat`](crate::Command::Heartbeat) to the writer,
    /// which answers when the removal is over.
    Late,
}

/// A heartbeat (`BROKER_HEARTBEAT`, 904): one atomic store, no lock, no publication.
pub fn heartbeat(root: &Root, key: &LiveKey, now: Millis) -> Heartbeat {
    match root.live(key) {
        None => Heartbeat::Unknown,
        Some(record) if record.pulse.beat(now) => Heartbeat::Beaten,
        Some(_) => Heartbeat::Late,
    }
}

/// A registration has arrived over this connection. If it is the one that carries the broker, that counts as a heartbeat,
/// however long the registration itself will wait; says whether it did. (A broker that is being removed registers anew.)
pub fn arrival(root: &Root, key: &LiveKey, connection: ConnectionId, now: Millis) -> bool {
    root.live(key).is_some_and(|record| record.connection == connection && record.pulse.beat(now))
}

/// Answer to a question for a broker's data version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BrokerVersion {
    /// Whether the broker's table has another version than the registry knows, or the broker is unknown.
    pub is_changed: bool,
    /// The version that the registry knows.
    pub known: Option<DataVersion>,
    /// The question counts as a heartbeat, whatever the answer.
    pub heartbeat: Heartbeat,
}

/// Compares a broker's data version with the known one (`QUERY_DATA_VERSION`, 322), in one step: version and verdict
/// belong together.
pub fn query_data_version(root: &Root, key: &LiveKey, version: Option<DataVersion>, now: Millis) -> BrokerVersion {
    let known = root.live(key).map(|record| record.data_version);
    BrokerVersion { is_changed: known.is_none() || known != version, known, heartbeat: heartbeat(root, key, now) }
}

/// Writes the members of a group (`GET_BROKER_MEMBER_GROUP`, 901). Names are echoed, and left out where absent; the
/// cluster is not compared. Numeric keys are always bare.
pub fn member_group(root: &Root, cluster: Option<&str>, broker_name: Option<&str>, out: &mut Vec<u8>) {
    let members = broker_name.and_then(|name| root.group_named(name)).map_or(&[][..], |group| &group.members);
    out.extend_from_slice(b"{\"brokerMemberGroup\":{\"brokerAddrs\":");
    write_addrs(out, members, KeyStyle::Bare);
    if let Some(name) = broker_name {
        out.extend_from_slice(b",\"brokerName\":");
        write_string(out, name);
    }
    if let Some(cluster) = cluster {
        out.extend_from_slice(b",\"cluster\":");
        write_string(out, cluster);
    }
    out.extend_from_slice(b"}}");
}

/// Answers a registration that would change nothing: the broker's last one, byte for byte, over the same connection,
/// and nothing of its group was changed since. It counts as a heartbeat. `None` when the writer has to look at it.
pub fn unchanged_registration(
    root: &Root,
    key: &LiveKey,
    connection: ConnectionId,
    fingerprint: u128,
    now: Millis,
) -> Option<Registered> {
    let record = root.live(key)?;
    let is_unchanged = record.connection == connection && record.is_unchanged(fingerprint) && record.pulse.beat(now);
    is_unchanged.then(|| Registered { master: master_of(root, key, &record.broker_name, record.broker_id) })
}

/// The master that a slave is told: id 0 of its group, if alive under the cluster that the slave named.
fn master_of(root: &Root, key: &LiveKey, broker_name: &str, broker_id: i64) -> Option<Master> {
    if broker_id == 0 {
        return None;
    }
    let (_, addr) = root.group_named(broker_name)?.members.iter().find(|(id, _)| *id == 0)?;
    let master = root.live(&LiveKey { cluster: key.cluster.clone(), addr: addr.clone() })?;
    Some(Master { addr: addr.clone(), ha_addr: master.ha_addr.clone() })
}
