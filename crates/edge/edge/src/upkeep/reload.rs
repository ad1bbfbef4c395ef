//! Reload: puts the changed configuration in force while the edge runs.
//!
//! Invariant: either everything of the new configuration is in force from the next request on, or
//! nothing is and the reason is known. Sites whose settings did not change keep their pages, their
//! connections and what is known about their origins.

use crate::control::counters::Metric;
use crate::control::token;
use crate::listeners::Listeners;
use crate::memory::issuance::terms;
use crate::origins;
use crate::shared::Shared;
use crate::sites::{Site, Sites};
use crate::upkeep::service_manager;
use config::EdgePlan;
use invalidation::Mode;
use origin::Origin;
use std::sync::Arc;
use store::{Invalidation, Selector, SiteId};

/// The changes of a reload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReloadSummary {
    /// Sites that go on unchanged.
    pub(crate) unchanged: usize,
    /// Sites with new settings that keep their pages.
    pub(crate) changed: usize,
    /// Sites that begin without pages: new ones, and those whose pages depend on what changed.
    pub(crate) new: usize,
    /// Sites whose names are gone.
    pub(crate) gone: usize,
}

impl ReloadSummary {
    fn of(old: &Sites, new: &Sites) -> Self {
        let is_old = |site: &&Arc<Site>| old.iter().any(|before| Arc::ptr_eq(site, before));
        let is_gone = |before: &&Arc<Site>| !new.iter().any(|site| site.plan.names == before.plan.names);
        let unchanged = new.iter().filter(is_old).count();
        let kept = new.iter().filter(|site| old.has(site.id)).count();
        Self {
            unchanged,
            changed: kept - unchanged,
            new: new.iter().count() - kept,
            gone: old.iter().filter(is_gone).count(),
        }
    }
}

impl std::fmt::Display for ReloadSummary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { unchanged, changed, new, gone } = self;
        write!(
            f,
            "the configuration was read again; sites: {unchanged} unchanged, {changed} changed with their \
             pages kept, {new} new or changed without pages, {gone} gone"
        )
    }
}

/// Reloads, and reports the outcome. One reload runs at a time. Blocks.
///
/// # Errors
/// Why the configuration cannot be used. Nothing has changed then.
pub(crate) fn reload(shared: &Arc<Shared>) -> Result<ReloadSummary, String> {
    let Some(_turn) = shared.reload_turn() else {
        return Err("another reload is under way".to_owned());
    };
    if shared.is_draining() {
        return Err("the edge ends".to_owned());
    }
    let old = shared.current();
    service_manager::reloading();
    let outcome = try_reload(&old);
    service_manager::ready();
    match &outcome {
        Ok(summary) => {
            tracing::info!("{summary}");
            old.cells(0).count(Metric::Reloads);
        }
        Err(why) => {
            tracing::error!("the configuration was not read again, and the old one stays in force: {why}");
            old.cells(0).count(Metric::ReloadsRefused);
        }
    }
    outcome
}

fn try_reload(old: &Arc<Shared>) -> Result<ReloadSummary, String> {
    let source = old.plan_source().ok_or("this edge has no configuration that could be read again")?;
    let mut plan = source()?;
    let fixed = old.plan.fixed_changes(&plan);
    if !fixed.is_empty() {
        return Err(format!("a running edge cannot change {}; restart it for that", fixed.join(", ")));
    }
    // The bound addresses have the ports that the system chose.
    for (new, bound) in plan.listeners.iter_mut().zip(&old.plan.listeners) {
        new.address = bound.address.clone();
    }
    plan.admin = old.plan.admin.clone();
    let token = match old.kept_token() {
        Some(kept) => Some(kept.clone()),
        None => token::obtain(&plan).map_err(|error| error.to_string())?,
    };
    let listeners = listeners(old, &plan)?;
    let secured = origins::open(&plan).map_err(|errors| lines(&errors))?;
    let sites = old.sites.after(&plan, &secured, &old.system, &old.last_site);
    let summary = ReloadSummary::of(&old.sites, &sites);
    // Known before a page of theirs can be written.
    old.persistence.learn(&sites);
    // Before the new plan is in force, so that a purge under it is journaled after this: a restart
    // that knows the purge then knows that these pages are gone, too.
    let ids = old.sites.iter().map(|site| site.id);
    ids.filter(|id| !sites.has(*id)).for_each(|id| forget(old, id));
    // An earlier process may have stored pages of a site with the settings of a new one. Those that
    // have not been adopted yet may be older than purges under the settings in between.
    let ids = sites.iter().map(|site| site.id);
    ids.filter(|id| !old.sites.has(*id)).for_each(|id| invalidate(old, id));
    let new = old.replace(plan, sites, listeners, token);
    let is_used = |origin: &Arc<Origin>| {
        let mut used = new.sites.iter().flat_map(|site| site.origin.origins());
        used.any(|used| Arc::ptr_eq(used, origin))
    };
    let known = old.sites.iter().flat_map(|site| site.origin.origins());
    known.filter(|origin| !is_used(origin)).for_each(|origin| origin.retire());
    // A web server would go on sending the files of pages that are gone.
    new.static_tree.lose(&new.store);
    Ok(summary)
}

/// The listeners of the new plan. If nothing about TLS has changed, they go on, and clients can
/// resume their sessions. A file with authorities of clients is read again, because the operator
/// may have taken one out.
fn listeners(old: &Shared, plan: &EdgePlan) -> Result<Arc<Listeners>, String> {
    let same = old.plan.listeners.iter().zip(&plan.listeners).all(|(old, new)| old.has_same_tls(new));
    let is_same_admin = old.plan.admin_tls == plan.admin_tls;
    let has_clients = plan.admin_tls.as_ref().is_some_and(|tls| tls.client_authorities.is_some());
    let opened = match same && terms(&old.plan) == terms(plan) {
        true if is_same_admin && !has_clients => return Ok(Arc::clone(&old.listeners)),
        true => old.listeners.with_admin_of(plan),
        false => Listeners::open(plan, old.clock.now(), Arc::clone(&old.listeners.issuance)),
    };
    opened.map(Arc::new).map_err(|errors| lines(&errors))
}

fn lines(errors: &[impl ToString]) -> String {
    errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n  ")
}

/// Frees the pages of a removed site, and lets no late response store another one. Purges do not
/// reach them any more, and with the same settings a later process would use those on the disk.
fn forget(shared: &Shared, site: SiteId) {
    // First, so that each page that was stored before is older than the invalidation.
    shared.store.retire(site);
    invalidate(shared, site);
    shared.sweeper.wake();
}

/// Invalidates all pages of a site that are stored, or on the disk and not adopted yet.
fn invalidate(shared: &Shared, site: SiteId) {
    shared.tell(Invalidation { selector: Selector::Everything { site: Some(site) }, mode: Mode::Hard });
}
