//! What all workers share: the plan in force, and the state that outlives it.
//!
//! Invariants: every part can be used from any worker at any time. A hit takes a single lock of it,
//! that of one store shard, and writes to no memory that another worker writes to. A plan never
//! changes: a reload makes another [`Shared`] above the same [`EdgeState`], and what began under
//! the old plan ends under it.

use crate::control::access_log::AccessLog;
use crate::control::counters::{Cells, EdgeCounters, Metric};
use crate::control::purge_access::PurgeAccess;
use crate::fetch::fetch_table::FetchTable;
use crate::fetch::read_queues::ReadQueues;
use crate::listeners::Listeners;
use crate::memory::address_limit::AddressLimit;
use crate::memory::budget::MemoryShare;
use crate::memory::buffers::Buffers;
use crate::memory::client_rates::ClientRates;
use crate::memory::closing_turns::ClosingTurns;
use crate::memory::complaints::Complaints;
use crate::memory::context_copies::ContextCopies;
use crate::memory::context_sessions::ContextSessions;
use crate::memory::dashboard::DashboardState;
use crate::memory::disk_turns::DiskTurns;
use crate::memory::encodings::Encodings;
use crate::memory::ending::Ending;
use crate::memory::equivalents::Equivalents;
use crate::memory::followers::Followers;
use crate::memory::hit_for_miss::HitForMiss;
use crate::memory::hot_pages::HotPages;
use crate::memory::leak_guard::LeakGuard;
use crate::memory::minutes::Minutes;
use crate::memory::origin_work::OriginWork;
use crate::memory::password_checks::PasswordChecks;
use crate::memory::private_copies::PrivateCopies;
use crate::memory::refiller::Refiller;
use crate::memory::refreshes::PageRefreshes;
use crate::memory::sweeper::Sweeper;
use crate::memory::trace_export::TraceExport;
use crate::memory::verifier::Verifier;
use crate::memory::warmer::Warmer;
use crate::origins::SecuredOrigins;
use crate::sites::Sites;
use crate::system::System;
use crate::upkeep::disk_threads::DiskThreads;
use crate::upkeep::persistence::{self, Persistence};
use crate::upkeep::tree::StaticTree;
use bytes::Bytes;
use clock::{Clock, Monotonic};
use config::{EdgeLimits, EdgePlan};
use defects::{Defect, is_planted};
use disk::Recovery;
use invalidation::Mode;
use net::Peer;
use platform::HashKeys;
use request_log::TraceId;
use semantics::Reason;
use std::fmt;
use std::hash::BuildHasher;
use std::io;
use std::net::IpAddr;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;
use store::{Invalidation, InvalidationResult, Key, Selector, Store, StoreLimits};
use tokio::sync::{Notify, Semaphore};

/// One in this many bytes of `plan.memory_bytes` is reserved for bodies outside the store. These
/// are bodies that are being fetched, passed through or read back from disk, and evicted bodies
/// that slow clients still read. The store gets the rest, less the share of the buffers.
const TRANSIT_SHARE: u64 = 8;

/// Maximum number of purge orders carried out in memory at the same time; others wait.
pub(crate) const ORDERS_MAX: usize = 4;

/// A plan of a running edge with everything that follows from it, and the state below. Requests
/// and tasks take the newest one when they begin, by [`Shared::current`].
pub(crate) struct Shared {
    state: Arc<EdgeState>,
    /// How many plans came before.
    generation: u64,
    pub(crate) plan: EdgePlan,
    pub(crate) limits: Arc<EdgeLimits>,
    pub(crate) sites: Sites,
    pub(crate) listeners: Arc<Listeners>,
    /// Which clients may purge.
    pub(crate) purge_access: PurgeAccess,
}

/// Reads the configuration again. The error says in words why it cannot be used.
pub type PlanSource = Arc<dyn Fn() -> Result<EdgePlan, String> + Send + Sync>;

/// Starts a process that takes over from this one (`petasos serve --upgrade`).
pub type SuccessorStart = Arc<dyn Fn() -> io::Result<std::process::Child> + Send + Sync>;

/// A page whose response came late is expected to be late again for this long. A response in time
/// ends that, so a wrong expectation costs one visitor a stale response.
const LATE_PAGE_LASTS: Duration = Duration::from_secs(600);

/// The state of a running edge that no reload replaces.
pub(crate) struct EdgeState {
    reloads: Reloads,
    /// The highest number of a site of any plan so far.
    pub(crate) last_site: AtomicU32,
    pub(crate) store: Store,
    pub(crate) persistence: Persistence,
    /// Set while a thread writes overdue purges to the journal.
    pub(crate) is_persisting: AtomicBool,
    pub(crate) static_tree: StaticTree,
    pub(crate) fetches: FetchTable,
    pub(crate) hit_for_miss: HitForMiss,
    /// Copies of pages that belong to one session each.
    pub(crate) private_copies: Arc<PrivateCopies>,
    /// Copies of pages that visitors with the same context share.
    pub(crate) context_copies: ContextCopies,
    /// The contexts of sessions.
    pub(crate) context_sessions: Arc<ContextSessions>,
    pub(crate) leak_guard: LeakGuard,
    /// Keys where a request with session cookies was answered with a static file, and the reason
    /// why the request passed.
    pub(crate) files: HitForMiss,
    /// Pages that are shared only if the response says `public` and a lifetime, and whose last
    /// passed response did.
    marked: HitForMiss,
    /// Pages whose fetch failed less than `limits.failure_pause` ago.
    pub(crate) recently_failed: HitForMiss,
    /// Pages whose last response came later than `limits.stale_wait`.
    pub(crate) late_pages: HitForMiss,
    pub(crate) hot_pages: HotPages,
    /// The values of the last minutes.
    pub(crate) minutes: Minutes,
    /// What takes the origins' time.
    pub(crate) origin_work: OriginWork,
    pub(crate) refiller: Refiller,
    /// The runs that fill the cache.
    pub(crate) warmer: Warmer,
    /// Orders of coded forms.
    pub(crate) encodings: Encodings,
    /// Pages that were written to beyond the rate.
    pub(crate) page_refreshes: PageRefreshes,
    pub(crate) password_checks: PasswordChecks,
    /// The threads that wait for disks.
    pub(crate) disk_threads: DiskThreads,
    /// The threads that wait for the disks of directories whose files are served. They are others,
    /// because these disks may be remote and hang.
    pub(crate) file_threads: DiskThreads,
    pub(crate) read_queues: ReadQueues,
    pub(crate) equivalents: Equivalents,
    /// Memory budget of the bodies outside the store.
    pub(crate) transit: Arc<MemoryShare>,
    /// Buffers for bodies between clients and origins.
    pub(crate) buffers: Arc<Buffers>,
    pub(crate) counters: EdgeCounters,
    pub(crate) log: Option<AccessLog>,
    /// The clients of the admin address that follow the log.
    pub(crate) followers: Arc<Followers>,
    /// What the dashboard remembers.
    pub(crate) dashboard: DashboardState,
    /// The spans of requests on their way to a collector. `None`: there is no export.
    pub(crate) traces: Option<Arc<TraceExport>>,
    /// Makes traces and spans unpredictable.
    trace_keys: HashKeys,
    last_trace: AtomicU64,
    /// The number of the last request to an origin.
    last_fetch: AtomicU64,
    pub(crate) complaints: Complaints,
    /// How much each client asks for.
    pub(crate) client_rates: ClientRates,
    /// Turns of connections whose time is over.
    pub(crate) closing_turns: ClosingTurns,
    pub(crate) clock: Arc<dyn Clock>,
    /// When this process started to serve.
    pub(crate) started: Monotonic,
    pub(crate) system: System,
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
    /// How often each worker has shown that it makes progress.
    pub(crate) beats: Vec<AtomicU64>,
    pub(crate) ending: Ending,
}

/// The newest plan, once there was a reload.
#[derive(Default)]
struct Reloads {
    /// Where new plans come from.
    source: Option<PlanSource>,
    /// The token for purges under all plans, if it comes from no file.
    token: Option<String>,
    /// Held during a reload.
    turn: Mutex<()>,
    generation: AtomicU64,
    /// Holds the state above itself, so [`Shared::forget_reloads`] empties it at the end.
    newest: Mutex<Option<Arc<Shared>>>,
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
    /// The client is in `guard.deny`.
    Denied,
    /// The client went on beyond its limits.
    Banned,
}

impl ConnectionRefusal {
    /// The metric that counts it.
    pub(crate) const fn metric(self) -> Metric {
        match self {
            Self::Full => Metric::ConnectionsRefused,
            Self::Address => Metric::ConnectionsRefusedAddress,
            Self::Denied => Metric::ClientsDenied,
            Self::Banned => Metric::ClientsBanned,
        }
    }
}

/// The limits of the store under a plan: it has the memory that nothing else reserves.
fn store_limits(plan: &EdgePlan) -> StoreLimits {
    StoreLimits {
        memory_bytes_max: plan.memory_bytes - plan.memory_bytes / TRANSIT_SHARE - Buffers::share_of(plan),
        object_bytes_max: plan.limits.object_bytes_max,
        ..StoreLimits::default()
    }
}

impl Shared {
    pub(crate) fn new(plan: EdgePlan, log: Option<AccessLog>, system: System) -> Self {
        let disk_threads = DiskThreads::default();
        let buffers = Arc::new(Buffers::new(&plan, Arc::clone(&system.disk), disk_threads.clone()));
        // Its keys are random in each process.
        let random = HashKeys::new();
        let state = EdgeState {
            reloads: Reloads::default(),
            last_site: AtomicU32::new(plan.sites.iter().map(|site| site.id).max().unwrap_or_default()),
            store: Store::new(store_limits(&plan), random.hash_one("store")),
            persistence: Persistence::default(),
            is_persisting: AtomicBool::new(false),
            static_tree: StaticTree::default(),
            fetches: FetchTable::default(),
            hit_for_miss: HitForMiss::new(plan.limits.hit_for_miss, plan.limits.hit_for_miss_entries_max),
            files: HitForMiss::new(plan.limits.hit_for_miss, plan.limits.hit_for_miss_entries_max),
            marked: HitForMiss::new(plan.limits.hit_for_miss, plan.limits.hit_for_miss_entries_max),
            private_copies: Arc::new(PrivateCopies::new()),
            context_copies: ContextCopies::default(),
            context_sessions: Arc::new(ContextSessions::new(Arc::clone(&system.clock))),
            leak_guard: LeakGuard::new(plan.workers, plan.limits.leak_guard_every),
            recently_failed: HitForMiss::new(plan.limits.failure_pause, plan.limits.hit_for_miss_entries_max),
            late_pages: HitForMiss::new(LATE_PAGE_LASTS, plan.limits.hit_for_miss_entries_max),
            hot_pages: HotPages::new(plan.workers, plan.refill.pages_max),
            minutes: Minutes::default(),
            origin_work: OriginWork::new(plan.workers),
            refiller: Refiller::default(),
            warmer: Warmer::default(),
            encodings: Encodings::default(),
            page_refreshes: PageRefreshes::default(),
            password_checks: PasswordChecks::new(disk_threads.clone(), random.hash_one("password")),
            read_queues: ReadQueues::new(disk_threads.clone()),
            disk_threads,
            file_threads: DiskThreads::default(),
            equivalents: Equivalents::default(),
            buffers,
            transit: MemoryShare::new(plan.memory_bytes / TRANSIT_SHARE),
            counters: EdgeCounters::new(plan.workers),
            log,
            followers: Arc::new(Followers::new(plan.traces.is_some())),
            dashboard: DashboardState::default(),
            traces: plan.traces.is_some().then(Arc::default),
            trace_keys: HashKeys::new(),
            last_trace: AtomicU64::new(0),
            last_fetch: AtomicU64::new(0),
            complaints: Complaints::default(),
            client_rates: ClientRates::default(),
            closing_turns: ClosingTurns::new(plan.workers),
            clock: Arc::clone(&system.clock),
            started: system.clock.monotonic(),
            system,
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
            beats: (0..plan.workers.max(1)).map(|_| AtomicU64::new(0)).collect(),
            ending: Ending::default(),
        };
        Self {
            limits: Arc::new(plan.limits.clone()),
            sites: Sites::new(&plan, &state.system, &[]),
            listeners: Arc::default(),
            purge_access: PurgeAccess::new(None, plan.purge_peers.clone()),
            state: Arc::new(state),
            generation: 0,
            plan,
        }
    }

    /// Adds the token for purges.
    pub(crate) fn with_token(self, token: Option<String>) -> Self {
        let purge_access = PurgeAccess::new(token, self.plan.purge_peers.clone());
        Self { purge_access, ..self }
    }

    /// Adds a token for purges that comes from no file. Reloads keep it.
    pub(crate) fn with_kept_token(self, token: Option<String>) -> Self {
        let shared = self.with_token(token.clone());
        shared.with_state(|state, _| state.reloads.token = token)
    }

    /// The token for purges under all plans, if it comes from no file.
    pub(crate) fn kept_token(&self) -> Option<&String> {
        self.reloads.token.as_ref()
    }

    /// Adds the place that new plans come from.
    pub(crate) fn with_plan_source(self, source: Option<PlanSource>) -> Self {
        self.with_state(|state, _| state.reloads.source = source)
    }

    /// Where new plans come from; `None` if the plan cannot change.
    pub(crate) fn plan_source(&self) -> Option<&PlanSource> {
        self.reloads.source.as_ref()
    }

    /// The turn of a reload, which the caller holds until its end; `None` if another one runs.
    pub(crate) fn reload_turn(&self) -> Option<MutexGuard<'_, ()>> {
        match self.reloads.turn.try_lock() {
            Ok(turn) => Some(turn),
            // There is no content that a panic could have left half-changed.
            Err(TryLockError::Poisoned(turn)) => Some(turn.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Adds the listeners, whose certificates were read.
    pub(crate) fn with_listeners(self, listeners: Listeners) -> Self {
        Self { listeners: Arc::new(listeners), ..self }
    }

    /// Adds how connections to https origins are secured, with an entry for each site of the plan.
    /// Called before the first request, because the sites begin anew.
    pub(crate) fn with_secured_origins(self, secured: &[SecuredOrigins]) -> Self {
        let sites = Sites::new(&self.plan, &self.system, secured);
        Self { sites, ..self }
    }

    /// Opens the disk that the plan names. Also returns the objects to be taken over from the
    /// previous process.
    pub(crate) fn above_disk(self) -> io::Result<(Self, Option<Recovery>)> {
        let Self { state, plan, sites, .. } = self;
        let state = Arc::into_inner(state).ok_or_else(|| io::Error::other("the edge runs already"))?;
        let life = HashKeys::new().hash_one("life");
        let equivalents = &state.equivalents;
        let hear = |sequence, selector: &Selector| equivalents.hear(sequence, selector);
        let (system, threads) = (&state.system, &state.disk_threads);
        let (store, persistence, recovery) =
            persistence::open(state.store, &plan, &sites, system, threads, life, hear)?;
        let state = Arc::new(EdgeState { store, persistence, ..state });
        Ok((Self { state, plan, sites, ..self }, recovery))
    }

    /// Changes the state before anything else has it.
    fn with_state(mut self, change: impl FnOnce(&mut EdgeState, &EdgePlan)) -> Self {
        if let Some(state) = Arc::get_mut(&mut self.state) {
            change(state, &self.plan);
        }
        self
    }

    /// Replaces the disk tier.
    #[cfg(test)]
    pub(crate) fn with_persistence(self, persistence: Persistence) -> Self {
        self.with_state(|state, _| state.persistence = persistence)
    }

    /// Opens the static tree that the plan names.
    pub(crate) fn with_static_tree(self) -> Self {
        self.with_state(|state, plan| state.static_tree = StaticTree::open(plan))
    }

    /// The state below, which outlives this plan.
    pub(crate) const fn state(&self) -> &Arc<EdgeState> {
        &self.state
    }

    /// Whether no newer plan is in force. Costs one read of memory that only reloads write to.
    pub(crate) fn is_current(&self) -> bool {
        self.reloads.generation.load(Ordering::Acquire) == self.generation
    }

    /// The plan in force, if there was a reload.
    pub(crate) fn newest(&self) -> Option<Arc<Self>> {
        self.reloads.lock().clone()
    }

    /// The plan in force.
    pub(crate) fn current(self: &Arc<Self>) -> Arc<Self> {
        if self.is_current() {
            return Arc::clone(self);
        }
        self.reloads.lock().as_ref().map_or_else(|| Arc::clone(self), Arc::clone)
    }

    /// Puts a plan in force, whose sites and listeners continue those of this one. `self` must be
    /// the plan in force.
    pub(crate) fn replace(
        &self,
        plan: EdgePlan,
        sites: Sites,
        listeners: Arc<Listeners>,
        token: Option<String>,
    ) -> Arc<Self> {
        let generation = self.generation + 1;
        let new = Arc::new(Self {
            state: Arc::clone(&self.state),
            generation,
            limits: Arc::new(plan.limits.clone()),
            purge_access: PurgeAccess::new(token, plan.purge_peers.clone()),
            sites,
            listeners,
            plan,
        });
        if !self.is_quitting() {
            *self.reloads.lock() = Some(Arc::clone(&new));
        }
        self.reloads.generation.store(generation, Ordering::Release);
        new
    }

    /// Drops the newest plan, which holds the state that holds it. Call it when nothing needs a
    /// plan any more.
    pub(crate) fn forget_reloads(&self) {
        *self.reloads.lock() = None;
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
    /// files later, and for a process that takes over.
    pub(crate) fn tell(&self, invalidation: Invalidation) -> InvalidationResult {
        let done = self.store.invalidate(&invalidation);
        self.persistence.enlist(&invalidation);
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

    /// Whether another process serves in place of this one.
    pub(crate) fn is_handed_over(&self) -> bool {
        self.ending.is_handed_over()
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
        self.state.ending.drained()
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
        self.admit_client(peer)?;
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

    /// Refuses a client that is denied or banned. A trusted proxy is neither: its requests name
    /// their clients.
    fn admit_client(&self, peer: Peer) -> Result<(), ConnectionRefusal> {
        let guard = &self.plan.guard;
        let now = self.clock.monotonic();
        if guard.deny.is_empty() && !self.client_rates.may_ban(now) {
            return Ok(());
        }
        let Some(address) = peer.ip().filter(|ip| !self.plan.trusted_proxies.contains(*ip)) else {
            return Ok(());
        };
        if guard.deny.contains(address) {
            return Err(ConnectionRefusal::Denied);
        }
        let is_banned = self.client_rates.ban_of(address, now).is_some();
        // The purges of an application must not be lost.
        let is_exempt = guard.allow.contains(address) || self.plan.purge_peers.contains(address);
        if is_banned && !is_exempt { Err(ConnectionRefusal::Banned) } else { Ok(()) }
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

impl EdgeState {
    /// A new trace, and the identifier of its first span, which is never zero.
    pub(crate) fn new_trace(&self) -> (TraceId, u64) {
        let number = self.last_trace.fetch_add(1, Ordering::Relaxed);
        let [high, low, span] = [0, 1, 2].map(|part: u8| self.trace_keys.hash_one((number, part)));
        (TraceId::from_bits(u128::from(high) << 64 | u128::from(low)), span.max(1))
    }

    /// What distinguishes this process from others.
    #[cfg(feature = "otlp")]
    pub(crate) fn instance(&self) -> &str {
        // Written by this type, in ASCII.
        std::str::from_utf8(&self.loop_mark).unwrap_or_default().trim_start_matches("petasos; id=")
    }

    /// The number of a request to an origin whose response has begun.
    pub(crate) fn next_fetch(&self) -> u64 {
        // Relaxed is enough: no other memory depends on the number.
        self.last_fetch.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// The counters of a worker.
    pub(crate) fn cells(&self, worker: usize) -> &Cells {
        self.counters.worker(worker)
    }
}

impl Deref for Shared {
    type Target = EdgeState;

    fn deref(&self) -> &EdgeState {
        &self.state
    }
}

impl Reloads {
    /// The content is replaced by one assignment, so a panic elsewhere does no harm.
    fn lock(&self) -> MutexGuard<'_, Option<Arc<Shared>>> {
        self.newest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ConnectionSlot {
    /// Lets the connection count for this peer, which its proxy has stated.
    pub(crate) fn is_for(&mut self, peer: Peer) -> Result<(), ConnectionRefusal> {
        self.shared.admit_client(peer)?;
        let Some(address) = self.shared.limited_address(peer).filter(|_| self.address.is_none()) else {
            return Ok(());
        };
        let is_free = self.shared.addresses.take(address, self.shared.limits.connections_per_address_max);
        self.address = is_free.then_some(address);
        if is_free { Ok(()) } else { Err(ConnectionRefusal::Address) }
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
