//! Messages to the operator about a wrong file or flag: the problem, its place and its fix.
//!
//! They are used for every file that a person writes (settings, profiles, ladders), so that all
//! messages look alike.

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// The place where a value was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A range in a text.
    Text {
        /// The text's name in messages, usually its path.
        name: Arc<str>,
        /// The whole text.
        text: Arc<str>,
        /// The range in `text`, in bytes.
        span: Range<usize>,
    },
    /// A flag of the command line, including its dashes: `--listen`.
    Flag(String),
    /// No place: the value is a default, or the problem is that a value is missing.
    Default,
}

/// One problem, with its place and its fix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// The problem in one line, without a full stop.
    pub message: String,
    /// The place of the problem.
    pub place: Place,
    /// The fix, unless the message already states it.
    pub help: Option<String>,
    /// Whether the file may still be used.
    pub severity: Severity,
}

/// Whether a file with the problem may still be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// The file is refused.
    Error,
    /// The file can be used; the operator should know of the problem.
    Warning,
}

impl Diagnostic {
    /// An error at a place, without help.
    pub fn new(message: impl Into<String>, place: Place) -> Self {
        Self { message: message.into(), place, help: None, severity: Severity::Error }
    }

    /// A warning at a place, without help.
    pub fn warning(message: impl Into<String>, place: Place) -> Self {
        Self { severity: Severity::Warning, ..Self::new(message, place) }
    }

    /// Adds the fix.
    #[must_use]
    pub fn with_help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// The line of the problem, counted from 1. `None` if the place is not in a text.
    pub fn line(&self) -> Option<usize> {
        match &self.place {
            Place::Text { text, span, .. } => {
                Some(text.get(..span.start).map_or(1, |before| before.matches('\n').count() + 1))
            }
            _ => None,
        }
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (title, snippet) = match &self.place {
            Place::Text { name, text, span } => {
                let snippet = Snippet::source(&**text)
                    .path(&**name)
                    .annotation(AnnotationKind::Primary.span(span.clone()));
                (self.message.clone(), Some(snippet))
            }
            Place::Flag(flag) => (format!("{flag}: {}", self.message), None),
            Place::Default => (self.message.clone(), None),
        };
        let level = match self.severity {
            Severity::Error => Level::ERROR,
            Severity::Warning => Level::WARNING,
        };
        let mut group = level.primary_title(&*title).elements(snippet);
        if let Some(help) = &self.help {
            group = group.element(Level::HELP.message(&**help));
        }
        f.write_str(&Renderer::plain().render(&[group]))
    }
}

impl std::error::Error for Diagnostic {}
