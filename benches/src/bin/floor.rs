//! The floor: a server that reads frames and answers each with the same body.
//!
//! What it does is the least that any server of this protocol does: cut frames, repeat the request's number, copy a body.
//! All frames of one read are answered with one write, and nothing is allocated in between. What a name server is slower
//! than this, it is slower by itself.
#![forbid(unsafe_code)]

use std::{
    io::{ErrorKind, Read as _, Write as _},
    net::{Ipv4Addr, TcpListener},
    sync::{
        Arc,
        mpsc::{self, Receiver},
    },
    thread,
};

use anyhow::Context as _;
use clap::Parser;
use memchr::memmem;
use mio::{Events, Interest, Poll, Token, Waker, net::TcpStream};
use server::{
    limits::Limits,
    remoting::{Decoded, Encoder, FrameDecoder, SerializeType},
};

/// A server that answers every request with the same body.
#[derive(Debug, Parser)]
struct Flags {
    /// Port on the loopback
    #[arg(long)]
    port: u16,
    /// Threads that serve connections
    #[arg(long, default_value_t = 1)]
    workers: usize,
    /// Length of the body
    #[arg(long, default_value_t = 1_735)]
    body_bytes: usize,
}

fn main() -> anyhow::Result<()> {
    let flags = Flags::parse();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, flags.port))?;
    let mut workers = Vec::new();
    for _ in 0..flags.workers.max(1) {
        let poll = Poll::new()?;
        let waker = Waker::new(poll.registry(), WAKE)?;
        let (sender, accepted) = mpsc::channel();
        let body = vec![b'x'; flags.body_bytes];
        thread::spawn(move || Worker::new(poll, body).run(&accepted));
        workers.push((sender, Arc::new(waker)));
    }
    for (sender, waker) in workers.iter().cycle() {
        let (stream, _) = listener.accept()?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        sender.send(TcpStream::from_std(stream)).context("a worker has ended")?;
        waker.wake()?;
    }
    Ok(())
}

const WAKE: Token = Token(usize::MAX);
/// Room for one read.
const READ_BYTES: usize = 64 << 10;

struct Worker {
    poll: Poll,
    connections: Vec<Option<Connection>>,
    body: Vec<u8>,
    encoder: Encoder,
    limits: Limits,
    opaque: memmem::Finder<'static>,
    scratch: Vec<u8>,
}

struct Connection {
    stream: TcpStream,
    input: Vec<u8>,
    output: Vec<u8>,
    sent: usize,
}

impl Worker {
    fn new(poll: Poll, body: Vec<u8>) -> Self {
        let limits = Limits::default();
        Self {
            poll,
            connections: Vec::new(),
            body,
            encoder: Encoder::new(SerializeType::Json, &limits),
            limits,
            opaque: memmem::Finder::new("\"opaque\":"),
            scratch: vec![0; READ_BYTES],
        }
    }

    fn run(mut self, accepted: &Receiver<TcpStream>) -> anyhow::Result<()> {
        let mut events = Events::with_capacity(1024);
        loop {
            if let Err(error) = self.poll.poll(&mut events, None)
                && error.kind() != ErrorKind::Interrupted
            {
                return Err(error.into());
            }
            for event in &events {
                if event.token() != WAKE {
                    let at = event.token().0;
                    if self.serve(at).is_none() {
                        self.connections[at] = None;
                    }
                    continue;
                }
                for mut stream in accepted.try_iter() {
                    let token = Token(self.connections.len());
                    let both = Interest::READABLE | Interest::WRITABLE;
                    self.poll.registry().register(&mut stream, token, both)?;
                    let (input, output) = (Vec::new(), Vec::new());
                    self.connections.push(Some(Connection { stream, input, output, sent: 0 }));
                }
            }
        }
    }

    /// Reads what there is and answers it; `None` when the connection is over.
    fn serve(&mut self, at: usize) -> Option<()> {
        let Self { encoder, body, limits, opaque, scratch, connections, .. } = self;
        let connection = connections.get_mut(at)?.as_mut()?;
        loop {
            connection.flush()?;
            if connection.sent < connection.output.len() {
                return Some(());
            }
            let read = match connection.stream.read(scratch) {
                Ok(0) => return None,
                Ok(read) => read,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Some(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(_) => return None,
            };
            let mut bytes = &scratch[..read];
            if !connection.input.is_empty() {
                connection.input.extend_from_slice(bytes);
                bytes = &connection.input;
            }
            let mut consumed = 0;
            while let Decoded::Frame(frame) = FrameDecoder::after_detection().decode(&bytes[consumed..], limits).ok()? {
                let mark = encoder.begin_success(&mut connection.output, opaque_of(frame.header, opaque)?);
                connection.output.extend_from_slice(body);
                encoder.finish(&mut connection.output, mark);
                consumed += frame.consumed;
            }
            if connection.input.is_empty() {
                connection.input.extend_from_slice(&scratch[consumed..read]);
            } else {
                connection.input.drain(..consumed);
            }
            connection.flush()?;
            if read < scratch.len() {
                return Some(());
            }
        }
    }
}

impl Connection {
    fn flush(&mut self) -> Option<()> {
        while self.sent < self.output.len() {
            match self.stream.write(&self.output[self.sent..]) {
                Ok(written) => self.sent += written,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Some(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return None,
            }
        }
        self.output.clear();
        self.sent = 0;
        Some(())
    }
}

/// The number of a request with a JSON header.
fn opaque_of(header: &[u8], finder: &memmem::Finder<'_>) -> Option<i32> {
    let digits = &header[finder.find(header)? + finder.needle().len()..];
    let (sign, digits) = digits.strip_prefix(b"-").map_or((1, digits), |digits| (-1, digits));
    let number = digits.iter().take_while(|byte| byte.is_ascii_digit());
    Some(sign * number.fold(0_i32, |number, digit| number.wrapping_mul(10).wrapping_add(i32::from(digit - b'0'))))
}
