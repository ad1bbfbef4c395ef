//! Bans: conditions over stored responses, all of which must hold.
//!
//! The language is that of Varnish's `ban`, as far as it can be asked of a stored response:
//!
//! ```text
//! req.url ~ "^/news" && obj.http.content-type ~ "html"
//! ```
//!
//! Invariant: a ban only asks what is stored with a response, so it can be decided for each at any later time.

use crate::malformed::excerpt;
use crate::pattern::{Case, Pattern, PatternError};
use crate::tags::TAG_HEADERS;
use bytes::Bytes;
use message::{Fields, Status};
use std::fmt;

/// Longer expressions are refused.
pub const BAN_BYTES_MAX: usize = 8 * 1024;

/// Most conditions of one ban.
pub const CONDITIONS_MAX: usize = 16;

/// A ban.
#[derive(Clone, Debug, PartialEq)]
pub struct Ban(Vec<Condition>);

/// One condition.
#[derive(Clone, Debug, PartialEq)]
pub struct Condition {
    /// What is looked at.
    pub subject: Subject,
    /// What must hold of it.
    pub test: Test,
}

/// What a condition looks at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// The page's path and query: `req.url`.
    Target,
    /// The page's host, with its port or without: `req.http.host`. Letter case does not count.
    Host,
    /// The response's status code: `obj.status`.
    Status,
    /// The lines of a header of the response, by its name: `obj.http.NAME`.
    Field(Bytes),
    /// The response's tags: `obj.http.NAME` with a header that carries tags. Each tag by itself, and all of them joined
    /// by commas.
    Tags,
}

/// What must hold. Of several values one is enough for [`Test::Equals`] and [`Test::Matches`], and none may be found by
/// [`Test::Differs`] and [`Test::Avoids`]. If there is no value at all only [`Test::Differs`] holds.
#[derive(Clone, Debug, PartialEq)]
pub enum Test {
    /// `==`
    Equals(Bytes),
    /// `!=`
    Differs(Bytes),
    /// `~`
    Matches(Pattern),
    /// `!~`
    Avoids(Pattern),
}

/// What a ban is decided by.
#[derive(Clone, Copy, Debug)]
pub struct Stored<'a> {
    /// The page's host, lower-case, with its port where that is not the default.
    pub host: &'a [u8],
    /// The page's path and query.
    pub target: &'a [u8],
    /// The response's status.
    pub status: Status,
    /// The response's header fields.
    pub fields: &'a Fields,
    /// The response's tags.
    pub tags: &'a [Bytes],
}

/// Why a ban expression is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the ban expression cannot be read at column {column}: {fault}")]
pub struct BanError {
    /// Where, in octets from 1.
    pub column: usize,
    /// What is wrong there.
    pub fault: BanFault,
}

/// What is wrong in a ban expression.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BanFault {
    /// Something else was expected.
    #[error("expected {expected}, found {found}")]
    Expected {
        /// What may stand there.
        expected: &'static str,
        /// What does.
        found: String,
    },
    /// Only the host is kept of a request.
    #[error("{0} is not kept with a response; of the request there are req.url and req.http.host")]
    OfTheRequest(String),
    /// A field of Varnish's that is not there.
    #[error("{0} cannot be asked; there are req.url, req.http.host, obj.status and obj.http.NAME")]
    UnknownField(String),
    /// The quote is not closed.
    #[error("the quote is not closed")]
    OpenQuote,
    /// More than [`CONDITIONS_MAX`].
    #[error("more than {CONDITIONS_MAX} conditions")]
    TooManyConditions,
    /// More than [`BAN_BYTES_MAX`].
    #[error("longer than {BAN_BYTES_MAX} octets")]
    TooLong,
    /// The regular expression.
    #[error(transparent)]
    Pattern(PatternError),
}

/// What a condition may look at, as it is written, with what that is; for the documentation.
pub(crate) const SUBJECTS: &[(&str, &str)] = &[
    ("req.url", "path and query of the page"),
    ("req.http.host", "host of the page, with its port or without; letter case does not count"),
    ("obj.status", "status code of the stored response"),
    ("obj.http.NAME", "a header of the stored response; each of its lines"),
    (
        "obj.http.X-Cache-Tags, or another header that carries tags",
        "the tags, whichever header stated them: each by itself, and all joined by commas",
    ),
];

/// The operators with what they mean; for the documentation.
pub(crate) const OPERATORS: &[(&str, &str)] = &[
    ("==", "is exactly this"),
    ("!=", "is not this, or is missing"),
    ("~", "the regular expression finds something in it"),
    ("!~", "it is there, and the regular expression finds nothing in it"),
];

impl Ban {
    /// Reads an expression: conditions `FIELD OPERATOR ARGUMENT` joined by `&&`. An argument is a word or stands between
    /// double quotes, where `\"` and `\\` stand for a quote and a backslash; any other backslash stands for itself.
    ///
    /// # Errors
    /// [`BanError`], with the place.
    pub fn parse(text: &str) -> Result<Self, BanError> {
        Reader { text: text.as_bytes(), at: 0 }.ban()
    }

    /// A ban of these conditions.
    pub(crate) const fn new(conditions: Vec<Condition>) -> Self {
        Self(conditions)
    }

    /// The conditions; there is at least one.
    pub fn conditions(&self) -> &[Condition] {
        &self.0
    }

    /// Whether all conditions hold.
    pub fn matches(&self, stored: &Stored<'_>) -> bool {
        self.0.iter().all(|condition| condition.holds(stored))
    }
}

impl Condition {
    fn holds(&self, stored: &Stored<'_>) -> bool {
        match &self.subject {
            Subject::Target => self.test.holds(&[stored.target]),
            Subject::Host => self.test.holds(&[stored.host, h1::split_port(stored.host).0]),
            Subject::Status => self.test.holds(&[stored.status.to_string().as_bytes()]),
            Subject::Field(name) => {
                let lines = stored.fields.iter().filter(|field| field.name.eq_ignore_ascii_case(name));
                self.test.holds(&lines.map(|field| &*field.value).collect::<Vec<_>>())
            }
            Subject::Tags => {
                let joined = stored.tags.join(&b","[..]);
                let mut values: Vec<_> = stored.tags.iter().map(|tag| &**tag).collect();
                if values.len() > 1 {
                    values.push(&joined);
                }
                self.test.holds(&values)
            }
        }
    }
}

impl Test {
    fn holds(&self, values: &[&[u8]]) -> bool {
        match self {
            Self::Equals(text) => values.iter().any(|value| **value == **text),
            Self::Differs(text) => values.iter().all(|value| **value != **text),
            Self::Matches(pattern) => values.iter().any(|value| pattern.is_match(value)),
            Self::Avoids(pattern) => {
                !values.is_empty() && values.iter().all(|value| !pattern.is_match(value))
            }
        }
    }
}

/// As it can be read again.
impl fmt::Display for Ban {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, condition) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { " && " };
            write!(f, "{separator}{condition}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (operator, argument) = match &self.test {
            Test::Equals(text) => ("==", &**text),
            Test::Differs(text) => ("!=", &**text),
            Test::Matches(pattern) => ("~", pattern.as_str().as_bytes()),
            Test::Avoids(pattern) => ("!~", pattern.as_str().as_bytes()),
        };
        let argument = String::from_utf8_lossy(argument).replace('\\', r"\\").replace('"', r#"\""#);
        write!(f, "{} {operator} \"{argument}\"", self.subject)
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Target => f.write_str("req.url"),
            Self::Host => f.write_str("req.http.host"),
            Self::Status => f.write_str("obj.status"),
            Self::Field(name) => write!(f, "obj.http.{}", name.escape_ascii()),
            Self::Tags => f.write_str("obj.http.X-Cache-Tags"),
        }
    }
}

/// Where the reader stands in an expression.
struct Reader<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn ban(mut self) -> Result<Ban, BanError> {
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
                return Ok(Ban(conditions));
            }
            if !self.take(b"&&") {
                return Err(self.expected("`&&` or the end"));
            }
        }
    }

    fn condition(&mut self) -> Result<Condition, BanError> {
        let subject = self.subject()?;
        let operator = self.operator()?;
        self.skip_blanks();
        let begin = self.at;
        let argument = self.argument()?;
        let case = if subject == Subject::Host { Case::Ignored } else { Case::Counts };
        let pattern = |text: &[u8]| {
            let error = |error| BanError { column: begin + 1, fault: BanFault::Pattern(error) };
            Pattern::compile_with(text, case).map_err(error)
        };
        let exact = |mut text: Vec<u8>| {
            if case == Case::Ignored {
                text.make_ascii_lowercase();
            }
            Bytes::from(text)
        };
        let test = match operator {
            Operator::Equals => Test::Equals(exact(argument)),
            Operator::Differs => Test::Differs(exact(argument)),
            Operator::Matches => Test::Matches(pattern(&argument)?),
            Operator::Avoids => Test::Avoids(pattern(&argument)?),
        };
        Ok(Condition { subject, test })
    }

    fn subject(&mut self) -> Result<Subject, BanError> {
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
                Subject::Tags
            } else {
                Subject::Field(Bytes::from(name.to_ascii_lowercase()))
            });
        }
        match word.to_ascii_lowercase().as_slice() {
            b"req.url" => Ok(Subject::Target),
            b"req.http.host" => Ok(Subject::Host),
            b"obj.status" => Ok(Subject::Status),
            other if other.starts_with(b"req.") => Err(fault(BanFault::OfTheRequest(excerpt(word)))),
            _ => Err(fault(BanFault::UnknownField(excerpt(word)))),
        }
    }

    fn operator(&mut self) -> Result<Operator, BanError> {
        self.skip_blanks();
        let operators = [
            (&b"=="[..], Operator::Equals),
            (b"!=", Operator::Differs),
            (b"!~", Operator::Avoids),
            (b"~", Operator::Matches),
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

    /// The octets up to white space or one of `stops`.
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
        let mut word = Reader { text: self.text, at: self.at };
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

/// An operator as it is written.
#[derive(Clone, Copy)]
enum Operator {
    Equals,
    Differs,
    Matches,
    Avoids,
}

#[cfg(test)]
mod tests {
    use super::{BAN_BYTES_MAX, Ban, CONDITIONS_MAX, OPERATORS, Stored};
    use bytes::Bytes;
    use message::{Fields, Status};

    fn holds(ban: &str) -> bool {
        let mut fields = Fields::new();
        fields.push("Content-Type", "text/html; charset=utf-8");
        fields.push("Link", "<a>");
        fields.push("link", "<b>");
        let tags = [Bytes::from_static(b"node:1"), Bytes::from_static(b"rendered")];
        let stored = Stored {
            host: b"www.example.org:8080",
            target: b"/news/1?page=2",
            status: Status::OK,
            fields: &fields,
            tags: &tags,
        };
        let ban = Ban::parse(ban).unwrap_or_else(|error| panic!("{ban}: {error}"));
        let again = Ban::parse(&ban.to_string()).unwrap();
        assert_eq!(again, ban, "written and read again");
        ban.matches(&stored)
    }

    #[test]
    fn conditions_hold_as_in_varnish() {
        for ban in [
            r#"req.url ~ "^/news" && obj.http.content-type ~ "html""#,
            "req.url == /news/1?page=2",
            "req.url != /news/1",
            r"req.url ~ ^/news/\d",
            r#"req.url ~ "^/news/\\d""#,
            r#"req.url ~ "^/news/\d""#,
            "req.url !~ ^/blog",
            r#"req.http.host ~ "^(?i)(www\\.)?example\\.org$" && req.url ~ ."#,
            "req.http.host == WWW.Example.org",
            "req.http.Host == www.example.org:8080",
            "obj.status == 200 && obj.status != 404",
            "obj.http.Content-Type ~ text/html",
            "obj.http.link == <b>",
            "obj.http.x-missing != a",
            "obj.http.x-cache-tags ~ (^|,)node:1(,|$)",
            "obj.http.Surrogate-Key == node:1",
            "obj.http.xkey ~ node:1,rendered",
            "req.url~^/news&&req.url==/news/1?page=2 && obj.status==200".replace("&&req", " && req").as_str(),
        ] {
            assert!(holds(ban), "{ban}");
        }
        for ban in [
            "req.url ~ ^/blog",
            "req.url ~ ^/news && obj.status == 404",
            "req.http.host == example.org",
            "req.http.host != www.example.org",
            "obj.http.x-missing == a",
            "obj.http.x-missing ~ .",
            "obj.http.x-missing !~ a",
            "obj.http.link != <b>",
            "obj.http.link !~ a",
            "obj.http.cache-tags == node",
            "obj.http.xkey ~ ^node:1$ && obj.http.xkey !~ rendered",
        ] {
            assert!(!holds(ban), "{ban}");
        }
    }

    #[test]
    fn faults_are_told_with_the_column_and_what_was_expected() {
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
            let error = Ban::parse(ban).unwrap_err().to_string();
            assert_eq!(error, format!("the ban expression cannot be read {message}"), "{ban}");
        }
    }

    #[test]
    fn limits_are_kept() {
        let ban = |count: usize| vec!["req.url ~ a"; count].join(" && ");
        assert_eq!(Ban::parse(&ban(CONDITIONS_MAX)).unwrap().conditions().len(), CONDITIONS_MAX);
        assert!(Ban::parse(&ban(CONDITIONS_MAX + 1)).is_err());
        let long = |bytes: usize| format!("req.url == {}", "a".repeat(bytes - 11));
        assert!(Ban::parse(&long(BAN_BYTES_MAX)).is_ok() && Ban::parse(&long(BAN_BYTES_MAX + 1)).is_err());
    }

    #[test]
    fn the_documented_operators_are_those_that_are_read() {
        for (operator, _) in OPERATORS {
            assert!(Ban::parse(&format!("req.url {operator} a")).is_ok(), "{operator}");
        }
    }
}
