//! Where a run's requests go, parsed from a URL. Only `http` so far; anything else is refused by name.
//!
//! Invariant: host and port are known, and the path is in origin form (RFC 9112 section 3.2.1), free of
//! spaces and control characters, because the URL parser percent-encodes them.

use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs as _};
use url::{Host, Url};

/// The address and the path of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    url: Url,
    host: Host<String>,
    port: u16,
}

/// What is wrong with a URL.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// No URL at all.
    #[error("{url:?} is not a URL: {reason}")]
    Malformed {
        /// The text as given.
        url: String,
        /// The parser's reason.
        reason: String,
    },
    /// A scheme this program does not speak.
    #[error("{url:?}: the scheme {scheme} is not supported, only http is")]
    Scheme {
        /// The text as given.
        url: String,
        /// The scheme found.
        scheme: String,
    },
    /// A URL that names no host.
    #[error("{0:?} names no host")]
    NoHost(String),
}

impl Target {
    /// Reads `http://HOST[:PORT]/PATH[?QUERY]`. A missing path is `/`; a fragment is not sent; a user name in
    /// the URL is not used.
    ///
    /// # Errors
    /// When the text is no URL, its scheme is not `http`, or it names no host.
    pub fn parse(text: &str) -> Result<Self, TargetError> {
        let url = Url::parse(text)
            .map_err(|error| TargetError::Malformed { url: text.to_owned(), reason: error.to_string() })?;
        if url.scheme() != "http" {
            return Err(TargetError::Scheme { url: text.to_owned(), scheme: url.scheme().to_owned() });
        }
        let host = url.host().ok_or_else(|| TargetError::NoHost(text.to_owned()))?.to_owned();
        let port = url.port_or_known_default().unwrap_or(80);
        Ok(Self { url, host, port })
    }

    /// The host without port; an IPv6 address without brackets.
    pub fn host(&self) -> String {
        match &self.host {
            Host::Domain(name) => name.clone(),
            Host::Ipv4(address) => address.to_string(),
            Host::Ipv6(address) => address.to_string(),
        }
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The path with its query, as it stands in the request line.
    pub fn path(&self) -> &str {
        self.url.as_str().get(self.path_range()).unwrap_or("/")
    }

    /// The value of the `Host` field: the port is left out when it is the default (RFC 9110 section 7.2).
    pub fn authority(&self) -> String {
        if self.port == 80 { self.host.to_string() } else { format!("{}:{}", self.host, self.port) }
    }

    /// The addresses the host has, in the system's order; asks the resolver, which may take seconds.
    ///
    /// # Errors
    /// As the system reports them.
    pub fn resolve(&self) -> std::io::Result<Vec<SocketAddr>> {
        match &self.host {
            Host::Ipv4(address) => Ok(vec![SocketAddr::from((*address, self.port))]),
            Host::Ipv6(address) => Ok(vec![SocketAddr::from((*address, self.port))]),
            Host::Domain(name) => Ok((name.as_str(), self.port).to_socket_addrs()?.collect()),
        }
    }

    fn path_range(&self) -> std::ops::Range<usize> {
        use url::Position::{AfterQuery, BeforePath};
        let before = self.url.as_str().len() - self.url[BeforePath..].len();
        before..before + self.url[BeforePath..AfterQuery].len()
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.url.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::{Target, TargetError};

    fn target(text: &str) -> Target {
        Target::parse(text).unwrap()
    }

    #[test]
    fn host_port_and_path_are_told_apart() {
        let target = target("http://example.test:8080/a/b?c=d#e");
        assert_eq!((target.host().as_str(), target.port()), ("example.test", 8080));
        assert_eq!((target.path(), target.authority().as_str()), ("/a/b?c=d", "example.test:8080"));
    }

    #[test]
    fn defaults_are_filled_in() {
        assert_eq!(target("http://example.test").path(), "/");
        assert_eq!(target("http://example.test?x").path(), "/?x");
        assert_eq!(target("http://example.test:80/").authority(), "example.test");
    }

    #[test]
    fn ipv6_addresses_keep_brackets_only_where_they_belong() {
        let target = target("http://[::1]:8080/");
        assert_eq!((target.host().as_str(), target.authority().as_str()), ("::1", "[::1]:8080"));
        assert_eq!(target.resolve().unwrap(), ["[::1]:8080".parse().unwrap()]);
    }

    #[test]
    fn the_request_line_cannot_be_broken_by_the_url() {
        assert_eq!(target("http://h/a b\"?c d").path(), "/a%20b%22?c%20d");
    }

    #[test]
    fn what_is_not_supported_is_named() {
        let scheme = |text: &str| match Target::parse(text).unwrap_err() {
            TargetError::Scheme { scheme, .. } => scheme,
            other => panic!("{other}"),
        };
        assert_eq!(scheme("https://example.test/"), "https");
        assert_eq!(scheme("ftp://example.test/"), "ftp");
        assert!(matches!(Target::parse("example"), Err(TargetError::Malformed { .. })));
    }
}
