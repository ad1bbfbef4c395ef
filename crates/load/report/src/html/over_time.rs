//! Charts over the seconds of a run: lines, stacked areas, and bars. Pure functions.
//!
//! Invariant: all charts over time have the same horizontal axis, so events at the same moment are
//! above each other. Unknown values leave a gap in a line.

use super::ChartSize;
use super::svg::{drawing, horizontal_tick, label, points, px, shortened, spread, vertical_tick};
use crate::number;
use maud::{Markup, html};

const HEIGHT: f64 = 250.0;
/// Share of a second that must have been measured for the second to be drawn.
const WHOLE_SHARE: f64 = 0.95;
/// Smallest distance between the names of two lines, in pixels.
const LABEL_GAP: f64 = 15.0;
/// Smallest distance between two labels of the time axis, in pixels.
const TICK_APART: f64 = 60.0;
/// Largest number of points of a line. Beyond this, each group of neighbours is reduced to its
/// largest value.
const POINTS_MAX: usize = 600;

/// A line: a value for each second.
pub(super) struct SecondsLine {
    pub(super) name: String,
    pub(super) colour: &'static str,
    pub(super) is_dashed: bool,
    pub(super) values: Vec<Option<f64>>,
}

/// Identity, title and unit of a drawing.
pub(super) struct DrawingTexts<'a> {
    pub(super) id: &'a str,
    pub(super) title: &'a str,
    pub(super) unit: &'a str,
}

/// Area of a drawing in pixels, with the extent of its axes.
struct TimeArea {
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
    names: f64,
    seconds: f64,
    most: f64,
}

impl TimeArea {
    fn new(size: ChartSize, seconds: usize, most: f64) -> Self {
        let (left, names) = if size.narrow { (44.0, 84.0) } else { (64.0, 150.0) };
        let most = if most > 0.0 { axis_end(most) } else { 1.0 };
        let right = size.width - names;
        let bottom = HEIGHT - 40.0;
        Self { left, right, top: 24.0, bottom, names, seconds: seconds.max(1) as f64, most }
    }

    fn x(&self, second: f64) -> f64 {
        self.left + second / self.seconds * (self.right - self.left)
    }

    fn y(&self, value: f64) -> f64 {
        self.bottom - value / self.most * (self.bottom - self.top)
    }

    /// Draws the grid and the axes.
    fn frame(&self, unit: &str, is_narrow: bool) -> Markup {
        let room = ((self.right - self.left) / TICK_APART).max(1.0);
        let step = round_up((self.seconds / room).max(1.0));
        let count = (self.seconds / step) as usize;
        let values = [0.0, 0.25, 0.5, 0.75, 1.0].map(|part| part * self.most);
        html! {
            @for value in values {
                (horizontal_tick(self.y(value), self.left, self.right, &axis(value, is_narrow)))
            }
            @for n in 0..=count {
                @let second = n as f64 * step;
                (vertical_tick(self.x(second), self.top, self.bottom, &format!("{second} s")))
            }
            (label(0.0, 12.0, "start", "tick", unit))
        }
    }
}

/// Leaves out an incomplete last second. With less than [`WHOLE_SHARE`] of it measured, it would
/// look like a fall.
pub(super) fn whole<T>(seconds: &[T], elapsed_s: Option<f64>) -> &[T] {
    let Some(elapsed_s) = elapsed_s else { return seconds };
    let count = (elapsed_s + 1.0 - WHOLE_SHARE).max(0.0) as usize;
    seconds.get(..count).unwrap_or(seconds)
}

/// Draws lines over time.
pub(super) fn lines(words: &DrawingTexts<'_>, size: ChartSize, lines: &[SecondsLine]) -> Markup {
    let seconds = lines.iter().map(|line| line.values.len()).max().unwrap_or(0);
    let most = lines.iter().flat_map(|line| line.values.iter().flatten()).copied().fold(0.0, f64::max);
    let area = TimeArea::new(size, seconds, most);
    let placed: Vec<Vec<Vec<(f64, f64)>>> = lines.iter().map(|line| pieces(line, &area)).collect();
    let ends: Vec<f64> = placed
        .iter()
        .map(|pieces| pieces.last().and_then(|piece| piece.last()).map_or(area.bottom, |(_, y)| *y))
        .collect();
    let labels = spread(&ends, LABEL_GAP, area.top, area.bottom);
    let content = html! {
        (area.frame(words.unit, size.narrow))
        @for ((line, pieces), at) in lines.iter().zip(&placed).zip(labels) {
            g class=(line.colour) {
                @for piece in pieces {
                    polyline points=(points(piece)) class={ "line" @if line.is_dashed { " dashed" } } {}
                }
                (label(area.right + 8.0, at + 4.5, "start", "series", &shortened(&line.name, area.names)))
            }
        }
    };
    drawing(words.id, size.width, HEIGHT, words.title, &in_words(lines, words.unit), &content)
}

/// Draws stacked areas over time.
pub(super) fn stacked(words: &DrawingTexts<'_>, size: ChartSize, layers: &[SecondsLine]) -> Markup {
    let seconds = layers.iter().map(|layer| layer.values.len()).max().unwrap_or(0);
    let bands = bands(layers, seconds);
    let tops = bands.last().into_iter().flatten().map(|(_, _, top)| *top);
    let area = TimeArea::new(size, seconds, tops.fold(0.0, f64::max));
    let middles: Vec<f64> = bands
        .iter()
        .map(|band| band.last().map_or(area.bottom, |(_, low, high)| area.y(f64::midpoint(*low, *high))))
        .collect();
    let labels = spread(&middles, LABEL_GAP, area.top, area.bottom);
    let outline = |band: &[(f64, f64, f64)]| {
        let there = band.iter().map(|(x, _, top)| (area.x(*x), area.y(*top)));
        let back = band.iter().rev().map(|(x, bottom, _)| (area.x(*x), area.y(*bottom)));
        there.chain(back).collect::<Vec<_>>()
    };
    let content = html! {
        @for ((layer, band), at) in layers.iter().zip(&bands).zip(labels) {
            g class=(layer.colour) {
                polygon points=(points(&outline(band))) class="band" {}
                (label(area.right + 8.0, at + 4.5, "start", "series", &shortened(&layer.name, area.names)))
            }
        }
        (area.frame(words.unit, size.narrow))
    };
    drawing(words.id, size.width, HEIGHT, words.title, &in_words(layers, words.unit), &content)
}

/// The second, the lower and the upper edge of each layer's points. All layers have points at the
/// same seconds, so that each lies on the one below it; of neighbours, the highest stack is kept.
fn bands(layers: &[SecondsLine], seconds: usize) -> Vec<Vec<(f64, f64, f64)>> {
    let value =
        |layer: &SecondsLine, second: usize| layer.values.get(second).copied().flatten().unwrap_or(0.0);
    let stack = |second: &usize| layers.iter().map(|layer| value(layer, *second)).sum::<f64>();
    let kept = thinned(&(0..seconds).collect::<Vec<_>>(), stack);
    let mut floors = vec![0.0; kept.len()];
    let band = |layer: &SecondsLine| {
        let points = kept.iter().zip(&mut floors).map(|(&second, floor)| {
            let bottom = *floor;
            *floor += value(layer, second);
            (second as f64 + 0.5, bottom, *floor)
        });
        points.collect()
    };
    layers.iter().map(band).collect()
}

/// Draws horizontal bars, one per row, with their values.
pub(super) fn bars(words: &DrawingTexts<'_>, size: ChartSize, rows: &[(String, f64, String)]) -> Markup {
    const ROW: f64 = 26.0;
    let (left, right) = if size.narrow { (96.0, size.width - 90.0) } else { (150.0, size.width - 220.0) };
    let most = rows.iter().map(|(_, value, _)| *value).fold(0.0, f64::max).max(f64::MIN_POSITIVE);
    let height = rows.len() as f64 * ROW + 12.0;
    let said: Vec<String> = rows.iter().map(|(name, _, said)| format!("{name}: {said}")).collect();
    let content = html! {
        @for (n, (name, value, said)) in rows.iter().enumerate() {
            @let y = n as f64 * ROW + 18.0;
            @let end = left + value / most * (right - left);
            g class="c4" {
                (label(left - 10.0, y + 4.5, "end", "series", &shortened(name, left - 10.0)))
                line x1=(px(left)) x2=(px(end.max(left + 1.0))) y1=(px(y)) y2=(px(y)) class="bar" {}
                (label(end.max(left + 1.0) + 8.0, y + 4.5, "start", "value", said))
            }
        }
    };
    drawing(words.id, size.width, height, words.title, &said.join("; "), &content)
}

/// Splits a line at its gaps and converts it to pixels. A value is drawn in the middle of its
/// second.
fn pieces(line: &SecondsLine, area: &TimeArea) -> Vec<Vec<(f64, f64)>> {
    let mut pieces: Vec<Vec<(f64, f64)>> = Vec::new();
    let mut is_open = false;
    for (second, value) in line.values.iter().enumerate() {
        let Some(value) = value else {
            is_open = false;
            continue;
        };
        if !is_open {
            pieces.push(Vec::new());
            is_open = true;
        }
        if let Some(piece) = pieces.last_mut() {
            piece.push((second as f64 + 0.5, *value));
        }
    }
    let placed = |piece: Vec<(f64, f64)>| {
        let kept = thinned(&piece, |(_, value)| *value);
        kept.into_iter().map(|(second, value)| (area.x(second), area.y(value))).collect()
    };
    pieces.into_iter().map(placed).collect()
}

/// Reduces points to at most [`POINTS_MAX`]: each group of neighbours keeps its largest.
fn thinned<T: Copy>(points: &[T], value: impl Fn(&T) -> f64) -> Vec<T> {
    let size = points.len().div_ceil(POINTS_MAX).max(1);
    let largest =
        |group: &[T]| group.iter().copied().max_by(|one, other| value(one).total_cmp(&value(other)));
    points.chunks(size).filter_map(largest).collect()
}

/// Rounds a positive value up to 1, 2, 2.5 or 5 times a power of ten.
fn round_up(value: f64) -> f64 {
    next_of(&[1.0, 2.0, 2.5, 5.0, 10.0], value)
}

/// Returns the end of an axis for a positive value: a round number whose quarters are short.
pub(super) fn axis_end(value: f64) -> f64 {
    next_of(&[1.0, 1.2, 1.6, 2.0, 2.4, 3.2, 4.0, 6.0, 8.0, 10.0], value)
}

/// Returns the first of ascending steps, times a power of ten, that reaches a positive value.
fn next_of(steps: &[f64], value: f64) -> f64 {
    let unit = 10_f64.powf(value.log10().floor());
    steps.iter().map(|step| step * unit).find(|step| *step >= value * (1.0 - 1e-9)).unwrap_or(value)
}

fn axis(value: f64, is_narrow: bool) -> String {
    if value >= 10_000.0 || (is_narrow && value >= 1_000.0) {
        return number::compact(value);
    }
    if value >= 10.0 || value.fract() == 0.0 {
        number::grouped(value.round() as u64)
    } else {
        format!("{value:.2}")
    }
}

fn in_words(lines: &[SecondsLine], unit: &str) -> String {
    let line = |line: &SecondsLine| {
        let known: Vec<f64> = line.values.iter().flatten().copied().collect();
        let (least, most) =
            known.iter().fold((f64::INFINITY, 0.0_f64), |(least, most), v| (least.min(*v), most.max(*v)));
        if known.is_empty() {
            return format!("{}: nothing", line.name);
        }
        format!("{}: {} to {} {unit}", line.name, axis(least, false), axis(most, false))
    };
    lines.iter().map(line).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::{ChartSize, SecondsLine, TimeArea, axis_end, bands, pieces, round_up, thinned, whole};

    #[test]
    fn axes_end_at_round_values() {
        let ends = [0.3, 1.0, 1.1, 2.2, 26.0, 99.0, 1_200.0].map(round_up);
        assert_eq!(ends, [0.5, 1.0, 2.0, 2.5, 50.0, 100.0, 2_000.0]);
        let ends = [25.0, 99.0, 2_900.0, 1.0, 7.0].map(axis_end);
        assert_eq!(ends, [32.0, 100.0, 3_200.0, 1.0, 8.0]);
    }

    #[test]
    fn unknown_values_leave_a_gap() {
        let values = vec![Some(1.0), Some(2.0), None, Some(4.0)];
        let line = SecondsLine { name: "a".to_owned(), colour: "c0", is_dashed: false, values };
        let area = TimeArea::new(ChartSize { width: 414.0, narrow: false }, 4, 4.0);
        let placed = pieces(&line, &area);
        assert_eq!(placed.iter().map(Vec::len).collect::<Vec<_>>(), [2, 1]);
        assert!((placed[1][0].1 - area.y(4.0)).abs() < 1e-9 && placed[0][0].0 < placed[1][0].0);
    }

    #[test]
    fn partial_last_second_is_left_out() {
        let seconds = [0, 1, 2, 3];
        let drawn = |elapsed_s| whole(&seconds, elapsed_s).len();
        assert_eq!([3.4, 3.94, 3.96, 4.0, 9.0].map(|elapsed| drawn(Some(elapsed))), [3, 3, 4, 4, 4]);
        assert_eq!((drawn(None), drawn(Some(0.2))), (4, 0));
    }

    #[test]
    fn stacked_layers_lie_on_each_other() {
        // The layers have their peaks at different seconds.
        let layer = |peak: usize| {
            let values = (0..2_000).map(|second| Some(if second % 4 == peak { 9.0 } else { 1.0 })).collect();
            SecondsLine { name: "a".to_owned(), colour: "c0", is_dashed: false, values }
        };
        let bands = bands(&[layer(0), layer(1), layer(2)], 2_000);
        assert!(bands[0].len() <= 600);
        for two in bands.windows(2) {
            let tops: Vec<_> = two[0].iter().map(|&(second, _, top)| (second, top)).collect();
            let floors: Vec<_> = two[1].iter().map(|&(second, floor, _)| (second, floor)).collect();
            assert_eq!(tops, floors);
        }
    }

    #[test]
    fn thinning_keeps_the_peaks() {
        let mut values = vec![1.0; 5_000];
        values[3_210] = 9.0;
        let kept = thinned(&values, |value| *value);
        assert!(kept.len() <= 600 && kept.contains(&9.0));
    }
}
