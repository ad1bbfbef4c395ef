//! Visits the pages of a site, each directly and through the temporary edge.
//!
//! Invariant: one request at a time, at the pace of [`crawl::pace`]. The direct requests for a page
//! enclose those through the edge, so that a clock in the page moves between them. Contents are
//! compared at once and not kept.

use crate::report::SkippedLinks;
use crate::sameness::{Sameness, sameness};
use address::HttpUrl;
use clock::Monotonic;
use crawl::pace::{Pace, PaceDecision, PaceLimits, PacedOutcome, StopCause, TARGET_MIN};
use crawl::{Frontier, FrontierLimits, PRODUCT_TOKEN, PlannedPage, Robots, Scope, SkipCause};
use message::{RequestHead, names};
use page::{document_links, forbids_following};
use record::CacheVerdict;
use resource::PageLimits;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use why::findings::Findings;
use why::{FetchedResponse, Fetcher, HeaderLine, Probe, ProbeError, ProbeResponses, inspect, plain_request};

/// Pages that are visited unless the user says otherwise.
pub const PAGES_MAX: usize = FrontierLimits::TRY.pages_max;

/// Redirects of robots.txt that are followed (RFC 9309 section 2.3.1.2).
const ROBOTS_REDIRECTS_MAX: usize = 5;

/// How often a wait looks whether the user has interrupted the command.
const TICK: Duration = Duration::from_millis(50);

/// Longest visit at the pace of `Crawl-delay`.
pub const DELAYED_TIME_MAX: Duration = Duration::from_secs(5 * 60);

/// A visit that may take longer because of `Crawl-delay` is announced.
const ANNOUNCED_TIME_MIN: Duration = Duration::from_secs(2 * 60);

/// Requests for a page, and further ones with a cookie.
const PAGE_REQUESTS: u32 = 4;
const COOKIE_REQUESTS: u32 = 5;

/// Direct requests that a difference must survive, beyond the usual two.
const CONFIRMATIONS: usize = 2;

/// Bounds of a visit.
#[derive(Clone, Copy, Debug)]
pub struct VisitTerms {
    /// Most pages.
    pub pages_max: usize,
    /// Shortest time between the starts of two requests. A longer `Crawl-delay` of the site takes
    /// precedence.
    pub interval_min: Duration,
    /// Whether a `Crawl-delay` counts. Only the owner of the site may say that it does not.
    pub obeys_delay: bool,
}

/// The end of a request that says nothing about the site's speed.
const NO_NEWS: PacedOutcome =
    PacedOutcome { took: Duration::ZERO, is_failure: false, is_hit: true, retry_after: None };

/// The progress of a visit.
#[derive(Clone, Copy, Debug)]
pub enum VisitNews<'a> {
    /// The site asks for this time between two requests, so the visit takes long.
    Delayed(Duration),
    /// A page is visited.
    Page {
        /// Pages that have been visited.
        visited: usize,
        /// The URL of the next.
        next: &'a str,
    },
}

/// Why a site could not be tried.
#[derive(Debug, thiserror::Error)]
pub enum TrialError {
    /// The first request had no response.
    #[error("{url} cannot be visited: {error}")]
    Unreachable {
        /// The URL.
        url: String,
        /// The reason.
        error: ProbeError,
    },
    /// robots.txt answered with an error, which means that nothing may be requested.
    #[error(
        "{0} answered {1}, so nothing may be visited (RFC 9309); repair it, or let it answer 404 if the site has no rules"
    )]
    RobotsUnknown(String, u16),
    /// robots.txt is that of another site, so the rules of this one are not known.
    #[error(
        "{robots} redirects to another site, so the rules of this one are not known; to try that one: petasos try {to}"
    )]
    RobotsElsewhere {
        /// The URL of robots.txt.
        robots: String,
        /// The other site, as a word for a shell.
        to: String,
    },
    /// The start may not be visited.
    #[error(
        "robots.txt forbids `{PRODUCT_TOKEN}` to visit {0}; to permit it, add the lines `User-agent: {PRODUCT_TOKEN}` and `Allow: /`"
    )]
    Forbidden(String),
    /// The start leads to another site.
    #[error("{from} redirects to another site; to try that one: petasos try {to}")]
    Elsewhere {
        /// The start.
        from: String,
        /// Where it leads, as a word for a shell.
        to: String,
    },
    /// No page had a good response.
    #[error("no page of {url} could be visited: {reason}")]
    NoPage {
        /// The start.
        url: String,
        /// The problem.
        reason: String,
    },
    /// The user interrupted the command.
    #[error("the command was interrupted; nothing is left behind")]
    Interrupted,
}

/// Facts about a page.
#[derive(Clone, Debug)]
pub struct PageFacts {
    /// Its URL.
    pub url: HttpUrl,
    /// The findings of `petasos why --direct`.
    pub findings: Findings,
    /// The verdict of the temporary edge about the second request.
    pub verdict: Option<CacheVerdict>,
    /// The reason of that verdict, as in docs/reasons.md.
    pub reason: Option<String>,
    /// Whether the page asks for a password.
    pub asks_for_password: bool,
    /// The faster of the server's times from the request to the whole response.
    pub server_time: Duration,
    /// The faster of the server's times from the request to the head of the response.
    pub first_byte: Duration,
    /// Whether an anonymous visitor gets the same page through Petasos.
    pub anonymous: Sameness,
    /// Whether the visitor with the given cookie does. `None` without a cookie.
    pub logged_in: Option<Sameness>,
    /// Whether direct responses differ by the given cookie.
    pub is_changed_by_cookie: bool,
}

/// All facts about a site.
#[derive(Clone, Debug, Default)]
pub struct SiteVisit {
    /// The pages with a good response, in the order of the visit.
    pub pages: Vec<PageFacts>,
    /// Pages without a good response, with the reasons.
    pub failed: Vec<(String, String)>,
    /// Links that were not followed.
    pub skipped: Vec<SkippedLinks>,
    /// Why the visit ended before all pages were visited.
    pub stopped: Option<String>,
    /// Whether it ended because the site failed, became slower or asked for a pause.
    pub is_in_trouble: bool,
}

/// Why the visit ends early.
enum Halt {
    Interrupted,
    Stopped(StopCause),
    /// A visit at the pace of `Crawl-delay` has taken [`DELAYED_TIME_MAX`].
    TimeUp,
}

impl Halt {
    /// The cause as the rest of a sentence. `None` if it is the user's wish.
    fn text(&self) -> Option<String> {
        match self {
            Self::Interrupted => None,
            Self::Stopped(cause) => Some(stop_text(*cause)),
            Self::TimeUp => Some(format!(
                "robots.txt asks for pauses, and {} minutes are over",
                DELAYED_TIME_MAX.as_secs() / 60
            )),
        }
    }
}

/// The outcome of one planned page.
enum PageOutcome {
    Visited(Box<PageFacts>, Box<FetchedResponse>),
    Redirected(String),
    Failed(String, Option<ProbeError>),
}

/// Visits one site.
pub struct Visitor<'a> {
    fetcher: &'a Fetcher,
    start: HttpUrl,
    edge: &'a HttpUrl,
    /// The cookie of the logged-in visitor: no line or one.
    cookie: Option<HeaderLine>,
    terms: VisitTerms,
    limits: PaceLimits,
    pace: Pace,
    /// The first page, and its time to the first byte.
    reference: Option<(HttpUrl, Duration)>,
    interrupt: &'a AtomicBool,
    robots: Robots,
    /// When a visit at the pace of `Crawl-delay` ends.
    until: Option<Monotonic>,
}

impl<'a> Visitor<'a> {
    /// A visitor of the site of `start`. `edge` is the URL of the temporary edge. The visit ends
    /// when `interrupt` is set.
    pub fn new(
        fetcher: &'a Fetcher,
        start: HttpUrl,
        edge: &'a HttpUrl,
        cookie: Option<HeaderLine>,
        terms: VisitTerms,
        interrupt: &'a AtomicBool,
    ) -> Self {
        let limits = PaceLimits { interval_min: terms.interval_min, ..PaceLimits::TRY };
        Self {
            fetcher,
            start,
            edge,
            cookie,
            terms,
            limits,
            pace: Pace::new(limits),
            reference: None,
            interrupt,
            robots: Robots::unreachable(),
            until: None,
        }
    }

    /// Visits the pages. `told` gets the progress.
    ///
    /// # Errors
    /// [`TrialError`] if there is nothing to report.
    pub async fn visit(mut self, mut told: impl FnMut(VisitNews<'_>)) -> Result<SiteVisit, TrialError> {
        let start = self.start.clone().into_url();
        let scope = Scope::new(&start, false);
        let robots = self.robots(&scope).await?;
        if let Some(delay) = robots.crawl_delay().filter(|_| self.terms.obeys_delay) {
            self.limits.interval_min = self.terms.interval_min.max(delay);
            self.pace = Pace::new(self.limits);
            // The request for robots.txt counts, too.
            let now = self.fetcher.clock.monotonic();
            self.pace.started(now);
            self.pace.ended(now, NO_NEWS);
            self.until = Some(now.plus(DELAYED_TIME_MAX));
            if self.longest(delay) > ANNOUNCED_TIME_MIN {
                told(VisitNews::Delayed(delay));
            }
        }
        self.robots = robots.clone();
        let limits = FrontierLimits { pages_max: self.terms.pages_max, ..FrontierLimits::TRY };
        let mut frontier = Frontier::new(scope.clone(), robots, limits);
        match frontier.add_start() {
            None => {}
            Some(SkipCause::Robots) => return Err(TrialError::Forbidden(start.to_string())),
            Some(cause) => return Err(self.no_page(cause.reason())),
        }
        let mut visit = SiteVisit::default();
        let mut redirected = None;
        while let Some(planned) = frontier.next_page() {
            told(VisitNews::Page { visited: visit.pages.len(), next: planned.url.as_str() });
            let is_first = visit.pages.is_empty() && visit.failed.is_empty();
            match self.planned(&planned, visit.pages.is_empty()).await {
                Ok(PageOutcome::Visited(facts, response)) => {
                    add_links(&mut frontier, &planned, &response);
                    self.reference.get_or_insert_with(|| (facts.url.clone(), facts.first_byte));
                    visit.pages.push(*facts);
                }
                Ok(PageOutcome::Redirected(location)) => {
                    if let Some(cause) = frontier.add_redirect(&planned, &location).filter(|_| is_first) {
                        return Err(self.astray(&planned, &location, cause));
                    }
                    redirected = planned.url.join(&location).ok();
                }
                Ok(PageOutcome::Failed(_, Some(error))) if is_first => {
                    return Err(TrialError::Unreachable { url: start.to_string(), error });
                }
                Ok(PageOutcome::Failed(what, _)) => visit.failed.push((planned.url.to_string(), what)),
                Err(Halt::Interrupted) => return Err(TrialError::Interrupted),
                Err(halt) => {
                    visit.stopped = halt.text();
                    visit.is_in_trouble = matches!(halt, Halt::Stopped(_));
                    break;
                }
            }
            frontier.finished(&planned);
        }
        if visit.pages.is_empty() {
            let failed = visit.failed.first().map(|(_, what)| what.clone());
            let endless = || redirected.map(|to| format!("its redirects end nowhere, the last one at {to}"));
            let reason = failed.or(visit.stopped).or_else(endless);
            return Err(self.no_page(&reason.unwrap_or_else(|| "no page answered".to_owned())));
        }
        visit.skipped = skipped_links(&frontier);
        Ok(visit)
    }

    /// The longest time that the visit may take with this pause between two requests.
    fn longest(&self, delay: Duration) -> Duration {
        let each = PAGE_REQUESTS + if self.cookie.is_some() { COOKIE_REQUESTS } else { 0 };
        delay * each * self.terms.pages_max as u32
    }

    fn no_page(&self, reason: &str) -> TrialError {
        TrialError::NoPage { url: self.start.to_string(), reason: reason.to_owned() }
    }

    /// The error for a start page that redirects to a URL outside the visit, with no other page
    /// known.
    fn astray(&self, planned: &PlannedPage, location: &str, cause: SkipCause) -> TrialError {
        let to = planned.url.join(location).map(String::from).unwrap_or_default();
        if cause == SkipCause::Foreign {
            return TrialError::Elsewhere { from: self.start.to_string(), to: shell_word(&to) };
        }
        let what = cause.name();
        self.no_page(&format!("it redirects to {to}, which is not visited ({what}); name another page"))
    }

    /// Reads robots.txt. It is also the first contact with the site.
    async fn robots(&mut self, scope: &Scope) -> Result<Robots, TrialError> {
        let mut url = scope.on_site("/robots.txt").and_then(|url| HttpUrl::parse(url.as_str()).ok());
        for _ in 0..=ROBOTS_REDIRECTS_MAX {
            let Some(asked) = url else { return Ok(Robots::allow_all()) };
            let response = match self.send(&asked, false, None).await {
                Ok(Ok(response)) => response,
                Ok(Err(error)) => {
                    return Err(TrialError::Unreachable { url: self.start.to_string(), error });
                }
                Err(Halt::Interrupted) => return Err(TrialError::Interrupted),
                Err(halt) => return Err(self.no_page(&halt.text().unwrap_or_default())),
            };
            if let Some(location) = location(&response) {
                let target = asked.join(&location).unwrap_or(location);
                let own = scope.parse(&target).ok().and_then(|own| HttpUrl::parse(own.as_str()).ok());
                if own.is_none() {
                    // The rules of another site are not those of this one.
                    let to = HttpUrl::parse(&target).ok().and_then(|target| target.join("/"));
                    let to = shell_word(&to.unwrap_or(target));
                    return Err(TrialError::RobotsElsewhere { robots: asked.to_string(), to });
                }
                url = own;
                continue;
            }
            let status = response.head.status.code();
            let robots = Robots::from_response(status, &response.content, PRODUCT_TOKEN);
            if robots.forbids_all() {
                return Err(TrialError::RobotsUnknown(asked.to_string(), status));
            }
            return Ok(robots);
        }
        Ok(Robots::allow_all())
    }

    async fn planned(&mut self, planned: &PlannedPage, is_first: bool) -> Result<PageOutcome, Halt> {
        let Ok(url) = HttpUrl::parse(planned.url.as_str()) else {
            return Ok(PageOutcome::Failed("its URL cannot be requested".to_owned(), None));
        };
        let first = match self.send(&url, false, None).await? {
            Ok(first) => first,
            Err(error) => return Ok(PageOutcome::Failed(error.to_string(), Some(error))),
        };
        if let Some(location) = location(&first) {
            return Ok(PageOutcome::Redirected(location));
        }
        if !first.head.status.is_success() {
            return Ok(PageOutcome::Failed(format!("it answered {}", first.head.status), None));
        }
        let facts = self.page(url, first.clone(), is_first).await?;
        Ok(PageOutcome::Visited(Box::new(facts), Box::new(first)))
    }

    /// Examines a page whose first response is good.
    async fn page(
        &mut self,
        url: HttpUrl,
        first: FetchedResponse,
        is_first: bool,
    ) -> Result<PageFacts, Halt> {
        if is_first {
            // By this response the edge detects the site's system. Its rules apply from then on.
            let _ = self.send(&url, true, None).await?;
        }
        let mut through = vec![self.send(&url, true, None).await?, self.send(&url, true, None).await?];
        let (verdict, reason) = verdict_of(through.last());
        let (logged_in, with_cookie) = match self.cookie.clone() {
            None => (None, Vec::new()),
            Some(line) => {
                let (found, direct) = self.logged_in(&url, &line).await?;
                // The logged-in visitor's page must not have become the one of everybody.
                through.push(self.send(&url, true, None).await?);
                (Some(found), direct)
            }
        };
        let mut direct = vec![first.clone()];
        let last = self.send(&url, false, None).await?;
        direct.extend(last.as_ref().ok().cloned());
        let is_changed_by_cookie = is_changed(&direct, with_cookie);
        let anonymous = self.confirmed(&url, None, direct.clone(), &through).await?;
        let server_time = shortest(&direct, |of| of.ended.since(of.sent));
        let first_byte = shortest(&direct, |of| of.arrived.since(of.sent));
        let asks_for_password = why::has_password_field(&first.content);
        let findings = self.findings(&url, first, last, is_first).await?;
        Ok(PageFacts {
            url,
            findings,
            verdict,
            reason,
            asks_for_password,
            server_time,
            first_byte,
            anonymous,
            logged_in,
            is_changed_by_cookie,
        })
    }

    /// Compares the page of the visitor with the cookie. Also returns the direct responses.
    async fn logged_in(
        &mut self,
        url: &HttpUrl,
        cookie: &HeaderLine,
    ) -> Result<(Sameness, Vec<FetchedResponse>), Halt> {
        let mut direct = Vec::new();
        direct.extend(self.send(url, false, Some(cookie)).await?.ok());
        let through = [self.send(url, true, Some(cookie)).await?, self.send(url, true, Some(cookie)).await?];
        direct.extend(self.send(url, false, Some(cookie)).await?.ok());
        let found = self.confirmed(url, Some(cookie), direct.clone(), &through).await?;
        Ok((found, direct))
    }

    /// The comparison; a difference is confirmed by further direct responses.
    async fn confirmed(
        &mut self,
        url: &HttpUrl,
        cookie: Option<&HeaderLine>,
        mut direct: Vec<FetchedResponse>,
        through: &[Result<FetchedResponse, ProbeError>],
    ) -> Result<Sameness, Halt> {
        let mut found = sameness(&direct, through);
        for _ in 0..CONFIRMATIONS {
            if !found.is_difference() {
                break;
            }
            direct.extend(self.send(url, false, cookie).await?.ok());
            found = sameness(&direct, through);
        }
        Ok(found)
    }

    /// The findings of `why`. The first page gets all of its probes, the others only a repetition.
    async fn findings(
        &mut self,
        url: &HttpUrl,
        plain: FetchedResponse,
        again: Result<FetchedResponse, ProbeError>,
        is_first: bool,
    ) -> Result<Findings, Halt> {
        let verified = self.fetcher.tls.as_ref().is_none_or(net::TlsClient::verifies);
        let mut others = if is_first { self.probes(url, &plain).await? } else { Vec::new() };
        others.push((Probe::PlainAgain, again));
        Ok(inspect(&ProbeResponses { url: url.clone(), verified, plain, others }))
    }

    /// Sends the further probes, except those whose URL robots.txt forbids. A site that asks for
    /// fewer requests, or is in trouble, gets no more of them.
    async fn probes(
        &mut self,
        url: &HttpUrl,
        plain: &FetchedResponse,
    ) -> Result<Vec<(Probe, Result<FetchedResponse, ProbeError>)>, Halt> {
        let mut results = Vec::new();
        for probe in Probe::ALL {
            if matches!(probe, Probe::Plain | Probe::PlainAgain) {
                continue;
            }
            let Some(request) = probe.request(url, &[], &plain.head) else { continue };
            if !self.permits(url, &request) {
                continue;
            }
            let result = match self.exchange(url, url, request).await {
                Ok(result) => result,
                Err(Halt::Interrupted) => return Err(Halt::Interrupted),
                // The page itself is known; the next request of the visit meets the same cause.
                Err(Halt::Stopped(_) | Halt::TimeUp) => break,
            };
            let is_busy = result.as_ref().is_ok_and(|found| matches!(found.head.status.code(), 429 | 503));
            results.push((probe, result));
            if is_busy {
                break;
            }
        }
        Ok(results)
    }

    /// Whether robots.txt permits the target of a request to the site.
    fn permits(&self, url: &HttpUrl, request: &RequestHead) -> bool {
        let target = str::from_utf8(&request.target).ok().and_then(|target| url.join(target));
        let target = target.and_then(|target| HttpUrl::parse(&target).ok());
        target.is_some_and(|target| self.robots.allows(&target.into_url()))
    }

    /// Sends a request when it is its turn, directly or through the edge.
    async fn send(
        &mut self,
        url: &HttpUrl,
        is_through: bool,
        cookie: Option<&HeaderLine>,
    ) -> Result<Result<FetchedResponse, ProbeError>, Halt> {
        let request = plain_request(url, cookie.map_or(&[], std::slice::from_ref));
        self.exchange(url, if is_through { self.edge } else { url }, request).await
    }

    /// Sends a request for `url` to the host of `to` when it is its turn.
    async fn exchange(
        &mut self,
        url: &HttpUrl,
        to: &HttpUrl,
        request: RequestHead,
    ) -> Result<Result<FetchedResponse, ProbeError>, Halt> {
        self.turn().await?;
        let fetched = self.unless_interrupted(self.fetcher.fetch(to, request, &[])).await?;
        let now = self.fetcher.clock.monotonic();
        self.pace.ended(now, outcome(fetched.as_ref(), to != url));
        Ok(fetched)
    }

    /// Waits until the pace permits a request.
    async fn turn(&mut self) -> Result<(), Halt> {
        loop {
            if self.interrupt.load(Ordering::Relaxed) {
                return Err(Halt::Interrupted);
            }
            let now = self.fetcher.clock.monotonic();
            if self.until.is_some_and(|until| now >= until) {
                return Err(Halt::TimeUp);
            }
            match self.pace.decide(now) {
                PaceDecision::Start => {
                    self.pace.started(now);
                    return Ok(());
                }
                PaceDecision::At(moment) => tokio::time::sleep(moment.since(now).min(TICK)).await,
                PaceDecision::Await => tokio::time::sleep(TICK).await,
                PaceDecision::Stop(cause) if self.is_refuted(cause).await? => {}
                PaceDecision::Stop(cause) => return Err(Halt::Stopped(cause)),
            }
        }
    }

    /// Whether the site only seems to be slower: several pages in a row may need more time than
    /// those before them. The first page is requested again, and its time decides. Then the pace is
    /// measured anew.
    async fn is_refuted(&mut self, cause: StopCause) -> Result<bool, Halt> {
        let (StopCause::Slower { .. }, Some((url, before))) = (cause, self.reference.clone()) else {
            return Ok(false);
        };
        let request = plain_request(&url, &[]);
        let started = self.fetcher.clock.monotonic();
        let fetched = self.unless_interrupted(self.fetcher.fetch(&url, request, &[])).await?;
        let ended = outcome(fetched.as_ref(), false);
        if ended.is_failure || is_slower(before, ended.took) {
            return Ok(false);
        }
        self.pace = Pace::new(self.limits);
        self.pace.started(started);
        self.pace.ended(self.fetcher.clock.monotonic(), ended);
        Ok(true)
    }

    async fn unless_interrupted<T>(&self, work: impl Future<Output = T>) -> Result<T, Halt> {
        let interrupted = async {
            while !self.interrupt.load(Ordering::Relaxed) {
                tokio::time::sleep(TICK).await;
            }
        };
        tokio::select! {
            done = Box::pin(work) => Ok(done),
            () = interrupted => Err(Halt::Interrupted),
        }
    }
}

/// Offers the links of a page to the frontier.
fn add_links(frontier: &mut Frontier, planned: &PlannedPage, response: &FetchedResponse) {
    let fields = &response.head.fields;
    let is_html = |value: &[u8]| {
        let value = value.to_ascii_lowercase();
        value.starts_with(b"text/html") || value.starts_with(b"application/xhtml")
    };
    if !fields.first(names::CONTENT_TYPE).is_some_and(|value| is_html(value)) {
        return;
    }
    let found = document_links(&response.content, &planned.url, PRODUCT_TOKEN, &PageLimits::DEFAULT);
    let is_nofollow =
        fields.all("X-Robots-Tag").any(|value| forbids_following(&String::from_utf8_lossy(value)));
    frontier.add_document(planned, &found, is_nofollow);
}

/// The links that were not followed, by their causes.
fn skipped_links(frontier: &Frontier) -> Vec<SkippedLinks> {
    let counts = frontier.skipped().by_count().into_iter();
    let links = |(cause, count): (SkipCause, &crawl::SkipCount)| SkippedLinks {
        links: count.links,
        what: cause.name(),
        reason: cause.reason(),
    };
    counts.map(links).collect()
}

/// Where a redirect leads.
fn location(response: &FetchedResponse) -> Option<String> {
    let is_redirect = matches!(response.head.status.code(), 301 | 302 | 303 | 307 | 308);
    let location = response.head.fields.first(names::LOCATION).filter(|_| is_redirect)?;
    Some(String::from_utf8_lossy(location).into_owned())
}

/// A URL as one word of a shell. The site chooses the URL, and a user may paste the command.
fn shell_word(url: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/:._-%=".contains(&byte);
    if url.bytes().all(is_plain) { url.to_owned() } else { format!("'{}'", url.replace('\'', "%27")) }
}

/// The verdict of the edge about a response, and its reason.
fn verdict_of(
    response: Option<&Result<FetchedResponse, ProbeError>>,
) -> (Option<CacheVerdict>, Option<String>) {
    let Some(Ok(response)) = response else { return (None, None) };
    let status = response.head.fields.all(names::CACHE_STATUS).last();
    let reason = status.and_then(|status| {
        let status = String::from_utf8_lossy(status);
        status.rsplit(';').find_map(|part| part.trim().strip_prefix("detail=").map(str::to_owned))
    });
    (verdict(response), reason)
}

/// How a request ended, for the pace. A request through the edge says nothing about the site; the
/// direct request after it does.
fn outcome(fetched: Result<&FetchedResponse, &ProbeError>, is_through: bool) -> PacedOutcome {
    let Ok(response) = fetched else {
        let is_failure = !is_through;
        return PacedOutcome { took: Duration::ZERO, is_failure, is_hit: is_through, retry_after: None };
    };
    let retry_after = response.head.fields.only("Retry-After");
    let seconds = retry_after.and_then(|value| str::from_utf8(value).ok()?.trim().parse().ok());
    PacedOutcome {
        took: response.arrived.since(response.sent),
        is_failure: !is_through && matches!(response.head.status.code(), 429 | 500 | 502 | 503 | 504),
        is_hit: is_through && verdict(response) == Some(CacheVerdict::Hit),
        retry_after: seconds.map(Duration::from_secs),
    }
}

/// The verdict of the nearest cache: its field comes last.
fn verdict(response: &FetchedResponse) -> Option<CacheVerdict> {
    let last = |name: &str| response.head.fields.iter().filter(|field| field.is(name)).last();
    CacheVerdict::of(|name| last(name).map(|field| &field.value[..]))
}

/// Whether a page takes longer than before, by the measure of the pace.
fn is_slower(before: Duration, now: Duration) -> bool {
    now > before + (before / 2).max(TARGET_MIN)
}

/// Whether the responses with a cookie differ from those without one.
fn is_changed(without: &[FetchedResponse], with: Vec<FetchedResponse>) -> bool {
    !with.is_empty() && with.into_iter().all(|response| sameness(without, &[Ok(response)]).is_difference())
}

fn shortest(of: &[FetchedResponse], time: impl Fn(&FetchedResponse) -> Duration) -> Duration {
    of.iter().map(time).min().unwrap_or_default()
}

/// Why the visit stopped, as the rest of a sentence.
fn stop_text(cause: StopCause) -> String {
    match cause {
        StopCause::FailuresInRow(count) => format!("{count} requests in a row failed"),
        StopCause::RecentFailures(count) => format!("{count} of the last requests failed"),
        StopCause::RetryAfter(wait) => format!("the site asks to come back after {} s", wait.as_secs()),
        StopCause::Slower { base, recent } => {
            format!("the site became slower: {} ms instead of {} ms", recent.as_millis(), base.as_millis())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{is_changed, is_slower, location, outcome, shell_word, verdict_of};
    use crate::testing::answer;
    use record::CacheVerdict;
    use std::time::Duration;
    use why::ProbeError;

    #[test]
    fn url_of_a_site_is_one_word_of_a_shell() {
        assert_eq!(shell_word("https://a.test/b-c?d=1"), "'https://a.test/b-c?d=1'");
        assert_eq!(shell_word("https://a.test/b'$(reboot)'"), "'https://a.test/b%27$(reboot)%27'");
        assert_eq!(shell_word("https://a.test:8080/b"), "https://a.test:8080/b");
    }

    #[test]
    fn only_direct_failures_count_for_the_pace() {
        let broken = answer(503, &["Retry-After: 7"], "");
        let found = outcome(Ok(&broken), false);
        assert_eq!((found.is_failure, found.retry_after), (true, Some(Duration::from_secs(7))));
        assert!(!outcome(Ok(&broken), true).is_failure);
        assert!(outcome(Err(&ProbeError::TimedOut), false).is_failure);
        assert!(!outcome(Err(&ProbeError::TimedOut), true).is_failure);
        assert!(!outcome(Ok(&answer(404, &[], "")), false).is_failure);
    }

    #[test]
    fn verdict_and_reason_of_the_nearest_cache_are_read() {
        let fields = ["Cache-Status: cdn; fwd=miss", "Cache-Status: Petasos; hit; ttl=9; detail=hit-fresh"];
        let found = verdict_of(Some(&Ok(answer(200, &fields, ""))));
        assert_eq!(found, (Some(CacheVerdict::Hit), Some("hit-fresh".to_owned())));
        assert_eq!(verdict_of(None), (None, None));
    }

    #[test]
    fn cookie_changes_a_page_if_all_responses_with_it_differ() {
        let [plain, other] = ["<p>Hello</p>", "<p>Hello Anna</p>"].map(|text| answer(200, &[], text));
        let without = [plain.clone(), plain.clone()];
        assert!(is_changed(&without, vec![other.clone(), other.clone()]));
        assert!(!is_changed(&without, vec![plain, other]));
        assert!(!is_changed(&without, Vec::new()));
    }

    #[test]
    fn page_is_slower_only_beyond_the_target_of_the_pace() {
        let ms = Duration::from_millis;
        assert!(!is_slower(ms(10), ms(60)) && is_slower(ms(10), ms(61)));
        assert!(!is_slower(ms(200), ms(300)) && is_slower(ms(200), ms(301)));
    }

    #[test]
    fn only_redirects_have_a_location() {
        assert_eq!(location(&answer(302, &["Location: /b"], "")).as_deref(), Some("/b"));
        assert_eq!(location(&answer(201, &["Location: /b"], "")), None);
    }
}
