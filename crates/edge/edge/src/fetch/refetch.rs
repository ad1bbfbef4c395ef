//! Fetches a page again without any particular client.
//!
//! Invariant: the request consists of the page's key and its negotiated fields, and contains
//! nothing of any client.

use crate::fetch::base::Base;
use crate::fetch::coalesced_fetch::{CoalescedFetch, FetchDemand};
use crate::fetch::table_entry::TableEntry;
use crate::fetch::task::FetchTask;
use crate::memory::hot_pages::PageVariant;
use crate::request::forward;
use crate::request::guard::RequestSubject;
use crate::shared::Shared;
use crate::sites::Site;
use bytes::Bytes;
use message::Method;
use std::sync::Arc;
use store::Lookup;

/// A fetch for a page, which the caller must run. `None` if an equal one is under way, or if
/// `is_renewed` says that the fetch is no longer needed. It is called under the lock of the fetch
/// table. `base` is the stored object, for the origin to confirm.
pub(crate) fn task(
    shared: &Arc<Shared>,
    worker: usize,
    site: &Arc<Site>,
    page: &PageVariant,
    base: Option<Base>,
    is_renewed: impl FnOnce() -> bool,
) -> Option<(Arc<CoalescedFetch>, FetchTask)> {
    let PageVariant { key, fields, rule } = page;
    let fetch = shared.fetches.renew(
        key,
        FetchDemand { fields, range: None, exclusive: false, is_robot: true, client: None },
        || shared.store.known_rule(key).union(rule),
        || shared.store.sequence(),
        is_renewed,
    )?;
    let (host, target) = (Bytes::copy_from_slice(key.host()), Bytes::copy_from_slice(key.target()));
    let (https, rules) = (key.is_https(), site.rules());
    let subject = RequestSubject { site, host, target, https, trusted: false, peer: None, rules };
    let head = forward::shared_head(&subject, &shared.loop_mark, key, Method::Get, fields, fetch.known());
    let mut asks = forward::fetch_fields(None, base.as_ref(), fields, site.policy());
    let trace = forward::begin_trace(shared, &mut asks);
    let Ok(request) = forward::without_content(&forward::with_fields(&head, asks)) else {
        shared.fetches.remove(key, &fetch);
        return None;
    };
    let task = FetchTask {
        shared: Arc::clone(shared),
        worker,
        site: Arc::clone(site),
        key: key.clone(),
        head,
        request,
        entry: TableEntry::of(shared, key, &fetch),
        fetch: Arc::clone(&fetch),
        base: base.map(|base| base.object),
        impersonal: true,
        trace,
    };
    Some((fetch, task))
}

/// The stored object of the page, for the origin to confirm. `is_ordered`: the page is fetched
/// although it may be fresh.
pub(crate) fn stored_base(shared: &Shared, page: &PageVariant, is_ordered: bool) -> Option<Base> {
    match shared.store.peek(&page.key, &page.fields) {
        Lookup::Found { object, softened } => {
            let whole = Some(object).filter(|object| object.part().is_none());
            whole.map(|object| Base::new(object, softened || is_ordered))
        }
        Lookup::Shelved(_) | Lookup::NoVariant | Lookup::Absent => None,
    }
}
