//! Reads stored objects from disk for look-ups.
//!
//! Invariants: no worker waits for the disk, and no request waits longer than
//! `limits.disk_timeout`. Concurrent requests for one object share one read, and the queue of
//! objects is bounded. A body is read into memory if the budget of bodies outside the store allows
//! it; otherwise it is sent from disk. A read continues if the client that caused it disconnects.

use crate::fetch::body_reservation::BodyReservation;
use crate::request::respond;
use crate::shared::Shared;
use semantics::Moment;
use std::io;
use std::sync::Arc;
use store::{Key, Object, ShelvedObject};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The outcome of reading an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadOutcome {
    /// It was read, or could not be; look it up again.
    Ended,
    /// The disk hangs, or did not answer within `limits.disk_timeout`; fetch the page.
    Late,
    /// Too many objects wait to be read; fetch the page.
    Refused,
}

/// A permit to read a body, to be dropped after the read; `None` if none is free within
/// `limits.disk_timeout`.
pub(crate) async fn turn(shared: &Shared) -> Option<OwnedSemaphorePermit> {
    turn_of(shared.read_queues.objects.turns(), shared).await
}

async fn turn_of(turns: &Arc<Semaphore>, shared: &Shared) -> Option<OwnedSemaphorePermit> {
    let turn = Arc::clone(turns).acquire_owned();
    tokio::time::timeout(shared.limits.disk_timeout, turn).await.ok()?.ok()
}

/// Reads a part of a file into the page cache. The number of such reads is limited, so that many
/// downloads leave threads for purges. Returns `false` if the disk failed, or if permit or disk
/// were late.
pub(crate) async fn read_ahead(
    shared: &Shared,
    read: impl FnOnce() -> io::Result<()> + Send + 'static,
) -> bool {
    let Some(turn) = turn_of(&shared.read_queues.ahead, shared).await else { return false };
    // The permit is released when the read has ended, even if its request has given up.
    let read = move || (read(), turn).0;
    matches!(shared.disk_threads.run(shared.limits.disk_timeout, read).await, Some(Ok(())))
}

/// Reads the object found under `key` and waits for the result.
pub(crate) async fn read(shared: &Arc<Shared>, key: &Key, shelved: ShelvedObject) -> ReadOutcome {
    if shared.persistence.is_hung() {
        return ReadOutcome::Late;
    }
    let (reader, own, within) = (Arc::clone(shared), key.detached(), shared.limits.disk_timeout);
    let read = move || read_here(&reader, &own, shelved);
    let Some(mut done) = shared.read_queues.objects.join(shelved, within, read) else {
        return ReadOutcome::Refused;
    };
    match tokio::time::timeout(within, done.changed()).await {
        Ok(Ok(())) => ReadOutcome::Ended,
        // A second look-up would wait as long again.
        Ok(Err(_)) | Err(_) => ReadOutcome::Late,
    }
}

/// Reads an object within the memory budget. Blocks.
fn read_here(shared: &Shared, key: &Key, shelved: ShelvedObject) {
    let mut reservation = BodyReservation::new(shared);
    // Twice the size, because the body is read in pieces and then joined.
    let admits = |bytes| reservation.take(2 * bytes);
    let site = shared.sites.iter().find(|site| site.id == key.site());
    let rules = site.and_then(|site| site.compression());
    let is_encodable = |object: &Object| {
        let is_here = object.on_disk().is_none();
        // The head may have been written under other rules. Without `Vary`, caches in front would
        // not know about the forms.
        let is_announced = respond::varies_by_coding(object);
        rules.is_some_and(|rules| {
            is_here && is_announced && rules.cover(&object.head(), object.content_bytes())
        })
    };
    let mark = |object: Object| {
        let object = if is_encodable(&object) { object.as_encodable() } else { object };
        match site.map(|site| &site.plan).filter(|plan| plan.esi) {
            Some(plan) => object.as_template(plan.esi_undeclared),
            None => object,
        }
    };
    shared.store.load(key, shelved, admits, mark, Moment::read(&*shared.clock));
}

#[cfg(test)]
mod tests {
    use super::{read_ahead, turn};
    use crate::fetch::read_queues::READS_AHEAD_MAX;
    use crate::shared::Shared;
    use crate::system::System;
    use config::EdgePlan;
    use std::sync::Arc;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    fn shared(disk_timeout: Duration) -> Arc<Shared> {
        let mut plan = EdgePlan::for_origin("http://127.0.0.1:9".parse().unwrap());
        plan.limits.disk_timeout = disk_timeout;
        Arc::new(Shared::new(plan, None, System::of_machine()))
    }

    #[tokio::test]
    async fn reads_ahead_of_a_hung_disk_take_no_more_threads_than_turns() {
        let shared = shared(Duration::from_millis(20));
        let (release, gate) = channel::<()>();
        let gate = Arc::new(std::sync::Mutex::new(gate));
        let (begun, begins) = channel();
        for _ in 0..2 * READS_AHEAD_MAX {
            let (gate, begun) = (Arc::clone(&gate), begun.clone());
            let stuck = move || {
                let _ = begun.send(());
                // Ends when the gate is dropped.
                drop(gate.lock().map(|gate| gate.recv()));
                Ok(())
            };
            assert!(!read_ahead(&shared, stuck).await, "the disk hangs");
        }
        assert_eq!(shared.read_queues.ahead.available_permits(), 0, "a read that is late keeps its turn");
        assert!(turn(&shared).await.is_some(), "objects are read all the same");
        drop((release, begun));
        assert!(begins.iter().count() <= READS_AHEAD_MAX);
        let patient = self::shared(testkit::PATIENCE);
        assert!(read_ahead(&patient, || Ok(())).await && turn(&patient).await.is_some());
    }
}
