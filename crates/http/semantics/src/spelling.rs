//! The canonical spelling of a target, among those that RFC 3986 section 6.2.2 calls equivalent,
//! and of a host; and the bytes that a percent-encoding means.
//!
//! Invariant of the canonical spellings: only the spelling of a byte in a target is changed, never
//! its value or its role as a delimiter. An encoded slash stays encoded. The canonical spelling of
//! a canonical spelling is itself.

use std::borrow::Cow;

/// The target in its canonical spelling.
///
/// Unreserved characters are not encoded, other percent-encodings are in upper case, and bytes
/// outside ASCII are percent-encoded. If nothing changes, the result borrows `target`. A target
/// with an invalid percent-encoding stays unchanged, because applications interpret it differently.
pub fn canonical_target(target: &[u8]) -> Cow<'_, [u8]> {
    // Nearly every look-up ends here. Both functions compare several bytes at a time.
    if target.is_ascii() && !target.contains(&b'%') {
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
            value = (high << 4) | low;
            rest = after;
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

/// The host of a `Host` field in its canonical spelling: in lower case, without the scheme's
/// default port (RFC 9110 section 4.2.3), and without the final dot of its name. The name without
/// the dot means the same host (RFC 3986 section 3.2.2). A name with two final dots is invalid and
/// stays unchanged.
pub fn canonical_host(https: bool, host: &[u8]) -> Vec<u8> {
    if !host.ends_with(b".") && !host.contains(&b':') {
        // Most hosts on the ports 80 and 443. Each look-up spells a host.
        return host.to_ascii_lowercase();
    }
    let default_port: &[u8] = if https { b":443" } else { b":80" };
    let host = host.strip_suffix(default_port).unwrap_or(host);
    let name_bytes = host.iter().rposition(|byte| *byte == b':').unwrap_or(host.len());
    let (name, port) = host.split_at(name_bytes);
    // An IPv6 address in brackets contains colons itself.
    let is_plain = |name: &&[u8]| !name.is_empty() && !name.ends_with(b".") && !name.starts_with(b"[");
    let plain = name.strip_suffix(b".").filter(is_plain);
    let mut canonical = [plain.unwrap_or(name), port].concat();
    canonical.make_ascii_lowercase();
    canonical
}

/// The bytes with every valid percent-encoding decoded once, as an origin's router sees them.
pub fn percent_decoded(octets: &[u8]) -> Vec<u8> {
    let mut decoded = Vec::with_capacity(octets.len());
    let mut rest = octets;
    while let Some((&byte, after)) = rest.split_first() {
        let hex = |digit: &u8| (*digit as char).to_digit(16);
        match after {
            [high, low, after @ ..] if byte == b'%' => match (hex(high), hex(low)) {
                (Some(high), Some(low)) => {
                    decoded.push((high * 16 + low) as u8);
                    rest = after;
                }
                _ => {
                    decoded.push(byte);
                    rest = rest.get(1..).unwrap_or_default();
                }
            },
            _ => {
                decoded.push(byte);
                rest = after;
            }
        }
    }
    decoded
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).map(|value| value as u8)
}

/// The upper-case hexadecimal digit of a value below 16.
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
            (false, "", ""),
            (false, "A.TEST", "a.test"),
            (false, "[::1]:80", "[::1]"),
            (false, "[v1.a.:b]", "[v1.a.:b]"),
        ] {
            let canonical = canonical_host(https, host.as_bytes());
            assert_eq!(canonical, expected.as_bytes(), "{host}");
            assert_eq!(canonical_host(https, &canonical), canonical, "{host}");
        }
    }

    #[test]
    fn canonical_spelling_keeps_the_meaning() {
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
            // A decoded byte is not decoded again.
            ("/%2541", "/%2541"),
        ] {
            assert_eq!(canonical_target(target.as_bytes()), expected.as_bytes(), "{target}");
        }
        assert!(matches!(canonical_target(b"/a?b=c"), Cow::Borrowed(_)));
    }

    proptest! {
        #[test]
        fn canonical_spelling_is_idempotent(target in "[/%0-9a-fA-F~é?]{0,24}") {
            let once = canonical_target(target.as_bytes()).into_owned();
            let twice = canonical_target(&once).into_owned();
            prop_assert_eq!(twice, once);
        }
    }
}
