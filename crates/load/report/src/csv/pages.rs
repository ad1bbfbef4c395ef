//! The seconds of a run in page mode as CSV: pages, then their requests.
//!
//! Invariant: a column that runs of requests also have keeps its name and meaning.

use super::{CLASSES, CsvColumn, counts, moment, table};
use crate::page::{PageRun, PageRunSecond};
use record::{CacheVerdict, FetchFailure};

/// Returns the seconds of a run in page mode as CSV.
pub fn page_seconds_csv(run: &PageRun) -> String {
    let mut columns = vec![
        CsvColumn::new("time_s", |of: &PageRunSecond| moment(run.started_s, f64::from(of.second))),
        CsvColumn::new("second", |of: &PageRunSecond| of.second),
        CsvColumn::new("pages_started", |of: &PageRunSecond| of.started),
        CsvColumn::new("pages_good", |of: &PageRunSecond| of.good),
        CsvColumn::new("pages_incomplete", |of: &PageRunSecond| of.incomplete),
        CsvColumn::new("pages_failed", |of: &PageRunSecond| of.failed),
        CsvColumn::new("pages_not_started", |of: &PageRunSecond| of.not_started),
        CsvColumn::optional("page_p50_us", |of: &PageRunSecond| of.page_p50_us),
        CsvColumn::optional("page_p95_us", |of: &PageRunSecond| of.page_p95_us),
        CsvColumn::optional("page_p99_us", |of: &PageRunSecond| of.page_p99_us),
        CsvColumn::optional("page_max_us", |of: &PageRunSecond| of.page_max_us),
        CsvColumn::new("requests", |of: &PageRunSecond| of.requests),
        CsvColumn::new("failed_requests", |of: &PageRunSecond| of.failed_requests),
        CsvColumn::new("received_bytes", |of: &PageRunSecond| of.received_bytes),
        CsvColumn::optional("p50_us", |of: &PageRunSecond| of.request_p50_us),
        CsvColumn::optional("p95_us", |of: &PageRunSecond| of.request_p95_us),
        CsvColumn::optional("p99_us", |of: &PageRunSecond| of.request_p99_us),
        CsvColumn::optional("max_us", |of: &PageRunSecond| of.request_max_us),
    ];
    columns.extend(counts("status", CLASSES, |of: &PageRunSecond| &of.statuses));
    let verdicts = CacheVerdict::ALL.map(CacheVerdict::name);
    columns.extend(counts("cache", verdicts, |of: &PageRunSecond| &of.verdicts));
    let kinds = FetchFailure::ALL.map(FetchFailure::name);
    columns.extend(counts("failed", kinds, |of: &PageRunSecond| &of.failed_by_kind));
    columns.push(CsvColumn::new("users", |of: &PageRunSecond| of.users));
    table(&columns, &run.seconds)
}
