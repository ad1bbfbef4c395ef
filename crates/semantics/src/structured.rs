//! Structured dictionaries (RFC 9651 section 3.2), as far as cache directives need them: the whole grammar is
//! checked, but only booleans, integers and strings are handed out; other values are told apart no further,
//! and parameters are checked and dropped.
//!
//! Invariant: a value that breaks the grammar anywhere gives `None`; nothing is salvaged from it.

use crate::directives::is_token;

/// A member's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    /// `?0`, `?1`, or a key without a value.
    Boolean(bool),
    /// An integer.
    Integer(i64),
    /// A string or token, escapes resolved.
    Text(Vec<u8>),
    /// Decimals, byte sequences, dates, display strings and inner lists.
    Other,
}

/// The members in order, of several with one key the last (RFC 9651 section 4.2.2); `None` if it is no dictionary.
pub(crate) fn parse_dictionary(input: &[u8]) -> Option<Vec<(Vec<u8>, Value)>> {
    let mut reader = Reader { rest: trim_spaces(input) };
    let mut members: Vec<(Vec<u8>, Value)> = Vec::new();
    while !reader.rest.is_empty() {
        let key = reader.key()?.to_vec();
        let value = if reader.take(b'=') { reader.item_or_inner_list()? } else { Value::Boolean(true) };
        reader.parameters()?;
        members.retain(|(known, _)| *known != key);
        members.push((key, value));
        reader.skip(b" \t");
        if reader.rest.is_empty() {
            break;
        }
        if !reader.take(b',') {
            return None;
        }
        reader.skip(b" \t");
        if reader.rest.is_empty() {
            return None;
        }
    }
    Some(members)
}

/// Structured fields allow only spaces around the whole value.
fn trim_spaces(input: &[u8]) -> &[u8] {
    let start = input.iter().take_while(|&&byte| byte == b' ').count();
    let input = input.get(start..).unwrap_or_default();
    let end = input.iter().rev().take_while(|&&byte| byte == b' ').count();
    input.get(..input.len() - end).unwrap_or_default()
}

struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn peek(&self) -> Option<u8> {
        self.rest.first().copied()
    }

    /// Takes `byte` if it is next.
    fn take(&mut self, byte: u8) -> bool {
        match self.rest.split_first() {
            Some((next, rest)) if *next == byte => {
                self.rest = rest;
                true
            }
            _ => false,
        }
    }

    fn skip(&mut self, bytes: &[u8]) {
        self.take_while(|byte| bytes.contains(&byte));
    }

    fn take_while(&mut self, keep: impl Fn(u8) -> bool) -> &'a [u8] {
        let length = self.rest.iter().take_while(|&&byte| keep(byte)).count();
        let (taken, rest) = self.rest.split_at(length);
        self.rest = rest;
        taken
    }

    fn key(&mut self) -> Option<&'a [u8]> {
        let first = self.peek()?;
        if !first.is_ascii_lowercase() && first != b'*' {
            return None;
        }
        Some(
            self.take_while(|byte| {
                byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-.*".contains(&byte)
            }),
        )
    }

    fn parameters(&mut self) -> Option<()> {
        while self.take(b';') {
            self.skip(b" ");
            self.key()?;
            if self.take(b'=') {
                self.bare_item()?;
            }
        }
        Some(())
    }

    fn item_or_inner_list(&mut self) -> Option<Value> {
        if !self.take(b'(') {
            return self.bare_item();
        }
        loop {
            self.skip(b" ");
            if self.take(b')') {
                return Some(Value::Other);
            }
            self.bare_item()?;
            self.parameters()?;
            if !matches!(self.peek()?, b' ' | b')') {
                return None;
            }
        }
    }

    fn bare_item(&mut self) -> Option<Value> {
        match self.peek()? {
            b'"' => self.string(),
            b'?' => self.boolean(),
            b':' => self.byte_sequence(),
            b'@' => {
                self.take(b'@');
                matches!(self.number()?, Value::Integer(_)).then_some(Value::Other)
            }
            b'%' => self.display_string(),
            b'-' | b'0'..=b'9' => self.number(),
            byte if byte.is_ascii_alphabetic() || byte == b'*' => {
                let token = self.take_while(|byte| byte == b':' || byte == b'/' || is_token(&[byte]));
                Some(Value::Text(token.to_vec()))
            }
            _ => None,
        }
    }

    fn boolean(&mut self) -> Option<Value> {
        self.take(b'?');
        if self.take(b'1') {
            return Some(Value::Boolean(true));
        }
        self.take(b'0').then_some(Value::Boolean(false))
    }

    /// At most 15 digits, or 12 with a fraction of 1 to 3 (RFC 9651 section 4.2.4).
    fn number(&mut self) -> Option<Value> {
        let negative = self.take(b'-');
        let whole = self.take_while(|byte| byte.is_ascii_digit());
        if whole.is_empty() || whole.len() > 15 {
            return None;
        }
        if self.take(b'.') {
            let fraction = self.take_while(|byte| byte.is_ascii_digit());
            let fits = whole.len() <= 12 && (1..=3).contains(&fraction.len());
            return fits.then_some(Value::Other);
        }
        let number = whole.iter().fold(0i64, |number, digit| number * 10 + i64::from(digit - b'0'));
        Some(Value::Integer(if negative { -number } else { number }))
    }

    fn string(&mut self) -> Option<Value> {
        self.take(b'"');
        let mut text = Vec::new();
        loop {
            text.extend_from_slice(
                self.take_while(|byte| matches!(byte, b' '..=b'~') && byte != b'"' && byte != b'\\'),
            );
            if self.take(b'"') {
                return Some(Value::Text(text));
            }
            if !self.take(b'\\') {
                return None;
            }
            let escaped = self.peek().filter(|byte| matches!(byte, b'"' | b'\\'))?;
            self.take(escaped);
            text.push(escaped);
        }
    }

    fn byte_sequence(&mut self) -> Option<Value> {
        self.take(b':');
        self.take_while(|byte| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte));
        self.take(b':').then_some(Value::Other)
    }

    fn display_string(&mut self) -> Option<Value> {
        self.take(b'%');
        if !self.take(b'"') {
            return None;
        }
        self.take_while(|byte| matches!(byte, b' '..=b'~') && byte != b'"');
        self.take(b'"').then_some(Value::Other)
    }
}

#[cfg(test)]
mod tests {
    use super::{Value, parse_dictionary};

    fn members(input: &str) -> Option<Vec<(String, Value)>> {
        let members = parse_dictionary(input.as_bytes())?;
        Some(members.into_iter().map(|(key, value)| (String::from_utf8(key).unwrap(), value)).collect())
    }

    #[test]
    fn values_of_each_kind() {
        let expected = vec![
            ("a".to_owned(), Value::Boolean(true)),
            ("b".to_owned(), Value::Boolean(false)),
            ("c".to_owned(), Value::Integer(-7)),
            ("d".to_owned(), Value::Text(b"x, \"y\"".to_vec())),
            ("e".to_owned(), Value::Text(b"tok/en:1".to_vec())),
            ("f".to_owned(), Value::Other),
            ("g".to_owned(), Value::Other),
            ("h".to_owned(), Value::Other),
        ];
        let input = "a;p=1, b=?0,c=-7 ,\td=\"x, \\\"y\\\"\", e=tok/en:1, f=1.5, g=(1 2;q \"z\" ), h=:YQ==:;x";
        assert_eq!(members(input), Some(expected));
    }

    #[test]
    fn the_last_member_of_a_key_counts() {
        assert_eq!(members("a=1, b, a=2").unwrap().last(), Some(&("a".to_owned(), Value::Integer(2))));
    }

    #[test]
    fn anything_outside_the_grammar_voids_the_whole() {
        for input in [
            "max-age=1,",
            "max-age=1 b",
            "Max-Age=1",
            "max-age= 1",
            "max-age =1",
            "a=\"open",
            "a=1.",
            "a=1.2345",
            "a=1234567890123456",
            "a=&&",
            "&&&",
            "a,,b",
            "a=(1",
            "a=(1\"x\")",
            "a=?2",
            "a=@1.5",
            "a=%x",
            "a;",
        ] {
            assert_eq!(members(input), None, "{input}");
        }
        assert_eq!(members("  "), Some(Vec::new()));
    }
}
