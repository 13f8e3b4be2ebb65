//! What the server does with a request: from a decoded header to the answer.
//!
//! ```text
//!   request ──> row of the table ──┬─> on the worker ──┬─> answered
//!               (dispatch.rs)      │                   └─> a change for the writer ──> answered
//!                                  └─> on a lane ──────┬─> answered
//!                                                      └─> a change for the writer ──> answered
//! ```
//!
//! A [`Service`] belongs to one thread. On a worker it answers at once what is a lookup; everything else it hands on: a
//! change of the registry to the writer, a long job to its lane. No handler of a thread that serves lookups waits.

mod admin;
mod broker;
mod dispatch;
#[cfg(feature = "fault-injection")]
mod faults;
mod lists;
mod register;
mod route;

use std::{
    ops::{Deref, DerefMut},
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
};

use bytes::Bytes;
use registry_core::{
    Applied, Command, ConnectionId, Millis, Name, Outcome, Reader, Source,
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
    origins::Origins,
    peers::{Account, Charge},
    remoting::{Encoder, Request, RequestCode, ResponseCode, ResponseHeader, codes::VERSION_5_3_1},
};

use dispatch::{Access, Order, Row, Run};
pub(crate) use dispatch::{Lane, is_change};

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
    pub(crate) origins: Origins,
    pub(crate) phase: Phase,
}

/// How far the server is on its way out.
#[derive(Debug, Default)]
pub(crate) struct Phase(AtomicU8);

impl Phase {
    const SERVING: u8 = 0;
    const LEAVING: u8 = 1;
    const SENDING_AWAY: u8 = 2;

    /// From now on nothing is removed: clients ask until the end, and whoever leaves does so because we do.
    pub(crate) fn leave(&self) {
        self.0.store(Self::LEAVING, Ordering::Release);
    }

    /// From now on clients that understand it are sent away, while everybody is still served. Nothing is removed.
    pub(crate) fn send_away(&self) {
        self.0.store(Self::SENDING_AWAY, Ordering::Release);
    }

    /// Whether brokers that are gone are removed.
    pub(crate) fn removes(&self) -> bool {
        self.0.load(Ordering::Acquire) == Self::SERVING
    }

    fn sends_away(&self) -> bool {
        self.0.load(Ordering::Acquire) == Self::SENDING_AWAY
    }
}

/// A thread's access to the registry, and everything that it takes to answer.
#[derive(Debug)]
pub(crate) struct Service<R> {
    reader: R,
    routes: RouteCache,
    shared: Arc<Shared>,
}

/// A request as a handler sees it.
#[derive(Clone, Copy)]
pub(crate) struct Call<'a> {
    pub(crate) request: &'a Request<'a>,
    pub(crate) body: Option<&'a [u8]>,
    /// What its connection holds, and may hold.
    pub(crate) account: &'a Arc<Account>,
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
    /// It is a job for a lane, which reads the request again.
    Deferred(Lane),
    /// It has to wait for changes that its connection has asked for before. Nothing is done yet.
    OutOfTurn,
}

/// What a lane has made of a request.
#[derive(Debug)]
pub(crate) struct LaneAnswer {
    /// What is left to do.
    pub(crate) handled: Handled,
    /// The answer, where it is written already; ...
    pub(crate) head: Vec<u8>,
    /// ... and its body, where others share it.
    pub(crate) body: Option<Bytes>,
    /// Memory of what is left to do.
    pub(crate) charge: Option<Charge>,
}

/// How the outcome of a change is answered.
#[derive(Clone, Debug)]
pub(crate) enum Answer {
    /// With success, whatever the outcome.
    Success,
    /// With success and this remark.
    Remark(Box<str>),
    /// With success and the number of topics in this field.
    Count(&'static str),
    /// As a registration.
    Registration,
    /// By handling the request again: the registry had to finish something first.
    Again,
}

/// A lane's access to the registry: what may take long, or wait for a disk, is a method of this.
#[derive(Debug)]
pub(crate) struct OffWorker<R> {
    service: Service<R>,
    lists: ListCache,
    /// Memory of what the handler has made, until it is let go.
    charge: Option<Charge>,
    /// The body of the answer, where it is shared with others.
    body: Option<Bytes>,
}

impl<R: Reader> Service<R> {
    pub(crate) fn new(reader: R, shared: Arc<Shared>) -> Self {
        Self { reader, routes: RouteCache::new(), shared }
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Lets go of the registry's state, when there is nothing to do.
    pub(crate) fn refresh(&mut self) {
        self.reader.refresh();
    }

    /// Handles a request on a thread that serves lookups, up to the point where it is done or goes elsewhere.
    ///
    /// `is_turn` says whether the connection has no change under way.
    pub(crate) fn handle(&mut self, call: Call<'_>, is_turn: bool, out: &mut Vec<u8>) -> Handled {
        if self.shared.phase.sends_away() && call.request.version > VERSION_5_3_1 {
            return self.error(call, out, ResponseCode::GoAway, "please go away");
        }
        #[cfg(feature = "fault-injection")]
        if let Some(handled) = self.injected(call, false) {
            return handled;
        }
        let Some(Row { access, order, run, .. }) = dispatch::row(call.request.code) else {
            return self.unsupported(call, out);
        };
        if access == Access::Config && !self.may_configure(call) {
            return self.forbidden(call, out);
        }
        if order == Order::InTurn && !is_turn {
            return Handled::OutOfTurn;
        }
        let lane = run.lane(call.body);
        match (run, lane) {
            (Run::Here(handler) | Run::HereIfShort(handler, _), None) => handler(self, call, out),
            (_, Some(lane)) => {
                if RequestCode::from_wire(call.request.code) == Some(RequestCode::RegisterBroker) {
                    self.note_arrival(call);
                }
                Handled::Deferred(lane)
            }
            (Run::On(..) | Run::BySize(..), None) => self.unsupported(call, out),
        }
    }

    /// Writes the answer to a request for which there is no memory now.
    pub(crate) fn busy(&self, opaque: i32, out: &mut Vec<u8>) {
        self.shared.counters.count(Kind::Rejected, "busy");
        self.fail(opaque, out, ResponseCode::SystemBusy, "[OVERLOAD]system busy, start flow control for a while");
    }

    /// Writes the answer to a change that has been made.
    pub(crate) fn answer_change(&self, opaque: i32, answer: Answer, applied: &Applied, out: &mut Vec<u8>) {
        let header = ResponseHeader::new(ResponseCode::Success, opaque);
        match (answer, &applied.outcome) {
            (Answer::Registration, Outcome::Registered(registered)) => self.registered(opaque, registered, out),
            (Answer::Registration, Outcome::RegisteredInPart { left_out, refusal }) => {
                self.registered_in_part(opaque, *left_out, refusal, out);
            }
            (Answer::Registration, Outcome::Refused(refusal)) => self.refused(opaque, refusal, out),
            (_, Outcome::Refused(refusal)) => self.over_limit(opaque, refusal, out),
            (Answer::Count(field), Outcome::TopicsChanged(count)) => {
                let count = count.to_string();
                let ext = [(field, count.as_str())];
                self.shared.encoder.respond(out, &ResponseHeader { ext: Some(&ext), ..header });
            }
            (Answer::Remark(remark), _) => {
                self.shared.encoder.respond(out, &ResponseHeader { remark: Some(&remark), ..header });
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
        self.fail(call.request.opaque, out, code, remark);
        Handled::Answered
    }

    /// Writes an answer that has a code and a remark alone.
    fn fail(&self, opaque: i32, out: &mut Vec<u8>, code: ResponseCode, remark: &str) {
        let header = ResponseHeader { remark: Some(remark), ..ResponseHeader::new(code, opaque) };
        self.shared.encoder.respond(out, &header);
    }

    /// A request that lacks what it needs.
    fn missing(&self, call: Call<'_>, out: &mut Vec<u8>, field: &'static str) -> Handled {
        self.shared.counters.count(Kind::BadRequest, "missing_field");
        debug!(peer = %call.peer, request = dispatch::label::<R>(call.request.code), field, "a request lacks a field, or it is not a number");
        let remark = format!("{field} is missing or not what it should be");
        self.error(call, out, ResponseCode::SystemError, &remark)
    }

    fn bad_body(&self, call: Call<'_>, out: &mut Vec<u8>, error: &BodyError) -> Handled {
        self.shared.counters.count(Kind::BadRequest, "bad_body");
        debug!(peer = %call.peer, request = dispatch::label::<R>(call.request.code), %error, "a request has a bad body");
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

impl<R: Reader> OffWorker<R> {
    pub(crate) fn new(reader: R, shared: Arc<Shared>) -> Self {
        Self { service: Service::new(reader, shared), lists: ListCache::new(), charge: None, body: None }
    }

    /// Lets go of the registry's state and of lists that nobody asks for, when there is nothing to do.
    pub(crate) fn rest(&mut self) {
        self.service.refresh();
        self.lists.let_go(self.service.now());
    }

    /// Handles a request that a worker has [deferred](Service::handle).
    pub(crate) fn handle(&mut self, call: Call<'_>) -> LaneAnswer {
        let mut head = Vec::new();
        #[cfg(feature = "fault-injection")]
        if let Some(handled) = self.injected(call, true) {
            return LaneAnswer { handled, head, body: None, charge: None };
        }
        let handled = match dispatch::row(call.request.code).map(|row| row.run) {
            Some(Run::On(_, handler) | Run::BySize(.., handler)) => handler(self, call, &mut head),
            Some(Run::Here(handler) | Run::HereIfShort(handler, _)) => handler(&mut self.service, call, &mut head),
            None => self.unsupported(call, &mut head),
        };
        LaneAnswer { handled, head, body: self.body.take(), charge: self.charge.take() }
    }
}

impl<R> Deref for OffWorker<R> {
    type Target = Service<R>;

    fn deref(&self) -> &Service<R> {
        &self.service
    }
}

impl<R> DerefMut for OffWorker<R> {
    fn deref_mut(&mut self) -> &mut Service<R> {
        &mut self.service
    }
}

impl<'a> Call<'a> {
    fn name(&self, field: &str) -> Option<Name> {
        self.request.ext.get(field).map(Name::from)
    }

    /// Who is charged with what the registry keeps of this request.
    fn registry_source(&self) -> Source {
        self.source.unwrap_or(self.peer).ip().into()
    }
}
