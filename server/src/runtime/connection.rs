//! One connection: bytes in, answers out.
//!
//! All frames of one read are answered with one write. A request that is not a lookup is handed to its thread, after the
//! answers before it are on their way; the next one is looked at when it is done.

use std::{
    cell::{Cell, RefCell},
    future::poll_fn,
    io,
    net::SocketAddr,
    pin::Pin,
    rc::Rc,
    task::{Context, Poll, Waker},
};

use bytes::{Buf, Bytes, BytesMut};
use registry_core::{Command, ConnectionId, Registry};
use rustix::io::ioctl_fionread;
use tokio::{io::AsyncWrite, net::TcpStream};
use tokio_util::io::poll_read_buf;
use tracing::debug;

use super::{
    background::{BackgroundStopped, Reply},
    worker::Worker,
    writer::WriterStopped,
};
use crate::{
    counters::Kind,
    remoting::{Decoded, FrameDecoder, FrameError, HeaderError, RequestCode, RequestDecoder},
    service::{Answer, Call, Handled, Queue},
};

/// Room for one read: a handful of route queries. A connection that fills it gets more.
const READ_BYTES: usize = 4_096;
/// Most room for one read, while a long frame arrives.
const READ_BYTES_MAX: usize = 1 << 20;
/// Answers are sent when they exceed this, even if there are more frames to answer.
const ANSWER_BYTES: usize = 256 << 10;
/// A buffer that has grown beyond this is not kept: answers to a hundred route queries.
const KEPT_BYTES_MAX: usize = 512 << 10;
/// Frames up to this size are copied out of the buffer when another thread needs them; larger ones take it with them.
const COPIED_BYTES_MAX: usize = 16 << 10;

/// What the worker and its connection tell each other. Times are in milliseconds of the worker's coarse clock.
#[derive(Debug)]
pub(super) struct Link {
    fate: Cell<Fate>,
    waker: RefCell<Option<Waker>>,
    /// When bytes were last read or written.
    pub(super) heard: Cell<u64>,
    /// Since when a frame is incomplete, and how much of it is there.
    pub(super) reading: Cell<Option<(u64, usize)>>,
    /// Since when a write makes no progress.
    pub(super) writing: Cell<Option<u64>>,
}

/// The buffers that a worker lends to the connection that has something to do: a connection without a byte under way has
/// none, and those that work one after the other find the same ones, still in the near caches.
#[derive(Default)]
pub(super) struct Spare {
    input: Cell<BytesMut>,
    output: Cell<Vec<u8>>,
}

/// What is to become of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Open,
    /// It ends when what has been sent to it is answered.
    Draining,
    Closed(&'static str),
}

impl Link {
    pub(super) fn new(now: u64) -> Self {
        Self {
            fate: Cell::new(Fate::Open),
            waker: RefCell::default(),
            heard: Cell::new(now),
            reading: Cell::default(),
            writing: Cell::default(),
        }
    }

    /// Ends the connection at its next read or write.
    pub(super) fn close(&self, reason: &'static str) {
        self.fate.set(Fate::Closed(reason));
        self.wake();
    }

    /// Ends the connection when nothing of it is left to be answered.
    pub(super) fn drain(&self) {
        if self.fate.get() == Fate::Open {
            self.fate.set(Fate::Draining);
        }
        self.wake();
    }

    pub(super) fn wake(&self) {
        if let Some(waker) = self.waker.borrow_mut().take() {
            waker.wake();
        }
    }

    fn wait<T>(&self, context: &Context<'_>) -> Poll<T> {
        let mut held = self.waker.borrow_mut();
        match &mut *held {
            Some(waker) if waker.will_wake(context.waker()) => {}
            held => *held = Some(context.waker().clone()),
        }
        Poll::Pending
    }
}

/// Why a connection ends.
#[derive(Debug, thiserror::Error)]
pub(super) enum End {
    #[error("closed by the peer")]
    Peer,
    #[error("drained")]
    Drained,
    #[error("closed by the server: {0}")]
    Closed(&'static str),
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Frame(#[from] FrameError),
    #[error(transparent)]
    Header(#[from] HeaderError),
    #[error(transparent)]
    Writer(#[from] WriterStopped),
    #[error(transparent)]
    Background(#[from] BackgroundStopped),
}

/// How far a frame has come.
enum Step {
    /// It is served.
    Done { consumed: usize },
    /// Another thread has to be asked.
    Unfinished { consumed: usize, handled: Handled, opaque: i32, is_oneway: bool },
}

pub(super) struct Connection<R: Registry> {
    worker: Rc<Worker<R>>,
    link: Rc<Link>,
    id: ConnectionId,
    peer: SocketAddr,
    /// The peer's peer, as a PROXY header tells.
    source: Option<SocketAddr>,
    stream: TcpStream,
    decoder: FrameDecoder,
    headers: RequestDecoder,
    /// What has been read and not served; [`Spare`] when it is empty.
    input: BytesMut,
    /// What has been answered and not sent; [`Spare`] when it is empty.
    output: Vec<u8>,
    /// Whether a broker may depend on this connection.
    has_registered: bool,
}

impl<R: Registry> Connection<R> {
    pub(super) fn new(
        worker: Rc<Worker<R>>,
        link: Rc<Link>,
        id: ConnectionId,
        stream: TcpStream,
        peer: SocketAddr,
    ) -> Self {
        Self {
            worker,
            link,
            id,
            peer,
            source: None,
            stream,
            decoder: FrameDecoder::new(),
            headers: RequestDecoder::new(),
            input: BytesMut::new(),
            output: Vec::new(),
            has_registered: false,
        }
    }

    /// Serves the connection to its end.
    pub(super) async fn serve(mut self) {
        let end = match self.serve_frames().await {
            Ok(never) => match never {},
            Err(end) => end,
        };
        // What was answered before the end is still sent, if that takes no waiting.
        let counters = &self.worker.shared.counters;
        match &end {
            End::Frame(error) => counters.count(Kind::BadFrame, error.reason()),
            End::Header(error) => counters.count(Kind::BadFrame, error.reason()),
            End::Closed(reason) => counters.count(Kind::TimedOut, reason),
            _ => {}
        }
        debug!(peer = %self.peer, source = ?self.source, %end, "connection ends");
    }

    async fn serve_frames(&mut self) -> Result<std::convert::Infallible, End> {
        loop {
            self.read().await?;
            if let Err(end) = self.serve_input().await {
                if matches!(end, End::Frame(_) | End::Header(_)) {
                    // The requests before the bad one get their answers.
                    self.flush().await?;
                }
                return Err(end);
            }
        }
    }

    /// Serves every whole frame that has been read.
    async fn serve_input(&mut self) -> Result<(), End> {
        let mut at = 0;
        while let Some(step) = self.serve_frame(at)? {
            match step {
                Step::Done { consumed } => at += consumed,
                Step::Unfinished { consumed, handled, opaque, is_oneway } => {
                    self.input.advance(at);
                    at = 0;
                    self.finish(handled, consumed, opaque, is_oneway).await?;
                }
            }
            if self.output.len() > ANSWER_BYTES {
                self.flush().await?;
            }
        }
        self.drop_input(at);
        self.note_incomplete();
        self.flush().await
    }

    /// Forgets so many bytes at the start of the input.
    fn drop_input(&mut self, count: usize) {
        if count == self.input.len() {
            // Unlike `advance`, this leaves all room at its end.
            self.input.clear();
        } else {
            self.input.advance(count);
        }
    }

    /// Serves the frame that begins at `at`; `None` when it is not whole.
    fn serve_frame(&mut self, at: usize) -> Result<Option<Step>, End> {
        let Self { worker, decoder, headers, input, output, .. } = self;
        let frame = match decoder.decode(&input[at..], &worker.shared.limits)? {
            Decoded::Incomplete => return Ok(None),
            Decoded::Proxy(header) => {
                self.source = header.source;
                return Ok(Some(Step::Done { consumed: header.consumed }));
            }
            Decoded::Frame(frame) => frame,
        };
        let consumed = frame.consumed;
        let request = headers.decode(&frame, &worker.shared.limits)?;
        if request.is_response() {
            // We have asked nothing over this connection.
            return Ok(Some(Step::Done { consumed }));
        }
        let call = Call {
            request: &request,
            body: frame.body,
            connection: self.id,
            peer: self.peer,
            source: self.source,
            arrived: None,
        };
        let start = output.len();
        let handled = worker.service.borrow_mut().handle(call, output);
        let (opaque, is_oneway) = (request.opaque, request.is_oneway());
        if matches!(handled, Handled::Answered) {
            if is_oneway {
                output.truncate(start);
            }
            return Ok(Some(Step::Done { consumed }));
        }
        self.has_registered |= RequestCode::from_wire(request.code) == Some(RequestCode::RegisterBroker);
        Ok(Some(Step::Unfinished { consumed, handled, opaque, is_oneway }))
    }

    /// Finishes the request at the start of the input, which needs another thread.
    async fn finish(&mut self, handled: Handled, consumed: usize, opaque: i32, is_oneway: bool) -> Result<(), End> {
        self.flush().await?;
        let (command, answer) = match handled {
            Handled::Answered => return Ok(()),
            Handled::Change(command, Answer::Again) => {
                self.worker.writer.execute(command).await?;
                return Ok(());
            }
            Handled::Change(command, answer) => {
                self.input.advance(consumed);
                (command, answer)
            }
            Handled::Deferred(queue) => {
                let frame = self.take_frame(consumed);
                let Reply { answer, handled } = self.defer(queue, frame).await?;
                match handled {
                    Handled::Change(command, answer) => (command, answer),
                    Handled::Answered | Handled::Deferred(_) => {
                        if !is_oneway {
                            // Written from where it was made, and the buffer for small answers is kept.
                            let kept = std::mem::replace(&mut self.output, answer);
                            self.flush().await?;
                            self.output = kept;
                        }
                        return Ok(());
                    }
                }
            }
        };
        let applied = self.worker.writer.execute(command).await?;
        if !is_oneway {
            self.worker.service.borrow().answer_change(opaque, answer, &applied, &mut self.output);
        }
        Ok(())
    }

    async fn defer(&self, queue: Queue, frame: Bytes) -> Result<Reply, BackgroundStopped> {
        self.worker.background.handle(queue, frame, self.id, self.peer, self.source).await
    }

    fn take_frame(&mut self, consumed: usize) -> Bytes {
        if consumed > COPIED_BYTES_MAX {
            return self.input.split_to(consumed).freeze();
        }
        let frame = Bytes::copy_from_slice(&self.input[..consumed]);
        self.input.advance(consumed);
        frame
    }

    /// Remembers since when the peer owes the rest of a frame.
    fn note_incomplete(&self) {
        let reading = match (self.input.len(), self.link.reading.get()) {
            (0, _) => None,
            (bytes, Some((since, before))) if bytes > before => Some((since, bytes)),
            (bytes, _) => Some((self.worker.now.get(), bytes)),
        };
        self.link.reading.set(reading);
    }

    /// Reads at least one byte.
    async fn read(&mut self) -> Result<(), End> {
        let Self { worker, link, stream, input, output, .. } = self;
        let read = poll_fn(|context| {
            if let Fate::Closed(reason) = link.fate.get() {
                return Poll::Ready(Err(End::Closed(reason)));
            }
            worker.spare.lend(input, output);
            if input.capacity() - input.len() < READ_BYTES / 2 {
                input.reserve(input.len().clamp(READ_BYTES, READ_BYTES_MAX));
            }
            match poll_read_buf(Pin::new(&mut *stream), context, input) {
                Poll::Ready(Ok(read)) => Poll::Ready(Ok(read)),
                Poll::Ready(Err(error)) => Poll::Ready(Err(error.into())),
                // What the peer has sent may be there before the poller has told.
                Poll::Pending if link.fate.get() == Fate::Draining && ioctl_fionread(&*stream).unwrap_or(0) == 0 => {
                    Poll::Ready(Err(End::Drained))
                }
                Poll::Pending => {
                    worker.spare.take_back(input, output);
                    link.wait(context)
                }
            }
        })
        .await?;
        link.heard.set(worker.now.get());
        if read == 0 { Err(End::Peer) } else { Ok(()) }
    }

    /// Sends all answers.
    async fn flush(&mut self) -> Result<(), End> {
        let Self { worker, link, stream, output, .. } = self;
        let mut sent = 0;
        while sent < output.len() {
            sent += poll_fn(|context| {
                if let Fate::Closed(reason) = link.fate.get() {
                    return Poll::Ready(Err(End::Closed(reason)));
                }
                match Pin::new(&mut *stream).poll_write(context, &output[sent..]) {
                    Poll::Ready(Ok(0)) => Poll::Ready(Err(io::Error::from(io::ErrorKind::WriteZero).into())),
                    Poll::Ready(written) => Poll::Ready(written.map_err(End::from)),
                    Poll::Pending => {
                        if link.writing.get().is_none() {
                            link.writing.set(Some(worker.now.get()));
                        }
                        link.wait(context)
                    }
                }
            })
            .await?;
            link.writing.set(None);
            link.heard.set(worker.now.get());
        }
        output.clear();
        Ok(())
    }
}

impl Spare {
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

impl<R: Registry> Drop for Connection<R> {
    fn drop(&mut self) {
        self.worker.forget(self.id);
        if self.has_registered {
            self.worker.writer.submit(Command::Disconnect(self.id));
        }
    }
}
