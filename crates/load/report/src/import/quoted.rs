//! Reads rows of a CSV file as spreadsheets and JMeter write them (RFC 4180). Values in quotes may
//! contain delimiters, line breaks and doubled quotes.
//!
//! Invariant: a row never takes more than [`LINE_BYTES_MAX`] bytes of memory.

use super::{ImportError, LINE_BYTES_MAX};
use std::io::{BufRead, Read as _};

/// Reason for refusing a row beyond the limit.
const TOO_LONG: &str = "the row is too long";

/// Reader of rows.
pub(super) struct QuotedRows<R> {
    file: R,
    delimiter: u8,
    /// Line in which the last row began, counted from 1.
    line: u64,
    next_line: u64,
    buffer: Vec<u8>,
}

impl<R: BufRead> QuotedRows<R> {
    pub(super) fn new(file: R, delimiter: u8) -> Self {
        Self { file, delimiter, line: 0, next_line: 1, buffer: Vec::new() }
    }

    /// Uses another delimiter from the next row on.
    pub(super) fn set_delimiter(&mut self, delimiter: u8) {
        self.delimiter = delimiter;
    }

    /// Line in which the last row began, counted from 1.
    pub(super) fn line(&self) -> u64 {
        self.line
    }

    /// Returns the next non-empty row; `None` at the end of the file.
    pub(super) fn next(&mut self) -> Result<Option<Vec<String>>, ImportError> {
        loop {
            self.buffer.clear();
            self.line = self.next_line;
            let mut is_quoted = false;
            while self.buffer.is_empty() || is_quoted {
                let begun = self.buffer.len();
                let room = (LINE_BYTES_MAX - begun) as u64;
                let read = self.file.by_ref().take(room).read_until(b'\n', &mut self.buffer)?;
                if read == 0 {
                    if self.buffer.is_empty() {
                        return Ok(None);
                    }
                    let reason = if room == 0 { TOO_LONG } else { "a quote is not closed" };
                    return Err(ImportError::line(self.line, reason));
                }
                if self.buffer.len() == LINE_BYTES_MAX && !self.buffer.ends_with(b"\n") {
                    // The rest of the line would become a separate row.
                    return Err(ImportError::line(self.line, TOO_LONG));
                }
                self.next_line += 1;
                // Only the new line is searched; a row of many short lines would be searched for
                // each.
                let quotes = self.buffer.iter().skip(begun).filter(|&&byte| byte == b'"').count();
                is_quoted ^= quotes % 2 == 1;
            }
            let row = self.buffer.trim_ascii_end();
            if !row.is_empty() {
                return Ok(Some(split(&String::from_utf8_lossy(row), char::from(self.delimiter))));
            }
        }
    }
}

/// Splits a complete row into values.
fn split(row: &str, delimiter: char) -> Vec<String> {
    let mut values = Vec::new();
    let mut value = String::new();
    let mut is_quoted = false;
    let mut characters = row.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '"' if is_quoted && characters.peek() == Some(&'"') => {
                characters.next();
                value.push('"');
            }
            '"' => is_quoted = !is_quoted,
            other if other == delimiter && !is_quoted => values.push(std::mem::take(&mut value)),
            other => value.push(other),
        }
    }
    values.push(value);
    values
}

#[cfg(test)]
mod tests {
    use super::{LINE_BYTES_MAX, QuotedRows};

    fn rows(text: &str) -> Vec<Vec<String>> {
        let mut rows = QuotedRows::new(text.as_bytes(), b',');
        std::iter::from_fn(|| rows.next().unwrap()).collect()
    }

    #[test]
    fn quoted_values_may_contain_delimiters_and_line_breaks() {
        assert_eq!(rows("a,b\n\n\"x,\"\"y\"\"\nz\",2\r\n"), [["a", "b"], ["x,\"y\"\nz", "2"]]);
        assert_eq!(rows("a,,"), [["a", "", ""]]);
        assert!(rows("").is_empty());
    }

    #[test]
    fn too_long_row_is_an_error() {
        let long = "a".repeat(LINE_BYTES_MAX);
        for text in [format!("{long}b,1\n"), format!("\"{long}\"\n"), format!("\"{}", "a\n".repeat(600_000))]
        {
            let error = QuotedRows::new(text.as_bytes(), b',').next().unwrap_err().to_string();
            assert_eq!(error, "line 1: the row is too long");
        }
        assert_eq!(rows(&format!("{}\nb", &long[1..])).len(), 2);
    }

    #[test]
    fn open_quote_is_an_error_with_its_line() {
        let mut rows = QuotedRows::new("a\nb,\"c\n".as_bytes(), b',');
        rows.next().unwrap();
        assert_eq!(rows.next().unwrap_err().to_string(), "line 2: a quote is not closed");
    }
}
