//! The notation for an origin: `http://HOST[:PORT]`, `https://HOST[:PORT]` or `unix:PATH`.
//!
//! Invariant: a value is an address, and says whether connections to it use TLS. A text with
//! anything else, such as a path or a user name, is refused with a message that says how to write
//! it.

use crate::{Address, AddressError};
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// The URL of an origin, without a path: requests are forwarded with their own target.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct OriginUrl {
    address: Address,
    is_https: bool,
}

/// The default ports of the two schemes.
const HTTP_PORT: u16 = 80;
const HTTPS_PORT: u16 = 443;

/// Why a text is not an [`OriginUrl`]. The message says how to write one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OriginUrlError {
    /// Another scheme, or none.
    #[error(
        "the origin `{0}` is neither an http:// nor an https:// URL; \
         write for example http://127.0.0.1:8000 or unix:/run/app.sock"
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

    /// Whether connections to the origin use TLS.
    pub fn is_https(&self) -> bool {
        self.is_https
    }

    /// The host name or the IP address, without brackets; `localhost` for a Unix socket.
    pub fn host(&self) -> String {
        match &self.address {
            Address::Ip(address) => address.ip().to_string(),
            Address::Host { name, .. } => name.clone(),
            Address::Unix(_) => "localhost".to_owned(),
        }
    }

    /// The authority for the `Host` field of a request that the edge makes itself, such as a health
    /// check. It has no port if the port is the scheme's default, and is `localhost` for a Unix
    /// socket.
    pub fn authority(&self) -> String {
        match &self.address {
            Address::Ip(address) if address.port() == self.default_port() => match address.ip() {
                IpAddr::V4(ip) => ip.to_string(),
                IpAddr::V6(ip) => format!("[{ip}]"),
            },
            Address::Host { name, port } if *port == self.default_port() => name.clone(),
            Address::Ip(_) | Address::Host { .. } => self.address.to_string(),
            Address::Unix(_) => "localhost".to_owned(),
        }
    }

    const fn default_port(&self) -> u16 {
        if self.is_https { HTTPS_PORT } else { HTTP_PORT }
    }
}

impl FromStr for OriginUrl {
    type Err = OriginUrlError;

    fn from_str(text: &str) -> Result<Self, OriginUrlError> {
        let as_address = |error| OriginUrlError::Address { url: text.to_owned(), error };
        if text.starts_with("unix:") {
            return Ok(Self { address: text.parse().map_err(as_address)?, is_https: false });
        }
        let Some((scheme, rest)) = text.split_once("://") else {
            return Err(OriginUrlError::Scheme(text.to_owned()));
        };
        let (is_https, port) = match &*scheme.to_ascii_lowercase() {
            "http" => (false, HTTP_PORT),
            "https" => (true, HTTPS_PORT),
            _ => return Err(OriginUrlError::Scheme(text.to_owned())),
        };
        let authority = rest.strip_suffix('/').unwrap_or(rest);
        if authority.contains(['/', '?', '#', '@']) {
            return Err(OriginUrlError::Path(text.to_owned()));
        }
        let address = Address::parse_authority(authority, Some(port)).map_err(as_address)?;
        Ok(Self { address, is_https })
    }
}

impl fmt::Display for OriginUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.address {
            Address::Unix(_) => self.address.fmt(f),
            Address::Ip(_) | Address::Host { .. } if self.is_https => write!(f, "https://{}", self.address),
            Address::Ip(_) | Address::Host { .. } => write!(f, "http://{}", self.address),
        }
    }
}

impl From<Address> for OriginUrl {
    /// The origin at this address, without TLS.
    fn from(address: Address) -> Self {
        Self { address, is_https: false }
    }
}

#[cfg(test)]
mod tests {
    use super::{OriginUrl, OriginUrlError};

    fn parse(text: &str) -> OriginUrl {
        text.parse().unwrap()
    }

    #[test]
    fn port_follows_from_the_scheme_by_default() {
        assert_eq!(parse("http://127.0.0.1").to_string(), "http://127.0.0.1:80");
        assert_eq!(parse("HTTP://App:8000/").to_string(), "http://app:8000");
        assert_eq!(parse("http://[::1]:8000").to_string(), "http://[::1]:8000");
        assert_eq!(parse("unix:/run/app.sock").to_string(), "unix:/run/app.sock");
        assert_eq!(parse("https://[2001:db8::1]").to_string(), "https://[2001:db8::1]:443");
        assert_eq!(parse("HTTPS://App/").to_string(), "https://app:443");
    }

    #[test]
    fn only_https_uses_tls_and_names_its_host() {
        assert!(parse("https://app:8443").is_https());
        assert!(!parse("http://app:443").is_https() && !parse("unix:/a").is_https());
        let hosts =
            ["https://app:8443", "https://[::1]", "https://192.0.2.1:1"].map(|text| parse(text).host());
        assert_eq!(hosts, ["app", "::1", "192.0.2.1"]);
    }

    #[test]
    fn authority_omits_the_default_port() {
        assert_eq!(parse("http://127.0.0.1:80").authority(), "127.0.0.1");
        assert_eq!(parse("http://[::1]").authority(), "[::1]");
        assert_eq!(parse("http://app:81").authority(), "app:81");
        assert_eq!(parse("https://app").authority(), "app");
        assert_eq!(parse("https://[::1]:443").authority(), "[::1]");
        assert_eq!(parse("https://app:80").authority(), "app:80");
        assert_eq!(parse("http://app:443").authority(), "app:443");
        assert_eq!(parse("unix:/a").authority(), "localhost");
    }

    #[test]
    fn unsupported_urls_are_refused() {
        let error = |text: &str| text.parse::<OriginUrl>().unwrap_err();
        assert!(matches!(error("127.0.0.1:80"), OriginUrlError::Scheme(_)));
        assert!(matches!(error("ftp://a"), OriginUrlError::Scheme(_)));
        assert!(matches!(error("http://a/b"), OriginUrlError::Path(_)));
        assert!(matches!(error("http://u:p@a"), OriginUrlError::Path(_)));
        assert!(matches!(error("http://"), OriginUrlError::Address { .. }));
        assert!(matches!(error("http://a:x"), OriginUrlError::Address { .. }));
    }
}
