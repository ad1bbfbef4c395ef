//! Line charts as SVG, with linear axes from zero.
//!
//! Invariants: a chart describes itself in words, for readers who do not see it. Lines differ in
//! colour and in dashes. A gap in the values is a gap in the line.

use crate::figure;
use maud::{Markup, html};
use std::fmt::Write as _;

/// Width and height of a chart. It is drawn at about this size on every screen, so that its text
/// keeps its size.
const SIZE: (f64, f64) = (372.0, 176.0);

/// Space for the labels at the left, right, top and bottom.
const MARGINS: (f64, f64, f64, f64) = (56.0, 8.0, 8.0, 22.0);

/// Largest number of values of a line. The caller combines several values into one if there are
/// more.
pub const POINTS_MAX: u64 = 180;

/// One line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line<'a> {
    pub(crate) name: &'a str,
    pub(crate) values: &'a [Option<f64>],
    /// The usual range, or empty.
    pub(crate) usual: &'a [Option<(f64, f64)>],
}

/// A chart.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chart<'a> {
    /// An identifier for references, unique on the page.
    pub(crate) id: &'a str,
    pub(crate) title: &'a str,
    pub(crate) unit: &'a str,
    pub(crate) lines: &'a [Line<'a>],
    /// Labels of the time axis, with their places from 0 to 1.
    pub(crate) ticks: &'a [(f64, String)],
    /// The time that the chart covers, for the description.
    pub(crate) period: &'a str,
}

impl Chart<'_> {
    /// The chart with its title and legend.
    pub(crate) fn draw(&self) -> Markup {
        let has_band = self.lines.iter().any(|line| line.usual.iter().any(Option::is_some));
        html! {
            figure.chart {
                figcaption id={ (self.id) "-title" } {
                    strong { (self.title) }
                    @if !self.unit.is_empty() { " " span.quiet { (self.unit) } }
                }
                (self.picture())
                ul.legend {
                    @for (number, line) in self.lines.iter().enumerate() {
                        li {
                            svg.swatch aria-hidden="true" viewBox="0 0 22 8" width="22" height="8" {
                                line class={ "line l" (number % 4) } x1="0" y1="4" x2="22" y2="4" {}
                            }
                            (line.name)
                            @if let Some(last) = last(line.values) { " " b { (self.value(last)) } }
                        }
                    }
                    @if has_band {
                        li {
                            svg.swatch aria-hidden="true" viewBox="0 0 22 8" width="22" height="8" {
                                rect.band x="0" y="0" width="22" height="8" {}
                            }
                            "usual at this hour"
                        }
                    }
                }
            }
        }
    }

    fn picture(&self) -> Markup {
        let (width, height) = SIZE;
        let (left, right, top, bottom) = MARGINS;
        let most = self.end();
        let lines: Vec<_> = self.lines.iter().map(|line| self.path(line.values, most)).collect();
        let bands: Vec<_> = self.lines.iter().map(|line| self.band(line.usual, most)).collect();
        html! {
            svg role="img" aria-labelledby={ (self.id) "-title" } aria-describedby={ (self.id) "-text" }
                viewBox={ "0 0 " (width) " " (height) } {
                desc id={ (self.id) "-text" } { (self.words()) }
                @for part in [0.0, 0.5, 1.0] {
                    @let y = at_y(part);
                    line.grid x1=(left) y1=(y) x2=(width - right) y2=(y) {}
                    text.tick x=(left - 6.0) y=(y + 4.0) text-anchor="end" { (self.label(part * most)) }
                }
                @for (place, text) in self.ticks {
                    text.tick x=(decimal(left + place * (width - left - right))) y=(height - bottom + 17.0)
                        text-anchor=(anchor(*place)) { (text) }
                }
                @for band in &bands { @if !band.is_empty() { path.band d=(band) {} } }
                @for (number, line) in lines.iter().enumerate() {
                    @if !line.is_empty() { path class={ "line l" (number % 4) } d=(line) {} }
                }
                line.axis x1=(left) y1=(top) x2=(left) y2=(height - bottom) {}
                line.axis x1=(left) y1=(height - bottom) x2=(width - right) y2=(height - bottom) {}
            }
        }
    }

    /// The end of the axis: a round number, of binary units for sizes.
    fn end(&self) -> f64 {
        let most = self.most();
        let powers = if self.unit.starts_with("bytes") { (most.max(1.0).log2() / 10.0).floor() } else { 0.0 };
        let scale = 1024_f64.powf(powers);
        axis_end(most / scale) * scale
    }

    /// The largest value of all lines and usual ranges.
    fn most(&self) -> f64 {
        let values = self.lines.iter().flat_map(|line| line.values.iter().flatten().copied());
        let usual = self.lines.iter().flat_map(|line| line.usual.iter().flatten().map(|(_, high)| *high));
        let most = values.chain(usual).filter(|value| value.is_finite()).fold(0.0, f64::max);
        // A share is always drawn against the whole.
        if self.unit == "%" { most.max(100.0) } else { most }
    }

    fn path(&self, values: &[Option<f64>], most: f64) -> String {
        let mut path = String::new();
        let mut is_drawing = false;
        for (index, value) in values.iter().enumerate() {
            let Some(value) = value.filter(|value| value.is_finite()) else {
                is_drawing = false;
                continue;
            };
            let is_alone = !is_drawing && values.get(index + 1).is_none_or(Option::is_none);
            let command = if is_drawing { 'L' } else { 'M' };
            let (x, y) = (at_x(index, values.len()), at_y(value / most));
            // Writing to a String cannot fail.
            let _ = write!(path, "{command}{x:.1} {y:.1}");
            if is_alone {
                // A point without neighbours would be invisible.
                let _ = write!(path, "h1");
            }
            is_drawing = true;
        }
        path
    }

    /// The outline of the usual range.
    fn band(&self, usual: &[Option<(f64, f64)>], most: f64) -> String {
        let mut path = String::new();
        let mut index = 0;
        while index < usual.len() {
            let run: Vec<_> = usual.iter().skip(index).map_while(|range| *range).collect();
            let place = |offset: usize| at_x(index + offset, usual.len());
            for (offset, (_, high)) in run.iter().enumerate() {
                let command = if offset == 0 { 'M' } else { 'L' };
                let _ = write!(path, "{command}{:.1} {:.1}", place(offset), at_y(high / most));
            }
            for (offset, (low, _)) in run.iter().enumerate().rev() {
                let _ = write!(path, "L{:.1} {:.1}", place(offset), at_y(low / most));
            }
            if !run.is_empty() {
                path.push('Z');
            }
            index += run.len().max(1);
        }
        path
    }

    /// A value with its unit.
    fn value(&self, value: f64) -> String {
        match self.unit {
            "bytes" => figure::bytes(value.max(0.0) as u64),
            "%" => format!("{}%", figure::short(value)),
            "bytes/s" => format!("{}/s", figure::bytes(value.max(0.0) as u64)),
            "ms" => figure::micros((value.max(0.0) * 1000.0) as u64),
            "" | "1/s" => figure::short(value),
            unit => format!("{} {unit}", figure::short(value)),
        }
    }

    /// A label of the axis.
    fn label(&self, value: f64) -> String {
        match self.unit {
            "bytes" | "bytes/s" => figure::bytes(value as u64),
            _ if value >= 10_000.0 => format!("{}k", figure::short(value / 1000.0)),
            _ => figure::short(value),
        }
    }

    /// The contents of the chart, in words.
    fn words(&self) -> String {
        let mut words = format!("{} over {}.", self.title, self.period);
        for line in self.lines {
            let values: Vec<_> = line.values.iter().flatten().copied().collect();
            let Some(last) = values.last() else {
                let _ = write!(words, " {}: no values.", line.name);
                continue;
            };
            let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let least = values.iter().copied().fold(f64::INFINITY, f64::min);
            let (last, least, most) = (self.value(*last), self.value(least), self.value(most));
            let _ = write!(words, " {}: last {last}, from {least} to {most}.", line.name);
        }
        words
    }
}

/// Labels for a time axis over `minutes` minutes from `first_minute` on: times of day, or days.
pub(crate) fn time_ticks(first_minute: u64, minutes: u64) -> Vec<(f64, String)> {
    let step = match minutes {
        0..=240 => 60,
        241..=1500 => 360,
        1501..=11_000 => 2880,
        _ => 10_080,
    };
    let (end, first) = (first_minute + minutes, first_minute.div_ceil(step) * step);
    let place = |minute: u64| (minute - first_minute) as f64 / minutes.max(1) as f64;
    let ticks = (first..end).step_by(usize::try_from(step).unwrap_or(1));
    ticks.map(|minute| (place(minute), figure::tick(minute, step >= 1440))).collect()
}

/// Where the label of a tick is anchored, so that it stays inside of the picture.
fn anchor(place: f64) -> &'static str {
    match place {
        p if p < 0.05 => "start",
        p if p > 0.95 => "end",
        _ => "middle",
    }
}

fn at_x(index: usize, count: usize) -> f64 {
    let (left, right, ..) = MARGINS;
    let place = if count > 1 { index as f64 / (count - 1) as f64 } else { 1.0 };
    left + place * (SIZE.0 - left - right)
}

/// The height of a part of the axis.
fn at_y(part: f64) -> f64 {
    let (.., top, bottom) = MARGINS;
    SIZE.1 - bottom - part.clamp(0.0, 1.0) * (SIZE.1 - top - bottom)
}

fn decimal(value: f64) -> String {
    format!("{value:.1}")
}

/// A round number, at least `most`: 1, 2, 4, 6 or 10 times a power of ten, so that half of it is
/// round too.
fn axis_end(most: f64) -> f64 {
    if !most.is_finite() || most <= 0.0 {
        return 1.0;
    }
    let power = 10_f64.powf(most.log10().floor());
    let steps = [1.0, 2.0, 4.0, 6.0, 10.0];
    steps.iter().map(|step| step * power).find(|end| *end >= most * 0.9999).unwrap_or(most)
}

/// The last value.
fn last(values: &[Option<f64>]) -> Option<f64> {
    values.iter().rev().flatten().next().copied()
}

#[cfg(test)]
mod tests {
    use super::{Chart, Line, axis_end, time_ticks};

    fn chart<'a>(unit: &'a str, lines: &'a [Line<'a>]) -> Chart<'a> {
        Chart { id: "c", title: "T", unit, lines, ticks: &[], period: "a day" }
    }

    #[test]
    fn axis_ends_at_a_round_number_not_below_the_values() {
        assert_eq!([0.0, 0.3, 1.0, 7.0, 61.0, 4100.0].map(axis_end), [1.0, 0.4, 1.0, 10.0, 100.0, 6000.0]);
        assert_eq!(axis_end(f64::NAN), 1.0);
    }

    #[test]
    fn sizes_have_round_binary_units() {
        let line = Line { name: "a", values: &[Some(5.0 * 1024.0 * 1024.0)], usual: &[] };
        let text = chart("bytes", &[line]).draw().into_string();
        assert!(text.contains(">6 MiB</text>") && text.contains(">3 MiB</text>"), "{text}");
    }

    #[test]
    fn gap_in_the_values_is_a_gap_in_the_line() {
        let values = [Some(1.0), Some(2.0), None, Some(1.0), None];
        let path = chart("", &[]).path(&values, 2.0);
        assert_eq!(path.matches('M').count(), 2, "{path}");
        assert!(path.ends_with("h1"), "{path}");
    }

    #[test]
    fn shares_are_drawn_against_the_whole_and_bands_count() {
        let line = Line { name: "a", values: &[Some(3.0)], usual: &[Some((1.0, 9.0))] };
        assert_eq!(chart("%", &[line]).most(), 100.0);
        assert_eq!(chart("1/s", &[line]).most(), 9.0);
        let text = chart("1/s", &[line]).draw().into_string();
        assert!(text.contains("usual at this hour") && text.contains("a: last 3, from 3 to 3."), "{text}");
    }

    #[test]
    fn ticks_are_at_round_times() {
        let texts =
            |first, minutes| time_ticks(first, minutes).into_iter().map(|(_, text)| text).collect::<Vec<_>>();
        assert_eq!(texts(61, 180), ["02:00", "03:00", "04:00"]);
        assert_eq!(texts(0, 1440), ["00:00", "06:00", "12:00", "18:00"]);
        assert!(texts(0, 30 * 1440).len() <= 5);
    }
}
