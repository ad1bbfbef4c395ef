//! The paths for choosing a route, and the cookies of a request.

use crate::spelling::percent_decoded;
use message::{Fields, names};
use std::borrow::Cow;

/// The readings of the path of `target` by applications, without the query; at least one, each
/// once.
///
/// Applications agree on the encoding of unreserved characters (RFC 3986 section 6.2.2.2). They
/// differ in dot segments (section 5.2.4), repeated slashes, backslashes, encoded delimiters, and
/// parameters of segments (section 3.3). The readings are every combination, so the path that an
/// application uses is one of them. None is ever sent.
pub fn route_paths(target: &[u8]) -> Vec<Cow<'_, [u8]>> {
    let raw = target.split(|byte| *byte == b'?').next().unwrap_or_default();
    if !has_readings(raw) {
        return vec![Cow::Borrowed(raw)];
    }
    let mut readings: Vec<Cow<'_, [u8]>> = Vec::new();
    let mut add = |reading: Vec<u8>| {
        if !readings.iter().any(|known| **known == *reading) {
            readings.push(Cow::Owned(reading));
        }
    };
    for decoded in [percent_decoded(raw), without_delimiters_decoded(raw)] {
        for numbered in 0..8_u8 {
            let backslashes = numbered & 1 != 0;
            let slashes = if backslashes { turned(&decoded) } else { decoded.clone() };
            let plain = if numbered & 2 != 0 { without_parameters(&slashes) } else { slashes };
            add(resolved(&plain, numbered & 4 != 0));
        }
        add(decoded);
    }
    readings
}

/// Whether a path has several readings, or one other than itself.
fn has_readings(path: &[u8]) -> bool {
    path.iter().any(|byte| matches!(byte, b'%' | b'\\' | b';'))
        || path.windows(2).any(|pair| matches!(pair, b"//" | b"/."))
        || path.first() != Some(&b'/')
}

/// The path with all percent-encodings decoded but those of slashes, backslashes and semicolons.
fn without_delimiters_decoded(path: &[u8]) -> Vec<u8> {
    let mut decoded = Vec::with_capacity(path.len());
    let mut rest = path;
    while let Some(start) = rest.iter().position(|byte| *byte == b'%') {
        let (before, from) = rest.split_at(start);
        let (encoded, after) = from.split_at(from.len().min(3));
        decoded.extend_from_slice(before);
        match encoded.to_ascii_lowercase()[..] {
            [b'%', b'2', b'f'] | [b'%', b'5', b'c'] | [b'%', b'3', b'b'] => {
                decoded.extend_from_slice(encoded)
            }
            _ => decoded.extend(percent_decoded(encoded)),
        }
        rest = after;
    }
    decoded.extend_from_slice(rest);
    decoded
}

/// The path with slashes in place of backslashes.
fn turned(path: &[u8]) -> Vec<u8> {
    path.iter().map(|byte| if *byte == b'\\' { b'/' } else { *byte }).collect()
}

/// The path without the parameters of its segments, as in `/a;b=c/d`.
fn without_parameters(path: &[u8]) -> Vec<u8> {
    let segments = path.split(|byte| *byte == b'/');
    let plain = segments.map(|segment| segment.split(|byte| *byte == b';').next().unwrap_or_default());
    plain.collect::<Vec<_>>().join(&b'/')
}

/// The path with its dot segments removed, and with one slash in place of several if `is_merged`.
fn resolved(path: &[u8], is_merged: bool) -> Vec<u8> {
    let path = path.strip_prefix(b"/").unwrap_or(path);
    let mut segments: Vec<&[u8]> = Vec::new();
    let mut is_directory = false;
    for segment in path.split(|byte| *byte == b'/') {
        is_directory = matches!(segment, b"" | b"." | b"..");
        match segment {
            b"" if is_merged => {}
            b"." => {}
            b".." => {
                segments.pop();
            }
            _ => segments.push(segment),
        }
    }
    if is_directory && segments.last().is_none_or(|last| !last.is_empty()) {
        segments.push(b"");
    }
    [&b"/"[..], &segments.join(&b'/')].concat()
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
    use super::{cookies, route_paths};
    use message::Fields;

    fn readings(target: &str) -> Vec<String> {
        let paths = route_paths(target.as_bytes());
        paths.iter().map(|path| String::from_utf8_lossy(path).into_owned()).collect()
    }

    #[test]
    fn plain_path_has_one_reading() {
        for (target, path) in [
            ("/", "/"),
            ("/a/b?c=/../d", "/a/b"),
            ("/%61dmin/x", "/admin/x"),
            ("/a%zz", "/a%zz"),
            ("*", "/*"),
        ] {
            let readings = readings(target);
            assert!(readings.iter().any(|reading| reading == path), "{target}: {readings:?}");
            assert!(target == "*" || readings.len() == 1, "{target}: {readings:?}");
        }
    }

    #[test]
    fn each_reading_of_a_path_is_listed() {
        for (target, paths) in [
            ("//admin/x", &["//admin/x", "/admin/x"][..]),
            ("/x/../admin", &["/x/../admin", "/admin"]),
            ("/x/%2e%2E/admin", &["/x/../admin", "/admin"]),
            ("/x/%2e%2e%2fadmin", &["/x/..%2fadmin", "/x/../admin", "/admin"]),
            ("/admin//../x", &["/admin//../x", "/admin/x", "/x"]),
            ("/admin/..\\x", &["/admin/..\\x", "/x"]),
            ("/admin;a=b/x", &["/admin;a=b/x", "/admin/x"]),
            ("/x/..;/admin", &["/x/..;/admin", "/admin"]),
            ("/%2561", &["/%61"]),
            ("/admin/..", &["/admin/..", "/"]),
            ("/../../admin/.", &["/admin/"]),
        ] {
            let readings = readings(target);
            for path in paths {
                assert!(readings.iter().any(|reading| reading == path), "{target}: {readings:?}");
            }
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
