//! Repeats the same load, one run after the other.
//!
//! Invariant: runs are independent, each with its own connections, warm-up and record. A signal
//! ends the current run and the series, also in the pause between two runs. All measurements until
//! then are kept.

use super::host::HostWatcher;
use super::interrupt::Interrupt;
use super::live::Display;
use super::measure;
use crate::output::note;
use record::{Plan, RunOutcome};
use report::run::Run;

/// A finished run.
pub(super) struct FinishedRun {
    /// The measurements.
    pub(super) outcome: RunOutcome,
    /// The record, stored as JSON.
    pub(super) record: Run,
}

/// The runs of a series.
pub(super) struct RunSeries {
    /// The finished runs.
    pub(super) made: Vec<FinishedRun>,
    /// Why nothing could be measured in the next run, which ended the series.
    pub(super) failure: Option<anyhow::Error>,
}

/// Makes `runs` runs and shows the progress of each. A signal or a run in which nothing could be
/// measured ends the series.
pub(super) fn make(plan: &Plan, runs: u16, interrupt: &Interrupt) -> RunSeries {
    let mut made: Vec<FinishedRun> = Vec::new();
    for number in 1..=runs {
        if number > 1 {
            std::thread::sleep(measure::REST);
            if interrupt.is_set() {
                break;
            }
        }
        let one = match once(plan, interrupt) {
            Ok(one) => one,
            Err(failure) => return RunSeries { made, failure: Some(failure) },
        };
        if runs > 1 {
            note(format_args!(
                "run {number} of {runs}: {} good req/s",
                report::number::rate(one.outcome.good_per_second())
            ));
        }
        made.push(one);
    }
    RunSeries { made, failure: None }
}

fn once(plan: &Plan, interrupt: &Interrupt) -> anyhow::Result<FinishedRun> {
    let host = HostWatcher::start(plan.warmup);
    let mut display = Display::of(plan);
    let measured = measure::measure_watched(plan, interrupt, |control, clock| display.look(control, clock));
    display.clear();
    let outcome = measured?;
    let mut record = Run::from(&outcome);
    if let Some(host) = host {
        host.finish(&mut record);
    }
    Ok(FinishedRun { outcome, record })
}
