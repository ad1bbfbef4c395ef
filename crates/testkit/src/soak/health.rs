//! When the origin of a soak failed, and what it broke off: the causes that excuse an error.
//!
//! Invariant: a failure is excused only if its request was under way while the origin failed, or within [`GRACE`]
//! after that.

use super::lock;
use platform::{Clock, Monotonic, SystemClock};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How long the edge may take to notice that the origin answers again: the longest pause between two probes of an
/// origin that refuses connections (1 s), and the time that a loaded machine takes for a probe.
pub(super) const GRACE: Duration = Duration::from_secs(3);

/// How an origin fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// It refuses connections, and breaks off those that it has.
    Refuses,
    /// It accepts requests and does not answer.
    Hangs,
    /// It answers 500.
    Errs,
}

/// The origin's failures so far.
pub(super) struct Health {
    clock: SystemClock,
    begun: Monotonic,
    spells: Mutex<Vec<Spell>>,
    /// Responses that the origin broke off by itself.
    breaks: AtomicU64,
}

struct Spell {
    failure: Failure,
    end: Option<Duration>,
}

impl Default for Health {
    fn default() -> Self {
        let clock = SystemClock::new();
        let begun = clock.monotonic();
        Self { clock, begun, spells: Mutex::default(), breaks: AtomicU64::new(0) }
    }
}

impl Health {
    /// Time since the beginning.
    pub(super) fn now(&self) -> Duration {
        self.clock.monotonic().since(self.begun)
    }

    pub(super) fn fail(&self, failure: Failure) {
        lock(&self.spells).push(Spell { failure, end: None });
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

    /// How often the origin failed in this way.
    pub(super) fn failures(&self, failure: Failure) -> u64 {
        lock(&self.spells).iter().filter(|spell| spell.failure == failure).count() as u64
    }

    /// Whether a request that was sent at `begun` and has ended now may have failed.
    pub(super) fn is_excused(&self, begun: Duration) -> bool {
        // Spells are in order, so the last one that began before now ends last.
        lock(&self.spells).last().is_some_and(|spell| spell.end.is_none_or(|end| begun <= end + GRACE))
    }
}

#[cfg(test)]
mod tests {
    use super::{Failure, GRACE, Health};
    use std::time::Duration;

    #[test]
    fn failures_are_excused_until_shortly_after_a_spell() {
        let health = Health::default();
        assert!(!health.is_excused(health.now()));
        health.fail(Failure::Hangs);
        let during = health.now();
        assert!(health.is_excused(during));
        health.recover();
        assert!(health.is_excused(during), "it was sent while the origin failed");
        assert!(!health.is_excused(health.now() + GRACE + Duration::from_secs(1)));
        assert_eq!((health.failures(Failure::Hangs), health.failures(Failure::Errs)), (1, 0));
    }
}
