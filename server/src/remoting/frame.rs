//! Frames: the length word, the type of the header, the header and the body.

use thiserror::Error;

use super::codes::SerializeType;
use super::proxy::{self, ProxyError, ProxyHeader};
use crate::limits::Limits;

/// Cuts the bytes of one connection into frames.
///
/// The caller keeps the received bytes, hands all that it has not consumed yet to [`decode`](Self::decode), and drops
/// as many as the answer says. How the bytes were split on their way makes no difference to what comes out.
#[derive(Clone, Debug, Default)]
pub struct FrameDecoder {
    stage: Stage,
}

/// What the start of a buffer holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decoded<'a> {
    /// A whole frame.
    Frame(Frame<'a>),
    /// Nothing whole yet: read more, drop nothing.
    Incomplete,
    /// A PROXY header. At most one, and before the first frame; whether its sender is trusted is for the caller.
    Proxy(ProxyHeader),
}

/// One frame, as slices of the caller's buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// How the header is written.
    pub serialize_type: SerializeType,
    /// The header, never empty. Read it with [`Request::decode`](super::Request::decode).
    pub header: &'a [u8],
    /// The body; `None` if it has no bytes.
    pub body: Option<&'a [u8]>,
    /// How many bytes of the buffer the frame takes.
    pub consumed: usize,
}

/// Why a connection cannot go on. Always the sender's fault; the original closes the connection for all of them.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum FrameError {
    /// A type byte that is neither JSON (0) nor ROCKETMQ (1).
    #[error("serialize type {0} is neither JSON (0) nor ROCKETMQ (1)")]
    BadSerializeType(u8),
    /// A header without bytes, or one that does not fit into its frame.
    #[error("header of {header} bytes in a frame with room for 1 to {room}")]
    HeaderOverrun {
        /// The claimed header length.
        header: usize,
        /// What the frame has for header and body together.
        room: usize,
    },
    /// A length word below zero.
    #[error("frame length {0} is negative")]
    Negative(i32),
    /// A malformed PROXY header.
    #[error(transparent)]
    Proxy(#[from] ProxyError),
    /// A TLS handshake; this server speaks plain text only.
    #[error("TLS is not supported")]
    Tls,
    /// A frame over the limit. Said as soon as its length word is there.
    #[error("frame of {length} bytes exceeds frame_bytes_max {max}")]
    TooLong {
        /// The frame's size, its length word included.
        length: usize,
        /// The limit.
        max: usize,
    },
    /// A length word too small for the header's length.
    #[error("frame length {0} is less than 4")]
    Truncated(i32),
}

impl FrameError {
    /// A short name for counters.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::BadSerializeType(_) => "bad_serialize_type",
            Self::HeaderOverrun { .. } => "header_overrun",
            Self::Negative(_) => "negative",
            Self::Proxy(_) => "bad_proxy",
            Self::Tls => "tls",
            Self::TooLong { .. } => "too_long",
            Self::Truncated(_) => "truncated",
        }
    }
}

impl FrameDecoder {
    /// A decoder for a new connection.
    pub fn new() -> Self {
        Self::default()
    }

    /// A decoder for a connection on which the first frame has begun.
    pub fn after_detection() -> Self {
        Self { stage: Stage::Frames }
    }

    /// Reads what stands at the start of `buffer`: all bytes received and not consumed.
    ///
    /// Costs O(1), and at most `proxy_v1_bytes_max` for the line of a PROXY header; never allocates, so a claimed length
    /// costs nothing. An error is final: the connection cannot be read any further.
    ///
    /// # Errors
    ///
    /// [`FrameError`], when the start cannot become a frame. A bad length word is told before the rest of its frame
    /// is there, everything else once the frame is whole.
    pub fn decode<'a>(&mut self, buffer: &'a [u8], limits: &Limits) -> Result<Decoded<'a>, FrameError> {
        if self.stage == Stage::Proxy {
            // Too few bytes to decide can still be enough to see that they are neither a PROXY header nor a frame.
            let start = buffer.get(..proxy::DETECT_BYTES).unwrap_or(buffer);
            let is_proxy = proxy::may_start(start);
            if start.len() < proxy::DETECT_BYTES {
                if !is_proxy {
                    check_first_byte(buffer)?;
                    frame_length(buffer, limits)?;
                }
                return Ok(Decoded::Incomplete);
            }
            if is_proxy {
                let Some(header) = proxy::decode(buffer, limits)? else { return Ok(Decoded::Incomplete) };
                self.stage = Stage::FirstByte;
                return Ok(Decoded::Proxy(header));
            }
            self.stage = Stage::FirstByte;
        }
        if self.stage == Stage::FirstByte && !buffer.is_empty() {
            check_first_byte(buffer)?;
            self.stage = Stage::Frames;
        }
        decode_frame(buffer, limits)
    }
}

fn check_first_byte(buffer: &[u8]) -> Result<(), FrameError> {
    if buffer.first() == Some(&TLS_HANDSHAKE) { Err(FrameError::Tls) } else { Ok(()) }
}

fn decode_frame<'a>(buffer: &'a [u8], limits: &Limits) -> Result<Decoded<'a>, FrameError> {
    let Some(consumed) = frame_length(buffer, limits)? else { return Ok(Decoded::Incomplete) };
    // The original judges whole frames only, and so do we: an early verdict on the type would save nothing but time.
    let Some(frame) = buffer.get(..consumed) else { return Ok(Decoded::Incomplete) };
    let Some((&[_, _, _, _, type_byte, a, b, c], content)) = frame.split_first_chunk::<FRAME_FIXED_BYTES>() else {
        return Ok(Decoded::Incomplete);
    };
    let serialize_type = SerializeType::from_wire(type_byte).ok_or(FrameError::BadSerializeType(type_byte))?;
    let header_length = usize::try_from(u32::from_be_bytes([0, a, b, c])).unwrap_or(usize::MAX);
    if header_length == 0 || header_length > content.len() {
        return Err(FrameError::HeaderOverrun { header: header_length, room: content.len() });
    }
    let (header, body) = content.split_at(header_length);
    let body = (!body.is_empty()).then_some(body);
    Ok(Decoded::Frame(Frame { serialize_type, header, body, consumed }))
}

/// The size of the frame, its length word included; `None` if the length word is not complete.
fn frame_length(buffer: &[u8], limits: &Limits) -> Result<Option<usize>, FrameError> {
    let Some(&word) = buffer.first_chunk::<LENGTH_BYTES>() else { return Ok(None) };
    let signed = i32::from_be_bytes(word);
    let Ok(rest) = usize::try_from(signed) else { return Err(FrameError::Negative(signed)) };
    if rest < FRAME_FIXED_BYTES - LENGTH_BYTES {
        return Err(FrameError::Truncated(signed));
    }
    let length = rest.saturating_add(LENGTH_BYTES);
    let max = limits.frame_bytes_max;
    if length > max { Err(FrameError::TooLong { length, max }) } else { Ok(Some(length)) }
}

/// What the next byte of the connection may be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    /// A PROXY header, TLS or a frame.
    #[default]
    Proxy,
    /// TLS or a frame.
    FirstByte,
    /// A frame.
    Frames,
}

/// The length word.
const LENGTH_BYTES: usize = 4;

/// The length word, the type byte and the length of the header.
const FRAME_FIXED_BYTES: usize = 8;

/// The first byte of a TLS connection.
const TLS_HANDSHAKE: u8 = 0x16;

#[cfg(test)]
mod tests {
    use super::*;

    fn first(bytes: &[u8]) -> Result<Decoded<'_>, FrameError> {
        FrameDecoder::new().decode(bytes, &Limits::default())
    }

    fn frame(length: u32, type_byte: u8, header_length: u32, rest: &[u8]) -> Vec<u8> {
        let word = (header_length | u32::from(type_byte) << 24).to_be_bytes();
        [&length.to_be_bytes()[..], &word, rest].concat()
    }

    #[test]
    fn cuts_header_and_body() {
        let bytes = frame(10, 1, 2, b"hhbbbbNEXT");
        let expected =
            Frame { serialize_type: SerializeType::RocketMq, header: b"hh", body: Some(b"bbbb"), consumed: 14 };
        assert_eq!(first(&bytes), Ok(Decoded::Frame(expected)));
        let bytes = frame(6, 0, 2, b"hhNEXT");
        let expected = Frame { serialize_type: SerializeType::Json, header: b"hh", body: None, consumed: 10 };
        assert_eq!(first(&bytes), Ok(Decoded::Frame(expected)));
    }

    #[test]
    fn bad_length_words_are_told_with_four_bytes() {
        for (word, error) in [
            (0, FrameError::Truncated(0)),
            (1, FrameError::Truncated(1)),
            (3, FrameError::Truncated(3)),
            (0x8000_0000, FrameError::Negative(i32::MIN)),
            (0xffff_ffff, FrameError::Negative(-1)),
            (0x7fff_ffff, FrameError::TooLong { length: 2_147_483_651, max: 16_777_216 }),
            (16_777_213, FrameError::TooLong { length: 16_777_217, max: 16_777_216 }),
        ] {
            assert_eq!(first(&u32::to_be_bytes(word)), Err(error));
            assert_eq!(first(&u32::to_be_bytes(word)[..3]), Ok(Decoded::Incomplete));
            assert_eq!(first(&[&u32::to_be_bytes(word)[..], &[b'x'; 16]].concat()), Err(error));
        }
        assert_eq!(first(&frame(16_777_212, 0x78, 100, &[b'x'; 16])), Ok(Decoded::Incomplete));
    }

    #[test]
    fn a_length_word_that_may_be_a_proxy_signature_waits() {
        assert_eq!(first(b"PROX"), Ok(Decoded::Incomplete));
        assert_eq!(first(b"\r\n\r\n"), Ok(Decoded::Incomplete));
        assert_eq!(first(b"PROx"), Err(FrameError::TooLong { length: 1_347_571_580, max: 16_777_216 }));
        assert_eq!(first(b"PROXx"), Err(FrameError::TooLong { length: 1_347_571_548, max: 16_777_216 }));
    }

    #[test]
    fn headers_must_fit() {
        let error = |header| Err(FrameError::HeaderOverrun { header, room: 16 });
        assert_eq!(first(&frame(20, 0, 0, &[b'x'; 16])), error(0));
        assert_eq!(first(&frame(20, 0, 17, &[b'x'; 16])), error(17));
        assert_eq!(first(&frame(20, 0, 0xff_ffff, &[b'x'; 16])), error(0xff_ffff));
        assert_eq!(first(&frame(4, 0, 0, b"xxxx")), Err(FrameError::HeaderOverrun { header: 0, room: 0 }));
    }

    #[test]
    fn every_other_serialize_type_is_refused() {
        for type_byte in 2..=255 {
            let bytes = frame(20, type_byte, 16, &[b'x'; 16]);
            assert_eq!(first(&bytes), Err(FrameError::BadSerializeType(type_byte)));
        }
    }

    #[test]
    fn tls_is_seen_in_front_and_after_a_proxy_header_only() {
        assert_eq!(first(b"\x16"), Err(FrameError::Tls));
        assert_eq!(first(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\x00\x00"), Err(FrameError::Tls));
        let mut decoder = FrameDecoder::new();
        let proxy = decoder.decode(b"PROXY UNKNOWN\r\n", &Limits::default()).unwrap();
        assert_eq!(proxy, Decoded::Proxy(ProxyHeader { source: None, consumed: 15 }));
        assert_eq!(decoder.decode(b"", &Limits::default()), Ok(Decoded::Incomplete));
        assert_eq!(decoder.decode(b"\x16", &Limits::default()), Err(FrameError::Tls));
        let mut decoder = FrameDecoder::new();
        decoder.decode(&frame(6, 0, 2, b"hhhh"), &Limits::default()).unwrap();
        assert_eq!(decoder.decode(b"\x16\x00\x00\x00", &Limits::default()).unwrap_err().reason(), "too_long");
    }

    #[test]
    fn one_proxy_header_is_enough() {
        let mut decoder = FrameDecoder::new();
        decoder.decode(b"PROXY UNKNOWN\r\nPROXY UNKNOWN\r\n", &Limits::default()).unwrap();
        assert_eq!(decoder.decode(b"PROXY UNKNOWN\r\n", &Limits::default()).unwrap_err().reason(), "too_long");
    }

    #[test]
    fn nothing_is_served_before_twelve_bytes() {
        let bytes = frame(6, 0, 2, b"hh");
        assert_eq!(first(&bytes), Ok(Decoded::Incomplete));
        let mut decoder = FrameDecoder::new();
        let twice = [&bytes[..], &bytes].concat();
        let Ok(Decoded::Frame(frame)) = decoder.decode(&twice, &Limits::default()) else { panic!("no frame") };
        assert_eq!(frame.consumed, 10);
        assert!(
            matches!(decoder.decode(&bytes, &Limits::default()), Ok(Decoded::Frame(_))),
            "only the first 12 bytes are waited for"
        );
    }
}
