//! The target of requests, parsed from a URL with the scheme `http` or `https`.
//!
//! Invariant: host and port are known. The path is in origin form (RFC 9112 section 3.2.1) without
//! spaces and control characters, because the URL parser percent-encodes them.

use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs as _};
use url::{Host, Url};

/// The host, port and path of a run's requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    url: Url,
    host: Host<String>,
    port: u16,
}

/// Why a URL is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// The text is not a URL.
    #[error("{url:?} is not a URL: {reason}")]
    Malformed {
        /// The text as given.
        url: String,
        /// The parser's reason.
        reason: String,
    },
    /// The text has no scheme.
    #[error("{0:?} is not a URL: it begins neither with http:// nor with https://; write http://{0}")]
    NoScheme(String),
    /// The scheme is not supported.
    #[error("{url:?}: the scheme {scheme} is not supported, only http and https are")]
    Scheme {
        /// The text as given.
        url: String,
        /// The scheme found.
        scheme: String,
    },
    /// The URL has no host.
    #[error("{0:?} has no host name; write http://HOST/PATH")]
    NoHost(String),
}

impl Target {
    /// Parses `http://HOST[:PORT]/PATH[?QUERY]`, or the same with `https`. A missing path is `/`; a
    /// fragment is not sent; a user name in the URL is ignored.
    ///
    /// # Errors
    /// If the text is no URL, has another scheme, or has no host.
    pub fn parse(text: &str) -> Result<Self, TargetError> {
        if !text.contains(":/") {
            return Err(TargetError::NoScheme(text.to_owned()));
        }
        let url = Url::parse(text)
            .map_err(|error| TargetError::Malformed { url: text.to_owned(), reason: error.to_string() })?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(TargetError::Scheme { url: text.to_owned(), scheme: url.scheme().to_owned() });
        }
        // Browsers take the first word of the path in `http:///path` as the host, and so does the
        // parser.
        let names_none = text.split_once(':').is_some_and(|(_, rest)| rest.starts_with("///"));
        let host = url.host().filter(|_| !names_none);
        let host = host.ok_or_else(|| TargetError::NoHost(text.to_owned()))?.to_owned();
        let port = url.port_or_known_default().unwrap_or_else(|| default_port(&url));
        Ok(Self { url, host, port })
    }

    /// Whether connections use TLS.
    pub fn is_secure(&self) -> bool {
        self.url.scheme() == "https"
    }

    /// The host without port; an IPv6 address has no brackets.
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

    /// The path and query, as in the request line.
    pub fn path(&self) -> &str {
        self.url.as_str().get(self.path_range()).unwrap_or("/")
    }

    /// The URL in absolute form (RFC 9112 section 3.2.2), without user name and fragment.
    pub fn absolute(&self) -> String {
        format!("{}://{}{}", self.url.scheme(), self.authority(), self.path())
    }

    /// The value of the `Host` field. A default port is left out (RFC 9110 section 7.2).
    pub fn authority(&self) -> String {
        if self.port == default_port(&self.url) {
            self.host.to_string()
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }

    /// Resolves the host to its addresses, in the system's order. Asks the system's resolver, which
    /// may take seconds.
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

/// The default port of the scheme (RFC 9110 sections 4.2.1 and 4.2.2).
fn default_port(url: &Url) -> u16 {
    if url.scheme() == "https" { 443 } else { 80 }
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
    fn host_port_and_path_are_parsed() {
        let target = target("http://example.test:8080/a/b?c=d#e");
        assert_eq!((target.host().as_str(), target.port()), ("example.test", 8080));
        assert_eq!((target.path(), target.authority().as_str()), ("/a/b?c=d", "example.test:8080"));
        assert_eq!(target.absolute(), "http://example.test:8080/a/b?c=d");
    }

    #[test]
    fn default_path_and_port_are_filled_in() {
        assert_eq!(target("http://example.test").path(), "/");
        assert_eq!(target("http://example.test?x").path(), "/?x");
        assert_eq!(target("http://example.test:80/").authority(), "example.test");
        let secure = target("https://example.test");
        assert_eq!(
            (secure.port(), secure.authority().as_str(), secure.is_secure()),
            (443, "example.test", true)
        );
        assert_eq!(Target::parse("https://u:p@h:443#e").unwrap().absolute(), "https://h/");
        assert_eq!(target("https://example.test:80/").authority(), "example.test:80");
    }

    #[test]
    fn ipv6_addresses_have_brackets_in_the_host_field_only() {
        let target = target("http://[::1]:8080/");
        assert_eq!((target.host().as_str(), target.authority().as_str()), ("::1", "[::1]:8080"));
        assert_eq!(target.resolve().unwrap(), ["[::1]:8080".parse().unwrap()]);
    }

    #[test]
    fn spaces_and_quotes_in_a_path_are_percent_encoded() {
        assert_eq!(target("http://h/a b\"?c d").path(), "/a%20b%22?c%20d");
    }

    #[test]
    fn refused_urls_name_the_reason() {
        let scheme = |text: &str| match Target::parse(text).unwrap_err() {
            TargetError::Scheme { scheme, .. } => scheme,
            other => panic!("{other}"),
        };
        assert_eq!(scheme("gopher://example.test/"), "gopher");
        assert_eq!(scheme("ftp://example.test/"), "ftp");
        for text in ["example", "127.0.0.1:8080", "localhost:8080/a", ""] {
            let error = Target::parse(text).unwrap_err();
            assert_eq!(error, TargetError::NoScheme(text.to_owned()));
            assert!(error.to_string().ends_with(&format!("try http://{text}")), "{error}");
        }
        assert!(matches!(Target::parse("http://a b/"), Err(TargetError::Malformed { .. })));
        assert!(matches!(Target::parse("http:///path"), Err(TargetError::NoHost(_))));
    }
}
