//! The URL of a page to examine, `http` or `https`.
//!
//! Invariant: host and port are known. The target is in origin-form (RFC 9112 section 3.2.1),
//! without spaces and control characters, because the URL parser percent-encodes them. No name is
//! resolved here.

use net::Address;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use url::{Host, Position, Url};

/// The URL of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SiteUrl {
    url: Url,
    host: Host<String>,
    port: u16,
}

/// Reasons why a text is not a [`SiteUrl`]. The messages say what to write.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SiteUrlError {
    /// The text is not a URL.
    #[error("`{url}` is not a URL ({reason}); write for example https://www.example.org/")]
    Malformed {
        /// The text as given.
        url: String,
        /// The parser's reason.
        reason: String,
    },
    /// The scheme is neither `http` nor `https`.
    #[error("`{0}` is not the URL of a web page; use http:// or https://")]
    Scheme(String),
    /// The URL contains a user name or password, which would not be sent.
    #[error("`{0}` has a user name; give -H 'Authorization: ...' in its place")]
    User(String),
}

impl SiteUrl {
    /// Parses `http[s]://HOST[:PORT]/PATH[?QUERY]`. A missing path becomes `/`; a fragment is
    /// dropped.
    ///
    /// # Errors
    /// [`SiteUrlError`].
    pub fn parse(text: &str) -> Result<Self, SiteUrlError> {
        let malformed = |reason: String| SiteUrlError::Malformed { url: text.to_owned(), reason };
        let mut url = Url::parse(text).map_err(|error| malformed(error.to_string()))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(SiteUrlError::Scheme(text.to_owned()));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(SiteUrlError::User(text.to_owned()));
        }
        let host = url.host().ok_or_else(|| malformed("it has no host name".to_owned()))?.to_owned();
        let port = url.port_or_known_default().ok_or_else(|| malformed("it has no port".to_owned()))?;
        url.set_fragment(None);
        Ok(Self { url, host, port })
    }

    /// Whether the scheme is `https`.
    pub fn is_https(&self) -> bool {
        self.url.scheme() == "https"
    }

    /// The address to connect to.
    pub fn address(&self) -> Address {
        match &self.host {
            Host::Domain(name) => Address::Host { name: name.clone(), port: self.port },
            Host::Ipv4(ip) => Address::Ip(SocketAddr::new(IpAddr::V4(*ip), self.port)),
            Host::Ipv6(ip) => Address::Ip(SocketAddr::new(IpAddr::V6(*ip), self.port)),
        }
    }

    /// The host without port. An IPv6 address has no brackets, as in certificates.
    pub fn host(&self) -> String {
        match &self.host {
            Host::Domain(name) => name.clone(),
            Host::Ipv4(ip) => ip.to_string(),
            Host::Ipv6(ip) => ip.to_string(),
        }
    }

    /// The value of the `Host` field. The scheme's default port is left out (RFC 9110 section 7.2).
    pub fn authority(&self) -> &str {
        &self.url[Position::BeforeHost..Position::AfterPort]
    }

    /// The path with its query, as in the request line.
    pub fn target(&self) -> &str {
        &self.url[Position::BeforePath..Position::AfterQuery]
    }

    /// The path without its query.
    pub fn path(&self) -> &str {
        self.url.path()
    }

    /// The target with `parameters` appended to its query.
    pub fn target_with(&self, parameters: &str) -> String {
        let separator = match self.url.query() {
            None => "?",
            Some("") => "",
            Some(_) => "&",
        };
        format!("{}{separator}{parameters}", self.target())
    }

    /// The absolute URL of `location`, relative to this page. `None` if it is not a URL.
    pub fn resolve(&self, location: &str) -> Option<String> {
        self.url.join(location).ok().map(String::from)
    }
}

impl fmt::Display for SiteUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.url.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::{SiteUrl, SiteUrlError};

    fn parse(text: &str) -> SiteUrl {
        SiteUrl::parse(text).unwrap()
    }

    #[test]
    fn parts_have_the_form_of_the_request() {
        let url = parse("HTTPS://WWW.Example.org/a b?q#part");
        assert_eq!((url.authority(), url.target(), url.path()), ("www.example.org", "/a%20b?q", "/a%20b"));
        assert_eq!(url.address().to_string(), "www.example.org:443");
        assert_eq!(url.to_string(), "https://www.example.org/a%20b?q");
        assert_eq!(parse("http://[::1]:8080").authority(), "[::1]:8080");
        assert_eq!(parse("https://[::1]/").host(), "::1");
        assert_eq!(parse("http://a:80/").authority(), "a");
        assert_eq!(parse("http://a:443/").authority(), "a:443");
    }

    #[test]
    fn parameters_are_appended_to_the_query() {
        assert_eq!(parse("http://a/b").target_with("x=1"), "/b?x=1");
        assert_eq!(parse("http://a/b?").target_with("x=1"), "/b?x=1");
        assert_eq!(parse("http://a/b?c").target_with("x=1"), "/b?c&x=1");
    }

    #[test]
    fn locations_are_resolved() {
        let url = parse("http://a/b/c");
        assert_eq!(url.resolve("/d").unwrap(), "http://a/d");
        assert_eq!(url.resolve("https://e/").unwrap(), "https://e/");
        assert_eq!(url.resolve("http://"), None);
    }

    #[test]
    fn unusable_urls_are_refused() {
        let error = |text: &str| SiteUrl::parse(text).unwrap_err();
        assert!(matches!(error("www.example.org"), SiteUrlError::Malformed { .. }));
        assert!(matches!(error("http://"), SiteUrlError::Malformed { .. }));
        assert!(matches!(error("http://a:70000/"), SiteUrlError::Malformed { .. }));
        assert!(matches!(error("ftp://a/"), SiteUrlError::Scheme(_)));
        assert!(matches!(error("http://u:p@a/"), SiteUrlError::User(_)));
    }
}
