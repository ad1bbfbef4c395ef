//! Conditions of page mode: a page takes the place of a request.
//!
//! Invariant: a metric that page mode does not know is refused before the run; none is judged by a figure that nothing
//! has counted.

use super::{Judged, Subject, Threshold};
use crate::page::PageRun;
use crate::run::Run;

/// Metrics that pages have, beside times.
const METRICS: [&str; 5] = ["rate", "requests", "good", "errors", "not_started"];

/// Phases that pages have: both are the time until everything of a page has arrived.
const PHASES: [&str; 2] = ["latency", "total"];

impl Threshold {
    /// Whether page mode knows the figure.
    pub fn is_about_pages(&self) -> bool {
        match self.subject {
            Subject::Time { name, .. } => PHASES.contains(&name),
            Subject::Other(metric) => METRICS.contains(&metric.name),
        }
    }

    /// Holds a run of page mode against it.
    pub fn judge_pages(&self, run: &PageRun) -> Judged {
        let judged = self.judge(&Run::from(run));
        Judged { found: judged.found.replace(" req/s", " pages/s"), ..judged }
    }
}
