//! May this response be stored, and for how long is it fresh? (RFC 9111 sections 3 and 4.2.)
//!
//! Invariant: nothing is stored that the response does not clearly permit to share. The default is stricter
//! than the letter: a response that sets a cookie, that answers credentials without `public`, that is only a
//! part, or that every use would have to revalidate, is not stored. Guessed lifetimes (heuristics) are not given.

use crate::dates::parse_date;
use crate::directives::delta_secs;
use crate::{Directives, Freshness, FreshnessState, Moment, Policy, Reason, stated_directives};
use message::{Fields, Method, RequestHead, ResponseHead, names};
use platform::Timestamp;
use std::time::Duration;

/// What is to be done with a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// Store it; it is fresh as said.
    Store(Freshness),
    /// Forward it to whoever asked, and keep nothing.
    DoNotStore(Reason),
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
        lifetime,
        initial_age: initial_age(&response.fields, request_time, response_time),
        received: response_time,
        may_be_stale: !directives.must_revalidate
            && !directives.proxy_revalidate
            && directives.s_maxage_secs.is_none(),
    };
    match freshness.state(response_time) {
        FreshnessState::Fresh(_) => Judgement::Store(freshness),
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

/// The value of `Age`: of several the oldest, of a list its members; what is no number is ignored (RFC 9111 section 5.1).
fn stated_age(fields: &Fields) -> Duration {
    let oldest = fields.list(names::AGE).filter_map(delta_secs).max().unwrap_or(0);
    Duration::from_secs(u64::from(oldest))
}

fn response_date(fields: &Fields) -> Option<Timestamp> {
    fields.first(names::DATE).and_then(|value| parse_date(value))
}
