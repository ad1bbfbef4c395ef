//! What load testers wrote, as runs: the report of `petasos bench`, ab's, wrk's, and JMeter's JTL.
//!
//! Invariant: nothing is invented. What a tool does not tell stays null, and what it counts differently is either
//! turned into our meaning or stays null; `docs/import.md` says which is which.

mod ab;
mod bench;
mod jtl;
mod quoted;
mod wrk;
mod xml;

use crate::run::{Phases, Run};
use std::io::{self, BufRead};

/// The longest line that is looked at, in bytes: far above what any of these formats writes.
pub const LINE_BYTES_MAX: usize = 1024 * 1024;

/// The most bytes of a text report; a JTL is read as a stream and has no such limit.
pub const TEXT_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// What came of a file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Imported {
    /// The runs in it, in their order.
    pub runs: Vec<Run>,
    /// What was left out, and why.
    pub notes: Vec<String>,
}

/// Why a file could not be imported.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// It cannot be read.
    #[error(transparent)]
    Read(#[from] io::Error),
    /// Nothing in its beginning is known.
    #[error(
        "neither a report of petasos bench, nor one of ab (no line \"Requests per second:\"), nor one of wrk (no line \"Running ... test @ URL\"), nor \
         a JTL (no header \"timeStamp,elapsed,...\" and no <testResults>)"
    )]
    Unknown,
    /// A line that does not fit the format.
    #[error("line {line}: {reason}")]
    Line {
        /// Which line, counting from 1.
        line: u64,
        /// What is wrong with it.
        reason: String,
    },
    /// Something is missing.
    #[error("{0}")]
    Missing(String),
}

impl ImportError {
    fn line(line: u64, reason: impl Into<String>) -> Self {
        Self::Line { line, reason: reason.into() }
    }
}

/// Reads the runs of a file, whichever of the formats it has.
///
/// # Errors
/// With the line that does not fit.
pub fn import(mut file: impl BufRead) -> Result<Imported, ImportError> {
    let beginning = file.fill_buf()?;
    let first = beginning
        .trim_ascii_start()
        .strip_prefix("\u{feff}".as_bytes())
        .unwrap_or_else(|| beginning.trim_ascii_start());
    if first.starts_with(b"<") {
        return xml::import(file);
    }
    let header = first.split(|&byte| byte == b'\n').next().unwrap_or_default();
    if jtl::is_header(header) {
        return jtl::import(file);
    }
    let mut text = Vec::new();
    io::Read::read_to_end(&mut io::Read::take(file, TEXT_BYTES_MAX), &mut text)?;
    let text = String::from_utf8_lossy(&text);
    let kinds = [bench::runs, wrk::runs, ab::runs];
    let mut runs = Vec::new();
    for read in kinds {
        runs = read(&text)?;
        if !runs.is_empty() {
            break;
        }
    }
    if runs.is_empty() { Err(ImportError::Unknown) } else { Ok(Imported { runs, notes: Vec::new() }) }
}

impl Run {
    /// Puts times that a tool gives for all complete answers together where they belong: to the wrong ones if none was
    /// good, else to the good ones, among which the wrong ones are.
    fn place_times(&mut self, times: Phases) {
        if self.good == Some(0) {
            self.wrong_times = times;
        } else {
            self.good_times = times;
        }
    }
}

/// The lines of a text in parts, each beginning with a line that `begins` says yes to; lines before the first such
/// line are in no part. Lines carry their number, counting from 1, and are without what mail and Markdown put before
/// text that they quote: blanks, `>` and `|`.
fn parts(text: &str, begins: impl Fn(&str) -> bool) -> Vec<Vec<(u64, &str)>> {
    let mut parts: Vec<Vec<(u64, &str)>> = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim_start_matches([' ', '\t', '>', '|']);
        if begins(line) {
            parts.push(Vec::new());
        }
        if let Some(part) = parts.last_mut() {
            part.push((number, line));
        }
    }
    parts
}

/// A number at the beginning of a text, such as the one in `12.5 seconds`.
fn leading_number(text: &str) -> Option<f64> {
    text.split_whitespace().next()?.parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0)
}
