//! Starting and ending an edge: binding, worker threads, signals and the drain.
//!
//! Invariant: the edge serves nothing before all addresses are bound, and leaves nothing running
//! after [`BoundEdge::run`] has returned. The end has two stages. In the drain, requests under way
//! continue and idle connections are closed. Quitting follows at the drain's deadline or on a
//! second stop.

use crate::control::access_log::{AccessLog, LogWriter};
use crate::control::admin;
use crate::control::first_look;
use crate::control::operator::Finishing;
use crate::control::token::{self, TokenError};
use crate::listeners::{ListenerError, Listeners};
use crate::origins;
use crate::request::origin_names::OriginNames;
use crate::shared::{PlanSource, Shared, SuccessorStart};
use crate::system::System;
use crate::upkeep::background::Background;
use crate::upkeep::broken_ends;
use crate::upkeep::footprint;
use crate::upkeep::handover;
use crate::upkeep::leaving::join_in_time;
use crate::upkeep::predecessor::{Predecessor, UpgradeError};
use crate::upkeep::service_manager;
use crate::upkeep::signals::{OperatorSignals, Stops};
use crate::upkeep::successor;
use crate::upkeep::supervisor;
use crate::upkeep::take_over::take_over;
use crate::worker::{self, WorkerSockets};
use address::Address;
use config::{AccessLogTarget, EdgePlan};
use net::{BindError, InheritedSockets, Listener, OriginTlsError};
use std::fs::{self, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc;

/// How often the drain checks whether all connections are closed.
const TICK: Duration = Duration::from_millis(20);

/// Time after a hand-over in which requests at the admin address may end. Purges among them may
/// have waited for the other process.
const ADMIN_GRACE: Duration = Duration::from_secs(2);

/// Why an edge could not run.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// An address could not be listened on.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// Certificates of listeners cannot be used.
    #[error("cannot serve TLS: {}", one_a_line(.0))]
    Listeners(Vec<ListenerError>),
    /// Connections to https origins cannot be secured.
    #[error("cannot connect to origins over TLS: {}", one_a_line(.0))]
    Origins(Vec<OriginTlsError>),
    /// The access log could not be opened.
    #[error("cannot open the access log {path}: {error}; choose a file that can be written")]
    AccessLog {
        /// The path as configured.
        path: String,
        /// The system's error.
        error: io::Error,
    },
    /// The token could not be read or created.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// The process could not take over from another one.
    #[error(transparent)]
    Upgrade(#[from] UpgradeError),
    /// The system refused a thread, a file descriptor or a signal handler.
    #[error("cannot start: {0}")]
    System(#[from] io::Error),
}

/// The addresses that are really listened on, with the port that the system chose for port 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bound {
    /// The addresses for clients, in the order of the plan; at least one.
    pub listen: Vec<Address>,
    /// The address of metrics, status and the admin API.
    pub admin: Address,
}

/// Where the listening sockets of a process come from. Addresses without a socket are bound.
#[derive(Debug)]
pub enum SocketSource {
    /// They were passed to the process, or there are none yet.
    Inherited(InheritedSockets),
    /// The process that serves with the same setting `admin`. It hands over its disk directory too,
    /// and ends.
    Predecessor,
}

/// The name by which a process that takes over finds this one, and all listening sockets.
type UpgradeSockets = (Arc<str>, Arc<Vec<Listener>>);

/// Why an edge with `trace_export` does not start in a build without the feature `otlp`.
const NO_EXPORT: &str = "this build cannot export traces: leave out `trace_export`, or build Petasos with the \
                         feature `otlp`";

/// An edge whose addresses are bound but that does not serve yet.
pub struct BoundEdge {
    shared: Arc<Shared>,
    /// The sockets of each worker.
    sockets: Vec<WorkerSockets>,
    admin: Listener,
    writer: Option<LogWriter>,
    bound: Bound,
    /// The setting `admin`, by which a new process finds this one.
    stated_admin: Address,
}

/// An edge that runs in the background. Dropping it quits.
pub struct RunningEdge {
    bound: Bound,
    stop: mpsc::Sender<()>,
    thread: Option<std::thread::JoinHandle<Result<(), ServeError>>>,
}

/// Runs the edge of a plan until a signal ends it. SIGTERM or SIGINT starts the drain; a second one
/// quits at once. SIGHUP and SIGUSR1 reopen the access log. SIGHUP also reads the plan again from
/// `source`. SIGUSR2 calls `start_successor`.
///
/// Sockets from `sockets` serve the listeners with their addresses. A later process may take over
/// by [`SocketSource::Predecessor`]; this one then drains.
///
/// When the edge is ready to accept, it writes one line with its addresses to `output`.
///
/// # Errors
/// [`ServeError`] when it cannot start.
pub fn serve(
    plan: EdgePlan,
    source: PlanSource,
    (sockets, start_successor): (SocketSource, SuccessorStart),
    system: System,
    output: &mut dyn Write,
) -> Result<(), ServeError> {
    let _finishing = Finishing;
    raise_descriptor_limit();
    if let Some(record) = broken_ends::record_of(&plan) {
        platform::record_broken_invariants(record);
    }
    let runtime = runtime()?;
    let requests = runtime.block_on(async { OperatorSignals::take(start_successor) })?;
    let (predecessor, inherited) = match sockets {
        SocketSource::Inherited(sockets) => (None, sockets),
        SocketSource::Predecessor => {
            let (predecessor, sockets) = Predecessor::find(&plan.admin)?;
            (Some(predecessor), sockets)
        }
    };
    let edge = BoundEdge::prepare(plan, Some(source), inherited, system, predecessor.as_ref())?;
    // Whatever may fail comes before the old process stops serving.
    let upgrade_sockets = edge.upgrade_sockets()?;
    let stops = runtime.block_on(async { Stops::signals() })?;
    if let Some(predecessor) = predecessor {
        predecessor.take_over(&edge.shared)?;
    }
    // A closed output does not stop the edge.
    let _ = writeln!(output, "{}", edge.ready_line()).and_then(|()| output.flush());
    service_manager::ready();
    obey(requests, &edge.shared, &runtime);
    let shared = Arc::clone(&edge.shared);
    runtime.spawn(async move { first_look::look(&shared).await });
    edge.run(runtime, stops, Some(upgrade_sockets))
}

/// Handles the signals that do not end the process.
fn obey(requests: OperatorSignals, shared: &Arc<Shared>, runtime: &Runtime) {
    let requests = Arc::new(tokio::sync::Mutex::new(requests));
    let _context = runtime.enter();
    supervisor::start_task("signals", shared, move |shared| {
        let requests = Arc::clone(&requests);
        async move { requests.lock().await.obey(&shared).await }
    });
}

/// The event loop of everything except the workers' connections.
fn runtime() -> io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}

impl BoundEdge {
    /// Binds the plan's addresses and opens its log. The plan cannot change.
    ///
    /// # Errors
    /// [`ServeError`]; nothing is left bound.
    pub fn bind(plan: EdgePlan, system: System) -> Result<Self, ServeError> {
        Self::prepare(plan, None, InheritedSockets::default(), system, None)
    }

    /// As [`BoundEdge::bind`], for an edge whose plan can be read again from `source`.
    ///
    /// # Errors
    /// [`ServeError`]; nothing is left bound.
    pub fn bind_again(plan: EdgePlan, source: PlanSource, system: System) -> Result<Self, ServeError> {
        Self::prepare(plan, Some(source), InheritedSockets::default(), system, None)
    }

    /// Binds the plan's addresses, except those with a socket in `inherited`. `predecessor` closes
    /// its directories once nothing else can fail.
    fn prepare(
        mut plan: EdgePlan,
        source: Option<PlanSource>,
        mut inherited: InheritedSockets,
        system: System,
        predecessor: Option<&Predecessor>,
    ) -> Result<Self, ServeError> {
        if plan.traces.is_some() && cfg!(not(feature = "otlp")) {
            return Err(ServeError::System(io::Error::other(NO_EXPORT)));
        }
        let stated_admin = plan.admin.clone();
        // Read first: a certificate that cannot be used must not take the port of another
        // process.
        let listeners =
            Listeners::open(&plan, system.clock.now(), Arc::default()).map_err(ServeError::Listeners)?;
        let secured = origins::open(&plan).map_err(ServeError::Origins)?;
        let sockets = bind_listeners(&mut plan, &mut inherited)?;
        let admin = one(inherited.bind(&plan.admin, 1)?.into_iter().flatten(), &plan.admin)?;
        for unused in inherited.unused() {
            tracing::warn!("no listener has the address {unused} of a socket that was passed; it is closed");
        }
        let listen = plan.listeners.iter().map(|listener| listener.address.clone()).collect();
        let bound = Bound { listen, admin: admin.local().clone() };
        let token = token::obtain(&plan)?;
        let path = || plan.access_log.as_ref().map(path_of).unwrap_or_default();
        let opened = AccessLog::start(&plan, &system);
        let opened = opened.map_err(|error| ServeError::AccessLog { path: path(), error })?;
        let (log, writer) = opened.unzip();
        if let Some(predecessor) = predecessor {
            predecessor.release()?;
        }
        let shared = Shared::new(plan, log, system).with_token(token).with_listeners(listeners);
        let shared = shared.with_plan_source(source).with_secured_origins(&secured);
        let (shared, recovery) = shared.with_static_tree().above_disk()?;
        let shared = Arc::new(shared);
        shared.buffers.spool.probe();
        if let Some(recovery) = recovery {
            take_over(&shared, recovery)?;
        }
        Ok(Self { shared, sockets, admin, writer, bound, stated_admin })
    }

    /// The addresses that are really listened on.
    pub fn bound(&self) -> &Bound {
        &self.bound
    }

    /// The line that announces the edge, for example `petasos: serving http://127.0.0.1:8080 ->
    /// http://127.0.0.1:9000 (profile default), admin http://127.0.0.1:8081`.
    pub fn ready_line(&self) -> String {
        let sites: Vec<_> = self
            .shared
            .sites
            .iter()
            .map(|site| format!("{} (profile {})", OriginNames(&site.plan).addresses(), site.plan.profile))
            .collect();
        let sites = if sites.is_empty() { "no origin".to_owned() } else { sites.join(", ") };
        let listeners = self.shared.plan.listeners.iter();
        let listen: Vec<_> = listeners
            .map(|listener| {
                in_a_url(&listener.address, if listener.tls.is_some() { "https" } else { "http" })
            })
            .collect();
        let is_secured = self.shared.plan.admin_tls.is_some();
        let admin = in_a_url(&self.bound.admin, if is_secured { "https" } else { "http" });
        format!("petasos: serving {} -> {sites}, admin {admin}", listen.join(", "))
    }

    /// Serves in a separate thread.
    ///
    /// # Errors
    /// If the system cannot create a thread.
    pub fn start(self) -> io::Result<RunningEdge> {
        let bound = self.bound.clone();
        let (stop, stops) = mpsc::channel(2);
        // Not supervised: its end is the result of `join`.
        let thread = std::thread::Builder::new()
            .name("petasos-edge".to_owned())
            .spawn(move || self.run(runtime()?, Stops::Channel(stops), None))?;
        Ok(RunningEdge { bound, stop, thread: Some(thread) })
    }

    /// All listening sockets, for a process that takes over, and the name by which it finds this
    /// one.
    fn upgrade_sockets(&self) -> Result<UpgradeSockets, ServeError> {
        let name = handover::channel_name(&self.stated_admin, &self.bound.admin)?;
        let sockets = self.sockets.iter().flatten().map(|(_, socket)| socket);
        let sockets = sockets.chain([&self.admin]).map(Listener::try_clone);
        Ok((name.into(), Arc::new(sockets.collect::<io::Result<_>>()?)))
    }

    /// Serves until a stop. `upgrade_sockets`: the edge has the process to itself, and another
    /// process may take over.
    fn run(
        self,
        runtime: Runtime,
        stops: Stops,
        upgrade_sockets: Option<UpgradeSockets>,
    ) -> Result<(), ServeError> {
        let Self { shared, sockets, admin, writer, .. } = self;
        let mut workers = Vec::with_capacity(sockets.len());
        for (index, own) in sockets.into_iter().enumerate() {
            workers.push(worker::start(Arc::clone(&shared), index, own)?);
        }
        let background = Background::start(&shared)?;
        if upgrade_sockets.is_some() {
            footprint::start(&shared)?;
        }
        let controlled: io::Result<()> = runtime.block_on(async {
            let acceptor = Arc::new(admin.acceptor()?);
            supervisor::start_task("admin", &shared, move |shared| {
                admin::serve(shared, Arc::clone(&acceptor))
            });
            Background::start_tasks(&shared);
            if let Some((name, sockets)) = upgrade_sockets {
                supervisor::start_task("watchdog", &shared, service_manager::feed);
                supervisor::start_task("upgrade", &shared, move |shared| {
                    successor::serve(shared, Arc::clone(&name), Arc::clone(&sockets))
                });
            }
            control(&shared, stops).await;
            Ok(())
        });
        // The workers end whatever ended `control`, also an error.
        shared.quit();
        // The runtime's own connections and listener go with it. Its blocking threads are not
        // waited for.
        runtime.shutdown_background();
        drop(admin);
        for thread in workers {
            // The result is empty: a supervised thread ends without a panic.
            let _ = join_in_time(thread);
        }
        background.end(&shared);
        shared.forget_reloads();
        drop(shared);
        // Lost lines are counted and reported where they are lost.
        let _ = writer.and_then(LogWriter::finish);
        controlled.map_err(ServeError::System)
    }
}

impl RunningEdge {
    /// The addresses that are really listened on.
    pub fn bound(&self) -> &Bound {
        &self.bound
    }

    /// The first call starts the drain, the second one quits.
    pub fn stop(&self) {
        // An error means that two stops are queued already or that the edge has ended.
        let _ = self.stop.try_send(());
    }

    /// Waits until the edge has ended.
    ///
    /// # Errors
    /// [`ServeError`] when it could not run.
    pub fn join(mut self) -> Result<(), ServeError> {
        match self.thread.take().map(std::thread::JoinHandle::join) {
            Some(Ok(ended)) => ended,
            Some(Err(_)) => Err(ServeError::System(io::Error::other("the edge has panicked"))),
            None => Ok(()),
        }
    }
}

impl Drop for RunningEdge {
    fn drop(&mut self) {
        self.stop();
        self.stop();
        if let Some(thread) = self.thread.take() {
            // The result is ignored because the handle's owner did not ask for it.
            let _ = thread.join();
        }
    }
}

/// Waits for the first stop, or for another process that takes over, and drains. Returns when all
/// connections are closed, the drain's time is over or a second stop came.
async fn control(shared: &Arc<Shared>, mut stops: Stops) {
    tokio::select! {
        () = stops.next() => service_manager::stopping(),
        // The service goes on in the other process.
        () = shared.ending.handed_over() => {}
    }
    let shared = shared.current();
    shared.drain();
    let drained = async {
        if shared.is_handed_over() {
            tokio::time::sleep(ADMIN_GRACE).await;
        }
        // The invalidations of an older process, which may still serve a client, reach the process
        // that serves through this one.
        let relays = || shared.is_handed_over() && shared.ending.has_predecessor();
        // The last values of minutes and the pages of the week go to the disk meanwhile.
        while shared.connections() > 0 || relays() || !shared.minutes.has_ended() {
            tokio::time::sleep(TICK).await;
        }
    };
    tokio::select! {
        biased;
        () = drained => {}
        () = tokio::time::sleep(shared.limits.drain_timeout) => {}
        () = stops.next() => {}
    }
}

/// Raises the soft limit of file descriptors to the hard limit, because the usual 1024 are far
/// below `limits.connections_max`. If that fails, surplus connections wait to be accepted.
fn raise_descriptor_limit() {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let raised = rustix::process::Rlimit { current: limit.maximum, maximum: limit.maximum };
    let _ = rustix::process::setrlimit(rustix::process::Resource::Nofile, raised);
}

/// The mode of a listener's Unix socket: its owner and group may connect.
const LISTENER_MODE: u32 = 0o660;

/// Binds the sockets of all listeners and returns those of each worker. If the system chose a port,
/// the plan has it from here on.
fn bind_listeners(
    plan: &mut EdgePlan,
    inherited: &mut InheritedSockets,
) -> Result<Vec<WorkerSockets>, BindError> {
    let mut workers: Vec<WorkerSockets> = (0..plan.workers.max(1)).map(|_| Vec::new()).collect();
    for (number, listener) in plan.listeners.iter_mut().enumerate() {
        let sockets = inherited.bind(&listener.address, workers.len())?;
        if let Some(first) = sockets.iter().flatten().next() {
            listener.address = first.local().clone();
        }
        if let Address::Unix(path) = &listener.address {
            // A server in front has another user, and connecting needs the right to write.
            let mode = Permissions::from_mode(LISTENER_MODE);
            fs::set_permissions(path, mode)
                .map_err(|error| BindError::System { address: listener.address.clone(), error })?;
        }
        for (own, sockets) in workers.iter_mut().zip(sockets) {
            own.extend(sockets.into_iter().map(|socket| (number, socket)));
        }
    }
    Ok(workers)
}

fn one(mut listeners: impl Iterator<Item = Listener>, address: &Address) -> Result<Listener, BindError> {
    listeners.next().ok_or_else(|| BindError::System {
        address: address.clone(),
        error: io::Error::other("no socket was created"),
    })
}

fn in_a_url(address: &Address, scheme: &str) -> String {
    match address {
        Address::Ip(_) | Address::Host { .. } => format!("{scheme}://{address}"),
        Address::Unix(_) => address.to_string(),
    }
}

fn one_a_line(errors: &[impl ToString]) -> String {
    errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n  ")
}

fn path_of(target: &AccessLogTarget) -> String {
    match target {
        AccessLogTarget::Stdout => "on standard output".to_owned(),
        AccessLogTarget::File(path) => path.display().to_string(),
        AccessLogTarget::Syslog(address) => format!("to syslog at {address}"),
        AccessLogTarget::Journald(_) => "to the journal".to_owned(),
    }
}
