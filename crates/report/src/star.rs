//! Cells that may not be compared with others: their mark, and why; pure.
//!
//! Invariant: one starred round stars the cell, because its median, its range and its factors are made of all rounds. A
//! starred cell keeps its figures, each with the mark, and is in no factor, tipping point or measure of noise.

use crate::number;
use crate::results::{CellRecord, Outcome};
use crate::run::Account;
use crate::summary::{Row, Summary};

/// Stands behind the throughput of a starred cell.
pub const MARK: char = '★';

/// What the mark means, for tables whose cells have no notes of their own.
pub(crate) const MEANING: &str = "★: the generator or other processes disturbed a round, and the figures are in no comparison. results.json has the reason of each round.";

/// Why a cell is starred.
#[derive(Clone, Debug, PartialEq)]
pub struct Star {
    /// So many of its rounds are.
    pub rounds: usize,
    /// The first of them.
    pub first: u64,
    /// Its reasons.
    pub reasons: Vec<String>,
    /// The time of its users.
    pub account: Option<Account>,
}

/// The star of a cell; `None` for one that counts.
pub fn star(cell: &CellRecord) -> Option<Star> {
    let measured = cell.runs.iter().filter_map(|run| match &run.outcome {
        Outcome::Measured(measured) => Some((run.round, measured)),
        Outcome::Void { .. } => None,
    });
    let mut starred = measured.filter(|(_, measured)| !measured.starred.is_empty());
    let (first, measured) = starred.next()?;
    let (reasons, account) = (measured.starred.clone(), measured.generator.account);
    Some(Star { rounds: 1 + starred.count(), first, reasons, account })
}

/// The mark of a starred cell, else that of one with few answers, else nothing.
pub(crate) fn mark(summary: &Summary) -> &'static str {
    match (&summary.star, summary.few) {
        (Some(_), true) => "★*",
        (Some(_), false) => "★",
        (None, true) => "*",
        (None, false) => "",
    }
}

/// What to know of a row whose figures are not the server's alone: why it is starred, and what its users had; or that
/// the generator may have been the limit, of results without stars.
pub(crate) fn note(row: &Row<'_>, summary: &Summary) -> Option<String> {
    let number = &row.step.number;
    let Some(star) = &summary.star else {
        return (summary.trust == "invalid").then(|| {
            format!(
                "Step {number}: the generator, not the server, may have been the limit; see results.json."
            )
        });
    };
    let users = star.account.and_then(|account| account.effective_users).map(|users| {
        format!(". {users:.1} of {} users were at the server", number::grouped(row.cell.concurrency))
    });
    let times = star.account.and_then(|account| {
        let [received, processed] = [account.mean_until_received_us?, account.mean_until_processed_us?]
            .map(|us| number::milliseconds(us / 1_000.0));
        Some(format!(
            "; a good response took {received} until it had come and {processed} until its user had gone on"
        ))
    });
    Some(format!(
        "{MARK} Step {number}: in {} of {} rounds, first in round {}, {}{}{}.",
        star.rounds,
        summary.rounds,
        star.first,
        star.reasons.join("; "),
        users.unwrap_or_default(),
        times.unwrap_or_default()
    ))
}
