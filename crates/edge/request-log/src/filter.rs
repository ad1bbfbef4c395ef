//! The filter language of records.
//!
//! ```text
//! verdict = miss and (path ~ "^/shop" or time > 200ms) and not client = 192.0.2.0/24
//! ```
//!
//! A condition is `FIELD OPERATOR VALUE`. Conditions are joined by `and`, which binds more tightly,
//! and `or`; `not` and parentheses apply. A value is a word, or a text in double or single quotes.
//! In quotes a backslash before the quote keeps it; any other backslash is taken literally, so that
//! regular expressions need no doubling.
//!
//! Invariant: every fault names the column and the possible input there. A filter decides about a
//! record in time linear in the record's size. The memory of all regular expressions of a filter
//! together is bounded.

mod condition;
mod fault;
mod field;
mod lexer;
mod parser;

pub use fault::{FilterError, FilterFault};
pub use field::{FIELDS, FieldRow};

use crate::record::RequestRecord;
use condition::Condition;
use std::fmt;
use std::str::FromStr;

/// Longest expression, in bytes.
pub const FILTER_BYTES_MAX: usize = 4096;

/// Maximum number of regular expressions of an expression.
pub const PATTERNS_MAX: usize = 32;

/// Deepest nesting of parentheses and `not`.
pub const DEPTH_MAX: usize = 32;

/// An expression that holds for some records.
#[derive(Clone, Debug)]
pub struct Filter {
    root: Node,
    text: String,
}

/// A part of an expression.
#[derive(Clone, Debug)]
enum Node {
    /// All of these hold.
    All(Vec<Self>),
    /// One of these holds.
    Any(Vec<Self>),
    /// This does not hold.
    Not(Box<Self>),
    Condition(Condition),
}

impl Filter {
    /// Reads an expression.
    ///
    /// # Errors
    /// [`FilterError`], with the column.
    pub fn parse(text: &str) -> Result<Self, FilterError> {
        Ok(Self { root: parser::read(text)?, text: text.to_owned() })
    }

    /// Whether the expression is true of this record.
    pub fn holds(&self, record: &RequestRecord<'_>) -> bool {
        self.root.holds(record)
    }
}

impl Node {
    fn holds(&self, record: &RequestRecord<'_>) -> bool {
        match self {
            Self::All(parts) => parts.iter().all(|part| part.holds(record)),
            Self::Any(parts) => parts.iter().any(|part| part.holds(record)),
            Self::Not(part) => !part.holds(record),
            Self::Condition(condition) => condition.holds(record),
        }
    }
}

impl FromStr for Filter {
    type Err = FilterError;

    fn from_str(text: &str) -> Result<Self, FilterError> {
        Self::parse(text)
    }
}

/// Two filters are equal if their texts are.
impl PartialEq for Filter {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Filter {}

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests;
