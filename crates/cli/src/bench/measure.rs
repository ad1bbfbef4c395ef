//! Shared by `bench`, `ab` and `compare`. Runs a plan while its progress is watched, and turns the
//! outcome into output and an exit code.
//!
//! Invariant: a signal ends the load and keeps the measurements (`interrupt`). A closed pipe on
//! standard output is not a failure.

use super::interrupt::Interrupt;
use crate::output::note;
use anyhow::Context as _;
use clock::Clock;
use load::{Control, RunProgress};
use platform::SystemClock;
use record::{Ended, Plan, RunOutcome};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

/// Interval between two looks at the progress.
const WATCH_EVERY: Duration = Duration::from_millis(50);

/// Pause between two runs, so that the connections one run closes do not disturb the next.
pub(crate) const REST: Duration = Duration::from_millis(100);

/// Exit code if requests failed, the run was interrupted, or nothing was measured.
pub(crate) const EXIT_FAILED: u8 = 1;

/// Runs the plan. `watch` is called with the progress during the run and once after its end.
///
/// # Errors
/// If nothing could be measured.
pub(crate) fn measure(
    plan: &Plan,
    interrupt: &Interrupt,
    mut watch: impl FnMut(RunProgress) + Send,
) -> anyhow::Result<RunOutcome> {
    measure_watched(plan, interrupt, move |control, clock| watch(control.progress(clock)))
}

/// Runs the plan. `watch` is called with the run's control during the run and once after its end.
///
/// # Errors
/// If nothing could be measured.
pub(crate) fn measure_watched(
    plan: &Plan,
    interrupt: &Interrupt,
    mut watch: impl FnMut(&Control, &dyn Clock) + Send,
) -> anyhow::Result<RunOutcome> {
    let clock = SystemClock::new();
    let control = Control::stopped_by(interrupt.flag());
    let (over, is_over) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        let control = &control;
        let clock = &clock;
        scope.spawn(move || {
            while is_over.recv_timeout(WATCH_EVERY) == Err(RecvTimeoutError::Timeout) {
                watch(control, clock);
            }
            watch(control, clock);
        });
        let outcome = load::run(plan, clock, control);
        // Disconnects the channel, which ends the loop of the watching thread.
        drop(over);
        Ok(outcome?)
    })
}

/// The exit code for an outcome: 0 when every request was answered as expected, else 1.
pub(crate) fn exit_code(outcome: &RunOutcome) -> ExitCode {
    ExitCode::from(if why_failed(outcome, false).is_none() { 0 } else { EXIT_FAILED })
}

/// The exit code of a run that failed for these reasons, which are printed. Without reasons it is
/// 0.
pub(crate) fn explained(reasons: &[String]) -> ExitCode {
    if reasons.is_empty() {
        return ExitCode::SUCCESS;
    }
    note(format_args!("petasos: exit code {EXIT_FAILED}: {}", reasons.join("; ")));
    ExitCode::from(EXIT_FAILED)
}

/// The reason why a run failed: it was cut short, had no good response, or had failed requests.
/// `allows_errors` is set if a condition of `--fail-if` bounds the number of failures instead.
pub(crate) fn why_failed(outcome: &RunOutcome, allows_errors: bool) -> Option<String> {
    let failed = outcome.failures.total();
    match outcome.ended {
        Ended::Requests | Ended::Time => {}
        Ended::Stopped => return Some("the run was interrupted".to_owned()),
        Ended::TargetGone => return Some("the target could no longer be reached".to_owned()),
        Ended::ReceiveError => return Some("the run ended at the first connection that broke".to_owned()),
        Ended::Failing => return Some("the run ended because most requests failed".to_owned()),
    }
    if outcome.good == 0 {
        return Some("no response was as expected".to_owned());
    }
    (failed > 0 && !allows_errors).then(|| format!("{failed} of {} requests failed", outcome.requests()))
}

/// Writes text. A pipe whose reader has gone counts as success.
///
/// # Errors
/// As the system reports them.
pub(crate) fn write_text(mut to: impl Write, text: &str) -> io::Result<()> {
    match to.write_all(text.as_bytes()).and_then(|()| to.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

/// Writes text to a file, or to standard output for `-`.
///
/// # Errors
/// If the file cannot be written; the error names it.
pub(crate) fn write_file(path: &Path, text: &str) -> anyhow::Result<()> {
    write_with(path, |out| out.write_all(text.as_bytes()))
}

/// Passes `write` a writer to a file, or to standard output for `-`. A regular file is first
/// written under a temporary name in the same directory and renamed when complete. So a full disk
/// leaves the previous file intact.
///
/// # Errors
/// If the file cannot be written; the error names it.
pub(crate) fn write_with(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> anyhow::Result<()> {
    let cannot = || format!("cannot write {}", path.display());
    if path == Path::new("-") {
        let mut out = BufWriter::new(io::stdout().lock());
        return match write(&mut out).and_then(|()| out.flush()) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            other => other.with_context(cannot),
        };
    }
    // A device or a symbolic link is written in place, because a rename would replace it.
    let is_plain = path.symlink_metadata().map_or(true, |found| found.is_file());
    let name = if is_plain { path.file_name() } else { None };
    let beside = name.map(|name| {
        path.with_file_name(format!(".{}.{}.partial", name.to_string_lossy(), std::process::id()))
    });
    let place = beside.as_deref().unwrap_or(path);
    let written = File::create(place).and_then(|file| {
        let mut out = BufWriter::new(file);
        write(&mut out)?;
        out.flush()
    });
    let moved = written.and_then(|()| beside.as_ref().map_or(Ok(()), |from| std::fs::rename(from, path)));
    if let (Err(_), Some(beside)) = (&moved, &beside) {
        // The partial file is useless. A failure to remove it may be ignored, because the write
        // error is returned below.
        let _ = std::fs::remove_file(beside);
    }
    moved.with_context(cannot)
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
    fn closed_pipe_is_no_failure_and_full_disk_is_one() {
        assert!(write_text(Broken(io::ErrorKind::BrokenPipe), "x").is_ok());
        assert!(write_text(Broken(io::ErrorKind::StorageFull), "x").is_err());
    }
}
