//! Static files: requests and responses for which cookies do not matter.
//!
//! Invariant: the path is only a hint, used to look a file up and to fetch it without cookies. The
//! response decides. It must have a static media type, so a page is never taken for a file,
//! whatever its URL looks like. The fetch carries no cookies, so its response cannot belong to one
//! visitor.

use crate::lifetime::states_lifetime;
use crate::set_cookie::meaningful_cookies;
use crate::spelling::percent_decoded;
use crate::{DirectiveScope, Directives, stated_directives};
use message::{Fields, ResponseHead, Status, names};
use profiles::{Forwarding, Policy};
use std::time::Duration;

/// Prefixes of media types of files. HTML, JSON, XML, PDF and plain text are missing, because
/// applications generate them for individual visitors.
const TYPES: &[&str] = &[
    "image/",
    "font/",
    "audio/",
    "video/",
    "text/css",
    "text/javascript",
    "application/javascript",
    "application/x-javascript",
    "application/font",
    "application/x-font",
    "application/vnd.ms-fontobject",
    "application/wasm",
];

/// File extensions of scripts. A path segment after a script is the script's argument and no file.
const SCRIPTS: &[&str] = &[".php", ".phtml", ".cgi", ".fcgi", ".pl", ".py", ".asp", ".aspx", ".jsp", ".do"];

/// Whether the profile or the operator allows cookies to be ignored for static files at all.
pub(crate) fn ignores_cookies(policy: &Policy) -> bool {
    policy.static_files && policy.forwarding == Forwarding::Keyed
}

/// Whether the target looks like a file: by the extension of its last segment, or by a path
/// declared static.
pub fn is_static_path(target: &[u8], policy: &Policy) -> bool {
    let path = path_of(target);
    let decoded = percent_decoded(path);
    if !ignores_cookies(policy) || is_confusing(path, &decoded) {
        return false;
    }
    let mut segments = decoded.rsplit(|&octet| octet == b'/');
    let last = segments.next().unwrap_or_default();
    let is_script = |segment: &[u8]| SCRIPTS.iter().any(|end| ends_with(segment, end));
    let mut parts = last.rsplitn(2, |&octet| octet == b'.');
    let extension = parts.next().unwrap_or_default();
    let stem = parts.next().unwrap_or_default();
    let has_extension = !stem.is_empty()
        && !segments.any(is_script)
        && policy.static_extensions.iter().any(|known| extension.eq_ignore_ascii_case(known.as_bytes()));
    has_extension || policy.static_paths.iter().any(|pattern| pattern.matches(&decoded))
}

/// Whether the operator or the profile declares that cookies change nothing at this path.
fn is_declared(target: &[u8], policy: &Policy) -> bool {
    let path = path_of(target);
    let decoded = percent_decoded(path);
    !is_confusing(path, &decoded) && policy.static_paths.iter().any(|pattern| pattern.matches(&decoded))
}

/// Whether servers may disagree about the file that a path names. The causes are path parameters,
/// encoded separators, dot segments and double encodings.
fn is_confusing(path: &[u8], decoded: &[u8]) -> bool {
    let slashes = |octets: &[u8]| octets.iter().filter(|&&octet| octet == b'/').count();
    let is_odd = |octet: &u8| matches!(octet, b';' | b'\\' | b'%' | b'?' | b'#' | 0..=0x1f | 0x7f);
    let is_dots = |segment: &[u8]| segment == b"." || segment == b"..";
    slashes(path) != slashes(decoded)
        || decoded.iter().any(is_odd)
        || decoded.split(|&octet| octet == b'/').any(is_dots)
}

/// Whether this response to a request without cookies is the one that a request with cookies would
/// get.
///
/// The response must have a static media type. This suffices at a declared path. Elsewhere it must
/// not vary by cookie or set a meaningful one, and one of two things must hold. Either it says that
/// it may be shared and for how long. Or its path looks like a file and it has a lifetime or a
/// `Last-Modified`.
pub fn is_for_any_cookie(target: &[u8], status: Status, response: &Fields, policy: &Policy) -> bool {
    if !ignores_cookies(policy) || !matches!(status.code(), 200 | 206) || !has_static_type(response) {
        return false;
    }
    if is_declared(target, policy) {
        return true;
    }
    if response.list(names::VARY).any(|name| name == b"*" || name.eq_ignore_ascii_case(b"cookie"))
        || meaningful_cookies(response, policy).next().is_some()
    {
        return false;
    }
    let is_a_file = || states_lifetime(response, policy) || response.has(names::LAST_MODIFIED);
    says_shared(response, policy) || is_static_path(target, policy) && is_a_file()
}

/// Whether the response's cookies are sent only to the visitor whose request led the fetch, so that
/// the rest of the response may be shared.
pub(crate) fn loses_cookies(target: &[u8], status: Status, response: &Fields, policy: &Policy) -> bool {
    ignores_cookies(policy)
        && matches!(status.code(), 200 | 206)
        && has_static_type(response)
        && (says_shared(response, policy) || is_declared(target, policy))
}

/// How long a file that says `no-cache` is used without asking the origin; `None` if it is not.
///
/// `no-cache` is the origin's statement (RFC 9111 section 5.2.2.4). Only a profile may permit this,
/// for a system that sends `no-cache` with every file whose lifetime was not configured.
///
/// The file must be at a declared path and have a static media type, an `ETag` and a
/// `Last-Modified`. It must say nothing else to caches.
pub fn recheck(target: &[u8], response: &ResponseHead, policy: &Policy) -> Option<Duration> {
    let time = policy.static_recheck.filter(|time| !time.is_zero())?;
    let fields = &response.fields;
    let is_file = response.status == Status::OK
        && ignores_cookies(policy)
        && is_declared(target, policy)
        && has_static_type(fields)
        && fields.has(names::ETAG)
        && fields.has(names::LAST_MODIFIED)
        && !fields.has(names::EXPIRES)
        && !fields.has(names::PRAGMA);
    let (directives, targeted) = stated_directives(fields, policy);
    let no_cache_alone = Directives { no_cache: DirectiveScope::Everything, ..Directives::default() };
    (is_file && !targeted && directives == no_cache_alone).then_some(time)
}

/// Whether the response says that caches may share it, and for how long.
fn says_shared(response: &Fields, policy: &Policy) -> bool {
    let (directives, _) = stated_directives(response, policy);
    (directives.public || directives.s_maxage_secs.is_some()) && states_lifetime(response, policy)
}

/// Whether the content has a static media type, which is not generated for one visitor. A response
/// with two `Content-Type` fields has none.
pub(crate) fn has_static_type(response: &Fields) -> bool {
    let Some(value) = response.only(names::CONTENT_TYPE) else { return false };
    TYPES.iter().any(|known| {
        let start =
            value.get(..known.len()).is_some_and(|start| start.eq_ignore_ascii_case(known.as_bytes()));
        let after = value.get(known.len());
        start
            && (known.ends_with('/')
                || known.contains("font")
                || matches!(after, None | Some(b';' | b' ' | b'\t')))
    })
}

pub(crate) fn path_of(target: &[u8]) -> &[u8] {
    target.split(|&octet| octet == b'?').next().unwrap_or_default()
}

fn ends_with(segment: &[u8], end: &str) -> bool {
    let start = segment.len().checked_sub(end.len());
    start.and_then(|start| segment.get(start..)).is_some_and(|tail| tail.eq_ignore_ascii_case(end.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::{is_for_any_cookie, is_static_path, loses_cookies};
    use crate::tests::policy_of;
    use crate::{Judgement, Moment, judge_response};
    use clock::Timestamp;
    use message::{Fields, Method, RequestHead, ResponseHead, Status, Version};
    use profiles::{Pattern, Policy};
    use std::time::Duration;

    fn is_for_any(target: &str, lines: &[(&'static str, &'static str)]) -> bool {
        let fields: Fields = lines.iter().copied().collect();
        is_for_any_cookie(target.as_bytes(), Status::OK, &fields, &Policy::default_profile())
    }

    const SHARED: (&str, &str) = ("Cache-Control", "public, max-age=60");
    const CSS: (&str, &str) = ("Content-Type", "text/css; charset=utf-8");

    #[test]
    fn only_unambiguous_file_names_are_static_paths() {
        let policy = Policy::default_profile();
        for target in
            ["/a.css", "/a/b.min.JS?v=1", "/f/x.woff2", "/my%20photo.jpg", "/v1.2/a@2x.png", "/.x/a.svg"]
        {
            assert!(is_static_path(target.as_bytes(), &policy), "{target}");
        }
        for target in [
            "/",
            "/account",
            "/.css",
            "/account.php/x.css",
            "/account.PHP/a/x.css",
            "/account;x.css",
            "/account%3bx.css",
            "/account%2fx.css",
            "/account%252fx.css",
            "/account%00.css",
            "/account%0a.css",
            "/account%3fx.css",
            "/account%23x.css",
            "/account\\x.css",
            "/a/../x.css",
            "/a/%2e%2e/x.css",
            "/account?x.css",
            "/report.pdf",
            "/data.json",
            "/page.html",
        ] {
            assert!(!is_static_path(target.as_bytes(), &policy), "{target}");
        }
        assert!(!is_static_path(b"/a.css", &Policy::rfc()));
    }

    #[test]
    fn page_at_the_path_of_a_file_is_not_a_file() {
        for kind in [
            "text/html",
            "text/html; x=text/css",
            "application/json",
            "text/cssx",
            "text/plain",
            "text/css, text/html",
        ] {
            assert!(!is_for_any("/x.css", &[SHARED, ("Content-Type", kind)]), "{kind}");
        }
        assert!(!is_for_any("/x.css", &[SHARED]), "no type");
        assert!(!is_for_any("/x.css", &[SHARED, CSS, ("Content-Type", "text/html")]), "two types");
    }

    #[test]
    fn response_must_permit_sharing_or_look_like_a_file() {
        let dated = ("Last-Modified", "Mon, 03 Nov 2025 10:00:00 GMT");
        assert!(is_for_any("/x.css", &[CSS, ("Cache-Control", "max-age=60")]));
        assert!(is_for_any("/x.css", &[CSS, dated]));
        assert!(!is_for_any("/x.css", &[CSS]), "a program's response, which says nothing");
        assert!(is_for_any("/style", &[CSS, SHARED]));
        assert!(!is_for_any("/style", &[CSS, ("Cache-Control", "max-age=60"), dated]));
        assert!(!is_for_any("/style", &[CSS, ("Cache-Control", "public, max-age=0")]));
        assert!(!is_for_any("/x.css", &[CSS, SHARED, ("Vary", "Accept-Encoding, cookie")]));
        assert!(!is_for_any("/x.css", &[CSS, SHARED, ("Set-Cookie", "a=b")]));
    }

    #[test]
    fn declared_path_ignores_vary_by_cookie_but_not_the_type() {
        let mut policy = Policy::default_profile();
        policy.static_paths.push(Pattern::new("/static/*"));
        let is = |target: &str, kind: &'static str| {
            let fields: Fields = [("Content-Type", kind), ("Vary", "Cookie")].into_iter().collect();
            let is_for_any = is_for_any_cookie(target.as_bytes(), Status::OK, &fields, &policy);
            assert_eq!(loses_cookies(target.as_bytes(), Status::OK, &fields, &policy), is_for_any);
            is_for_any
        };
        assert!(is("/static/app", "text/css"));
        assert!(!is("/static/app", "text/html"));
        assert!(!is("/static/../account", "text/css") && !is("/static/..%2faccount", "text/css"));
    }

    /// How many seconds a response to `target` is fresh, and the names of its withheld fields;
    /// `None` if it may not be used without asking the origin.
    fn used(
        target: &'static str,
        lines: &[(&'static str, &'static str)],
        policy: &Policy,
    ) -> Option<(u64, Vec<String>)> {
        let request = RequestHead {
            method: Method::Get,
            target: target.into(),
            version: Version::Http11,
            fields: Fields::new(),
        };
        let response =
            ResponseHead { fields: lines.iter().copied().collect(), ..ResponseHead::new(Status::OK) };
        let now = Moment { wall: Timestamp::from_secs(1_762_164_000), ..Moment::default() };
        let Judgement::Store(storable) = judge_response(&request, &response, now, now, policy) else {
            return None;
        };
        let freshness = storable.freshness;
        if freshness.must_be_validated(now) {
            return None;
        }
        assert!(freshness.while_revalidate.is_zero());
        let withheld = storable.withheld.iter().map(|name| String::from_utf8_lossy(name).into_owned());
        Some((freshness.lifetime.as_secs(), withheld.collect()))
    }

    /// Ten minutes before the moment of [`used`].
    const CHANGED: (&str, &str) = ("Last-Modified", "Mon, 03 Nov 2025 09:50:00 GMT");
    const LONG_AGO: (&str, &str) = ("Last-Modified", "Sun, 02 Nov 2025 10:00:00 GMT");
    const TAG: (&str, &str) = ("ETag", "\"1-2-3\"");

    #[test]
    fn file_without_lifetime_is_used_for_a_tenth_of_its_age() {
        let policy = Policy::default_profile();
        assert_eq!(used("/x.css", &[CSS, CHANGED], &policy), Some((60, vec![])));
        assert_eq!(used("/x.css", &[CSS, LONG_AGO], &policy), Some((300, vec![])), "limited to the maximum");
        let private = ("Cache-Control", "private");
        for (target, fields) in [
            ("/x", &[CSS, LONG_AGO][..]),
            ("/x.css", &[("Content-Type", "text/html"), LONG_AGO]),
            ("/x.css", &[CSS, LONG_AGO, ("Vary", "Cookie")]),
            ("/x.css", &[CSS, LONG_AGO, ("Set-Cookie", "a=b")]),
            ("/x.css", &[CSS, LONG_AGO, ("Cache-Control", "no-cache")]),
            ("/x.css", &[CSS, LONG_AGO, ("Pragma", "no-cache")]),
            ("/x.css", &[CSS, LONG_AGO, ("Expires", "0")]),
            ("/x.css", &[CSS, LONG_AGO, ("Surrogate-Control", "no-store")]),
            ("/x.css", &[CSS, LONG_AGO, ("Vary", "*")]),
            ("/x.css", &[CSS, LONG_AGO, ("Cache-Control", "max-age=0")]),
            ("/x.css", &[CSS, LONG_AGO, ("Cache-Control", "public, must-revalidate")]),
            ("/x.css", &[CSS, LONG_AGO, ("Cache-Control", "proxy-revalidate")]),
            ("/x.css", &[CSS, TAG]),
            ("/x.css", &[CSS, ("Last-Modified", "Mon, 03 Nov 2025 10:00:00 GMT")]),
            ("/x.css", &[CSS, LONG_AGO, private]),
        ] {
            assert_eq!(used(target, fields, &policy), None, "{target} {fields:?}");
        }
    }

    #[test]
    fn flask_file_that_says_no_cache_is_used_for_ten_seconds() {
        let flask = policy_of("flask");
        let no_cache = ("Cache-Control", "no-cache");
        let file = [CSS, CHANGED, TAG, no_cache];
        assert_eq!(used("/static/x.css", &file, &flask), Some((10, vec![])));
        let session = [CSS, CHANGED, TAG, no_cache, ("Vary", "Cookie"), ("Set-Cookie", "session=abc")];
        assert_eq!(used("/static/x.css", &session, &flask), Some((10, vec!["Set-Cookie".to_owned()])));
        for (target, fields) in [
            ("/uploads/x.css", &file[..]),
            ("/static/x.css", &[CSS, CHANGED, no_cache]),
            ("/static/x.css", &[CSS, TAG, no_cache]),
            ("/static/x.css", &[("Content-Type", "text/html"), CHANGED, TAG, no_cache]),
            ("/static/x.css", &[CSS, CHANGED, TAG, ("Cache-Control", "no-cache, must-revalidate")]),
            ("/static/x.css", &[CSS, CHANGED, TAG, ("Cache-Control", "no-cache, max-age=0")]),
            ("/static/x.css", &[CSS, CHANGED, TAG, ("Cache-Control", "no-cache, private")]),
            ("/static/x.css", &[CSS, CHANGED, TAG, ("Cache-Control", "no-cache, no-store")]),
            ("/static/x.css", &[CSS, CHANGED, TAG, ("Cache-Control", "no-cache=\"Set-Cookie\"")]),
            ("/static/x.css", &[CSS, CHANGED, TAG, no_cache, ("CDN-Cache-Control", "no-cache")]),
            ("/static/x.css", &[CSS, CHANGED, TAG, no_cache, ("Pragma", "no-cache")]),
            ("/static/x.css", &[CSS, CHANGED, TAG, no_cache, ("Expires", "0")]),
            ("/static/x.css", &[("Content-Type", "application/json"), CHANGED, TAG, no_cache]),
            ("/static/../x.css", &file),
            ("/static/%2e%2e/x.css", &file),
        ] {
            assert_eq!(used(target, fields, &flask), None, "{target} {fields:?}");
        }
        assert_eq!(used("/static/x.css", &file, &Policy::default_profile()), None);
        let off = Policy { static_recheck: Some(Duration::ZERO), ..flask };
        assert_eq!(used("/static/x.css", &file, &off), None);
    }
}
