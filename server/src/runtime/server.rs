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
    time::Duration,
};

use registry_core::{Command, ConnectionId, Registry};
use socket2::{Domain, Protocol, Socket, Type};
use tokio::{
    net::TcpListener,
    runtime::{Builder, LocalOptions, LocalRuntime},
    sync::mpsc,
    time::sleep,
};
use tracing::{debug, info, warn};

use super::{
    background::Background,
    liveness::{self, Departures},
    notifier,
    worker::{self, WorkerMessage},
    writer::{self, Consequences, WriterHandle},
};
use crate::{
    clock::Clock,
    config::{Config, Settings},
    counters::{Counters, Kind},
    kv::{KvLimits, KvOpenError, KvStore},
    limits::Limits,
    memory,
    remoting::Encoder,
    service::{Phase, Shared},
};

/// File descriptors that are not for connections: listener, files, pollers, connections to brokers that come and go.
const RESERVED_FILES: u64 = 64;
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
    connections_max: usize,
}

struct WorkerThread {
    thread: JoinHandle<()>,
    messages: mpsc::UnboundedSender<WorkerMessage>,
    open: Arc<AtomicUsize>,
}

impl Server {
    /// Opens the files, binds the port and starts the threads. Connections wait in the backlog until [`run`](Self::run).
    ///
    /// # Errors
    /// [`ServerError`]. What was started is stopped again.
    pub fn start<R: Registry>(settings: Settings) -> Result<Self, ServerError> {
        let runtime = Builder::new_current_thread().enable_all().build_local(LocalOptions::default())?;
        let config = settings.config();
        let kv = KvStore::open(&config.kv_config_path, KvLimits::default())?;
        let listener = listen(config)?;
        let local_addr = listener.local_addr()?;
        settings.set_bound_port(local_addr.port());

        let limits = Limits { frame_bytes_max: config.frame_bytes_max, ..Limits::default() };
        let shared = Arc::new(Shared {
            clock: Clock::start(),
            counters: Arc::default(),
            encoder: Encoder::new(config.serialize_type, &limits),
            kv,
            limits,
            phase: Phase::default(),
            config: settings,
        });
        let config = shared.config.config();
        let (registry, publisher) = R::new();
        let channels: Vec<_> = (0..config.worker_threads).map(|_| mpsc::unbounded_channel()).collect();
        let (notice_sender, notices) = mpsc::channel(notifier::NOTICES_MAX);
        let consequences = Consequences {
            shared: Arc::clone(&shared),
            departures: Departures::new(channels.iter().map(|(sender, _)| sender.clone()).collect()),
            notices: notice_sender,
        };
        let writer = writer::spawn(publisher, consequences)?;
        let background = Background::start(&registry, &shared, &writer)?;
        let mut workers = Vec::with_capacity(channels.len());
        for (number, (messages, receiver)) in channels.into_iter().enumerate() {
            let open = Arc::new(AtomicUsize::new(0));
            let thread = worker::spawn(
                format!("worker-{number}"),
                Arc::clone(&registry),
                Arc::clone(&shared),
                writer.clone(),
                background.clone(),
                Arc::clone(&open),
                receiver,
            )?;
            workers.push(WorkerThread { thread, messages, open });
        }
        let connections_max = connections_max();
        Ok(Self { runtime, listener, local_addr, shared, writer, workers, notices, connections_max })
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
        let Self { runtime, listener, shared, writer, workers, notices, connections_max, .. } = self;
        let deletes = shared.config.live().delete_topic_with_broker_registration();
        writer.submit(Command::DeleteTopicWithRegistration(deletes));
        runtime.block_on(async {
            let listener = TcpListener::from_std(listener)?;
            let interval = shared.config.config().scan_not_active_broker_interval;
            tokio::task::spawn_local(liveness::scan(interval, writer));
            tokio::task::spawn_local(notifier::run(Arc::clone(&shared), notices));
            tokio::task::spawn_local(report(Arc::clone(&shared)));
            tokio::task::spawn_local(release_memory());
            let mut dealer = Dealer { shared: &shared, workers: &workers, connections_max, last_id: 0 };
            let config = shared.config.config();
            {
                let accepting = accept(&listener, &mut dealer);
                tokio::pin!(accepting, shutdown);
                tokio::select! {
                    never = &mut accepting => match never {},
                    () = &mut shutdown => {}
                }
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
        info!("stopping");
        for worker in &workers {
            // A worker that has ended is drained.
            let _ = worker.messages.send(WorkerMessage::Drain);
        }
        for worker in workers {
            let _ = worker.thread.join();
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
    bind().map_err(|source| ServerError::Bind {
        address: format!("{}:{}", config.bind_address, config.listen_port),
        source,
    })
}

/// As many connections as there are file descriptors, but for a few; asks the system for all that it allows.
fn connections_max() -> usize {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        let raised = rustix::process::Rlimit { current: limit.maximum, maximum: limit.maximum };
        if setrlimit(Resource::Nofile, raised).is_ok() {
            limit = raised;
        }
    }
    let files = limit.current.unwrap_or(u64::MAX);
    usize::try_from(files.saturating_sub(RESERVED_FILES).max(1)).unwrap_or(usize::MAX)
}

/// Accepts connections, for ever.
async fn accept(listener: &TcpListener, dealer: &mut Dealer<'_>) -> std::convert::Infallible {
    loop {
        match listener.accept().await.and_then(|(stream, peer)| Ok((stream.into_std()?, peer))) {
            Ok((stream, peer)) => dealer.deal(stream, peer),
            Err(error) => {
                // No descriptor is free, most likely: some will be. The server never ends for it.
                warn!(%error, "cannot accept a connection");
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
    connections_max: usize,
    last_id: u64,
}

impl Dealer<'_> {
    fn deal(&mut self, stream: std::net::TcpStream, peer: SocketAddr) {
        let Self { shared, workers, connections_max, last_id } = self;
        let open: usize = workers.iter().map(|worker| worker.open.load(Ordering::Relaxed)).sum();
        if open >= *connections_max {
            shared.counters.count(Kind::Rejected, "too_many");
            debug!(%peer, connections_max, "one connection too many");
            return;
        }
        if stream.set_nodelay(true).is_err() {
            shared.counters.count(Kind::Rejected, "not_registered");
            return;
        }
        let Some(worker) = workers.iter().min_by_key(|worker| worker.open.load(Ordering::Relaxed)) else { return };
        *last_id += 1;
        worker.open.fetch_add(1, Ordering::Relaxed);
        if worker.messages.send(WorkerMessage::Accepted(stream, peer, ConnectionId(*last_id))).is_err() {
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
async fn report(shared: Arc<Shared>) {
    let mut last = String::new();
    loop {
        sleep(REPORT_INTERVAL).await;
        let report = shared.counters.report();
        if report != last {
            info!(counters = report, "counters");
            last = report;
        }
    }
}
