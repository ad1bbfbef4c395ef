//! Starred cells: cells that may not be compared with others. This module finds them and explains
//! the mark. Pure functions.
//!
//! Invariant: one starred round stars the cell, because median, range and factors use all rounds. A
//! starred cell keeps its figures, with the mark beside them. It takes no part in factors, tipping
//! points and the measure of noise.

use crate::number;
use crate::results::{CellRecord, VisitOutcome};
use crate::run::UserTime;
use crate::summary::{CellSummary, ClassicRow};

/// Mark behind the throughput of a starred cell.
pub const MARK: char = '★';

/// Meaning of the mark, for tables whose cells have no notes.
pub(crate) const MEANING: &str = "★: the generator or other processes disturbed a round, and the figures are in no comparison. results.json has the reason of each round.";

/// Reason why a cell is starred.
#[derive(Clone, Debug, PartialEq)]
pub struct Star {
    /// Number of starred rounds.
    pub rounds: usize,
    /// Number of the first starred round.
    pub first: u64,
    /// Reasons of that round.
    pub reasons: Vec<String>,
    /// Account of the users' time in that round.
    pub account: Option<UserTime>,
}

/// Returns the star of a cell; `None` for a cell that counts.
pub fn star(cell: &CellRecord) -> Option<Star> {
    let measured = cell.runs.iter().filter_map(|run| match &run.outcome {
        VisitOutcome::Measured(measured) => Some((run.round, measured)),
        VisitOutcome::Void { .. } => None,
    });
    let mut starred = measured.filter(|(_, measured)| !measured.starred.is_empty());
    let (first, measured) = starred.next()?;
    let reasons = measured.starred.clone();
    let account = measured.generator.account;
    Some(Star { rounds: 1 + starred.count(), first, reasons, account })
}

/// Mark of a cell: a star, an asterisk for few responses, both, or nothing.
pub(crate) fn mark(summary: &CellSummary) -> &'static str {
    match (&summary.star, summary.few) {
        (Some(_), true) => "★*",
        (Some(_), false) => "★",
        (None, true) => "*",
        (None, false) => "",
    }
}

/// Note on a row whose figures do not show the server alone. For a starred row it gives the reasons
/// and the account of the users' time. Older results have no stars; their note says that the
/// generator may have been the limit.
pub(crate) fn note(row: &ClassicRow<'_>, summary: &CellSummary) -> Option<String> {
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
