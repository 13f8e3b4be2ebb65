//! A thread that serves connections.

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    io,
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
    connection::WRITE_STALLED,
    entry::{self, Accepted},
    lanes::Lanes,
    liveness::Attendance,
    thread::spawn_critical,
    wire::{BufferPool, Link},
    writer::WriterHandle,
};
use crate::{
    counters::Kind,
    logging::Limit,
    peers::Budget,
    service::{Service, Shared},
};

/// What a worker is told.
#[derive(Debug)]
pub(crate) enum WorkerMessage {
    /// A new connection for this worker.
    Accepted(Accepted),
    /// Close a connection, if it has it.
    Close(ConnectionId),
    /// Answer what has been sent, close every connection, and end.
    Drain,
}

/// Step of the coarse clock, and how often connections are looked at: limits of time are kept to within this.
const TICK: Duration = Duration::from_millis(250);
/// The most that the coarse clock goes on at a time, in milliseconds. What the worker comes late by (it was paused, or busy) is
/// not the silence of its peers.
const TICK_MS_MAX: u64 = 2 * TICK.as_millis() as u64;
/// How many bytes of a frame buy one more millisecond for the rest: a registration of 16 MiB may take four minutes more.
const FRAME_BYTES_PER_MS: u64 = 64;
/// While others wait for memory: how long a peer may owe the rest of a frame, or take no byte of its answers, in
/// milliseconds.
const TIMEOUT_MS_WHEN_SHORT: u64 = 2_000;

/// What all connections of one worker share, whatever strategy the registry has.
#[derive(Default)]
pub(super) struct Room {
    pub(super) buffers: BufferPool,
    /// The coarse clock, in milliseconds. It counts the time in which the worker was at work.
    pub(super) now: Cell<u64>,
}

/// What the connections of one worker share.
pub(super) struct Worker<R: Registry> {
    pub(super) service: RefCell<Service<R::Reader>>,
    pub(super) shared: Arc<Shared>,
    pub(super) writer: WriterHandle,
    pub(super) lanes: Lanes,
    pub(super) budget: Arc<Budget>,
    pub(super) room: Rc<Room>,
    ticked: Cell<u64>,
    attendance: Attendance,
    links: RefCell<HashMap<ConnectionId, Rc<Link>, foldhash::fast::RandomState>>,
    open: Arc<AtomicUsize>,
}

/// What a worker is started with.
pub(super) struct Setup<R> {
    pub(super) registry: Arc<R>,
    pub(super) shared: Arc<Shared>,
    pub(super) writer: WriterHandle,
    pub(super) lanes: Lanes,
    pub(super) budget: Arc<Budget>,
    pub(super) attendance: Attendance,
    /// Counts its connections; whoever sends it one has counted it.
    pub(super) open: Arc<AtomicUsize>,
    pub(super) messages: mpsc::UnboundedReceiver<WorkerMessage>,
}

impl<R: Registry> Worker<R> {
    /// A connection has ended.
    pub(super) fn forget(&self, connection: ConnectionId) {
        self.links.borrow_mut().remove(&connection);
        self.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Starts a worker thread.
///
/// # Errors
/// As [`spawn_critical`]: also when its runtime cannot be built.
pub(super) fn spawn<R: Registry>(name: &str, setup: Setup<R>) -> io::Result<thread::JoinHandle<()>> {
    let prepare = || {
        let runtime = Builder::new_current_thread().enable_all().build_local(LocalOptions::default())?;
        let Setup { registry, shared, writer, lanes, budget, attendance, open, messages } = setup;
        let room = Rc::new(Room::default());
        let now = shared.clock.now();
        room.now.set(now.0);
        attendance.note(now);
        let worker: Rc<Worker<R>> = Rc::new(Worker {
            service: RefCell::new(Service::new(registry.reader(), Arc::clone(&shared))),
            shared,
            writer,
            lanes,
            budget,
            room,
            ticked: Cell::new(now.0),
            attendance,
            links: RefCell::default(),
            open,
        });
        Ok((runtime, worker, messages))
    };
    spawn_critical(name, prepare, |(runtime, worker, messages)| runtime.block_on(run(worker, messages)))
}

async fn run<R: Registry>(worker: Rc<Worker<R>>, mut messages: mpsc::UnboundedReceiver<WorkerMessage>) {
    let mut ticks = interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            message = messages.recv() => match message {
                Some(WorkerMessage::Accepted(accepted)) => accept(&worker, accepted),
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
    if timeout(worker.shared.config.config().drain_timeout, drained).await.is_err() {
        debug!(left = worker.links.borrow().len(), "connections that could not be drained are cut");
    }
}

fn accept<R: Registry>(worker: &Rc<Worker<R>>, accepted: Accepted) {
    let Accepted { stream, peer, id, place } = accepted;
    let stream = match TcpStream::from_std(stream) {
        Ok(stream) => stream,
        Err(error) => {
            debug!(%peer, %error, "a connection is lost before it is served");
            worker.shared.counters.count(Kind::Rejected, "not_registered");
            worker.open.fetch_sub(1, Ordering::Relaxed);
            return;
        }
    };
    let link = Rc::new(Link::new(worker.room.now.get()));
    worker.links.borrow_mut().insert(id, Rc::clone(&link));
    let serving = tokio::task::spawn_local(entry::serve(Rc::clone(worker), link, stream, peer, id, place));
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

/// Moves the coarse clock, closes the connections whose time is over, and wakes those that wait for memory.
fn tick<R: Registry>(worker: &Worker<R>) {
    let clock = worker.shared.clock.now();
    worker.attendance.note(clock);
    let since = clock.0.saturating_sub(worker.ticked.replace(clock.0));
    let now = worker.room.now.get() + since.min(TICK_MS_MAX);
    worker.room.now.set(now);
    // A worker without requests must not keep an old state of the registry alive.
    worker.service.borrow_mut().refresh();

    let config = worker.shared.config.config();
    let is_short = worker.budget.is_short(clock);
    let limit_ms = |limit: Duration| {
        let limit_ms = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
        if is_short { limit_ms.min(TIMEOUT_MS_WHEN_SHORT) } else { limit_ms }
    };
    let (read_ms, write_ms) = (limit_ms(config.frame_read_timeout), limit_ms(config.write_stall_timeout));
    let idle_ms = config.server_channel_max_idle_time.map(|idle| idle.as_millis() as u64);
    for link in worker.links.borrow().values() {
        if link.owes.get() {
            link.heard.set(now);
        }
        let silent_ms = now.saturating_sub(link.heard.get());
        let is_frame_late = link
            .reading
            .get()
            .is_some_and(|(since, bytes)| now.saturating_sub(since) > read_ms + bytes as u64 / FRAME_BYTES_PER_MS);
        if link.writing.get().is_some_and(|since| now.saturating_sub(since) > write_ms) {
            link.close(WRITE_STALLED);
        } else if is_frame_late {
            link.close("frame_incomplete");
        } else if idle_ms.is_some_and(|idle_ms| silent_ms > idle_ms) {
            link.close("idle");
        } else if link.lacks_memory.get() {
            link.wake();
        }
    }
}
