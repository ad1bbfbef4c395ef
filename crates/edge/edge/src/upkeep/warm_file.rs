//! The file of a run that fills the cache, from which a later process goes on.
//!
//! Invariant: the file is replaced as a whole. A damaged or foreign one is reported and ignored.

use crate::shared::Shared;
use crawl::{WarmState, Warming};
use std::path::PathBuf;
use std::sync::Arc;

/// The file of a site in `state_directory`; `None` without such a directory. Characters that are
/// not part of host names are replaced, so the name never leaves the directory.
fn path(shared: &Shared, site: &str) -> Option<PathBuf> {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '.' | '-');
    let name: String = site.chars().map(|letter| if is_plain(letter) { letter } else { '_' }).collect();
    Some(shared.plan.state_directory.as_ref()?.join(format!("warm-{name}.json")))
}

/// The content of the file of a site; `None` if there is none.
pub(super) async fn read(shared: &Arc<Shared>, site: &str) -> Option<Vec<u8>> {
    let (path, disk) = (path(shared, site)?, Arc::clone(&shared.system.disk));
    shared.disk_threads.run(shared.limits.disk_timeout, move || disk.read(&path)).await?.ok()
}

/// Writes the state of a run. A failure is reported and changes nothing else.
pub(super) async fn write(shared: &Arc<Shared>, site: &str, state: Vec<u8>) {
    let Some(path) = path(shared, site) else { return };
    let (disk, target) = (Arc::clone(&shared.system.disk), path.clone());
    let written = shared.disk_threads.run(shared.limits.disk_timeout, move || {
        if let Some(directory) = target.parent() {
            disk.create_directory(directory)?;
        }
        disk.replace(&target, &state)
    });
    let why = match written.await {
        Some(Ok(())) => return,
        Some(Err(error)) => error.to_string(),
        None => "the disk does not answer".to_owned(),
    };
    let failure = format!(
        "a restart would begin anew to fill the cache of {site}, because {} cannot be written: {why}",
        path.display()
    );
    shared.complaints.tell(&failure, shared.clock.monotonic());
}

/// Removes the file of a run that is over. It may be missing, because a run is over before its
/// first write, or without a directory.
pub(super) async fn remove(shared: &Arc<Shared>, site: &str) {
    let Some(path) = path(shared, site) else { return };
    let disk = Arc::clone(&shared.system.disk);
    let _ = shared.disk_threads.run(shared.limits.disk_timeout, move || disk.remove(&path)).await;
}

/// The run of a file. `is_empty`: the cache is empty, so that the run begins anew.
///
/// # Errors
/// A text that says why the file cannot be used.
pub(super) fn run_of(content: &[u8], is_empty: bool) -> Result<Warming, String> {
    let state: WarmState = serde_json::from_slice(content).map_err(|error| error.to_string())?;
    let state = if is_empty { state.rewound() } else { state };
    Warming::resume(state).map_err(|error| error.to_string())
}
