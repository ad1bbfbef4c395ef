//! Carries out a program for one request.
//!
//! Invariant: the run decides what comes next, its caller fetches and sends. A run ends after at
//! most as many steps as its program has operations, because jumps go forward only.

use crate::attributes::decoded;
use crate::program::{Include, Operation, Program, Span};
use crate::values::{Values, changes_path, push_for_html, push_for_url};
use crate::variable::Piece;

/// A longer URL of a fragment becomes empty, and no fragment has an empty URL.
const URL_BYTES_MAX: usize = 4096;

/// The next step of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// A part of the template comes next.
    Text(Span),
    /// These bytes come next. They follow from the request and are escaped for HTML.
    Value(Vec<u8>),
    /// A fragment comes next. If it cannot be had, [`Run::failed`] says what happens.
    Fetch(Fetch),
    /// From here on, output is held back until [`Step::Commit`] or [`Consequence::Excepted`].
    Attempt,
    /// The output since the last [`Step::Attempt`] is good.
    Commit,
    /// The page is complete.
    Done,
}

/// A fragment that a page needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetch {
    /// Identifies the include in its program.
    pub id: usize,
    /// The URL as the template has it, possibly relative to the page. It is not checked.
    pub src: Vec<u8>,
    /// The URL that is fetched if the first one fails.
    pub alt: Option<Vec<u8>>,
    /// The longest wait in milliseconds, if the template states one.
    pub maxwait_ms: Option<u32>,
}

impl Fetch {
    /// The bytes of its URLs.
    pub fn url_bytes(&self) -> usize {
        self.src.len() + self.alt.as_ref().map_or(0, Vec::len)
    }
}

/// What happens after a fragment has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Consequence {
    /// The template permits that the fragment is missing (`onerror="continue"`).
    Skipped,
    /// The output since the last [`Step::Attempt`] must be dropped; `esi:except` comes next.
    Excepted,
    /// The page lacks a part that it needs.
    Lacking,
}

/// A program in progress.
#[derive(Clone, Debug)]
pub struct Run<'p> {
    program: &'p Program,
    template: &'p [u8],
    values: Values<'p>,
    at: usize,
    /// Where the run continues if a fragment of the attempt fails, innermost attempt last.
    attempts: Vec<usize>,
    /// Whether the fragment that was last named may be missing.
    continues: bool,
}

impl<'p> Run<'p> {
    /// Begins to carry out a program. `template` is the text from which it was parsed.
    pub const fn new(program: &'p Program, template: &'p [u8], values: Values<'p>) -> Self {
        Self { program, template, values, at: 0, attempts: Vec::new(), continues: false }
    }

    /// The next step. After [`Step::Done`] there is no other.
    #[expect(clippy::should_implement_trait, reason = "a failed fragment changes the run between two steps")]
    pub fn next(&mut self) -> Step {
        while let Some(operation) = self.program.operations.get(self.at) {
            let number = self.at;
            self.at += 1;
            match operation {
                Operation::Text(place) => return Step::Text(*place),
                Operation::Value(variable) => {
                    let mut out = Vec::new();
                    match (self.values.value(self.template, *variable), variable.default) {
                        (Some(value), _) => push_for_html(&mut out, &value),
                        (None, Some(default)) => out.extend_from_slice(default.of(self.template)),
                        (None, None) => {}
                    }
                    if !out.is_empty() {
                        return Step::Value(out);
                    }
                }
                Operation::Include(include) => return Step::Fetch(self.fetch(number, include)),
                Operation::Unless(test, target) => {
                    if !test.is_true(self.template, &self.values) {
                        self.at = *target as usize;
                    }
                }
                Operation::Jump(target) => self.at = *target as usize,
                Operation::Attempt(except) => {
                    self.attempts.push(*except as usize);
                    return Step::Attempt;
                }
                Operation::Commit => {
                    self.attempts.pop();
                    return Step::Commit;
                }
            }
        }
        Step::Done
    }

    /// Says what happens because the fragment of the last [`Step::Fetch`] cannot be had.
    pub fn failed(&mut self) -> Consequence {
        if self.continues {
            return Consequence::Skipped;
        }
        match self.attempts.pop() {
            Some(except) => {
                self.at = except;
                Consequence::Excepted
            }
            None => Consequence::Lacking,
        }
    }

    /// The number of the next operation. A fetch with a smaller one is not needed any more.
    pub const fn position(&self) -> usize {
        self.at
    }

    /// The fragments that the rest of the run needs if none of them fails, so that all can be
    /// fetched at once.
    pub fn ahead(&self) -> Vec<Fetch> {
        let (mut run, mut fetches) = (self.clone(), Vec::new());
        loop {
            match run.next() {
                Step::Fetch(fetch) => fetches.push(fetch),
                Step::Done => return fetches,
                Step::Text(_) | Step::Value(_) | Step::Attempt | Step::Commit => {}
            }
        }
    }

    fn fetch(&mut self, id: usize, include: &Include) -> Fetch {
        self.continues = include.continues;
        let url = |pieces: &[Piece]| self.url(pieces);
        let (src, alt) = (url(&include.src), include.alt.as_deref().map(url));
        Fetch { id, src, alt, maxwait_ms: include.maxwait_ms }
    }

    fn url(&self, pieces: &[Piece]) -> Vec<u8> {
        let (mut url, mut values) = (Vec::new(), Vec::new());
        for piece in pieces {
            match piece {
                Piece::Literal(place) => url.extend_from_slice(&decoded(place.of(self.template))),
                Piece::Variable(variable) => match self.values.value(self.template, *variable) {
                    Some(value) => {
                        let begin = url.len();
                        push_for_url(&mut url, *variable, &value);
                        values.push(begin..url.len());
                    }
                    None => {
                        let default = variable.default.map(|place| decoded(place.of(self.template)));
                        url.extend_from_slice(&default.unwrap_or_default());
                    }
                },
            }
            if url.len() > URL_BYTES_MAX {
                return Vec::new();
            }
        }
        if values.into_iter().any(|value| changes_path(&url, value)) { Vec::new() } else { url }
    }
}
