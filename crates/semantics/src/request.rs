//! May this request be answered from the store, or share its answer with others?
//!
//! Invariant: a request is looked up only if it is known to carry nothing that could make its answer
//! different for this client: no credentials, no cookie but noise, no content, no field outside our table. In
//! doubt it passes, with the reason. By the letter, where the origin gets all of that and says in its answer what
//! it means, only the method, content, an upgrade and `no-store` make a request pass.

use crate::keyed_cookies::{is_keyed, repeated};
use crate::left_out::wants_events;
use crate::request_fields::{is_doubtful, is_method_override};
use crate::static_files::ignores_cookies;
use crate::{CulpritKind, Directives, Forwarding, Pattern, Policy, Reason, UnknownCookie};
use bytes::Bytes;
use message::{Fields, Method, RequestHead, names};

/// What is to be done with a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestClass {
    /// Look it up; its answer may be shared. The request's own directives are for [`crate::reuse`]; with
    /// `only_if_cached` a miss is refused as [`Reason::OnlyIfCached`] instead of fetched (RFC 9111 section 5.2.1.7).
    Lookup(Directives),
    /// Look it up without its cookies: a static file may answer it, and nothing else. Otherwise forward it for this
    /// client alone, for this reason.
    LookupStatic {
        /// As for a look-up.
        directives: Directives,
        /// Why it passes where the response is no static file.
        otherwise: Reason,
    },
    /// Forward it for this client alone.
    Pass(Reason),
}

/// Classifies a request. `has_content` says whether its framing announces content.
///
/// The request's `no-store` makes it pass, because its answer must not be kept; `no-cache`, `max-age`,
/// `min-fresh`, `max-stale` and `only-if-cached` leave it a look-up. Conditional fields do so too: they are
/// evaluated against what is stored or fetched.
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

/// Whether a request carries cookies beyond noise, or credentials: its fetch is shared with nobody who waits.
pub fn is_personal(request: &Fields, policy: &Policy) -> bool {
    // What is not forwarded is nobody's.
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

/// Why a request passes, and the part of it that is the cause.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cause<'a> {
    pub(crate) reason: Reason,
    pub(crate) part: Option<(CulpritKind, &'a [u8])>,
}

impl<'a> Cause<'a> {
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
) -> Option<Cause<'a>> {
    own_cause(request, has_content)
        .or_else(|| target_cause(&request.target, policy))
        .or_else(|| field_cause(&request.fields, true, policy))
        .or_else(|| no_store_cause(directives))
        .or_else(|| unmarked_cause(&request.target, policy))
}

/// As [`cause`], of a request without its cookies.
fn cause_but_cookies<'a>(
    request: &'a RequestHead,
    has_content: bool,
    directives: &Directives,
    policy: &Policy,
) -> Option<Cause<'a>> {
    own_cause(request, has_content)
        .or_else(|| target_cause(&request.target, policy))
        .or_else(|| field_cause(&request.fields, false, policy))
        .or_else(|| no_store_cause(directives))
        .or_else(|| unmarked_cause(&request.target, policy))
}

fn no_store_cause(directives: &Directives) -> Option<Cause<'static>> {
    let cause = Cause::of(Reason::PassRequestNoStore, CulpritKind::Directive, b"no-store");
    directives.no_store.then_some(cause)
}

/// What makes a request its client's own by any profile.
fn own_cause(request: &RequestHead, has_content: bool) -> Option<Cause<'_>> {
    if !matches!(request.method, Method::Get | Method::Head) {
        return Some(Cause::of(Reason::PassMethod, CulpritKind::Method, request.method.as_bytes()));
    }
    // Before the profile is asked: no application names this field in `Vary`.
    if let Some(field) = request.fields.iter().find(|field| is_method_override(&field.name)) {
        return Some(Cause::of(Reason::PassMethodOverride, CulpritKind::Field, &field.name));
    }
    if has_content {
        return Some(Cause { reason: Reason::PassRequestBody, part: None });
    }
    let upgrade = request.fields.iter().find(|field| field.is(names::UPGRADE));
    upgrade.map(|upgrade| Cause::of(Reason::PassUpgrade, CulpritKind::Field, &upgrade.name))
}

/// What in the fields makes the answer this client's own. Nothing does so where the origin gets all of them and is
/// taken at its word about what its answer depends on.
fn field_cause<'a>(fields: &'a Fields, with_cookies: bool, policy: &Policy) -> Option<Cause<'a>> {
    if policy.forwarding == Forwarding::Everything {
        return None;
    }
    let (mut unknown, mut cookie) = (None, None);
    for field in fields {
        let of = |reason| Some(Cause::of(reason, CulpritKind::Field, &field.name));
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
        return Some(Cause::of(Reason::PassCookie, CulpritKind::Cookie, name));
    }
    let events = || Cause::of(Reason::PassAccept, CulpritKind::Field, b"Accept");
    cookie.or(unknown).or_else(|| wants_events(fields).then(events))
}

/// A known session cookie is the better explanation than an unknown cookie, and the first of several.
fn worse_cookie<'a>(known: Option<Cause<'a>>, found: Option<Cause<'a>>) -> Option<Cause<'a>> {
    let is_session = |cause: &Cause<'_>| cause.reason == Reason::PassCookie;
    if known.is_none() || (found.as_ref().is_some_and(is_session) && !known.as_ref().is_some_and(is_session))
    {
        found
    } else {
        known
    }
}

/// The names of the cookies in one `Cookie` line. They are split at every semicolon, quoted or not: so we see at
/// least the cookies that any application sees.
pub(crate) fn cookie_names(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|&byte| byte == b';')
        .filter(|pair| !pair.trim_ascii().is_empty())
        .map(|pair| pair.split(|&byte| byte == b'=').next().unwrap_or_default().trim_ascii())
}

/// What one `Cookie` line means.
fn cookie_cause<'a>(line: &'a [u8], policy: &Policy) -> Option<Cause<'a>> {
    let mut unknown = None;
    for name in cookie_names(line) {
        if is_keyed(name, policy) {
            continue;
        }
        if policy.noise_cookies.iter().any(|noise| noise.matches(name)) {
            continue;
        }
        if policy.session_cookies.iter().any(|session| session.matches(name)) {
            return Some(Cause::of(Reason::PassCookie, CulpritKind::Cookie, name));
        }
        if unknown.is_none() && policy.unknown_cookie == UnknownCookie::Pass {
            unknown = Some(Cause::of(Reason::PassUnknownCookie, CulpritKind::Cookie, name));
        }
    }
    unknown
}

/// Whether the policy never shares this target: by its path, or by a query parameter.
fn target_cause<'a>(target: &'a [u8], policy: &Policy) -> Option<Cause<'a>> {
    Some(match listed(target, &policy.bypass_paths, &policy.bypass_parameters)? {
        (CulpritKind::Path, path) => Cause::of(Reason::PassPath, CulpritKind::Path, path),
        (kind, name) => Cause::of(Reason::PassParameter, kind, name),
    })
}

/// Whether the policy shares this target only where the answer says so. Nothing else keeps the request from being
/// looked up.
fn unmarked_cause<'a>(target: &'a [u8], policy: &Policy) -> Option<Cause<'a>> {
    let (kind, name) = listed(target, &policy.public_paths, &policy.public_parameters)?;
    Some(Cause::of(Reason::PassUnmarked, kind, name))
}

/// Whether answers for this target are shared only if they say `public` and for how long.
pub(crate) fn needs_mark(target: &[u8], policy: &Policy) -> bool {
    listed(target, &policy.public_paths, &policy.public_parameters).is_some()
}

/// The part of the target that one of these lists names: its path, or the name of a parameter.
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

/// The octets with every valid percent-encoding resolved once, as an origin's router sees them.
pub(crate) fn percent_decoded(octets: &[u8]) -> Vec<u8> {
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

#[cfg(test)]
mod tests {
    use super::{RequestClass, classify_request, is_personal};
    use crate::{Pattern, Policy, Reason, UnknownCookie};
    use message::{Fields, Method, RequestHead, Version};

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

    /// What a browser sends with a page that it has in its own cache.
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
    fn a_browser_is_looked_up() {
        let directives = match classify_request(&request("/", BROWSER), false, &Policy::default_profile()) {
            RequestClass::Lookup(directives) => directives,
            class => panic!("{class:?}"),
        };
        assert_eq!(directives.max_age_secs, Some(0));
    }

    #[test]
    fn methods_and_content() {
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
    fn fields_that_make_a_request_its_clients_own() {
        assert_eq!(field_passes("authorization", "Basic eDp5"), Some(Reason::PassAuthorization));
        assert_eq!(field_passes("Range", "bytes=0-1"), None);
        assert_eq!(field_passes("Upgrade", "websocket"), Some(Reason::PassUpgrade));
        assert_eq!(field_passes("X-Api-Key", "1"), Some(Reason::PassUnknownField));
        assert_eq!(field_passes("X-WP-Nonce", "1"), Some(Reason::PassUnknownField));
        assert_eq!(field_passes("Cache-Control", "no-store"), Some(Reason::PassRequestNoStore));
        assert_eq!(field_passes("Cache-Control", "no-cache"), None);
    }

    #[test]
    fn scripts_and_their_types_are_looked_up_but_for_events() {
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
    fn cookies_alone_leave_a_request_to_static_files() {
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
    fn a_policy_may_ignore_unknown_cookies_but_not_sessions() {
        let policy = Policy { unknown_cookie: UnknownCookie::Ignore, ..Policy::default_profile() };
        assert_eq!(passes(&request("/", &[("Cookie", "theme=dark")]), &policy), None);
        let session = request("/", &[("Cookie", "theme=dark; laravel_session=1")]);
        assert_eq!(passes(&session, &policy), Some(Reason::PassCookie));
    }

    #[test]
    fn wordpress_cookies() {
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
    fn wordpress_paths_and_parameters() {
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
    fn by_the_letter_the_origin_says_what_its_answer_depends_on() {
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
    fn cookies_beyond_noise_and_credentials_are_personal() {
        let personal =
            |name, value, policy: &Policy| is_personal(&request("/", &[(name, value)]).fields, policy);
        let (strict, letter) = (Policy::default_profile(), Policy::rfc());
        assert!(personal("Authorization", "x", &strict) && personal("Authorization", "x", &letter));
        assert!(personal("Cookie", "_ga=1; theme=1", &strict) && personal("Cookie", "_ga=1", &letter));
        assert!(!personal("Cookie", "_ga=1; ;", &strict) && !personal("X-Api-Key", "1", &letter));
        let ignoring = |policy: &Policy| Policy { unknown_cookie: UnknownCookie::Ignore, ..policy.clone() };
        assert!(!personal("Cookie", "theme=1", &ignoring(&strict)));
        assert!(personal("Cookie", "theme=1; sessionid=2", &ignoring(&strict)));
        assert!(personal("Cookie", "theme=1", &ignoring(&letter)), "it is forwarded");
    }
}
