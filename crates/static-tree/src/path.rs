//! Hosts and paths that are safe as names of directories.
//!
//! Invariant: what is accepted has no empty segment, none that begins with a dot, no separator, control character or
//! byte that a shell, a server's rules or a file system could take for something else; so it never leaves the directory
//! it is put into. Two spellings that servers decode to one path are told by [`spellings`].

use crate::Refusal;

/// The longest target, in octets.
const TARGET_BYTES_MAX: usize = 1024;

/// The longest segment, in octets; with what layouts add it stays below the 255 that file systems allow.
const SEGMENT_BYTES_MAX: usize = 200;

/// The most segments.
const SEGMENTS_MAX: usize = 32;

/// The longest host name; with the scheme and the port that layouts add it is a name that file systems allow.
const HOST_BYTES_MAX: usize = 240;

/// The characters that a segment may have beside letters, digits and what is percent-encoded and not ASCII.
pub(crate) const PUNCTUATION: &str = "._~+,=@-";

/// A path, decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SafePath {
    pub(crate) segments: Vec<String>,
    /// Whether it ends with a slash; the root does.
    pub(crate) is_directory: bool,
}

impl SafePath {
    /// The path of a target without a query.
    pub(crate) fn of(target: &[u8]) -> Result<Self, Refusal> {
        let path = target.strip_prefix(b"/").filter(|_| target.len() <= TARGET_BYTES_MAX);
        let path = path.ok_or(Refusal::Path)?;
        if path.is_empty() {
            return Ok(Self { segments: Vec::new(), is_directory: true });
        }
        let (path, is_directory) = path.strip_suffix(b"/").map_or((path, false), |path| (path, true));
        let segments: Result<Vec<_>, _> = path.split(|octet| *octet == b'/').map(segment).collect();
        let segments = segments?;
        if segments.len() > SEGMENTS_MAX {
            return Err(Refusal::Path);
        }
        Ok(Self { segments, is_directory })
    }

    pub(crate) fn is_ascii(&self) -> bool {
        self.segments.iter().all(|segment| segment.is_ascii())
    }
}

fn segment(encoded: &[u8]) -> Result<String, Refusal> {
    let mut decoded = Vec::with_capacity(encoded.len());
    let mut rest = encoded;
    while let Some((octet, after)) = rest.split_first() {
        rest = after;
        match octet {
            b'%' => {
                let [high, low, after @ ..] = rest else { return Err(Refusal::Path) };
                let value = hex(*high).zip(hex(*low)).map(|(high, low)| high << 4 | low);
                // An encoded ASCII character is either special, or another spelling of one that need not be encoded.
                decoded.push(value.filter(|value| !value.is_ascii()).ok_or(Refusal::Path)?);
                rest = after;
            }
            octet if octet.is_ascii_alphanumeric() || PUNCTUATION.as_bytes().contains(octet) => {
                decoded.push(*octet);
            }
            _ => return Err(Refusal::Path),
        }
    }
    let is_safe = !decoded.is_empty() && !decoded.starts_with(b".") && decoded.len() <= SEGMENT_BYTES_MAX;
    let text = String::from_utf8(decoded).map_err(|_| Refusal::Path)?;
    if is_safe && !text.chars().any(char::is_control) { Ok(text) } else { Err(Refusal::Path) }
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).map(|value| value as u8)
}

/// The same target with its percent-encodings in upper and in lower case, where it has any.
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

/// The name and the port, if there is one, of a host as in keys.
pub(crate) fn host(host: &[u8]) -> Result<(&str, Option<&str>), Refusal> {
    let text = std::str::from_utf8(host).map_err(|_| Refusal::Path)?;
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
        Err(Refusal::Path)
    }
}

#[cfg(test)]
mod tests {
    use super::{SafePath, host, spellings};

    #[test]
    fn plain_paths_are_taken_apart() {
        let path = |target: &str| {
            SafePath::of(target.as_bytes()).map(|path| (path.segments.join("|"), path.is_directory))
        };
        assert_eq!(path("/"), Ok((String::new(), true)));
        assert_eq!(path("/a/b-c.html"), Ok(("a|b-c.html".to_owned(), false)));
        assert_eq!(path("/caf%C3%A9/"), Ok(("café".to_owned(), true)));
    }

    #[test]
    fn what_could_mean_something_else_is_refused() {
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
    fn only_encodings_have_several_spellings() {
        assert_eq!(spellings(b"/aB"), [b"/aB"]);
        let three = spellings(b"/aB%c3%A9");
        assert_eq!(three, [&b"/aB%c3%A9"[..], b"/aB%C3%A9", b"/aB%c3%a9"]);
        assert_eq!(spellings(b"/%")[1], b"/%");
    }
}
