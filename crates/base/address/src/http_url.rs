//! The URL of a page, with the scheme `http` or `https`.
//!
//! Invariant: host and port are known, and there is no user name and no fragment. The path is in
//! origin form (RFC 9112 section 3.2.1) without spaces and control characters, because the URL
//! parser percent-encodes them.

use crate::Address;
use std::fmt;
use url::{Host, Position, Url};

/// The URL of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpUrl {
    url: Url,
    host: Host<String>,
    port: u16,
}

/// Why a text is not an [`HttpUrl`]. The message says how to write one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HttpUrlError {
    /// The text is not a URL.
    #[error("`{url}` is not a URL ({reason}); write for example http://127.0.0.1:8080/")]
    Malformed {
        /// The text as given.
        url: String,
        /// The parser's reason.
        reason: String,
    },
    /// The text has no scheme.
    #[error("`{0}` is not a URL: it begins neither with http:// nor with https://; write http://{0}")]
    NoScheme(String),
    /// The scheme is not supported.
    #[error("`{url}` has the scheme {scheme}; use http:// or https://")]
    Scheme {
        /// The text as given.
        url: String,
        /// The scheme found.
        scheme: String,
    },
    /// The URL has no host.
    #[error("`{0}` has no host name; write http://HOST/PATH")]
    NoHost(String),
    /// The URL contains a user name or password, which would not be sent.
    #[error("`{0}` has a user name; give -H 'Authorization: ...' in its place")]
    User(String),
}

impl HttpUrl {
    /// Parses `http://HOST[:PORT]/PATH[?QUERY]`, or the same with `https`. A missing path becomes
    /// `/`; a fragment is dropped, because it is never sent.
    ///
    /// # Errors
    /// [`HttpUrlError`].
    pub fn parse(text: &str) -> Result<Self, HttpUrlError> {
        if !text.contains(":/") {
            return Err(HttpUrlError::NoScheme(text.to_owned()));
        }
        let mut url = Url::parse(text)
            .map_err(|error| HttpUrlError::Malformed { url: text.to_owned(), reason: error.to_string() })?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(HttpUrlError::Scheme { url: text.to_owned(), scheme: url.scheme().to_owned() });
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(HttpUrlError::User(text.to_owned()));
        }
        // Browsers take the first word of the path in `http:///path` as the host, and so does the
        // parser.
        let names_none = text.split_once(':').is_some_and(|(_, rest)| rest.starts_with("///"));
        let host = if names_none { None } else { url.host().map(|host| host.to_owned()) };
        let (Some(host), Some(port)) = (host, url.port_or_known_default()) else {
            return Err(HttpUrlError::NoHost(text.to_owned()));
        };
        url.set_fragment(None);
        Ok(Self { url, host, port })
    }

    /// Whether the scheme is `https`.
    pub fn is_https(&self) -> bool {
        self.url.scheme() == "https"
    }

    /// The address to connect to.
    pub fn address(&self) -> Address {
        Address::of_host(&self.host, self.port)
    }

    /// The host without port. An IPv6 address has no brackets, as in certificates.
    pub fn host(&self) -> String {
        match &self.host {
            Host::Domain(name) => name.clone(),
            Host::Ipv4(ip) => ip.to_string(),
            Host::Ipv6(ip) => ip.to_string(),
        }
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The value of the `Host` field. The scheme's default port is left out (RFC 9110 section 7.2).
    pub fn authority(&self) -> &str {
        &self.url[Position::BeforeHost..Position::AfterPort]
    }

    /// The path without its query.
    pub fn path(&self) -> &str {
        self.url.path()
    }

    /// The path and query, as in the request line.
    pub fn path_and_query(&self) -> &str {
        &self.url[Position::BeforePath..Position::AfterQuery]
    }

    /// The path and query, with `parameters` appended to the query.
    pub fn with_parameters(&self, parameters: &str) -> String {
        let separator = match self.url.query() {
            None => "?",
            Some("") => "",
            Some(_) => "&",
        };
        format!("{}{separator}{parameters}", self.path_and_query())
    }

    /// The absolute URL of `location`, relative to this page. `None` if it is not a URL.
    pub fn join(&self, location: &str) -> Option<String> {
        self.url.join(location).ok().map(String::from)
    }

    /// The URL in absolute form (RFC 9112 section 3.2.2).
    pub fn as_str(&self) -> &str {
        self.url.as_str()
    }

    /// The URL for code that changes its parts.
    pub fn into_url(self) -> Url {
        self.url
    }
}

impl fmt::Display for HttpUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.url.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::{HttpUrl, HttpUrlError};

    fn parse(text: &str) -> HttpUrl {
        HttpUrl::parse(text).unwrap()
    }

    #[test]
    fn parts_have_the_form_of_the_request() {
        let url = parse("HTTPS://WWW.Example.org/a b?q#part");
        assert_eq!((url.authority(), url.path()), ("www.example.org", "/a%20b"));
        assert_eq!((url.path_and_query(), url.as_str()), ("/a%20b?q", "https://www.example.org/a%20b?q"));
        assert_eq!(url.to_string(), url.as_str());
        assert_eq!(url.address().to_string(), "www.example.org:443");
        let url = parse("http://example.test:8080/a/b?c=d#e");
        assert_eq!((url.host().as_str(), url.port(), url.is_https()), ("example.test", 8080, false));
        assert_eq!(url.as_str(), "http://example.test:8080/a/b?c=d");
    }

    #[test]
    fn default_path_and_port_are_filled_in() {
        assert_eq!(parse("http://example.test").path_and_query(), "/");
        assert_eq!(parse("http://example.test?x").path_and_query(), "/?x");
        assert_eq!((parse("https://a").port(), parse("https://a").is_https()), (443, true));
        assert_eq!(parse("https://h:443#e").as_str(), "https://h/");
    }

    #[test]
    fn authority_omits_the_default_port_of_the_scheme_only() {
        assert_eq!(parse("http://a:80/").authority(), "a");
        assert_eq!(parse("http://a:443/").authority(), "a:443");
        assert_eq!(parse("https://a:80/").authority(), "a:80");
    }

    #[test]
    fn ipv6_addresses_have_brackets_in_the_host_field_only() {
        let url = parse("http://[::1]:8080/");
        assert_eq!((url.host().as_str(), url.authority()), ("::1", "[::1]:8080"));
        assert_eq!(url.address(), "[::1]:8080".parse().unwrap());
    }

    #[test]
    fn spaces_and_quotes_in_a_path_are_percent_encoded() {
        assert_eq!(parse("http://h/a b\"?c d").path_and_query(), "/a%20b%22?c%20d");
    }

    #[test]
    fn parameters_are_appended_to_the_query() {
        assert_eq!(parse("http://a/b").with_parameters("x=1"), "/b?x=1");
        assert_eq!(parse("http://a/b?").with_parameters("x=1"), "/b?x=1");
        assert_eq!(parse("http://a/b?c").with_parameters("x=1"), "/b?c&x=1");
    }

    #[test]
    fn locations_are_resolved() {
        let url = parse("http://a/b/c");
        assert_eq!(url.join("/d").unwrap(), "http://a/d");
        assert_eq!(url.join("https://e/").unwrap(), "https://e/");
        assert_eq!(url.join("http://"), None);
    }

    #[test]
    fn refused_urls_name_the_reason() {
        let error = |text: &str| HttpUrl::parse(text).unwrap_err();
        for text in ["example", "127.0.0.1:8080", "localhost:8080/a", ""] {
            assert_eq!(error(text), HttpUrlError::NoScheme(text.to_owned()));
            assert!(error(text).to_string().ends_with(&format!("write http://{text}")), "{text}");
        }
        for (text, found) in [("gopher://a/", "gopher"), ("ftp://a/", "ftp")] {
            let expected = HttpUrlError::Scheme { url: text.to_owned(), scheme: found.to_owned() };
            assert_eq!(error(text), expected);
        }
        for text in ["http://a b/", "http://", "http://a:70000/"] {
            assert!(matches!(error(text), HttpUrlError::Malformed { .. }), "{text}");
        }
        assert!(matches!(error("http:///path"), HttpUrlError::NoHost(_)));
        assert!(matches!(error("http://u:p@a/"), HttpUrlError::User(_)));
        assert!(matches!(error("https://u@a/"), HttpUrlError::User(_)));
    }
}
