//! Structured fields (RFC 9651): dictionaries and lists, as far as the fields that caches read need
//! them.
//!
//! The whole grammar is checked. Booleans, integers, strings, tokens and inner lists are returned.
//! All other values become [`MemberValue::Other`]. Parameters are checked and dropped.
//!
//! Invariant: a value that breaks the grammar anywhere, or exceeds a limit, gives `None`. No part
//! of it is used. The meaning of the members belongs to the module of the field.

use crate::directives::is_token;
use message::Fields;

/// The maximum number of members in one field, and of items in one inner list. A field with more is
/// refused. RFC 9651 asks for at least 1024 and 256.
pub const MEMBERS_MAX: usize = 1024;

/// The value of a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemberValue {
    /// `?0`, `?1`, or a key without a value, which means true.
    Boolean(bool),
    /// An integer of at most 15 digits.
    Integer(i64),
    /// A string with its escapes resolved; printable ASCII.
    String(Vec<u8>),
    /// A token.
    Token(Vec<u8>),
    /// An inner list. Its items are never inner lists.
    InnerList(Vec<Self>),
    /// A decimal, byte sequence, date or display string.
    Other,
}

/// The members of a dictionary in order; `None` if `input` is no dictionary. Of several members
/// with one key the last counts (RFC 9651 section 4.2.2).
pub fn parse_dictionary(input: &[u8]) -> Option<Vec<(Vec<u8>, MemberValue)>> {
    let mut members: Vec<(Vec<u8>, MemberValue)> = Vec::new();
    members_of(input, |reader| {
        let key = reader.key()?.to_vec();
        let value = if reader.take(b'=') { reader.item_or_inner_list()? } else { MemberValue::Boolean(true) };
        reader.parameters()?;
        members.retain(|(known, _)| *known != key);
        members.push((key, value));
        Some(())
    })?;
    Some(members)
}

/// The members of a list in order (RFC 9651 section 4.2.1); `None` if `input` is no list.
pub fn parse_list(input: &[u8]) -> Option<Vec<MemberValue>> {
    let mut members = Vec::new();
    members_of(input, |reader| {
        members.push(reader.item_or_inner_list()?);
        reader.parameters()
    })?;
    Some(members)
}

/// All lines of the field `name`, joined into one value (RFC 9651 section 4.2); `None` if the
/// message does not have the field.
pub fn combined_lines(fields: &Fields, name: &str) -> Option<Vec<u8>> {
    let lines: Vec<_> = fields.all(name).map(|line| &**line).collect();
    (!lines.is_empty()).then(|| lines.join(&b", "[..]))
}

/// Reads comma-separated members until the end of the input, and calls `read` for each of them.
fn members_of(input: &[u8], mut read: impl FnMut(&mut MemberReader<'_>) -> Option<()>) -> Option<()> {
    let mut reader = MemberReader { rest: trim_spaces(input) };
    if reader.rest.is_empty() {
        return Some(());
    }
    for _ in 0..MEMBERS_MAX {
        read(&mut reader)?;
        reader.skip(b" \t");
        if reader.rest.is_empty() {
            return Some(());
        }
        if !reader.take(b',') {
            return None;
        }
        reader.skip(b" \t");
    }
    None
}

/// Structured fields allow only spaces around the whole value.
fn trim_spaces(input: &[u8]) -> &[u8] {
    let start = input.iter().take_while(|&&byte| byte == b' ').count();
    let input = input.get(start..).unwrap_or_default();
    let end = input.iter().rev().take_while(|&&byte| byte == b' ').count();
    input.get(..input.len() - end).unwrap_or_default()
}

struct MemberReader<'a> {
    rest: &'a [u8],
}

impl<'a> MemberReader<'a> {
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

    fn item_or_inner_list(&mut self) -> Option<MemberValue> {
        if !self.take(b'(') {
            return self.bare_item();
        }
        let mut items = Vec::new();
        loop {
            self.skip(b" ");
            if self.take(b')') {
                return Some(MemberValue::InnerList(items));
            }
            if items.len() == MEMBERS_MAX {
                return None;
            }
            items.push(self.bare_item()?);
            self.parameters()?;
            if !matches!(self.peek()?, b' ' | b')') {
                return None;
            }
        }
    }

    fn bare_item(&mut self) -> Option<MemberValue> {
        match self.peek()? {
            b'"' => self.string(),
            b'?' => self.boolean(),
            b':' => self.byte_sequence(),
            b'@' => {
                self.take(b'@');
                matches!(self.number()?, MemberValue::Integer(_)).then_some(MemberValue::Other)
            }
            b'%' => self.display_string(),
            b'-' | b'0'..=b'9' => self.number(),
            byte if byte.is_ascii_alphabetic() || byte == b'*' => {
                let token = self.take_while(|byte| byte == b':' || byte == b'/' || is_token(&[byte]));
                Some(MemberValue::Token(token.to_vec()))
            }
            _ => None,
        }
    }

    fn boolean(&mut self) -> Option<MemberValue> {
        self.take(b'?');
        if self.take(b'1') {
            return Some(MemberValue::Boolean(true));
        }
        self.take(b'0').then_some(MemberValue::Boolean(false))
    }

    /// At most 15 digits, or at most 12 with a fraction of 1 to 3 digits (RFC 9651 section 4.2.4).
    fn number(&mut self) -> Option<MemberValue> {
        let negative = self.take(b'-');
        let whole = self.take_while(|byte| byte.is_ascii_digit());
        if whole.is_empty() || whole.len() > 15 {
            return None;
        }
        if self.take(b'.') {
            let fraction = self.take_while(|byte| byte.is_ascii_digit());
            let fits = whole.len() <= 12 && (1..=3).contains(&fraction.len());
            return fits.then_some(MemberValue::Other);
        }
        let number = whole.iter().fold(0i64, |number, digit| number * 10 + i64::from(digit - b'0'));
        Some(MemberValue::Integer(if negative { -number } else { number }))
    }

    fn string(&mut self) -> Option<MemberValue> {
        self.take(b'"');
        let mut text = Vec::new();
        loop {
            text.extend_from_slice(
                self.take_while(|byte| matches!(byte, b' '..=b'~') && byte != b'"' && byte != b'\\'),
            );
            if self.take(b'"') {
                return Some(MemberValue::String(text));
            }
            if !self.take(b'\\') {
                return None;
            }
            let escaped = self.peek().filter(|byte| matches!(byte, b'"' | b'\\'))?;
            self.take(escaped);
            text.push(escaped);
        }
    }

    /// Base64, whose padding may be missing (RFC 9651 section 4.2.7).
    fn byte_sequence(&mut self) -> Option<MemberValue> {
        self.take(b':');
        let digits =
            self.take_while(|byte| byte.is_ascii_alphanumeric() || byte == b'+' || byte == b'/').len();
        let padding = self.take_while(|byte| byte == b'=').len();
        // A single digit after complete groups of four cannot be decoded. Padding must complete the
        // group.
        let decodes = match digits % 4 {
            0 => padding == 0,
            1 => false,
            over => padding == 0 || over + padding == 4,
        };
        (self.take(b':') && decodes).then_some(MemberValue::Other)
    }

    /// Printable ASCII in which `%` and two lower-case hexadecimal digits encode a byte. The
    /// decoded text must be UTF-8 (RFC 9651 section 4.2.10).
    fn display_string(&mut self) -> Option<MemberValue> {
        self.take(b'%');
        if !self.take(b'"') {
            return None;
        }
        let mut text = Vec::new();
        loop {
            let plain = |byte| matches!(byte, b' '..=b'~') && byte != b'%' && byte != b'"';
            text.extend_from_slice(self.take_while(plain));
            if self.take(b'"') {
                return std::str::from_utf8(&text).is_ok().then_some(MemberValue::Other);
            }
            if !self.take(b'%') {
                return None;
            }
            text.push(self.lowercase_hex_digit()? << 4 | self.lowercase_hex_digit()?);
        }
    }

    fn lowercase_hex_digit(&mut self) -> Option<u8> {
        let digit = self.peek()?;
        self.take(digit);
        match digit {
            b'0'..=b'9' => Some(digit - b'0'),
            b'a'..=b'f' => Some(digit - b'a' + 10),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{MEMBERS_MAX, MemberValue, combined_lines, parse_dictionary, parse_list};
    use message::Fields;

    fn members(input: &str) -> Option<Vec<(String, MemberValue)>> {
        let members = parse_dictionary(input.as_bytes())?;
        Some(members.into_iter().map(|(key, value)| (String::from_utf8(key).unwrap(), value)).collect())
    }

    #[test]
    fn values_of_each_kind() {
        let expected = vec![
            ("a".to_owned(), MemberValue::Boolean(true)),
            ("b".to_owned(), MemberValue::Boolean(false)),
            ("c".to_owned(), MemberValue::Integer(-7)),
            ("d".to_owned(), MemberValue::String(b"x, \"y\"".to_vec())),
            ("e".to_owned(), MemberValue::Token(b"tok/en:1".to_vec())),
            ("f".to_owned(), MemberValue::Other),
            (
                "g".to_owned(),
                MemberValue::InnerList(vec![
                    MemberValue::Integer(1),
                    MemberValue::Integer(2),
                    MemberValue::String(b"z".to_vec()),
                ]),
            ),
            ("h".to_owned(), MemberValue::Other),
        ];
        let input = "a;p=1, b=?0,c=-7 ,\td=\"x, \\\"y\\\"\", e=tok/en:1, f=1.5, g=(1 2;q \"z\" ), h=:YQ==:;x";
        assert_eq!(members(input), Some(expected));
    }

    #[test]
    fn lists_over_several_lines() {
        let mut fields = Fields::new();
        assert_eq!(combined_lines(&fields, "Cache-Groups"), None);
        fields.push("Cache-Groups", "\"a\";x=1, b");
        fields.push("cache-groups", "(\"c\")");
        let expected = vec![
            MemberValue::String(b"a".to_vec()),
            MemberValue::Token(b"b".to_vec()),
            MemberValue::InnerList(vec![MemberValue::String(b"c".to_vec())]),
        ];
        assert_eq!(
            combined_lines(&fields, "Cache-Groups").and_then(|value| parse_list(&value)),
            Some(expected)
        );
        for input in ["a,", "a,,b", ",a", "a b", "((a))", "(a", "A, \u{fc}"] {
            assert_eq!(parse_list(input.as_bytes()), None, "{input}");
        }
        assert_eq!(parse_list(b""), Some(Vec::new()));
    }

    #[test]
    fn more_members_than_the_limit_are_refused() {
        let list = |count: usize, separator: &str| vec!["1"; count].join(separator);
        assert_eq!(parse_list(list(MEMBERS_MAX, ", ").as_bytes()).unwrap().len(), MEMBERS_MAX);
        assert_eq!(parse_list(list(MEMBERS_MAX + 1, ", ").as_bytes()), None);
        assert!(parse_list(format!("({})", list(MEMBERS_MAX, " ")).as_bytes()).is_some());
        assert_eq!(parse_list(format!("({})", list(MEMBERS_MAX + 1, " ")).as_bytes()), None);
    }

    #[test]
    fn undecodable_byte_sequences_and_strings_are_refused() {
        for value in [":YQ==:", ":YQ:", "::", ":YWI=:", ":+/09:", "%\"f%c3%bc\"", "%\"\"", "@-1"] {
            assert_eq!(parse_list(value.as_bytes()), Some(vec![MemberValue::Other]), "{value}");
        }
        for value in [":Y:", ":YQ=:", ":Y=Q:", ":YWJj=:", ":YQ===:", ":-:", ":YQ", "%\"%C3%BC\"", "%\"%c3\""]
        {
            assert_eq!(parse_list(value.as_bytes()), None, "{value}");
        }
    }

    #[test]
    fn last_member_of_a_key_counts() {
        assert_eq!(members("a=1, b, a=2").unwrap().last(), Some(&("a".to_owned(), MemberValue::Integer(2))));
    }

    #[test]
    fn grammar_error_anywhere_voids_the_whole_field() {
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
