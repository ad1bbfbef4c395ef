//! ApacheBench commands that repeat the load of each row, with the reason for their options. Pure
//! functions.

use crate::results::{CellRecord, Results, StepRecord};
use crate::summary::step_of;

/// Instructions for a reader before running one of the commands.
pub(crate) const HOW: &str = "Run the command that made this report again, with --stay and the same --out \
(`petasos ladder FILE --stay`, `petasos demo --stay`). It keeps the figures of a finished ladder, measures \
nothing, starts the site and keeps it running. Enter a step's number to switch that step on; the command \
then prints a line URL=… for your shell. ab speaks HTTP/1.0, for which nginx does not compress. The ladder \
speaks HTTP/1.1 as browsers do, so bytes a page and figures may differ.";

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
