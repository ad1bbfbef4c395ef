//! Renders docs/thresholds.md from the tables of names.

use super::{FIGURES, METRICS, PHASES, QuantityKind};
use std::fmt::Write as _;

/// Text before the tables.
const BEFORE: &str = "\
<!-- Rendered by `cargo xtask docs` from crates/load/report/src/thresholds.rs. -->

# Thresholds

    petasos bench URL -t 30s -c 20 --fail-if 'p95 > 300ms' --fail-if 'errors > 0.1%' --fail-if 'rate < 500'

With `--fail-if` a script can fail when a run is too slow or has too many errors. The flag takes a
condition under which the run fails: METRIC, one of `>`, `>=`, `<`, `<=`, and a value. The load
tester prints each condition below the report with the value that it found. If any condition holds,
the exit code is 1. A condition on an unknown value also fails the run, for example on the p95 of a
run without a good response.

By default, every failed request makes the exit code 1. A condition about all failures replaces this
rule: `errors`, or a share of `good` such as `good < 99%`. Conditions about one kind of failure, about
the number of good responses or about other metrics do not. A run that was cut short or has no good
response always has exit code 1. A mistake in an expression is an error with exit code 2. The
message names the column, and no request has been sent.

Times are those of good responses and need a unit: `us`, `ms`, `s` or `m`. Amounts are numbers, or
shares with `%`. Rates are per second.

";

/// Returns the page of metric names in Markdown.
pub fn thresholds_reference() -> String {
    let mut page = BEFORE.to_owned();
    // Writing to a string cannot fail, here and below.
    let _ = writeln!(page, "## Times\n\n| metric | meaning |\n|---|---|");
    for (name, about, _) in FIGURES {
        let _ = writeln!(page, "| `{name}` | {about} |");
    }
    let _ = writeln!(
        page,
        "\nWithout a phase, a figure is about `latency`. For another phase, write its name first:\n`waiting.p95 > 200ms`.\n\n| phase | from, to |\n|---|---|"
    );
    for (name, about, _) in PHASES {
        let _ = writeln!(page, "| `{name}` | {about} |");
    }
    let _ = writeln!(page, "\n## Everything else\n\n| metric | value | meaning |\n|---|---|---|");
    for metric in METRICS {
        let value = match metric.kind {
            QuantityKind::Time => "time",
            QuantityKind::Amount => "amount",
            QuantityKind::Rate => "rate",
        };
        let family = if metric.name.ends_with('.') { "NAME" } else { "" };
        let _ = writeln!(page, "| `{}{family}` | {value} | {} |", metric.name, metric.about);
    }
    page
}
