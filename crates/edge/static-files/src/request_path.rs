//! The path of a request, decoded once and refused if a file system could read it in two ways.
//!
//! Invariant: an accepted path begins with a slash. Its segments are not empty (except after a
//! final slash), begin with no dot (except `.well-known` as the first one), and have no slash,
//! backslash or control byte. So it never names a directory's parent, and no redirect formed from
//! it leads to another host.

use std::borrow::Cow;

/// Longest accepted path, in bytes after decoding. With a prefix and suffixes of the rules it stays
/// below the limit of system calls (4096).
const PATH_BYTES_MAX: usize = 2048;

/// The hidden segment that clients may name as the first one (RFC 8615).
const WELL_KNOWN: &[u8] = b".well-known";

/// Why a path names no file, whatever the directory holds. Clients do not receive it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathRefusal {
    /// It does not begin with a slash.
    #[error("the path does not begin with a slash")]
    NotAbsolute,
    /// `%` without two hexadecimal digits.
    #[error("the path has an invalid percent-encoding")]
    BadEncoding,
    /// `%2F`.
    #[error("the path has an encoded slash")]
    EncodedSlash,
    /// A backslash, encoded or not.
    #[error("the path has a backslash")]
    Backslash,
    /// A control byte, encoded or not. NUL is one.
    #[error("the path has a control byte")]
    ControlByte,
    /// A segment `.` or `..`, encoded or not.
    #[error("the path has a dot segment")]
    DotSegment,
    /// A segment that begins with a dot.
    #[error("the path names a hidden file or directory")]
    Hidden,
    /// Two slashes in a row.
    #[error("the path has an empty segment")]
    EmptySegment,
    /// More than 2048 bytes.
    #[error("the path is too long")]
    TooLong,
}

/// An accepted path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RequestPath<'a>(Cow<'a, [u8]>);

impl<'a> RequestPath<'a> {
    /// Decodes and checks a path without a query.
    pub(crate) fn of(encoded: &'a [u8]) -> Result<Self, PathRefusal> {
        let path = decoded(encoded)?;
        if path.len() > PATH_BYTES_MAX {
            return Err(PathRefusal::TooLong);
        }
        let segments = path.strip_prefix(b"/").ok_or(PathRefusal::NotAbsolute)?;
        let segments = segments.strip_suffix(b"/").unwrap_or(segments);
        if &*path != b"/" {
            for (place, segment) in segments.split(|&byte| byte == b'/').enumerate() {
                check(place, segment)?;
            }
        }
        Ok(Self(path))
    }

    /// The decoded bytes, from the first slash on.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// The path with its percent-encodings decoded; borrowed if it has none.
fn decoded(encoded: &[u8]) -> Result<Cow<'_, [u8]>, PathRefusal> {
    let mut has_encoding = false;
    for &byte in encoded {
        has_encoding |= byte == b'%';
        check_byte(byte)?;
    }
    if !has_encoding {
        return Ok(Cow::Borrowed(encoded));
    }
    let mut path = Vec::with_capacity(encoded.len());
    let mut rest = encoded;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'%' {
            path.push(byte);
            continue;
        }
        let [high, low, after @ ..] = rest else { return Err(PathRefusal::BadEncoding) };
        let value = digit(*high).zip(digit(*low)).map(|(high, low)| high << 4 | low);
        let value = value.ok_or(PathRefusal::BadEncoding)?;
        if value == b'/' {
            return Err(PathRefusal::EncodedSlash);
        }
        check_byte(value)?;
        path.push(value);
        rest = after;
    }
    Ok(Cow::Owned(path))
}

const fn check_byte(byte: u8) -> Result<(), PathRefusal> {
    match byte {
        b'\\' => Err(PathRefusal::Backslash),
        0..0x20 | 0x7f => Err(PathRefusal::ControlByte),
        _ => Ok(()),
    }
}

fn check(place: usize, segment: &[u8]) -> Result<(), PathRefusal> {
    match segment {
        b"" => Err(PathRefusal::EmptySegment),
        b"." | b".." => Err(PathRefusal::DotSegment),
        WELL_KNOWN if place == 0 => Ok(()),
        [b'.', ..] => Err(PathRefusal::Hidden),
        _ => Ok(()),
    }
}

/// Whether a path below the directory, without a slash at its beginning, has a hidden segment.
pub(crate) fn is_hidden(name: &[u8]) -> bool {
    name.split(|&byte| byte == b'/').enumerate().any(|(place, segment)| check(place, segment).is_err())
}

fn digit(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).map(|value| value as u8)
}

#[cfg(test)]
mod tests {
    use super::{PathRefusal, RequestPath};
    use std::borrow::Cow;

    fn path(target: &str) -> Result<String, PathRefusal> {
        RequestPath::of(target.as_bytes()).map(|path| String::from_utf8_lossy(path.as_bytes()).into_owned())
    }

    #[test]
    fn paths_are_decoded_once() {
        for (target, expected) in [
            ("/", "/"),
            ("/a/b/", "/a/b/"),
            ("/caf%C3%a9", "/café"),
            ("/%61%20b", "/a b"),
            ("/%252e%252e/a", "/%2e%2e/a"),
            ("/a%3Fb%23", "/a?b#"),
            ("/.well-known/acme", "/.well-known/acme"),
            ("/%2Ewell-known/", "/.well-known/"),
            ("/a..b/c.", "/a..b/c."),
        ] {
            assert_eq!(path(target).as_deref(), Ok(expected), "{target}");
        }
        assert!(matches!(RequestPath::of(b"/a/b"), Ok(RequestPath(Cow::Borrowed(_)))));
        assert_eq!(RequestPath::of(b"/%ff").unwrap().as_bytes(), b"/\xff");
    }

    #[test]
    fn ambiguous_paths_are_refused_with_their_reason() {
        use PathRefusal as Refusal;
        for (target, expected) in [
            ("", Refusal::NotAbsolute),
            ("*", Refusal::NotAbsolute),
            ("a", Refusal::NotAbsolute),
            ("%2Fa", Refusal::EncodedSlash),
            ("/a%2fb", Refusal::EncodedSlash),
            ("/..%2F..%2Fetc/passwd", Refusal::EncodedSlash),
            ("/%", Refusal::BadEncoding),
            ("/%4", Refusal::BadEncoding),
            ("/%zz", Refusal::BadEncoding),
            ("/%+1", Refusal::BadEncoding),
            ("/%%32%65", Refusal::BadEncoding),
            ("/a\\b", Refusal::Backslash),
            ("/..%5c", Refusal::Backslash),
            ("/a%00", Refusal::ControlByte),
            ("/a\0", Refusal::ControlByte),
            ("/a%0d%0aSet-Cookie:x", Refusal::ControlByte),
            ("/%7f", Refusal::ControlByte),
            ("/..", Refusal::DotSegment),
            ("/a/../b", Refusal::DotSegment),
            ("/%2e%2E/a", Refusal::DotSegment),
            ("/.%2e/", Refusal::DotSegment),
            ("/a/./b", Refusal::DotSegment),
            ("/.", Refusal::DotSegment),
            ("/.env", Refusal::Hidden),
            ("/%2eenv", Refusal::Hidden),
            ("/a/.git/config", Refusal::Hidden),
            ("/...", Refusal::Hidden),
            ("/.well-known/.env", Refusal::Hidden),
            ("/a/.well-known/b", Refusal::Hidden),
            ("/.well-knowns", Refusal::Hidden),
            ("//", Refusal::EmptySegment),
            ("//evil.test/..", Refusal::EmptySegment),
            ("/a//b", Refusal::EmptySegment),
            ("/a//", Refusal::EmptySegment),
        ] {
            assert_eq!(path(target), Err(expected), "{target:?}");
        }
        assert_eq!(path(&format!("/{}", "a".repeat(2048))), Err(Refusal::TooLong));
        assert!(path(&format!("/{}", "a".repeat(2047))).is_ok());
    }
}
