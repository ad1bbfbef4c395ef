//! One second of a run of page loads.
//!
//! Invariant: a page load and a request belong to the second in which they ended.

use crate::page_outcome::FetchFailure;
use crate::verdict::CacheVerdict;
use std::collections::BTreeMap;

/// Page loads and requests that ended in one second.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PageSecond {
    /// Index of the second: 0 is the first second of the measured part.
    pub second: u32,
    /// Visitors who had begun by its end; 0 in an open loop.
    pub users: u64,
    /// Page loads that began.
    pub started: u64,
    /// Page loads that fell due while all visitors were busy.
    pub not_started: u64,
    /// Pages that arrived completely.
    pub good: u64,
    /// Pages that lack a resource.
    pub incomplete: u64,
    /// Pages without a document.
    pub failed: u64,
    /// Responses.
    pub requests: u64,
    /// Resources that did not arrive.
    pub failed_requests: u64,
    /// Resources that did not arrive, by kind, in the order of [`FetchFailure::ALL`].
    pub failures: [u64; FetchFailure::ALL.len()],
    /// Responses by status code.
    pub statuses: BTreeMap<u16, u64>,
    /// Responses by the verdict of the nearest cache.
    pub verdicts: BTreeMap<CacheVerdict, u64>,
    /// Bytes of the responses, including heads.
    pub received_bytes: u64,
    /// Page load times; `None` if no page with a document ended in this second.
    pub page_times: Option<SecondTimes>,
    /// Response times; `None` without responses.
    pub request_times: Option<SecondTimes>,
}

/// The times of one second, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SecondTimes {
    /// Median.
    pub p50_us: u64,
    /// 95th percentile.
    pub p95_us: u64,
    /// 99th percentile.
    pub p99_us: u64,
    /// The longest.
    pub max_us: u64,
}

impl PageSecond {
    /// Counts a resource that did not arrive.
    pub fn fail(&mut self, failure: FetchFailure) {
        self.failed_requests += 1;
        if let Some(count) = self.failures.get_mut(failure as usize) {
            *count += 1;
        }
    }
}
