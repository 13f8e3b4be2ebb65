//! Clusters and their brokers: `GET_BROKER_CLUSTER_INFO` (106), `GET_SYSTEM_TOPIC_LIST_FROM_NS` (304).
//!
//! Both need the root alone: whoever has a share in it ([`View::share_root`](crate::View::share_root)) writes them without a
//! guard.

use std::collections::BTreeSet;

use super::topics::write_names;
use crate::{Group, KeyStyle, Root, json::write_string};

/// Writes every cluster and every broker group (`ClusterInfo`). Numeric keys are always bare, as in the original.
///
/// Cost: O(B log B) in the number of groups.
pub fn cluster_info(root: &Root, out: &mut Vec<u8>) {
    let mut groups: Vec<&Group> = root.groups().collect();
    groups.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    out.extend_from_slice(b"{\"brokerAddrTable\":{");
    for (at, group) in groups.into_iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        write_string(out, &group.name);
        out.push(b':');
        out.extend_from_slice(group.broker_data(KeyStyle::Bare));
    }
    out.extend_from_slice(b"},\"clusterAddrTable\":{");
    for (at, (cluster, names)) in root.clusters().iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        write_string(out, cluster);
        out.push(b':');
        write_names(out, names.iter().map(|name| &**name));
    }
    out.extend_from_slice(b"}}");
}

/// Writes the names of all clusters and groups, under which brokers have topics of their own, and the address of some
/// broker (`TopicList`).
///
/// Cost: O(B log B) in the number of groups.
pub fn system_topics(root: &Root, out: &mut Vec<u8>) {
    let clusters = root.clusters();
    let names = clusters.iter().flat_map(|(cluster, names)| std::iter::once(cluster).chain(names.iter()));
    let names: BTreeSet<&str> = names.map(|name| &**name).collect();
    let groups = clusters.iter().flat_map(|(_, names)| names.iter()).filter_map(|name| root.group_named(name));
    let addr = groups.flat_map(|group| group.members.first()).map(|(_, addr)| addr).next();
    out.push(b'{');
    if let Some(addr) = addr {
        out.extend_from_slice(b"\"brokerAddr\":");
        write_string(out, addr);
        out.push(b',');
    }
    out.extend_from_slice(b"\"topicList\":");
    write_names(out, names.into_iter());
    out.push(b'}');
}
