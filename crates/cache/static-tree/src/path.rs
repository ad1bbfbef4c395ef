//! Hosts and paths that are safe as names of directories.
//!
//! Invariant: an accepted segment is not empty and does not begin with a dot. It contains no
//! separator, no control character, and no byte with a meaning for shells, servers' rules or file
//! systems. So a path never leaves the directory that it is joined to.
//!
//! Web servers decode several spellings to one path; [`spellings`] lists them.

use crate::TreeRefusal;

/// Longest accepted target, in bytes.
const TARGET_BYTES_MAX: usize = 1024;

/// Longest accepted segment, in bytes. With the additions of the layouts it stays below 255, the
/// limit of file systems.
const SEGMENT_BYTES_MAX: usize = 200;

/// Upper bound of the segments of a path.
const SEGMENTS_MAX: usize = 32;

/// Longest accepted host name, in bytes. With the scheme and port that layouts add, it stays within
/// the limit of file systems.
const HOST_BYTES_MAX: usize = 240;

/// Characters that a segment may contain besides ASCII letters, digits, and percent-encoded
/// non-ASCII characters.
pub(crate) const PUNCTUATION: &str = "._~+,=@-";

/// A path with its segments decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SafePath {
    pub(crate) segments: Vec<String>,
    /// Whether the path ends with a slash. True for the root.
    pub(crate) is_directory: bool,
}

impl SafePath {
    /// Parses a target without a query.
    pub(crate) fn of(target: &[u8]) -> Result<Self, TreeRefusal> {
        if target.len() > TARGET_BYTES_MAX {
            return Err(TreeRefusal::Path);
        }
        let path = target.strip_prefix(b"/").ok_or(TreeRefusal::Path)?;
        if path.is_empty() {
            return Ok(Self { segments: Vec::new(), is_directory: true });
        }
        let (path, is_directory) = path.strip_suffix(b"/").map_or((path, false), |path| (path, true));
        let segments: Result<Vec<_>, _> = path.split(|octet| *octet == b'/').map(segment).collect();
        let segments = segments?;
        if segments.len() > SEGMENTS_MAX {
            return Err(TreeRefusal::Path);
        }
        Ok(Self { segments, is_directory })
    }

    pub(crate) fn is_ascii(&self) -> bool {
        self.segments.iter().all(|segment| segment.is_ascii())
    }
}

fn segment(encoded: &[u8]) -> Result<String, TreeRefusal> {
    let mut decoded = Vec::with_capacity(encoded.len());
    let mut rest = encoded;
    while let Some((octet, after)) = rest.split_first() {
        rest = after;
        match octet {
            b'%' => {
                let [high, low, after @ ..] = rest else { return Err(TreeRefusal::Path) };
                let value = hex(*high).zip(hex(*low)).map(|(high, low)| high << 4 | low);
                // An encoded ASCII character is either special, or a second spelling of a character
                // that needs no encoding.
                decoded.push(value.filter(|value| !value.is_ascii()).ok_or(TreeRefusal::Path)?);
                rest = after;
            }
            octet if octet.is_ascii_alphanumeric() || PUNCTUATION.as_bytes().contains(octet) => {
                decoded.push(*octet);
            }
            _ => return Err(TreeRefusal::Path),
        }
    }
    let is_safe = !decoded.is_empty() && !decoded.starts_with(b".") && decoded.len() <= SEGMENT_BYTES_MAX;
    let text = String::from_utf8(decoded).map_err(|_| TreeRefusal::Path)?;
    if is_safe && !text.chars().any(char::is_control) { Ok(text) } else { Err(TreeRefusal::Path) }
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).map(|value| value as u8)
}

/// The target as it is, and with its percent-encodings in upper case and in lower case. Only the
/// target itself if it has no encodings.
pub(crate) fn spellings(target: &[u8]) -> Vec<Vec<u8>> {
    if !target.contains(&b'%') {
        return vec![target.to_vec()];
    }
    let spelled = |change: fn(&mut [u8])| {
        let mut target = target.to_vec();
        let mut at = 0;
        while let Some(found) = target.iter().skip(at).position(|octet| *octet == b'%') {
            at += found + 1;
            if let Some(digits) = target.get_mut(at..at + 2) {
                change(digits);
            }
        }
        target
    };
    vec![target.to_vec(), spelled(<[u8]>::make_ascii_uppercase), spelled(<[u8]>::make_ascii_lowercase)]
}

/// Splits a cache key's host into name and port. An error if one of them is not safe in a file
/// name.
pub(crate) fn host(host: &[u8]) -> Result<(&str, Option<&str>), TreeRefusal> {
    let text = std::str::from_utf8(host).map_err(|_| TreeRefusal::Path)?;
    let (name, port) = text.split_once(':').map_or((text, None), |(name, port)| (name, Some(port)));
    let is_label = |label: &str| {
        let legal =
            |octet: u8| octet.is_ascii_lowercase() || octet.is_ascii_digit() || matches!(octet, b'-' | b'_');
        !label.is_empty() && label.bytes().all(legal)
    };
    let is_port = port
        .is_none_or(|port| (1..=5).contains(&port.len()) && port.bytes().all(|digit| digit.is_ascii_digit()));
    if name.len() <= HOST_BYTES_MAX && is_port && name.split('.').all(is_label) {
        Ok((name, port))
    } else {
        Err(TreeRefusal::Path)
    }
}

#[cfg(test)]
mod tests {
    use super::{SafePath, host, spellings};

    #[test]
    fn plain_paths_are_split_into_segments() {
        let path = |target: &str| {
            SafePath::of(target.as_bytes()).map(|path| (path.segments.join("|"), path.is_directory))
        };
        assert_eq!(path("/"), Ok((String::new(), true)));
        assert_eq!(path("/a/b-c.html"), Ok(("a|b-c.html".to_owned(), false)));
        assert_eq!(path("/caf%C3%A9/"), Ok(("café".to_owned(), true)));
    }

    #[test]
    fn ambiguous_or_unsafe_paths_are_refused() {
        let long = format!("/{}", "a".repeat(201));
        let deep = "/a".repeat(33);
        for target in [
            "",
            "*",
            "a",
            "/a?b",
            "/?",
            "//",
            "/a//b",
            "/.",
            "/..",
            "/a/../b",
            "/.htaccess",
            "/a/.b",
            "/%2e%2e/a",
            "/a%2fb",
            "/a%00",
            "/a\\b",
            "/a b",
            "/%61",
            "/%",
            "/%C3",
            "/%C3%",
            "/%ff",
            "/%C2%80",
            "/a'b",
            "/a\"b",
            "/$a",
            "/a;b",
            "/a*",
            "/a%5Cb",
            "/a%0Ab",
            &long,
            &deep,
        ] {
            assert!(SafePath::of(target.as_bytes()).is_err(), "{target}");
        }
    }

    #[test]
    fn hosts_are_names_with_a_port_or_without() {
        assert_eq!(host(b"a.test"), Ok(("a.test", None)));
        assert_eq!(host(b"127.0.0.1:8080"), Ok(("127.0.0.1", Some("8080"))));
        for bad in
            ["", ".", "..", "a.", ".a", "a..b", "A.test", "[::1]", "a:", "a:b", "a/b", "a:123456", "a:1:2"]
        {
            assert!(host(bad.as_bytes()).is_err(), "{bad}");
        }
        let long = |bytes: usize| format!("{}:65535", "a".repeat(bytes));
        assert!(host(long(240).as_bytes()).is_ok() && host(long(241).as_bytes()).is_err());
    }

    #[test]
    fn only_percent_encodings_have_several_spellings() {
        assert_eq!(spellings(b"/aB"), [b"/aB"]);
        let three = spellings(b"/aB%c3%A9");
        assert_eq!(three, [&b"/aB%c3%A9"[..], b"/aB%C3%A9", b"/aB%c3%a9"]);
        assert_eq!(spellings(b"/%")[1], b"/%");
    }
}
