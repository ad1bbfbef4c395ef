//! Decides when a thread busy-waits for a response instead of sleeping.
//!
//! A sleeping thread reads a response 20 to 120 us after the kernel received it, because the idle
//! core has to wake up. At a server that responds within 2 ms, a generator that sleeps takes 5% of
//! its users' time. A busy-waiting thread reads the response within a few microseconds.
//!
//! Invariant: threads that busy-wait leave at least half of the cores to the server, and run at
//! ordinary priority. The kernel stops real-time threads that use 95% of a core (sched(7),
//! `sched_rt_runtime_us`). If another program wants the core, the thread sleeps for a while
//! instead: it would only take time from the server.

use clock::Monotonic;
use std::time::Duration;

/// A thread busy-waits at most this long after its last event. The wake-up latency is below 5% of a
/// longer response time.
const QUIET_MAX: Duration = Duration::from_millis(3);

/// A poll without waiting takes a few microseconds. If it took longer than this, the kernel ran
/// another program on the core.
const PREEMPTED: Duration = Duration::from_micros(100);

/// Pause of busy-waiting after the first preemption. It doubles with each further one.
const PAUSE_MIN: Duration = Duration::from_millis(20);

/// Longest pause. The thread then wastes less than 1% of a core that others want.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// Number of threads that may busy-wait on a machine with `cores` cores.
pub(crate) fn threads_max(cores: usize) -> usize {
    cores / 2
}

/// The busy-waits of one thread.
#[derive(Debug, Default)]
pub(super) struct BusyWait {
    is_wanted: bool,
    /// When the last event came.
    event_at: Monotonic,
    /// No busy-wait begins before this moment.
    paused_until: Monotonic,
    /// Length of the latest pause.
    pause: Duration,
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
        self.is_wanted && now.since(self.event_at) < QUIET_MAX && now >= self.paused_until
    }

    /// Notes that events came.
    pub(super) fn woken(&mut self, now: Monotonic) {
        self.event_at = now;
    }

    /// Notes that a poll of a busy-wait began at `from` and returned at `now`. `is_measured`: its
    /// time counts.
    pub(super) fn polled(&mut self, from: Monotonic, now: Monotonic, is_measured: bool) {
        let time = now.since(from);
        if is_measured {
            self.spent += time;
        }
        if time >= PREEMPTED {
            self.pause = (self.pause * 2).clamp(PAUSE_MIN, PAUSE_MAX);
            self.paused_until = now.plus(self.pause);
        } else if now.since(self.paused_until) >= PAUSE_MAX {
            self.pause = Duration::ZERO;
        }
    }

    /// Time spent busy-waiting in the measured part.
    pub(super) fn spent(&self) -> Duration {
        self.spent
    }
}

#[cfg(test)]
mod tests {
    use super::{BusyWait, PAUSE_MIN, PREEMPTED, QUIET_MAX, threads_max};
    use clock::Monotonic;

    #[test]
    fn half_of_the_cores_stay_with_the_server() {
        assert_eq!([1, 2, 3, 4, 64].map(threads_max), [0, 1, 1, 2, 32]);
    }

    #[test]
    fn preempted_thread_sleeps_ever_longer_until_the_core_is_free() {
        let start = Monotonic::from_nanos(1_000_000_000);
        let mut busy_wait = BusyWait::new(true);
        busy_wait.woken(start);
        busy_wait.polled(start, start.plus(PREEMPTED), false);
        let paused = start.plus(PREEMPTED).plus(PAUSE_MIN);
        busy_wait.woken(paused);
        assert!(!busy_wait.is_due(start.plus(PREEMPTED)) && busy_wait.is_due(paused));
        let again = paused.plus(PREEMPTED);
        busy_wait.polled(paused, again, false);
        busy_wait.woken(again.plus(PAUSE_MIN));
        assert!(!busy_wait.is_due(again.plus(PAUSE_MIN)), "the second pause is longer");
        let later = again.plus(PAUSE_MIN * 2);
        busy_wait.woken(later);
        assert!(busy_wait.is_due(later));
    }

    #[test]
    fn slow_responses_let_the_thread_sleep() {
        let at = |micros: u64| Monotonic::from_nanos(micros * 1_000);
        let mut busy_wait = BusyWait::new(true);
        busy_wait.woken(at(10_000));
        assert!(busy_wait.is_due(at(12_999)));
        assert!(!busy_wait.is_due(at(10_000).plus(QUIET_MAX)));
        assert!(!BusyWait::default().is_due(at(0)));
    }
}
