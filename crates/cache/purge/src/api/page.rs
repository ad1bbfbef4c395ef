//! Reads the URLs of pages, hosts and origins in calls of the API.
//!
//! A stored page is known by the target that its visitors sent, and clients of the API may spell
//! the same page otherwise. A URL therefore means two targets: as written, and as browsers write
//! it. Both count also with needless percent-encoding resolved (RFC 3986 section 6.2.2).

use crate::malformed::MalformedFault;
use bytes::Bytes;
use h1::Target;
use message::Method;
use url::Url;

/// The pages that a URL means: one host, in lower case and without a default port, and its targets.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct UrlPages {
    pub(super) https: bool,
    pub(super) host: Bytes,
    /// The targets, sorted and without duplicates; at least one.
    pub(super) targets: Vec<Bytes>,
}

impl UrlPages {
    /// Reads an absolute http or https URL. A fragment is ignored.
    pub(super) fn of(text: &str) -> Result<Self, MalformedFault> {
        let url = Url::parse(text).map_err(|error| MalformedFault::Url(format!("no URL: {error}")))?;
        let https = match url.scheme() {
            "http" => false,
            "https" => true,
            other => return Err(MalformedFault::Url(format!("expected http or https, found {other}"))),
        };
        if !url.username().is_empty() || url.password().is_some() {
            return Err(MalformedFault::Url("a URL of a page has no user name".to_owned()));
        }
        let host = url.host_str().unwrap_or_default();
        let host = url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"));
        let normal =
            url.query().map_or_else(|| url.path().to_owned(), |query| format!("{}?{query}", url.path()));
        let mut targets = vec![Bytes::from(normal)];
        targets.extend(as_written(text));
        let resolved: Vec<_> = targets.iter().map(|target| resolved(target)).collect();
        targets.extend(resolved);
        targets.sort_unstable();
        targets.dedup();
        Ok(Self { https, host: Bytes::from(host), targets })
    }
}

/// Reads a host name with or without a port. The result is spelled as in a normalised URL.
pub(super) fn host(text: &str) -> Result<Bytes, MalformedFault> {
    let fault = || MalformedFault::expected("a host name", text.as_bytes());
    // The URL parser would take text around these characters for another part of the URL.
    if text.contains(['/', '?', '#', '\\', '@']) {
        return Err(fault());
    }
    let pages = UrlPages::of(&format!("http://{text}/")).ok().filter(|pages| pages.targets == ["/"]);
    pages.map(|pages| pages.host).ok_or_else(fault)
}

/// The target of a URL as it was written; `None` if it cannot be sent in a request.
fn as_written(url: &str) -> Option<Bytes> {
    let without_fragment = url.split('#').next()?;
    let target = Target::split(&Method::Get, without_fragment.as_bytes()).ok()?.path_and_query;
    target.starts_with(b"/").then(|| Bytes::copy_from_slice(target))
}

/// The target with percent-encoded unreserved characters decoded, and with the other encodings in
/// upper case.
fn resolved(target: &[u8]) -> Bytes {
    let mut normal = Vec::with_capacity(target.len());
    let mut rest = target;
    loop {
        match *rest {
            [b'%', high, low, ref after @ ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                let octet = hex(high) << 4 | hex(low);
                if octet.is_ascii_alphanumeric() || b"-._~".contains(&octet) {
                    normal.push(octet);
                } else {
                    normal.extend([b'%', high.to_ascii_uppercase(), low.to_ascii_uppercase()]);
                }
                rest = after;
            }
            [octet, ref after @ ..] => {
                normal.push(octet);
                rest = after;
            }
            [] => return Bytes::from(normal),
        }
    }
}

/// A path segment, percent-decoded.
pub(super) fn decoded(segment: &[u8]) -> Bytes {
    let mut octets = Vec::with_capacity(segment.len());
    let mut rest = segment;
    loop {
        match *rest {
            [b'%', high, low, ref after @ ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                octets.push(hex(high) << 4 | hex(low));
                rest = after;
            }
            [octet, ref after @ ..] => {
                octets.push(octet);
                rest = after;
            }
            [] => return Bytes::from(octets),
        }
    }
}

/// The value of a hexadecimal digit; the caller has checked that it is one.
const fn hex(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        _ => (digit | 0x20) - b'a' + 10,
    }
}

#[cfg(test)]
mod tests {
    use super::{UrlPages, decoded, host};

    fn pages(url: &str) -> (String, Vec<String>) {
        let pages = UrlPages::of(url).unwrap_or_else(|fault| panic!("{url}: {fault}"));
        let text = |octets: &[u8]| octets.escape_ascii().to_string();
        (text(&pages.host), pages.targets.iter().map(|target| text(target)).collect())
    }

    #[test]
    fn url_means_every_spelling_of_its_page() {
        for (url, host, targets) in [
            ("https://www.example.com/foo/bar", "www.example.com", &["/foo/bar"][..]),
            ("HTTPS://www.Example.com:443/foo", "www.example.com", &["/foo"]),
            ("http://a.test:8080", "a.test:8080", &["/"]),
            ("http://a.test?b", "a.test", &["/?b"]),
            ("http://a.test/fo%6f/b%c3%bc", "a.test", &["/fo%6f/b%c3%bc", "/foo/b%C3%BC"]),
            ("http://a.test/x/../y?q=|", "a.test", &["/x/../y?q=|", "/y?q=|"]),
            ("http://bücher.test/ü?ü#frag", "xn--bcher-kva.test", &["/%C3%BC?%C3%BC"]),
            ("http://a.test/M*A*S*H#x", "a.test", &["/M*A*S*H"]),
            ("http://[2001:db8::1]:81/", "[2001:db8::1]:81", &["/"]),
        ] {
            assert_eq!(
                pages(url),
                (host.to_owned(), targets.iter().map(|&target| target.to_owned()).collect()),
                "{url}"
            );
        }
    }

    #[test]
    fn other_urls_are_refused_with_the_reason() {
        for (url, reason) in [
            ("/foo", "no URL: relative URL without a base"),
            ("ftp://a.test/", "expected http or https, found ftp"),
            ("http://u:p@a.test/", "a URL of a page has no user name"),
            ("http://", "no URL: empty host"),
        ] {
            assert_eq!(UrlPages::of(url).unwrap_err().to_string(), reason, "{url}");
        }
    }

    #[test]
    fn hosts_have_no_path_or_user_name() {
        assert_eq!(host("WWW.Example.com").unwrap(), "www.example.com");
        assert_eq!(host("a.test:8080").unwrap(), "a.test:8080");
        for wrong in ["", "a/b", "a?b", "u@a", "a b", "a#b", "http://a"] {
            assert!(host(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn segments_are_decoded() {
        assert_eq!(decoded(b"a%2Fb%zz%"), "a/b%zz%");
    }
}
