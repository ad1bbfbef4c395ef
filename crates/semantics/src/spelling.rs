//! The one spelling of a target among those that RFC 3986 section 6.2.2 calls equivalent, and of a host.
//!
//! Invariant: in a target only the spelling of a byte is changed, never which byte it is or whether it is a delimiter:
//! an encoded slash stays encoded. The spelling of a spelling is itself.

use std::borrow::Cow;

/// The target with each unreserved character as itself, every other percent-encoding in upper case, and bytes that are
/// not ASCII percent-encoded. Without anything to change it is the same bytes, and nothing was copied. A target with a
/// percent sign that encodes nothing stays as it is, because applications differ about it.
pub fn canonical_target(target: &[u8]) -> Cow<'_, [u8]> {
    if target.iter().all(|byte| *byte != b'%' && byte.is_ascii()) {
        return Cow::Borrowed(target);
    }
    let mut canonical = Vec::with_capacity(target.len());
    let mut rest = target;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        let mut value = byte;
        if byte == b'%' {
            let [high, low, after @ ..] = rest else { return Cow::Borrowed(target) };
            let Some((high, low)) = hex(*high).zip(hex(*low)) else { return Cow::Borrowed(target) };
            (value, rest) = ((high << 4) | low, after);
        }
        if is_unreserved(value) || byte != b'%' && byte.is_ascii() {
            canonical.push(value);
        } else {
            canonical.push(b'%');
            canonical.extend([value >> 4, value & 15].map(digit));
        }
    }
    if canonical == target { Cow::Borrowed(target) } else { Cow::Owned(canonical) }
}

/// The host of `Host` in lower case, without the scheme's default port (RFC 9110 section 4.2.3) and without the final
/// dot of its name, which names the same host (RFC 3986 section 3.2.2). Two final dots are no name, and stay.
pub fn canonical_host(https: bool, host: &[u8]) -> Vec<u8> {
    let default_port: &[u8] = if https { b":443" } else { b":80" };
    let host = host.strip_suffix(default_port).unwrap_or(host);
    let name_bytes = host.iter().rposition(|byte| *byte == b':').unwrap_or(host.len());
    let (name, port) = host.split_at(name_bytes);
    // An address in brackets has colons of its own.
    let is_plain = |name: &&[u8]| !name.is_empty() && !name.ends_with(b".") && !name.starts_with(b"[");
    let plain = name.strip_suffix(b".").filter(is_plain);
    let mut canonical = [plain.unwrap_or(name), port].concat();
    canonical.make_ascii_lowercase();
    canonical
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).map(|value| value as u8)
}

/// The upper-case digit of a value below 16.
fn digit(value: u8) -> u8 {
    if value < 10 { b'0' + value } else { b'A' + value - 10 }
}

fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::{canonical_host, canonical_target};
    use proptest::prelude::*;
    use std::borrow::Cow;

    #[test]
    fn one_host_has_one_spelling() {
        for (https, host, expected) in [
            (false, "A.Test.", "a.test"),
            (false, "a.test.:80", "a.test"),
            (true, "a.test.:443", "a.test"),
            (true, "a.test.:80", "a.test:80"),
            (false, "127.0.0.1.:8080", "127.0.0.1:8080"),
            (false, "a.test..", "a.test.."),
            (false, "a.test..:8080", "a.test..:8080"),
            (false, ".", "."),
            (false, "[::1]:80", "[::1]"),
            (false, "[v1.a.:b]", "[v1.a.:b]"),
        ] {
            let canonical = canonical_host(https, host.as_bytes());
            assert_eq!(canonical, expected.as_bytes(), "{host}");
            assert_eq!(canonical_host(https, &canonical), canonical, "{host}");
        }
    }

    #[test]
    fn spelling_changes_and_meaning_stays() {
        for (target, expected) in [
            ("/", "/"),
            ("/caf%c3%A9", "/caf%C3%A9"),
            ("/caf\u{e9}", "/caf%C3%A9"),
            ("/%7euser/%61%2D", "/~user/a-"),
            ("/a%2fb?c=%26&d=%3d%20", "/a%2Fb?c=%26&d=%3D%20"),
            ("/%", "/%"),
            ("/%4", "/%4"),
            ("/%zz%41", "/%zz%41"),
            ("/%%34%31", "/%%34%31"),
            // What is decoded is not decoded again.
            ("/%2541", "/%2541"),
        ] {
            assert_eq!(canonical_target(target.as_bytes()), expected.as_bytes(), "{target}");
        }
        assert!(matches!(canonical_target(b"/a?b=c"), Cow::Borrowed(_)));
    }

    proptest! {
        #[test]
        fn canonical_spelling_is_its_own(target in "[/%0-9a-fA-F~é?]{0,24}") {
            let once = canonical_target(target.as_bytes()).into_owned();
            let twice = canonical_target(&once).into_owned();
            prop_assert_eq!(twice, once);
        }
    }
}
