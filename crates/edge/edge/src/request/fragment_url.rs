//! The hosts and targets of fragments.
//!
//! Invariants: a fragment is a page of the host whose page includes it, or of a listed host, which
//! is a site of the configuration. No name is resolved, and no other address is reached. A target
//! has no byte that could end a request line or a field.

use std::borrow::Cow;

/// Where a fragment is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FragmentAddress<'h> {
    /// The host of another site. `None`: the host of the page.
    pub(crate) other_host: Option<&'h str>,
    /// The target in origin-form.
    pub(crate) target: Vec<u8>,
}

impl FragmentAddress<'_> {
    const fn of_page(target: Vec<u8>) -> Self {
        Self { other_host: None, target }
    }
}

/// The address of the fragment with this URL, which may be relative to the target of the page that
/// includes it. `host` is that page's host, and `listed` are the hosts whose pages it may include
/// too. `None`: no fragment may have this URL.
pub(crate) fn address_of<'h>(
    url: &[u8],
    (host, listed): (&[u8], &'h [String]),
    page: &[u8],
) -> Option<FragmentAddress<'h>> {
    let is_printable = |byte: &u8| matches!(byte, b'!'..=b'~') && *byte != b'\\';
    if url.is_empty() || !url.iter().all(is_printable) {
        return None;
    }
    let url = url.split(|byte| *byte == b'#').next().unwrap_or_default();
    let (path, query) = split_query(url);
    let absolute = ["http://", "https://", "//"].into_iter().find_map(|prefix| without_prefix(url, prefix));
    if let Some(rest) = absolute {
        let end = rest.iter().position(|byte| matches!(byte, b'/' | b'?')).unwrap_or(rest.len());
        let (authority, rest) = rest.split_at_checked(end)?;
        let is_meant = |listed: &&String| listed.as_bytes().eq_ignore_ascii_case(authority);
        let other_host = match authority.eq_ignore_ascii_case(host) {
            true => None,
            false => Some(listed.iter().find(is_meant)?.as_str()),
        };
        let (path, query) = split_query(rest);
        let target = joined(if path.is_empty() { b"/" } else { path }, query);
        return Some(FragmentAddress { other_host, target });
    }
    // Another scheme, such as `file:`.
    if path.split(|byte| *byte == b'/').next().is_some_and(|first| first.contains(&b':')) {
        return None;
    }
    let (page_path, _) = split_query(own_target(page));
    let path = match path.first() {
        Some(b'/') => path.to_vec(),
        None => page_path.to_vec(),
        Some(_) => {
            let end = page_path.iter().rposition(|byte| *byte == b'/').map_or(0, |at| at + 1);
            [page_path.get(..end).unwrap_or_default(), path].concat()
        }
    };
    Some(FragmentAddress::of_page(joined(&path, query)))
}

/// The query of a request's target, without the question mark.
pub(crate) fn query_of(target: &[u8]) -> &[u8] {
    let (_, query) = split_query(own_target(target));
    query.get(1..).unwrap_or_default()
}

/// A URL or target for messages, without its query.
pub(crate) fn text_of_path(url: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(split_query(url).0)
}

/// A target in origin-form; a client may have sent a whole URL.
fn own_target(target: &[u8]) -> &[u8] {
    let rest = ["http://", "https://"].into_iter().find_map(|prefix| without_prefix(target, prefix));
    match rest {
        Some(rest) => {
            let begin = rest.iter().position(|byte| matches!(byte, b'/' | b'?')).unwrap_or(rest.len());
            rest.get(begin..).unwrap_or_default()
        }
        None => target,
    }
}

fn without_prefix<'u>(url: &'u [u8], prefix: &str) -> Option<&'u [u8]> {
    let (start, rest) = url.split_at_checked(prefix.len())?;
    start.eq_ignore_ascii_case(prefix.as_bytes()).then_some(rest)
}

/// Splits a target into its path and its query with the question mark.
fn split_query(target: &[u8]) -> (&[u8], &[u8]) {
    let at = target.iter().position(|byte| *byte == b'?').unwrap_or(target.len());
    target.split_at_checked(at).unwrap_or((target, &[]))
}

/// A target without dot segments in its path (RFC 3986 section 5.2.4).
fn joined(path: &[u8], query: &[u8]) -> Vec<u8> {
    let mut kept: Vec<&[u8]> = Vec::new();
    let mut is_directory = false;
    for segment in path.strip_prefix(b"/").unwrap_or(path).split(|byte| *byte == b'/') {
        is_directory = matches!(segment, b"." | b"..");
        match segment {
            b"." => {}
            b".." => {
                kept.pop();
            }
            other => kept.push(other),
        }
    }
    let mut target = vec![b'/'];
    target.extend_from_slice(&kept.join(&b'/'));
    if is_directory && !kept.is_empty() {
        target.push(b'/');
    }
    target.extend_from_slice(query);
    target
}

#[cfg(test)]
mod tests {
    use super::{FragmentAddress, address_of, query_of};

    /// The address for a page of `a.test:8080` that may include pages of `b.test`.
    fn found(url: &str, page: &str) -> Option<(Option<&'static str>, String)> {
        let listed: &'static [String] = Box::leak(Box::new(["b.test".to_owned()]));
        let FragmentAddress { other_host, target } =
            address_of(url.as_bytes(), (b"a.test:8080", listed), page.as_bytes())?;
        Some((other_host, String::from_utf8(target).unwrap()))
    }

    #[test]
    fn urls_are_resolved_against_their_page() {
        let cases = [
            ("/a?b=1#c", "/a?b=1"),
            ("a", "/dir/a"),
            ("./a", "/dir/a"),
            ("../a/./b/../c", "/a/c"),
            ("../../../a", "/a"),
            ("..", "/"),
            ("a/..", "/dir/"),
            ("?x", "/dir/page?x"),
            ("http://A.test:8080/x", "/x"),
            ("https://a.test:8080?x", "/?x"),
            ("//a.test:8080", "/"),
            ("/a//b:c", "/a//b:c"),
            ("a?b=http://c/", "/dir/a?b=http://c/"),
        ];
        for page in ["/dir/page?q=/x/y", "http://a.test:8080/dir/page?q=/x/y"] {
            for (url, target) in cases {
                assert_eq!(found(url, page), Some((None, target.to_owned())), "{url}");
            }
        }
    }

    #[test]
    fn other_hosts_schemes_and_bytes_are_refused() {
        let refused = [
            "",
            "http://c.test/",
            "//c.test/x",
            "http://a.test/",
            "http://b.test:8080/",
            "http://b.test:80/",
            "http://b.test./",
            "http://b.test@c.test/",
            "http://c.test#@b.test/",
            "http://x.b.test/",
            "http://b.test.c.test/",
            "http://b%2etest/",
            "http:/b.test/",
            "http:b.test",
            "ftp://b.test/",
            "///b.test/x:",
            "http://a.test:8080@b.test/",
            "http://user@a.test:8080/",
            "http://127.0.0.1:8081/purge",
            "file:///etc/passwd",
            "javascript:x",
            "/a b",
            "/a\r\nX: y",
            "/a\tb",
            "/a\0",
            "/\u{e9}",
            "\\\\b.test\\x",
        ];
        for url in refused {
            assert_eq!(found(url, "/"), None, "{url:?}");
        }
    }

    #[test]
    fn whole_urls_of_listed_hosts_are_addresses() {
        for (url, target) in
            [("http://B.test/x/../y?z#f", "/y?z"), ("https://b.test", "/"), ("//b.test?q", "/?q")]
        {
            assert_eq!(found(url, "/"), Some((Some("b.test"), target.to_owned())), "{url}");
        }
    }

    #[test]
    fn query_is_that_of_the_target() {
        assert_eq!(query_of(b"/a?b?c"), b"b?c");
        assert_eq!(query_of(b"/a"), b"");
        assert_eq!(query_of(b"http://h?x=1"), b"x=1");
    }
}
