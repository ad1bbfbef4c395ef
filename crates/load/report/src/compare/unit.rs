//! The unit of a comparison: requests or whole pages.
//!
//! Invariant: all runs of a comparison have the same unit. Otherwise the number of requests that a
//! page needs would look like a difference between servers.

use super::{CompareError, ComparedMetric, Side};
use serde::Serialize;

/// The unit of the runs: requests or pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    /// Single requests.
    Requests,
    /// Pages, in page mode.
    Pages,
}

impl Unit {
    /// Returns the unit of all runs of all sides.
    ///
    /// # Errors
    /// Returns an error if the runs have different units.
    pub(super) fn of(sides: &[Side]) -> Result<Self, CompareError> {
        let runs = || sides.iter().flat_map(|side| &side.runs);
        match (runs().any(|run| run.pages.is_some()), runs().all(|run| run.pages.is_some())) {
            (true, true) => Ok(Self::Pages),
            (false, _) => Ok(Self::Requests),
            (true, false) => Err(CompareError::Mixed),
        }
    }

    /// Unit of throughput.
    pub const fn per_second(self) -> &'static str {
        match self {
            Self::Requests => "req/s",
            Self::Pages => "pages/s",
        }
    }

    /// Name of a metric, in the form for a sentence.
    pub(super) const fn words(self, metric: ComparedMetric) -> &'static str {
        match (metric, self) {
            (ComparedMetric::Throughput, _) => "throughput",
            (ComparedMetric::Mean, Self::Requests) => "mean latency",
            (ComparedMetric::P50, Self::Requests) => "p50 of the latency",
            (ComparedMetric::P95, Self::Requests) => "p95 of the latency",
            (ComparedMetric::P99, Self::Requests) => "p99 of the latency",
            (ComparedMetric::Mean, Self::Pages) => "mean page time",
            (ComparedMetric::P50, Self::Pages) => "p50 of the page time",
            (ComparedMetric::P95, Self::Pages) => "p95 of the page time",
            (ComparedMetric::P99, Self::Pages) => "p99 of the page time",
        }
    }
}
