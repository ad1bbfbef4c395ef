//! Detects differences in white space and makes white space visible. Pure functions.

use difference::is_hidden;

/// Whether two contents differ only in ASCII white space. Equal contents do not differ.
pub fn is_white_space_alone(one: &[u8], other: &[u8]) -> bool {
    let black = |content: &'_ [u8]| -> Vec<u8> {
        content.iter().copied().filter(|byte| !byte.is_ascii_whitespace()).collect()
    };
    one != other && black(one) == black(other)
}

/// Returns the first `chars_max` characters with a sign for each white-space character: `a␠b`, `⇥`
/// for a tab, `⏎` for a line feed. Other hidden characters are replaced, because a site could send
/// commands to the terminal.
pub fn visible_space(content: &[u8], chars_max: usize) -> String {
    // A character has at most four bytes in UTF-8, so this prefix is long enough.
    let text = String::from_utf8_lossy(content.get(..4 * chars_max).unwrap_or(content)).into_owned();
    let sign = |sign| match sign {
        ' ' => '␠',
        '\t' => '⇥',
        '\n' => '⏎',
        '\r' => '␍',
        '\u{c}' => '␌',
        other if is_hidden(other) => char::REPLACEMENT_CHARACTER,
        other => other,
    };
    text.chars().take(chars_max).map(sign).collect()
}

#[cfg(test)]
mod tests {
    use super::{is_white_space_alone, visible_space};

    #[test]
    fn each_white_space_character_has_a_sign() {
        assert_eq!(visible_space(b"a b\r\n\tc", 80), "a␠b␍⏎⇥c");
        assert_eq!(visible_space("   ä".as_bytes(), 2), "␠␠");
    }

    #[test]
    fn commands_for_a_terminal_are_replaced() {
        let shown = visible_space("\u{1b}[2J \u{9b}1m\u{202e}".as_bytes(), 80);
        assert_eq!(shown, "\u{fffd}[2J␠\u{fffd}1m\u{fffd}");
    }

    #[test]
    fn white_space_alone_differs_from_changed_words() {
        assert!(is_white_space_alone(b"a  b\n", b"a b"));
        assert!(!is_white_space_alone(b"a b", b"a b"), "equal contents do not differ");
        assert!(!is_white_space_alone(b"a c", b"a b"));
    }
}
