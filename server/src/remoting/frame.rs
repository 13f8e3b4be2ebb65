//! Frames: the length word, the type of the header, the header and the body.

use thiserror::Error;

use super::codes::SerializeType;
use crate::limits::Limits;

/// Cuts the bytes of one connection into frames.
///
/// The caller keeps the received bytes, hands all that it has not consumed yet to [`decode`](Self::decode), and drops
/// as many as the answer says. How the bytes were split on their way makes no difference to what comes out.
#[derive(Clone, Debug, Default)]
pub struct FrameDecoder {
    /// The first frame is looked at when so many bytes are there.
    first_bytes: usize,
}

/// What the start of a buffer holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decoded<'a> {
    /// A whole frame.
    Frame(Frame<'a>),
    /// Nothing whole yet: read more, drop nothing.
    Incomplete {
        /// The size of the frame, its length word included; 0 until that word is there.
        length: usize,
    },
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
    /// A header over the limit. Said as soon as its length is there.
    #[error("header of {length} bytes exceeds header_bytes_max {max}")]
    HeaderTooLong {
        /// The header's size.
        length: usize,
        /// The limit.
        max: usize,
    },
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
            Self::HeaderTooLong { .. } => "header_too_long",
            Self::TooLong { .. } => "too_long",
            Self::Truncated(_) => "truncated",
        }
    }
}

impl FrameDecoder {
    /// A decoder for bytes that begin with a frame.
    pub fn new() -> Self {
        Self::default()
    }

    /// A decoder for a connection that begins with a frame: as in the original, which looks for other protocols first,
    /// nothing is answered before twelve bytes have come.
    pub fn of_connection() -> Self {
        Self { first_bytes: FIRST_BYTES }
    }

    /// Reads what stands at the start of `buffer`: all bytes received and not consumed.
    ///
    /// Costs O(1) and never allocates, so a claimed length costs nothing. An error is final: the connection cannot be
    /// read any further.
    ///
    /// # Errors
    ///
    /// [`FrameError`], when the start cannot become a frame. A bad length of the frame or a too long one of the header is
    /// told before the rest is there, everything else once the frame is whole.
    pub fn decode<'a>(&mut self, buffer: &'a [u8], limits: &Limits) -> Result<Decoded<'a>, FrameError> {
        if buffer.len() < self.first_bytes {
            let length = frame_length(buffer, limits)?.unwrap_or(0);
            check_header_length(buffer, limits)?;
            return Ok(Decoded::Incomplete { length });
        }
        self.first_bytes = 0;
        decode_frame(buffer, limits)
    }
}

fn decode_frame<'a>(buffer: &'a [u8], limits: &Limits) -> Result<Decoded<'a>, FrameError> {
    let Some(consumed) = frame_length(buffer, limits)? else { return Ok(Decoded::Incomplete { length: 0 }) };
    let incomplete = Ok(Decoded::Incomplete { length: consumed });
    check_header_length(buffer, limits)?;
    // The original judges whole frames only, and so do we: an early verdict on the type would save nothing but time.
    let Some(frame) = buffer.get(..consumed) else { return incomplete };
    let Some((&[_, _, _, _, type_byte, a, b, c], content)) = frame.split_first_chunk::<FRAME_FIXED_BYTES>() else {
        return incomplete;
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

/// A header is parsed on a thread that serves lookups, so its length is bounded as soon as it is known.
fn check_header_length(buffer: &[u8], limits: &Limits) -> Result<(), FrameError> {
    let Some(&[_, _, _, _, _, a, b, c]) = buffer.first_chunk::<FRAME_FIXED_BYTES>() else { return Ok(()) };
    let length = usize::try_from(u32::from_be_bytes([0, a, b, c])).unwrap_or(usize::MAX);
    let max = limits.header_bytes_max;
    if length > max { Err(FrameError::HeaderTooLong { length, max }) } else { Ok(()) }
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

/// What the original waits for before it looks at the first frame: as many as tell a PROXY header from a frame.
const FIRST_BYTES: usize = 12;

/// The length word.
const LENGTH_BYTES: usize = 4;

/// The length word, the type byte and the length of the header.
const FRAME_FIXED_BYTES: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    fn first(bytes: &[u8]) -> Result<Decoded<'_>, FrameError> {
        FrameDecoder::of_connection().decode(bytes, &Limits::default())
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
            assert_eq!(first(&u32::to_be_bytes(word)[..3]), Ok(Decoded::Incomplete { length: 0 }));
            assert_eq!(first(&[&u32::to_be_bytes(word)[..], &[b'x'; 16]].concat()), Err(error));
        }
        let longest = Ok(Decoded::Incomplete { length: 16_777_216 });
        assert_eq!(first(&frame(16_777_212, 0x78, 100, &[b'x'; 16])), longest);
    }

    #[test]
    fn a_long_header_is_told_with_eight_bytes() {
        let error = |length| Err(FrameError::HeaderTooLong { length, max: 65_536 });
        assert_eq!(first(&frame(0x10_0000, 0, 65_537, b"")), error(65_537));
        assert_eq!(first(&frame(0x10_0000, 1, 0xff_ffff, b"")), error(0xff_ffff));
        assert_eq!(first(&frame(0x10_0000, 0, 65_537, b"")[..7]), Ok(Decoded::Incomplete { length: 0x10_0004 }));
        assert_eq!(first(&frame(0x10_0000, 0, 65_536, &[b'x'; 16])), Ok(Decoded::Incomplete { length: 0x10_0004 }));
    }

    #[test]
    fn headers_must_fit() {
        let error = |header| Err(FrameError::HeaderOverrun { header, room: 16 });
        assert_eq!(first(&frame(20, 0, 0, &[b'x'; 16])), error(0));
        assert_eq!(first(&frame(20, 0, 17, &[b'x'; 16])), error(17));
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
    fn nothing_is_served_before_twelve_bytes() {
        let bytes = frame(6, 0, 2, b"hh");
        assert_eq!(first(&bytes), Ok(Decoded::Incomplete { length: 10 }));
        let mut decoder = FrameDecoder::of_connection();
        let twice = [&bytes[..], &bytes].concat();
        let Ok(Decoded::Frame(frame)) = decoder.decode(&twice, &Limits::default()) else { panic!("no frame") };
        assert_eq!(frame.consumed, 10);
        assert!(
            matches!(decoder.decode(&bytes, &Limits::default()), Ok(Decoded::Frame(_))),
            "only the first 12 bytes are waited for"
        );
    }
}
