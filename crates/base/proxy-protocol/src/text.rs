//! Version 1: one line of text (section 2.1).

use crate::{Header, HeaderError, Parsed};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The beginning of the line.
pub(crate) const PREFIX: &[u8] = b"PROXY ";

/// The longest line, including its end.
const LINE_BYTES_MAX: usize = 107;

/// The shortest line with IPv4 addresses: `PROXY TCP4 0.0.0.0 0.0.0.0 0 0\r\n`.
const IPV4_BYTES_MIN: usize = 32;

/// The shortest line with IPv6 addresses: `PROXY TCP6 :: :: 0 0\r\n`.
const IPV6_BYTES_MIN: usize = 22;

/// Parses at least the shortest line.
pub(crate) fn parse(octets: &[u8]) -> Result<Parsed, HeaderError> {
    if let Some(line) = octets.strip_suffix(b"\r\n") {
        return fields(line).map(Parsed::Header);
    }
    if octets.len() >= LINE_BYTES_MAX || octets.contains(&b'\n') {
        return Err(HeaderError::Line);
    }
    let rest = octets.get(PREFIX.len()..).unwrap_or_default();
    let least = match rest {
        [b'T', b'C', b'P', b'4', ..] => IPV4_BYTES_MIN,
        [b'T', b'C', b'P', b'6', ..] => IPV6_BYTES_MIN,
        _ => 0,
    };
    let ending = if octets.ends_with(b"\r") { 1 } else { 2 };
    Ok(Parsed::More(least.saturating_sub(octets.len()).max(ending)))
}

/// Parses a line without its end.
fn fields(line: &[u8]) -> Result<Header, HeaderError> {
    let text = std::str::from_utf8(line).map_err(|_| HeaderError::Line)?;
    let parts: Vec<&str> = text.split(' ').collect();
    let client = match parts[..] {
        ["PROXY", "UNKNOWN", ..] => return Ok(Header::Unknown),
        ["PROXY", "TCP4", from, to, from_port, to_port] => {
            let both = from.parse::<Ipv4Addr>().ok().zip(to.parse::<Ipv4Addr>().ok());
            client(both.map(|(from, _)| from.into()), from_port, to_port)
        }
        ["PROXY", "TCP6", from, to, from_port, to_port] => {
            let both = from.parse::<Ipv6Addr>().ok().zip(to.parse::<Ipv6Addr>().ok());
            client(both.map(|(from, _)| from.into()), from_port, to_port)
        }
        _ => None,
    };
    client.ok_or(HeaderError::Line)
}

fn client(from: Option<IpAddr>, from_port: &str, to_port: &str) -> Option<Header> {
    port(to_port)?;
    let address = SocketAddr::new(from?, port(from_port)?);
    Some(Header::Client { address, is_secured: None })
}

/// A port in its shortest form.
fn port(text: &str) -> Option<u16> {
    text.parse().ok().filter(|port: &u16| port.to_string() == text)
}
