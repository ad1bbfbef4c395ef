//! The rows of 30 days, and a reader's view of them.
//!
//! Invariant: a view has at most as many values of each series as its reader asks for. A value of a
//! longer time is the mean over its time or requests, or the largest of its minutes.

use crate::row::combined;
use crate::usual::UsualRanges;
use crate::{Figure, MINUTES, Row};
use api::dashboard::{History, Series};
use std::collections::VecDeque;

/// Maximum number of values of a series for programs.
pub const VALUES_MAX: u64 = 1440;

/// Rows in the order of their minutes, each minute once.
#[derive(Clone, Debug, Default)]
pub struct Table(Vec<Row>);

impl Table {
    /// The rows of a file and further rows in memory. If both have a minute, the row of more
    /// seconds counts, and otherwise the one in memory.
    pub fn new(mut file: Vec<Row>, memory: &VecDeque<Row>) -> Self {
        file.extend(memory.iter().copied());
        // Stable, so the row of memory is the later one of its minute.
        file.sort_by_key(|row| row.minute);
        let mut rows: Vec<Row> = Vec::with_capacity(file.len());
        for row in file {
            match rows.last_mut().filter(|last| last.minute == row.minute) {
                // The file has the seconds of the process before this one, too.
                Some(last) if last.secs > row.secs => {}
                Some(last) => *last = row,
                None => rows.push(row),
            }
        }
        Self(rows)
    }

    /// The rows from `first` to before `end`.
    pub fn range(&self, first: u64, end: u64) -> &[Row] {
        let place = |minute| self.0.partition_point(|row| row.minute < minute);
        self.0.get(place(first)..place(end)).unwrap_or_default()
    }

    /// The last `minutes` minutes before `end`, at most 30 days, in at most `values_max` values.
    pub fn view(&self, end: u64, minutes: u64, values_max: u64) -> History {
        let minutes = minutes.clamp(1, MINUTES).min(end);
        let step = minutes.div_ceil(values_max.max(1)).max(1);
        // Begins with a whole step, so that the values do not change with each new minute.
        let first = (end - minutes).div_ceil(step) * step;
        let series = Figure::ALL.iter().map(|figure| self.series(*figure, (first, end, step))).collect();
        History { first_minute: first, minutes_per_value: step, series }
    }

    fn series(&self, figure: Figure, (first, end, step): (u64, u64, u64)) -> Series {
        let mut ranges = UsualRanges::of(figure, &self.0);
        let begins = || (first..end).step_by(step as usize);
        let value = |begin: u64| combined(figure, self.range(begin, end.min(begin + step))).map(rounded);
        let usual: Vec<_> = begins().map(|begin| Self::usual(&mut ranges, begin)).collect();
        Series {
            name: figure.name().to_owned(),
            unit: figure.unit().to_owned(),
            values: begins().map(value).collect(),
            usual: if usual.iter().any(Option::is_some) { usual } else { Vec::new() },
        }
    }

    fn usual(ranges: &mut UsualRanges, minute: u64) -> Option<(f64, f64)> {
        ranges.at(minute).map(|(low, high)| (rounded(low), rounded(high)))
    }
}

/// A value with three digits after the point, because a document of 30 days has many.
fn rounded(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

#[cfg(test)]
mod tests {
    use super::{Table, VALUES_MAX};
    use crate::{Figure, MINUTES, MINUTES_OF_DAY, Row};
    use proptest::prelude::*;
    use std::collections::{BTreeMap, VecDeque};

    fn row(minute: u64, value: f64) -> Row {
        let mut row = Row::new(minute);
        row.set(Figure::Requests, Some(value));
        row
    }

    #[test]
    fn memory_counts_before_the_file() {
        let part = row(1, 7.0).lasting(9);
        let memory = VecDeque::from([part, row(2, 5.0), row(4, 4.0)]);
        let table = Table::new(vec![row(1, 1.0), row(2, 2.0)], &memory);
        let history = table.view(5, 4, VALUES_MAX);
        assert_eq!((history.first_minute, history.minutes_per_value), (1, 1));
        let requests = &history.series[0];
        assert_eq!(requests.values, [Some(1.0), Some(5.0), None, Some(4.0)]);
        assert!(requests.usual.is_empty());
    }

    #[test]
    fn view_of_thirty_days_is_bounded_and_has_the_usual_range() {
        let day = |minute: u64| (minute / MINUTES_OF_DAY) as f64;
        let rows = (0..MINUTES).map(|minute| row(minute, day(minute))).collect();
        let table = Table::new(rows, &VecDeque::new());
        let history = table.view(MINUTES, u64::MAX, VALUES_MAX);
        assert_eq!((history.first_minute, history.minutes_per_value), (0, 30));
        let requests = &history.series[0];
        assert_eq!(requests.values.len() as u64, VALUES_MAX);
        assert_eq!(requests.values.len(), requests.usual.len());
        assert_eq!((requests.usual[0], requests.values[1439]), (None, Some(29.0)));
        assert_eq!(requests.usual[1439], Some((2.0, 26.0)));
        assert_eq!(table.view(0, 9, VALUES_MAX).series[0].values, []);
    }

    #[test]
    fn value_of_several_minutes_weighs_requests_and_keeps_peaks() {
        let minute = |minute, requests, hit_ratio, p95, p99, errors| {
            let mut row = Row::new(minute);
            for (figure, value) in [
                (Figure::Requests, requests),
                (Figure::Hits, requests),
                (Figure::HitRatio, hit_ratio),
                (Figure::P95, p95),
                (Figure::P99, p99),
                (Figure::Errors, errors),
            ] {
                row.set(figure, Some(value));
            }
            row
        };
        let rows = vec![minute(0, 90.0, 100.0, 10.0, 11.0, 0.0), minute(1, 10.0, 0.0, 110.0, 900.0, 5.0)];
        let history = Table::new(rows, &VecDeque::new()).view(2, 2, 1);
        let value = |figure: Figure| history.series[figure as usize].values[0].unwrap();
        assert_eq!([Figure::Requests, Figure::HitRatio, Figure::P95].map(value), [50.0, 90.0, 20.0]);
        assert_eq!([Figure::P99, Figure::Errors].map(value), [900.0, 5.0], "the worst minute");
    }

    proptest! {
        /// Compares with a table of the values of each minute.
        #[test]
        fn values_are_the_means_of_their_minutes(
            rows in prop::collection::btree_map(0_u64..4000, 0_u32..1000, 0..300),
            (end, minutes) in (1_u64..4000, 1_u64..4000),
        ) {
            let rows: BTreeMap<u64, u32> = rows;
            let table = Table::new(
                rows.iter().map(|(minute, value)| row(*minute, f64::from(*value))).collect(),
                &VecDeque::new(),
            );
            let history = table.view(end, minutes, VALUES_MAX);
            let (first, step) = (history.first_minute, history.minutes_per_value);
            prop_assert!(first >= end.saturating_sub(minutes) && first < end.saturating_sub(minutes) + step);
            let expected: Vec<_> = (first..end).step_by(step as usize).map(|begin| {
                let values: Vec<_> = rows.range(begin..end.min(begin + step)).map(|(_, value)| *value).collect();
                let sum = f64::from(values.iter().sum::<u32>());
                (!values.is_empty()).then(|| (sum / values.len() as f64 * 1000.0).round() / 1000.0)
            }).collect();
            prop_assert_eq!(&history.series[0].values, &expected);
            prop_assert!(history.series.iter().all(|series| series.values.len() == expected.len()));
        }
    }
}
