//! The PROXY protocol, versions 1 and 2: one header in front of a connection that says for whom a load balancer speaks.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use thiserror::Error;

use crate::limits::Limits;

/// How many bytes tell whether a PROXY header comes.
pub(super) const DETECT_BYTES: usize = SIGNATURE_V2.len();

/// A complete PROXY header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProxyHeader {
    /// The client behind the proxy; `None` if the proxy speaks for itself or does not say. For logs only.
    pub source: Option<SocketAddr>,
    /// The header's length in bytes.
    pub consumed: usize,
}

/// Why a PROXY header was refused. Always the sender's fault.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProxyError {
    /// An address family or transport that version 2 does not define.
    #[error("PROXY header has the unknown address family and transport {0:#04x}")]
    BadFamily(u8),
    /// A version 1 line that does not say `PROXY TCP4|TCP6 source destination port port` or `PROXY UNKNOWN`.
    #[error("PROXY line is malformed")]
    BadLine,
    /// A version or command other than 2 and LOCAL or PROXY.
    #[error("PROXY header has the unknown version and command {0:#04x}")]
    BadVersion(u8),
    /// Longer than its version allows.
    #[error("PROXY header exceeds {max} bytes")]
    TooLong {
        /// The limit: `proxy_v1_bytes_max` or `proxy_v2_bytes_max`.
        max: usize,
    },
    /// Version 2 with fewer bytes than its address family takes.
    #[error("PROXY header holds {length} bytes, its addresses take {needed}")]
    TooShort {
        /// Bytes after the fixed part.
        length: usize,
        /// Bytes of the addresses.
        needed: usize,
    },
}

/// Whether `bytes`, at most [`DETECT_BYTES`] of a connection's first, may be the start of a PROXY header.
pub(super) fn may_start(bytes: &[u8]) -> bool {
    let starts = |signature: &[u8]| bytes.iter().zip(signature).all(|(byte, expected)| byte == expected);
    starts(SIGNATURE_V1) || starts(SIGNATURE_V2)
}

/// Reads the header at the start of `buffer`; `None` if it is not complete. Cost: at most the limits' length.
pub(super) fn decode(buffer: &[u8], limits: &Limits) -> Result<Option<ProxyHeader>, ProxyError> {
    if buffer.starts_with(SIGNATURE_V2) { decode_v2(buffer, limits) } else { decode_v1(buffer, limits) }
}

fn decode_v1(buffer: &[u8], limits: &Limits) -> Result<Option<ProxyHeader>, ProxyError> {
    let max = limits.proxy_v1_bytes_max;
    let window = buffer.get(..max).unwrap_or(buffer);
    let Some(end) = window.windows(2).position(|pair| pair == b"\r\n") else {
        return if buffer.len() < max { Ok(None) } else { Err(ProxyError::TooLong { max }) };
    };
    let line = window.get(..end).and_then(|line| str::from_utf8(line).ok()).ok_or(ProxyError::BadLine)?;
    let source = parse_line(line).ok_or(ProxyError::BadLine)?;
    Ok(Some(ProxyHeader { source, consumed: end + 2 }))
}

/// The outer `None` is a malformed line, the inner one a line without an address.
fn parse_line(line: &str) -> Option<Option<SocketAddr>> {
    let mut parts = line.split(' ');
    if parts.next()? != "PROXY" {
        return None;
    }
    let is_v4 = match parts.next()? {
        "UNKNOWN" => return Some(None),
        "TCP4" => true,
        "TCP6" => false,
        _ => return None,
    };
    let source: IpAddr = parts.next()?.parse().ok()?;
    let destination: IpAddr = parts.next()?.parse().ok()?;
    let source_port = parse_port(parts.next()?)?;
    parse_port(parts.next()?)?;
    let is_whole = parts.next().is_none() && source.is_ipv4() == is_v4 && destination.is_ipv4() == is_v4;
    is_whole.then(|| Some(SocketAddr::new(source, source_port)))
}

fn parse_port(text: &str) -> Option<u16> {
    text.parse().ok().filter(|&port| port != 0)
}

fn decode_v2(buffer: &[u8], limits: &Limits) -> Result<Option<ProxyHeader>, ProxyError> {
    let Some((fixed, rest)) = buffer.split_first_chunk::<V2_FIXED_BYTES>() else { return Ok(None) };
    let [.., version_command, family, high, low] = *fixed;
    let length = usize::from(u16::from_be_bytes([high, low]));
    let consumed = V2_FIXED_BYTES + length;
    if !matches!(version_command, V2_LOCAL | V2_PROXY) {
        return Err(ProxyError::BadVersion(version_command));
    }
    if consumed > limits.proxy_v2_bytes_max {
        return Err(ProxyError::TooLong { max: limits.proxy_v2_bytes_max });
    }
    let Some(rest) = rest.get(..length) else { return Ok(None) };
    let source = if version_command == V2_LOCAL { None } else { parse_addresses(family, rest)? };
    Ok(Some(ProxyHeader { source, consumed }))
}

/// What follows the addresses (TLVs) is skipped.
fn parse_addresses(family: u8, bytes: &[u8]) -> Result<Option<SocketAddr>, ProxyError> {
    let too_short = |needed| ProxyError::TooShort { length: bytes.len(), needed };
    match family {
        0x00 => Ok(None),
        0x11 | 0x12 => {
            let (addresses, _) = bytes.split_first_chunk::<12>().ok_or(too_short(12))?;
            let [a, b, c, d, _, _, _, _, high, low, _, _] = *addresses;
            let port = u16::from_be_bytes([high, low]);
            Ok(Some(SocketAddr::new(Ipv4Addr::new(a, b, c, d).into(), port)))
        }
        0x21 | 0x22 => {
            let (addresses, _) = bytes.split_first_chunk::<36>().ok_or(too_short(36))?;
            let (source, rest) = addresses.split_first_chunk::<16>().ok_or(too_short(36))?;
            let port = rest.get(16..18).and_then(|port| port.try_into().ok()).map_or(0, u16::from_be_bytes);
            Ok(Some(SocketAddr::new(Ipv6Addr::from(*source).into(), port)))
        }
        0x31 | 0x32 if bytes.len() < 216 => Err(too_short(216)),
        0x31 | 0x32 => Ok(None),
        _ => Err(ProxyError::BadFamily(family)),
    }
}

const SIGNATURE_V1: &[u8] = b"PROXY";
const SIGNATURE_V2: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";

/// The signature, version and command, family and transport, length.
const V2_FIXED_BYTES: usize = 16;
const V2_LOCAL: u8 = 0x20;
const V2_PROXY: u8 = 0x21;

#[cfg(test)]
mod tests {
    use super::*;

    fn source(header: &[u8]) -> Result<Option<SocketAddr>, ProxyError> {
        let decoded = decode(header, &Limits::default())?.expect("the header is complete");
        assert_eq!(decoded.consumed, header.len());
        Ok(decoded.source)
    }

    fn v2(version_command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
        let length = u16::try_from(rest.len()).unwrap().to_be_bytes();
        [&SIGNATURE_V2[..], &[version_command, family], &length, rest].concat()
    }

    #[test]
    fn version_1_names_its_source() {
        let address = "10.0.0.9:55555".parse().unwrap();
        assert_eq!(source(b"PROXY TCP4 10.0.0.9 10.0.0.1 55555 9876\r\n"), Ok(Some(address)));
        let address = "[2001:db8::9]:55555".parse().unwrap();
        assert_eq!(source(b"PROXY TCP6 2001:db8::9 2001:db8::1 55555 9876\r\n"), Ok(Some(address)));
        assert_eq!(source(b"PROXY UNKNOWN\r\n"), Ok(None));
        assert_eq!(source(b"PROXY UNKNOWN ffff:f..f ffff:f..f 65535 65535\r\n"), Ok(None));
    }

    #[test]
    fn version_1_lines_out_of_shape_are_refused() {
        for line in [
            "PROXY\r\n",
            "PROXYTCP4\r\n",
            "PROXY UDP4 10.0.0.9 10.0.0.1 55555 9876\r\n",
            "PROXY TCP4 10.0.0.9\r\n",
            "PROXY TCP4 10.0.0.9 10.0.0.1 55555\r\n",
            "PROXY TCP4 10.0.0.9 10.0.0.1 55555 9876 1\r\n",
            "PROXY TCP4 10.0.0.9 10.0.0.1 999999 9876\r\n",
            "PROXY TCP4 10.0.0.9 10.0.0.1 55555 0\r\n",
            "PROXY TCP4 10.0.0.9 2001:db8::1 55555 9876\r\n",
            "PROXY TCP6 10.0.0.9 10.0.0.1 55555 9876\r\n",
            "PROXY  TCP4 10.0.0.9 10.0.0.1 55555 9876\r\n",
            "PROXY TCP4 10.0.0.\u{ff19} 10.0.0.1 55555 9876\r\n",
        ] {
            assert_eq!(decode(line.as_bytes(), &Limits::default()), Err(ProxyError::BadLine), "{line:?}");
        }
    }

    #[test]
    fn version_1_is_bounded() {
        let limits = Limits::default();
        let longest = format!("PROXY UNKNOWN {}\r\n", "x".repeat(107 - 16));
        assert_eq!(decode(longest.as_bytes(), &limits), Ok(Some(ProxyHeader { source: None, consumed: 107 })));
        assert_eq!(decode(&longest.as_bytes()[..106], &limits), Ok(None));
        let line = format!("PROXY UNKNOWN {}\r\n", "x".repeat(108 - 16));
        assert_eq!(decode(line.as_bytes(), &limits), Err(ProxyError::TooLong { max: 107 }));
        assert_eq!(decode(&line.as_bytes()[..107], &limits), Err(ProxyError::TooLong { max: 107 }));
        let endless = ["PROXY ", &"x".repeat(10_000)].concat();
        assert_eq!(decode(endless.as_bytes(), &limits), Err(ProxyError::TooLong { max: 107 }));
    }

    #[test]
    fn version_2_names_its_source() {
        let v4 = [10, 0, 0, 9, 10, 0, 0, 1, 0xd9, 0x03, 0x26, 0x94];
        let address = Some("10.0.0.9:55555".parse().unwrap());
        assert_eq!(source(&v2(0x21, 0x11, &v4)), Ok(address));
        assert_eq!(source(&v2(0x21, 0x12, &v4)), Ok(address));
        assert_eq!(source(&v2(0x21, 0x11, &[&v4[..], &[0x02, 0xff, 0xff]].concat())), Ok(address));
        assert_eq!(source(&v2(0x20, 0x11, &v4)), Ok(None));
        assert_eq!(source(&v2(0x20, 0xff, &[])), Ok(None));
        assert_eq!(source(&v2(0x21, 0x00, &[])), Ok(None));
        assert_eq!(source(&v2(0x21, 0x31, &[0; 216])), Ok(None));
        let mut v6 = [0; 36];
        (v6[15], v6[31], v6[33]) = (9, 1, 7);
        assert_eq!(source(&v2(0x21, 0x21, &v6)), Ok(Some("[::9]:7".parse().unwrap())));
    }

    #[test]
    fn version_2_out_of_shape_is_refused() {
        let check = |header: &[u8]| decode(header, &Limits::default()).unwrap_err();
        assert_eq!(check(&v2(0x11, 0x11, &[0; 12])), ProxyError::BadVersion(0x11));
        assert_eq!(check(&v2(0x22, 0x11, &[0; 12])), ProxyError::BadVersion(0x22));
        assert_eq!(check(&v2(0x21, 0x13, &[0; 12])), ProxyError::BadFamily(0x13));
        assert_eq!(check(&v2(0x21, 0x11, &[0; 11])), ProxyError::TooShort { length: 11, needed: 12 });
        assert_eq!(check(&v2(0x21, 0x21, &[0; 35])), ProxyError::TooShort { length: 35, needed: 36 });
        assert_eq!(check(&v2(0x21, 0x32, &[0; 215])), ProxyError::TooShort { length: 215, needed: 216 });
        let limits = Limits { proxy_v2_bytes_max: 27, ..Limits::default() };
        assert_eq!(decode(&v2(0x21, 0x11, &[0; 12])[..16], &limits), Err(ProxyError::TooLong { max: 27 }));
    }

    #[test]
    fn version_2_may_be_as_long_as_its_length_can_say() {
        let header = v2(0x21, 0x11, &[1; 65_535]);
        assert_eq!(header.len(), Limits::default().proxy_v2_bytes_max);
        assert_eq!(decode(&header[..header.len() - 1], &Limits::default()), Ok(None));
        assert!(source(&header).unwrap().is_some());
    }
}
