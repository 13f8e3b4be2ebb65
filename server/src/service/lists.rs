//! Queries that look at everything: 106, 206, 224, 304, 311, 312, 313.

use registry_core::{
    Reader, View,
    query::{self, UnitTopics},
};

use super::{Call, Handled, OffWorker};
use crate::remoting::ResponseCode;

impl<R: Reader> OffWorker<R> {
    /// `GET_BROKER_CLUSTER_INFO` (106).
    pub(super) fn cluster_info(&mut self, call: Call<'_>, out: &mut Vec<u8>) -> Handled {
        self.answer_with(call, out, |reader, out| {
            let start = out.len();
            reader.read(|view| {
                out.truncate(start);
                query::cluster_info(view.root(), out);
                Ok(())
            });
        })
    }

    /// `GET_SYSTEM_TOPIC_LIST_FROM_NS` (304).
    pub(super) fn system_topics(&mut self, call: Call<'_>, out: &mut Vec<u8>) -> Handled {
        self.answer_with(call, out, |reader, out| {
            let start = out.len();
            reader.read(|view| {
                out.truncate(start);
                query::system_topics(view.root(), out);
                Ok(())
            });
        })
    }

    /// `GET_ALL_TOPIC_LIST_FROM_NAMESERVER` (206).
    pub(super) fn all_topics(&mut self, call: Call<'_>, out: &mut Vec<u8>) -> Handled {
        if !self.shared.config.live().enable_all_topic_list() {
            return self.disabled(call, out);
        }
        self.answer_with(call, out, |reader, out| reader.read(|view| query::all_topics(view, out)))
    }

    /// `GET_TOPICS_BY_CLUSTER` (224).
    pub(super) fn topics_of_cluster(&mut self, call: Call<'_>, out: &mut Vec<u8>) -> Handled {
        if !self.shared.config.live().enable_topic_list() {
            return self.disabled(call, out);
        }
        // An absent cluster is as unknown as any.
        let cluster = call.request.ext.get("cluster").unwrap_or_default();
        self.answer_with(call, out, |reader, out| reader.read(|view| query::topics_of_cluster(view, cluster, out)))
    }

    /// `GET_UNIT_TOPIC_LIST` (311) and its relatives (312, 313).
    pub(super) fn unit_topics(&mut self, call: Call<'_>, out: &mut Vec<u8>, which: UnitTopics) -> Handled {
        if !self.shared.config.live().enable_topic_list() {
            return self.disabled(call, out);
        }
        self.answer_with(call, out, |reader, out| reader.read(|view| query::unit_topics(view, which, out)))
    }

    fn disabled(&self, call: Call<'_>, out: &mut Vec<u8>) -> Handled {
        self.error(call, out, ResponseCode::SystemError, "disable")
    }
}
