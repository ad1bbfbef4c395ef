//! Describes a spot as text: its line, the text before it, and its text in both contents.
//!
//! Invariant: each text has at most [`TEXT_CHARS_MAX`] characters and no hidden character, whatever
//! the site sent.

use crate::compare::Spot;
use crate::nature::{Nature, nature};

/// Longest text of a snippet, in characters.
pub const TEXT_CHARS_MAX: usize = 40;

/// The description of one spot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snippet {
    /// The line in the first content, counted from 1.
    pub line: usize,
    /// The guessed nature of the spot.
    pub nature: Nature,
    /// The text before the spot on its line, which both contents share. Shortened at its start.
    pub before: String,
    /// The spot's text in the first content.
    pub first: String,
    /// The spot's text in the second content.
    pub second: String,
}

/// Describes a spot of these two contents.
pub fn snippet(spot: &Spot, first: &[u8], second: &[u8]) -> Snippet {
    let before = first.get(..spot.first.start).unwrap_or_default();
    let line = before.iter().filter(|octet| **octet == b'\n').count() + 1;
    let line_start = before.iter().rposition(|octet| *octet == b'\n').map_or(0, |place| place + 1);
    let on_line = text_of(before.get(line_start..).unwrap_or_default());
    let skipped = on_line.chars().count().saturating_sub(TEXT_CHARS_MAX);
    // If the text was shortened, drop the word that was cut in two.
    let cut = |character: &char| skipped > 0 && !character.is_whitespace();
    let before: String = on_line.chars().skip(skipped).skip_while(cut).collect();
    let after = first.get(spot.first.end..).unwrap_or_default();
    let after = text_of(after.get(..TEXT_CHARS_MAX).unwrap_or(after));
    let first = text_of(first.get(spot.first.clone()).unwrap_or_default());
    let second = text_of(second.get(spot.second.clone()).unwrap_or_default());
    Snippet {
        line,
        nature: nature(&before, [&first, &second], &after),
        before: before.trim_start().to_owned(),
        first: shortened(&first),
        second: shortened(&second),
    }
}

/// Decodes bytes from a site for display. Invalid UTF-8 is replaced; hidden characters become
/// spaces.
pub fn text_of(octets: &[u8]) -> String {
    let text = String::from_utf8_lossy(octets);
    text.chars().map(|character| if is_hidden(character) { ' ' } else { character }).collect()
}

/// Whether a character is not shown and may change how the text around it is shown: controls, line
/// separators, and the marks that turn the direction of writing.
pub fn is_hidden(character: char) -> bool {
    let turns = matches!(
        character,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    );
    turns || character.is_control() || matches!(character, '\u{2028}' | '\u{2029}')
}

fn shortened(text: &str) -> String {
    if text.chars().count() <= TEXT_CHARS_MAX {
        return text.to_owned();
    }
    text.chars().take(TEXT_CHARS_MAX - 3).chain("...".chars()).collect()
}

#[cfg(test)]
mod tests {
    use super::{TEXT_CHARS_MAX, snippet};
    use crate::{Difference, Nature, compare};

    #[test]
    fn snippet_has_line_and_text_before_the_spot() {
        let page =
            |name: &str| format!("<html>\n  <p class=hello>Hello {name}, how are you today?</p>\n</html>");
        let first = page("Ada");
        let second = page("Grace");
        let Difference::Spots(spots) = compare(first.as_bytes(), second.as_bytes()) else {
            panic!("one spot")
        };
        let found = snippet(&spots[0], first.as_bytes(), second.as_bytes());
        assert_eq!(
            (found.line, found.nature, found.before.as_str()),
            (2, Nature::Name, "<p class=hello>Hello ")
        );
        assert_eq!((found.first.as_str(), found.second.as_str()), ("Ada", "Grace"));
    }

    #[test]
    fn hidden_characters_become_spaces() {
        let text = "a\u{1b}[2J\u{9b}1m\u{202e}b\u{2028}c\u{7f}";
        assert_eq!(super::text_of(text.as_bytes()), "a [2J 1m b c ");
        assert_eq!(super::text_of("é 👩\u{200d}🔧".as_bytes()), "é 👩\u{200d}🔧");
    }

    #[test]
    fn long_texts_are_cut_and_control_characters_removed() {
        let page = |text: &str| format!("{} {text} and so it ends for both of them", "word ".repeat(50));
        let first = page(&"\x1b[31m".repeat(20));
        let second = page("x");
        let Difference::Spots(spots) = compare(first.as_bytes(), second.as_bytes()) else {
            panic!("one spot")
        };
        let found = snippet(&spots[0], first.as_bytes(), second.as_bytes());
        for text in [&found.before, &found.first, &found.second] {
            assert!(text.chars().count() <= TEXT_CHARS_MAX && !text.contains('\x1b'), "{text:?}");
        }
    }
}
