//! Time limits of `cargo xtask test`. A group that hangs is killed and counts as failed.
//!
//! Invariant: only descendants of this process are killed. Servers of a lab are not descendants,
//! because they outlive the command that started them. The next `cargo xtask lab NAME down` stops
//! them.

use clock::{Clock, Monotonic};
use probe::ProcFs;
use rustix::process::{Pid, Signal, kill_process};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// A group fails when it takes this many times its budget. Exceeding the budget once is only a
/// warning, because machines differ in speed.
pub(super) const OVERRUN_FACTOR: u64 = 2;

/// Time limit of the whole command. A landing gets 90 minutes.
pub(super) const WHOLE_MAX: Duration = Duration::from_secs(75 * 60);

/// Time between two rounds of killing. After the first round, a group may continue with its next
/// command and needs this time to stop the servers that it started.
const KILL_EVERY: Duration = Duration::from_secs(30);

/// How a group's duration compares with its budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BudgetUse {
    /// Within the budget.
    Within,
    /// Over the budget: a warning.
    Over,
    /// At or over the limit: the group fails.
    Failed,
}

/// Time limit of a group: twice its budget, or the rest of the command's time if the rest is less.
/// `whole` is the time since the command began.
pub(super) fn limit(budget_s: u64, whole: Duration) -> Duration {
    Duration::from_secs(OVERRUN_FACTOR * budget_s).min(WHOLE_MAX.saturating_sub(whole))
}

/// Judges a group that took `took`, with a budget of `budget_s` seconds and the limit `limit`.
pub(super) fn pace(took: Duration, budget_s: u64, limit: Duration) -> BudgetUse {
    if took >= limit {
        BudgetUse::Failed
    } else if took.as_secs() > budget_s {
        BudgetUse::Over
    } else {
        BudgetUse::Within
    }
}

/// Runs `work` and measures its duration. Calls `kill` once `limit` has passed, and then every
/// [`KILL_EVERY`] until `work` returns.
pub(super) fn run_within<T>(
    clock: &dyn Clock,
    limit: Duration,
    kill: impl FnOnce() + Copy + Send,
    work: impl FnOnce() -> T,
) -> (T, Duration) {
    let start: Monotonic = clock.monotonic();
    // Dropping the sender tells the watchdog thread that the work is done.
    let (done, waits) = channel::<()>();
    let result = std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut wait = limit;
            while waits.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
                kill();
                wait = KILL_EVERY;
            }
        });
        let result = work();
        drop(done);
        result
    });
    (result, clock.monotonic().since(start))
}

/// Sends SIGKILL to every descendant of this process.
pub(super) fn kill_descendants() {
    let own = std::process::id();
    let below = ProcFs::system().with_descendants(&[own]);
    for pid in below.into_iter().filter(|pid| *pid != own) {
        if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
            // May fail because the process has ended since it was found.
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{BudgetUse, WHOLE_MAX, limit, pace, run_within};
    use platform::SystemClock;
    use std::process::{Command, Stdio};
    use std::sync::Mutex;
    use std::time::Duration;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_group_fails_at_twice_its_budget() {
        let limit = limit(10, SECOND);
        assert_eq!(limit, 20 * SECOND);
        assert_eq!(pace(10 * SECOND, 10, limit), BudgetUse::Within);
        assert_eq!(pace(11 * SECOND, 10, limit), BudgetUse::Over);
        assert_eq!(pace(20 * SECOND, 10, limit), BudgetUse::Failed);
    }

    #[test]
    fn the_whole_command_fails_after_75_minutes() {
        let left = limit(600, WHOLE_MAX.saturating_sub(5 * SECOND));
        assert_eq!(left, 5 * SECOND);
        assert_eq!(pace(5 * SECOND, 600, left), BudgetUse::Failed);
        assert_eq!(limit(600, WHOLE_MAX + SECOND), Duration::ZERO);
    }

    #[test]
    fn a_hanging_command_is_killed_at_its_limit() {
        let child = Command::new("sleep").arg("3600").stdin(Stdio::null()).spawn().unwrap();
        let child = Mutex::new(child);
        // Kills only this test's own child, because the process also has the children of other
        // tests.
        let kill = || child.lock().unwrap().kill().unwrap();
        let work = || {
            loop {
                if let Some(status) = child.lock().unwrap().try_wait().unwrap() {
                    return status;
                }
                std::thread::yield_now();
            }
        };
        let (status, _) = run_within(&SystemClock::new(), Duration::from_millis(1), kill, work);
        assert!(!status.success());
    }
}
