//! Peers that several rows have, and what is measured of a server.

use std::fs;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::support::broker::{Broker, Parts, Topic};
use crate::support::frame::{Client, Frame, Received};
use crate::support::ours;
use crate::support::process::{NameServer, Settings};

pub(crate) const MIB: u64 = 1 << 20;

/// An address of the loopback network: each is a source of its own.
pub(crate) fn source(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(127, 0, 0, number)
}

/// A broker with topics of its own, `PREFIX0` and so on.
pub(crate) fn broker_with(name: &str, addr: &str, prefix: &str, topics: usize) -> Broker {
    let topic = |number| Topic { name: format!("{prefix}{number}"), queues: 8, perm: 6 };
    Broker { topics: (0..topics).map(topic).collect(), ..Broker::new(name, 0, addr, &[]) }
}

/// The body of a registration that is a thousand times its length when it is inflated: some 65 kB and 63 MiB.
pub(crate) fn bomb(broker: &Broker) -> Vec<u8> {
    const INFLATED_BYTES: usize = 63 << 20;
    const TOPICS: usize = 90_000;
    // One topic over and over, with attributes that fill the line.
    let topic = format!("T 8 8 6 SINGLE_TAG {{\"+a\":\"{}\"}}", "x".repeat(INFLATED_BYTES / TOPICS - 40));
    let start = Parts::default().text(&broker.data_version().to_string());
    let mut parts = start.number(i32::try_from(TOPICS).expect("few topics"));
    for _ in 0..TOPICS {
        parts = parts.text(&topic);
    }
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(&parts.text("[]").number(0).0).and_then(|()| encoder.finish()).expect("memory takes all bytes")
}

/// The command of a server under a limit, as `prlimit` takes it.
pub(crate) fn limited(limit: &str, home: &Path, file: &Path, settings: &Settings) -> Command {
    let server = ours::launch(home, file, settings);
    let mut command = Command::new("prlimit");
    command.arg(limit).arg(server.get_program()).args(server.get_args()).current_dir(home);
    for (key, value) in server.get_envs() {
        match value {
            Some(value) => command.env(key, value),
            None => command.env_remove(key),
        };
    }
    command
}

/// Our server, with 512 MiB of addresses.
pub(crate) fn in_512_mib(home: &Path, file: &Path, settings: &Settings) -> Command {
    limited("--as=536870912", home, file, settings)
}

/// After this, memory that is not needed has gone back.
const GIVEN_BACK_WITHIN: Duration = Duration::from_secs(30);

/// Resident memory, in bytes, when it is no more than `limit`, or when the time for that is over.
pub(crate) fn given_back(server: &NameServer, limit: u64) -> u64 {
    let start = Instant::now();
    loop {
        let now = server.memory("VmRSS");
        if now <= limit || start.elapsed() >= GIVEN_BACK_WITHIN {
            println!("{} MiB {:?} after the end", now / MIB, start.elapsed());
            return now;
        }
        thread::sleep(Duration::from_millis(100));
    }
}

/// The best of a few rounds: what else the machine does is not measured.
pub(crate) fn best_of<T: PartialOrd>(rounds: usize, mut round: impl FnMut() -> T) -> T {
    let mut best = round();
    for _ in 1..rounds {
        let next = round();
        if next < best {
            best = next;
        }
    }
    best
}

pub(crate) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).expect("a short time")
}

/// Open descriptors of a server.
pub(crate) fn descriptors(server: &NameServer) -> usize {
    fs::read_dir(format!("/proc/{}/fd", server.pid())).expect("Linux's /proc").count()
}

/// Raises the limit of open files of this test program, and says how many it may have.
pub(crate) fn raise_file_limit() -> usize {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    setrlimit(Resource::Nofile, raised).expect("up to the hard limit");
    limit.maximum.map_or(1 << 20, |files| usize::try_from(files).expect("files"))
}

/// Something that goes on, on a thread of its own, until it is told to end.
pub(crate) struct Ongoing<T> {
    done: Arc<AtomicBool>,
    thread: JoinHandle<T>,
}

impl<T: Send + 'static> Ongoing<T> {
    /// `work` looks at the flag now and then, and returns when it is set.
    pub(crate) fn start(work: impl FnOnce(&AtomicBool) -> T + Send + 'static) -> Self {
        let done = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&done);
        Self { done, thread: thread::spawn(move || work(&ended)) }
    }

    pub(crate) fn finish(self) -> T {
        self.done.store(true, Ordering::Relaxed);
        self.thread.join().expect("it ends well")
    }
}

/// Sends all of `bytes` on one connection, which is left open with its answers unread, until the server reads no more.
pub(crate) fn fill(addr: SocketAddr, bytes: &[u8]) -> Client {
    let client = Client::connect(addr);
    client.stream().set_write_timeout(Some(Duration::from_millis(200))).expect("a timeout");
    let _ = client.stream().write_all(bytes);
    client
}

/// The next frame, read as one.
pub(crate) fn next(client: &mut Client, timeout: Duration) -> Option<Frame> {
    match client.receive(timeout) {
        Received::Frame(bytes) => Some(Frame::parse(&bytes).expect("a frame")),
        Received::Closed(_) | Received::Silence => None,
    }
}

/// Whether the server has closed a connection on which nothing is left to be read.
pub(crate) fn is_closed(client: &Client) -> bool {
    let stream = client.stream();
    stream.set_nonblocking(true).expect("non-blocking");
    let seen = stream.peek(&mut [0]);
    stream.set_nonblocking(false).expect("blocking");
    match seen {
        Ok(bytes) => bytes == 0,
        Err(error) => error.kind() != std::io::ErrorKind::WouldBlock,
    }
}
