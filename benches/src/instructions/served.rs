//! Operations of a whole server: it runs under valgrind, its client does not.

use std::{
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    path::Path,
};

use anyhow::{bail, ensure};
use bytes::{Buf as _, BytesMut};

use super::{Operation, operations::BROKERS, valgrind};
use crate::{
    client::{Client, Codec, Query},
    cluster::{populate, topic_names},
    process::{Server, write_config},
};

/// Few, for a registration is read in pieces, and how many there are is chance.
const TOPICS: usize = 100;
/// Requests of one write when they are pipelined.
const PIPELINED: u64 = 4;

/// Starts a server under valgrind, loads it, repeats the operation, and ends it.
pub(super) fn run(namesrv: &Path, operation: Operation, times: u64, counts: &Path) -> anyhow::Result<()> {
    let server = Server::start(|home, port| {
        let mut command = valgrind(namesrv, counts);
        command.arg("-c").arg(write_config(home, port)?).env("HOME", home).env("RUST_LOG", "warn");
        Ok(command)
    })?;
    let addr = server.addr();

    let topics = topic_names(TOPICS);
    let _brokers = populate(addr, 0..BROKERS, &topics)?;
    match operation {
        Operation::ServedRoute => ask_routes(addr, &topics, times)?,
        Operation::ServedRoutePipelined => ask_pipelined(addr, &topics, times)?,
        _ => bail!("{} takes no server", operation.name()),
    }
    server.stop()
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
