//! The notation for an origin: `http://HOST[:PORT]` or `unix:PATH`.
//!
//! Invariant: a value is an address for connections without TLS. A text with anything else, such as
//! https, a path or a user name, is refused with a message that says how to write it.

use crate::{Address, AddressError};
use std::fmt;
use std::str::FromStr;

/// The URL of an origin, without a path: requests are forwarded with their own target.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct OriginUrl {
    address: Address,
}

/// Why a text is not an [`OriginUrl`]. The message says how to write one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OriginUrlError {
    /// The scheme is `https://`.
    #[error(
        "the origin `{0}` asks for https, which Petasos does not speak to origins; \
         use the application's http:// address, or put a local TLS client such as stunnel between them"
    )]
    Https(String),
    /// Another scheme, or none.
    #[error(
        "the origin `{0}` is not an http:// URL; write for example http://127.0.0.1:8000 or unix:/run/app.sock"
    )]
    Scheme(String),
    /// There is more text after the host and the port.
    #[error("the origin `{0}` has more than a host and a port; leave out what follows them")]
    Path(String),
    /// The host and port, or the path of the socket, are not a valid address.
    #[error("the origin `{url}`: {error}")]
    Address {
        /// The text as given.
        url: String,
        /// The error in the address.
        error: AddressError,
    },
}

impl OriginUrl {
    /// The address to connect to.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// The authority for the `Host` field of a request that the edge makes itself, such as a health
    /// check. It has no port if the port is 80, and is `localhost` for a Unix socket.
    pub fn authority(&self) -> String {
        match &self.address {
            Address::Ip(address) if address.port() == 80 && address.is_ipv6() => {
                format!("[{}]", address.ip())
            }
            Address::Ip(address) if address.port() == 80 => address.ip().to_string(),
            Address::Host { name, port: 80 } => name.clone(),
            Address::Ip(_) | Address::Host { .. } => self.address.to_string(),
            Address::Unix(_) => "localhost".to_owned(),
        }
    }
}

impl FromStr for OriginUrl {
    type Err = OriginUrlError;

    fn from_str(text: &str) -> Result<Self, OriginUrlError> {
        let as_address = |error| OriginUrlError::Address { url: text.to_owned(), error };
        if text.starts_with("unix:") {
            return Ok(Self { address: text.parse().map_err(as_address)? });
        }
        let Some((scheme, rest)) = text.split_once("://") else {
            return Err(OriginUrlError::Scheme(text.to_owned()));
        };
        if scheme.eq_ignore_ascii_case("https") {
            return Err(OriginUrlError::Https(text.to_owned()));
        }
        if !scheme.eq_ignore_ascii_case("http") {
            return Err(OriginUrlError::Scheme(text.to_owned()));
        }
        let authority = rest.strip_suffix('/').unwrap_or(rest);
        if authority.contains(['/', '?', '#', '@']) {
            return Err(OriginUrlError::Path(text.to_owned()));
        }
        let address = Address::parse_authority(authority, Some(80)).map_err(as_address)?;
        Ok(Self { address })
    }
}

impl fmt::Display for OriginUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.address {
            Address::Unix(_) => self.address.fmt(f),
            Address::Ip(_) | Address::Host { .. } => write!(f, "http://{}", self.address),
        }
    }
}

impl From<Address> for OriginUrl {
    fn from(address: Address) -> Self {
        Self { address }
    }
}

#[cfg(test)]
mod tests {
    use super::{OriginUrl, OriginUrlError};

    fn parse(text: &str) -> OriginUrl {
        text.parse().unwrap()
    }

    #[test]
    fn port_is_80_by_default() {
        assert_eq!(parse("http://127.0.0.1").to_string(), "http://127.0.0.1:80");
        assert_eq!(parse("HTTP://App:8000/").to_string(), "http://app:8000");
        assert_eq!(parse("http://[::1]:8000").to_string(), "http://[::1]:8000");
        assert_eq!(parse("unix:/run/app.sock").to_string(), "unix:/run/app.sock");
    }

    #[test]
    fn authority_omits_the_default_port() {
        assert_eq!(parse("http://127.0.0.1:80").authority(), "127.0.0.1");
        assert_eq!(parse("http://[::1]").authority(), "[::1]");
        assert_eq!(parse("http://app:81").authority(), "app:81");
        assert_eq!(parse("unix:/a").authority(), "localhost");
    }

    #[test]
    fn unsupported_urls_are_refused() {
        let error = |text: &str| text.parse::<OriginUrl>().unwrap_err();
        assert!(matches!(error("https://a"), OriginUrlError::Https(_)));
        assert!(matches!(error("127.0.0.1:80"), OriginUrlError::Scheme(_)));
        assert!(matches!(error("ftp://a"), OriginUrlError::Scheme(_)));
        assert!(matches!(error("http://a/b"), OriginUrlError::Path(_)));
        assert!(matches!(error("http://u:p@a"), OriginUrlError::Path(_)));
        assert!(matches!(error("http://"), OriginUrlError::Address { .. }));
        assert!(matches!(error("http://a:x"), OriginUrlError::Address { .. }));
    }
}
