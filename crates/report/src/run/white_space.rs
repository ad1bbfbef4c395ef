//! White space in which contents differ, made visible; pure.

/// Whether two contents differ in white space and in nothing else.
pub fn is_white_space_alone(one: &[u8], other: &[u8]) -> bool {
    let black = |content: &'_ [u8]| -> Vec<u8> {
        content.iter().copied().filter(|byte| !byte.is_ascii_whitespace()).collect()
    };
    one != other && black(one) == black(other)
}

/// The beginning of a content with a sign for each white space: `a␠b`, `⇥` for a tab, `⏎` for a line's end.
pub fn visible_space(content: &[u8], chars_max: usize) -> String {
    let text = String::from_utf8_lossy(content.get(..4 * chars_max).unwrap_or(content)).into_owned();
    let sign = |sign| match sign {
        ' ' => '␠',
        '\t' => '⇥',
        '\n' => '⏎',
        '\r' => '␍',
        '\u{c}' => '␌',
        other => other,
    };
    text.chars().take(chars_max).map(sign).collect()
}

#[cfg(test)]
mod tests {
    use super::{is_white_space_alone, visible_space};

    #[test]
    fn white_space_has_signs() {
        assert_eq!(visible_space(b"a b\r\n\tc", 80), "a␠b␍⏎⇥c");
        assert_eq!(visible_space("   ä".as_bytes(), 2), "␠␠");
    }

    #[test]
    fn white_space_alone_is_told_from_words() {
        assert!(is_white_space_alone(b"a  b\n", b"a b"));
        assert!(!is_white_space_alone(b"a b", b"a b"), "equal contents do not differ");
        assert!(!is_white_space_alone(b"a c", b"a b"));
    }
}
