//! Chooses the image file that a browser loads from `srcset`, `sizes` and `picture` (HTML, section
//! 4.8.4.2).
//!
//! Invariant: the same attributes and viewport always give the same file. A candidate with an
//! invalid descriptor is ignored, as in browsers. The smallest file with at least one image pixel
//! per CSS pixel is chosen; if all files are smaller, the largest.

use crate::css_text::{split, until};
use crate::media::Viewport;
use std::cell::LazyCell;

/// A candidate file and its density in image pixels per CSS pixel.
#[derive(Clone, Debug, PartialEq)]
struct SrcsetCandidate {
    url: String,
    density: f64,
}

/// Returns the file of `srcset` and `src` that a browser loads, given `sizes`. `None` if there is
/// no candidate.
pub(crate) fn choose(srcset: &str, sizes: &str, src: Option<&str>, viewport: &Viewport) -> Option<String> {
    let mut candidates = parse(srcset, sizes, viewport);
    let is_dense = |candidate: &SrcsetCandidate| (candidate.density - 1.0).abs() < 1e-9;
    let by_width = candidates.iter().any(|(_, by_width)| *by_width);
    if let Some(src) = src.map(str::trim).filter(|src| !src.is_empty())
        && !by_width
        && !candidates.iter().any(|(candidate, _)| is_dense(candidate))
    {
        candidates.push((SrcsetCandidate { url: src.to_owned(), density: 1.0 }, false));
    }
    let mut candidates: Vec<SrcsetCandidate> =
        candidates.into_iter().map(|(candidate, _)| candidate).collect();
    candidates.sort_by(|a, b| a.density.total_cmp(&b.density));
    candidates.dedup_by(|b, a| a.density.total_cmp(&b.density).is_eq());
    let enough = candidates.iter().find(|candidate| candidate.density >= 1.0 - 1e-9);
    enough.or_else(|| candidates.last()).map(|candidate| candidate.url.clone())
}

/// Whether browsers can show an image of this media type. An empty type counts as supported.
pub(crate) fn is_supported(mime: &str) -> bool {
    let essence = mime.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    matches!(
        essence.as_str(),
        "" | "image/apng"
            | "image/avif"
            | "image/bmp"
            | "image/gif"
            | "image/jpeg"
            | "image/jpg"
            | "image/png"
            | "image/svg+xml"
            | "image/webp"
            | "image/x-icon"
            | "image/vnd.microsoft.icon"
    )
}

/// All candidates, each with a flag: whether its width was given (`w`).
fn parse(srcset: &str, sizes: &str, viewport: &Viewport) -> Vec<(SrcsetCandidate, bool)> {
    let mut found = Vec::new();
    let mut rest = srcset;
    // All candidates share one size, and both attributes may be long.
    let size_px = LazyCell::new(|| source_size_px(sizes, viewport));
    loop {
        rest = rest.trim_start_matches(|c: char| c.is_ascii_whitespace() || c == ',');
        if rest.is_empty() {
            return found;
        }
        let end = rest.find(|c: char| c.is_ascii_whitespace()).unwrap_or(rest.len());
        let (url, after) = rest.split_at_checked(end).unwrap_or((rest, ""));
        let trimmed = url.trim_end_matches(',');
        let descriptors;
        if trimmed.len() < url.len() {
            descriptors = "";
            rest = after;
        } else {
            let (text, remaining) = after.split_at_checked(until(after, b',')).unwrap_or((after, ""));
            descriptors = text.trim();
            rest = remaining;
        }
        if let Some((density, by_width)) = density(descriptors, || *size_px) {
            found.push((SrcsetCandidate { url: trimmed.to_owned(), density }, by_width));
        }
    }
}

fn density(descriptors: &str, size_px: impl Fn() -> f64) -> Option<(f64, bool)> {
    let mut width = None;
    let mut density = None;
    let mut height = false;
    for word in descriptors.split_ascii_whitespace() {
        let (number, unit) = word.split_at_checked(word.len() - 1)?;
        match unit {
            "w" if width.is_none() => width = Some(number.parse::<u32>().ok().filter(|&width| width > 0)?),
            "x" if density.is_none() => density = Some(number.parse::<f64>().ok().filter(|x| *x >= 0.0)?),
            "h" if !height => height = number.parse::<u32>().is_ok_and(|height| height > 0),
            _ => return None,
        }
    }
    match (width, density, height) {
        (Some(width), None, _) => Some((f64::from(width) / size_px(), true)),
        (None, None, false) => Some((1.0, false)),
        (None, Some(density), false) => Some((density, false)),
        _ => None,
    }
}

/// The display width of an image in CSS pixels: the first entry of `sizes` whose condition matches,
/// else the width of the viewport.
fn source_size_px(sizes: &str, viewport: &Viewport) -> f64 {
    let chosen = split(sizes, b',').into_iter().map(str::trim).find_map(|entry| {
        // The length is the last word or function of an entry; the condition is before it.
        let at = length_start(entry);
        let (condition, length) = entry.split_at_checked(at)?;
        let length = viewport.length_px(length).filter(|&px| px >= 0.0)?;
        viewport.matches(condition.trim()).then_some(length)
    });
    chosen.filter(|&px| px > 0.0).unwrap_or(viewport.width_px)
}

fn length_start(entry: &str) -> usize {
    let mut depth = 0_u32;
    for (at, byte) in entry.bytes().enumerate().rev() {
        match byte {
            b')' => depth += 1,
            b'(' => depth = depth.saturating_sub(1),
            byte if byte.is_ascii_whitespace() && depth == 0 => return at + 1,
            _ => {}
        }
    }
    0
}

#[cfg(test)]
mod tests {
    use super::{choose, is_supported};
    use crate::media::Viewport;
    use proptest::prelude::*;

    fn chosen(srcset: &str, sizes: &str, src: &str) -> String {
        choose(srcset, sizes, Some(src), &Viewport::DEFAULT).unwrap_or_default()
    }

    #[test]
    fn candidate_with_density_of_at_least_one_is_chosen() {
        assert_eq!(chosen("a 2x, b 3x", "", "s"), "s");
        assert_eq!(chosen("a, b 2x", "", "s"), "a");
        assert_eq!(chosen("a 0.5x, b 1.5x", "", ""), "b");
        assert_eq!(chosen("a .5x", "", ""), "a");
        assert_eq!(chosen("", "", "s"), "s");
        assert_eq!(chosen("a 2x", "", ""), "a");
    }

    #[test]
    fn candidate_width_is_compared_with_sizes() {
        let set = "a.jpg 300w, b.jpg 650w, c.jpg 1280w, d.jpg 2048w";
        assert_eq!(chosen(set, "(max-width: 650px) 100vw, 650px", "s"), "b.jpg");
        assert_eq!(chosen(set, "", "s"), "c.jpg");
        assert_eq!(chosen(set, "100vw", "s"), "c.jpg");
        assert_eq!(chosen(set, "(min-width: 800px) calc(50vw - 100px), 100vw", "s"), "b.jpg");
        assert_eq!(chosen(set, "5000px", "s"), "d.jpg");
        assert_eq!(chosen(set, "nonsense, 10px", "s"), "a.jpg");
    }

    #[test]
    fn commas_in_urls_are_kept_and_bad_candidates_ignored() {
        assert_eq!(chosen("a,b.jpg 1x, c 2x", "", "s"), "a,b.jpg");
        assert_eq!(chosen("a.jpg, b.jpg 2x", "", "s"), "a.jpg");
        assert_eq!(chosen("a.jpg,b.jpg 2x", "", ""), "a.jpg,b.jpg");
        assert_eq!(chosen("a 1q, b -2x, c 0w", "", "s"), "s");
        assert_eq!(chosen("a 100w 2x", "", "s"), "s");
    }

    #[test]
    fn long_attributes_are_read_once() {
        let set = "a 1w, ".repeat(100_000);
        assert_eq!(chosen(&set, &"(x), ".repeat(100_000), "s"), "a");
    }

    #[test]
    fn only_displayable_image_types_are_supported() {
        assert!(
            is_supported("image/webp") && is_supported("image/AVIF; codecs=x") && !is_supported("image/jxl")
        );
    }

    proptest! {
        /// Among candidates with widths, the smallest that fills the image is chosen, or else the
        /// largest.
        #[test]
        fn smallest_sufficient_width_is_chosen(widths in prop::collection::vec(1_u32..4000, 1..8), size in 1_u32..3000) {
            let set: Vec<String> = widths.iter().map(|width| format!("i{width} {width}w")).collect();
            let got = choose(&set.join(", "), &format!("{size}px"), Some("s"), &Viewport::DEFAULT).unwrap();
            let slow = widths.iter().filter(|&&width| width >= size).min().or_else(|| widths.iter().max()).unwrap();
            prop_assert_eq!(got, format!("i{slow}"));
        }

        #[test]
        fn arbitrary_attributes_do_not_panic(set in ".{0,80}", sizes in ".{0,40}") {
            let _ = choose(&set, &sizes, None, &Viewport::DEFAULT);
        }
    }
}
