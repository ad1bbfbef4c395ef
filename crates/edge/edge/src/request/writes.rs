//! Limits the cost of a site's writes to its cache, and detects whether the site purges its pages
//! itself.
//!
//! Invariants: no client can make a site refetch its pages faster than the limits allow. Beyond
//! them stored pages are still served, and requests refresh them in the background until a response
//! is stored that was requested after the write. Only purges from authorised clients and fields of
//! the origin's responses count as signs that a site purges itself.

use crate::control::counters::{Cells, Metric};
use crate::memory::refreshes::{Refresh, stamp};
use crate::shared::Shared;
use crate::sites::Site;
use bytes::Bytes;
use clock::Monotonic;
use invalidation::Mode;
use message::ResponseHead;
use purge::{OrderItem, Reach, Want};
use semantics::{Changed, ChangedPages, Identity};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use store::Key;

/// The period of `limits.writes_per_minute`.
const MINUTE: Duration = Duration::from_secs(60);

/// A purge within this time after a write counts as caused by it.
const PURGE_AFTER: Duration = Duration::from_secs(10);

/// The state of a site's writes. Times are nanoseconds of the monotonic clock plus one; zero means
/// never.
///
/// Relaxed is enough: the times guard no other memory. A write and a purge that are noted at the
/// same time may miss each other; the site's next purge after a write is found.
#[derive(Debug, Default)]
pub(crate) struct Writes {
    site: Rate,
    pages: Rate,
    /// The background refresh of all pages.
    refresh: Refresh,
    last_purge: AtomicU64,
    last_write: AtomicU64,
    /// When the site last purged because of a write.
    purged_itself: AtomicU64,
}

/// A token-bucket rate limit with a burst of one minute's share. Holds the time at which the bucket
/// will be full again. Relaxed is enough: taking a token is one atomic operation.
#[derive(Debug, Default)]
struct Rate(AtomicU64);

impl Rate {
    fn admits(&self, per_minute: usize, now: u64) -> bool {
        let minute = MINUTE.as_nanos() as u64;
        let Some(interval) = minute.checked_div(per_minute as u64) else { return false };
        let next = |used: u64| Some(used.max(now) + interval).filter(|next| *next <= now + minute);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).is_ok()
    }
}

impl Writes {
    /// Whether an object that was stored at `stored` should now be refreshed in the background.
    pub(crate) fn is_to_be_refreshed(&self, stored: Monotonic, now: Monotonic) -> bool {
        self.refresh.is_due(stored, now)
    }

    /// Records an authorised purge of pages of the site.
    pub(crate) fn note_purge(&self, now: Monotonic) {
        let now = stamp(now);
        self.last_purge.store(now, Ordering::Relaxed);
        let written = self.last_write.load(Ordering::Relaxed);
        if written != 0 && now - written.min(now) <= PURGE_AFTER.as_nanos() as u64 {
            self.purged_itself.store(now, Ordering::Relaxed);
        }
    }

    /// Records a proven write whose request began at `begun`.
    fn note_write(&self, begun: Monotonic, now: Monotonic) {
        let purged = self.last_purge.load(Ordering::Relaxed);
        if purged >= stamp(begun) {
            self.purged_itself.store(purged, Ordering::Relaxed);
        }
        self.last_write.store(stamp(now), Ordering::Relaxed);
    }

    /// Whether the site has purged itself within `memory`.
    pub(crate) fn purges_itself(&self, memory: Duration, now: Monotonic) -> bool {
        let seen = self.purged_itself.load(Ordering::Relaxed);
        seen != 0 && stamp(now) - seen.min(stamp(now)) < memory.as_nanos() as u64
    }
}

/// The invalidations for the pages that a write has changed.
fn changed_pages(site: &Site, host: &Bytes, pages: ChangedPages) -> Vec<Want> {
    let ChangedPages { targets, identities, lists } = pages;
    let posts = identities.into_iter().map(Identity::Post);
    let lists = lists.then_some(Identity::Unknown);
    let any_of: Vec<_> = posts.chain(lists).map(|identity| site.identity_tag(host, &identity)).collect();
    let target = |target| Want::Target { host: host.clone(), target };
    let mut wants: Vec<_> = targets.into_iter().map(target).collect();
    if !any_of.is_empty() {
        wants.push(Want::Tags { reach: Reach::Site(host.clone()), any_of, all_of: Vec::new() });
    }
    wants
}

impl Shared {
    /// The invalidations that follow from a write which its response has proven.
    pub(crate) fn settle(
        &self,
        cells: &Cells,
        site: &Site,
        key: &Key,
        changed: Changed,
        answer: &ResponseHead,
        begun: Monotonic,
    ) -> Vec<OrderItem> {
        let now = self.clock.monotonic();
        site.writes.note_write(begun, now);
        if purge::purges_itself(answer) || site.writes.purges_itself(self.limits.self_purge_memory, now) {
            cells.count(Metric::WritesLeftToPurges);
            return Vec::new();
        }
        if !site.writes.site.admits(self.limits.writes_per_minute, stamp(now)) {
            cells.count(Metric::WritesPostponed);
            site.writes.refresh.schedule(now);
            return Vec::new();
        }
        cells.count(Metric::PurgesByWrites);
        let host = Bytes::copy_from_slice(key.host());
        let wants = match changed {
            Changed::Everything => vec![Want::Host { host }],
            // A full invalidation: a web server may serve files of the static tree, which no
            // background refresh would reach.
            Changed::Pages(pages) if pages.lists && self.static_tree.has(site) => vec![Want::Host { host }],
            Changed::Pages(pages) => {
                // Other pages may show a part of the changed content.
                site.writes.refresh.schedule(now);
                changed_pages(site, &host, pages)
            }
        };
        wants.into_iter().map(|want| OrderItem { want, mode: Mode::Soft }).collect()
    }

    /// The pages changed by an unsafe method that may be invalidated now. The others are served
    /// further and refreshed in the background.
    pub(crate) fn within_rate(&self, cells: &Cells, site: &Site, pages: Vec<Key>) -> Vec<Key> {
        let now = self.clock.monotonic();
        let is_admitted = |key: &Key| {
            let stored = self.stored_as(key);
            // A page that is not stored costs nothing to invalidate.
            let admitted = stored.as_ref().is_some_and(Vec::is_empty)
                || site.writes.pages.admits(self.limits.page_writes_per_minute, stamp(now));
            if !admitted {
                cells.count(Metric::PageWritesPostponed);
                match stored {
                    Some(stored) => stored.iter().for_each(|key| self.refresh_page(key, now)),
                    None => site.writes.refresh.schedule(now),
                }
                // A fetch from before the write may end after the refresh.
                self.flights.overtake(key);
            }
            admitted
        };
        pages.into_iter().filter(is_admitted).collect()
    }

    /// Schedules a background refresh of a page. Its static file is removed now, because a web
    /// server sends it without a request that could start the refresh.
    pub(crate) fn refresh_page(&self, key: &Key, now: Monotonic) {
        self.page_refreshes.schedule(key, now);
        if let Some(site) = self.sites.iter().find(|site| site.id == key.site()) {
            self.static_tree.withdraw(site, key);
        }
    }

    /// The keys of stored pages that an invalidation of `key` covers: under all names of the site,
    /// both schemes, every percent-encoding, and equivalent targets. `None` if the hosts cannot be
    /// listed, so that the page may be stored under any of them.
    fn stored_as(&self, key: &Key) -> Option<Vec<Key>> {
        let hosts = self.own_scope(key)?.hosts(self)?;
        let both = hosts.iter().flat_map(|host| [(false, host), (true, host)]);
        let mut keys = Vec::new();
        for (https, host) in both {
            let own = Key::new(key.site(), https, host, Bytes::copy_from_slice(key.target()));
            let equivalent = self.equivalents.find_spelled(&own).into_iter();
            keys.extend(equivalent.filter(|found| !found.is_spelling_of(&own) && self.store.has(found)));
            keys.extend(self.store.spellings(&own));
        }
        Some(keys)
    }
}

#[cfg(test)]
mod tests {
    use super::{Rate, Writes, stamp};
    use clock::Monotonic;
    use std::time::Duration;

    fn at(secs: u64) -> Monotonic {
        Monotonic::from_nanos(secs * 1_000_000_000)
    }

    #[test]
    fn rate_admits_a_minutes_share_at_once_and_then_one_by_one() {
        let rate = Rate::default();
        let admitted = |secs, count: usize| (0..count).filter(|_| rate.admits(6, stamp(at(secs)))).count();
        assert_eq!(admitted(0, 100), 6);
        assert_eq!((admitted(9, 5), admitted(10, 5), admitted(40, 5)), (0, 1, 3));
        assert!(!Rate::default().admits(0, stamp(at(0))), "none at all");
    }

    #[test]
    fn purge_counts_only_near_a_write_and_expires() {
        let memory = Duration::from_secs(100);
        let writes = Writes::default();
        writes.note_purge(at(1));
        assert!(!writes.purges_itself(memory, at(2)), "an operator's");
        writes.note_write(at(5), at(6));
        assert!(!writes.purges_itself(memory, at(6)));
        writes.note_purge(at(17));
        assert!(!writes.purges_itself(memory, at(17)), "too late");
        writes.note_purge(at(18));
        writes.note_write(at(18), at(19));
        assert!(writes.purges_itself(memory, at(19)), "within the request");
        assert!(
            writes.purges_itself(memory, at(117)) && !writes.purges_itself(memory, at(119)),
            "it expires"
        );
        writes.note_purge(at(200));
        writes.note_write(at(190), at(191));
        writes.note_purge(at(201));
        assert!(writes.purges_itself(memory, at(201)), "soon after the write");
    }
}
