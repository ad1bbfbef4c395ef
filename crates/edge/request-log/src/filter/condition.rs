//! One condition: a field, an operator and a value.

use super::fault::FilterFault;
use super::field::{FieldRow, FieldValue, hint};
use crate::record::RequestRecord;
use address::{Prefix, PrefixError, Prefixes};
use document::quantity::{parse_duration, parse_size};
use regex::bytes::{Regex, RegexBuilder};
use std::cmp::Ordering;
use std::time::Duration;

/// Largest size of a compiled regular expression, in bytes.
const PROGRAM_BYTES_MAX: usize = 1 << 20;

/// Largest size of all compiled regular expressions of a filter together, in bytes. Each may have
/// the same part of it.
const PROGRAMS_BYTES_MAX: usize = 2 << 20;

/// The deepest nesting in a regular expression.
const NESTING_MAX: u32 = 50;

/// A test of one field.
#[derive(Clone, Debug)]
pub(super) struct Condition {
    row: &'static FieldRow,
    test: Test,
    /// Whether the test must fail, as with `!=` and `!~`.
    is_negated: bool,
}

#[derive(Clone, Debug)]
enum Test {
    Equals(Vec<u8>),
    Matches(Regex),
    Within(Prefixes),
    /// The client has no address.
    NoAddress,
    /// The number compares with this one in one of these ways.
    Compares(u128, &'static [Ordering]),
}

impl Condition {
    /// The condition that these parts make, in a filter with this number of regular expressions.
    pub(super) fn new(
        row: &'static FieldRow,
        operator: &str,
        value: &str,
        patterns: usize,
    ) -> Result<Self, FilterFault> {
        let (is_negated, plain) = match operator {
            "!=" => (true, "="),
            "!~" => (true, "~"),
            other => (false, other),
        };
        let test = match (row.value, plain) {
            (FieldValue::Text(_), "=") => Test::Equals(value.as_bytes().to_vec()),
            (FieldValue::Word(_, known), "=") => word(row, value, &known())?,
            (FieldValue::Text(_) | FieldValue::Word(..), "~") => Test::Matches(pattern(value, patterns)?),
            (FieldValue::Address(_), "=") => prefix(row, value)?,
            (FieldValue::Number(_) | FieldValue::Size(_) | FieldValue::Time(_), _) => {
                let Some(orders) = orders(plain) else { return Err(bad_operator(row, operator)) };
                Test::Compares(number(row, value)?, orders)
            }
            _ => return Err(bad_operator(row, operator)),
        };
        Ok(Self { row, test, is_negated })
    }

    pub(super) fn holds(&self, record: &RequestRecord<'_>) -> bool {
        self.passes(record) != self.is_negated
    }

    fn passes(&self, record: &RequestRecord<'_>) -> bool {
        match self.row.value {
            FieldValue::Text(read) => self.test.passes_text(&read(record)),
            FieldValue::Word(read, _) => self.test.passes_text(read(record).as_bytes()),
            FieldValue::Address(read) => match (&self.test, read(record)) {
                (Test::Within(prefixes), Some(address)) => prefixes.contains(address),
                (Test::NoAddress, None) => true,
                _ => false,
            },
            FieldValue::Number(read) | FieldValue::Size(read) => self.test.passes_number(read(record).into()),
            FieldValue::Time(read) => self.test.passes_number(read(record).as_nanos()),
        }
    }
}

impl Test {
    fn passes_text(&self, text: &[u8]) -> bool {
        match self {
            Self::Equals(value) => text == value,
            Self::Matches(pattern) => pattern.is_match(text),
            Self::Within(_) | Self::NoAddress | Self::Compares(..) => false,
        }
    }

    fn passes_number(&self, number: u128) -> bool {
        matches!(self, Self::Compares(value, orders) if orders.contains(&number.cmp(value)))
    }
}

fn bad_operator(row: &FieldRow, operator: &str) -> FilterFault {
    FilterFault::BadOperator { field: row.name, operator: operator.to_owned(), known: row.operators() }
}

/// The results of a comparison with which an operator holds.
fn orders(operator: &str) -> Option<&'static [Ordering]> {
    Some(match operator {
        "=" => &[Ordering::Equal],
        "<" => &[Ordering::Less],
        "<=" => &[Ordering::Less, Ordering::Equal],
        ">" => &[Ordering::Greater],
        ">=" => &[Ordering::Greater, Ordering::Equal],
        _ => return None,
    })
}

fn word(row: &FieldRow, value: &str, known: &[&'static str]) -> Result<Test, FilterFault> {
    if known.contains(&value) {
        return Ok(Test::Equals(value.as_bytes().to_vec()));
    }
    Err(FilterFault::UnknownValue {
        field: row.name,
        value: value.to_owned(),
        hint: hint(value, known.iter().copied()),
        known: known.join(", "),
    })
}

fn pattern(text: &str, patterns: usize) -> Result<Regex, FilterFault> {
    let bytes_max = PROGRAM_BYTES_MAX.min(PROGRAMS_BYTES_MAX / patterns.max(1));
    let built = RegexBuilder::new(text)
        .size_limit(bytes_max)
        .dfa_size_limit(bytes_max)
        .nest_limit(NESTING_MAX)
        .build();
    // The error draws the expression in several lines; its last line is the reason.
    built.map_err(|error| {
        let text = error.to_string();
        FilterFault::Pattern(text.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned())
    })
}

fn prefix(row: &FieldRow, value: &str) -> Result<Test, FilterFault> {
    if value.is_empty() || value == "-" {
        return Ok(Test::NoAddress);
    }
    let bad = |why: String| FilterFault::BadValue { field: row.name, kind: "an address or a prefix", why };
    let parsed = value.parse().map_err(|error: PrefixError| bad(error.to_string()));
    parsed.map(|prefix: Prefix| Test::Within([prefix].into_iter().collect()))
}

/// The value of a numeric field, in the unit in which the field is read.
fn number(row: &FieldRow, value: &str) -> Result<u128, FilterFault> {
    let (kind, read) = match row.value {
        FieldValue::Time(_) => (
            "a time with its unit, such as 200ms",
            parse_duration(value).map(|time: Duration| time.as_nanos()),
        ),
        FieldValue::Size(_) => ("a size, such as 4096 or 1MiB", size(value).map(u128::from)),
        _ => ("a whole number", whole(value).map(u128::from)),
    };
    read.map_err(|why| FilterFault::BadValue { field: row.name, kind, why })
}

fn size(value: &str) -> Result<u64, String> {
    whole(value).or_else(|_| parse_size(value))
}

fn whole(value: &str) -> Result<u64, String> {
    value.parse().map_err(|_| format!("`{value}` is none"))
}
