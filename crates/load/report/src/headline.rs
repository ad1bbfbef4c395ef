//! The headline of a ladder: one sentence from its first step to its fastest. Pure functions.
//!
//! Invariants:
//!
//! * If the load generator was the limit, the figure and its factor are called lower bounds. No
//!   statement relies on such a figure as the true value.
//! * A factor within the noise is not given.
//! * A starred figure is compared with no other.

use crate::number;
use crate::sentence::interval;
use crate::star::MARK;
use crate::summary::{CellSummary, ClassicRow};

/// A part of the headline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum HeadlinePart {
    /// Ordinary text.
    Plain(String),
    /// An emphasised figure.
    Strong(String),
}

impl HeadlinePart {
    /// Text of the part.
    pub(crate) fn text(&self) -> &str {
        match self {
            Self::Plain(text) | Self::Strong(text) => text,
        }
    }
}

/// Returns the headline as plain text; `None` if no row has figures.
pub(crate) fn headline(rows: &[ClassicRow<'_>]) -> Option<String> {
    Some(parts(rows)?.iter().map(HeadlinePart::text).collect())
}

/// Returns the headline in parts; `None` if no row has figures.
pub(crate) fn parts(rows: &[ClassicRow<'_>]) -> Option<Vec<HeadlinePart>> {
    let measured: Vec<_> = rows.iter().filter_map(|row| Some((row, row.result.summary()?))).collect();
    let &(first, from) = measured.first()?;
    let &(row, to) = fastest(&measured)?;
    let plain = |text: &str| HeadlinePart::Plain(text.to_owned());
    let strong = HeadlinePart::Strong;
    let name = |row: &ClassicRow<'_>| {
        let users = number::grouped(row.cell.concurrency);
        plain(&format!(" in step {} ({}, {users} users)", row.step.number, row.step.title))
    };
    if std::ptr::eq(first, row) {
        let is_known = measured.iter().all(|(_, of)| of.star.is_none() && !of.is_limited());
        let mut parts = if is_known {
            vec![
                plain("No step serves more than "),
                strong(rate(from)),
                plain(" pages a second, those"),
                name(first),
                plain("."),
            ]
        } else {
            vec![
                plain("The most was measured"),
                name(first),
                plain(": "),
                strong(rate(from)),
                plain(" pages a second."),
            ]
        };
        parts.extend(limits(&[(first, from)]));
        parts.extend(disturbed(&measured));
        return Some(parts);
    }
    let mut parts = vec![plain("From "), strong(rate(from)), plain(" pages a second"), name(first)];
    parts.extend([plain(" to "), strong(rate(to)), name(row)]);
    parts.extend(factor(row));
    parts.push(plain("."));
    let is_compared = from.star.is_none() && to.star.is_none();
    if is_compared && let Some((before, after)) = from.observed_load.zip(to.observed_load) {
        parts.extend([plain(" The site's load went from "), strong(number::load(before))]);
        parts.extend([plain(" to "), strong(number::load(after)), plain(".")]);
    }
    parts.extend(limits(&[(first, from), (row, to)]));
    if !to.is_limited() {
        parts.extend(underestimated(&measured));
    }
    parts.extend(disturbed(&measured));
    Some(parts)
}

/// The fastest row. A later row that the load generator limited within the noise of the fastest
/// takes its place, because it may serve more.
fn fastest<'a, 'b>(
    measured: &'b [(&'a ClassicRow<'a>, &'a CellSummary)],
) -> Option<&'b (&'a ClassicRow<'a>, &'a CellSummary)> {
    let median = |of: &CellSummary| of.throughput.median;
    measured.iter().max_by(|(row, of), (other, of_other)| {
        row.may_be_fastest.cmp(&other.may_be_fastest).then_with(|| median(of).total_cmp(&median(of_other)))
    })
}

/// Statement that no rows can be compared, if fewer than two measured rows are unstarred.
fn disturbed(measured: &[(&ClassicRow<'_>, &CellSummary)]) -> Option<HeadlinePart> {
    let counting = measured.iter().filter(|(_, of)| of.star.is_none()).count();
    let steps = match counting {
        0 => "every step",
        1 => "all steps but one",
        _ => return None,
    };
    let text = format!(
        " The generator or other processes disturbed {steps} ({MARK}), so none is compared with another."
    );
    (measured.len() > 1).then_some(HeadlinePart::Plain(text))
}

/// Throughput of a row: called a lower bound if the generator was the limit, and marked if the row
/// is starred.
fn rate(of: &CellSummary) -> String {
    let mark = of.star.as_ref().map(|_| MARK.to_string()).unwrap_or_default();
    format!("{}{}{mark}", at_least(of.is_limited()), number::rate(of.throughput.median))
}

/// Statement that the load generator was the limit in some of these rows.
fn limits(rows: &[(&ClassicRow<'_>, &CellSummary)]) -> Option<HeadlinePart> {
    let limited: Vec<&str> =
        rows.iter().filter(|(_, of)| of.is_limited()).map(|(row, _)| row.step.number.as_str()).collect();
    let steps = steps_in_words(&limited)?;
    Some(HeadlinePart::Plain(format!(" The load generator was the limit in {steps}.")))
}

/// Statement that rows may serve more than the fastest, because the load generator was their limit.
fn underestimated(measured: &[(&ClassicRow<'_>, &CellSummary)]) -> Option<HeadlinePart> {
    let counting = measured.iter().filter(|(_, of)| of.star.is_none() && of.is_limited());
    let numbers: Vec<&str> = counting.map(|(row, _)| row.step.number.as_str()).collect();
    let steps = steps_in_words(&numbers)?;
    let text = format!(" The load generator was the limit in {steps}, so more may be served there.");
    Some(HeadlinePart::Plain(text))
}

/// The steps in words; `None` without any.
fn steps_in_words(numbers: &[&str]) -> Option<String> {
    match numbers {
        [] => None,
        [step] => Some(format!("step {step}")),
        several => Some(format!("steps {}", several.join(" and "))),
    }
}

/// Factor of a row over the first step, if it is known.
fn factor(row: &ClassicRow<'_>) -> Vec<HeadlinePart> {
    match row.factor_first {
        Some(gain) if gain.is_step => {
            let times = format!("{}{}", at_least(gain.is_lower_bound), number::times(gain.times));
            let bounds = if gain.is_lower_bound { String::new() } else { interval(gain) };
            vec![
                HeadlinePart::Plain(": ".to_owned()),
                HeadlinePart::Strong(times),
                HeadlinePart::Plain(bounds),
            ]
        }
        Some(_) => vec![HeadlinePart::Plain(", no difference beyond the noise".to_owned())],
        None => Vec::new(),
    }
}

/// Words before a figure that the load generator limited.
pub(crate) fn at_least(is_limited: bool) -> &'static str {
    if is_limited { "at least " } else { "" }
}
