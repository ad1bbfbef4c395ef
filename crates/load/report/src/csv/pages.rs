//! The seconds of a run in page mode as CSV: pages, then their requests.
//!
//! Invariant: a column that runs of requests also have keeps its name and meaning.

use super::{CLASSES, CsvColumn, counts, moment, table};
use crate::page::{PageRun, PageSecond};
use browse::FetchFailure;
use load::CacheVerdict;

/// Returns the seconds of a run in page mode as CSV.
pub fn page_seconds_csv(run: &PageRun) -> String {
    let mut columns = vec![
        CsvColumn::new("time_s", |of: &PageSecond| moment(run.started_s, f64::from(of.second))),
        CsvColumn::new("second", |of: &PageSecond| of.second),
        CsvColumn::new("pages_started", |of: &PageSecond| of.started),
        CsvColumn::new("pages_good", |of: &PageSecond| of.good),
        CsvColumn::new("pages_incomplete", |of: &PageSecond| of.incomplete),
        CsvColumn::new("pages_failed", |of: &PageSecond| of.failed),
        CsvColumn::new("pages_not_started", |of: &PageSecond| of.not_started),
        CsvColumn::optional("page_p50_us", |of: &PageSecond| of.page_p50_us),
        CsvColumn::optional("page_p95_us", |of: &PageSecond| of.page_p95_us),
        CsvColumn::optional("page_p99_us", |of: &PageSecond| of.page_p99_us),
        CsvColumn::optional("page_max_us", |of: &PageSecond| of.page_max_us),
        CsvColumn::new("requests", |of: &PageSecond| of.requests),
        CsvColumn::new("failed_requests", |of: &PageSecond| of.failed_requests),
        CsvColumn::new("received_bytes", |of: &PageSecond| of.received_bytes),
        CsvColumn::optional("p50_us", |of: &PageSecond| of.request_p50_us),
        CsvColumn::optional("p95_us", |of: &PageSecond| of.request_p95_us),
        CsvColumn::optional("p99_us", |of: &PageSecond| of.request_p99_us),
        CsvColumn::optional("max_us", |of: &PageSecond| of.request_max_us),
    ];
    columns.extend(counts("status", CLASSES, |of: &PageSecond| &of.statuses));
    let verdicts = CacheVerdict::ALL.map(CacheVerdict::name);
    columns.extend(counts("cache", verdicts, |of: &PageSecond| &of.verdicts));
    let kinds = FetchFailure::ALL.map(FetchFailure::name);
    columns.extend(counts("failed", kinds, |of: &PageSecond| &of.failed_by_kind));
    columns.push(CsvColumn::new("users", |of: &PageSecond| of.users));
    table(&columns, &run.seconds)
}
