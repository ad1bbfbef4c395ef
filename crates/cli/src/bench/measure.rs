//! What `bench` and `ab` share: running a plan with somebody watching, stopping it on a signal, and turning
//! the outcome into output and an exit code.
//!
//! Invariant: the first SIGINT or SIGTERM ends the load and keeps what was measured; a second one ends the
//! process. A reader that has gone away is no failure.

use crate::output::note;
use anyhow::Context as _;
use load::{Control, Ended, Outcome, Plan, Progress};
use platform::{Clock, SystemClock};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

/// How often progress is looked at.
const WATCH_EVERY: Duration = Duration::from_millis(50);

/// Time between two runs, so that one's closing connections are not the next one's.
pub(crate) const REST: Duration = Duration::from_millis(100);

/// Exit code when requests failed, the run was interrupted, or nothing was measured.
pub(crate) const EXIT_FAILED: u8 = 1;

/// Runs the plan; meanwhile `watch` is told how far it is, the last time when it is over.
///
/// # Errors
/// When nothing could be measured.
pub(crate) fn measure(plan: &Plan, mut watch: impl FnMut(Progress) + Send) -> anyhow::Result<Outcome> {
    measure_watched(plan, move |control, clock| watch(control.progress(clock)))
}

/// Runs the plan; meanwhile `watch` may look at it, the last time when it is over.
///
/// # Errors
/// When nothing could be measured.
pub(crate) fn measure_watched(
    plan: &Plan,
    mut watch: impl FnMut(&Control, &dyn Clock) + Send,
) -> anyhow::Result<Outcome> {
    let (clock, control) = (SystemClock::new(), Control::new());
    stop_on_signals(&control).context("cannot watch for signals")?;
    let (over, is_over) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        let (control, clock) = (&control, &clock);
        scope.spawn(move || {
            while is_over.recv_timeout(WATCH_EVERY) == Err(RecvTimeoutError::Timeout) {
                watch(control, clock);
            }
            watch(control, clock);
        });
        let outcome = load::run(plan, clock, control);
        drop(over);
        Ok(outcome?)
    })
}

/// The exit code for an outcome: 0 when every request was answered as expected, else 1.
pub(crate) fn exit_code(outcome: &Outcome) -> ExitCode {
    ExitCode::from(if why_failed(outcome, false).is_none() { 0 } else { EXIT_FAILED })
}

/// The exit code for a run that has failed for these reasons, which are told; 0 without any.
pub(crate) fn explained(reasons: &[String]) -> ExitCode {
    if reasons.is_empty() {
        return ExitCode::SUCCESS;
    }
    note(format_args!("petasos: exit code {EXIT_FAILED}: {}", reasons.join("; ")));
    ExitCode::from(EXIT_FAILED)
}

/// Why a run did not go to its end with good answers and no failure; `allows_errors` if something else bounds how many
/// requests may fail.
pub(crate) fn why_failed(outcome: &Outcome, allows_errors: bool) -> Option<String> {
    let failed = outcome.failures.total();
    match outcome.ended {
        Ended::Requests | Ended::Time => {}
        Ended::Stopped => return Some("the run was interrupted".to_owned()),
        Ended::TargetGone => return Some("the target could not be reached any more".to_owned()),
        Ended::ReceiveError => return Some("the run ended at the first connection that broke".to_owned()),
        Ended::Failing => return Some("the run ended because most requests failed".to_owned()),
    }
    if outcome.good == 0 {
        return Some("no request was answered as expected".to_owned());
    }
    (failed > 0 && !allows_errors).then(|| format!("{failed} of {} requests failed", outcome.requests()))
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
    write_with(path, |out| out.write_all(text.as_bytes()))
}

/// Puts what `write` writes into a file, or to standard output for `-`. An ordinary file is written beside its place
/// and moved there when it is whole, so that a full disk leaves what was there before.
///
/// # Errors
/// With the file's name.
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
    let is_plain = path.symlink_metadata().map_or(true, |found| found.is_file());
    let beside = path.file_name().filter(|_| is_plain).map(|name| {
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
        // What is left of it is of no use; that it could not be written is told below.
        let _ = std::fs::remove_file(beside);
    }
    moved.with_context(cannot)
}

/// Lets a first SIGINT or SIGTERM stop the run, and a second one end the process.
///
/// # Errors
/// As the system reports them.
pub(crate) fn stop_on_signals(control: &Control) -> io::Result<()> {
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
