//! CPU time of a thread from the beginning of the measured part on, and how long it waited for a core.
//!
//! Invariant: what was used before the measured part is in no reading.

use platform::Monotonic;
use std::time::Duration;

/// Where Linux tells how long the calling thread was on a core and how long it waited for one, in nanoseconds.
const SCHEDSTAT: &str = "/proc/thread-self/schedstat";

/// Reads the CPU time of the thread that calls it.
pub(crate) struct CpuMeter {
    since: Monotonic,
    at_start: Option<Reading>,
}

#[derive(Clone, Copy)]
struct Reading {
    used: Duration,
    /// `None` where the system does not tell.
    waited: Option<Duration>,
}

impl CpuMeter {
    /// A meter for a measured part that begins then.
    pub(crate) fn new(since: Monotonic) -> Self {
        Self { since, at_start: None }
    }

    /// Notices that the measured part has begun. To be called now and then.
    pub(crate) fn observe(&mut self, now: Monotonic) {
        if self.at_start.is_none() && now >= self.since {
            self.at_start = Some(Reading { used: thread_cpu(), waited: thread_wait() });
        }
    }

    /// What was used since then.
    pub(crate) fn used(&self) -> Duration {
        self.at_start.map(|at_start| thread_cpu().saturating_sub(at_start.used)).unwrap_or_default()
    }

    /// How long the thread waited for a core since then, although it could have run.
    pub(crate) fn waited(&self) -> Option<Duration> {
        let before = self.at_start?.waited?;
        Some(thread_wait()?.saturating_sub(before))
    }
}

fn thread_cpu() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

fn thread_wait() -> Option<Duration> {
    let text = std::fs::read_to_string(SCHEDSTAT).ok()?;
    text.split_ascii_whitespace().nth(1)?.parse().ok().map(Duration::from_nanos)
}
