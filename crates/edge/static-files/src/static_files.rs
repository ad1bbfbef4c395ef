//! A directory's files with their known state: the entry of this crate.
//!
//! Invariant: a result counts for one period, by default a second, and is then looked up again.
//! Content in memory is at most this old; the state of an open file is read on every use. No file
//! that leaves the tables is closed while their lock is held. Look-ups that wait for a disk are at
//! most as many as the limit says.

use crate::directory::Directory;
use crate::location::with_slash;
use crate::open_files::OpenFiles;
use crate::opening::{Mode, NotFoundReason, Opener, SearchFailure, Stop};
use crate::representation::Representation;
use crate::request_path::RequestPath;
use crate::rules::{CheckedFallback, FileRules};
use crate::search::{FileEntry, Finding, Search};
use crate::table::{Cost, Table};
use bytes::Bytes;
use clock::Monotonic;
use platform::{HashKeys, sound};
use rustix::fd::AsFd;
use rustix::io::Errno;
use semantics::{AcceptedCodings, Coding, Moment};
use std::hash::BuildHasher;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The parts of the tables. Each has its own lock and its part of the limits.
const SHARDS: usize = 16;

/// How long a file without requests stays open.
const IDLE_MAX: Duration = Duration::from_secs(10);

/// The key of the file that answers if no attempt finds one. No path has this byte.
const FALLBACK_KEY: &[u8] = b"\0";

/// Limits of the tables of a directory. Each of the 16 shards has an equal part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheLimits {
    /// Files.
    pub files: usize,
    /// Open descriptors. Files of at most 16 KiB need none.
    pub descriptors: usize,
    /// Memory of entries, with the content of small files.
    pub memory_bytes: usize,
    /// Paths for which there is no file.
    pub missing: usize,
    /// How long a result counts.
    pub valid_for: Duration,
    /// Look-ups that wait for a disk at the same time.
    pub waiting: usize,
}

impl CacheLimits {
    /// The fewest descriptors with which each shard keeps a file with all of its codings.
    pub const DESCRIPTORS_MIN: usize = SHARDS * (1 + Coding::ALL.len());
}

impl Default for CacheLimits {
    fn default() -> Self {
        Self {
            files: 4096,
            descriptors: 1024,
            memory_bytes: 32 << 20,
            missing: 4096,
            valid_for: Duration::from_secs(1),
            waiting: 1024,
        }
    }
}

/// The answer to a request.
#[derive(Debug)]
pub enum Outcome {
    /// A representation of a file.
    File(Arc<Representation>),
    /// A redirect to this `Location`: the directory with a slash, and the request's query.
    Redirect(Bytes),
    /// A 404. Clients do not receive the reason.
    NotFound(NotFoundReason),
    /// The rules leave the request to the origin.
    Origin(NotFoundReason),
    /// The answer needs the disk: [`ColdSearch::run`] finds it on a thread that may wait.
    Cold(ColdSearch),
    /// An error that must not be stored (503).
    Failed(SearchFailure),
}

/// The files of a directory. Clones share everything.
#[derive(Clone, Debug)]
pub struct StaticFiles(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    directory: Directory,
    rules: FileRules,
    open_files: OpenFiles,
    valid_for: Duration,
    keys: HashKeys,
    shards: [Mutex<Shard>; SHARDS],
    waiting: AtomicUsize,
    waiting_max: usize,
}

#[derive(Debug)]
struct Shard {
    files: Table<Arc<FileEntry>>,
    /// Paths without a file. Made-up ones push only each other out.
    others: Table<Known>,
}

/// The knowledge about a path without a file.
#[derive(Clone, Copy, Debug)]
enum Known {
    Redirect,
    Nothing(NotFoundReason),
}

/// The answer for one path.
enum Answer {
    File(Arc<Representation>),
    Other(Known),
}

/// A look-up that needs the disk. As long as it exists it counts towards the limit.
#[derive(Debug)]
pub struct ColdSearch {
    inner: Arc<Inner>,
    target: Box<[u8]>,
    accepted: AcceptedCodings,
    now: Moment,
}

impl Drop for ColdSearch {
    fn drop(&mut self) {
        self.inner.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

impl ColdSearch {
    /// Finds the answer and may wait for the disk. Never returns [`Outcome::Cold`].
    #[must_use]
    pub fn run(self) -> Outcome {
        match self.inner.answer(&self.target, self.accepted, self.now, Mode::Waiting) {
            Ok(outcome) => outcome,
            // This mode has no such error.
            Err(Stop::WouldWait) => Outcome::Failed(SearchFailure::Busy),
            Err(Stop::Failed(error)) => Outcome::Failed(SearchFailure::System(error.into())),
        }
    }
}

impl StaticFiles {
    /// The files of the directory `path`, which is opened by the first look-up. `open_files` counts
    /// the files of this and other directories.
    #[must_use]
    pub fn new(path: &Path, rules: FileRules, limits: CacheLimits, open_files: OpenFiles) -> Self {
        let directory = Directory::new(path, limits.valid_for);
        let shard = || {
            let files = Cost {
                entries: limits.files / SHARDS,
                bytes: limits.memory_bytes / SHARDS,
                descriptors: limits.descriptors / SHARDS,
            };
            let others = Cost { entries: limits.missing / SHARDS, bytes: usize::MAX, descriptors: 0 };
            Mutex::new(Shard { files: Table::new(files), others: Table::new(others) })
        };
        Self(Arc::new(Inner {
            directory,
            rules,
            open_files,
            valid_for: limits.valid_for,
            keys: HashKeys::new(),
            shards: std::array::from_fn(|_| shard()),
            waiting: AtomicUsize::new(0),
            waiting_max: limits.waiting,
        }))
    }

    /// The answer to a GET or HEAD for `target`, a path with or without a query. Does not wait for
    /// a disk.
    ///
    /// The caller must
    /// - call this only for these two methods, and with a target in origin form,
    /// - answer [`Outcome::NotFound`] the same for every reason, and log the reason,
    /// - evaluate conditions, then ranges, against [`Representation::head`],
    /// - add `Content-Length` and `Date`,
    /// - end the connection abruptly if a file has fewer bytes than stated.
    #[must_use]
    pub fn find(&self, target: &[u8], accepted: AcceptedCodings, now: Moment) -> Outcome {
        match self.0.answer(target, accepted, now, Mode::Cached) {
            Ok(outcome) => outcome,
            Err(Stop::WouldWait) => self.cold(target, accepted, now),
            Err(Stop::Failed(error)) => Outcome::Failed(SearchFailure::System(error.into())),
        }
    }

    /// Closes files without a request for ten seconds, so that the space of deleted ones becomes
    /// free. The caller must call this every few seconds.
    pub fn sweep(&self, now: Monotonic) {
        self.0.close_idle(now, IDLE_MAX);
    }

    fn cold(&self, target: &[u8], accepted: AcceptedCodings, now: Moment) -> Outcome {
        let inner = &self.0;
        if inner.waiting.fetch_add(1, Ordering::Relaxed) >= inner.waiting_max {
            inner.waiting.fetch_sub(1, Ordering::Relaxed);
            return Outcome::Failed(SearchFailure::Busy);
        }
        Outcome::Cold(ColdSearch { inner: Arc::clone(inner), target: target.into(), accepted, now })
    }
}

impl Inner {
    fn answer(
        &self,
        target: &[u8],
        accepted: AcceptedCodings,
        now: Moment,
        mode: Mode,
    ) -> Result<Outcome, Stop> {
        let query_at = target.iter().position(|&byte| byte == b'?');
        let (path, query) = match query_at.and_then(|at| target.split_at_checked(at)) {
            Some((path, query)) => (path, query.strip_prefix(b"?")),
            None => (target, None),
        };
        let reason = match RequestPath::of(path) {
            Ok(path) => match below(path.as_bytes(), &self.rules.prefix) {
                Some(below) => {
                    let find = |search: &Search<'_>| search.find(below);
                    match self.look_up(below, accepted, now, mode, find)? {
                        Answer::File(found) => return Ok(Outcome::File(found)),
                        Answer::Other(Known::Redirect) => {
                            return Ok(Outcome::Redirect(with_slash(path.as_bytes(), query)));
                        }
                        Answer::Other(Known::Nothing(reason)) => reason,
                    }
                }
                None => NotFoundReason::OutsidePrefix,
            },
            Err(refusal) => NotFoundReason::Refused(refusal),
        };
        match &self.rules.fallback {
            CheckedFallback::NotFound => Ok(Outcome::NotFound(reason)),
            CheckedFallback::Origin => Ok(Outcome::Origin(reason)),
            CheckedFallback::File(name) => {
                let find = |search: &Search<'_>| search.find_exactly(name);
                match self.look_up(FALLBACK_KEY, accepted, now, mode, find)? {
                    Answer::File(found) => Ok(Outcome::File(found)),
                    Answer::Other(_) => Ok(Outcome::NotFound(reason)),
                }
            }
        }
    }

    /// Removes entries without a request for longer than `idle`.
    fn close_idle(&self, now: Monotonic, idle: Duration) {
        for shard in &self.shards {
            let out = sound(shard.lock()).sweep(now, idle);
            drop(out);
        }
    }

    /// The remembered answer for a key, or else the result of `find`.
    fn look_up(
        &self,
        key: &[u8],
        accepted: AcceptedCodings,
        now: Moment,
        mode: Mode,
        find: impl Fn(&Search<'_>) -> Result<Finding, Stop>,
    ) -> Result<Answer, Stop> {
        let is_valid = |checked: Monotonic| now.monotonic.since(checked) < self.valid_for;
        let index = self.keys.hash_one(key) as usize % SHARDS;
        let Some(lock) = self.shards.get(index) else { return Err(Stop::WouldWait) };
        let (known, before) = {
            let mut shard = sound(lock.lock());
            match shard.files.get(key) {
                Some((entry, checked)) if is_valid(checked) => match entry.choose(accepted) {
                    Some(known) if known.is_in_memory() => return Ok(Answer::File(Arc::clone(known))),
                    known => (known.cloned(), Some(Arc::clone(entry))),
                },
                Some((entry, _)) => (None, Some(Arc::clone(entry))),
                None => match shard.others.get(key) {
                    Some((known, checked)) if is_valid(checked) => return Ok(Answer::Other(*known)),
                    Some(_) | None => (None, None),
                },
            }
        };
        if let Some(known) = known.filter(|known| known.is_current()) {
            return Ok(Answer::File(known));
        }
        let directory = self.directory.current(mode, now.monotonic)?;
        let opener = Opener { directory: directory.as_fd(), mode, rules: &self.rules };
        let search = Search {
            opener,
            rules: &self.rules,
            wall: now.wall,
            open_files: &self.open_files,
            before: before.as_deref(),
        };
        let found = match find(&search) {
            // Files without a request at the moment make room.
            Err(Stop::Failed(Errno::MFILE | Errno::NFILE)) => {
                self.close_idle(now.monotonic, Duration::ZERO);
                find(&search)?
            }
            found => found?,
        };
        let (answer, out) = sound(lock.lock()).store(key, found, accepted, now.monotonic);
        drop(out);
        Ok(answer)
    }
}

/// Entries that leave the tables, to be dropped without their lock.
type Leaving = Vec<Arc<FileEntry>>;

impl Shard {
    fn store(
        &mut self,
        key: &[u8],
        found: Finding,
        accepted: AcceptedCodings,
        now: Monotonic,
    ) -> (Answer, Leaving) {
        let mut out = Vec::new();
        let known = match found {
            Finding::File(entry) => {
                let entry = Arc::new(entry);
                let (content_bytes, descriptors) = entry.cost();
                let chosen = entry.choose(accepted).cloned();
                let cost = Cost::of(key, content_bytes, descriptors);
                out.extend(self.files.insert(key, entry, cost, now));
                let _ = self.others.remove(key);
                match chosen {
                    Some(chosen) => return (Answer::File(chosen), out),
                    // Every entry has a plain representation, which everyone accepts.
                    None => Known::Nothing(NotFoundReason::Absent),
                }
            }
            Finding::Redirect => Known::Redirect,
            Finding::Nothing(reason) => Known::Nothing(reason),
        };
        out.extend(self.files.remove(key));
        let _ = self.others.insert(key, known, Cost::of(key, 0, 0), now);
        (Answer::Other(known), out)
    }

    fn sweep(&mut self, now: Monotonic, idle: Duration) -> Leaving {
        let _ = self.others.sweep(now, idle);
        self.files.sweep(now, idle)
    }
}

/// The part of a path below a prefix: empty, or from a slash on.
fn below<'a>(path: &'a [u8], prefix: &[u8]) -> Option<&'a [u8]> {
    path.strip_prefix(prefix).filter(|below| below.is_empty() || below.starts_with(b"/"))
}
