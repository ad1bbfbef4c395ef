//! Conditions in page mode, where a page takes the place of a request.
//!
//! Invariant: a metric that page mode does not have is refused before the run. No condition is
//! judged by a figure that was never counted.

use super::{JudgedThreshold, Threshold, ThresholdSubject};
use crate::page::PageRun;
use crate::run::Run;

/// Metrics of page mode, other than times.
const METRICS: [&str; 5] = ["rate", "requests", "good", "errors", "not_started"];

/// Phases of page mode. Both are the time until the page has arrived completely.
const PHASES: [&str; 2] = ["latency", "total"];

impl Threshold {
    /// Whether page mode has the figure of this condition.
    pub fn is_about_pages(&self) -> bool {
        match self.subject {
            ThresholdSubject::Time { name, .. } => PHASES.contains(&name),
            ThresholdSubject::Other(metric) => METRICS.contains(&metric.name),
        }
    }

    /// Judges a run of page mode by this condition.
    pub fn judge_pages(&self, run: &PageRun) -> JudgedThreshold {
        let judged = self.judge(&Run::from(run));
        JudgedThreshold { found: judged.found.replace(" req/s", " pages/s"), ..judged }
    }
}
