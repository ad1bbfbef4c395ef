//! Loads other than the anonymous one: their visitors, their writes, and the sessions by which
//! visitors log in. Plain data; nothing here sends a request.
//!
//! Invariant: every session and step that a load names exists, and shares and rates are above zero.
//! Only `read_traffic` makes these values.

use crate::ladder::{Action, Load, Pattern, Step};
use crate::template::Template;
use load::BodyPattern;
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
    pub log_in: Vec<Exchange>,
    /// Pattern that matches every page made for these visitors, and no page made for others.
    pub shows: Pattern,
}

/// A request, and the variables to keep from its response.
#[derive(Clone, Debug)]
pub struct Exchange {
    /// The URL; `{address}` in it is the address of the step.
    pub url: Template,
    /// Header fields in addition to those of every request.
    pub headers: Vec<(String, Template)>,
    /// Content to post; `None` makes the request a GET.
    pub content: Option<Content>,
    /// Variables for later requests of the same visitor. The value is what the first group of the
    /// expression matches in the response.
    pub keep: Vec<(String, Pattern)>,
}

/// Content of a request.
#[derive(Clone, Debug)]
pub enum Content {
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
    pub undo: Vec<Action>,
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
    pub exchange: Exchange,
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

impl LoadChange {
    /// Applies the changes to a step's own load.
    pub(crate) fn of(&self, step: &Step) -> Load {
        Load {
            concurrency: self.concurrency.unwrap_or(step.own.concurrency),
            keepalive: self.keepalive.unwrap_or(step.own.keepalive),
            warmup: self.warmup.unwrap_or(step.own.warmup),
            duration: self.duration.unwrap_or(step.own.duration),
            requests_max: step.own.requests_max,
        }
    }
}
