//! Single brokers: heartbeats, data versions, farewells, permissions; and single topics.

use registry_core::{
    Command, LiveKey, Reader, Unregistration, View,
    query::{self, Heartbeat},
};

use super::{Answer, Call, Handled, OffWorker, Service};
use crate::{
    body::{BodyLimits, parse_data_version, parse_topic_route, write_data_version},
    remoting::{ResponseCode, ResponseHeader},
};

impl<R: Reader> Service<R> {
    /// `BROKER_HEARTBEAT` (904).
    pub(super) fn heartbeat(&mut self, call: Call<'_>, out: &mut Vec<u8>) -> Handled {
        let Some(key) = live_key(call) else {
            return self.missing(call, out, "clusterName or brokerAddr");
        };
        let now = self.now();
        match self.reader.read(|view| Ok(query::heartbeat(view.root(), &key, now))) {
            Heartbeat::Beaten | Heartbeat::Unknown => self.success(call, out),
            // The broker is being removed: the answer waits until it is known what became of it.
            Heartbeat::Late => Handled::Change(late_heartbeat(key), Answer::Again),
        }
    }

    /// `QUERY_DATA_VERSION` (322), which is a heartbeat too.
    pub(super) fn query_data_version(&mut self, call: Call<'_>, out: &mut Vec<u8>) -> Handled {
        let Some(key) = live_key(call) else {
            return self.missing(call, out, "clusterName or brokerAddr");
        };
        let version = match parse_data_version(call.body, self.shared.clock.wall_ms()) {
            Ok(version) => version,
            Err(error) => return self.bad_body(call, out, &error),
        };
        let now = self.now();
        let answer = self.reader.read(|view| Ok(query::query_data_version(view.root(), &key, version, now)));
        if answer.heartbeat == Heartbeat::Late {
            return Handled::Change(late_heartbeat(key), Answer::Again);
        }
        let ext = [("changed", if answer.is_changed { "true" } else { "false" })];
        let header = ResponseHeader::new(ResponseCode::Success, call.request.opaque);
        let mark = self.shared.encoder.begin(out, &ResponseHeader { ext: Some(&ext), ..header });
        if let Some(known) = &answer.known {
            write_data_version(out, known);
        }
        self.shared.encoder.finish(out, mark);
        Handled::Answered
    }

    /// `GET_BROKER_MEMBER_GROUP` (901). The original never clears the remark.
    pub(super) fn member_group(&mut self, call: Call<'_>, out: &mut Vec<u8>) -> Handled {
        let ext = &call.request.ext;
        let header = ResponseHeader {
            remark: Some("not set any response code"),
            ..ResponseHeader::new(ResponseCode::Success, call.request.opaque)
        };
        let mark = self.shared.encoder.begin(out, &header);
        let start = out.len();
        self.reader.read(|view| {
            out.truncate(start);
            query::member_group(view.root(), ext.get("clusterName"), ext.get("brokerName"), out);
            Ok(())
        });
        self.shared.encoder.finish(out, mark);
        Handled::Answered
    }

    /// `UNREGISTER_BROKER` (104). A request that lacks something is acknowledged and has no effect.
    pub(super) fn unregister(&mut self, call: Call<'_>, out: &mut Vec<u8>) -> Handled {
        let (Some(cluster), Some(broker_name), Some(broker_addr), Some(broker_id)) = (
            call.name("clusterName"),
            call.name("brokerName"),
            call.name("brokerAddr"),
            call.request.ext.get_i64("brokerId"),
        ) else {
            self.shared.counters.count(crate::counters::Kind::BadRequest, "missing_field");
            return self.success(call, out);
        };
        let connection = call.connection;
        let request = Unregistration { cluster, broker_name, broker_id, broker_addr, connection };
        Handled::Change(Command::Unregister(request), Answer::Success)
    }

    /// `WIPE_WRITE_PERM_OF_BROKER` (205).
    pub(super) fn wipe_write_perm(&mut self, call: Call<'_>, out: &mut Vec<u8>) -> Handled {
        let answer = Answer::Count("wipeTopicCount");
        match call.name("brokerName") {
            Some(broker_name) => Handled::Change(Command::WipeWritePerm { broker_name }, answer),
            None => self.no_topics(call, out, "wipeTopicCount"),
        }
    }

    /// `ADD_WRITE_PERM_OF_BROKER` (327).
    pub(super) fn add_write_perm(&mut self, call: Call<'_>, out: &mut Vec<u8>) -> Handled {
        let answer = Answer::Count("addTopicCount");
        match call.name("brokerName") {
            Some(broker_name) => Handled::Change(Command::AddWritePerm { broker_name }, answer),
            None => self.no_topics(call, out, "addTopicCount"),
        }
    }

    fn no_topics(&self, call: Call<'_>, out: &mut Vec<u8>, field: &'static str) -> Handled {
        let header = ResponseHeader::new(ResponseCode::Success, call.request.opaque);
        self.shared.encoder.respond(out, &ResponseHeader { ext: Some(&[(field, "0")]), ..header });
        Handled::Answered
    }

    /// `DELETE_TOPIC_IN_NAMESRV` (216).
    pub(super) fn delete_topic(&mut self, call: Call<'_>, out: &mut Vec<u8>) -> Handled {
        match call.name("topic") {
            Some(topic) => {
                Handled::Change(Command::DeleteTopic { topic, cluster: call.name("clusterName") }, Answer::Success)
            }
            None => self.success(call, out),
        }
    }
}

impl<R: Reader> OffWorker<R> {
    /// `REGISTER_TOPIC_IN_NAMESRV` (217).
    pub(super) fn register_topic(&mut self, call: Call<'_>, out: &mut Vec<u8>) -> Handled {
        let queues = match parse_topic_route(call.body, &BodyLimits::default()) {
            Ok(queues) => queues,
            Err(error) => return self.bad_body(call, out, &error),
        };
        match call.name("topic") {
            Some(topic) if !queues.is_empty() => {
                let source = call.registry_source();
                Handled::Change(Command::RegisterTopic { topic, queues, source }, Answer::Success)
            }
            _ => self.success(call, out),
        }
    }
}

fn late_heartbeat(key: LiveKey) -> Command {
    Command::Heartbeat { cluster: key.cluster, broker_addr: key.addr }
}

fn live_key(call: Call<'_>) -> Option<LiveKey> {
    Some(LiveKey { cluster: call.name("clusterName")?, addr: call.name("brokerAddr")? })
}
