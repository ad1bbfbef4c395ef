//! The seconds of a run in page mode as CSV: pages, then their requests.
//!
//! Invariant: a column that runs of requests also have keeps its name and meaning.

use super::{CLASSES, Column, counts, moment, table};
use crate::page::{PageRun, PageSecond};
use record::{CacheVerdict, FetchFailure};

/// Returns the seconds of a run in page mode as CSV.
pub fn page_seconds_csv(run: &PageRun) -> String {
    let mut columns = vec![
        Column::new("time_s", |of: &PageSecond| moment(run.started_s, f64::from(of.second))),
        Column::new("second", |of: &PageSecond| of.second),
        Column::new("pages_started", |of: &PageSecond| of.started),
        Column::new("pages_good", |of: &PageSecond| of.good),
        Column::new("pages_incomplete", |of: &PageSecond| of.incomplete),
        Column::new("pages_failed", |of: &PageSecond| of.failed),
        Column::new("pages_not_started", |of: &PageSecond| of.not_started),
        Column::optional("page_p50_us", |of: &PageSecond| of.page_p50_us),
        Column::optional("page_p95_us", |of: &PageSecond| of.page_p95_us),
        Column::optional("page_p99_us", |of: &PageSecond| of.page_p99_us),
        Column::optional("page_max_us", |of: &PageSecond| of.page_max_us),
        Column::new("requests", |of: &PageSecond| of.requests),
        Column::new("failed_requests", |of: &PageSecond| of.failed_requests),
        Column::new("received_bytes", |of: &PageSecond| of.received_bytes),
        Column::optional("p50_us", |of: &PageSecond| of.request_p50_us),
        Column::optional("p95_us", |of: &PageSecond| of.request_p95_us),
        Column::optional("p99_us", |of: &PageSecond| of.request_p99_us),
        Column::optional("max_us", |of: &PageSecond| of.request_max_us),
    ];
    columns.extend(counts("status", CLASSES, |of: &PageSecond| &of.statuses));
    let verdicts = CacheVerdict::ALL.map(CacheVerdict::name);
    columns.extend(counts("cache", verdicts, |of: &PageSecond| &of.verdicts));
    let kinds = FetchFailure::ALL.map(FetchFailure::name);
    columns.extend(counts("failed", kinds, |of: &PageSecond| &of.failed_by_kind));
    columns.push(Column::new("users", |of: &PageSecond| of.users));
    table(&columns, &run.seconds)
}
