//! Formats the measured load: bars on a linear scale, the factors, or why there are none.
//!
//! Invariant: the length of a bar is proportional to its value, to an eighth of a character.

use crate::factor::FactorRange;
use crate::report::{LoadFigures, LoadReport, TrialReport};
use report::number;
use why::TextLines;

/// Characters of the longest bar.
const BAR_CHARS: usize = 32;

/// Column where the bars begin.
const BAR_COLUMN: usize = 32;

/// Eighths of a block, one to seven.
const EIGHTHS: [char; 7] = ['▏', '▎', '▍', '▌', '▋', '▊', '▉'];

/// A figure of both sides.
pub(crate) struct FigurePair {
    /// Its name.
    pub(crate) name: &'static str,
    /// The values: today, and with Petasos.
    pub(crate) values: [f64; 2],
    /// The values as text.
    pub(crate) texts: [String; 2],
}

/// The names of the two sides.
pub(crate) const SIDES: [&str; 2] = ["today", "with Petasos"];

/// Text in place of invalid factors.
const NO_FACTOR: &str = "No factor: the load generator may have been the limit of the site as it is, or its \
                         figures are not valid. Repeat the command when the machine has nothing else to do.";

/// Adds the section.
pub(crate) fn load(lines: &mut TextLines, report: &TrialReport) {
    lines.gap();
    match &report.load {
        LoadReport::NotMade { reason } => {
            lines.paragraph(0, &format!("No factor: the load was not made, because {reason}."));
        }
        LoadReport::GaveIn { reason } => lines.paragraph(
            0,
            &format!("NO FACTOR: the load was ended early, because {reason}. Repair this first."),
        ),
        LoadReport::Made(figures) => {
            lines.paragraph(0, &conditions(figures));
            for pair in pairs(figures) {
                let most = pair.values.iter().copied().fold(0.0, f64::max);
                for ((side, value), text) in SIDES.iter().zip(pair.values).zip(&pair.texts) {
                    let label = if *side == SIDES[0] { pair.name } else { "" };
                    let label = format!("{label:<17}{side}");
                    lines.labelled(2, &label, BAR_COLUMN, &format!("{} {text}", bar(value, most)));
                }
            }
            lines.gap();
            lines.paragraph(0, &meaning(report, figures));
        }
    }
}

/// How the figures were measured.
pub(crate) fn conditions(figures: &LoadFigures) -> String {
    let connections = if figures.keep_alive { "kept connections" } else { "a new connection for each page" };
    let rounds = figures.rounds.len();
    let rounds = if rounds == 1 { "1 round".to_owned() } else { format!("{rounds} rounds") };
    format!("Measured: {rounds} with {} users, the pages from memory, {connections}", figures.users)
}

/// The figures that are shown as bars.
pub(crate) fn pairs(figures: &LoadFigures) -> Vec<FigurePair> {
    let (today, petasos) = (&figures.today, &figures.with_petasos);
    let at_least = if figures.is_at_least { "at least " } else { "" };
    let mut pairs = vec![
        FigurePair {
            name: "pages a second",
            values: [today.pages_per_s, petasos.pages_per_s],
            texts: [
                number::three_digits(today.pages_per_s),
                format!("{at_least}{}", number::three_digits(petasos.pages_per_s)),
            ],
        },
        FigurePair {
            name: "95% within",
            values: [today.p95_ms, petasos.p95_ms],
            texts: [today.p95_ms, petasos.p95_ms].map(number::milliseconds),
        },
    ];
    if let (Some(before), Some(after)) = (today.cpu_ms_per_page, petasos.cpu_ms_per_page) {
        let values = [before, after];
        pairs.push(FigurePair { name: "CPU per page", values, texts: values.map(number::milliseconds) });
    }
    pairs
}

/// Explains the figures for the site.
pub(crate) fn meaning(report: &TrialReport, figures: &LoadFigures) -> String {
    let (memory, all) = (report.from_memory(), report.pages.len());
    let Some(factors) = figures.factors else {
        return NO_FACTOR.to_owned();
    };
    let at_least = if figures.is_at_least { "at least " } else { "" };
    let first = format!(
        "Pages from memory: {at_least}{} as many a second ({}).",
        times(factors.from_memory.times),
        range(factors.from_memory)
    );
    if memory == all {
        return format!("{first} All visited pages can be answered from memory.");
    }
    format!(
        "{first} {memory} of {all} pages can be answered from memory: across all of them, each requested equally \
         often, {} {} ({}).",
        if figures.is_at_least { "at least" } else { "about" },
        times(factors.across_pages.times),
        range(factors.across_pages)
    )
}

fn range(factor: FactorRange) -> String {
    format!("{} to {} in the rounds", decimal(factor.low), decimal(factor.high))
}

/// A factor as text: `5.4 times`, `193 times`.
fn times(factor: f64) -> String {
    format!("{} times", decimal(factor))
}

/// With one decimal below ten.
fn decimal(factor: f64) -> String {
    if factor < 10.0 { format!("{factor:.1}") } else { number::grouped(factor.round() as u64) }
}

/// A bar for a value, where `most` has the longest one. A value above zero has at least an eighth.
fn bar(value: f64, most: f64) -> String {
    if value <= 0.0 || most <= 0.0 {
        return String::new();
    }
    let eighths = ((value / most * (BAR_CHARS * 8) as f64).round() as usize).clamp(1, BAR_CHARS * 8);
    let mut bar = "█".repeat(eighths / 8);
    bar.extend((eighths % 8).checked_sub(1).and_then(|rest| EIGHTHS.get(rest)));
    bar
}

#[cfg(test)]
mod tests {
    use super::{BAR_CHARS, bar, times};

    #[test]
    fn bars_are_proportional_to_their_values() {
        assert_eq!(bar(100.0, 100.0).chars().count(), BAR_CHARS);
        assert_eq!(bar(50.0, 100.0).chars().count(), BAR_CHARS / 2);
        assert_eq!(bar(0.001, 100.0), "▏");
        assert_eq!(bar(0.0, 100.0), "");
        assert_eq!(bar(3.0, 8.0 * BAR_CHARS as f64), "▍");
    }

    #[test]
    fn factors_have_one_decimal_below_ten() {
        assert_eq!(
            [1.04, 5.43, 193.4, 1158.0].map(times),
            ["1.0 times", "5.4 times", "193 times", "1,158 times"]
        );
    }
}
