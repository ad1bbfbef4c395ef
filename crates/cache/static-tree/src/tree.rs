//! The tree: accepts stored responses, writes them as files, and removes the files again.
//!
//! Invariant: files are created and removed only while the index (`written`) is locked. Under that
//! lock, the writer asks the store whether an invalidation matches the page. An invalidation is
//! recorded in the store before [`Tree::lose`] takes the lock. So either the writer sees the
//! invalidation, or the invalidation finds the file.
//!
//! Lock order: `manifest`, `written`, `heard`, the queue in `desk`, `counts.fault`.

use crate::candidate::Page;
use crate::content::Content;
use crate::desk::{Desk, Next};
use crate::files::Files;
use crate::layout::Place;
use crate::manifest::Manifest;
use crate::written::{Written, is_valid};
use crate::{Candidate, Layout, OpenError, Refusal};
use bytes::Bytes;
use clock::Clock;
use semantics::Moment;
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use store::{Key, Selector, SiteId, Store};

/// Longest interval between two searches for expired pages.
const EXPIRY_EVERY: Duration = Duration::from_millis(250);

/// Upper bound of the selectors that are remembered between two calls of [`Tree::lose`]. With more,
/// `lose` checks every page.
const HEARD_MAX: usize = 4_096;

/// The limits of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Upper bound of the number of pages.
    pub pages_max: usize,
    /// Upper bound of the size of all files, in bytes.
    pub bytes_max: u64,
}

/// Figures of a tree. `pages` and `bytes` are current values; all others count since the tree was
/// opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Pages in the tree.
    pub pages: u64,
    /// Size of their files, in bytes.
    pub bytes: u64,
    /// Pages written.
    pub written: u64,
    /// Pages removed.
    pub removed: u64,
    /// Operations that the file system refused.
    pub errors: u64,
    /// Responses that were not written, by reason, in the order of [`Refusal::ALL`].
    refused: [u64; Refusal::ALL.len()],
}

impl Figures {
    /// Responses that were not written for this reason.
    pub fn refused(&self, refusal: Refusal) -> u64 {
        self.refused.get(refusal as usize).copied().unwrap_or(0)
    }
}

/// A directory of pages as files, and the index of them.
#[derive(Debug)]
pub struct Tree {
    limits: Limits,
    files: Files,
    manifest: Mutex<Manifest>,
    written: Mutex<Written>,
    /// Invalidations by their sequence number in the store whose pages [`Tree::lose`] has not
    /// removed yet.
    heard: Mutex<BTreeMap<u64, Selector>>,
    desk: Desk,
    counts: Counts,
}

/// Counters of a tree. Relaxed is enough for them, because no other data depends on their order.
#[derive(Debug, Default)]
struct Counts {
    written: AtomicU64,
    removed: AtomicU64,
    errors: AtomicU64,
    refused: [AtomicU64; Refusal::ALL.len()],
    /// The error of the last operation that the file system refused. [`Tree::run`] takes it and
    /// reports it.
    fault: Mutex<Option<String>>,
}

/// The result of writing a page.
enum Outcome {
    Written,
    /// The page was invalidated or withdrawn while it was written.
    Outdated,
    Refused(Refusal),
}

impl Tree {
    /// Opens a directory for a tree. Creates it if it does not exist, and removes the pages that an
    /// earlier process left in it.
    ///
    /// # Errors
    /// [`OpenError`] if the directory cannot be used. Files that no tree wrote are never removed.
    pub fn open(directory: &Path, limits: Limits) -> Result<Self, OpenError> {
        let (files, manifest) = Files::open(directory)?;
        let (written, desk, counts) = (Mutex::default(), Desk::default(), Counts::default());
        Ok(Self {
            limits,
            files,
            manifest: Mutex::new(manifest),
            written,
            heard: Mutex::default(),
            desk,
            counts,
        })
    }

    /// Queues a stored response for writing if it is a page for every anonymous visitor. Otherwise
    /// queues the removal of the page's files. Does not touch the file system.
    pub fn offer(&self, layout: Layout, candidate: &Candidate<'_>, now: Moment) {
        let offered = layout.place(candidate.key).and_then(|place| {
            let page = candidate.page(layout, place.clone(), now);
            let put = page.and_then(|page| self.desk.put(page));
            put.inspect_err(|_| self.desk.withdraw(&place, candidate.key))
        });
        if let Err(refusal) = offered {
            self.refuse(refusal);
        }
    }

    /// Queues the removal of the page of `key`, because its response is no longer stored. Does not
    /// touch the file system.
    pub fn withdraw(&self, layout: Layout, key: &Key) {
        if let Ok(place) = layout.place(key) {
            self.desk.withdraw(&place, key);
        }
    }

    /// Notes the selector of an invalidation that the store has recorded under this number. With
    /// the selectors, [`Tree::lose`] checks only the pages that they can match. An invalidation
    /// that was not noted is still obeyed, but then every page is checked. Does not touch the file
    /// system.
    pub fn hear(&self, number: u64, selector: &Selector) {
        let mut heard = lock(&self.heard);
        if heard.len() >= HEARD_MAX {
            // A gap in the numbers makes `lose` check every page. Were only the newest left out,
            // the others would seem to be all.
            heard.clear();
        }
        heard.insert(number, selector.clone());
    }

    /// Removes every page that matches an invalidation which the store recorded before this call.
    ///
    /// Returns false while the file of an invalidated page remains because the file system refuses
    /// to remove it. The writer tries again. Blocks.
    pub fn lose(&self, store: &Store) -> bool {
        let mut written = lock(&self.written);
        // This call also handles the selectors of other callers. They wait for `written`, and find
        // their invalidations settled when they get it.
        let mut heard = std::mem::take(&mut *lock(&self.heard));
        let heard = heard.split_off(&(written.settled() + 1));
        for place in written.invalidated(store, &heard) {
            if !self.remove(&mut written, &place) {
                written.keep_stuck(place);
            }
        }
        !written.has_stuck()
    }

    /// The hosts of a site, in the form of cache keys, of which a page was ever queued. Only hosts
    /// that `is_meant` accepts are returned.
    pub fn hosts(&self, site: SiteId, is_meant: impl Fn(&[u8]) -> bool) -> Vec<Bytes> {
        self.desk.hosts(site, is_meant)
    }

    /// Writes and removes queued pages until [`Tree::end`], in the caller's thread. `report`
    /// receives the fault when the file system begins to refuse, and `Ok` when a page was written
    /// again.
    pub fn run(&self, store: &Store, clock: &dyn Clock, report: &dyn Fn(Result<(), &str>)) {
        if let Some(place) = self.desk.take_broken_off() {
            // An earlier call has panicked, perhaps between a file and its entry in the index.
            self.remove(&mut lock(&self.written), &place);
        }
        let mut is_failing = false;
        loop {
            let errors = self.counts.errors.load(Ordering::Relaxed);
            let next = self.desk.next(EXPIRY_EVERY);
            let has_written = matches!(next, Next::Write(_));
            self.expire(clock);
            match next {
                Next::Remove(places) => {
                    let mut written = lock(&self.written);
                    for place in &places {
                        self.remove(&mut written, place);
                    }
                }
                Next::Write(page) => self.write(*page, store, clock),
                Next::Nothing => {}
                Next::End => return,
            }
            // Report the first error only. The file system counts as working again after a write
            // during which no error was counted.
            let fault = lock(&self.counts.fault).take();
            if let Some(fault) = fault.filter(|_| !is_failing) {
                is_failing = true;
                report(Err(&fault));
            } else if is_failing && has_written && errors == self.counts.errors.load(Ordering::Relaxed) {
                is_failing = false;
                report(Ok(()));
            }
        }
    }

    /// Lets [`Tree::run`] return after the queued work is done. The files stay.
    pub fn end(&self) {
        self.desk.end();
    }

    /// The current figures.
    pub fn figures(&self) -> Figures {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let Counts { written, removed, errors, refused, fault: _ } = &self.counts;
        let index = lock(&self.written);
        Figures {
            pages: index.len() as u64,
            bytes: index.bytes(),
            written: read(written),
            removed: read(removed),
            errors: read(errors),
            refused: std::array::from_fn(|at| refused.get(at).map_or(0, read)),
        }
    }

    fn write(&self, page: Page, store: &Store, clock: &dyn Clock) {
        let place = page.place.clone();
        let outcome = self.try_write(page, store, clock);
        self.desk.put_away();
        if !matches!(outcome, Ok(Outcome::Written)) {
            // The file must go, because visitors of the edge no longer receive that version of the
            // page.
            self.remove(&mut lock(&self.written), &place);
        }
        match outcome {
            Ok(Outcome::Written | Outcome::Outdated) => {}
            Ok(Outcome::Refused(refusal)) => self.refuse(refusal),
            Err(error) => self.fail(&error),
        }
    }

    fn try_write(&self, page: Page, store: &Store, clock: &dyn Clock) -> io::Result<Outcome> {
        let place = page.place.clone();
        let Some(content) = Content::of(&page) else { return Ok(Outcome::Refused(Refusal::NoPage)) };
        let in_use = || lock(&self.written).places().cloned().collect();
        lock(&self.manifest).note(&place, in_use)?;
        self.files.stage(&content, page.received.to_system_time())?;
        let mut written = lock(&self.written);
        if page.expires <= clock.monotonic() {
            return Ok(Outcome::Refused(Refusal::ShortLived));
        }
        let (bytes, limits) = (content.bytes(), (self.limits.pages_max, self.limits.bytes_max));
        if !written.has_room(&place, bytes, limits) {
            return Ok(Outcome::Refused(Refusal::Full));
        }
        if !is_valid(store, (&page.key, page.layout), (&page.head, &page.tags), page.begun) {
            return Ok(Outcome::Outdated);
        }
        let committed = self.files.commit(&place);
        // Index the page even if `commit` failed, because some of its files may exist. If the
        // caller cannot remove them, the index makes the writer try again.
        written.insert(page, bytes);
        let stays = self.desk.is_written();
        committed?;
        if !stays {
            return Ok(Outcome::Outdated);
        }
        self.counts.written.fetch_add(1, Ordering::Relaxed);
        Ok(Outcome::Written)
    }

    fn expire(&self, clock: &dyn Clock) {
        let mut written = lock(&self.written);
        for place in written.expired(clock.monotonic()) {
            self.remove(&mut written, &place);
        }
    }

    /// Removes the files of a page. Returns false if the file system refuses; then the page is
    /// removed at the next search for expired pages.
    fn remove(&self, written: &mut Written, place: &Place) -> bool {
        match self.files.remove(place) {
            Ok(()) => {
                let was_there = written.remove(place);
                self.desk.is_removed(place);
                self.counts.removed.fetch_add(u64::from(was_there), Ordering::Relaxed);
                true
            }
            Err(error) => {
                written.retry(place);
                self.fail(&error);
                false
            }
        }
    }

    /// Counts a response left out of the tree.
    pub fn refuse(&self, refusal: Refusal) {
        if let Some(count) = self.counts.refused.get(refusal as usize) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn fail(&self, error: &io::Error) {
        self.counts.errors.fetch_add(1, Ordering::Relaxed);
        *lock(&self.counts.fault) = Some(error.to_string());
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
