//! The tree: what is offered to it, what it writes, what it loses.
//!
//! Invariant: files come and go only while the index is locked. A page is written after the store was asked, under that
//! lock, whether any invalidation means it; an invalidation is taken down in the store before [`Tree::lose`] takes the
//! lock. So either the writer sees the invalidation, or the invalidation finds the file. Order of locks: list of
//! places, index, what was heard, desk.

use crate::candidate::Page;
use crate::content::Content;
use crate::desk::{Desk, Next};
use crate::files::Files;
use crate::layout::Place;
use crate::manifest::Manifest;
use crate::written::{Written, is_valid};
use crate::{Candidate, Layout, OpenError, Refusal};
use bytes::Bytes;
use platform::Clock;
use semantics::Moment;
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use store::{Key, Selector, SiteId, Store};

/// How often what has expired is looked for.
const EXPIRY_EVERY: Duration = Duration::from_millis(250);

/// Invalidations that are heard of at a time; with more, every page is asked about.
const HEARD_MAX: usize = 4_096;

/// The limits of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most pages.
    pub pages_max: usize,
    /// The most octets of all files.
    pub bytes_max: u64,
}

/// Figures of a tree. All but the first two count from its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Pages in it.
    pub pages: u64,
    /// Octets of their files.
    pub bytes: u64,
    /// Pages written.
    pub written: u64,
    /// Pages removed.
    pub removed: u64,
    /// Operations that the disk refused.
    pub errors: u64,
    /// Responses that were not written, in the order of [`Refusal::ALL`].
    refused: [u64; Refusal::ALL.len()],
}

impl Figures {
    /// Responses that were not written for this reason.
    pub fn refused(&self, refusal: Refusal) -> u64 {
        self.refused.get(refusal as usize).copied().unwrap_or(0)
    }
}

/// Pages as files.
#[derive(Debug)]
pub struct Tree {
    limits: Limits,
    files: Files,
    manifest: Mutex<Manifest>,
    written: Mutex<Written>,
    /// Invalidations of the store by number, of which the files are not removed yet.
    heard: Mutex<BTreeMap<u64, Selector>>,
    desk: Desk,
    counts: Counts,
}

#[derive(Debug, Default)]
struct Counts {
    written: AtomicU64,
    removed: AtomicU64,
    errors: AtomicU64,
    refused: [AtomicU64; Refusal::ALL.len()],
    /// What the disk said when it last refused something, until it was told.
    fault: Mutex<Option<String>>,
}

/// What has become of a page that was to be written.
enum Outcome {
    Written,
    /// It was invalidated or withdrawn meanwhile.
    Outdated,
    Refused(Refusal),
}

impl Tree {
    /// Takes a directory, and clears it of what an earlier process has left there.
    ///
    /// # Errors
    /// [`OpenError`] when it cannot be used; what is not the tree's is left as it is.
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

    /// Has a stored response written behind, if it is a page for everybody; if not, its page is removed. Waits for no
    /// file.
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

    /// Has the page of `key` removed, because nothing is stored of it any more. Waits for no file.
    pub fn withdraw(&self, layout: Layout, key: &Key) {
        if let Ok(place) = layout.place(key) {
            self.desk.withdraw(&place, key);
        }
    }

    /// Hears of an invalidation that the store has taken down under this number, so that [`Tree::lose`] need not ask
    /// about every page. What is not heard of is not missed, it only takes longer. Waits for no file.
    pub fn hear(&self, number: u64, selector: &Selector) {
        let mut heard = lock(&self.heard);
        if heard.len() < HEARD_MAX {
            heard.insert(number, selector.clone());
        }
    }

    /// Removes every page that an invalidation of the store means which was taken down before. False while the file of
    /// one of them is still there because the disk refuses; it is tried again. Blocks.
    pub fn lose(&self, store: &Store) -> bool {
        let mut written = lock(&self.written);
        // What other callers are told of is taken along; they wait for the index meanwhile.
        let mut heard = std::mem::take(&mut *lock(&self.heard));
        let heard = heard.split_off(&(written.settled() + 1));
        for place in written.invalidated(store, &heard) {
            if !self.remove(&mut written, &place) {
                written.keep_stuck(place);
            }
        }
        !written.has_stuck()
    }

    /// The hosts of a site, as in keys, whose pages are in the tree or may get there.
    pub fn hosts(&self, site: SiteId, is_meant: impl Fn(&[u8]) -> bool) -> Vec<Bytes> {
        self.desk.hosts(site, is_meant)
    }

    /// Writes and removes until [`Tree::end`], in the caller's thread; `say` gets a line when the disk begins to
    /// refuse, and one when it no longer does.
    pub fn run(&self, store: &Store, clock: &dyn Clock, say: &dyn Fn(&str)) {
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
            let fault = lock(&self.counts.fault).take();
            if let Some(fault) = fault.filter(|_| !is_failing) {
                is_failing = true;
                say(&format!("the static tree cannot be written: {fault}"));
            } else if is_failing && has_written && errors == self.counts.errors.load(Ordering::Relaxed) {
                is_failing = false;
                say("the static tree is written again");
            }
        }
    }

    /// Lets [`Tree::run`] return when what waits is done. The pages stay.
    pub fn end(&self) {
        self.desk.end();
    }

    /// The figures now.
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
            // An older page is no longer what visitors get.
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

    /// False if the disk refuses.
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

    /// Counts a response that is not written.
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
