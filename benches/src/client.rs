//! The client's side of the remoting protocol: requests out, answers in.

use std::{
    io::{self, ErrorKind, Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use anyhow::{Context as _, ensure};
use bytes::{Buf as _, BytesMut};
use server::{
    limits::Limits,
    remoting::{Decoded, Encoder, FrameDecoder, Request, RequestCode, RequestHeader, SerializeType},
};

/// How long one answer may take: a JVM that collects its garbage needs seconds.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// Room for one read.
const READ_BYTES: usize = 256 << 10;

/// A request that can be sent any number of times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query {
    /// What is asked for.
    pub code: RequestCode,
    /// The arguments.
    pub fields: Vec<(&'static str, String)>,
    /// The body; empty for none.
    pub body: Vec<u8>,
}

impl Query {
    /// A request without body.
    pub fn new(code: RequestCode, fields: &[(&'static str, &str)]) -> Self {
        let fields = fields.iter().map(|&(key, value)| (key, value.to_owned())).collect();
        Self { code, fields, body: Vec::new() }
    }

    /// Asks for the route of a topic, as a Java client does.
    pub fn route(topic: &str) -> Self {
        Self::new(RequestCode::GetRouteInfoByTopic, &[("topic", topic)])
    }
}

/// Writes requests and reads answers, without I/O.
#[derive(Debug)]
pub struct Codec {
    encoder: Encoder,
    decoder: FrameDecoder,
    limits: Limits,
}

/// An answer, as slices of the caller's buffer.
#[derive(Clone, Copy, Debug)]
pub struct Answer<'a> {
    /// How the request ended; 0 is success.
    pub code: i32,
    /// The request's opaque.
    pub opaque: i32,
    /// The body; empty for none.
    pub body: &'a [u8],
    /// How many bytes of the buffer the frame takes.
    pub consumed: usize,
}

impl Default for Codec {
    fn default() -> Self {
        Self::new()
    }
}

impl Codec {
    /// A codec for a new connection. Headers are JSON, the form of every official client.
    pub fn new() -> Self {
        Self::of(SerializeType::Json)
    }

    /// As [`new`](Self::new), with headers of this form.
    pub fn of(kind: SerializeType) -> Self {
        // A list of all topics is longer than any request may be.
        let limits = Limits { frame_bytes_max: 1 << 30, ..Limits::default() };
        Self { encoder: Encoder::new(kind, &limits), decoder: FrameDecoder::new(), limits }
    }

    /// Appends a request to `out`.
    ///
    /// # Panics
    /// When the query has more than 16 fields; no request has.
    pub fn encode(&self, out: &mut Vec<u8>, query: &Query, opaque: i32) {
        let mut fields = [("", ""); 16];
        let Some(fields) = fields.get_mut(..query.fields.len()) else {
            panic!("{} fields are more than any request has", query.fields.len());
        };
        for (field, (key, value)) in fields.iter_mut().zip(&query.fields) {
            *field = (key, value);
        }
        let ext = (!fields.is_empty()).then_some(&*fields);
        let header = RequestHeader { code: query.code.to_wire(), flag: 0, opaque, ext };
        let mark = self.encoder.begin_request(out, &header);
        out.extend_from_slice(&query.body);
        self.encoder.finish(out, mark);
    }

    /// Reads the answer at the start of `buffer`; `None` when it is not whole.
    ///
    /// # Errors
    /// When the bytes are no answer.
    pub fn decode<'a>(&mut self, buffer: &'a [u8]) -> anyhow::Result<Option<Answer<'a>>> {
        let frame = match self.decoder.decode(buffer, &self.limits)? {
            Decoded::Frame(frame) => frame,
            Decoded::Incomplete { .. } => return Ok(None),
        };
        let header = Request::decode(&frame, &self.limits)?;
        ensure!(header.is_response(), "the server asks: code {}", header.code);
        let body = frame.body.unwrap_or_default();
        Ok(Some(Answer { code: header.code, opaque: header.opaque, body, consumed: frame.consumed }))
    }
}

/// A connection that waits for each answer.
#[derive(Debug)]
pub struct Client {
    stream: TcpStream,
    codec: Codec,
    input: BytesMut,
    output: Vec<u8>,
    opaque: i32,
}

impl Client {
    /// Connects.
    ///
    /// # Errors
    /// When nobody listens.
    pub fn connect(addr: SocketAddr) -> anyhow::Result<Self> {
        Self::connect_for(addr, ANSWER_TIMEOUT)
    }

    /// Connects, for answers that come in so much time.
    ///
    /// # Errors
    /// When nobody listens, or the time is zero.
    pub fn connect_for(addr: SocketAddr, answer_timeout: Duration) -> anyhow::Result<Self> {
        let stream = TcpStream::connect_timeout(&addr, Duration::from_secs(5))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(answer_timeout))?;
        stream.set_write_timeout(Some(answer_timeout))?;
        Ok(Self { stream, codec: Codec::new(), input: BytesMut::new(), output: Vec::new(), opaque: 0 })
    }

    /// Sends a request and waits for its answer: the code and the body.
    ///
    /// # Errors
    /// When the connection is lost, or nothing comes in time.
    pub fn call(&mut self, query: &Query) -> anyhow::Result<(i32, Vec<u8>)> {
        self.opaque = self.opaque.wrapping_add(1);
        self.output.clear();
        self.codec.encode(&mut self.output, query, self.opaque);
        self.stream.write_all(&self.output)?;
        loop {
            if let Some(answer) = self.codec.decode(&self.input)? {
                ensure!(answer.opaque == self.opaque, "answer to {} instead of {}", answer.opaque, self.opaque);
                let result = (answer.code, answer.body.to_vec());
                let consumed = answer.consumed;
                self.input.advance(consumed);
                return Ok(result);
            }
            let held = self.input.len();
            self.input.resize(held + READ_BYTES, 0);
            let read = self.stream.read(&mut self.input[held..]);
            self.input.truncate(held + *read.as_ref().unwrap_or(&0));
            if read.with_context(|| format!("no answer to {:?}", query.code))? == 0 {
                let words = format!("the server has closed the connection instead of answering {:?}", query.code);
                return Err(io::Error::new(ErrorKind::UnexpectedEof, words).into());
            }
        }
    }

    /// Gives the memory of its buffers back: whoever has thousands of silent connections wants it.
    pub fn release_buffers(&mut self) {
        self.input = BytesMut::new();
        self.output = Vec::new();
    }

    /// As [`call`](Self::call), for a request that must succeed: the body.
    ///
    /// # Errors
    /// Also when the code is not 0.
    pub fn ask(&mut self, query: &Query) -> anyhow::Result<Vec<u8>> {
        let (code, body) = self.call(query)?;
        ensure!(code == 0, "code {code} in answer to {:?} {:?}", query.code, query.fields);
        Ok(body)
    }
}

/// Fills `out` with the last decimal digits of a number.
pub(crate) fn write_digits(out: &mut [u8], mut value: u32) {
    for digit in out.iter_mut().rev() {
        *digit = b'0' + (value % 10) as u8;
        value /= 10;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_that_of_a_java_client() {
        let mut out = Vec::new();
        Codec::new().encode(&mut out, &Query::route("TBW102"), 3);
        let header = br#"{"code":105,"extFields":{"topic":"TBW102"},"flag":0,"language":"JAVA","opaque":3,"serializeTypeCurrentRPC":"JSON","version":513}"#;
        assert_eq!(&out[..8], [0, 0, 0, 132, 0, 0, 0, 128]);
        assert_eq!(&out[8..], header);
    }

    #[test]
    fn answers_are_cut_and_requests_are_not_taken_for_answers() {
        let mut bytes = Vec::new();
        let encoder = Encoder::new(SerializeType::Json, &Limits::default());
        let mark = encoder.begin_success(&mut bytes, 7);
        bytes.extend_from_slice(b"body");
        encoder.finish(&mut bytes, mark);
        let mut codec = Codec::new();
        assert!(codec.decode(&bytes[..bytes.len() - 1]).unwrap().is_none());
        let answer = codec.decode(&bytes).unwrap().unwrap();
        assert_eq!((answer.code, answer.opaque, answer.body, answer.consumed), (0, 7, &b"body"[..], bytes.len()));

        let mut request = Vec::new();
        codec.encode(&mut request, &Query::route("t"), 1);
        assert!(codec.decode(&request).is_err());
    }
}
