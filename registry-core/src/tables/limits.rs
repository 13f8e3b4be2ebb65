//! How large the tables may grow. Peers fill them, so each has an end.

/// How large the tables may grow, and how much of them one source may hold.
///
/// Numbers are entries unless a field says bytes. Bytes of names are those of UTF-8; bytes of lists and routes are those of
/// the JSON in which they are sent, escapes included; [`registry_bytes_max`](Self::registry_bytes_max) is an estimate of
/// memory.
///
/// A route is never larger than `topic_groups_max * group_bytes_max + topic_mappings_max * mapping_bytes_max` and its order
/// configuration: with the defaults 14.0 MiB, of the 16 MiB that Java clients accept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableLimits {
    /// Bytes of a topic's name; default 1,024. Brokers refuse topics of more than 127 characters; group names of 255
    /// characters come with a prefix.
    pub topic_bytes_max: usize,
    /// Bytes of every other name: cluster, broker, address, zone, filter server, scope; default 512: a host name has up to
    /// 253 characters, and its port.
    pub name_bytes_max: usize,

    /// Broker groups; default 50,000: five times the largest cluster known. A change costs a pointer for each.
    pub groups_max: usize,
    /// Brokers in one group; default 128: a group is one master and a handful of slaves.
    pub members_max: usize,
    /// Bytes that one group adds to a route: names, addresses, filter servers; default 3,072: a group of three takes some
    /// 300, the rest is for long names and many slaves.
    pub group_bytes_max: usize,
    /// Clusters that list one group; default 16: a broker has one, which it may change. Beyond it, the oldest that no member
    /// names any more is forgotten.
    pub group_clusters_max: usize,
    /// Distinct topic settings of one group; default 4,096: a cluster has some dozens.
    pub group_settings_max: usize,
    /// Clusters; default 10,000: a name server serves one or a few.
    pub clusters_max: usize,

    /// Live brokers; default 100,000: two for each group.
    pub brokers_max: usize,
    /// Groups that one address is a member of; default 16: a broker is in one.
    pub broker_groups_max: usize,
    /// Brokers that stay alive without a group, because they have another cluster name now; default 1,024. The oldest gives
    /// way.
    pub groupless_brokers_max: usize,

    /// Topics; default 4,000,000: the memory of one (about 200 bytes with four brokers) times this stays below 1 GiB.
    pub topics_max: usize,
    /// Groups that serve one topic; default 4,096: every group serves the system topics, so the largest cluster, and then
    /// some.
    pub topic_groups_max: usize,
    /// Static-topic mappings of one topic; default 64: one for each group that has queues of it.
    pub topic_mappings_max: usize,
    /// Bytes of one static-topic mapping; default 32,768: some 3,000 queues.
    pub mapping_bytes_max: usize,

    /// Bytes of the list of all topics (206); default 67,108,864: a million topics of 64 bytes. Java clients read lists up to
    /// 16 MiB unless they are told otherwise, and that of more topics against the original no better.
    pub topic_list_bytes_max: usize,
    /// Bytes of the list of all groups and clusters (106); default 16,000,000: below the 16 MiB that Java clients accept;
    /// some 40,000 groups.
    pub cluster_info_bytes_max: usize,
    /// Bytes of memory that all of it takes, as estimated; default 1 GiB: what four million topics take.
    pub registry_bytes_max: usize,

    /// How much one source may hold of groups, clusters, brokers, topics and the bytes of lists and memory, and of the groups
    /// of a topic; default 50 percent. Whoever fills a table leaves half of it to others.
    pub source_share_percent: usize,
}

impl Default for TableLimits {
    fn default() -> Self {
        Self {
            topic_bytes_max: Self::TOPIC_BYTES_MAX.into(),
            name_bytes_max: 512,
            groups_max: 50_000,
            members_max: 128,
            group_bytes_max: 3_072,
            group_clusters_max: 16,
            group_settings_max: 4_096,
            clusters_max: 10_000,
            brokers_max: 100_000,
            broker_groups_max: 16,
            groupless_brokers_max: 1_024,
            topics_max: 4_000_000,
            topic_groups_max: 4_096,
            topic_mappings_max: 64,
            mapping_bytes_max: 32_768,
            topic_list_bytes_max: 64 << 20,
            cluster_info_bytes_max: 16_000_000,
            registry_bytes_max: 1 << 30,
            source_share_percent: 50,
        }
    }
}

impl TableLimits {
    /// Default of [`topic_bytes_max`](Self::topic_bytes_max), for those that read names: nobody keeps a longer one.
    pub const TOPIC_BYTES_MAX: u16 = 1_024;

    /// What one source may hold of something that has this limit.
    pub(super) fn share_of(&self, limit: usize) -> usize {
        // Multiplied last: a limit may be all there are numbers for.
        limit / 100 * self.source_share_percent + limit % 100 * self.source_share_percent / 100
    }
}

#[cfg(test)]
mod tests {
    use super::TableLimits;

    #[test]
    fn the_longest_route_is_one_that_clients_read() {
        const FRAME_BYTES_MAX: usize = 16 << 20;
        /// An order configuration, every byte of it an escape, and the header.
        const REST_BYTES: usize = 6 * 65_536 + 1_024;
        let limits = TableLimits::default();
        let groups = limits.topic_groups_max * limits.group_bytes_max;
        let mappings = limits.topic_mappings_max * limits.mapping_bytes_max;
        assert!(groups + mappings + REST_BYTES < FRAME_BYTES_MAX);
        assert!(limits.cluster_info_bytes_max < FRAME_BYTES_MAX);
    }
}
