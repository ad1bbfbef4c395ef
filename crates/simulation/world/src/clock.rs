//! The clock of a world: simulated time, and wall time that can jump.
//!
//! Invariant: monotonic time is the simulated time since the start of the world. A jump changes
//! only the wall time.

use ::clock::{Clock, Monotonic, Timestamp};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use tokio::time::Instant;

/// The wall time at which every world starts: Sunday 2026-03-08 23:56:00 UTC, in seconds since
/// 1970. Lives see the end of a minute, a day and a week. The place of this minute in the file of
/// the minutes keeps the file small.
pub const START_SECONDS: u64 = 1_773_014_160;

/// The clock of a world. Clones are the same clock.
#[derive(Clone, Debug)]
pub struct SimulatedClock {
    start: Instant,
    /// The sum of the jumps so far, in microseconds.
    offset_micros: Arc<AtomicI64>,
}

impl SimulatedClock {
    /// A clock that starts now. Must be called in a runtime whose time is paused.
    #[expect(clippy::new_without_default, reason = "it depends on the runtime")]
    pub fn new() -> Self {
        Self::resume(0)
    }

    /// A clock that starts now, `ahead_micros` microseconds after the start of a world. The machine
    /// was on before, but its monotonic time starts anew with the process.
    pub fn resume(ahead_micros: i64) -> Self {
        Self { start: Instant::now(), offset_micros: Arc::new(AtomicI64::new(ahead_micros)) }
    }

    /// How far the wall clock is ahead of a world that starts now, in microseconds.
    pub fn ahead_micros(&self) -> i64 {
        let elapsed = i64::try_from(self.start.elapsed().as_micros()).unwrap_or(i64::MAX);
        self.offset_micros.load(Ordering::Relaxed).saturating_add(elapsed)
    }

    /// Adds `micros` microseconds to the wall time; a negative number makes it go back.
    pub fn jump(&self, micros: i64) {
        self.offset_micros.fetch_add(micros, Ordering::Relaxed);
    }
}

impl Clock for SimulatedClock {
    fn now(&self) -> Timestamp {
        let elapsed_micros = self.start.elapsed().as_micros() as u64;
        let micros = (START_SECONDS * 1_000_000).saturating_add(elapsed_micros);
        Timestamp::from_micros(micros.saturating_add_signed(self.offset_micros.load(Ordering::Relaxed)))
    }

    fn monotonic(&self) -> Monotonic {
        Monotonic::from_nanos(self.start.elapsed().as_nanos() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::{START_SECONDS, SimulatedClock};
    use ::clock::{Clock, Monotonic, Timestamp};
    use std::time::Duration;

    #[tokio::test(start_paused = true)]
    async fn jump_changes_only_the_wall_time() {
        let clock = SimulatedClock::new();
        assert_eq!(clock.now(), Timestamp::from_secs(START_SECONDS));
        tokio::time::advance(Duration::from_micros(1500)).await;
        clock.jump(-3_000_000);
        assert_eq!(clock.now().as_micros(), START_SECONDS * 1_000_000 + 1500 - 3_000_000);
        clock.jump(i64::MAX);
        assert!(clock.now() > Timestamp::from_secs(START_SECONDS));
        assert_eq!(clock.monotonic(), Monotonic::from_nanos(1_500_000));
    }
}
