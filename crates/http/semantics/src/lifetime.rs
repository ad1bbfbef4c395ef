//! How long a response is fresh, and how long it may be used after that (RFC 9111 section 4.2, RFC
//! 5861).
//!
//! Invariant: a lifetime or a stale window is never longer than the shortest reading of the
//! response's statements. The age is never shorter than the longest reading. A value that cannot be
//! read counts as expired, or as no permission. The module `judge` decides whether the response may
//! be stored at all.

use crate::dates::parse_date;
use crate::directives::decimal_secs;
use crate::static_files::is_for_any_cookie;
use crate::statuses::{LASTING_STATUSES, is_heuristically_cacheable};
use crate::{Directives, Moment, stated_directives};
use clock::Timestamp;
use message::{Fields, RequestHead, ResponseHead, Status, names};
use profiles::{Policy, StaleOnError};
use std::time::Duration;

/// The freshness lifetime, counted from the generation of the response, and its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FreshnessLifetime {
    /// Stated by the response, and limited to the policy's maximum for its status.
    Stated(Duration),
    /// Assumed by the policy, or by a heuristic that the policy allows.
    Assumed(Duration),
}

impl FreshnessLifetime {
    /// The lifetime itself, whatever its source.
    pub(crate) const fn duration(self) -> Duration {
        match self {
            Self::Stated(duration) | Self::Assumed(duration) => duration,
        }
    }
}

/// The freshness lifetime (RFC 9111 section 4.2.1); `None` if neither the response nor the policy
/// gives one.
///
/// `targeted` says whether the directives come from a targeted field, which disables `Expires`
/// (RFC 9213).
pub(crate) fn lifetime(
    request: &RequestHead,
    response: &ResponseHead,
    directives: &Directives,
    targeted: bool,
    response_time: Timestamp,
    policy: &Policy,
) -> Option<FreshnessLifetime> {
    if let Some(stated) = stated_lifetime(&response.fields, directives, targeted, response_time) {
        return Some(FreshnessLifetime::Stated(stated.min(longest_lifetime(response.status, policy))));
    }
    let assumed = default_lifetime(request, response, policy)
        .or_else(|| heuristic_lifetime(request, response, directives, response_time, policy));
    assumed.map(FreshnessLifetime::Assumed)
}

/// The lifetime that the response states: `s-maxage`, else `max-age`, else `Expires` minus `Date`.
/// A field that cannot be read counts as already expired.
fn stated_lifetime(
    fields: &Fields,
    directives: &Directives,
    targeted: bool,
    response_time: Timestamp,
) -> Option<Duration> {
    if let Some(secs) = directives.s_maxage_secs.or(directives.max_age_secs) {
        return Some(seconds(secs));
    }
    if targeted || !fields.has(names::EXPIRES) {
        return None;
    }
    // Two Expires lines contradict each other, so the response counts as stale (RFC 9111 section
    // 4.2.1).
    let expires = fields.only(names::EXPIRES).and_then(|value| parse_date(value));
    let date = response_date(fields).unwrap_or(response_time);
    Some(expires.map_or(Duration::ZERO, |expires| expires.since(date)))
}

/// Whether the response states a lifetime above zero.
pub(crate) fn states_lifetime(fields: &Fields, policy: &Policy) -> bool {
    let (directives, targeted) = stated_directives(fields, policy);
    // If `Date` is missing, this far future replaces it. `Expires` alone then states no lifetime.
    let now = Timestamp::from_secs(u64::from(u32::MAX));
    stated_lifetime(fields, &directives, targeted, now).is_some_and(|lifetime| !lifetime.is_zero())
}

/// The maximum lifetime of a response with this status. A missing page may appear, and an error may
/// be repaired, at any moment. The caching rules of unknown statuses are unknown.
pub(crate) fn longest_lifetime(status: Status, policy: &Policy) -> Duration {
    let longest = match status.code() {
        404 | 410 => policy.not_found_ttl,
        code if LASTING_STATUSES.contains(&code) => None,
        _ => policy.error_ttl,
    };
    longest.unwrap_or(Duration::MAX)
}

/// The policy's default lifetime, for statuses that are safe to share without a statement of the
/// origin. A request with credentials gets none.
fn default_lifetime(request: &RequestHead, response: &ResponseHead, policy: &Policy) -> Option<Duration> {
    if request.fields.has(names::AUTHORIZATION) {
        return None;
    }
    match response.status.code() {
        404 | 410 if policy.not_found_ttl.is_some() => policy.not_found_ttl,
        200 | 301 | 404 => policy.default_ttl,
        _ => None,
    }
}

/// A tenth of the time since the last change (RFC 9111 section 4.2.2), if the policy allows this
/// heuristic.
fn heuristic_lifetime(
    request: &RequestHead,
    response: &ResponseHead,
    directives: &Directives,
    response_time: Timestamp,
    policy: &Policy,
) -> Option<Duration> {
    let longest = longest_guess(request, response, directives, policy)?;
    if !is_heuristically_cacheable(response.status, directives) {
        return None;
    }
    let changed = response.fields.only(names::LAST_MODIFIED).and_then(|value| parse_date(value))?;
    // An origin whose clock is ahead must not get a longer lifetime.
    let made = response_date(&response.fields).map_or(response_time, |date| date.min(response_time));
    Some(Duration::from_secs(made.since(changed).as_secs() / 10).min(longest))
}

/// The maximum heuristic lifetime for the response; `None` if the heuristic does not apply.
///
/// A policy allows the heuristic for every response, or only for static files that do not forbid
/// stale use. `Pragma` counts as forbidding it, because old applications send it to prevent reuse.
fn longest_guess(
    request: &RequestHead,
    response: &ResponseHead,
    directives: &Directives,
    policy: &Policy,
) -> Option<Duration> {
    if policy.heuristics {
        return Some(HEURISTIC_LIFETIME_MAX);
    }
    let longest = policy.static_guess_max?;
    let forbids_staleness =
        directives.must_revalidate || directives.proxy_revalidate || response.fields.has(names::PRAGMA);
    let is_file = is_for_any_cookie(&request.target, response.status, &response.fields, policy);
    (is_file && !forbids_staleness).then_some(longest)
}

/// The maximum heuristic lifetime of a response of any kind.
const HEURISTIC_LIFETIME_MAX: Duration = Duration::from_secs(24 * 3600);

/// How a response may be used after its lifetime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StaleWindows {
    /// After the lifetime, while the response is being revalidated. Zero: never.
    pub(crate) while_revalidate: Duration,
    /// After the lifetime, while the origin fails. Zero: never.
    pub(crate) if_error: Duration,
    /// Whether `if_error` applies although the response forbids stale use.
    pub(crate) overridden: bool,
    /// Whether a client that accepts stale responses may receive this one.
    pub(crate) client_may_accept: bool,
}

/// The stale windows of a response with this status and these directives (RFC 9111 section 4.2.4,
/// RFC 5861).
///
/// `s-maxage` forbids stale use as `proxy-revalidate` does (RFC 9111 section 5.2.2.10), but a stale
/// window in the same response permits it again, because extensions may modify directives (section
/// 5.2.3). No stated window permits a stale use that `must-revalidate` or `proxy-revalidate`
/// forbids; only the policy does. Server errors are never used stale, because they would replace
/// the real page.
pub(crate) fn stale_windows(
    status: Status,
    directives: &Directives,
    validate_always: bool,
    policy: &Policy,
) -> StaleWindows {
    const NONE: StaleWindows = StaleWindows {
        while_revalidate: Duration::ZERO,
        if_error: Duration::ZERO,
        overridden: false,
        client_may_accept: false,
    };
    if validate_always || status.is_server_error() {
        return NONE;
    }
    let forbidden = directives.must_revalidate || directives.proxy_revalidate;
    let silently_forbidden = forbidden || directives.s_maxage_secs.is_some();
    let stated_if_error = directives.stale_if_error_secs.map(seconds);
    let permitted_if_error = match stated_if_error {
        Some(stated) if !forbidden => stated,
        None if !silently_forbidden => policy.stale_on_error_max,
        _ => Duration::ZERO,
    };
    let override_if_error = stated_if_error.unwrap_or(policy.stale_on_error_max);
    let overridden =
        policy.stale_on_error == StaleOnError::Override && override_if_error > permitted_if_error;
    let while_revalidate = match directives.stale_while_revalidate_secs {
        Some(secs) if !forbidden => seconds(secs),
        _ => Duration::ZERO,
    };
    StaleWindows {
        while_revalidate: while_revalidate.min(longest_lifetime(status, policy)),
        if_error: if overridden { override_if_error } else { permitted_if_error },
        overridden,
        client_may_accept: !silently_forbidden,
    }
}

/// The corrected initial age (RFC 9111 section 4.2.3): the larger of the ages that `Date` and `Age`
/// give.
pub(crate) fn initial_age(fields: &Fields, request_time: Moment, response_time: Moment) -> Duration {
    let apparent_age = response_date(fields).map_or(Duration::ZERO, |date| response_time.wall.since(date));
    let response_delay = response_time.since(request_time);
    apparent_age.max(stated_age(fields).saturating_add(response_delay))
}

/// The value of the first `Age`. It counts as zero if it is not a number (RFC 9111 section 5.1).
fn stated_age(fields: &Fields) -> Duration {
    fields.list(names::AGE).next().and_then(decimal_secs).map_or(Duration::ZERO, seconds)
}

fn response_date(fields: &Fields) -> Option<Timestamp> {
    fields.first(names::DATE).and_then(|value| parse_date(value))
}

fn seconds(secs: u32) -> Duration {
    Duration::from_secs(u64::from(secs))
}

#[cfg(test)]
mod tests {
    use super::{FreshnessLifetime, initial_age, lifetime, stale_windows};
    use crate::tests::FieldLines;
    use crate::{Moment, stated_directives};
    use clock::Timestamp;
    use message::{Fields, Method, RequestHead, ResponseHead, Status, Version};
    use profiles::{Policy, StaleOnError};
    use std::time::Duration;

    /// Sun, 06 Nov 1994 08:49:37 GMT.
    const NOW_SECS: u64 = 784_111_777;
    const HUNDRED_LATER: (&str, &str) = ("Expires", "Sun, 06 Nov 1994 08:51:17 GMT");
    fn head(status: u16, fields: &FieldLines) -> ResponseHead {
        let mut head = ResponseHead::new(Status::from_code(status).unwrap());
        fields.iter().for_each(|(name, value)| head.fields.push(*name, *value));
        head
    }

    /// The lifetime in whole seconds: `Ok` if stated, `Err` if assumed.
    fn lasts(status: u16, fields: &FieldLines, policy: &Policy) -> Option<Result<u64, u64>> {
        let request = RequestHead {
            method: Method::Get,
            target: "/".into(),
            version: Version::Http11,
            fields: Fields::new(),
        };
        lasts_for(&request, status, fields, policy)
    }

    fn lasts_for(
        request: &RequestHead,
        status: u16,
        fields: &FieldLines,
        policy: &Policy,
    ) -> Option<Result<u64, u64>> {
        let head = head(status, fields);
        let (directives, targeted) = stated_directives(&head.fields, policy);
        let now = Timestamp::from_secs(NOW_SECS);
        lifetime(request, &head, &directives, targeted, now, policy).map(|lifetime| match lifetime {
            FreshnessLifetime::Stated(stated) => Ok(stated.as_secs()),
            FreshnessLifetime::Assumed(assumed) => Err(assumed.as_secs()),
        })
    }

    #[test]
    fn stated_lifetimes_have_an_order_of_precedence() {
        let stated = |fields: &FieldLines| lasts(200, fields, &Policy::default_profile());
        assert_eq!(stated(&[("Cache-Control", "max-age=1, s-maxage=60"), HUNDRED_LATER]), Some(Ok(60)));
        assert_eq!(stated(&[("Cache-Control", "max-age=30"), HUNDRED_LATER]), Some(Ok(30)));
        assert_eq!(stated(&[HUNDRED_LATER]), Some(Ok(100)));
        assert_eq!(stated(&[HUNDRED_LATER, ("Date", "Sun, 06 Nov 1994 08:49:27 GMT")]), Some(Ok(110)));
        assert_eq!(stated(&[HUNDRED_LATER, ("Date", "foo")]), Some(Ok(100)));
        assert_eq!(stated(&[("Expires", "Sunday, 06-Nov-94 08:51:17 GMT")]), Some(Ok(100)));
        let past = ("Expires", "Sun, 19 Nov 1978 05:00:00 GMT");
        assert_eq!(stated(&[("Cache-Control", "public, max-age=300"), past]), Some(Ok(300)));
        assert_eq!(stated(&[past]), Some(Ok(0)));
        assert_eq!(stated(&[("Expires", "0")]), Some(Ok(0)));
        assert_eq!(stated(&[HUNDRED_LATER, HUNDRED_LATER]), Some(Ok(0)));
        assert_eq!(stated(&[("Cache-Control", "max-age=0"), HUNDRED_LATER]), Some(Ok(0)));
        assert_eq!(stated(&[("Cache-Control", "public")]), None);
    }

    #[test]
    fn targeted_field_disables_expires() {
        let policy = Policy::default_profile();
        assert_eq!(lasts(200, &[("CDN-Cache-Control", "foo"), HUNDRED_LATER], &policy), None);
    }

    #[test]
    fn policy_limits_the_stated_lifetime_of_errors() {
        let hour = [("Cache-Control", "max-age=3600")];
        let policy = Policy::default_profile();
        for (status, secs) in [(200, 3600), (404, 30), (410, 30), (299, 5), (400, 5), (503, 5)] {
            assert_eq!(lasts(status, &hour, &policy), Some(Ok(secs)), "{status}");
            assert_eq!(lasts(status, &hour, &Policy::rfc()), Some(Ok(3600)), "{status}");
        }
        assert_eq!(lasts(404, &[("Cache-Control", "max-age=3")], &policy), Some(Ok(3)));
    }

    #[test]
    fn default_ttl_applies_to_usual_responses_without_lifetime() {
        let policy = Policy { default_ttl: Some(Duration::from_secs(300)), ..Policy::default_profile() };
        for (status, expected) in [
            (200, Some(Err(300))),
            (301, Some(Err(300))),
            (404, Some(Err(30))),
            (410, Some(Err(30))),
            (302, None),
            (500, None),
        ] {
            assert_eq!(lasts(status, &[], &policy), expected, "{status}");
        }
        let without = Policy { not_found_ttl: None, ..policy.clone() };
        assert_eq!((lasts(404, &[], &without), lasts(410, &[], &without)), (Some(Err(300)), None));
        assert_eq!(lasts(200, &[("Cache-Control", "max-age=0")], &policy), Some(Ok(0)));
        let mut request = RequestHead {
            method: Method::Get,
            target: "/".into(),
            version: Version::Http11,
            fields: Fields::new(),
        };
        request.fields.push("Authorization", "x");
        assert_eq!(lasts_for(&request, 200, &[("Cache-Control", "public")], &policy), None);
    }

    #[test]
    fn rfc_profile_assumes_a_tenth_of_the_time_since_change() {
        let changed = ("Last-Modified", "Sun, 06 Nov 1994 08:32:57 GMT");
        let letter = Policy::rfc();
        assert_eq!(lasts(200, &[changed], &Policy::default_profile()), None);
        for status in [200, 203, 204, 404, 405, 410, 414, 501] {
            assert_eq!(lasts(status, &[changed], &letter), Some(Err(100)), "{status}");
        }
        for status in [201, 202, 302, 403, 500, 502, 503, 504, 599] {
            assert_eq!(lasts(status, &[changed], &letter), None, "{status}");
            assert_eq!(
                lasts(status, &[changed, ("Cache-Control", "public")], &letter),
                Some(Err(100)),
                "{status}"
            );
        }
        // A fast clock does not lengthen the lifetime, and a year without change gives one day.
        assert_eq!(
            lasts(200, &[changed, ("Date", "Sun, 06 Nov 1994 09:49:37 GMT")], &letter),
            Some(Err(100))
        );
        assert_eq!(lasts(200, &[changed, ("Date", "Sun, 06 Nov 1994 08:41:17 GMT")], &letter), Some(Err(50)));
        assert_eq!(
            lasts(200, &[("Last-Modified", "Sat, 06 Nov 1993 08:32:57 GMT")], &letter),
            Some(Err(86_400))
        );
        assert_eq!(lasts(200, &[("Last-Modified", "Mon, 07 Nov 1994 08:32:57 GMT")], &letter), Some(Err(0)));
        assert_eq!(lasts(200, &[("Last-Modified", "0")], &letter), None);
    }

    fn age(fields: &FieldLines, waited_secs: u64) -> u64 {
        let asked = Moment { wall: Timestamp::from_secs(NOW_SECS), ..Moment::default() };
        let answered = asked.plus(Duration::from_secs(waited_secs));
        initial_age(&head(200, fields).fields, asked, answered).as_secs()
    }

    #[test]
    fn age_uses_date_age_and_response_delay() {
        assert_eq!(age(&[("Age", "30")], 4), 34);
        assert_eq!(age(&[("Date", "Sun, 06 Nov 1994 08:48:37 GMT"), ("Age", "5")], 0), 60);
        assert_eq!(age(&[("Date", "Sun, 06 Nov 1994 08:59:37 GMT")], 0), 0);
        assert_eq!(age(&[("Age", "99999999999")], 0), 1 << 31);
    }

    #[test]
    fn first_age_counts_and_invalid_age_is_zero() {
        for (lines, secs) in [
            (&["0, 7200"][..], 0),
            (&["7200, 0"], 7200),
            (&["7200", "0"], 7200),
            (&["0", "7200"], 0),
            (&["abc"], 0),
            (&["-5"], 0),
            (&["7200.0"], 0),
            (&["\"7200\""], 0),
            (&["7200;foo=1"], 0),
            (&[""], 0),
        ] {
            let lines: Vec<_> = lines.iter().map(|line| ("Age", *line)).collect();
            assert_eq!(age(&lines, 0), secs, "{lines:?}");
        }
    }

    /// The window for revalidation and the window for errors, both in seconds; whether the latter
    /// is overridden; whether a client may accept the response stale.
    fn windows(status: u16, control: &'static str, policy: &Policy) -> (u64, u64, bool, bool) {
        let head = head(status, &[("Cache-Control", control)]);
        let (directives, _) = stated_directives(&head.fields, policy);
        let windows = stale_windows(head.status, &directives, directives.no_cache.is_present(), policy);
        let revalidating = windows.while_revalidate.as_secs();
        let error = windows.if_error.as_secs();
        (revalidating, error, windows.overridden, windows.client_may_accept)
    }

    #[test]
    fn stale_windows_follow_the_directives() {
        const DAY: u64 = 24 * 3600;
        let policy = Policy::default_profile();
        for (control, expected) in [
            ("max-age=9", (0, DAY, false, true)),
            ("max-age=9, stale-while-revalidate=7", (7, DAY, false, true)),
            ("max-age=9, stale-if-error=8", (0, 8, false, true)),
            ("max-age=9, stale-if-error=0", (0, 0, false, true)),
            ("max-age=9, must-revalidate, stale-while-revalidate=7, stale-if-error=8", (0, 0, false, false)),
            ("max-age=9, proxy-revalidate", (0, 0, false, false)),
            ("s-maxage=9", (0, 0, false, false)),
            ("s-maxage=9, stale-while-revalidate=7, stale-if-error=8", (7, 8, false, false)),
            ("max-age=9, no-cache, stale-while-revalidate=7, stale-if-error=8", (0, 0, false, false)),
        ] {
            assert_eq!(windows(200, control, &policy), expected, "{control}");
            assert_eq!(windows(200, control, &Policy::rfc()), expected, "{control}");
        }
        assert_eq!(windows(503, "max-age=9, stale-if-error=8", &policy), (0, 0, false, false));
        assert_eq!(windows(404, "max-age=9, stale-while-revalidate=700", &policy).0, 30);
    }

    #[test]
    fn override_permits_stale_on_error_except_for_no_cache() {
        let policy = Policy { stale_on_error: StaleOnError::Override, ..Policy::default_profile() };
        const DAY: u64 = 24 * 3600;
        for (control, expected) in [
            ("max-age=9", (0, DAY, false, true)),
            ("max-age=9, stale-if-error=8", (0, 8, false, true)),
            ("max-age=9, must-revalidate", (0, DAY, true, false)),
            ("max-age=9, must-revalidate, stale-if-error=8", (0, 8, true, false)),
            ("max-age=9, proxy-revalidate", (0, DAY, true, false)),
            ("s-maxage=9", (0, DAY, true, false)),
            ("max-age=9, no-cache", (0, 0, false, false)),
        ] {
            assert_eq!(windows(200, control, &policy), expected, "{control}");
        }
        let none = Policy { stale_on_error_max: Duration::ZERO, ..policy };
        assert_eq!(windows(200, "s-maxage=9", &none), (0, 0, false, false));
    }
}
