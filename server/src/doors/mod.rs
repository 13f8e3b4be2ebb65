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
#[derive(Clone, Copy, Debug, Default)]
pub struct Doors {
    has_proxy_header: bool,
}

/// What the first bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Too few to tell: read more, drop nothing.
    Incomplete,
    /// A PROXY header. At most one; whether its sender is trusted is for the caller, see [`is_trusted`].
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
    /// The doors of a new connection.
    pub fn new() -> Self {
        Self::default()
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

/// Whether a PROXY header of this peer counts: what it claims decides limits and rights of the connection.
///
/// # Errors
///
/// [`DoorError::Untrusted`].
pub fn is_trusted(peer: IpAddr, trusted: &[Cidr]) -> Result<(), DoorError> {
    if trusted.iter().any(|block| block.contains(peer)) { Ok(()) } else { Err(DoorError::Untrusted(peer)) }
}

/// The first byte of a TLS connection.
const TLS_HANDSHAKE: u8 = 0x16;

#[cfg(test)]
mod tests {
    use super::*;

    fn first(bytes: &[u8]) -> Result<Verdict, DoorError> {
        Doors::new().judge(bytes, &Limits::default())
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
        let mut doors = Doors::new();
        let header = ProxyHeader { source: None, consumed: 15 };
        let twice = b"PROXY UNKNOWN\r\nPROXY UNKNOWN\r\n";
        assert_eq!(doors.judge(twice, &Limits::default()), Ok(Verdict::Proxy(header)));
        let behind = Verdict::Frames { has_proxy_header: true };
        assert_eq!(doors.judge(&twice[15..], &Limits::default()), Ok(behind), "no frame has such a length");
    }

    #[test]
    fn tls_is_seen_in_front_and_behind_a_proxy_header() {
        assert_eq!(first(b"\x16"), Err(DoorError::Tls));
        let mut doors = Doors::new();
        doors.judge(b"PROXY UNKNOWN\r\n", &Limits::default()).unwrap();
        assert_eq!(doors.judge(b"", &Limits::default()), Ok(Verdict::Incomplete));
        assert_eq!(doors.judge(b"\x16", &Limits::default()), Err(DoorError::Tls));
    }

    #[test]
    fn only_trusted_peers_speak_for_others() {
        let trusted: Vec<Cidr> = ["10.0.0.0/8", "::1/128"].map(|block| block.parse().unwrap()).into();
        let stranger: IpAddr = "192.0.2.1".parse().unwrap();
        assert_eq!(is_trusted("10.1.2.3".parse().unwrap(), &trusted), Ok(()));
        assert_eq!(is_trusted("::1".parse().unwrap(), &trusted), Ok(()));
        assert_eq!(is_trusted(stranger, &trusted), Err(DoorError::Untrusted(stranger)));
    }
}
