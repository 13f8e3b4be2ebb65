//! Blocks of addresses in CIDR notation.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// A block of IPv4 or IPv6 addresses, such as `127.0.0.0/8`. A single address is a block of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cidr {
    address: IpAddr,
    prefix: u32,
}

/// Text that is no CIDR block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotACidr;

impl Cidr {
    /// Whether `address` is in the block. An IPv4 address in IPv6 form counts as IPv4.
    pub fn contains(&self, address: IpAddr) -> bool {
        let (own, own_bits) = bits(self.address);
        let (other, other_bits) = bits(address.to_canonical());
        let host_bits = own_bits - self.prefix;
        // A shift by the whole width is none; the block of everything has it.
        own_bits == other_bits && (own ^ other).checked_shr(host_bits).unwrap_or(0) == 0
    }
}

fn bits(address: IpAddr) -> (u128, u32) {
    match address {
        IpAddr::V4(address) => (address.to_bits().into(), 32),
        IpAddr::V6(address) => (address.to_bits(), 128),
    }
}

impl FromStr for Cidr {
    type Err = NotACidr;

    fn from_str(text: &str) -> Result<Self, NotACidr> {
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix.parse().map_err(|_| NotACidr)?)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| NotACidr)?;
        let width = bits(address).1;
        let prefix = prefix.unwrap_or(width);
        match address.to_canonical() {
            _ if prefix > width => Err(NotACidr),
            // IPv4 in IPv6 form: the addresses that are asked for are compared as IPv4.
            mapped @ IpAddr::V4(_) if width == 128 && prefix >= 96 => Ok(Self { address: mapped, prefix: prefix - 96 }),
            _ => Ok(Self { address, prefix }),
        }
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holds_what_the_prefix_says() {
        let cases = [
            ("127.0.0.0/8", "127.1.2.3", true),
            ("127.0.0.0/8", "128.0.0.1", false),
            ("127.0.0.0/8", "::ffff:127.0.0.1", true),
            ("127.0.0.0/8", "::1", false),
            ("::ffff:10.0.0.0/104", "10.1.2.3", true),
            ("::ffff:10.0.0.0/104", "::ffff:10.1.2.3", true),
            ("::ffff:10.0.0.0/104", "11.1.2.3", false),
            ("10.1.2.3", "10.1.2.3", true),
            ("10.1.2.3", "10.1.2.2", false),
            ("10.1.2.3/31", "10.1.2.2", true),
            ("0.0.0.0/0", "255.1.1.1", true),
            ("0.0.0.0/0", "::1", false),
            ("::/0", "fe80::1", true),
            ("::1/128", "::1", true),
            ("fe80::/10", "febf::1", true),
            ("fe80::/10", "fec0::1", false),
        ];
        for (block, address, holds) in cases {
            assert_eq!(block.parse::<Cidr>().unwrap().contains(address.parse().unwrap()), holds, "{block} {address}");
        }
    }

    #[test]
    fn refuses_what_is_no_block() {
        for text in ["", "x", "10.0.0.0/33", "::/129", "10.0.0.0/", "10.0.0.0/-1", "10.0.0/8", " 10.0.0.0/8"] {
            assert_eq!(text.parse::<Cidr>(), Err(NotACidr), "{text:?}");
        }
    }
}
