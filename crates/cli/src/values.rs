//! Values as they are typed on a command line, for every command that takes them.
//!
//! Invariant: what cannot be read is an error that shows it; what a value means is for its command to say.

use config::quantity::parse_duration;
use std::time::Duration;

/// A duration on the command line, where a bare number means seconds.
pub(crate) fn time(text: &str) -> Result<Duration, String> {
    let bare = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    parse_duration(&if bare { format!("{text}s") } else { text.to_owned() })
}

/// A header line as name and value.
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
