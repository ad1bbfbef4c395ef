//! The summary of a week as Markdown.
//!
//! Invariant: text from clients is inside of code spans and cannot leave them.

use crate::{Figure, MINUTES_OF_DAY, Row};
use std::fmt::Write;

/// Days from the Monday of a week to 1970-01-01, which was a Thursday.
const MONDAY_DAYS: u64 = 3;

/// Selects a sum of a week.
type Sum = fn(&WeekFigures) -> f64;

/// Number of misses that a summary names.
const MISSES_MAX: usize = 5;

/// The contents of a summary.
#[derive(Clone, Debug)]
pub struct SummaryFacts<'a> {
    /// The period, such as `Week 2026-W48` or `The last 7 days`.
    pub title: String,
    /// The figures of the week.
    pub week: WeekFigures,
    /// The figures of the week before.
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
    /// The meaning of the reason, and advice.
    pub advice: String,
    /// Requests to the origin.
    pub requests: u64,
    /// Time of the origin, in microseconds.
    pub origin_micros: u64,
}

/// Sums over the minutes of a week.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct WeekFigures {
    /// Seconds of the minutes with values.
    pub secs: u64,
    /// Requests.
    pub requests: f64,
    /// Requests answered from the cache.
    pub hits: f64,
    /// Requests of clients that needed an origin.
    pub origin_requests: f64,
    /// Requests to origins, background refreshes included, in the minutes that recorded them.
    pub fetches: f64,
    /// Seconds that origins worked on these.
    pub fetch_secs: f64,
    /// Hits in these minutes.
    pub fetch_hits: f64,
    /// Requests that failed.
    pub errors: f64,
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
            figures.secs += u64::from(row.secs);
            figures.requests += row.count(Figure::Requests);
            figures.hits += row.count(Figure::Hits);
            figures.origin_requests += row.count(Figure::Misses) + row.count(Figure::Passes);
            figures.errors += row.count(Figure::Errors);
            if row.get(Figure::OriginRequests).is_some() {
                figures.fetches += row.count(Figure::OriginRequests);
                figures.fetch_secs += row.count(Figure::OriginLoad);
                figures.fetch_hits += row.count(Figure::Hits);
            }
            figures.reloads += of(Figure::Reloads);
            figures.purges += of(Figure::Purges);
            if let Some(time) = row.get(Figure::P95) {
                times += time * row.count(Figure::Requests);
                weights += row.count(Figure::Requests);
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

    /// The time that the origins would have needed for the hits, in seconds. `None` if no minute
    /// has recorded the number of requests to origins, as those of earlier versions.
    fn saved_secs(&self) -> Option<f64> {
        (self.fetches > 0.0).then(|| self.fetch_hits * self.fetch_secs / self.fetches)
    }

    /// A sum for each recorded hour, because two weeks are seldom recorded for the same time.
    fn hourly(&self, sum: f64) -> Option<f64> {
        (self.secs > 0).then(|| sum * 3600.0 / self.secs as f64)
    }

    fn hours(&self) -> f64 {
        self.secs as f64 / 3600.0
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
    if week.secs == 0 {
        return writeln!(text, "No minute of this time was recorded.\n");
    }
    writeln!(text, "{:.0} of 168 hours were recorded.\n", week.hours())?;
    if let Some(saved) = week.saved_secs() {
        writeln!(
            text,
            "Petasos saved the origins about {} of work. This is an estimate: the hits, times the mean time \
             that an origin took to begin a response.\n",
            duration(saved)
        )?;
    }
    writeln!(text, "| | this week | week before |\n|---|---|---|")?;
    let percent = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.1}%"));
    let millis = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.1} ms"));
    let hourly = |figures: &WeekFigures, sum: f64| match figures.hourly(sum) {
        None => "-".to_owned(),
        Some(value) if value < 10.0 => format!("{value:.2}"),
        Some(value) => format!("{value:.0}"),
    };
    writeln!(text, "| hours recorded | {:.0} | {:.0} |", week.hours(), before.hours())?;
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
        let (week, before) = (hourly(week, value(week)), hourly(before, value(before)));
        writeln!(text, "| {name} an hour | {week} | {before} |")?;
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
            // Three misses and passes, and nine refreshes in the background.
            (Figure::OriginRequests, 12.0),
            (Figure::OriginLoad, 3.0),
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
            "|---|---|---|\n| hours recorded | 2 | 0 |\n| hit ratio | 75.0% | - |\n",
            "| 95th percentile | 8.0 ms | - |\n| requests an hour | 43200 | - |\n",
            "| purges an hour | 60 | - |\n",
            "1. `https://a.test/?<b>?`: 7 requests, 3.5 seconds.\n   Last reason `miss-absent`: The page was",
        ] {
            assert!(text.contains(part), "{part:?} is missing in\n{text}");
        }
    }

    #[test]
    fn rows_without_requests_to_origins_give_no_saved_time() {
        let old = week(0, &[(Figure::Hits, 9.0), (Figure::Misses, 2.0), (Figure::OriginLoad, 0.75)]);
        assert_eq!(old.saved_secs(), None);
        let row = |minute, fetches| {
            let mut row = Row::new(minute).lasting(30);
            row.set(Figure::Hits, Some(4.0));
            row.set(Figure::OriginLoad, Some(0.5));
            row.set(Figure::OriginRequests, fetches);
            row
        };
        let mixed = WeekFigures::of(&[row(1, None), row(2, Some(2.0))]);
        assert_eq!((mixed.secs, mixed.hits), (60, 240.0), "seconds count");
        assert_eq!(mixed.saved_secs(), Some(30.0), "the hits of the second row, a quarter second each");
    }

    #[test]
    fn weeks_of_unlike_length_are_compared_by_the_hour() {
        let (week, before) = (
            week(0, &[(Figure::Requests, 1.0)]),
            WeekFigures::of(&[{
                let mut row = Row::new(9);
                row.set(Figure::Requests, Some(1.0));
                row
            }]),
        );
        let facts = SummaryFacts { title: "T".to_owned(), week, before, misses: &[] };
        assert!(summary(&facts).contains("| requests an hour | 3600 | 3600 |\n"), "{}", summary(&facts));
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
