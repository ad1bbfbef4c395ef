//! Whether a site runs on this machine.
//!
//! Invariant: every address of the host must belong to an interface of this machine. A name that
//! leads to a proxy elsewhere is therefore not local, although the site may run here.

use address::{Address, HttpUrl};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, ToSocketAddrs as _, UdpSocket};
use std::time::Duration;

/// The discard port (RFC 863). Nothing is sent to it.
const ANY_PORT: u16 = 9;

/// How long to try each address of a site that has several.
const CONNECT_MAX: Duration = Duration::from_secs(1);

/// Whether the site of `url` is served at addresses of this machine. A name that cannot be resolved
/// is not local.
pub async fn is_on_this_machine(url: &HttpUrl) -> bool {
    let addresses: Vec<IpAddr> = match url.address() {
        Address::Host { name, port } => match tokio::net::lookup_host((name.as_str(), port)).await {
            Ok(found) => found.map(|address| address.ip()).collect(),
            Err(_) => Vec::new(),
        },
        Address::Ip(address) => vec![address.ip()],
        _ => Vec::new(),
    };
    !addresses.is_empty() && addresses.into_iter().all(is_own)
}

/// The address at which a load of the site of `url` is made. `None` if the site is not on this
/// machine. The host is resolved now, because a name may lead elsewhere than before. Blocks for the
/// resolver and for connecting.
pub(crate) fn own_address(url: &HttpUrl) -> Option<SocketAddr> {
    let addresses: Vec<SocketAddr> = match url.address() {
        Address::Host { name, port } => (name.as_str(), port).to_socket_addrs().ok()?.collect(),
        Address::Ip(address) => vec![address],
        _ => Vec::new(),
    };
    if !addresses.iter().all(|address| is_own(address.ip())) {
        return None;
    }
    let answers = |address: &&SocketAddr| TcpStream::connect_timeout(address, CONNECT_MAX).is_ok();
    match addresses[..] {
        [only] => Some(only),
        _ => addresses.iter().find(answers).or_else(|| addresses.first()).copied(),
    }
}

/// Whether an interface has this address. The system sends from an address of this machine to
/// itself, and to any other address from another one. Connecting a UDP socket sends nothing.
/// Listening would be no proof, because `ip_nonlocal_bind` permits it at any address.
fn is_own(address: IpAddr) -> bool {
    let address = address.to_canonical();
    if address.is_loopback() || address.is_unspecified() {
        return address.is_loopback();
    }
    let any: IpAddr =
        if address.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let source = UdpSocket::bind((any, 0)).and_then(|socket| {
        socket.connect((address, ANY_PORT))?;
        socket.local_addr()
    });
    source.is_ok_and(|source| source.ip() == address)
}

#[cfg(test)]
mod tests {
    use super::{is_own, own_address};
    use address::HttpUrl;

    #[test]
    fn only_addresses_of_interfaces_are_own() {
        assert!(is_own("127.0.0.1".parse().unwrap()));
        // A block for documentation (RFC 5737), which no interface has.
        assert!(!is_own("192.0.2.7".parse().unwrap()));
        assert!(!is_own("0.0.0.0".parse().unwrap()));
        assert!(is_own("::ffff:127.0.0.1".parse().unwrap()));
        let own = |url: &str| own_address(&HttpUrl::parse(url).unwrap());
        assert_eq!(own("http://127.0.0.1:81/a"), Some("127.0.0.1:81".parse().unwrap()));
        assert_eq!(own("http://192.0.2.7/"), None);
    }
}
