//! Every query of the protocol, as a function over one state of the registry.
//!
//! A query writes the body of an answer, says what the header of the answer needs, or collects what a longer answer is
//! then made of, when the state is free again. It fails only with
//! [`Stale`](crate::Stale), which the strategy answers by running it again: it truncates its output to where it began.
//! Answers are sorted where the original has the order of a hash table, so two servers in the same state answer the
//! same bytes.

mod broker;
mod cluster;
mod list_cache;
mod route;
mod route_cache;
mod topics;

pub use broker::{
    BrokerVersion, Heartbeat, arrival, heartbeat, member_group, query_data_version, unchanged_registration,
};
pub use cluster::{cluster_info, system_topics};
pub use list_cache::{LIST_UNASKED_MS_MAX, LISTS_KEPT_BYTES_MAX, LISTS_KEPT_MAX, List, ListCache};
pub use route::{RouteQuery, route};
pub use route_cache::RouteCache;
pub use topics::{TopicNames, UnitTopics, all_topics, topics_of_cluster, unit_topics};
