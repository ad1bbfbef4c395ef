//! CPU time of a thread since the beginning of the measured part, and how long it waited for a
//! core.
//!
//! Invariant: time used before the measured part is in no reading.

use clock::Monotonic;
use std::time::Duration;

/// Linux reports here how long the calling thread was on a core and how long it waited for one, in
/// nanoseconds.
const SCHEDSTAT: &str = "/proc/thread-self/schedstat";

/// Reads the CPU time of the calling thread.
pub(crate) struct CpuMeter {
    since: Monotonic,
    at_start: Option<CpuReading>,
}

#[derive(Clone, Copy)]
struct CpuReading {
    used: Duration,
    /// `None` if the system does not report it.
    waited: Option<Duration>,
}

impl CpuMeter {
    /// A meter for a measured part that begins at `since`.
    pub(crate) fn new(since: Monotonic) -> Self {
        Self { since, at_start: None }
    }

    /// Takes the first reading once the measured part has begun. Has to be called regularly.
    pub(crate) fn observe(&mut self, now: Monotonic) {
        if self.at_start.is_none() && now >= self.since {
            self.at_start = Some(CpuReading { used: thread_cpu(), waited: thread_wait() });
        }
    }

    /// CPU time used since the first reading.
    pub(crate) fn used(&self) -> Duration {
        self.at_start.map(|at_start| thread_cpu().saturating_sub(at_start.used)).unwrap_or_default()
    }

    /// How long the thread was ready to run but waited for a core since the first reading.
    pub(crate) fn waited(&self) -> Option<Duration> {
        let before = self.at_start?.waited?;
        Some(thread_wait()?.saturating_sub(before))
    }
}

/// CPU time of the calling thread.
pub fn thread_cpu() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

fn thread_wait() -> Option<Duration> {
    let text = std::fs::read_to_string(SCHEDSTAT).ok()?;
    text.split_ascii_whitespace().nth(1)?.parse().ok().map(Duration::from_nanos)
}
