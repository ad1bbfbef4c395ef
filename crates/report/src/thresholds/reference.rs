//! Renders docs/thresholds.md from the tables of names.

use super::{FIGURES, Kind, METRICS, PHASES};
use std::fmt::Write as _;

/// Text before the tables.
const BEFORE: &str = "\
<!-- Rendered by `cargo xtask docs` from crates/report/src/thresholds.rs. -->

# Thresholds

    petasos bench URL -t 30s -c 20 --fail-if 'p95 > 300ms' --fail-if 'errors > 0.1%' --fail-if 'rate < 500'

`--fail-if` names a condition under which the run has failed: METRIC, one of `>`, `>=`, `<`, `<=`, and a value. Each is printed below
the report with what was found, and if any holds, the exit code is 1. What is not known, such as the p95 of a run without a good
answer, counts as failed. Without `--fail-if`, and with conditions that are not about `errors` or `good`, every failed request makes
the exit code 1; a condition about `errors` or `good` takes the place of that rule. A mistake in an expression is told with its
column before anything is loaded, with exit code 2.

Times are those of good answers and need a unit: `us`, `ms`, `s` or `m`. Amounts are numbers, or with `%` shares. Rates are a second.

";

/// Returns the page of metric names in Markdown.
pub fn thresholds_reference() -> String {
    let mut page = BEFORE.to_owned();
    // Writing to a string cannot fail, here and below.
    let _ = writeln!(page, "## Times\n\n| metric | meaning |\n|---|---|");
    for (name, about, _) in FIGURES {
        let _ = writeln!(page, "| `{name}` | {about} of the latency |");
    }
    let _ = writeln!(
        page,
        "\nWith a phase before it a figure is about that phase: `waiting.p95 > 200ms`.\n\n| phase | from, to |\n|---|---|"
    );
    for (name, about, _) in PHASES {
        let _ = writeln!(page, "| `{name}` | {about} |");
    }
    let _ = writeln!(page, "\n## Everything else\n\n| metric | value | meaning |\n|---|---|---|");
    for metric in METRICS {
        let value = match metric.kind {
            Kind::Time => "time",
            Kind::Amount => "amount",
            Kind::Rate => "rate",
        };
        let family = if metric.name.ends_with('.') { "NAME" } else { "" };
        let _ = writeln!(page, "| `{}{family}` | {value} | {} |", metric.name, metric.about);
    }
    page
}
