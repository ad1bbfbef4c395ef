//! Addresses that name a network of many households instead of a client.
//!
//! The lengths are those that web analytics and data protection authorities use: 24 bits of an IPv4
//! address, 48 bits of an IPv6 address.

use crate::record::ClientName;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const IPV4_BITS: u32 = 24;
const IPV6_BITS: u32 = 48;

/// The name with zeros in place of the bits that tell clients of a network apart.
#[must_use]
pub fn without_last_bits(client: ClientName) -> ClientName {
    match client {
        ClientName::Ip(address) => ClientName::Ip(network(address)),
        other @ (ClientName::Unix | ClientName::Unknown) => other,
    }
}

fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => {
            IpAddr::V4(Ipv4Addr::from_bits(address.to_bits() & (u32::MAX << (Ipv4Addr::BITS - IPV4_BITS))))
        }
        IpAddr::V6(address) => {
            IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << (Ipv6Addr::BITS - IPV6_BITS))))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::without_last_bits;
    use crate::record::ClientName;

    #[test]
    fn last_bits_of_addresses_become_zero() {
        for (address, expected) in [
            ("192.0.2.77", "192.0.2.0"),
            ("::ffff:192.0.2.77", "192.0.2.0"),
            ("2001:db8:1:2:3:4:5:6", "2001:db8:1::"),
            ("::1", "::"),
        ] {
            let name = without_last_bits(ClientName::Ip(address.parse().unwrap()));
            assert_eq!(name.to_string(), expected);
        }
        assert_eq!(without_last_bits(ClientName::Unix), ClientName::Unix);
    }
}
