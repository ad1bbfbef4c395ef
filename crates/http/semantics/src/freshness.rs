//! Freshness of a stored response, and whether a request may receive it (RFC 9111 sections 4.2 and
//! 5.2.1, RFC 5861, RFC 8246).
//!
//! Invariant: the computed age is never less than the time that really passed, even if the wall
//! clock jumps. A response is therefore never used beyond its lifetime and its stale windows. The
//! module `lifetime` decides how long these are.

use crate::{Directives, Moment, Reason};
use profiles::Policy;
use std::time::Duration;

/// The freshness data of a stored response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Freshness {
    /// Freshness lifetime (RFC 9111 section 4.2.1).
    pub lifetime: Duration,
    /// Corrected initial age (RFC 9111 section 4.2.3).
    pub initial_age: Duration,
    /// When the response was received.
    pub received: Moment,
    /// For how long after its lifetime the response may answer while it is revalidated (RFC 5861
    /// section 3).
    pub while_revalidate: Duration,
    /// For how long after its lifetime the response may answer while the origin fails (RFC 5861
    /// section 4).
    pub if_error: Duration,
    /// Whether a client may accept the response stale, because no directive of the response forbids
    /// that (RFC 9111 section 4.2.4).
    pub may_be_stale: bool,
    /// Whether the response forbids stale use and `if_error` is above zero only because the policy
    /// overrides that.
    pub overridden: bool,
    /// Whether every use must be validated first, because the response says `no-cache`.
    pub validate_always: bool,
    /// Whether the response says that it will not change while it is fresh (RFC 8246).
    pub immutable: bool,
}

/// Whether a response is within its lifetime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FreshnessState {
    /// Fresh, with this remaining lifetime, which is above zero.
    Fresh(Duration),
    /// Stale, for this long.
    Stale(Duration),
}

impl Freshness {
    /// Fresh for `lifetime` from `received` on, and never used stale.
    pub const fn lasting(lifetime: Duration, received: Moment) -> Self {
        Self {
            lifetime,
            initial_age: Duration::ZERO,
            received,
            while_revalidate: Duration::ZERO,
            if_error: Duration::ZERO,
            may_be_stale: false,
            overridden: false,
            validate_always: false,
            immutable: false,
        }
    }

    /// The current age (RFC 9111 section 4.2.3).
    pub fn age(&self, now: Moment) -> Duration {
        self.initial_age.saturating_add(now.since(self.received))
    }

    /// Whether the response is fresh: its lifetime is greater than its age.
    pub fn state(&self, now: Moment) -> FreshnessState {
        let age = self.age(now);
        match self.lifetime.checked_sub(age) {
            Some(left) if !left.is_zero() => FreshnessState::Fresh(left),
            _ => FreshnessState::Stale(age.saturating_sub(self.lifetime)),
        }
    }

    /// Whether the origin must confirm the response before each use from now on.
    ///
    /// The request that fetched it is the one exception. Requests that wait for this response each
    /// need a separate response.
    pub fn must_be_validated(&self, now: Moment) -> bool {
        self.validate_always || matches!(self.state(now), FreshnessState::Stale(_))
    }

    /// Why the origin is asked before a use of a response that [`Freshness::must_be_validated`].
    pub fn validation_reason(&self) -> Reason {
        if self.validate_always {
            Reason::MissNoCache
        } else if self.lifetime.is_zero() {
            Reason::MissNoLifetime
        } else {
            Reason::MissExpired
        }
    }

    /// The remaining lifetime in whole seconds, rounded towards zero. It is negative when the
    /// response is stale, as `Cache-Status` requires.
    pub fn ttl_secs(&self, now: Moment) -> i64 {
        match self.state(now) {
            FreshnessState::Fresh(left) => whole_secs(left),
            FreshnessState::Stale(over) => -whole_secs(over),
        }
    }
}

/// Whether a stored response may answer a request. Ages and lifetimes are in whole seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reuse {
    /// Yes, because it is fresh.
    Fresh {
        /// The current age.
        age_secs: u64,
        /// The remaining lifetime.
        ttl_secs: i64,
    },
    /// Yes, although it is stale.
    Stale {
        /// The current age.
        age_secs: u64,
        /// The remaining lifetime; zero or below.
        ttl_secs: i64,
        /// Why the stale response may be used.
        reason: Reason,
        /// Whether the response is to be refreshed in the background, by one request at a time.
        refresh: bool,
    },
    /// No: the origin must be asked, for this reason.
    Revalidate(Reason),
}

/// Whether a stored response with this freshness may answer a request with these directives at
/// `now`.
///
/// The policy's `reload_age_min` limits the request's wish for a newer response: a response below
/// this age is not fetched again because of the request's directives.
pub fn reuse(freshness: &Freshness, request: &Directives, policy: &Policy, now: Moment) -> Reuse {
    if freshness.validate_always {
        return Reuse::Revalidate(freshness.validation_reason());
    }
    let age = freshness.age(now);
    let age_secs = age.as_secs();
    let ttl_secs = freshness.ttl_secs(now);
    let (left, over) = match freshness.state(now) {
        FreshnessState::Fresh(left) => (left, None),
        FreshnessState::Stale(over) => (Duration::ZERO, Some(over)),
    };
    // A fresh immutable response is fetched again only for the request's no-cache. The request's
    // max-age and min-fresh have no effect on it (RFC 8246 section 2).
    let newer = if freshness.immutable && over.is_none() {
        request.no_cache.is_present()
    } else {
        wants_newer(request, age, left)
    };
    let declined = newer && age >= policy.reload_age_min;
    let Some(over) = over else {
        return if declined {
            Reuse::Revalidate(Reason::MissReload)
        } else {
            Reuse::Fresh { age_secs, ttl_secs }
        };
    };
    let stale = |reason, refresh| Reuse::Stale { age_secs, ttl_secs, reason, refresh };
    if over < freshness.while_revalidate {
        return if declined {
            Reuse::Revalidate(Reason::MissReload)
        } else {
            stale(Reason::StaleWhileRevalidate, true)
        };
    }
    // Inclusive: max-stale accepts a response "that has exceeded its freshness lifetime by no more
    // than" this time (RFC 9111 section 5.2.1.2).
    let accepted = request.max_stale_secs.is_some_and(|secs| over <= seconds(secs));
    if accepted && freshness.may_be_stale && !declined {
        return stale(Reason::StaleClientAllows, false);
    }
    Reuse::Revalidate(freshness.validation_reason())
}

/// Whether a stored response may replace a response that the origin failed to give; `None` if not.
///
/// Call it after [`reuse`] returned [`Reuse::Revalidate`] and the origin gave an error or nothing.
///
/// The request's `max-age` and `min-fresh` ask for a newer response, but do not prefer an error to
/// an older one. Its `no-cache` does, but only if the policy has no minimum age for reloads
/// (`reload_age_min` is zero). With a minimum age the request's directives are only advice.
pub fn reuse_on_error(
    freshness: &Freshness,
    request: &Directives,
    policy: &Policy,
    now: Moment,
) -> Option<Reuse> {
    let declined = request.no_cache.is_present() && policy.reload_age_min.is_zero();
    if freshness.validate_always || declined {
        return None;
    }
    let age_secs = freshness.age(now).as_secs();
    let ttl_secs = freshness.ttl_secs(now);
    let over = match freshness.state(now) {
        FreshnessState::Fresh(_) => return Some(Reuse::Fresh { age_secs, ttl_secs }),
        FreshnessState::Stale(over) => over,
    };
    let stale = |reason| Some(Reuse::Stale { age_secs, ttl_secs, reason, refresh: false });
    if over < freshness.if_error {
        return stale(if freshness.overridden { Reason::StaleOnErrorOverride } else { Reason::StaleOnError });
    }
    let accepted = request.stale_if_error_secs.is_some_and(|secs| over <= seconds(secs));
    if accepted && freshness.may_be_stale { stale(Reason::StaleOnError) } else { None }
}

/// Whether the request asks for a response newer than the stored one with this freshness.
pub fn asks_for_newer(freshness: &Freshness, request: &Directives, now: Moment) -> bool {
    let left = match freshness.state(now) {
        FreshnessState::Fresh(left) => left,
        FreshnessState::Stale(_) => Duration::ZERO,
    };
    wants_newer(request, freshness.age(now), left)
}

/// Whether the request's directives ask for a response newer than one with this age and this
/// remaining lifetime.
fn wants_newer(request: &Directives, age: Duration, left: Duration) -> bool {
    request.no_cache.is_present()
        || request.max_age_secs.is_some_and(|secs| age > seconds(secs))
        || request.min_fresh_secs.is_some_and(|secs| left < seconds(secs))
}

fn seconds(secs: u32) -> Duration {
    Duration::from_secs(u64::from(secs))
}

fn whole_secs(duration: Duration) -> i64 {
    i64::try_from(duration.as_secs()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::{Freshness, FreshnessState, Reuse, reuse, reuse_on_error};
    use crate::{DirectiveScope, Directives, Moment, Reason};
    use clock::{ManualClock, Timestamp};
    use profiles::Policy;
    use std::time::Duration;

    const fn secs(secs: u64) -> Duration {
        Duration::from_secs(secs)
    }

    fn start() -> Moment {
        Moment { wall: Timestamp::from_secs(1_000_000), ..Moment::default() }
    }

    /// A lifetime of 60 s, with an age of 10 s on arrival.
    fn minute() -> Freshness {
        Freshness { initial_age: secs(10), may_be_stale: true, ..Freshness::lasting(secs(60), start()) }
    }

    fn after(seconds: u64, request: &Directives) -> Reuse {
        reuse(&minute(), request, &Policy::default_profile(), start().plus(secs(seconds)))
    }

    #[test]
    fn response_is_stale_when_its_age_equals_its_lifetime() {
        let plain = Directives::default();
        assert_eq!(after(0, &plain), Reuse::Fresh { age_secs: 10, ttl_secs: 50 });
        assert_eq!(after(49, &plain), Reuse::Fresh { age_secs: 59, ttl_secs: 1 });
        assert_eq!(after(50, &plain), Reuse::Revalidate(Reason::MissExpired));
    }

    #[test]
    fn request_directives_ask_for_a_newer_response() {
        let reload = Directives { no_cache: DirectiveScope::Everything, ..Directives::default() };
        assert_eq!(after(0, &reload), Reuse::Revalidate(Reason::MissReload));
        let newer = |max_age| Directives { max_age_secs: Some(max_age), ..Directives::default() };
        assert_eq!(after(5, &newer(15)), Reuse::Fresh { age_secs: 15, ttl_secs: 45 });
        assert_eq!(after(6, &newer(15)), Reuse::Revalidate(Reason::MissReload));
        let longer = |min_fresh| Directives { min_fresh_secs: Some(min_fresh), ..Directives::default() };
        assert_eq!(after(20, &longer(30)), Reuse::Fresh { age_secs: 30, ttl_secs: 30 });
        assert_eq!(after(21, &longer(30)), Reuse::Revalidate(Reason::MissReload));
    }

    #[test]
    fn reload_is_answered_by_a_response_younger_than_the_minimum() {
        let reload = Directives { no_cache: DirectiveScope::Everything, ..Directives::default() };
        let policy = Policy { reload_age_min: secs(5), ..Policy::default_profile() };
        let fresh = Freshness { initial_age: Duration::ZERO, ..minute() };
        let at = |seconds| reuse(&fresh, &reload, &policy, start().plus(secs(seconds)));
        assert!(matches!(at(4), Reuse::Fresh { .. }));
        assert_eq!(at(5), Reuse::Revalidate(Reason::MissReload));
    }

    #[test]
    fn max_stale_accepts_only_responses_that_may_be_stale() {
        let patient = |max_stale| Directives { max_stale_secs: Some(max_stale), ..Directives::default() };
        let reason = Reason::StaleClientAllows;
        assert_eq!(
            after(60, &patient(10)),
            Reuse::Stale { age_secs: 70, ttl_secs: -10, reason, refresh: false }
        );
        assert_eq!(after(61, &patient(10)), Reuse::Revalidate(Reason::MissExpired));
        let strict = Freshness { may_be_stale: false, ..minute() };
        let now = start().plus(secs(60));
        assert_eq!(
            reuse(&strict, &patient(100), &Policy::default_profile(), now),
            Reuse::Revalidate(Reason::MissExpired)
        );
        let both = Directives { no_cache: DirectiveScope::Everything, ..patient(100) };
        assert_eq!(after(60, &both), Reuse::Revalidate(Reason::MissExpired));
    }

    #[test]
    fn no_cache_response_is_revalidated_before_every_use() {
        let freshness = Freshness { validate_always: true, if_error: secs(100), ..minute() };
        let policy = Policy::default_profile();
        for patient in [None, Some(1_000)] {
            let request =
                Directives { max_stale_secs: patient, stale_if_error_secs: patient, ..Directives::default() };
            assert_eq!(reuse(&freshness, &request, &policy, start()), Reuse::Revalidate(Reason::MissNoCache));
            assert_eq!(reuse_on_error(&freshness, &request, &policy, start()), None);
        }
    }

    #[test]
    fn missing_lifetime_has_its_own_reason() {
        let freshness = Freshness { initial_age: Duration::ZERO, lifetime: Duration::ZERO, ..minute() };
        let policy = Policy::default_profile();
        let used = reuse(&freshness, &Directives::default(), &policy, start());
        assert_eq!(used, Reuse::Revalidate(Reason::MissNoLifetime));
    }

    #[test]
    fn stale_response_answers_within_its_revalidation_window() {
        let freshness = Freshness { while_revalidate: secs(30), ..minute() };
        let policy = Policy::default_profile();
        let at =
            |seconds, request: &Directives| reuse(&freshness, request, &policy, start().plus(secs(seconds)));
        let plain = Directives::default();
        let reason = Reason::StaleWhileRevalidate;
        assert_eq!(at(49, &plain), Reuse::Fresh { age_secs: 59, ttl_secs: 1 });
        assert_eq!(at(50, &plain), Reuse::Stale { age_secs: 60, ttl_secs: 0, reason, refresh: true });
        assert_eq!(at(79, &plain), Reuse::Stale { age_secs: 89, ttl_secs: -29, reason, refresh: true });
        assert_eq!(at(80, &plain), Reuse::Revalidate(Reason::MissExpired));
        let reload = Directives { no_cache: DirectiveScope::Everything, ..Directives::default() };
        assert_eq!(at(50, &reload), Reuse::Revalidate(Reason::MissReload));
        // A client that accepts more staleness gets it, but the response is not refreshed for it.
        let patient = Directives { max_stale_secs: Some(60), ..Directives::default() };
        assert!(matches!(at(79, &patient), Reuse::Stale { refresh: true, .. }));
        assert!(matches!(at(80, &patient), Reuse::Stale { refresh: false, .. }));
    }

    #[test]
    fn stale_response_replaces_errors_within_its_window() {
        let policy = Policy::default_profile();
        let on_error = |freshness: &Freshness, request: &Directives, seconds| {
            reuse_on_error(freshness, request, &policy, start().plus(secs(seconds)))
        };
        let stale =
            |age_secs, ttl_secs, reason| Some(Reuse::Stale { age_secs, ttl_secs, reason, refresh: false });
        let plain = Directives::default();
        let reason = Reason::StaleOnError;
        let freshness = Freshness { if_error: secs(30), ..minute() };
        assert_eq!(on_error(&freshness, &plain, 0), Some(Reuse::Fresh { age_secs: 10, ttl_secs: 50 }));
        assert_eq!(on_error(&freshness, &plain, 79), stale(89, -29, reason));
        assert_eq!(on_error(&freshness, &plain, 80), None);
        let strict = Freshness { overridden: true, may_be_stale: false, ..freshness };
        assert_eq!(on_error(&strict, &plain, 79), stale(89, -29, Reason::StaleOnErrorOverride));
        let reload = Directives { no_cache: DirectiveScope::Everything, ..Directives::default() };
        assert!(on_error(&freshness, &reload, 50).is_some(), "a request's directives are advice");
        let now = start().plus(secs(50));
        assert_eq!(reuse_on_error(&freshness, &reload, &Policy::rfc(), now), None);
        let newer = Directives { max_age_secs: Some(0), ..Directives::default() };
        assert!(on_error(&freshness, &newer, 50).is_some(), "a reload does not prefer an error");
        let patient = Directives { stale_if_error_secs: Some(40), ..Directives::default() };
        assert_eq!(on_error(&freshness, &patient, 90), stale(100, -40, reason));
        assert_eq!(on_error(&freshness, &patient, 91), None);
        assert_eq!(on_error(&strict, &patient, 90), None);
    }

    #[test]
    fn immutable_response_is_reloaded_only_by_no_cache() {
        let freshness = Freshness { immutable: true, ..minute() };
        let policy = Policy::default_profile();
        let at =
            |seconds, request: &Directives| reuse(&freshness, request, &policy, start().plus(secs(seconds)));
        let newer = Directives { max_age_secs: Some(0), min_fresh_secs: Some(60), ..Directives::default() };
        assert!(matches!(at(0, &newer), Reuse::Fresh { .. }));
        let reload = Directives { no_cache: DirectiveScope::Everything, ..Directives::default() };
        assert_eq!(at(0, &reload), Reuse::Revalidate(Reason::MissReload));
        let patient = Directives { max_stale_secs: Some(60), ..newer };
        assert_eq!(at(50, &patient), Reuse::Revalidate(Reason::MissExpired));
    }

    #[test]
    fn response_that_arrived_stale_must_be_validated() {
        assert!(!minute().must_be_validated(start()));
        assert!(minute().must_be_validated(start().plus(secs(50))));
        assert!(Freshness { validate_always: true, ..minute() }.must_be_validated(start()));
    }

    #[test]
    fn clock_jumps_never_lengthen_freshness() {
        let clock = ManualClock::at(Timestamp::from_secs(1_000_000));
        let freshness = Freshness { received: Moment::read(&clock), ..minute() };
        clock.advance(secs(49));
        clock.set_wall(Timestamp::from_secs(996_400));
        assert_eq!(freshness.state(Moment::read(&clock)), FreshnessState::Fresh(secs(1)));
        clock.advance(secs(1));
        assert_eq!(freshness.state(Moment::read(&clock)), FreshnessState::Stale(Duration::ZERO));
        clock.set_wall(Timestamp::from_secs(32_536_000));
        assert!(matches!(freshness.state(Moment::read(&clock)), FreshnessState::Stale(_)));
        assert_eq!(freshness.age(Moment::read(&clock)), secs(10 + 31_536_000));
    }
}
