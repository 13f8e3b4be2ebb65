//! The remoting protocol, without I/O: bytes in, requests out; answers in, bytes out.
//!
//! [`FrameDecoder`] cuts what a connection has received into frames, [`Request::decode`] reads the header of one, and
//! [`Encoder`] appends answers to what the connection is about to send. None of them keeps a byte of the peer.
//!
//! ```
//! use server::limits::Limits;
//! use server::remoting::{Decoded, Encoder, FrameDecoder, Request, ResponseCode, ResponseHeader, SerializeType};
//!
//! let limits = Limits::default();
//! let received = b"\0\0\0\x29\x01\0\0\x25\0\x69\x09\x01\x3d\0\0\0\x07\0\0\0\0\0\0\0\0\0\0\0\x10\0\x05topic\0\0\0\x05TestT";
//! let mut decoder = FrameDecoder::new();
//! let Decoded::Frame(frame) = decoder.decode(received, &limits)? else { panic!("the frame is whole") };
//! let request = Request::decode(&frame, &limits)?;
//! assert_eq!((request.code, request.ext.get("topic")), (105, Some("TestT")));
//!
//! let mut to_send = Vec::new();
//! let header = ResponseHeader { remark: Some("no route"), ..ResponseHeader::new(ResponseCode::TopicNotExist, request.opaque) };
//! Encoder::new(SerializeType::Json, &limits).respond(&mut to_send, &header);
//! assert_eq!(frame.consumed, received.len());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod binary_header;
pub mod codes;
mod encoder;
mod frame;
mod header;
mod json_header;
mod template;

pub use codes::{Language, RequestCode, ResponseCode, SerializeType};
pub use encoder::{Encoder, FrameMark, RequestHeader, ResponseHeader};
pub use frame::{Decoded, Frame, FrameDecoder, FrameError};
pub use header::{ExtFields, HeaderError, Request, RequestDecoder};
