//! Frames, written and read by other code than the server's, and a small blocking client.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

/// How long an answer may take on a busy machine.
pub(crate) const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const MAX_FRAME: usize = 16 << 20;
const LANGUAGES: [&str; 14] = [
    "JAVA", "CPP", "DOTNET", "PYTHON", "DELPHI", "ERLANG", "RUBY", "OTHER", "HTTP", "GO", "PHP", "OMS", "RUST",
    "NODE_JS",
];

/// A request to be sent.
#[derive(Clone, Debug, Default)]
pub(crate) struct Request {
    pub(crate) code: i32,
    pub(crate) version: i32,
    pub(crate) opaque: i32,
    pub(crate) flag: i32,
    pub(crate) fields: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    /// The header is binary (`ROCKETMQ`), not JSON.
    pub(crate) binary: bool,
}

impl Request {
    pub(crate) fn with(mut self, key: &str, value: &str) -> Self {
        self.fields.push((key.into(), value.into()));
        self
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let header = if self.binary { self.binary_header() } else { self.json_header() };
        raw_frame(self.binary.into(), &header, &self.body)
    }

    fn json_header(&self) -> Vec<u8> {
        let fields: Map<String, Value> = self.fields.iter().map(|(k, v)| (k.clone(), v.clone().into())).collect();
        let mut header = json!({
            "code": self.code, "flag": self.flag, "language": "JAVA", "opaque": self.opaque,
            "serializeTypeCurrentRPC": "JSON", "version": self.version,
        });
        if !fields.is_empty() {
            header["extFields"] = Value::Object(fields);
        }
        header.to_string().into_bytes()
    }

    fn binary_header(&self) -> Vec<u8> {
        let short = |value: i32| u16::try_from(value & 0xFFFF).expect("masked").to_be_bytes();
        let mut fields = Vec::new();
        for (key, value) in &self.fields {
            fields.extend(u16::try_from(key.len()).expect("a short key").to_be_bytes());
            fields.extend(key.as_bytes());
            fields.extend(be32(value.len()));
            fields.extend(value.as_bytes());
        }
        let mut header = Vec::new();
        header.extend(short(self.code));
        header.push(0);
        header.extend(short(self.version));
        header.extend(self.opaque.to_be_bytes());
        header.extend(self.flag.to_be_bytes());
        header.extend(be32(0));
        header.extend(be32(fields.len()));
        header.extend(fields);
        header
    }
}

/// A frame of these parts, whatever they are. The lengths are right.
pub(crate) fn raw_frame(serialize_type: u8, header: &[u8], body: &[u8]) -> Vec<u8> {
    let mut frame = Vec::with_capacity(8 + header.len() + body.len());
    frame.extend(be32(4 + header.len() + body.len()));
    frame.extend(be32(header.len() | usize::from(serialize_type) << 24));
    frame.extend(header);
    frame.extend(body);
    frame
}

/// A frame that was received.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    /// The whole frame, the length word included.
    pub(crate) bytes: Vec<u8>,
    pub(crate) binary: bool,
    /// Its fields as a map: those that there are.
    pub(crate) header: Map<String, Value>,
    /// `None`: no bytes after the header.
    pub(crate) body: Option<Vec<u8>>,
}

impl Frame {
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, String> {
        let mut at = Cursor(bytes);
        let length = at.u32()?;
        if length != at.0.len() {
            return Err(format!("the length word says {length}, {} bytes follow", at.0.len()));
        }
        let word = at.u32()?;
        let header = at.take(word & 0xFF_FFFF)?;
        let header = match word >> 24 {
            0 => match serde_json::from_slice(header) {
                Ok(Value::Object(header)) => header,
                other => return Err(format!("header {:?}: {other:?}", String::from_utf8_lossy(header))),
            },
            1 => binary_header(header)?,
            other => return Err(format!("serialize type {other}")),
        };
        let body = (!at.0.is_empty()).then(|| at.0.to_vec());
        Ok(Self { bytes: bytes.to_vec(), binary: word >> 24 == 1, header, body })
    }

    /// A number of the header; 0 when it is not there.
    pub(crate) fn number(&self, key: &str) -> i64 {
        self.header.get(key).and_then(Value::as_i64).unwrap_or_default()
    }

    pub(crate) fn code(&self) -> i64 {
        self.number("code")
    }

    pub(crate) fn remark(&self) -> Option<&str> {
        self.header.get("remark").and_then(Value::as_str)
    }

    pub(crate) fn text(&self) -> String {
        self.body.as_deref().map(String::from_utf8_lossy).unwrap_or_default().into_owned()
    }

    /// The frame as a person reads it.
    pub(crate) fn show(&self) -> String {
        let kind = if self.binary { "binary " } else { "" };
        let header = Value::Object(self.header.clone());
        match &self.body {
            None => format!("{kind}{header}, no body"),
            Some(body) => format!("{kind}{header} -> {}", String::from_utf8_lossy(body)),
        }
    }
}

/// Reads any frame, or says what it is, for messages.
pub(crate) fn show(bytes: &[u8]) -> String {
    match Frame::parse(bytes) {
        Ok(frame) => frame.show(),
        Err(why) => format!("{} bytes that are no frame ({why}): {}", bytes.len(), hex(&bytes[..bytes.len().min(200)])),
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(crate) fn unhex(text: &str) -> Vec<u8> {
    let nibble = |c: u8| char::from(c).to_digit(16).expect("a hexadecimal digit");
    let byte = |pair: &[u8]| u8::try_from(nibble(pair[0]) << 4 | nibble(pair[1])).expect("two digits");
    text.as_bytes().chunks_exact(2).map(byte).collect()
}

/// What came next on a connection.
#[derive(Debug)]
pub(crate) enum Received {
    Frame(Vec<u8>),
    /// The peer closed; so many bytes of an unfinished frame came before.
    Closed(usize),
    Silence,
}

/// A connection to a server.
#[derive(Debug)]
pub(crate) struct Client {
    stream: TcpStream,
    pending: Vec<u8>,
}

impl Client {
    pub(crate) fn connect(addr: SocketAddr) -> Self {
        let stream = TcpStream::connect_timeout(&addr, CONNECT_TIMEOUT).expect("connect to the name server");
        Self::new(stream)
    }

    /// Connects from this loopback address, as a peer of its own: sources are told apart by their addresses.
    pub(crate) fn connect_from(source: std::net::Ipv4Addr, addr: SocketAddr) -> Self {
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).expect("a socket");
        socket.bind(&SocketAddr::from((source, 0)).into()).expect("a loopback address");
        socket.connect_timeout(&addr.into(), CONNECT_TIMEOUT).expect("connect to the name server");
        Self::new(socket.into())
    }

    pub(crate) fn new(stream: TcpStream) -> Self {
        stream.set_nodelay(true).expect("TCP_NODELAY");
        Self { stream, pending: Vec::new() }
    }

    /// Writes. A peer that has closed is no error here: the next `receive` tells.
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes);
    }

    /// The next frame, waiting at most `timeout` for its end.
    pub(crate) fn receive(&mut self, timeout: Duration) -> Received {
        let deadline = Instant::now() + timeout;
        let mut chunk = [0; 64 << 10];
        loop {
            if let Some(frame) = self.next_pending() {
                return Received::Frame(frame);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Received::Silence;
            }
            self.stream.set_read_timeout(Some(left)).expect("read timeout");
            match self.stream.read(&mut chunk) {
                Ok(0) => return Received::Closed(self.pending.len()),
                Ok(n) => self.pending.extend(&chunk[..n]),
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Received::Closed(self.pending.len()),
            }
        }
    }

    /// Sends a request and waits for its answer. Panics when none comes: for requests that every server answers.
    pub(crate) fn call(&mut self, request: &Request) -> Frame {
        self.send(&request.encode());
        match self.receive(ANSWER_TIMEOUT) {
            Received::Frame(bytes) => Frame::parse(&bytes).expect("a frame"),
            other => panic!("no answer to {} {:?}: {other:?}", request.code, request.fields),
        }
    }

    /// Sends a request and says with which code it was answered.
    pub(crate) fn code(&mut self, request: &Request) -> i64 {
        self.call(request).code()
    }

    /// Whether the peer closes within `timeout`. Panics when a frame comes instead.
    pub(crate) fn is_closed_within(&mut self, timeout: Duration) -> bool {
        match self.receive(timeout) {
            Received::Closed(_) => true,
            Received::Silence => false,
            Received::Frame(bytes) => panic!("an answer instead of an end: {}", show(&bytes)),
        }
    }

    pub(crate) fn stream(&self) -> &TcpStream {
        &self.stream
    }

    fn next_pending(&mut self) -> Option<Vec<u8>> {
        let length = Cursor(&self.pending).u32().ok()? + 4;
        // A length that makes no sense is handed out, to be reported.
        if length > MAX_FRAME {
            return Some(std::mem::take(&mut self.pending));
        }
        (self.pending.len() >= length).then(|| self.pending.drain(..length).collect())
    }
}

fn binary_header(bytes: &[u8]) -> Result<Map<String, Value>, String> {
    let mut at = Cursor(bytes);
    let mut header = Map::new();
    header.insert("code".into(), at.i16()?.into());
    let language = usize::from(at.take(1)?[0]);
    header.insert("language".into(), LANGUAGES.get(language).copied().into());
    header.insert("version".into(), at.i16()?.into());
    header.insert("opaque".into(), at.i32()?.into());
    header.insert("flag".into(), at.i32()?.into());
    let remark = at.u32()?;
    if remark > 0 {
        header.insert("remark".into(), at.text(remark)?.into());
    }
    let length = at.u32()?;
    if length > 0 {
        let mut entries = Cursor(at.take(length)?);
        let mut fields = Map::new();
        while !entries.0.is_empty() {
            let key_length = entries.take(2)?;
            let key_length = usize::from(u16::from_be_bytes([key_length[0], key_length[1]]));
            let key = entries.text(key_length)?;
            let value_length = entries.u32()?;
            fields.insert(key, entries.text(value_length)?.into());
        }
        header.insert("extFields".into(), fields.into());
    }
    if at.0.is_empty() { Ok(header) } else { Err(format!("{} bytes after the header's last field", at.0.len())) }
}

/// The field map of a frame as plain strings.
pub(crate) fn fields(frame: &Frame) -> BTreeMap<String, String> {
    let Some(Value::Object(fields)) = frame.header.get("extFields") else { return BTreeMap::new() };
    fields.iter().map(|(key, value)| (key.clone(), value.as_str().unwrap_or_default().to_string())).collect()
}

struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    fn take(&mut self, n: usize) -> Result<&'a [u8], String> {
        let (head, tail) = self.0.split_at_checked(n).ok_or(format!("{n} bytes wanted, {} left", self.0.len()))?;
        self.0 = tail;
        Ok(head)
    }

    fn u32(&mut self) -> Result<usize, String> {
        let bytes = self.take(4)?.try_into().expect("four bytes");
        Ok(usize::try_from(u32::from_be_bytes(bytes)).expect("32 bits fit"))
    }

    fn i32(&mut self) -> Result<i32, String> {
        Ok(i32::from_be_bytes(self.take(4)?.try_into().expect("four bytes")))
    }

    fn i16(&mut self) -> Result<i16, String> {
        Ok(i16::from_be_bytes(self.take(2)?.try_into().expect("two bytes")))
    }

    fn text(&mut self, n: usize) -> Result<String, String> {
        String::from_utf8(self.take(n)?.to_vec()).map_err(|error| error.to_string())
    }
}

fn be32(value: usize) -> [u8; 4] {
    u32::try_from(value).expect("a small frame").to_be_bytes()
}
