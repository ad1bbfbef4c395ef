//! Writing a header for the server behind this proxy.
//!
//! Invariant: every written header can be read by [`crate::parse`]. Version 1 has no form for a
//! connection of the proxy itself and none for the client's TLS: the former becomes `UNKNOWN`, the
//! latter is left out.

use crate::{Header, SIGNATURE};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The version of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// A line of text (section 2.1).
    Text,
    /// Bytes (section 2.2).
    Binary,
}

/// The extension about the client's TLS, without extensions inside of it (section 2.2.5).
const TLS_EXTENSION: [u8; 3] = [0x20, 0, 5];

/// The value of `verify` for a client that did not prove its identity by a certificate.
const UNVERIFIED: [u8; 4] = [0, 0, 0, 1];

/// The header that states the client of a connection. `to` is the address that the client connected
/// to. If it is of another family than the client's, the unspecified address replaces it.
pub fn write(version: Version, header: Header, to: SocketAddr) -> Vec<u8> {
    match version {
        Version::Text => text(header, to).into_bytes(),
        Version::Binary => binary(header, to),
    }
}

fn text(header: Header, to: SocketAddr) -> String {
    let Header::Client { address, .. } = header else { return "PROXY UNKNOWN\r\n".to_owned() };
    let (from, to) = (address, alike(address, to));
    let family = if from.is_ipv4() { "TCP4" } else { "TCP6" };
    format!("PROXY {family} {} {} {} {}\r\n", from.ip(), to.ip(), from.port(), to.port())
}

fn binary(header: Header, to: SocketAddr) -> Vec<u8> {
    let (command, family, content) = match header {
        Header::Local => (0x20, 0x00, Vec::new()),
        Header::Unknown => (0x21, 0x00, Vec::new()),
        Header::Client { address, is_secured } => {
            let (family, mut content) = addresses(address, alike(address, to));
            if let Some(is_secured) = is_secured {
                content.extend_from_slice(&TLS_EXTENSION);
                content.push(u8::from(is_secured));
                content.extend_from_slice(&UNVERIFIED);
            }
            (0x21, family, content)
        }
    };
    // At most 44 bytes.
    let length = u16::try_from(content.len()).unwrap_or(u16::MAX).to_be_bytes();
    [&SIGNATURE[..], &[command, family], &length, &content].concat()
}

/// The family and the addresses of a binary header. Both are of one family.
fn addresses(from: SocketAddr, to: SocketAddr) -> (u8, Vec<u8>) {
    let ports = [from.port().to_be_bytes(), to.port().to_be_bytes()].concat();
    match (from.ip(), to.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => (0x11, [&from.octets()[..], &to.octets(), &ports].concat()),
        (from, to) => (0x21, [&mapped(from).octets()[..], &mapped(to).octets(), &ports].concat()),
    }
}

fn mapped(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    }
}

/// `to`, or the unspecified address if it is of another family than `from`.
fn alike(from: SocketAddr, to: SocketAddr) -> SocketAddr {
    let unspecified = match from.ip() {
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    if from.is_ipv4() == to.is_ipv4() { to } else { SocketAddr::new(unspecified, to.port()) }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Text => "v1",
            Self::Binary => "v2",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Version, write};
    use crate::{Header, Parsed, parse};
    use proptest::prelude::{Just, Strategy, any, prop_assert_eq, prop_oneof, proptest};
    use std::net::SocketAddr;

    #[test]
    fn headers_are_those_of_the_specification() {
        let client = Header::Client { address: "192.0.2.7:5".parse().unwrap(), is_secured: Some(true) };
        let to = "10.0.0.1:443".parse().unwrap();
        assert_eq!(write(Version::Text, client, to), b"PROXY TCP4 192.0.2.7 10.0.0.1 5 443\r\n");
        let expected = [
            &b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x14"[..],
            &[192, 0, 2, 7, 10, 0, 0, 1, 0, 5, 1, 187],
            &[0x20, 0, 5, 1, 0, 0, 0, 1],
        ];
        assert_eq!(write(Version::Binary, client, to), expected.concat());
        let other = "[2001:db8::1]:443".parse().unwrap();
        assert_eq!(write(Version::Text, client, other), b"PROXY TCP4 192.0.2.7 0.0.0.0 5 443\r\n");
        assert_eq!(write(Version::Text, Header::Local, to), b"PROXY UNKNOWN\r\n");
        assert_eq!(write(Version::Binary, Header::Local, to), b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0");
    }

    fn header() -> impl Strategy<Value = Header> {
        let client = (any::<SocketAddr>(), any::<Option<bool>>());
        prop_oneof![
            Just(Header::Local),
            Just(Header::Unknown),
            client.prop_map(|(address, is_secured)| {
                // A header carries neither the flow nor the zone of an address.
                let address = SocketAddr::new(address.ip(), address.port());
                Header::Client { address, is_secured }
            }),
        ]
    }

    proptest! {
        #[test]
        fn binary_header_is_read_as_it_was_written(header in header(), to in any::<SocketAddr>()) {
            let octets = write(Version::Binary, header, to);
            prop_assert_eq!(parse(&octets), Ok(Parsed::Header(header)));
        }

        #[test]
        fn text_header_loses_only_what_it_has_no_form_for(header in header(), to in any::<SocketAddr>()) {
            let expected = match header {
                Header::Local | Header::Unknown => Header::Unknown,
                Header::Client { address, .. } => Header::Client { address, is_secured: None },
            };
            let octets = write(Version::Text, header, to);
            prop_assert_eq!(parse(&octets), Ok(Parsed::Header(expected)));
        }
    }
}
