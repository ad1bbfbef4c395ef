//! Runs short programs: actions, meters and version commands. Each runs in its own process group
//! and with a time limit.
//!
//! Invariant: when [`Commands::run`] returns, the program has ended, by itself or killed with its
//! group. Its output goes to a file instead of a pipe, because a daemon that it starts on purpose
//! could keep a pipe open.

use crate::interrupt::StopFlag;
use clock::Clock;
use difference::text_of;
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Time limit for a program.
pub(crate) const COMMAND_LIMIT: Duration = Duration::from_secs(60);
/// Time between two checks whether the program has ended.
const POLL: Duration = Duration::from_millis(5);
/// Number of characters from the end of the output that an error message repeats.
const TAIL_CHARS: usize = 300;

/// Runs programs, one at a time.
#[derive(Clone)]
pub(crate) struct Commands<'a> {
    pub(crate) clock: &'a dyn Clock,
    pub(crate) stop: &'a StopFlag,
    /// File for the output of the running program; each run overwrites it.
    pub(crate) output: PathBuf,
}

impl Commands<'_> {
    /// Runs a program to its end and returns its output, standard error included. An exit code
    /// other than 0, a start that fails, the time limit and a stop are errors; each is one
    /// sentence.
    pub(crate) fn run(&self, words: &[String]) -> Result<String, String> {
        let Some((program, arguments)) = words.split_first() else {
            return Err("the command is empty".to_owned());
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
            // The error is ignored because the program may have ended on its own just now. Then
            // there is no process left to kill.
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
            child.wait().map_err(fault)?;
            let why = if self.stop.is_requested() {
                "interrupted".to_owned()
            } else {
                format!("the command did not end within {COMMAND_LIMIT:?}")
            };
            return Err(format!("`{line}`: {why}"));
        };
        let printed = std::fs::read(&self.output).map_err(fault)?;
        let printed = String::from_utf8_lossy(&printed).into_owned();
        if status.success() { Ok(printed) } else { Err(format!("`{line}`: {status}{}", tail(&printed))) }
    }
}

/// The last [`TAIL_CHARS`] characters of a text, on one line after a colon and without hidden
/// characters. An empty text stays empty.
pub(crate) fn tail(text: &str) -> String {
    let text = text_of(text.as_bytes());
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let skip = line.chars().count().saturating_sub(TAIL_CHARS);
    let end: String = line.chars().skip(skip).collect();
    if end.is_empty() { end } else { format!(": {end}") }
}

#[cfg(test)]
mod tests {
    use super::{Commands, tail};
    use crate::interrupt::StopFlag;
    use platform::SystemClock;

    fn run(words: &[&str], stop: &StopFlag) -> Result<String, String> {
        let directory = tempfile::tempdir().unwrap();
        let clock = SystemClock::new();
        let commands = Commands { clock: &clock, stop, output: directory.path().join("output") };
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        commands.run(&words)
    }

    #[test]
    fn output_is_returned_on_success_and_quoted_on_failure() {
        let stop = StopFlag::default();
        assert_eq!(run(&["sh", "-c", "echo 17; echo x >&2"], &stop).unwrap(), "17\nx\n");
        let failed = run(&["sh", "-c", "echo no luck; exit 3"], &stop).unwrap_err();
        assert_eq!(failed, "`sh -c echo no luck; exit 3`: exit status: 3: no luck");
        assert!(run(&["/no/such/program"], &stop).unwrap_err().contains("No such file"));
        assert!(run(&[], &stop).is_err());
    }

    #[test]
    fn running_program_is_killed_on_stop() {
        let stop = StopFlag::default();
        stop.request();
        assert_eq!(run(&["sleep", "600"], &stop).unwrap_err(), "`sleep 600`: interrupted");
    }

    #[test]
    fn daemon_started_by_a_program_does_not_block_the_run() {
        assert_eq!(
            run(&["sh", "-c", "sleep 20 & echo $!"], &StopFlag::default()).map(|pid| {
                let pid = rustix::process::Pid::from_raw(pid.trim().parse().unwrap()).unwrap();
                rustix::process::kill_process(pid, rustix::process::Signal::KILL).is_ok()
            }),
            Ok(true)
        );
    }

    #[test]
    fn tail_is_one_short_line() {
        assert_eq!(tail(" \n"), "");
        assert_eq!(tail("a\nb\u{1b}[2J"), ": a b [2J");
        assert_eq!(tail(&"x".repeat(1000)).len(), 302);
    }
}
