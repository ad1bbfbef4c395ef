//! Purges: reads purge orders and carries them out.
//!
//! Invariants: once an order was answered, no later request receives a response that it purged. If
//! the answer was 200, that holds after a restart too. An order from a client that may not purge is
//! refused and never forwarded; `purge_access` says which clients may. Orders run on blocking
//! threads, so that many of them do not delay clients.
//!
//! `purge` parses an order, `reach` determines its sites and hosts, and the store is the barrier
//! itself.

use crate::control::counters::{Cells, Metric};
use crate::control::purge_access::{Denied, Entrance};
use crate::control::reach::{self, SiteScope};
use crate::shared::Shared;
use crate::sites::Site;
use crate::upkeep::persisting::{lose_in_time, persist_in_time};
use crate::upkeep::warming;
use bytes::{Bytes, BytesMut};
use invalidation::Mode;
use message::{Method, RequestHead, ResponseHead, Status};
use net::Peer;
use purge::{
    ConditionBan, HostPages, Malformed, OrderItem, PurgeOrder, PurgeOutcome, PurgeReply, PurgeScope, Reach,
    Style, api, signals,
};
use std::sync::Arc;
use store::{InvalidationResult, Key, Selector, SiteId};

/// Why an order is not carried out.
pub(crate) enum OrderRefusal {
    /// Its client may not purge.
    Forbidden(Denied),
    /// It cannot be parsed.
    Malformed(Malformed),
}

/// The order of a client's request with a purge method.
pub(crate) fn read_order(
    shared: &Shared,
    peer: Peer,
    head: &RequestHead,
) -> Result<PurgeOrder, OrderRefusal> {
    shared.purge_access.may_purge(Entrance::Visitors, peer, &head.fields).map_err(OrderRefusal::Forbidden)?;
    purge::read(head).map_err(OrderRefusal::Malformed)
}

/// Carries out an order.
pub(crate) async fn carry_out(shared: &Arc<Shared>, order: &PurgeOrder) -> PurgeOutcome {
    note_purge(shared, order);
    let invalidations = order.invalidations.clone();
    let outcome = perform(shared, Task { invalidations, own: None }).await;
    if order.style == Style::Refreshing && order.refill != Some(false) {
        refresh(shared, order);
    } else if order.refill.unwrap_or(shared.plan.refill.enabled) {
        shared.refiller.wake();
    }
    outcome
}

/// The answer to an order that was carried out.
pub(crate) fn reply(shared: &Shared, order: &PurgeOrder, outcome: PurgeOutcome) -> PurgeReply {
    let partial = Status::from_code(shared.plan.purge_partial_status);
    purge::reply(order, outcome, partial.unwrap_or(Status::SERVICE_UNAVAILABLE))
}

/// Records for each site that an authorised client purged pages of it. An order for a whole
/// site is not recorded, because it may come from an operator.
fn note_purge(shared: &Shared, order: &PurgeOrder) {
    if order.style == Style::Refreshing {
        return;
    }
    let now = shared.clock.monotonic();
    for OrderItem { scope, .. } in &order.invalidations {
        let sites = match scope {
            PurgeScope::Target { host, .. }
            | PurgeScope::Prefix { host, .. }
            | PurgeScope::Pattern { host, .. } => {
                reach::scopes(&shared.sites, host).iter().map(|site_scope| site_scope.site.id).collect()
            }
            PurgeScope::Tags { reach, .. } | PurgeScope::Ban { reach, .. } => reached(shared, reach),
            PurgeScope::Host { .. } | PurgeScope::Everything { .. } => Vec::new(),
        };
        let sites = shared.sites.iter().filter(|site| sites.contains(&site.id));
        sites.for_each(|site| site.writes.note_purge(now));
    }
}

/// Orders the refetch of the purged pages that are stored. If none is stored, the named page is
/// fetched.
fn refresh(shared: &Shared, order: &PurgeOrder) {
    for OrderItem { scope, .. } in &order.invalidations {
        let PurgeScope::Target { host, target } = scope else { continue };
        let scopes = reach::scopes(&shared.sites, host);
        let stored = |scope: &SiteScope<'_>| scope.stored_keys(shared, &scope.keyed(target));
        let mut keys: Vec<_> = scopes.iter().flat_map(stored).collect();
        if keys.is_empty() {
            // Other routes would store an answer of an application that the page is not of.
            let meant = reach::page_site(&shared.sites, host, target);
            let is_meant = |scope: &&SiteScope<'_>| meant.is_none_or(|site| scope.site.id == site.id);
            keys.extend(scopes.iter().filter(is_meant).map(|scope| scope.own_key(&scope.keyed(target))));
        }
        keys.iter().for_each(|key| shared.refiller.order(key));
    }
}

/// The order of a GET request that wants its page fetched again, if its client may purge.
pub(crate) fn read_refresh(shared: &Shared, peer: Peer, head: &RequestHead) -> Option<PurgeOrder> {
    let order = purge::refresh_by_get(head)?;
    shared.purge_access.may_purge(Entrance::Visitors, peer, &head.fields).ok()?;
    Some(order)
}

/// Whether a request head beyond the usual limit is read further: its beginning must be a purge
/// order from a client that may purge.
pub(crate) fn admits_longer_head(shared: &Shared, entrance: Entrance, peer: Peer, begun: &[u8]) -> bool {
    let is_order = |head: &RequestHead| {
        purge::is_purge_method(&head.method) || api::ApiRoute::of(&head.target).is_some()
    };
    let Some(head) = beginning(begun).filter(is_order) else { return false };
    // A token may still follow; it is checked when the head is complete.
    shared.purge_access.may_purge(entrance, peer, &head.fields).is_ok()
        || shared.purge_access.may_show_token_late(entrance, peer)
}

/// Carries out the invalidations of an origin's response: `pages` and `changed` by a write, and
/// those that the response orders in `X-LiteSpeed-Purge`, `Cache-Group-OrderItem` and other
/// fields. A response can only invalidate pages of its own site.
pub(crate) async fn obey(
    shared: &Arc<Shared>,
    cells: &Cells,
    method: &Method,
    answer: &ResponseHead,
    key: &Key,
    pages: Vec<Key>,
    changed: Vec<OrderItem>,
) {
    let signals = signals(method, answer, key.is_https(), key.host());
    cells.add(Metric::PurgesMalformed, signals.malformed.len() as u64);
    cells.add(Metric::PurgesByAnswers, signals.invalidations.len() as u64);
    make_unusable(shared, key, pages, [signals.invalidations, changed].concat()).await;
}

/// Carries out invalidations for the site of `key`, and purges `pages` under all names of the
/// site. They are carried out even if the returned future is dropped after its first poll.
pub(crate) async fn make_unusable(
    shared: &Arc<Shared>,
    key: &Key,
    pages: Vec<Key>,
    invalidations: Vec<OrderItem>,
) {
    if pages.is_empty() && invalidations.is_empty() {
        return;
    }
    let own = Some(key.detached());
    let remove = |page: Key| {
        let (host, target) = (Bytes::copy_from_slice(page.host()), Bytes::copy_from_slice(page.target()));
        OrderItem { scope: PurgeScope::Target { host, target }, mode: Mode::Hard }
    };
    let invalidations: Vec<_> = pages.into_iter().map(remove).chain(invalidations).collect();
    let shared = Arc::clone(shared);
    // In a task of its own, because a caller may stop waiting, for example when a stored
    // response replaces a late one. What the origin has ordered must be carried out all the
    // same.
    let performing = tokio::spawn(async move {
        perform(&shared, Task { invalidations, own }).await;
        if shared.plan.refill.enabled {
            shared.refiller.wake();
        }
    });
    if let Err(error) = performing.await
        && let Ok(panic) = error.try_into_panic()
    {
        std::panic::resume_unwind(panic);
    }
}

async fn perform(shared: &Arc<Shared>, task: Task) -> PurgeOutcome {
    // Cannot fail, because the semaphore is never closed.
    let turn = shared.orders.acquire().await;
    let task = Arc::new(task);
    let (held, performing) = (Arc::clone(shared), Arc::clone(&task));
    let performed = threads::run_aside(move || performing.perform_in_force(&held)).await;
    // If no thread is available, for example during shutdown, the order is carried out here.
    let mut outcome = performed.unwrap_or_else(|| task.perform_in_force(shared));
    // The purge is in force now. A hanging disk must not delay the next purges, so the turn
    // ends here.
    drop(turn);
    warming::begin_after_purge(shared, |site| task.is_of_all_pages(shared, site));
    outcome.in_tree = !lose_in_time(shared).await;
    outcome.undurable = !persist_in_time(shared).await;
    outcome
}

/// The sites that `reach` covers.
fn reached(shared: &Shared, reach: &Reach) -> Vec<SiteId> {
    match reach {
        Reach::Site(host) => {
            reach::scopes(&shared.sites, host).iter().map(|site_scope| site_scope.site.id).collect()
        }
        Reach::Everywhere => shared.sites.iter().map(|site| site.id).collect(),
    }
}

/// Invalidations to be carried out.
struct Task {
    invalidations: Vec<OrderItem>,
    /// A key of the only site that may be affected; `None` for all sites.
    own: Option<Key>,
}

impl Task {
    /// Performs the task under its own plan and under each that is in force before it has ended. A
    /// reload may have given a site another number, under which pages are stored from then on. Then
    /// waits until it is in force in a process that serves instead of this one.
    fn perform_in_force(&self, shared: &Arc<Shared>) -> PurgeOutcome {
        let mut plan = Arc::clone(shared);
        let mut outcome = self.perform(&plan);
        while !plan.is_current() {
            plan = plan.current();
            let more = self.of_plan(shared, &plan).perform(&plan);
            outcome.sequence = outcome.sequence.max(more.sequence);
            outcome.purged += more.purged;
            outcome.softened += more.softened;
            outcome.uncounted += more.uncounted;
        }
        shared.persistence.put_in_force();
        outcome
    }

    /// The same task for the site that has the host of its page under a later plan.
    fn of_plan(&self, earlier: &Shared, later: &Shared) -> Self {
        let own = self.own.as_ref().map(|key| {
            let own = earlier.sites.iter().find(|site| site.id == key.site());
            let site = later.sites.iter().find(|site| own.is_some_and(|own| own.is_of_same_host(site)));
            let named = || later.sites.named(&reach::name_of(key.host())).unwrap_or_default();
            let site = site
                .or_else(|| named().first().copied())
                .or_else(|| later.sites.unnamed().first().copied())
                .map_or_else(|| key.site(), |site| site.id);
            Key::new(site, key.is_https(), key.host(), Bytes::copy_from_slice(key.target()))
        });
        Self { invalidations: self.invalidations.clone(), own }
    }

    fn perform(&self, shared: &Shared) -> PurgeOutcome {
        let mut outcome = PurgeOutcome::default();
        for OrderItem { scope, mode } in &self.invalidations {
            self.invalidate(shared, scope, *mode, &mut outcome);
        }
        shared.sweeper.wake();
        outcome
    }

    fn invalidate(&self, shared: &Shared, scope: &PurgeScope, mode: Mode, outcome: &mut PurgeOutcome) {
        let tell = |selector| shared.tell(store::Invalidation { selector, mode });
        if let PurgeScope::Target { host, target } = scope {
            for site_scope in self.scopes(shared, host) {
                let target = site_scope.keyed(target);
                match site_scope.target(shared, &target) {
                    Ok(selector) => add(outcome, mode, tell(selector)),
                    Err(hosts) => hosts.iter().for_each(|host| {
                        let key = Key::new(site_scope.site.id, false, host, target.clone());
                        add(outcome, mode, shared.invalidate(&key, mode));
                    }),
                }
            }
            return;
        }
        self.selectors(shared, scope).into_iter().for_each(|selector| add(outcome, mode, tell(selector)));
    }

    /// Whether all pages of a site, or of the host that its cache is filled with, are purged.
    fn is_of_all_pages(&self, shared: &Shared, site: &Site) -> bool {
        let is_whole = |scope: &SiteScope<'_>| scope.site.id == site.id && scope.is_filled_whole();
        self.invalidations.iter().any(|OrderItem { scope, .. }| match scope {
            PurgeScope::Host { host } => self.scopes(shared, host).iter().any(is_whole),
            PurgeScope::Everything { reach } => match &self.own {
                Some(key) => shared.sites.of_host_of(key.site()).any(|own| own.id == site.id),
                None => reached(shared, reach).contains(&site.id),
            },
            _ => false,
        })
    }

    /// The store's selectors, for each affected site.
    fn selectors(&self, shared: &Shared, scope: &PurgeScope) -> Vec<Selector> {
        let sites = |reach| match &self.own {
            Some(key) => shared.sites.of_host_of(key.site()).map(|site| site.id).collect(),
            None => reached(shared, reach),
        };
        let on = |host, told: &dyn Fn(SiteScope<'_>) -> Vec<Selector>| {
            self.scopes(shared, host).into_iter().flat_map(told).collect()
        };
        match scope {
            PurgeScope::Target { host, target } => {
                on(host, &|site_scope| vec![site_scope.ban(HostPages::Target(site_scope.keyed(target)))])
            }
            PurgeScope::Prefix { host, prefix } => on(host, &|site_scope| site_scope.prefix(shared, prefix)),
            PurgeScope::Pattern { host, pattern } => {
                on(host, &|site_scope| vec![site_scope.ban(HostPages::Pattern(pattern.clone()))])
            }
            PurgeScope::Host { host } => on(host, &|site_scope| site_scope.everything(shared)),
            PurgeScope::Tags { reach, any_of, all_of } => {
                let tags = |site| Selector::Tags { site, any_of: any_of.clone(), all_of: all_of.clone() };
                sites(reach).into_iter().map(tags).collect()
            }
            PurgeScope::Ban { reach, ban } => {
                let ban = |site| Selector::Ban { site, ban: Arc::<ConditionBan>::clone(ban) };
                sites(reach).into_iter().map(ban).collect()
            }
            PurgeScope::Everything { reach: Reach::Everywhere } if self.own.is_none() => {
                vec![Selector::Everything { site: None }]
            }
            PurgeScope::Everything { reach } => {
                sites(reach).into_iter().map(|site| Selector::Everything { site: Some(site) }).collect()
            }
        }
    }

    fn scopes<'a>(&self, shared: &'a Shared, host: &Bytes) -> Vec<SiteScope<'a>> {
        match &self.own {
            Some(key) => reach::own_scopes(&shared.sites, key),
            None => reach::scopes(&shared.sites, host),
        }
    }
}

/// Parses the complete lines at the beginning of a head.
fn beginning(begun: &[u8]) -> Option<RequestHead> {
    let end = begun.windows(2).rposition(|window| window == b"\r\n")? + 2;
    let mut octets = BytesMut::from([begun.get(..end)?, b"\r\n"].concat().as_slice());
    let limits = h1::Limits {
        head_bytes_max: octets.len(),
        target_bytes_max: octets.len(),
        fields_max: h1::Limits::FIELDS_CEILING,
        ..h1::Limits::DEFAULT
    };
    let read = h1::parse_request(&mut octets, &limits, h1::Strictness::Tolerant);
    read.ok().flatten().map(|request| request.head)
}

/// Adds the result of one invalidation.
fn add(outcome: &mut PurgeOutcome, mode: Mode, done: InvalidationResult) {
    outcome.sequence = outcome.sequence.max(done.sequence);
    outcome.uncounted += u64::from(done.objects.is_none());
    let objects = done.objects.unwrap_or(0);
    match mode {
        Mode::Hard => outcome.purged += objects,
        Mode::Soft => outcome.softened += objects,
    }
}

#[cfg(test)]
mod tests {
    use super::{Task, obey, perform};
    use crate::shared::{ORDERS_MAX, Shared};
    use crate::system::System;
    use crate::upkeep::persistence::Persistence;
    use bytes::Bytes;
    use config::EdgePlan;
    use disk::TierSettings;
    use invalidation::Mode;
    use message::{Method, ResponseHead, Status};
    use platform::{HangingDisk, SystemDisk};
    use purge::{OrderItem, PurgeScope, Reach};
    use std::sync::Arc;
    use std::time::Duration;
    use store::{Key, SiteId};

    /// Longer than the test waits for anything.
    const FOREVER: Duration = Duration::from_secs(3600);

    #[tokio::test]
    async fn purges_are_in_force_while_others_wait_for_a_hung_disk() {
        let directory = tempfile::tempdir().unwrap();
        let disk = HangingDisk::new(SystemDisk);
        let settings = TierSettings {
            directory: directory.path().join("disk"),
            state_directory: Some(directory.path().join("state")),
            timeout: FOREVER,
            ..TierSettings::default()
        };
        let mut plan = EdgePlan::for_origin("http://127.0.0.1:9".parse().unwrap());
        plan.limits.disk_timeout = FOREVER;
        let persistence = Persistence::of_unopened(Arc::new(disk.clone()), settings);
        let shared = Shared::new(plan, None, System::of_machine()).with_persistence(persistence);
        let shared = Arc::new(shared);
        disk.freeze();
        let purge = |_| {
            let shared = Arc::clone(&shared);
            let scope = PurgeScope::Everything { reach: Reach::Everywhere };
            let invalidations = vec![OrderItem { scope, mode: Mode::Hard }];
            tokio::spawn(async move { perform(&shared, Task { invalidations, own: None }).await })
        };
        let purges: Vec<_> = (0..2 * ORDERS_MAX).map(purge).collect();
        let in_force = async {
            while shared.store.sequence() < 2 * ORDERS_MAX as u64 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        let in_force = tokio::time::timeout(testkit::PATIENCE, in_force).await;
        let sequence = shared.store.sequence();
        disk.thaw();
        assert!(in_force.is_ok(), "{sequence} of {} purges are in force", purges.len());
        for purge in purges {
            assert!(!purge.await.unwrap().undurable);
        }
    }

    #[tokio::test]
    async fn order_of_a_response_outlives_the_wait_for_it() {
        let plan = EdgePlan::for_origin("http://127.0.0.1:9".parse().unwrap());
        let shared = Arc::new(Shared::new(plan, None, System::of_machine()));
        let turns = shared.orders.acquire_many(u32::try_from(ORDERS_MAX).unwrap()).await.unwrap();
        let mut answer = ResponseHead::new(Status::OK);
        answer.fields.push("X-LiteSpeed-Purge", "news");
        let key = Key::new(SiteId(0), false, b"a.test", Bytes::from_static(b"/"));
        let obeying = obey(&shared, shared.cells(0), &Method::Get, &answer, &key, Vec::new(), Vec::new());
        assert!(tokio::time::timeout(Duration::ZERO, obeying).await.is_err(), "all turns are taken");
        drop(turns);
        let in_force = async {
            while shared.store.sequence() == 0 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        assert!(tokio::time::timeout(testkit::PATIENCE, in_force).await.is_ok());
    }
}
