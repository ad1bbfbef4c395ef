//! The same load several times, one run after the other.
//!
//! Invariant: every run is a run of its own, with its own connections, warm-up and record. Whoever interrupts one ends
//! them all, and what was measured until then is kept.

use super::host::HostWatch;
use super::live::Display;
use super::measure;
use crate::output::note;
use load::{Ended, Outcome, Plan};
use report::run::Run;

/// A run and what it is remembered by.
pub(super) struct Made {
    /// What was measured.
    pub(super) outcome: Outcome,
    /// Its record.
    pub(super) record: Run,
}

/// Makes so many runs, and shows how far each is.
///
/// # Errors
/// When nothing could be measured; runs that were made before are lost then.
pub(super) fn make(plan: &Plan, runs: u16) -> anyhow::Result<Vec<Made>> {
    let mut made: Vec<Made> = Vec::new();
    for number in 1..=runs {
        if number > 1 {
            std::thread::sleep(measure::REST);
        }
        let one = once(plan)?;
        let is_stopped = one.outcome.ended == Ended::Stopped;
        if runs > 1 {
            note(format_args!(
                "run {number} of {runs}: {} good req/s",
                report::number::rate(one.outcome.good_per_second())
            ));
        }
        made.push(one);
        if is_stopped {
            break;
        }
    }
    Ok(made)
}

fn once(plan: &Plan) -> anyhow::Result<Made> {
    let host = HostWatch::start(plan.warmup);
    let mut display = Display::of(plan);
    let measured = measure::measure_watched(plan, |control, clock| display.look(control, clock));
    display.clear();
    let outcome = measured?;
    let mut record = Run::from(&outcome);
    if let Some(host) = host {
        host.finish(&mut record);
    }
    Ok(Made { outcome, record })
}
