//! One life of the edge: its start, its actors and faults, and its end.
//!
//! Invariant: after an orderly end nothing is left: no connection, no fetch, no permit, no memory
//! outside the store, no open file and no thread. After a kill nothing of the life continues.

mod clients;

use crate::balancer::Balanced;
use crate::fault::{FaultAction, PlannedFault};
use crate::limits::watch;
use crate::plan::{LifeEnd, LifePlan};
use crate::reload::NextPlan;
use crate::settings::{ORIGIN_ADDRESS, PURGER, SECOND_ORIGIN_ADDRESS};
use crate::society::{SharedEdge, Society};
use crate::survey::survey;
use crate::tracing::collect;
use actors::{
    DashboardPlan, FaultPlace, Moment, Origin, PageKind, Timeline, VARIANTS_MAX, Visit, VisitorPlan, lock,
};
use clock::Clock;
use edge::{EmbeddedEdge, Metric, System};
use net::{Peer, Stream};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use world::{ConnectMode, DiskHang, DiskMode, Heard, Pipe, PipeSettings, World};

/// The longest time, after the last arrival, in which actors and faults must be done.
pub(crate) const ACTORS_MAX: Duration = Duration::from_secs(3600);

/// The longest time that the start of the edge may take.
pub(crate) const START_MAX: Duration = Duration::from_secs(120);

/// The longest time that the end of the edge may take.
const END_MAX: Duration = Duration::from_secs(120);

/// The longest time of a drain (`drain_timeout`).
const DRAIN_MAX: Duration = Duration::from_secs(30);

/// The longest time in which the disk's writer catches up when nothing is wrong. The documentation
/// says a second.
const CATCHING_UP_MAX: Duration = Duration::from_secs(10);

/// The longest time in which the process is killed in a disk operation.
const KILL_WAIT_MAX: Duration = Duration::from_secs(30);

/// Time after the last fault in which the edge returns to normal service: its breaker probes the
/// origin, and the disk is used again.
const RECOVERY: Duration = Duration::from_secs(120);

/// The longest time until the first byte when nobody else is there and nothing is wrong.
const CALM_FIRST_BYTE_MAX: Duration = Duration::from_secs(3);

/// How often bytes on the disk change before this visitor comes, and in how many places.
const CALM_DAMAGE_PERCENT: u64 = 30;
const CALM_DAMAGE_PLACES: u64 = 64;

/// How often all streams of the dashboard are in use at the same time then, although nobody has
/// visited the dashboard before, and how often all places of the admin address.
const CALM_STREAMS_PERCENT: u64 = 10;

/// How many downloads of each large page it repeats.
const CALM_DOWNLOADS: u64 = 6;
/// Connections that wait to be accepted by the origin.
pub(crate) const BACKLOG: usize = 64;

/// The port of all clients.
const CLIENT_PORT: u16 = 50_000;

/// The number of the visitor that comes when all faults are over and expects normal service.
const CALM_VISITOR: u64 = 9_999;

/// How often clients of the admin address look whether the edge drains.
const DRAIN_TURN: Duration = Duration::from_millis(100);

/// A life under way. Clones are the same life.
#[derive(Clone)]
pub(crate) struct Life {
    pub(crate) world: World,
    pub(crate) society: Society,
    pub(crate) timeline: Timeline,
    origin: Origin,
    /// `None` before the start and after the end of the edge.
    pub(crate) edge: SharedEdge,
    /// The number of the next connection to the edge.
    links: Arc<AtomicU64>,
    /// Whether the visitors' address is closed.
    is_draining: Arc<AtomicBool>,
    /// The plan that the next reload reads; `None` only for an invalid configuration.
    pub(crate) next: Option<NextPlan>,
    /// When the drain began, in seconds of the wall clock.
    pub(crate) drained_at: Arc<Mutex<Option<u64>>>,
    /// When it began.
    pub(crate) begun: Moment,
    /// The datagrams of the access log, if it goes to a socket.
    pub(crate) heard: Arc<Mutex<Option<Heard>>>,
}

/// Runs a life to its end. Its violations are in the ledger and in the world.
pub(crate) async fn live(world: World, society: Society, plan: LifePlan, timeline: Timeline) -> Origin {
    let origin = Origin::new(
        Arc::clone(&society.site),
        Arc::clone(&society.ledger),
        timeline,
        world.random("origin", 0).number(),
    );
    let next = society.settings.plan().ok().map(|plan| NextPlan::new(&plan));
    collect(&world, &society, timeline);
    let life = Life {
        next,
        world,
        society,
        timeline,
        origin: origin.clone(),
        edge: SharedEdge::default(),
        links: Arc::new(AtomicU64::new(1)),
        is_draining: Arc::default(),
        drained_at: Arc::default(),
        begun: timeline.now(),
        heard: Arc::default(),
    };
    life.note(&format!("life {} begins", plan.number));
    tokio::spawn(accept(life.world.clone(), origin.clone(), ORIGIN_ADDRESS));
    tokio::spawn(accept(life.world.clone(), origin.second(), SECOND_ORIGIN_ADDRESS));
    life.begin_past();
    life.decay(plan.decay);
    life.begin_log();
    if life.start().await {
        let (begun, from) = (timeline.now(), life.world.clock().now().as_secs());
        match plan.end {
            LifeEnd::Orderly => life.run_to_its_end(&plan).await,
            LifeEnd::Kill(at_ms) => life.run_until_killed(&plan, at_ms, false).await,
            LifeEnd::PowerCut(at_ms) => life.run_until_killed(&plan, at_ms, true).await,
            LifeEnd::KillInOperation(at_ms, operation) => {
                life.run_until_killed_in(&plan, at_ms, operation).await;
            }
        }
        life.check_past(&plan, begun, from);
    }
    origin
}

/// The properties of the next connection: its buffers and delays by chance, but never so slow that
/// the edge ends a connection as too slow, which is no error then.
pub(crate) fn link(world: &World, number: u64) -> PipeSettings {
    let mut random = world.random("link", number);
    PipeSettings {
        capacity_bytes: random.between(8 << 10, 128 << 10) as usize,
        latency_ms_min: 0,
        latency_ms_max: *random.choice(&[0, 0, 3, 20]).unwrap_or(&0),
        ..PipeSettings::by_chance(&mut random, world.open_pipes())
    }
}

/// Accepts the connections of an origin.
async fn accept(world: World, origin: Origin, address: &str) {
    let Ok(address) = address.parse() else { return };
    world.network().set_settings(&address, Some(link(&world, 0)));
    let mut accepted = world.network().listen(&address, BACKLOG);
    while let Some(pipe) = accepted.recv().await {
        let origin = origin.clone();
        tokio::spawn(async move { origin.serve(pipe, |pipe: Pipe| pipe.reset()).await });
    }
}

impl Life {
    pub(crate) fn note(&self, text: &str) {
        let at = self.timeline.now();
        lock(&self.society.ledger).note(at, || text.to_owned());
    }

    pub(crate) fn violate(&self, text: String) {
        self.note(&format!("VIOLATION: {text}"));
        self.world.violations().record(text);
    }

    /// Bytes on the disk have changed while the machine was off.
    fn decay(&self, places: u64) {
        if places == 0 {
            return;
        }
        let paths = (0..places).filter_map(|_| self.world.disk().damage());
        paths.for_each(|path| lock(&self.society.past).damaged(&path));
        let mut ledger = lock(&self.society.ledger);
        ledger.disk_is_damaged();
        let at = self.timeline.now();
        let id = ledger.fault_begins(at, FaultPlace::Medium, "bytes have changed");
        ledger.fault_ends(at, id);
    }

    /// This life as an old process of the edge has it.
    pub(crate) fn of_edge(&self, edge: EmbeddedEdge) -> Self {
        Self { edge: Arc::new(Mutex::new(Some(edge))), ..self.clone() }
    }

    /// What the edge has of the system.
    pub(crate) fn system(&self) -> System {
        System {
            clock: Arc::new(self.world.clock().clone()),
            disk: Arc::new(self.world.disk().of_current_process()),
            network: Arc::new(self.world.network().clone()),
            processes: None,
            host: "machine.test".to_owned(),
            pid: 1,
        }
    }

    /// Opens the edge in a simulated thread. Returns whether it runs.
    async fn start(&self) -> bool {
        let plan = match self.society.settings.plan() {
            Ok(plan) => plan,
            Err(error) => {
                self.violate(error);
                return false;
            }
        };
        let system = self.system();
        let token = self.society.settings.token();
        let source = self.next.as_ref().map(NextPlan::source);
        let open = move || EmbeddedEdge::open(plan, source, system, token);
        match timeout(START_MAX, self.world.threads().run("main", open)).await {
            Ok(Ok(mut edge)) => {
                edge.start_tasks();
                *lock(&self.edge) = Some(edge);
                true
            }
            Ok(Err(error)) => {
                self.violate(format!("the edge does not start: {error}"));
                false
            }
            Err(_) => {
                self.violate(format!("the start of the edge takes more than {START_MAX:?}"));
                false
            }
        }
    }

    /// Drains the edge while its clients go on. They get no further connection, and those that are
    /// left after the longest time of a drain are cut off, as at the end of the program.
    async fn drain_early(&self, at_ms: u64) {
        sleep(Duration::from_millis(at_ms)).await;
        lock(&self.society.ledger).fault_begins(self.timeline.now(), FaultPlace::Edge, "drain");
        self.drain();
        let open = || lock(&self.edge).as_ref().map_or(0, |edge| edge.metric(Metric::ConnectionsOpen));
        for _ in 0..DRAIN_MAX.as_secs() {
            if open() == 0 {
                break;
            }
            sleep(Duration::from_secs(1)).await;
        }
        if open() > 0 {
            // The threads that keep something for these connections end with the process.
            self.world.end_abruptly();
        }
        lock(&self.society.ledger).leaves(self.timeline.now());
        self.close().await;
    }

    async fn run_to_its_end(&self, plan: &LifePlan) {
        let mut tasks = self.begin(plan);
        if let Some(at_ms) = plan.drains_at_ms {
            self.drain_early(at_ms).await;
            return;
        }
        let done = async { while tasks.join_next().await.is_some() {} };
        if timeout(ACTORS_MAX, done).await.is_err() {
            self.violate(format!("actors and faults are not done after {ACTORS_MAX:?}"));
            return;
        }
        sleep(RECOVERY).await;
        self.note("all faults are over");
        if !plan.flooders.is_empty() {
            self.check_refusals();
        }
        let site = Arc::clone(lock(&self.society.site).plan());
        lock(&self.society.ledger).rules_mut().first_byte_max = CALM_FIRST_BYTE_MAX;
        if self.world.random("damage in calm", 0).percent(CALM_DAMAGE_PERCENT) {
            self.decay(CALM_DAMAGE_PLACES);
        }
        self.survey_in_calm(survey(CALM_VISITOR, &site, 2, 50)).await;
        let is_visited = !plan.dashboards.is_empty();
        if is_visited || self.world.random("streams in calm", 0).percent(CALM_STREAMS_PERCENT) {
            let plan = DashboardPlan { number: CALM_VISITOR, steps: Vec::new() };
            self.dashboard_visitor(plan).take_all_streams().await;
        }
        if self.world.random("admin crowd in calm", 0).percent(CALM_STREAMS_PERCENT) {
            self.crowd_admin().await;
        }
        self.fill_in_calm().await;
        self.check_writer().await;
        self.end().await;
    }

    /// Requests all pages one after the other, while nobody else is there and the disk is well. A
    /// stored response with a damaged body is forgotten. A page may have several of them, one for
    /// each variant, so a page that is found damaged is requested again until none is left.
    async fn survey_in_calm(&self, plan: VisitorPlan) {
        let damaged_responses = || {
            let sum = |edge: &EmbeddedEdge| {
                edge.metric(Metric::DamagedResponsesCompleted) + edge.metric(Metric::DamagedResponsesCut)
            };
            lock(&self.edge).as_ref().map_or(0, sum)
        };
        let is_large = |visit: &&Visit| {
            let site = lock(&self.society.site);
            let page = site.plan().page(&visit.target);
            page.is_some_and(|page| page.kind == PageKind::Large)
        };
        // The bodies of downloads are on the disk.
        let large = plan.visits.iter().filter(is_large).flat_map(|visit| {
            (1..=CALM_DOWNLOADS)
                .map(|part| Visit { target: format!("{}?page={part}", visit.target), ..visit.clone() })
        });
        for visit in plan.visits.iter().cloned().chain(large) {
            let mut found = 0;
            loop {
                let before = damaged_responses();
                let visits = vec![visit.clone()];
                self.visitor(VisitorPlan { visits, ..plan.clone() }).await;
                if damaged_responses() == before {
                    break;
                }
                found += 1;
                if found > VARIANTS_MAX {
                    let (path, is_other_host) = (&visit.target, visit.is_other_host);
                    self.violate(format!(
                        "{path}, other host: {is_other_host}, is found damaged {found} times"
                    ));
                    break;
                }
            }
        }
    }

    async fn run_until_killed(&self, plan: &LifePlan, at_ms: u64, is_power_cut: bool) {
        let tasks = self.begin(plan);
        sleep(Duration::from_millis(at_ms)).await;
        let at = self.timeline.now();
        let mut ledger = lock(&self.society.ledger);
        ledger.killed(at, is_power_cut.then_some(self.society.settings.power_safe));
        drop(ledger);
        self.world.end_abruptly();
        if is_power_cut {
            self.world.disk().power_cut();
        } else {
            self.world.disk().kill();
        }
        drop(tasks);
    }

    /// Kills the process in the middle of a disk operation. If there are too few of them, it is
    /// killed between two.
    async fn run_until_killed_in(&self, plan: &LifePlan, at_ms: u64, operation: u64) {
        let tasks = self.begin(plan);
        sleep(Duration::from_millis(at_ms)).await;
        let (world, ledger, timeline) = (self.world.clone(), Arc::clone(&self.society.ledger), self.timeline);
        world.disk().kill_in(operation);
        // A task of its own has its turn before everything that the operation's failure wakes.
        let kill = tokio::spawn(async move {
            // If no operation comes, the kill happens at the end of the time.
            let _ = timeout(KILL_WAIT_MAX, world.disk().killed()).await;
            lock(&ledger).killed(timeline.now(), None);
            world.end_abruptly();
            world.disk().kill();
        });
        // An aborted task belongs to a world that has ended.
        let _ = kill.await;
        drop(tasks);
    }

    /// Starts actors, faults and the watch over the limits.
    fn begin(&self, plan: &LifePlan) -> JoinSet<()> {
        let mut tasks = JoinSet::new();
        for (at_ms, visitor) in &plan.visitors {
            tasks.spawn(after(*at_ms, self.visitor(visitor.clone())));
        }
        for (at_ms, purger) in &plan.purgers {
            tasks.spawn(after(*at_ms, self.purger(purger.clone())));
        }
        for (at_ms, operator) in &plan.operators {
            tasks.spawn(after(*at_ms, self.operator(operator.clone())));
        }
        for (at_ms, follower) in &plan.followers {
            let follower = self.follower(*follower, plan.handovers.is_empty());
            tasks.spawn(after(*at_ms, self.until_drained(follower)));
        }
        for (at_ms, intruder) in &plan.intruders {
            tasks.spawn(after(*at_ms, self.intruder(intruder.clone())));
        }
        for (at_ms, editor) in &plan.editors {
            tasks.spawn(after(*at_ms, self.editor(editor.clone())));
        }
        for (at_ms, tunnel) in &plan.tunnels {
            tasks.spawn(after(*at_ms, self.tunneller(tunnel.clone())));
        }
        for (at_ms, dashboard) in &plan.dashboards {
            let dashboard = self.dashboard_visitor(dashboard.clone()).run();
            tasks.spawn(after(*at_ms, self.until_drained(dashboard)));
        }
        for (at_ms, flooder) in &plan.flooders {
            if let Some(flooder) = self.flooder(flooder.clone()) {
                tasks.spawn(after(*at_ms, flooder.run()));
            }
        }
        for (at_ms, member) in &plan.members {
            tasks.spawn(after(*at_ms, self.member(member.clone()).run()));
        }
        for (at_ms, caller) in &plan.callers {
            tasks.spawn(after(*at_ms, self.caller(caller.clone())));
        }
        tasks.spawn(self.reloads(plan.reloads.clone()));
        tasks.spawn(self.handovers(plan.handovers.clone()));
        for rotation in &plan.rotations {
            tasks.spawn(after(rotation.at_ms, self.clone().rotate(*rotation)));
        }
        for fault in &plan.faults {
            tasks.spawn(suffer(
                self.world.clone(),
                self.society.clone(),
                self.origin.clone(),
                self.timeline,
                *fault,
            ));
        }
        tokio::spawn(watch(self.world.clone(), self.society.clone(), Arc::clone(&self.edge), self.timeline));
        tasks
    }

    /// Makes connections of the visitor with this number.
    pub(crate) fn visitors_entrance(&self, number: u64) -> impl Fn() -> Option<Pipe> + Send + use<> {
        self.entrance(self.worker_of(number), visitor_address(number))
    }

    /// The worker that serves the visitor with this number.
    pub(crate) fn worker_of(&self, number: u64) -> usize {
        number as usize % self.society.settings.workers
    }

    /// Makes connections to the visitors' address.
    pub(crate) fn entrance(
        &self,
        worker: usize,
        address: IpAddr,
    ) -> impl Fn() -> Option<Pipe> + Send + use<> {
        self.entrance_at((worker, 0), address)
    }

    /// Makes connections to a listener. `place` has the number of the worker and of the listener.
    fn entrance_at(
        &self,
        place: (usize, usize),
        address: IpAddr,
    ) -> impl Fn() -> Option<Pipe> + Send + use<> {
        let is_draining = Arc::clone(&self.is_draining);
        let (world, edge, links) = (self.world.clone(), Arc::clone(&self.edge), Arc::clone(&self.links));
        move || {
            let edge = lock(&edge);
            if is_draining.load(Ordering::Relaxed) {
                return None;
            }
            let edge = edge.as_ref()?;
            let number = links.fetch_add(1, Ordering::Relaxed);
            let (own, its) = world.network().visit(Some(link(&world, number)));
            let client = SocketAddr::new(address, CLIENT_PORT);
            let mut random = world.random("balancer", number);
            let balanced = Balanced::by_chance(&mut random, client, !is_visitor(address));
            if let Some(balanced) = &balanced {
                balanced.begin(&own);
            }
            let address = balanced.map_or(address, |_| Balanced::address());
            edge.serve(place, Stream::Other(Box::new(its)), peer(address));
            Some(own)
        }
    }

    /// Makes connections to the admin address from the edge's own machine.
    pub(crate) fn admin_entrance(&self) -> impl Fn() -> Option<Pipe> + Clone + Send + Sync + use<> {
        self.admin_entrance_from(IpAddr::V4(Ipv4Addr::LOCALHOST))
    }

    /// Makes connections to the admin address.
    pub(crate) fn admin_entrance_from(
        &self,
        address: IpAddr,
    ) -> impl Fn() -> Option<Pipe> + Clone + Send + Sync + use<> {
        let (world, edge, links) = (self.world.clone(), Arc::clone(&self.edge), Arc::clone(&self.links));
        move || {
            let edge = lock(&edge);
            let edge = edge.as_ref()?;
            let (own, its) = world.network().visit(Some(link(&world, links.fetch_add(1, Ordering::Relaxed))));
            edge.serve_admin(Stream::Other(Box::new(its)), peer(address));
            Some(own)
        }
    }

    /// Drains the edge, checks that nothing is left, and closes the disk.
    async fn end(&self) {
        self.drain();
        self.check_balance().await;
        self.close().await;
    }

    fn drain(&self) {
        self.note("the edge drains");
        self.is_draining.store(true, Ordering::Relaxed);
        *lock(&self.drained_at) = Some(self.world.clock().now().as_secs());
        if let Some(edge) = &*lock(&self.edge) {
            edge.drain();
        }
    }

    pub(crate) async fn close(&self) {
        self.wait_for_past().await;
        let Some(edge) = lock(&self.edge).take() else { return };
        let (counts, lines_lost) = (edge.span_counts(), edge.log_lines_lost());
        if timeout(END_MAX, self.world.threads().run("end", move || edge.end())).await.is_err() {
            self.violate(format!("the end of the edge takes more than {END_MAX:?}"));
            return;
        }
        // A thread in an operation that hangs ends only after the disk has answered. Its fault ends
        // by itself, also if the edge drained early.
        while self.world.disk().hung() > 0 {
            sleep(Duration::from_secs(1)).await;
        }
        // Threads that were told to end need some turns.
        sleep(Duration::from_secs(30)).await;
        self.note("the edge has ended");
        self.check_spans(counts());
        self.check_log(lines_lost());
    }

    /// Waits until the disk's writer has written everything that it was given.
    async fn check_writer(&self) {
        let figures = |edge: &EmbeddedEdge| {
            let is_off = edge.metric(Metric::DiskOff) > 0;
            (is_off, edge.metric(Metric::DiskAccepted), edge.metric(Metric::DiskDurable))
        };
        let mut last = None;
        for _ in 0..CATCHING_UP_MAX.as_secs() {
            last = lock(&self.edge).as_ref().map(figures);
            if last.is_none_or(|(is_off, accepted, durable)| is_off || accepted == durable) {
                return;
            }
            sleep(Duration::from_secs(1)).await;
        }
        let (_, accepted, durable) = last.unwrap_or_default();
        self.violate(format!(
            "the disk's writer is at operation {durable} of {accepted} after {CATCHING_UP_MAX:?}"
        ));
    }

    /// Waits until everything that requests hold is given back.
    pub(crate) async fn check_balance(&self) {
        let mut left = Vec::new();
        for _ in 0..END_MAX.as_secs() {
            left = match &*lock(&self.edge) {
                Some(edge) => BALANCED.iter().map(|metric| (*metric, edge.metric(*metric))).collect(),
                None => return,
            };
            left.retain(|(_, value)| *value > 0);
            if left.is_empty() {
                return;
            }
            sleep(Duration::from_secs(1)).await;
        }
        self.violate(format!("not given back {END_MAX:?} after the drain began: {left:?}"));
    }
}

/// The metrics that are zero when no request is under way.
const BALANCED: [Metric; 10] = [
    Metric::ConnectionsOpen,
    Metric::FlightsOpen,
    Metric::FillingBytes,
    Metric::BufferedBytes,
    Metric::SpoolBytes,
    Metric::OriginFetchesActive,
    Metric::OriginFetchesWaiting,
    Metric::OriginFetchesStalled,
    Metric::LogFollowers,
    Metric::DashboardStreams,
];

async fn after(at_ms: u64, work: impl Future<Output = ()>) {
    sleep(Duration::from_millis(at_ms)).await;
    work.await;
}

fn peer(address: IpAddr) -> Peer {
    Peer::from(SocketAddr::new(address, CLIENT_PORT))
}

/// Whether this is the address of an ordinary visitor.
fn is_visitor(address: IpAddr) -> bool {
    matches!(address, IpAddr::V4(address) if address.octets().first() == Some(&203))
}

fn visitor_address(number: u64) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(203, 0, (number / 250) as u8, (number % 250) as u8 + 1))
}

/// The address of a client of the admin address on another machine.
pub(crate) fn distant_address(number: u64) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(198, 18, (number / 250) as u8, (number % 250) as u8 + 1))
}

fn purger_address() -> IpAddr {
    PURGER.parse().unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST))
}

/// Begins a fault, and ends it after its time.
async fn suffer(world: World, society: Society, origin: Origin, timeline: Timeline, fault: PlannedFault) {
    sleep(Duration::from_millis(fault.at_ms)).await;
    let place = fault.action.place(society.settings.disk_timeout);
    let id = lock(&society.ledger).fault_begins(timeline.now(), place, &fault.to_string());
    switch(&world, &origin, fault.action, true);
    if let FaultAction::ClockJump(seconds, is_back) = fault.action {
        let micros = i64::try_from(seconds).unwrap_or_default() * 1_000_000;
        world.jump_clock(if is_back { -micros } else { micros });
        lock(&society.ledger).clock_jumps(timeline.now(), seconds);
    }
    if matches!(fault.action, FaultAction::Damage(_)) {
        lock(&society.ledger).disk_is_damaged();
    }
    sleep(Duration::from_millis(fault.for_ms)).await;
    switch(&world, &origin, fault.action, false);
    lock(&society.ledger).fault_ends(timeline.now(), id);
}

/// Switches a fault on or off. Faults of one kind replace each other.
fn switch(world: &World, origin: &Origin, action: FaultAction, is_on: bool) {
    let disk = world.disk();
    match action {
        FaultAction::Origin(fault, percent) => origin.faults().set(fault, if is_on { percent } else { 0 }),
        FaultAction::Connect(mode) => {
            let addresses = [ORIGIN_ADDRESS, SECOND_ORIGIN_ADDRESS];
            for address in addresses.iter().filter_map(|address| address.parse().ok()) {
                world.network().set_mode(&address, if is_on { mode } else { ConnectMode::Accept });
            }
        }
        FaultAction::Disk(mode) => disk.set_mode(if is_on { mode } else { DiskMode::default() }),
        FaultAction::DiskHangs(hang) => disk.hang(if is_on { hang } else { DiskHang::Nothing }),
        FaultAction::DiskFull => disk.set_room(is_on.then(|| disk.bytes())),
        FaultAction::Damage(count) if is_on => (0..count).for_each(|_| drop(disk.damage())),
        FaultAction::Damage(_) | FaultAction::ClockJump(..) => {}
    }
}
