//! The summary of a week as Markdown.
//!
//! Invariant: text from clients stands in code spans and cannot leave them.

use crate::{Figure, MINUTES_OF_DAY, Row};
use std::fmt::Write;

/// Days from the Monday of a week to 1970-01-01, which was a Thursday.
const MONDAY_DAYS: u64 = 3;

/// Selects a sum of a week.
type Sum = fn(&WeekFigures) -> f64;

/// Number of misses that a summary names.
const MISSES_MAX: usize = 5;

/// What a summary is about.
#[derive(Clone, Debug)]
pub struct SummaryFacts<'a> {
    /// What is summarised, such as `Week 2026-W48` or `The last 7 days`.
    pub title: String,
    /// The figures of the week.
    pub week: WeekFigures,
    /// Those of the week before.
    pub before: WeekFigures,
    /// The pages whose misses and passes took the origin the most time, the worst first.
    pub misses: &'a [WorstMiss],
}

/// One page with many or slow misses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorstMiss {
    /// Its URL without a query.
    pub url: String,
    /// The last reason.
    pub reason: String,
    /// What the reason means and what to do about it.
    pub advice: String,
    /// Requests to the origin.
    pub requests: u64,
    /// Time of the origin, in microseconds.
    pub origin_micros: u64,
}

/// Sums over the minutes of a week.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct WeekFigures {
    /// Minutes with values.
    pub minutes: u64,
    /// Requests.
    pub requests: f64,
    /// Requests answered from the cache.
    pub hits: f64,
    /// Requests that needed the origin.
    pub origin_requests: f64,
    /// Requests that failed.
    pub errors: f64,
    /// Seconds that origins worked on these requests.
    pub origin_secs: f64,
    /// Mean of the minutes' 95th percentiles in milliseconds, weighted by requests.
    pub p95_ms: Option<f64>,
    /// Reloads of the configuration.
    pub reloads: f64,
    /// Purge orders.
    pub purges: f64,
}

impl WeekFigures {
    /// The sums of these rows.
    pub fn of(rows: &[Row]) -> Self {
        let mut figures = Self::default();
        let (mut times, mut weights) = (0.0, 0.0);
        for row in rows {
            let of = |figure| row.get(figure).unwrap_or(0.0);
            let in_minute = |figure| 60.0 * of(figure);
            figures.minutes += 1;
            figures.requests += in_minute(Figure::Requests);
            figures.hits += in_minute(Figure::Hits);
            figures.origin_requests += in_minute(Figure::Misses) + in_minute(Figure::Passes);
            figures.errors += in_minute(Figure::Errors);
            figures.origin_secs += in_minute(Figure::OriginLoad);
            figures.reloads += of(Figure::Reloads);
            figures.purges += of(Figure::Purges);
            if let Some(time) = row.get(Figure::P95) {
                times += time * of(Figure::Requests);
                weights += of(Figure::Requests);
            }
        }
        figures.p95_ms = (weights > 0.0).then(|| times / weights);
        figures
    }

    /// Hits among the requests that the cache could have answered, in percent.
    fn hit_percent(&self) -> Option<f64> {
        let cacheable = self.hits + self.origin_requests;
        (cacheable > 0.0).then(|| 100.0 * self.hits / cacheable)
    }

    /// The time that the origins would have needed for the hits, in seconds.
    fn saved_secs(&self) -> Option<f64> {
        (self.origin_requests > 0.0).then(|| self.hits * self.origin_secs / self.origin_requests)
    }
}

/// The year and the number of the week of a minute (ISO 8601, UTC).
pub const fn iso_week(minute: u64) -> (u64, u64) {
    // The Thursday of a week lies in its year.
    let week = (minute / MINUTES_OF_DAY + MONDAY_DAYS) / 7;
    let thursday = week * 7;
    let (mut year, mut first) = (1970, 0);
    while first + days_of(year) <= thursday {
        first += days_of(year);
        year += 1;
    }
    (year, (thursday - first) / 7 + 1)
}

const fn days_of(year: u64) -> u64 {
    let is_leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    if is_leap { 366 } else { 365 }
}

/// The summary.
pub fn summary(facts: &SummaryFacts<'_>) -> String {
    let SummaryFacts { title, week, before, misses } = facts;
    let mut text = format!("# {title}\n\n");
    // Writing to a String cannot fail.
    let _ = write_figures(&mut text, week, before);
    let _ = write_misses(&mut text, misses);
    text
}

fn write_figures(text: &mut String, week: &WeekFigures, before: &WeekFigures) -> std::fmt::Result {
    if week.minutes == 0 {
        return writeln!(text, "No minute of this time was recorded.\n");
    }
    let recorded = week.minutes as f64 / 60.0;
    writeln!(text, "{recorded:.0} of 168 hours were recorded.\n")?;
    if let Some(saved) = week.saved_secs() {
        writeln!(
            text,
            "Petasos saved the origins about {} of work. This is an estimate: the hits, times the mean time \
             that an origin took to begin its response to a miss or pass.\n",
            duration(saved)
        )?;
    }
    writeln!(text, "| | this week | week before |\n|---|---|---|")?;
    let percent = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.1}%"));
    let millis = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.1} ms"));
    let known = |figures: &WeekFigures, value: f64| {
        if figures.minutes == 0 { "-".to_owned() } else { format!("{value:.0}") }
    };
    writeln!(text, "| hit ratio | {} | {} |", percent(week.hit_percent()), percent(before.hit_percent()))?;
    writeln!(text, "| 95th percentile | {} | {} |", millis(week.p95_ms), millis(before.p95_ms))?;
    let rows: [(&str, Sum); 5] = [
        ("requests", |figures| figures.requests),
        ("requests at origins", |figures| figures.origin_requests),
        ("failed requests", |figures| figures.errors),
        ("reloads", |figures| figures.reloads),
        ("purges", |figures| figures.purges),
    ];
    for (name, value) in rows {
        writeln!(text, "| {name} | {} | {} |", known(week, value(week)), known(before, value(before)))?;
    }
    text.write_str("\n")
}

fn write_misses(text: &mut String, misses: &[WorstMiss]) -> std::fmt::Result {
    writeln!(text, "## Pages that cost the origins the most\n")?;
    if misses.is_empty() {
        return writeln!(text, "No request went to an origin.");
    }
    for (number, miss) in (1..).zip(misses.iter().take(MISSES_MAX)) {
        let (requests, time) = (miss.requests, duration(miss.origin_micros as f64 / 1e6));
        writeln!(text, "{number}. `{}`: {requests} requests, {time}.", code(&miss.url))?;
        writeln!(text, "   Last reason `{}`: {}", code(&miss.reason), miss.advice)?;
    }
    Ok(())
}

/// A text that cannot leave its code span.
fn code(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() || letter == '`' { '?' } else { letter }).collect()
}

/// A duration in words.
fn duration(secs: f64) -> String {
    match secs {
        secs if secs >= 7200.0 => format!("{:.1} hours", secs / 3600.0),
        secs if secs >= 120.0 => format!("{:.1} minutes", secs / 60.0),
        secs => format!("{secs:.1} seconds"),
    }
}

#[cfg(test)]
mod tests {
    use super::{SummaryFacts, WeekFigures, WorstMiss, iso_week, summary};
    use crate::{Figure, MINUTES_OF_DAY, Row};

    fn week(first: u64, figures: &[(Figure, f64)]) -> WeekFigures {
        let rows: Vec<_> = (first..first + 120)
            .map(|minute| {
                let mut row = Row::new(minute);
                figures.iter().for_each(|(figure, value)| row.set(*figure, Some(*value)));
                row
            })
            .collect();
        WeekFigures::of(&rows)
    }

    #[test]
    fn summary_states_the_saved_time_the_changes_and_the_misses() {
        let figures = [
            (Figure::Requests, 12.0),
            (Figure::Hits, 9.0),
            (Figure::Misses, 2.0),
            (Figure::Passes, 1.0),
            (Figure::OriginLoad, 0.75),
            (Figure::P95, 8.0),
            (Figure::Purges, 1.0),
        ];
        let misses = [WorstMiss {
            url: "https://a.test/`<b>\n".to_owned(),
            reason: "miss-absent".to_owned(),
            advice: "The page was not stored.".to_owned(),
            requests: 7,
            origin_micros: 3_500_000,
        }];
        let facts = SummaryFacts {
            title: "Week 2026-W48".to_owned(),
            week: week(0, &figures),
            before: WeekFigures::default(),
            misses: &misses,
        };
        let text = summary(&facts);
        for part in [
            "# Week 2026-W48\n\n2 of 168 hours were recorded.\n",
            // 9 hits a second, a quarter of a second each, for two hours.
            "saved the origins about 4.5 hours of work. This is an estimate",
            "| hit ratio | 75.0% | - |\n| 95th percentile | 8.0 ms | - |\n| requests | 86400 | - |\n",
            "| purges | 120 | - |\n",
            "1. `https://a.test/?<b>?`: 7 requests, 3.5 seconds.\n   Last reason `miss-absent`: The page was",
        ] {
            assert!(text.contains(part), "{part:?} is missing in\n{text}");
        }
    }

    #[test]
    fn week_without_values_is_said() {
        let facts = SummaryFacts {
            title: "T".to_owned(),
            week: WeekFigures::default(),
            before: WeekFigures::default(),
            misses: &[],
        };
        assert_eq!(
            summary(&facts),
            "# T\n\nNo minute of this time was recorded.\n\n## Pages that cost the origins the most\n\n\
             No request went to an origin.\n"
        );
    }

    #[test]
    fn weeks_follow_iso_8601() {
        // From the calendar: day since 1970, year and week.
        for (day, expected) in [
            (0, (1970, 1)),
            (3, (1970, 1)),
            (4, (1970, 2)),
            // 2020-12-31, 2021-01-03, 2021-01-04
            (18_627, (2020, 53)),
            (18_630, (2020, 53)),
            (18_631, (2021, 1)),
            // 2024-12-30, 2026-11-29
            (20_087, (2025, 1)),
            (20_786, (2026, 48)),
        ] {
            assert_eq!(iso_week(day * MINUTES_OF_DAY + 7), expected, "{day}");
        }
    }
}
