//! Regular expressions that a client sent.
//!
//! Invariant: matching takes time linear in the text, and compiling is bounded in memory, whatever the client sent.
//! What needs more than that (look-around, back-references) is refused by name. Texts are octets, not Unicode.

use regex::bytes::{Regex, RegexBuilder};
use regex_automata::Input;
use regex_automata::hybrid::dfa::DFA;
use regex_automata::nfa::thompson;
use regex_automata::util::syntax;
use semantics::canonical_target;
use std::fmt::Write;
use std::sync::{Arc, OnceLock};

/// Longer expressions are refused. What is longer in the field is a list of tags, which needs none.
pub const PATTERN_BYTES_MAX: usize = 8 * 1024;

/// Octets that a compiled expression may occupy, and that a search may use beside it.
const PROGRAM_BYTES_MAX: usize = 1024 * 1024;

/// Octets of a prefix that become an expression: each of at most four, and five in the text of a ban.
const PREFIX_BYTES_MAX: usize = 1_500;

/// Groups inside groups.
const NESTING_MAX: u32 = 64;

/// A compiled regular expression. Two are equal if they are spelled alike.
#[derive(Clone, Debug)]
pub struct Pattern {
    regex: Regex,
    case: Case,
    /// Built when it is first asked for, as few patterns need it; `None` inside where it cannot be built.
    automaton: Arc<OnceLock<Option<DFA>>>,
}

/// Why an expression is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// It is longer than [`PATTERN_BYTES_MAX`].
    #[error("the regular expression is longer than {PATTERN_BYTES_MAX} octets")]
    TooLong,
    /// It compiles to something too large.
    #[error("the regular expression is too large when compiled; use smaller repetitions")]
    TooLarge,
    /// It is not UTF-8.
    #[error("the regular expression is not UTF-8 text")]
    NotText,
    /// It cannot be read; with the reason.
    #[error("not a regular expression that can be used here: {0}")]
    Syntax(String),
}

/// Whether letter case counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Case {
    Counts,
    Ignored,
}

impl Pattern {
    /// Compiles an expression in the syntax of the crate `regex`, which is that of Perl without what needs
    /// backtracking.
    ///
    /// # Errors
    /// [`PatternError`].
    pub fn compile(text: &[u8]) -> Result<Self, PatternError> {
        Self::compile_with(text, Case::Counts)
    }

    pub(crate) fn compile_with(text: &[u8], case: Case) -> Result<Self, PatternError> {
        if text.len() > PATTERN_BYTES_MAX {
            return Err(PatternError::TooLong);
        }
        let text = std::str::from_utf8(text).map_err(|_| PatternError::NotText)?;
        RegexBuilder::new(text)
            .unicode(false)
            .case_insensitive(case == Case::Ignored)
            .size_limit(PROGRAM_BYTES_MAX)
            .dfa_size_limit(PROGRAM_BYTES_MAX)
            .nest_limit(NESTING_MAX)
            .build()
            .map(|regex| Self { regex, case, automaton: Arc::default() })
            .map_err(|error| match error {
                regex::Error::CompiledTooBig(_) => PatternError::TooLarge,
                other => PatternError::Syntax(reason(&other.to_string())),
            })
    }

    /// What finds the targets that begin so, or whose canonical spelling begins as that of the prefix. Of a prefix that
    /// is too long for an expression only the first octets count.
    pub(crate) fn of_prefix(prefix: &[u8]) -> Self {
        let canonical = canonical_target(prefix);
        let cut = |text: &[u8], bytes_max: usize| beginning(text.get(..bytes_max).unwrap_or(text));
        let text = if *canonical == *prefix {
            cut(prefix, PREFIX_BYTES_MAX)
        } else {
            let half = PREFIX_BYTES_MAX / 2;
            format!("(?:{}|{})", cut(prefix, half), cut(&canonical, half))
        };
        #[expect(
            clippy::expect_used,
            reason = "an anchor and escaped octets, which a test compiles at their most"
        )]
        Self::compile(text.as_bytes()).expect("literal octets are an expression")
    }

    /// Whether the expression finds something in `text`; it is not anchored unless it says so.
    pub fn is_match(&self, text: &[u8]) -> bool {
        self.regex.is_match(text)
    }

    /// Whether there may be a text that begins with `start` in which the expression finds something. In doubt there is.
    pub(crate) fn may_match_after(&self, start: &[u8]) -> bool {
        self.reaches(start).unwrap_or(true)
    }

    /// The expression as it was written.
    pub fn as_str(&self) -> &str {
        self.regex.as_str()
    }

    /// Whether an automaton that has read `start` has found something or goes on; `None` if none can tell.
    fn reaches(&self, start: &[u8]) -> Option<bool> {
        let dfa = self.automaton.get_or_init(|| self.build()).as_ref()?;
        let mut cache = dfa.create_cache();
        let mut state = dfa.start_state_forward(&mut cache, &Input::new(b"")).ok()?;
        for octet in start {
            state = dfa.next_state(&mut cache, state, *octet).ok()?;
            if state.is_match() {
                return Some(true);
            }
            if state.is_dead() {
                return Some(false);
            }
            if state.is_quit() {
                return None;
            }
        }
        Some(true)
    }

    fn build(&self) -> Option<DFA> {
        let syntax = syntax::Config::new().unicode(false).utf8(false).nest_limit(NESTING_MAX);
        let thompson = thompson::Config::new().utf8(false).nfa_size_limit(Some(PROGRAM_BYTES_MAX));
        let mut builder = DFA::builder();
        builder.syntax(syntax.case_insensitive(self.case == Case::Ignored)).thompson(thompson);
        builder.build(self.as_str()).ok()
    }
}

/// The expression that finds what begins with this text.
fn beginning(text: &[u8]) -> String {
    let mut expression = String::from("^");
    for octet in text {
        // Writing into a String cannot fail.
        let _ = match octet {
            b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' | b'/' | b'=' | b'_' | b'%' => {
                write!(expression, "{}", char::from(*octet))
            }
            _ => write!(expression, r"\x{octet:02x}"),
        };
    }
    expression
}

/// The expression that finds this text alone; `None` if that is too long for an expression.
pub(crate) fn of_whole(text: &[u8]) -> Option<String> {
    (text.len() <= PREFIX_BYTES_MAX).then(|| beginning(text) + "$")
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

/// The reason in the parser's message, which draws the place over several lines before it.
fn reason(message: &str) -> String {
    let last = message.lines().last().unwrap_or_default().trim();
    last.strip_prefix("error: ").unwrap_or(last).to_owned()
}

#[cfg(test)]
mod tests {
    use super::{PATTERN_BYTES_MAX, Pattern, PatternError};

    #[test]
    fn searches_octets() {
        let pattern = Pattern::compile(br"^/news/\d+$").unwrap();
        assert!(pattern.is_match(b"/news/12") && !pattern.is_match(b"/news/12a"));
        assert!(Pattern::compile("ü".as_bytes()).unwrap().is_match("/für".as_bytes()));
        assert!(Pattern::compile(b".").unwrap().is_match(b"\xff"));
    }

    #[test]
    fn a_beginning_may_go_on_to_a_match() {
        let may = |text: &str, start: &str| {
            Pattern::compile(text.as_bytes()).unwrap().may_match_after(start.as_bytes())
        };
        for (text, start) in [
            ("b", "/a?"),
            ("^/a", "/a?"),
            ("^/a.x$", "/a?"),
            ("a", "/a?"),
            ("", "x"),
            ("^/[a-z]+.b=", "/news?"),
        ] {
            assert!(may(text, start), "{text} {start}");
        }
        for (text, start) in
            [("^/a$", "/a?"), ("^/b", "/a?"), ("^/a/", "/a?"), ("^/A.", "/a?"), ("^(a|/b)", "/a?")]
        {
            assert!(!may(text, start), "{text} {start}");
        }
        let ignoring = Pattern::compile_with(b"^/A.", super::Case::Ignored).unwrap();
        assert!(ignoring.may_match_after(b"/a?"));
    }

    #[test]
    fn what_cannot_be_bounded_is_refused_with_the_reason() {
        let error = |text: &[u8]| Pattern::compile(text).unwrap_err();
        assert_eq!(error(b"a{100000}"), PatternError::TooLarge);
        assert!(Pattern::compile(b"a{1000}").is_ok());
        assert_eq!(error(&[b'a'; PATTERN_BYTES_MAX + 1]), PatternError::TooLong);
        assert_eq!(error(b"\xff"), PatternError::NotText);
        assert_eq!(error(b"(a"), PatternError::Syntax("unclosed group".to_owned()));
        assert!(error(br"(?=a)").to_string().contains("look-ahead"), "{}", error(b"(?=a)"));
        assert!(error(br"(a)\1").to_string().contains("backreferences"), "{}", error(br"(a)\1"));
        assert!(matches!(error("(".repeat(100).as_bytes()), PatternError::Syntax(_)));
    }
}
