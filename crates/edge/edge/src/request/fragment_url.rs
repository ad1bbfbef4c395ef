//! The targets of fragments.
//!
//! Invariants: a fragment is a page of the host whose page includes it, so that no name is resolved
//! and no other address is reached. A target has no byte that could end a request line or a field.

use std::borrow::Cow;

/// The target of the fragment with this URL, which may be relative to the target of the page that
/// includes it. `host` is that page's host. `None`: no fragment may have this URL.
pub(crate) fn target_of(url: &[u8], host: &[u8], page: &[u8]) -> Option<Vec<u8>> {
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
        if !authority.eq_ignore_ascii_case(host) {
            return None;
        }
        let (path, query) = split_query(rest);
        return Some(joined(if path.is_empty() { b"/" } else { path }, query));
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
    Some(joined(&path, query))
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
    use super::{query_of, target_of};

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
                let found = target_of(url.as_bytes(), b"a.test:8080", page.as_bytes()).unwrap();
                assert_eq!(String::from_utf8(found).unwrap(), target, "{url}");
            }
        }
    }

    #[test]
    fn other_hosts_schemes_and_bytes_are_refused() {
        let refused = [
            "",
            "http://b.test/",
            "//b.test/x",
            "http://a.test/",
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
            assert_eq!(target_of(url.as_bytes(), b"a.test:8080", b"/"), None, "{url:?}");
        }
    }

    #[test]
    fn query_is_that_of_the_target() {
        assert_eq!(query_of(b"/a?b?c"), b"b?c");
        assert_eq!(query_of(b"/a"), b"");
        assert_eq!(query_of(b"http://h?x=1"), b"x=1");
    }
}
