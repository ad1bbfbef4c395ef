//! Steps that were measured with more and more users: each one's stairs, and where it tips over; pure.
//!
//! Invariant: a tipping point is named only where figures of measured cells show it, or a load that nobody answered, by
//! the rule of [`tipping_point`]; a cell that is void for another reason, or missing, shows nothing, and is told as not
//! measured. So does a starred one, and is told as such. docs/ladder.md states the same rule.

use crate::number;
use crate::results::{CellRecord, Outcome, Results, StepRecord};
use crate::summary::{Figure, Standing, shared_concurrencies, standing};
use std::fmt;

/// With fewer numbers of users at which most steps were measured there is no staircase.
pub const STAIRS_MIN: usize = 3;

/// Throughput has fallen if it is below this share of the best with fewer users.
pub const THROUGHPUT_SHARE: f64 = 0.9;

/// The 99% response has jumped if it is more than so many times what it was with the users before, in proportion to
/// the users: at capacity, in a closed loop, twice as many users wait twice as long.
pub const P99_FACTOR: f64 = 2.0;

/// More than this share of requests failing is too much.
pub const FAILED_SHARE: f64 = 0.01;

/// One step with more and more users.
#[derive(Clone, Debug)]
pub struct Staircase<'a> {
    /// The step.
    pub step: &'a StepRecord,
    /// The version of what it measures, if the ladder says which that is.
    pub version: Option<&'a str>,
    /// What it came to with so many users, ascending.
    pub stairs: Vec<(u64, Standing)>,
    /// Where it tips over.
    pub tip: Option<Tip>,
}

/// What the rule looks at: one cell's figures.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Stair {
    /// Users, each with one request at a time.
    pub users: u64,
    /// Good answers a second.
    pub throughput: Figure,
    /// 99% of the good answers took at most this, in milliseconds.
    pub p99_ms: f64,
    /// Failed requests as a share of all that ended.
    pub failed_share: f64,
    /// Whether a load got no good answer at all; then there are no figures.
    pub is_silent: bool,
}

/// The first number of users that is too many.
#[derive(Clone, Debug, PartialEq)]
pub struct Tip {
    /// So many.
    pub users: u64,
    /// What shows it; at least one.
    pub signs: Vec<Sign>,
}

/// What shows that users are too many.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Sign {
    /// Good answers a second: the best with fewer users, and here.
    Throughput(f64, f64),
    /// The 99% response in milliseconds: with the users before, and here.
    Response(f64, f64),
    /// The share of requests that fail here.
    Failed(f64),
    /// A load got no good answer at all.
    Silent,
}

/// The staircases of a ladder's steps with or without keep-alive; none if there are too few stairs for one.
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
    let stairs: Vec<(u64, Standing)> = cells.iter().map(|cell| (cell.concurrency, standing(cell))).collect();
    let seen = cells.iter().zip(&stairs).filter_map(|(cell, (users, standing))| seen(cell, *users, standing));
    let tip = tipping_point(&seen.collect::<Vec<_>>());
    let mut versions = results.environment.versions.iter();
    let version = step.version.as_ref().and_then(|name| versions.find(|version| version.name == *name));
    Staircase { step, version: version.map(|version| version.version.as_str()), stairs, tip }
}

/// What a cell shows; `None` if that is nothing.
fn seen(cell: &CellRecord, users: u64, standing: &Standing) -> Option<Stair> {
    if cell.runs.iter().any(|run| matches!(run.outcome, Outcome::Void { is_silent: true, .. })) {
        return Some(Stair { users, is_silent: true, ..Stair::default() });
    }
    let summary = standing.summary().filter(|summary| summary.star.is_none())?;
    Some(Stair {
        users,
        throughput: summary.throughput,
        p99_ms: summary.response.p99_ms,
        failed_share: summary.failed_share(),
        is_silent: false,
    })
}

impl Staircase<'_> {
    /// Where it tips over, or how far it is known not to, without a point at the end.
    pub fn said(&self) -> String {
        if let Some(tip) = &self.tip {
            return tip.to_string();
        }
        let is_starred = |of: &Standing| of.summary().map(|summary| summary.star.is_some());
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

/// The first stair, of ascending ones, at which one of these holds:
///
/// 1. throughput is below [`THROUGHPUT_SHARE`] of the best with fewer users, and each round below each of that one's;
/// 2. the 99% response is more than [`P99_FACTOR`] times that of the stair before, in proportion to the users;
/// 3. more than [`FAILED_SHARE`] of the requests fail;
/// 4. a load gets no good answer at all.
pub fn tipping_point(stairs: &[Stair]) -> Option<Tip> {
    stairs.iter().enumerate().find_map(|(place, stair)| {
        if stair.is_silent {
            return Some(Tip { users: stair.users, signs: vec![Sign::Silent] });
        }
        let before = stairs.get(..place).unwrap_or_default();
        let signs: Vec<Sign> =
            [falls(before, stair), jumps(before, stair), fails(stair)].into_iter().flatten().collect();
        (!signs.is_empty()).then_some(Tip { users: stair.users, signs })
    })
}

fn falls(before: &[Stair], stair: &Stair) -> Option<Sign> {
    let medians = |a: &&Stair, b: &&Stair| a.throughput.median.total_cmp(&b.throughput.median);
    let best = before.iter().max_by(medians)?.throughput;
    let here = stair.throughput;
    let is_lower = here.median < THROUGHPUT_SHARE * best.median && here.high < best.low;
    is_lower.then_some(Sign::Throughput(best.median, here.median))
}

fn jumps(before: &[Stair], stair: &Stair) -> Option<Sign> {
    let last = before.last()?;
    let in_proportion = last.p99_ms * stair.users as f64 / last.users as f64;
    (stair.p99_ms > P99_FACTOR * in_proportion).then_some(Sign::Response(last.p99_ms, stair.p99_ms))
}

fn fails(stair: &Stair) -> Option<Sign> {
    (stair.failed_share > FAILED_SHARE).then_some(Sign::Failed(stair.failed_share))
}

impl fmt::Display for Tip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tips over at {} users: ", number::grouped(self.users))?;
        let signs: Vec<String> = self.signs.iter().map(ToString::to_string).collect();
        f.write_str(&signs.join(", "))
    }
}

impl fmt::Display for Sign {
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
            Self::Silent => f.write_str("nobody gets a good answer"),
        }
    }
}

/// A share of failed requests: `0`, `0.03%`, `7%`.
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
    use super::{Sign, Stair, share_text, tipping_point};
    use crate::summary::Figure;

    /// A stair whose rounds were within 1% of each other.
    fn stair(users: u64, rate: f64, p99_ms: f64, failed_share: f64) -> Stair {
        let throughput = Figure { median: rate, low: rate * 0.99, high: rate * 1.01, interval: None };
        Stair { users, throughput, p99_ms, failed_share, is_silent: false }
    }

    #[test]
    fn who_bears_all_users_does_not_tip() {
        let stairs = [
            stair(100, 9_000.0, 12.0, 0.0),
            stair(500, 9_500.0, 60.0, 0.0),
            stair(2_000, 9_400.0, 240.0, 0.01),
        ];
        assert_eq!(tipping_point(&stairs), None);
        assert_eq!(tipping_point(&[]), None);
    }

    #[test]
    fn throughput_that_falls_is_measured_against_the_best() {
        let stairs = [
            stair(100, 9_000.0, 12.0, 0.0),
            stair(500, 10_000.0, 60.0, 0.0),
            stair(1_000, 9_100.0, 120.0, 0.0),
            stair(2_000, 8_900.0, 240.0, 0.0),
        ];
        let tip = tipping_point(&stairs).unwrap();
        assert_eq!((tip.users, &tip.signs[..]), (2_000, &[Sign::Throughput(10_000.0, 8_900.0)][..]));
        assert_eq!(tip.to_string(), "tips over at 2,000 users: throughput falls from 10,000 to 8,900 req/s");
    }

    #[test]
    fn rounds_that_overlap_show_no_fall() {
        let mut low = stair(500, 8_000.0, 60.0, 0.0);
        low.throughput.high = 9_950.0;
        assert_eq!(tipping_point(&[stair(100, 10_000.0, 12.0, 0.0), low]), None);
        low.throughput.high = 9_800.0;
        assert_eq!(tipping_point(&[stair(100, 10_000.0, 12.0, 0.0), low]).unwrap().users, 500);
    }

    #[test]
    fn waiting_in_proportion_is_no_jump() {
        let rate = 10_000.0;
        let at = |p99_ms| tipping_point(&[stair(100, rate, 10.0, 0.0), stair(500, rate, p99_ms, 0.0)]);
        assert_eq!(at(50.0), None);
        assert_eq!(at(100.0), None, "five times the users, and twice that");
        assert_eq!(at(101.0).unwrap().signs, [Sign::Response(10.0, 101.0)]);
    }

    #[test]
    fn failures_tip_even_the_first_stair() {
        assert_eq!(tipping_point(&[stair(100, 9_000.0, 12.0, 0.01)]), None);
        let tip = tipping_point(&[stair(100, 9_000.0, 12.0, 0.07), stair(500, 1.0, 9e9, 1.0)]).unwrap();
        assert_eq!(tip.to_string(), "tips over at 100 users: 7% of the requests fail");
    }

    #[test]
    fn silence_tips_wherever_it_is() {
        let silent = Stair { users: 500, is_silent: true, ..Stair::default() };
        let stairs = [stair(100, 9_000.0, 12.0, 0.0), silent, stair(1_000, 1.0, 9.0, 1.0)];
        let tip = tipping_point(&stairs).unwrap();
        assert_eq!((tip.users, &tip.signs[..]), (500, &[Sign::Silent][..]));
        assert_eq!(tipping_point(&stairs[1..]).unwrap().users, 500);
    }

    #[test]
    fn all_signs_of_the_first_stair_are_told_and_no_later_one() {
        let stairs = [
            stair(100, 9_000.0, 12.0, 0.0),
            stair(500, 4_000.0, 900.0, 0.2),
            stair(1_000, 100.0, 9_000.0, 0.9),
        ];
        let tip = tipping_point(&stairs).unwrap();
        assert_eq!((tip.users, tip.signs.len()), (500, 3));
    }

    #[test]
    fn shares_are_readable() {
        let shares = [0.0, 0.000_01, 0.000_3, 0.009, 0.07, 1.0];
        assert_eq!(shares.map(share_text), ["0", "<0.01%", "0.03%", "0.90%", "7%", "100%"]);
    }
}
