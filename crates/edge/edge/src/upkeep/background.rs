//! The threads and tasks that work for an edge beside its requests, from its start to its end.
//!
//! Invariant: after [`Background::end`] none of these threads runs, except one that a hanging disk
//! holds.

use crate::shared::Shared;
use crate::upkeep::leaving::join_in_time;
#[cfg(feature = "otlp")]
use crate::upkeep::trace_export::start as start_trace_export;
use crate::upkeep::{
    certificates, encoder, issuance, refill, sampler, supervisor, sweeper, tree_writer, verifier, warming,
};
use std::io;
use std::sync::Arc;
use threads::JoinHandle;
use tokio::task::AbortHandle;

/// The threads of an edge that are joined at its end.
#[derive(Debug)]
pub(crate) struct Background {
    sweeper: JoinHandle<()>,
    tree_writer: Option<JoinHandle<()>>,
    certificates: Option<JoinHandle<()>>,
    issuance: Option<JoinHandle<()>>,
    encoder: JoinHandle<()>,
    traces: Option<JoinHandle<()>>,
}

/// There is no such thread in this build, and an edge that wants one is not started.
#[cfg(not(feature = "otlp"))]
fn start_trace_export(_: &Arc<Shared>) -> io::Result<Option<JoinHandle<()>>> {
    Ok(None)
}

impl Background {
    /// Starts the threads.
    ///
    /// # Errors
    /// If the system cannot create a thread.
    pub(crate) fn start(shared: &Arc<Shared>) -> io::Result<Self> {
        let tree_writer = tree_writer::start(shared)?;
        let sweeper = sweeper::start(Arc::clone(shared))?;
        verifier::start(shared)?;
        let certificates = certificates::start(shared)?;
        let issuance = issuance::start(shared)?;
        let encoder = encoder::start(shared)?;
        let traces = start_trace_export(shared)?;
        Ok(Self { sweeper, tree_writer, certificates, issuance, encoder, traces })
    }

    /// Starts the tasks, in the context of a runtime.
    pub(crate) fn start_tasks(shared: &Arc<Shared>) -> [AbortHandle; 4] {
        [
            supervisor::start_task("refill", shared, refill::run),
            supervisor::start_task("popular-pages", shared, refill::merge),
            supervisor::start_task("history", shared, sampler::run),
            supervisor::start_task("warming", shared, warming::run),
        ]
    }

    /// Ends the threads, makes late purges durable and closes the disk tier. The edge must have
    /// been told to quit. Blocks.
    pub(crate) fn end(self, shared: &Arc<Shared>) {
        shared.verifier.end();
        shared.encodings.end();
        // The results are empty: a supervised thread ends without a panic. One that does not end in
        // time is reported, and the edge ends without it.
        let _ = join_in_time(self.sweeper);
        shared.static_tree.end();
        let _ = self.tree_writer.and_then(join_in_time);
        let _ = self.certificates.and_then(join_in_time);
        let _ = self.issuance.and_then(join_in_time);
        let _ = self.traces.and_then(join_in_time);
        let _ = join_in_time(self.encoder);
        if !shared.persistence.is_hung() {
            let own = Arc::clone(shared);
            let within = shared.limits.disk_timeout;
            // If this last attempt fails, so has the disk tier, and its directory is not marked as
            // cleanly closed.
            let _ = shared.disk_threads.run_here(within, move || own.persist());
        }
        // It has reported a disk that hangs; the edge ends without it.
        let _ = shared.persistence.close();
        shared.disk_threads.dismiss();
        shared.file_threads.dismiss();
    }
}
