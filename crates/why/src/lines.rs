//! Text layout for a terminal: wrapped paragraphs, and labels with text beside them.
//!
//! Invariant: no line is wider than [`COLUMNS`] characters, except with a single longer word.
//! Hidden characters are removed, whatever a site sent.

use difference::is_hidden;

/// Width of a line, in characters.
pub const COLUMNS: usize = 80;

/// A text, built line by line.
#[derive(Clone, Debug, Default)]
pub struct TextLines(String);

impl TextLines {
    /// The whole text.
    pub fn into_text(self) -> String {
        self.0
    }

    /// Adds an empty line.
    pub fn gap(&mut self) {
        self.0.push('\n');
    }

    /// Adds a paragraph, indented by `indent` columns and wrapped.
    pub fn paragraph(&mut self, indent: usize, text: &str) {
        self.labelled(indent, "", indent, text);
    }

    /// Adds a label at column `indent`, and a paragraph beside it that starts at column `from` on
    /// every line.
    pub fn labelled(&mut self, indent: usize, label: &str, from: usize, text: &str) {
        let mut line = format!("{:indent$}{label}", "");
        if line.chars().count() < from {
            line.push_str(&" ".repeat(from - line.chars().count()));
        } else if !label.is_empty() {
            line.push(' ');
        }
        let mut is_empty = true;
        for word in text.split_whitespace() {
            let word: String = word.chars().filter(|character| !is_hidden(*character)).collect();
            let width = line.chars().count() + usize::from(!is_empty) + word.chars().count();
            if width > COLUMNS && !is_empty {
                self.push(&line);
                line = " ".repeat(from);
                is_empty = true;
            }
            if !is_empty {
                line.push(' ');
            }
            line.push_str(&word);
            is_empty = false;
        }
        self.push(&line);
    }

    fn push(&mut self, line: &str) {
        self.0.push_str(line.trim_end());
        self.0.push('\n');
    }
}

/// A size in bytes for people, in decimal units.
pub fn bytes_text(bytes: u64) -> String {
    match bytes {
        0..1000 => format!("{bytes} bytes"),
        1000..1_000_000 => format!("{:.1} kB", bytes as f64 / 1000.0),
        _ => format!("{:.1} MB", bytes as f64 / 1_000_000.0),
    }
}

/// A duration for people, rounded down to one unit.
pub fn seconds_text(secs: u64) -> String {
    let (count, unit) = match secs {
        0..120 => (secs, "second"),
        120..7200 => (secs / 60, "minute"),
        7200..172_800 => (secs / 3600, "hour"),
        _ => (secs / 86_400, "day"),
    };
    format!("{count} {unit}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::{COLUMNS, TextLines, bytes_text, seconds_text};

    #[test]
    fn long_texts_are_wrapped_beside_their_label() {
        let mut lines = TextLines::default();
        lines.labelled(2, "label", 10, &"word ".repeat(40));
        lines.paragraph(4, &format!("a {}\u{1b}[31m\u{202e} b", "x".repeat(90)));
        let text = lines.into_text();
        let rows: Vec<_> = text.lines().collect();
        assert!(rows[0].starts_with("  label   word word") && rows[1].starts_with("          word"));
        assert_eq!(rows.iter().filter(|row| row.len() > COLUMNS).count(), 1, "{text}");
        assert!(!text.contains(['\u{1b}', '\u{202e}']));
    }

    #[test]
    fn sizes_and_times_are_rounded() {
        assert_eq!([999, 1234, 1_500_000].map(bytes_text), ["999 bytes", "1.2 kB", "1.5 MB"]);
        assert_eq!(
            [0, 1, 119, 120, 7300, 200_000].map(seconds_text),
            ["0 seconds", "1 second", "119 seconds", "2 minutes", "2 hours", "2 days"]
        );
    }
}
