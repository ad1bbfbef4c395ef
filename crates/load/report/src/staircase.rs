//! Staircases: steps measured with increasing numbers of users, and the point where each tips over.
//! Pure functions.
//!
//! Invariant: a tipping point is reported only if it follows from measured cells, or from a load
//! without any good response, by the rule of [`tipping_point`]. A missing cell, or one void for
//! another reason, shows nothing and is reported as not measured. A starred cell shows nothing
//! either and is reported as starred. docs/ladder.md states the same rule.

use crate::number;
use crate::results::{CellRecord, Results, StepRecord, VisitOutcome};
use crate::summary::{CellResult, RoundsFigure, cell_result, shared_concurrencies};
use std::fmt;

/// A staircase needs this many numbers of users at which most steps were measured.
pub const STAIRS_MIN: usize = 3;

/// Throughput counts as fallen below this share of the best throughput with fewer users.
pub const THROUGHPUT_SHARE: f64 = 0.9;

/// The 99th percentile counts as jumped above this multiple of the preceding stair's, in proportion
/// to the users. The proportion is needed because at capacity, in a closed loop, twice as many
/// users wait twice as long.
pub const P99_FACTOR: f64 = 2.0;

/// Highest acceptable share of failed requests, 0 to 1.
pub const FAILED_SHARE: f64 = 0.01;

/// One step with increasing numbers of users.
#[derive(Clone, Debug)]
pub struct Staircase<'a> {
    /// The step.
    pub step: &'a StepRecord,
    /// Version of the measured program, if the ladder names one.
    pub version: Option<&'a str>,
    /// Result for each number of users, ascending.
    pub stairs: Vec<(u64, CellResult)>,
    /// Point where the step tips over, if it does.
    pub tip: Option<Tip>,
}

/// Figures of one cell: the input of the rule.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Stair {
    /// Users, each with one request at a time.
    pub users: u64,
    /// Good responses per second.
    pub throughput: RoundsFigure,
    /// 99th percentile of the response times in milliseconds.
    pub p99_ms: f64,
    /// Share of failed requests among all ended requests.
    pub failed_share: f64,
    /// Whether a load received no good response. The other figures are then unset.
    pub is_silent: bool,
}

/// Smallest excessive number of users.
#[derive(Clone, Debug, PartialEq)]
pub struct Tip {
    /// Number of users.
    pub users: u64,
    /// Evidence; at least one sign.
    pub signs: Vec<TippingSign>,
}

/// Evidence that there are too many users.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TippingSign {
    /// Good responses per second: the best with fewer users, and the value here.
    Throughput(f64, f64),
    /// 99th percentile in milliseconds: at the preceding stair, and here.
    Response(f64, f64),
    /// Share of failed requests here.
    Failed(f64),
    /// A load received no good response.
    Silent,
}

/// Returns the staircases of a ladder's steps, with or without keep-alive. The list is empty if
/// there are too few stairs.
pub fn staircases(results: &Results, keepalive: bool) -> Vec<Staircase<'_>> {
    let shared = shared_concurrencies(results, keepalive);
    if shared.len() < STAIRS_MIN {
        return Vec::new();
    }
    results
        .steps
        .iter()
        .map(|step| staircase(results, step, keepalive, &shared))
        .filter(|of| of.stairs.len() > 1)
        .collect()
}

fn staircase<'a>(
    results: &'a Results,
    step: &'a StepRecord,
    keepalive: bool,
    shared: &[u64],
) -> Staircase<'a> {
    let is_stair = |cell: &&CellRecord| {
        cell.step == step.id && cell.keepalive == keepalive && shared.contains(&cell.concurrency)
    };
    let mut cells: Vec<&CellRecord> = results.cells.iter().filter(is_stair).collect();
    cells.sort_by_key(|cell| cell.concurrency);
    let stairs: Vec<(u64, CellResult)> =
        cells.iter().map(|cell| (cell.concurrency, cell_result(cell))).collect();
    let seen = cells.iter().zip(&stairs).filter_map(|(cell, (users, result))| seen(cell, *users, result));
    let tip = tipping_point(&seen.collect::<Vec<_>>());
    let mut versions = results.environment.versions.iter();
    let version = step.version.as_ref().and_then(|name| versions.find(|version| version.name == *name));
    Staircase { step, version: version.map(|version| version.version.as_str()), stairs, tip }
}

/// Figures that a cell shows; `None` if it is missing, void or starred.
fn seen(cell: &CellRecord, users: u64, result: &CellResult) -> Option<Stair> {
    if cell.runs.iter().any(|run| matches!(run.outcome, VisitOutcome::Void { is_silent: true, .. })) {
        return Some(Stair { users, is_silent: true, ..Stair::default() });
    }
    let summary = result.summary().filter(|summary| summary.star.is_none())?;
    Some(Stair {
        users,
        throughput: summary.throughput,
        p99_ms: summary.response.p99_ms,
        failed_share: summary.failed_share(),
        is_silent: false,
    })
}

impl Staircase<'_> {
    /// Describes the tipping point, or the largest number of users without one. There is no full
    /// stop at the end.
    pub fn said(&self) -> String {
        if let Some(tip) = &self.tip {
            return tip.to_string();
        }
        let is_starred = |of: &CellResult| of.summary().map(|summary| summary.star.is_some());
        let list = |kind: Option<bool>| {
            let stairs = self.stairs.iter().filter(|(_, of)| is_starred(of) == kind);
            stairs.map(|(users, _)| number::grouped(*users)).collect::<Vec<_>>()
        };
        let told = |words: &str, users: &[String]| match users {
            [] => String::new(),
            users => format!("; {words} at {}", users.join(", ")),
        };
        let others = told("not measured", &list(None)) + &told("starred", &list(Some(true)));
        match list(Some(false)).last() {
            Some(most) => format!("no tipping point up to {most} users{others}"),
            None if list(Some(true)).is_empty() => "not measured".to_owned(),
            None => format!("nothing to conclude{others}"),
        }
    }
}

/// Returns the first stair, in ascending order, at which one of these conditions holds:
///
/// 1. Throughput is below [`THROUGHPUT_SHARE`] of the best with fewer users, and each round is
///    below each round of that stair.
/// 2. The 99th percentile is more than [`P99_FACTOR`] times that of the preceding stair, in
///    proportion to the users.
/// 3. More than [`FAILED_SHARE`] of the requests fail.
/// 4. A load receives no good response.
pub fn tipping_point(stairs: &[Stair]) -> Option<Tip> {
    stairs.iter().enumerate().find_map(|(place, stair)| {
        if stair.is_silent {
            return Some(Tip { users: stair.users, signs: vec![TippingSign::Silent] });
        }
        let before = stairs.get(..place).unwrap_or_default();
        let signs: Vec<TippingSign> =
            [falls(before, stair), jumps(before, stair), fails(stair)].into_iter().flatten().collect();
        (!signs.is_empty()).then_some(Tip { users: stair.users, signs })
    })
}

fn falls(before: &[Stair], stair: &Stair) -> Option<TippingSign> {
    let medians = |a: &&Stair, b: &&Stair| a.throughput.median.total_cmp(&b.throughput.median);
    let best = before.iter().max_by(medians)?.throughput;
    let here = stair.throughput;
    let is_lower = here.median < THROUGHPUT_SHARE * best.median && here.high < best.low;
    is_lower.then_some(TippingSign::Throughput(best.median, here.median))
}

fn jumps(before: &[Stair], stair: &Stair) -> Option<TippingSign> {
    let last = before.last()?;
    let in_proportion = last.p99_ms * stair.users as f64 / last.users as f64;
    (stair.p99_ms > P99_FACTOR * in_proportion).then_some(TippingSign::Response(last.p99_ms, stair.p99_ms))
}

fn fails(stair: &Stair) -> Option<TippingSign> {
    (stair.failed_share > FAILED_SHARE).then_some(TippingSign::Failed(stair.failed_share))
}

impl fmt::Display for Tip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tips over at {} users: ", number::grouped(self.users))?;
        let signs: Vec<String> = self.signs.iter().map(ToString::to_string).collect();
        f.write_str(&signs.join(", "))
    }
}

impl fmt::Display for TippingSign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = number::milliseconds;
        match *self {
            Self::Throughput(best, here) => {
                write!(f, "throughput falls from {} to {} req/s", number::rate(best), number::rate(here))
            }
            Self::Response(before, here) => {
                write!(f, "the 99% response jumps from {} to {}", ms(before), ms(here))
            }
            Self::Failed(share) => write!(f, "{} of the requests fail", share_text(share)),
            Self::Silent => f.write_str("no user gets a good response"),
        }
    }
}

/// Formats a share of failed requests: `0`, `0.03%`, `7%`.
pub(crate) fn share_text(share: f64) -> String {
    match share * 100.0 {
        0.0 => "0".to_owned(),
        percent if percent < 0.01 => "<0.01%".to_owned(),
        percent if percent < 1.0 => format!("{percent:.2}%"),
        percent => format!("{percent:.0}%"),
    }
}

#[cfg(test)]
mod tests {
    use super::{Stair, TippingSign, share_text, tipping_point};
    use crate::summary::RoundsFigure;

    /// A stair whose rounds are within 1% of its median.
    fn stair(users: u64, rate: f64, p99_ms: f64, failed_share: f64) -> Stair {
        let throughput = RoundsFigure { median: rate, low: rate * 0.99, high: rate * 1.01, interval: None };
        Stair { users, throughput, p99_ms, failed_share, is_silent: false }
    }

    #[test]
    fn step_that_serves_all_users_has_no_tipping_point() {
        let stairs = [
            stair(100, 9_000.0, 12.0, 0.0),
            stair(500, 9_500.0, 60.0, 0.0),
            stair(2_000, 9_400.0, 240.0, 0.01),
        ];
        assert_eq!(tipping_point(&stairs), None);
        assert_eq!(tipping_point(&[]), None);
    }

    #[test]
    fn falling_throughput_is_compared_with_the_best() {
        let stairs = [
            stair(100, 9_000.0, 12.0, 0.0),
            stair(500, 10_000.0, 60.0, 0.0),
            stair(1_000, 9_100.0, 120.0, 0.0),
            stair(2_000, 8_900.0, 240.0, 0.0),
        ];
        let tip = tipping_point(&stairs).unwrap();
        assert_eq!((tip.users, &tip.signs[..]), (2_000, &[TippingSign::Throughput(10_000.0, 8_900.0)][..]));
        assert_eq!(tip.to_string(), "tips over at 2,000 users: throughput falls from 10,000 to 8,900 req/s");
    }

    #[test]
    fn overlapping_rounds_show_no_fall() {
        let mut low = stair(500, 8_000.0, 60.0, 0.0);
        low.throughput.high = 9_950.0;
        assert_eq!(tipping_point(&[stair(100, 10_000.0, 12.0, 0.0), low]), None);
        low.throughput.high = 9_800.0;
        assert_eq!(tipping_point(&[stair(100, 10_000.0, 12.0, 0.0), low]).unwrap().users, 500);
    }

    #[test]
    fn response_time_in_proportion_to_users_is_no_jump() {
        let rate = 10_000.0;
        let at = |p99_ms| tipping_point(&[stair(100, rate, 10.0, 0.0), stair(500, rate, p99_ms, 0.0)]);
        assert_eq!(at(50.0), None);
        assert_eq!(at(100.0), None, "exactly twice the proportion of five times the users");
        assert_eq!(at(101.0).unwrap().signs, [TippingSign::Response(10.0, 101.0)]);
    }

    #[test]
    fn failures_tip_even_the_first_stair() {
        assert_eq!(tipping_point(&[stair(100, 9_000.0, 12.0, 0.01)]), None);
        let tip = tipping_point(&[stair(100, 9_000.0, 12.0, 0.07), stair(500, 1.0, 9e9, 1.0)]).unwrap();
        assert_eq!(tip.to_string(), "tips over at 100 users: 7% of the requests fail");
    }

    #[test]
    fn stair_without_good_responses_tips_anywhere() {
        let silent = Stair { users: 500, is_silent: true, ..Stair::default() };
        let stairs = [stair(100, 9_000.0, 12.0, 0.0), silent, stair(1_000, 1.0, 9.0, 1.0)];
        let tip = tipping_point(&stairs).unwrap();
        assert_eq!((tip.users, &tip.signs[..]), (500, &[TippingSign::Silent][..]));
        assert_eq!(tipping_point(&stairs[1..]).unwrap().users, 500);
    }

    #[test]
    fn tip_lists_all_signs_of_the_first_tipping_stair_only() {
        let stairs = [
            stair(100, 9_000.0, 12.0, 0.0),
            stair(500, 4_000.0, 900.0, 0.2),
            stair(1_000, 100.0, 9_000.0, 0.9),
        ];
        let tip = tipping_point(&stairs).unwrap();
        assert_eq!((tip.users, tip.signs.len()), (500, 3));
    }

    #[test]
    fn failed_shares_are_formatted_by_size() {
        let shares = [0.0, 0.000_01, 0.000_3, 0.009, 0.07, 1.0];
        assert_eq!(shares.map(share_text), ["0", "<0.01%", "0.03%", "0.90%", "7%", "100%"]);
    }
}
