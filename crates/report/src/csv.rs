//! A run second by second as comma-separated values, for spreadsheets and plots.
//!
//! Invariant: the columns are always the same and in the same order; columns are added at the end. A time that is not
//! known is empty.

use crate::run::{Run, Second};
use load::{CacheVerdict, FailureKind};
use std::fmt::Write as _;

/// Classes of statuses, with a column each.
const CLASSES: [&str; 6] = ["1xx", "2xx", "3xx", "4xx", "5xx", "other"];

/// The table with its header.
pub fn seconds_csv(run: &Run) -> String {
    let mut text = header();
    for second in &run.seconds {
        // Writing to a string cannot fail.
        let _ = row(run, second, &mut text);
    }
    text
}

fn header() -> String {
    let mut names: Vec<String> =
        ["time_s", "second", "users", "in_flight", "started", "good", "failed", "not_started"]
            .map(str::to_owned)
            .into();
    names.extend(["received_bytes", "p50_us", "p95_us", "p99_us", "max_us"].map(str::to_owned));
    names.extend(CLASSES.map(|class| format!("status_{class}")));
    names.extend(CacheVerdict::ALL.map(|verdict| format!("cache_{}", column(verdict.name()))));
    names.extend(FailureKind::ALL.map(|kind| format!("failed_{}", kind.name())));
    names.join(",") + "\n"
}

/// A name as that of a column: `hit_by_age` for `hit (by Age)`.
fn column(name: &str) -> String {
    let words = name.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    words.map(str::to_ascii_lowercase).collect::<Vec<_>>().join("_")
}

fn row(run: &Run, second: &Second, text: &mut String) -> std::fmt::Result {
    let time = |value: Option<u64>| value.map(|value| value.to_string()).unwrap_or_default();
    if let Some(started_s) = run.started_s {
        write!(text, "{:.3}", started_s + second.second as f64)?;
    }
    write!(
        text,
        ",{},{},{},{},{},{},{},{}",
        second.second,
        second.users,
        second.in_flight,
        second.started,
        second.good,
        second.failed,
        second.not_started,
        second.received_bytes
    )?;
    for value in [second.p50_us, second.p95_us, second.p99_us, second.max_us] {
        write!(text, ",{}", time(value))?;
    }
    let classes = CLASSES.iter().map(|class| second.statuses.get(*class));
    let verdicts = CacheVerdict::ALL.iter().map(|verdict| second.verdicts.get(verdict.name()));
    let kinds = FailureKind::ALL.iter().map(|kind| second.failed_by_kind.get(kind.name()));
    for count in classes.chain(verdicts).chain(kinds) {
        write!(text, ",{}", count.copied().unwrap_or(0))?;
    }
    text.push('\n');
    Ok(())
}
