//! Determines the client of a request, for limits that one client must not exhaust alone.
//!
//! Invariant: only a trusted proxy can report an address other than that of the connection. The
//! result decides only turns in the queue; `forward` decides which address the origin receives.

use crate::request::guard::RequestSubject;
use crate::shared::Shared;
use message::{Fields, names};
use net::Peer;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// Prefix length of the smallest IPv6 network that a customer is given. The customer chooses the
/// remaining bits.
const NETWORK_BITS: u32 = 64;

/// The client's address, or its network for IPv6. `None` if it is unknown: behind a Unix socket, or
/// behind a trusted proxy that does not report it.
pub(crate) fn client_of(shared: &Shared, subject: &RequestSubject<'_>, fields: &Fields) -> Option<IpAddr> {
    address_of(shared, subject.peer?, subject.trusted, fields).map(network)
}

/// The client's address, as [`client_of`]. `trusted`: `peer` is a trusted proxy.
pub(crate) fn address_of(shared: &Shared, peer: Peer, trusted: bool, fields: &Fields) -> Option<IpAddr> {
    let peer = peer.ip()?;
    if !trusted {
        return Some(peer);
    }
    let hops: Vec<&[u8]> = fields.list(names::X_FORWARDED_FOR).collect();
    let mut nearer = peer;
    for hop in hops.into_iter().rev() {
        // Entries before an invalid address come from an untrusted sender.
        let address = parse(hop)?;
        // A client on this machine does not come by a proxy on another one. By this address it
        // would have the permissions of this machine.
        if address.to_canonical().is_loopback() && !nearer.to_canonical().is_loopback() {
            return None;
        }
        nearer = address;
        if !shared.plan.trusted_proxies.contains(address) {
            return Some(address);
        }
    }
    None
}

fn parse(hop: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(hop).ok()?;
    text.parse().ok().or_else(|| text.parse().ok().map(|address: SocketAddr| address.ip()))
}

fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let mask = u128::MAX << (Ipv6Addr::BITS - NETWORK_BITS);
            IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & mask))
        }
        address @ IpAddr::V4(_) => address,
    }
}

#[cfg(test)]
mod tests {
    use super::client_of;
    use crate::request::guard::guard;
    use crate::shared::Shared;
    use crate::system::System;
    use bytes::BytesMut;
    use config::EdgePlan;
    use h1::{Limits, Strictness, parse_request};
    use net::Peer;
    use std::net::IpAddr;

    fn client(peer: Peer, trusted: &str, fields: &str) -> Option<String> {
        let mut plan = EdgePlan::for_origin("http://127.0.0.1:9000".parse().unwrap());
        plan.trusted_proxies = trusted.split(' ').filter_map(|ip| ip.parse::<IpAddr>().ok()).collect();
        let shared = Shared::new(plan, None, System::of_machine());
        let mut octets = BytesMut::from(format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n").as_bytes());
        let request = parse_request(&mut octets, &Limits::DEFAULT, Strictness::Strict).unwrap().unwrap();
        let subject = guard(&shared, peer, &request).unwrap();
        client_of(&shared, &subject, &request.head.fields).map(|address| address.to_string())
    }

    fn from(address: &str) -> Peer {
        Peer::Ip(address.parse().unwrap())
    }

    #[test]
    fn forwarded_addresses_count_from_trusted_proxies_only() {
        let chain = "X-Forwarded-For: 203.0.113.9, 198.51.100.7\r\nX-Forwarded-For: 10.0.0.2\r\n";
        assert_eq!(client(from("10.0.0.1:5"), "", chain).as_deref(), Some("10.0.0.1"));
        assert_eq!(client(from("10.0.0.1:5"), "10.0.0.1", chain).as_deref(), Some("10.0.0.2"));
        assert_eq!(client(from("10.0.0.1:5"), "10.0.0.1 10.0.0.2", chain).as_deref(), Some("198.51.100.7"));
    }

    #[test]
    fn unknown_client_has_no_address() {
        assert_eq!(client(Peer::Unix, "", ""), None);
        assert_eq!(client(from("10.0.0.1:5"), "10.0.0.1", ""), None);
        assert_eq!(client(from("10.0.0.1:5"), "10.0.0.1", "X-Forwarded-For: 1.2.3.4, _hidden\r\n"), None);
        let this_machine = "X-Forwarded-For: ::ffff:127.0.0.1\r\n";
        assert_eq!(client(from("10.0.0.1:5"), "10.0.0.1", this_machine), None, "a proxy cannot say that");
        assert!(client(from("127.0.0.1:5"), "127.0.0.1 10.0.0.1", this_machine).is_none());
    }

    #[test]
    fn ipv6_client_is_identified_by_its_network() {
        assert_eq!(client(from("[2001:db8:1:2:3:4:5:6]:7"), "", "").as_deref(), Some("2001:db8:1:2::"));
        let field = "X-Forwarded-For: [2001:db8:1:2:9::1]:80\r\n";
        assert_eq!(client(from("10.0.0.1:5"), "10.0.0.1", field).as_deref(), Some("2001:db8:1:2::"));
    }
}
