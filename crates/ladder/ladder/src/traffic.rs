//! Loads other than the anonymous one: their visitors, their writes, and the sessions by which
//! visitors log in. Plain data; nothing here sends a request.
//!
//! Invariant: every session and step that a load names exists, and shares and rates are above zero.
//! Only `read_traffic` makes these values.

use crate::ladder::{BytesPattern, LadderStep, Load, StepAction};
use crate::template::Template;
use record::BodyPattern;
use std::time::Duration;

/// Largest number of visitors of a session. The limit exists because each visitor logs in
/// separately before the measurement.
pub(crate) const VISITORS_MAX: u64 = 100;
/// Largest share of a kind of visitors.
pub(crate) const SHARE_MAX: u64 = 1000;
/// Highest rate of one kind of write, per second. The limit exists because its writes are made one
/// after the other.
pub(crate) const WRITES_PER_S_MAX: f64 = 100.0;
/// Id of the load that has no [`Traffic`].
pub const ANONYMOUS: &str = "anonymous";

/// Visitors who log in before the measurement, each with separate cookies.
#[derive(Clone, Debug)]
pub struct Session {
    /// Name of the session.
    pub name: String,
    /// Number of visitors.
    pub visitors: u64,
    /// Requests that log a visitor in, in order.
    pub log_in: Vec<RequestTemplate>,
    /// Pattern that matches every page made for these visitors, and no page made for others.
    pub shows: BytesPattern,
}

/// A request, and the variables to keep from its response.
#[derive(Clone, Debug)]
pub struct RequestTemplate {
    /// The URL; `{address}` in it is the address of the step.
    pub url: Template,
    /// Header fields in addition to those of every request.
    pub headers: Vec<(String, Template)>,
    /// Content to post; `None` makes the request a GET.
    pub content: Option<PostContent>,
    /// Variables for later requests of the same visitor. The value is what the first group of the
    /// expression matches in the response.
    pub keep: Vec<(String, BytesPattern)>,
}

/// Content of a request.
#[derive(Clone, Debug)]
pub enum PostContent {
    /// Names and values, encoded as a browser encodes a form.
    Form(Vec<(String, Template)>),
    /// A JSON document.
    Json(Template),
}

/// A load other than the anonymous one.
#[derive(Clone, Debug)]
pub struct Traffic {
    /// Id of the load.
    pub id: String,
    /// Heading of the load in reports.
    pub title: String,
    /// Description of the traffic that the load imitates.
    pub about: Option<String>,
    /// Positions of the steps that are measured under this load.
    pub steps: Vec<usize>,
    /// Differences from a step's own load.
    pub change: LoadChange,
    /// Kinds of visitors; at least one.
    pub visitors: Vec<Audience>,
    /// Writes that visitors make during the load.
    pub writes: Vec<Write>,
    /// Actions that undo the writes after each load.
    pub undo: Vec<StepAction>,
}

/// One kind of visitors in a load.
#[derive(Clone, Debug)]
pub struct Audience {
    /// Position of the session; `None` means visitors without a session.
    pub session: Option<usize>,
    /// Weight of this kind's requests relative to the other kinds, 1 to 1000.
    pub share: u64,
}

/// A write that a visitor makes at a constant rate.
#[derive(Clone, Debug)]
pub struct Write {
    /// Name of the write.
    pub name: String,
    /// Position of the session whose first visitor writes.
    pub session: usize,
    /// Writes per second.
    pub per_s: f64,
    /// The request that writes.
    pub exchange: RequestTemplate,
}

/// Changes to the steps' own loads; `None` keeps the step's value.
#[derive(Clone, Copy, Debug, Default)]
pub struct LoadChange {
    /// Number of users.
    pub concurrency: Option<u64>,
    /// Whether connections are kept alive between requests.
    pub keepalive: Option<bool>,
    /// Duration of the unmeasured load before the measured one.
    pub warmup: Option<Duration>,
    /// Longest duration of the measured load.
    pub duration: Option<Duration>,
}

impl Session {
    /// Pattern that the measured load requires in pages of these visitors.
    pub(crate) fn shown(&self) -> Result<BodyPattern, String> {
        body_pattern(&format!("(?s:{})", self.shows.0.as_str()))
    }
}

/// Pattern that no page for visitors without a session may match; `None` if there are no sessions.
pub(crate) fn shown_to_nobody(sessions: &[Session]) -> Result<Option<BodyPattern>, String> {
    let all: Vec<String> =
        sessions.iter().map(|session| format!("(?s:{})", session.shows.0.as_str())).collect();
    if all.is_empty() { Ok(None) } else { body_pattern(&all.join("|")).map(Some) }
}

fn body_pattern(text: &str) -> Result<BodyPattern, String> {
    text.parse()
}

/// The weight of one visitor of each kind. A kind is a share and its number of visitors, who have
/// the share together. The weights are the smallest whole numbers in proportion; `None` if one of
/// them exceeds 32 bits.
pub(crate) fn weights(kinds: &[(u64, u64)]) -> Option<Vec<u32>> {
    let kinds = || kinds.iter().map(|&(share, visitors)| (u128::from(share), u128::from(visitors.max(1))));
    let mut common: u128 = 1;
    for (share, visitors) in kinds() {
        let rest = visitors / divisor(share, visitors);
        common = common.checked_mul(rest / divisor(common, rest))?;
    }
    let weight = |(share, visitors): (u128, u128)| Some(share.checked_mul(common)? / visitors);
    let weights: Vec<u128> = kinds().map(weight).collect::<Option<_>>()?;
    let shared = weights.iter().fold(0_u128, |shared, weight| divisor(shared, *weight)).max(1);
    weights.into_iter().map(|weight| u32::try_from(weight / shared).ok()).collect()
}

/// The greatest common divisor.
const fn divisor(mut one: u128, mut other: u128) -> u128 {
    while other > 0 {
        (one, other) = (other, one % other);
    }
    one
}

impl LoadChange {
    /// Applies the changes to a step's own load.
    pub(crate) fn of(&self, step: &LadderStep) -> Load {
        Load {
            concurrency: self.concurrency.unwrap_or(step.own.concurrency),
            keepalive: self.keepalive.unwrap_or(step.own.keepalive),
            warmup: self.warmup.unwrap_or(step.own.warmup),
            duration: self.duration.unwrap_or(step.own.duration),
            requests_max: step.own.requests_max,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::weights;

    #[test]
    fn weights_are_the_smallest_in_proportion() {
        assert_eq!(weights(&[(95, 1), (5, 5)]), Some(vec![95, 1]));
        assert_eq!(weights(&[(50, 100), (50, 100), (50, 100), (50, 100), (1, 1)]), Some(vec![1, 1, 1, 1, 2]));
        assert_eq!(weights(&[(1, 100); 10]), Some(vec![1; 10]));
        assert_eq!(weights(&[]), Some(Vec::new()));
        let primes = [97, 89, 83, 79, 73, 71, 67, 61, 59, 53, 47, 43, 41, 37].map(|visitors| (1, visitors));
        assert_eq!(weights(&primes[..3]), Some(vec![89 * 83, 97 * 83, 97 * 89]));
        assert_eq!(weights(&primes), None);
    }
}
