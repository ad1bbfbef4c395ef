//! The leak guard: now and then a visitor with cookies, who would get what is stored, gets the application's own answer
//! instead, to see whether it is the same page.
//!
//! Invariant: a visitor's cookies go to the application with that visitor's request only, and nothing of its answer is
//! kept but for the comparison. From the first difference on nobody with cookies gets the page from the store, until a
//! fetch without any has shown that the page itself is what changes (`distrust`). Pages for visitors without cookies
//! are not its business. A hit that is not checked writes to no memory that another worker writes to, once a site is
//! known.

use crate::distrust::{Distrust, Kept, State};
use difference::{Difference, Spot, compare};
use message::{Fields, names};
use platform::Monotonic;
use semantics::{Forwarding, Policy, other_cookies};
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::ops::Range;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use store::Key;

/// So many would-be hits of visitors with cookies go to the application when a site is new, and when a page of it was
/// found to depend on cookies.
const FIRST_CHECKS: usize = 64;

/// Of these so many at most for one page, or others go unseen.
const FIRST_CHECKS_OF_PAGE: u8 = 4;

/// After so many would-be hits a site is not new any more, however few pages it has.
const FIRST_VISITS: usize = 16_384;

/// Pages, by hash, whose first checks are counted.
const FIRST_PAGES: usize = 256;

/// Pages that are kept from visitors with cookies at a time; of more, the oldest are trusted again.
const DISTRUSTED_MAX: usize = 65_536;

/// Octets of an answer that are compared; a longer one says nothing.
pub(crate) const COMPARED_BYTES_MAX: usize = 1024 * 1024;

/// What a spot may be longer than where the page itself changes, in octets, before it says something else.
const LONGER_BYTES_MAX: usize = 16;

/// Cookies that are named, and characters of a name.
const NAMED_MAX: usize = 12;
const NAME_CHARS_MAX: usize = 40;

/// What is known of all sites.
#[derive(Debug)]
pub(crate) struct LeakGuard {
    sites: Vec<Newness>,
    /// The same of static files, so that these take no first checks from pages.
    files: Vec<Newness>,
    lots: Vec<Lots>,
    /// One would-be hit in so many is checked; 0: none.
    every: usize,
    distrust: Distrust,
    hasher: RandomState,
}

/// How much of a site has been looked at since it was new.
#[derive(Debug)]
struct Newness {
    checks: AtomicUsize,
    visits: AtomicUsize,
    /// Checks of each page, by hash.
    pages: Vec<AtomicU8>,
}

/// The would-be hits of one worker, on a cache line of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Lots {
    drawn: AtomicUsize,
    /// Whether one is to be checked that could not be.
    is_owed: AtomicUsize,
}

/// What came of looking into a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Finding {
    /// The page changes as much by itself.
    Changes,
    /// It differs by cookies.
    Leak,
    /// The page could not be fetched.
    Unknown,
}

impl LeakGuard {
    /// Nothing known yet of so many sites; of the would-be hits by visitors with cookies one in `every` is checked.
    pub(crate) fn new(sites: usize, workers: usize, every: usize) -> Self {
        Self {
            sites: (0..sites).map(|_| Newness::new()).collect(),
            files: (0..sites).map(|_| Newness::new()).collect(),
            lots: (0..workers.max(1)).map(|_| Lots::default()).collect(),
            every,
            distrust: Distrust::new(DISTRUSTED_MAX),
            hasher: RandomState::new(),
        }
    }

    /// Whether this would-be hit of a visitor with cookies is checked, if it can be: that is asked only when the lot
    /// falls on it, and if it cannot, the next one is. `is_file` says that it is a static file.
    pub(crate) fn draws(
        &self,
        worker: usize,
        key: &Key,
        is_file: bool,
        can_be: impl FnOnce() -> bool,
    ) -> bool {
        let Some(lots) = self.lots.get(worker).filter(|_| self.every > 0) else { return false };
        let number = lots.drawn.fetch_add(1, Ordering::Relaxed);
        let is_drawn = number % self.every == self.every - 1 || lots.is_owed.load(Ordering::Relaxed) > 0;
        let sites = if is_file { &self.files } else { &self.sites };
        let first = sites.get(key.site().0 as usize).and_then(|site| site.first(|| self.page_of(key)));
        if !is_drawn && first.is_none() {
            return false;
        }
        let is_checked = can_be();
        if is_drawn {
            lots.is_owed.store(usize::from(!is_checked), Ordering::Relaxed);
        }
        if let Some((site, page)) = first.filter(|_| is_checked) {
            site.checks.fetch_add(1, Ordering::Relaxed);
            page.fetch_add(1, Ordering::Relaxed);
        }
        is_checked
    }

    /// Why a visitor with these cookies does not get the page of `key` from the store; `None` if it does.
    pub(crate) fn kept_back(
        &self,
        key: &Key,
        fields: &Fields,
        policy: &Policy,
        now: Monotonic,
    ) -> Option<Kept> {
        self.distrust.of(key, || cookie_names(fields, policy), now)
    }

    /// Whether the page of `key` may be given to visitors whose cookies nobody looks at.
    pub(crate) fn is_for_all(&self, key: &Key) -> bool {
        self.distrust.state(key).is_none_or(|state| state == State::Suspected)
    }

    /// A page that is kept from visitors with cookies is looked at again, by one of them.
    pub(crate) fn looks_again(&self, key: &Key, now: Monotonic) {
        self.distrust.is_looked_at(key, now);
    }

    /// Somebody with these cookies got another page: from now on nobody with cookies gets it from the store.
    pub(crate) fn suspect(&self, key: &Key, cookies: &str, now: Monotonic) {
        self.distrust.take_in(key, State::Suspected, cookies, now);
    }

    /// What came of that. `again` says that the page was kept back before.
    pub(crate) fn settle(&self, key: &Key, cookies: &str, finding: Finding, again: bool, now: Monotonic) {
        match finding {
            Finding::Changes => self.distrust.trust(key, again),
            // What was found once is not doubted because the application has no time.
            Finding::Unknown if again => {}
            Finding::Unknown => self.distrust.take_in(key, State::Doubted, cookies, now),
            Finding::Leak => {
                self.distrust.take_in(key, State::Found, cookies, now);
                for sites in [&self.sites, &self.files] {
                    if let Some(site) = sites.get(key.site().0 as usize) {
                        site.is_new_again();
                    }
                }
            }
        }
    }

    fn page_of(&self, key: &Key) -> usize {
        self.hasher.hash_one(key) as usize % FIRST_PAGES
    }
}

impl Newness {
    fn new() -> Self {
        let pages = (0..FIRST_PAGES).map(|_| AtomicU8::new(0)).collect();
        Self { checks: AtomicUsize::new(0), visits: AtomicUsize::new(0), pages }
    }

    /// What a check of this page counts as, if the site is so new that it is checked.
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

    /// Where one page depends on cookies, others may.
    fn is_new_again(&self) {
        self.pages.iter().for_each(|page| page.store(0, Ordering::Relaxed));
        self.visits.store(0, Ordering::Relaxed);
        self.checks.store(0, Ordering::Relaxed);
    }
}

/// Whether the lookups of visitors who send these fields are watched: by the letter of the standards it is the
/// application that says what depends on cookies, and those that are in the key were sent with its fetch.
pub(crate) fn is_guarded(fields: &Fields, policy: &Policy) -> bool {
    fields.has(names::COOKIE)
        && policy.forwarding == Forwarding::Keyed
        && other_cookies(fields, policy).next().is_some()
}

/// The names of the cookies in a request that are not in its key, for people.
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

/// Whether what a visitor with cookies got differs from what one without gets only where the page does from one fetch
/// to the next: `last` and those `before` it were fetched without cookies, `own` with them.
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

/// Whether a page that changes in the spot `usual` explains that a visitor's own one differs in `spot`.
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
        FIRST_CHECKS, FIRST_CHECKS_OF_PAGE, FIRST_VISITS, Finding, LeakGuard, NAME_CHARS_MAX, cookie_names,
        is_explained, is_guarded,
    };
    use bytes::Bytes;
    use message::Fields;
    use platform::Monotonic;
    use semantics::Policy;
    use store::{Key, SiteId};

    fn page(nonce: &str, greeting: &str) -> Vec<u8> {
        format!(
            "<html><head><title>A page</title></head><body><p>{greeting}</p><p>What everybody reads, and it is long \
             enough.</p><form><input name=\"_wpnonce\" value=\"{nonce}\"></form><p>The end of it.</p></body></html>"
        )
        .into_bytes()
    }

    #[test]
    fn what_changes_by_itself_is_explained_and_nothing_else() {
        let (before, last) = (&[page("a1b2c3", "")][..], page("d4e5f6", ""));
        assert!(is_explained(before, &last, &last));
        assert!(is_explained(before, &last, &page("090909", "")));
        assert!(!is_explained(before, &last, &page("090909", "Hello Ann")), "somebody's own");
        assert!(!is_explained(before, &before[0], &page("090909", "")), "it did not change by itself");
        assert!(!is_explained(before, &last, &page("0909 and Ann's address, 1 Main Street", "")));
        assert!(!is_explained(before, &last, b"another page"));
        assert!(!is_explained(before, b"another page", &last));
    }

    #[test]
    fn what_is_the_same_by_chance_shows_with_more_fetches() {
        let (last, own) = (page("79", ""), page("51", ""));
        assert!(!is_explained(&[page("79", "")], &last, &own));
        assert!(is_explained(&[page("79", ""), page("69", "")], &last, &own));
    }

    fn key(target: &str) -> Key {
        Key::new(SiteId(0), false, b"a", Bytes::copy_from_slice(target.as_bytes()))
    }

    /// How many of so many would-be hits are checked, of one page each or all of one.
    fn checked(guard: &LeakGuard, visits: usize, page: impl Fn(usize) -> String) -> usize {
        (0..visits).filter(|number| guard.draws(0, &key(&page(*number)), false, || true)).count()
    }

    #[test]
    fn new_sites_are_looked_at_first_and_all_now_and_then() {
        let guard = LeakGuard::new(1, 1, 1_000);
        assert_eq!(checked(&guard, 3_000, |number| format!("/{number}")), FIRST_CHECKS + 3);
        let other = Key::new(SiteId(1), false, b"a", Bytes::from_static(b"/"));
        assert!(!guard.draws(0, &other, false, || true));
        assert_eq!(checked(&LeakGuard::new(1, 1, 0), 100, |_| "/".to_owned()), 0);
    }

    #[test]
    fn no_page_takes_the_first_checks_from_the_others() {
        let guard = LeakGuard::new(1, 1, 1_000_000);
        assert_eq!(checked(&guard, 500, |_| "/".to_owned()), usize::from(FIRST_CHECKS_OF_PAGE));
        // But for the few that have a hash with it.
        assert!(checked(&guard, 60, |number| format!("/{number}")) > 40);
        checked(&guard, FIRST_VISITS, |_| "/".to_owned());
        assert_eq!(checked(&guard, 100, |number| format!("/{number}")), 0, "it is not new any more");
    }

    #[test]
    fn where_one_page_depends_on_cookies_others_are_looked_at() {
        let guard = LeakGuard::new(1, 1, 1_000_000);
        let at = Monotonic::default();
        checked(&guard, 500, |number| format!("/{number}"));
        guard.settle(&key("/"), "_ga", Finding::Changes, false, at);
        assert_eq!(checked(&guard, 500, |number| format!("/{number}")), 0);
        guard.settle(&key("/"), "_ga", Finding::Leak, false, at);
        assert_eq!(checked(&guard, 500, |number| format!("/{number}")), FIRST_CHECKS);
    }

    #[test]
    fn a_lot_that_falls_on_what_cannot_be_checked_goes_to_the_next() {
        let guard = LeakGuard::new(0, 1, 10);
        let drawn: Vec<_> = (0..30)
            .filter(|number| guard.draws(0, &key("/"), false, || number % 10 != 9 && *number > 12))
            .collect();
        assert_eq!(drawn, [13, 20]);
    }

    #[test]
    fn cookies_are_named_but_those_in_the_key_and_not_without_end() {
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
    fn visitors_are_guarded_who_have_more_cookies_than_the_key() {
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
