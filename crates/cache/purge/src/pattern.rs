//! Regular expressions that clients send.
//!
//! Invariant: whatever the client sent, a match takes time linear in the text and a compiled
//! expression has bounded size. Look-around and back-references cannot be bounded and are refused
//! with a message that names them. Texts are bytes, not Unicode.

use regex::bytes::{Regex, RegexBuilder};
use regex_automata::Input;
use regex_automata::hybrid::dfa::DFA;
use regex_automata::nfa::thompson;
use regex_automata::util::syntax;
use semantics::canonical_target;
use std::fmt::Write;
use std::sync::{Arc, OnceLock};

/// Longest regular expression, in bytes. Longer expressions in real requests are lists of tags,
/// which [`TagExpression`](crate::TagExpression) reads without compiling them.
pub const PATTERN_BYTES_MAX: usize = 8 * 1024;

/// Memory limit in bytes of a compiled expression, and again of the cache that its search uses.
const PROGRAM_BYTES_MAX: usize = 1024 * 1024;

/// Longest prefix, in bytes, that is turned into an expression.
///
/// A byte takes at most four characters (`\xNN`), and five in the text of a ban, where the
/// backslash is doubled. Both texts therefore stay below the limits of patterns and bans.
const PREFIX_BYTES_MAX: usize = 1_500;

/// Nesting limit of an expression, in groups inside groups.
const NESTING_MAX: u32 = 64;

/// A compiled regular expression. Two patterns are equal if their texts are equal.
#[derive(Clone, Debug)]
pub struct BanPattern {
    regex: Regex,
    case: LetterCase,
    /// Lazy DFA for [`BanPattern::may_match_after`]. It is built at the first use because few
    /// patterns need it. The inner `None` means that it cannot be built.
    automaton: Arc<OnceLock<Option<DFA>>>,
}

/// Why an expression is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// The text is longer than [`PATTERN_BYTES_MAX`].
    #[error("the regular expression is longer than {PATTERN_BYTES_MAX} octets")]
    TooLong,
    /// The compiled expression exceeds its memory limit.
    #[error("the regular expression is too large when compiled; use smaller repetitions")]
    TooLarge,
    /// The text is not UTF-8.
    #[error("the regular expression is not UTF-8 text")]
    NotText,
    /// The text cannot be parsed, or uses syntax that is not supported; with the reason.
    #[error("not a regular expression that can be used here: {0}")]
    Syntax(String),
}

/// Whether a search distinguishes upper and lower case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LetterCase {
    Counts,
    Ignored,
}

impl BanPattern {
    /// Compiles an expression in the syntax of the crate `regex`: Perl's, without the parts that
    /// need backtracking.
    ///
    /// # Errors
    /// [`PatternError`] if the text is too long, too large when compiled, not UTF-8, or not an
    /// expression.
    pub fn compile(text: &[u8]) -> Result<Self, PatternError> {
        Self::compile_with(text, LetterCase::Counts)
    }

    pub(crate) fn compile_with(text: &[u8], case: LetterCase) -> Result<Self, PatternError> {
        if text.len() > PATTERN_BYTES_MAX {
            return Err(PatternError::TooLong);
        }
        let text = std::str::from_utf8(text).map_err(|_| PatternError::NotText)?;
        RegexBuilder::new(text)
            .unicode(false)
            .case_insensitive(case == LetterCase::Ignored)
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

    /// The expression for targets that begin with `prefix` or with its canonical spelling.
    ///
    /// Only the first bytes of a long prefix count, so that the expression matches too much rather
    /// than too little: [`PREFIX_BYTES_MAX`], or half of that for each spelling if they differ.
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

    /// Whether the expression matches somewhere in `text`. It is anchored only if it says so
    /// itself.
    pub fn is_match(&self, text: &[u8]) -> bool {
        self.regex.is_match(text)
    }

    /// Whether any text that begins with `start` could contain a match. `true` if this cannot be
    /// decided.
    pub(crate) fn may_match_after(&self, start: &[u8]) -> bool {
        self.reaches(start).unwrap_or(true)
    }

    /// The expression as it was written.
    pub fn as_str(&self) -> &str {
        self.regex.as_str()
    }

    /// Runs the lazy DFA over `start`. `Some(false)` if no continuation can match, `None` if the
    /// DFA is missing or gives up.
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
        builder.syntax(syntax.case_insensitive(self.case == LetterCase::Ignored)).thompson(thompson);
        builder.build(self.as_str()).ok()
    }
}

/// The expression that matches texts beginning with `text`. Bytes that may be special become
/// `\xNN`.
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

/// The expression that matches this text alone; `None` if the text is longer than
/// [`PREFIX_BYTES_MAX`].
pub(crate) fn of_whole(text: &[u8]) -> Option<String> {
    (text.len() <= PREFIX_BYTES_MAX).then(|| beginning(text) + "$")
}

// The case rule is not compared: in a condition it follows from the subject.
impl PartialEq for BanPattern {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

/// The last line of the parser's message. The lines before it draw the place of the error.
fn reason(message: &str) -> String {
    let last = message.lines().last().unwrap_or_default().trim();
    last.strip_prefix("error: ").unwrap_or(last).to_owned()
}

#[cfg(test)]
mod tests {
    use super::{BanPattern, PATTERN_BYTES_MAX, PatternError};

    #[test]
    fn expressions_search_bytes_not_characters() {
        let pattern = BanPattern::compile(br"^/news/\d+$").unwrap();
        assert!(pattern.is_match(b"/news/12") && !pattern.is_match(b"/news/12a"));
        assert!(BanPattern::compile("ü".as_bytes()).unwrap().is_match("/für".as_bytes()));
        assert!(BanPattern::compile(b".").unwrap().is_match(b"\xff"));
    }

    #[test]
    fn beginning_of_a_text_tells_whether_it_may_still_match() {
        let may = |text: &str, start: &str| {
            BanPattern::compile(text.as_bytes()).unwrap().may_match_after(start.as_bytes())
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
        let ignoring = BanPattern::compile_with(b"^/A.", super::LetterCase::Ignored).unwrap();
        assert!(ignoring.may_match_after(b"/a?"));
    }

    #[test]
    fn unbounded_expressions_are_refused_with_the_reason() {
        let error = |text: &[u8]| BanPattern::compile(text).unwrap_err();
        assert_eq!(error(b"a{100000}"), PatternError::TooLarge);
        assert!(BanPattern::compile(b"a{1000}").is_ok());
        assert_eq!(error(&[b'a'; PATTERN_BYTES_MAX + 1]), PatternError::TooLong);
        assert_eq!(error(b"\xff"), PatternError::NotText);
        assert_eq!(error(b"(a"), PatternError::Syntax("unclosed group".to_owned()));
        assert!(error(br"(?=a)").to_string().contains("look-ahead"), "{}", error(b"(?=a)"));
        assert!(error(br"(a)\1").to_string().contains("backreferences"), "{}", error(br"(a)\1"));
        assert!(matches!(error("(".repeat(100).as_bytes()), PatternError::Syntax(_)));
    }
}
