//! The first two steps of a request: *guard* refuses requests that must go no further, *key*
//! computes the cache key. Neither step reads the store or contacts the origin.
//!
//! Invariants: a client's own request is sent to the origin with the host and target in
//! [`RequestSubject`], a shared one with those of its key. A client's claims about host, scheme or
//! address count only if it is a trusted proxy.

use crate::hosts::{AmbiguousPath, Host, Route, RouteChoice};
use crate::memory::detection::RulesInForce;
use crate::memory::served_directory::ServedDirectory;
use crate::request::arrival::Arrival;
use crate::request::client_address::address_of;
use crate::request::refusal::Refusal;
use crate::request::route_answer::answer;
use crate::shared::Shared;
use crate::sites::Site;
use bytes::Bytes;
use config::{FieldRules, PasswordPlan};
use h1::{BodyFraming, EffectiveAuthority, Request, Target, TargetForm};
use message::{Method, RequestHead, names};
use net::Peer;
use semantics::{Directives, Reason, RequestClass, claims_context, classify_request, keyed_target};
use std::sync::Arc;
use store::Key;

/// The site, host and target of a request.
#[derive(Clone, Debug)]
pub(crate) struct RequestSubject<'a> {
    pub(crate) site: &'a Arc<Site>,
    /// The `Host` for the origin.
    pub(crate) host: Bytes,
    /// The target in origin-form, or `*`, as it was sent. The key has it without tracking
    /// parameters.
    pub(crate) target: Bytes,
    /// Whether the client uses https, as far as the edge knows.
    pub(crate) https: bool,
    /// Whether the request's forwarding fields are trusted.
    pub(crate) trusted: bool,
    /// The client's end of the connection; `None` for requests of the edge itself.
    pub(crate) peer: Option<Peer>,
    /// The version of the site's rules that this was computed with; see [`Site::rules`].
    pub(crate) rules: RulesInForce,
}

/// The field in which Traefik, Spring and others write the path prefix that they removed.
pub(crate) const X_FORWARDED_PREFIX: &str = "X-Forwarded-Prefix";

/// The field in which CDNs identify themselves (RFC 8586).
pub(crate) const CDN_LOOP: &str = "CDN-Loop";

/// A request that was admitted to a site, before its route decides on the answer.
pub(crate) struct Admitted<'a> {
    host: &'a Host,
    /// The route that is for the request, if the site itself is not.
    pub(crate) route: Option<&'a Arc<Route>>,
    /// As [`RouteChoice::vary`].
    pub(crate) vary: Option<String>,
    pub(crate) target: Bytes,
    pub(crate) trusted: bool,
    arrival: Arrival,
}

/// Admits a request to its site, or refuses it.
pub(crate) fn admit<'a>(
    shared: &'a Shared,
    arrival: Arrival,
    request: &Request,
) -> Result<Admitted<'a>, Refusal> {
    let head = &request.head;
    if is_silenced(shared, head) {
        return Err(Refusal::unknown_site(true));
    }
    if head.method == Method::Connect {
        return Err(Refusal::connect());
    }
    if head.method == Method::Trace {
        return Err(Refusal::trace());
    }
    if forwards_left(head) == Some(0) {
        return Err(Refusal::last_hop());
    }
    let authority = EffectiveAuthority::of(head).map(|effective| effective.authority);
    let host = shared.sites.host(authority).ok_or_else(|| Refusal::unknown_site(false))?;
    let target = origin_target(head)?;
    let choice = host.route(head, &target).map_err(|AmbiguousPath| Refusal::ambiguous_path())?;
    let trusted = arrival.peer.ip().is_some_and(|ip| shared.plan.trusted_proxies.contains(ip));
    let RouteChoice { route, vary } = choice;
    let admitted = Admitted { host, route, vary, target, trusted, arrival };
    if matches!(request.framing, BodyFraming::Length(bytes) if bytes > admitted.content_bytes_max(shared)) {
        return Err(Refusal::too_large());
    }
    Ok(admitted)
}

/// Whether a request gets no response, because it names an unknown host.
pub(crate) fn is_silenced(shared: &Shared, head: &RequestHead) -> bool {
    let authority = || EffectiveAuthority::of(head).map(|effective| effective.authority);
    shared.plan.closes_unknown_hosts && shared.sites.host(authority()).is_none()
}

impl<'a> Admitted<'a> {
    /// The names of the site.
    pub(crate) fn names(&self) -> &'a [String] {
        self.host.names()
    }

    /// The site whose pages answer the request; `None` if the route answers by itself.
    pub(crate) fn site(&self) -> Option<&'a Arc<Site>> {
        self.route.map_or_else(|| self.host.site(), |route| route.site.as_ref())
    }

    /// Changes to the header fields of the response.
    pub(crate) fn response_fields(&self) -> Option<&'a FieldRules> {
        self.route.map(|route| &*route.plan.response_fields).filter(|rules| !rules.is_empty())
    }

    /// The password that the client must know.
    pub(crate) fn password(&self) -> Option<&'a Arc<PasswordPlan>> {
        self.route.and_then(|route| route.plan.password.as_ref())
    }

    /// The time in seconds for which the client shall use https only, if it uses https.
    pub(crate) fn hsts_secs(&self, head: &RequestHead) -> Option<u64> {
        let is_public_https = self.site().is_some_and(|site| site.plan.public_https);
        let own = || self.host.site().and_then(|site| site.plan.hsts_secs);
        let stated = self.route.map_or_else(own, |route| route.plan.hsts_secs);
        stated.filter(|_| is_public_https || is_https(self.arrival, self.trusted, head))
    }

    /// The largest content of the request, in bytes.
    pub(crate) fn content_bytes_max(&self, shared: &Shared) -> u64 {
        let own = self.site().and_then(|site| site.plan.limits.request_body_bytes_max);
        own.unwrap_or(shared.limits.request_body_bytes_max)
    }

    /// The answer of the route, if it needs neither origin nor files.
    pub(crate) fn answer(&self, shared: &Shared, head: &RequestHead) -> Option<Refusal> {
        let client = || address_of(shared, self.arrival.peer, self.trusted, &head.fields);
        self.route.and_then(|route| answer(route, client, head, &self.target))
    }

    /// The directory whose files answer the request.
    pub(crate) fn directory(&self) -> Option<&'a Arc<ServedDirectory>> {
        self.route.and_then(|route| route.directory.as_ref())
    }

    /// The request to the pages of the site.
    pub(crate) fn subject(self, shared: &Shared, head: &RequestHead) -> Result<RequestSubject<'a>, Refusal> {
        let authority = EffectiveAuthority::of(head).map(|effective| effective.authority);
        // Each host has a route for every request, or a site. A route with files alone has none.
        let site = self.site().ok_or_else(|| Refusal::unknown_site(false))?;
        if site.plan.refused_claims.iter().any(|names| claims_context(&head.fields, names)) {
            return Err(Refusal::claimed_context());
        }
        if head.fields.list(CDN_LOOP).any(|member| member == shared.loop_mark) {
            return Err(site.refusal(Refusal::looping));
        }
        Ok(RequestSubject {
            host: origin_host(site, head, authority),
            https: site.plan.public_https || is_https(self.arrival, self.trusted, head),
            site,
            target: self.target,
            trusted: self.trusted,
            peer: Some(self.arrival.peer),
            rules: site.rules(),
        })
    }
}

/// *guard*: admits a request to the pages of its site, or answers it.
pub(crate) fn guard<'a>(
    shared: &'a Shared,
    arrival: impl Into<Arrival>,
    request: &Request,
) -> Result<RequestSubject<'a>, Refusal> {
    let admitted = admit(shared, arrival.into(), request)?;
    match admitted.answer(shared, &request.head) {
        Some(answer) => Err(answer),
        None => admitted.subject(shared, &request.head),
    }
}

/// The remaining hops of an OPTIONS request that has `Max-Forwards` (RFC 9110 section 7.6.2).
pub(crate) fn forwards_left(head: &RequestHead) -> Option<u64> {
    if head.method != Method::Options {
        return None;
    }
    let digits = head.fields.only(names::MAX_FORWARDS)?;
    std::str::from_utf8(digits)
        .ok()
        .filter(|digits| digits.bytes().all(|octet| octet.is_ascii_digit()))?
        .parse()
        .ok()
}

impl RequestSubject<'_> {
    /// Whether the request may share its response. It may not if a trusted proxy removed a path
    /// prefix: the origin writes its links for that prefix, which is not in the key.
    ///
    /// Some URLs are shared only if their response is marked `public`. They are looked up while a
    /// response is stored, or if a recent one was marked.
    pub(crate) fn class_of(&self, shared: &Shared, head: &RequestHead, has_content: bool) -> RequestClass {
        let class = match classify_request(head, has_content, self.site.policy()) {
            RequestClass::Pass(Reason::PassUnmarked) if shared.is_marked(&self.key()) => {
                RequestClass::Lookup(Directives::of_request(&head.fields))
            }
            class => class,
        };
        let prefix = head.fields.first(X_FORWARDED_PREFIX).filter(|_| self.trusted);
        let is_moved = prefix.is_some_and(|prefix| !matches!(&prefix[..], b"" | b"/"));
        match class {
            RequestClass::Lookup(_) | RequestClass::LookupStatic { .. } if is_moved => {
                RequestClass::Pass(Reason::PassForwardedPrefix)
            }
            class => class,
        }
    }

    /// *key*: the cache key of the page.
    pub(crate) fn key(&self) -> Key {
        self.key_of(&self.target)
    }

    /// The key of another target of the same origin.
    pub(crate) fn key_of(&self, target: &Bytes) -> Key {
        Key::new(self.site.id, self.https, &self.host, keyed_target(target, self.site.policy()))
    }
}

/// The `Host` for the origin: the configured public name, otherwise the client's unchanged. For
/// HTTP/1.0 without Host it is the origin's own.
fn origin_host(site: &Site, head: &RequestHead, authority: Option<&[u8]>) -> Bytes {
    if let Some(public) = &site.plan.public_host {
        return Bytes::copy_from_slice(public.as_bytes());
    }
    match (authority, head.fields.first(names::HOST)) {
        (Some(authority), Some(host)) if *authority == **host => host.clone(),
        (Some(authority), _) => Bytes::copy_from_slice(authority),
        (None, _) => Bytes::from(site.plan.origin.authority()),
    }
}

/// The target without scheme and authority, as the origin receives it (RFC 9112 section 3.2.1).
fn origin_target(head: &RequestHead) -> Result<Bytes, Refusal> {
    let target =
        Target::split(&head.method, &head.target).map_err(|error| Refusal::malformed(error.into()))?;
    match target.form {
        TargetForm::Origin | TargetForm::Asterisk => Ok(head.target.clone()),
        TargetForm::Authority => Err(Refusal::connect()),
        TargetForm::Absolute => {
            let known =
                |scheme: &[u8]| scheme.eq_ignore_ascii_case(b"http") || scheme.eq_ignore_ascii_case(b"https");
            if !target.scheme.is_some_and(known) {
                return Err(Refusal::foreign_scheme());
            }
            if target.path_and_query.starts_with(b"?") {
                return Ok(Bytes::from([b"/", target.path_and_query].concat()));
            }
            Ok(Bytes::copy_from_slice(target.path_and_query))
        }
    }
}

/// Whether the client uses https: what a trusted proxy says of it, otherwise what its own
/// connection is.
pub(crate) fn is_https(arrival: Arrival, trusted: bool, head: &RequestHead) -> bool {
    let forwarded = if trusted { forwarded_https(head) } else { None };
    forwarded.unwrap_or(arrival.is_secured)
}

/// Whether the last proxy says that the client used https; `None` if it says nothing.
/// X-Forwarded-Proto has precedence over the older fields.
fn forwarded_https(head: &RequestHead) -> Option<bool> {
    if let Some(proto) = head.fields.list(names::X_FORWARDED_PROTO).last() {
        return Some(proto.eq_ignore_ascii_case(b"https"));
    }
    let mut claims = HTTPS_CLAIMS
        .iter()
        .filter_map(|(name, https)| Some(head.fields.first(name)?.eq_ignore_ascii_case(https.as_bytes())));
    let first = claims.next()?;
    Some(claims.fold(first, |https, claim| https | claim))
}

/// Other fields in which proxies report that the client used https, and their values.
pub(crate) const HTTPS_CLAIMS: [(&str, &str); 5] = [
    ("X-Forwarded-Ssl", "on"),
    ("Front-End-Https", "on"),
    ("X-Forwarded-Scheme", "https"),
    ("X-Scheme", "https"),
    ("X-Url-Scheme", "https"),
];

#[cfg(test)]
mod tests {
    use super::guard;
    use crate::shared::Shared;
    use crate::system::System;
    use bytes::BytesMut;
    use config::EdgePlan;
    use h1::{Limits, Request, Strictness, parse_request};
    use net::Peer;
    use semantics::Reason;

    fn request(head: &str) -> Request {
        let mut octets = BytesMut::from(format!("{head}\r\n\r\n").as_bytes());
        parse_request(&mut octets, &Limits::DEFAULT, Strictness::Strict).unwrap().unwrap()
    }

    fn plan() -> EdgePlan {
        let mut plan = EdgePlan::for_origin("http://127.0.0.1:9000".parse().unwrap());
        plan.trusted_proxies = ["10.0.0.1".parse::<address::Prefix>().unwrap()].into_iter().collect();
        plan
    }

    /// Host, target and https of the subject, or the reason of the refusal.
    fn guarded(plan: &EdgePlan, peer: &str, head: &str) -> Result<(String, String, bool), Reason> {
        let shared = Shared::new(plan.clone(), None, System::of_machine());
        let peer = Peer::Ip(format!("{peer}:1").parse().unwrap());
        let head = head.replace("OWN-MARK", std::str::from_utf8(&shared.loop_mark).unwrap());
        let subject = guard(&shared, peer, &request(&head)).map_err(|refusal| refusal.reason)?;
        let text = |octets: &[u8]| String::from_utf8(octets.to_vec()).unwrap();
        Ok((text(&subject.host), text(&subject.target), subject.https))
    }

    fn ok(host: &str, target: &str, https: bool) -> Result<(String, String, bool), Reason> {
        Ok((host.to_owned(), target.to_owned(), https))
    }

    #[test]
    fn host_and_target_follow_the_effective_request_target() {
        let plan = plan();
        for (head, expected) in [
            ("GET /a?b HTTP/1.1\r\nHost: A.test:8080", ok("A.test:8080", "/a?b", false)),
            ("GET http://b.test/a HTTP/1.1\r\nHost: a.test", ok("b.test", "/a", false)),
            ("GET http://b.test?q HTTP/1.1\r\nHost: b.test", ok("b.test", "/?q", false)),
            ("GET ftp://b.test/ HTTP/1.1\r\nHost: b.test", Err(Reason::BadRequest)),
            ("OPTIONS * HTTP/1.1\r\nHost: a.test", ok("a.test", "*", false)),
            ("GET / HTTP/1.0", ok("127.0.0.1:9000", "/", false)),
            ("OPTIONS / HTTP/1.1\r\nHost: a.test\r\nMax-Forwards: 0", Err(Reason::LastHop)),
            ("TRACE / HTTP/1.1\r\nHost: a.test\r\nMax-Forwards: 0", Err(Reason::TraceRefused)),
            ("TRACE /a HTTP/1.1\r\nHost: a.test\r\nCookie: session=1", Err(Reason::TraceRefused)),
            ("GET / HTTP/1.1\r\nHost: a.test\r\nMax-Forwards: 0", ok("a.test", "/", false)),
            ("CONNECT a.test:443 HTTP/1.1\r\nHost: a.test:443", Err(Reason::ConnectRefused)),
        ] {
            assert_eq!(guarded(&plan, "127.0.0.1", head), expected, "{head}");
        }
    }

    #[test]
    fn request_with_the_own_cdn_loop_mark_is_refused() {
        let plan = plan();
        let head = "GET / HTTP/1.1\r\nHost: a.test\r\nCDN-Loop: other; id=1, OWN-MARK";
        assert_eq!(guarded(&plan, "127.0.0.1", head), Err(Reason::LoopDetected));
        let head = "GET / HTTP/1.1\r\nHost: a.test\r\nCDN-Loop: petasos; id=0";
        assert_eq!(guarded(&plan, "127.0.0.1", head), ok("a.test", "/", false));
    }

    #[test]
    fn https_is_believed_only_from_a_trusted_proxy() {
        let plan = plan();
        let head =
            "GET / HTTP/1.1\r\nHost: a.test\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: evil.test";
        assert_eq!(guarded(&plan, "10.0.0.1", head), ok("a.test", "/", true));
        assert_eq!(guarded(&plan, "10.0.0.2", head), ok("a.test", "/", false));
        for (claim, https) in [
            ("X-Forwarded-Ssl: on", true),
            ("Front-End-Https: On", true),
            ("X-Scheme: https", true),
            ("X-Scheme: http", false),
            ("X-Forwarded-Ssl: on\r\nX-Forwarded-Proto: http", false),
        ] {
            let head = format!("GET / HTTP/1.1\r\nHost: a.test\r\n{claim}");
            assert_eq!(guarded(&plan, "10.0.0.1", &head), ok("a.test", "/", https), "{claim}");
            assert_eq!(guarded(&plan, "10.0.0.2", &head), ok("a.test", "/", false), "{claim}");
        }
    }

    #[test]
    fn configured_public_name_and_scheme_replace_those_sent() {
        let mut plan = plan();
        plan.sites[0].public_host = Some("www.example.org".to_owned());
        plan.sites[0].public_https = true;
        let head = "GET / HTTP/1.1\r\nHost: 127.0.0.1:8080";
        assert_eq!(guarded(&plan, "127.0.0.1", head), ok("www.example.org", "/", true));
    }

    #[test]
    fn unknown_names_and_large_content_are_refused() {
        let mut plan = plan();
        plan.sites[0].names = vec!["a.test".to_owned()];
        plan.limits.request_body_bytes_max = 10;
        let post =
            |host: &str, length: u32| format!("POST / HTTP/1.1\r\nHost: {host}\r\nContent-Length: {length}");
        assert_eq!(guarded(&plan, "127.0.0.1", &post("b.test", 1)), Err(Reason::UnknownSite));
        assert_eq!(guarded(&plan, "127.0.0.1", &post("a.test", 11)), Err(Reason::BodyTooLarge));
        assert_eq!(guarded(&plan, "127.0.0.1", &post("a.test", 10)), ok("a.test", "/", false));
        assert_eq!(guarded(&plan, "127.0.0.1", "GET / HTTP/1.0"), Err(Reason::UnknownSite));
    }
}
