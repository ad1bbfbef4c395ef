//! Progress reports of a walk for a person who watches it.

use std::time::Duration;

/// Receives the progress of a walk. Both methods may be called often; the implementation chooses
/// what to show.
pub trait Observer: Send {
    /// Reports the current state of the walk.
    fn status(&mut self, status: &WalkStatus);
    /// Reports a sentence that the person should read now.
    fn notice(&mut self, text: &str);
}

/// Ignores all reports.
impl Observer for () {
    fn status(&mut self, _: &WalkStatus) {}
    fn notice(&mut self, _: &str) {}
}

/// Current state of a walk.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WalkStatus {
    /// Number and title of the step.
    pub step: String,
    /// Number of users of the cell.
    pub concurrency: u64,
    /// The round, counted from 1.
    pub round: u64,
    /// Number of rounds in the plan.
    pub rounds: u64,
    /// Current activity.
    pub phase: Phase,
    /// Responses per second of the running load; `None` before the load has a rate.
    pub rate_per_s: Option<f64>,
    /// Estimated time until the walk ends.
    pub left: Duration,
}

/// Activity during a visit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    /// Switching, resetting, warming and proving.
    #[default]
    Preparing,
    /// Load whose responses are not counted.
    WarmingUp,
    /// Load whose responses are measured.
    Measuring,
}
