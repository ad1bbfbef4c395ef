//! Imports the output of load testers as runs: the reports of `petasos bench`, ab and wrk, and
//! JMeter's JTL.
//!
//! Invariant: no value is invented. A value that a tool does not report is null. A value that a
//! tool counts differently is converted to the meaning that Petasos uses, or is null.
//! `docs/import.md` lists these values.

mod ab;
mod bench;
mod jtl;
mod quoted;
mod wrk;
mod xml;

use crate::run::{Phases, Run};
use std::io::{self, BufRead};

/// Length limit of a line in bytes, far above the lines of all supported formats.
pub const LINE_BYTES_MAX: usize = 1024 * 1024;

/// Size limit of a text report in bytes. A JTL has no such limit because it is read as a stream.
pub const TEXT_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Largest number in a text report. Sums of counts then fit into 64 bits.
const COUNT_MAX: u64 = 1 << 53;

/// Result of importing a file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ImportedRun {
    /// Runs in the order of the file.
    pub runs: Vec<Run>,
    /// Notes on omitted parts, with the reason.
    pub notes: Vec<String>,
}

/// Reason why a file could not be imported.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The file cannot be read.
    #[error(transparent)]
    Read(#[from] io::Error),
    /// The file has none of the known formats.
    #[error(
        "neither a report of petasos bench, nor one of ab (no line \"Requests per second:\"), nor one of wrk (no line \"Running ... test @ URL\"), nor \
         a JTL (no header \"timeStamp,elapsed,...\" and no <testResults>)"
    )]
    Unknown,
    /// A line does not fit the format.
    #[error("line {line}: {reason}")]
    Line {
        /// Number of the line, counted from 1.
        line: u64,
        /// Reason, in words.
        reason: String,
    },
    /// A required part is missing or invalid, at no particular line.
    #[error("{0}")]
    Missing(String),
}

impl ImportError {
    fn line(line: u64, reason: impl Into<String>) -> Self {
        Self::Line { line, reason: reason.into() }
    }
}

/// Reads the runs of a file. The format is detected from the content.
///
/// # Errors
/// Returns an error if the format is unknown, or at the first line that does not fit it.
pub fn import(mut file: impl BufRead) -> Result<ImportedRun, ImportError> {
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
    io::Read::read_to_end(&mut io::Read::take(file, TEXT_BYTES_MAX + 1), &mut text)?;
    if text.len() as u64 > TEXT_BYTES_MAX {
        // A part of the file would give the figures of a part of its runs.
        return Err(ImportError::Missing(format!("the text is longer than {TEXT_BYTES_MAX} bytes")));
    }
    let text = String::from_utf8_lossy(&text);
    let kinds = [bench::runs, wrk::runs, ab::runs];
    let mut runs = Vec::new();
    for read in kinds {
        runs = read(&text)?;
        if !runs.is_empty() {
            break;
        }
    }
    if runs.is_empty() { Err(ImportError::Unknown) } else { Ok(ImportedRun { runs, notes: Vec::new() }) }
}

impl Run {
    /// Assigns times that a tool reports for all complete responses together. They belong to the
    /// wrong responses if no response was good. Otherwise they are assigned to the good ones,
    /// although they include the wrong ones.
    fn place_times(&mut self, times: Phases) {
        if self.good == Some(0) {
            self.wrong_times = times;
        } else {
            self.good_times = times;
        }
    }
}

/// Splits a text into parts that each start with a line for which `begins` returns true. Lines
/// before the first of these are dropped. Lines are numbered from 1. Quotation marks of mail and
/// Markdown before a line are removed: blanks, `>` and `|`.
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

/// Parses the number at the start of a text, such as `12.5 seconds`.
fn leading_number(text: &str) -> Option<f64> {
    let number = text.split_whitespace().next()?.parse().ok();
    number.filter(|number| (0.0..=COUNT_MAX as f64).contains(number))
}

/// Parses a count.
fn count(text: &str) -> Option<u64> {
    text.parse().ok().filter(|count| *count <= COUNT_MAX)
}
