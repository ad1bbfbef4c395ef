//! Evaluates media queries and CSS lengths for a screen of a given size (Media Queries Level 4, the
//! parts that pages use). Lengths occur in queries and in `sizes`.
//!
//! Invariant: an invalid query does not match, as in browsers. The assumed visitor has a mouse, a
//! colour screen with one device pixel per CSS pixel, a light colour scheme and no other
//! preferences.

use crate::css_text::split;

/// The size of a window or frame in CSS pixels, with one device pixel per CSS pixel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Viewport {
    /// Width in CSS pixels.
    pub width_px: f64,
    /// Height in CSS pixels.
    pub height_px: f64,
}

/// Pixels per `em` and `rem` in queries and in `sizes`.
const FONT_PX: f64 = 16.0;

impl Viewport {
    /// The window used for the comparisons in the documentation: 1280 by 720.
    pub const DEFAULT: Self = Self { width_px: 1280.0, height_px: 720.0 };

    /// Whether any query of a comma-separated list matches. An empty list matches.
    pub fn matches(&self, queries: &str) -> bool {
        queries.trim().is_empty()
            || split(queries, b',').into_iter().any(|query| self.query(query.trim()).unwrap_or(false))
    }

    /// Evaluates a length or a `calc()`, `min()`, `max()` or `clamp()` in CSS pixels. `None` if
    /// invalid.
    pub fn length_px(&self, text: &str) -> Option<f64> {
        let mut reader = Arithmetic { rest: text.trim(), viewport: self, depth: 0 };
        let value = reader.sum()?;
        reader.rest.trim().is_empty().then_some(value)
    }

    fn query(&self, query: &str) -> Option<bool> {
        let text = query.to_ascii_lowercase();
        let (negated, rest) = match text.strip_prefix("not ") {
            Some(rest) if !rest.trim_start().starts_with('(') => (true, rest.trim_start()),
            _ => (false, text.strip_prefix("only ").unwrap_or(&text).trim_start()),
        };
        let matches = if rest.starts_with('(') || rest.starts_with("not") {
            self.condition(rest, 0)?
        } else {
            let (kind, condition) = rest.split_once(" and ").map_or((rest, None), |(a, b)| (a, Some(b)));
            if !kind.trim().bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
                return None;
            }
            let right_kind = matches!(kind.trim(), "all" | "screen");
            right_kind && condition.map_or(Some(true), |condition| self.condition(condition, 0))?
        };
        Some(matches != negated)
    }

    /// Evaluates conditions in parentheses, combined with `and`, `or` and `not`.
    fn condition(&self, text: &str, depth: u32) -> Option<bool> {
        let text = text.trim();
        if depth > 8 {
            return None;
        }
        if let Some(rest) = text.strip_prefix("not").filter(|rest| rest.trim_start().starts_with('(')) {
            return self.condition(rest, depth + 1).map(|matches| !matches);
        }
        if let Some(parts) = joined(text, " and ") {
            return parts
                .into_iter()
                .try_fold(true, |all, part| Some(self.condition(part, depth + 1)? && all));
        }
        if let Some(parts) = joined(text, " or ") {
            return parts
                .into_iter()
                .try_fold(false, |any, part| Some(self.condition(part, depth + 1)? || any));
        }
        let inside = text.strip_prefix('(')?.strip_suffix(')')?.trim();
        if inside.starts_with('(') || inside.starts_with("not ") {
            return self.condition(inside, depth + 1);
        }
        self.feature(inside)
    }

    fn feature(&self, text: &str) -> Option<bool> {
        if let Some((name, value)) = text.split_once(':') {
            return self.plain(name.trim(), value.trim());
        }
        if let Some(at) = text.find(['<', '>', '=']) {
            return self.range(text, at);
        }
        match text {
            "width"
            | "height"
            | "color"
            | "hover"
            | "any-hover"
            | "pointer"
            | "any-pointer"
            | "resolution"
            | "aspect-ratio"
            | "orientation"
            | "scripting"
            | "update"
            | "overflow-block"
            | "color-gamut"
            | "-webkit-min-device-pixel-ratio" => Some(true),
            _ => Some(false),
        }
    }

    /// Evaluates a feature with a value, such as `min-width: 40em`.
    fn plain(&self, name: &str, value: &str) -> Option<bool> {
        let (bound, name) = match (name.strip_prefix("min-"), name.strip_prefix("max-")) {
            (Some(name), _) => (">=", name),
            (_, Some(name)) => ("<=", name),
            _ => ("=", name),
        };
        if let Some(actual) = self.actual(name) {
            return Some(compare(actual, bound, self.quantity(name, value)?));
        }
        let is = match name {
            "orientation" => {
                if self.width_px > self.height_px {
                    "landscape"
                } else {
                    "portrait"
                }
            }
            "hover" | "any-hover" => "hover",
            "pointer" | "any-pointer" => "fine",
            "prefers-color-scheme" => "light",
            "prefers-reduced-motion"
            | "prefers-contrast"
            | "prefers-reduced-transparency"
            | "prefers-reduced-data" => "no-preference",
            "forced-colors" | "inverted-colors" => "none",
            "scripting" => "enabled",
            "display-mode" => "browser",
            "update" => "fast",
            "color-gamut" => "srgb",
            "-webkit-min-device-pixel-ratio"
            | "webkit-min-device-pixel-ratio"
            | "-webkit-device-pixel-ratio" => {
                return Some(compare(1.0, bound, value.parse().ok()?));
            }
            "-webkit-transform-3d" => return Some(value == "1"),
            _ => return Some(false),
        };
        Some(is == value)
    }

    /// Evaluates a range, such as `width >= 40em` or `20em < width <= 60em`.
    fn range(&self, text: &str, at: usize) -> Option<bool> {
        let (left, rest) = text.split_at_checked(at)?;
        let (operator, rest) = take_operator(rest)?;
        let left = left.trim();
        if let Some(actual) = self.actual(left) {
            return Some(compare(actual, operator, self.quantity(left, rest.trim())?));
        }
        let (name, second) = match rest.find(['<', '>', '=']) {
            Some(at) => rest.split_at_checked(at)?,
            None => (rest, ""),
        };
        let name = name.trim();
        let actual = self.actual(name)?;
        let first = compare(self.quantity(name, left)?, operator, actual);
        if second.is_empty() {
            return Some(first);
        }
        let (operator, bound) = take_operator(second)?;
        Some(first && compare(actual, operator, self.quantity(name, bound.trim())?))
    }

    fn actual(&self, name: &str) -> Option<f64> {
        Some(match name {
            "width" | "device-width" | "inline-size" => self.width_px,
            "height" | "device-height" | "block-size" => self.height_px,
            "aspect-ratio" | "device-aspect-ratio" => self.width_px / self.height_px,
            "resolution" => 1.0,
            "color" => 8.0,
            "monochrome" | "color-index" | "grid" => 0.0,
            _ => return None,
        })
    }

    fn quantity(&self, name: &str, value: &str) -> Option<f64> {
        match name {
            "resolution" => {
                let units = [("dppx", 1.0), ("dpi", 96.0), ("dpcm", 96.0 / 2.54), ("x", 1.0)];
                units.iter().find_map(|(unit, per)| {
                    value.strip_suffix(unit)?.trim().parse::<f64>().ok().map(|number| number / per)
                })
            }
            "aspect-ratio" | "device-aspect-ratio" => match value.split_once('/') {
                Some((a, b)) => Some(a.trim().parse::<f64>().ok()? / b.trim().parse::<f64>().ok()?),
                None => value.parse().ok(),
            },
            "color" | "monochrome" | "color-index" | "grid" => value.parse().ok(),
            _ => self.length_px(value),
        }
    }
}

fn compare(left: f64, operator: &str, right: f64) -> bool {
    match operator {
        "<" => left < right,
        "<=" => left <= right,
        ">" => left > right,
        ">=" => left >= right,
        _ => (left - right).abs() < 1e-6,
    }
}

fn take_operator(text: &str) -> Option<(&str, &str)> {
    let length = if text.get(1..2) == Some("=") { 2 } else { 1 };
    text.split_at_checked(length)
}

/// The parts that `word` separates outside parentheses; `None` if there is only one part.
fn joined<'a>(text: &'a str, word: &str) -> Option<Vec<&'a str>> {
    let mut depth = 0_u32;
    let mut start = 0;
    let mut parts = Vec::new();
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'(' => depth += 1,
            b')' => depth = depth.saturating_sub(1),
            b' ' if depth == 0
                && at >= start
                && text.get(at..).is_some_and(|rest| rest.starts_with(word)) =>
            {
                parts.push(text.get(start..at)?);
                start = at + word.len();
            }
            _ => {}
        }
    }
    parts.push(text.get(start..)?);
    (parts.len() > 1).then_some(parts)
}

/// Evaluates lengths and calculations. Units are not checked: lengths and numbers may be mixed.
struct Arithmetic<'a, 'v> {
    rest: &'a str,
    viewport: &'v Viewport,
    depth: u32,
}

impl Arithmetic<'_, '_> {
    fn sum(&mut self) -> Option<f64> {
        let mut total = self.product()?;
        loop {
            self.rest = self.rest.trim_start();
            // After a value, a sign is always an operator. CSS also requires white space around it;
            // this is not checked.
            match self.rest.bytes().next() {
                Some(b'+') => total += self.after(1)?.product()?,
                Some(b'-') => total -= self.after(1)?.product()?,
                _ => return Some(total),
            }
        }
    }

    fn product(&mut self) -> Option<f64> {
        let mut total = self.value()?;
        loop {
            self.rest = self.rest.trim_start();
            match self.rest.bytes().next() {
                Some(b'*') => total *= self.after(1)?.value()?,
                Some(b'/') => total /= self.after(1)?.value()?,
                _ => return Some(total),
            }
        }
    }

    fn after(&mut self, bytes: usize) -> Option<&mut Self> {
        self.rest = self.rest.get(bytes..)?.trim_start();
        Some(self)
    }

    fn value(&mut self) -> Option<f64> {
        self.rest = self.rest.trim_start();
        for name in ["calc(", "min(", "max(", "clamp(", "("] {
            let begins = self.rest.get(..name.len()).is_some_and(|head| head.eq_ignore_ascii_case(name));
            if begins {
                self.after(name.len())?;
                return self.function(name);
            }
        }
        let is_number = |byte: u8| byte.is_ascii_digit() || matches!(byte, b'.' | b'+' | b'-');
        let digits = self.rest.bytes().take_while(|&byte| is_number(byte)).count();
        let (number, rest) = self.rest.split_at_checked(digits)?;
        let number: f64 = number.parse().ok()?;
        let letters = rest.bytes().take_while(|byte| byte.is_ascii_alphabetic() || *byte == b'%').count();
        let (unit, rest) = rest.split_at_checked(letters)?;
        self.rest = rest;
        let viewport = self.viewport;
        Some(
            number
                * match unit.to_ascii_lowercase().as_str() {
                    "px" | "" => 1.0,
                    "em" | "rem" => FONT_PX,
                    "ex" | "ch" => FONT_PX / 2.0,
                    "vw" | "svw" | "lvw" | "dvw" | "vi" => viewport.width_px / 100.0,
                    "vh" | "svh" | "lvh" | "dvh" | "vb" => viewport.height_px / 100.0,
                    "vmin" => viewport.width_px.min(viewport.height_px) / 100.0,
                    "vmax" => viewport.width_px.max(viewport.height_px) / 100.0,
                    "pt" => 96.0 / 72.0,
                    "pc" => 16.0,
                    "in" => 96.0,
                    "cm" => 96.0 / 2.54,
                    "mm" => 96.0 / 25.4,
                    _ => return None,
                },
        )
    }

    fn function(&mut self, name: &str) -> Option<f64> {
        self.depth += 1;
        if self.depth > 16 {
            return None;
        }
        let mut arguments = vec![self.sum()?];
        loop {
            self.rest = self.rest.trim_start();
            match self.rest.bytes().next()? {
                b',' => arguments.push(self.after(1)?.sum()?),
                b')' => {
                    self.rest = self.rest.get(1..)?;
                    break;
                }
                _ => return None,
            }
        }
        self.depth -= 1;
        match (name, arguments.as_slice()) {
            ("calc(" | "(", [one]) => Some(*one),
            ("min(", all) => all.iter().copied().reduce(f64::min),
            ("max(", all) => all.iter().copied().reduce(f64::max),
            ("clamp(", [low, middle, high]) => Some(middle.min(*high).max(*low)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Viewport;

    #[test]
    fn queries_are_evaluated_for_a_1280_by_720_screen() {
        for (query, expected) in [
            ("", true),
            ("all", true),
            ("screen", true),
            ("print", false),
            ("not print", true),
            ("only screen and (min-width: 600px)", true),
            ("screen and (max-width:600px)", false),
            ("print, (min-width: 80em)", true),
            ("(min-width: 80.1em)", false),
            ("(orientation: landscape) and (prefers-color-scheme: light)", true),
            ("(prefers-color-scheme: dark)", false),
            ("(width >= 600px)", true),
            ("(600px < width <= 1280px)", true),
            ("(600px > width)", false),
            ("not (min-width: 1px)", false),
            ("(max-width: 10px) or (min-height: 720px)", true),
            ("((min-width: 1px) and (hover: hover))", true),
            ("(min-resolution: 2dppx), (-webkit-min-device-pixel-ratio: 2)", false),
            ("(min-aspect-ratio: 16/9)", true),
            ("(prefers-reduced-motion: no-preference)", true),
            ("(nonsense: 1)", false),
            ("screen and", false),
            ("&&", false),
        ] {
            assert_eq!(Viewport::DEFAULT.matches(query), expected, "{query}");
        }
    }

    #[test]
    fn lengths_and_calculations_are_evaluated_in_pixels() {
        let px = |text: &str| Viewport::DEFAULT.length_px(text);
        assert_eq!(px("100vw"), Some(1280.0));
        assert_eq!(px("calc(50vw - 2 * 20px)"), Some(600.0));
        assert_eq!(px("min(650px, 100vw)"), Some(650.0));
        assert_eq!(px("clamp(1em, 50%, 20px)"), None);
        assert_eq!(px("calc((1em + 4px) / 2)"), Some(10.0));
        assert_eq!(px("12"), Some(12.0));
        assert_eq!(px("calc(1px"), None);
        assert_eq!(px(&"(".repeat(100)), None);
    }
}
