//! Which broker addresses were named by the hosts that they stand for: only those are dialled for a notice.

use std::{
    collections::{HashMap, VecDeque},
    net::IpAddr,
    sync::{Mutex, PoisonError},
};

use foldhash::fast::RandomState;
use registry_core::Name;

/// Hosts remembered in each of two generations. More hosts than that have no brokers in one cluster.
const HOSTS_MAX: usize = 8_192;
/// Addresses remembered for a host: brokers on one machine. The oldest goes first.
const ADDRS_PER_HOST_MAX: usize = 32;
/// Longest address remembered, in bytes: a host name of 253 and a port.
const ADDR_BYTES_MAX: usize = 260;

type Generation = HashMap<IpAddr, VecDeque<Name>, RandomState>;

/// Who named which broker address. A host speaks for itself only, so no stranger can push out or change what another
/// host has said; hosts that have been silent for long are forgotten first.
#[derive(Debug, Default)]
pub(crate) struct Origins(Mutex<[Generation; 2]>);

impl Origins {
    /// A registration of `addr` came from `host`. Short; takes a lock that only registrations and notices take.
    pub(crate) fn note(&self, host: IpAddr, addr: &Name) {
        if addr.len() > ADDR_BYTES_MAX {
            return;
        }
        let host = host.to_canonical();
        let mut generations = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let [young, old] = &mut *generations;
        if !young.contains_key(&host) {
            if young.len() >= HOSTS_MAX {
                *old = std::mem::take(young);
            }
            let said = old.remove(&host).unwrap_or_default();
            young.insert(host, said);
        }
        let Some(said) = young.get_mut(&host) else { return };
        if said.contains(addr) {
            return;
        }
        if said.len() >= ADDRS_PER_HOST_MAX {
            said.pop_front();
        }
        said.push_back(addr.clone());
    }

    /// Whether a registration of `addr` has come from `host`.
    pub(crate) fn has(&self, host: IpAddr, addr: &str) -> bool {
        let host = host.to_canonical();
        let generations = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        generations.iter().filter_map(|generation| generation.get(&host)).flatten().any(|said| **said == *addr)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_speaks_for_itself_and_in_both_spellings() {
        let origins = Origins::default();
        origins.note("::ffff:10.0.0.1".parse().unwrap(), &"10.0.0.1:10911".into());
        assert!(origins.has("10.0.0.1".parse().unwrap(), "10.0.0.1:10911"));
        assert!(!origins.has("10.0.0.2".parse().unwrap(), "10.0.0.1:10911"));
        assert!(!origins.has("10.0.0.1".parse().unwrap(), "10.0.0.1:22"));
    }

    #[test]
    fn what_is_remembered_is_bounded_for_each_host_and_in_all() {
        let origins = Origins::default();
        let host = |number: u32| IpAddr::from(number.to_be_bytes());
        origins.note(host(1), &"first".into());
        for port in 0..1_000 {
            origins.note(host(2), &format!("10.0.0.2:{port}").into());
        }
        assert!(origins.has(host(1), "first") && origins.has(host(2), "10.0.0.2:999"));
        assert!(!origins.has(host(2), "10.0.0.2:0"));
        for number in 3..100_000 {
            origins.note(host(number), &"any".into());
        }
        assert!(!origins.has(host(1), "first"));
        assert!(origins.0.lock().unwrap().iter().all(|generation| generation.len() <= HOSTS_MAX));
    }
}
