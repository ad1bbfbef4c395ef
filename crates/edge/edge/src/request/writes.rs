//! Limits the cost of a site's writes to its cache, and detects whether the site purges its pages
//! itself.
//!
//! Invariants: no client can make a site refetch its pages faster than the limits allow. Beyond
//! them stored pages are still served, and requests refresh them in the background until a response
//! is stored that was requested after the write. Only purges from authorised clients and fields of
//! the origin's responses count as signs that a site purges itself.

use crate::control::counters::{Cells, Metric};
use crate::control::reach;
use crate::memory::refreshes::stamp;
use crate::shared::Shared;
use crate::sites::Site;
use bytes::Bytes;
use clock::Monotonic;
use invalidation::Mode;
use message::ResponseHead;
use purge::{OrderItem, PurgeScope, Reach};
use semantics::{ChangedPages, Identity, WriteReach};
use store::Key;

/// The invalidations for the pages that a write has changed.
fn changed_pages(site: &Site, host: &Bytes, pages: ChangedPages) -> Vec<PurgeScope> {
    let ChangedPages { targets, identities, lists } = pages;
    let posts = identities.into_iter().map(Identity::Post);
    let lists = lists.then_some(Identity::Unknown);
    let any_of: Vec<_> = posts.chain(lists).map(|identity| site.identity_tag(host, &identity)).collect();
    let target = |target| PurgeScope::Target { host: host.clone(), target };
    let mut scopes: Vec<_> = targets.into_iter().map(target).collect();
    if !any_of.is_empty() {
        scopes.push(PurgeScope::Tags { reach: Reach::Site(host.clone()), any_of, all_of: Vec::new() });
    }
    scopes
}

/// The invalidations that follow from a write which its response has proven.
pub(crate) fn settle(
    shared: &Shared,
    cells: &Cells,
    site: &Site,
    key: &Key,
    changed: WriteReach,
    answer: &ResponseHead,
    begun: Monotonic,
) -> Vec<OrderItem> {
    let now = shared.clock.monotonic();
    site.writes.note_write(begun, now);
    if purge::purges_itself(answer) || site.writes.purges_itself(shared.limits.self_purge_memory, now) {
        cells.count(Metric::WritesLeftToPurges);
        return Vec::new();
    }
    if shared.persistence.is_released() {
        // A refresh that is scheduled here would not reach the store of the process that takes
        // over.
        let scope = PurgeScope::Host { host: Bytes::copy_from_slice(key.host()) };
        return vec![OrderItem { scope, mode: Mode::Soft }];
    }
    if !site.writes.site.admits(shared.limits.writes_per_minute, stamp(now)) {
        cells.count(Metric::WritesPostponed);
        site.writes.refresh.schedule(now);
        return Vec::new();
    }
    cells.count(Metric::PurgesByWrites);
    let host = Bytes::copy_from_slice(key.host());
    let scopes = match changed {
        WriteReach::Everything => vec![PurgeScope::Host { host }],
        // A full invalidation: a web server may serve files of the static tree, which no
        // background refresh would reach.
        WriteReach::Pages(pages) if pages.lists && shared.static_tree.has(site) => {
            vec![PurgeScope::Host { host }]
        }
        WriteReach::Pages(pages) => {
            // Other pages may show a part of the changed content.
            site.writes.refresh.schedule(now);
            changed_pages(site, &host, pages)
        }
    };
    scopes.into_iter().map(|scope| OrderItem { scope, mode: Mode::Soft }).collect()
}

/// The pages changed by an unsafe method that may be invalidated now. The others are served
/// further and refreshed in the background.
pub(crate) fn within_rate(shared: &Shared, cells: &Cells, site: &Site, pages: Vec<Key>) -> Vec<Key> {
    if shared.persistence.is_released() {
        return pages;
    }
    let now = shared.clock.monotonic();
    let is_admitted = |key: &Key| {
        let stored = stored_as(shared, key);
        // A page that is not stored costs nothing to invalidate.
        let admitted = stored.as_ref().is_some_and(Vec::is_empty)
            || site.writes.pages.admits(shared.limits.page_writes_per_minute, stamp(now));
        if !admitted {
            cells.count(Metric::PageWritesPostponed);
            match stored {
                Some(stored) => stored.iter().for_each(|key| refresh_page(shared, key, now)),
                None => site.writes.refresh.schedule(now),
            }
            // A fetch from before the write may end after the refresh, for any route of the site.
            for scope in reach::own_scopes(&shared.sites, key) {
                let target = Bytes::copy_from_slice(key.target());
                let own = Key::new(scope.site.id, key.is_https(), key.host(), target);
                shared.fetches.overtake(&own);
            }
        }
        admitted
    };
    pages.into_iter().filter(is_admitted).collect()
}

/// Schedules a background refresh of a page. Its static file is removed now, because a web
/// server sends it without a request that could start the refresh.
pub(crate) fn refresh_page(shared: &Shared, key: &Key, now: Monotonic) {
    shared.page_refreshes.schedule(key, now);
    if let Some(site) = shared.sites.iter().find(|site| site.id == key.site()) {
        shared.static_tree.withdraw(site, key);
    }
}

/// The keys of stored pages that an invalidation of `key` covers: under all names and routes of
/// the site, both schemes, every percent-encoding, and equivalent targets. `None` if the hosts
/// cannot be listed, so that the page may be stored under any of them.
fn stored_as(shared: &Shared, key: &Key) -> Option<Vec<Key>> {
    let mut keys = Vec::new();
    for scope in reach::own_scopes(&shared.sites, key) {
        let hosts = scope.hosts(shared)?;
        for (https, host) in hosts.iter().flat_map(|host| [(false, host), (true, host)]) {
            let own = Key::new(scope.site.id, https, host, Bytes::copy_from_slice(key.target()));
            let equivalent = shared.equivalents.find_spelled(&own).into_iter();
            keys.extend(equivalent.filter(|found| !found.is_spelling_of(&own) && shared.store.has(found)));
            keys.extend(shared.store.spellings(&own));
        }
    }
    Some(keys)
}
