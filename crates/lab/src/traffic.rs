//! Loads beside the anonymous one: who visits, what they write, and how visitors log in; plain data.
//!
//! Invariant: every session that a load names exists, and so does every step; shares and rates are above zero. It is
//! made by `read_traffic` alone. Nothing here asks anybody.

use crate::ladder::{Action, Load, Pattern, Step};
use crate::template::Template;
use load::BodyPattern;
use std::time::Duration;

/// The most visitors of one session: each logs in for itself before anything is measured.
pub(crate) const VISITORS_MAX: u64 = 100;
/// The largest share that a kind of visitors can be given.
pub(crate) const SHARE_MAX: u64 = 1000;
/// The most writes of one kind a second: they are made one after the other.
pub(crate) const WRITES_PER_S_MAX: f64 = 100.0;
/// What the load without any [`Traffic`] is called.
pub const ANONYMOUS: &str = "anonymous";

/// Visitors who log in before they are measured, each with cookies of its own.
#[derive(Clone, Debug)]
pub struct Session {
    /// Its name.
    pub name: String,
    /// How many there are.
    pub visitors: u64,
    /// The requests by which each logs in, in order.
    pub log_in: Vec<Exchange>,
    /// What every page holds that is made for them, and no page that is made for somebody else.
    pub shows: Pattern,
}

/// A request with what is taken from its answer.
#[derive(Clone, Debug)]
pub struct Exchange {
    /// The URL; `{address}` in it is that of the step.
    pub url: Template,
    /// Header fields beside those that every request has.
    pub headers: Vec<(String, Template)>,
    /// What is posted; `None` is a GET.
    pub content: Option<Content>,
    /// Variables for later requests of the same visitor: each is what the first group of its expression matches in the
    /// answer.
    pub keep: Vec<(String, Pattern)>,
}

/// What a request carries.
#[derive(Clone, Debug)]
pub enum Content {
    /// Names and values, as a browser sends a form.
    Form(Vec<(String, Template)>),
    /// A JSON document.
    Json(Template),
}

/// A load beside the anonymous one.
#[derive(Clone, Debug)]
pub struct Traffic {
    /// Its id.
    pub id: String,
    /// Its heading in reports.
    pub title: String,
    /// What it stands for.
    pub about: Option<String>,
    /// The positions of the steps that are measured under it.
    pub steps: Vec<usize>,
    /// What differs from a step's own load.
    pub change: LoadChange,
    /// Who visits; at least one kind.
    pub visitors: Vec<Audience>,
    /// What is written meanwhile.
    pub writes: Vec<Write>,
    /// Takes back what was written, after each load.
    pub undo: Vec<Action>,
}

/// A kind of visitors in a load.
#[derive(Clone, Debug)]
pub struct Audience {
    /// The position of the session; `None` are visitors without any.
    pub session: Option<usize>,
    /// How often one of them asks, against the other kinds.
    pub share: u64,
}

/// Something that visitors write, at a constant rate.
#[derive(Clone, Debug)]
pub struct Write {
    /// Its name.
    pub name: String,
    /// The position of the session whose first visitor writes.
    pub session: usize,
    /// How often a second.
    pub per_s: f64,
    /// The request that writes.
    pub exchange: Exchange,
}

/// What a load changes in the steps' own loads; `None` leaves their value.
#[derive(Clone, Copy, Debug, Default)]
pub struct LoadChange {
    /// Users at once.
    pub concurrency: Option<u64>,
    /// Whether connections are used again.
    pub keepalive: Option<bool>,
    /// Load before the measured one.
    pub warmup: Option<Duration>,
    /// Length of the measured load.
    pub duration: Option<Duration>,
}

impl Session {
    /// What the measured load looks for in pages of these visitors.
    pub(crate) fn shown(&self) -> Result<BodyPattern, String> {
        body_pattern(&format!("(?s:{})", self.shows.0.as_str()))
    }
}

/// What no page holds that is made for visitors without a session; `None` without sessions.
pub(crate) fn shown_to_nobody(sessions: &[Session]) -> Result<Option<BodyPattern>, String> {
    let all: Vec<String> =
        sessions.iter().map(|session| format!("(?s:{})", session.shows.0.as_str())).collect();
    if all.is_empty() { Ok(None) } else { body_pattern(&all.join("|")).map(Some) }
}

fn body_pattern(text: &str) -> Result<BodyPattern, String> {
    text.parse()
}

impl LoadChange {
    /// A step's own load with what is changed.
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
