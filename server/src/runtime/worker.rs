//! A thread that serves connections.

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    io,
    net::SocketAddr,
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use registry_core::{ConnectionId, Registry};
use tokio::{
    net::TcpStream,
    runtime::{Builder, LocalOptions},
    sync::mpsc,
    time::{MissedTickBehavior, interval, sleep, timeout},
};
use tracing::{Level, debug, error};

use super::{
    background::Background,
    connection::{Connection, Link, Spare},
    writer::WriterHandle,
};
use crate::{
    counters::Kind,
    logging::Limit,
    service::{Service, Shared},
};

/// What a worker is told.
#[derive(Debug)]
pub(crate) enum WorkerMessage {
    /// A new connection for this worker.
    Accepted(std::net::TcpStream, SocketAddr, ConnectionId),
    /// Close a connection, if it has it.
    Close(ConnectionId),
    /// Answer what has been sent, close every connection, and end.
    Drain,
}

/// Step of the coarse clock, and how often connections are looked at: limits of time are kept to within this.
const TICK: Duration = Duration::from_millis(250);
/// How long the rest of a frame may be on its way, in milliseconds (hyper's limit for a header), and ...
const FRAME_READ_TIMEOUT_MS: u64 = 30_000;
/// ... how many bytes of it buy one more millisecond: a registration of 16 MiB may take four minutes more.
const FRAME_BYTES_PER_MS: u64 = 64;
/// How long a peer may take no byte of its answers, in milliseconds.
const WRITE_STALL_TIMEOUT_MS: u64 = 15_000;
/// How long connections may take to be drained at the end; one that takes no answers is cut before.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(20);

/// What the connections of one worker share.
pub(super) struct Worker<R: Registry> {
    pub(super) service: RefCell<Service<R::Reader>>,
    pub(super) shared: Arc<Shared>,
    pub(super) writer: WriterHandle,
    pub(super) background: Background,
    pub(super) spare: Spare,
    /// The coarse clock, in milliseconds.
    pub(super) now: Cell<u64>,
    links: RefCell<HashMap<ConnectionId, Rc<Link>, foldhash::fast::RandomState>>,
    open: Arc<AtomicUsize>,
}

impl<R: Registry> Worker<R> {
    /// A connection has ended.
    pub(super) fn forget(&self, connection: ConnectionId) {
        self.links.borrow_mut().remove(&connection);
        self.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Starts a worker thread. `open` counts its connections; whoever sends it one has counted it.
pub(super) fn spawn<R: Registry>(
    name: String,
    registry: Arc<R>,
    shared: Arc<Shared>,
    writer: WriterHandle,
    background: Background,
    open: Arc<AtomicUsize>,
    messages: mpsc::UnboundedReceiver<WorkerMessage>,
) -> io::Result<thread::JoinHandle<()>> {
    thread::Builder::new().name(name).spawn(move || {
        let runtime = Builder::new_current_thread().enable_all().build_local(LocalOptions::default());
        let runtime = match runtime {
            Ok(runtime) => runtime,
            Err(error) => {
                error!(%error, "a worker cannot start");
                return;
            }
        };
        let worker: Rc<Worker<R>> = Rc::new(Worker {
            service: RefCell::new(Service::new(registry.reader(), Arc::clone(&shared))),
            now: Cell::new(shared.clock.now().0),
            shared,
            writer,
            background,
            spare: Spare::default(),
            links: RefCell::default(),
            open,
        });
        runtime.block_on(run(worker, messages));
    })
}

async fn run<R: Registry>(worker: Rc<Worker<R>>, mut messages: mpsc::UnboundedReceiver<WorkerMessage>) {
    let mut ticks = interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            message = messages.recv() => match message {
                Some(WorkerMessage::Accepted(stream, peer, id)) => accept(&worker, stream, peer, id),
                Some(WorkerMessage::Close(id)) => {
                    if let Some(link) = worker.links.borrow().get(&id) {
                        link.close("abandoned");
                    }
                }
                Some(WorkerMessage::Drain) | None => break,
            },
            _ = ticks.tick() => tick(&worker),
        }
    }
    worker.links.borrow().values().for_each(|link| link.drain());
    let drained = async {
        while !worker.links.borrow().is_empty() {
            sleep(Duration::from_millis(10)).await;
            tick(&worker);
        }
    };
    if timeout(DRAIN_TIMEOUT, drained).await.is_err() {
        debug!(left = worker.links.borrow().len(), "connections that could not be drained are cut");
    }
}

fn accept<R: Registry>(worker: &Rc<Worker<R>>, stream: std::net::TcpStream, peer: SocketAddr, id: ConnectionId) {
    let stream = match TcpStream::from_std(stream) {
        Ok(stream) => stream,
        Err(error) => {
            debug!(%peer, %error, "a connection is lost before it is served");
            worker.shared.counters.count(Kind::Rejected, "not_registered");
            worker.open.fetch_sub(1, Ordering::Relaxed);
            return;
        }
    };
    let link = Rc::new(Link::new(worker.now.get()));
    worker.links.borrow_mut().insert(id, Rc::clone(&link));
    let connection = Connection::new(Rc::clone(worker), link, id, stream, peer);
    let serving = tokio::task::spawn_local(connection.serve());
    let shared = Arc::clone(&worker.shared);
    tokio::task::spawn_local(async move {
        if let Err(failed) = serving.await
            && failed.is_panic()
        {
            static PANICS: Limit = Limit::new(Level::ERROR, "handler_panic");
            if PANICS.admits() {
                error!(%peer, "a handler has panicked; its connection is closed");
            }
            shared.counters.count(Kind::Failure, "handler_panic");
        }
    });
}

/// Moves the coarse clock and closes the connections whose time is over.
fn tick<R: Registry>(worker: &Worker<R>) {
    let now = worker.shared.clock.now().0;
    worker.now.set(now);
    // A worker without requests must not keep an old state of the registry alive.
    worker.service.borrow_mut().refresh();
    let idle_ms = worker.shared.config.config().server_channel_max_idle_time.map(|idle| idle.as_millis() as u64);
    for link in worker.links.borrow().values() {
        let silent_ms = now.saturating_sub(link.heard.get());
        let frame_is_late = link.reading.get().is_some_and(|(since, bytes)| {
            now.saturating_sub(since) > FRAME_READ_TIMEOUT_MS + bytes as u64 / FRAME_BYTES_PER_MS
        });
        if link.writing.get().is_some_and(|since| now.saturating_sub(since) > WRITE_STALL_TIMEOUT_MS) {
            link.close("write_stalled");
        } else if frame_is_late {
            link.close("frame_incomplete");
        } else if idle_ms.is_some_and(|idle_ms| silent_ms > idle_ms) {
            link.close("idle");
        }
    }
}
