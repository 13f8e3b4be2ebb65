//! From an accepted socket to a connection that speaks frames: through the [doors](crate::doors).

use std::{future::poll_fn, net::SocketAddr, rc::Rc, task::Poll};

use registry_core::{ConnectionId, Registry};
use tokio::net::TcpStream;
use tracing::debug;

use super::{
    connection::{Connection, End},
    wire::{Link, Transport, Wire},
    worker::Worker,
};
use crate::{
    doors::{Doors, Verdict},
    peers::{Account, Place},
    remoting::FrameDecoder,
};

/// A socket that was accepted, and its place.
#[derive(Debug)]
pub(crate) struct Accepted {
    pub(crate) stream: std::net::TcpStream,
    pub(crate) peer: SocketAddr,
    pub(crate) id: ConnectionId,
    pub(crate) place: Place,
}

/// Who is at the other end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Peer {
    pub(super) id: ConnectionId,
    pub(super) address: SocketAddr,
    /// The peer's peer, as a trusted PROXY header tells.
    pub(super) source: Option<SocketAddr>,
}

/// Serves a connection from its first byte to its end.
pub(super) async fn serve<R: Registry>(
    worker: Rc<Worker<R>>,
    link: Rc<Link>,
    stream: TcpStream,
    peer: SocketAddr,
    id: ConnectionId,
    place: Place,
) {
    let _forgotten = ForgetOnDrop(&worker, id);
    let mut peer = Peer { id, address: peer, source: None };
    let mut wire = Wire::new(stream, Rc::clone(&worker.room), link);
    match enter(&worker, &mut wire, &mut peer, place).await {
        Ok(Entered { place, decoder }) => {
            let account = Account::new(&worker.budget, place.source(), id);
            let mut connection = Connection::new(Rc::clone(&worker), wire, peer, place, account, decoder);
            let end = connection.serve().await;
            note(&worker, &peer, &end);
        }
        Err(end) => note(&worker, &peer, &end),
    }
}

/// Counts and logs an end, before the peer sees it.
fn note<R: Registry>(worker: &Worker<R>, peer: &Peer, end: &End) {
    if let Some((kind, reason)) = end.counted() {
        worker.shared.counters.count(kind, reason);
    }
    debug!(peer = %peer.address, source = ?peer.source, %end, "connection ends");
}

struct Entered {
    place: Place,
    decoder: FrameDecoder,
}

/// Passes the doors.
async fn enter<R: Registry, S: Transport>(
    worker: &Worker<R>,
    wire: &mut Wire<S>,
    peer: &mut Peer,
    mut place: Place,
) -> Result<Entered, End> {
    let shared = &worker.shared;
    let mut doors = Doors::new(peer.address.ip(), &shared.config.config().proxy_protocol_trusted);
    loop {
        match doors.judge(&wire.input, &shared.limits)? {
            Verdict::Frames { has_proxy_header: false } => {
                return Ok(Entered { place, decoder: FrameDecoder::of_connection() });
            }
            Verdict::Frames { has_proxy_header: true } => return Ok(Entered { place, decoder: FrameDecoder::new() }),
            Verdict::Proxy(header) => {
                wire.consume(header.consumed);
                peer.source = header.source;
                if let Some(source) = header.source {
                    place.move_to(source.ip())?;
                }
            }
            Verdict::Incomplete => read_more(worker, wire).await?,
        }
    }
}

async fn read_more<R: Registry, S: Transport>(worker: &Worker<R>, wire: &mut Wire<S>) -> Result<(), End> {
    let link = Rc::clone(wire.link());
    if !wire.input.is_empty() && link.reading.get().is_none() {
        link.reading.set(Some((worker.room.now.get(), 0)));
    }
    let read = poll_fn(|context| {
        link.check()?;
        match wire.poll_read(context, 0) {
            Poll::Pending if link.is_draining() && wire.is_read_out() => Poll::Ready(Err(End::Drained)),
            Poll::Pending => link.wait(context),
            ready => ready,
        }
    })
    .await?;
    if read == 0 { Err(End::Peer) } else { Ok(()) }
}

struct ForgetOnDrop<'a, R: Registry>(&'a Worker<R>, ConnectionId);

impl<R: Registry> Drop for ForgetOnDrop<'_, R> {
    fn drop(&mut self) {
        self.0.forget(self.1);
    }
}
