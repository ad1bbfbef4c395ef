//! The PROXY protocol, versions 1 and 2: the header in which a proxy states the client of a
//! connection, before the first byte of the client.
//!
//! Source: "The PROXY protocol", Willy Tarreau, HAProxy Technologies, revision of 2020-03-05.
//!
//! Invariant: this crate decides from bytes alone. It never asks for a byte that may belong to the
//! client: [`Parsed::More`] states how many bytes of the header are certainly still to come.

mod binary;
mod text;
mod write;

pub use write::{Version, write};

use std::net::SocketAddr;

/// The first bytes of a header of version 2.
const SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";

/// The shortest header: `PROXY UNKNOWN\r\n`. Version 2 has at least 16 bytes.
const BYTES_MIN: usize = 15;

/// The addresses that the proxy states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Header {
    /// The proxy opened the connection for itself, for example for a health check.
    Local,
    /// The proxy opened the connection for a client that it does not name.
    Unknown,
    /// The proxy opened the connection for this client.
    Client {
        /// The client's address and port.
        address: SocketAddr,
        /// Whether the client's connection to the proxy is secured by TLS; `None` if the proxy does
        /// not say.
        is_secured: Option<bool>,
    },
}

/// The outcome of parsing the beginning of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parsed {
    /// The header is incomplete. At least this number of bytes, which is not zero, belongs to it.
    More(usize),
    /// The bytes are exactly the header.
    Header(Header),
}

/// Why bytes are no header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeaderError {
    /// The bytes begin with neither `PROXY` nor the signature of version 2.
    #[error("the connection does not begin with a PROXY header")]
    Absent,
    /// The line of version 1 is malformed or has more than 107 bytes.
    #[error("the PROXY line is malformed")]
    Line,
    /// The header of version 2 is malformed, too long, or of another version.
    #[error("the binary PROXY header is malformed")]
    Binary,
}

/// Parses the beginning of a connection, which must not be longer than the header.
///
/// # Errors
/// [`HeaderError`]. The connection must then be closed.
pub fn parse(octets: &[u8]) -> Result<Parsed, HeaderError> {
    let begins = |whole: &[u8]| {
        let common = octets.len().min(whole.len());
        octets.get(..common) == whole.get(..common)
    };
    let is_text = begins(text::PREFIX);
    if !is_text && !begins(&SIGNATURE) {
        return Err(HeaderError::Absent);
    }
    if octets.len() < BYTES_MIN {
        return Ok(Parsed::More(BYTES_MIN - octets.len()));
    }
    if is_text { text::parse(octets) } else { binary::parse(octets) }
}

#[cfg(test)]
mod tests {
    use super::{Header, HeaderError, Parsed, parse};
    use proptest::prelude::{Just, Strategy, any, prop_assert, prop_assert_eq, prop_oneof, proptest};
    use std::net::{IpAddr, SocketAddr};

    /// Reads a header from the front of `stream` as a connection does. Returns it and the number of
    /// bytes that were read.
    fn read(stream: &[u8]) -> Result<(Header, usize), HeaderError> {
        let mut end = 0;
        loop {
            match parse(&stream[..end])? {
                Parsed::More(bytes) => {
                    assert!(bytes > 0);
                    end += bytes;
                    if end > stream.len() {
                        return Err(HeaderError::Absent);
                    }
                }
                Parsed::Header(header) => return Ok((header, end)),
            }
        }
    }

    fn client(address: &str, is_secured: Option<bool>) -> Header {
        Header::Client { address: address.parse().unwrap(), is_secured }
    }

    #[test]
    fn text_headers_are_read_to_their_end() {
        for (line, expected) in [
            ("PROXY UNKNOWN\r\n", Header::Unknown),
            ("PROXY UNKNOWN ffff::1 ffff::2 65535 65535\r\n", Header::Unknown),
            ("PROXY TCP4 1.2.3.4 5.6.7.8 9 10\r\n", client("1.2.3.4:9", None)),
            (
                "PROXY TCP4 255.255.255.255 255.255.255.255 65535 65535\r\n",
                client("255.255.255.255:65535", None),
            ),
            ("PROXY TCP6 2001:db8::1 ::1 56324 443\r\n", client("[2001:db8::1]:56324", None)),
            ("PROXY TCP6 :: :: 1 2\r\n", client("[::]:1", None)),
        ] {
            let stream = [line.as_bytes(), b"GET / HTTP/1.1\r\n"].concat();
            assert_eq!(read(&stream), Ok((expected, line.len())), "{line}");
        }
    }

    #[test]
    fn malformed_text_headers_are_refused() {
        for line in [
            "PROXY TCP4 1.2.3.4 5.6.7.8 9 10 11\r\n",
            "PROXY TCP4 1.2.3.4 5.6.7.8 9\r\n                 ",
            "PROXY TCP4 1.2.3.4 5.6.7.8 9 65536\r\n",
            "PROXY TCP4 1.2.3.4 5.6.7.8 09 10\r\n",
            "PROXY TCP4 1.2.3.4 5.6.7.8 +9 10\r\n",
            "PROXY TCP4 01.2.3.4 5.6.7.8 9 10\r\n",
            "PROXY TCP4 ::1 ::2 9 10\r\n            ",
            "PROXY TCP6 1.2.3.4 5.6.7.8 9 10\r\n",
            "PROXY TCP6 fe80::1%eth0 ::2 9 10\r\n",
            "PROXY TCP5 1.2.3.4 5.6.7.8 9 10\r\n",
            "PROXY  TCP4 1.2.3.4 5.6.7.8 9 10\r\n",
            "PROXY TCP4 1.2.3.4 5.6.7.8 9 10\n      ",
            "PROXY UNKNOWNX\r\n",
            &format!("PROXY UNKNOWN {}\r\n", "x".repeat(92)),
        ] {
            assert_eq!(read(line.as_bytes()), Err(HeaderError::Line), "{line}");
        }
        for other in ["GET / HTTP/1.1\r\nHost: a\r\n", "proxy TCP4 1.2.3.4 5", "\x16\x03\x01\x02\0\x01\0\x01"]
        {
            assert_eq!(read(other.as_bytes()), Err(HeaderError::Absent), "{other}");
        }
    }

    /// A header of version 2.
    fn binary(version_command: u8, family: u8, content: &[u8]) -> Vec<u8> {
        let length = u16::try_from(content.len()).unwrap().to_be_bytes();
        [&super::SIGNATURE[..], &[version_command, family], &length, content].concat()
    }

    const V4: [u8; 12] = [192, 0, 2, 1, 10, 0, 0, 1, 0x1f, 0x90, 1, 0xbb];

    #[test]
    fn binary_headers_are_read_with_their_extensions() {
        let v6 = [&[0x20, 1, 0x0d, 0xb8], &[0; 11][..], &[7], &[0; 16], &[0, 80, 1, 0xbb]].concat();
        let with = |extension: &[u8]| [&V4[..], extension].concat();
        for (command, family, content, expected) in [
            (0x21, 0x11, V4.to_vec(), client("192.0.2.1:8080", None)),
            (0x21, 0x21, v6, client("[2001:db8::7]:80", None)),
            (0x20, 0x00, Vec::new(), Header::Local),
            (0x20, 0x11, V4.to_vec(), Header::Local),
            (0x21, 0x00, Vec::new(), Header::Unknown),
            (0x21, 0x31, vec![0; 216], Header::Unknown),
            (0x21, 0x12, V4.to_vec(), Header::Unknown),
            (0x21, 0x11, with(&[0x04, 0, 2, 0, 0]), client("192.0.2.1:8080", None)),
            (0x21, 0x11, with(&[0x20, 0, 5, 1, 0, 0, 0, 0]), client("192.0.2.1:8080", Some(true))),
            (0x21, 0x11, with(&[0x20, 0, 5, 0, 0, 0, 0, 1]), client("192.0.2.1:8080", Some(false))),
        ] {
            let header = binary(command, family, &content);
            let stream = [&header[..], b"GET /"].concat();
            assert_eq!(read(&stream), Ok((expected, header.len())), "{header:?}");
        }
    }

    #[test]
    fn malformed_binary_headers_are_refused() {
        let with = |extension: &[u8]| [&V4[..], extension].concat();
        for (command, family, content) in [
            (0x11, 0x11, V4.to_vec()),
            (0x22, 0x11, V4.to_vec()),
            (0x21, 0x11, V4[..11].to_vec()),
            (0x21, 0x21, V4.to_vec()),
            (0x21, 0x41, V4.to_vec()),
            (0x21, 0x11, with(&[0x04, 0, 3, 0, 0])),
            (0x21, 0x11, with(&[0x04, 0])),
            (0x21, 0x11, with(&[0x20, 0, 4, 1, 0, 0, 0])),
            (0x21, 0x11, vec![0; 5000]),
        ] {
            let header = binary(command, family, &content);
            assert_eq!(read(&header), Err(HeaderError::Binary), "{command:x} {family:x}");
        }
    }

    fn header() -> impl Strategy<Value = (Vec<u8>, Header)> {
        let address = any::<(IpAddr, IpAddr, u16, u16)>()
            .prop_filter("one family", |(from, to, ..)| from.is_ipv4() == to.is_ipv4());
        prop_oneof![
            address.prop_map(|(from, to, from_port, to_port)| {
                let family = if from.is_ipv4() { "TCP4" } else { "TCP6" };
                let line = format!("PROXY {family} {from} {to} {from_port} {to_port}\r\n");
                let address = SocketAddr::new(from, from_port);
                (line.into_bytes(), Header::Client { address, is_secured: None })
            }),
            (any::<[u8; 12]>(), proptest::collection::vec(any::<u8>(), 0..300)).prop_map(
                |(v4, extension)| {
                    let length = (extension.len() as u16).to_be_bytes();
                    let content = [&v4[..], &[0xe0], &length, &extension].concat();
                    let [a, b, c, d, _, _, _, _, high, low, ..] = v4;
                    let address = SocketAddr::from(([a, b, c, d], u16::from_be_bytes([high, low])));
                    (binary(0x21, 0x11, &content), Header::Client { address, is_secured: None })
                }
            ),
            Just((binary(0x20, 0, &[]), Header::Local)),
        ]
    }

    proptest! {
        #[test]
        fn header_is_read_whole_and_no_byte_of_the_client((octets, expected) in header(), rest in any::<Vec<u8>>()) {
            let stream = [&octets[..], &rest].concat();
            prop_assert_eq!(read(&stream), Ok((expected, octets.len())));
        }

        #[test]
        fn arbitrary_bytes_never_panic(prefix in 0..3_usize, octets in any::<Vec<u8>>()) {
            let prefix: &[u8] = [&b""[..], b"PROXY TCP", &super::SIGNATURE][prefix];
            let stream = [prefix, &octets].concat();
            if let Ok((_, bytes)) = read(&stream) {
                prop_assert!(bytes <= stream.len());
            }
        }
    }
}
