//! The server: what is started, in which order, and how it ends.

use std::{
    future::Future,
    io,
    net::{SocketAddr, ToSocketAddrs},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use registry_core::{Command, ConnectionId, Registry};
use socket2::{Domain, Protocol, Socket, Type};
use tokio::{
    net::TcpListener,
    runtime::{Builder, LocalOptions, LocalRuntime},
    sync::mpsc,
    time::sleep,
};
use tracing::{Level, debug, info, warn};

use super::{
    descriptors::{self, TooFewFiles},
    entry::Accepted,
    lanes::Lanes,
    liveness::{self, Attendance, ConnectionCloser},
    notifier,
    worker::{self, WorkerMessage},
    writer::{self, Consequences, WriterHandle},
};
use crate::{
    clock::Clock,
    config::{Config, Settings},
    counters::{Counters, Kind},
    kv::{KvLimits, KvOpenError, KvStore, WhenUnwritable},
    limits::Limits,
    logging::{self, Limit},
    memory,
    origins::Origins,
    peers::{Budget, Sources},
    remoting::Encoder,
    service::{Phase, Shared},
};

/// How long after the time to drain its connections a worker may take to end.
const END_TIMEOUT: Duration = Duration::from_millis(500);
/// How often the counters are written to the log, when they have changed.
const REPORT_INTERVAL: Duration = Duration::from_secs(60);

/// Why a server does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// The address is none, or somebody else has it.
    #[error("Failed to bind to {address}: {source}")]
    Bind {
        /// Host and port.
        address: String,
        /// The reason.
        source: io::Error,
    },
    /// The KV store cannot be opened.
    #[error(transparent)]
    Kv(#[from] KvOpenError),
    /// There are too few file descriptors.
    #[error(transparent)]
    Files(#[from] TooFewFiles),
    /// A thread cannot be started.
    #[error("cannot start a thread: {0}")]
    Thread(#[from] io::Error),
}

/// A server that listens and is ready to run.
pub struct Server {
    runtime: LocalRuntime,
    listener: std::net::TcpListener,
    local_addr: SocketAddr,
    shared: Arc<Shared>,
    writer: WriterHandle,
    workers: Vec<WorkerThread>,
    notices: mpsc::Receiver<notifier::Notice>,
    sources: Arc<Sources>,
    budget: Arc<Budget>,
}

struct WorkerThread {
    thread: JoinHandle<()>,
    messages: mpsc::UnboundedSender<WorkerMessage>,
    open: Arc<AtomicUsize>,
    attendance: Attendance,
}

impl Server {
    /// Opens the files, binds the port and starts the threads. Connections wait in the backlog until [`run`](Self::run).
    ///
    /// # Errors
    /// [`ServerError`]. What was started is stopped again.
    pub fn start<R: Registry>(settings: Settings) -> Result<Self, ServerError> {
        let runtime = Builder::new_current_thread().enable_all().build_local(LocalOptions::default())?;
        let config = settings.config();
        let connections_max = descriptors::connections_max(config)?;
        let when_unwritable = if config.kv_in_memory { WhenUnwritable::KeepInMemory } else { WhenUnwritable::Refuse };
        let kv = KvStore::open(&config.kv_config_path, KvLimits::default(), when_unwritable)?;
        let listener = listen(config)?;
        let local_addr = listener.local_addr()?;
        settings.set_bound_port(local_addr.port());

        let limits = Limits {
            frame_bytes_max: config.frame_bytes_max,
            header_bytes_max: config.header_bytes_max,
            ..Limits::default()
        };
        let shared = Arc::new(Shared {
            clock: Clock::start(),
            counters: Arc::default(),
            encoder: Encoder::new(config.serialize_type, &limits),
            kv,
            limits,
            origins: Origins::default(),
            phase: Phase::default(),
            config: settings,
        });
        let config = shared.config.config();
        let (registry, publisher) = R::new();
        let channels: Vec<_> = (0..config.worker_threads).map(|_| mpsc::unbounded_channel()).collect();
        let (notice_sender, notices) = mpsc::channel(notifier::NOTICES_MAX);
        let consequences = Consequences {
            shared: Arc::clone(&shared),
            closer: ConnectionCloser::new(channels.iter().map(|(sender, _)| sender.clone()).collect()),
            notices: notice_sender,
        };
        let writer = writer::spawn(publisher, consequences)?;
        let lanes = Lanes::start(&registry, &shared, &writer)?;
        let budget = Budget::new(config.memory_bytes_max);
        let sources = Sources::new(connections_max, config.connections_per_ip_max, shared.clock);
        let mut workers = Vec::with_capacity(channels.len());
        for (number, (messages, receiver)) in channels.into_iter().enumerate() {
            let (open, attendance) = (Arc::default(), Attendance::default());
            let setup = worker::Setup {
                registry: Arc::clone(&registry),
                shared: Arc::clone(&shared),
                writer: writer.clone(),
                lanes: lanes.clone(),
                budget: Arc::clone(&budget),
                attendance: attendance.clone(),
                open: Arc::clone(&open),
                messages: receiver,
            };
            let thread = worker::spawn(&format!("worker-{number}"), setup)?;
            workers.push(WorkerThread { thread, messages, open, attendance });
        }
        Ok(Self { runtime, listener, local_addr, shared, writer, workers, notices, sources, budget })
    }

    /// The address that the server listens on.
    pub fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    /// Counters of faults and removals.
    pub fn counters(&self) -> Arc<Counters> {
        Arc::clone(&self.shared.counters)
    }

    /// Serves until `shutdown` resolves; then stops accepting, answers what has been sent, and ends.
    ///
    /// # Errors
    /// When the listener cannot be used.
    pub fn run(self, shutdown: impl Future<Output = ()>) -> io::Result<()> {
        let Self { runtime, listener, local_addr, shared, writer, workers, notices, sources, budget } = self;
        let deletes = shared.config.live().delete_topic_with_broker_registration();
        writer.submit(Command::DeleteTopicWithRegistration(deletes));
        runtime.block_on(async {
            let listener = TcpListener::from_std(listener)?;
            let interval = shared.config.config().scan_not_active_broker_interval;
            let attendances = workers.iter().map(|worker| worker.attendance.clone()).collect();
            tokio::task::spawn_local(liveness::scan(interval, Arc::clone(&shared), attendances, writer));
            tokio::task::spawn_local(notifier::run(Arc::clone(&shared), local_addr.port(), notices));
            tokio::task::spawn_local(report(Arc::clone(&shared), budget));
            tokio::task::spawn_local(release_memory());
            let mut dealer = Dealer { shared: &shared, workers: &workers, sources: &sources, last_id: 0 };
            let config = shared.config.config();
            {
                let accepting = accept(&listener, &mut dealer);
                tokio::pin!(accepting, shutdown);
                tokio::select! {
                    never = &mut accepting => match never {},
                    () = &mut shutdown => {}
                }
                // From here on a connection that ends may be one that we have closed.
                shared.phase.leave();
                if config.enable_shutdown_gracefully {
                    info!(wait = ?config.shutdown_wait_time, "sending clients away");
                    shared.phase.send_away();
                    let _ = tokio::time::timeout(config.shutdown_wait_time, &mut accepting).await;
                }
            }
            // Who has connected before the end, and may have asked, is served as well.
            let listener = listener.into_std()?;
            let waiting = std::iter::from_fn(|| listener.accept().ok());
            for (stream, peer) in waiting.take(config.server_socket_backlog.unsigned_abs() as usize) {
                if stream.set_nonblocking(true).is_ok() {
                    dealer.deal(stream, peer);
                }
            }
            Ok::<_, io::Error>(())
        })?;
        logging::count_losses(&shared.counters);
        info!(counters = shared.counters.report(), "stopping");
        for worker in &workers {
            // A worker that has ended is drained.
            let _ = worker.messages.send(WorkerMessage::Drain);
        }
        // No peer decides how long this takes.
        let deadline = Instant::now() + shared.config.config().drain_timeout + END_TIMEOUT;
        while !workers.iter().all(|worker| worker.thread.is_finished()) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(())
    }
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("local_addr", &self.local_addr).finish_non_exhaustive()
    }
}

fn listen(config: &Config) -> Result<std::net::TcpListener, ServerError> {
    let bind = || -> io::Result<std::net::TcpListener> {
        let mut addresses = (config.bind_address.as_str(), config.listen_port).to_socket_addrs()?;
        let address = addresses.next().ok_or_else(|| io::Error::from(io::ErrorKind::AddrNotAvailable))?;
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
        socket.set_reuse_address(true)?;
        if let Some(bytes) = config.server_socket_send_buffer_bytes {
            socket.set_send_buffer_size(bytes)?;
        }
        if let Some(bytes) = config.server_socket_receive_buffer_bytes {
            socket.set_recv_buffer_size(bytes)?;
        }
        socket.set_nonblocking(true)?;
        socket.bind(&address.into())?;
        socket.listen(config.server_socket_backlog)?;
        Ok(socket.into())
    };
    bind().map_err(|source| ServerError::Bind { address: config.address_with(config.listen_port), source })
}

static ACCEPT_FAILED: Limit = Limit::once_a_minute(Level::WARN, "accept_failed");

/// Accepts connections, for ever.
async fn accept(listener: &TcpListener, dealer: &mut Dealer<'_>) -> std::convert::Infallible {
    loop {
        match listener.accept().await.and_then(|(stream, peer)| Ok((stream.into_std()?, peer))) {
            Ok((stream, peer)) => dealer.deal(stream, peer),
            Err(error) => {
                // No descriptor is free, most likely: some will be. The server never ends for it.
                if ACCEPT_FAILED.admits() {
                    warn!(%error, "cannot accept a connection");
                }
                dealer.shared.counters.count(Kind::Rejected, "accept_failed");
                sleep(Duration::from_millis(20)).await;
            }
        }
    }
}

/// Deals each connection to the worker that has the fewest.
struct Dealer<'a> {
    shared: &'a Shared,
    workers: &'a [WorkerThread],
    sources: &'a Arc<Sources>,
    last_id: u64,
}

impl Dealer<'_> {
    fn deal(&mut self, stream: std::net::TcpStream, peer: SocketAddr) {
        let Self { shared, workers, sources, last_id } = self;
        let place = match sources.enter(peer.ip()) {
            Ok(place) => place,
            Err(crowded) => {
                shared.counters.count(Kind::Rejected, crowded.reason());
                debug!(%peer, %crowded, "a connection is refused");
                return;
            }
        };
        if stream.set_nodelay(true).is_err() {
            shared.counters.count(Kind::Rejected, "not_registered");
            return;
        }
        let Some(worker) = workers.iter().min_by_key(|worker| worker.open.load(Ordering::Relaxed)) else { return };
        *last_id += 1;
        worker.open.fetch_add(1, Ordering::Relaxed);
        let accepted = Accepted { stream, peer, id: ConnectionId(*last_id), place };
        if worker.messages.send(WorkerMessage::Accepted(accepted)).is_err() {
            worker.open.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// Gives free memory back to the system, for ever.
async fn release_memory() {
    loop {
        sleep(memory::RELEASE_INTERVAL).await;
        memory::release();
    }
}

/// Writes the counters to the log when they have changed.
async fn report(shared: Arc<Shared>, budget: Arc<Budget>) {
    let mut last = String::new();
    loop {
        sleep(REPORT_INTERVAL).await;
        logging::count_losses(&shared.counters);
        let report = shared.counters.report();
        if report != last {
            info!(counters = report, memory_bytes = budget.used(), "counters");
            last = report;
        }
    }
}
