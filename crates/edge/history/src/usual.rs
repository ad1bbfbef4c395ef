//! The usual range of a figure: its values in the same hour of earlier days.
//!
//! Invariant: a range needs values of [`DAYS_MIN`] days, so a new installation has none.

use crate::{Figure, MINUTES_OF_DAY, Row};

/// Days with values that a range needs.
const DAYS_MIN: usize = 3;

/// The part of the values below the range, and above it.
const OUTSIDE: f64 = 0.1;

const HOURS: usize = 24;

/// A day, and the hour of it.
type DayAndHour = (u64, usize);

/// The values of a figure by hour.
pub(crate) struct UsualRanges {
    /// For each hour of the day (UTC), the values of each day, the earliest day first.
    hours: [Vec<(u64, f64)>; HOURS],
    /// The day and hour that was asked for last, with its range. All minutes of an hour have one.
    last: Option<(DayAndHour, Option<(f64, f64)>)>,
    /// Ranges that were computed.
    #[cfg(test)]
    computed: u32,
}

impl UsualRanges {
    /// The values of these rows, which are in the order of their minutes.
    pub(crate) fn of(figure: Figure, rows: &[Row]) -> Self {
        let mut hours = [const { Vec::new() }; HOURS];
        for row in rows {
            let (day, hour) = day_and_hour(row.minute);
            if let (Some(value), Some(values)) = (row.get(figure), hours.get_mut(hour)) {
                values.push((day, value));
            }
        }
        Self {
            hours,
            last: None,
            #[cfg(test)]
            computed: 0,
        }
    }

    /// The range in which the middle 80% of the values lie that the hour of this minute had on
    /// earlier days.
    pub(crate) fn at(&mut self, minute: u64) -> Option<(f64, f64)> {
        let of = day_and_hour(minute);
        if let Some((_, range)) = self.last.filter(|(known, _)| *known == of) {
            return range;
        }
        #[cfg(test)]
        {
            self.computed += 1;
        }
        let range = self.range_of(of);
        self.last = Some((of, range));
        range
    }

    fn range_of(&self, (day, hour): DayAndHour) -> Option<(f64, f64)> {
        let values = self.hours.get(hour)?;
        let earlier = values.get(..values.partition_point(|(of, _)| *of < day))?;
        let days = earlier.chunk_by(|(one, _), (other, _)| one == other).count();
        if days < DAYS_MIN {
            return None;
        }
        let mut values: Vec<f64> = earlier.iter().map(|(_, value)| *value).collect();
        let outside = (OUTSIDE * values.len() as f64) as usize;
        let last = values.len() - 1 - outside;
        let (below, high, _) = values.select_nth_unstable_by(last, f64::total_cmp);
        let high = *high;
        // With few values, the lowest one of the range may be the highest one, too.
        let low =
            if outside < last { *below.select_nth_unstable_by(outside, f64::total_cmp).1 } else { high };
        Some((low, high))
    }
}

/// The day and the hour of the day of a minute.
const fn day_and_hour(minute: u64) -> DayAndHour {
    (minute / MINUTES_OF_DAY, (minute % MINUTES_OF_DAY / 60) as usize)
}

#[cfg(test)]
mod tests {
    use super::UsualRanges;
    use crate::{Figure, MINUTES_OF_DAY, Row};
    use proptest::prelude::*;

    #[test]
    fn range_needs_three_earlier_days() {
        let rows: Vec<_> = (0..5)
            .map(|day| {
                let mut row = Row::new(day * MINUTES_OF_DAY + 61);
                row.set(Figure::P95, Some(day as f64));
                row
            })
            .collect();
        let mut ranges = UsualRanges::of(Figure::P95, &rows);
        let mut at = |day: u64, minute: u64| ranges.at(day * MINUTES_OF_DAY + minute);
        assert_eq!((at(2, 61), at(3, 61)), (None, Some((0.0, 2.0))));
        assert_eq!((at(4, 60), at(4, 119)), (Some((0.0, 3.0)), Some((0.0, 3.0))), "the whole hour");
        assert_eq!((at(4, 59), at(4, 120)), (None, None), "other hours");
        assert_eq!(UsualRanges::of(Figure::P50, &rows).at(9 * MINUTES_OF_DAY + 61), None);
    }

    #[test]
    fn range_is_computed_once_for_each_hour() {
        let rows: Vec<_> = (0..4 * MINUTES_OF_DAY).map(Row::new).collect();
        let mut ranges = UsualRanges::of(Figure::P95, &rows);
        for minute in 0..MINUTES_OF_DAY {
            assert_eq!(ranges.at(3 * MINUTES_OF_DAY + minute), None);
        }
        assert_eq!(ranges.computed, 24);
    }

    proptest! {
        /// Compares with the sorted values of the same hour.
        #[test]
        fn range_is_that_of_the_sorted_values(
            mut minutes in prop::collection::btree_set(0..6 * MINUTES_OF_DAY, 0..400),
            seed in 0_u64..1000,
            at in 0..6 * MINUTES_OF_DAY,
        ) {
            minutes.insert(at);
            let rows: Vec<_> = minutes.iter().map(|minute| {
                let mut row = Row::new(*minute);
                row.set(Figure::Hits, (minute * seed % 7 != 6).then_some((minute * seed % 97) as f64));
                row
            }).collect();
            let same = |row: &&Row| {
                row.minute / 60 % 24 == at / 60 % 24 && row.minute / MINUTES_OF_DAY < at / MINUTES_OF_DAY
            };
            let earlier = rows.iter().filter(same).filter(|row| row.get(Figure::Hits).is_some());
            let mut values: Vec<_> = earlier.clone().map(|row| row.get(Figure::Hits).unwrap()).collect();
            values.sort_by(f64::total_cmp);
            let mut days: Vec<_> = earlier.map(|row| row.minute / MINUTES_OF_DAY).collect();
            days.dedup();
            let outside = values.len() / 10;
            let expected = (days.len() >= 3).then(|| (values[outside], values[values.len() - 1 - outside]));
            prop_assert_eq!(UsualRanges::of(Figure::Hits, &rows).at(at), expected);
        }
    }
}
