//! Drawing primitives for the charts: scales, labels that do not overlap, and an SVG element with a
//! description in words. Pure functions.

use super::over_time::axis_end;
use crate::number;
use maud::{Markup, html};

/// A logarithmic axis: maps values to pixels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct LogScale {
    low: f64,
    high: f64,
    start: f64,
    end: f64,
}

impl LogScale {
    /// Creates an axis over whole decades that include all positive `values`, from pixel `start` to
    /// pixel `end`.
    pub(super) fn over(values: impl Iterator<Item = f64>, start: f64, end: f64) -> Self {
        let positive = values.filter(|value| value.is_finite() && *value > 0.0);
        let (least, most) =
            positive.fold((f64::INFINITY, 0.0_f64), |(least, most), v| (least.min(v), most.max(v)));
        let (least, most) = if most > 0.0 { (least, most) } else { (1.0, 10.0) };
        let low = least.log10().floor();
        let high = most.log10().ceil().max(low + 1.0);
        Self { low, high, start, end }
    }

    /// Pixel of a value. Values below the axis are placed at its start, values above it at its end.
    pub(super) fn at(&self, value: f64) -> f64 {
        let position = if value > 0.0 { (value.log10() - self.low) / (self.high - self.low) } else { 0.0 };
        self.start + position.clamp(0.0, 1.0) * (self.end - self.start)
    }

    /// The powers of ten on the axis, with their pixels.
    pub(super) fn ticks(&self) -> impl Iterator<Item = (f64, f64)> {
        let scale = *self;
        let low = self.low as i32;
        let high = self.high as i32;
        (low..=high).map(move |exponent| 10_f64.powi(exponent)).map(move |value| (value, scale.at(value)))
    }
}

/// A linear axis that starts at zero, so that distances are proportional to values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct LinearScale {
    most: f64,
    start: f64,
    end: f64,
}

impl LinearScale {
    /// Creates an axis from zero to a round number that no value exceeds, from pixel `start` to
    /// pixel `end`.
    pub(super) fn over(values: impl Iterator<Item = f64>, start: f64, end: f64) -> Self {
        let most = values.filter(|value| value.is_finite()).fold(0.0, f64::max);
        Self { most: if most > 0.0 { axis_end(most) } else { 1.0 }, start, end }
    }

    /// Pixel of a value.
    pub(super) fn at(&self, value: f64) -> f64 {
        self.start + (value / self.most).clamp(0.0, 1.0) * (self.end - self.start)
    }

    /// Zero, the end and the quarters between them, with their pixels.
    pub(super) fn ticks(&self) -> [(f64, f64); 5] {
        [0.0, 0.25, 0.5, 0.75, 1.0].map(|part| (part * self.most, self.at(part * self.most)))
    }
}

/// Label of a linear axis; abbreviated on a narrow page.
pub(super) fn linear_tick(value: f64, narrow: bool) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    if narrow { number::compact(value) } else { number::three_digits(value) }
}

/// Label of a power of ten: `0.01`, `1`, `1,000`; on a narrow page `1k`.
pub(super) fn tick(value: f64, narrow: bool) -> String {
    if value < 1.0 {
        let decimals = (-value.log10()).round().max(0.0) as usize;
        return format!("{value:.decimals$}");
    }
    if narrow && value >= 1000.0 { number::compact(value) } else { number::grouped(value.round() as u64) }
}

/// Moves labels apart: returns the positions in the given order, with at least `gap` between any
/// two. One pass down and one pass up keep them near their original positions. All are between
/// `low` and `high` if they fit.
pub(super) fn spread(positions: &[f64], gap: f64, low: f64, high: f64) -> Vec<f64> {
    let mut order: Vec<(usize, f64)> = positions.iter().copied().enumerate().collect();
    order.sort_by(|(_, a), (_, b)| a.total_cmp(b));
    let mut floor = low;
    for (_, position) in &mut order {
        *position = position.max(floor);
        floor = *position + gap;
    }
    let mut ceiling = high;
    for (_, position) in order.iter_mut().rev() {
        *position = position.min(ceiling);
        ceiling = *position - gap;
    }
    order.sort_by_key(|(index, _)| *index);
    order.into_iter().map(|(_, position)| position).collect()
}

/// Cuts a text to a width in pixels. The width is estimated, because the font is unknown.
pub(super) fn shortened(text: &str, width: f64) -> String {
    const CHAR_PX: f64 = 7.0;
    let room = (width / CHAR_PX) as usize;
    if text.chars().count() <= room {
        return text.to_owned();
    }
    let short: String = text.chars().take(room.saturating_sub(1)).collect();
    format!("{}…", short.trim_end())
}

/// Formats a pixel position with one decimal.
pub(super) fn px(value: f64) -> String {
    format!("{value:.1}")
}

/// Formats the attribute `points` of a polyline.
pub(super) fn points(points: &[(f64, f64)]) -> String {
    points.iter().map(|(x, y)| format!("{},{}", px(*x), px(*y))).collect::<Vec<_>>().join(" ")
}

/// A text at a point. `anchor` states whether its baseline begins (`start`), ends (`end`) or is
/// centred (`middle`) there.
pub(super) fn label(x: f64, y: f64, anchor: &str, class: &str, text: &str) -> Markup {
    html! { text x=(px(x)) y=(px(y)) text-anchor=(anchor) class=(class) { (text) } }
}

/// A vertical grid line with its label below.
pub(super) fn vertical_tick(x: f64, top: f64, bottom: f64, text: &str) -> Markup {
    html! {
        line x1=(px(x)) x2=(px(x)) y1=(px(top)) y2=(px(bottom)) class="grid" {}
        (label(x, bottom + 18.0, "middle", "tick", text))
    }
}

/// A horizontal grid line with its label to the left.
pub(super) fn horizontal_tick(y: f64, left: f64, right: f64, text: &str) -> Markup {
    html! {
        line x1=(px(left)) x2=(px(right)) y1=(px(y)) y2=(px(y)) class="grid" {}
        (label(left - 8.0, y + 4.0, "end", "tick", text))
    }
}

/// An SVG element of this size, with title and description for screen readers.
pub(super) fn drawing(
    id: &str,
    width: f64,
    height: f64,
    title: &str,
    description: &str,
    content: &Markup,
) -> Markup {
    html! {
        svg viewBox={ "0 0 " (px(width)) " " (px(height)) } width=(px(width)) height=(px(height))
            role="img" aria-labelledby={ (id) "-t " (id) "-d" } {
            title id={ (id) "-t" } { (title) }
            desc id={ (id) "-d" } { (description) }
            (content)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{LinearScale, LogScale, shortened, spread, tick};
    use proptest::prelude::{prop_assert, proptest};

    #[test]
    fn log_scale_spans_whole_decades() {
        let scale = LogScale::over([8.1, 22_900.0, 0.0].into_iter(), 100.0, 600.0);
        let ticks: Vec<String> = scale.ticks().map(|(value, _)| tick(value, false)).collect();
        assert_eq!(ticks, ["1", "10", "100", "1,000", "10,000", "100,000"]);
        assert_eq!(
            [scale.at(1.0), scale.at(1000.0), scale.at(0.0), scale.at(1e9)],
            [100.0, 400.0, 100.0, 600.0]
        );
        let small = LogScale::over([0.02, 0.03].into_iter(), 0.0, 10.0);
        assert_eq!(small.ticks().map(|(value, _)| tick(value, false)).collect::<Vec<_>>(), ["0.01", "0.1"]);
        assert!(LogScale::over(std::iter::empty(), 0.0, 1.0).ticks().count() >= 2);
        assert!(LogScale::over([10.0].into_iter(), 0.0, 1.0).ticks().count() >= 2);
    }

    #[test]
    fn linear_scale_begins_at_zero_and_ends_at_a_round_value() {
        let scale = LinearScale::over([8.1, 22_900.0].into_iter(), 100.0, 500.0);
        let ticks = scale.ticks().map(|(value, at)| (value as u64, at as u64));
        assert_eq!(ticks, [(0, 100), (6_000, 200), (12_000, 300), (18_000, 400), (24_000, 500)]);
        assert!((scale.at(12_000.0) - scale.at(6_000.0) - 100.0).abs() < 1e-9);
        assert_eq!(LinearScale::over(std::iter::empty(), 0.0, 1.0).at(0.0), 0.0);
    }

    #[test]
    fn overlapping_labels_are_moved_apart() {
        assert_eq!(spread(&[10.0, 12.0, 50.0], 10.0, 0.0, 100.0), [10.0, 20.0, 50.0]);
        assert_eq!(spread(&[99.0, 100.0, 20.0], 10.0, 0.0, 100.0), [90.0, 100.0, 20.0]);
        assert_eq!(spread(&[], 10.0, 0.0, 100.0), Vec::<f64>::new());
    }

    #[test]
    fn texts_are_cut_to_a_width() {
        assert_eq!(shortened("opcode cache + page cache", 98.0), "opcode cache…");
        assert_eq!(shortened("opcode cache + page cache", 190.0), "opcode cache + page cache");
        assert_eq!(shortened("Petasos", 98.0), "Petasos");
        assert_eq!([1.0, 10_000.0].map(|value| tick(value, true)), ["1", "10k"]);
    }

    proptest! {
        #[test]
        fn labels_that_fit_never_overlap(positions in proptest::collection::vec(0.0_f64..100.0, 0..10)) {
            let mut moved = spread(&positions, 10.0, 0.0, 100.0);
            moved.sort_by(f64::total_cmp);
            prop_assert!(moved.windows(2).all(|pair| pair[1] - pair[0] > 10.0 - 1e-9));
            prop_assert!(moved.iter().all(|position| (-1e-9..=100.0 + 1e-9).contains(position)));
        }
    }
}
