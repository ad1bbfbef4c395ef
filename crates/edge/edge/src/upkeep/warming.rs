//! Fills the cache with the pages of sites: after a start with an empty cache, after a purge of all
//! pages of a site, and by order of an operator.
//!
//! ```text
//!   start, purge, call -> order -> run of a site:
//!     robots.txt -> sitemaps -> each page: stored and fresh -> next
//!                                          otherwise, when the origin has time -> fetch
//! ```
//!
//! Invariants: a run asks nothing of the origin while visitors wait for it or its breaker is open.
//! Which page comes next and when is decided by `crawl`. Runs end with the drain; their files stay
//! for the next process.

use crate::memory::warmer::WarmBegin;
use crate::shared::Shared;
use crate::sites::Site;
use crate::upkeep::warm_file;
use crate::upkeep::warm_run;
use std::collections::BTreeSet;
use std::panic::resume_unwind;
use std::sync::Arc;
use tokio::task::JoinSet;

/// Runs the warming task until the drain begins.
pub(crate) async fn run(shared: Arc<Shared>) {
    // After a panic of a run, this task is started again.
    shared.warmer.lose_all();
    if shared.warmer.begins() {
        begin_at_start(&shared).await;
    }
    let mut runs = JoinSet::new();
    while !shared.is_draining() {
        for order in shared.warmer.take_orders() {
            runs.spawn(warm_run::run(shared.current(), order));
        }
        tokio::select! {
            biased;
            () = shared.drained() => return,
            Some(ended) = runs.join_next() => {
                if let Err(error) = ended && let Ok(panic) = error.try_into_panic() {
                    resume_unwind(panic);
                }
            }
            () = shared.warmer.changed.notified() => {}
        }
    }
}

/// The name of a site with all its routes: its first name, or `any`.
pub(crate) fn site_name(site: &Site) -> &str {
    site.plan.names.first().map_or("any", String::as_str)
}

/// The sites of the plan, without their routes.
pub(crate) fn sites(shared: &Shared) -> BTreeSet<&str> {
    shared.sites.iter().map(|site| site_name(site)).collect()
}

/// Begins the runs of these sites after a purge of all their pages: those that the settings want,
/// and those under way. `has` says which sites were purged.
pub(crate) fn begin_after_purge(shared: &Shared, has: impl Fn(&Site) -> bool) {
    let is_wanted = |site: &&Arc<Site>| {
        let is_configured = site.plan.warm.as_ref().is_some_and(|warm| warm.on_purge);
        has(site) && (is_configured || shared.warmer.has_run(site_name(site)))
    };
    let purged: BTreeSet<_> = shared.sites.iter().filter(is_wanted).map(|site| site_name(site)).collect();
    for site in purged {
        // A run of an operator's list would forget the list, so it begins anew with it.
        match shared.warmer.current_order(site) {
            Some(order) => shared.warmer.order(site, WarmBegin::Ordered(order)),
            None => shared.warmer.order(site, WarmBegin::Configured),
        };
    }
}

/// Goes on with the runs of the process before this one, and begins those that the settings want.
async fn begin_at_start(shared: &Arc<Shared>) {
    let store = shared.store.stats();
    let is_empty = store.objects == 0 && store.shelved == 0;
    for site in sites(shared) {
        if let Some(state) = warm_file::read(shared, site).await {
            shared.warmer.order(site, WarmBegin::Resumed(state));
            continue;
        }
        let mut plans = shared.sites.iter().filter(|own| site_name(own) == site);
        let begins = plans.any(|own| own.plan.warm.as_ref().is_some_and(|warm| warm.on_start));
        if begins && is_empty {
            shared.warmer.order(site, WarmBegin::Configured);
        }
    }
}
