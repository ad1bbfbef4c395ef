//! Whether a page is the same with and without Petasos.
//!
//! Invariant: a difference that also occurs between two direct responses does not count. If direct
//! responses differ throughout, the contents are not compared, and the result says so.

use difference::{Difference, Spot, compare, snippet, text_of};
use message::names;
use serde::Serialize;
use std::ops::Range;
use why::{FetchedResponse, ProbeError};

/// Distance in bytes within which two spots count as the same one: a time may differ in its minutes
/// once, and in its seconds the next time.
const SPOT_MARGIN_BYTES: usize = 24;

/// Places of a page that are named.
const PLACES_MAX: usize = 3;

/// Header fields that change the meaning of a response for a visitor.
const COMPARED_FIELDS: [&str; 6] = [
    names::CONTENT_TYPE,
    "Content-Language",
    "Content-Disposition",
    names::LOCATION,
    "WWW-Authenticate",
    "X-Robots-Tag",
];

/// The result of a comparison.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "result", content = "places")]
pub enum Sameness {
    /// Every byte is the same.
    Same,
    /// The same, except in places where direct responses differ from each other, too.
    SameButMoving,
    /// The contents cannot be compared: direct responses differ throughout, a response is longer
    /// than the limit for reading, or there is no direct response.
    Unknown,
    /// The first places that differ, as `direct | through Petasos`.
    Differs(Vec<String>),
}

impl Sameness {
    /// Whether a real difference was found.
    pub fn is_difference(&self) -> bool {
        matches!(self, Self::Differs(_))
    }
}

/// Compares the responses through Petasos with the direct ones for the same request. The order of
/// the direct ones does not matter; there should be one before and one after the others, so that a
/// clock in the page moves between them.
pub(crate) fn sameness(
    direct: &[FetchedResponse],
    through: &[Result<FetchedResponse, ProbeError>],
) -> Sameness {
    let mut all = Sameness::Same;
    for response in through {
        let found = match response {
            Ok(response) => against(direct, response),
            Err(error) => Sameness::Differs(vec![format!("no response through Petasos: {error}")]),
        };
        match found {
            Sameness::Same => {}
            Sameness::Differs(_) => return found,
            Sameness::Unknown => all = found,
            Sameness::SameButMoving => {
                if all == Sameness::Same {
                    all = found;
                }
            }
        }
    }
    all
}

/// A response that fits to one of the direct ones is the same. The best fit counts.
fn against(direct: &[FetchedResponse], response: &FetchedResponse) -> Sameness {
    let fits = direct.iter().enumerate().map(|(place, one)| {
        let others = direct.iter().enumerate().filter(|(other, _)| *other != place);
        let others: Vec<&FetchedResponse> = others.map(|(_, other)| other).collect();
        beside(one, &others, response)
    });
    let rank = |found: &Sameness| match found {
        Sameness::Same => 0,
        Sameness::SameButMoving => 1,
        Sameness::Unknown => 2,
        Sameness::Differs(_) => 3,
    };
    fits.min_by_key(rank).unwrap_or(Sameness::Unknown)
}

/// Compares `response` with `direct`. Parts that differ between `direct` and one of `others` change
/// without Petasos, too.
fn beside(direct: &FetchedResponse, others: &[&FetchedResponse], response: &FetchedResponse) -> Sameness {
    let status = |of: &FetchedResponse| of.head.status;
    if status(direct) != status(response) {
        return if others.iter().any(|other| status(other) != status(direct)) {
            Sameness::Unknown
        } else {
            Sameness::Differs(vec![format!("status: {} | {}", status(direct), status(response))])
        };
    }
    let mut places = Vec::new();
    for name in COMPARED_FIELDS {
        let (before, after) = (values(direct, name), values(response, name));
        if before != after && others.iter().all(|other| values(other, name) == before) {
            places.push(format!("{name}: {} | {}", or_none(&before), or_none(&after)));
        }
    }
    if !places.is_empty() {
        return Sameness::Differs(places);
    }
    if direct.is_cut || response.is_cut {
        // Their ends are not known.
        return Sameness::Unknown;
    }
    contents(direct, others, response)
}

fn contents(direct: &FetchedResponse, others: &[&FetchedResponse], response: &FetchedResponse) -> Sameness {
    let mut known: Vec<Range<usize>> = Vec::new();
    for other in others {
        match compare(&direct.content, &other.content) {
            Difference::Equal => {}
            Difference::Spots(spots) => known.extend(spots.into_iter().map(|spot| spot.first)),
            Difference::Throughout => return Sameness::Unknown,
        }
    }
    match compare(&direct.content, &response.content) {
        Difference::Equal => Sameness::Same,
        Difference::Throughout => Sameness::Differs(vec!["the contents differ throughout".to_owned()]),
        Difference::Spots(spots) => {
            let new: Vec<&Spot> = spots.iter().filter(|spot| !is_among(&spot.first, &known)).collect();
            if new.is_empty() {
                return Sameness::SameButMoving;
            }
            let place = |spot: &&Spot| {
                let found = snippet(spot, &direct.content, &response.content);
                format!("line {}: {}[{} | {}]", found.line, found.before, found.first, found.second)
            };
            Sameness::Differs(new.iter().take(PLACES_MAX).map(place).collect())
        }
    }
}

fn is_among(range: &Range<usize>, known: &[Range<usize>]) -> bool {
    known.iter().any(|known| {
        range.start <= known.end + SPOT_MARGIN_BYTES && known.start <= range.end + SPOT_MARGIN_BYTES
    })
}

fn values(response: &FetchedResponse, name: &str) -> String {
    response.head.fields.all(name).map(|value| text_of(value)).collect::<Vec<_>>().join(", ")
}

fn or_none(value: &str) -> &str {
    if value.is_empty() { "(none)" } else { value }
}

#[cfg(test)]
mod tests {
    use super::{Sameness, sameness};
    use crate::testing::answer;
    use why::{FetchedResponse, ProbeError};

    fn page(content: &str) -> FetchedResponse {
        answer(200, &[], content)
    }

    fn with_nonce(nonce: &str, name: &str) -> FetchedResponse {
        page(&format!(
            "<html><body>\n<p>Hello {name}, this is a page with a text that is long enough.</p>\n\
             <form><input name=\"nonce\" value=\"{nonce}\"><input type=\"submit\"></form></body></html>"
        ))
    }

    #[test]
    fn equal_pages_are_the_same() {
        let direct = [page("a"), page("a")];
        assert_eq!(sameness(&direct, &[Ok(page("a")), Ok(page("a"))]), Sameness::Same);
    }

    #[test]
    fn nonce_that_changes_by_itself_is_no_difference() {
        let direct = [with_nonce("a1", "you"), with_nonce("b2", "you")];
        assert_eq!(sameness(&direct, &[Ok(with_nonce("c3", "you"))]), Sameness::SameButMoving);
    }

    #[test]
    fn real_difference_beside_a_nonce_is_named_with_its_place() {
        let direct = [with_nonce("a1", "you"), with_nonce("b2", "you")];
        let Sameness::Differs(places) = sameness(&direct, &[Ok(with_nonce("c3", "Anna"))]) else {
            panic!("not noticed");
        };
        assert_eq!(places, ["line 2: <p>Hello [you | Anna]"]);
    }

    #[test]
    fn clock_that_moves_between_direct_responses_is_no_difference() {
        let direct = [page("It is ten o'clock"), page("It is eleven o'clock")];
        let through = [Ok(page("It is ten o'clock")), Ok(page("It is eleven o'clock"))];
        assert_eq!(sameness(&direct, &through), Sameness::Same);
    }

    #[test]
    fn other_status_or_no_response_is_a_difference() {
        let direct = [page("a"), page("a")];
        let found = sameness(&direct, &[Ok(page("a")), Ok(answer(404, &[], "a"))]);
        assert!(
            matches!(&found, Sameness::Differs(places) if places[0].starts_with("status: 200")),
            "{found:?}"
        );
        assert!(sameness(&direct, &[Err(ProbeError::Closed)]).is_difference());
    }

    #[test]
    fn page_that_differs_each_time_is_not_judged() {
        let text = |seed: usize| (0..500).map(|n| format!("w{} ", n * seed)).collect::<String>();
        let direct = [page(&text(3)), page(&text(7))];
        assert_eq!(sameness(&direct, &[Ok(page(&text(11)))]), Sameness::Unknown);
    }

    #[test]
    fn cut_or_missing_responses_are_not_judged() {
        let cut = FetchedResponse { is_cut: true, ..page("a") };
        assert_eq!(sameness(&[cut.clone(), cut.clone()], &[Ok(cut)]), Sameness::Unknown);
        assert_eq!(sameness(&[], &[Ok(page("a"))]), Sameness::Unknown);
    }

    #[test]
    fn field_that_only_petasos_changes_is_named() {
        let typed = answer(200, &["Content-Type: text/html"], "a");
        let found = sameness(&[typed.clone(), typed], &[Ok(page("a"))]);
        assert_eq!(found, Sameness::Differs(vec!["Content-Type: text/html | (none)".to_owned()]));
    }
}
