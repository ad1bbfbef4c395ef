//! Notes on doubts about a comparison whose numbers are correct.

use super::{Side, Unit};
use crate::number;
use crate::run::Run;
use serde_json::Value;

/// Difference in length between the sides' pages, as a share, above which a note asks whether they
/// are the same page.
const LENGTH_SHARE_MAX: f64 = 0.1;

/// Requested rates count as different if they differ by more than this share of the larger one. A
/// rate is a mean over the run's time, and a ramp of a run with a number of requests lowers it.
const RATE_SHARE_MAX: f64 = 0.02;

/// Name of the member with the requested rate.
const RATE: &str = "rate_asked_per_s";

/// Returns all notes, the most serious first.
pub(super) fn notes(sides: &[Side], unit: Unit) -> Vec<String> {
    let letters = || ('A'..='Z').zip(sides);
    let mut notes: Vec<String> = letters().filter_map(|(letter, side)| untrusted(letter, side)).collect();
    notes.extend(letters().filter_map(|(letter, side)| failures(letter, side, unit)));
    if let Some((first, others)) = sides.split_first() {
        for (letter, other) in ('B'..='Z').zip(others) {
            notes.extend(unlike(letter, first, other));
            notes.extend(lengths(letter, first, other));
            notes.extend(order(letter, first, other));
        }
    }
    if sides.iter().flat_map(|side| &side.runs).any(|run| run.good_per_s.is_none()) {
        notes.push(
            "throughput counts all complete responses of tools that do not report good ones".to_owned(),
        );
    }
    if sides.len() > 2 {
        notes.push(
            "each verdict is independent: of twenty sides equal to A, one is expected to differ by chance"
                .to_owned(),
        );
    }
    notes
}

/// Whether a run of a side is invalid by its own self-check, or may have lost time to its
/// generator. In the latter case its trust may be only `tight`, because the load tester cannot tell
/// that time from the server's.
pub(super) fn has_doubtful_runs(side: &Side) -> bool {
    side.runs.iter().any(|run| run.generator.may_have_lost) || trusted(side, "invalid").next().is_some()
}

fn trusted<'a>(side: &'a Side, word: &'static str) -> impl Iterator<Item = &'a Run> {
    side.runs.iter().filter(move |run| run.generator.trust.as_deref() == Some(word))
}

fn untrusted(letter: char, side: &Side) -> Option<String> {
    ["invalid", "tight"].into_iter().find_map(|word| {
        let first = trusted(side, word).next()?;
        let count = trusted(side, word).count();
        let runs = side.runs.len();
        let reason = first.generator.reasons.first().map(|reason| format!(": {reason}")).unwrap_or_default();
        Some(format!("{count} of {runs} runs of {letter} are {word}{reason}"))
    })
}

fn failures(letter: char, side: &Side, unit: Unit) -> Option<String> {
    let sum = |of: fn(&Run) -> Option<u64>| side.runs.iter().filter_map(of).sum::<u64>();
    let failed = sum(|run| run.failed);
    let requests = sum(|run| run.requests);
    (failed > 0).then(|| {
        let failed = number::grouped(failed);
        let requests = number::grouped(requests);
        match unit {
            Unit::Requests => {
                format!("{failed} of {requests} requests of {letter} failed; times are those of good responses")
            }
            Unit::Pages => format!(
                "{failed} of {requests} pages of {letter} failed or were incomplete; throughput and times are those of \
                 pages whose document arrived"
            ),
        }
    })
}

/// Note on the members of the plans in which the sides differ.
fn unlike(letter: char, first: &Side, other: &Side) -> Option<String> {
    let asked = |side: &Side| side.runs.iter().map(members).collect::<Vec<_>>();
    let ours = asked(first);
    let theirs = asked(other);
    let a = ours.first()?;
    let b = theirs.first()?;
    let is_same = |(name, value): &(String, Value)| {
        ours.iter()
            .chain(&theirs)
            .flatten()
            .all(|(other, found)| other != name || is_alike((name, found), value))
    };
    let values = a.iter().zip(b);
    let differing: Vec<String> =
        values
            .filter(|(a, _)| !is_same(a))
            .map(|((name, a), (_, b))| {
                if is_alike((name, a), b) { format!("{name} varies") } else { format!("{name} {a} and {b}") }
            })
            .collect();
    (!differing.is_empty()).then(|| format!("A and {letter} were not loaded alike: {}", differing.join(", ")))
}

fn members(run: &Run) -> Vec<(String, Value)> {
    let of_pages = run.pages.map(serde_json::to_value);
    let all = std::iter::once(serde_json::to_value(&run.plan)).chain(of_pages);
    let rate = run.rate_asked_per_s;
    let objects = all.filter_map(|value| match value {
        Ok(Value::Object(members)) => Some(members),
        _ => None,
    });
    objects.flatten().chain([(RATE.to_owned(), Value::from(rate))]).collect()
}

/// Whether two members are the same, or are rates that differ by at most [`RATE_SHARE_MAX`].
fn is_alike((name, a): (&str, &Value), b: &Value) -> bool {
    let rates = a.as_f64().zip(b.as_f64());
    a == b || name == RATE && rates.is_some_and(|(a, b)| (a - b).abs() <= RATE_SHARE_MAX * a.max(b))
}

fn lengths(letter: char, first: &Side, other: &Side) -> Option<String> {
    let median = |side: &Side| {
        let lengths: Vec<f64> =
            side.runs.iter().filter_map(|run| run.document_bytes).map(|bytes| bytes as f64).collect();
        stats::median(&lengths)
    };
    let (a, b) = median(first).zip(median(other))?;
    ((a - b).abs() > LENGTH_SHARE_MAX * a.max(b)).then(|| {
        format!(
            "the responses have {a:.0} bytes of content at A and {b:.0} at {letter}; check that the page is the same"
        )
    })
}

/// Note if all runs of one side started before those of the other.
fn order(letter: char, first: &Side, other: &Side) -> Option<String> {
    let starts = |side: &Side| side.runs.iter().map(|run| run.started_s).collect::<Option<Vec<f64>>>();
    let (a, b) = starts(first).zip(starts(other))?;
    let ends = |starts: &[f64]| {
        let (low, high) =
            (starts.iter().copied().min_by(f64::total_cmp), starts.iter().copied().max_by(f64::total_cmp));
        low.zip(high)
    };
    let ((a_low, a_high), (b_low, b_high)) = ends(&a).zip(ends(&b))?;
    let is_apart = a.len() > 1 && b.len() > 1 && (a_high < b_low || b_high < a_low);
    is_apart.then(|| {
        format!(
            "the runs of A and {letter} were not interleaved, so the difference includes all other changes \
             between them"
        )
    })
}
