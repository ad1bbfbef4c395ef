//! Describes each step in one sentence: the work of its layer, and its gain in numbers. Pure
//! functions.

use crate::difference::Gain;
use crate::headline::at_least;
use crate::number;
use crate::results::{LimitingResource, Results};
use crate::summary::{CellResult, CellSummary, ClassicRow, twins};

/// Returns the sentence of a row; `before` is the row that it is compared with.
pub(crate) fn sentence(row: &ClassicRow<'_>, before: Option<&ClassicRow<'_>>) -> String {
    let about = row.step.about.trim().trim_end_matches('.');
    match &row.result {
        CellResult::Missing => format!("{about}: not measured yet."),
        CellResult::Void(_) => format!("{about}: VOID, for the reason given in the table."),
        CellResult::Measured(now) => {
            let earlier = before.and_then(|before| Some((before, before.result.summary()?)));
            let brought = match earlier.zip(row.factor_before) {
                Some(((before, earlier), factor)) => gained(&before.step.number, earlier, now, factor),
                None => alone(now, row.cell.concurrency),
            };
            let star = match now.star {
                Some(_) => "; starred, and so compared with no step",
                None => "",
            };
            let bound = match now.bound_by {
                LimitingResource::Unclear => "the limiting factor is unclear".to_owned(),
                LimitingResource::Users => "bound by its few users".to_owned(),
                bound => format!("bound by the {}", bound.words()),
            };
            format!("{about}: {brought}; {bound}{star}.")
        }
    }
}

/// Throughput, which is a lower bound if the load generator was the limit.
fn rate(of: &CellSummary) -> String {
    format!("{}{}", at_least(of.is_limited()), number::rate(of.throughput.median))
}

/// Figures of a step compared with no other: the first, or one without a valid factor.
fn alone(now: &CellSummary, concurrency: u64) -> String {
    let cpu = now.cpu_per_page_ms.map(|cpu| format!(", {} of CPU a page", number::milliseconds(cpu)));
    format!(
        "{} pages a second at {concurrency} users, 95% of them within {}{}",
        rate(now),
        number::milliseconds(now.response.p95_ms),
        cpu.unwrap_or_default()
    )
}

/// Gain of a step over the one that it is compared with.
fn gained(number_before: &str, before: &CellSummary, now: &CellSummary, factor: Gain) -> String {
    if !factor.is_step {
        return format!(
            "no difference from step {number_before} beyond the noise of the rounds ({} after {} req/s), 95% of the responses within {}",
            number::rate(now.throughput.median),
            number::rate(before.throughput.median),
            number::milliseconds(now.response.p95_ms),
        );
    }
    let cpu = before.cpu_per_page_ms.zip(now.cpu_per_page_ms).map(|(before, now)| {
        format!(", {} of CPU a page instead of {}", number::milliseconds(now), number::milliseconds(before))
    });
    format!(
        "{}{} times step {number_before}'s throughput, {}{} ({} after {} req/s), 95% of the responses within {} instead of {}{}",
        at_least(factor.is_lower_bound),
        number::factor(factor.times),
        number::change(factor.times),
        interval(factor),
        number::rate(now.throughput.median),
        number::rate(before.throughput.median),
        number::milliseconds(now.response.p95_ms),
        number::milliseconds(before.response.p95_ms),
        cpu.unwrap_or_default()
    )
}

/// The interval of a factor, if it has one. Two decimals show whether it includes 1.
pub(crate) fn interval(factor: Gain) -> String {
    let text = |interval: stats::Interval| {
        format!(" (95% interval {}× to {}×)", number::factor(interval.low), number::factor(interval.high))
    };
    factor.interval.map(text).unwrap_or_default()
}

/// Sentence about the largest difference between two measurements of the same thing; `None` if
/// nothing was measured twice.
pub(crate) fn noise(results: &Results) -> Option<String> {
    let twins = twins(results);
    let widest = twins.iter().max_by(|a, b| a.ratio.total_cmp(&b.ratio))?;
    Some(format!(
        "Noise: steps {} and {} are the same at concurrency {}, and their throughputs differ by {}; smaller \
         differences between steps mean nothing",
        widest.first.number,
        widest.second.number,
        widest.concurrency,
        number::percent(widest.ratio - 1.0)
    ))
}
