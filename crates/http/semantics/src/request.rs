//! Decides whether a request may be answered from the store and share its response with others.
//!
//! Invariant: a request is looked up only if nothing in it could make its response different for
//! this client. It must have no credentials, no cookie other than noise, no content, and no field
//! outside the table in `request_fields`. If in doubt the request passes, and the reason says why.
//!
//! With the profile `rfc` the origin receives all fields and states in its response the fields that
//! the response depends on. There only the method, a method override, content, an upgrade,
//! `no-store` and the policy's paths and parameters make a request pass.

use crate::keyed_cookies::{is_keyed, repeated};
use crate::left_out::wants_events;
use crate::request_fields::{is_doubtful, is_method_override};
use crate::spelling::percent_decoded;
use crate::static_files::ignores_cookies;
use crate::{CulpritKind, Directives, Reason};
use bytes::Bytes;
use message::{Fields, Method, RequestHead, names};
use profiles::{Forwarding, Pattern, Policy, UnknownCookie};

/// The decision about one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestClass {
    /// Look it up; its response may be shared. The request's own directives are for
    /// [`crate::reuse`]. With `only_if_cached` a miss is refused as [`Reason::OnlyIfCached`]
    /// instead of fetched (RFC 9111 section 5.2.1.7).
    Lookup(Directives),
    /// Look it up without its cookies. Only a static file may answer it. If the response is no
    /// static file, the request is forwarded for this client alone.
    LookupStatic {
        /// The request's own directives, as for [`RequestClass::Lookup`].
        directives: Directives,
        /// Why the request passes if the response is no static file.
        otherwise: Reason,
    },
    /// Forward it for this client alone, for this reason.
    Pass(Reason),
}

/// Classifies a request. `has_content` says whether its framing announces content.
///
/// The request's `no-store` makes it pass, because its response must not be stored. A request with
/// `no-cache`, `max-age`, `min-fresh`, `max-stale` or `only-if-cached` is still looked up. So is a
/// request with conditional fields: they are evaluated against the stored or fetched response.
pub fn classify_request(request: &RequestHead, has_content: bool, policy: &Policy) -> RequestClass {
    let directives = Directives::of_request(&request.fields);
    let Some(cause) = cause(request, has_content, &directives, policy) else {
        return RequestClass::Lookup(directives);
    };
    let otherwise = cause.reason;
    let is_by_cookie = matches!(otherwise, Reason::PassCookie | Reason::PassUnknownCookie)
        && ignores_cookies(policy)
        && repeated(&request.fields, policy).is_none()
        && cause_but_cookies(request, has_content, &directives, policy).is_none();
    if is_by_cookie {
        RequestClass::LookupStatic { directives, otherwise }
    } else {
        RequestClass::Pass(otherwise)
    }
}

/// Whether a request carries credentials, or cookies other than noise and keyed cookies. Its fetch
/// is not shared with followers. Unknown cookies that the policy ignores do not count.
pub fn is_personal(request: &Fields, policy: &Policy) -> bool {
    // An ignored cookie is not forwarded, so it cannot make the response personal.
    let ignored = policy.forwarding == Forwarding::Keyed && policy.unknown_cookie == UnknownCookie::Ignore;
    let is = |name: &[u8], list: &[Pattern]| list.iter().any(|pattern| pattern.matches(name));
    let is_noise = |line: &Bytes| {
        cookie_names(line).all(|name| {
            is_keyed(name, policy)
                || is(name, &policy.noise_cookies)
                || ignored && !is(name, &policy.session_cookies)
        })
    };
    request.has(names::AUTHORIZATION) || !request.all(names::COOKIE).all(is_noise)
}

/// Why a request passes, and the part of the request that causes it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PassCause<'a> {
    pub(crate) reason: Reason,
    pub(crate) part: Option<(CulpritKind, &'a [u8])>,
}

impl<'a> PassCause<'a> {
    const fn of(reason: Reason, kind: CulpritKind, name: &'a [u8]) -> Self {
        Self { reason, part: Some((kind, name)) }
    }
}

/// Why the request passes; `None` if it is looked up.
pub(crate) fn cause<'a>(
    request: &'a RequestHead,
    has_content: bool,
    directives: &Directives,
    policy: &Policy,
) -> Option<PassCause<'a>> {
    own_cause(request, has_content, policy)
        .or_else(|| target_cause(&request.target, policy))
        .or_else(|| field_cause(&request.fields, true, policy))
        .or_else(|| no_store_cause(directives))
        .or_else(|| unmarked_cause(&request.target, policy))
}

/// The same as [`cause`], but for the request without its cookies.
pub(crate) fn cause_but_cookies<'a>(
    request: &'a RequestHead,
    has_content: bool,
    directives: &Directives,
    policy: &Policy,
) -> Option<PassCause<'a>> {
    own_cause(request, has_content, policy)
        .or_else(|| target_cause(&request.target, policy))
        .or_else(|| field_cause(&request.fields, false, policy))
        .or_else(|| no_store_cause(directives))
        .or_else(|| unmarked_cause(&request.target, policy))
}

fn no_store_cause(directives: &Directives) -> Option<PassCause<'static>> {
    let cause = PassCause::of(Reason::PassRequestNoStore, CulpritKind::Directive, b"no-store");
    directives.no_store.then_some(cause)
}

/// The causes that make a request pass with any profile, and the operator's switch for all
/// requests.
fn own_cause<'a>(request: &'a RequestHead, has_content: bool, policy: &Policy) -> Option<PassCause<'a>> {
    if !matches!(request.method, Method::Get | Method::Head) {
        return Some(PassCause::of(Reason::PassMethod, CulpritKind::Method, request.method.as_bytes()));
    }
    // This comes before the policy's field rules, because no application names this field in
    // `Vary`.
    if let Some(field) = request.fields.iter().find(|field| is_method_override(&field.name)) {
        return Some(PassCause::of(Reason::PassMethodOverride, CulpritKind::Field, &field.name));
    }
    if has_content {
        return Some(PassCause { reason: Reason::PassRequestBody, part: None });
    }
    if let Some(upgrade) = request.fields.iter().find(|field| field.is(names::UPGRADE)) {
        return Some(PassCause::of(Reason::PassUpgrade, CulpritKind::Field, &upgrade.name));
    }
    let off = PassCause { reason: Reason::PassCacheOff, part: None };
    (!policy.caches).then_some(off)
}

/// The field that makes the response specific to this client. With the profile `rfc` there is none,
/// because the origin receives all fields and its `Vary` is trusted.
fn field_cause<'a>(fields: &'a Fields, with_cookies: bool, policy: &Policy) -> Option<PassCause<'a>> {
    if policy.forwarding == Forwarding::Everything {
        return None;
    }
    let mut unknown = None;
    let mut cookie = None;
    for field in fields {
        let of = |reason| Some(PassCause::of(reason, CulpritKind::Field, &field.name));
        if field.is(names::AUTHORIZATION) {
            return of(Reason::PassAuthorization);
        }
        if field.is(names::COOKIE) {
            let found = if with_cookies { cookie_cause(&field.value, policy) } else { None };
            cookie = worse_cookie(cookie, found);
        } else if unknown.is_none() && is_doubtful(field, policy) {
            unknown = of(Reason::PassUnknownField);
        }
    }
    if !policy.keyed_cookies.is_empty()
        && let Some(name) = repeated(fields, policy)
    {
        return Some(PassCause::of(Reason::PassCookie, CulpritKind::Cookie, name));
    }
    let events = || PassCause::of(Reason::PassAccept, CulpritKind::Field, b"Accept");
    cookie.or(unknown).or_else(|| wants_events(fields).then(events))
}

/// Selects the better explanation: a known session cookie before an unknown cookie, then the first
/// one.
fn worse_cookie<'a>(known: Option<PassCause<'a>>, found: Option<PassCause<'a>>) -> Option<PassCause<'a>> {
    let is_session = |cause: &PassCause<'_>| cause.reason == Reason::PassCookie;
    if known.is_none() || (found.as_ref().is_some_and(is_session) && !known.as_ref().is_some_and(is_session))
    {
        found
    } else {
        known
    }
}

/// The names of the cookies in one `Cookie` line. The line is split at every semicolon, even inside
/// quotes. This finds every cookie that any application could find.
pub(crate) fn cookie_names(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|&byte| byte == b';')
        .filter(|pair| !pair.trim_ascii().is_empty())
        .map(|pair| pair.split(|&byte| byte == b'=').next().unwrap_or_default().trim_ascii())
}

/// Why one `Cookie` line makes the request pass; `None` if it does not.
fn cookie_cause<'a>(line: &'a [u8], policy: &Policy) -> Option<PassCause<'a>> {
    let mut unknown = None;
    for name in cookie_names(line) {
        if is_keyed(name, policy) {
            continue;
        }
        if policy.noise_cookies.iter().any(|noise| noise.matches(name)) {
            continue;
        }
        if policy.session_cookies.iter().any(|session| session.matches(name)) {
            return Some(PassCause::of(Reason::PassCookie, CulpritKind::Cookie, name));
        }
        if unknown.is_none() && policy.unknown_cookie == UnknownCookie::Pass {
            unknown = Some(PassCause::of(Reason::PassUnknownCookie, CulpritKind::Cookie, name));
        }
    }
    unknown
}

/// The path or query parameter that makes the policy never share this target.
fn target_cause<'a>(target: &'a [u8], policy: &Policy) -> Option<PassCause<'a>> {
    Some(match listed(target, &policy.bypass_paths, &policy.bypass_parameters)? {
        (CulpritKind::Path, path) => PassCause::of(Reason::PassPath, CulpritKind::Path, path),
        (kind, name) => PassCause::of(Reason::PassParameter, kind, name),
    })
}

/// The part of the target that makes the policy share only marked responses. See [`needs_mark`].
/// `cause` checks it last, so its reason means that the request has no other cause to pass.
fn unmarked_cause<'a>(target: &'a [u8], policy: &Policy) -> Option<PassCause<'a>> {
    let (kind, name) = listed(target, &policy.public_paths, &policy.public_parameters)?;
    Some(PassCause::of(Reason::PassUnmarked, kind, name))
}

/// Whether responses for this target are shared only if they say `public` and state a lifetime.
pub(crate) fn needs_mark(target: &[u8], policy: &Policy) -> bool {
    listed(target, &policy.public_paths, &policy.public_parameters).is_some()
}

/// The part of the target that one of these lists names: its path, or the name of a parameter.
///
/// The path is compared after percent-decoding. Parameters are separated by `&` or `;`.
fn listed<'a>(
    target: &'a [u8],
    paths: &[Pattern],
    parameters: &[Pattern],
) -> Option<(CulpritKind, &'a [u8])> {
    if paths.is_empty() && parameters.is_empty() {
        return None;
    }
    let (path, query) = match target.iter().position(|&byte| byte == b'?') {
        Some(mark) => {
            let (path, query) = target.split_at(mark);
            (path, query.get(1..).unwrap_or_default())
        }
        None => (target, &[][..]),
    };
    let decoded = percent_decoded(path);
    if paths.iter().any(|pattern| pattern.matches(&decoded)) {
        return Some((CulpritKind::Path, path));
    }
    let mut names = query
        .split(|&byte| byte == b'&' || byte == b';')
        .map(|pair| pair.split(|&byte| byte == b'=').next().unwrap_or_default());
    let found = names.find(|name| {
        let decoded = percent_decoded(name);
        parameters.iter().any(|pattern| pattern.matches(&decoded))
    });
    found.map(|name| (CulpritKind::Parameter, name))
}

#[cfg(test)]
mod tests {
    use super::{RequestClass, classify_request, is_personal};
    use crate::Reason;
    use message::{Fields, Method, RequestHead, Version};
    use profiles::{Pattern, Policy, UnknownCookie};

    fn request(target: &'static str, fields: &[(&'static str, &'static str)]) -> RequestHead {
        let mut section = Fields::new();
        section.push("Host", "example.org");
        fields.iter().for_each(|(name, value)| section.push(*name, *value));
        RequestHead { method: Method::Get, target: target.into(), version: Version::Http11, fields: section }
    }

    fn passes(request: &RequestHead, policy: &Policy) -> Option<Reason> {
        match classify_request(request, false, policy) {
            RequestClass::Lookup(_) => None,
            RequestClass::LookupStatic { otherwise: reason, .. } | RequestClass::Pass(reason) => Some(reason),
        }
    }

    fn field_passes(name: &'static str, value: &'static str) -> Option<Reason> {
        passes(&request("/", &[(name, value)]), &Policy::default_profile())
    }

    /// The fields that a browser sends for a page that it has in its own cache.
    const BROWSER: &[(&str, &str)] = &[
        ("User-Agent", "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"),
        ("Accept", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"),
        ("Accept-Language", "en-US,en;q=0.5"),
        ("Accept-Encoding", "gzip, deflate, br, zstd"),
        ("Connection", "keep-alive"),
        ("Referer", "http://example.org/"),
        ("Upgrade-Insecure-Requests", "1"),
        ("Sec-Fetch-Dest", "document"),
        ("Priority", "u=0, i"),
        ("If-None-Match", "\"1\""),
        ("Cache-Control", "max-age=0"),
        ("Cookie", "_ga=GA1.1.1; _ga_XYZ=1; _gid=2"),
    ];

    #[test]
    fn browser_request_is_looked_up() {
        let directives = match classify_request(&request("/", BROWSER), false, &Policy::default_profile()) {
            RequestClass::Lookup(directives) => directives,
            class => panic!("{class:?}"),
        };
        assert_eq!(directives.max_age_secs, Some(0));
    }

    #[test]
    fn only_get_and_head_without_content_are_looked_up() {
        let policy = Policy::default_profile();
        let mut head = request("/", &[]);
        assert_eq!(classify_request(&head, true, &policy), RequestClass::Pass(Reason::PassRequestBody));
        head.method = Method::Head;
        assert_eq!(passes(&head, &policy), None);
        for method in [Method::Post, Method::Options, Method::Other("PURGE".into())] {
            head.method = method;
            assert_eq!(passes(&head, &policy), Some(Reason::PassMethod));
        }
    }

    #[test]
    fn every_request_passes_with_the_cache_off() {
        let policy = Policy { caches: false, ..Policy::default_profile() };
        for target in ["/", "/style.css", "/?a=1"] {
            let class = classify_request(&request(target, &[("Cookie", "own=1")]), false, &policy);
            assert_eq!(class, RequestClass::Pass(Reason::PassCacheOff), "{target}");
        }
    }

    #[test]
    fn credentials_unknown_fields_and_no_store_pass() {
        assert_eq!(field_passes("authorization", "Basic eDp5"), Some(Reason::PassAuthorization));
        assert_eq!(field_passes("Range", "bytes=0-1"), None);
        assert_eq!(field_passes("Upgrade", "websocket"), Some(Reason::PassUpgrade));
        assert_eq!(field_passes("X-Api-Key", "1"), Some(Reason::PassUnknownField));
        assert_eq!(field_passes("X-WP-Nonce", "1"), Some(Reason::PassUnknownField));
        assert_eq!(field_passes("Cache-Control", "no-store"), Some(Reason::PassRequestNoStore));
        assert_eq!(field_passes("Cache-Control", "no-cache"), None);
    }

    #[test]
    fn script_requests_are_looked_up_except_event_streams() {
        for (name, value) in [
            ("Origin", "https://example.org"),
            ("Origin", "https://example.com"),
            ("Origin", "null"),
            ("HX-Request", "true"),
            ("X-Requested-With", "XMLHttpRequest"),
            ("Accept", "application/activity+json"),
            ("Accept", "text/html, */*;q=0"),
            ("Accept", "text/css,*/*;q=0.1"),
        ] {
            assert_eq!(field_passes(name, value), None, "{name}: {value}");
        }
        assert_eq!(field_passes("Accept", "text/event-stream"), Some(Reason::PassAccept));
    }

    #[test]
    fn request_with_cookies_is_looked_up_for_static_files() {
        let is_static = |fields: &[(&'static str, &'static str)], policy: &Policy| {
            let class = classify_request(&request("/a", fields), false, policy);
            matches!(class, RequestClass::LookupStatic { otherwise: Reason::PassCookie, .. })
        };
        let policy = Policy::default_profile();
        let session = ("Cookie", "sessionid=1; theme=2");
        assert!(is_static(&[session], &policy));
        for other in [
            ("Authorization", "Basic eDp5"),
            ("X-Api-Key", "1"),
            ("Cache-Control", "no-store"),
            ("Upgrade", "x"),
        ] {
            assert!(!is_static(&[session, other], &policy), "{other:?}");
        }
        assert!(!is_static(&[session], &Policy { static_files: false, ..policy }));
        assert!(!is_static(&[session], &Policy::rfc()));
    }

    #[test]
    fn cookies_are_noise_session_or_unknown() {
        assert_eq!(field_passes("Cookie", "_ga=1; ; _hjSessionUser_1=x"), None);
        assert_eq!(field_passes("Cookie", ""), None);
        assert_eq!(field_passes("Cookie", "_ga=1; PHPSESSID=1"), Some(Reason::PassCookie));
        assert_eq!(field_passes("Cookie", "theme=dark; _ga=1"), Some(Reason::PassUnknownCookie));
        assert_eq!(field_passes("Cookie", "theme=dark; sessionid=1"), Some(Reason::PassCookie));
        assert_eq!(field_passes("Cookie", "nonsense"), Some(Reason::PassUnknownCookie));
        assert_eq!(field_passes("Cookie", "_ga=\"a; sessionid=1\""), Some(Reason::PassCookie));
        let two = request("/", &[("Cookie", "sessionid=1"), ("Cookie", "theme=1")]);
        assert_eq!(passes(&two, &Policy::default_profile()), Some(Reason::PassCookie));
        let two = request("/", &[("Cookie", "theme=1"), ("Cookie", "_ga=1")]);
        assert_eq!(passes(&two, &Policy::default_profile()), Some(Reason::PassUnknownCookie));
    }

    #[test]
    fn ignored_unknown_cookies_do_not_include_session_cookies() {
        let policy = Policy { unknown_cookie: UnknownCookie::Ignore, ..Policy::default_profile() };
        assert_eq!(passes(&request("/", &[("Cookie", "theme=dark")]), &policy), None);
        let session = request("/", &[("Cookie", "theme=dark; laravel_session=1")]);
        assert_eq!(passes(&session, &policy), Some(Reason::PassCookie));
    }

    #[test]
    fn wordpress_session_cookies_pass() {
        let policy = Policy::wordpress();
        for cookie in [
            "wordpress_logged_in_0a1b=x",
            "wordpress_sec_0a=x",
            "wordpress_0a1b=x",
            "wp-postpass_0a=x",
            "comment_author_0a=x",
            "comment_author_email_0a=x",
            "woocommerce_items_in_cart=1",
            "wp_woocommerce_session_0a=x",
        ] {
            assert_eq!(
                passes(&request("/", &[("Cookie", cookie)]), &policy),
                Some(Reason::PassCookie),
                "{cookie}"
            );
        }
        for cookie in
            ["wordpress_test_cookie=WP+Cookie+check", "wp-settings-1=x", "wp-settings-time-1=2", "_ga=1"]
        {
            assert_eq!(passes(&request("/", &[("Cookie", cookie)]), &policy), None, "{cookie}");
        }
    }

    #[test]
    fn wordpress_paths_and_parameters_have_their_reasons() {
        let policy = Policy::wordpress();
        for target in [
            "/wp-admin",
            "/blog/wp-admin/post.php?x=1",
            "/wp-login.php",
            "/%77p-login.php",
            "//wp-login.php",
            "/wp-login.php/x.css",
            "/WP-Login.php",
            "/xmlrpc.php",
            "/wp-cron.php?doing_wp_cron=1",
        ] {
            assert_eq!(passes(&request(target, &[]), &policy), Some(Reason::PassPath), "{target}");
        }
        for target in ["/?preview=true", "/?p=1&Preview_id=2", "/?a&_wpnonce", "/shop/?add-to-cart=7"] {
            assert_eq!(passes(&request(target, &[]), &policy), Some(Reason::PassParameter), "{target}");
        }
        for target in ["/wp-json/wp/v2/posts", "/?rest%5Froute=/", "/blog/?rest_route=/a"] {
            assert_eq!(passes(&request(target, &[]), &policy), Some(Reason::PassUnmarked), "{target}");
            let own = request(target, &[("Cookie", "wordpress_logged_in_1=a")]);
            assert_eq!(passes(&own, &policy), Some(Reason::PassCookie), "{target}");
        }
        for target in
            ["/", "/wp-content/a.css?ver=1", "/about-wp-administration/", "/?s=preview", "/%zz%4", "/%"]
        {
            assert_eq!(passes(&request(target, &[]), &policy), None, "{target}");
        }
    }

    #[test]
    fn a_declared_noise_field_does_not_pass() {
        let mut policy = Policy::default_profile();
        policy.noise_fields.push(Pattern::new("X-Probe"));
        assert_eq!(passes(&request("/", &[("X-Probe", "1")]), &policy), None);
    }

    #[test]
    fn rfc_profile_looks_up_cookies_and_credentials() {
        let policy = Policy::rfc();
        for field in [
            ("Authorization", "Basic eDp5"),
            ("Cookie", "sessionid=1"),
            ("X-Api-Key", "1"),
            ("Accept", "a/b"),
            ("Origin", "null"),
            ("Range", "bytes=0-1"),
            ("Pragma", "foo"),
            ("Cache-Control", "nothing-to-see-here"),
        ] {
            assert_eq!(passes(&request("/wp-admin/?preview", &[field]), &policy), None, "{field:?}");
        }
        let no_store = request("/", &[("Cache-Control", "no-store")]);
        assert_eq!(passes(&no_store, &policy), Some(Reason::PassRequestNoStore));
        assert_eq!(passes(&request("/", &[("Upgrade", "x")]), &policy), Some(Reason::PassUpgrade));
        let plain = request("/", &[]);
        assert_eq!(classify_request(&plain, true, &policy), RequestClass::Pass(Reason::PassRequestBody));
        let post = RequestHead { method: Method::Post, ..plain };
        assert_eq!(passes(&post, &policy), Some(Reason::PassMethod));
    }

    #[test]
    fn cookies_beyond_noise_and_credentials_make_it_personal() {
        let personal =
            |name, value, policy: &Policy| is_personal(&request("/", &[(name, value)]).fields, policy);
        let strict = Policy::default_profile();
        let letter = Policy::rfc();
        assert!(personal("Authorization", "x", &strict) && personal("Authorization", "x", &letter));
        assert!(personal("Cookie", "_ga=1; theme=1", &strict) && personal("Cookie", "_ga=1", &letter));
        assert!(!personal("Cookie", "_ga=1; ;", &strict) && !personal("X-Api-Key", "1", &letter));
        let ignoring = |policy: &Policy| Policy { unknown_cookie: UnknownCookie::Ignore, ..policy.clone() };
        assert!(!personal("Cookie", "theme=1", &ignoring(&strict)));
        assert!(personal("Cookie", "theme=1; sessionid=2", &ignoring(&strict)));
        assert!(personal("Cookie", "theme=1", &ignoring(&letter)), "it is forwarded");
    }
}
