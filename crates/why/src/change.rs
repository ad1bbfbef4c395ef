//! Compares the responses to the probes with the response to the plain probe.
//!
//! Invariant: a difference that also occurs between two plain responses is not attributed to
//! another probe.

use crate::Probe;
use crate::fetch::FetchedResponse;
use crate::findings::{ProbeDifference, ResponseSameness, SpotNature, SpotText};
use crate::visit::ProbeResponses;
use address::HttpUrl;
use difference::{Difference, Nature, Spot, compare, snippet, text_of};
use message::{Fields, names};
use profiles::cookies_set;
use std::ops::Range;

/// Upper bound of the spots per probe that are shown as text.
const SPOTS_SHOWN_MAX: usize = 5;

/// Distance in bytes within which two spots count as the same one. A time may differ in its minutes
/// in one comparison and in its seconds in the next.
const SPOT_MARGIN_BYTES: usize = 24;

/// Fields whose differences matter to caches.
const COMPARED_FIELDS: [&str; 5] =
    [names::CACHE_CONTROL, names::CONTENT_TYPE, names::EXPIRES, names::LOCATION, names::VARY];

/// Compares the responses to those probes that a cache would treat like the plain one. The repeated
/// plain probe comes first.
pub(crate) fn changes(visit: &ProbeResponses) -> Vec<ProbeDifference> {
    let spontaneous = visit
        .answer(Probe::PlainAgain)
        .filter(|again| again.head.status == visit.plain.head.status)
        .map_or(Difference::Equal, |again| difference(&visit.plain, again));
    let asked = [Probe::PlainAgain, Probe::NoiseCookies, Probe::NoiseParameters, Probe::UnknownCookie];
    asked
        .into_iter()
        .filter(|probe| visit.others.iter().any(|(asked, _)| asked == probe))
        .map(|probe| match visit.answer(probe) {
            None => unchanged(probe, ResponseSameness::Unanswered),
            Some(answer) if probe == Probe::PlainAgain => change(visit, probe, answer, &spontaneous, &[]),
            Some(answer) => beside_spontaneous(visit, probe, answer, &spontaneous),
        })
        .collect()
}

/// Compares the contents. Compressed contents that differ at all count as different throughout.
fn difference(plain: &FetchedResponse, other: &FetchedResponse) -> Difference {
    let is_coded = [plain, other].iter().any(|answer| answer.content_coding().is_some());
    match compare(&plain.content, &other.content) {
        Difference::Spots(_) if is_coded => Difference::Throughout,
        found => found,
    }
}

fn beside_spontaneous(
    visit: &ProbeResponses,
    probe: Probe,
    answer: &FetchedResponse,
    spontaneous: &Difference,
) -> ProbeDifference {
    let known: &[Spot] = match spontaneous {
        Difference::Equal => &[],
        Difference::Spots(spots) => spots,
        Difference::Throughout => return change(visit, probe, answer, &Difference::Equal, &[]).or_unknown(),
    };
    let difference = difference(&visit.plain, answer);
    change(visit, probe, answer, &difference, known)
}

impl ProbeDifference {
    /// Marks the content as not comparable, because it differs each time.
    fn or_unknown(self) -> Self {
        let result = if self.result == ResponseSameness::OtherAnswer {
            self.result
        } else {
            ResponseSameness::Unknown
        };
        Self { result, ..self }
    }
}

fn unchanged(probe: Probe, result: ResponseSameness) -> ProbeDifference {
    ProbeDifference { request: probe.name(), result, fields: Vec::new(), spots_count: 0, spots: Vec::new() }
}

/// Describes how `answer` differs from the plain response. `difference` compares the contents;
/// spots near `known` ones are ignored.
fn change(
    visit: &ProbeResponses,
    probe: Probe,
    answer: &FetchedResponse,
    difference: &Difference,
    known: &[Spot],
) -> ProbeDifference {
    let plain = &visit.plain;
    let fields = changed_fields(&visit.url, plain, answer);
    if !fields.is_empty() {
        return ProbeDifference { fields, ..unchanged(probe, ResponseSameness::OtherAnswer) };
    }
    let spots: Vec<&Spot> = match difference {
        Difference::Equal => return unchanged(probe, ResponseSameness::Same),
        Difference::Throughout => return unchanged(probe, ResponseSameness::Different),
        Difference::Spots(spots) => spots.iter().filter(|spot| !is_among(&spot.first, known)).collect(),
    };
    let result = if spots.is_empty() { ResponseSameness::Same } else { ResponseSameness::Spots };
    let shown = spots.iter().take(SPOTS_SHOWN_MAX);
    let shown = shown.map(|spot| spot_text(spot, &plain.content, &answer.content)).collect();
    ProbeDifference { spots_count: spots.len(), spots: shown, ..unchanged(probe, result) }
}

fn is_among(range: &Range<usize>, known: &[Spot]) -> bool {
    known.iter().any(|spot| {
        range.start <= spot.first.end + SPOT_MARGIN_BYTES && spot.first.start <= range.end + SPOT_MARGIN_BYTES
    })
}

/// Lists the status and the fields for caches that differ, with the values of `other`.
fn changed_fields(url: &HttpUrl, plain: &FetchedResponse, other: &FetchedResponse) -> Vec<String> {
    let mut changed = Vec::new();
    if plain.head.status != other.head.status {
        changed.push(format!("status: {}", other.head.status));
    }
    let value = |fields: &Fields, name: &str| {
        let values: Vec<_> = fields.all(name).map(|value| text_of(value)).collect();
        (!values.is_empty()).then(|| values.join(", "))
    };
    for name in COMPARED_FIELDS {
        let before = value(&plain.head.fields, name);
        let after = value(&other.head.fields, name);
        // Dates advance by themselves. A redirect repeats the query of its request, so the query is
        // ignored.
        let moves = name == names::EXPIRES && before.is_some() && after.is_some();
        let is_same = |before: &Option<String>, after: &Option<String>| match (before, after) {
            (Some(before), Some(after)) if name == names::LOCATION => {
                url.join(before).map(without_query) == url.join(after).map(without_query)
            }
            _ => before == after,
        };
        if !moves && !is_same(&before, &after) {
            changed.push(format!("{name}: {}", after.as_deref().unwrap_or("(none)")));
        }
    }
    let before = cookies_set(&plain.head.fields);
    let after = cookies_set(&other.head.fields);
    if before != after {
        let named = if after.is_empty() { "(none)".to_owned() } else { after.join(", ") };
        changed.push(format!("{}: {named}", names::SET_COOKIE));
    }
    changed
}

fn without_query(url: String) -> String {
    url.split('?').next().unwrap_or_default().to_owned()
}

/// Describes a spot as text.
fn spot_text(spot: &Spot, plain: &[u8], other: &[u8]) -> SpotText {
    let found = snippet(spot, plain, other);
    SpotText {
        line: found.line,
        looks_like: looks_like(&found.second, found.nature),
        before: found.before,
        plain: found.first,
        other: found.second,
    }
}

fn looks_like(other: &str, nature: Nature) -> SpotNature {
    if ["utm_", "fbclid", "petasos"].iter().any(|part| other.contains(part)) {
        return SpotNature::Parameter;
    }
    match nature {
        Nature::Token => SpotNature::FormToken,
        Nature::Time => SpotNature::Time,
        Nature::Name => SpotNature::Name,
        Nature::Number => SpotNature::Number,
        Nature::Identifier => SpotNature::Identifier,
        Nature::Text => SpotNature::Text,
    }
}

#[cfg(test)]
mod tests {
    use super::looks_like;
    use crate::findings::SpotNature;
    use difference::Nature;

    #[test]
    fn parameters_of_the_probe_precede_the_guess() {
        assert_eq!(looks_like("?utm_source=petasos", Nature::Token), SpotNature::Parameter);
        assert_eq!(looks_like("me", Nature::Name), SpotNature::Name);
    }
}
