//! What a person may see while a ladder is walked.

use std::time::Duration;

/// Is told how far the walk is. Called often; it decides itself what to show.
pub trait Observer: Send {
    /// The state of the walk.
    fn status(&mut self, status: &Status);
    /// A sentence worth knowing now.
    fn notice(&mut self, text: &str);
}

/// Sees nothing.
impl Observer for () {
    fn status(&mut self, _: &Status) {}
    fn notice(&mut self, _: &str) {}
}

/// Where the walk is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Status {
    /// The step's number and title.
    pub step: String,
    /// The cell's concurrency.
    pub concurrency: u64,
    /// The round, counted from 1.
    pub round: u64,
    /// All rounds.
    pub rounds: u64,
    /// What is being done.
    pub phase: Phase,
    /// Answers a second of the load under way.
    pub rate_per_s: Option<f64>,
    /// The time the rest should take.
    pub left: Duration,
}

/// What is being done in a cell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    /// Switching, warming, proving.
    #[default]
    Preparing,
    /// Load that does not count.
    WarmingUp,
    /// Load that counts.
    Measuring,
}
