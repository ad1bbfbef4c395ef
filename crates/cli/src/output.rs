//! Messages to the user on standard error, apart from a command's results.
//!
//! Invariant: if standard error is closed or broken, the message is lost and the command goes on.

use std::fmt;
use std::io::{self, Write as _};

/// Writes one line to standard error.
pub(crate) fn note(line: fmt::Arguments<'_>) {
    // A single write call, so that lines of several threads do not mix. Errors are ignored, because
    // a closed standard error must not change the result.
    let _ = io::stderr().write_all(format!("{line}\n").as_bytes());
}

/// Writes a text to standard error unchanged, without a line end. Errors are ignored, as by
/// [`note`].
pub(crate) fn draw(text: &str) {
    let mut stderr = io::stderr();
    let _ = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
}
