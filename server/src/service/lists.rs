//! Queries that look at everything: 106, 206, 224, 304, 311, 312, 313.

use registry_core::{
    Reader,
    query::{List, UnitTopics},
};

use super::{Call, Handled, Service};
use crate::remoting::ResponseCode;

impl<R: Reader> Service<R> {
    /// `GET_BROKER_CLUSTER_INFO` (106).
    pub(super) fn cluster_info(&mut self, call: Call<'_>, out: &mut Vec<u8>) -> Handled {
        self.list(call, out, List::ClusterInfo)
    }

    /// `GET_SYSTEM_TOPIC_LIST_FROM_NS` (304).
    pub(super) fn system_topics(&mut self, call: Call<'_>, out: &mut Vec<u8>) -> Handled {
        self.list(call, out, List::SystemTopics)
    }

    /// `GET_ALL_TOPIC_LIST_FROM_NAMESERVER` (206).
    pub(super) fn all_topics(&mut self, call: Call<'_>, out: &mut Vec<u8>) -> Handled {
        if !self.shared.config.live().enable_all_topic_list() {
            return self.disabled(call, out);
        }
        self.list(call, out, List::AllTopics)
    }

    /// `GET_TOPICS_BY_CLUSTER` (224).
    pub(super) fn topics_of_cluster(&mut self, call: Call<'_>, out: &mut Vec<u8>) -> Handled {
        if !self.shared.config.live().enable_topic_list() {
            return self.disabled(call, out);
        }
        // An absent cluster is as unknown as any.
        let cluster = call.request.ext.get("cluster").unwrap_or_default();
        self.list(call, out, List::TopicsOfCluster(cluster.into()))
    }

    /// `GET_UNIT_TOPIC_LIST` (311) and its relatives (312, 313).
    pub(super) fn unit_topics(&mut self, call: Call<'_>, out: &mut Vec<u8>, which: UnitTopics) -> Handled {
        if !self.shared.config.live().enable_topic_list() {
            return self.disabled(call, out);
        }
        self.list(call, out, List::UnitTopics(which))
    }

    /// The header of the answer, and behind it the body, which it shares with every answer of the same state.
    fn list(&mut self, call: Call<'_>, out: &mut Vec<u8>, list: List) -> Handled {
        let now = self.now();
        let body = self.lists.get(&mut self.reader, list, call.arrived.unwrap_or(now), now);
        let mark = self.shared.encoder.begin_success(out, call.request.opaque);
        if self.shared.encoder.finish_before(out, mark, body.len()) {
            // The one copy: an answer that has a shared body of its own gets it here, as it is.
            out.extend_from_slice(&body);
        }
        Handled::Answered
    }

    fn disabled(&self, call: Call<'_>, out: &mut Vec<u8>) -> Handled {
        self.error(call, out, ResponseCode::SystemError, "disable")
    }
}
