//! Faults of filter expressions, as users read them.

use super::{DEPTH_MAX, FILTER_BYTES_MAX, PATTERNS_MAX};

/// Why an expression is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the filter cannot be read at column {column}: {fault}")]
pub struct FilterError {
    /// The position of the fault, in characters, counted from 1.
    pub column: usize,
    /// The fault.
    pub fault: FilterFault,
}

/// A fault of an expression.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FilterFault {
    /// An unexpected text.
    #[error("expected {expected}, found {found}")]
    Expected {
        /// The possible input in that place.
        expected: String,
        /// The text in that place.
        found: String,
    },
    /// A name without a field.
    #[error("there is no field `{name}`{hint}; the fields are {known}")]
    UnknownField {
        /// The name.
        name: String,
        /// The nearest name, or nothing.
        hint: String,
        /// All names.
        known: String,
    },
    /// A word that the field never has.
    #[error("`{field}` is never `{value}`{hint}; it is one of {known}")]
    UnknownValue {
        /// The field.
        field: &'static str,
        /// The word.
        value: String,
        /// The nearest word, or nothing.
        hint: String,
        /// All words.
        known: String,
    },
    /// A value that the field's kind does not accept.
    #[error("`{field}` needs {kind}: {why}")]
    BadValue {
        /// The field.
        field: &'static str,
        /// The kind of its values.
        kind: &'static str,
        /// Why the value is none.
        why: String,
    },
    /// An operator that the field does not have.
    #[error("`{field}` has no operator {operator}; it has {known}")]
    BadOperator {
        /// The field.
        field: &'static str,
        /// The operator.
        operator: String,
        /// The operators of the field.
        known: &'static str,
    },
    /// A regular expression that cannot be used.
    #[error("the regular expression cannot be used: {0}")]
    Pattern(String),
    /// A quote without its end.
    #[error("the quote is not closed")]
    OpenQuote,
    /// More nesting than [`DEPTH_MAX`].
    #[error("more than {DEPTH_MAX} levels of parentheses")]
    TooDeep,
    /// More regular expressions than [`PATTERNS_MAX`].
    #[error("more than {PATTERNS_MAX} regular expressions; join some of them by `|`")]
    TooManyPatterns,
    /// An expression longer than [`FILTER_BYTES_MAX`].
    #[error("longer than {FILTER_BYTES_MAX} bytes")]
    TooLong,
}
