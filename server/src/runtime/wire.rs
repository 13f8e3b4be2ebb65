//! The bytes of one connection: read into a buffer, written from another, over any transport.

use std::{
    cell::{Cell, RefCell},
    future::poll_fn,
    io,
    pin::Pin,
    rc::Rc,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use bytes::{BufMut, Bytes, BytesMut};
use rustix::io::ioctl_fionread;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
};
use tokio_util::io::poll_read_buf;

use super::{connection::End, worker::Room};
use crate::peers::{Account, Charge};

/// Room for one read: a handful of route queries.
const READ_BYTES: usize = 4_096;
/// Most room for one read, while a long frame arrives.
const READ_BYTES_MAX: usize = 1 << 20;
/// A buffer that has grown beyond this is not kept: answers to a hundred route queries.
const KEPT_BYTES_MAX: usize = 512 << 10;
/// Answers that a peer does not take are charged when they are more than this: what a worker lends anyway.
const UNCHARGED_BYTES_MAX: usize = READ_BYTES;

/// What carries the bytes: TCP, or something on top of it.
pub(super) trait Transport: AsyncRead + AsyncWrite + Unpin {
    /// Bytes that the peer has sent and nobody has read, as far as is known.
    fn unread(&self) -> u64;

    /// Has what is not sent yet dropped when the connection is closed, instead of kept by the system.
    fn abort(&self);
}

impl Transport for TcpStream {
    fn unread(&self) -> u64 {
        ioctl_fionread(self).unwrap_or(0)
    }

    fn abort(&self) {
        // What cannot be set is the system's to time out.
        let _ = self.set_zero_linger();
    }
}

/// What the worker and its connection tell each other. Times are in milliseconds of the worker's coarse clock.
#[derive(Debug)]
pub(super) struct Link {
    state: Cell<State>,
    waker: RefCell<Option<Waker>>,
    /// When bytes were last read or written.
    pub(super) heard: Cell<u64>,
    /// Since when a frame that is waited for is incomplete, and how much of it is there.
    pub(super) reading: Cell<Option<(u64, usize)>>,
    /// Since when a write makes no progress.
    pub(super) writing: Cell<Option<u64>>,
    /// Whether we owe the peer something: an answer, or memory to read on. Its silence is ours.
    pub(super) owes: Cell<bool>,
    /// Whether it waits for memory, and is to be woken now and then.
    pub(super) lacks_memory: Cell<bool>,
}

/// What is to become of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Open,
    /// It ends when what has been sent to it is answered.
    Draining,
    Closed(&'static str),
}

/// The buffers that a worker lends to the connection that has something to do: a connection without a byte under way has
/// none, and those that work one after the other find the same ones, still in the near caches.
#[derive(Default)]
pub(super) struct BufferPool {
    input: Cell<BytesMut>,
    output: Cell<Vec<u8>>,
}

/// One connection's transport and buffers.
pub(super) struct Wire<S> {
    stream: S,
    room: Rc<Room>,
    link: Rc<Link>,
    /// What has been read and not served; lent by the [`BufferPool`] while it is empty.
    pub(super) input: BytesMut,
    /// What has been answered and not sent; lent as well.
    pub(super) output: Vec<u8>,
    /// The end of the last answer, where others share it.
    shared: Option<Bytes>,
}

impl Link {
    pub(super) fn new(now: u64) -> Self {
        Self {
            state: Cell::new(State::Open),
            waker: RefCell::default(),
            heard: Cell::new(now),
            reading: Cell::default(),
            writing: Cell::default(),
            owes: Cell::default(),
            lacks_memory: Cell::default(),
        }
    }

    /// Ends the connection at its next read or write.
    pub(super) fn close(&self, reason: &'static str) {
        self.state.set(State::Closed(reason));
        self.wake();
    }

    /// Ends the connection when nothing of it is left to be answered.
    pub(super) fn drain(&self) {
        if self.state.get() == State::Open {
            self.state.set(State::Draining);
        }
        self.wake();
    }

    pub(super) fn wake(&self) {
        if let Some(waker) = self.waker.borrow_mut().take() {
            waker.wake();
        }
    }

    /// Has the connection woken when its state changes.
    pub(super) fn wait<T>(&self, context: &Context<'_>) -> Poll<T> {
        let mut held = self.waker.borrow_mut();
        match &mut *held {
            Some(waker) if waker.will_wake(context.waker()) => {}
            held => *held = Some(context.waker().clone()),
        }
        Poll::Pending
    }

    /// # Errors
    /// The connection is to end now.
    pub(super) fn check(&self) -> Result<(), End> {
        if let State::Closed(reason) = self.state.get() { Err(End::Closed(reason)) } else { Ok(()) }
    }

    pub(super) fn is_draining(&self) -> bool {
        self.state.get() == State::Draining
    }
}

impl<S: Transport> Wire<S> {
    pub(super) fn new(stream: S, room: Rc<Room>, link: Rc<Link>) -> Self {
        Self { stream, room, link, input: BytesMut::new(), output: Vec::new(), shared: None }
    }

    pub(super) fn link(&self) -> &Rc<Link> {
        &self.link
    }

    /// Reads what is there, but not more than `wanted` bytes where that is more than a usual read; 0 at the end of the
    /// peer's bytes.
    pub(super) fn poll_read(&mut self, context: &mut Context<'_>, wanted: usize) -> Poll<Result<usize, End>> {
        let Self { stream, room, link, input, output, .. } = self;
        room.buffers.lend(input, output);
        let most = wanted.clamp(4 * READ_BYTES, READ_BYTES_MAX);
        if input.capacity() - input.len() < READ_BYTES / 2 {
            // Grows with what has come, not with what was announced.
            input.reserve(input.len().clamp(READ_BYTES, most));
        }
        match poll_read_buf(Pin::new(stream), context, &mut (&mut *input).limit(most)) {
            Poll::Ready(Ok(read)) => {
                link.heard.set(room.now.get());
                Poll::Ready(Ok(read))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(error.into())),
            Poll::Pending => {
                room.buffers.take_back(input, output);
                Poll::Pending
            }
        }
    }

    /// Says that the peer has sent nothing that is not read. (What it has sent may be there before the poller has told.)
    pub(super) fn is_read_out(&self) -> bool {
        self.stream.unread() == 0
    }

    /// See [`Transport::abort`].
    pub(super) fn abort(&self) {
        self.stream.abort();
    }

    /// Forgets so many bytes at the start of the input.
    pub(super) fn consume(&mut self, count: usize) {
        if count == self.input.len() {
            // Unlike `advance`, this leaves all room at its end.
            self.input.clear();
        } else {
            bytes::Buf::advance(&mut self.input, count);
        }
    }

    /// Ends the output with bytes that others share. Nothing may be added before they are flushed.
    pub(super) fn share(&mut self, body: Bytes) {
        debug_assert!(self.shared.is_none(), "the body before was flushed");
        self.shared = Some(body);
    }

    /// Sends all answers. What a peer does not take at once is charged to its account.
    pub(super) async fn flush(&mut self, account: &Arc<Account>) -> Result<(), End> {
        let Self { stream, room, link, output, shared, .. } = self;
        write_all(stream, room, link, output, Some(account)).await?;
        output.clear();
        if let Some(body) = shared.take() {
            // Whoever made it has charged it, once for all who take it.
            write_all(stream, room, link, &body, None).await?;
        }
        Ok(())
    }
}

async fn write_all<S: Transport>(
    stream: &mut S,
    room: &Room,
    link: &Link,
    bytes: &[u8],
    payer: Option<&Arc<Account>>,
) -> Result<(), End> {
    let mut sent = 0;
    let mut charge: Option<Charge> = None;
    while sent < bytes.len() {
        sent += poll_fn(|context| {
            link.check()?;
            match Pin::new(&mut *stream).poll_write(context, bytes.get(sent..).unwrap_or_default()) {
                Poll::Ready(Ok(0)) => Poll::Ready(Err(End::from(io::Error::from(io::ErrorKind::WriteZero)))),
                Poll::Ready(written) => Poll::Ready(written.map_err(End::from)),
                Poll::Pending => {
                    if link.writing.get().is_none() {
                        link.writing.set(Some(room.now.get()));
                    }
                    if let Some(payer) = payer
                        && charge.is_none()
                        && bytes.len() > UNCHARGED_BYTES_MAX
                    {
                        charge = Some(payer.charge(bytes.len())?);
                    }
                    link.wait(context)
                }
            }
        })
        .await?;
        link.writing.set(None);
        link.heard.set(room.now.get());
    }
    Ok(())
}

impl BufferPool {
    fn lend(&self, input: &mut BytesMut, output: &mut Vec<u8>) {
        if input.capacity() == 0 {
            *input = self.input.take();
        }
        if output.capacity() == 0 {
            *output = self.output.take();
        }
    }

    /// Takes what a connection that waits does not need.
    fn take_back(&self, input: &mut BytesMut, output: &mut Vec<u8>) {
        if input.is_empty() {
            let input = std::mem::take(input);
            if (1..=KEPT_BYTES_MAX).contains(&input.capacity()) {
                self.input.set(input);
            }
        }
        if output.is_empty() {
            let output = std::mem::take(output);
            if (1..=KEPT_BYTES_MAX).contains(&output.capacity()) {
                self.output.set(output);
            }
        }
    }
}
