//! Operations of a whole server: it runs under valgrind, its client does not.

use std::{
    fs::File,
    io::{Read as _, Write as _},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    path::Path,
    process::{Child, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail, ensure};
use bytes::{Buf as _, BytesMut};
use rustix::process::{Pid, Signal, kill_process};

use super::{Operation, operations::BROKERS, valgrind};
use crate::{
    client::{Client, Codec, Query},
    cluster::{populate, topic_names},
    process::write_config,
};

/// Valgrind takes some two seconds to start a program, on a busy machine more.
const START_TIMEOUT: Duration = Duration::from_secs(60);
/// As much for the end, with the file that it writes.
const END_TIMEOUT: Duration = Duration::from_secs(60);
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// Few, for a registration is read in pieces, and how many there are is chance.
const TOPICS: usize = 100;
/// Requests of one write when they are pipelined.
const PIPELINED: u64 = 4;

/// Starts a server under valgrind, loads it, repeats the operation, and ends it.
pub(super) fn run(namesrv: &Path, operation: Operation, times: u64, counts: &Path) -> anyhow::Result<()> {
    let home = tempfile::tempdir()?;
    let addr = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
    let config = write_config(home.path(), addr.port())?;
    let mut command = valgrind(namesrv, counts);
    command.arg("-c").arg(config).env("HOME", home.path()).env("RUST_LOG", "warn").current_dir(home.path());
    let log = File::create(home.path().join("output"))?;
    command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    let mut server = Running(command.spawn().context("valgrind")?);
    server.wait_for_port(addr)?;

    let topics = topic_names(TOPICS);
    let _brokers = populate(addr, 0..BROKERS, &topics)?;
    match operation {
        Operation::ServedRoute => ask_routes(addr, &topics, times)?,
        Operation::ServedRoutePipelined => ask_pipelined(addr, &topics, times)?,
        _ => bail!("{} takes no server", operation.name()),
    }
    server.end()
}

fn ask_routes(addr: SocketAddr, topics: &[String], times: u64) -> anyhow::Result<()> {
    let mut client = Client::connect(addr)?;
    let queries: Vec<_> = topics.iter().map(|topic| Query::route(topic)).collect();
    for query in queries.iter().cycle().take(times as usize) {
        client.ask(query)?;
    }
    Ok(())
}

/// Sends four requests with one write, and the next ones when all answers are there.
fn ask_pipelined(addr: SocketAddr, topics: &[String], times: u64) -> anyhow::Result<()> {
    let mut stream = TcpStream::connect(addr)?;
    stream.set_nodelay(true)?;
    let mut codec = Codec::new();
    let (mut out, mut input, mut chunk) = (Vec::new(), BytesMut::new(), vec![0; 64 << 10]);
    let mut topics = topics.iter().cycle();
    for _ in 0..times / PIPELINED {
        out.clear();
        for (opaque, topic) in (0..PIPELINED as i32).zip(&mut topics) {
            codec.encode(&mut out, &Query::route(topic), opaque);
        }
        stream.write_all(&out)?;
        for opaque in 0..PIPELINED as i32 {
            let consumed = loop {
                if let Some(answer) = codec.decode(&input)? {
                    ensure!((answer.code, answer.opaque) == (0, opaque), "{} to {}", answer.code, answer.opaque);
                    break answer.consumed;
                }
                let read = stream.read(&mut chunk)?;
                ensure!(read > 0, "the server has closed the connection");
                input.extend_from_slice(&chunk[..read]);
            };
            input.advance(consumed);
        }
    }
    Ok(())
}

/// A process that ends with this value.
struct Running(Child);

impl Running {
    fn wait_for_port(&mut self, addr: SocketAddr) -> anyhow::Result<()> {
        let begin = Instant::now();
        while TcpStream::connect(addr).is_err() {
            if let Some(status) = self.0.try_wait()? {
                bail!("the server ended: {status}");
            }
            ensure!(begin.elapsed() < START_TIMEOUT, "nobody listens after {START_TIMEOUT:?}");
            thread::sleep(POLL_INTERVAL);
        }
        Ok(())
    }

    /// Lets the server end by itself, and valgrind write what it has counted.
    fn end(mut self) -> anyhow::Result<()> {
        kill_process(Pid::from_child(&self.0), Signal::TERM)?;
        let begin = Instant::now();
        loop {
            if let Some(status) = self.0.try_wait()? {
                ensure!(status.success(), "the server ended: {status}");
                return Ok(());
            }
            ensure!(begin.elapsed() < END_TIMEOUT, "the server runs on after {END_TIMEOUT:?}");
            thread::sleep(POLL_INTERVAL);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // One that has ended is only waited for.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
