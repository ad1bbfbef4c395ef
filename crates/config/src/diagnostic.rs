//! What an operator is told when a file or a flag is wrong: what, where, and how to mend it.
//!
//! Used for every file a person writes (configuration, ladders), so that all of them look alike.

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A stretch of a text.
    Text {
        /// What the text is called, usually its path.
        name: Arc<str>,
        /// The whole text.
        text: Arc<str>,
        /// The octets of `text` that are meant.
        span: Range<usize>,
    },
    /// A flag of the command line, as it is typed: `--listen`.
    Flag(String),
    /// The built-in default, or nothing at all.
    Default,
}

/// One problem with its place and its fix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// What is wrong, in one line without a full stop.
    pub message: String,
    /// Where.
    pub place: Place,
    /// What to do about it, if more can be said than the message says.
    pub help: Option<String>,
    /// How bad it is.
    pub severity: Severity,
}

/// How bad a problem is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// Nothing is done with the file.
    Error,
    /// The file can be used; the operator should know.
    Warning,
}

impl Diagnostic {
    /// A problem at a place.
    pub fn new(message: impl Into<String>, place: Place) -> Self {
        Self { message: message.into(), place, help: None, severity: Severity::Error }
    }

    /// Something to know at a place.
    pub fn warning(message: impl Into<String>, place: Place) -> Self {
        Self { severity: Severity::Warning, ..Self::new(message, place) }
    }

    /// The same problem with advice.
    #[must_use]
    pub fn with_help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// The line in the text, counted from 1, if the place is in a text.
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
