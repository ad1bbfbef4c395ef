//! The path by which a route is chosen, and the cookies of a request.

use crate::spelling::percent_decoded;
use message::{Fields, names};
use std::borrow::Cow;

/// The path of `target` as a router compares it: without its query, percent-decoded once, with dot
/// segments (RFC 3986 section 5.2.4), repeated slashes and backslashes resolved.
///
/// Applications differ in what they resolve. Two targets that any of them may take for the same
/// path have the same result, so that no spelling avoids a route. The result is never sent.
pub fn route_path(target: &[u8]) -> Cow<'_, [u8]> {
    let raw = target.split(|byte| *byte == b'?').next().unwrap_or_default();
    if !needs_resolving(raw) {
        return Cow::Borrowed(raw);
    }
    let decoded = percent_decoded(raw);
    let is_slash = |byte: &u8| matches!(byte, b'/' | b'\\');
    let mut segments: Vec<&[u8]> = Vec::new();
    for segment in decoded.split(is_slash) {
        match segment {
            b"" | b"." => {}
            b".." => {
                segments.pop();
            }
            _ => segments.push(segment),
        }
    }
    let mut path = Vec::with_capacity(decoded.len());
    for segment in &segments {
        path.push(b'/');
        path.extend_from_slice(segment);
    }
    let last = decoded.split(is_slash).next_back().unwrap_or_default();
    if path.is_empty() || matches!(last, b"" | b"." | b"..") {
        path.push(b'/');
    }
    Cow::Owned(path)
}

/// Whether a path may change when it is resolved.
fn needs_resolving(path: &[u8]) -> bool {
    path.iter().any(|byte| matches!(byte, b'%' | b'\\'))
        || path.windows(2).any(|pair| matches!(pair, b"//" | b"/."))
        || path.first() != Some(&b'/')
}

/// The cookies of a request, name and value (RFC 6265 section 4.2.1).
pub fn cookies(fields: &Fields) -> impl Iterator<Item = (&[u8], &[u8])> {
    let pairs = fields.all(names::COOKIE).flat_map(|line| line.split(|byte| *byte == b';'));
    pairs.filter_map(|pair| {
        let pair = pair.trim_ascii();
        let end = pair.iter().position(|byte| *byte == b'=').unwrap_or(pair.len());
        let (name, value) = pair.split_at(end);
        (!pair.is_empty()).then(|| (name, value.get(1..).unwrap_or_default()))
    })
}

#[cfg(test)]
mod tests {
    use super::{cookies, route_path};
    use message::Fields;

    #[test]
    fn spellings_of_a_path_are_the_same_route() {
        for (target, path) in [
            ("/", "/"),
            ("/a/b?c=/d", "/a/b"),
            ("/%61dmin/x", "/admin/x"),
            ("/%2561", "/%61"),
            ("//admin", "/admin"),
            ("/x/../admin", "/admin"),
            ("/x/%2e%2E/admin", "/admin"),
            ("/x/%2e%2e%2fadmin", "/admin"),
            ("/.//admin/.", "/admin/"),
            ("/admin/..", "/"),
            ("/../../admin", "/admin"),
            ("/x\\..\\admin", "/admin"),
            ("/a.b/..c/.d", "/a.b/..c/.d"),
            ("/%zz", "/%zz"),
            ("*", "/*"),
            ("", "/"),
        ] {
            assert_eq!(&*route_path(target.as_bytes()), path.as_bytes(), "{target}");
        }
    }

    #[test]
    fn cookies_have_names_and_values() {
        let mut fields = Fields::new();
        fields.push("Cookie", "a=1; b=x=y;c;; d=");
        fields.push("Cookie", "e=2");
        let found: Vec<_> = cookies(&fields).collect();
        let expected: [(&[u8], &[u8]); 5] =
            [(b"a", b"1"), (b"b", b"x=y"), (b"c", b""), (b"d", b""), (b"e", b"2")];
        assert_eq!(found, expected);
    }
}
