//! Records the failures of a soak's origins. They excuse errors of the edge.
//!
//! Invariant: a failed request is excused only if it was in progress while the origin failed, or
//! was sent within [`GRACE`] after that. If the site has another origin, it is excused only until
//! the edge must have noticed the failure.

use super::lock;
use clock::{Clock, Monotonic};
use platform::SystemClock;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Longest time in which the edge notices that the origin answers again. It is the longest pause
/// between two probes (1 s), plus the time of a probe on a loaded machine.
pub(super) const GRACE: Duration = Duration::from_secs(3);
/// Longest time in which the edge notices that one of several origins fails: two health checks, one
/// a second, or three silent pages, on a loaded machine.
const SWITCH: Duration = Duration::from_secs(5);

/// The kinds of failures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SoakFailure {
    /// The origin refuses connections, and ends the open ones.
    Refuses,
    /// The origin accepts requests and does not answer.
    Hangs,
    /// The origin answers 500, 502, 503 and 504.
    Errs,
    /// The origin answers late and in pieces. This excuses nothing.
    Slow,
    /// The origin cuts each response off.
    Truncates,
    /// The origin refuses connections and accepts them in turns.
    Flaps,
}

impl SoakFailure {
    pub(super) const ALL: [Self; 6] =
        [Self::Refuses, Self::Slow, Self::Hangs, Self::Truncates, Self::Errs, Self::Flaps];
}

/// The failures so far.
pub(super) struct FailureLog {
    clock: SystemClock,
    begun: Monotonic,
    spells: Mutex<Vec<FailureSpell>>,
    /// Responses that the origin truncated on purpose.
    breaks: AtomicU64,
    /// Times that an origin ended all of its connections.
    ends: AtomicU64,
}

struct FailureSpell {
    failure: SoakFailure,
    start: Duration,
    end: Option<Duration>,
}

impl Default for FailureLog {
    fn default() -> Self {
        let clock = SystemClock::new();
        let begun = clock.monotonic();
        Self { clock, begun, spells: Mutex::default(), breaks: AtomicU64::new(0), ends: AtomicU64::new(0) }
    }
}

impl FailureLog {
    /// Time since the start of the soak.
    pub(super) fn now(&self) -> Duration {
        self.clock.monotonic().since(self.begun)
    }

    pub(super) fn fail(&self, failure: SoakFailure) {
        let start = self.now();
        lock(&self.spells).push(FailureSpell { failure, start, end: None });
    }

    pub(super) fn recover(&self) {
        let now = self.now();
        if let Some(spell) = lock(&self.spells).last_mut() {
            spell.end.get_or_insert(now);
        }
    }

    pub(super) fn break_off(&self) {
        self.breaks.fetch_add(1, Ordering::SeqCst);
    }

    pub(super) fn breaks(&self) -> u64 {
        self.breaks.load(Ordering::SeqCst)
    }

    pub(super) fn end_connections(&self) {
        self.ends.fetch_add(1, Ordering::SeqCst);
    }

    pub(super) fn ends(&self) -> u64 {
        self.ends.load(Ordering::SeqCst)
    }

    /// Number of failures of this kind.
    pub(super) fn failures(&self, failure: SoakFailure) -> u64 {
        lock(&self.spells).iter().filter(|spell| spell.failure == failure).count() as u64
    }

    /// Whether a request that was sent at `begun`, and has ended now, may have failed.
    pub(super) fn is_excused(&self, begun: Duration) -> bool {
        // All spells have begun by now.
        lock(&self.spells).iter().rev().any(|spell| spell.is_excuse(begun))
    }

    /// As [`FailureLog::is_excused`], for a site that has another origin, which works.
    pub(super) fn is_excused_beside_another(&self, begun: Duration) -> bool {
        lock(&self.spells).iter().rev().any(|spell| match spell.failure {
            // The edge notices a truncated response only after it has begun to send it, and a
            // flapping origin ends requests again and again.
            SoakFailure::Truncates | SoakFailure::Flaps | SoakFailure::Slow => spell.is_excuse(begun),
            SoakFailure::Refuses | SoakFailure::Hangs | SoakFailure::Errs => {
                spell.is_excuse(begun) && begun <= spell.start + SWITCH
            }
        })
    }
}

impl FailureSpell {
    fn is_excuse(&self, begun: Duration) -> bool {
        self.failure != SoakFailure::Slow && self.end.is_none_or(|end| begun <= end + GRACE)
    }
}

#[cfg(test)]
mod tests {
    use super::{FailureLog, GRACE, SWITCH, SoakFailure};
    use std::time::Duration;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn failures_are_excused_until_shortly_after_a_spell() {
        let health = FailureLog::default();
        assert!(!health.is_excused(health.now()));
        health.fail(SoakFailure::Hangs);
        let during = health.now();
        assert!(health.is_excused(during));
        health.recover();
        assert!(health.is_excused(during), "it was sent while the origin failed");
        assert!(!health.is_excused(health.now() + GRACE + SECOND));
        assert_eq!((health.failures(SoakFailure::Hangs), health.failures(SoakFailure::Errs)), (1, 0));
    }

    #[test]
    fn slow_origin_excuses_nothing() {
        let health = FailureLog::default();
        health.fail(SoakFailure::Slow);
        let now = health.now();
        assert!(!health.is_excused(now) && !health.is_excused_beside_another(now));
    }

    #[test]
    fn working_origin_must_replace_a_failing_one_soon() {
        let health = FailureLog::default();
        health.fail(SoakFailure::Refuses);
        let during = health.now();
        assert!(health.is_excused_beside_another(during));
        assert!(health.is_excused(during + SWITCH + SECOND));
        assert!(!health.is_excused_beside_another(during + SWITCH + SECOND));
    }
}
