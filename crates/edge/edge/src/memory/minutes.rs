//! The values of the last minutes, for the admin address.
//!
//! Invariant: the sampler writes, and the calls of the admin address read. No request waits for
//! either.

use api::dashboard::MachineFigures;
use history::Row;
use platform::HashMap;
use semantics::Verdict;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Semaphore;

/// Rows in memory: one day, so that the dashboard has a past without a state directory.
const ROWS_MAX: usize = 24 * 60;

/// Maximum number of readings of the whole past at the same time; others wait. Each takes some ten
/// megabytes for a moment.
const READINGS_MAX: usize = 1;

/// The last minutes.
#[derive(Debug)]
pub(crate) struct Minutes {
    state: Mutex<MinutesState>,
    /// Whether the rows do not reach their file. Relaxed is enough for these flags: they order no
    /// other memory.
    is_off: AtomicBool,
    /// Whether the file belongs to another process.
    is_foreign: AtomicBool,
    /// Whether the last row was given to the file.
    has_ended: AtomicBool,
    /// Permits for readings of the whole past.
    pub(crate) readings: Semaphore,
    /// The permit of the one reading of the file. A reading that the disk does not end keeps it.
    pub(crate) file_reading: Arc<Semaphore>,
}

#[derive(Debug, Default)]
struct MinutesState {
    rows: VecDeque<Row>,
    last: LastMinute,
}

/// What is known of the last whole minute beside its row.
#[derive(Clone, Debug, Default)]
pub(crate) struct LastMinute {
    /// The percentiles of each site and verdict with a request in it.
    pub(crate) percentiles: HashMap<(Box<str>, Verdict), Percentiles>,
    pub(crate) machine: MachineFigures,
}

/// Percentiles of times, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Percentiles {
    pub(crate) p50: u64,
    pub(crate) p95: u64,
    pub(crate) p99: u64,
}

impl Default for Minutes {
    fn default() -> Self {
        Self {
            state: Mutex::default(),
            is_off: AtomicBool::new(false),
            is_foreign: AtomicBool::new(false),
            has_ended: AtomicBool::new(false),
            readings: Semaphore::new(READINGS_MAX),
            file_reading: Arc::new(Semaphore::new(1)),
        }
    }
}

impl Minutes {
    /// Adds the values of a minute, which are the newest.
    pub(crate) fn add(&self, row: Row, last: LastMinute) {
        let mut state = self.lock();
        if state.rows.len() >= ROWS_MAX {
            state.rows.pop_front();
        }
        // A clock that was set back gives a minute for the second time.
        if state.rows.iter().all(|known| known.minute != row.minute) {
            state.rows.push_back(row);
        }
        state.last = last;
    }

    /// Records whether the rows reach their file.
    pub(crate) fn set_off(&self, is_off: bool) {
        self.is_off.store(is_off, Ordering::Relaxed);
    }

    /// Whether the rows do not reach their file.
    pub(crate) fn is_off(&self) -> bool {
        self.is_off.load(Ordering::Relaxed)
    }

    /// Records whether the file belongs to another process, which keeps its own past there.
    pub(crate) fn set_foreign(&self, is_foreign: bool) {
        self.is_foreign.store(is_foreign, Ordering::Relaxed);
    }

    /// Whether the file belongs to another process. A file that cannot be written may be read.
    pub(crate) fn is_foreign(&self) -> bool {
        self.is_foreign.load(Ordering::Relaxed)
    }

    /// Records that nothing more will be kept.
    pub(crate) fn end(&self) {
        self.has_ended.store(true, Ordering::Relaxed);
    }

    /// Whether nothing more will be kept, so that the process may end.
    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Relaxed)
    }

    /// The rows in memory.
    pub(crate) fn rows(&self) -> VecDeque<Row> {
        self.lock().rows.clone()
    }

    /// The last whole minute.
    pub(crate) fn last(&self) -> LastMinute {
        self.lock().last.clone()
    }

    /// Poison is ignored because no code that can panic runs under the lock.
    fn lock(&self) -> MutexGuard<'_, MinutesState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::{LastMinute, Minutes, ROWS_MAX};
    use history::Row;

    #[test]
    fn rows_are_bounded_and_each_minute_is_kept_once() {
        let minutes = Minutes::default();
        for minute in (0..ROWS_MAX as u64 + 5).chain([ROWS_MAX as u64]) {
            minutes.add(Row::new(minute), LastMinute::default());
        }
        let rows = minutes.rows();
        assert!(rows.len() <= ROWS_MAX && rows.len() >= ROWS_MAX - 1);
        assert_eq!(rows.iter().filter(|row| row.minute == ROWS_MAX as u64).count(), 1);
    }
}
