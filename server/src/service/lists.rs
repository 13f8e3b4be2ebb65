//! Queries that look at everything: 106, 206, 224, 304, 311, 312, 313.

use std::sync::Arc;

use bytes::Bytes;
use registry_core::{
    Reader,
    query::{List, UnitTopics},
};

use super::{Call, Handled, OffWorker};
use crate::{
    peers::{Account, Charge},
    remoting::ResponseCode,
};

impl<R: Reader> OffWorker<R> {
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
        let Self { service, lists, .. } = self;
        let share = |body: Vec<u8>| charged(call.account, body);
        let Some(body) = lists.get_with(&mut service.reader, list, call.arrived.unwrap_or(now), now, share) else {
            self.busy(call.request.opaque, out);
            return Handled::Answered;
        };
        let mark = self.shared.encoder.begin_success(out, call.request.opaque);
        if self.shared.encoder.finish_before(out, mark, body.len()) {
            self.body = Some(body);
        }
        Handled::Answered
    }

    fn disabled(&self, call: Call<'_>, out: &mut Vec<u8>) -> Handled {
        self.error(call, out, ResponseCode::SystemError, "disable")
    }
}

/// A body whose memory is charged to whoever asked first, until nobody takes it any more; `None` when there is no room.
fn charged(account: &Arc<Account>, body: Vec<u8>) -> Option<Bytes> {
    struct Charged {
        body: Vec<u8>,
        _charge: Charge,
    }

    impl AsRef<[u8]> for Charged {
        fn as_ref(&self) -> &[u8] {
            &self.body
        }
    }

    let charge = account.charge(body.len()).ok()?;
    Some(Bytes::from_owner(Charged { body, _charge: charge }))
}
