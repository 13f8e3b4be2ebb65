//! What the server does with a request: from a decoded header to the answer.
//!
//! A [`Service`] belongs to one thread and answers at once what is a lookup. Everything else it hands on: a change of
//! the registry to the writer, a long job to the thread for its kind. No handler of a thread that serves lookups waits.

mod admin;
mod broker;
#[cfg(feature = "fault-injection")]
mod faults;
mod lists;
mod register;
mod route;

use std::sync::Arc;

use registry_core::{
    Applied, Command, ConnectionId, Millis, Name, Outcome, Reader,
    query::{ListCache, RouteCache},
};
use tracing::debug;

use crate::{
    body::BodyError,
    clock::Clock,
    config::Settings,
    counters::{Counters, Kind},
    kv::KvStore,
    limits::Limits,
    remoting::{Encoder, Request, RequestCode, ResponseCode, ResponseHeader},
};

#[cfg(feature = "fault-injection")]
pub(crate) use faults::POISON;

/// What all threads share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) clock: Clock,
    pub(crate) config: Settings,
    pub(crate) counters: Arc<Counters>,
    pub(crate) encoder: Encoder,
    pub(crate) kv: KvStore,
    pub(crate) limits: Limits,
    pub(crate) phase: Phase,
}

/// How far the server is on its way out.
#[derive(Debug, Default)]
pub(crate) struct Phase(std::sync::atomic::AtomicBool);

impl Phase {
    /// From now on clients that understand it are sent away, while everybody is still served.
    pub(crate) fn send_away(&self) {
        self.0.store(true, std::sync::atomic::Ordering::Release);
    }

    fn sends_away(&self) -> bool {
        self.0.load(std::sync::atomic::Ordering::Acquire)
    }
}

/// A thread's access to the registry, and everything that it takes to answer.
#[derive(Debug)]
pub(crate) struct Service<R> {
    reader: R,
    routes: RouteCache,
    lists: ListCache,
    shared: Arc<Shared>,
}

/// A request as a handler sees it.
#[derive(Clone, Copy)]
pub(crate) struct Call<'a> {
    pub(crate) request: &'a Request<'a>,
    pub(crate) body: Option<&'a [u8]>,
    pub(crate) connection: ConnectionId,
    /// Address of the peer.
    pub(crate) peer: std::net::SocketAddr,
    /// Address of the peer's peer, as a PROXY header claims.
    pub(crate) source: Option<std::net::SocketAddr>,
    /// For a deferred request a time at which it was there already: lists that are made later answer it.
    pub(crate) arrived: Option<Millis>,
}

/// What has become of a request.
#[derive(Debug)]
pub(crate) enum Handled {
    /// The answer is written.
    Answered,
    /// The registry has to change first; the answer follows from the outcome.
    Change(Command, Answer),
    /// It is a job for another thread, which reads the request again.
    Deferred(Queue),
}

/// How the outcome of a change is answered.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Answer {
    /// With success, whatever the outcome.
    Success,
    /// With success and the number of topics in this field.
    Count(&'static str),
    /// As a registration.
    Registration,
    /// By handling the request again: the registry had to finish something first.
    Again,
}

/// The threads for what is not a lookup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Queue {
    /// Large bodies: inflating and parsing. Low priority.
    Decode,
    /// Queries that look at everything. Low priority.
    Scan,
    /// Files.
    Storage,
}

/// Bodies up to this many bytes are parsed where they arrive: a data version has about 60.
const INLINE_BODY_BYTES_MAX: usize = 4_096;

impl<R: Reader> Service<R> {
    pub(crate) fn new(reader: R, shared: Arc<Shared>) -> Self {
        Self { reader, routes: RouteCache::new(), lists: ListCache::new(), shared }
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Lets go of the registry's state and of lists that nobody asks for, when there is nothing to do.
    pub(crate) fn refresh(&mut self) {
        self.reader.refresh();
        self.lists.let_go(self.shared.clock.now());
    }

    /// Handles a request on a thread that serves lookups.
    pub(crate) fn handle(&mut self, call: Call<'_>, out: &mut Vec<u8>) -> Handled {
        if self.shared.phase.sends_away() && call.request.version > crate::remoting::codes::VERSION_5_3_1 {
            return self.error(call, out, ResponseCode::GoAway, "please go away");
        }
        #[cfg(feature = "fault-injection")]
        if let Some(handled) = self.injected(call, false) {
            return handled;
        }
        match RequestCode::from_wire(call.request.code) {
            Some(RequestCode::GetRouteInfoByTopic) => self.route(call, out),
            Some(RequestCode::BrokerHeartbeat) => self.heartbeat(call, out),
            Some(RequestCode::QueryDataVersion) => {
                if call.body.is_some_and(|body| body.len() > INLINE_BODY_BYTES_MAX) {
                    return Handled::Deferred(Queue::Decode);
                }
                self.query_data_version(call, out)
            }
            Some(RequestCode::GetBrokerMemberGroup) => self.member_group(call, out),
            Some(RequestCode::UnregisterBroker) => self.unregister(call, out),
            Some(RequestCode::RegisterBroker | RequestCode::RegisterTopicInNamesrv) => Handled::Deferred(Queue::Decode),
            Some(RequestCode::WipeWritePermOfBroker) => self.wipe_write_perm(call, out),
            Some(RequestCode::AddWritePermOfBroker) => self.add_write_perm(call, out),
            Some(RequestCode::DeleteTopicInNamesrv) => self.delete_topic(call, out),
            Some(
                RequestCode::GetBrokerClusterInfo
                | RequestCode::GetAllTopicListFromNameserver
                | RequestCode::GetTopicsByCluster
                | RequestCode::GetSystemTopicListFromNs
                | RequestCode::GetUnitTopicList
                | RequestCode::GetHasUnitSubTopicList
                | RequestCode::GetHasUnitSubUnunitTopicList,
            ) => Handled::Deferred(Queue::Scan),
            Some(RequestCode::GetKvConfig) => self.get_kv(call, out),
            Some(RequestCode::GetKvListByNamespace) => self.get_kv_list(call, out),
            Some(RequestCode::PutKvConfig | RequestCode::DeleteKvConfig | RequestCode::UpdateNamesrvConfig) => {
                Handled::Deferred(Queue::Storage)
            }
            Some(RequestCode::GetNamesrvConfig) => self.get_config(call, out),
            // 905 is for brokers: to a name server it is as unknown as the rest.
            Some(RequestCode::NotifyMinBrokerIdChange) | None => self.unsupported(call, out),
        }
    }

    /// Handles a request that [`handle`](Self::handle) has deferred, on the thread for it.
    pub(crate) fn handle_deferred(&mut self, call: Call<'_>, out: &mut Vec<u8>) -> Handled {
        #[cfg(feature = "fault-injection")]
        if let Some(handled) = self.injected(call, true) {
            return handled;
        }
        match RequestCode::from_wire(call.request.code) {
            Some(RequestCode::RegisterBroker) => self.register(call, out),
            Some(RequestCode::RegisterTopicInNamesrv) => self.register_topic(call, out),
            Some(RequestCode::QueryDataVersion) => self.query_data_version(call, out),
            Some(RequestCode::GetBrokerClusterInfo) => self.cluster_info(call, out),
            Some(RequestCode::GetAllTopicListFromNameserver) => self.all_topics(call, out),
            Some(RequestCode::GetTopicsByCluster) => self.topics_of_cluster(call, out),
            Some(RequestCode::GetSystemTopicListFromNs) => self.system_topics(call, out),
            Some(RequestCode::GetUnitTopicList) => self.unit_topics(call, out, registry_core::query::UnitTopics::Unit),
            Some(RequestCode::GetHasUnitSubTopicList) => {
                self.unit_topics(call, out, registry_core::query::UnitTopics::UnitSubscription)
            }
            Some(RequestCode::GetHasUnitSubUnunitTopicList) => {
                self.unit_topics(call, out, registry_core::query::UnitTopics::UnitSubscriptionOnly)
            }
            Some(RequestCode::PutKvConfig) => self.put_kv(call, out),
            Some(RequestCode::DeleteKvConfig) => self.delete_kv(call, out),
            Some(RequestCode::UpdateNamesrvConfig) => self.update_config(call, out),
            _ => self.unsupported(call, out),
        }
    }

    /// Writes the answer to a change that has been made.
    pub(crate) fn answer_change(&self, opaque: i32, answer: Answer, applied: &Applied, out: &mut Vec<u8>) {
        let header = ResponseHeader::new(ResponseCode::Success, opaque);
        match (answer, &applied.outcome) {
            (Answer::Registration, Outcome::Registered(registered)) => self.registered(opaque, registered, out),
            (Answer::Registration, Outcome::Refused(refusal)) => self.refused(opaque, refusal, out),
            (Answer::Count(field), Outcome::TopicsChanged(count)) => {
                let count = count.to_string();
                let ext = [(field, count.as_str())];
                self.shared.encoder.respond(out, &ResponseHeader { ext: Some(&ext), ..header });
            }
            _ => self.shared.encoder.respond(out, &header),
        }
    }

    fn unsupported(&self, call: Call<'_>, out: &mut Vec<u8>) -> Handled {
        self.shared.counters.count(Kind::BadRequest, "unknown_code");
        let remark = format!(" request type {} not supported", call.request.code);
        self.error(call, out, ResponseCode::RequestCodeNotSupported, &remark)
    }

    fn success(&self, call: Call<'_>, out: &mut Vec<u8>) -> Handled {
        self.shared.encoder.respond(out, &ResponseHeader::new(ResponseCode::Success, call.request.opaque));
        Handled::Answered
    }

    fn error(&self, call: Call<'_>, out: &mut Vec<u8>, code: ResponseCode, remark: &str) -> Handled {
        let header = ResponseHeader { remark: Some(remark), ..ResponseHeader::new(code, call.request.opaque) };
        self.shared.encoder.respond(out, &header);
        Handled::Answered
    }

    /// A request that lacks what it needs.
    fn missing(&self, call: Call<'_>, out: &mut Vec<u8>, field: &'static str) -> Handled {
        self.shared.counters.count(Kind::BadRequest, "missing_field");
        debug!(peer = %call.peer, code = call.request.code, field, "a request lacks a field, or it is not a number");
        let remark = format!("{field} is missing or not what it should be");
        self.error(call, out, ResponseCode::SystemError, &remark)
    }

    fn bad_body(&self, call: Call<'_>, out: &mut Vec<u8>, error: &BodyError) -> Handled {
        self.shared.counters.count(Kind::BadRequest, "bad_body");
        debug!(peer = %call.peer, code = call.request.code, %error, "a request has a bad body");
        self.error(call, out, ResponseCode::SystemError, &error.to_string())
    }

    /// A successful answer whose body is written by a query.
    fn answer_with(&mut self, call: Call<'_>, out: &mut Vec<u8>, query: impl FnOnce(&mut R, &mut Vec<u8>)) -> Handled {
        let mark = self.shared.encoder.begin_success(out, call.request.opaque);
        query(&mut self.reader, out);
        self.shared.encoder.finish(out, mark);
        Handled::Answered
    }

    fn now(&self) -> Millis {
        self.shared.clock.now()
    }
}

impl<'a> Call<'a> {
    fn name(&self, field: &str) -> Option<Name> {
        self.request.ext.get(field).map(Name::from)
    }
}
