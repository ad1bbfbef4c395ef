//! Helpers around the tokens of cssparser, and the splitting of lists in attributes and header
//! fields.
//!
//! Invariant: no function of this module recurses, and none leaves tokens of a block behind.

use cssparser::{Delimiter, ParseError, Parser, Token};

/// Splits at each separator outside strings, brackets and parentheses.
pub(crate) fn split(text: &str, separator: u8) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = text;
    loop {
        let (part, after) = rest.split_at_checked(until(rest, separator)).unwrap_or((rest, ""));
        parts.push(part);
        let Some(next) = after.get(1..) else { return parts };
        rest = next;
    }
}

/// Position of the first separator outside strings, brackets and parentheses, or the end of `text`.
pub(crate) fn until(text: &str, separator: u8) -> usize {
    let mut depth = 0_u32;
    let mut quote = None;
    let mut escaped = false;
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
            (None, _) if byte == separator && depth == 0 => return at,
            (None, _) => {}
        }
    }
    text.len()
}

/// Decodes the CSS escapes of words, and unquotes strings.
pub(crate) fn unescape(text: &str) -> String {
    let mut input = Parser::new(text);
    let mut out = String::new();
    loop {
        let start = input.position();
        match input.next_including_whitespace().cloned() {
            Ok(Token::Ident(word) | Token::QuotedString(word)) => out.push_str(&word),
            Ok(_) => out.push_str(input.slice_from(start)),
            Err(_) => return out,
        }
    }
}

/// The text of all strings in a value, joined.
pub(crate) fn strings(value: &str) -> String {
    let mut input = Parser::new(value);
    let mut out = String::new();
    while let Ok(token) = input.next() {
        if let Token::QuotedString(text) = token {
            out.push_str(text);
        }
    }
    out
}

/// Calls `read` with the content of the block or function whose opening token was just returned.
/// Skips the rest that `read` leaves.
pub(crate) fn inside<'i, T>(input: &mut Parser<'i>, read: impl FnOnce(&mut Parser<'i>) -> T) -> Option<T> {
    let found = input.parse_nested_block(|inner| {
        let found = read(inner);
        skip(inner);
        Ok::<T, ParseError<()>>(found)
    });
    found.ok()
}

/// Calls `read` with each member of a comma-separated list.
pub(crate) fn members<'i, T>(input: &mut Parser<'i>, mut read: impl FnMut(&mut Parser<'i>) -> T) -> Vec<T> {
    input.parse_comma_separated_ignoring_errors(|member| {
        let found = read(member);
        skip(member);
        Ok::<T, ParseError<()>>(found)
    })
}

/// Calls `take` with the name and the value of each declaration. Invalid declarations are skipped.
pub(crate) fn pairs<'i>(input: &mut Parser<'i>, mut take: impl FnMut(&str, &mut Parser<'i>)) {
    while !input.is_exhausted() {
        // A declaration without a name or a colon has no effect, as in browsers.
        let _: Result<(), ParseError<()>> = input.parse_until_after(Delimiter::Semicolon, |pair| {
            let name = pair.expect_ident_cloned()?;
            pair.expect_colon()?;
            take(&name, pair);
            skip(pair);
            Ok(())
        });
    }
}

/// Skips the rest of a block, function or value.
pub(crate) fn skip(input: &mut Parser<'_>) {
    while input.next().is_ok() {}
}

/// The rest of a value without comments, and whether it is `!important`. `None` at a block in
/// braces unless `braces` are part of the value, and if anything else follows an exclamation mark.
pub(crate) fn value(input: &mut Parser<'_>, braces: bool) -> Option<(String, bool)> {
    let mut out = String::new();
    loop {
        let start = input.position();
        let Ok(token) = input.next_including_whitespace_and_comments().cloned() else {
            return Some((out, false));
        };
        match token {
            Token::Comment(_) => {
                out.push(' ');
                continue;
            }
            Token::Delim('!') => {
                return input.expect_ident_matching("important").is_ok().then_some((out, true));
            }
            Token::CurlyBracketBlock if !braces => return None,
            Token::Function(_)
            | Token::ParenthesisBlock
            | Token::SquareBracketBlock
            | Token::CurlyBracketBlock => {
                inside(input, |_| ());
            }
            _ => {}
        }
        out.push_str(input.slice_from(start));
    }
}

/// The rest of a prelude or descriptor without comments and surrounding white space.
pub(crate) fn rest(input: &mut Parser<'_>) -> String {
    value(input, false).map(|(text, _)| text.trim().to_owned()).unwrap_or_default()
}
