//! The stored responses that an unsafe request invalidates (RFC 9111 section 4.4).
//!
//! Invariant: only targets of the request's own origin are named, so that no site can invalidate
//! another site's responses.

use crate::spelling::canonical_host;
use bytes::Bytes;
use message::{Method, ResponseHead, names};

/// The targets, in origin-form, whose stored responses an unsafe request invalidates.
///
/// They are the request's own target and the targets of `Location` and `Content-Location`, as long
/// as these are of the same origin. Each is listed once. The list is empty if the method is safe or
/// the response is an error.
///
/// `https`, `host` and `target` are the request's effective scheme, its `Host` and its target in
/// origin-form.
pub fn invalidated_targets(
    method: &Method,
    https: bool,
    host: &[u8],
    target: &[u8],
    answer: &ResponseHead,
) -> Vec<Bytes> {
    let succeeded = (200..400).contains(&answer.status.code());
    if method.is_safe() || !succeeded {
        return Vec::new();
    }
    let mut targets = vec![Bytes::copy_from_slice(target)];
    for name in [names::LOCATION, names::CONTENT_LOCATION] {
        let resolved = answer.fields.only(name).and_then(|reference| resolve(https, host, target, reference));
        if let Some(resolved) = resolved.map(Bytes::from).filter(|resolved| !targets.contains(resolved)) {
            targets.push(resolved);
        }
    }
    targets
}

/// Resolves a reference in a message about `target` to a target in origin-form (RFC 3986 section
/// 5.2).
///
/// `None` if the reference is of another origin than `host` under this scheme, or cannot be read.
pub(crate) fn resolve(https: bool, host: &[u8], target: &[u8], reference: &[u8]) -> Option<Vec<u8>> {
    let reference = reference.split(|&byte| byte == b'#').next().unwrap_or_default();
    let reference = match scheme_of(reference) {
        Some((scheme, rest)) => {
            let own: &[u8] = if https { b"https" } else { b"http" };
            // A reference with the same scheme but without an authority is not supported.
            if !scheme.eq_ignore_ascii_case(own) || !rest.starts_with(b"//") {
                return None;
            }
            rest
        }
        None => reference,
    };
    if let Some(rest) = reference.strip_prefix(b"//") {
        let end = rest.iter().position(|byte| matches!(byte, b'/' | b'?')).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        let same = named(https, authority) == named(https, host);
        return same.then(|| rooted(path));
    }
    let (base, _) = split_query(target);
    Some(match reference.first() {
        None => target.to_vec(),
        Some(b'/') => rooted(reference),
        Some(b'?') => [base, reference].concat(),
        Some(_) => {
            let directory = base.iter().rposition(|&byte| byte == b'/').map_or(0, |slash| slash + 1);
            rooted(&[base.get(..directory).unwrap_or_default(), reference].concat())
        }
    })
}

/// The scheme of a reference, and the text after its colon.
fn scheme_of(reference: &[u8]) -> Option<(&[u8], &[u8])> {
    let (scheme, rest) = reference.split_at(reference.iter().position(|byte| b":/?#".contains(byte))?);
    Some((scheme, rest.strip_prefix(b":")?))
}

/// The host of an authority in its canonical spelling.
fn named(https: bool, authority: &[u8]) -> Vec<u8> {
    // An empty port means the scheme's default port.
    canonical_host(https, authority.strip_suffix(b":").unwrap_or(authority))
}

/// A path and its query as a target contains them: with a leading slash, and without dot segments
/// (RFC 3986 section 5.2.4).
fn rooted(path: &[u8]) -> Vec<u8> {
    let (path, query) = split_query(path);
    let mut kept: Vec<&[u8]> = Vec::new();
    let segments: Vec<_> = path.strip_prefix(b"/").unwrap_or(path).split(|&byte| byte == b'/').collect();
    for (index, &segment) in segments.iter().enumerate() {
        let is_last = index + 1 == segments.len();
        match segment {
            b"." => {}
            b".." => {
                kept.pop();
            }
            _ => kept.push(segment),
        }
        // A path that ends with a dot segment names the directory, which ends with a slash.
        if is_last && matches!(segment, b"." | b"..") {
            kept.push(b"");
        }
    }
    [b"/", &kept.join(&b'/')[..], query].concat()
}

/// The path, and the query with its question mark.
fn split_query(target: &[u8]) -> (&[u8], &[u8]) {
    target.split_at(target.iter().position(|&byte| byte == b'?').unwrap_or(target.len()))
}

#[cfg(test)]
mod tests {
    use super::invalidated_targets;
    use message::{Method, ResponseHead, Status};

    fn targets(method: &Method, status: u16, fields: &[(&'static str, &'static str)]) -> Vec<String> {
        let mut answer = ResponseHead::new(Status::from_code(status).unwrap());
        fields.iter().for_each(|(name, value)| answer.fields.push(*name, *value));
        let targets = invalidated_targets(method, false, b"example.org", b"/a/b?c", &answer);
        targets.iter().map(|target| target.escape_ascii().to_string()).collect()
    }

    #[test]
    fn only_successful_unsafe_methods_invalidate() {
        for method in
            [Method::Post, Method::Put, Method::Delete, Method::Patch, Method::Other("M-SEARCH".into())]
        {
            for status in [200, 201, 204, 303, 399] {
                assert_eq!(targets(&method, status, &[]), ["/a/b?c"], "{method} {status}");
            }
            for status in [101, 400, 404, 500] {
                assert!(targets(&method, status, &[("Location", "/d")]).is_empty(), "{method} {status}");
            }
        }
        for method in [Method::Get, Method::Head, Method::Options, Method::Trace] {
            assert!(targets(&method, 200, &[("Location", "/d")]).is_empty(), "{method}");
        }
    }

    #[test]
    fn references_of_the_same_origin_are_invalidated() {
        let both = [("Location", "/d"), ("Content-Location", "http://example.org/e?f#g")];
        assert_eq!(targets(&Method::Post, 201, &both), ["/a/b?c", "/d", "/e?f"]);
        assert_eq!(
            targets(&Method::Post, 201, &[("Location", "b?c"), ("Content-Location", "/a/b?c")]),
            ["/a/b?c"]
        );
    }

    #[test]
    fn references_are_resolved_by_rfc_3986() {
        for (reference, expected) in [
            ("d", "/a/d"),
            ("./d", "/a/d"),
            ("../d", "/d"),
            ("../../../d/./e/..", "/d/"),
            ("/d/../e", "/e"),
            ("?d", "/a/b?d"),
            ("d?../e", "/a/d?../e"),
            ("HTTP://EXAMPLE.org:80", "/"),
            ("http://example.org?d", "/?d"),
            ("//example.org/d//e", "/d//e"),
        ] {
            let located = targets(&Method::Post, 201, &[("Location", reference)]);
            assert_eq!(located, ["/a/b?c", expected], "{reference}");
        }
    }

    #[test]
    fn other_origins_are_not_invalidated() {
        for reference in [
            "https://example.org/d",
            "http://example.com/d",
            "http://example.org:8080/d",
            "http://example.org@example.com/d",
            "http:d",
            "mailto:a@example.org",
            "//example.com/d",
            "#d",
        ] {
            assert_eq!(targets(&Method::Post, 201, &[("Location", reference)]), ["/a/b?c"], "{reference}");
        }
        let two = [("Location", "/d"), ("Location", "/e")];
        assert_eq!(targets(&Method::Post, 201, &two), ["/a/b?c"]);
    }
}
