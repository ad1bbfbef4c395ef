//! Writes a run as an HdrHistogram log: a line for each phase of good responses, for the whole run
//! and for each stage.

use record::{RunOutcome, Times};
use stats::{Histogram, LogLine};
use std::io;
use std::time::Duration;

/// Returns the log as bytes.
///
/// # Errors
/// Returns an error if a histogram cannot be encoded.
pub fn hdr_log(outcome: &RunOutcome) -> io::Result<Vec<u8>> {
    let started = Duration::from_micros(outcome.started.as_micros());
    let mut lines = lines("", Duration::ZERO, outcome.elapsed, &outcome.good_times);
    let mut start = Duration::ZERO;
    for (stage, place) in outcome.stages.iter().zip(1..) {
        lines.extend(self::lines(&format!("stage{place}-"), start, stage.elapsed, &stage.good_times));
        start += stage.elapsed + outcome.plan.cooldown;
    }
    let comment =
        format!("Petasos {}: {}, times in microseconds", env!("CARGO_PKG_VERSION"), outcome.plan.target);
    stats::hdr_log(&comment, started, &lines)
}

fn lines<'a>(prefix: &str, start: Duration, duration: Duration, times: &'a Times) -> Vec<LogLine<'a>> {
    let phases: [(&str, &Histogram); 7] = [
        ("latency", times.latency()),
        ("total", &times.total),
        ("connect", &times.connect),
        ("tls", &times.tls),
        ("processing", &times.processing),
        ("waiting", &times.waiting),
        ("transfer", &times.transfer),
    ];
    let line = |(name, histogram)| LogLine { tag: format!("{prefix}{name}"), start, duration, histogram };
    phases.into_iter().map(line).collect()
}
