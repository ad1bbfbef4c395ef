//! Reads the lines that a user types while the program runs, in the foreground or in the
//! background.
//!
//! Invariant: reading never stops the process. The kernel sends SIGTTIN to a background process
//! that reads from its terminal. So the terminal is read only while the process is in the
//! foreground and a line is waiting.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::getpgrp;
use rustix::termios::tcgetpgrp;
use std::io::{self, IsTerminal as _};
use std::time::Duration;

/// How often a background process checks whether it is in the foreground.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Passes every line of standard input to `take` until `take` returns false. The thread that reads
/// runs until then, or until the process ends.
///
/// # Errors
/// If the thread cannot be started.
pub(crate) fn lines(mut take: impl FnMut(String) -> bool + Send + 'static) -> io::Result<()> {
    let read = move || {
        let mut line = String::new();
        while wait_for_line().is_ok() && matches!(io::stdin().read_line(&mut line), Ok(1..)) {
            let text = std::mem::take(&mut line);
            if !take(text.trim_end_matches(['\r', '\n']).to_owned()) {
                return;
            }
        }
    };
    std::thread::Builder::new().name("keyboard".to_owned()).spawn(read).map(drop)
}

/// Waits until a line can be read without the process being stopped. Input from a file or pipe can
/// always be read.
fn wait_for_line() -> io::Result<()> {
    let stdin = io::stdin();
    if !stdin.is_terminal() {
        return Ok(());
    }
    let every = Timespec { tv_sec: 0, tv_nsec: i64::from(LOOK_EVERY.subsec_nanos()) };
    loop {
        if !is_in_foreground() {
            std::thread::sleep(LOOK_EVERY);
            continue;
        }
        // A terminal delivers one line at a time, so the buffer of standard input holds no line
        // that `poll` would miss.
        let ready = poll(&mut [PollFd::new(&stdin, PollFlags::IN)], Some(&every))?;
        // The process may have gone to the background during the wait.
        if ready > 0 && is_in_foreground() {
            return Ok(());
        }
    }
}

/// Whether this process may read from its terminal. A terminal that does not control the process
/// may always be read.
fn is_in_foreground() -> bool {
    tcgetpgrp(io::stdin()).map_or(true, |group| group == getpgrp())
}
