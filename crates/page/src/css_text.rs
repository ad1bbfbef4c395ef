//! Splits CSS text and decodes identifiers and escapes (CSS Syntax Level 3).
//!
//! Invariant: no text is lost. The parts of a split and their separators are again the text, and so
//! are the bytes of an identifier and the rest.

/// Splits at each separator outside strings, brackets and parentheses.
pub(crate) fn split(text: &str, separator: u8) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut depth, mut quote, mut escaped, mut start) = (0_u32, None, false, 0);
    for (at, byte) in text.bytes().enumerate() {
        if std::mem::take(&mut escaped) {
            continue;
        }
        match (quote, byte) {
            (_, b'\\') => escaped = true,
            (Some(open), _) if open == byte => quote = None,
            (Some(_), _) => {}
            (None, b'"' | b'\'') => quote = Some(byte),
            (None, b'(' | b'[' | b'{') => depth += 1,
            (None, b')' | b']' | b'}') => depth = depth.saturating_sub(1),
            (None, _) if byte == separator && depth == 0 => {
                parts.push(text.get(start..at).unwrap_or_default());
                start = at + 1;
            }
            (None, _) => {}
        }
    }
    parts.push(text.get(start..).unwrap_or_default());
    parts
}

/// Whether a byte is part of an identifier or begins an escape in one.
pub(crate) fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'\\') || byte >= 0x80
}

/// Returns the identifier at the start of `text`, with escapes decoded, and the rest of the text.
pub(crate) fn identifier(text: &str) -> (String, &str) {
    let mut end = 0;
    let mut escaped = false;
    for (at, character) in text.char_indices() {
        let is_part = escaped || character == '\\' || !character.is_ascii() || is_name_byte(character as u8);
        if !is_part {
            break;
        }
        escaped = character == '\\' && !escaped;
        end = at + character.len_utf8();
    }
    let (name, rest) = text.split_at_checked(end).unwrap_or((text, ""));
    (unescape(name), rest)
}

/// Decodes the CSS escapes of a word or string.
pub(crate) fn unescape(text: &str) -> String {
    if !text.contains('\\') {
        return text.to_owned();
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(character) = rest.next() {
        if character != '\\' {
            out.push(character);
            continue;
        }
        let mut code = 0;
        let mut digits = 0;
        while let Some(digit) = rest.peek().and_then(|next| next.to_digit(16)).filter(|_| digits < 6) {
            code = code * 16 + digit;
            digits += 1;
            rest.next();
        }
        if digits > 0 {
            out.push(char::from_u32(code).filter(|&c| c != '\0').unwrap_or(char::REPLACEMENT_CHARACTER));
            rest.next_if(|next| next.is_ascii_whitespace());
        } else if let Some(next) = rest.next().filter(|&next| next != '\n') {
            out.push(next);
        }
    }
    out
}
