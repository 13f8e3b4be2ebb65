//! The threads for what is not a lookup, one for each kind of work.
//!
//! ```text
//!              ┌─ fair queue ─> register   small registrations      a little below normal
//!   workers ───┼─ fair queue ─> decode     inflating and parsing    low priority
//!              ├─ fair queue ─> cluster    all brokers              low priority
//!              ├─ fair queue ─> scan       all topics               low priority
//!              └─ fair queue ─> storage    KV and configuration     normal
//!                     │
//!                     └ by bytes and time spent: source addresses, then their connections; known brokers first
//! ```
//!
//! A job that its connection does not wait for any more is not begun.

mod fair;
mod lane;

use std::{
    io,
    net::SocketAddr,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use bytes::Bytes;
use registry_core::{Millis, Reader, Registry};
use tokio::sync::oneshot;
use tracing::{Level, error};

use self::{
    fair::Flow,
    lane::{LaneHandle, Work},
};
use super::writer::WriterHandle;
use crate::{
    counters::Kind,
    logging::Limit,
    peers::{Account, Charge},
    remoting::{Decoded, Frame, FrameDecoder, Request, ResponseCode, ResponseHeader},
    service::{Answer, Call, Handled, Lane, LaneAnswer, OffWorker, Shared},
};

/// The ways to all lanes. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Lanes([LaneHandle<Waited>; Lane::ALL.len()]);

/// A request for a lane, with the memory that it holds.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) frame: Bytes,
    pub(crate) peer: SocketAddr,
    pub(crate) source: Option<SocketAddr>,
    pub(crate) account: Arc<Account>,
    pub(crate) charge: Charge,
    /// When it was there.
    pub(crate) arrived: Millis,
}

/// A job, and who waits for it.
#[derive(Debug)]
struct Waited {
    job: Job,
    reply: oneshot::Sender<LaneAnswer>,
}

/// Priorities. A processor that it shares with a thread that serves lookups is the decoder's own for a quarter of the time:
/// enough for forty large registrations a second. Small registrations get a little more, what looks at everything a tenth.
fn nice(lane: Lane) -> i32 {
    match lane {
        Lane::Register => 3,
        Lane::Decode => 5,
        Lane::Cluster => 10,
        // Where a strategy locks, the writer waits for a scan: it must not wait for its turn as well.
        Lane::Scan => 5,
        Lane::Storage => 0,
    }
}

impl Lanes {
    /// Starts the threads. They end when the last handle is dropped.
    ///
    /// # Errors
    /// One of them cannot be started.
    pub(crate) fn start<R: Registry>(
        registry: &Arc<R>,
        shared: &Arc<Shared>,
        writer: &WriterHandle,
    ) -> io::Result<Self> {
        let start = |lane: Lane| {
            let (registry, shared, writer) = (Arc::clone(registry), Arc::clone(shared), writer.clone());
            LaneHandle::start(lane.name(), nice(lane), move || Desk {
                lane,
                service: OffWorker::new(registry.reader(), shared),
                writer,
            })
        };
        let [a, b, c, d, e] = Lane::ALL;
        Ok(Self([start(a)?, start(b)?, start(c)?, start(d)?, start(e)?]))
    }

    /// Has a request handled by a lane. Whoever drops the receiver does not want it any more.
    pub(crate) fn push(&self, lane: Lane, job: Job) -> oneshot::Receiver<LaneAnswer> {
        let flow = Flow {
            connection: job.account.connection(),
            source: job.account.source().address(),
            is_known: job.account.has_brokers(),
        };
        let (reply, answer) = oneshot::channel();
        let bytes = job.frame.len();
        self.0[lane as usize].push(flow, bytes, Waited { job, reply });
        answer
    }
}

static FAILED: Limit = Limit::new(Level::ERROR, "lane_handler_failed");

/// What works on a lane.
struct Desk<R> {
    lane: Lane,
    service: OffWorker<R>,
    writer: WriterHandle,
}

impl<R: Reader> Work<Waited> for Desk<R> {
    fn serve(&mut self, waited: Waited) {
        let Waited { job, reply } = waited;
        if reply.is_closed() {
            return;
        }
        let handled = catch_unwind(AssertUnwindSafe(|| self.handle(&job)));
        let answer = handled.unwrap_or_else(|_| self.failed(&job));
        drop(job.charge);
        // The connection may have ended meanwhile.
        let _ = reply.send(answer);
    }

    fn rest(&mut self) {
        self.service.rest();
    }
}

impl<R: Reader> Desk<R> {
    fn handle(&mut self, job: &Job) -> LaneAnswer {
        let Some(frame) = decode(&self.service, &job.frame) else { return self.failed(job) };
        let Ok(request) = Request::decode(&frame, &self.service.shared().limits) else { return self.failed(job) };
        let Job { account, peer, source, arrived, .. } = job;
        let (peer, source, connection) = (*peer, *source, account.connection());
        let arrived = Some(*arrived);
        let call = Call { request: &request, body: frame.body, account, connection, peer, source, arrived };
        loop {
            let mut answer = self.service.handle(call);
            match answer.handled {
                Handled::Change(command, Answer::Again) => {
                    if self.writer.execute_blocking(command).is_err() {
                        return self.failed(job);
                    }
                }
                // The writer learns of settings in the order in which they were stored.
                Handled::Change(command, as_answer) if self.lane == Lane::Storage => {
                    let Ok(applied) = self.writer.execute_blocking(command) else { return self.failed(job) };
                    self.service.answer_change(request.opaque, as_answer, &applied, &mut answer.head);
                    return LaneAnswer { handled: Handled::Answered, ..answer };
                }
                handled => return LaneAnswer { handled, ..answer },
            }
        }
    }

    /// A handler has panicked: an error of ours, which costs its sender one answer.
    fn failed(&self, job: &Job) -> LaneAnswer {
        if FAILED.admits() {
            error!(peer = %job.peer, lane = self.lane.name(), "a handler has failed");
        }
        let shared = self.service.shared();
        shared.counters.count(Kind::Failure, "handler_panic");
        let opaque = decode(&self.service, &job.frame)
            .and_then(|frame| Some(Request::decode(&frame, &shared.limits).ok()?.opaque))
            .unwrap_or(0);
        let mut head = Vec::new();
        let header = ResponseHeader::new(ResponseCode::SystemError, opaque);
        shared.encoder.respond(&mut head, &ResponseHeader { remark: Some("internal error"), ..header });
        LaneAnswer { handled: Handled::Answered, head, body: None, charge: None }
    }
}

/// The frame, which its connection has decoded before.
fn decode<'a, R: Reader>(service: &OffWorker<R>, frame: &'a Bytes) -> Option<Frame<'a>> {
    match FrameDecoder::new().decode(frame, &service.shared().limits) {
        Ok(Decoded::Frame(frame)) => Some(frame),
        _ => None,
    }
}
