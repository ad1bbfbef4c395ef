//! The clock of the machine.
//!
//! Invariant: no other code asks the system for the time.

use clock::{Clock, Monotonic, Timestamp};
use std::time::{Instant, SystemTime};

/// The machine's clocks.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock {
    start: Instant,
}

#[allow(clippy::disallowed_methods, reason = "this is the clock that everything else is handed")]
impl SystemClock {
    /// A clock whose monotonic readings start at zero now.
    pub fn new() -> Self {
        Self { start: Instant::now() }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

#[allow(clippy::disallowed_methods, reason = "this is the clock that everything else is handed")]
impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_system_time(SystemTime::now())
    }

    fn monotonic(&self) -> Monotonic {
        Monotonic::from_nanos(Instant::now().saturating_duration_since(self.start).as_nanos() as u64)
    }
}
