//! The remoting protocol, without I/O: bytes in, requests out; answers in, bytes out.
//!
//! [`FrameDecoder`] cuts what a connection has received into frames, [`Request::decode`] reads the header of one, and
//! [`Encoder`] appends answers to what the connection is about to send. None of them keeps a byte of the peer.

mod binary_header;
pub mod codes;
mod encoder;
mod frame;
mod header;
mod json_header;
mod proxy;

pub use codes::{Language, RequestCode, ResponseCode, SerializeType};
pub use encoder::{Encoder, FrameMark, RequestHeader, ResponseHeader};
pub use frame::{Decoded, Frame, FrameDecoder, FrameError};
pub use header::{ExtFields, HeaderError, Request};
pub use proxy::{ProxyError, ProxyHeader};
