//! The tree: accepts stored responses, writes them as files, and removes the files again.
//!
//! Invariant: files are created and removed only while the index (`index`) is locked. Under that
//! lock, the writer asks the store whether an invalidation matches the page. An invalidation is
//! recorded in the store before [`Tree::lose`] takes the lock. So either the writer sees the
//! invalidation, or the invalidation finds the file.
//!
//! Lock order: `manifest`, `index`, `heard`, the state of `queue`, `counts.fault`.

use crate::candidate::QueuedPage;
use crate::content::PageContent;
use crate::files::Files;
use crate::layout::FilePath;
use crate::manifest::Manifest;
use crate::page_index::{PageIndex, is_valid};
use crate::page_queue::{PageQueue, WriterStep};
use crate::{Candidate, DirectoryError, Layout, TreeRefusal};
use bytes::Bytes;
use clock::Clock;
use semantics::Moment;
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
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
pub struct TreeLimits {
    /// Upper bound of the number of pages.
    pub pages_max: usize,
    /// Upper bound of the size of all files, in bytes.
    pub bytes_max: u64,
}

/// Figures of a tree. `pages` and `bytes` are current values; all others count since the tree was
/// opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TreeFigures {
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
    /// Responses that were not written, by reason, in the order of [`TreeRefusal::ALL`].
    refused: [u64; TreeRefusal::ALL.len()],
}

impl TreeFigures {
    /// Responses that were not written for this reason.
    pub fn refused(&self, refusal: TreeRefusal) -> u64 {
        self.refused.get(refusal as usize).copied().unwrap_or(0)
    }
}

/// A directory of pages as files, and the index of them.
#[derive(Debug)]
pub struct Tree {
    limits: TreeLimits,
    files: Files,
    manifest: Mutex<Manifest>,
    index: Mutex<PageIndex>,
    /// Invalidations by their sequence number in the store whose pages [`Tree::lose`] has not
    /// removed yet.
    heard: Mutex<BTreeMap<u64, Selector>>,
    queue: PageQueue,
    counts: TreeCounters,
    /// Held during each step of the writer. Lock order: `step`, then `index`.
    step: Mutex<()>,
    /// Whether another process may have the directory. Set while `step` and `index` are held.
    given_up: AtomicBool,
}

/// Counters of a tree. Relaxed is enough for them, because no other data depends on their order.
#[derive(Debug, Default)]
struct TreeCounters {
    written: AtomicU64,
    removed: AtomicU64,
    errors: AtomicU64,
    refused: [AtomicU64; TreeRefusal::ALL.len()],
    /// The error of the last operation that the file system refused. [`Tree::run`] takes it and
    /// reports it.
    fault: Mutex<Option<String>>,
}

/// The result of writing a page.
enum WriteOutcome {
    Written,
    /// The page was invalidated or withdrawn while it was written.
    Outdated,
    Refused(TreeRefusal),
}

impl Tree {
    /// Opens a directory for a tree. Creates it if it does not exist, and removes the pages that an
    /// earlier process left in it.
    ///
    /// # Errors
    /// [`DirectoryError`] if the directory cannot be used. Files that no tree wrote are never
    /// removed.
    pub fn open(directory: &Path, limits: TreeLimits) -> Result<Self, DirectoryError> {
        let (files, manifest) = Files::open(directory)?;
        let index = Mutex::default();
        let queue = PageQueue::default();
        let counts = TreeCounters::default();
        Ok(Self {
            limits,
            files,
            manifest: Mutex::new(manifest),
            index,
            heard: Mutex::default(),
            queue,
            counts,
            step: Mutex::default(),
            given_up: AtomicBool::new(false),
        })
    }

    /// Queues a stored response for writing if it is a page for every anonymous visitor. Otherwise
    /// queues the removal of the page's files. Does not touch the file system.
    pub fn offer(&self, layout: Layout, candidate: &Candidate<'_>, now: Moment) {
        let offered = layout.place(candidate.key).and_then(|place| {
            let page = candidate.page(layout, place.clone(), now);
            let put = page.and_then(|page| self.queue.put(page));
            put.inspect_err(|_| self.queue.withdraw(&place, candidate.key))
        });
        if let Err(refusal) = offered {
            self.refuse(refusal);
        }
    }

    /// Queues the removal of the page of `key`, because its response is no longer stored. Does not
    /// touch the file system.
    pub fn withdraw(&self, layout: Layout, key: &Key) {
        if let Ok(place) = layout.place(key) {
            self.queue.withdraw(&place, key);
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
        let mut index = lock(&self.index);
        // This call also handles the selectors of other callers. They wait for `index`, and find
        // their invalidations settled when they get it.
        let mut heard = std::mem::take(&mut *lock(&self.heard));
        let heard = heard.split_off(&(index.settled() + 1));
        for place in index.invalidated(store, &heard) {
            if !self.remove(&mut index, &place) {
                index.keep_stuck(place);
            }
        }
        !index.has_stuck()
    }

    /// The hosts of a site, in the form of cache keys, of which a page was ever queued. Only hosts
    /// that `is_meant` accepts are returned.
    pub fn hosts(&self, site: SiteId, is_meant: impl Fn(&[u8]) -> bool) -> Vec<Bytes> {
        self.queue.hosts(site, is_meant)
    }

    /// Writes and removes queued pages until [`Tree::end`], in the caller's thread. `report`
    /// receives the fault when the file system begins to refuse, and `Ok` when a page was written
    /// again.
    pub fn run(&self, store: &Store, clock: &dyn Clock, report: &dyn Fn(Result<(), &str>)) {
        if let Some(place) = self.queue.take_broken_off() {
            // An earlier call has panicked, perhaps between a file and its entry in the index.
            self.remove(&mut lock(&self.index), &place);
        }
        let mut is_failing = false;
        loop {
            let errors = self.counts.errors.load(Ordering::Relaxed);
            let next = self.queue.next(EXPIRY_EVERY);
            let has_written = matches!(next, WriterStep::Write(_));
            let _step = lock(&self.step);
            if self.is_given_up() {
                return;
            }
            self.expire(clock);
            match next {
                WriterStep::Remove(places) => {
                    let mut index = lock(&self.index);
                    for place in &places {
                        self.remove(&mut index, place);
                    }
                }
                WriterStep::Write(page) => self.write(*page, store, clock),
                WriterStep::Nothing => {}
                WriterStep::End => return,
            }
            // Report the first error only. The file system counts as working again after a write
            // during which no error was counted.
            let fault = lock(&self.counts.fault).take();
            if !is_failing && let Some(fault) = fault {
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
        self.queue.end();
    }

    /// Removes all pages and lets another process open the directory. The tree changes no file from
    /// here on. Blocks.
    ///
    /// Returns false if files remain because the file system refuses to remove them. The other
    /// process removes them when it opens the directory.
    pub fn give_up(&self) -> bool {
        self.queue.end();
        let _step = lock(&self.step);
        let mut index = lock(&self.index);
        let places: Vec<_> = index.places().cloned().collect();
        let left = places.iter().filter(|place| !self.remove(&mut index, place)).count();
        self.given_up.store(true, Ordering::SeqCst);
        self.files.unlock().inspect_err(|error| self.fail(error)).is_ok() && left == 0
    }

    /// Whether [`Tree::give_up`] was called.
    pub fn is_given_up(&self) -> bool {
        self.given_up.load(Ordering::SeqCst)
    }

    /// The current figures.
    pub fn figures(&self) -> TreeFigures {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let TreeCounters { written, removed, errors, refused, fault: _ } = &self.counts;
        let index = lock(&self.index);
        TreeFigures {
            pages: index.len() as u64,
            bytes: index.bytes(),
            written: read(written),
            removed: read(removed),
            errors: read(errors),
            refused: std::array::from_fn(|at| refused.get(at).map_or(0, read)),
        }
    }

    fn write(&self, page: QueuedPage, store: &Store, clock: &dyn Clock) {
        let place = page.place.clone();
        let outcome = self.try_write(page, store, clock);
        self.queue.put_away();
        if !matches!(outcome, Ok(WriteOutcome::Written)) {
            // The file must go, because visitors of the edge no longer receive that version of the
            // page.
            self.remove(&mut lock(&self.index), &place);
        }
        match outcome {
            Ok(WriteOutcome::Written | WriteOutcome::Outdated) => {}
            Ok(WriteOutcome::Refused(refusal)) => self.refuse(refusal),
            Err(error) => self.fail(&error),
        }
    }

    fn try_write(&self, page: QueuedPage, store: &Store, clock: &dyn Clock) -> io::Result<WriteOutcome> {
        let place = page.place.clone();
        let Some(content) = PageContent::of(&page) else {
            return Ok(WriteOutcome::Refused(TreeRefusal::NoPage));
        };
        let in_use = || lock(&self.index).places().cloned().collect();
        lock(&self.manifest).note(&place, in_use)?;
        self.files.stage(&content, page.received.to_system_time())?;
        let mut index = lock(&self.index);
        if page.expires <= clock.monotonic() {
            return Ok(WriteOutcome::Refused(TreeRefusal::ShortLived));
        }
        let bytes = content.bytes();
        let limits = (self.limits.pages_max, self.limits.bytes_max);
        if !index.has_room(&place, bytes, limits) {
            return Ok(WriteOutcome::Refused(TreeRefusal::Full));
        }
        if !is_valid(store, (&page.key, page.layout), (&page.head, &page.tags), page.begun) {
            return Ok(WriteOutcome::Outdated);
        }
        let committed = self.files.commit(&place);
        // Index the page even if `commit` failed, because some of its files may exist. If the
        // caller cannot remove them, the index makes the writer try again.
        index.insert(page, bytes);
        let stays = self.queue.is_written();
        committed?;
        if !stays {
            return Ok(WriteOutcome::Outdated);
        }
        self.counts.written.fetch_add(1, Ordering::Relaxed);
        Ok(WriteOutcome::Written)
    }

    fn expire(&self, clock: &dyn Clock) {
        let mut index = lock(&self.index);
        for place in index.expired(clock.monotonic()) {
            self.remove(&mut index, &place);
        }
    }

    /// Removes the files of a page. Returns false if the file system refuses; then the page is
    /// removed at the next search for expired pages.
    fn remove(&self, index: &mut PageIndex, place: &FilePath) -> bool {
        if self.is_given_up() {
            // The file may be the other process's own by now.
            return true;
        }
        match self.files.remove(place) {
            Ok(()) => {
                let was_there = index.remove(place);
                self.queue.is_removed(place);
                self.counts.removed.fetch_add(u64::from(was_there), Ordering::Relaxed);
                true
            }
            Err(error) => {
                index.retry(place);
                self.fail(&error);
                false
            }
        }
    }

    /// Counts a response that is not written.
    pub fn refuse(&self, refusal: TreeRefusal) {
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
