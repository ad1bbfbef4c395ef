//! An address to listen on or to connect to: `IP:PORT`, `NAME:PORT`, `:PORT` for all addresses, or
//! `unix:PATH`.
//!
//! Invariant: `FromStr` parses the text that `Display` writes. Nothing is resolved or opened here.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;
use url::Host;

/// An address to listen on or to connect to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Address {
    /// An IPv4 or IPv6 address and a port: `127.0.0.1:8080`, `[::1]:8080`.
    Ip(SocketAddr),
    /// A host name that is resolved each time a connection is made: `app.internal:8000`.
    Host {
        /// The name, in lower case.
        name: String,
        /// The TCP port.
        port: u16,
    },
    /// A Unix domain socket: `unix:/run/app.sock`.
    Unix(PathBuf),
}

/// Why a text is not an [`Address`]. The message says how to write one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// The text is empty.
    #[error("the address is empty; write IP:PORT, NAME:PORT or unix:PATH")]
    Empty,
    /// A host without a port.
    #[error("the address `{0}` has no port; write for example `{0}:8080`")]
    PortMissing(String),
    /// The text after the last colon is not a port.
    #[error("`{port}` in the address `{text}` is not a port; write a number from 0 to 65535")]
    PortInvalid {
        /// The whole address as given.
        text: String,
        /// The part that should be a port.
        port: String,
    },
    /// An IPv6 address without brackets, or brackets that do not contain one.
    #[error("the address `{0}` is not a valid IPv6 address with a port; write it as [::1]:8080")]
    Ipv6Invalid(String),
    /// A host name with invalid characters.
    #[error("`{name}` in the address `{text}` is not a host name; use letters, digits, `-`, `_` and `.`")]
    HostInvalid {
        /// The whole address as given.
        text: String,
        /// The part that should be a host name.
        name: String,
    },
    /// `unix:` without a path.
    #[error("`unix:` needs the path of a socket; write for example unix:/run/app.sock")]
    PathMissing,
    /// The path is longer than the system allows for a socket.
    #[error(
        "the socket path `{0}` is longer than the {SOCKET_PATH_BYTES_MAX} octets the system allows; \
         choose a shorter one"
    )]
    PathTooLong(PathBuf),
}

/// The maximum length of the path of a Unix socket in bytes: 108 on Linux, less the terminating
/// zero.
const SOCKET_PATH_BYTES_MAX: usize = 107;

impl Address {
    /// The address of a URL's host and port.
    pub fn of_host(host: &Host<impl AsRef<str>>, port: u16) -> Self {
        match host {
            Host::Domain(name) => Self::Host { name: name.as_ref().to_owned(), port },
            Host::Ipv4(ip) => Self::Ip((*ip, port).into()),
            Host::Ipv6(ip) => Self::Ip((*ip, port).into()),
        }
    }

    /// Whether only this machine can reach a listener at this address.
    pub fn is_loopback(&self) -> bool {
        match self {
            Self::Ip(address) => address.ip().to_canonical().is_loopback(),
            Self::Host { name, .. } => name == "localhost",
            Self::Unix(_) => true,
        }
    }

    /// The TCP port, if this is a TCP address.
    pub fn port(&self) -> Option<u16> {
        match self {
            Self::Ip(address) => Some(address.port()),
            Self::Host { port, .. } => Some(*port),
            Self::Unix(_) => None,
        }
    }

    /// Parses `HOST` or `HOST:PORT`. `default_port` applies if there is no port.
    ///
    /// # Errors
    /// See [`AddressError`].
    pub(crate) fn parse_authority(text: &str, default_port: Option<u16>) -> Result<Self, AddressError> {
        let (host, port) = split_port(text)?;
        let port = match (port, default_port) {
            (Some(port), _) => {
                let invalid = || AddressError::PortInvalid { text: text.to_owned(), port: port.to_owned() };
                // The parser of numbers also accepts a sign.
                if !port.bytes().all(|byte| byte.is_ascii_digit()) {
                    return Err(invalid());
                }
                port.parse().map_err(|_| invalid())?
            }
            (None, Some(port)) => port,
            (None, None) => return Err(AddressError::PortMissing(text.to_owned())),
        };
        if let Some(inside) = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
            let ip: Ipv6Addr = inside.parse().map_err(|_| AddressError::Ipv6Invalid(text.to_owned()))?;
            return Ok(Self::Ip(SocketAddr::new(IpAddr::V6(ip), port)));
        }
        if let Ok(ip) = host.parse::<IpAddr>() {
            return Ok(Self::Ip(SocketAddr::new(ip, port)));
        }
        if host.is_empty() || !host.bytes().all(is_host_name_byte) {
            return Err(AddressError::HostInvalid { text: text.to_owned(), name: host.to_owned() });
        }
        Ok(Self::Host { name: host.to_ascii_lowercase(), port })
    }
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        if text.is_empty() {
            return Err(AddressError::Empty);
        }
        let Some(path) = text.strip_prefix("unix:") else {
            // The IPv6 address `::` means all addresses of the machine: its socket accepts IPv4
            // too.
            let port = text.strip_prefix(':').filter(|port| !port.contains(':'));
            let everywhere = port.map(|port| format!("[::]:{port}"));
            return Self::parse_authority(everywhere.as_deref().unwrap_or(text), None);
        };
        match path.len() {
            0 => Err(AddressError::PathMissing),
            bytes if bytes > SOCKET_PATH_BYTES_MAX => Err(AddressError::PathTooLong(path.into())),
            _ => Ok(Self::Unix(path.into())),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(address) => address.fmt(f),
            Self::Host { name, port } => write!(f, "{name}:{port}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl From<SocketAddr> for Address {
    fn from(address: SocketAddr) -> Self {
        Self::Ip(address)
    }
}

/// Splits `HOST:PORT` at the colon that introduces the port; an IPv6 address must be in brackets.
fn split_port(text: &str) -> Result<(&str, Option<&str>), AddressError> {
    if text.starts_with('[') {
        let invalid = || AddressError::Ipv6Invalid(text.to_owned());
        let (host, after) = text.split_at(text.find(']').ok_or_else(invalid)? + 1);
        return match after.strip_prefix(':') {
            Some(port) => Ok((host, Some(port))),
            None if after.is_empty() => Ok((host, None)),
            None => Err(invalid()),
        };
    }
    match text.split_once(':') {
        Some((_, rest)) if rest.contains(':') => Err(AddressError::Ipv6Invalid(text.to_owned())),
        Some((host, port)) => Ok((host, Some(port))),
        None => Ok((text, None)),
    }
}

fn is_host_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.')
}

#[cfg(test)]
mod tests {
    use super::{Address, AddressError};

    #[test]
    fn display_and_parsing_round_trip() {
        for text in ["127.0.0.1:8080", "[::1]:8080", "app.internal:80", "unix:/run/app.sock", "unix:app.sock"]
        {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
        }
        assert_eq!("LocalHost:1".parse::<Address>().unwrap().to_string(), "localhost:1");
    }

    #[test]
    fn errors_name_the_wrong_part() {
        let error = |text: &str| text.parse::<Address>().unwrap_err();
        assert_eq!(error(""), AddressError::Empty);
        assert_eq!(error("127.0.0.1"), AddressError::PortMissing("127.0.0.1".into()));
        assert_eq!(error("::1:8080"), AddressError::Ipv6Invalid("::1:8080".into()));
        assert_eq!(error("[::1]8080"), AddressError::Ipv6Invalid("[::1]8080".into()));
        assert_eq!(error("[::1"), AddressError::Ipv6Invalid("[::1".into()));
        assert!(matches!(error("a:65536"), AddressError::PortInvalid { .. }));
        assert!(matches!(error("a:+80"), AddressError::PortInvalid { .. }));
        assert!(matches!(error("a:"), AddressError::PortInvalid { .. }));
        assert_eq!(":8080".parse::<Address>(), "[::]:8080".parse());
        assert!(matches!(error("a b:8080"), AddressError::HostInvalid { .. }));
        assert!(matches!(error("http://a:80"), AddressError::Ipv6Invalid(_)));
        assert_eq!(error("unix:"), AddressError::PathMissing);
        assert!(matches!(error(&format!("unix:/{}", "a".repeat(107))), AddressError::PathTooLong(_)));
    }

    #[test]
    fn loopback_addresses_are_recognised() {
        for (text, loopback) in [
            ("127.0.0.1:1", true),
            ("[::1]:1", true),
            ("[::ffff:127.0.0.1]:1", true),
            ("localhost:1", true),
            ("unix:/a", true),
            ("0.0.0.0:1", false),
            ("[::]:1", false),
            ("10.0.0.1:1", false),
        ] {
            assert_eq!(text.parse::<Address>().unwrap().is_loopback(), loopback, "{text}");
        }
    }
}
