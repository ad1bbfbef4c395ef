//! The model that every response is compared with: the versions of all pages, the purges, and the
//! responses that must survive the edge.
//!
//! Invariant: all events have one total order. A promise of the edge counts from the moment when
//! its response was received. A purge is in force from then on. A stored response must survive from
//! the moment when the edge reported it as durable.

use super::pages::{CrashPage, LANGUAGES, NO_LANGUAGE, PAGES, PageVersion};
use crate::Response;
use std::collections::VecDeque;
use std::fmt::Write;
use std::sync::{Mutex, MutexGuard};

/// Upper bound of a page's events that a problem lists.
const HISTORY_MAX: usize = 40;

/// Largest body in memory; larger ones are written to the disk while they arrive. Equals
/// `object_bytes_max` in the configuration of a life.
const MEMORY_BODY_BYTES_MAX: usize = 64 << 10;

pub(crate) struct CrashModel(Mutex<ModelState>);

struct ModelState {
    now: u64,
    pages: Vec<PageState>,
}

#[derive(Clone, Default)]
struct PageState {
    /// The version that the origin has.
    version: u64,
    /// No response may be older than this version.
    floor: u64,
    /// No response may be older than this version, unless its reason says that it is stale.
    soft_floor: u64,
    /// Number of changes that were sent and are not answered.
    pending: u32,
    /// Moment when the last change was sent or answered.
    changed: u64,
    /// Number of requests to the origin, by language.
    fetches: [u64; LANGUAGES.len()],
    claims: [Option<Claim>; LANGUAGES.len()],
    history: VecDeque<String>,
}

/// A stored response that should survive the edge.
#[derive(Clone, Copy)]
struct Claim {
    begun: u64,
    ended: u64,
    fetches: u64,
}

/// The state of the model when a request was sent.
pub(crate) struct ModelSnapshot {
    at: u64,
    page: CrashPage,
    language: usize,
    floor: u64,
    soft_floor: u64,
    fetches: u64,
}

/// Pages that a change may affect, with their new versions. The version is 0 for pages that the
/// change does not name.
pub(crate) struct PageChange(Vec<(CrashPage, u64)>);

/// The kind of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ResponseKind {
    /// From the store, without a request to the origin.
    Hit,
    Other,
    /// The edge has no response to give: status 500 or more.
    Refused,
    /// The response was truncated.
    Cut,
}

impl CrashModel {
    pub(crate) fn new() -> Self {
        let state =
            ModelState { now: 0, pages: vec![PageState { version: 1, ..PageState::default() }; PAGES] };
        Self(Mutex::new(state))
    }

    fn state(&self) -> MutexGuard<'_, ModelState> {
        self.0.lock().unwrap()
    }

    /// Advances the clock of events, and returns the number of this moment.
    pub(super) fn now(&self) -> u64 {
        self.state().tick()
    }

    /// Records a request to the origin, and returns its content.
    pub(super) fn fetch(&self, page: CrashPage, language: usize) -> PageVersion {
        let mut state = self.state();
        let at = state.tick();
        let known = &mut state.pages[page.0];
        known.fetches[language] += 1;
        if language == NO_LANGUAGE {
            // A response without a language may also be used for requests with one.
            known.fetches[..NO_LANGUAGE].iter_mut().for_each(|fetches| *fetches += 1);
        }
        let version = known.version;
        known.note(at, format_args!("fetched in {}: version {version}", LANGUAGES[language]));
        PageVersion { page, language, version }
    }

    /// Records that a visitor's request is about to be sent.
    pub(crate) fn begin(&self, page: CrashPage, language: usize) -> ModelSnapshot {
        let mut state = self.state();
        let at = state.tick();
        let known = &state.pages[page.0];
        let floor = known.floor;
        let soft_floor = known.soft_floor;
        let fetches = known.fetches[language];
        ModelSnapshot { at, page, language, floor, soft_floor, fetches }
    }

    /// Changes pages, and records that the purge described by `what` is about to be sent. With
    /// `may_mean_all`, no page has to be kept any longer.
    pub(crate) fn change(&self, pages: &[CrashPage], may_mean_all: bool, what: &str) -> PageChange {
        let mut state = self.state();
        let at = state.tick();
        let mut changed = Vec::new();
        for page in CrashPage::all().filter(|page| may_mean_all || pages.contains(page)) {
            let known = &mut state.pages[page.0];
            known.version += u64::from(pages.contains(&page));
            known.pending += 1;
            known.changed = at;
            let version = known.version;
            known.note(at, format_args!("{what} is sent, version {version}"));
            changed.push((page, if pages.contains(&page) { version } else { 0 }));
        }
        PageChange(changed)
    }

    /// Records that a purge was answered, or that it never will be.
    pub(crate) fn changed(&self, change: &PageChange, what: &str, is_answered: bool, is_soft: bool) {
        let mut state = self.state();
        let at = state.tick();
        for (page, version) in &change.0 {
            let known = &mut state.pages[page.0];
            known.pending -= 1;
            known.changed = at;
            let end = if is_answered { "answered" } else { "lost" };
            known.note(at, format_args!("{what} is {end}"));
            let floor = if is_soft { &mut known.soft_floor } else { &mut known.floor };
            if is_answered {
                *floor = (*floor).max(*version);
            }
        }
    }

    /// The entity tag that the origin currently gives a page.
    pub(crate) fn etag(&self, page: CrashPage, language: usize) -> String {
        PageVersion { page, language, version: self.state().pages[page.0].version }.etag()
    }

    /// Judges a response. `is_head`: the request was a HEAD.
    ///
    /// # Errors
    /// The violation, with the history of the page.
    pub(crate) fn judge(
        &self,
        begun: &ModelSnapshot,
        answer: &Response,
        is_head: bool,
    ) -> Result<ResponseKind, String> {
        let judged = begun.judge(answer, is_head);
        let mut state = self.state();
        let at = state.tick();
        let known = &mut state.pages[begun.page.0];
        let status = answer.field("Cache-Status").unwrap_or("without Cache-Status").to_owned();
        let etag = answer.field("ETag").unwrap_or("without ETag").to_owned();
        let language = LANGUAGES[begun.language];
        let asked = begun.at;
        known.note(
            at,
            format_args!("asked at {asked} in {language}: {} {etag}, {judged:?}, {status}", answer.status),
        );
        match judged {
            Ok(verdict) => {
                let fetched = known.fetches[begun.language] - begun.fetches;
                // A body written to the disk while it arrives counts as stored only after a hit.
                let is_stored = match answer.body.len() > MEMORY_BODY_BYTES_MAX {
                    true => verdict == ResponseKind::Hit && fetched == 0,
                    false => verdict == ResponseKind::Other && status.contains("; stored") && fetched < 2,
                };
                if is_stored && answer.status == 200 {
                    let claim = Claim { begun: begun.at, ended: at, fetches: known.fetches[begun.language] };
                    known.claims[begun.language] = Some(claim);
                }
                Ok(verdict)
            }
            Err(problem) => {
                drop(state);
                Err(self.tell(begun, &format!("{problem}\n{}", answer.head)))
            }
        }
    }

    /// Describes a problem, with the history of its page.
    pub(super) fn tell(&self, begun: &ModelSnapshot, problem: &str) -> String {
        let ModelSnapshot { page, language, floor, soft_floor, .. } = *begun;
        let host = page.host();
        let target = page.target();
        let language = LANGUAGES[language];
        let mut told = format!("{host}{target} in {language}, which must be of version {floor} or later ");
        told += &format!("({soft_floor} if it is not stale): {problem}\n");
        self.state().pages[page.0].history.iter().for_each(|event| told += &format!("  {event}\n"));
        told
    }

    /// Whether a page must survive a restart, if the edge reported everything up to the moment
    /// `durable` as durable.
    pub(super) fn is_kept(&self, page: CrashPage, language: usize, durable: u64) -> bool {
        let state = self.state();
        let known = &state.pages[page.0];
        known.claims[language].is_some_and(|claim| {
            let is_last = claim.fetches == known.fetches[language];
            let is_unchanged = known.pending == 0 && known.changed < claim.begun;
            claim.ended <= durable && is_last && is_unchanged
        })
    }

    /// Records that a page survived a restart. It is durable from now on.
    pub(super) fn found(&self, begun: &ModelSnapshot) {
        let mut state = self.state();
        let claim = Claim { begun: begun.at, ended: 0, fetches: begun.fetches };
        state.pages[begun.page.0].claims[begun.language] = Some(claim);
    }

    /// Adds an event to the histories of all pages.
    pub(super) fn note(&self, what: &str) {
        let mut state = self.state();
        let at = state.tick();
        state.pages.iter_mut().for_each(|page| page.note(at, format_args!("{what}")));
    }
}

impl ModelState {
    fn tick(&mut self) -> u64 {
        self.now += 1;
        self.now
    }
}

impl PageState {
    fn note(&mut self, at: u64, event: std::fmt::Arguments<'_>) {
        if self.history.len() == HISTORY_MAX {
            self.history.pop_front();
        }
        let mut line = String::new();
        write!(line, "{at}: {event}").unwrap();
        self.history.push_back(line);
    }
}

impl ModelSnapshot {
    /// The requested page.
    pub(crate) fn page(&self) -> CrashPage {
        self.page
    }

    fn judge(&self, answer: &Response, is_head: bool) -> Result<ResponseKind, String> {
        if answer.status >= 500 {
            return Ok(ResponseKind::Refused);
        }
        if !matches!(answer.status, 200 | 206 | 304) {
            return Err(format!("status {}", answer.status));
        }
        let content =
            answer.field("ETag").and_then(PageVersion::of_etag).ok_or("no entity tag of the application")?;
        if content.page != self.page || content.language != self.language {
            return Err(format!("foreign: {content:?}"));
        }
        let reason = answer.field("Cache-Status").and_then(|status| Some(status.split_once("detail=")?.1));
        let reason = reason.ok_or("no reason")?;
        let is_old = content.version < self.floor;
        if is_old || content.version < self.soft_floor && !reason.starts_with("stale") {
            return Err(format!("purged: {content:?}"));
        }
        if !is_head && answer.status != 304 {
            self.compare(&content, answer)?;
        }
        Ok(match reason {
            _ if !answer.complete => ResponseKind::Cut,
            "hit-fresh" => ResponseKind::Hit,
            _ => ResponseKind::Other,
        })
    }

    /// Compares the body. If it was truncated, compares the part that arrived.
    fn compare(&self, content: &PageVersion, answer: &Response) -> Result<(), String> {
        let whole = content.octets();
        let expected = match answer.field("Content-Range") {
            None => &whole[..],
            Some(range) => {
                let part = range.strip_prefix("bytes ").and_then(|range| {
                    let (extent, bytes) = range.split_once('/')?;
                    let (first, last) = extent.split_once('-')?;
                    let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
                    if bytes == whole.len().to_string() { whole.get(first..=last) } else { None }
                });
                part.ok_or_else(|| format!("range {range} of {}", whole.len()))?
            }
        };
        let is_right =
            if answer.complete { answer.body == expected } else { expected.starts_with(&answer.body) };
        if is_right {
            return Ok(());
        }
        let same = answer.body.iter().zip(expected).take_while(|(one, other)| one == other).count();
        let bytes = answer.body.len();
        let line = &answer.body[..answer.body.len().min(100)];
        let line = line.escape_ascii();
        Err(format!("torn: {bytes} octets of {}, right up to {same}, begins {line}", expected.len()))
    }
}
