//! Which addresses may be dialled.

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, UdpSocket};

use crate::service::Shared;

/// Why a recipient is not dialled; the word is the one that it is counted by.
pub(super) type Reason = &'static str;

/// Says whether a member that registered as `name` may be dialled at `target`.
pub(super) fn check(shared: &Shared, own_port: u16, name: &str, target: SocketAddr) -> Result<(), Reason> {
    let ip = target.ip().to_canonical();
    if target.port() == 0 || ip.is_unspecified() || ip.is_multicast() {
        return Err("notice_bad_address");
    }
    if target.port() == own_port && is_local(ip) {
        return Err("notice_to_itself");
    }
    let is_allowed = shared.config.config().notify_allow_cidrs.iter().any(|block| block.contains(ip));
    if is_allowed || shared.origins.has(ip, name) { Ok(()) } else { Err("notice_not_allowed") }
}

/// Whether an address is one of this machine: only those can be bound.
fn is_local(ip: IpAddr) -> bool {
    ip.is_loopback() || !UdpSocket::bind((ip, 0)).is_err_and(|error| error.kind() == ErrorKind::AddrNotAvailable)
}
