//! ApacheBench commands that repeat the load of each row, with the reason for their options. Pure
//! functions.

use crate::results::{CellRecord, Results, StepRecord};
use crate::summary::step_of;

/// Instructions for a reader before running one of the commands.
pub(crate) const HOW: &str = "Give the command that made this report once more, with --stay and the same --out \
(`petasos ladder FILE --stay`, `petasos demo --stay`). A finished ladder keeps its figures: the command measures nothing \
again, starts the site and keeps it running. Enter a step's number there to switch that step on: the answer is a line URL=… for your shell. ab speaks HTTP/1.0, for which nginx does not compress, \
so bytes a page and figures may differ from those of the ladder, which speaks HTTP/1.1 as browsers do.";

/// Command of one row.
pub(crate) struct Repeat<'a> {
    pub(crate) step: &'a StepRecord,
    pub(crate) cell: &'a CellRecord,
    /// Reason why the command has the option -k or lacks it.
    pub(crate) why: &'static str,
}

/// Commands of the steps' own cells, then those of other cells with keep-alive.
pub(crate) fn repeats(results: &Results) -> Vec<Repeat<'_>> {
    let is_own = |cell: &CellRecord| results.steps.iter().any(|step| step.cell == cell.id);
    let own = results.cells.iter().filter(|cell| is_own(cell));
    let kept = results.cells.iter().filter(|cell| cell.keepalive && !is_own(cell));
    let with_command = own.chain(kept).filter(|cell| !cell.ab.is_empty());
    with_command
        .filter_map(|cell| Some(Repeat { step: step_of(results, cell)?, cell, why: why(cell) }))
        .collect()
}

fn why(cell: &CellRecord) -> &'static str {
    if cell.keepalive {
        "with -k, because this row was measured on connections that are used again"
    } else {
        "without -k, because each request of this row had a connection of its own"
    }
}
