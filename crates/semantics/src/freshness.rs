//! Freshness of a stored response, and whether a request may have it (RFC 9111 sections 4.2 and 5.2.1).
//!
//! Invariant: age never goes down, whatever the wall clock does, so a response is never served past the
//! lifetime it was given. How long that lifetime is decides `judge`.

use crate::{Directives, Moment, Policy, Reason};
use std::time::Duration;

/// What is remembered of a stored response's freshness.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Freshness {
    /// Freshness lifetime (RFC 9111 section 4.2.1).
    pub lifetime: Duration,
    /// Corrected initial age (RFC 9111 section 4.2.3).
    pub initial_age: Duration,
    /// When the response was received.
    pub received: Moment,
    /// Whether a client may accept it stale: no directive of the response forbids that (RFC 9111 section 4.2.4).
    pub may_be_stale: bool,
}

/// Whether a response is within its lifetime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FreshnessState {
    /// For this much longer; above zero.
    Fresh(Duration),
    /// Since this long.
    Stale(Duration),
}

impl Freshness {
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

    /// The remaining lifetime in whole seconds, rounded down; negative when stale, as `Cache-Status` wants it.
    pub fn ttl_secs(&self, now: Moment) -> i64 {
        match self.state(now) {
            FreshnessState::Fresh(left) => whole_secs(left),
            FreshnessState::Stale(over) => -whole_secs(over),
        }
    }
}

/// Whether a stored response may answer a request. Ages are for the `Age` field, in whole seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reuse {
    /// Yes, it is fresh.
    Fresh {
        /// The current age.
        age_secs: u64,
        /// The remaining lifetime.
        ttl_secs: i64,
    },
    /// Yes, though stale: the request accepts that and the response does not forbid it.
    Stale {
        /// The current age.
        age_secs: u64,
        /// The remaining lifetime; zero or below.
        ttl_secs: i64,
        /// Why it may be used.
        reason: Reason,
    },
    /// No, the origin must be asked.
    Revalidate(Reason),
}

/// Whether a stored response with this freshness may answer a request with these directives at `now`.
pub fn reuse(freshness: &Freshness, request: &Directives, policy: &Policy, now: Moment) -> Reuse {
    let age = freshness.age(now);
    let (age_secs, ttl_secs) = (age.as_secs(), freshness.ttl_secs(now));
    match freshness.state(now) {
        FreshnessState::Fresh(left) => {
            if wants_newer(request, age, left) && age >= policy.reload_age_min {
                Reuse::Revalidate(Reason::MissReload)
            } else {
                Reuse::Fresh { age_secs, ttl_secs }
            }
        }
        FreshnessState::Stale(over) => {
            let accepted = request.max_stale_secs.is_some_and(|secs| over <= seconds(secs));
            if accepted && freshness.may_be_stale && !wants_newer(request, age, Duration::ZERO) {
                Reuse::Stale { age_secs, ttl_secs, reason: Reason::StaleClientAllows }
            } else {
                Reuse::Revalidate(Reason::MissExpired)
            }
        }
    }
}

/// Whether the request's directives ask for a response newer than one of this age and this much time left.
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
