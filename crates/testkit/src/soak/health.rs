//! Records the failures of a soak's origin. They excuse errors of the edge.
//!
//! Invariant: a failed request is excused only if it was in progress while the origin failed, or
//! was sent within [`GRACE`] after that.

use super::lock;
use clock::{Clock, Monotonic};
use platform::SystemClock;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Longest time in which the edge notices that the origin answers again. It is the longest pause
/// between two probes (1 s), plus the time of a probe on a loaded machine.
pub(super) const GRACE: Duration = Duration::from_secs(3);

/// The kinds of failures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SoakFailure {
    /// The origin refuses connections, and ends the open ones.
    Refuses,
    /// The origin accepts requests and does not answer.
    Hangs,
    /// The origin answers 500.
    Errs,
}

/// The failures so far.
pub(super) struct FailureLog {
    clock: SystemClock,
    begun: Monotonic,
    spells: Mutex<Vec<FailureSpell>>,
    /// Responses that the origin truncated on purpose.
    breaks: AtomicU64,
}

struct FailureSpell {
    failure: SoakFailure,
    end: Option<Duration>,
}

impl Default for FailureLog {
    fn default() -> Self {
        let clock = SystemClock::new();
        let begun = clock.monotonic();
        Self { clock, begun, spells: Mutex::default(), breaks: AtomicU64::new(0) }
    }
}

impl FailureLog {
    /// Time since the start of the soak.
    pub(super) fn now(&self) -> Duration {
        self.clock.monotonic().since(self.begun)
    }

    pub(super) fn fail(&self, failure: SoakFailure) {
        lock(&self.spells).push(FailureSpell { failure, end: None });
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

    /// Number of failures of this kind.
    pub(super) fn failures(&self, failure: SoakFailure) -> u64 {
        lock(&self.spells).iter().filter(|spell| spell.failure == failure).count() as u64
    }

    /// Whether a request that was sent at `begun`, and has ended now, may have failed.
    pub(super) fn is_excused(&self, begun: Duration) -> bool {
        // Failures follow one another, so the last one ends last.
        lock(&self.spells).last().is_some_and(|spell| spell.end.is_none_or(|end| begun <= end + GRACE))
    }
}

#[cfg(test)]
mod tests {
    use super::{FailureLog, GRACE, SoakFailure};
    use std::time::Duration;

    #[test]
    fn failures_are_excused_until_shortly_after_a_spell() {
        let health = FailureLog::default();
        assert!(!health.is_excused(health.now()));
        health.fail(SoakFailure::Hangs);
        let during = health.now();
        assert!(health.is_excused(during));
        health.recover();
        assert!(health.is_excused(during), "it was sent while the origin failed");
        assert!(!health.is_excused(health.now() + GRACE + Duration::from_secs(1)));
        assert_eq!((health.failures(SoakFailure::Hangs), health.failures(SoakFailure::Errs)), (1, 0));
    }
}
