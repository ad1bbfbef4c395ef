//! The measurements of a run of page loads.
//!
//! - A *page* is *good* when the document arrived with an expected status (after redirects within
//!   the site) and all resources it loads arrived. It is *incomplete* when a resource did not
//!   arrive, and *failed* without a document.
//! - The *time* of a page is from its beginning until its documents, stylesheets, scripts, images
//!   and fonts have arrived. Icons, video and audio, and prefetched resources do not count.
//! - A *request* is one exchange. Over HTTP/1, its time begins when one of the visitor's
//!   connections to the host is free for it. Over HTTP/2 there is one connection for all requests,
//!   and the time begins at once. Opening a connection is part of the time.
//!
//! Invariant: every page that ended is good, incomplete or failed, and every request belongs to one
//! class.

use crate::check::{CPU_SHARE_INVALID, CPU_SHARE_TIGHT, Trust};
use crate::page_second::PageSecond;
use crate::traffic::Think;
use crate::verdict::CacheVerdict;
use clock::Timestamp;
use resource::{LimitCounts, ResourceClass};
use stats::Histogram;
use std::collections::BTreeMap;
use std::time::Duration;

/// The most names of foreign hosts that are kept; further hosts are only counted.
pub const FOREIGN_HOSTS_MAX: usize = 1_000;

/// The longest kept name of a foreign host, in bytes: the longest that DNS has. Hosts with
/// longer names are only counted.
const HOST_BYTES_MAX: usize = 253;

/// The most bytes of a URL that are kept in [`PageFigures::examples`] and [`PageFigures::trace`]. A
/// hostile page may have URLs of megabytes.
pub const URL_BYTES_MAX: usize = 8 * 1024;

/// The most examples of failed resources that are kept.
pub const EXAMPLES_MAX: usize = 10;

/// The most URLs of one page load that are kept in [`PageFigures::trace`].
pub const TRACE_MAX: usize = 2_000;

/// Why a resource did not arrive. New kinds come last, because each has a column in the CSV.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FetchFailure {
    /// The host name has no address.
    Name,
    /// No connection could be made.
    Connect,
    /// The TLS handshake failed.
    Tls,
    /// The response was not complete in time.
    Timeout,
    /// The connection ended before a response.
    Closed,
    /// The connection broke, or ended within the response.
    Broken,
    /// The response is not valid HTTP.
    BadAnswer,
    /// The status is not an expected one.
    Status,
    /// A redirect leads to a host that may not be requested.
    Foreign,
    /// Too many redirects.
    Redirects,
    /// The content is longer than allowed, as received or decoded.
    TooLong,
    /// The content coding is unknown or broken.
    Coding,
    /// The plan asks for HTTP/2, but the server does not speak it.
    Http2,
    /// No local port is free for another connection.
    Address,
    /// The process or the machine has reached its limit of open descriptors.
    Descriptors,
    /// The kernel has no memory for another connection.
    Memory,
}

impl FetchFailure {
    /// All kinds, in the order in which they are reported.
    pub const ALL: [Self; 16] = [
        Self::Name,
        Self::Connect,
        Self::Tls,
        Self::Timeout,
        Self::Closed,
        Self::Broken,
        Self::BadAnswer,
        Self::Status,
        Self::Foreign,
        Self::Redirects,
        Self::TooLong,
        Self::Coding,
        Self::Http2,
        Self::Address,
        Self::Descriptors,
        Self::Memory,
    ];

    /// The name used in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::Connect => "connect",
            Self::Tls => "tls",
            Self::Timeout => "timeout",
            Self::Closed => "closed",
            Self::Broken => "broken",
            Self::BadAnswer => "bad-answer",
            Self::Status => "status",
            Self::Foreign => "foreign",
            Self::Redirects => "redirects",
            Self::TooLong => "too-long",
            Self::Coding => "coding",
            Self::Http2 => "http2",
            Self::Address => "address",
            Self::Descriptors => "descriptors",
            Self::Memory => "memory",
        }
    }

    /// If the failure is caused by a limit of this machine, names the limit and gives advice.
    /// `None` if the site may be the cause.
    pub const fn local_limit(self) -> Option<&'static str> {
        match self {
            Self::Address => Some(
                "no local port was free; use fewer visitors (-c; with --rate: --in-flight-max), \
                 leave --linger out, or widen net.ipv4.ip_local_port_range",
            ),
            Self::Descriptors => Some(
                "this process may not open more descriptors; raise `ulimit -n` (fs.file-max for all \
                 processes), or use fewer visitors (-c; with --rate: --in-flight-max), a smaller \
                 --connections-per-host, or no --linger",
            ),
            Self::Memory => Some(
                "the kernel had no memory for another connection; use fewer visitors (-c; with --rate: \
                 --in-flight-max), or leave --linger out",
            ),
            _ => None,
        }
    }
}

/// Why a run ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PageEnd {
    /// All pages of the plan have ended.
    #[default]
    Pages,
    /// The time was up.
    Time,
    /// The run was stopped through `browse::Watch`.
    Stopped,
    /// More than half of the resources that ended in the last second failed, and the plan said to
    /// stop then.
    Failing,
}

impl PageEnd {
    /// The name used in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pages => "pages",
            Self::Time => "time",
            Self::Stopped => "stopped",
            Self::Failing => "failing",
        }
    }
}

/// The requests and resources of one class.
#[derive(Clone, Debug, Default)]
pub struct ClassOutcome {
    /// Requests that were sent and have ended, successfully or not, including redirects and
    /// revalidations.
    pub requests: u64,
    /// Resources of the class that did not arrive.
    pub failed: u64,
    /// Responses 304 (Not Modified).
    pub not_modified: u64,
    /// Resources that a returning visitor had in its cache and that needed no request.
    pub from_cache: u64,
    /// Bytes received for this class, including heads.
    pub received_bytes: u64,
    /// Times of the responses, in microseconds.
    pub times: Histogram,
}

/// One URL of the page load in [`PageFigures::trace`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TracedUrl {
    /// The URL, up to [`URL_BYTES_MAX`].
    pub url: String,
    /// The class of the resource.
    pub class: ResourceClass,
    /// The result: `loaded`, `redirected` (the target of a redirect), `cached`, `lazy`, `foreign`,
    /// or the name of a failure.
    pub what: &'static str,
}

/// Page loads by result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageCounts {
    /// Everything arrived.
    pub good: u64,
    /// The document arrived, but another resource did not.
    pub incomplete: u64,
    /// The document did not arrive.
    pub failed: u64,
    /// Page loads of returning visitors, among those that ended.
    pub returning: u64,
    /// Page loads in progress when the run ended.
    pub unfinished: u64,
    /// Page loads that fell due while all visitors were busy, and were not started.
    pub not_started: u64,
}

/// The figures of a run. Each thread has its own; they are added up at the end.
#[derive(Clone, Debug, Default)]
pub struct PageFigures {
    /// Page loads by result.
    pub pages: PageCounts,
    /// Times of pages whose document arrived, in microseconds. They count from the page's
    /// beginning, in an open loop from the intended beginning.
    pub page_times: Histogram,
    /// The part of `page_times` that belongs to returning visitors.
    pub returning_times: Histogram,
    /// Times from a page's beginning to the first byte of its document, in microseconds.
    pub first_octet_times: Histogram,
    /// By class, in the order of [`ResourceClass::ALL`].
    pub classes: Vec<ClassOutcome>,
    /// Number of responses by status code.
    pub statuses: BTreeMap<u16, u64>,
    /// Failed resources by kind, in the order of [`FetchFailure::ALL`].
    pub failures: [u64; FetchFailure::ALL.len()],
    /// The first failures: URL, up to [`URL_BYTES_MAX`], and kind.
    pub examples: Vec<(String, FetchFailure)>,
    /// Number of responses by cache verdict. The key's first part is true for documents and false
    /// for all other classes.
    pub verdicts: BTreeMap<(bool, CacheVerdict), u64>,
    /// Hosts that were not requested, each with the number of resources on it.
    pub foreign_hosts: BTreeMap<String, u64>,
    /// Resources on further foreign hosts.
    pub foreign_beyond: u64,
    /// Images and frames with lazy loading, which were not loaded.
    pub lazy: u64,
    /// Redirects that were followed.
    pub redirects: u64,
    /// Connections that were opened.
    pub connections: u64,
    /// Connections that were closed before their linger time was up, because too many were open.
    pub closed_early: u64,
    /// Limits of [`resource::PageLimits`] that were reached.
    pub limits: LimitCounts,
    /// The URLs of one early page load of the measured part, by a new visitor who got the document.
    pub trace: Vec<TracedUrl>,
}

/// The result of a run.
#[derive(Clone, Debug)]
pub struct PageOutcome {
    /// The page.
    pub url: String,
    /// Visitors at a time.
    pub users: usize,
    /// The rate requested for an open loop, in pages per second.
    pub rate_asked: Option<f64>,
    /// The think time after a page load.
    pub think: Think,
    /// How long connections stayed open after their page load.
    pub linger: Duration,
    /// The requested share of returning visitors, 0 to 1.
    pub returning_asked: f64,
    /// The most connections of a visitor to one host.
    pub connections_per_host_max: usize,
    /// Whether HTTP/2 was used.
    pub is_http2: bool,
    /// When the measured part began.
    pub started: Timestamp,
    /// How long the measured part took.
    pub elapsed: Duration,
    /// Why the run ended.
    pub ended: PageEnd,
    /// The figures.
    pub figures: PageFigures,
    /// Figures for each second of the measured part, up to a limit.
    pub seconds: Vec<PageSecond>,
    /// CPU time of each thread.
    pub cpu: Vec<Duration>,
    /// Whether the generator was the bottleneck.
    pub check: PageCheck,
}

/// The self-check: whether a run measured the server or its own generator.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PageCheck {
    /// The overall verdict.
    pub trust: Trust,
    /// Why the verdict is not clean; empty if it is.
    pub reasons: Vec<String>,
    /// CPU share of the busiest thread: its time on a core, divided by the measured time.
    pub cpu_share_max: f64,
}

impl PageFigures {
    /// Empty figures.
    pub fn new() -> Self {
        Self { classes: vec![ClassOutcome::default(); ResourceClass::ALL.len()], ..Self::default() }
    }

    /// The figures of one class.
    pub fn class(&self, class: ResourceClass) -> Option<&ClassOutcome> {
        self.classes.get(class as usize)
    }

    /// Number of requests.
    pub fn requests(&self) -> u64 {
        self.classes.iter().map(|class| class.requests).sum()
    }

    /// Number of failed resources.
    pub fn failed_requests(&self) -> u64 {
        self.failures.iter().sum()
    }

    /// Bytes received.
    pub fn received_bytes(&self) -> u64 {
        self.classes.iter().map(|class| class.received_bytes).sum()
    }

    /// Times of all requests.
    pub fn request_times(&self) -> Histogram {
        self.classes.iter().fold(Histogram::new(), |mut all, class| {
            all.merge(&class.times);
            all
        })
    }

    /// The figures of one class, to be counted up.
    pub fn of(&mut self, class: ResourceClass) -> Option<&mut ClassOutcome> {
        self.classes.get_mut(class as usize)
    }

    /// Counts a resource that did not arrive, and keeps it as an example if there is room.
    pub fn fail(&mut self, url: &str, failure: FetchFailure) {
        if let Some(count) = self.failures.get_mut(failure as usize) {
            *count += 1;
        }
        if self.examples.len() < EXAMPLES_MAX {
            self.examples.push((kept_url(url), failure));
        }
    }

    /// Counts a resource on a host without requests.
    pub fn foreign(&mut self, host: &str) {
        if let Some(count) = self.foreign_hosts.get_mut(host) {
            *count += 1;
        } else if self.foreign_hosts.len() < FOREIGN_HOSTS_MAX && host.len() <= HOST_BYTES_MAX {
            self.foreign_hosts.insert(host.to_owned(), 1);
        } else {
            self.foreign_beyond += 1;
        }
    }

    /// Adds the figures of another thread.
    pub fn merge(&mut self, other: Self) {
        let pages = &mut self.pages;
        pages.good += other.pages.good;
        pages.incomplete += other.pages.incomplete;
        pages.failed += other.pages.failed;
        pages.returning += other.pages.returning;
        pages.unfinished += other.pages.unfinished;
        pages.not_started += other.pages.not_started;
        self.page_times.merge(&other.page_times);
        self.returning_times.merge(&other.returning_times);
        self.first_octet_times.merge(&other.first_octet_times);
        for (class, more) in self.classes.iter_mut().zip(&other.classes) {
            class.requests += more.requests;
            class.failed += more.failed;
            class.not_modified += more.not_modified;
            class.from_cache += more.from_cache;
            class.received_bytes += more.received_bytes;
            class.times.merge(&more.times);
        }
        for (code, count) in other.statuses {
            *self.statuses.entry(code).or_default() += count;
        }
        for (count, more) in self.failures.iter_mut().zip(other.failures) {
            *count += more;
        }
        let room = EXAMPLES_MAX.saturating_sub(self.examples.len());
        self.examples.extend(other.examples.into_iter().take(room));
        for (key, count) in other.verdicts {
            *self.verdicts.entry(key).or_default() += count;
        }
        for (host, count) in other.foreign_hosts {
            if self.foreign_hosts.len() < FOREIGN_HOSTS_MAX || self.foreign_hosts.contains_key(&host) {
                *self.foreign_hosts.entry(host).or_default() += count;
            } else {
                self.foreign_beyond += count;
            }
        }
        self.foreign_beyond += other.foreign_beyond;
        self.lazy += other.lazy;
        self.redirects += other.redirects;
        self.connections += other.connections;
        self.closed_early += other.closed_early;
        self.limits.merge(&other.limits);
        if self.trace.is_empty() {
            self.trace = other.trace;
        }
    }
}

/// A URL for the figures. A longer one ends with an ellipsis.
pub fn kept_url(url: &str) -> String {
    if url.len() <= URL_BYTES_MAX {
        return url.to_owned();
    }
    let kept = url.get(..url.floor_char_boundary(URL_BYTES_MAX)).unwrap_or_default();
    format!("{kept}…")
}

impl PageOutcome {
    /// Page loads that ended.
    pub fn pages(&self) -> u64 {
        let pages = &self.figures.pages;
        pages.good + pages.incomplete + pages.failed
    }

    /// Pages per second whose document arrived.
    pub fn pages_per_second(&self) -> f64 {
        let pages = self.figures.pages.good + self.figures.pages.incomplete;
        let seconds = self.elapsed.as_secs_f64();
        if seconds > 0.0 { pages as f64 / seconds } else { 0.0 }
    }
}

impl PageCheck {
    /// Judges a run by the load tester's thresholds.
    pub fn judge(cpu: &[Duration], elapsed: Duration, rate: Option<f64>, figures: &PageFigures) -> Self {
        let busiest = cpu.iter().max().copied().unwrap_or_default();
        let share = if elapsed.is_zero() { 0.0 } else { busiest.as_secs_f64() / elapsed.as_secs_f64() };
        let mut check = Self { trust: Trust::Clean, reasons: Vec::new(), cpu_share_max: share };
        if share > CPU_SHARE_TIGHT {
            check.trust = if share > CPU_SHARE_INVALID { Trust::Invalid } else { Trust::Tight };
            check.reasons.push(format!("a generator thread was on a core {:.0}% of the time", share * 100.0));
        }
        let late = figures.pages.not_started;
        if rate.is_some() && late > 0 {
            check.trust = check.trust.max(Trust::Invalid);
            check.reasons.push(format!(
                "{late} pages fell due while all visitors were busy; allow more visitors (--in-flight-max)"
            ));
        }
        for (kind, count) in
            FetchFailure::ALL.into_iter().zip(figures.failures).filter(|(_, count)| *count > 0)
        {
            if let Some(limit) = kind.local_limit() {
                check.trust = check.trust.max(Trust::Invalid);
                check.reasons.push(format!("resources did not arrive ({count}): {limit}"));
            }
        }
        let closed_early = figures.closed_early;
        if closed_early > 0 {
            check.trust = check.trust.max(Trust::Tight);
            check.reasons.push(format!(
                "{closed_early} connections were closed before the time of --linger ended, because the limit \
                 of connections was reached"
            ));
        }
        check
    }
}

#[cfg(test)]
mod tests {
    use super::{
        EXAMPLES_MAX, FOREIGN_HOSTS_MAX, FetchFailure, HOST_BYTES_MAX, PageCheck, PageFigures, URL_BYTES_MAX,
    };
    use crate::check::Trust;
    use resource::ResourceClass;
    use std::time::Duration;

    #[test]
    fn each_class_and_failure_has_its_own_index() {
        assert!(ResourceClass::ALL.iter().enumerate().all(|(index, &class)| class as usize == index));
        assert!(FetchFailure::ALL.iter().enumerate().all(|(index, &kind)| kind as usize == index));
    }

    #[test]
    fn kept_hosts_and_examples_are_limited_and_add_up() {
        let mut figures = PageFigures::new();
        for number in 0..FOREIGN_HOSTS_MAX as u64 + 5 {
            figures.foreign(&number.to_string());
            figures.fail("u", FetchFailure::Status);
        }
        let mut sum = figures.clone();
        sum.merge(figures);
        let known: u64 = sum.foreign_hosts.values().sum();
        assert_eq!((known + sum.foreign_beyond, sum.foreign_hosts.len()), (2_010, FOREIGN_HOSTS_MAX));
        assert_eq!((sum.failed_requests(), sum.examples.len()), (2_010, EXAMPLES_MAX));
    }

    #[test]
    fn long_names_and_urls_take_little_memory() {
        let mut figures = PageFigures::new();
        figures.foreign(&"h".repeat(HOST_BYTES_MAX));
        figures.foreign(&"h".repeat(HOST_BYTES_MAX + 1));
        assert_eq!((figures.foreign_hosts.len(), figures.foreign_beyond), (1, 1));
        let urls = [URL_BYTES_MAX, URL_BYTES_MAX + 1].map(|bytes| "u".repeat(bytes));
        urls.iter().for_each(|url| figures.fail(url, FetchFailure::Status));
        let kept: Vec<&String> = figures.examples.iter().map(|(url, _)| url).collect();
        assert_eq!(kept, [&urls[0], &format!("{}…", urls[0])]);
    }

    #[test]
    fn busy_generator_and_local_limits_lower_the_trust() {
        let trust = |millis, late| {
            let mut figures = PageFigures::new();
            figures.pages.not_started = late;
            let cpu = [Duration::from_millis(millis), Duration::from_millis(1)];
            PageCheck::judge(&cpu, Duration::from_secs(10), Some(1.0), &figures).trust
        };
        assert_eq!(
            (trust(7_900, 0), trust(8_100, 0), trust(9_600, 0)),
            (Trust::Clean, Trust::Tight, Trust::Invalid)
        );
        assert_eq!(trust(1, 1), Trust::Invalid);
        for kind in [FetchFailure::Address, FetchFailure::Descriptors, FetchFailure::Memory] {
            let mut figures = PageFigures::new();
            figures.fail("http://h/", kind);
            let check = PageCheck::judge(&[Duration::ZERO], Duration::from_secs(10), None, &figures);
            let is_told = check.reasons[0].starts_with("resources did not arrive (1): ");
            assert!(is_told && check.trust == Trust::Invalid, "{kind:?}: {check:?}");
        }
        let figures = PageFigures { closed_early: 1, ..PageFigures::new() };
        let check = PageCheck::judge(&[Duration::ZERO], Duration::from_secs(10), None, &figures);
        assert_eq!((check.trust, check.reasons.len()), (Trust::Tight, 1));
    }
}
