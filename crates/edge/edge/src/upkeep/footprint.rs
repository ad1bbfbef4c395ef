//! The thread that keeps the process's resident memory within its limit.
//!
//! Invariants: the store is shrunk 15 MiB before the promised margin is used up
//! (docs/performance.md), to allow for growth between two checks. Bodies outside the store have a
//! separate share. The thread has the workers' priority, because a process that waits for cores
//! must not exceed its memory meanwhile.

use crate::shared::{EdgeState, Shared};
use crate::upkeep::supervisor::{self, ThreadEnd};
use clock::Monotonic;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// Resident bytes beyond the configured memory at which the store is shrunk: the program,
/// connections and their buffers.
const BESIDE_BYTES: u64 = 9 << 20;

/// The part of the configured memory that the allocator may lose to fragmentation: one in this many
/// bytes.
const LOSS_PART: u64 = 20;

/// Pause between two checks far from the limit.
const PAUSE: Duration = Duration::from_millis(50);

/// Pause between two checks near the limit.
const NEAR_PAUSE: Duration = Duration::from_millis(5);

/// Distance in bytes from the limit that counts as near.
const NEAR_BYTES: u64 = 16 << 20;

/// Pause before the threads are told again to return free memory while the process exceeds its
/// limit. Returning memory costs each worker a walk over its heap, and page faults when it needs
/// the memory again. The pause doubles each time that it does not help.
const GIVE_BACK_PAUSE: Duration = Duration::from_millis(100);
const GIVE_BACK_PAUSE_MAX: Duration = Duration::from_secs(5);

/// Growth in bytes since the last request to return memory that ends a longer pause. Heaps that
/// have grown can be emptied again, and the store may already be as small as it may be.
const GROWN_BYTES: u64 = 2 << 20;

/// The state of the thread between two checks.
#[derive(Debug)]
struct FootprintState {
    /// Time of the last fit to all resident bytes, and the resident bytes at the last check.
    fitted_at: Monotonic,
    fitted_bytes: u64,
    /// The earliest time of the next request to return memory, and the pause before it.
    give_back_at: Monotonic,
    give_back_pause: Duration,
    /// The time of the last request, the resident bytes then, and the least since then.
    given_back_at: Monotonic,
    given_back_bytes: u64,
    least_bytes: u64,
}

/// The result of a check.
#[derive(Debug, PartialEq, Eq)]
struct FootprintCheck {
    /// The resident bytes to which the store is fitted.
    fit_bytes: u64,
    /// Whether threads must return free memory.
    gives_back: bool,
    /// Pause until the next check.
    pause: Duration,
}

impl FootprintState {
    const fn new() -> Self {
        Self {
            fitted_at: Monotonic::from_nanos(0),
            fitted_bytes: 0,
            give_back_at: Monotonic::from_nanos(0),
            give_back_pause: GIVE_BACK_PAUSE,
            given_back_at: Monotonic::from_nanos(0),
            given_back_bytes: u64::MAX,
            least_bytes: u64::MAX,
        }
    }

    /// Checks a process that occupies `resident_bytes` and may occupy `resident_bytes_max`.
    fn check(&mut self, resident_bytes: u64, resident_bytes_max: u64, now: Monotonic) -> FootprintCheck {
        let is_beyond = resident_bytes > resident_bytes_max;
        let is_recent = now.since(self.fitted_at) < PAUSE;
        let fit_bytes = if is_beyond && is_recent {
            // The allocator returns evicted memory only later, so only the growth since the last
            // check counts.
            resident_bytes_max + resident_bytes.saturating_sub(self.fitted_bytes)
        } else {
            self.fitted_at = now;
            resident_bytes
        };
        self.fitted_bytes = resident_bytes;
        self.least_bytes = self.least_bytes.min(resident_bytes);
        let has_grown = resident_bytes >= self.least_bytes.saturating_add(GROWN_BYTES)
            && now.since(self.given_back_at) >= GIVE_BACK_PAUSE;
        let gives_back = is_beyond && (has_grown || now >= self.give_back_at);
        if gives_back {
            let helped = has_grown || resident_bytes < self.given_back_bytes;
            (self.given_back_at, self.least_bytes) = (now, resident_bytes);
            self.give_back_pause =
                if helped { GIVE_BACK_PAUSE } else { (2 * self.give_back_pause).min(GIVE_BACK_PAUSE_MAX) };
            (self.give_back_at, self.given_back_bytes) = (now.plus(self.give_back_pause), resident_bytes);
        } else if !is_beyond {
            self.given_back_bytes = u64::MAX;
            self.give_back_at = self.give_back_at.min(now.plus(GIVE_BACK_PAUSE));
        }
        let is_near = resident_bytes + NEAR_BYTES > resident_bytes_max;
        FootprintCheck { fit_bytes, gives_back, pause: if is_near { NEAR_PAUSE } else { PAUSE } }
    }
}

/// Starts the thread. The process must run only this edge, because all of its memory is attributed
/// to the edge.
///
/// # Errors
/// If the system cannot create a thread.
pub(crate) fn start(shared: &Arc<Shared>) -> io::Result<()> {
    let (memory_bytes, shared) = (shared.plan.memory_bytes, Arc::downgrade(shared.state()));
    // Restarted after a panic, because it carries the bound of the memory.
    let work = move || {
        let mut state = FootprintState::new();
        while let Some(shared) = shared.upgrade().filter(|shared| !shared.ending.is_quitting()) {
            // If the figure cannot be read for lack of descriptors, the next check may succeed.
            let pause = platform::resident_bytes()
                .map_or(PAUSE, |bytes| keep(&shared, memory_bytes, &mut state, bytes));
            drop(shared);
            threads::sleep(pause);
        }
        // The edge quits or is gone.
        ThreadEnd::Due
    };
    supervisor::start("petasos-memory", work).map(drop)
}

/// Applies the result of a check; returns the pause until the next one.
fn keep(shared: &EdgeState, memory_bytes: u64, state: &mut FootprintState, resident_bytes: u64) -> Duration {
    let resident_bytes_max = memory_bytes + memory_bytes / LOSS_PART + BESIDE_BYTES;
    let check = state.check(resident_bytes, resident_bytes_max, shared.clock.monotonic());
    shared.store.fit(check.fit_bytes, resident_bytes_max);
    if check.gives_back {
        shared.disk_threads.dismiss();
        shared.file_threads.dismiss();
        shared.memory_short.notify_waiters();
    }
    check.pause
}

#[cfg(test)]
mod tests {
    use super::{FootprintState, GIVE_BACK_PAUSE_MAX, GROWN_BYTES, NEAR_BYTES, NEAR_PAUSE, PAUSE};
    use clock::Monotonic;
    use std::time::Duration;

    const MAX: u64 = 100 << 20;

    fn at(millis: u64) -> Monotonic {
        Monotonic::default().plus(Duration::from_secs(60) + Duration::from_millis(millis))
    }

    #[test]
    fn excess_is_evicted_only_once_per_pause() {
        let mut state = FootprintState::new();
        let mut fit = |resident, millis| state.check(resident, MAX, at(millis)).fit_bytes;
        assert_eq!(fit(MAX - 1, 0), MAX - 1);
        assert_eq!(fit(MAX + 7, 5), MAX + 8, "the growth since the last look");
        assert_eq!(fit(MAX + 7, 10), MAX, "evicted, and not given back yet");
        assert_eq!(fit(MAX + 9, 15), MAX + 2);
        assert_eq!(fit(MAX - 5, 20), MAX - 5, "below the limit the store may grow");
        assert_eq!(fit(MAX + 9, 70), MAX + 9, "after the pause everything counts");
    }

    #[test]
    fn checks_are_more_frequent_near_the_limit() {
        let pause = |resident| FootprintState::new().check(resident, MAX, at(0)).pause;
        assert_eq!(
            [MAX - NEAR_BYTES, MAX - NEAR_BYTES + 1, MAX + 1].map(pause),
            [PAUSE, NEAR_PAUSE, NEAR_PAUSE]
        );
    }

    #[test]
    fn growth_ends_the_pause_between_requests() {
        let mut state = FootprintState::new();
        let mut gives_back =
            |resident: u64, millis: u64| state.check(MAX + resident, MAX, at(millis)).gives_back;
        let constant = (0..60_000).step_by(5).filter(|millis| gives_back(GROWN_BYTES, *millis)).count();
        assert!(constant < 20, "{constant} requests that did not help");
        // The last request helped, and the memory has come back meanwhile.
        assert!(!gives_back(1, 60_000) && !gives_back(GROWN_BYTES, 60_005));
        assert!(gives_back(GROWN_BYTES + 1, 60_010));
        assert!(!gives_back(3 * GROWN_BYTES, 60_015), "at most one in 100 ms");
        assert!(gives_back(3 * GROWN_BYTES, 60_110));
    }

    #[test]
    fn requests_to_return_memory_back_off_if_they_do_not_help() {
        let mut state = FootprintState::new();
        let mut times = |from: u64, resident: u64| {
            let told = |millis: &u64| state.check(resident, MAX, at(*millis)).gives_back;
            (from..from + 60_000).step_by(5).filter(told).count()
        };
        assert_eq!(times(0, MAX), 0);
        let most = (60_000 / GIVE_BACK_PAUSE_MAX.as_millis()) as usize + 8;
        assert!((2..=most).contains(&times(100_000, MAX + 1)));
        assert_eq!(times(200_000, MAX), 0);
        assert!(times(260_000, MAX + 1) > 5, "memory is given back at once again");
        assert!(!state.check(MAX, MAX, at(399_000)).gives_back);
        let falling = |step: u64| state.check(MAX + 10_000 - step, MAX, at(400_000 + 100 * step)).gives_back;
        assert_eq!((0..600).map(falling).filter(|told| *told).count(), 600, "it helps each time");
    }
}
