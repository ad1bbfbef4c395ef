//! The client of a request, and how a connection states it to the origin (PROXY protocol).
//!
//! Invariant: a connection that names one client carries no request of another client.

use address::{Address, OriginUrl};
use proxy_protocol::{Header, Version, write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// The client of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FetchClient {
    /// The client at this address alone.
    One(SocketAddr),
    /// Any number of clients. The origin receives this address.
    Any(IpAddr),
}

impl FetchClient {
    /// The address sent to the origin, with the client's port if it is for one client.
    const fn address(self) -> SocketAddr {
        match self {
            Self::One(address) => address,
            Self::Any(ip) => SocketAddr::new(ip, 0),
        }
    }

    /// The address that a connection must name to carry another request for any client. `None`: it
    /// carries no other request.
    pub(crate) const fn shared(self) -> Option<IpAddr> {
        match self {
            Self::One(_) => None,
            Self::Any(ip) => Some(ip),
        }
    }
}

/// The header with which a connection to this origin names the client of its requests.
pub(crate) fn header(version: Version, client: FetchClient, url: &OriginUrl) -> Vec<u8> {
    // The header states the port at which the origin was reached. The client's own destination is
    // not known: a shared fetch has none.
    let to = match url.address() {
        Address::Ip(address) => *address,
        other => SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), other.port().unwrap_or(0)),
    };
    write(version, Header::Client { address: client.address(), is_secured: None }, to)
}

#[cfg(test)]
mod tests {
    use super::{FetchClient, header};
    use proxy_protocol::Version;

    #[test]
    fn header_names_the_client_and_the_address_of_the_origin() {
        let text = |client: FetchClient, url: &str| {
            String::from_utf8(header(Version::Text, client, &url.parse().unwrap())).unwrap()
        };
        let one = FetchClient::One("192.0.2.7:5".parse().unwrap());
        assert_eq!(text(one, "http://10.0.0.1:80"), "PROXY TCP4 192.0.2.7 10.0.0.1 5 80\r\n");
        assert_eq!(text(one, "http://app:81"), "PROXY TCP4 192.0.2.7 0.0.0.0 5 81\r\n");
        assert_eq!(text(one, "unix:/run/app"), "PROXY TCP4 192.0.2.7 0.0.0.0 5 0\r\n");
        let any = FetchClient::Any("2001:db8::1".parse().unwrap());
        assert_eq!(text(any, "http://[::1]:80"), "PROXY TCP6 2001:db8::1 ::1 0 80\r\n");
        assert_eq!((one.shared(), any.shared()), (None, Some("2001:db8::1".parse().unwrap())));
    }
}
