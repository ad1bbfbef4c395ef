//! Starting and ending an edge: binding, the workers' threads, signals, the drain.
//!
//! Invariant: nothing is served before everything is bound, and nothing is left running after [`Edge::run`]
//! returned. Ending has two stages: the drain, in which requests in flight go on and idle connections end; and
//! quitting, at the drain's deadline or when asked a second time.

use crate::access_log::{AccessLog, Writer};
use crate::admin;
use crate::disk_threads;
use crate::first_look;
use crate::footprint;
use crate::leaving::join_in_time;
use crate::operator;
use crate::persistence;
use crate::refill;
use crate::shared::Shared;
use crate::signals::{Requests, Stops};
use crate::sweeper;
use crate::token;
use crate::tree;
use crate::verifier;
use crate::worker;
use config::{AccessLog as LogTarget, Plan};
use net::{Address, BindError, Listener};
use platform::Clock;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc;

/// How often the end of a drain is looked for.
const TICK: Duration = Duration::from_millis(20);

/// Why an edge could not run.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// An address could not be listened on.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The access log could not be opened.
    #[error("cannot open the access log {path}: {error}; choose a file that can be written")]
    AccessLog {
        /// The path as configured.
        path: String,
        /// The system's own words.
        error: io::Error,
    },
    /// The token could not be read.
    #[error(
        "cannot read the token file {}: {error}; write the secret into its first line, or start with --create-token",
        path.display()
    )]
    Token {
        /// The path as configured.
        path: PathBuf,
        /// The system's own words.
        error: io::Error,
    },
    /// The token could not be created.
    #[error("cannot create the token file {}: {error}; choose a directory that can be written", path.display())]
    TokenCreation {
        /// The path as configured.
        path: PathBuf,
        /// The system's own words.
        error: io::Error,
    },
    /// The system gave no thread, no descriptor or no signal handler.
    #[error("cannot start: {0}")]
    System(#[from] io::Error),
}

/// The addresses that are really listened on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bound {
    /// Where visitors connect.
    pub listen: Address,
    /// Where metrics and status are.
    pub admin: Address,
}

/// An edge whose addresses are bound and that serves nobody yet.
pub struct Edge {
    shared: Arc<Shared>,
    listeners: Vec<Listener>,
    admin: Listener,
    writer: Option<Writer>,
    bound: Bound,
}

/// An edge that runs in the background; it quits when this is dropped.
pub struct Running {
    bound: Bound,
    stop: mpsc::Sender<()>,
    thread: Option<JoinHandle<Result<(), ServeError>>>,
}

/// Runs the edge of a plan until a signal ends it: SIGTERM or SIGINT drain, a second one quits at once. SIGHUP and
/// SIGUSR1 have the access log opened anew. When it is ready to accept, one line with the addresses goes to `output`.
///
/// # Errors
/// [`ServeError`] when it cannot start.
pub fn serve(plan: Plan, clock: Arc<dyn Clock>, output: &mut dyn Write) -> Result<(), ServeError> {
    let served = serve_until_told(plan, clock, output);
    operator::finish();
    served
}

fn serve_until_told(plan: Plan, clock: Arc<dyn Clock>, output: &mut dyn Write) -> Result<(), ServeError> {
    raise_descriptor_limit();
    let runtime = runtime()?;
    let requests = runtime.block_on(async { Requests::take() })?;
    let edge = Edge::bind(plan, clock)?;
    // Whoever closed the output does not want to know.
    let _ = writeln!(output, "{}", edge.ready_line()).and_then(|()| output.flush());
    let shared = Arc::clone(&edge.shared);
    runtime.spawn(async move { requests.obey(&shared).await });
    let shared = Arc::clone(&edge.shared);
    runtime.spawn(async move { first_look::look(&shared).await });
    let stops = runtime.block_on(async { Stops::signals() })?;
    edge.run(runtime, stops)
}

/// The event loop of everything but the workers' connections.
fn runtime() -> io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}

impl Edge {
    /// Binds the plan's addresses and opens its log.
    ///
    /// # Errors
    /// [`ServeError`]; nothing is left bound.
    pub fn bind(mut plan: Plan, clock: Arc<dyn Clock>) -> Result<Self, ServeError> {
        let listeners = net::bind(&plan.listen, plan.workers.max(1))?;
        let admin = one(net::bind(&plan.admin, 1)?, &plan.admin)?;
        let listen =
            listeners.first().map_or_else(|| plan.listen.clone(), |listener| listener.local().clone());
        let bound = Bound { listen, admin: admin.local().clone() };
        let token = token::obtain(&plan)?;
        let (log, writer) = match &plan.access_log {
            Some(target) => {
                let opened = AccessLog::start(target, plan.limits.access_log_lines_max);
                let (log, writer) =
                    opened.map_err(|error| ServeError::AccessLog { path: path_of(target), error })?;
                (Some(log), Some(writer))
            }
            None => (None, None),
        };
        // Where the system chose the port, it is known from here on.
        plan.listen = bound.listen.clone();
        let (shared, recovery) =
            Shared::new(plan, log, clock).with_token(token).with_static_tree().above_disk()?;
        let shared = Arc::new(shared);
        shared.buffers.spool.probe();
        if let Some(recovery) = recovery {
            persistence::take_over(&shared, recovery)?;
        }
        Ok(Self { shared, listeners, admin, writer, bound })
    }

    /// The addresses that are really listened on.
    pub fn bound(&self) -> &Bound {
        &self.bound
    }

    /// `petasos: serving http://127.0.0.1:8080 -> http://127.0.0.1:9000 (profile default), admin ...`
    pub fn ready_line(&self) -> String {
        let sites: Vec<_> = self
            .shared
            .sites
            .iter()
            .map(|site| format!("{} (profile {})", site.plan.origin, site.plan.profile))
            .collect();
        let (listen, admin) = (in_a_url(&self.bound.listen), in_a_url(&self.bound.admin));
        format!("petasos: serving {listen} -> {}, admin {admin}", sites.join(", "))
    }

    /// Serves in a thread of its own.
    ///
    /// # Errors
    /// When there is no thread to be had.
    pub fn start(self) -> io::Result<Running> {
        let bound = self.bound.clone();
        let (stop, stops) = mpsc::channel(2);
        let thread = std::thread::Builder::new()
            .name("petasos-edge".to_owned())
            .spawn(move || self.run(runtime()?, Stops::Channel(stops)))?;
        Ok(Running { bound, stop, thread: Some(thread) })
    }

    fn run(self, runtime: Runtime, stops: Stops) -> Result<(), ServeError> {
        let Self { shared, listeners, admin, writer, .. } = self;
        let mut workers = Vec::with_capacity(listeners.len());
        for (index, listener) in listeners.into_iter().enumerate() {
            let shared = Arc::clone(&shared);
            let thread = std::thread::Builder::new()
                .name(format!("petasos-worker-{index}"))
                .spawn(move || worker::run(&shared, index, listener));
            workers.push(thread?);
        }
        let writer_of_tree = tree::start(&shared)?;
        let owns_process = matches!(stops, Stops::Signals { .. });
        let sweeper = sweeper::start(Arc::clone(&shared))?;
        if owns_process {
            footprint::start(&shared)?;
        }
        verifier::start(&shared)?;
        let controlled = runtime.block_on(async {
            let acceptor = admin.acceptor()?;
            tokio::spawn(admin::serve(Arc::clone(&shared), acceptor));
            tokio::spawn(refill::run(Arc::clone(&shared)));
            control(&shared, stops).await;
            Ok(())
        });
        // Whatever ended the control ends the workers.
        shared.quit();
        shared.verifier.end();
        // The admin's listener and connections go with it, and its threads are not waited for.
        runtime.shutdown_background();
        drop(admin);
        let ended: io::Result<()> = workers
            .into_iter()
            .filter_map(join_in_time)
            .try_for_each(|worker| worker.unwrap_or_else(|_| Err(io::Error::other("a worker has panicked"))));
        // A thread that panicked has freed nothing more; the edge ends anyway.
        let _ = join_in_time(sweeper);
        shared.static_tree.end();
        let _ = writer_of_tree.and_then(join_in_time);
        if !shared.persistence.is_hung() {
            let shared = Arc::clone(&shared);
            let within = shared.limits.disk_timeout;
            // Without it the tier has failed, and its directory is not marked as cleanly left.
            let _ = disk_threads::run_here(within, move || shared.persist());
        }
        shared.persistence.close();
        drop(shared);
        let _ = writer.and_then(Writer::finish);
        controlled.and(ended).map_err(ServeError::System)
    }
}

impl Running {
    /// The addresses that are really listened on.
    pub fn bound(&self) -> &Bound {
        &self.bound
    }

    /// The first time, begins the drain; the second time, quits.
    pub fn stop(&self) {
        // A full queue or an edge that is gone has been told already.
        let _ = self.stop.try_send(());
    }

    /// Waits until the edge has ended.
    ///
    /// # Errors
    /// [`ServeError`] when it could not run.
    pub fn join(mut self) -> Result<(), ServeError> {
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(ended)) => ended,
            Some(Err(_)) => Err(ServeError::System(io::Error::other("the edge has panicked"))),
            None => Ok(()),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop();
        self.stop();
        if let Some(thread) = self.thread.take() {
            // How it ended is nobody's interest any more.
            let _ = thread.join();
        }
    }
}

/// Waits for the first stop, drains, and returns when the drain is over, its time is up or a second stop came.
async fn control(shared: &Shared, mut stops: Stops) {
    stops.next().await;
    shared.drain();
    let drained = async {
        while shared.connections() > 0 {
            tokio::time::sleep(TICK).await;
        }
    };
    tokio::select! {
        () = drained => {}
        () = tokio::time::sleep(shared.limits.drain_timeout) => {}
        () = stops.next() => {}
    }
}

/// Lets the process have as many descriptors as it may: the usual soft limit of 1024 is far below
/// limits.connections_max. If it cannot be raised, surplus connections wait to be accepted.
fn raise_descriptor_limit() {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let raised = rustix::process::Rlimit { current: limit.maximum, maximum: limit.maximum };
    let _ = rustix::process::setrlimit(rustix::process::Resource::Nofile, raised);
}

fn one(listeners: Vec<Listener>, address: &Address) -> Result<Listener, BindError> {
    listeners.into_iter().next().ok_or_else(|| BindError::System {
        address: address.clone(),
        error: io::Error::other("no socket was made"),
    })
}

fn in_a_url(address: &Address) -> String {
    match address {
        Address::Ip(_) | Address::Host { .. } => format!("http://{address}"),
        Address::Unix(_) => address.to_string(),
    }
}

fn path_of(target: &LogTarget) -> String {
    match target {
        LogTarget::Stdout => "on standard output".to_owned(),
        LogTarget::File(path) => path.display().to_string(),
    }
}
