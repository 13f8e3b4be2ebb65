//! The floor: a server that answers each request with the same body, as fast as one can be without the kernel's help.
//!
//! What it does is the least that any server of this protocol does: cut frames, repeat the request's number, send a body.
//! Between two sleeps it makes two system calls a connection, one read and one write, whatever the number of requests in
//! them; a read that did not fill its room is not followed by another one. Answers are not even copied: they lie ready one
//! after the other, and only the digits of their opaques are put in. Nothing is allocated once the buffers have grown.
//! What a name server is slower than this, it is slower by itself.

use std::{
    io::{self, ErrorKind, Read as _, Write as _},
    net::TcpListener,
    str,
    sync::mpsc::{self, Receiver},
    thread,
};

use anyhow::Context as _;
use memchr::memmem;
use mio::{Events, Interest, Poll, Token, Waker, net::TcpStream};
use server::{
    limits::Limits,
    remoting::{Decoded, Encoder, FrameDecoder, SerializeType},
};

/// Serves with so many threads, each with its share of the connections, and bodies of so many bytes, for ever.
///
/// A connection with a header that is not JSON, or without opaque, is closed.
///
/// # Errors
/// When no more connections can be accepted, or a thread cannot be started.
pub fn run(listener: &TcpListener, workers: usize, body_bytes: usize) -> anyhow::Result<()> {
    let mut senders = Vec::new();
    for _ in 0..workers.max(1) {
        let poll = Poll::new()?;
        let waker = Waker::new(poll.registry(), WAKE)?;
        let (sender, accepted) = mpsc::channel();
        thread::Builder::new().name("floor".into()).spawn(move || Worker::new(poll, body_bytes).run(&accepted))?;
        senders.push((sender, waker));
    }
    for (sender, waker) in senders.iter().cycle() {
        let (stream, _) = listener.accept()?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        sender.send(TcpStream::from_std(stream)).context("a worker has ended")?;
        waker.wake()?;
    }
    Ok(())
}

const WAKE: Token = Token(usize::MAX);
/// Room for one read: several hundred requests.
const READ_BYTES: usize = 64 << 10;

struct Worker {
    poll: Poll,
    /// By token; `None` can be taken by the next connection.
    connections: Vec<Option<Connection>>,
    answers: Answers,
    scratch: Box<[u8]>,
}

impl Worker {
    fn new(poll: Poll, body_bytes: usize) -> Self {
        Self { poll, connections: Vec::new(), answers: Answers::new(body_bytes), scratch: vec![0; READ_BYTES].into() }
    }

    fn run(mut self, accepted: &Receiver<TcpStream>) -> io::Result<()> {
        let mut events = Events::with_capacity(1024);
        loop {
            match self.poll.poll(&mut events, None) {
                Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
            for event in &events {
                if event.token() == WAKE {
                    accepted.try_iter().try_for_each(|stream| self.take(stream))?;
                } else if let Some(slot) = self.connections.get_mut(event.token().0)
                    && let Some(connection) = slot
                    && connection.serve(&mut self.scratch, &mut self.answers, event.is_read_closed()).is_none()
                {
                    *slot = None;
                }
            }
        }
    }

    fn take(&mut self, mut stream: TcpStream) -> io::Result<()> {
        let free = self.connections.iter().position(Option::is_none);
        let at = free.unwrap_or_else(|| {
            self.connections.push(None);
            self.connections.len() - 1
        });
        self.poll.registry().register(&mut stream, Token(at), Interest::READABLE | Interest::WRITABLE)?;
        self.connections[at] = Some(Connection { stream, input: Vec::new(), output: Vec::new(), sent: 0 });
        Ok(())
    }
}

struct Connection {
    stream: TcpStream,
    /// The start of a request of which the rest has not come.
    input: Vec<u8>,
    /// What the system did not take at once, and how much of that it has taken meanwhile.
    output: Vec<u8>,
    sent: usize,
}

impl Connection {
    /// Reads what there is and answers it; `None` when the connection is over. The end of what the peer sends is there to
    /// be read when it is known to be.
    fn serve(&mut self, scratch: &mut [u8], answers: &mut Answers, has_ended: bool) -> Option<()> {
        loop {
            // Who does not read gets no more answers.
            if !self.flush()? {
                return Some(());
            }
            let read = match self.stream.read(scratch) {
                Ok(0) => return None,
                Ok(read) => read,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Some(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(_) => return None,
            };
            if self.input.is_empty() {
                let consumed = answers.prepare(&scratch[..read])?;
                self.input.extend_from_slice(&scratch[consumed..read]);
            } else {
                self.input.extend_from_slice(&scratch[..read]);
                let consumed = answers.prepare(&self.input)?;
                self.input.drain(..consumed);
            }
            self.send(answers.take())?;
            if read < scratch.len() && !has_ended {
                return Some(());
            }
        }
    }

    fn send(&mut self, answers: &[u8]) -> Option<()> {
        let mut sent = 0;
        while sent < answers.len() {
            match self.stream.write(&answers[sent..]) {
                Ok(written) => sent += written,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.output.extend_from_slice(&answers[sent..]);
                    return Some(());
                }
                Err(_) => return None,
            }
        }
        Some(())
    }

    /// Says whether all is sent.
    fn flush(&mut self) -> Option<bool> {
        while self.sent < self.output.len() {
            match self.stream.write(&self.output[self.sent..]) {
                Ok(written) => self.sent += written,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Some(false),
                Err(_) => return None,
            }
        }
        self.output.clear();
        self.sent = 0;
        Some(true)
    }
}

/// Answers that lie ready, for opaques of the same number of digits.
struct Answers {
    encoder: Encoder,
    limits: Limits,
    body: Vec<u8>,
    opaque: memmem::Finder<'static>,
    /// Whole answers, equal but for their opaques.
    frames: Vec<u8>,
    frame_bytes: usize,
    opaque_at: usize,
    digits: usize,
    /// So many of them are in use.
    count: usize,
    /// Those that were in use when an opaque of another length came.
    earlier: Vec<u8>,
}

impl Answers {
    fn new(body_bytes: usize) -> Self {
        let limits = Limits::default();
        Self {
            encoder: Encoder::new(SerializeType::Json, &limits),
            limits,
            body: vec![b'x'; body_bytes],
            opaque: memmem::Finder::new(OPAQUE),
            frames: Vec::new(),
            frame_bytes: 0,
            opaque_at: 0,
            digits: 0,
            count: 0,
            earlier: Vec::new(),
        }
    }

    /// Answers all whole requests, and says how many bytes they take; `None` when one is not to be answered.
    fn prepare(&mut self, bytes: &[u8]) -> Option<usize> {
        self.count = 0;
        self.earlier.clear();
        let mut consumed = 0;
        let mut decoder = FrameDecoder::new();
        while let Decoded::Frame(frame) = decoder.decode(&bytes[consumed..], &self.limits).ok()? {
            let digits = &frame.header[self.opaque.find(frame.header)? + OPAQUE.len()..];
            let length = digits.iter().take_while(|byte| matches!(byte, b'0'..=b'9' | b'-')).count();
            self.answer(&digits[..length])?;
            consumed += frame.consumed;
        }
        Some(consumed)
    }

    fn answer(&mut self, opaque: &[u8]) -> Option<()> {
        if opaque.len() != self.digits {
            self.earlier.extend_from_slice(&self.frames[..self.count * self.frame_bytes]);
            self.begin(opaque)?;
        }
        let start = self.count * self.frame_bytes;
        if start == self.frames.len() {
            self.frames.extend_from_within(..self.frame_bytes);
        }
        self.frames[start + self.opaque_at..][..opaque.len()].copy_from_slice(opaque);
        self.count += 1;
        Some(())
    }

    /// Makes the first answer with an opaque of this length.
    fn begin(&mut self, opaque: &[u8]) -> Option<()> {
        let number: i32 = str::from_utf8(opaque).ok()?.parse().ok()?;
        self.frames.clear();
        let mark = self.encoder.begin_success(&mut self.frames, number);
        self.opaque_at = memmem::find(&self.frames, OPAQUE)? + OPAQUE.len();
        self.frames.extend_from_slice(&self.body);
        self.encoder.finish(&mut self.frames, mark);
        self.frame_bytes = self.frames.len();
        self.digits = opaque.len();
        self.count = 0;
        Some(())
    }

    /// The answers of the last requests, one after the other.
    fn take(&mut self) -> &[u8] {
        let last = &self.frames[..self.count * self.frame_bytes];
        if self.earlier.is_empty() {
            return last;
        }
        self.earlier.extend_from_slice(last);
        &self.earlier
    }
}

const OPAQUE: &[u8] = b"\"opaque\":";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::{Codec, Query};

    fn requests(opaques: &[i32]) -> Vec<u8> {
        let mut bytes = Vec::new();
        opaques.iter().for_each(|&opaque| Codec::new().encode(&mut bytes, &Query::route("t"), opaque));
        bytes
    }

    fn answered(mut bytes: &[u8]) -> Vec<i32> {
        let (mut codec, mut opaques) = (Codec::new(), Vec::new());
        while let Some(answer) = codec.decode(bytes).unwrap() {
            assert_eq!((answer.code, answer.body), (0, &b"xxxxx"[..]));
            opaques.push(answer.opaque);
            bytes = &bytes[answer.consumed..];
        }
        assert!(bytes.is_empty());
        opaques
    }

    #[test]
    fn answers_have_the_opaques_of_their_requests() {
        let mut answers = Answers::new(5);
        for opaques in [&[7][..], &[8, 9, 10, 11, 3, 100, i32::MAX], &[-1, 5, i32::MIN], &[], &[12, 13]] {
            let bytes = requests(opaques);
            assert_eq!(answers.prepare(&bytes), Some(bytes.len()));
            assert_eq!(answered(answers.take()), opaques);
        }
    }

    #[test]
    fn half_a_request_waits_for_the_rest() {
        let mut answers = Answers::new(5);
        let (whole, both) = (requests(&[1]), requests(&[1, 2]));
        assert_eq!(answers.prepare(&both[..both.len() - 1]), Some(whole.len()));
        assert_eq!(answered(answers.take()), [1]);
    }

    #[test]
    fn no_opaque_no_answer() {
        let mut answers = Answers::new(5);
        let text = String::from_utf8(requests(&[1])).unwrap();
        assert_eq!(answers.prepare(text.replace("opaque", "opaqux").as_bytes()), None);
        assert_eq!(answers.prepare(text.replace(":1,", ":-,").as_bytes()), None);
        assert_eq!(answers.prepare(&[0xff; 64]), None);
    }
}
