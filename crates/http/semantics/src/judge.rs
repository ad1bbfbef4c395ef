//! Decides whether a response may be stored (RFC 9111 section 3).
//!
//! Invariant: a response is stored only if it clearly permits sharing. The default profile is
//! stricter than the RFC:
//!
//! - A response that sets a cookie other than a noise cookie is not stored.
//! - A response to a request with credentials is not stored unless it says `public`.
//! - Errors are stored for a short time only.
//!
//! A response that must be validated before every use is stored only if it has a validator. Two
//! rules of a policy override the response. A `[[brief]]` rule shares a response briefly although
//! its `Cache-Control` forbids that, and `recheck_secs` reuses a static file that says `no-cache`.
//!
//! The module `lifetime` computes how long a response is fresh, and `vary` decides whether the
//! variants that its `Vary` names can be kept apart.

use crate::answers::brief_lifetime;
use crate::invalidation::resolve;
use crate::lifetime::{FreshnessLifetime, initial_age, lifetime, longest_lifetime, stale_windows};
use crate::request::needs_mark;
use crate::set_cookie::meaningful_cookies;
use crate::static_files::{loses_cookies, recheck};
use crate::statuses::{UNDERSTOOD_STATUSES, is_heuristically_cacheable, is_storable_status};
use crate::validation::validation_fields;
use crate::{
    ContentRange, DirectiveScope, Directives, Freshness, Moment, Reason, keyed_target, stated_directives,
};
use bytes::Bytes;
use message::{Method, RequestHead, ResponseHead, names};
use profiles::{Credentials, Forwarding, Policy};
use std::time::Duration;

/// The decision about one response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// The response may be stored.
    Store(Storable),
    /// Send the response to the client that asked for it, and store nothing.
    DoNotStore(Reason),
}

/// How a response that may be stored is to be stored and reused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Storable {
    /// The freshness lifetime and the rules for reuse.
    pub freshness: Freshness,
    /// Names of fields that must not be stored, nor sent to any client but the one whose request
    /// was fetched. A qualified `private` or `no-cache` lists them (RFC 9111 sections 5.2.2.4 and
    /// 5.2.2.7). A policy that forwards only keyed fields withholds at most the `Set-Cookie` of a
    /// static file.
    pub withheld: Vec<Bytes>,
}

/// Judges the response to a request that was looked up.
///
/// `request` is the request as the client sent it or as it was forwarded. `request_time` is the
/// moment at which it was sent, and `response_time` the moment at which the response's head
/// arrived.
///
/// A 304 is not judged itself; judge the stored head after [`crate::updated_head`]. A 206 may be
/// stored as the single part that it carries. A response that must be validated before its first
/// use may be stored with a lifetime of zero: see [`Freshness::must_be_validated`].
pub fn judge_response(
    request: &RequestHead,
    response: &ResponseHead,
    request_time: Moment,
    response_time: Moment,
    policy: &Policy,
) -> Judgement {
    match judged(request, response, request_time, response_time, policy) {
        Ok(storable) => Judgement::Store(storable),
        Err(reason) => Judgement::DoNotStore(reason),
    }
}

fn judged(
    request: &RequestHead,
    response: &ResponseHead,
    request_time: Moment,
    response_time: Moment,
    policy: &Policy,
) -> Result<Storable, Reason> {
    let (directives, targeted) = stated_directives(&response.fields, policy);
    // A targeted field is addressed to this cache in particular. It is not part of the system's
    // usual answer, so a `[[brief]]` rule does not apply.
    let brief = if targeted { None } else { brief_lifetime(request, response, policy) };
    if let Some(lifetime) = brief {
        return judged_briefly(request, response, lifetime, (request_time, response_time), policy);
    }
    let recheck = recheck(&request.target, response, policy);
    let lifetime = recheck
        .map(FreshnessLifetime::Assumed)
        .or_else(|| lifetime(request, response, &directives, targeted, response_time.wall, policy));
    if let Some(reason) = refusal(request, response, &directives, lifetime, policy) {
        return Err(reason);
    }
    let says_no_cache = reaches_everything(&directives.no_cache, policy);
    let validate_always = says_no_cache && recheck.is_none();
    // A file under `recheck_secs` is reused while it is fresh, but never stale, because it still
    // says no-cache.
    let windows = stale_windows(response.status, &directives, says_no_cache, policy);
    let freshness = Freshness {
        initial_age: initial_age(&response.fields, request_time, response_time),
        while_revalidate: windows.while_revalidate.max(grace(
            lifetime,
            &directives,
            windows.client_may_accept,
            policy,
        )),
        if_error: windows.if_error,
        may_be_stale: windows.client_may_accept,
        overridden: windows.overridden,
        validate_always,
        immutable: directives.immutable,
        ..Freshness::lasting(lifetime.map_or(Duration::ZERO, FreshnessLifetime::duration), response_time)
    };
    // A response that the origin can confirm later is worth storing even if it is not fresh.
    if is_revalidatable(response) {
        if lifetime.is_none() && !is_heuristically_cacheable(response.status, &directives) {
            return Err(Reason::StoreRefusedNoFreshness);
        }
    } else if validate_always {
        return Err(Reason::StoreRefusedNoCache);
    } else if lifetime.is_none() {
        return Err(Reason::StoreRefusedNoFreshness);
    } else if freshness.must_be_validated(response_time)
        && !is_reserve(&freshness, response_time.since(request_time), policy)
    {
        return Err(Reason::StoreRefusedExpired);
    }
    let withheld = match policy.forwarding {
        Forwarding::Everything => [&directives.private, &directives.no_cache]
            .into_iter()
            .flat_map(DirectiveScope::names)
            .cloned()
            .collect(),
        // A cookie that did not cause a refusal is one that a static file loses.
        Forwarding::Keyed if meaningful_cookies(&response.fields, policy).next().is_some() => {
            vec![Bytes::from_static(names::SET_COOKIE.as_bytes())]
        }
        Forwarding::Keyed => Vec::new(),
    };
    Ok(Storable { freshness, withheld })
}

/// Whether a response that arrives expired may replace later ones that the origin fails to give.
/// Its origin took this long for it; without this delay it would be fresh. Otherwise the copy of a
/// page that takes longer than its lifetime would never be replaced.
fn is_reserve(freshness: &Freshness, delay: Duration, policy: &Policy) -> bool {
    policy.forwarding != Forwarding::Everything
        && !freshness.if_error.is_zero()
        && freshness.initial_age.saturating_sub(delay) < freshness.lifetime
}

/// Judges a response that a `[[brief]]` rule of the policy shares for `lifetime`.
///
/// Its own cache directives are ignored, and every other check applies. It is never used stale,
/// because the page may exist or differ by then.
fn judged_briefly(
    request: &RequestHead,
    response: &ResponseHead,
    lifetime: Duration,
    (request_time, response_time): (Moment, Moment),
    policy: &Policy,
) -> Result<Storable, Reason> {
    let lifetime = lifetime.min(longest_lifetime(response.status, policy));
    let given = Some(FreshnessLifetime::Assumed(lifetime));
    if let Some(reason) = refusal(request, response, &Directives::default(), given, policy) {
        return Err(reason);
    }
    let initial_age = initial_age(&response.fields, request_time, response_time);
    let freshness = Freshness { initial_age, ..Freshness::lasting(lifetime, response_time) };
    if freshness.must_be_validated(response_time) {
        return Err(Reason::StoreRefusedExpired);
    }
    Ok(Storable { freshness, withheld: Vec::new() })
}

/// How long after an assumed lifetime the response may be served stale while it is revalidated.
/// Zero if the response states `stale-while-revalidate` itself, forbids staleness, or states its
/// lifetime.
fn grace(
    lifetime: Option<FreshnessLifetime>,
    directives: &Directives,
    may_be_stale: bool,
    policy: &Policy,
) -> Duration {
    match lifetime {
        Some(FreshnessLifetime::Assumed(assumed))
            if may_be_stale && directives.stale_while_revalidate_secs.is_none() =>
        {
            policy.grace.min(assumed)
        }
        _ => Duration::ZERO,
    }
}

/// The most important reason not to store the response, whatever its lifetime.
fn refusal(
    request: &RequestHead,
    response: &ResponseHead,
    directives: &Directives,
    lifetime: Option<FreshnessLifetime>,
    policy: &Policy,
) -> Option<Reason> {
    let is_stated = matches!(lifetime, Some(FreshnessLifetime::Stated(_)));
    let status = response.status.code();
    if request.method != Method::Get && !(is_stated && answers_later_gets(request, response, policy)) {
        return Some(Reason::StoreRefusedMethod);
    }
    if status == 206 && ContentRange::of(response).is_none() {
        return Some(Reason::StoreRefusedPartial);
    }
    if !is_storable_status(status, policy) {
        return Some(Reason::StoreRefusedStatus);
    }
    if redirects_to_itself(request, response, policy) {
        return Some(Reason::StoreRefusedRedirect);
    }
    let sets_cookie = meaningful_cookies(&response.fields, policy).next().is_some();
    let is_kept = policy.stores_cookies && is_stated;
    if sets_cookie && !is_kept && !loses_cookies(&request.target, response.status, &response.fields, policy) {
        return Some(Reason::StoreRefusedSetCookie);
    }
    // must-understand: a cache that knows the status ignores the accompanying no-store, which is
    // meant for caches that do not know it. A cache that does not know the status must not store
    // the response (RFC 9111 section 5.2.2.3).
    let understood = UNDERSTOOD_STATUSES.contains(&status);
    if directives.no_store && !(directives.must_understand && understood) {
        return Some(Reason::StoreRefusedNoStore);
    }
    if directives.must_understand && !understood {
        return Some(Reason::StoreRefusedStatus);
    }
    if reaches_everything(&directives.private, policy) {
        return Some(Reason::StoreRefusedPrivate);
    }
    if request.fields.has(names::AUTHORIZATION) && !permits_credentials(directives, policy) {
        return Some(Reason::StoreRefusedAuthorization);
    }
    let is_marked = is_stated && directives.public;
    (!is_marked && needs_mark(&request.target, policy)).then_some(Reason::StoreRefusedUnmarked)
}

/// Whether the response to a request with credentials may be shared (RFC 9111 section 3.5).
const fn permits_credentials(directives: &Directives, policy: &Policy) -> bool {
    let by_the_letter = directives.must_revalidate || directives.s_maxage_secs.is_some();
    directives.public || (by_the_letter && matches!(policy.credentials, Credentials::AsStated))
}

/// Whether the response to a POST also answers later GETs of its target. It says so by a
/// `Content-Location` equal to the target (RFC 9110 section 9.3.3). Only the profile `rfc` permits
/// this: the default profile never shares a response to a request with content.
fn answers_later_gets(request: &RequestHead, response: &ResponseHead, policy: &Policy) -> bool {
    let host = request.fields.first(names::HOST).map_or(&[][..], |host| host);
    request.method == Method::Post
        && response.status.code() == 200
        && policy.forwarding == Forwarding::Everything
        && response.fields.only(names::CONTENT_LOCATION).is_some_and(|reference| {
            // The scheme of the connection is not known here. The reference names at most one of
            // the two.
            [true, false].iter().any(|https| {
                resolve(*https, host, &request.target, reference).as_deref() == Some(&request.target[..])
            })
        })
}

/// Whether the response redirects to its own page, apart from tracking parameters. The cache key
/// has no tracking parameters, so a client that followed a stored redirect would receive it again.
fn redirects_to_itself(request: &RequestHead, response: &ResponseHead, policy: &Policy) -> bool {
    if policy.tracking_parameters.is_empty() || !(300..400).contains(&response.status.code()) {
        return false;
    }
    let Some(reference) = response.fields.only(names::LOCATION) else { return false };
    let host = request.fields.first(names::HOST).map_or(&[][..], |host| host);
    let own = keyed_target(&request.target, policy);
    // The scheme of the connection is not known here. The reference names at most one of the two.
    let resolved =
        [true, false].into_iter().filter_map(|https| resolve(https, host, &request.target, reference));
    resolved.map(Bytes::from).any(|target| target != own && keyed_target(&target, policy) == own)
}

/// Whether the origin can confirm the response later, which makes it worth storing although it is
/// not fresh. Origins evaluate conditions only for successful responses (RFC 9110 section 13.2.1);
/// redirects count as successful here. A part is excluded because it is useful only while fresh.
fn is_revalidatable(response: &ResponseHead) -> bool {
    let status = response.status.code();
    (200..400).contains(&status) && status != 206 && !validation_fields(response).is_empty()
}

/// Whether `private` or `no-cache` covers the whole response.
///
/// The profile `rfc` honours a list of field names, which limits the directive to these fields. A
/// list with `Vary` or a `Content-` field still covers everything, because the content cannot be
/// read or selected without them.
fn reaches_everything(scope: &DirectiveScope, policy: &Policy) -> bool {
    let is_needed = |name: &Bytes| {
        let start = name.get(..8).unwrap_or_default();
        start.eq_ignore_ascii_case(b"content-") || name.eq_ignore_ascii_case(b"vary")
    };
    match scope {
        DirectiveScope::Nothing => false,
        DirectiveScope::Fields(names) => {
            policy.forwarding == Forwarding::Keyed || names.iter().any(is_needed)
        }
        DirectiveScope::Everything => true,
    }
}

#[cfg(test)]
mod tests {
    use super::{Judgement, Storable, judge_response};
    use crate::statuses::REFUSING_STATUSES;
    use crate::tests::FieldLines;
    use crate::{Moment, Reason};
    use clock::Timestamp;
    use message::{Fields, Method, RequestHead, ResponseHead, Status, Version};
    use profiles::Policy;
    use std::time::Duration;

    /// Sun, 06 Nov 1994 08:49:37 GMT.
    const NOW_SECS: u64 = 784_111_777;
    const FRESH: (&str, &str) = ("Cache-Control", "max-age=60");
    const TAG: (&str, &str) = ("ETag", "\"a\"");
    fn now() -> Moment {
        Moment { wall: Timestamp::from_secs(NOW_SECS), ..Moment::default() }
    }

    fn request(fields: &FieldLines) -> RequestHead {
        let mut section = Fields::new();
        fields.iter().for_each(|(name, value)| section.push(*name, *value));
        RequestHead { method: Method::Get, target: "/a".into(), version: Version::Http11, fields: section }
    }

    fn response(status: u16, fields: &FieldLines) -> ResponseHead {
        let mut head = ResponseHead::new(Status::from_code(status).unwrap());
        fields.iter().for_each(|(name, value)| head.fields.push(*name, *value));
        head
    }

    fn judge(
        request: &RequestHead,
        status: u16,
        fields: &FieldLines,
        policy: &Policy,
    ) -> Result<Storable, Reason> {
        match judge_response(request, &response(status, fields), now(), now(), policy) {
            Judgement::Store(storable) => Ok(storable),
            Judgement::DoNotStore(reason) => Err(reason),
        }
    }

    fn by_default(status: u16, fields: &FieldLines) -> Result<Storable, Reason> {
        judge(&request(&[]), status, fields, &Policy::default_profile())
    }

    fn by_the_letter(status: u16, fields: &FieldLines) -> Result<Storable, Reason> {
        judge(&request(&[]), status, fields, &Policy::rfc())
    }

    #[test]
    fn responses_that_no_profile_shares() {
        for judged in [by_default, by_the_letter] {
            for (control, reason) in [
                ("private", Reason::StoreRefusedPrivate),
                ("private=\"Vary\"", Reason::StoreRefusedPrivate),
                ("NO-STORE", Reason::StoreRefusedNoStore),
                ("no-cache", Reason::StoreRefusedNoCache),
                ("no-cache=\"Content-Encoding\"", Reason::StoreRefusedNoCache),
            ] {
                assert_eq!(judged(200, &[FRESH, ("Cache-Control", control)]), Err(reason), "{control}");
                assert!(
                    judged(200, &[FRESH, ("Cache-Control", control), ("ETag", "?")]).is_err(),
                    "{control}"
                );
            }
            for status in [101, 226, 304, 412, 416, 428, 429, 431, 511, 600, 999] {
                let refused = Err(Reason::StoreRefusedStatus);
                assert_eq!(judged(status, &[FRESH, ("Cache-Control", "public")]), refused, "{status}");
            }
            assert_eq!(judged(200, &[]), Err(Reason::StoreRefusedNoFreshness));
            assert_eq!(judged(200, &[("Set-Cookie", "a=b")]), Err(Reason::StoreRefusedSetCookie));
        }
    }

    #[test]
    fn default_profile_refuses_more_than_rfc_profile() {
        let cases: [(u16, &FieldLines, Reason); 5] = [
            (200, &[FRESH, ("Set-Cookie", "a=b")], Reason::StoreRefusedSetCookie),
            (200, &[FRESH, ("Cache-Control", "private=\"x\"")], Reason::StoreRefusedPrivate),
            (200, &[FRESH, ("Cache-Control", "no-cache=\"x\"")], Reason::StoreRefusedNoCache),
            (403, &[FRESH], Reason::StoreRefusedStatus),
            (
                200,
                &[("Last-Modified", "Sun, 06 Nov 1994 08:00:00 GMT"), ("Set-Cookie", "a=b")],
                Reason::StoreRefusedSetCookie,
            ),
        ];
        for (status, fields, reason) in cases {
            assert_eq!(by_default(status, fields), Err(reason), "{status} {fields:?}");
        }
        for (status, fields, _) in &cases[..3] {
            assert!(by_the_letter(*status, fields).is_ok(), "{status} {fields:?}");
        }
        // A refusal may be meant for one client's address, so the profile `rfc` does not share it
        // either.
        assert_eq!(by_the_letter(403, &[FRESH]), Err(Reason::StoreRefusedStatus));
        assert_eq!(
            by_the_letter(cases[4].0, cases[4].1),
            Err(Reason::StoreRefusedSetCookie),
            "a heuristic lifetime is not stated"
        );
    }

    #[test]
    fn rfc_profile_withholds_listed_fields() {
        let control = ("Cache-Control", "private=\"Set-Cookie, X-A\", no-cache=X-B");
        let storable = by_the_letter(200, &[FRESH, control, ("Set-Cookie", "a=b")]).unwrap();
        assert_eq!(storable.withheld, ["Set-Cookie", "X-A", "X-B"]);
        assert!(!storable.freshness.validate_always);
        let storable = by_the_letter(200, &[FRESH, ("Cache-Control", "no-cache, private=X-A"), TAG]).unwrap();
        assert_eq!((storable.withheld, storable.freshness.validate_always), (vec!["X-A".into()], true));
        let storable = by_default(200, &[FRESH, ("Cache-Control", "no-cache=X-B"), TAG]).unwrap();
        assert!(storable.withheld.is_empty() && storable.freshness.validate_always);
    }

    #[test]
    fn stale_response_is_stored_only_with_a_validator() {
        for judged in [by_default, by_the_letter] {
            for control in ["max-age=0", "no-cache", "max-age=60, no-cache"] {
                let storable = judged(200, &[("Cache-Control", control), TAG]).unwrap();
                assert!(storable.freshness.must_be_validated(now()), "{control}");
                assert_eq!(storable.freshness.validate_always, control.contains("no-cache"), "{control}");
            }
            assert!(judged(200, &[TAG]).unwrap().freshness.must_be_validated(now()));
            let dated = ("Last-Modified", "Sun, 06 Nov 1994 08:49:37 GMT");
            let expired = judged(301, &[("Cache-Control", "max-age=9"), ("Age", "9"), dated]).unwrap();
            assert!(expired.freshness.must_be_validated(now()));
            let stale = ("Cache-Control", "max-age=0");
            assert_eq!(judged(200, &[stale]), Err(Reason::StoreRefusedExpired));
            assert_eq!(
                judged(200, &[stale, ("ETag", "a"), ("Last-Modified", "0")]),
                Err(Reason::StoreRefusedExpired)
            );
            assert_eq!(judged(404, &[stale, TAG]), Err(Reason::StoreRefusedExpired));
            assert_eq!(judged(201, &[TAG]), Err(Reason::StoreRefusedNoFreshness));
            assert_eq!(
                judged(200, &[stale, TAG, ("Cache-Control", "private")]),
                Err(Reason::StoreRefusedPrivate)
            );
        }
        let cookie = ("Set-Cookie", "a=b");
        assert_eq!(
            by_default(200, &[("Cache-Control", "no-cache"), TAG, cookie]),
            Err(Reason::StoreRefusedSetCookie)
        );
    }

    #[test]
    fn response_that_expired_on_its_way_is_a_reserve() {
        let judged = |control: &'static str, delay_secs: u64, policy: &Policy| {
            let (request, response) = (request(&[]), response(200, &[("Cache-Control", control)]));
            let later = now().plus(Duration::from_secs(delay_secs));
            match judge_response(&request, &response, now(), later, policy) {
                Judgement::Store(storable) => Some(storable.freshness.must_be_validated(later)),
                Judgement::DoNotStore(_) => None,
            }
        };
        let policy = Policy::default_profile();
        assert_eq!(judged("max-age=10", 9, &policy), Some(false));
        assert_eq!(judged("max-age=10", 10, &policy), Some(true));
        for control in ["max-age=0", "max-age=10, must-revalidate", "max-age=10, stale-if-error=0"] {
            assert_eq!(judged(control, 10, &policy), None, "{control}");
        }
        assert_eq!(judged("max-age=10, stale-if-error=60", 10, &Policy::rfc()), None);
    }

    #[test]
    fn other_statuses_are_stored_with_a_stated_lifetime() {
        for status in
            [200, 203, 204, 299, 301, 302, 303, 307, 308, 400, 404, 410, 499, 500, 502, 503, 504, 599]
        {
            for judged in [by_default, by_the_letter] {
                assert!(judged(status, &[FRESH]).is_ok(), "{status}");
            }
        }
        for status in REFUSING_STATUSES {
            for judged in [by_default, by_the_letter] {
                assert_eq!(judged(status, &[FRESH]).unwrap_err(), Reason::StoreRefusedStatus, "{status}");
            }
        }
        assert_eq!(by_default(500, &[]), Err(Reason::StoreRefusedNoFreshness));
    }

    #[test]
    fn part_is_stored_only_with_a_valid_content_range() {
        for judged in [by_default, by_the_letter] {
            assert!(judged(206, &[FRESH, ("Content-Range", "bytes 0-1/9")]).is_ok());
            for range in ["bytes 0-1/1", "bytes */9", "lines 0-1/9"] {
                assert_eq!(judged(206, &[FRESH, ("Content-Range", range)]), Err(Reason::StoreRefusedPartial));
            }
            assert_eq!(judged(206, &[FRESH]), Err(Reason::StoreRefusedPartial));
            let stale = [("Cache-Control", "max-age=0"), TAG, ("Content-Range", "bytes 0-1/9")];
            assert_eq!(judged(206, &stale), Err(Reason::StoreRefusedExpired));
            // With any other status the field has no meaning (RFC 9110 section 14.4).
            assert!(judged(200, &[FRESH, ("Content-Range", "bytes 0-1/2")]).is_ok());
        }
    }

    #[test]
    fn static_file_that_says_public_loses_its_cookies() {
        let css = ("Content-Type", "text/css");
        let cookie = ("Set-Cookie", "session=1");
        let public = ("Cache-Control", "public, max-age=60");
        assert_eq!(by_default(200, &[css, cookie, public]).unwrap().withheld, ["Set-Cookie"]);
        assert!(by_default(200, &[css, public]).unwrap().withheld.is_empty());
        let refused = Err(Reason::StoreRefusedSetCookie);
        assert_eq!(by_default(200, &[("Content-Type", "text/html"), cookie, public]), refused);
        assert_eq!(by_default(200, &[css, cookie, FRESH]), refused);
        assert_eq!(by_default(200, &[css, cookie, ("Cache-Control", "public")]), refused);
        assert_eq!(by_default(404, &[css, cookie, public]), refused);
    }

    #[test]
    fn must_understand_overrides_no_store_for_known_statuses() {
        let control = ("Cache-Control", "max-age=60, no-store, must-understand");
        for judged in [by_default, by_the_letter] {
            assert!(judged(200, &[control]).is_ok());
            assert_eq!(judged(599, &[control]), Err(Reason::StoreRefusedNoStore));
            assert_eq!(
                judged(599, &[FRESH, ("Cache-Control", "must-understand")]),
                Err(Reason::StoreRefusedStatus)
            );
        }
    }

    #[test]
    fn response_to_credentials_needs_permission_to_share() {
        let authorized = request(&[("Authorization", "Basic eDp5")]);
        let refused = Err(Reason::StoreRefusedAuthorization);
        let judged =
            |control, policy: &Policy| judge(&authorized, 200, &[("Cache-Control", control)], policy);
        let strict = Policy::default_profile();
        let letter = Policy::rfc();
        for control in ["max-age=60, s-maxage=60", "max-age=60, must-revalidate"] {
            assert_eq!(judged(control, &strict), refused, "{control}");
            assert!(judged(control, &letter).is_ok(), "{control}");
        }
        for policy in [&strict, &letter] {
            assert!(judged("max-age=60, public", policy).is_ok());
            assert_eq!(judged("max-age=60, proxy-revalidate", policy), refused);
        }
    }

    #[test]
    fn head_is_not_stored_and_post_needs_its_content_location() {
        let mut head = request(&[("Host", "example.org")]);
        head.method = Method::Head;
        let refused = Err(Reason::StoreRefusedMethod);
        assert_eq!(judge(&head, 200, &[FRESH], &Policy::rfc()), refused);
        head.method = Method::Post;
        let posted =
            |location, policy: &Policy| judge(&head, 200, &[FRESH, ("Content-Location", location)], policy);
        for location in ["/a", "https://example.org/a", "http://EXAMPLE.org:80/a", "a"] {
            assert!(posted(location, &Policy::rfc()).is_ok(), "{location}");
            assert_eq!(posted(location, &Policy::default_profile()), refused);
        }
        for location in ["/b", "http://example.com/a", "/a?x"] {
            assert_eq!(posted(location, &Policy::rfc()), refused, "{location}");
        }
        let guessed = [("Content-Location", "/a"), ("Last-Modified", "Sun, 06 Nov 1994 08:00:00 GMT")];
        assert_eq!(judge(&head, 200, &guessed, &Policy::rfc()), refused);
        head.method = Method::Put;
        assert_eq!(judge(&head, 200, &[FRESH, ("Content-Location", "/a")], &Policy::rfc()), refused);
    }

    #[test]
    fn stored_response_is_fresh_from_its_arrival() {
        let waited = now().plus(Duration::from_secs(4));
        let head = response(200, &[FRESH, ("Age", "30")]);
        let judgement = judge_response(&request(&[]), &head, now(), waited, &Policy::default_profile());
        let Judgement::Store(Storable { freshness, .. }) = judgement else { panic!("{judgement:?}") };
        assert_eq!(freshness.age(waited.plus(Duration::from_secs(1))), Duration::from_secs(35));
        assert_eq!(freshness.ttl_secs(waited), 26);
        assert!(!freshness.immutable);
        let immutable = by_default(200, &[FRESH, ("Cache-Control", "immutable")]).unwrap();
        assert!(immutable.freshness.immutable);
    }
}
