//! *files*: looks for the file that answers a request of a route with `files`.
//!
//! Invariants: the look-up reads the target once, by rules that leave no room for a second reading.
//! It never waits for a disk on the worker. The client does not learn why there is no file.

use crate::control::counters::Metric;
use crate::memory::served_directory::ServedDirectory;
use crate::request::delivery::{ContentSource, Delivery};
use crate::request::guard::Admitted;
use crate::request::refusal::Refusal;
use crate::request::respond::ResponseAccount;
use crate::request::step::Step;
use crate::request::visit::Visit;
use crate::shared::Shared;
use message::{Fields, Method};
use semantics::{AcceptedCodings, CacheStatusFacts, Moment, Reason};
use static_files::{ColdSearch, Outcome};
use std::sync::Arc;

/// A request that a file of a directory may answer.
pub(crate) struct FileRequest<'a> {
    pub(crate) admitted: Admitted<'a>,
    pub(crate) directory: &'a Arc<ServedDirectory>,
}

/// The result of looking for a file.
pub(crate) enum FileDecision {
    Deliver(Delivery),
    Refuse(Refusal),
    /// The pages of the site answer.
    Origin,
}

impl<'a> Visit<'a> {
    /// *files*: finds the file; without one, the origin or an error answers.
    pub(crate) async fn files(&mut self, wanted: FileRequest<'a>) -> Step<'a> {
        let FileRequest { admitted, directory } = wanted;
        let head = &self.request.head;
        let found = find(directory, &head.method, &admitted.target, &head.fields, self.begun);
        if matches!(found, Some(Outcome::Cold(_))) {
            self.cells().count(Metric::FileSearches);
        }
        let decision = conclude(self.shared, directory, found).await;
        match decision {
            FileDecision::Deliver(delivery) => Step::Deliver(delivery),
            FileDecision::Refuse(refusal) => Step::Refuse(refusal),
            FileDecision::Origin => self.enter(admitted),
        }
    }
}

/// What answers a request for a file.
pub(crate) async fn decision(
    shared: &Shared,
    directory: &Arc<ServedDirectory>,
    (method, target, fields): (&Method, &[u8], &Fields),
) -> FileDecision {
    let found = find(directory, method, target, fields, Moment::read(&*shared.clock));
    conclude(shared, directory, found).await
}

/// The reason of the answer to a request for a file; `None` if the pages of the site answer.
pub(crate) async fn explain(
    shared: &Shared,
    directory: &Arc<ServedDirectory>,
    request: (&Method, &[u8], &Fields),
) -> Option<Reason> {
    match decision(shared, directory, request).await {
        FileDecision::Deliver(delivery) => Some(delivery.account.reason),
        FileDecision::Refuse(refusal) => Some(refusal.reason),
        FileDecision::Origin => None,
    }
}

/// Looks a file up without waiting for a disk. `None`: the method is not for files.
fn find(
    directory: &ServedDirectory,
    method: &Method,
    target: &[u8],
    fields: &Fields,
    now: Moment,
) -> Option<Outcome> {
    let is_for_files = matches!(method, Method::Get | Method::Head);
    is_for_files.then(|| directory.files.find(target, AcceptedCodings::of(fields), now))
}

/// Decides what follows from `found`, and first finishes a look-up that needs the disk.
async fn conclude(shared: &Shared, directory: &Arc<ServedDirectory>, found: Option<Outcome>) -> FileDecision {
    match found {
        Some(Outcome::Cold(cold)) => {
            let outcome = Box::pin(search(shared, directory, cold)).await;
            outcome.map_or_else(|| late(shared, directory), |outcome| decide(shared, directory, outcome))
        }
        Some(outcome) => decide(shared, directory, outcome),
        None => other_method(directory),
    }
}

fn other_method(directory: &ServedDirectory) -> FileDecision {
    match directory.has_origin() {
        true => FileDecision::Origin,
        false => FileDecision::Refuse(Refusal::file_method()),
    }
}

/// Looks a file up on a thread that may wait for the disk. `None` if the disk is late.
async fn search(shared: &Shared, directory: &ServedDirectory, cold: ColdSearch) -> Option<Outcome> {
    let turn = Arc::clone(&directory.turns).acquire_owned();
    let within = shared.limits.disk_timeout;
    let turn = tokio::time::timeout(within, turn).await.ok()?.ok()?;
    // The permit is released when the look-up has ended, even if its request has given up.
    shared.file_threads.run(within, move || (cold.run(), turn).0).await
}

fn decide(shared: &Shared, directory: &Arc<ServedDirectory>, outcome: Outcome) -> FileDecision {
    match outcome {
        Outcome::File(found) => {
            let facts = CacheStatusFacts::default();
            let account = ResponseAccount { reason: Reason::StaticFile, facts, age_secs: None };
            let content = ContentSource::File(found, Arc::clone(directory));
            FileDecision::Deliver(Delivery { content, account })
        }
        Outcome::Redirect(location) => FileDecision::Refuse(Refusal::file_directory(&location)),
        Outcome::NotFound(reason) => {
            tracing::debug!("no file of {} answers: {reason}", directory.plan.directory.display());
            FileDecision::Refuse(Refusal::file_missing())
        }
        Outcome::Origin(reason) => {
            tracing::debug!("the origin answers, not {}: {reason}", directory.plan.directory.display());
            FileDecision::Origin
        }
        // A look-up on a thread does not end as a cold one.
        Outcome::Cold(_) => late(shared, directory),
        Outcome::Failed(error) => failed(shared, directory, &error.to_string()),
    }
}

fn late(shared: &Shared, directory: &ServedDirectory) -> FileDecision {
    failed(shared, directory, "the disk does not answer")
}

/// The origin has the files too, if it answers for missing ones.
fn failed(shared: &Shared, directory: &ServedDirectory, error: &str) -> FileDecision {
    let path = directory.plan.directory.display();
    if directory.has_origin() {
        let failure = format!("the origin answers, because files of {path} cannot be read: {error}");
        shared.complaints.tell(&failure, shared.clock.monotonic());
        return FileDecision::Origin;
    }
    FileDecision::Refuse(Refusal::files_failed(&directory.plan.directory, error))
}

#[cfg(test)]
mod tests {
    use super::explain;
    use crate::memory::served_directory::{DirectoryBounds, ServedDirectory};
    use crate::shared::Shared;
    use crate::system::System;
    use config::{EdgePlan, FilesPlan, MissingFile};
    use document::Place;
    use message::{Fields, Method};
    use semantics::Reason;
    use std::path::Path;
    use std::sync::mpsc::channel;
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    fn directory(path: &Path) -> Arc<ServedDirectory> {
        std::fs::create_dir(path).unwrap();
        std::fs::write(path.join("a.txt"), "text").unwrap();
        let plan = FilesPlan {
            directory: path.to_owned(),
            strip: String::new(),
            attempts: vec!["{path}".to_owned()],
            index: Vec::new(),
            missing: MissingFile::NotFound,
            precompressed: Vec::new(),
            refused: Vec::new(),
            place: Place::Default,
        };
        ServedDirectory::new(plan, &DirectoryBounds::default(), 2)
    }

    #[tokio::test]
    async fn hanging_directory_delays_no_other() {
        let base = tempfile::tempdir().unwrap();
        let (hanging, other) =
            (directory(&base.path().join("hanging")), directory(&base.path().join("other")));
        let mut plan = EdgePlan::for_origin("http://127.0.0.1:9".parse().unwrap());
        plan.limits.disk_timeout = Duration::from_millis(500);
        let shared = Shared::new(plan, None, System::of_machine());
        let (release, gate) = channel::<()>();
        let gate = Arc::new(Mutex::new(gate));
        while let Ok(turn) = Arc::clone(&hanging.turns).try_acquire_owned() {
            let gate = Arc::clone(&gate);
            let stuck = move || {
                // Ends when `release` is dropped.
                drop(gate.lock().map(|gate| gate.recv()));
                drop(turn);
            };
            drop(shared.file_threads.begin(stuck));
        }
        let (method, fields) = (Method::Get, Fields::new());
        let request = (&method, &b"/a.txt"[..], &fields);
        assert_eq!(explain(&shared, &hanging, request).await, Some(Reason::FilesFailed));
        assert_eq!(explain(&shared, &other, request).await, Some(Reason::StaticFile));
        drop(release);
        let patient = shared.limits.disk_timeout * 100;
        let turn = tokio::time::timeout(patient, Arc::clone(&hanging.turns).acquire_owned()).await;
        drop(turn.unwrap().unwrap());
        assert_eq!(explain(&shared, &hanging, request).await, Some(Reason::StaticFile));
    }
}
