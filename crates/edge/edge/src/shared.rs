//! The state that all workers share. It is built once from the plan.
//!
//! Invariant: every part can be used from any worker at any time. A hit takes a single lock of it,
//! that of one store shard, and writes to no memory that another worker writes to.

use crate::control::access_log::AccessLog;
use crate::control::counters::{Cells, EdgeCounters, Metric};
use crate::control::purge_access::PurgeAccess;
use crate::fetch::fetch_table::FetchTable;
use crate::fetch::read_queues::ReadQueues;
use crate::listeners::Listeners;
use crate::memory::address_limit::AddressLimit;
use crate::memory::budget::MemoryShare;
use crate::memory::buffers::Buffers;
use crate::memory::complaints::Complaints;
use crate::memory::disk_turns::DiskTurns;
use crate::memory::ending::Ending;
use crate::memory::equivalents::Equivalents;
use crate::memory::hit_for_miss::HitForMiss;
use crate::memory::hot_pages::HotPages;
use crate::memory::leak_guard::LeakGuard;
use crate::memory::refiller::Refiller;
use crate::memory::refreshes::PageRefreshes;
use crate::memory::sweeper::Sweeper;
use crate::memory::verifier::Verifier;
use crate::sites::Sites;
use crate::system::System;
use crate::upkeep::disk_threads::DiskThreads;
use crate::upkeep::persistence::{self, Persistence};
use crate::upkeep::tree::StaticTree;
use bytes::Bytes;
use clock::Clock;
use config::{EdgeLimits, EdgePlan};
use defects::{Defect, is_planted};
use disk::Recovery;
use invalidation::Mode;
use net::Peer;
use platform::HashKeys;
use semantics::Reason;
use std::fmt;
use std::hash::BuildHasher;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use store::{Invalidation, InvalidationResult, Key, Selector, Store, StoreLimits};
use tokio::sync::{Notify, Semaphore};

/// One in this many bytes of `plan.memory_bytes` is reserved for bodies outside the store. These
/// are bodies that are being fetched, passed through or read back from disk, and evicted bodies
/// that slow clients still read. The store gets the rest, less the share of the buffers.
const TRANSIT_SHARE: u64 = 8;

/// Maximum number of purge orders carried out in memory at the same time; others wait.
pub(crate) const ORDERS_MAX: usize = 4;

/// The state of a running edge, shared by its workers and background threads.
pub(crate) struct Shared {
    pub(crate) plan: EdgePlan,
    pub(crate) limits: Arc<EdgeLimits>,
    pub(crate) sites: Sites,
    pub(crate) listeners: Listeners,
    pub(crate) store: Store,
    pub(crate) persistence: Persistence,
    /// Set while a thread writes overdue purges to the journal.
    pub(crate) is_persisting: AtomicBool,
    pub(crate) static_tree: StaticTree,
    pub(crate) fetches: FetchTable,
    pub(crate) hit_for_miss: HitForMiss,
    pub(crate) leak_guard: LeakGuard,
    /// Keys where a request with session cookies was answered with a static file, and the reason
    /// why the request passed.
    pub(crate) files: HitForMiss,
    /// Pages that are shared only if the response says `public` and a lifetime, and whose last
    /// passed response did.
    marked: HitForMiss,
    /// Pages whose fetch failed less than `limits.failure_pause` ago.
    pub(crate) recently_failed: HitForMiss,
    pub(crate) hot_pages: HotPages,
    pub(crate) refiller: Refiller,
    /// Pages that were written to beyond the rate.
    pub(crate) page_refreshes: PageRefreshes,
    /// The threads that wait for disks.
    pub(crate) disk_threads: DiskThreads,
    pub(crate) read_queues: ReadQueues,
    pub(crate) equivalents: Equivalents,
    /// Memory budget of the bodies outside the store.
    pub(crate) transit: Arc<MemoryShare>,
    /// Buffers for bodies between clients and origins.
    pub(crate) buffers: Arc<Buffers>,
    pub(crate) counters: EdgeCounters,
    pub(crate) log: Option<AccessLog>,
    pub(crate) complaints: Complaints,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) system: System,
    /// Which clients may purge.
    pub(crate) purge_access: PurgeAccess,
    pub(crate) sweeper: Sweeper,
    /// Tells the workers to return free memory to the system because the process exceeds its limit.
    pub(crate) memory_short: Notify,
    pub(crate) verifier: Arc<Verifier>,
    /// Held while the file of detected profiles is written.
    pub(crate) detections_file: threads::Mutex<()>,
    /// Permits for the tasks that carry out purge orders.
    pub(crate) orders: Semaphore,
    /// Permits for purges that are in force and wait to become durable on disk.
    pub(crate) disk_turns: DiskTurns,
    /// The identifier that this edge adds to `CDN-Loop` and recognises itself by (RFC 8586).
    pub(crate) loop_mark: Bytes,
    /// The boundary between the parts of a multipart response. It is random, so that no outsider
    /// can predict it.
    pub(crate) boundary: String,
    connections: AtomicUsize,
    addresses: AddressLimit,
    pub(crate) ending: Ending,
}

/// A permitted connection. Dropping it makes room for another one.
pub(crate) struct ConnectionSlot {
    shared: Arc<Shared>,
    /// The address that the connection counts for; `None` if its address has no limit.
    address: Option<IpAddr>,
}

/// Why a connection is not permitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectionRefusal {
    /// `limits.connections_max` are open.
    Full,
    /// The client's address has `limits.connections_per_address_max` open.
    Address,
}

impl Shared {
    pub(crate) fn new(plan: EdgePlan, log: Option<AccessLog>, system: System) -> Self {
        let transit_bytes_max = plan.memory_bytes / TRANSIT_SHARE;
        let disk_threads = DiskThreads::default();
        let buffers = Arc::new(Buffers::new(&plan, Arc::clone(&system.disk), disk_threads.clone()));
        let store_limits = StoreLimits {
            memory_bytes_max: plan.memory_bytes - transit_bytes_max - Buffers::share_of(&plan),
            object_bytes_max: plan.limits.object_bytes_max,
            ..StoreLimits::default()
        };
        // The standard library's hasher has a random key in each process and needs no further
        // crate.
        let random = HashKeys::new();
        Self {
            limits: Arc::new(plan.limits.clone()),
            sites: Sites::new(&plan, &system),
            listeners: Listeners::default(),
            store: Store::new(store_limits, random.hash_one("store")),
            persistence: Persistence::default(),
            is_persisting: AtomicBool::new(false),
            static_tree: StaticTree::default(),
            fetches: FetchTable::default(),
            hit_for_miss: HitForMiss::new(plan.limits.hit_for_miss, plan.limits.hit_for_miss_entries_max),
            files: HitForMiss::new(plan.limits.hit_for_miss, plan.limits.hit_for_miss_entries_max),
            marked: HitForMiss::new(plan.limits.hit_for_miss, plan.limits.hit_for_miss_entries_max),
            leak_guard: LeakGuard::new(plan.sites.len(), plan.workers, plan.limits.leak_guard_every),
            recently_failed: HitForMiss::new(plan.limits.failure_pause, plan.limits.hit_for_miss_entries_max),
            hot_pages: HotPages::new(plan.workers, plan.refill.pages_max),
            refiller: Refiller::default(),
            page_refreshes: PageRefreshes::default(),
            read_queues: ReadQueues::new(disk_threads.clone()),
            disk_threads,
            equivalents: Equivalents::default(),
            buffers,
            transit: MemoryShare::new(transit_bytes_max),
            counters: EdgeCounters::new(plan.workers),
            log,
            complaints: Complaints::default(),
            clock: Arc::clone(&system.clock),
            system,
            purge_access: PurgeAccess::new(None, plan.purge_peers.clone()),
            sweeper: Sweeper::default(),
            memory_short: Notify::new(),
            verifier: Arc::default(),
            detections_file: threads::Mutex::default(),
            orders: Semaphore::new(ORDERS_MAX),
            disk_turns: DiskTurns::default(),
            loop_mark: Bytes::from(format!("petasos; id={:016x}", random.hash_one("loop"))),
            boundary: format!("petasos-{:016x}", random.hash_one("boundary")),
            connections: AtomicUsize::new(0),
            addresses: AddressLimit::default(),
            ending: Ending::default(),
            plan,
        }
    }

    /// Adds the token for purges.
    pub(crate) fn with_token(self, token: Option<String>) -> Self {
        let purge_access = PurgeAccess::new(token, self.plan.purge_peers.clone());
        Self { purge_access, ..self }
    }

    /// Adds the listeners, whose certificates were read.
    pub(crate) fn with_listeners(self, listeners: Listeners) -> Self {
        Self { listeners, ..self }
    }

    /// Opens the disk that the plan names. Also returns the objects to be taken over from the
    /// previous process.
    pub(crate) fn above_disk(self) -> io::Result<(Self, Option<Recovery>)> {
        let life = HashKeys::new().hash_one("life");
        let equivalents = &self.equivalents;
        let hear = |sequence, selector: &Selector| equivalents.hear(sequence, selector);
        let (system, threads) = (&self.system, &self.disk_threads);
        let (store, persistence, recovery) =
            persistence::open(self.store, &self.plan, &self.sites, system, threads, life, hear)?;
        Ok((Self { store, persistence, ..self }, recovery))
    }

    /// Replaces the disk tier.
    #[cfg(test)]
    pub(crate) fn with_persistence(self, persistence: Persistence) -> Self {
        Self { persistence, ..self }
    }

    /// Opens the static tree that the plan names.
    pub(crate) fn with_static_tree(self) -> Self {
        let static_tree = StaticTree::open(&self.plan);
        Self { static_tree, ..self }
    }

    /// Whether a URL that is shared only if its response is marked `public` may be looked up. It
    /// may if a response is stored, or if a recently passed response was marked.
    pub(crate) fn is_marked(&self, key: &Key) -> bool {
        self.store.has(key) || self.marked.reason(key, self.clock.monotonic()).is_some()
    }

    /// Records that a passed response was marked `public`, so that the next request for its URL is
    /// looked up.
    pub(crate) fn mark(&self, key: &Key) {
        self.marked.remember(key, Reason::PassUnmarked, None, self.clock.monotonic());
    }

    /// The counters of a worker.
    pub(crate) fn cells(&self, worker: usize) -> &Cells {
        self.counters.worker(worker)
    }

    /// Invalidates the page of `key` under both schemes and all equivalent targets, both in the
    /// store and in fetches under way. Later requests receive neither, except as a stale response.
    pub(crate) fn invalidate(&self, key: &Key, mode: Mode) -> InvalidationResult {
        let mut done = self.invalidate_target(key, mode);
        for https in [false, true] {
            let target = Bytes::copy_from_slice(key.target());
            let own = Key::new(key.site(), https, key.host(), target);
            // The equivalents are read after the target itself was invalidated, so that a fetch
            // which began before is known to be older.
            let equivalent = self.equivalents.invalidate(&own, done.sequence);
            for equivalent in equivalent.iter().filter(|found| !found.is_spelling_of(&own)) {
                let more = self.invalidate_target(equivalent, mode);
                done.objects = done.objects.zip(more.objects).map(|(one, other)| one + other);
            }
        }
        done
    }

    fn invalidate_target(&self, key: &Key, mode: Mode) -> InvalidationResult {
        let (site, host) = (key.site(), Bytes::copy_from_slice(key.host()));
        let target = Bytes::copy_from_slice(key.target());
        for https in [false, true] {
            let key = Key::new(site, https, &host, target.clone());
            self.fetches.invalidate(&key);
            self.hit_for_miss.forget(&key);
        }
        self.tell(Invalidation { selector: Selector::Target { site, host, target }, mode })
    }

    /// Applies an invalidation to the store and queues it for the static tree, which removes its
    /// files later.
    pub(crate) fn tell(&self, invalidation: Invalidation) -> InvalidationResult {
        let done = self.store.invalidate(&invalidation);
        self.static_tree.hear(done.sequence, &invalidation.selector);
        done
    }

    /// Makes all invalidations durable, so that the next start knows them; blocks. Returns false
    /// if a restart could bring back a purged page. The sweeper then tries again.
    pub(crate) fn persist(&self) -> bool {
        is_planted(Defect::UndurablePurge) || self.persistence.persist(&self.store).is_ok()
    }

    /// Stops accepting connections.
    pub(crate) fn drain(&self) {
        self.ending.drain();
    }

    /// Closes the connections that are open.
    pub(crate) fn quit(&self) {
        self.ending.quit();
        self.sweeper.end();
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.ending.is_draining()
    }

    pub(crate) fn is_quitting(&self) -> bool {
        self.ending.is_quitting()
    }

    /// Ready when the drain begins.
    pub(crate) fn drained(&self) -> impl Future<Output = ()> + Send + use<> {
        self.ending.drained()
    }

    /// Runs `work`, which may last as long as its client likes, until at most
    /// `limits.drain_streams` after the drain began. `None` if the drain ended it.
    pub(crate) async fn until_streams_end<T>(
        &self,
        cells: &Cells,
        work: impl Future<Output = T>,
    ) -> Option<T> {
        let end = async {
            self.drained().await;
            tokio::time::sleep(self.limits.drain_streams).await;
        };
        tokio::select! {
            biased;
            done = work => Some(done),
            () = end => {
                cells.count(Metric::StreamsEnded);
                None
            }
        }
    }

    /// Reserves one more connection for this client, if the limits allow it.
    pub(crate) fn take_slot(self: &Arc<Self>, peer: Peer) -> Result<ConnectionSlot, ConnectionRefusal> {
        // Relaxed is enough: no other memory depends on the count.
        let taken = self.connections.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |open| {
            (open < self.limits.connections_max).then_some(open + 1)
        });
        taken.map_err(|_| ConnectionRefusal::Full)?;
        let limited = self.limited_address(peer);
        let is_free = limited
            .is_none_or(|address| self.addresses.take(address, self.limits.connections_per_address_max));
        // Its drop gives the global count back, also if the address has reached its limit.
        let place = ConnectionSlot { shared: Arc::clone(self), address: limited.filter(|_| is_free) };
        if is_free { Ok(place) } else { Err(ConnectionRefusal::Address) }
    }

    /// The address whose connections are counted. A trusted proxy and a peer on this machine are
    /// not limited, because they hold the connections of all their visitors.
    fn limited_address(&self, peer: Peer) -> Option<IpAddr> {
        let address = peer.ip().filter(|_| self.limits.connections_per_address_max > 0)?;
        let is_proxy = address.to_canonical().is_loopback() || self.plan.trusted_proxies.contains(address);
        (!is_proxy).then_some(address)
    }

    /// Number of open connections.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }
}

impl ConnectionSlot {
    /// Lets the connection count for this peer, which its proxy has stated. `false`: the peer's
    /// address has reached its limit.
    pub(crate) fn is_for(&mut self, peer: Peer) -> bool {
        let Some(address) = self.shared.limited_address(peer).filter(|_| self.address.is_none()) else {
            return true;
        };
        let is_free = self.shared.addresses.take(address, self.shared.limits.connections_per_address_max);
        self.address = is_free.then_some(address);
        is_free
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.shared.connections.fetch_sub(1, Ordering::Relaxed);
        if let Some(address) = self.address {
            self.shared.addresses.give_back(address);
        }
    }
}

impl AsRef<Ending> for Shared {
    fn as_ref(&self) -> &Ending {
        &self.ending
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("plan", &self.plan).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::{ConnectionRefusal, Shared};
    use crate::system::System;
    use address::Prefix;
    use config::EdgePlan;
    use net::Peer;
    use std::sync::Arc;

    #[test]
    fn connections_per_address_are_limited_except_for_proxies() {
        let mut plan = EdgePlan::for_origin("http://127.0.0.1:9".parse().unwrap());
        plan.limits.connections_max = 9;
        plan.limits.connections_per_address_max = 2;
        plan.trusted_proxies = std::iter::once("198.51.100.1".parse::<Prefix>().unwrap()).collect();
        let shared = Arc::new(Shared::new(plan, None, System::of_machine()));
        let take = |peer: &str| shared.take_slot(peer.parse().map_or(Peer::Unix, Peer::Ip));
        let kept: Vec<_> = (0..2).map(|_| take("192.0.2.1:5").unwrap()).collect();
        assert_eq!(take("192.0.2.1:6").err(), Some(ConnectionRefusal::Address));
        assert_eq!(shared.connections(), 2, "a refused one takes no place");
        let others = ["192.0.2.2:5", "127.0.0.1:5", "127.0.0.1:6", "127.0.0.1:7", "unix", "198.51.100.1:5"];
        let mut others: Vec<_> = others.map(|peer| take(peer).unwrap()).into_iter().collect();
        others.push(take("198.51.100.1:6").unwrap());
        assert_eq!(take("192.0.2.3:5").err(), Some(ConnectionRefusal::Full));
        drop((kept, others));
        assert!(shared.connections() == 0 && take("192.0.2.1:5").is_ok());
    }
}
