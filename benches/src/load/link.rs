//! The connections of one thread.

use std::{
    io::{self, ErrorKind, Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    time::{Duration, Instant},
};

use memchr::memmem;
use mio::{Interest, Registry, Token};

use super::frames::{OPAQUE_DIGITS, OPAQUE_KEY};
use crate::{
    client::{Answer, Codec},
    faults::Fault,
};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// One connection.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) number: usize,
    stream: mio::net::TcpStream,
    codec: Codec,
    header: Header,
    /// The start of an answer of which the rest has not come.
    input: Vec<u8>,
    /// Requests that are not sent yet.
    pub(super) output: Vec<u8>,
    pub(super) is_lost: bool,
}

/// Why a connection is of no use any more.
pub(super) type Loss = (Fault, String);

impl Link {
    pub(super) fn connect(addr: SocketAddr, number: usize, registry: &Registry) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&addr, CONNECT_TIMEOUT)?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        let mut stream = mio::net::TcpStream::from_std(stream);
        registry.register(&mut stream, Token(number), Interest::READABLE | Interest::WRITABLE)?;
        let (codec, header) = (Codec::new(), Header::default());
        Ok(Self { number, stream, codec, header, input: Vec::new(), output: Vec::new(), is_lost: false })
    }

    /// Sends as much as the system takes; the rest when it says so.
    pub(super) fn flush(&mut self) -> Result<(), Loss> {
        let mut written = 0;
        while written < self.output.len() {
            match self.stream.write(&self.output[written..]) {
                Ok(bytes) => written += bytes,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err((Fault::Closed, error.to_string())),
            }
        }
        self.output.drain(..written);
        Ok(())
    }

    /// Hands every answer that has come to `f`, with the time at which it was read. The end of what the server sends is
    /// there to be read when it is known to be.
    pub(super) fn read(
        &mut self,
        scratch: &mut [u8],
        has_ended: bool,
        mut f: impl FnMut(&mut Self, &Answer<'_>, Instant),
    ) -> Result<(), Loss> {
        loop {
            let read = match self.stream.read(scratch) {
                Ok(0) => return Err((Fault::Closed, "the server has closed a connection".into())),
                Ok(read) => read,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err((Fault::Closed, error.to_string())),
            };
            let now = Instant::now();
            if self.input.is_empty() {
                let consumed = self.answers(&scratch[..read], now, &mut f)?;
                self.input.extend_from_slice(&scratch[consumed..read]);
            } else {
                let mut input = std::mem::take(&mut self.input);
                input.extend_from_slice(&scratch[..read]);
                let consumed = self.answers(&input, now, &mut f)?;
                input.drain(..consumed);
                self.input = input;
            }
            // A read that did not fill its room has emptied the socket.
            if read < scratch.len() && !has_ended {
                return Ok(());
            }
        }
    }

    fn answers(
        &mut self,
        bytes: &[u8],
        now: Instant,
        f: &mut impl FnMut(&mut Self, &Answer<'_>, Instant),
    ) -> Result<usize, Loss> {
        let mut at = 0;
        loop {
            let rest = &bytes[at..];
            let answer = match self.header.cut(rest) {
                Some(answer) => answer,
                None => match self.codec.decode(rest) {
                    Ok(Some(answer)) => {
                        self.header.learn(rest, &answer);
                        answer
                    }
                    Ok(None) => return Ok(at),
                    Err(error) => return Err((Fault::Garbage, format!("an answer that is none: {error:#}"))),
                },
            };
            at += answer.consumed;
            f(self, &answer, now);
        }
    }
}

/// What the header of an answer with success looks like on this connection: one that looks the same need not be parsed.
#[derive(Debug, Default)]
struct Header {
    /// The whole header; empty as long as none is known.
    bytes: Vec<u8>,
    opaque_at: usize,
}

impl Header {
    /// Cuts a whole answer with such a header from the start of `bytes`.
    fn cut<'a>(&self, bytes: &'a [u8]) -> Option<Answer<'a>> {
        let (lengths, rest) = bytes.split_first_chunk::<8>()?;
        let &[a, b, c, d, e, f, g, h] = lengths;
        let rest_bytes = (u32::from_be_bytes([a, b, c, d]) as usize).checked_sub(4)?;
        // The type byte is 0 for JSON, and the length word is never 0.
        let header_bytes = u32::from_be_bytes([e, f, g, h]) as usize;
        if header_bytes != self.bytes.len() || header_bytes == 0 {
            return None;
        }
        let (header, body) = rest.get(..rest_bytes)?.split_at_checked(header_bytes)?;
        let (before, after) = (self.opaque_at, self.opaque_at + OPAQUE_DIGITS);
        if header[..before] != self.bytes[..before] || header[after..] != self.bytes[after..] {
            return None;
        }
        let opaque = header[before..after]
            .iter()
            .try_fold(0_i64, |number, digit| digit.is_ascii_digit().then(|| number * 10 + i64::from(digit - b'0')));
        Some(Answer { code: 0, opaque: i32::try_from(opaque?).ok()?, body, consumed: 8 + rest_bytes })
    }

    /// Remembers the header of `answer`, at the start of `frame`, if none is known.
    fn learn(&mut self, frame: &[u8], answer: &Answer<'_>) {
        if !self.bytes.is_empty() || answer.code != 0 || frame[4] != 0 {
            return;
        }
        let header = &frame[8..answer.consumed - answer.body.len()];
        let opaque_at = memmem::find(header, OPAQUE_KEY).map(|key| key + OPAQUE_KEY.len());
        let digits = opaque_at.and_then(|at| header.get(at..at + OPAQUE_DIGITS));
        if let (Some(opaque_at), Some(digits)) = (opaque_at, digits)
            && digits == answer.opaque.to_string().as_bytes()
        {
            *self = Self { bytes: header.into(), opaque_at };
        }
    }
}

#[cfg(test)]
mod tests {
    use server::{
        limits::Limits,
        remoting::{Encoder, ResponseCode, ResponseHeader, SerializeType},
    };

    use super::*;

    fn answer(serialize_type: SerializeType, code: ResponseCode, opaque: i32) -> Vec<u8> {
        let encoder = Encoder::new(serialize_type, &Limits::default());
        let mut out = Vec::new();
        let mark = encoder.begin(&mut out, &ResponseHeader::new(code, opaque));
        out.extend_from_slice(b"body");
        encoder.finish(&mut out, mark);
        out
    }

    #[test]
    fn a_known_header_is_read_as_a_parsed_one() {
        let mut header = Header::default();
        let mut learn = |bytes: &[u8]| {
            let before = header.cut(bytes).is_some();
            header.learn(bytes, &Codec::new().decode(bytes).unwrap().unwrap());
            before
        };
        // Neither failures, nor binary headers, nor opaques of other lengths are remembered.
        assert!(!learn(&answer(SerializeType::Json, ResponseCode::TopicNotExist, 1_000_000_000)));
        assert!(!learn(&answer(SerializeType::RocketMq, ResponseCode::Success, 1_000_000_000)));
        assert!(!learn(&answer(SerializeType::Json, ResponseCode::Success, 7)));
        assert!(!learn(&answer(SerializeType::Json, ResponseCode::Success, 1_000_000_000)));
        let bytes = answer(SerializeType::Json, ResponseCode::Success, 1_234_567_890);
        let fast = header.cut(&bytes).unwrap();
        assert_eq!((fast.code, fast.opaque, fast.body), (0, 1_234_567_890, &b"body"[..]));
        assert_eq!(fast.consumed, bytes.len());
        assert!((0..bytes.len()).all(|end| header.cut(&bytes[..end]).is_none()));
        assert!(header.cut(&answer(SerializeType::Json, ResponseCode::TopicNotExist, 1_000_000_000)).is_none());
        let text = String::from_utf8(bytes).unwrap();
        assert!(header.cut(text.replace("1234567890", "12345678x0").as_bytes()).is_none());
        assert!(header.cut(text.replace("1234567890", "9234567890").as_bytes()).is_none());
    }
}
