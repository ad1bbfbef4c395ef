//! The files of a web server's configuration, and changes of their texts.
//!
//! Invariant: a change keeps every byte outside of its span. A file without changes keeps its text.
//!
//! Limits: [`FILES_MAX`], [`FILE_BYTES_MAX`], [`INCLUDES_MAX`] and [`INCLUDE_DEPTH_MAX`].

use std::fmt;
use std::path::{Path, PathBuf};

/// Largest number of files that one configuration may include.
pub(crate) const FILES_MAX: usize = 1000;
/// Largest number of times that files are included, because files may include each other in many
/// ways.
pub(crate) const INCLUDES_MAX: usize = 10_000;
/// Largest size of one file, in bytes.
pub const FILE_BYTES_MAX: usize = 1 << 20;
/// Deepest nesting of included files, and of blocks in a file.
pub(crate) const INCLUDE_DEPTH_MAX: usize = 32;

/// A file as the machine has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextFile {
    /// Its path without symbolic links.
    pub path: PathBuf,
    /// Its content.
    pub text: String,
}

/// The source of the configuration files: a real machine, or one in memory for tests.
pub trait Machine {
    /// Reads a file and follows symbolic links.
    ///
    /// # Errors
    /// A sentence that says why the file cannot be read.
    fn read(&self, path: &Path) -> Result<TextFile, String>;
    /// The existing paths that match a pattern with `*`, `?` and `[...]` in the manner of a shell,
    /// in the order of their bytes.
    fn matching(&self, pattern: &str) -> Vec<PathBuf>;
    /// Whether this is a directory.
    fn is_directory(&self, path: &Path) -> bool;
    /// Whether there is a file or directory.
    fn exists(&self, path: &Path) -> bool;
    /// Whether a server could listen at this port of 127.0.0.1.
    fn is_port_free(&self, port: u16) -> bool;
}

/// A place in a file, as an operator looks it up.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The file.
    pub file: PathBuf,
    /// Its line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file.display(), self.line, self.column)
    }
}

/// Why a configuration cannot be adopted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{problem}; {fix}", .place.as_ref().map(|place| format!("{place}: ")).unwrap_or_default())]
pub struct Refusal {
    /// The place, if there is one.
    pub place: Option<Place>,
    /// The problem at this place.
    pub problem: String,
    /// Advice for the operator.
    pub fix: String,
}

impl Refusal {
    /// A refusal without a place.
    pub(crate) fn general(problem: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { place: None, problem: problem.into(), fix: fix.into() }
    }
}

/// A part of a file's text, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span {
    /// The first byte.
    pub start: usize,
    /// The byte after the last one.
    pub end: usize,
}

/// A position in one of the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Position {
    pub(crate) file: usize,
    pub(crate) offset: usize,
}

/// A replacement of a part of a text. An empty part is an insertion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    /// The replaced bytes.
    pub span: Span,
    /// The new text.
    pub text: String,
}

/// The text after its edits, or nothing if two edits overlap or a span is not of this text.
///
/// Insertions at one position follow each other in the order of `edits`.
pub fn apply(text: &str, edits: &[Edit]) -> Option<String> {
    let mut ordered: Vec<&Edit> = edits.iter().collect();
    // At the same position, an insertion precedes a replacement.
    ordered.sort_by_key(|edit| edit.span);
    let mut changed = String::with_capacity(text.len());
    let mut done = 0;
    for edit in ordered {
        changed.push_str(text.get(done..edit.span.start)?);
        text.get(edit.span.start..edit.span.end)?;
        changed.push_str(&edit.text);
        done = edit.span.end;
    }
    changed.push_str(text.get(done..)?);
    Some(changed)
}

/// The edits that turn a part of a text into comments with `#`. The rest of its last line moves to
/// a new line.
pub fn comment_out(text: &str, span: Span) -> Vec<Edit> {
    let insertion = |at: usize, text: &str| Edit { span: Span { start: at, end: at }, text: text.to_owned() };
    let mut edits = vec![insertion(span.start, "# ")];
    let part = text.get(span.start..span.end).unwrap_or_default();
    edits.extend(part.match_indices('\n').map(|(at, _)| insertion(span.start + at + 1, "# ")));
    let rest = text.get(span.end..).unwrap_or_default().lines().next().unwrap_or_default();
    if !rest.trim().is_empty() && !rest.trim_start().starts_with('#') {
        edits.push(insertion(span.end, "\n"));
    }
    edits
}

#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) path: PathBuf,
    pub(crate) text: String,
    edits: Vec<Edit>,
}

/// All files that were read.
#[derive(Debug, Default)]
pub(crate) struct Sources {
    pub(crate) files: Vec<Source>,
    /// How often a file was included.
    includes: usize,
}

impl Sources {
    /// Reads a file, unless it is there already. `from` is the place that names it.
    pub(crate) fn load(
        &mut self,
        machine: &dyn Machine,
        path: &Path,
        from: Option<Position>,
    ) -> Result<usize, Refusal> {
        let place = from.map(|from| self.place(from));
        let refuse =
            |problem: String, fix: &str| Refusal { place: place.clone(), problem, fix: fix.to_owned() };
        self.includes += 1;
        if self.includes > INCLUDES_MAX {
            let problem = format!("files are included more than {INCLUDES_MAX} times");
            return Err(refuse(problem, "name the file of one site"));
        }
        let file = machine.read(path).map_err(|error| {
            refuse(
                format!("{} cannot be read: {error}", path.display()),
                "correct the path, or run the command as a user who may read it",
            )
        })?;
        if let Some(known) = self.files.iter().position(|known| known.path == file.path) {
            return Ok(known);
        }
        if self.files.len() >= FILES_MAX || file.text.len() > FILE_BYTES_MAX {
            let problem = format!(
                "the configuration has more than {FILES_MAX} files, or {} has more than {FILE_BYTES_MAX} bytes",
                path.display()
            );
            return Err(refuse(problem, "name the file of one site"));
        }
        self.files.push(Source { path: file.path, text: file.text, edits: Vec::new() });
        Ok(self.files.len() - 1)
    }

    pub(crate) fn text(&self, file: usize) -> &str {
        self.files.get(file).map_or("", |source| &source.text)
    }

    /// The place of a position.
    pub(crate) fn place(&self, position: Position) -> Place {
        let text = self.text(position.file);
        let before = text.get(..position.offset).unwrap_or(text);
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        Place {
            file: self.files.get(position.file).map(|source| source.path.clone()).unwrap_or_default(),
            line: before.matches('\n').count() + 1,
            column: before.get(line_start..).map_or(0, |line| line.chars().count()) + 1,
        }
    }

    pub(crate) fn refusal(
        &self,
        position: Position,
        problem: impl Into<String>,
        fix: impl Into<String>,
    ) -> Refusal {
        Refusal { place: Some(self.place(position)), problem: problem.into(), fix: fix.into() }
    }

    /// Adds an edit, unless an equal one exists because a file is included twice.
    pub(crate) fn replace(&mut self, file: usize, span: Span, text: impl Into<String>) {
        let edit = Edit { span, text: text.into() };
        if let Some(source) = self.files.get_mut(file)
            && !source.edits.contains(&edit)
        {
            source.edits.push(edit);
        }
    }

    pub(crate) fn insert(&mut self, file: usize, offset: usize, text: impl Into<String>) {
        self.replace(file, Span { start: offset, end: offset }, text);
    }

    pub(crate) fn comment_out(&mut self, file: usize, span: Span) {
        for edit in comment_out(self.text(file), span) {
            self.replace(file, edit.span, edit.text);
        }
    }

    /// The white space at the beginning of the line of a position.
    pub(crate) fn indent(&self, position: Position) -> String {
        let before = self.text(position.file).get(..position.offset).unwrap_or_default();
        let line = before.rsplit('\n').next().unwrap_or_default();
        line.chars().take_while(|character| character.is_whitespace()).collect()
    }

    /// Path, text before and text after of each changed file.
    pub(crate) fn changed(&self) -> Result<Vec<(&Path, &str, String)>, Refusal> {
        let changed = self.files.iter().filter(|source| !source.edits.is_empty());
        changed
            .map(|source| {
                let after = apply(&source.text, &source.edits).ok_or_else(|| {
                    Refusal::general(
                        format!("two changes of {} overlap", source.path.display()),
                        "write each directive on a line of its own, and include each file in one place",
                    )
                })?;
                Ok((source.path.as_path(), source.text.as_str(), after))
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{Edit, Span, apply, comment_out};
    use proptest::prelude::*;

    fn commented(text: &str, part: &str) -> String {
        let start = text.find(part).unwrap();
        apply(text, &comment_out(text, Span { start, end: start + part.len() })).unwrap()
    }

    #[test]
    fn comments_end_where_the_part_ends() {
        assert_eq!(commented("a; b; c;\n", "b;"), "a; # b;\n c;\n");
        assert_eq!(commented("  s {\n    x;\n  }\n}", "s {\n    x;\n  }"), "  # s {\n#     x;\n#   }\n}");
        assert_eq!(commented("b; # why\n", "b;"), "# b; # why\n");
    }

    #[test]
    fn overlapping_edits_are_refused() {
        let edit = |start, end| Edit { span: Span { start, end }, text: "-".to_owned() };
        assert_eq!(apply("abcd", &[edit(0, 2), edit(1, 3)]), None);
        assert_eq!(apply("abcd", &[edit(2, 3), edit(0, 1)]), Some("-b-d".to_owned()));
        assert_eq!(apply("abcd", &[edit(3, 5)]), None);
    }

    proptest! {
        #[test]
        fn edits_keep_all_other_bytes(parts in prop::collection::vec(("[a-z\n#é]{0,9}", "[a-z]{0,5}", "[A-Z]{0,5}"), 0..9)) {
            let (mut before, mut after, mut edits) = (String::new(), String::new(), Vec::new());
            for (kept, old, new) in parts {
                before.push_str(&kept);
                after.push_str(&kept);
                let start = before.len();
                before.push_str(&old);
                after.push_str(&new);
                edits.push(Edit { span: Span { start, end: before.len() }, text: new });
            }
            prop_assert_eq!(apply(&before, &edits), Some(after));
        }

        #[test]
        fn comments_lose_no_character(text in "[a-z;{} \n#]{0,60}", cut in 0usize..60, length in 0usize..60) {
            let start = cut.min(text.len());
            let end = (start + length).min(text.len());
            let after = apply(&text, &comment_out(&text, Span { start, end })).unwrap();
            let without = |text: &str| text.replace([' ', '#', '\n'], "");
            prop_assert_eq!(without(&after), without(&text));
        }
    }
}
