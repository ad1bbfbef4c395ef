//! Progress of a running load test: a few lines for a terminal of any size, or one line for a log.
//!
//! Invariants:
//!
//! * There are fewer lines than the terminal's height, and each is shorter than its width. Nothing
//!   wraps or scrolls.
//! * A part that does not fit is left out completely, the least important first.
//! * The text contains no escape sequences.

use crate::number;
use load::{CacheVerdict, FailureKind, Failures, Second};
use std::time::Duration;

/// Largest width of the rate chart in columns, and so the most seconds worth keeping.
pub const SPARK_SECONDS_MAX: usize = 60;

/// Smallest width of the rate chart; a narrower one would be unreadable.
const SPARK_SECONDS_MIN: usize = 5;

/// Separator between two parts of a line.
const GAP: &str = "  ";

/// Progress of a run, and its most recent figures.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LiveFigures {
    /// Time since the measured part began; `None` before that and during the warm-up.
    pub elapsed: Option<Duration>,
    /// Planned duration of the measured part, if it is known.
    pub time_max: Option<Duration>,
    /// Requests that ended, successful or not.
    pub done: u64,
    /// Planned number of requests, if it is known.
    pub requests_max: Option<u64>,
    /// Number of failed requests.
    pub failed: u64,
    /// Failures by kind, up to the last second in `recent`.
    pub failures: Failures,
    /// The last complete seconds, oldest first.
    pub recent: Vec<Second>,
}

/// Characters of the rate chart, lowest level first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Glyphs {
    /// Blocks of eight heights.
    Blocks,
    /// ASCII characters, for terminals without Unicode.
    Ascii,
}

impl Glyphs {
    const fn levels(self) -> [char; 8] {
        match self {
            Self::Blocks => ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'],
            Self::Ascii => ['_', '.', '-', '~', '=', '+', '*', '#'],
        }
    }
}

/// Returns the lines for a terminal with `width` columns and `height` rows.
pub fn screen(live: &LiveFigures, width: usize, height: usize, glyphs: Glyphs) -> Vec<String> {
    let room = width.saturating_sub(1);
    let lines = match live.elapsed {
        None => vec![fitting(&["warming up".to_owned()], room)],
        Some(elapsed) => vec![
            fitting(&headline(live, elapsed), room),
            sparkline(&live.recent, room, glyphs),
            fitting(&latencies(live), room),
            fitting(&failures(live), room),
            fitting(&verdicts(live), room),
            fitting(&requests(live), room),
        ],
    };
    let lines = lines.into_iter().filter(|line| !line.is_empty()).take(height.saturating_sub(1));
    match glyphs {
        Glyphs::Blocks => lines.collect(),
        Glyphs::Ascii => lines.map(|line| line.replace('µ', "u")).collect(),
    }
}

/// Returns one line for a log; `None` before the measured part.
pub fn log_line(live: &LiveFigures) -> Option<String> {
    let elapsed = live.elapsed?;
    let mut parts = headline(live, elapsed);
    parts.extend(latencies(live));
    parts.extend(verdicts(live));
    parts.extend(failures(live));
    Some(parts.join(GAP))
}

/// Joins as many leading parts as fit.
fn fitting(parts: &[String], room: usize) -> String {
    let mut line = String::new();
    let mut used = 0;
    for part in parts {
        let gap = if used == 0 { "" } else { GAP };
        used += gap.len() + part.chars().count();
        if used > room {
            break;
        }
        line.push_str(gap);
        line.push_str(part);
    }
    line
}

fn headline(live: &LiveFigures, elapsed: Duration) -> Vec<String> {
    let of_time = live.time_max.map(|time| format!("/{}", short(time.as_secs_f64()))).unwrap_or_default();
    let mut parts = vec![
        format!("{}{of_time} s", short(elapsed.as_secs_f64().floor())),
        format!("{} req/s", number::rate(rate_now(live, elapsed))),
        format!("{} failed", number::grouped(live.failed)),
    ];
    if let Some(of) = live.requests_max {
        parts.push(format!("{}/{} requests", number::grouped(live.done), number::grouped(of)));
    }
    parts
}

/// Formats seconds, without decimals for a whole number.
fn short(seconds: f64) -> String {
    if seconds.fract() == 0.0 { format!("{seconds:.0}") } else { format!("{seconds:.1}") }
}

/// Requests that ended in the last second. Before the first second is complete, the mean rate so
/// far.
fn rate_now(live: &LiveFigures, elapsed: Duration) -> f64 {
    match live.recent.last() {
        Some(second) => ended(second) as f64,
        None => live.done as f64 / elapsed.as_secs_f64().max(1.0),
    }
}

fn ended(second: &Second) -> u64 {
    second.good + second.failures.total()
}

/// Chart of the rates in the last seconds, scaled from zero to the highest of them.
fn sparkline(recent: &[Second], room: usize, glyphs: Glyphs) -> String {
    let rates: Vec<u64> = recent.iter().map(ended).collect();
    let label = |max: u64| format!("{GAP}max {}", number::compact(max as f64));
    // The label of the overall maximum is the longest possible one.
    let widest = label(rates.iter().copied().max().unwrap_or(0)).chars().count() + 1;
    let columns = room.saturating_sub(widest).min(SPARK_SECONDS_MAX);
    if columns < SPARK_SECONDS_MIN || rates.is_empty() {
        return String::new();
    }
    let shown = rates.get(rates.len().saturating_sub(columns)..).unwrap_or_default();
    let max = shown.iter().copied().max().unwrap_or(0);
    let levels = glyphs.levels();
    let level = |&rate: &u64| {
        let height = (rate as f64 / max.max(1) as f64 * (levels.len() - 1) as f64).round() as usize;
        levels.get(height).copied().unwrap_or(' ')
    };
    let drawing: String = shown.iter().map(level).collect();
    format!("{drawing}{}", label(max))
}

/// Percentiles of the last second that had responses.
fn latencies(live: &LiveFigures) -> Vec<String> {
    let Some(second) = live.recent.iter().rev().find(|second| second.max_us > 0) else { return Vec::new() };
    let part = |name: &str, us: u64| format!("{name} {}", number::milliseconds(us as f64 / 1000.0));
    vec![part("p50", second.p50_us), part("p95", second.p95_us), part("p99", second.p99_us)]
}

/// Cache verdicts as shares of the good responses in the last second.
fn verdicts(live: &LiveFigures) -> Vec<String> {
    let Some(second) = live.recent.last() else { return Vec::new() };
    let share = |count: u64| number::percent(count as f64 / second.good.max(1) as f64);
    let told = CacheVerdict::ALL.into_iter().zip(second.verdicts).filter(|&(_, count)| count > 0);
    let mut parts: Vec<String> =
        told.map(|(verdict, count)| format!("{} {}", verdict.name(), share(count))).collect();
    if let Some(first) = parts.first_mut() {
        first.insert_str(0, "cache: ");
    }
    parts
}

/// Failures by kind, most frequent first.
fn failures(live: &LiveFigures) -> Vec<String> {
    let counts = FailureKind::ALL.into_iter().map(|kind| (kind, live.failures.of(kind)));
    let mut counts: Vec<_> = counts.filter(|&(_, count)| count > 0).collect();
    counts.sort_by_key(|&(_, count)| std::cmp::Reverse(count));
    let mut parts: Vec<String> =
        counts.iter().map(|(kind, count)| format!("{} {}", kind.name(), number::grouped(*count))).collect();
    if let Some(first) = parts.first_mut() {
        first.insert_str(0, "failed: ");
    }
    parts
}

/// Number of requests, unless a plan limits it, and of users.
fn requests(live: &LiveFigures) -> Vec<String> {
    let mut parts = Vec::new();
    if live.requests_max.is_none() {
        parts.push(format!("{} requests", number::grouped(live.done)));
    }
    if let Some(second) = live.recent.last() {
        parts.push(format!("{} in flight", number::grouped(second.in_flight)));
        if second.users > 0 {
            parts.push(format!("{} users", number::grouped(second.users)));
        }
        if second.not_started > 0 {
            parts.push(format!("{} not started", number::grouped(second.not_started)));
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::{Glyphs, LiveFigures, log_line, screen};
    use load::{FailureKind, Failures, Second};
    use std::time::Duration;

    fn second(good: u64) -> Second {
        let p50_us = 1_200;
        let p95_us = 3_400;
        let p99_us = 12_100;
        let max_us = 15_000;
        let verdicts = [good - good / 10, 0, 0, 0, good / 10, 0, 0];
        let users = 100;
        Second { good, verdicts, p50_us, p95_us, p99_us, max_us, users, in_flight: 87, ..Second::default() }
    }

    fn live() -> LiveFigures {
        LiveFigures {
            elapsed: Some(Duration::from_millis(12_345)),
            time_max: Some(Duration::from_secs(60)),
            done: 1_234_567,
            requests_max: None,
            failed: 15,
            failures: Failures::of_kinds(&[(FailureKind::Timeout, 3), (FailureKind::Status, 12)]),
            recent: [0, 7_000, 14_000, 3_500, 14_000].map(second).to_vec(),
        }
    }

    #[test]
    fn small_terminal_shows_everything() {
        let lines = screen(&live(), 40, 10, Glyphs::Blocks);
        assert_eq!(
            lines,
            [
                "12/60 s  14,000 req/s  15 failed",
                "▁▅█▃█  max 14k",
                "p50 1.20 ms  p95 3.40 ms  p99 12.1 ms",
                "failed: status 12  timeout 3",
                "cache: hit 90%  miss 10%",
                "1,234,567 requests  87 in flight",
            ]
        );
    }

    #[test]
    fn output_fits_every_terminal_size() {
        let many = LiveFigures { recent: [14_000; 200].map(second).to_vec(), ..live() };
        let counted = LiveFigures { requests_max: Some(2_000_000), ..live() };
        for live in [live(), many, counted, LiveFigures::default()] {
            for (width, height) in (0..90).flat_map(|width| (0..12).map(move |height| (width, height))) {
                let lines = screen(&live, width, height, Glyphs::Blocks);
                let widest = lines.iter().map(|line| line.chars().count()).max().unwrap_or(0);
                assert!(lines.len() < height.max(1), "{} lines at {width}x{height}", lines.len());
                assert!(widest < width.max(1), "{widest} columns at {width}x{height}: {lines:?}");
            }
        }
    }

    #[test]
    fn parts_that_do_not_fit_are_left_out() {
        let narrow = screen(&live(), 24, 10, Glyphs::Blocks);
        assert_eq!(narrow[0], "12/60 s  14,000 req/s");
        assert_eq!(narrow[2], "p50 1.20 ms");
        assert_eq!(screen(&live(), 12, 2, Glyphs::Blocks), ["12/60 s"]);
        assert!(screen(&live(), 5, 10, Glyphs::Blocks).is_empty());
        let tiny = screen(&live(), 14, 10, Glyphs::Ascii);
        assert!(!tiny.iter().any(|line| line.contains("max")), "{tiny:?}");
    }

    #[test]
    fn chart_shows_the_latest_seconds() {
        let mut recent = vec![second(90_000)];
        recent.extend([1_000, 2_000, 4_000, 8_000, 8_000, 0].map(second));
        let lines = screen(&LiveFigures { recent, ..live() }, 17, 3, Glyphs::Ascii);
        assert_eq!(
            lines[1], ".-=##_  max 8k",
            "the highest rate is no longer shown, so the label must not name it"
        );
    }

    #[test]
    fn warm_up_and_first_second_are_shown() {
        assert_eq!(screen(&LiveFigures::default(), 40, 10, Glyphs::Blocks), ["warming up"]);
        assert_eq!(log_line(&LiveFigures::default()), None);
        let begun =
            LiveFigures { elapsed: Some(Duration::from_millis(100)), done: 7, ..LiveFigures::default() };
        assert_eq!(screen(&begun, 40, 10, Glyphs::Blocks), ["0 s  7.00 req/s  0 failed", "7 requests"]);
    }

    #[test]
    fn log_has_everything_in_one_line() {
        assert_eq!(
            log_line(&live()).unwrap(),
            "12/60 s  14,000 req/s  15 failed  p50 1.20 ms  p95 3.40 ms  p99 12.1 ms  \
             cache: hit 90%  miss 10%  failed: status 12  timeout 3"
        );
    }
}
