//! A text, and the problems found in it so far.

use crate::diagnostic::{Diagnostic, Place};
use std::cell::RefCell;
use std::fmt;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use toml::Spanned;
use toml::de::{DeInteger, DeTable};

/// A text and the problems found in it so far.
#[derive(Debug)]
pub struct Reader {
    name: Arc<str>,
    text: Arc<str>,
    problems: RefCell<Vec<Diagnostic>>,
}

impl Reader {
    /// A reader of `text`; `name` is the text's name in messages, usually its path.
    pub fn new(name: &str, text: &str) -> Self {
        Self { name: name.into(), text: text.into(), problems: RefCell::default() }
    }

    /// Parses the text, which must be that of the reader. `None` after a syntax error, which is
    /// then the only problem. A repeated key is a syntax error.
    pub fn parse<'t>(&self, text: &'t str) -> Option<Spanned<DeTable<'t>>> {
        match DeTable::parse(text) {
            Ok(table) => Some(table),
            Err(error) => {
                self.problem(error.span().unwrap_or(0..0), error.message().trim_end(), "");
                None
            }
        }
    }

    /// The place of a byte range of the text.
    pub fn place(&self, span: Range<usize>) -> Place {
        Place::Text { name: self.name.clone(), text: self.text.clone(), span }
    }

    /// Reports a problem at a byte range of the text. An empty `help` adds no hint.
    pub fn problem(&self, span: Range<usize>, message: impl Into<String>, help: &str) {
        let problem = Diagnostic::new(message, self.place(span));
        let problem = if help.is_empty() { problem } else { problem.with_help(help) };
        self.problems.borrow_mut().push(problem);
    }

    /// Whether no problem was found so far.
    pub fn is_clean(&self) -> bool {
        self.problems.borrow().is_empty()
    }

    /// Returns the problems, sorted by position.
    pub fn into_problems(self) -> Vec<Diagnostic> {
        let mut problems = self.problems.into_inner();
        problems.sort_by_key(|problem| match &problem.place {
            Place::Text { span, .. } => span.start,
            _ => 0,
        });
        problems
    }
}

/// Bytes that are no text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotUtf8(Diagnostic);

/// Turns the bytes of a file into its text. `name` is the file's name in messages.
///
/// # Errors
/// If they are not UTF-8.
pub fn decode(name: &str, bytes: Vec<u8>) -> Result<String, NotUtf8> {
    String::from_utf8(bytes).map_err(|error| {
        let start = error.utf8_error().valid_up_to();
        // In the picture, the replacement character replaces the bad bytes.
        let text: Arc<str> = String::from_utf8_lossy(error.as_bytes()).into();
        let span = start..start + char::REPLACEMENT_CHARACTER.len_utf8();
        let problem = Diagnostic::new(
            format!("{name} is not UTF-8 text"),
            Place::Text { name: name.into(), text, span },
        );
        NotUtf8(problem.with_help("save it as UTF-8"))
    })
}

impl NotUtf8 {
    /// The problem with the place of the first bad byte, and a picture of its line.
    pub fn into_problem(self) -> Diagnostic {
        self.0
    }
}

/// One line without the contents of the file, which may be secret.
impl fmt::Display for NotUtf8 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {} is not UTF-8 text", self.0.line().unwrap_or(1))
    }
}

impl std::error::Error for NotUtf8 {}

impl From<NotUtf8> for io::Error {
    fn from(fault: NotUtf8) -> Self {
        Self::new(io::ErrorKind::InvalidData, fault)
    }
}

/// A whole number in decimal digits: TOML also allows `0x`, `0o`, `0b` and `_`. A number beyond 128
/// bits keeps its spelling, and no reader takes it for a number.
pub fn decimal(number: &DeInteger<'_>) -> String {
    i128::from_str_radix(number.as_str(), number.radix())
        .map_or_else(|_| number.to_string(), |number| number.to_string())
}

#[cfg(test)]
mod tests {
    use super::{Reader, decode};
    use crate::Keys;
    use proptest::prelude::*;
    use std::fmt::Write as _;

    /// Reads a text with one key of each kind, as the readers of settings, profiles and ladders do.
    /// Returns the messages.
    fn read(text: &str) -> String {
        let reader = Reader::new("a.toml", text);
        if let Some(table) = reader.parse(text) {
            let mut keys = Keys::new(&reader, table.get_ref(), 0..0);
            keys.required_text("title", "title = \"A\"");
            keys.count("rounds", 1..=99);
            keys.counts("users", 0..=u64::MAX);
            keys.number("share");
            keys.duration("wait");
            keys.flag("quick");
            keys.word("same", &[("content", 1), ("length", 2)]);
            keys.named_texts("names");
            for mut row in keys.tables("row") {
                row.texts("paths");
                row.finish();
            }
            keys.finish();
        }
        reader.into_problems().iter().fold(String::new(), |mut messages, problem| {
            writeln!(messages, "{problem}\n").unwrap();
            messages
        })
    }

    #[test]
    fn every_kind_of_fault_is_shown_with_its_place() {
        let text = "title = ''\nrounds = 100\nusers = [1, -1, 1.5]\nshare = nan\nwait = '5'\nquick = 'yes'\n\
                    same = 'contents'\nnames = { a = 1 }\nround = 1\n\n[[row]]\npath = ['/']\n[[row]]\npaths = '/'\n";
        insta::assert_snapshot!(read(text));
    }

    #[test]
    fn broken_texts_have_one_problem_with_a_place() {
        for (text, told) in [
            ("", "`title` is missing"),
            ("# nothing\n", "`title` is missing"),
            ("title = 'a'\ntitle = 'b'", "a.toml:2:1"),
            ("title = 'a'\nrow.x = 1\n[row]", "a.toml:3:"),
            ("title = 'a", "a.toml:1:"),
            ("title = \"\\q\"", "a.toml:1:"),
            ("title", "a.toml:1:"),
            ("\u{0}", "a.toml:1:"),
            ("title = 'ü'\nü = 1", "a.toml:2:1"),
            ("title = 'a'\r\nrounds = 0\r\n", "a.toml:2:10"),
            ("title = 'a'\nrounds = 99999999999999999999999999999999999999999", "a.toml:2:10"),
            ("title = 'a'\nrounds = 0x64", "a.toml:2:10"),
            ("title = 'a'\nshare = 1e999", "a.toml:2:9"),
            ("title = 'a'\nwait = '99999999999d'", "a.toml:2:8"),
            ("title = 'a'\nquick = 1979-05-27", "a.toml:2:9"),
        ] {
            let messages = read(text);
            let count = messages.matches("error: ").count();
            assert!(messages.contains(told) && count == 1, "{text:?}: {messages}");
        }
        assert_eq!(read("title = 'a'\nrounds = 0x1_0\nusers = [0b11, 0o7, 1_000]\nshare = 1_0.5"), "");
        assert_eq!(read("\u{feff}title = 'a'"), "");
    }

    #[test]
    fn nesting_beyond_the_limit_of_the_parser_is_refused() {
        let deep = format!("title = {}{}", "[".repeat(100_000), "]".repeat(100_000));
        assert!(read(&deep).contains("a.toml:1:"));
    }

    #[test]
    fn bytes_that_are_not_utf8_are_shown_with_their_place() {
        let fault = decode("a.toml", b"title = 'a'\nx = '\xff\xfe'\nsecret = 1\n".to_vec()).unwrap_err();
        assert_eq!(fault.to_string(), "line 2 is not UTF-8 text");
        insta::assert_snapshot!(fault.into_problem());
        assert_eq!(decode("a.toml", "ü".into()), Ok("ü".to_owned()));
        for bytes in [&b"\xff"[..], b"a\n\xe2\x82", b"\r\n\xc0\x80"] {
            assert!(decode("a", bytes.to_vec()).unwrap_err().into_problem().to_string().contains("--> a:"));
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_the_reader_or_the_picture_panic(
            text in r#"((title|rounds|row|\[\[row\]\]|\[|\]|=|'|"|[0-9]|\n|\r|ü|\t|\PC){0,3}){0,12}"#
        ) {
            read(&text);
        }

        #[test]
        fn no_bytes_make_the_decoder_panic(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            if let Err(fault) = decode("a.toml", bytes) {
                prop_assert!(fault.into_problem().to_string().contains("--> a.toml:"));
            }
        }
    }
}
