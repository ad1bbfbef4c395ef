//! A directive of a configuration with its place in the text, for nginx and Apache alike.

use crate::source::{Position, Span};

/// A word of a directive.
#[derive(Clone, Debug)]
pub(crate) struct Word {
    /// The text without quotes and escapes.
    pub(crate) text: String,
    pub(crate) span: Span,
}

/// A directive with its block (a section of Apache) or its included files.
#[derive(Clone, Debug)]
pub(crate) struct Directive {
    pub(crate) file: usize,
    /// In lower case for Apache, whose names have no case.
    pub(crate) name: String,
    pub(crate) words: Vec<Word>,
    /// The whole text: with `;`, continued lines, and the end of the block.
    pub(crate) span: Span,
    /// The directives of the block, and the offset of its closing brace or end tag.
    pub(crate) block: Option<(Vec<Self>, usize)>,
    /// The directives of included files.
    pub(crate) included: Vec<Self>,
}

impl Directive {
    pub(crate) fn position(&self) -> Position {
        Position { file: self.file, offset: self.span.start }
    }

    /// The word with this number, from 0, or an empty text.
    pub(crate) fn word(&self, number: usize) -> &str {
        self.words.get(number).map_or("", |word| &word.text)
    }

    pub(crate) fn children(&self) -> &[Self] {
        self.block.as_ref().map_or(&[], |(children, _)| children)
    }
}
