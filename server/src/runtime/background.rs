//! The threads for what is not a lookup: decoding, scanning, files.

use std::{
    io,
    net::SocketAddr,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, mpsc},
    thread,
};

use bytes::Bytes;
use registry_core::{ConnectionId, Millis, Reader, Registry};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tracing::{error, warn};

use super::writer::WriterHandle;
use crate::{
    clock::Clock,
    counters::Kind,
    remoting::{Decoded, Frame, FrameDecoder, Request, ResponseCode, ResponseHeader},
    service::{Answer, Call, Handled, Queue, Service, Shared},
};

/// A request for another thread: the whole frame, of which only the connection keeps no part.
#[derive(Debug)]
struct Job {
    frame: Bytes,
    connection: ConnectionId,
    peer: SocketAddr,
    source: Option<SocketAddr>,
    arrived: Millis,
    reply: oneshot::Sender<Reply>,
    _room: OwnedSemaphorePermit,
}

/// What has become of a deferred request.
#[derive(Debug)]
pub(crate) struct Reply {
    /// The answer, where it is written already.
    pub(crate) answer: Vec<u8>,
    /// What is left to do.
    pub(crate) handled: Handled,
}

/// The ways to the background threads.
#[derive(Clone, Debug)]
pub(crate) struct Background {
    decode: mpsc::Sender<Job>,
    scan: mpsc::Sender<Job>,
    storage: mpsc::Sender<Job>,
    room: Arc<Semaphore>,
    clock: Clock,
}

/// Bytes of frames that wait for a background thread or are being worked on: sixteen of the largest. Whoever sends more
/// waits.
const DEFERRED_BYTES_MAX: usize = 256 << 20;
/// The unit in which they are counted: a semaphore counts to 2^32 only at once.
const ROOM_UNIT: usize = 1_024;

/// A background thread has ended.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the background thread has stopped")]
pub(crate) struct BackgroundStopped;

impl Background {
    /// Starts the threads. They end when the last handle is dropped.
    pub(crate) fn start<R: Registry>(
        registry: &Arc<R>,
        shared: &Arc<Shared>,
        writer: &WriterHandle,
    ) -> io::Result<Self> {
        let spawn = |name: &str, nice: i32| -> io::Result<mpsc::Sender<Job>> {
            let (sender, jobs) = mpsc::channel();
            let (registry, shared, writer) = (Arc::clone(registry), Arc::clone(shared), writer.clone());
            thread::Builder::new().name(name.to_owned()).spawn(move || {
                if nice > 0 {
                    lower_priority(nice);
                }
                run(Service::new(registry.reader(), shared), &writer, &jobs);
            })?;
            Ok(sender)
        };
        Ok(Self {
            decode: spawn("decode", DECODE_NICE)?,
            scan: spawn("scan", SCAN_NICE)?,
            storage: spawn("storage", 0)?,
            room: Arc::new(Semaphore::new(DEFERRED_BYTES_MAX / ROOM_UNIT)),
            clock: shared.clock,
        })
    }

    /// Has a request handled by another thread. Waits for room, then for the thread.
    pub(crate) async fn handle(
        &self,
        queue: Queue,
        frame: Bytes,
        connection: ConnectionId,
        peer: SocketAddr,
        source: Option<SocketAddr>,
    ) -> Result<Reply, BackgroundStopped> {
        let arrived = self.clock.now();
        let units = (frame.len() / ROOM_UNIT + 1).min(DEFERRED_BYTES_MAX / ROOM_UNIT);
        let units = u32::try_from(units).unwrap_or(u32::MAX);
        let room = Arc::clone(&self.room).acquire_many_owned(units).await.map_err(|_| BackgroundStopped)?;
        let (reply, answer) = oneshot::channel();
        let job = Job { frame, connection, peer, source, arrived, reply, _room: room };
        let jobs = match queue {
            Queue::Decode => &self.decode,
            Queue::Scan => &self.scan,
            Queue::Storage => &self.storage,
        };
        jobs.send(job).map_err(|_| BackgroundStopped)?;
        answer.await.map_err(|_| BackgroundStopped)
    }
}

/// Priority of the thread that reads registrations. A processor that it shares with a thread that serves lookups is its own
/// for a quarter of the time: enough for forty large registrations a second.
const DECODE_NICE: i32 = 5;
/// Priority of the thread that looks at everything: a tenth of the time.
const SCAN_NICE: i32 = 10;

/// Lookups and changes go first when there are fewer cores than threads.
fn lower_priority(nice: i32) {
    // On Linux the calling thread alone; elsewhere it may be the process, where it does no good.
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::setpriority_process(None, nice) {
        warn!(%error, "cannot lower the priority of a background thread");
    }
}

fn run<R: Reader>(mut service: Service<R>, writer: &WriterHandle, jobs: &mpsc::Receiver<Job>) {
    const IDLE: std::time::Duration = std::time::Duration::from_secs(1);
    loop {
        match jobs.recv_timeout(IDLE) {
            Ok(job) => {
                let handled = catch_unwind(AssertUnwindSafe(|| handle(&mut service, writer, &job)));
                let reply = handled.unwrap_or_else(|_| failed(&service, &job));
                // The connection may be gone.
                let _ = job.reply.send(reply);
            }
            Err(mpsc::RecvTimeoutError::Timeout) => service.refresh(),
            Err(mpsc::RecvTimeoutError::Disconnected) => return,
        }
    }
}

fn handle<R: Reader>(service: &mut Service<R>, writer: &WriterHandle, job: &Job) -> Reply {
    let mut answer = Vec::new();
    let Some(frame) = decode(service, &job.frame) else {
        return failed(service, job);
    };
    let Ok(request) = Request::decode(&frame, &service.shared().limits) else {
        return failed(service, job);
    };
    let call = Call {
        request: &request,
        body: frame.body,
        connection: job.connection,
        peer: job.peer,
        source: job.source,
        arrived: Some(job.arrived),
    };
    loop {
        match service.handle_deferred(call, &mut answer) {
            Handled::Change(command, Answer::Again) => {
                if writer.execute_blocking(command).is_err() {
                    return failed(service, job);
                }
                answer.clear();
            }
            handled => return Reply { answer, handled },
        }
    }
}

/// The frame, which its connection has decoded before.
fn decode<'a, R: Reader>(service: &Service<R>, frame: &'a Bytes) -> Option<Frame<'a>> {
    match FrameDecoder::after_detection().decode(frame, &service.shared().limits) {
        Ok(Decoded::Frame(frame)) => Some(frame),
        _ => None,
    }
}

/// A handler has panicked: an error of ours, which costs its sender one answer.
fn failed<R: Reader>(service: &Service<R>, job: &Job) -> Reply {
    error!(peer = %job.peer, "a background handler has failed");
    let shared = service.shared();
    shared.counters.count(Kind::Failure, "handler_panic");
    let opaque = decode(service, &job.frame)
        .and_then(|frame| Some(Request::decode(&frame, &shared.limits).ok()?.opaque))
        .unwrap_or(0);
    let mut answer = Vec::new();
    let header = ResponseHeader::new(ResponseCode::SystemError, opaque);
    shared.encoder.respond(&mut answer, &ResponseHeader { remark: Some("internal error"), ..header });
    Reply { answer, handled: Handled::Answered }
}
