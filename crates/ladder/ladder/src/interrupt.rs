//! The stop flag: a signal or a caller sets it, and waiting code polls it.
//!
//! Invariant: no wait on this flag lasts longer than [`SLICE`] between two checks.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Longest time between two checks of the flag.
pub(crate) const SLICE: Duration = Duration::from_millis(50);

/// A shared flag that any holder may set. It is never cleared.
#[derive(Clone, Debug, Default)]
pub struct StopFlag(Arc<AtomicBool>);

impl StopFlag {
    /// Creates a flag that SIGINT, SIGTERM and SIGHUP set instead of ending the process. A signal
    /// that the process ignores stays ignored; `nohup` makes a process ignore SIGHUP.
    ///
    /// # Errors
    /// Returns the system's error if a signal handler cannot be installed.
    pub fn on_signals() -> io::Result<Self> {
        use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
        let stop = Self::default();
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        for signal in [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|signal| !is_ignored(*signal, &status)) {
            signal_hook::flag::register(signal, Arc::clone(&stop.0))?;
        }
        Ok(stop)
    }

    /// Sets the flag.
    pub fn request(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Whether the flag is set.
    pub fn is_requested(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    /// Waits for `time`, or until the flag is set.
    pub(crate) fn wait(&self, time: Duration) {
        let mut left = time;
        while !left.is_zero() && !self.is_requested() {
            let slice = left.min(SLICE);
            std::thread::sleep(slice);
            left -= slice;
        }
    }
}

/// Whether a signal is ignored, read from the content of /proc/PID/status. `SigIgn` is a
/// hexadecimal mask whose lowest bit is signal 1.
fn is_ignored(signal: i32, status: &str) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::{StopFlag, is_ignored};
    use signal_hook::consts::{SIGHUP, SIGINT};
    use std::time::Duration;

    #[test]
    fn ignored_signals_are_read_from_the_mask() {
        let status = "Name:\tx\nSigIgn:\t0000000000001001\nSigCgt:\tffff\n";
        assert!(is_ignored(SIGHUP, status) && !is_ignored(SIGINT, status));
        assert!(!is_ignored(SIGHUP, "") && !is_ignored(SIGHUP, "SigIgn:\tnonsense"));
    }

    #[test]
    fn wait_returns_at_once_after_a_stop() {
        let stop = StopFlag::default();
        let seen = stop.clone();
        stop.request();
        assert!(seen.is_requested());
        seen.wait(Duration::from_secs(3600));
    }
}
