//! The thread that writes the static tree.
//!
//! Invariant: when the file system begins to refuse, and when it works again, that is one line on
//! standard error.

use crate::shared::Shared;
use crate::upkeep::supervisor::{self, ThreadEnd};
use std::io;
use std::sync::Arc;
use threads::JoinHandle;

/// Starts the writer thread, if there is a tree.
///
/// # Errors
/// If the system cannot create a thread.
pub(crate) fn start(shared: &Arc<Shared>) -> io::Result<Option<JoinHandle<()>>> {
    if shared.static_tree.tree().is_none() {
        return Ok(None);
    }
    let shared = Arc::clone(shared);
    // Restarted after a panic: without it, purges would leave files that a web server sends.
    let work = move || {
        if let Some(tree) = shared.static_tree.tree() {
            tree.run(&shared.store, &*shared.clock, &report);
        }
        match shared.static_tree.tree() {
            Some(tree) if tree.is_given_up() => ThreadEnd::Due,
            _ => ThreadEnd::of(&shared.ending),
        }
    };
    supervisor::start("petasos-tree", work).map(Some)
}

/// Reports that the file system begins to refuse (`Err`), or that it works again.
fn report(state: Result<(), &str>) {
    match state {
        Ok(()) => tracing::info!("the static tree is written again"),
        Err(fault) => tracing::error!("the static tree cannot be written: {fault}"),
    }
}
