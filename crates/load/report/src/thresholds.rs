//! Conditions for failing a run, for example `p95 > 300ms` or `errors > 0.1%`.
//!
//! Invariant: [`METRICS`], [`FIGURES`] and [`PHASES`] are the only lists of names; the parser, the
//! judgement and docs/thresholds.md use them. A condition on an unknown figure counts as true, so
//! the run fails: it has not shown that it is good.

mod pages;
mod reference;

use crate::number;
use crate::run::{Distribution, FailCondition, Run};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

pub use reference::thresholds_reference;

/// Length limit of an expression in bytes.
pub const EXPRESSION_BYTES_MAX: usize = 200;

/// Kind of value that a metric has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum QuantityKind {
    /// A time; the value needs a unit.
    Time,
    /// A number of requests or responses; with `%`, a share of a whole.
    Amount,
    /// A number per second.
    Rate,
}

/// A metric other than a time.
struct ThresholdMetric {
    /// Name of the metric. A name with a dot at the end is a family; the name of a member follows
    /// the dot.
    name: &'static str,
    kind: QuantityKind,
    /// Meaning of the metric, for the documentation.
    about: &'static str,
    of: Find,
}

/// Finds the metric's amount in a run, and the whole that it is a share of. The second argument is
/// the member of a family, else empty.
type Find = fn(&Run, &str) -> Option<(f64, Option<f64>)>;

/// Metrics other than times.
const METRICS: &[ThresholdMetric] = &[
    ThresholdMetric {
        name: "rate",
        kind: QuantityKind::Rate,
        about: "good responses a second",
        of: |run, _| Some((run.good_per_s?, None)),
    },
    ThresholdMetric {
        name: "requests",
        kind: QuantityKind::Amount,
        about: "requests that ended, good or failed",
        of: |run, _| Some((count(run.requests)?, None)),
    },
    ThresholdMetric {
        name: "good",
        kind: QuantityKind::Amount,
        about: "good responses; with %, the share of all requests that ended",
        of: |run, _| Some((count(run.good)?, count(run.requests))),
    },
    ThresholdMetric {
        name: "errors",
        kind: QuantityKind::Amount,
        about: "failed requests; with %, the share of all requests that ended",
        of: |run, _| Some((count(run.failed)?, count(run.requests))),
    },
    ThresholdMetric {
        name: "errors.",
        kind: QuantityKind::Amount,
        about: "failed requests of one kind, such as `errors.timeout` ([run-json.md](run-json.md) lists the kinds); with %, the share of all requests that ended",
        of: |run, kind| Some((named(&run.failed_by_kind, kind), count(run.requests))),
    },
    ThresholdMetric {
        name: "status.",
        kind: QuantityKind::Amount,
        about: "complete responses with a status or a class of statuses, such as `status.503` or `status.5xx`; with %, the share of all complete responses",
        of: |run, status| Some((statuses(run, status), count(run.complete))),
    },
    ThresholdMetric {
        name: "cache.",
        kind: QuantityKind::Amount,
        about: "good responses with this verdict of the nearest cache: `hit`, `stale`, `revalidated`, `miss`, `pass` or `other`; with %, the share of all good responses",
        of: |run, verdict| {
            let found = run.verdicts.get(verdict).and_then(|times| times.count).unwrap_or(0);
            Some((found as f64, count(run.good)))
        },
    },
    ThresholdMetric {
        name: "not_started",
        kind: QuantityKind::Amount,
        about: "requests of an open loop that fell due and were not started; with %, the share of these and of all requests that ended",
        of: |run, _| {
            let not_started = count(run.not_started)?;
            Some((not_started, count(run.requests).map(|requests| requests + not_started)))
        },
    },
];

/// Reads one figure of a distribution.
type Pick = fn(&Distribution) -> Option<f64>;

/// Figures of times: name, meaning, and the value in microseconds.
const FIGURES: &[(&str, &str, Pick)] = &[
    ("mean", "mean", |times| times.mean_us),
    ("sd", "standard deviation", |times| times.sd_us),
    ("min", "shortest time", |times| count(times.min_us)),
    ("p50", "median", |times| count(times.p50_us)),
    ("p75", "75th percentile", |times| count(times.p75_us)),
    ("p90", "90th percentile", |times| count(times.p90_us)),
    ("p95", "95th percentile", |times| count(times.p95_us)),
    ("p99", "99th percentile", |times| count(times.p99_us)),
    ("p99.9", "99.9th percentile", |times| count(times.p999_us)),
    ("max", "longest time", |times| count(times.max_us)),
];

/// Reads the distribution of a phase's times.
type PhasePick = fn(&Run) -> &Distribution;

/// Phases of good responses. The first one is used for figures without a phase.
const PHASES: &[(&str, &str, PhasePick)] = &[
    ("latency", "intended start to last byte", |run| &run.good_times.latency),
    ("total", "start to last byte", |run| &run.good_times.total),
    ("connect", "start to established connection", |run| &run.good_times.connect),
    ("tls", "TCP connection to end of the TLS handshake", |run| &run.good_times.tls),
    ("processing", "established connection to last byte", |run| &run.good_times.processing),
    ("waiting", "sent request to first byte", |run| &run.good_times.waiting),
    ("transfer", "first byte to last byte", |run| &run.good_times.transfer),
];

/// Valid members of the family `cache.`.
const CACHE_WORDS: [&str; 6] = ["hit", "stale", "revalidated", "miss", "pass", "other"];

fn count(value: Option<u64>) -> Option<f64> {
    value.map(|value| value as f64)
}

fn named(counts: &BTreeMap<String, u64>, name: &str) -> f64 {
    counts.get(name).copied().unwrap_or(0) as f64
}

fn statuses(run: &Run, wanted: &str) -> f64 {
    let is_wanted = |code: &str| match wanted.strip_suffix("xx") {
        Some(class) => code.starts_with(class),
        None => code == wanted,
    };
    run.statuses.iter().filter(|(code, _)| is_wanted(code)).map(|(_, count)| *count).sum::<u64>() as f64
}

/// Comparison of the figure with the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ThresholdOperator {
    Above,
    AtLeast,
    Below,
    AtMost,
}

/// The compared figure.
#[derive(Clone, Copy)]
enum ThresholdSubject {
    /// A figure of a phase's times.
    Time { name: &'static str, phase: PhasePick, figure: Pick },
    /// Any other metric.
    Other(&'static ThresholdMetric),
}

/// A condition for failing a run.
#[derive(Clone)]
pub struct Threshold {
    text: String,
    subject: ThresholdSubject,
    /// Member of a family; empty for other metrics.
    member: String,
    operator: ThresholdOperator,
    /// Value in the subject's unit: microseconds, a share (0 to 1), a number, or a rate per second.
    value: f64,
    is_share: bool,
}

impl fmt::Display for Threshold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for Threshold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Threshold({:?})", self.text)
    }
}

/// Error of an expression, with its place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("column {column}: {reason}")]
pub struct ThresholdError {
    /// Column of the faulty part, in characters counted from 1.
    pub column: usize,
    /// Reason, and a correct form.
    pub reason: String,
}

/// A threshold with the judgement of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct JudgedThreshold {
    /// The expression.
    pub text: String,
    /// Whether the condition holds, so that the run has failed.
    pub is_missed: bool,
    /// Value found in the run, in words.
    pub found: String,
}

impl From<&JudgedThreshold> for FailCondition {
    fn from(judged: &JudgedThreshold) -> Self {
        let JudgedThreshold { text, is_missed, found } = judged.clone();
        Self { condition: text, missed: is_missed, found }
    }
}

impl FromStr for Threshold {
    type Err = ThresholdError;

    /// Parses `METRIC OPERATOR VALUE`; spaces are optional.
    fn from_str(text: &str) -> Result<Self, ThresholdError> {
        let error = |byte: usize, reason: String| ThresholdError {
            column: text.get(..byte).unwrap_or(text).chars().count() + 1,
            reason,
        };
        if text.len() > EXPRESSION_BYTES_MAX {
            return Err(error(EXPRESSION_BYTES_MAX, format!("longer than {EXPRESSION_BYTES_MAX} bytes")));
        }
        let start = text.len() - text.trim_start().len();
        let Some(middle) = text.find(['<', '>', '=', '!']) else {
            let reason = "an operator is missing; write METRIC > VALUE, or <, >=, <=".to_owned();
            return Err(error(text.trim_end().len(), reason));
        };
        let (name, rest) = text.split_at(middle);
        let (operator, width) = match rest.as_bytes() {
            [b'>', b'=', ..] => (ThresholdOperator::AtLeast, 2),
            [b'<', b'=', ..] => (ThresholdOperator::AtMost, 2),
            [b'>', ..] => (ThresholdOperator::Above, 1),
            [b'<', ..] => (ThresholdOperator::Below, 1),
            _ => return Err(error(middle, "the operator must be >, >=, < or <=".to_owned())),
        };
        let (subject, member) = subject(name.trim()).map_err(|reason| error(start, reason))?;
        let after = rest.get(width..).unwrap_or_default();
        let place = middle + width + (after.len() - after.trim_start().len());
        let kind = match subject {
            ThresholdSubject::Time { .. } => QuantityKind::Time,
            ThresholdSubject::Other(metric) => metric.kind,
        };
        let (value, is_share) = value(after.trim(), kind).map_err(|reason| error(place, reason))?;
        if let ThresholdSubject::Other(metric) = subject
            && is_share
            && (metric.of)(&whole_of_one(), &member).is_some_and(|(_, whole)| whole.is_none())
        {
            return Err(error(place, format!("{} is not a share; write a number without %", metric.name)));
        }
        Ok(Self { text: text.trim().to_owned(), subject, member, operator, value, is_share })
    }
}

/// A run in which every figure is known. The parser uses it to find out whether a metric can be a
/// share.
fn whole_of_one() -> Run {
    Run {
        requests: Some(1),
        complete: Some(1),
        good: Some(1),
        failed: Some(1),
        not_started: Some(1),
        good_per_s: Some(1.0),
        ..Run::default()
    }
}

fn subject(name: &str) -> Result<(ThresholdSubject, String), String> {
    let (phase_name, figure_name) = match name.split_once('.') {
        Some((phase, figure)) if PHASES.iter().any(|(name, ..)| *name == phase) => (Some(phase), figure),
        _ => (None, name),
    };
    let figure = FIGURES.iter().find(|(name, ..)| *name == figure_name);
    let mut phases = PHASES.iter();
    let phase = phases.find(|(name, ..)| phase_name.is_none_or(|wanted| *name == wanted));
    if let (Some((_, _, figure)), Some((name, _, phase))) = (figure, phase) {
        return Ok((ThresholdSubject::Time { name, phase: *phase, figure: *figure }, String::new()));
    }
    if let Some(phase) = phase_name {
        return Err(format!(
            "{phase} has no {figure_name:?}; write one of {}",
            list(FIGURES.iter().map(|row| row.0))
        ));
    }
    for metric in METRICS {
        match name.strip_prefix(metric.name) {
            Some("") if !metric.name.ends_with('.') => {
                return Ok((ThresholdSubject::Other(metric), String::new()));
            }
            Some(member) if metric.name.ends_with('.') => {
                check_member(metric.name, member)?;
                return Ok((ThresholdSubject::Other(metric), member.to_owned()));
            }
            _ => {}
        }
    }
    let names =
        FIGURES.iter().map(|row| row.0).chain(METRICS.iter().map(|metric| metric.name.trim_end_matches('.')));
    let mut names: Vec<&str> = names.collect();
    names.dedup();
    if name.is_empty() { Err("a metric is missing".to_owned()) } else { Err(unknown(name, names)) }
}

fn unknown(name: &str, names: Vec<&str>) -> String {
    format!("there is no metric {name:?}; write one of {}", list(names.into_iter()))
}

fn list<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names.collect::<Vec<_>>().join(", ")
}

fn check_member(family: &str, member: &str) -> Result<(), String> {
    let kinds = record::FailureKind::ALL.map(record::FailureKind::name);
    let is_status = |text: &str| {
        let digits = text.strip_suffix("xx").map_or((text, 3), |class| (class, 1));
        digits.0.len() == digits.1 && digits.0.bytes().all(|byte| byte.is_ascii_digit())
    };
    match family {
        "errors." if !kinds.contains(&member) => {
            Err(format!("there is no kind of error {member:?}; write one of {}", list(kinds.into_iter())))
        }
        "cache." if !CACHE_WORDS.contains(&member) => Err(format!(
            "there is no cache verdict {member:?}; write one of {}",
            list(CACHE_WORDS.into_iter())
        )),
        "status." if !is_status(member) => {
            Err(format!("{member:?} is not a status; write for example 503 or 5xx"))
        }
        _ => Ok(()),
    }
}

/// Parses a value; the flag means a share.
fn value(text: &str, kind: QuantityKind) -> Result<(f64, bool), String> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (digits, unit) = text.split_at(end);
    let number: f64 = digits.parse().map_err(|_| format!("{text:?} does not begin with a number"))?;
    match (kind, unit.trim()) {
        (QuantityKind::Time, "us" | "µs") => Ok((number, false)),
        (QuantityKind::Time, "ms") => Ok((number * 1e3, false)),
        (QuantityKind::Time, "s") => Ok((number * 1e6, false)),
        (QuantityKind::Time, "m") => Ok((number * 60e6, false)),
        (QuantityKind::Time, "") => Err(format!("{number} has no unit; a time needs us, ms, s or m")),
        (QuantityKind::Time, unit) => Err(format!("{unit:?} is not a unit of time; write us, ms, s or m")),
        (QuantityKind::Rate, "" | "/s" | "req/s") | (QuantityKind::Amount, "") => Ok((number, false)),
        (QuantityKind::Rate, unit) => Err(format!("{unit:?} is not a unit of a rate; write /s or no unit")),
        (QuantityKind::Amount, "%") => Ok((number / 100.0, true)),
        (QuantityKind::Amount, unit) => {
            Err(format!("{unit:?} is not a unit of an amount; write % or no unit"))
        }
    }
}

impl Threshold {
    /// Whether the condition limits all failed requests. If so, failures within the limit are
    /// accepted. A limit of one kind, or of the number of good responses, says nothing about the
    /// other failures.
    pub fn is_about_errors(&self) -> bool {
        let ThresholdSubject::Other(metric) = self.subject else { return false };
        metric.name == "errors" || metric.name == "good" && self.is_share
    }

    /// Judges a run by this condition.
    pub fn judge(&self, run: &Run) -> JudgedThreshold {
        let found = match self.subject {
            ThresholdSubject::Time { phase, figure, .. } => figure(&phase(run).or_unknown()),
            ThresholdSubject::Other(metric) => (metric.of)(run, &self.member).and_then(|(amount, whole)| {
                if !self.is_share {
                    return Some(amount);
                }
                whole.filter(|whole| *whole > 0.0).map(|whole| amount / whole)
            }),
        };
        let is_missed = found.is_none_or(|found| match self.operator {
            ThresholdOperator::Above => found > self.value,
            ThresholdOperator::AtLeast => found >= self.value,
            ThresholdOperator::Below => found < self.value,
            ThresholdOperator::AtMost => found <= self.value,
        });
        let words = found.map_or_else(
            || "its value is not known".to_owned(),
            |found| format!("it is {}", self.words(found)),
        );
        JudgedThreshold { text: self.text.clone(), is_missed, found: words }
    }

    fn words(&self, found: f64) -> String {
        match self.subject {
            ThresholdSubject::Time { .. } => number::milliseconds(found / 1e3),
            ThresholdSubject::Other(ThresholdMetric { kind: QuantityKind::Rate, .. }) => {
                format!("{} req/s", number::rate(found))
            }
            ThresholdSubject::Other(_) if self.is_share => {
                format!("{}%", number::three_digits(found * 100.0))
            }
            ThresholdSubject::Other(_) => number::grouped(found as u64),
        }
    }
}

/// Returns the judgements as lines of text; empty if there are none.
pub fn text(judged: &[JudgedThreshold]) -> String {
    if judged.is_empty() {
        return String::new();
    }
    let line = |of: &JudgedThreshold| {
        format!("  {}  {}: {}\n", if of.is_missed { "FAILED" } else { "passed" }, of.text, of.found)
    };
    format!("\nThresholds\n{}", judged.iter().map(line).collect::<String>())
}
