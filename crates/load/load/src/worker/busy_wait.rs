//! Decides when a thread busy-waits for a response instead of sleeping.
//!
//! A sleeping thread reads a response 20 to 50 us after the kernel received it, because the idle
//! core has to wake up. With one user at a server that responds within 200 us, the generator would
//! take 20% of the user's time. A thread with several users sleeps rarely and needs no busy-wait.
//!
//! Invariant: threads that busy-wait leave at least half of the cores to the server, and run at
//! ordinary priority. The kernel stops real-time threads that use 95% of a core (sched(7),
//! `sched_rt_runtime_us`).

use clock::Monotonic;
use std::time::Duration;

/// A thread busy-waits at most this long after its last event. The wake-up latency is below 5% of a
/// longer response time.
const QUIET_MAX: Duration = Duration::from_millis(1);

/// Whether the threads of a run with `users` users busy-wait, given `threads` threads on `cores`
/// cores.
pub(crate) fn is_useful(users: usize, threads: usize, cores: usize) -> bool {
    users <= threads && threads * 2 <= cores
}

/// The busy-waits of one thread.
#[derive(Debug, Default)]
pub(super) struct BusyWait {
    is_wanted: bool,
    /// When the last event came.
    event_at: Monotonic,
    /// Time spent busy-waiting in the measured part.
    spent: Duration,
}

impl BusyWait {
    /// The busy-waits of a thread that `is_wanted` to busy-wait.
    pub(super) fn new(is_wanted: bool) -> Self {
        Self { is_wanted, ..Self::default() }
    }

    /// Whether the thread should poll without sleeping at `now`.
    pub(super) fn is_due(&self, now: Monotonic) -> bool {
        self.is_wanted && now.since(self.event_at) < QUIET_MAX
    }

    /// Learns that events came.
    pub(super) fn woken(&mut self, now: Monotonic) {
        self.event_at = now;
    }

    /// Counts a busy-wait of the measured part.
    pub(super) fn spend(&mut self, time: Duration) {
        self.spent += time;
    }

    /// Time spent busy-waiting in the measured part.
    pub(super) fn spent(&self) -> Duration {
        self.spent
    }
}

#[cfg(test)]
mod tests {
    use super::{BusyWait, QUIET_MAX, is_useful};
    use clock::Monotonic;

    #[test]
    fn only_runs_with_a_user_per_thread_and_free_cores_busy_wait() {
        assert!(is_useful(1, 1, 2) && is_useful(2, 2, 4));
        assert!(!is_useful(2, 1, 2), "two users on one thread");
        assert!(!is_useful(2, 2, 2) && !is_useful(1, 1, 1), "no core would be left to the server");
    }

    #[test]
    fn slow_responses_let_the_thread_sleep() {
        let at = |micros: u64| Monotonic::from_nanos(micros * 1_000);
        let mut busy_wait = BusyWait::new(true);
        busy_wait.woken(at(10_000));
        assert!(busy_wait.is_due(at(10_999)));
        assert!(!busy_wait.is_due(at(10_000).plus(QUIET_MAX)));
        assert!(!BusyWait::default().is_due(at(0)));
    }
}
