//! Parsers for values on the command line that several commands share.
//!
//! Invariant: the error for a value that cannot be parsed quotes the value. Each command defines
//! the meaning of its values.

use document::quantity::parse_duration;
use std::time::Duration;

/// Parses a duration. A bare number is in seconds.
///
/// # Errors
/// If the text is not a duration.
pub(crate) fn time(text: &str) -> Result<Duration, String> {
    let bare = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    parse_duration(&if bare { format!("{text}s") } else { text.to_owned() })
}

/// Splits a header line at the first colon into name and value, without the spaces around them.
///
/// # Errors
/// If the line has no colon.
pub(crate) fn header(line: &str) -> Result<(String, String), String> {
    let (name, value) =
        line.split_once(':').ok_or_else(|| format!("{line:?} is not a header field: write 'Name: value'"))?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::{header, time};
    use std::time::Duration;

    #[test]
    fn bare_numbers_are_seconds() {
        assert_eq!(time("10"), Ok(Duration::from_secs(10)));
        assert_eq!(time("0.5"), Ok(Duration::from_millis(500)));
        assert_eq!(time("500ms"), Ok(Duration::from_millis(500)));
        assert!(time("").is_err() && time("10 apples").is_err());
    }

    #[test]
    fn header_lines_are_cut_at_the_first_colon() {
        assert_eq!(header("Host: a:1"), Ok(("Host".into(), "a:1".into())));
        assert!(header("Host").is_err());
    }
}
