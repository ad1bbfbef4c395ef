//! CPU time of a thread from the beginning of the measured part on.
//!
//! Invariant: what was used before the measured part is in no reading.

use platform::Monotonic;
use std::time::Duration;

/// Reads the CPU time of the thread that calls it.
pub(crate) struct CpuMeter {
    since: Monotonic,
    at_start: Option<Duration>,
}

impl CpuMeter {
    /// A meter for a measured part that begins then.
    pub(crate) fn new(since: Monotonic) -> Self {
        Self { since, at_start: None }
    }

    /// Notices that the measured part has begun. To be called now and then.
    pub(crate) fn observe(&mut self, now: Monotonic) {
        if self.at_start.is_none() && now >= self.since {
            self.at_start = Some(thread_cpu());
        }
    }

    /// What was used since then.
    pub(crate) fn used(&self) -> Duration {
        self.at_start.map(|at_start| thread_cpu().saturating_sub(at_start)).unwrap_or_default()
    }
}

fn thread_cpu() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}
