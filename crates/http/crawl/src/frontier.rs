//! The pages of a site that are still to be visited.
//!
//! Invariant: a page is handed out at most once, unless a visit ended before it was reported as
//! finished and is resumed. Only pages within the scope, permitted by robots.txt and by the rules
//! for their source are handed out, at most [`FrontierLimits::pages_max`]. The memory is bounded by
//! [`FrontierLimits`] and the named limits of this file.

use crate::link_rules::{RuleClass, link_refusal};
use crate::queue::{PageQueue, QueuedPage};
use crate::robots::Robots;
use crate::scope::{Scope, identity};
use crate::sitemap::SitemapEntry;
use crate::skipped::{SkipCause, SkipCount, Skipped};
use clock::Timestamp;
use page::{DocumentLinks, LinkKind};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use url::Url;

/// Pages of one path that are visited although they differ in order, filters or dates only.
pub const RESTRICTED_PER_PATH_MAX: u32 = 2;

/// Paths of such pages that are remembered; pages of further paths are not visited.
const RESTRICTED_PATHS_MAX: usize = 10_000;

/// Skipped URLs that are remembered, so that each counts once.
const SKIPPED_MAX: usize = 100_000;

/// The format of [`FrontierState`]; another number cannot be resumed.
const STATE_FORMAT: u32 = 1;

/// Parameters that sort or filter the same list. A name with a final `*` covers all names that
/// begin with the rest.
const SORTING: &[&str] = &[
    "attribute_*",
    "color",
    "colour",
    "dir",
    "direction",
    "display",
    "f[*",
    "facet*",
    "field_*",
    "filter*",
    "fq",
    "items_per_page",
    "limit",
    "max_price",
    "min_price",
    "order",
    "orderby",
    "pa_*",
    "per_page",
    "perpage",
    "ppp",
    "price*",
    "product_list_*",
    "query_type_*",
    "rating_filter",
    "refine*",
    "size",
    "sort*",
    "stock*",
];

/// Parameters with a date.
const CALENDAR: &[&str] = &[
    "cal_*",
    "calendar*",
    "date",
    "date_*",
    "datum",
    "day",
    "eventdate",
    "eventdisplay",
    "jahr",
    "monat",
    "month",
    "tag_datum",
    "tribe-bar-*",
    "tribe_event*",
    "tx_cal*",
    "week",
    "year",
];

/// Segments below which a date is a page of a calendar.
const CALENDAR_SEGMENTS: &[&str] = &[
    "agenda",
    "calendar",
    "calendrier",
    "event",
    "events",
    "kalender",
    "schedule",
    "termine",
    "veranstaltungen",
];

/// Bounds of a visit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrontierLimits {
    /// Pages that are handed out.
    pub pages_max: usize,
    /// Pages that wait in memory.
    pub queued_max: usize,
    /// Links between the start and a page.
    pub depth_max: u32,
}

impl FrontierLimits {
    /// For a look at a site: 50 pages, 5,000 waiting, 8 links deep.
    pub const TRY: Self = Self { pages_max: 50, queued_max: 5_000, depth_max: 8 };

    /// For filling a cache: 50,000 pages, 100,000 waiting, 16 links deep.
    pub const WARM: Self = Self { pages_max: 50_000, queued_max: 100_000, depth_max: 16 };
}

/// Where a page comes from. The less a source is under the operator's control, the more rules
/// apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PageSource {
    /// The URL with which the visit begins. Only robots.txt may forbid it.
    Start,
    /// A file of the operator. Links that may change something are not visited.
    Operator,
    /// A sitemap or feed. In addition, only pages are visited.
    Sitemap,
    /// A link of a document. All rules apply.
    Link,
}

/// How important a page is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageHints {
    /// Visits, as far as known to the caller; 0 if unknown.
    pub popularity: u32,
    /// The priority of a sitemap in thousandths.
    pub priority_permille: u16,
    /// When the page was changed last.
    #[serde(with = "micros")]
    pub modified: Option<Timestamp>,
}

impl PageHints {
    /// The priority of a page for which a sitemap states none.
    pub const PRIORITY_DEFAULT_PERMILLE: u16 = 500;
}

impl Default for PageHints {
    fn default() -> Self {
        Self { popularity: 0, priority_permille: Self::PRIORITY_DEFAULT_PERMILLE, modified: None }
    }
}

/// A time as microseconds, for states in files.
mod micros {
    use super::Timestamp;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(time: &Option<Timestamp>, to: S) -> Result<S::Ok, S::Error> {
        time.map(Timestamp::as_micros).serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Timestamp>, D::Error> {
        Ok(Option::<u64>::deserialize(from)?.map(Timestamp::from_micros))
    }
}

/// A page to be visited now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedPage {
    /// Its URL in normal form.
    pub url: Url,
    /// Links from the start.
    pub depth: u32,
    /// Where it comes from.
    pub source: PageSource,
}

/// Why a state cannot be resumed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrontierError {
    /// Another version of Petasos wrote it.
    #[error("the state has format {0}, and this version reads {STATE_FORMAT}; start anew without it")]
    Format(u32),
    /// It belongs to another site.
    #[error("the state belongs to {found}, not to {expected}; name another file")]
    OtherSite {
        /// The start in the state.
        found: String,
        /// The start of this visit.
        expected: String,
    },
}

/// A visit that can be resumed, for a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FrontierState {
    /// The format, to recognise files of other versions.
    pub format: u32,
    /// The URL of the start in normal form.
    pub start: String,
    /// Pages handed out and finished so far.
    pub finished: usize,
    /// Pages that wait or whose visit did not end, in the order of their arrival.
    waiting: Vec<WaitingPage>,
    /// Identities of all pages that need no visit any more.
    done: BTreeSet<u64>,
    /// Turns of the parts of the site.
    turns: BTreeMap<String, u64>,
    /// Pages with other order, filters or dates, by their path.
    restricted: BTreeMap<u64, u32>,
    /// Identities of skipped URLs.
    skipped: BTreeSet<u64>,
    /// Skipped URLs by their causes.
    counts: Vec<(SkipCause, SkipCount)>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct WaitingPage {
    url: String,
    depth: u32,
    source: PageSource,
    hints: PageHints,
    links: u32,
}

/// Pages of a site that are still to be visited, in their order.
#[derive(Debug)]
pub struct Frontier {
    scope: Scope,
    start: String,
    robots: Robots,
    limits: FrontierLimits,
    queue: PageQueue,
    /// Pages that were handed out and are not finished.
    in_flight: BTreeMap<u64, QueuedPage>,
    done: BTreeSet<u64>,
    restricted: BTreeMap<u64, u32>,
    seen_skipped: BTreeSet<u64>,
    skipped: Skipped,
    /// Pages handed out, without those that a resumed visit hands out again.
    handed: usize,
}

impl Frontier {
    /// A visit of the site of `scope`, without any page so far.
    pub fn new(scope: Scope, robots: Robots, limits: FrontierLimits) -> Self {
        let start = scope.start().map(String::from).unwrap_or_default();
        Self {
            scope,
            start,
            robots,
            limits,
            queue: PageQueue::default(),
            in_flight: BTreeMap::new(),
            done: BTreeSet::new(),
            restricted: BTreeMap::new(),
            seen_skipped: BTreeSet::new(),
            skipped: Skipped::default(),
            handed: 0,
        }
    }

    /// Continues a visit. Pages whose visit did not end are visited again.
    ///
    /// # Errors
    /// [`FrontierError`] if the state is of another format or site.
    pub fn resume(
        scope: Scope,
        robots: Robots,
        limits: FrontierLimits,
        state: FrontierState,
    ) -> Result<Self, FrontierError> {
        let mut frontier = Self::new(scope, robots, limits);
        if state.format != STATE_FORMAT {
            return Err(FrontierError::Format(state.format));
        }
        if state.start != frontier.start {
            return Err(FrontierError::OtherSite { found: state.start, expected: frontier.start });
        }
        frontier.queue = PageQueue::with_turns(state.turns);
        (frontier.done, frontier.restricted) = (state.done, state.restricted);
        (frontier.seen_skipped, frontier.handed) = (state.skipped, state.finished);
        frontier.skipped = state.counts.into_iter().collect();
        for waiting in state.waiting {
            // The file may have been changed, so its URLs are judged again.
            let WaitingPage { url, depth, source, hints, links } = waiting;
            let Ok(url) = frontier.scope.parse(&url) else { continue };
            let id = number(&identity(&url));
            if frontier.refusal(&url, source).is_none()
                && !frontier.is_known(id)
                && frontier.queue.len() < limits.queued_max
            {
                let page = QueuedPage { url, depth, source, hints, links };
                frontier.queue.restore(id, page);
            }
        }
        Ok(frontier)
    }

    /// The state from which [`Frontier::resume`] continues.
    pub fn state(&self) -> FrontierState {
        let pages = self.in_flight.values().chain(self.queue.pages());
        let waiting = pages.map(|page| WaitingPage {
            url: page.url.as_str().to_owned(),
            depth: page.depth,
            source: page.source,
            hints: page.hints,
            links: page.links,
        });
        FrontierState {
            format: STATE_FORMAT,
            start: self.start.clone(),
            finished: self.handed - self.in_flight.len(),
            waiting: waiting.collect(),
            done: self.done.iter().filter(|id| !self.in_flight.contains_key(id)).copied().collect(),
            turns: self.queue.turns(),
            restricted: self.restricted.clone(),
            skipped: self.seen_skipped.clone(),
            counts: self
                .skipped
                .by_count()
                .into_iter()
                .map(|(cause, count)| (cause, count.clone()))
                .collect(),
        }
    }

    /// Offers the URL with which the visit begins. Returns why it cannot be visited.
    pub fn add_start(&mut self) -> Option<SkipCause> {
        let start = self.start.clone();
        self.add_text(&start, PageSource::Start, PageHints::default())
    }

    /// Offers a URL of a file, which may be relative to the site's root. Returns why it is not
    /// visited.
    pub fn add_text(&mut self, text: &str, source: PageSource, hints: PageHints) -> Option<SkipCause> {
        match self.scope.parse(text) {
            Ok(url) => self.add_page(url, 0, source, hints),
            Err(reason) => Some(self.skip(reason.into(), text)),
        }
    }

    /// Offers a page of a sitemap or feed.
    pub fn add_entry(&mut self, entry: &SitemapEntry, popularity: u32) -> Option<SkipCause> {
        let priority_permille = entry.priority_permille.unwrap_or(PageHints::PRIORITY_DEFAULT_PERMILLE);
        let hints = PageHints { popularity, priority_permille, modified: entry.modified };
        self.add_text(&entry.url, PageSource::Sitemap, hints)
    }

    /// Offers the links of the document of `from`. `is_nofollow` says that the response has such a
    /// header field (`X-Robots-Tag`).
    pub fn add_document(&mut self, from: &PlannedPage, found: &DocumentLinks, is_nofollow: bool) {
        for link in &found.links {
            let url = match self.scope.normal(&link.url) {
                Ok(url) => url,
                Err(reason) => {
                    self.skip(reason.into(), link.url.as_str());
                    continue;
                }
            };
            // The preferred URL of this document, and its forms, are as near to the start.
            let is_same = matches!(link.kind, LinkKind::Canonical | LinkKind::Alternate);
            let depth = from.depth + u32::from(!is_same);
            let is_own = identity(&url) == identity(&from.url);
            if is_own || link.kind == LinkKind::Feed {
                continue;
            }
            if link.is_scripted {
                self.skip(SkipCause::Scripted, url.as_str());
            } else if let Some(rule) = link_refusal(&url) {
                // The rule says more than `nofollow`, which such links often have, too.
                self.skip(SkipCause::Rule(rule), url.as_str());
            } else if is_nofollow || found.is_nofollow || link.is_nofollow {
                self.skip(SkipCause::Nofollow, url.as_str());
            } else {
                self.add_page(url, depth, PageSource::Link, PageHints::default());
            }
        }
    }

    /// Offers the target of a redirect from `page`.
    pub fn add_redirect(&mut self, page: &PlannedPage, location: &str) -> Option<SkipCause> {
        let Ok(target) = page.url.join(location) else {
            return Some(self.skip(SkipCause::Malformed, location));
        };
        match self.scope.normal(&target) {
            // A redirect may lead a harmless page to a log-out, so all rules of links apply.
            Ok(url) => self.add_page(url, page.depth, PageSource::Link, PageHints::default()),
            Err(reason) => Some(self.skip(reason.into(), target.as_str())),
        }
    }

    /// Takes the next page; `None` if there is none, or if enough were handed out.
    pub fn next_page(&mut self) -> Option<PlannedPage> {
        if self.handed >= self.limits.pages_max {
            return None;
        }
        let (id, page) = self.queue.pop()?;
        let planned = PlannedPage { url: page.url.clone(), depth: page.depth, source: page.source };
        self.handed += 1;
        self.done.insert(id);
        self.in_flight.insert(id, page);
        Some(planned)
    }

    /// Notes that the visit of a page ended, whatever its result.
    pub fn finished(&mut self, page: &PlannedPage) {
        self.in_flight.remove(&number(&identity(&page.url)));
    }

    /// Pages that wait.
    pub fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// Pages that were handed out, in this visit and those that it continues.
    pub fn handed(&self) -> usize {
        self.handed
    }

    /// Links that are not visited.
    pub fn skipped(&self) -> &Skipped {
        &self.skipped
    }

    fn is_known(&self, id: u64) -> bool {
        self.done.contains(&id) || self.queue.contains(id)
    }

    /// Queues a page of the site. Returns why it is not visited.
    fn add_page(&mut self, url: Url, depth: u32, source: PageSource, hints: PageHints) -> Option<SkipCause> {
        let id = number(&identity(&url));
        if self.is_known(id) {
            self.queue.link_again(id);
            return None;
        }
        if let Some(cause) = self.refusal(&url, source) {
            return Some(self.skip(cause, url.as_str()));
        }
        if depth > self.limits.depth_max {
            return Some(self.skip(SkipCause::Depth, url.as_str()));
        }
        if source == PageSource::Link
            && let Some(cause) = self.restriction(&url)
        {
            return Some(self.skip(cause, url.as_str()));
        }
        let page = QueuedPage { url, depth, source, hints, links: 0 };
        let (left, left_url) = self.queue.push(id, page, self.limits.queued_max)?;
        let cause = self.skip(SkipCause::QueueFull, left_url.as_str());
        (left == id).then_some(cause)
    }

    /// Why a page may not be visited, whatever was visited before.
    fn refusal(&self, url: &Url, source: PageSource) -> Option<SkipCause> {
        let applies = |class: RuleClass| match source {
            PageSource::Start => false,
            PageSource::Operator => class == RuleClass::Effect,
            PageSource::Sitemap => class != RuleClass::Trap,
            PageSource::Link => true,
        };
        let rule = link_refusal(url).filter(|rule| applies(rule.row().class));
        if !self.robots.allows(url) { Some(SkipCause::Robots) } else { rule.map(SkipCause::Rule) }
    }

    /// Counts a page that differs from others of its path in order, filters or dates only. Returns
    /// a cause if there were enough.
    fn restriction(&mut self, url: &Url) -> Option<SkipCause> {
        let (cause, path) = restricted_path(url)?;
        let key = number(&format!("{}{path}", cause.name()));
        if !self.restricted.contains_key(&key) && self.restricted.len() >= RESTRICTED_PATHS_MAX {
            return Some(cause);
        }
        let count = self.restricted.entry(key).or_default();
        if *count >= RESTRICTED_PER_PATH_MAX {
            return Some(cause);
        }
        *count += 1;
        None
    }

    fn skip(&mut self, cause: SkipCause, url: &str) -> SkipCause {
        let id = number(url);
        if self.seen_skipped.contains(&id) {
            return cause;
        }
        if self.seen_skipped.len() < SKIPPED_MAX {
            self.seen_skipped.insert(id);
        }
        self.skipped.add(cause, url);
        cause
    }
}

/// The path and the cause if a URL is one of many sorted lists or calendar pages with this path.
fn restricted_path(url: &Url) -> Option<(SkipCause, String)> {
    let has = |known: &[&str]| {
        url.query_pairs().any(|(name, _)| {
            let name = name.to_lowercase();
            known.iter().any(|wanted| match wanted.strip_suffix('*') {
                Some(start) => name.starts_with(start),
                None => name == *wanted,
            })
        })
    };
    let path = url.path().to_lowercase();
    let is_date = |segment: &str| {
        segment.len() >= 4 && segment.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-')
    };
    let mut segments = path.split('/');
    let is_calendar = segments.any(|segment| CALENDAR_SEGMENTS.contains(&segment)) && segments.any(is_date);
    if is_calendar || has(CALENDAR) {
        // Digits are the date, so pages that differ in them share a path.
        return Some((SkipCause::Calendar, path.replace(|letter: char| letter.is_ascii_digit(), "")));
    }
    has(SORTING).then_some((SkipCause::Sorted, path))
}

/// The number of a URL. SHA-256 is the same in all versions, so numbers in files stay valid, and a
/// site cannot choose URLs with equal numbers.
fn number(text: &str) -> u64 {
    let digest = Sha256::digest(text.as_bytes());
    digest.iter().take(8).fold(0_u64, |number, byte| (number << 8) | u64::from(*byte))
}

#[cfg(test)]
mod tests;
