//! Finds which parts of a page changed between two responses of a run, for example a nonce, a time,
//! a name or a number.
//!
//! Invariant: only two contents are compared, the first good one and the first that differs from
//! it. At most [`SPOTS_SHOWN_MAX`] places are kept, each with a bounded length of text.

use super::white_space::{is_white_space_alone, visible_space};
use difference::{Difference, Nature, Snippet, Spot, compare, snippet};
use record::RunOutcome;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// Number of places that are kept; further ones are only counted.
pub const SPOTS_SHOWN_MAX: usize = 5;
/// Kind of a place that differs in white space alone.
const WHITE_SPACE: &str = "white space";
/// Number of characters of white space that are shown.
const SPACE_CHARS_MAX: usize = 40;

/// Differences between responses to one URL.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ContentDrift {
    /// The URL.
    pub url: String,
    /// Number of responses that were compared with the first good one byte by byte.
    pub compared: u64,
    /// Number of compared responses that differ from it, in length or content.
    pub differing: u64,
    /// Content bytes that were kept of the first good response.
    pub first_bytes: u64,
    /// Content bytes that were kept of the first response that differs.
    pub other_bytes: u64,
    /// Kinds of the differing parts, most frequent first: `nonce`, `time`, `name`, `number`,
    /// `white space`, `content`.
    pub kinds: Vec<String>,
    /// Number of differing places; null if the contents differ throughout.
    pub spots_count: Option<u64>,
    /// The first differing places, at most [`SPOTS_SHOWN_MAX`].
    pub spots: Vec<DriftSpot>,
}

/// One place where two contents differ.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DriftSpot {
    /// Line number in the first content, counted from 1.
    pub line: u64,
    /// Kind of the change, as in [`ContentDrift::kinds`].
    pub kind: String,
    /// Text before the place on its line, equal in both contents.
    pub before: String,
    /// Text of the first content at this place.
    pub first: String,
    /// Text of the other content at this place.
    pub other: String,
}

impl ContentDrift {
    /// Returns the differences between the responses of a run; `None` if they were equal.
    pub fn of(outcome: &RunOutcome) -> Option<Self> {
        let drift = outcome.drift.as_ref()?;
        let url = outcome.urls.get(drift.url).map(|url| url.target.target.to_string());
        let first = &drift.first[..];
        let other = &drift.other[..];
        let (spots_count, spots) = spots(first, other);
        Some(Self {
            url: url.unwrap_or_else(|| outcome.plan.target.to_string()),
            compared: drift.compared,
            differing: drift.differing,
            first_bytes: first.len() as u64,
            other_bytes: other.len() as u64,
            kinds: kinds(&spots),
            spots_count,
            spots: spots.into_iter().take(SPOTS_SHOWN_MAX).collect(),
        })
    }

    /// Names the kinds of change, for example `a nonce, a number`.
    pub fn said(&self) -> String {
        let said: Vec<String> = self.kinds.iter().map(|kind| with_article(kind)).collect();
        said.join(", ")
    }
}

impl ContentDrift {
    /// Names the kinds of change and the first place:
    /// `a time (line 3, a time: parsed in [12 | 8] ms)`.
    pub fn said_with_place(&self) -> String {
        let place = self.spots.first().map(|spot| format!(" ({})", spot.said()));
        self.said() + &place.unwrap_or_default()
    }
}

impl DriftSpot {
    fn of(found: Snippet, nature: Nature) -> Self {
        Self {
            line: found.line as u64,
            kind: kind(nature).to_owned(),
            before: found.before,
            first: found.first,
            other: found.second,
        }
    }

    /// If the two parts differ in white space alone, returns the place with visible signs for it.
    fn in_white_space(self, first: &[u8], other: &[u8]) -> Self {
        if !is_white_space_alone(first, other) {
            return self;
        }
        Self {
            kind: WHITE_SPACE.to_owned(),
            first: visible_space(first, SPACE_CHARS_MAX),
            other: visible_space(other, SPACE_CHARS_MAX),
            ..self
        }
    }

    /// Names the place and its change, on one line.
    pub fn said(&self) -> String {
        let kind = with_article(&self.kind);
        format!("line {}, {kind}: {}[{} | {}]", self.line, self.before, self.first, self.other)
    }
}

/// Names the kinds of change between two contents: `a nonce, a number` or `white space alone`.
pub fn what_changed(first: &[u8], other: &[u8]) -> String {
    if is_white_space_alone(first, other) {
        return format!("{WHITE_SPACE} alone");
    }
    let (_, spots) = spots(first, other);
    ContentDrift { kinds: kinds(&spots), ..ContentDrift::default() }.said()
}

/// Returns the number of places and all of them. If the contents differ throughout, there is no
/// number, and one place for the first difference.
fn spots(first: &[u8], other: &[u8]) -> (Option<u64>, Vec<DriftSpot>) {
    match compare(first, other) {
        Difference::Equal => (Some(0), Vec::new()),
        Difference::Spots(spots) => {
            let named = spots.iter().map(|spot| {
                let found = snippet(spot, first, other);
                let nature = found.nature;
                let part = |content: &'_ [u8], range: &Range<usize>| -> Vec<u8> {
                    content.get(range.clone()).unwrap_or_default().to_vec()
                };
                let one = part(first, &spot.first);
                let two = part(other, &spot.second);
                DriftSpot::of(found, nature).in_white_space(&one, &two)
            });
            (Some(spots.len() as u64), named.collect())
        }
        Difference::Throughout => {
            let same = first.iter().zip(other).take_while(|(one, two)| one == two).count();
            let rest = Spot { first: same..first.len(), second: same..other.len() };
            (None, vec![DriftSpot::of(snippet(&rest, first, other), Nature::Text)])
        }
    }
}

/// Returns each kind once, the most frequent first.
fn kinds(spots: &[DriftSpot]) -> Vec<String> {
    let mut counts: Vec<(&str, usize)> = Vec::new();
    for spot in spots {
        match counts.iter_mut().find(|(kind, _)| *kind == spot.kind) {
            Some((_, count)) => *count += 1,
            None => counts.push((&spot.kind, 1)),
        }
    }
    counts.sort_by_key(|&(_, count)| std::cmp::Reverse(count));
    counts.into_iter().map(|(kind, _)| kind.to_owned()).collect()
}

/// Word for the nature of a change. A long random run of letters and digits counts as a nonce,
/// whatever its purpose.
const fn kind(nature: Nature) -> &'static str {
    match nature {
        Nature::Token | Nature::Identifier => "nonce",
        Nature::Time => "time",
        Nature::Name => "name",
        Nature::Number => "number",
        Nature::Text => "content",
    }
}

fn with_article(kind: &str) -> String {
    if kind == "content" || kind == WHITE_SPACE { kind.to_owned() } else { format!("a {kind}") }
}

#[cfg(test)]
mod tests {
    use super::{SPOTS_SHOWN_MAX, kinds, spots};

    #[test]
    fn kinds_are_listed_most_frequent_first() {
        let page = |nonce: &str, count: u64, time: &str| {
            format!(
                "<html>\n<input name=\"_wpnonce\" value=\"{nonce}\">\n<p>You are visitor number {count} of them all, dear \
                 guest of ours.</p>\n<p>In the cart lie, as of this very moment: {count} things, and more.</p>\n\
                 <!-- made at {time} by the page cache of this site -->\n"
            )
        };
        let first = page("a1b2c3", 17, "10:15:01");
        let other = page("d4e5f6", 18, "10:15:02");
        let (count, found) = spots(first.as_bytes(), other.as_bytes());
        let places: Vec<_> = found.iter().map(|spot| (spot.line, spot.kind.as_str())).collect();
        assert_eq!(count, Some(4));
        assert_eq!(places, [(2, "nonce"), (3, "number"), (4, "number"), (5, "time")]);
        assert_eq!(kinds(&found), ["number", "nonce", "time"]);
        assert_eq!(found[0].said(), "line 2, a nonce: <input name=\"_wpnonce\" value=\"[a1b2c3 | d4e5f6]");
    }

    #[test]
    fn changed_white_space_is_shown_with_signs() {
        let text =
            |space: &str| format!("<p>A long and quite ordinary beginning</p>{space}<p>and its end</p>");
        let (_, found) = spots(text("\n").as_bytes(), text("\n\t ").as_bytes());
        assert_eq!((found.len(), found[0].kind.as_str()), (1, "white space"));
        assert!(found[0].other.contains("⇥␠") && !found[0].first.contains('⇥'), "{:?}", found[0]);
    }

    #[test]
    fn different_page_is_one_place_of_kind_content() {
        let text = |seed: u64| (0..900).map(|n| format!("w{} ", n * seed)).collect::<String>();
        let (count, found) =
            spots(format!("<p>{}", text(3)).as_bytes(), format!("<p>{}", text(7)).as_bytes());
        assert_eq!((count, found.len(), found[0].kind.as_str()), (None, 1, "content"));
        assert!(found[0].first.chars().count() <= 40 && found[0].first.ends_with("..."), "{:?}", found[0]);
        assert!(SPOTS_SHOWN_MAX >= found.len());
    }
}
