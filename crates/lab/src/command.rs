//! Short programs: actions, meters, versions. Run in a process group of their own, with an end in sight.
//!
//! Invariant: when [`Commands::run`] returns, the program has ended, by itself or with its group. Output goes to a
//! file, not through a pipe: a daemon that the program leaves behind on purpose could keep a pipe open.

use crate::interrupt::Stop;
use platform::Clock;
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

/// How long a program may take.
pub(crate) const COMMAND_LIMIT: Duration = Duration::from_secs(60);
/// How often we look whether it has ended.
const POLL: Duration = Duration::from_millis(5);
/// Characters of its output that an error repeats.
const TAIL_CHARS: usize = 300;

/// Runs programs, one at a time.
#[derive(Clone)]
pub(crate) struct Commands<'a> {
    pub(crate) clock: &'a dyn Clock,
    pub(crate) stop: &'a Stop,
    /// Where output is put meanwhile.
    pub(crate) output: PathBuf,
}

impl Commands<'_> {
    /// Runs a program to its end and returns what it printed, also on standard error. Anything but exit code
    /// 0 is an error in a sentence.
    pub(crate) fn run(&self, words: &[String]) -> Result<String, String> {
        let Some((program, arguments)) = words.split_first() else {
            return Err("an empty command".to_owned());
        };
        let line = words.join(" ");
        let fault = |error: std::io::Error| format!("`{line}`: {error}");
        let output = File::create(&self.output).map_err(fault)?;
        let errors = output.try_clone().map_err(fault)?;
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(errors)
            .process_group(0)
            .spawn()
            .map_err(fault)?;
        let group = rustix::process::Pid::from_child(&child);
        let begun = self.clock.monotonic();
        let status = loop {
            if let Some(status) = child.try_wait().map_err(fault)? {
                break Some(status);
            }
            if self.stop.is_requested() || self.clock.monotonic().since(begun) >= COMMAND_LIMIT {
                break None;
            }
            std::thread::sleep(POLL);
        };
        let Some(status) = status else {
            // It may have ended by itself in this very moment; then there is nothing to kill.
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
            child.wait().map_err(fault)?;
            let why = if self.stop.is_requested() {
                "interrupted".to_owned()
            } else {
                format!("not done within {COMMAND_LIMIT:?}")
            };
            return Err(format!("`{line}`: {why}"));
        };
        let printed = std::fs::read(&self.output).map_err(fault)?;
        let printed = String::from_utf8_lossy(&printed).into_owned();
        if status.success() { Ok(printed) } else { Err(format!("`{line}`: {status}{}", tail(&printed))) }
    }
}

/// The end of a text on one line, introduced by a colon; nothing of nothing.
pub(crate) fn tail(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let line = words.join(" ");
    let skip = line.chars().count().saturating_sub(TAIL_CHARS);
    let end: String = line.chars().skip(skip).collect();
    if end.is_empty() { end } else { format!(": {end}") }
}

#[cfg(test)]
mod tests {
    use super::{Commands, tail};
    use crate::interrupt::Stop;
    use platform::SystemClock;

    fn run(words: &[&str], stop: &Stop) -> Result<String, String> {
        let directory = tempfile::tempdir().unwrap();
        let clock = SystemClock::new();
        let commands = Commands { clock: &clock, stop, output: directory.path().join("output") };
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        commands.run(&words)
    }

    #[test]
    fn what_a_program_prints_is_returned() {
        let stop = Stop::default();
        assert_eq!(run(&["sh", "-c", "echo 17; echo x >&2"], &stop).unwrap(), "17\nx\n");
        let failed = run(&["sh", "-c", "echo no luck; exit 3"], &stop).unwrap_err();
        assert_eq!(failed, "`sh -c echo no luck; exit 3`: exit status: 3: no luck");
        assert!(run(&["/no/such/program"], &stop).unwrap_err().contains("No such file"));
        assert!(run(&[], &stop).is_err());
    }

    #[test]
    fn a_program_ends_when_asked_to_stop() {
        let stop = Stop::default();
        stop.request();
        assert_eq!(run(&["sleep", "600"], &stop).unwrap_err(), "`sleep 600`: interrupted");
    }

    #[test]
    fn a_daemon_left_behind_does_not_hold_us_up() {
        assert_eq!(
            run(&["sh", "-c", "sleep 20 & echo $!"], &Stop::default()).map(|pid| {
                let pid = rustix::process::Pid::from_raw(pid.trim().parse().unwrap()).unwrap();
                rustix::process::kill_process(pid, rustix::process::Signal::KILL).is_ok()
            }),
            Ok(true)
        );
    }

    #[test]
    fn tails_are_one_short_line() {
        assert_eq!(tail(" \n"), "");
        assert_eq!(tail("a\nb"), ": a b");
        assert_eq!(tail(&"x".repeat(1000)).len(), 302);
    }
}
