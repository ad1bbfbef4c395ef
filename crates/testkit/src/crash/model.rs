//! What must hold of every answer: the versions of all pages, what was purged, and what must outlive the edge.
//!
//! Invariant: everything that happens has its place in one order, and a promise of the edge counts from the moment
//! that its answer was received: a purge from then on, what is stored from when the edge said that it is durable.

use super::pages::{Content, LANGUAGES, NO_LANGUAGE, PAGES, Page};
use crate::Response;
use std::collections::VecDeque;
use std::fmt::Write;
use std::sync::{Mutex, MutexGuard};

/// Events of a page that are told when something is wrong.
const HISTORY_MAX: usize = 40;

/// Larger bodies stream to the disk; as the configuration of a life says.
const MEMORY_BODY_BYTES_MAX: usize = 64 << 10;

pub(crate) struct Model(Mutex<State>);

struct State {
    now: u64,
    pages: Vec<PageState>,
}

#[derive(Clone, Default)]
struct PageState {
    /// What the application has.
    version: u64,
    /// No answer may be older.
    floor: u64,
    /// No answer may be older that is not said to be stale.
    soft_floor: u64,
    /// Changes that were sent and not answered.
    pending: u32,
    /// When the last change was sent or answered.
    changed: u64,
    /// Requests to the application, by language.
    fetches: [u64; LANGUAGES.len()],
    claims: [Option<Claim>; LANGUAGES.len()],
    history: VecDeque<String>,
}

/// Something stored that should outlive the edge.
#[derive(Clone, Copy)]
struct Claim {
    begun: u64,
    ended: u64,
    fetches: u64,
}

/// How things stood when a request was sent.
pub(crate) struct Begun {
    at: u64,
    page: Page,
    language: usize,
    floor: u64,
    soft_floor: u64,
    fetches: u64,
}

/// Pages that were changed, with their new versions; 0 for those that were not meant.
pub(crate) struct Change(Vec<(Page, u64)>);

/// What an answer was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// From the store, without a question to the application.
    Hit,
    Other,
    /// The edge has none to give.
    Refused,
    /// It broke off.
    Cut,
}

impl Model {
    pub(crate) fn new() -> Self {
        let state = State { now: 0, pages: vec![PageState { version: 1, ..PageState::default() }; PAGES] };
        Self(Mutex::new(state))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    /// The number of this moment.
    pub(super) fn now(&self) -> u64 {
        self.state().tick()
    }

    /// The application is asked; says what it has.
    pub(super) fn fetch(&self, page: Page, language: usize) -> Content {
        let mut state = self.state();
        let at = state.tick();
        let known = &mut state.pages[page.0];
        known.fetches[language] += 1;
        if language == NO_LANGUAGE {
            // It may become an answer to any.
            known.fetches[..NO_LANGUAGE].iter_mut().for_each(|fetches| *fetches += 1);
        }
        let version = known.version;
        known.note(at, format_args!("fetched in {}: version {version}", LANGUAGES[language]));
        Content { page, language, version }
    }

    /// A visitor's request is about to be sent.
    pub(crate) fn begin(&self, page: Page, language: usize) -> Begun {
        let mut state = self.state();
        let (at, known) = (state.tick(), &state.pages[page.0]);
        let (floor, soft_floor, fetches) = (known.floor, known.soft_floor, known.fetches[language]);
        Begun { at, page, language, floor, soft_floor, fetches }
    }

    /// Pages change, and their purge, as described by `what`, is about to be sent. If it `may_mean_all`, nothing is
    /// promised to be kept any more.
    pub(crate) fn change(&self, pages: &[Page], may_mean_all: bool, what: &str) -> Change {
        let mut state = self.state();
        let at = state.tick();
        let mut changed = Vec::new();
        for page in Page::all().filter(|page| may_mean_all || pages.contains(page)) {
            let known = &mut state.pages[page.0];
            known.version += u64::from(pages.contains(&page));
            known.pending += 1;
            known.changed = at;
            let version = known.version;
            known.note(at, format_args!("{what} is sent, version {version}"));
            changed.push((page, if pages.contains(&page) { version } else { 0 }));
        }
        Change(changed)
    }

    /// A purge was answered, or never will be.
    pub(crate) fn changed(&self, change: &Change, what: &str, is_answered: bool, is_soft: bool) {
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

    /// The entity tag that the application gives a page now.
    pub(crate) fn etag(&self, page: Page, language: usize) -> String {
        Content { page, language, version: self.state().pages[page.0].version }.etag()
    }

    /// Judges an answer, to a HEAD or another request.
    ///
    /// # Errors
    /// What is wrong with it, with what happened to its page.
    pub(crate) fn judge(&self, begun: &Begun, answer: &Response, is_head: bool) -> Result<Verdict, String> {
        let judged = begun.judge(answer, is_head);
        let mut state = self.state();
        let (at, known) = (state.tick(), &mut state.pages[begun.page.0]);
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
                // A body that streams to the disk is there when it was found there.
                let is_stored = match answer.body.len() > MEMORY_BODY_BYTES_MAX {
                    true => verdict == Verdict::Hit && fetched == 0,
                    false => verdict == Verdict::Other && status.contains("; stored") && fetched < 2,
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

    /// A problem, with what happened to its page.
    pub(super) fn tell(&self, begun: &Begun, problem: &str) -> String {
        let Begun { page, language, floor, soft_floor, .. } = *begun;
        let (host, target, language) = (page.host(), page.target(), LANGUAGES[language]);
        let mut told = format!("{host}{target} in {language}, which must be of version {floor} or later ");
        told += &format!("({soft_floor} if it is not stale): {problem}\n");
        self.state().pages[page.0].history.iter().for_each(|event| told += &format!("  {event}\n"));
        told
    }

    /// Whether a page must be found after a restart, when the edge said that all up to `durable` is.
    pub(super) fn is_kept(&self, page: Page, language: usize, durable: u64) -> bool {
        let state = self.state();
        let known = &state.pages[page.0];
        known.claims[language].is_some_and(|claim| {
            let is_last = claim.fetches == known.fetches[language];
            let is_unchanged = known.pending == 0 && known.changed < claim.begun;
            claim.ended <= durable && is_last && is_unchanged
        })
    }

    /// A page was found after a restart; it is durable from now on.
    pub(super) fn found(&self, begun: &Begun) {
        let mut state = self.state();
        let claim = Claim { begun: begun.at, ended: 0, fetches: begun.fetches };
        state.pages[begun.page.0].claims[begun.language] = Some(claim);
    }

    /// Notes that a life ended, for the histories.
    pub(super) fn note(&self, what: &str) {
        let mut state = self.state();
        let at = state.tick();
        state.pages.iter_mut().for_each(|page| page.note(at, format_args!("{what}")));
    }
}

impl State {
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

impl Begun {
    /// The page that was asked for.
    pub(crate) fn page(&self) -> Page {
        self.page
    }

    fn judge(&self, answer: &Response, is_head: bool) -> Result<Verdict, String> {
        if answer.status >= 500 {
            return Ok(Verdict::Refused);
        }
        if !matches!(answer.status, 200 | 206 | 304) {
            return Err(format!("status {}", answer.status));
        }
        let content =
            answer.field("ETag").and_then(Content::of_etag).ok_or("no entity tag of the application")?;
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
            _ if !answer.complete => Verdict::Cut,
            "hit-fresh" => Verdict::Hit,
            _ => Verdict::Other,
        })
    }

    /// Compares the body; of one that broke off what came.
    fn compare(&self, content: &Content, answer: &Response) -> Result<(), String> {
        let whole = content.octets();
        let expected = match answer.field("Content-Range") {
            None => &whole[..],
            Some(range) => {
                let part = range.strip_prefix("bytes ").and_then(|range| {
                    let (extent, bytes) = range.split_once('/')?;
                    let (first, last) = extent.split_once('-')?;
                    let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
                    whole.get(first..=last).filter(|_| bytes == whole.len().to_string())
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
        let (bytes, line) = (answer.body.len(), &answer.body[..answer.body.len().min(100)]);
        let line = line.escape_ascii();
        Err(format!("torn: {bytes} octets of {}, right up to {same}, begins {line}", expected.len()))
    }
}
