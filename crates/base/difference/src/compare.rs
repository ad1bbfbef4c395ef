//! Finds where two contents differ: nowhere, in small spots such as a date or a nonce, or
//! throughout.
//!
//! Invariants:
//!
//! - Work is bounded for all contents. The search after a mismatch covers a window of fixed size,
//!   and more than [`SPOTS_MAX`] spots count as a difference throughout.
//! - Spots are in the order of the first content. Outside the spots, both contents are equal.

use std::ops::Range;

/// Upper bound of the spots that are listed. Pages with more count as different throughout.
pub const SPOTS_MAX: usize = 64;

/// Longest spot, in words on either side.
const WINDOW_WORDS: usize = 96;

/// Number of words that must agree after a spot before the spot ends. A shorter run occurs by
/// chance anywhere in markup.
const AGREEING_WORDS: usize = 8;

/// The result of a comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Difference {
    /// Every byte is equal.
    Equal,
    /// Equal except in these spots.
    Spots(Vec<Spot>),
    /// Different throughout.
    Throughout,
}

/// One place where two contents differ, as byte ranges. One of the ranges may be empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spot {
    /// The range in the first content.
    pub first: Range<usize>,
    /// The range in the second content.
    pub second: Range<usize>,
}

/// Compares two contents, word by word from the start.
pub fn compare(first: &[u8], second: &[u8]) -> Difference {
    if first == second {
        return Difference::Equal;
    }
    let others = words(second);
    let words = words(first);
    let mut spots: Vec<Spot> = Vec::new();
    let mut at = 0;
    let mut other_at = 0;
    loop {
        let agreeing = agreement(first, words.get(at..), second, others.get(other_at..));
        at += agreeing;
        other_at += agreeing;
        if at == words.len() && other_at == others.len() {
            return Difference::Spots(spots);
        }
        let Some((skip, other_skip)) = resume(first, &words, at, second, &others, other_at) else {
            return Difference::Throughout;
        };
        if spots.len() == SPOTS_MAX {
            return Difference::Throughout;
        }
        spots.push(Spot {
            first: span(&words, at, skip, first.len()),
            second: span(&others, other_at, other_skip, second.len()),
        });
        at += skip;
        other_at += other_skip;
    }
}

/// Splits a content into words: runs of letters and digits, single bytes of markup structure, and
/// runs of all other bytes. The words cover the whole content.
fn words(content: &[u8]) -> Vec<Range<usize>> {
    let mut words = Vec::with_capacity(content.len() / 4);
    let mut start = 0;
    while let Some(&octet) = content.get(start) {
        let kind = kind(octet);
        let run = content.get(start..).unwrap_or_default();
        let bytes = match kind {
            DifferenceKind::Structure => 1,
            _ => run.iter().position(|&octet| self::kind(octet) != kind).unwrap_or(run.len()),
        };
        words.push(start..start + bytes);
        start += bytes;
    }
    words
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum DifferenceKind {
    Word,
    Structure,
    Other,
}

fn kind(octet: u8) -> DifferenceKind {
    match octet {
        b'<' | b'>' | b'"' | b'\'' | b'=' | b'&' | b';' | b',' | b'\n' | b'{' | b'}' => {
            DifferenceKind::Structure
        }
        _ if octet.is_ascii_alphanumeric() || octet == b'_' || octet == b'-' || octet >= 0x80 => {
            DifferenceKind::Word
        }
        _ => DifferenceKind::Other,
    }
}

fn is_same(first: &[u8], word: &Range<usize>, second: &[u8], other: &Range<usize>) -> bool {
    first.get(word.clone()) == second.get(other.clone())
}

/// Number of equal words at the start of both lists.
fn agreement(
    first: &[u8],
    words: Option<&[Range<usize>]>,
    second: &[u8],
    others: Option<&[Range<usize>]>,
) -> usize {
    let pairs = words.unwrap_or_default().iter().zip(others.unwrap_or_default());
    pairs.take_while(|(word, other)| is_same(first, word, second, other)).count()
}

/// The shortest spot that starts at `at` and `other_at`. Returns the number of words to skip in the
/// first and in the second content.
///
/// The spot ends where [`AGREEING_WORDS`] words agree, or where the whole rest of both contents
/// agrees. `None` if no such place is within the window.
fn resume(
    first: &[u8],
    words: &[Range<usize>],
    at: usize,
    second: &[u8],
    others: &[Range<usize>],
    other_at: usize,
) -> Option<(usize, usize)> {
    let left = words.len() - at;
    let other_left = others.len() - other_at;
    for taken in 1..=2 * WINDOW_WORDS {
        for skip in taken.saturating_sub(WINDOW_WORDS)..=taken.min(WINDOW_WORDS) {
            let other_skip = taken - skip;
            if skip > left || other_skip > other_left {
                continue;
            }
            let rest = words.get(at + skip..)?;
            let other_rest = others.get(other_at + other_skip..)?;
            let wanted = AGREEING_WORDS.min(rest.len()).min(other_rest.len());
            let both_end = rest.len() == other_rest.len();
            if (wanted == AGREEING_WORDS || both_end)
                && agreement(first, rest.get(..wanted), second, other_rest.get(..wanted)) == wanted
            {
                return Some((skip, other_skip));
            }
        }
    }
    None
}

/// The byte range of `count` words starting at index `at`. `bytes` is the length of the content.
fn span(words: &[Range<usize>], at: usize, count: usize, bytes: usize) -> Range<usize> {
    let start_of = |index: usize| words.get(index).map_or(bytes, |word| word.start);
    start_of(at)..start_of(at + count)
}

#[cfg(test)]
mod tests {
    use super::{Difference, SPOTS_MAX, compare};
    use proptest::prelude::*;

    /// The text of each spot in both contents. `None` if the contents differ throughout.
    fn spots(first: &str, second: &str) -> Option<Vec<(String, String)>> {
        match compare(first.as_bytes(), second.as_bytes()) {
            Difference::Equal => Some(Vec::new()),
            Difference::Spots(spots) => Some(
                spots
                    .into_iter()
                    .map(|spot| (first[spot.first].to_owned(), second[spot.second].to_owned()))
                    .collect(),
            ),
            Difference::Throughout => None,
        }
    }

    fn pair(first: &str, second: &str) -> (String, String) {
        (first.to_owned(), second.to_owned())
    }

    #[test]
    fn a_nonce_and_a_date_are_two_spots() {
        let page = |nonce: &str, time: &str| {
            format!("<form><input name=\"_wpnonce\" value=\"{nonce}\"></form><p>It is {time} now.</p>")
        };
        assert_eq!(
            spots(&page("a1b2", "10:15"), &page("c3d4", "10:16")).unwrap(),
            [pair("a1b2", "c3d4"), pair("15", "16")]
        );
        assert_eq!(spots(&page("a", "b"), &page("a", "b")).unwrap(), []);
    }

    #[test]
    fn insertions_and_deletions_are_spots() {
        let found = spots("<p>one</p><p>two</p><p>three</p>", "<p>one</p><p>three</p>").unwrap();
        assert_eq!(found.len(), 1);
        assert!(found[0].0.contains("two") && found[0].1.is_empty(), "{found:?}");
        assert_eq!(spots("a b c", "a b c d e").unwrap(), [pair("", " d e")]);
        assert_eq!(spots("", "x").unwrap(), [pair("", "x")]);
    }

    #[test]
    fn unrelated_pages_differ_throughout() {
        let text = |seed: usize| (0..500).map(|n| format!("w{} ", n * seed)).collect::<String>();
        assert_eq!(spots(&text(3), &text(7)), None);
        let lines = |mark: &str| {
            (0..=SPOTS_MAX).map(|n| format!("row{n} x{n} y{n} z{n} {mark}\n")).collect::<String>()
        };
        assert_eq!(spots(&lines("a"), &lines("b")), None);
    }

    proptest! {
        #[test]
        fn contents_are_equal_outside_the_spots(
            first in proptest::collection::vec(0_u8..5, 0..400),
            edits in proptest::collection::vec((0_usize..400, 0_u8..5, 0_u8..3), 0..12),
        ) {
            let letters = |octets: &[u8]| -> Vec<u8> {
                octets.iter().map(|&octet| b"ab <\n"[usize::from(octet)]).collect()
            };
            let mut second = first.clone();
            for (place, octet, what) in edits {
                let place = place.min(second.len());
                match what {
                    0 => second.insert(place, octet),
                    1 if place < second.len() => { second.remove(place); }
                    _ if place < second.len() => second[place] = octet,
                    _ => {}
                }
            }
            let first = letters(&first);
            let second = letters(&second);
            match compare(&first, &second) {
                Difference::Equal => prop_assert_eq!(first, second),
                Difference::Spots(spots) => {
                    let mut rebuilt = Vec::new();
                    let mut at = 0;
                    for spot in &spots {
                        prop_assert!(spot.first.start >= at && spot.first != spot.second || !spot.second.is_empty());
                        rebuilt.extend_from_slice(&first[at..spot.first.start]);
                        rebuilt.extend_from_slice(&second[spot.second.clone()]);
                        at = spot.first.end;
                    }
                    rebuilt.extend_from_slice(&first[at..]);
                    prop_assert_eq!(rebuilt, second);
                }
                Difference::Throughout => {}
            }
        }
    }
}
