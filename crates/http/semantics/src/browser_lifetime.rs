//! The lifetime of static files in browsers, if the application states none.
//!
//! Invariant: a statement of the application is never changed. A file gets the long lifetime only
//! if another content has another URL, because no purge reaches a browser.

use crate::static_files::{has_static_type, is_static_path, path_of};
use message::{ResponseHead, names};
use profiles::Policy;

/// The `Cache-Control` of a file whose URL changes with its content: a year, and RFC 8246.
const VERSIONED: &str = "max-age=31536000, immutable";

/// The `Cache-Control` of any other file: a week.
const UNVERSIONED: &str = "max-age=604800";

/// Query parameters that applications use to version their files.
const VERSION_PARAMETERS: [&[u8]; 3] = [b"ver", b"v", b"version"];

/// Fewest hexadecimal digits of a hash in a file's name. Django uses 12, webpack 20, Rails 64, and
/// bundlers with a setting for short names 8.
const HASH_DIGITS_MIN: usize = 8;

/// The `Cache-Control` that browsers get for the response with this head; `None` to leave it as it
/// is. `target` is that of the cache key, which has no parameters that make no difference.
pub fn browser_lifetime(target: &[u8], head: &ResponseHead, policy: &Policy) -> Option<&'static str> {
    let fields = &head.fields;
    let states_something = || {
        [names::CACHE_CONTROL, names::EXPIRES, names::PRAGMA, names::SET_COOKIE]
            .iter()
            .any(|name| fields.has(name))
            || fields.list(names::VARY).any(|name| name == b"*")
    };
    let is_file = policy.browser_caching
        && matches!(head.status.code(), 200 | 206)
        && has_static_type(fields)
        && !states_something()
        && is_static_path(target, policy);
    is_file.then(|| if is_versioned(target) { VERSIONED } else { UNVERSIONED })
}

/// The lifetime that a head that was sent before has, if it is one of [`browser_lifetime`].
pub fn known_lifetime(cache_control: &[u8]) -> Option<&'static str> {
    [VERSIONED, UNVERSIONED].into_iter().find(|known| known.as_bytes() == cache_control)
}

/// Whether another content of the file would have another URL.
fn is_versioned(target: &[u8]) -> bool {
    let path = path_of(target);
    let query = target.get(path.len() + 1..).unwrap_or_default();
    let has_version = query.split(|&octet| octet == b'&').any(|parameter| {
        let mut parts = parameter.splitn(2, |&octet| octet == b'=');
        let name = parts.next().unwrap_or_default();
        VERSION_PARAMETERS.contains(&name) && parts.next().is_some_and(|value| !value.is_empty())
    });
    let name = path.rsplit(|&octet| octet == b'/').next().unwrap_or_default();
    // The hash follows the name that people gave the file. A hash alone is rather the number of a
    // record, whose picture may change.
    let parts: Vec<_> = name.split(|octet| b".-_".contains(octet)).collect();
    let is_after_name = |parts: &[&[u8]]| matches!(parts, [before, part] if is_name(before) && is_hash(part));
    has_version || !has_uuid(&parts) && parts.windows(2).any(is_after_name)
}

/// Whether a part of a name is one that people gave: it has a letter beyond hexadecimal digits.
fn is_name(part: &[u8]) -> bool {
    part.iter().any(|octet| octet.is_ascii_alphabetic() && !octet.is_ascii_hexdigit())
}

/// Whether five parts in a row have the lengths of a UUID (RFC 9562), which names a record.
fn has_uuid(parts: &[&[u8]]) -> bool {
    let is_hex = |part: &&[u8]| part.iter().all(u8::is_ascii_hexdigit);
    let lengths = |parts: &[&[u8]]| parts.iter().map(|part| part.len()).eq([8, 4, 4, 4, 12]);
    parts.windows(5).any(|parts| lengths(parts) && parts.iter().all(is_hex))
}

/// Whether a part of a name is a hash, and neither a date, a number nor a word.
fn is_hash(part: &[u8]) -> bool {
    part.len() >= HASH_DIGITS_MIN
        && part.iter().all(u8::is_ascii_hexdigit)
        && part.iter().any(u8::is_ascii_digit)
        && part.iter().any(u8::is_ascii_alphabetic)
}

#[cfg(test)]
mod tests {
    use super::{UNVERSIONED, VERSIONED, browser_lifetime};
    use message::{ResponseHead, Status};
    use profiles::Policy;

    fn lifetime(target: &str, lines: &[(&'static str, &'static str)]) -> Option<&'static str> {
        let typed = [("Content-Type", "text/css")];
        let fields = typed.iter().filter(|_| lines.iter().all(|line| line.0 != "Content-Type")).chain(lines);
        let head = ResponseHead { fields: fields.copied().collect(), ..ResponseHead::new(Status::OK) };
        browser_lifetime(target.as_bytes(), &head, &Policy::default_profile())
    }

    #[test]
    fn versioned_files_last_a_year() {
        for target in [
            "/style.css?ver=6.5",
            "/style.css?x=1&v=9f",
            "/a/app.3f9a2b1c.css",
            "/js/base.27e20196a850.css",
            "/main-0123456789abcdef0123.css",
            "/a/2024/logo_deadbee7.css",
            "/my-logo.deadbee7.min.css",
        ] {
            assert_eq!(lifetime(target, &[]), Some(VERSIONED), "{target}");
        }
    }

    #[test]
    fn other_files_last_a_week() {
        for target in [
            "/style.css",
            "/style.css?ver=",
            "/style.css?ver",
            "/style.css?over=1",
            "/ver=1/style.css",
            "/photo-20240131.css",
            "/3f9a2b1c/style.css",
            "/defaced.css",
            "/deadbeef.css",
            "/3f9a2b1c.css",
            "/507f1f77bcf86cd799439011.css",
            "/550e8400-e29b-41d4-a716-446655440000.css",
            "/photo-550e8400-e29b-41d4-a716-446655440000.css",
            "/12-3f9a2b1c.css",
            "/3f9a2b1.css",
        ] {
            assert_eq!(lifetime(target, &[]), Some(UNVERSIONED), "{target}");
        }
    }

    #[test]
    fn statements_and_pages_stay_as_they_are() {
        for line in [
            ("Cache-Control", "max-age=5"),
            ("Cache-Control", ""),
            ("Expires", "0"),
            ("Pragma", "no-cache"),
            ("Set-Cookie", "a=b"),
            ("Vary", "Accept, *"),
            ("Content-Type", "text/html"),
            ("Content-Type", "application/json"),
        ] {
            assert_eq!(lifetime("/style.css?ver=1", &[line]), None, "{line:?}");
        }
        for target in ["/style.php?ver=1", "/avatar?v=2", "/a.php/style.css", "/a;b/style.css"] {
            assert_eq!(lifetime(target, &[]), None, "{target}");
        }
    }

    #[test]
    fn policy_and_status_decide_too() {
        let of = |status: u16, policy: &Policy| {
            let status = Status::from_code(status).unwrap();
            let fields = [("Content-Type", "image/png")].iter().copied().collect();
            let head = ResponseHead { fields, ..ResponseHead::new(status) };
            browser_lifetime(b"/a.png", &head, policy)
        };
        let policy = Policy::default_profile();
        assert_eq!(of(206, &policy), Some(UNVERSIONED));
        assert_eq!(of(404, &policy), None);
        assert_eq!(of(200, &Policy { browser_caching: false, ..policy.clone() }), None);
        assert_eq!(of(200, &Policy { static_files: false, ..policy }), None);
        assert_eq!(of(200, &Policy::rfc()), None);
    }
}
