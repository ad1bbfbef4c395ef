//! The metric `petasos_request_duration_seconds` as OpenMetrics text.
//!
//! It is written here, because the encoder of `prometheus-client` takes exemplars only from its own
//! histograms, which have a lock that every request would take. Its native histograms are no
//! replacement: they exist only in the binary format of Prometheus, not in text.
//!
//! Invariant: a label or value is text without quotation marks, backslashes and line ends.

use crate::memory::measures::{EXEMPLARS, Exemplar, MeasureTable};
use crate::memory::times::{BOUNDS, TimeFigures};
use semantics::Verdict;
use std::fmt::{self, Write};

/// The metric's name with its prefix.
pub(crate) const NAME: &str = "petasos_request_duration_seconds";

/// What the metric means.
pub(crate) const HELP: &str = "Time from a request's complete head to the last byte of its response, by site and verdict. \
                               Compare misses and passes with the origin's own figures.";

/// The last line of OpenMetrics text.
const END: &str = "# EOF\n";

/// Adds the metric to the text of all others.
pub(crate) fn add_to(text: &mut String, measures: &MeasureTable) {
    if text.ends_with(END) {
        text.truncate(text.len() - END.len());
    }
    // Writing to a String cannot fail.
    let _ = write_metric(text, measures);
    text.push_str(END);
}

fn write_metric(text: &mut String, measures: &MeasureTable) -> fmt::Result {
    writeln!(text, "# HELP {NAME} {HELP}\n# TYPE {NAME} histogram\n# UNIT {NAME} seconds")?;
    for site in measures.all() {
        for verdict in Verdict::ALL {
            let Some(times) = site.times(verdict) else { continue };
            let labels = format!("site=\"{}\",verdict=\"{verdict}\"", site.label());
            write_histogram(text, &labels, &times, &site.exemplars(verdict))?;
        }
    }
    Ok(())
}

fn write_histogram(
    text: &mut String,
    labels: &str,
    times: &TimeFigures,
    exemplars: &[Option<Exemplar>; EXEMPLARS],
) -> fmt::Result {
    let count = times.count();
    let bounds = BOUNDS.iter().map(|power| (format!("{}", Seconds(1 << power)), times.below(*power)));
    let buckets = bounds.chain([("+Inf".to_owned(), count)]);
    for ((bound, below), exemplar) in buckets.zip(exemplars) {
        write!(text, "{NAME}_bucket{{{labels},le=\"{bound}\"}} {below}")?;
        if let Some(Exemplar { trace, micros, at }) = exemplar {
            let at = Seconds(at.as_micros());
            write!(text, " # {{trace_id=\"{trace}\"}} {} {at}", Seconds(*micros))?;
        }
        text.write_char('\n')?;
    }
    writeln!(text, "{NAME}_sum{{{labels}}} {}", Seconds(times.micros()))?;
    writeln!(text, "{NAME}_count{{{labels}}} {count}")
}

/// Microseconds, shown as a decimal number of seconds.
struct Seconds(u64);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:06}", self.0 / 1_000_000, self.0 % 1_000_000)
    }
}

#[cfg(test)]
mod tests {
    use super::add_to;
    use crate::memory::measures::MeasureTable;
    use clock::Timestamp;
    use request_log::TraceId;
    use semantics::Reason;
    use std::time::Duration;

    #[test]
    fn histogram_has_cumulative_buckets_and_exemplars() {
        let table = MeasureTable::new(1);
        let trace = (TraceId::from_bits(0xabc), Timestamp::from_micros(1_700_000_000_250_000));
        let site = table.of("a.test");
        site.note(0, Reason::HitFresh, Duration::from_micros(63), None);
        site.note(0, Reason::HitFresh, Duration::from_micros(64), Some(trace));
        site.note(0, Reason::HitFresh, Duration::from_secs(60), None);
        let mut text = "# EOF\n".to_owned();
        add_to(&mut text, &table);
        assert!(text.ends_with("\n# EOF\n") && text.matches("# EOF").count() == 1, "{text}");
        let trace = "0".repeat(29) + "abc";
        for line in [
            "# TYPE petasos_request_duration_seconds histogram",
            "petasos_request_duration_seconds_bucket{site=\"a.test\",verdict=\"hit\",le=\"0.000064\"} 1",
            &format!(
                "petasos_request_duration_seconds_bucket{{site=\"a.test\",verdict=\"hit\",le=\"0.000256\"}} 2 \
                 # {{trace_id=\"{trace}\"}} 0.000064 1700000000.250000"
            ),
            "petasos_request_duration_seconds_bucket{site=\"a.test\",verdict=\"hit\",le=\"16.777216\"} 2",
            "petasos_request_duration_seconds_bucket{site=\"a.test\",verdict=\"hit\",le=\"+Inf\"} 3",
            "petasos_request_duration_seconds_sum{site=\"a.test\",verdict=\"hit\"} 60.000127",
            "petasos_request_duration_seconds_count{site=\"a.test\",verdict=\"hit\"} 3",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is missing in\n{text}");
        }
    }
}
