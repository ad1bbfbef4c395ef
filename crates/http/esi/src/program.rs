//! The flat form of a template.
//!
//! Invariant: every span lies within the template that was parsed. A program can only run with the
//! bytes that it was parsed from.

use crate::expression::Expression;
use crate::parser;
use crate::variable::{Piece, Variable};

/// Limits of a template. A template that exceeds one has no program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Largest template in bytes; at most 4 GiB, because positions have 32 bits.
    pub template_bytes_max: u32,
    /// Largest number of operations of the program.
    pub operations_max: usize,
    /// Largest number of includes in the template, whether they are reached or not.
    pub includes_max: usize,
    /// Largest depth of elements within elements.
    pub nesting_max: usize,
    /// Longest value of `test` in bytes.
    pub expression_bytes_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            template_bytes_max: 1 << 20,
            operations_max: 8192,
            includes_max: 256,
            nesting_max: 16,
            expression_bytes_max: 1024,
        }
    }
}

/// The limit that a template exceeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// See [`Limits::template_bytes_max`].
    #[error("the template is too long")]
    TooLong,
    /// See [`Limits::operations_max`].
    #[error("the template has too many elements")]
    TooManyOperations,
    /// See [`Limits::includes_max`].
    #[error("the template has too many includes")]
    TooManyIncludes,
    /// See [`Limits::nesting_max`].
    #[error("elements of the template are nested too deeply")]
    TooDeep,
}

/// A range of bytes of the template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The first byte.
    pub begin: u32,
    /// The byte behind the last one.
    pub end: u32,
}

impl Span {
    pub(crate) const fn new(begin: u32, end: u32) -> Self {
        Self { begin, end }
    }

    /// The bytes of the range in the template; none if the template is another, shorter one.
    pub fn of(self, template: &[u8]) -> &[u8] {
        template.get(self.begin as usize..self.end as usize).unwrap_or_default()
    }
}

/// Why markup was delivered as it is. [`FaultKind::UnknownAttribute`] alone leaves the element in
/// force.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FaultKind {
    /// A tag that does not end before the next one, or at all.
    UnfinishedTag,
    /// A start tag without its end tag, or an end tag without its start tag.
    Unpaired,
    /// An element that ESI 1.0 does not have.
    UnknownElement,
    /// An attribute that ESI 1.0 does not have; it is ignored.
    UnknownAttribute,
    /// Attributes that are no pairs of a name and a quoted value, or that are repeated.
    BadAttributes,
    /// An element without an attribute that it needs.
    MissingAttribute,
    /// A value of `onerror`, `maxwait` or `fetchable` that ESI 1.0 does not have.
    BadValue,
    /// Content in an element that has none, such as `esi:include`.
    UnexpectedContent,
    /// Text or an element directly in `esi:choose` or `esi:try` that belongs into their parts.
    StrayContent,
    /// `esi:choose` without `esi:when`, or with parts in the wrong order.
    BadChoose,
    /// `esi:try` without exactly one `esi:attempt` and one `esi:except`.
    BadTry,
    /// A part such as `esi:when` outside of its element.
    Misplaced,
    /// An expression that cannot be parsed, or that is too long.
    BadExpression,
    /// A `$(` that begins no variable of ESI 1.0.
    BadVariable,
    /// `esi:inline` with `fetchable="yes"`, which would store a part of a page under another URL.
    InlineRefused,
}

/// A fault of a template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The kind of the fault.
    pub kind: FaultKind,
    /// The first byte of the markup.
    pub at: u32,
}

/// An operation; jumps go forward only, so that every run ends.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Operation {
    /// Delivers a part of the template.
    Text(Span),
    /// Delivers the value of a variable, escaped for HTML.
    Value(Variable),
    /// Delivers a fragment.
    Include(Box<Include>),
    /// Continues at another operation unless the expression is true.
    Unless(Expression, u32),
    /// Continues at another operation.
    Jump(u32),
    /// Begins an attempt. If a fragment of it fails, everything since is dropped, and the run
    /// continues at the given operation.
    Attempt(u32),
    /// Ends the attempt.
    Commit,
}

/// An include.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Include {
    pub(crate) src: Vec<Piece>,
    pub(crate) alt: Option<Vec<Piece>>,
    pub(crate) continues: bool,
    pub(crate) maxwait_ms: Option<u32>,
}

/// Number of faults that are kept; further ones are counted.
const FAULTS_KEPT: usize = 16;

/// A parsed template.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    pub(crate) operations: Vec<Operation>,
    /// The place of the whole template.
    pub(crate) whole: Span,
    pub(crate) faults: Vec<Fault>,
    pub(crate) fault_count: usize,
}

impl Program {
    /// Parses a template.
    ///
    /// # Errors
    /// The limit that the template exceeds. Malformed markup is no error.
    pub fn parse(template: &[u8], limits: &Limits) -> Result<Self, TemplateError> {
        parser::parse(template, limits)
    }

    /// The first faults of the template, in no particular order.
    pub fn faults(&self) -> &[Fault] {
        &self.faults
    }

    /// The texts of the template that may be delivered, in ascending order.
    pub fn texts(&self) -> impl Iterator<Item = Span> {
        self.operations.iter().filter_map(|operation| match operation {
            Operation::Text(place) => Some(*place),
            _ => None,
        })
    }

    /// The number of all faults.
    pub const fn fault_count(&self) -> usize {
        self.fault_count
    }

    /// The number of includes, reached or not.
    pub fn include_count(&self) -> usize {
        self.operations.iter().filter(|operation| matches!(operation, Operation::Include(_))).count()
    }

    /// Whether the output may differ from request to request, or may contain fragments.
    pub fn is_dynamic(&self) -> bool {
        let is_dynamic = |operation: &Operation| {
            matches!(operation, Operation::Value(_) | Operation::Include(_) | Operation::Unless(..))
        };
        self.operations.iter().any(is_dynamic)
    }

    /// Whether all requests get the same page while its fragments are the same: there are no values
    /// and no conditions.
    pub fn is_same_for_all(&self) -> bool {
        let is_literal = |url: &[Piece]| url.iter().all(|piece| matches!(piece, Piece::Literal(_)));
        self.operations.iter().all(|operation| match operation {
            Operation::Value(_) | Operation::Unless(..) => false,
            Operation::Include(include) => {
                is_literal(&include.src) && include.alt.as_deref().is_none_or(is_literal)
            }
            Operation::Text(_) | Operation::Jump(_) | Operation::Attempt(_) | Operation::Commit => true,
        })
    }

    /// Whether the template has no ESI markup, so that its page is the template itself.
    pub fn has_no_markup(&self) -> bool {
        self.fault_count == 0
            && match &self.operations[..] {
                [] => self.whole.begin == self.whole.end,
                [Operation::Text(text)] => *text == self.whole,
                _ => false,
            }
    }

    /// The memory that the program occupies, in bytes.
    pub fn bytes(&self) -> usize {
        let pieces = |pieces: &[Piece]| size_of_val(pieces);
        let own = |operation: &Operation| match operation {
            Operation::Include(include) => {
                size_of::<Include>() + pieces(&include.src) + include.alt.as_deref().map_or(0, pieces)
            }
            Operation::Unless(expression, _) => expression.bytes(),
            _ => 0,
        };
        size_of::<Self>()
            + self.operations.capacity() * size_of::<Operation>()
            + self.faults.capacity() * size_of::<Fault>()
            + self.operations.iter().map(own).sum::<usize>()
    }

    pub(crate) fn note(&mut self, kind: FaultKind, at: u32) {
        self.fault_count += 1;
        if self.faults.len() < FAULTS_KEPT {
            self.faults.push(Fault { kind, at });
        }
    }
}
