//! The table of coalesced fetches under way.
//!
//! Invariants: the table never holds two fetches that others may join and that would send the same
//! request. A request that finds neither a matching fetch nor a stored response starts the next
//! fetch. An invalidation revokes every fetch of its key in the table; fetches that begin later
//! cannot receive older data.
//!
//! Lock order: the table, then a shard of the store or the queue of the static tree. A fetch's
//! gate is never taken under the table's lock.

use crate::fetch::coalesced_fetch::{CoalescedFetch, FetchDemand, FetchProgress, SharedResponse};
use crate::memory::sync::{Mutex, MutexGuard, PoisonError};
use bytes::Bytes;
use defects::{Defect, is_planted};
use platform::HashMap;
use semantics::{VaryRule, canonical_target};
use std::borrow::Cow;
use std::sync::Arc;
use store::{FillingReader, Key, SiteId};

/// All coalesced fetches under way.
#[derive(Debug, Default)]
pub(crate) struct FetchTable {
    table: Mutex<HashMap<Key, Vec<Arc<CoalescedFetch>>>>,
}

/// The result for a request that is about to fetch.
#[derive(Debug)]
pub(crate) enum JoinResult<T> {
    /// The result of `find`.
    Found(T),
    /// A response whose body is arriving; the reader is at its first byte.
    Filling(Arc<SharedResponse>, FillingReader),
    /// A fetch without a response yet.
    Waiter(watch::Receiver<FetchProgress>),
    /// A new fetch, already in the table, which the caller must start.
    Leader(Arc<CoalescedFetch>),
}

impl FetchTable {
    /// Joins the fetch that serves a request with this key, or puts a new one into the table.
    ///
    /// `find` is called first, under the table's lock. A fetch publishes its response before it
    /// leaves the table, so a response is always found in one of the two places. `known` returns
    /// the rule that the store knows for the key, `begun` the sequence number of a new fetch.
    pub(crate) fn join<T>(
        &self,
        key: &Key,
        demand: FetchDemand<'_>,
        known: impl FnOnce() -> VaryRule,
        begun: impl FnOnce() -> u64,
        find: impl FnOnce() -> Option<T>,
        usable: impl Fn(&SharedResponse) -> bool,
    ) -> JoinResult<T> {
        let mut table = self.table();
        if let Some(found) = find() {
            return JoinResult::Found(found);
        }
        let fetches = table.entry(key.clone()).or_default();
        if let Some(joined) = fetches.iter().find_map(|fetch| fetch.join(demand, &usable)) {
            return joined;
        }
        let fetch = add(fetches, demand, known(), begun());
        fetch.is_awaited_by(demand);
        JoinResult::Leader(fetch)
    }

    /// Puts a fetch into the table that renews a stale object. Returns `None` if an equal fetch
    /// is under way, or if `is_renewed`, called under the table's lock, says that the object is
    /// fresh again.
    pub(crate) fn renew(
        &self,
        key: &Key,
        demand: FetchDemand<'_>,
        known: impl FnOnce() -> VaryRule,
        begun: impl FnOnce() -> u64,
        is_renewed: impl FnOnce() -> bool,
    ) -> Option<Arc<CoalescedFetch>> {
        let mut table = self.table();
        let under_way = table.get(key).is_some_and(|all| all.iter().any(|fetch| fetch.is_alike(demand)));
        if under_way || is_renewed() {
            return None;
        }
        Some(add(table.entry(key.clone()).or_default(), demand, known(), begun()))
    }

    /// Puts a fetch into the table that no request joins, so that an invalidation reaches it.
    pub(crate) fn register(
        &self,
        key: &Key,
        demand: FetchDemand<'_>,
        known: VaryRule,
        begun: impl FnOnce() -> u64,
    ) -> Arc<CoalescedFetch> {
        let mut table = self.table();
        let fetch = CoalescedFetch::new(known, FetchDemand { exclusive: true, ..demand }, begun());
        table.entry(key.clone()).or_default().push(Arc::clone(&fetch));
        fetch
    }

    /// Lets no further request join the fetch. It stays in the table, because it may still publish
    /// its response, and an invalidation must find it until then.
    pub(crate) fn close(&self, fetch: &CoalescedFetch) {
        let _table = self.table();
        fetch.close();
    }

    /// Removes a fetch from the table that publishes nothing more.
    pub(crate) fn remove(&self, key: &Key, fetch: &Arc<CoalescedFetch>) {
        take_out(&mut self.table(), key, fetch);
    }

    /// Removes a fetch from the table. `refresh` is called under the table's lock if the page was
    /// written to since the fetch began, so whoever finds the table without the fetch finds the
    /// refresh scheduled.
    pub(crate) fn end(&self, key: &Key, fetch: &Arc<CoalescedFetch>, refresh: impl FnOnce()) {
        let mut table = self.table();
        take_out(&mut table, key, fetch);
        if fetch.is_overtaken() {
            refresh();
        }
    }

    /// Revokes every fetch of `key`, under each percent-encoding, and removes it from the table.
    /// Only the requests that have already joined receive its response. Must be called before the
    /// store invalidates the key.
    pub(crate) fn invalidate(&self, key: &Key) {
        if is_planted(Defect::JoinAfterPurge) {
            return;
        }
        let mut table = self.table();
        let revoked = table.extract_if(|other, _| other.is_spelling_of(key));
        let revoked: Vec<_> = revoked.flat_map(|(_, fetches)| fetches).collect();
        drop(table);
        revoked.iter().for_each(|fetch| fetch.revoke());
    }

    /// Records that the page of `key` was written to, for the fetches of its path under every host
    /// and query, because equivalent targets have one path. A fetch too many costs a refresh.
    pub(crate) fn overtake(&self, key: &Key) {
        let path = path_of(key);
        let table = self.table();
        let of_page = table.iter().filter(|(other, _)| other.site() == key.site() && path_of(other) == path);
        of_page.flat_map(|(_, fetches)| fetches).for_each(|fetch| fetch.overtake());
    }

    /// The hosts, as in keys, of the site's pages that are being fetched and that `is_meant`
    /// selects.
    pub(crate) fn hosts(&self, site: SiteId, is_meant: impl Fn(&[u8]) -> bool) -> Vec<Bytes> {
        let table = self.table();
        let keys = table.keys().filter(|key| key.site() == site && is_meant(key.host()));
        keys.map(|key| Bytes::copy_from_slice(key.host())).collect()
    }

    /// Whether a fetch for `key` is under way that a request may join.
    pub(crate) fn is_under_way(&self, key: &Key) -> bool {
        self.table().get(key).is_some_and(|fetches| fetches.iter().any(|fetch| !fetch.is_closed()))
    }

    /// Number of fetches under way.
    pub(crate) fn len(&self) -> usize {
        self.table().values().map(Vec::len).sum()
    }

    fn table(&self) -> MutexGuard<'_, HashMap<Key, Vec<Arc<CoalescedFetch>>>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Adds a fetch to those of its key. Its rule is `known`, joined with the rules that responses
/// under way have stated.
fn add(
    fetches: &mut Vec<Arc<CoalescedFetch>>,
    demand: FetchDemand<'_>,
    known: VaryRule,
    begun: u64,
) -> Arc<CoalescedFetch> {
    let so_far = fetches.iter().filter_map(|fetch| fetch.rule_so_far());
    let fetch = CoalescedFetch::new(so_far.fold(known, |known, rule| known.union(&rule)), demand, begun);
    fetches.push(Arc::clone(&fetch));
    fetch
}

fn take_out(table: &mut HashMap<Key, Vec<Arc<CoalescedFetch>>>, key: &Key, fetch: &Arc<CoalescedFetch>) {
    if is_planted(Defect::FailedFetchStays) && fetch.has_failed() {
        return;
    }
    if let Some(fetches) = table.get_mut(key) {
        fetches.retain(|other| !Arc::ptr_eq(other, fetch));
        if fetches.is_empty() {
            table.remove(key);
        }
    }
}

/// The path of a key in its canonical spelling.
fn path_of(key: &Key) -> Cow<'_, [u8]> {
    canonical_target(key.target().split(|byte| *byte == b'?').next().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::{FetchTable, JoinResult};
    use crate::fetch::coalesced_fetch::{FetchDemand, FetchState};
    use bytes::Bytes;
    use message::Fields;
    use origin::FetchError;
    use semantics::VaryRule;
    use std::future::poll_fn;
    use std::sync::Arc;
    use std::task::Poll;
    use store::{Key, SiteId};

    fn key(target: &'static str) -> Key {
        Key::new(SiteId(0), false, b"a.test", Bytes::from_static(target.as_bytes()))
    }

    fn ask(fetches: &FetchTable, key: &Key, range: Option<&[u8]>, exclusive: bool) -> JoinResult<()> {
        let fields = Fields::new();
        fetches.join(
            key,
            FetchDemand { fields: &fields, range, exclusive, is_robot: true, client: None },
            VaryRule::default,
            || 0,
            || None,
            |_| true,
        )
    }

    fn join(fetches: &FetchTable, key: &Key) -> JoinResult<()> {
        ask(fetches, key, None, false)
    }

    #[test]
    fn second_request_waits_and_the_first_after_the_end_leads() {
        let fetches = FetchTable::default();
        let JoinResult::Leader(fetch) = join(&fetches, &key("/a")) else { panic!("no leader") };
        assert!(matches!(join(&fetches, &key("/a")), JoinResult::Waiter(_)));
        assert!(matches!(join(&fetches, &key("/b")), JoinResult::Leader(_)));
        fetch.announce(FetchState::Failed(FetchError::Refused));
        fetches.remove(&key("/a"), &fetch);
        assert!(matches!(join(&fetches, &key("/a")), JoinResult::Leader(_)));
        assert_eq!(fetches.len(), 2);
    }

    #[test]
    fn requests_for_other_parts_and_solo_requests_do_not_join() {
        let fetches = FetchTable::default();
        assert!(matches!(join(&fetches, &key("/a")), JoinResult::Leader(_)));
        let range: Option<&[u8]> = Some(b"bytes=0-1");
        assert!(matches!(ask(&fetches, &key("/a"), range, false), JoinResult::Leader(_)));
        assert!(matches!(ask(&fetches, &key("/a"), range, false), JoinResult::Waiter(_)));
        assert!(matches!(ask(&fetches, &key("/a"), Some(b"bytes=1-"), false), JoinResult::Leader(_)));
        assert!(matches!(ask(&fetches, &key("/a"), None, true), JoinResult::Leader(_)));
        assert!(matches!(ask(&fetches, &key("/b"), None, true), JoinResult::Leader(_)));
        assert!(
            matches!(join(&fetches, &key("/b")), JoinResult::Leader(_)),
            "no request waits for an exclusive request"
        );
    }

    #[test]
    fn stale_object_is_renewed_by_one_flight_at_a_time() {
        let fetches = FetchTable::default();
        let fields = Fields::new();
        let renew = |range, exclusive, is_renewed| {
            let demand = FetchDemand { fields: &fields, range, exclusive, is_robot: true, client: None };
            fetches.renew(&key("/a"), demand, VaryRule::default, || 0, || is_renewed)
        };
        assert!(renew(None, false, true).is_none() && fetches.len() == 0);
        let fetch = renew(None, true, false).unwrap();
        assert!(renew(None, true, false).is_none() && renew(None, false, false).is_none());
        assert!(renew(Some(b"bytes=0-1"), false, false).is_some(), "a part is something else");
        fetches.remove(&key("/a"), &fetch);
        assert!(renew(None, false, false).is_some());
    }

    #[test]
    fn first_final_state_is_not_replaced() {
        let fetches = FetchTable::default();
        let JoinResult::Leader(fetch) = join(&fetches, &key("/a")) else { panic!("no leader") };
        fetch.announce(FetchState::Failed(FetchError::Refused));
        fetch.announce(FetchState::Failed(FetchError::Closed));
        assert!(matches!(fetch.subscribe().borrow().state, FetchState::Failed(FetchError::Refused)));
    }

    #[test]
    fn object_found_under_the_lock_prevents_a_flight() {
        let (fetches, fields) = (FetchTable::default(), Fields::new());
        let demand =
            FetchDemand { fields: &fields, range: None, exclusive: false, is_robot: true, client: None };
        let joined = fetches.join(&key("/a"), demand, VaryRule::default, || 0, || Some(1), |_| true);
        assert!(matches!(joined, JoinResult::Found(1)));
        assert_eq!(fetches.len(), 0);
    }

    #[test]
    fn invalidated_flight_publishes_nothing_and_cannot_be_joined() {
        let fetches = FetchTable::default();
        let JoinResult::Leader(fetch) = join(&fetches, &key("/a")) else { panic!("no leader") };
        let mut published = 0;
        fetch.publish(|| published += 1);
        fetches.invalidate(&key("/b"));
        fetch.publish(|| published += 1);
        fetches.invalidate(&key("/a"));
        fetch.publish(|| published += 1);
        assert_eq!(published, 2);
        assert!(matches!(join(&fetches, &key("/a")), JoinResult::Leader(_)));
    }

    #[test]
    fn closed_flight_is_not_joined_but_invalidated() {
        let fetches = FetchTable::default();
        let JoinResult::Leader(fetch) = join(&fetches, &key("/a")) else { panic!("no leader") };
        fetches.close(&fetch);
        assert!(!fetches.is_under_way(&key("/a")), "no request can wait for it");
        assert!(matches!(join(&fetches, &key("/a")), JoinResult::Leader(_)));
        assert_eq!(fetches.hosts(SiteId(0), |_| true), ["a.test"]);
        fetches.invalidate(&key("/a"));
        let mut published = false;
        fetch.publish(|| published = true);
        assert!(!published && fetches.len() == 0);
    }

    #[tokio::test]
    async fn unawaited_is_ready_once_the_last_waiter_is_gone() {
        let fetches = FetchTable::default();
        let JoinResult::Leader(fetch) = join(&fetches, &key("/a")) else { panic!("no leader") };
        let waits = fetch.subscribe();
        let mut unawaited = std::pin::pin!(fetch.unawaited());
        let polled = poll_fn(|context| Poll::Ready(unawaited.as_mut().poll(context))).await;
        assert!(polled.is_pending());
        drop(waits);
        unawaited.await;
    }

    #[test]
    fn removed_flight_is_not_kept_alive_by_the_table() {
        let fetches = FetchTable::default();
        let JoinResult::Leader(fetch) = join(&fetches, &key("/a")) else { panic!("no leader") };
        fetches.remove(&key("/a"), &fetch);
        assert_eq!(Arc::strong_count(&fetch), 1);
    }
}
