//! A run second by second as comma-separated values, for spreadsheets and plots.
//!
//! Invariant: a kind of run always has the same columns in the same order, and new columns are
//! appended. Unknown values are empty.

mod pages;

use crate::run::{Run, RunSecond};
use record::{CacheVerdict, FailureKind};
use std::collections::BTreeMap;

pub use pages::page_seconds_csv;

/// Status classes, each with a column.
const CLASSES: [&str; 6] = ["1xx", "2xx", "3xx", "4xx", "5xx", "other"];

/// A column of a table whose rows have the type `S`.
struct CsvColumn<'a, S> {
    name: String,
    cell: Box<dyn Fn(&S) -> String + 'a>,
}

impl<'a, S> CsvColumn<'a, S> {
    fn new<T: ToString>(name: &str, of: impl Fn(&S) -> T + 'a) -> Self {
        Self { name: name.to_owned(), cell: Box::new(move |row| of(row).to_string()) }
    }

    /// Creates a column with empty fields for unknown values.
    fn optional(name: &str, of: impl Fn(&S) -> Option<u64> + 'a) -> Self {
        Self::new(name, move |row| of(row).map(|value| value.to_string()).unwrap_or_default())
    }
}

/// Creates a column for each member of a map of counts. Missing members count as 0, because the
/// maps hold only members that occurred.
fn counts<'a, S: 'a>(
    prefix: &'static str,
    members: impl IntoIterator<Item = &'static str>,
    of: fn(&S) -> &BTreeMap<String, u64>,
) -> impl Iterator<Item = CsvColumn<'a, S>> {
    members.into_iter().map(move |member| {
        let name = format!("{prefix}_{}", column(member));
        CsvColumn::new(&name, move |row: &S| of(row).get(member).copied().unwrap_or(0))
    })
}

/// Formats the table with its header.
fn table<S>(columns: &[CsvColumn<'_, S>], rows: &[S]) -> String {
    let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
    let row = |row: &S| columns.iter().map(|column| (column.cell)(row)).collect::<Vec<_>>().join(",");
    let lines = std::iter::once(names.join(",")).chain(rows.iter().map(row));
    lines.map(|line| line + "\n").collect()
}

/// Start of a second in Unix time.
fn moment(started_s: f64, second: f64) -> String {
    format!("{:.3}", started_s + second)
}

/// Converts a name to a column name: `hit_by_age` for `hit (by Age)`.
fn column(name: &str) -> String {
    let words = name.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    words.map(str::to_ascii_lowercase).collect::<Vec<_>>().join("_")
}

/// Returns the seconds of a run of requests as CSV.
pub fn seconds_csv(run: &Run) -> String {
    let time = |second: &RunSecond| {
        run.started_s.map(|started_s| moment(started_s, second.second as f64)).unwrap_or_default()
    };
    let mut columns = vec![
        CsvColumn::new("time_s", time),
        CsvColumn::new("second", |of: &RunSecond| of.second),
        CsvColumn::new("users", |of: &RunSecond| of.users),
        CsvColumn::new("in_flight", |of: &RunSecond| of.in_flight),
        CsvColumn::new("started", |of: &RunSecond| of.started),
        CsvColumn::new("good", |of: &RunSecond| of.good),
        CsvColumn::new("failed", |of: &RunSecond| of.failed),
        CsvColumn::new("not_started", |of: &RunSecond| of.not_started),
        CsvColumn::new("received_bytes", |of: &RunSecond| of.received_bytes),
        CsvColumn::optional("p50_us", |of: &RunSecond| of.p50_us),
        CsvColumn::optional("p95_us", |of: &RunSecond| of.p95_us),
        CsvColumn::optional("p99_us", |of: &RunSecond| of.p99_us),
        CsvColumn::optional("max_us", |of: &RunSecond| of.max_us),
    ];
    columns.extend(counts("status", CLASSES, |of: &RunSecond| &of.statuses));
    columns.extend(counts("cache", CacheVerdict::ALL.map(CacheVerdict::name), |of: &RunSecond| &of.verdicts));
    columns.extend(counts("failed", FailureKind::ALL.map(FailureKind::name), |of: &RunSecond| {
        &of.failed_by_kind
    }));
    table(&columns, &run.seconds)
}
