//! Where two contents differ: nowhere, in small spots such as a date or a nonce, or throughout.
//!
//! Invariant: work is bounded whatever the contents are: each mismatch looks at a window of fixed size, and after
//! [`SPOTS_MAX`] of them the contents count as different throughout. Spots are in the order of the first content, and
//! outside of them both are the same.

use std::ops::Range;

/// Spots that are told apart; with more, a page differs throughout.
pub const SPOTS_MAX: usize = 64;

/// Words that one spot may span on either side.
const WINDOW_WORDS: usize = 96;

/// Words that must agree behind a spot for it to have ended. Fewer would be found anywhere in markup.
const AGREEING_WORDS: usize = 8;

/// How two contents relate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Difference {
    /// Octet by octet the same.
    Equal,
    /// The same but for these spots.
    Spots(Vec<Spot>),
    /// Different throughout.
    Throughout,
}

/// One place where two contents differ, as ranges of octets. One of them may be empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spot {
    /// In the first content.
    pub first: Range<usize>,
    /// In the second.
    pub second: Range<usize>,
}

/// Compares two contents.
pub fn compare(first: &[u8], second: &[u8]) -> Difference {
    if first == second {
        return Difference::Equal;
    }
    let (words, others) = (words(first), words(second));
    let (mut spots, mut at, mut other_at): (Vec<Spot>, _, _) = (Vec::new(), 0, 0);
    loop {
        let agreeing = agreement(first, words.get(at..), second, others.get(other_at..));
        (at, other_at) = (at + agreeing, other_at + agreeing);
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
        (at, other_at) = (at + skip, other_at + other_skip);
    }
}

/// The words of a content: runs of letters and digits, runs of anything else but the octets that structure a text,
/// and those one by one. Together they are the whole content.
fn words(content: &[u8]) -> Vec<Range<usize>> {
    let mut words = Vec::with_capacity(content.len() / 4);
    let mut start = 0;
    while let Some(&octet) = content.get(start) {
        let kind = kind(octet);
        let run = content.get(start..).unwrap_or_default();
        let bytes = match kind {
            Kind::Structure => 1,
            _ => run.iter().position(|&octet| self::kind(octet) != kind).unwrap_or(run.len()),
        };
        words.push(start..start + bytes);
        start += bytes;
    }
    words
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Word,
    Structure,
    Other,
}

fn kind(octet: u8) -> Kind {
    match octet {
        b'<' | b'>' | b'"' | b'\'' | b'=' | b'&' | b';' | b',' | b'\n' | b'{' | b'}' => Kind::Structure,
        _ if octet.is_ascii_alphanumeric() || octet == b'_' || octet == b'-' || octet >= 0x80 => Kind::Word,
        _ => Kind::Other,
    }
}

fn is_same(first: &[u8], word: &Range<usize>, second: &[u8], other: &Range<usize>) -> bool {
    first.get(word.clone()) == second.get(other.clone())
}

/// How many words from the beginning of both are the same.
fn agreement(
    first: &[u8],
    words: Option<&[Range<usize>]>,
    second: &[u8],
    others: Option<&[Range<usize>]>,
) -> usize {
    let pairs = words.unwrap_or_default().iter().zip(others.unwrap_or_default());
    pairs.take_while(|(word, other)| is_same(first, word, second, other)).count()
}

/// The shortest spot at these places: how many words it takes on either side until both agree again. Behind the last
/// word of both, the rest is the spot.
fn resume(
    first: &[u8],
    words: &[Range<usize>],
    at: usize,
    second: &[u8],
    others: &[Range<usize>],
    other_at: usize,
) -> Option<(usize, usize)> {
    let (left, other_left) = (words.len() - at, others.len() - other_at);
    for taken in 1..=2 * WINDOW_WORDS {
        for skip in taken.saturating_sub(WINDOW_WORDS)..=taken.min(WINDOW_WORDS) {
            let other_skip = taken - skip;
            if skip > left || other_skip > other_left {
                continue;
            }
            let (rest, other_rest) = (words.get(at + skip..)?, others.get(other_at + other_skip..)?);
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

/// The octets of `count` words from `at` on.
fn span(words: &[Range<usize>], at: usize, count: usize, bytes: usize) -> Range<usize> {
    let start_of = |index: usize| words.get(index).map_or(bytes, |word| word.start);
    start_of(at)..start_of(at + count)
}

#[cfg(test)]
mod tests {
    use super::{Difference, SPOTS_MAX, compare};
    use proptest::prelude::*;

    /// The differing texts, or `None` if the contents differ throughout.
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
    fn what_was_put_in_or_left_out_is_a_spot_too() {
        let found = spots("<p>one</p><p>two</p><p>three</p>", "<p>one</p><p>three</p>").unwrap();
        assert_eq!(found.len(), 1);
        assert!(found[0].0.contains("two") && found[0].1.is_empty(), "{found:?}");
        assert_eq!(spots("a b c", "a b c d e").unwrap(), [pair("", " d e")]);
        assert_eq!(spots("", "x").unwrap(), [pair("", "x")]);
    }

    #[test]
    fn other_pages_differ_throughout() {
        let text = |seed: usize| (0..500).map(|n| format!("w{} ", n * seed)).collect::<String>();
        assert_eq!(spots(&text(3), &text(7)), None);
        let lines = |mark: &str| {
            (0..=SPOTS_MAX).map(|n| format!("row{n} x{n} y{n} z{n} {mark}\n")).collect::<String>()
        };
        assert_eq!(spots(&lines("a"), &lines("b")), None);
    }

    proptest! {
        #[test]
        fn outside_the_spots_both_are_the_same(
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
            let (first, second) = (letters(&first), letters(&second));
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
