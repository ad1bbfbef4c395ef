//! What commands tell a person beside their results.
//!
//! Invariant: standard error that is closed or broken costs the message and nothing else.

use std::fmt;
use std::io::{self, Write as _};

/// Writes a line to standard error.
pub(crate) fn note(line: fmt::Arguments<'_>) {
    // One call, so that lines of several threads do not mix.
    let _ = io::stderr().write_all(format!("{line}\n").as_bytes());
}

/// Writes to standard error as it is, without a line's end.
pub(crate) fn draw(text: &str) {
    let mut stderr = io::stderr();
    let _ = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
}
