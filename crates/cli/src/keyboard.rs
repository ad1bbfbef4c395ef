//! Lines that a person types while the program runs, in the foreground or in the background.
//!
//! Invariant: the system does not stop the process for reading. It sends SIGTTIN to a process of the background that
//! reads from its terminal, so the terminal is read only while the process is in the foreground and a line waits there.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::getpgrp;
use rustix::termios::tcgetpgrp;
use std::io::{self, IsTerminal as _};
use std::time::Duration;

/// How often a process of the background looks whether it is in the foreground.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Hands every line of standard input to `take` until that refuses one, in a thread that ends with the process.
///
/// # Errors
/// If there can be no thread.
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

/// Waits until a line can be read without being stopped. Whatever is no terminal can always be read.
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
        // A terminal gives one line at a time, so none waits in the buffer of standard input.
        let ready = poll(&mut [PollFd::new(&stdin, PollFlags::IN)], Some(&every))?;
        if ready > 0 && is_in_foreground() {
            return Ok(());
        }
    }
}

/// Whether this process may read from its terminal. From one that does not control it, it always may.
fn is_in_foreground() -> bool {
    tcgetpgrp(io::stdin()).map_or(true, |group| group == getpgrp())
}
