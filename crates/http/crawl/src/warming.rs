//! Fills a cache with the pages of a site: chooses the next request and its time.
//!
//! ```text
//! robots.txt -> sitemaps and feeds -> pages (those that failed once more at the end) -> end
//! ```
//!
//! The caller asks with [`Warming::step`], performs the step, and reports the outcome. It may have
//! several pages in progress, and one document.
//!
//! Invariants: a request starts only when [`Pace`] permits it, and no second one while visitors use
//! the origin. Each page is reported once in [`WarmCounts`]. Every list that a site's documents can
//! lengthen is bounded by [`FrontierLimits::WARM`], [`URLS_BYTES_MAX`] and the limits of
//! `sitemap_plan`.

use crate::frontier::{Frontier, FrontierLimits, FrontierState, PageHints, PageSource, PlannedPage};
use crate::pace::{Pace, PaceDecision, PaceLimits, PacedOutcome, StopCause};
use crate::robots::{PRODUCT_TOKEN, Robots};
use crate::scope::Scope;
use crate::sitemap_plan::{SitemapPlan, USUAL_SITEMAPS};
use crate::skipped::SkipCause;
use clock::Monotonic;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;
use url::Url;

/// Bytes of all URLs that one run takes from sitemaps and lists.
pub const URLS_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Redirects of a document that are followed.
const REDIRECTS_MAX: u32 = 5;

/// Requests for a document whose responses are failures.
const DOCUMENT_TRIES: u32 = 3;

/// Remarks that are kept.
const NOTES_MAX: usize = 20;

/// Different reasons that are counted; pages with further ones count as `other`.
const REASONS_MAX: usize = 64;

/// Time after the last request of a visitor at the origin in which the next one is expected. Until
/// then only one page is requested at a time, so that a visitor finds a free worker.
const VISITORS_LAST: Duration = Duration::from_secs(2);

/// Rest after a page beside visitors, in times of that page. A third of the time of one worker of
/// the origin is then for filling the cache.
const VISITORS_REST: u32 = 2;

/// Longest such rest.
const REST_MAX: Duration = Duration::from_secs(5);

/// The format of [`WarmState`]; another number cannot be resumed.
const STATE_FORMAT: u32 = 1;

/// The site and the pages for filling a cache.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WarmOrder {
    /// The front page of the site as visitors write it. Only its scheme, host and port are visited.
    pub url: String,
    /// URLs of sitemaps and feeds. `None`: none is read. Empty: those that robots.txt names, or
    /// the first one at a usual place.
    pub sitemaps: Option<Vec<String>>,
    /// URLs of pages.
    pub pages: Vec<String>,
    /// Most pages in a second. `None`: as many as the response times permit.
    pub rate: Option<u32>,
}

/// Why an order or a state cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WarmError {
    /// Its URL is none of a site.
    #[error("`{0}` is no URL of a site; write http://HOST/ or https://HOST/")]
    Url(String),
    /// Another version of Petasos wrote it.
    #[error("it has format {0}, and this version reads {STATE_FORMAT}")]
    Format(u32),
    /// Its position belongs to another site than its order.
    #[error("its pages belong to {0}")]
    OtherSite(String),
}

/// The caller's next action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WarmStep {
    /// Request this document and report it with [`Warming::document_ended`].
    Document(Url),
    /// Look at this page, and report it with [`Warming::page_ended`].
    Page(PlannedPage),
    /// Ask again when something in progress ends, or at this moment.
    Wait(Option<Monotonic>),
    /// Nothing is left, and nothing is in progress.
    Done(WarmEnd),
}

/// Why a run is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WarmEnd {
    /// Every page was looked at.
    Complete,
    /// The origin is in trouble.
    Stopped(StopCause),
    /// The rules for robots could not be read, so nothing may be requested.
    NoRules,
}

/// The outcome of a request for a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DocumentOutcome {
    /// A response.
    Response {
        /// Its status.
        status: u16,
        /// The value of `Location`.
        location: Option<String>,
        /// Its content without a content coding.
        content: Vec<u8>,
        /// The value of `Retry-After`.
        retry_after: Option<Duration>,
    },
    /// No response, or an incomplete one, and why.
    Failed(String),
    /// The origin takes no requests now, so this one is to be sent later.
    Postponed,
}

/// The outcome for a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PageOutcome {
    /// It is stored and fresh already, so nothing was requested.
    Fresh,
    /// It is stored now. The time is that of its slowest request.
    Warmed(Duration),
    /// It cannot be stored, for this reason. The time is that of its request, if there was one.
    NotCacheable(String, Option<Duration>),
    /// The origin failed.
    Failed {
        /// The time of the request.
        took: Duration,
        /// The value of `Retry-After`.
        retry_after: Option<Duration>,
    },
    /// The origin had no time for it, so nothing was requested.
    Postponed,
}

/// The results of a run so far.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WarmCounts {
    /// Pages found.
    pub found: u64,
    /// Pages that were stored or confirmed.
    pub warmed: u64,
    /// Pages that were fresh already.
    pub fresh: u64,
    /// Pages whose second request failed too.
    pub failed: u64,
    /// Pages that cannot be stored, by their reasons.
    pub not_cacheable: BTreeMap<String, u64>,
}

impl WarmCounts {
    /// Pages that cannot be stored, and the commonest reason.
    pub fn uncacheable(&self) -> (u64, Option<&str>) {
        let commonest = self.not_cacheable.iter().max_by_key(|(_, count)| **count);
        (self.not_cacheable.values().sum(), commonest.map(|(reason, _)| reason.as_str()))
    }

    /// Pages that were looked at.
    pub fn done(&self) -> u64 {
        self.warmed + self.fresh + self.failed + self.uncacheable().0
    }
}

/// A run that can be resumed, for a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WarmState {
    /// The format, to recognise files of other versions.
    format: u32,
    /// The order.
    pub order: WarmOrder,
    counts: WarmCounts,
    /// The pages that are left; `None` while documents are read, which are then read again.
    frontier: Option<FrontierState>,
}

impl WarmState {
    /// The state without its position: a cache that has lost its pages is filled from the
    /// beginning.
    pub fn rewound(self) -> Self {
        Self { counts: WarmCounts::default(), frontier: None, ..self }
    }
}

/// A document that waits for its request or is in progress.
#[derive(Debug)]
struct PendingDocument {
    url: Url,
    kind: DocumentKind,
    redirects: u32,
    tries: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DocumentKind {
    Robots,
    /// A sitemap or feed on this level below the named ones.
    Sitemap(u32),
    /// A sitemap at a usual place, which may be missing.
    Usual,
}

/// A run that fills a cache.
#[derive(Debug)]
pub struct Warming {
    order: WarmOrder,
    scope: Scope,
    pace: Pace,
    document: Option<PendingDocument>,
    /// Whether the document is in progress.
    is_reading: bool,
    sitemaps: SitemapPlan,
    /// Usual places that were not tried yet.
    usual: VecDeque<&'static str>,
    /// The pages; `None` before robots.txt was read.
    frontier: Option<Frontier>,
    /// The position to resume, until robots.txt was read.
    resumed: Option<FrontierState>,
    /// Pages that were handed out and could not be requested yet.
    postponed: VecDeque<PlannedPage>,
    /// Pages that failed once.
    again: VecDeque<PlannedPage>,
    /// The URLs of the pages that are requested for the second time.
    second: BTreeSet<String>,
    urls_bytes: usize,
    in_progress: u32,
    /// The end of the rest after a page beside visitors.
    rests_until: Option<Monotonic>,
    /// When visitors' requests were last seen at the origin.
    visited: Option<Monotonic>,
    counts: WarmCounts,
    notes: Vec<String>,
    end: Option<WarmEnd>,
}

impl Warming {
    /// A run from the beginning.
    ///
    /// # Errors
    /// [`WarmError::Url`].
    pub fn new(order: WarmOrder) -> Result<Self, WarmError> {
        let wrong = || WarmError::Url(order.url.clone());
        let start = Url::parse(&order.url).map_err(|_| wrong())?;
        let scope = Scope::new(&start, false);
        scope.start().map_err(|_| wrong())?;
        let robots = scope.on_site("/robots.txt").ok_or_else(wrong)?;
        let interval_min = order.rate.map(|rate| Duration::from_secs(1) / rate.max(1)).unwrap_or_default();
        Ok(Self {
            pace: Pace::new(PaceLimits { interval_min, ..PaceLimits::WARM }),
            document: Some(PendingDocument {
                url: robots,
                kind: DocumentKind::Robots,
                redirects: 0,
                tries: 0,
            }),
            is_reading: false,
            sitemaps: SitemapPlan::new(scope.clone()),
            usual: VecDeque::new(),
            frontier: None,
            resumed: None,
            postponed: VecDeque::new(),
            again: VecDeque::new(),
            second: BTreeSet::new(),
            urls_bytes: 0,
            in_progress: 0,
            rests_until: None,
            visited: None,
            counts: WarmCounts::default(),
            notes: Vec::new(),
            end: None,
            order,
            scope,
        })
    }

    /// Continues a run. Its robots.txt is read again.
    ///
    /// # Errors
    /// [`WarmError`].
    pub fn resume(state: WarmState) -> Result<Self, WarmError> {
        let WarmState { format, order, counts, frontier } = state;
        if format != STATE_FORMAT {
            return Err(WarmError::Format(format));
        }
        let run = Self::new(order)?;
        let start = run.scope.start().map(String::from).unwrap_or_default();
        if let Some(other) = frontier.as_ref().filter(|frontier| frontier.start != start) {
            return Err(WarmError::OtherSite(other.start.clone()));
        }
        Ok(Self { resumed: frontier, counts, ..run })
    }

    /// Whether all documents were read, so that [`Warming::state`] has the pages that are left.
    pub fn knows_pages(&self) -> bool {
        self.frontier.is_some() && self.document.is_none() && !self.has_sitemaps()
    }

    /// The state from which [`Warming::resume`] continues.
    pub fn state(&self) -> WarmState {
        let frontier = match &self.frontier {
            Some(frontier) if self.knows_pages() => Some(frontier.state()),
            _ => self.resumed.clone(),
        };
        WarmState { format: STATE_FORMAT, order: self.order.clone(), counts: self.counts(), frontier }
    }

    /// The order.
    pub fn order(&self) -> &WarmOrder {
        &self.order
    }

    /// The counts so far.
    pub fn counts(&self) -> WarmCounts {
        let found = self.frontier.as_ref().map(|frontier| frontier.handed() + frontier.waiting());
        let found = found.map_or(self.counts.found, |found| found as u64);
        WarmCounts { found, ..self.counts.clone() }
    }

    /// URLs that are not visited, by their causes.
    pub fn skipped(&self) -> Vec<(SkipCause, u64)> {
        let skipped = self.frontier.iter().flat_map(|frontier| frontier.skipped().by_count());
        skipped.map(|(cause, count)| (cause, count.links)).collect()
    }

    /// Remarks about documents, such as a sitemap that cannot be read.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// The action at `now`. `visitors`: requests of others that the origin works on.
    pub fn step(&mut self, now: Monotonic, visitors: usize) -> WarmStep {
        if let Some(end) = self.end {
            return if self.in_progress == 0 { WarmStep::Done(end) } else { WarmStep::Wait(None) };
        }
        if visitors > 0 {
            self.visited = Some(now);
        }
        let has_visitors = self.has_visitors(now);
        if self.is_reading || self.in_progress > 0 && has_visitors {
            return WarmStep::Wait(None);
        }
        if let Some(until) = self.rests_until.filter(|until| has_visitors && *until > now) {
            return WarmStep::Wait(Some(until));
        }
        match self.pace.decide(now) {
            PaceDecision::Stop(cause) => self.finish(WarmEnd::Stopped(cause)),
            PaceDecision::Await => WarmStep::Wait(None),
            PaceDecision::At(moment) => WarmStep::Wait(Some(moment)),
            PaceDecision::Start => {
                let Some(step) = self.next_step() else {
                    return if self.in_progress > 0 {
                        WarmStep::Wait(None)
                    } else {
                        self.finish(WarmEnd::Complete)
                    };
                };
                self.pace.started(now);
                self.in_progress += 1;
                step
            }
        }
    }

    fn has_visitors(&self, now: Monotonic) -> bool {
        self.visited.is_some_and(|visited| now.since(visited) < VISITORS_LAST)
    }

    /// Reports the document in progress, which took this long.
    pub fn document_ended(&mut self, now: Monotonic, took: Duration, outcome: DocumentOutcome) {
        let Some(document) = self.document.take().filter(|_| self.is_reading) else { return };
        self.is_reading = false;
        self.in_progress = self.in_progress.saturating_sub(1);
        let (is_failure, retry_after) = match &outcome {
            DocumentOutcome::Response { status, retry_after, .. } => (is_trouble(*status), *retry_after),
            DocumentOutcome::Failed(_) => (true, None),
            DocumentOutcome::Postponed => {
                self.pace.withdrawn();
                self.document = Some(document);
                return;
            }
        };
        self.pace.ended(now, PacedOutcome { took, is_failure, is_hit: false, retry_after });
        if is_failure && document.tries + 1 < DOCUMENT_TRIES {
            self.document = Some(PendingDocument { tries: document.tries + 1, ..document });
            return;
        }
        if let DocumentOutcome::Response { status, location: Some(location), .. } = &outcome
            && matches!(status, 301 | 302 | 303 | 307 | 308)
            && let Some(target) = self.redirected(&document, location)
        {
            let redirects = document.redirects + 1;
            self.document = Some(PendingDocument { url: target, redirects, ..document });
            return;
        }
        match document.kind {
            DocumentKind::Robots => self.read_robots(&document.url, outcome),
            DocumentKind::Sitemap(_) | DocumentKind::Usual => self.read_sitemap(&document, outcome),
        }
    }

    /// Reports a page that a step named.
    pub fn page_ended(&mut self, now: Monotonic, page: PlannedPage, outcome: PageOutcome) {
        self.in_progress = self.in_progress.saturating_sub(1);
        if let PageOutcome::Warmed(took)
        | PageOutcome::NotCacheable(_, Some(took))
        | PageOutcome::Failed { took, .. } = &outcome
        {
            self.rests_until = Some(now.plus((VISITORS_REST * *took).min(REST_MAX)));
        }
        let asked =
            |took, is_failure, retry_after| PacedOutcome { took, is_failure, is_hit: false, retry_after };
        match outcome {
            PageOutcome::Postponed => {
                self.pace.withdrawn();
                return self.postponed.push_back(page);
            }
            PageOutcome::Fresh => {
                self.pace.withdrawn();
                self.counts.fresh += 1;
            }
            PageOutcome::Warmed(took) => {
                self.pace.ended(now, asked(took, false, None));
                self.counts.warmed += 1;
            }
            PageOutcome::NotCacheable(reason, took) => {
                match took {
                    Some(took) => self.pace.ended(now, asked(took, false, None)),
                    None => self.pace.withdrawn(),
                }
                let is_known = self.counts.not_cacheable.contains_key(&reason);
                let has_room = is_known || self.counts.not_cacheable.len() < REASONS_MAX;
                let reason = if has_room { reason } else { "other".to_owned() };
                *self.counts.not_cacheable.entry(reason).or_default() += 1;
            }
            PageOutcome::Failed { took, retry_after } => {
                self.pace.ended(now, asked(took, true, retry_after));
                if !self.second.contains(page.url.as_str()) {
                    return self.again.push_back(page);
                }
                self.counts.failed += 1;
            }
        }
        self.second.remove(page.url.as_str());
        if let Some(frontier) = &mut self.frontier {
            frontier.finished(&page);
        }
    }

    fn finish(&mut self, end: WarmEnd) -> WarmStep {
        let left = self.frontier.as_ref().map_or(0, Frontier::waiting);
        if end == WarmEnd::Complete && left > 0 {
            let most = FrontierLimits::WARM.pages_max;
            self.note(format!("a run visits {most} pages at most; {left} are left out"));
        }
        self.end = Some(end);
        if self.in_progress == 0 { WarmStep::Done(end) } else { WarmStep::Wait(None) }
    }

    fn has_sitemaps(&self) -> bool {
        !self.usual.is_empty() || self.sitemaps.has_waiting()
    }

    /// The next request: documents come before pages, because they say which pages matter most.
    fn next_step(&mut self) -> Option<WarmStep> {
        if self.document.is_none() {
            self.document = self.next_sitemap();
        }
        if let Some(document) = &self.document {
            if self.in_progress > 0 {
                return None;
            }
            self.is_reading = true;
            return Some(WarmStep::Document(document.url.clone()));
        }
        // Pages of one origin that has no time do not hold up the others.
        let next = self.frontier.as_mut().and_then(Frontier::next_page);
        let next = next.or_else(|| self.postponed.pop_front()).or_else(|| {
            let page = self.again.pop_front()?;
            self.second.insert(page.url.as_str().to_owned());
            Some(page)
        });
        next.map(WarmStep::Page)
    }

    fn next_sitemap(&mut self) -> Option<PendingDocument> {
        let pending = |url, kind| PendingDocument { url, kind, redirects: 0, tries: 0 };
        if let Some((url, level)) = self.sitemaps.next_sitemap() {
            return Some(pending(url, DocumentKind::Sitemap(level)));
        }
        while let Some(place) = self.usual.pop_front() {
            if let Some(url) = self.scope.on_site(place) {
                return Some(pending(url, DocumentKind::Usual));
            }
        }
        None
    }

    /// The target of a redirect, if it is followed.
    fn redirected(&mut self, document: &PendingDocument, location: &str) -> Option<Url> {
        let target = document.url.join(location).ok()?;
        match self.scope.normal(&target) {
            Ok(target) if document.redirects < REDIRECTS_MAX => Some(target),
            Ok(_) => {
                self.note(format!("{} redirects too often", document.url));
                None
            }
            Err(_) => {
                self.note(format!("{} redirects to another site, {target}", document.url));
                None
            }
        }
    }

    fn read_robots(&mut self, url: &Url, outcome: DocumentOutcome) {
        let (robots, told) = match outcome {
            DocumentOutcome::Response { status, content, .. } => {
                (Robots::from_response(status, &content, PRODUCT_TOKEN), format!("status {status}"))
            }
            DocumentOutcome::Failed(why) => (Robots::unreachable(), why),
            DocumentOutcome::Postponed => return,
        };
        if robots.forbids_all() {
            self.note(format!("{url} cannot be read ({told}), so nothing may be requested"));
            self.end = Some(WarmEnd::NoRules);
            return;
        }
        let named = robots.sitemaps().to_vec();
        let resumed = self.resumed.take().and_then(|state| {
            Frontier::resume(self.scope.clone(), robots.clone(), FrontierLimits::WARM, state).ok()
        });
        if resumed.is_some() {
            self.frontier = resumed;
            return;
        }
        let mut frontier = Frontier::new(self.scope.clone(), robots, FrontierLimits::WARM);
        if let Some(sitemaps) = &self.order.sitemaps {
            frontier.add_start();
            let sitemaps = if sitemaps.is_empty() { &named } else { sitemaps };
            sitemaps.iter().for_each(|sitemap| self.sitemaps.add(sitemap));
            if sitemaps.is_empty() {
                self.usual = USUAL_SITEMAPS.into();
            }
        }
        self.frontier = Some(frontier);
        let pages = std::mem::take(&mut self.order.pages);
        for page in &pages {
            self.add_page(page.len(), |frontier| {
                frontier.add_text(page, PageSource::Operator, PageHints::default());
            });
        }
        // The order is part of the state.
        self.order.pages = pages;
        self.note_unread();
    }

    /// Notes sitemaps that are not read.
    fn note_unread(&mut self) {
        if self.sitemaps.foreign > 0 {
            self.note("sitemaps on another site are not read".to_owned());
        }
        if self.sitemaps.dropped > 0 {
            self.note("sitemaps that no limit permits, or with a wrong URL, are not read".to_owned());
        }
    }

    fn read_sitemap(&mut self, document: &PendingDocument, outcome: DocumentOutcome) {
        let url = &document.url;
        let (level, is_usual) = match document.kind {
            DocumentKind::Sitemap(level) => (level, false),
            _ => (0, true),
        };
        let problem = match outcome {
            DocumentOutcome::Response { status: 200..=299, content, .. } => {
                match self.sitemaps.read(level, &content) {
                    Ok(sitemap) => {
                        self.usual.clear();
                        self.note_unread();
                        for entry in &sitemap.entries {
                            self.add_page(entry.url.len(), |frontier| {
                                frontier.add_entry(entry, 0);
                            });
                        }
                        if let Some(fault) = sitemap.fault {
                            self.note(format!("{url} is read up to a fault: {fault}"));
                        }
                        return;
                    }
                    Err(error) => error.to_string(),
                }
            }
            DocumentOutcome::Response { status, .. } => format!("status {status}"),
            DocumentOutcome::Failed(why) => why,
            DocumentOutcome::Postponed => return,
        };
        if !is_usual {
            self.note(format!("{url} is left out: {problem}"));
        } else if self.usual.is_empty() {
            let places = USUAL_SITEMAPS.join(", ");
            self.note(format!("robots.txt names no sitemap, and there is none at {places}"));
        }
    }

    /// Offers a page whose URL has this many bytes, if there is room for it.
    fn add_page(&mut self, bytes: usize, add: impl FnOnce(&mut Frontier)) {
        if self.urls_bytes + bytes > URLS_BYTES_MAX {
            return self
                .note(format!("pages are left out, because their URLs exceed {URLS_BYTES_MAX} bytes"));
        }
        self.urls_bytes += bytes;
        if let Some(frontier) = &mut self.frontier {
            add(frontier);
        }
    }

    fn note(&mut self, text: String) {
        if self.notes.len() < NOTES_MAX && !self.notes.contains(&text) {
            self.notes.push(text);
        }
    }
}

/// The pages of a list: one URL or path in a line. Empty lines and those that begin with `#` are
/// left out.
pub fn listed_pages(text: &str) -> Vec<String> {
    let lines = text.trim_start_matches('\u{feff}').lines().map(str::trim);
    lines.filter(|line| !line.is_empty() && !line.starts_with('#')).map(str::to_owned).collect()
}

/// Whether a response with this status means that the site is in trouble.
fn is_trouble(status: u16) -> bool {
    matches!(status, 429 | 500 | 502 | 503 | 504)
}

#[cfg(test)]
mod tests;
