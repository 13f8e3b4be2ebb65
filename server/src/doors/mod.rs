//! What a connection begins with, before its first frame.
//!
//! ```text
//!   accepted ──> PROXY header? ──> TLS? ──> frames
//!                   │                │
//!                   │ from a proxy   │ not spoken here:
//!                   │ that is not    │ closed, counted
//!                   │ trusted:       │
//!                   │ closed         │
//! ```
//!
//! Each door is a stage of its own, told by the first bytes and passed once. Nothing behind the doors knows of them: a
//! connection goes on as frames over whatever transport they leave. Without I/O, like [`remoting`](crate::remoting).

mod proxy;

use std::net::IpAddr;

use thiserror::Error;

pub use proxy::{ProxyError, ProxyHeader};

use crate::{config::Cidr, limits::Limits};

/// Judges the first bytes of one connection.
///
/// The caller hands over all bytes received and not consumed, and drops what a verdict has consumed.
#[derive(Clone, Copy, Debug)]
pub struct Doors {
    peer: IpAddr,
    is_trusted: bool,
    has_proxy_header: bool,
}

/// What the first bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Too few to tell: read more, drop nothing.
    Incomplete,
    /// A PROXY header of a peer that is trusted. At most one.
    Proxy(ProxyHeader),
    /// The first frame, behind a PROXY header or not. The doors are passed.
    Frames {
        /// Whether a PROXY header came before.
        has_proxy_header: bool,
    },
}

/// Why a connection does not get in. Always the sender's fault.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum DoorError {
    /// A malformed PROXY header.
    #[error(transparent)]
    Proxy(#[from] ProxyError),
    /// A TLS handshake; this server speaks plain text only.
    #[error("TLS is not supported")]
    Tls,
    /// A PROXY header of a peer outside `proxyProtocolTrusted`.
    #[error("PROXY header from {0}, which is not in proxyProtocolTrusted")]
    Untrusted(IpAddr),
}

impl DoorError {
    /// A short name for counters.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Proxy(_) => "bad_proxy",
            Self::Tls => "tls",
            Self::Untrusted(_) => "proxy_untrusted",
        }
    }
}

impl Doors {
    /// The doors of a new connection from `peer`, which may say for whom it speaks if one of the blocks contains it: what it
    /// claims decides limits and rights of the connection.
    pub fn new(peer: IpAddr, trusted: &[Cidr]) -> Self {
        let is_trusted = trusted.iter().any(|block| block.contains(peer));
        Self { peer, is_trusted, has_proxy_header: false }
    }

    /// Says what stands at the start of `buffer`. Costs O(1), and at most `proxy_v1_bytes_max` for the line of a PROXY
    /// header; never allocates.
    ///
    /// # Errors
    ///
    /// [`DoorError`], when the connection cannot go on.
    pub fn judge(&mut self, buffer: &[u8], limits: &Limits) -> Result<Verdict, DoorError> {
        let Some(&first) = buffer.first() else { return Ok(Verdict::Incomplete) };
        if !self.has_proxy_header {
            let start = buffer.get(..proxy::DETECT_BYTES).unwrap_or(buffer);
            if proxy::may_start(start) {
                if start.len() < proxy::DETECT_BYTES {
                    return Ok(Verdict::Incomplete);
                }
                if !self.is_trusted {
                    return Err(DoorError::Untrusted(self.peer));
                }
                let Some(header) = proxy::decode(buffer, limits)? else { return Ok(Verdict::Incomplete) };
                self.has_proxy_header = true;
                return Ok(Verdict::Proxy(header));
            }
        }
        if first == TLS_HANDSHAKE {
            return Err(DoorError::Tls);
        }
        Ok(Verdict::Frames { has_proxy_header: self.has_proxy_header })
    }
}

/// The first byte of a TLS connection.
const TLS_HANDSHAKE: u8 = 0x16;

#[cfg(test)]
mod tests {
    use super::*;

    const PROXY: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 1, 2, 3));

    fn doors() -> Doors {
        Doors::new(PROXY, &["10.0.0.0/8".parse().unwrap(), "::1/128".parse().unwrap()])
    }

    fn first(bytes: &[u8]) -> Result<Verdict, DoorError> {
        doors().judge(bytes, &Limits::default())
    }

    const PLAIN: Verdict = Verdict::Frames { has_proxy_header: false };

    #[test]
    fn frames_are_known_by_being_nothing_else() {
        assert_eq!(first(b""), Ok(Verdict::Incomplete));
        assert_eq!(first(b"\0"), Ok(PLAIN));
        assert_eq!(first(b"\0\0\0\x20\0\0\0\x1c{}"), Ok(PLAIN));
        assert_eq!(first(b"PROx"), Ok(PLAIN), "its length is for the frame decoder to refuse");
    }

    #[test]
    fn what_may_be_a_proxy_signature_waits() {
        for start in [&b"P"[..], b"PROX", b"PROXY TCP4 ", b"\r", b"\r\n\r\n\0\r\nQUIT"] {
            assert_eq!(first(start), Ok(Verdict::Incomplete));
        }
        assert_eq!(first(b"PROXY TCP4 10.0.0.9 10.0.0.1"), Ok(Verdict::Incomplete));
    }

    #[test]
    fn one_proxy_header_is_enough() {
        let mut doors = doors();
        let header = ProxyHeader { source: None, consumed: 15 };
        let twice = b"PROXY UNKNOWN\r\nPROXY UNKNOWN\r\n";
        assert_eq!(doors.judge(twice, &Limits::default()), Ok(Verdict::Proxy(header)));
        let behind = Verdict::Frames { has_proxy_header: true };
        assert_eq!(doors.judge(&twice[15..], &Limits::default()), Ok(behind), "no frame has such a length");
    }

    #[test]
    fn tls_is_seen_in_front_and_behind_a_proxy_header() {
        assert_eq!(first(b"\x16"), Err(DoorError::Tls));
        let mut doors = doors();
        doors.judge(b"PROXY UNKNOWN\r\n", &Limits::default()).unwrap();
        assert_eq!(doors.judge(b"", &Limits::default()), Ok(Verdict::Incomplete));
        assert_eq!(doors.judge(b"\x16", &Limits::default()), Err(DoorError::Tls));
    }

    #[test]
    fn only_trusted_peers_speak_for_others() {
        let stranger: IpAddr = "192.0.2.1".parse().unwrap();
        let mut doors = Doors::new(stranger, &["10.0.0.0/8".parse().unwrap()]);
        let error = Err(DoorError::Untrusted(stranger));
        assert_eq!(doors.judge(b"PROXY TCP4 ", &Limits::default()), Ok(Verdict::Incomplete), "it may be a frame yet");
        assert_eq!(doors.judge(b"PROXY TCP4 1", &Limits::default()), error, "the rest is not waited for");
        assert_eq!(doors.judge(b"\0\0\0\x20", &Limits::default()), Ok(PLAIN));
    }
}
