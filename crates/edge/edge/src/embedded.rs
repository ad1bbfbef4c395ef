//! An edge without sockets, in the event loop of its caller.
//!
//! Invariant: it runs the same steps, stores, fetches and background work as an edge with sockets.
//! Only accepting connections, signals and the memory of the process are missing.

use crate::control::access_log::{AccessLog, LogWriter};
use crate::control::admin::AdminEntrance;
use crate::control::counters::Metric;
use crate::control::first_look;
use crate::control::metrics;
use crate::shared::{PlanSource, Shared};
use crate::system::System;
use crate::upkeep::background::Background;
use crate::upkeep::predecessor::{Predecessor, UpgradeError};
use crate::upkeep::successor;
use crate::upkeep::supervisor;
use crate::upkeep::take_over::take_over;
use crate::worker;
use config::EdgePlan;
use net::{MessageChannel, Peer, Stream};
use std::io;
use std::sync::Arc;
use tokio::task::AbortHandle;

/// An edge whose connections its caller makes. Simulations run it.
#[derive(Debug)]
pub struct EmbeddedEdge {
    shared: Arc<Shared>,
    admin: AdminEntrance,
    background: Background,
    writer: Option<LogWriter>,
    tasks: Vec<AbortHandle>,
    /// Dropped with the edge, also if the edge never ended in an orderly way.
    forgotten: ForgottenAtEnd,
}

/// Forgets the newest plan and the queued work for the disk when the edge is dropped. Both hold the
/// state that holds them, and connections with it.
#[derive(Debug)]
struct ForgottenAtEnd(Arc<Shared>);

impl Drop for ForgottenAtEnd {
    fn drop(&mut self) {
        self.0.forget_reloads();
        self.0.disk_threads.abandon();
        self.0.file_threads.abandon();
    }
}

impl EmbeddedEdge {
    /// Opens the disk tier of the plan, takes over the objects of the previous process, and starts
    /// the threads. `source` is where reloads find new plans. `token` is for purges, also under
    /// new plans. Blocks, as the start of the program does.
    ///
    /// # Errors
    /// If a thread cannot be created, or the access log cannot be opened.
    pub fn open(
        plan: EdgePlan,
        source: Option<PlanSource>,
        system: System,
        token: Option<String>,
    ) -> io::Result<Self> {
        let (log, writer) = AccessLog::start(&plan, &system)?.unzip();
        Self::begin(Self::prepare(plan, source, system, token, log)?, writer)
    }

    /// As [`EmbeddedEdge::open`], in the place of the edge that serves the other end of `channel`
    /// by [`EmbeddedEdge::attend`]. Without sockets, its caller makes new connections to this one
    /// from here on.
    ///
    /// # Errors
    /// If the other edge does not hand over, if a thread cannot be created, or if the access log
    /// cannot be opened.
    pub fn succeed(
        plan: EdgePlan,
        source: Option<PlanSource>,
        system: System,
        token: Option<String>,
        channel: MessageChannel,
    ) -> Result<Self, UpgradeError> {
        let (predecessor, _) = Predecessor::greet(channel)?;
        let (log, writer) = AccessLog::start(&plan, &system)?.unzip();
        predecessor.release()?;
        let shared = Self::prepare(plan, source, system, token, log)?;
        if let Err(error) = predecessor.take_over(&shared) {
            // A process would end here.
            shared.quit();
            shared.persistence.close();
            return Err(error);
        }
        Ok(Self::begin(shared, writer)?)
    }

    /// The state of an edge above its disk, with what the previous process has stored.
    fn prepare(
        plan: EdgePlan,
        source: Option<PlanSource>,
        system: System,
        token: Option<String>,
        log: Option<AccessLog>,
    ) -> io::Result<Arc<Shared>> {
        let shared = Shared::new(plan, log, system).with_plan_source(source).with_kept_token(token);
        let shared = shared.with_static_tree();
        let (shared, recovery) = shared.above_disk()?;
        let shared = Arc::new(shared);
        shared.buffers.spool.probe();
        if let Some(recovery) = recovery {
            take_over(&shared, recovery)?;
        }
        Ok(shared)
    }

    fn begin(shared: Arc<Shared>, writer: Option<LogWriter>) -> io::Result<Self> {
        let background = Background::start(&shared)?;
        let (admin, forgotten) = (AdminEntrance::new(&shared), ForgottenAtEnd(Arc::clone(&shared)));
        Ok(Self { admin, shared, background, writer, tasks: Vec::new(), forgotten })
    }

    /// The work of handing over to a process at the other end of `channel`, from its first message
    /// to the hand-over or its end. It blocks, so it is for a thread.
    pub fn attend(&self, channel: MessageChannel) -> impl FnOnce() + Send + 'static + use<> {
        let shared = Arc::clone(&self.shared);
        move || successor::attend(&shared, Arc::default(), &channel)
    }

    /// Whether another edge serves in the place of this one.
    pub fn is_handed_over(&self) -> bool {
        self.shared.is_handed_over()
    }

    /// Whether the edge before this one may still pass on invalidations. If this one has handed
    /// over, it must not end before, because they reach the next one through it.
    pub fn has_predecessor(&self) -> bool {
        self.shared.ending.has_predecessor()
    }

    /// Starts the tasks, in the context of a runtime.
    pub fn start_tasks(&mut self) {
        let shared = Arc::clone(&self.shared);
        self.tasks.push(tokio::spawn(async move { first_look::look(&shared).await }).abort_handle());
        self.tasks.push(supervisor::start_task("origins", &self.shared, worker::sweep));
        self.tasks.extend(Background::start_tasks(&self.shared));
    }

    /// Serves a client's connection to a listener as a worker, in a task. `place` is the number of
    /// the worker and that of the listener.
    pub fn serve(&self, place: (usize, usize), stream: Stream, peer: Peer) {
        worker::take(&self.shared, place, stream, peer);
    }

    /// Serves a connection to the admin address, in a task.
    pub fn serve_admin(&self, stream: Stream, peer: Peer) {
        self.admin.take(&self.shared, stream, peer);
    }

    /// The current value of a metric, summed over all sites.
    pub fn metric(&self, metric: Metric) -> u64 {
        metrics::sum(&self.shared.current(), metric)
    }

    /// The numbers of spans that the collector of traces has accepted, and that were lost. They can
    /// be read after the end of the edge, which sends the last spans.
    pub fn span_counts(&self) -> impl Fn() -> (u64, u64) + Send + use<> {
        let traces = self.shared.traces.clone();
        move || traces.as_ref().map_or((0, 0), |traces| (traces.exported(), traces.dropped()))
    }

    /// Opens the access log again, after its file has got another name.
    pub fn reopen_log(&self) {
        self.shared.log.iter().for_each(AccessLog::reopen);
    }

    /// The number of lines of the access log that were not written. It can be read after the end of
    /// the edge, which writes the last lines, if there are no requests any more.
    pub fn log_lines_lost(&self) -> impl Fn() -> u64 + Send + use<> {
        let dropped = self.shared.counters.value(Metric::AccessLogDropped);
        let lost = self.shared.log.as_ref().map(AccessLog::lost_later);
        move || dropped + lost.as_ref().map_or(0, |lost| lost())
    }

    /// Whether the values of the last minute are still written after the drain has begun. The
    /// program waits for them before it ends.
    pub fn keeps_past(&self) -> bool {
        !self.shared.minutes.has_ended()
    }

    /// Begins the drain: idle connections are closed, and requests under way continue.
    pub fn drain(&self) {
        self.shared.drain();
    }

    /// Ends the background work and closes the disk tier. Blocks. Tasks of connections that are
    /// still open end with the runtime.
    pub fn end(self) {
        let Self { shared, admin, background, writer, tasks, forgotten } = self;
        shared.quit();
        tasks.iter().for_each(AbortHandle::abort);
        background.end(&shared);
        drop((forgotten, admin, shared));
        // Lost lines are counted and reported where they are lost.
        let _ = writer.and_then(LogWriter::finish);
    }
}
