//! What `bench` and `ab` share: running a plan with somebody watching, stopping it on a signal, and turning
//! the outcome into output and an exit code.
//!
//! Invariant: the first SIGINT or SIGTERM ends the load and keeps what was measured; a second one ends the
//! process. A reader that has gone away is no failure.

use anyhow::Context as _;
use load::{Control, Ended, Outcome, Plan, Progress};
use platform::SystemClock;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

/// How often progress is looked at.
const WATCH_EVERY: Duration = Duration::from_millis(50);

/// Exit code when requests failed, the run was interrupted, or nothing was measured.
const EXIT_FAILED: u8 = 1;

/// Runs the plan; meanwhile `watch` is told how far it is, the last time when it is over.
///
/// # Errors
/// When nothing could be measured.
pub(crate) fn measure(plan: &Plan, mut watch: impl FnMut(Progress) + Send) -> anyhow::Result<Outcome> {
    let (clock, control) = (SystemClock::new(), Control::new());
    stop_on_signals(&control).context("cannot watch for signals")?;
    let (over, is_over) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        let (control, clock) = (&control, &clock);
        scope.spawn(move || {
            while is_over.recv_timeout(WATCH_EVERY) == Err(RecvTimeoutError::Timeout) {
                watch(control.progress(clock));
            }
            watch(control.progress(clock));
        });
        let outcome = load::run(plan, clock, control);
        drop(over);
        Ok(outcome?)
    })
}

/// The exit code for an outcome: 0 when every request was answered as expected, else 1.
pub(crate) fn exit_code(outcome: &Outcome) -> ExitCode {
    let to_the_end = matches!(outcome.ended, Ended::Requests | Ended::Time);
    if to_the_end && outcome.good > 0 && outcome.failures.total() == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(EXIT_FAILED)
    }
}

/// Writes text; a pipe whose reader has gone away takes it silently.
///
/// # Errors
/// As the system reports them.
pub(crate) fn write_text(mut to: impl Write, text: &str) -> io::Result<()> {
    match to.write_all(text.as_bytes()).and_then(|()| to.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

/// Puts text into a file.
///
/// # Errors
/// With the file's name.
pub(crate) fn write_file(path: &Path, text: &str) -> anyhow::Result<()> {
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

fn stop_on_signals(control: &Control) -> io::Result<()> {
    use signal_hook::consts::{SIGINT, SIGTERM};
    for signal in [SIGINT, SIGTERM] {
        // In this order: a first signal finds the flag unset, then sets it.
        signal_hook::flag::register_conditional_shutdown(signal, EXIT_FAILED.into(), control.stop_flag())?;
        signal_hook::flag::register(signal, control.stop_flag())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::write_text;
    use std::io::{self, Write};

    struct Broken(io::ErrorKind);

    impl Write for Broken {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(self.0.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_reader_that_went_away_is_no_failure_and_a_full_disk_is() {
        assert!(write_text(Broken(io::ErrorKind::BrokenPipe), "x").is_ok());
        assert!(write_text(Broken(io::ErrorKind::StorageFull), "x").is_err());
    }
}
