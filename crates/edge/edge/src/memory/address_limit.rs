//! Counts the open connections of each client address.
//!
//! Invariants: an address without connections takes no memory. An IPv6 client owns a /64 network,
//! so the whole network counts as one address.

use platform::HashMap;
use std::collections::hash_map::Entry;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The network part of an IPv6 address.
const NETWORK_MASK: u128 = u128::MAX << 64;

/// The number of open connections of each address.
#[derive(Debug, Default)]
pub(crate) struct AddressLimit {
    open: Mutex<HashMap<IpAddr, usize>>,
}

impl AddressLimit {
    /// Counts one more connection, unless the address already has `connections_max`; returns
    /// whether it was counted.
    pub(crate) fn take(&self, address: IpAddr, connections_max: usize) -> bool {
        let mut open = self.open();
        let count = open.entry(network(address)).or_insert(0);
        let is_free = *count < connections_max;
        *count += usize::from(is_free);
        is_free
    }

    /// Counts one connection less.
    pub(crate) fn give_back(&self, address: IpAddr) {
        if let Entry::Occupied(mut entry) = self.open().entry(network(address)) {
            *entry.get_mut() -= 1;
            if *entry.get() == 0 {
                entry.remove();
            }
        }
    }

    fn open(&self) -> MutexGuard<'_, HashMap<IpAddr, usize>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & NETWORK_MASK)),
    }
}

#[cfg(test)]
mod tests {
    use super::AddressLimit;

    #[test]
    fn each_address_has_its_own_limit_and_leaves_no_entry() {
        let limit = AddressLimit::default();
        let take = |address: &str| limit.take(address.parse().unwrap(), 2);
        for address in ["192.0.2.1", "::ffff:192.0.2.1", "192.0.2.2", "2001:db8::1", "2001:db8::2"] {
            assert!(take(address), "{address}");
        }
        for address in ["192.0.2.1", "2001:db8::3"] {
            assert!(!take(address), "{address}");
        }
        assert!(take("2001:db8:0:1::1"), "another network");
        for address in
            ["192.0.2.1", "192.0.2.1", "192.0.2.2", "2001:db8::9", "2001:db8::9", "2001:db8:0:1::5"]
        {
            limit.give_back(address.parse().unwrap());
        }
        assert!(limit.open().is_empty());
    }
}
