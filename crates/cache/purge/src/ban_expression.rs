//! Ban expressions: the part of the language of Varnish's `ban` that looks at stored responses.
//!
//! ```text
//! req.url ~ "^/news" && obj.http.content-type ~ "html"
//! ```
//!
//! Conditions `FIELD OPERATOR ARGUMENT` are joined by `&&`. An argument is a word or a text in
//! double quotes. In quotes, `\"` means a quote and `\\` a backslash; any other backslash is taken
//! literally.
//!
//! Invariant: every error names the column and the text that was expected there.

use crate::ban::{BanCondition, BanSubject, BanTest};
use crate::excerpt::excerpt;
use crate::pattern::{BanPattern, LetterCase, PatternError};
use crate::tag_headers::TAG_HEADERS;
use bytes::Bytes;

/// Longest ban expression, in bytes.
pub const BAN_BYTES_MAX: usize = 8 * 1024;

/// Largest number of conditions in a ban.
pub const CONDITIONS_MAX: usize = 16;

/// Why a ban expression is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the ban expression cannot be read at column {column}: {fault}")]
pub struct BanError {
    /// The position of the fault, in bytes, counted from 1.
    pub column: usize,
    /// The fault.
    pub fault: BanFault,
}

/// A fault in a ban expression.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BanFault {
    /// An unexpected text.
    #[error("expected {expected}, found {found}")]
    Expected {
        /// The texts that are possible there.
        expected: &'static str,
        /// The text in that place.
        found: String,
    },
    /// A field of the request. Of a request, only the URL and the host are stored.
    #[error("{0} is not kept with a response; of the request there are req.url and req.http.host")]
    OfTheRequest(String),
    /// A field that Varnish has and Petasos does not.
    #[error("{0} cannot be asked; there are req.url, req.http.host, obj.status and obj.http.NAME")]
    UnknownField(String),
    /// A quote without its end.
    #[error("the quote is not closed")]
    OpenQuote,
    /// More conditions than [`CONDITIONS_MAX`].
    #[error("more than {CONDITIONS_MAX} conditions")]
    TooManyConditions,
    /// An expression longer than [`BAN_BYTES_MAX`].
    #[error("longer than {BAN_BYTES_MAX} octets")]
    TooLong,
    /// An invalid regular expression.
    #[error(transparent)]
    Pattern(PatternError),
}

/// The fields that a condition may test, each with its meaning, for the documentation.
pub(crate) const SUBJECTS: &[(&str, &str)] = &[
    ("req.url", "path and query of the page"),
    ("req.http.host", "host of the page, with or without its port; letter case does not count"),
    ("obj.status", "status code of the stored response"),
    ("obj.http.NAME", "a header of the stored response; each of its lines counts separately"),
    (
        "obj.http.X-Cache-Tags, or another header that carries tags",
        "the tags, from whichever header: each alone, and all in alphabetical order joined by commas",
    ),
];

/// The operators with their meanings, for the documentation.
pub(crate) const OPERATORS: &[(&str, &str)] = &[
    ("==", "is exactly the argument"),
    ("!=", "differs from the argument, or is missing"),
    ("~", "contains a match of the regular expression"),
    ("!~", "is present and contains no match of the regular expression"),
];

/// Parses an expression into its conditions, at least one.
pub(crate) fn read(text: &str) -> Result<Vec<BanCondition>, BanError> {
    BanParser { text: text.as_bytes(), at: 0 }.conditions()
}

/// A position in an expression.
struct BanParser<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> BanParser<'a> {
    fn conditions(mut self) -> Result<Vec<BanCondition>, BanError> {
        if self.text.len() > BAN_BYTES_MAX {
            return Err(self.fault(BanFault::TooLong));
        }
        let mut conditions = Vec::new();
        loop {
            if conditions.len() == CONDITIONS_MAX {
                return Err(self.fault(BanFault::TooManyConditions));
            }
            conditions.push(self.condition()?);
            self.skip_blanks();
            if self.rest().is_empty() {
                return Ok(conditions);
            }
            if !self.take(b"&&") {
                return Err(self.expected("`&&` or the end"));
            }
        }
    }

    fn condition(&mut self) -> Result<BanCondition, BanError> {
        let subject = self.subject()?;
        let operator = self.operator()?;
        self.skip_blanks();
        let begin = self.at;
        let argument = self.argument()?;
        let case = if subject == BanSubject::Host { LetterCase::Ignored } else { LetterCase::Counts };
        let pattern = |text: &[u8]| {
            let error = |error| BanError { column: begin + 1, fault: BanFault::Pattern(error) };
            BanPattern::compile_with(text, case).map_err(error)
        };
        let exact = |mut text: Vec<u8>| {
            if case == LetterCase::Ignored {
                text.make_ascii_lowercase();
                // Stored hosts have no final dot.
                text.truncate(text.strip_suffix(b".").map_or(text.len(), <[u8]>::len));
            }
            Bytes::from(text)
        };
        let test = match operator {
            BanOperator::Equals => BanTest::Equals(exact(argument)),
            BanOperator::Differs => BanTest::Differs(exact(argument)),
            BanOperator::Matches => BanTest::Matches(pattern(&argument)?),
            BanOperator::Avoids => BanTest::Avoids(pattern(&argument)?),
        };
        Ok(BanCondition { subject, test })
    }

    fn subject(&mut self) -> Result<BanSubject, BanError> {
        self.skip_blanks();
        let begin = self.at;
        let word = self.word(b"=!~<>&\"");
        if word.is_empty() {
            return Err(self.expected("a field, such as req.url or obj.http.content-type"));
        }
        let fault = |fault| BanError { column: begin + 1, fault };
        if let Some(name) = word.strip_prefix(b"obj.http.") {
            let is_name = |octet: &u8| octet.is_ascii_alphanumeric() || b"-_.".contains(octet);
            if name.is_empty() || !name.iter().all(is_name) {
                let found = if name.is_empty() { "nothing".to_owned() } else { excerpt(name) };
                return Err(fault(BanFault::Expected {
                    expected: "the name of a header after obj.http.",
                    found,
                }));
            }
            let carries_tags = |name: &[u8]| {
                TAG_HEADERS.iter().any(|header| header.name.as_bytes().eq_ignore_ascii_case(name))
            };
            return Ok(if carries_tags(name) {
                BanSubject::Tags
            } else {
                BanSubject::Field(Bytes::from(name.to_ascii_lowercase()))
            });
        }
        match word.to_ascii_lowercase().as_slice() {
            b"req.url" => Ok(BanSubject::Target),
            b"req.http.host" => Ok(BanSubject::Host),
            b"obj.status" => Ok(BanSubject::Status),
            other if other.starts_with(b"req.") => Err(fault(BanFault::OfTheRequest(excerpt(word)))),
            _ => Err(fault(BanFault::UnknownField(excerpt(word)))),
        }
    }

    fn operator(&mut self) -> Result<BanOperator, BanError> {
        self.skip_blanks();
        let operators = [
            (&b"=="[..], BanOperator::Equals),
            (b"!=", BanOperator::Differs),
            (b"!~", BanOperator::Avoids),
            (b"~", BanOperator::Matches),
        ];
        let found = operators.into_iter().find(|(text, _)| self.take(text));
        found.map(|(_, operator)| operator).ok_or_else(|| self.expected("one of == != ~ !~"))
    }

    fn argument(&mut self) -> Result<Vec<u8>, BanError> {
        let begin = self.at;
        if !self.take(b"\"") {
            let word = self.word(b"");
            return if word.is_empty() || word == b"&&" {
                self.at = begin;
                Err(self.expected("a text to compare with"))
            } else {
                Ok(word.to_vec())
            };
        }
        let mut argument = Vec::new();
        loop {
            match *self.rest() {
                [] => return Err(BanError { column: begin + 1, fault: BanFault::OpenQuote }),
                [b'"', ..] => {
                    self.at += 1;
                    return Ok(argument);
                }
                [b'\\', escaped @ (b'"' | b'\\'), ..] => {
                    argument.push(escaped);
                    self.at += 2;
                }
                [octet, ..] => {
                    argument.push(octet);
                    self.at += 1;
                }
            }
        }
    }

    /// Consumes the bytes up to white space or one of `stops`.
    fn word(&mut self, stops: &[u8]) -> &'a [u8] {
        let rest = self.rest();
        let ends = |octet: &u8| octet.is_ascii_whitespace() || stops.contains(octet);
        let (word, _) = rest.split_at(rest.iter().position(ends).unwrap_or(rest.len()));
        self.at += word.len();
        word
    }

    fn skip_blanks(&mut self) {
        self.at += self.rest().iter().take_while(|octet| octet.is_ascii_whitespace()).count();
    }

    fn take(&mut self, text: &[u8]) -> bool {
        let taken = self.rest().starts_with(text);
        if taken {
            self.at += text.len();
        }
        taken
    }

    fn rest(&self) -> &'a [u8] {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn expected(&self, expected: &'static str) -> BanError {
        let mut word = BanParser { text: self.text, at: self.at };
        let found = match word.word(b"") {
            [] => "the end".to_owned(),
            word => excerpt(word),
        };
        self.fault(BanFault::Expected { expected, found })
    }

    fn fault(&self, fault: BanFault) -> BanError {
        BanError { column: self.at + 1, fault }
    }
}

/// An operator.
#[derive(Clone, Copy)]
enum BanOperator {
    Equals,
    Differs,
    Matches,
    Avoids,
}

#[cfg(test)]
mod tests {
    use super::{BAN_BYTES_MAX, CONDITIONS_MAX, OPERATORS};
    use crate::ban::ConditionBan;

    #[test]
    fn errors_name_the_column_and_the_expected_text() {
        for (ban, message) in [
            ("", "at column 1: expected a field, such as req.url or obj.http.content-type, found the end"),
            ("~ a", "at column 1: expected a field, such as req.url or obj.http.content-type, found `~`"),
            ("req.url", "at column 8: expected one of == != ~ !~, found the end"),
            ("req.url > 1", "at column 9: expected one of == != ~ !~, found `>`"),
            ("req.url ~", "at column 10: expected a text to compare with, found the end"),
            ("req.url ~ && a", "at column 11: expected a text to compare with, found `&&`"),
            ("req.url ~ a b", "at column 13: expected `&&` or the end, found `b`"),
            (
                "req.url ~ a &&",
                "at column 15: expected a field, such as req.url or obj.http.content-type, found the end",
            ),
            ("req.url ~ a || b", "at column 13: expected `&&` or the end, found `||`"),
            (r#"req.url ~ "a"#, "at column 11: the quote is not closed"),
            ("obj.http. ~ a", "at column 1: expected the name of a header after obj.http., found nothing"),
            (
                r"obj.http.a\b ~ a",
                r"at column 1: expected the name of a header after obj.http., found `a\\b`",
            ),
            (
                "req.http.cookie ~ a",
                "at column 1: `req.http.cookie` is not kept with a response; of the request there are req.url and req.http.host",
            ),
            (
                "obj.age > 1h",
                "at column 1: `obj.age` cannot be asked; there are req.url, req.http.host, obj.status and obj.http.NAME",
            ),
            (
                "req.url == a && req.url ~ (b",
                "at column 27: not a regular expression that can be used here: unclosed group",
            ),
        ] {
            let error = ConditionBan::parse(ban).unwrap_err().to_string();
            assert_eq!(error, format!("the ban expression cannot be read {message}"), "{ban}");
        }
    }

    #[test]
    fn conditions_and_length_are_limited() {
        let ban = |count: usize| vec!["req.url ~ a"; count].join(" && ");
        assert_eq!(ConditionBan::parse(&ban(CONDITIONS_MAX)).unwrap().conditions().len(), CONDITIONS_MAX);
        assert!(ConditionBan::parse(&ban(CONDITIONS_MAX + 1)).is_err());
        let long = |bytes: usize| format!("req.url == {}", "a".repeat(bytes - 11));
        assert!(
            ConditionBan::parse(&long(BAN_BYTES_MAX)).is_ok()
                && ConditionBan::parse(&long(BAN_BYTES_MAX + 1)).is_err()
        );
    }

    #[test]
    fn documented_operators_can_be_parsed() {
        for (operator, _) in OPERATORS {
            assert!(ConditionBan::parse(&format!("req.url {operator} a")).is_ok(), "{operator}");
        }
    }
}
