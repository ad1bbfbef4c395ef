//! Version 2: a binary header (section 2.2).

use crate::{Header, HeaderError, Parsed, SIGNATURE};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

/// The bytes before the addresses.
const FIXED_BYTES: usize = 16;

/// The longest accepted content. The addresses take at most 216 bytes, and the extensions in use
/// some hundreds.
const CONTENT_BYTES_MAX: usize = 4096;

/// The extension about the client's TLS (section 2.2.5), the length of its fixed part, and the bit
/// that says that there is TLS.
const TLS_EXTENSION: u8 = 0x20;
const TLS_BYTES_MIN: usize = 5;
const TLS_USED: u8 = 0x01;

/// Parses bytes that begin with the signature.
pub(crate) fn parse(octets: &[u8]) -> Result<Parsed, HeaderError> {
    let fixed = octets.get(SIGNATURE.len()..).unwrap_or_default();
    let &[version_command, family, high, low, ref content @ ..] = fixed else {
        return Ok(Parsed::More(FIXED_BYTES - octets.len()));
    };
    let length = usize::from(u16::from_be_bytes([high, low]));
    if length > CONTENT_BYTES_MAX {
        return Err(HeaderError::Binary);
    }
    if content.len() < length {
        return Ok(Parsed::More(length - content.len()));
    }
    let header = match version_command {
        0x20 => Some(Header::Local),
        0x21 => client(family, content),
        _ => None,
    };
    header.map(Parsed::Header).ok_or(HeaderError::Binary)
}

/// The client of a header that was sent for one. `None`: the header is malformed.
fn client(family: u8, content: &[u8]) -> Option<Header> {
    let (address, extensions) = match family {
        // TCP over IPv4 and IPv6.
        0x11 => {
            let (addresses, extensions) = content.split_at_checked(12)?;
            let &[a, b, c, d, _, _, _, _, high, low, _, _] = addresses else { return None };
            (socket(Ipv4Addr::new(a, b, c, d).into(), high, low), extensions)
        }
        0x21 => {
            let (addresses, extensions) = content.split_at_checked(36)?;
            let (from, rest) = addresses.split_first_chunk::<16>()?;
            let (_, &[high, low, _, _]) = rest.split_first_chunk::<16>()? else { return None };
            (socket(Ipv6Addr::from(*from).into(), high, low), extensions)
        }
        // Unspecified, datagrams and Unix sockets: no address of a client of TCP.
        0x00 | 0x12 | 0x22 | 0x31 | 0x32 => return Some(Header::Unknown),
        _ => return None,
    };
    Some(Header::Client { address, is_secured: tls(extensions)? })
}

fn socket(from: std::net::IpAddr, high: u8, low: u8) -> SocketAddr {
    SocketAddr::new(from, u16::from_be_bytes([high, low]))
}

/// Whether the extensions say that the client uses TLS. `None`: they are malformed.
fn tls(mut extensions: &[u8]) -> Option<Option<bool>> {
    let mut is_secured = None;
    while !extensions.is_empty() {
        let &[kind, high, low, ref rest @ ..] = extensions else { return None };
        let (value, rest) = rest.split_at_checked(usize::from(u16::from_be_bytes([high, low])))?;
        if kind == TLS_EXTENSION {
            let flags = *value.first().filter(|_| value.len() >= TLS_BYTES_MIN)?;
            is_secured = Some(flags & TLS_USED != 0);
        }
        extensions = rest;
    }
    Some(is_secured)
}
