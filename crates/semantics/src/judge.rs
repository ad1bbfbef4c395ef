//! May this response be stored, and for how long is it fresh? (RFC 9111 sections 3 and 4.2.)
//!
//! Invariant: nothing is stored that the response does not clearly permit to share. The default is stricter
//! than the letter: a response that sets a cookie, that answers credentials without `public`, that is only a
//! part, or that every use would have to revalidate, is not stored. Guessed lifetimes (heuristics) are not given.

use crate::dates::parse_date;
use crate::directives::delta_secs;
use crate::{Directives, Freshness, FreshnessState, Moment, Policy, Reason, stated_directives};
use bytes::Bytes;
use message::{Fields, Method, RequestHead, ResponseHead, names};
use platform::Timestamp;
use std::time::Duration;

/// What is to be done with a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// It may be stored.
    Store(Storable),
    /// Forward it to whoever asked, and keep nothing.
    DoNotStore(Reason),
}

/// What a response that may be stored permits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Storable {
    /// For how long, and how it may be reused.
    pub freshness: Freshness,
    /// The names of fields that must neither be stored nor sent to anyone but who asked.
    pub withheld: Vec<Bytes>,
}

/// Judges the response to a request that was looked up.
///
/// `request` is the request as the client sent it or as it was forwarded. `request_time` is when it was sent,
/// `response_time` when the response's head arrived. Whether the response's Vary can be kept apart is
/// [`crate::VaryRule::from_response`]'s part.
pub fn judge_response(
    request: &RequestHead,
    response: &ResponseHead,
    request_time: Moment,
    response_time: Moment,
    policy: &Policy,
) -> Judgement {
    let (directives, targeted) = stated_directives(&response.fields, policy);
    if let Some(reason) = refusal(request, response, &directives) {
        return Judgement::DoNotStore(reason);
    }
    let stated = stated_lifetime(&response.fields, &directives, targeted, response_time.wall);
    let Some(lifetime) = stated.or_else(|| default_lifetime(request, response, policy)) else {
        return Judgement::DoNotStore(Reason::StoreRefusedNoFreshness);
    };
    let freshness = Freshness {
        initial_age: initial_age(&response.fields, request_time, response_time),
        may_be_stale: !directives.must_revalidate
            && !directives.proxy_revalidate
            && directives.s_maxage_secs.is_none(),
        ..Freshness::lasting(lifetime, response_time)
    };
    match freshness.state(response_time) {
        FreshnessState::Fresh(_) => Judgement::Store(Storable { freshness, withheld: Vec::new() }),
        FreshnessState::Stale(_) => Judgement::DoNotStore(Reason::StoreRefusedExpired),
    }
}

/// Why the response may not be stored whatever its lifetime, the weightiest reason first.
fn refusal(request: &RequestHead, response: &ResponseHead, directives: &Directives) -> Option<Reason> {
    let status = response.status.code();
    if request.method != Method::Get {
        return Some(Reason::StoreRefusedMethod);
    }
    if status == 206 || response.fields.has(names::CONTENT_RANGE) {
        return Some(Reason::StoreRefusedPartial);
    }
    let storable = STORABLE_STATUSES.contains(&status);
    if !storable {
        return Some(Reason::StoreRefusedStatus);
    }
    if response.fields.has(names::SET_COOKIE) {
        return Some(Reason::StoreRefusedSetCookie);
    }
    // must-understand: who knows the status ignores the no-store that stands beside it for those who do not
    // (RFC 9111 section 5.2.2.3). Every status that gets here is known.
    if directives.no_store && !directives.must_understand {
        return Some(Reason::StoreRefusedNoStore);
    }
    if directives.private.is_present() {
        return Some(Reason::StoreRefusedPrivate);
    }
    if directives.no_cache.is_present() {
        return Some(Reason::StoreRefusedNoCache);
    }
    if request.fields.has(names::AUTHORIZATION) && !directives.public {
        return Some(Reason::StoreRefusedAuthorization);
    }
    None
}

/// Final statuses that are stored when the response says for how long: those whose meaning for reuse we know
/// and that are no complaint about this one request or this one moment.
const STORABLE_STATUSES: [u16; 14] = [200, 203, 204, 300, 301, 302, 303, 307, 308, 404, 405, 410, 414, 451];

/// The lifetime the response states: s-maxage, else max-age, else Expires minus Date (RFC 9111 section 4.2.1).
/// A field that cannot be read counts as already expired.
fn stated_lifetime(
    fields: &Fields,
    directives: &Directives,
    targeted: bool,
    response_time: Timestamp,
) -> Option<Duration> {
    if let Some(secs) = directives.s_maxage_secs.or(directives.max_age_secs) {
        return Some(Duration::from_secs(u64::from(secs)));
    }
    if targeted || !fields.has(names::EXPIRES) {
        return None;
    }
    let expires = fields.only(names::EXPIRES).and_then(|value| parse_date(value));
    let date = response_date(fields).unwrap_or(response_time);
    Some(expires.map_or(Duration::ZERO, |expires| expires.since(date)))
}

/// The policy's lifetime, for the statuses that are safe to share without a word from the origin.
fn default_lifetime(request: &RequestHead, response: &ResponseHead, policy: &Policy) -> Option<Duration> {
    let anonymous = !request.fields.has(names::AUTHORIZATION);
    let usual = matches!(response.status.code(), 200 | 301 | 404);
    policy.default_ttl.filter(|_| anonymous && usual)
}

/// The corrected initial age (RFC 9111 section 4.2.3): the larger of what `Date` and what `Age` tell.
fn initial_age(fields: &Fields, request_time: Moment, response_time: Moment) -> Duration {
    let apparent_age = response_date(fields).map_or(Duration::ZERO, |date| response_time.wall.since(date));
    let response_delay = response_time.since(request_time);
    apparent_age.max(stated_age(fields).saturating_add(response_delay))
}

/// The value of `Age`: of several the oldest, of a list its members; what is no number is ignored (RFC 9111
/// section 5.1).
fn stated_age(fields: &Fields) -> Duration {
    let oldest = fields.list(names::AGE).filter_map(delta_secs).max().unwrap_or(0);
    Duration::from_secs(u64::from(oldest))
}

fn response_date(fields: &Fields) -> Option<Timestamp> {
    fields.first(names::DATE).and_then(|value| parse_date(value))
}

#[cfg(test)]
mod tests {
    use super::{Judgement, Storable, judge_response};
    use crate::{Moment, Policy, Reason};
    use message::{Fields, Method, RequestHead, ResponseHead, Status, Version};
    use platform::Timestamp;
    use std::time::Duration;

    /// Sun, 06 Nov 1994 08:49:37 GMT.
    const NOW_SECS: u64 = 784_111_777;
    const NOW_DATE: (&str, &str) = ("Date", "Sun, 06 Nov 1994 08:49:37 GMT");

    fn now() -> Moment {
        Moment { wall: Timestamp::from_secs(NOW_SECS), ..Moment::default() }
    }

    fn request(fields: &[(&'static str, &'static str)]) -> RequestHead {
        let mut section = Fields::new();
        fields.iter().for_each(|(name, value)| section.push(*name, *value));
        RequestHead { method: Method::Get, target: "/".into(), version: Version::Http11, fields: section }
    }

    fn response(status: u16, fields: &[(&'static str, &'static str)]) -> ResponseHead {
        let mut head = ResponseHead::new(Status::from_code(status).unwrap());
        fields.iter().for_each(|(name, value)| head.fields.push(*name, *value));
        head
    }

    fn judged(status: u16, fields: &[(&'static str, &'static str)]) -> Judgement {
        judge_response(&request(&[]), &response(status, fields), now(), now(), &Policy::default_profile())
    }

    fn lifetime_and_age(fields: &[(&'static str, &'static str)]) -> (u64, u64) {
        match judged(200, fields) {
            Judgement::Store(Storable { freshness, .. }) => {
                (freshness.lifetime.as_secs(), freshness.initial_age.as_secs())
            }
            Judgement::DoNotStore(reason) => panic!("{reason}"),
        }
    }

    fn refused(fields: &[(&'static str, &'static str)]) -> Reason {
        match judged(200, fields) {
            Judgement::DoNotStore(reason) => reason,
            Judgement::Store(Storable { freshness, .. }) => panic!("{freshness:?}"),
        }
    }

    #[test]
    fn lifetimes_in_their_order() {
        let expires = ("Expires", "Sun, 06 Nov 1994 08:51:17 GMT");
        assert_eq!(lifetime_and_age(&[("Cache-Control", "max-age=1, s-maxage=60"), expires]).0, 60);
        assert_eq!(lifetime_and_age(&[("Cache-Control", "max-age=30"), expires, NOW_DATE]).0, 30);
        assert_eq!(lifetime_and_age(&[expires]).0, 100);
        assert_eq!(lifetime_and_age(&[expires, ("Date", "Sun, 06 Nov 1994 08:49:27 GMT")]), (110, 10));
        assert_eq!(lifetime_and_age(&[("Expires", "Sunday, 06-Nov-94 08:51:17 GMT")]).0, 100);
        let old_expires = ("Expires", "Sun, 19 Nov 1978 05:00:00 GMT");
        assert_eq!(lifetime_and_age(&[("Cache-Control", "public, max-age=300"), old_expires]).0, 300);
    }

    #[test]
    fn a_targeted_field_silences_expires() {
        let fields = [("CDN-Cache-Control", "foo"), ("Expires", "Sun, 06 Nov 1994 08:51:17 GMT")];
        assert_eq!(refused(&fields), Reason::StoreRefusedNoFreshness);
    }

    #[test]
    fn what_states_nothing_readable_is_not_stored() {
        assert_eq!(refused(&[]), Reason::StoreRefusedNoFreshness);
        assert_eq!(refused(&[("Expires", "0")]), Reason::StoreRefusedExpired);
        assert_eq!(refused(&[("Cache-Control", "max-age=0")]), Reason::StoreRefusedExpired);
        assert_eq!(
            refused(&[("Cache-Control", "max-age=0"), ("Expires", "Sun, 06 Nov 2094 08:51:17 GMT")]),
            Reason::StoreRefusedExpired
        );
        let twice = ("Expires", "Sun, 06 Nov 1994 08:51:17 GMT");
        assert_eq!(refused(&[twice, twice]), Reason::StoreRefusedExpired);
    }

    #[test]
    fn age_counts_what_date_and_age_and_the_wait_tell() {
        let fresh = ("Cache-Control", "max-age=3600");
        assert_eq!(lifetime_and_age(&[fresh, ("Age", "30")]), (3600, 30));
        assert_eq!(lifetime_and_age(&[fresh, ("Age", "0, 7"), ("Age", "abc")]), (3600, 7));
        assert_eq!(
            lifetime_and_age(&[fresh, ("Date", "Sun, 06 Nov 1994 08:48:37 GMT"), ("Age", "5")]),
            (3600, 60)
        );
        assert_eq!(lifetime_and_age(&[fresh, ("Date", "Sun, 06 Nov 1994 08:59:37 GMT")]), (3600, 0));
        assert_eq!(refused(&[fresh, ("Age", "3600")]), Reason::StoreRefusedExpired);
        assert_eq!(
            refused(&[("CDN-Cache-Control", "max-age=3600"), ("Age", "7200")]),
            Reason::StoreRefusedExpired
        );
        let waited = now().plus(Duration::from_secs(4));
        let head = response(200, &[fresh, ("Age", "30")]);
        let Judgement::Store(Storable { freshness, .. }) =
            judge_response(&request(&[]), &head, now(), waited, &Policy::default_profile())
        else {
            panic!("must be stored")
        };
        assert_eq!(freshness.age(waited.plus(Duration::from_secs(1))), Duration::from_secs(35));
    }

    #[test]
    fn what_forbids_sharing() {
        let fresh = ("Cache-Control", "max-age=60");
        assert_eq!(refused(&[fresh, ("Set-Cookie", "a=b")]), Reason::StoreRefusedSetCookie);
        assert_eq!(refused(&[fresh, ("Cache-Control", "private=\"x\"")]), Reason::StoreRefusedPrivate);
        assert_eq!(refused(&[fresh, ("Cache-Control", "NO-STORE")]), Reason::StoreRefusedNoStore);
        assert_eq!(refused(&[fresh, ("Cache-Control", "no-cache")]), Reason::StoreRefusedNoCache);
        assert_eq!(refused(&[fresh, ("Content-Range", "bytes 0-1/2")]), Reason::StoreRefusedPartial);
        assert_eq!(judged(206, &[fresh]), Judgement::DoNotStore(Reason::StoreRefusedPartial));
        for status in [101, 304, 401, 403, 500, 503, 599, 999] {
            assert_eq!(
                judged(status, &[fresh]),
                Judgement::DoNotStore(Reason::StoreRefusedStatus),
                "{status}"
            );
        }
    }

    #[test]
    fn must_understand_stands_for_no_store_where_the_status_is_known() {
        assert_eq!(lifetime_and_age(&[("Cache-Control", "max-age=60, no-store, must-understand")]).0, 60);
    }

    #[test]
    fn credentials_need_public_and_head_has_nothing_to_store() {
        let policy = Policy::default_profile();
        let judge = |request: &RequestHead, control: &'static str| {
            judge_response(request, &response(200, &[("Cache-Control", control)]), now(), now(), &policy)
        };
        let mut authorized = request(&[("Authorization", "Basic eDp5")]);
        let refused = Judgement::DoNotStore(Reason::StoreRefusedAuthorization);
        assert_eq!(judge(&authorized, "max-age=60"), refused);
        assert_eq!(judge(&authorized, "s-maxage=60"), refused);
        assert!(matches!(judge(&authorized, "max-age=60, public"), Judgement::Store(_)));
        authorized.method = Method::Head;
        assert_eq!(
            judge(&authorized, "max-age=60, public"),
            Judgement::DoNotStore(Reason::StoreRefusedMethod)
        );
    }

    #[test]
    fn the_default_ttl_is_for_usual_answers_that_state_none() {
        let policy = Policy { default_ttl: Some(Duration::from_secs(300)), ..Policy::default_profile() };
        let judge = |request: &RequestHead, status, fields: &[(&'static str, &'static str)]| {
            judge_response(request, &response(status, fields), now(), now(), &policy)
        };
        let plain = request(&[]);
        for status in [200, 301, 404] {
            let Judgement::Store(Storable { freshness, .. }) = judge(&plain, status, &[]) else {
                panic!("{status}")
            };
            assert_eq!(freshness.lifetime, Duration::from_secs(300));
        }
        let none = Judgement::DoNotStore(Reason::StoreRefusedNoFreshness);
        assert_eq!(judge(&plain, 302, &[]), none);
        assert_eq!(judge(&plain, 410, &[]), none);
        assert_eq!(
            judge(&plain, 200, &[("Cache-Control", "max-age=0")]),
            Judgement::DoNotStore(Reason::StoreRefusedExpired)
        );
        assert_eq!(
            judge(&plain, 200, &[("Set-Cookie", "a=b")]),
            Judgement::DoNotStore(Reason::StoreRefusedSetCookie)
        );
        let authorized = request(&[("Authorization", "x")]);
        assert_eq!(judge(&authorized, 200, &[("Cache-Control", "public")]), none);
    }

    #[test]
    fn directives_that_forbid_staleness_are_remembered() {
        for control in ["max-age=9, must-revalidate", "max-age=9, proxy-revalidate", "s-maxage=9"] {
            let Judgement::Store(Storable { freshness, .. }) = judged(200, &[("Cache-Control", control)])
            else {
                panic!("{control}")
            };
            assert!(!freshness.may_be_stale, "{control}");
        }
        let Judgement::Store(Storable { freshness, .. }) = judged(200, &[("Cache-Control", "max-age=9")])
        else {
            panic!("stored")
        };
        assert!(freshness.may_be_stale);
    }
}
