//! Frames that this server sends: answers, and its own requests.

use registry_core::json;

use super::codes::{FLAG_RESPONSE, Language, ResponseCode, SerializeType, VERSION};
use crate::limits::Limits;

/// Appends frames to what a connection is about to send.
///
/// A frame is begun, its body appended to the same buffer by the caller, and finished. Nothing is allocated but the
/// growth of that buffer.
///
/// ```
/// use server::limits::Limits;
/// use server::remoting::{Encoder, ResponseCode, ResponseHeader, SerializeType};
///
/// let encoder = Encoder::new(SerializeType::Json, &Limits::default());
/// let mut out = Vec::new();
/// let mark = encoder.begin(&mut out, &ResponseHeader::new(ResponseCode::Success, 7));
/// out.extend_from_slice(b"the body");
/// encoder.finish(&mut out, mark);
/// assert_eq!(out[..8], [0, 0, 0, 107, 0, 0, 0, 95]);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Encoder {
    serialize_type: SerializeType,
    answer_bytes_max: usize,
}

/// The header of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResponseHeader<'a> {
    /// How the request ended.
    pub code: ResponseCode,
    /// The request's opaque.
    pub opaque: i32,
    /// Text for people. JSON tells an empty one from none.
    pub remark: Option<&'a str>,
    /// The fields of the answer's header class: `None` if it has no such class, which JSON tells from a class whose
    /// fields are all absent. Written in the given order.
    pub ext: Option<&'a [(&'a str, &'a str)]>,
}

impl ResponseHeader<'_> {
    /// A header without remark and fields.
    pub fn new(code: ResponseCode, opaque: i32) -> Self {
        Self { code, opaque, remark: None, ext: None }
    }
}

/// The header of a request that this server sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestHeader<'a> {
    /// What is asked for. The binary encoding keeps the low 16 bits.
    pub code: i32,
    /// [`FLAG_ONEWAY`](super::codes::FLAG_ONEWAY) or 0.
    pub flag: i32,
    /// What the answer shall repeat.
    pub opaque: i32,
    /// The arguments, written in the given order.
    pub ext: Option<&'a [(&'a str, &'a str)]>,
}

/// A frame whose body is being written. Give it to [`Encoder::finish`] once the body is there.
#[derive(Debug)]
#[must_use = "the frame has no length yet"]
pub struct FrameMark {
    /// Where the frame starts in the buffer.
    start: usize,
    opaque: i32,
    flag: i32,
    /// Whether the header's length fits its 24 bits.
    header_fits: bool,
}

impl Encoder {
    /// An encoder whose headers are all of one type: it is a setting of the server, whatever type requests have.
    pub fn new(serialize_type: SerializeType, limits: &Limits) -> Self {
        Self { serialize_type, answer_bytes_max: limits.answer_bytes_max.min(FRAME_BYTES_MAX) }
    }

    /// Starts an answer: appends everything up to its body.
    pub fn begin(&self, out: &mut Vec<u8>, header: &ResponseHeader<'_>) -> FrameMark {
        let &ResponseHeader { code, opaque, remark, ext } = header;
        self.begin_frame(out, &Header { code: code.to_wire(), flag: FLAG_RESPONSE, opaque, remark, ext })
    }

    /// Starts the answer of a request that succeeded, without fields: the answer of every route query.
    ///
    /// Appends the same bytes as [`begin`](Self::begin), in JSON from a template.
    pub fn begin_success(&self, out: &mut Vec<u8>, opaque: i32) -> FrameMark {
        if self.serialize_type != SerializeType::Json {
            return self.begin(out, &ResponseHeader::new(ResponseCode::Success, opaque));
        }
        const { assert!(VERSION == 513, "the template says so too") };
        let start = out.len();
        out.extend_from_slice(b"\0\0\0\0\0\0\0\0{\"code\":0,\"flag\":1,\"language\":\"JAVA\",\"opaque\":");
        json::write_int(out, i64::from(opaque));
        out.extend_from_slice(b",\"serializeTypeCurrentRPC\":\"JSON\",\"version\":513}");
        self.end_header(out, start, opaque, FLAG_RESPONSE)
    }

    /// Starts a request of our own.
    pub fn begin_request(&self, out: &mut Vec<u8>, header: &RequestHeader<'_>) -> FrameMark {
        let &RequestHeader { code, flag, opaque, ext } = header;
        self.begin_frame(out, &Header { code, flag, opaque, remark: None, ext })
    }

    /// Ends a frame: everything appended since it was begun is its body.
    ///
    /// A frame over `answer_bytes_max`, or with a header over 16,777,215 bytes, is taken back. If it was an answer,
    /// `SYSTEM_ERROR` with a remark takes its place. Says whether the frame went out as it was written.
    pub fn finish(&self, out: &mut Vec<u8>, mark: FrameMark) -> bool {
        self.finish_before(out, mark, 0)
    }

    /// Ends a frame as [`finish`](Self::finish) does, but for `body_bytes` more that the caller sends behind it from
    /// elsewhere: so a large body that many answers share is in no buffer of its own.
    ///
    /// Says whether the body is to follow. It must not where the frame was taken back.
    ///
    /// ```
    /// use server::limits::Limits;
    /// use server::remoting::{Encoder, SerializeType};
    ///
    /// let encoder = Encoder::new(SerializeType::Json, &Limits::default());
    /// let mut head = Vec::new();
    /// let mark = encoder.begin_success(&mut head, 7);
    /// assert!(encoder.finish_before(&mut head, mark, b"the body".len()));
    /// assert_eq!(head[..8], [0, 0, 0, 107, 0, 0, 0, 95]);
    /// assert_eq!(head.len(), 8 + 95);
    /// ```
    #[must_use = "the frame lacks the rest of its body"]
    pub fn finish_before(&self, out: &mut Vec<u8>, mark: FrameMark, body_bytes: usize) -> bool {
        let length = out.len().saturating_sub(mark.start).saturating_add(body_bytes);
        if mark.header_fits && length <= self.answer_bytes_max {
            patch(out, mark.start, length.saturating_sub(LENGTH_BYTES));
            return true;
        }
        out.truncate(mark.start);
        if mark.flag & FLAG_RESPONSE != 0 {
            let remark = Some("the answer exceeds answer_bytes_max, or its header 16,777,215 bytes");
            let header = ResponseHeader { remark, ..ResponseHeader::new(ResponseCode::SystemError, mark.opaque) };
            let mark = self.begin(out, &header);
            let length = out.len().saturating_sub(mark.start);
            patch(out, mark.start, length.saturating_sub(LENGTH_BYTES));
        }
        false
    }

    /// Appends a whole answer that has no body.
    pub fn respond(&self, out: &mut Vec<u8>, header: &ResponseHeader<'_>) {
        let mark = self.begin(out, header);
        self.finish(out, mark);
    }

    fn begin_frame(&self, out: &mut Vec<u8>, header: &Header<'_>) -> FrameMark {
        let start = out.len();
        out.extend_from_slice(&[0; FRAME_FIXED_BYTES]);
        match self.serialize_type {
            SerializeType::Json => header.write_json(out),
            SerializeType::RocketMq => header.write_binary(out),
        }
        self.end_header(out, start, header.opaque, header.flag)
    }

    fn end_header(&self, out: &mut [u8], start: usize, opaque: i32, flag: i32) -> FrameMark {
        let length = out.len().saturating_sub(start.saturating_add(FRAME_FIXED_BYTES));
        patch(out, start.saturating_add(LENGTH_BYTES), length);
        // The length is 24 bits long and shares its word with the type.
        if let Some(type_byte) = out.get_mut(start.saturating_add(LENGTH_BYTES)) {
            *type_byte = self.serialize_type.to_wire();
        }
        FrameMark { start, opaque, flag, header_fits: length <= HEADER_BYTES_MAX }
    }
}

/// What the headers of both directions have in common.
struct Header<'a> {
    code: i32,
    flag: i32,
    opaque: i32,
    remark: Option<&'a str>,
    ext: Option<&'a [(&'a str, &'a str)]>,
}

impl Header<'_> {
    /// Keys in alphabetical order, as the original writes them.
    fn write_json(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"code\":");
        json::write_int(out, i64::from(self.code));
        if let Some(ext) = self.ext {
            out.extend_from_slice(b",\"extFields\":{");
            for (index, (key, value)) in ext.iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                json::write_string(out, key);
                out.push(b':');
                json::write_string(out, value);
            }
            out.push(b'}');
        }
        out.extend_from_slice(b",\"flag\":");
        json::write_int(out, i64::from(self.flag));
        out.extend_from_slice(b",\"language\":\"JAVA\",\"opaque\":");
        json::write_int(out, i64::from(self.opaque));
        if let Some(remark) = self.remark {
            out.extend_from_slice(b",\"remark\":");
            json::write_string(out, remark);
        }
        out.extend_from_slice(b",\"serializeTypeCurrentRPC\":\"JSON\",\"version\":");
        json::write_int(out, i64::from(VERSION));
        out.push(b'}');
    }

    /// Numbers of 16 bits are cut, as the original does; a key that is too long for its length word is left out.
    fn write_binary(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&low_16(self.code));
        out.push(Language::Java.to_wire());
        out.extend_from_slice(&low_16(VERSION));
        out.extend_from_slice(&self.opaque.to_be_bytes());
        out.extend_from_slice(&self.flag.to_be_bytes());
        write_block(out, self.remark.unwrap_or_default());
        let ext_start = out.len();
        out.extend_from_slice(&[0; LENGTH_BYTES]);
        for (key, value) in self.ext.unwrap_or_default() {
            let Ok(key_length) = i16::try_from(key.len()) else { continue };
            out.extend_from_slice(&key_length.to_be_bytes());
            out.extend_from_slice(key.as_bytes());
            write_block(out, value);
        }
        let ext_length = out.len().saturating_sub(ext_start).saturating_sub(LENGTH_BYTES);
        patch(out, ext_start, ext_length);
    }
}

fn low_16(number: i32) -> [u8; 2] {
    let [_, _, high, low] = number.to_be_bytes();
    [high, low]
}

/// A length word and so many bytes.
fn write_block(out: &mut Vec<u8>, text: &str) {
    let start = out.len();
    out.extend_from_slice(&[0; LENGTH_BYTES]);
    out.extend_from_slice(text.as_bytes());
    patch(out, start, text.len());
}

/// Puts a length word where room was left for it. One that does not fit is saturated: [`Encoder::finish`] drops its frame.
fn patch(out: &mut [u8], at: usize, length: usize) {
    if let Some(word) = out.get_mut(at..).and_then(|rest| rest.first_chunk_mut::<LENGTH_BYTES>()) {
        *word = u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes();
    }
}

const LENGTH_BYTES: usize = 4;

/// The length word, the type byte and the length of the header.
const FRAME_FIXED_BYTES: usize = 8;

/// What a header length of 24 bits can say.
const HEADER_BYTES_MAX: usize = 0xff_ffff;

/// What a length word can say without a sign.
const FRAME_BYTES_MAX: usize = 0x7fff_ffff;

#[cfg(test)]
mod tests {
    use super::*;

    fn encoder(serialize_type: SerializeType) -> Encoder {
        Encoder::new(serialize_type, &Limits::default())
    }

    fn respond(serialize_type: SerializeType, header: &ResponseHeader<'_>) -> Vec<u8> {
        let mut out = Vec::new();
        encoder(serialize_type).respond(&mut out, header);
        out
    }

    fn json_text(header: &ResponseHeader<'_>) -> String {
        let out = respond(SerializeType::Json, header);
        let length = u32::try_from(out.len() - 8).unwrap();
        assert_eq!(out[..4], (length + 4).to_be_bytes());
        assert_eq!(out[4..8], length.to_be_bytes());
        String::from_utf8(out[8..].to_vec()).unwrap()
    }

    #[test]
    fn json_keys_are_alphabetical_and_absent_ones_left_out() {
        let header = ResponseHeader::new(ResponseCode::Success, 7);
        assert_eq!(
            json_text(&header),
            r#"{"code":0,"flag":1,"language":"JAVA","opaque":7,"serializeTypeCurrentRPC":"JSON","version":513}"#
        );
        let header = ResponseHeader {
            remark: Some("a \"b\"\n"),
            ext: Some(&[("haServerAddr", "127.0.0.1:10912"), ("masterAddr", "é\u{1}")]),
            ..ResponseHeader::new(ResponseCode::SystemError, -1)
        };
        assert_eq!(
            json_text(&header),
            concat!(
                r#"{"code":1,"extFields":{"haServerAddr":"127.0.0.1:10912","masterAddr":"é\u0001"},"flag":1,"#,
                r#""language":"JAVA","opaque":-1,"remark":"a \"b\"\n","serializeTypeCurrentRPC":"JSON","version":513}"#
            )
        );
    }

    #[test]
    fn json_tells_empty_from_absent() {
        let header =
            ResponseHeader { remark: Some(""), ext: Some(&[]), ..ResponseHeader::new(ResponseCode::Success, 7) };
        assert!(json_text(&header).starts_with(r#"{"code":0,"extFields":{},"flag":1,"#));
        assert!(json_text(&header).contains(r#","remark":"","#));
    }

    #[test]
    fn the_template_equals_the_long_way() {
        for opaque in [0, 1, 9, 10, 7_654_321, i32::MAX, -1, -10, i32::MIN] {
            for serialize_type in [SerializeType::Json, SerializeType::RocketMq] {
                let mut out = b"before".to_vec();
                let encoder = encoder(serialize_type);
                let mark = encoder.begin_success(&mut out, opaque);
                assert!(encoder.finish(&mut out, mark));
                assert_eq!(out[6..], respond(serialize_type, &ResponseHeader::new(ResponseCode::Success, opaque)));
            }
        }
    }

    #[test]
    fn binary_as_the_original_writes_it() {
        let header = ResponseHeader {
            ext: Some(&[("haServerAddr", "127.0.0.1:10912"), ("masterAddr", "127.0.0.1:10911")]),
            ..ResponseHeader::new(ResponseCode::Success, 2)
        };
        let expected = [
            b"\0\0\0\x59\x01\0\0\x55\0\0\0\x02\x01\0\0\0\x02\0\0\0\x01\0\0\0\0\0\0\0\x40".as_slice(),
            b"\0\x0chaServerAddr\0\0\0\x0f127.0.0.1:10912\0\x0amasterAddr\0\0\0\x0f127.0.0.1:10911",
        ];
        assert_eq!(respond(SerializeType::RocketMq, &header), expected.concat());
        let empty = ResponseHeader { ext: Some(&[]), ..ResponseHeader::new(ResponseCode::Success, 1) };
        let expected = b"\0\0\0\x19\x01\0\0\x15\0\0\0\x02\x01\0\0\0\x01\0\0\0\x01\0\0\0\0\0\0\0\0";
        assert_eq!(respond(SerializeType::RocketMq, &empty), expected);
    }

    #[test]
    fn oneway_requests_as_the_original_writes_them() {
        let ext = [("haBrokerAddr", "127.0.0.1:30922"), ("minBrokerAddr", "127.0.0.1:30921"), ("minBrokerId", "1")];
        let header = RequestHeader { code: 905, flag: 2, opaque: 13, ext: Some(&ext) };
        let mut out = Vec::new();
        let encoder = encoder(SerializeType::Json);
        let mark = encoder.begin_request(&mut out, &header);
        assert!(encoder.finish(&mut out, mark));
        let expected = concat!(
            "\0\0\0\u{c9}\0\0\0\u{c5}",
            r#"{"code":905,"extFields":{"haBrokerAddr":"127.0.0.1:30922","minBrokerAddr":"127.0.0.1:30921","#,
            r#""minBrokerId":"1"},"flag":2,"language":"JAVA","opaque":13,"serializeTypeCurrentRPC":"JSON","version":513}"#
        );
        let expected: Vec<u8> = expected.chars().map(|byte| u8::try_from(u32::from(byte)).unwrap()).collect();
        assert_eq!(out, expected);
    }

    #[test]
    fn a_body_that_follows_from_elsewhere_is_counted() {
        for serialize_type in [SerializeType::Json, SerializeType::RocketMq] {
            let encoder = encoder(serialize_type);
            let body = vec![b'x'; 70_000];
            let mut whole = b"before".to_vec();
            let mark = encoder.begin_success(&mut whole, 7);
            whole.extend_from_slice(&body);
            assert!(encoder.finish(&mut whole, mark));

            let mut head = b"before".to_vec();
            let mark = encoder.begin_success(&mut head, 7);
            assert!(encoder.finish_before(&mut head, mark, body.len()));
            assert_eq!([head, body].concat(), whole);
        }
    }

    #[test]
    fn a_body_over_the_limit_does_not_follow() {
        let limits = Limits { answer_bytes_max: 200, ..Limits::default() };
        let encoder = Encoder::new(SerializeType::Json, &limits);
        for (body_bytes, follows) in [(97, true), (98, false), (usize::MAX, false)] {
            let mut out = Vec::new();
            let mark = encoder.begin_success(&mut out, 7);
            assert_eq!(encoder.finish_before(&mut out, mark, body_bytes), follows, "{body_bytes}");
            assert_eq!(String::from_utf8_lossy(&out).contains("answer_bytes_max"), !follows, "{body_bytes}");
        }
    }

    #[test]
    fn answers_over_the_limit_become_errors() {
        let limits = Limits { answer_bytes_max: 200, ..Limits::default() };
        let encoder = Encoder::new(SerializeType::Json, &limits);
        let mut out = b"before".to_vec();
        let mark = encoder.begin_success(&mut out, 7);
        out.resize(out.len() + 97, b'x');
        assert!(encoder.finish(&mut out, mark), "200 bytes are allowed");
        assert_eq!(out.len(), 206);
        let mark = encoder.begin_success(&mut out, 8);
        out.resize(out.len() + 98, b'x');
        assert!(!encoder.finish(&mut out, mark));
        let text = String::from_utf8_lossy(&out[206 + 8..]);
        assert!(text.starts_with(r#"{"code":1,"flag":1,"language":"JAVA","opaque":8,"remark":"the answer exceeds"#));
        assert_eq!(out[206..210], u32::try_from(out.len() - 210).unwrap().to_be_bytes());
    }

    #[test]
    fn headers_over_24_bits_become_errors() {
        let remark = "\u{1}".repeat(3_000_000);
        for serialize_type in [SerializeType::Json, SerializeType::RocketMq] {
            let mut out = Vec::new();
            let long = if serialize_type == SerializeType::Json { remark.clone() } else { remark.repeat(6) };
            let header = ResponseHeader { remark: Some(&long), ..ResponseHeader::new(ResponseCode::TopicNotExist, 7) };
            let encoder = encoder(serialize_type);
            let mark = encoder.begin(&mut out, &header);
            assert!(!encoder.finish(&mut out, mark));
            assert!(out.len() < 300);
            let request = RequestHeader { code: 905, flag: 2, opaque: 1, ext: Some(&[("k", &long)]) };
            let mark = encoder.begin_request(&mut out, &request);
            let before = mark.start;
            assert!(!encoder.finish(&mut out, mark));
            assert_eq!(out.len(), before, "a request has nobody to tell");
        }
    }
}
