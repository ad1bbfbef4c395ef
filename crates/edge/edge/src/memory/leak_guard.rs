//! The leak guard: sends a sample of the hits with cookies to the origin, to check whether the
//! origin's response to these visitors equals the stored page.
//!
//! Invariants: a visitor's cookies are sent to the origin only with that visitor's request, and the
//! response to it is kept only for the comparison. From the first difference on, Petasos sends the
//! stored page to no visitor with cookies. That ends when fetches without cookies show that the
//! page changes by itself, when a later check finds no difference, or when too many pages are
//! withheld (`distrust`). Requests without cookies are not checked. After a site's first checks, a
//! hit that is not checked writes to no memory that another worker writes to, unless a page of its
//! hash group is withheld.

use crate::memory::distrust::{Distrust, Suspicion, Withheld};
use clock::Monotonic;
use difference::{Difference, Spot, compare};
use message::{Fields, names};
use platform::HashKeys;
use profiles::{Forwarding, Policy};
use semantics::other_cookies;
use std::hash::BuildHasher;
use std::ops::Range;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use store::Key;

/// Number of hits with cookies that are checked after a site starts, and again after one of its
/// pages turned out to vary by cookie. Hits of pages and of static files are counted separately.
const FIRST_CHECKS: usize = 64;

/// At most this many of the first checks are for one page, so that other pages get some.
const FIRST_CHECKS_OF_PAGE: u8 = 4;

/// After this many hits with cookies the first checks end, even if few pages were checked.
const FIRST_VISITS: usize = 16_384;

/// Number of hash buckets of pages in which the first checks are counted.
const FIRST_PAGES: usize = 256;

/// Maximum number of pages withheld from visitors with cookies. Beyond it, the oldest are trusted
/// again.
const DISTRUSTED_MAX: usize = 65_536;

/// Maximum size of a compared response in bytes. A longer one is not compared.
pub(crate) const COMPARED_BYTES_MAX: usize = 1024 * 1024;

/// A differing spot counts as a leak if it exceeds the page's own changes there by more than this
/// many bytes.
const LONGER_BYTES_MAX: usize = 16;

/// Maximum number of names in a list of cookies, and of characters in each name.
const NAMED_MAX: usize = 12;
const NAME_CHARS_MAX: usize = 40;

/// The state of the leak guard for all sites.
#[derive(Debug)]
pub(crate) struct LeakGuard {
    sampling: Vec<SamplingState>,
    /// Sampling interval: one hit with cookies in this many is checked; 0 disables the guard.
    every: usize,
    distrust: Distrust,
    hasher: HashKeys,
}

/// The first checks of a site.
#[derive(Debug)]
pub(crate) struct SiteProbation {
    pages: Probation,
    /// Those of static files, separate so that files take none from pages.
    files: Probation,
}

/// The first checks of the pages or files of a site. Relaxed is enough for these counters and for
/// [`SamplingState`]: they only choose samples. Concurrent hits may get a few checks more than the
/// limits.
#[derive(Debug)]
struct Probation {
    checks: AtomicUsize,
    visits: AtomicUsize,
    /// Number of first checks of each bucket of pages.
    pages: Vec<AtomicU8>,
}

/// The sampling state of one worker, on its own cache line.
#[derive(Debug, Default)]
#[repr(align(128))]
struct SamplingState {
    drawn: AtomicUsize,
    /// Whether a sampled hit could not be checked, so that the next one is checked instead.
    is_owed: AtomicUsize,
}

/// The result of investigating a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Finding {
    /// The page changes as much without cookies, or a renewed check found no difference.
    Changes,
    /// The page depends on cookies.
    Leak,
    /// The page could not be fetched.
    Unknown,
}

impl LeakGuard {
    /// A guard that checks one in `every` hits with cookies.
    pub(crate) fn new(workers: usize, every: usize) -> Self {
        Self {
            sampling: (0..workers.max(1)).map(|_| SamplingState::default()).collect(),
            every,
            distrust: Distrust::new(DISTRUSTED_MAX),
            hasher: HashKeys::new(),
        }
    }

    /// Decides whether this hit with cookies is checked. `can_be` says whether it can be checked,
    /// and is called only for a sampled hit or a first check. If a sampled hit cannot be checked,
    /// the next hit is sampled instead. `is_file` is true for a static file.
    pub(crate) fn draws(
        &self,
        worker: usize,
        key: &Key,
        (site, is_file): (&SiteProbation, bool),
        can_be: impl FnOnce() -> bool,
    ) -> bool {
        let Some(sampling) = self.sampling.get(worker).filter(|_| self.every > 0) else { return false };
        let number = sampling.drawn.fetch_add(1, Ordering::Relaxed);
        let is_drawn = number % self.every == self.every - 1 || sampling.is_owed.load(Ordering::Relaxed) > 0;
        let first = if is_file { &site.files } else { &site.pages }.first(|| self.page_of(key));
        if !is_drawn && first.is_none() {
            return false;
        }
        let is_checked = can_be();
        if is_drawn {
            sampling.is_owed.store(usize::from(!is_checked), Ordering::Relaxed);
        }
        if let Some((site, page)) = first.filter(|_| is_checked) {
            site.checks.fetch_add(1, Ordering::Relaxed);
            page.fetch_add(1, Ordering::Relaxed);
        }
        is_checked
    }

    /// Why a client with these cookies does not receive the stored page of `key`; `None` if it
    /// does.
    pub(crate) fn withheld(
        &self,
        key: &Key,
        fields: &Fields,
        policy: &Policy,
        now: Monotonic,
    ) -> Option<Withheld> {
        self.distrust.of(key, || cookie_names(fields, policy), now)
    }

    /// Whether the page of `key` may be served where no cookies are checked, as from the static
    /// tree. A suspected page still may, because its investigation has not ended.
    pub(crate) fn is_for_all(&self, key: &Key) -> bool {
        self.distrust.state(key).is_none_or(|state| state == Suspicion::Suspected)
    }

    /// Records that a withheld page is being checked again.
    pub(crate) fn note_renewed_check(&self, key: &Key, now: Monotonic) {
        self.distrust.note_check(key, now);
    }

    /// Records that a client with these cookies received a response that differs from the stored
    /// page. From now on no client with cookies receives the stored page.
    pub(crate) fn suspect(&self, key: &Key, cookies: &str, now: Monotonic) {
        self.distrust.take_in(key, Suspicion::Suspected, cookies, now);
    }

    /// Records the result of the investigation. `again` is true if the page was already withheld
    /// before the check.
    pub(crate) fn settle(
        &self,
        (key, site): (&Key, &SiteProbation),
        cookies: &str,
        finding: Finding,
        again: bool,
        now: Monotonic,
    ) {
        match finding {
            Finding::Changes => self.distrust.trust(key, again),
            Finding::Unknown => self.distrust.take_in(key, Suspicion::Doubted, cookies, now),
            Finding::Leak => {
                self.distrust.take_in(key, Suspicion::Found, cookies, now);
                site.pages.is_new_again();
                site.files.is_new_again();
            }
        }
    }

    fn page_of(&self, key: &Key) -> usize {
        self.hasher.hash_one(key) as usize % FIRST_PAGES
    }
}

impl SiteProbation {
    pub(crate) fn new() -> Self {
        Self { pages: Probation::new(), files: Probation::new() }
    }
}

impl Probation {
    fn new() -> Self {
        let pages = (0..FIRST_PAGES).map(|_| AtomicU8::new(0)).collect();
        Self { checks: AtomicUsize::new(0), visits: AtomicUsize::new(0), pages }
    }

    /// The counters for a first check of this page; `None` if the site or the page has had all of
    /// them.
    fn first(&self, page: impl FnOnce() -> usize) -> Option<(&Self, &AtomicU8)> {
        let is_new = self.checks.load(Ordering::Relaxed) < FIRST_CHECKS
            && self.visits.load(Ordering::Relaxed) < FIRST_VISITS;
        if !is_new {
            return None;
        }
        self.visits.fetch_add(1, Ordering::Relaxed);
        let page =
            self.pages.get(page()).filter(|page| page.load(Ordering::Relaxed) < FIRST_CHECKS_OF_PAGE)?;
        Some((self, page))
    }

    /// Restarts the first checks: if one page depends on cookies, others may too.
    fn is_new_again(&self) {
        self.pages.iter().for_each(|page| page.store(0, Ordering::Relaxed));
        self.visits.store(0, Ordering::Relaxed);
        self.checks.store(0, Ordering::Relaxed);
    }
}

/// Whether look-ups with these fields are checked. Under the `rfc` profile the origin itself
/// declares what depends on cookies. Cookies in the key were sent with the fetch and need no check.
pub(crate) fn is_guarded(fields: &Fields, policy: &Policy) -> bool {
    fields.has(names::COOKIE)
        && policy.forwarding == Forwarding::Keyed
        && other_cookies(fields, policy).next().is_some()
}

/// The names of the request's cookies that are not in its key, as a list for messages and for
/// [`Distrust`].
pub(crate) fn cookie_names(fields: &Fields, policy: &Policy) -> String {
    let mut names: Vec<String> = Vec::new();
    for name in other_cookies(fields, policy) {
        let name: String = difference::text_of(name).chars().take(NAME_CHARS_MAX).collect();
        if names.len() < NAMED_MAX && !names.contains(&name) {
            names.push(name);
        }
    }
    names.join(", ")
}

/// Whether the response with cookies (`own`) differs only in spots where the page changes between
/// fetches without cookies (`last` and those `before` it).
pub(crate) fn is_explained(before: &[Vec<u8>], last: &[u8], own: &[u8]) -> bool {
    let own = match compare(last, own) {
        Difference::Equal => return true,
        Difference::Spots(spots) => spots,
        Difference::Throughout => return false,
    };
    let usual: Vec<Spot> = before.iter().flat_map(|before| spots(last, before)).collect();
    own.iter().all(|spot| usual.iter().any(|usual| explains(usual, spot)))
}

fn spots(last: &[u8], before: &[u8]) -> Vec<Spot> {
    match compare(last, before) {
        Difference::Spots(spots) => spots,
        Difference::Equal | Difference::Throughout => Vec::new(),
    }
}

/// Whether the change of the page in the spot `usual` explains the difference in `spot`.
fn explains(usual: &Spot, spot: &Spot) -> bool {
    let longest = usual.first.len().max(usual.second.len()) + LONGER_BYTES_MAX;
    is_within(&spot.first, &usual.first) && spot.second.len() <= longest
}

const fn is_within(inner: &Range<usize>, outer: &Range<usize>) -> bool {
    outer.start <= inner.start && inner.end <= outer.end
}

#[cfg(test)]
mod tests {
    use super::{
        FIRST_CHECKS, FIRST_CHECKS_OF_PAGE, FIRST_VISITS, Finding, LeakGuard, NAME_CHARS_MAX, SiteProbation,
        cookie_names, is_explained, is_guarded,
    };
    use bytes::Bytes;
    use clock::Monotonic;
    use message::Fields;
    use profiles::Policy;
    use store::{Key, SiteId};

    fn page(nonce: &str, greeting: &str) -> Vec<u8> {
        format!(
            "<html><head><title>A page</title></head><body><p>{greeting}</p><p>What everybody reads, and it is long \
             enough.</p><form><input name=\"_wpnonce\" value=\"{nonce}\"></form><p>The end of it.</p></body></html>"
        )
        .into_bytes()
    }

    #[test]
    fn only_changes_between_plain_fetches_explain_a_difference() {
        let (before, last) = (&[page("a1b2c3", "")][..], page("d4e5f6", ""));
        assert!(is_explained(before, &last, &last));
        assert!(is_explained(before, &last, &page("090909", "")));
        assert!(!is_explained(before, &last, &page("090909", "Hello Ann")), "the text is personal");
        assert!(!is_explained(before, &before[0], &page("090909", "")), "it did not change by itself");
        assert!(!is_explained(before, &last, &page("0909 and Ann's address, 1 Main Street", "")));
        assert!(!is_explained(before, &last, b"another page"));
        assert!(!is_explained(before, b"another page", &last));
    }

    #[test]
    fn more_fetches_reveal_a_change_that_one_missed() {
        let (last, own) = (page("79", ""), page("51", ""));
        assert!(!is_explained(&[page("79", "")], &last, &own));
        assert!(is_explained(&[page("79", ""), page("69", "")], &last, &own));
    }

    fn key(target: &str) -> Key {
        Key::new(SiteId(0), false, b"a", Bytes::copy_from_slice(target.as_bytes()))
    }

    /// Number of hits out of `visits` that are checked; `page` gives the page of each.
    fn checked(
        (guard, site): &(LeakGuard, SiteProbation),
        visits: usize,
        page: impl Fn(usize) -> String,
    ) -> usize {
        (0..visits).filter(|number| guard.draws(0, &key(&page(*number)), (site, false), || true)).count()
    }

    fn guard(every: usize) -> (LeakGuard, SiteProbation) {
        (LeakGuard::new(1, every), SiteProbation::new())
    }

    #[test]
    fn first_hits_of_a_site_are_checked_and_later_ones_sampled() {
        let new = guard(1_000);
        assert_eq!(checked(&new, 3_000, |number| format!("/{number}")), FIRST_CHECKS + 3);
        let other = SiteProbation::new();
        assert!(new.0.draws(0, &key("/"), (&other, false), || true), "another site has checks of its own");
        assert!(new.0.draws(0, &key("/"), (&new.1, true), || true), "and so have files");
        assert_eq!(checked(&guard(0), 100, |_| "/".to_owned()), 0);
    }

    #[test]
    fn first_checks_are_spread_over_pages() {
        let guard = guard(1_000_000);
        assert_eq!(checked(&guard, 500, |_| "/".to_owned()), usize::from(FIRST_CHECKS_OF_PAGE));
        // Fewer than 60, because some share a bucket with `/`.
        assert!(checked(&guard, 60, |number| format!("/{number}")) > 40);
        checked(&guard, FIRST_VISITS, |_| "/".to_owned());
        assert_eq!(checked(&guard, 100, |number| format!("/{number}")), 0, "it is not new any more");
    }

    #[test]
    fn leak_on_one_page_restarts_the_first_checks() {
        let guard = guard(1_000_000);
        let at = Monotonic::default();
        checked(&guard, 500, |number| format!("/{number}"));
        guard.0.settle((&key("/"), &guard.1), "_ga", Finding::Changes, false, at);
        assert_eq!(checked(&guard, 500, |number| format!("/{number}")), 0);
        guard.0.settle((&key("/"), &guard.1), "_ga", Finding::Leak, false, at);
        assert_eq!(checked(&guard, 500, |number| format!("/{number}")), FIRST_CHECKS);
    }

    #[test]
    fn sample_that_cannot_be_checked_moves_to_the_next_hit() {
        let (guard, site) = guard(10);
        assert!((0..FIRST_VISITS).all(|_| site.pages.first(|| 0).is_some()), "it is not new any more");
        let drawn: Vec<_> = (0..30)
            .filter(|number| guard.draws(0, &key("/"), (&site, false), || number % 10 != 9 && *number > 12))
            .collect();
        assert_eq!(drawn, [13, 20]);
    }

    #[test]
    fn names_of_unkeyed_cookies_are_listed_up_to_a_limit() {
        let mut fields = Fields::new();
        fields.push("Cookie", "_ga=1; lang=de; currency=EUR; ; _ga=2");
        fields.push("Cookie", "x");
        let policy = Policy { keyed_cookies: vec!["currency".to_owned()], ..Policy::default_profile() };
        assert_eq!(cookie_names(&fields, &policy), "_ga, lang, x");
        let mut fields = Fields::new();
        (0..100).for_each(|number| fields.push("Cookie", format!("{}={number}", "n".repeat(60 + number))));
        assert_eq!(cookie_names(&fields, &policy).len(), NAME_CHARS_MAX);
    }

    #[test]
    fn clients_with_cookies_outside_the_key_are_guarded() {
        let policy = Policy { keyed_cookies: vec!["currency".to_owned()], ..Policy::default_profile() };
        let is = |cookie: &'static str, policy: &Policy| {
            let mut fields = Fields::new();
            fields.push("Cookie", cookie);
            is_guarded(&fields, policy)
        };
        assert!(is("currency=EUR; _ga=1", &policy) && !is("currency=EUR", &policy));
        assert!(is("_ga=1", &Policy::default_profile()) && !is(" ; ", &Policy::default_profile()));
        assert!(!is("_ga=1", &Policy::rfc()) && !is_guarded(&Fields::new(), &policy));
    }
}
