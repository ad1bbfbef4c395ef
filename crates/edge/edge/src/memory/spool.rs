//! Unnamed temporary files for bodies that wait between a client and an origin and do not fit into
//! memory.
//!
//! Invariants: the files never take more than `spool_size`, have no names, and disappear when the
//! process ends in any way. If the disk is full, fails or hangs, bodies are not spooled, and
//! nothing else happens: no worker waits for it. No further file is started while an operation
//! exceeds `limits.disk_timeout` or many files wait to be closed. The room of a file is free again
//! once the file is closed.

use crate::memory::spool_closer::Closer;
use crate::upkeep::disk_threads::DiskThreads;
use bytes::Bytes;
use config::EdgePlan;
use platform::{Disk, DiskFile};
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicI64, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Maximum number of concurrent operations. They share the disk threads with purges and stored
/// responses, and some must stay free while the spool's disk hangs.
const OPERATIONS_MAX: usize = 4;

/// The spool: its directory and the accounting of its files.
pub(crate) struct Spool {
    disk: Arc<dyn Disk>,
    threads: DiskThreads,
    directory: Option<PathBuf>,
    /// Bytes reserved by all files. Relaxed is enough, here and for the files: a reservation is one
    /// atomic operation and guards no memory.
    bytes: AtomicU64,
    bytes_max: u64,
    timeout: Duration,
    turns: Arc<Semaphore>,
    /// Number of operations that exceed the timeout. Signed, because an operation may end before
    /// its waiter has counted it as late. A reservation that reads it too early is one too many.
    late: AtomicI64,
    /// Relaxed is enough: no other memory depends on the count.
    errors: AtomicU64,
    closer: Closer,
}

/// A file of the spool for one body. Its room is released after this is dropped and its last
/// operation has ended.
pub(crate) struct SpoolFile(Arc<SpoolSlot>);

/// A file and its reserved room.
struct SpoolSlot {
    spool: Arc<Spool>,
    /// Opened by the first write.
    file: OnceLock<Arc<dyn DiskFile>>,
    bytes: AtomicU64,
}

/// State bit: the operation has ended.
const DONE: u8 = 1;
/// State bit: the caller stopped waiting before the operation ended.
const LATE: u8 = 2;

impl Spool {
    /// The spool of a plan on this disk, which `threads` wait for.
    pub(crate) fn new(plan: &EdgePlan, disk: Arc<dyn Disk>, threads: DiskThreads) -> Self {
        Self {
            disk,
            threads,
            directory: plan.spool.directory.clone(),
            bytes: AtomicU64::new(0),
            bytes_max: plan.spool.bytes_max,
            timeout: plan.limits.disk_timeout,
            turns: Arc::new(Semaphore::new(OPERATIONS_MAX)),
            late: AtomicI64::new(0),
            errors: AtomicU64::new(0),
            closer: Closer::default(),
        }
    }

    /// Reports on standard error if the directory cannot be used. Blocks, but at most for the
    /// timeout.
    pub(crate) fn probe(&self) {
        let Some(directory) = self.directory.clone() else { return };
        let (disk, path) = (Arc::clone(&self.disk), directory.clone());
        let opened = self.threads.run_here(self.timeout, move || disk.open_unnamed(&path).map(drop));
        let problem = match opened {
            Some(Ok(())) => return,
            Some(Err(error)) => error.to_string(),
            None => "it does not answer".to_owned(),
        };
        let directory = directory.display();
        tracing::warn!(
            "large bodies wait in memory only: cannot write to {directory}: {problem}; \
             set spool_directory to a directory that can be written"
        );
    }

    /// Bytes reserved for its files.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Number of files that wait to be closed.
    pub(crate) fn closing(&self) -> u64 {
        self.closer.waiting() as u64
    }

    /// Number of operations that failed or were too late.
    pub(crate) fn errors(&self) -> u64 {
        self.errors.load(Ordering::Relaxed)
    }

    /// Runs `work` on a disk thread; `None` if it fails or exceeds the timeout.
    async fn run<T: Send + 'static>(
        self: Arc<Self>,
        work: impl FnOnce() -> io::Result<T> + Send + Sync + 'static,
    ) -> Option<T> {
        let done = async {
            let turn = Arc::clone(&self.turns).acquire_owned().await.ok()?;
            let state = Arc::new(AtomicU8::new(0));
            let operation =
                SpoolOperation { spool: Arc::clone(&self), state: Arc::clone(&state), _turn: turn };
            let _waiter = SpoolWaiter { spool: Arc::clone(&self), state };
            let done = self.threads.begin(move || {
                let result = work();
                drop(operation);
                result
            });
            done.await.ok()?.ok()
        };
        let result = tokio::time::timeout(self.timeout, done).await.ok().flatten();
        if result.is_none() {
            self.errors.fetch_add(1, Ordering::Relaxed);
        }
        result
    }
}

/// An operation on its thread. Its drop marks the end, also if no thread was available.
struct SpoolOperation {
    spool: Arc<Spool>,
    state: Arc<AtomicU8>,
    _turn: OwnedSemaphorePermit,
}

/// The caller of an operation. Its drop marks that the caller no longer waits.
struct SpoolWaiter {
    spool: Arc<Spool>,
    state: Arc<AtomicU8>,
}

impl Drop for SpoolOperation {
    fn drop(&mut self) {
        // Both marks are bits of one atomic. Of `SpoolOperation` and `SpoolWaiter`, the one that is
        // dropped second sees the other's bit, so `late` is balanced. Acquire and release also
        // order all that both did before, which costs nothing beside an operation on the disk.
        if self.state.fetch_or(DONE, Ordering::AcqRel) & LATE != 0 {
            self.spool.late.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

impl Drop for SpoolWaiter {
    fn drop(&mut self) {
        if self.state.fetch_or(LATE, Ordering::AcqRel) & DONE == 0 {
            self.spool.late.fetch_add(1, Ordering::AcqRel);
        }
    }
}

impl SpoolFile {
    pub(crate) fn new(spool: Arc<Spool>) -> Self {
        Self(Arc::new(SpoolSlot { spool, file: OnceLock::new(), bytes: AtomicU64::new(0) }))
    }

    /// Reserves room for a file of `bytes` bytes; false if there is not enough, or no spool.
    pub(crate) fn reserve(&self, bytes: u64) -> bool {
        let Spool { directory, late, bytes: taken, bytes_max, closer, .. } = &*self.0.spool;
        let more = bytes.saturating_sub(self.0.bytes.load(Ordering::Relaxed));
        let fits = directory.is_some()
            && late.load(Ordering::Acquire) <= 0
            && (self.0.file.get().is_some() || closer.keeps_up())
            && taken
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |taken| {
                    taken.checked_add(more).filter(|taken| taken <= bytes_max)
                })
                .is_ok();
        self.0.bytes.fetch_add(if fits { more } else { 0 }, Ordering::Relaxed);
        fits
    }

    /// Writes `pieces` at `offset`; the first write opens the file. `None` on failure.
    pub(crate) fn write(
        &self,
        pieces: Vec<Bytes>,
        offset: u64,
    ) -> impl Future<Output = Option<()>> + Send + Sync + use<> {
        let place = Arc::clone(&self.0);
        Arc::clone(&place.spool).run(move || {
            let file = place.open()?;
            let mut at = offset;
            for piece in pieces {
                let mut rest = &piece[..];
                while !rest.is_empty() {
                    let written = file.write_at(rest, at)?;
                    rest = rest.get(written..).filter(|_| written > 0).ok_or(io::ErrorKind::WriteZero)?;
                    at += written as u64;
                }
            }
            Ok(())
        })
    }

    /// Reads exactly `bytes` bytes at `offset`; `None` on failure.
    pub(crate) fn read(
        &self,
        offset: u64,
        bytes: usize,
    ) -> impl Future<Output = Option<Bytes>> + Send + Sync + use<> {
        let place = Arc::clone(&self.0);
        Arc::clone(&place.spool).run(move || {
            let file = place.file.get().ok_or(io::ErrorKind::NotFound)?;
            let (mut content, mut filled) = (vec![0; bytes], 0);
            while let Some(rest) = content.get_mut(filled..).filter(|rest| !rest.is_empty()) {
                match file.read_at(rest, offset + filled as u64)? {
                    0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                    read => filled += read,
                }
            }
            Ok(Bytes::from(content))
        })
    }
}

impl SpoolSlot {
    /// The file, opened on first use. No race: a body has one operation at a time.
    fn open(&self) -> io::Result<&Arc<dyn DiskFile>> {
        if let Some(file) = self.file.get() {
            return Ok(file);
        }
        let directory = self.spool.directory.as_deref().ok_or(io::ErrorKind::NotFound)?;
        let file = self.spool.disk.open_unnamed(directory)?;
        Ok(self.file.get_or_init(|| file))
    }
}

impl Drop for SpoolSlot {
    fn drop(&mut self) {
        let reservation = SpoolReservation { spool: Arc::clone(&self.spool), bytes: *self.bytes.get_mut() };
        if let Some(file) = self.file.take() {
            // Closing frees the file's blocks, which may wait for the disk.
            self.spool.closer.close(move || {
                drop(file);
                drop(reservation);
            });
        }
    }
}

/// The room that a file has reserved. Dropping it releases the room.
struct SpoolReservation {
    spool: Arc<Spool>,
    bytes: u64,
}

impl Drop for SpoolReservation {
    fn drop(&mut self) {
        self.spool.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl fmt::Debug for SpoolFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SpoolFile").field("bytes", &self.0.bytes).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::{Spool, SpoolFile};
    use crate::upkeep::disk_threads::DiskThreads;
    use bytes::Bytes;
    use config::EdgePlan;
    use platform::{HangingDisk, SystemDisk};
    use std::sync::Arc;

    #[tokio::test]
    async fn files_that_cannot_be_closed_hold_neither_workers_nor_threads() {
        let directory = tempfile::tempdir().unwrap();
        let disk = HangingDisk::new(SystemDisk);
        let mut plan = EdgePlan::for_origin("http://127.0.0.1:9".parse().unwrap());
        plan.spool.directory = Some(directory.path().to_owned());
        plan.limits.disk_timeout = testkit::PATIENCE;
        let spool = Arc::new(Spool::new(&plan, Arc::new(disk.clone()), DiskThreads::default()));
        disk.freeze_closing();
        let mut files = 0;
        for _ in 0..200 {
            let file = SpoolFile::new(Arc::clone(&spool));
            if !file.reserve(10) {
                break;
            }
            file.write(vec![Bytes::from_static(b"0123456789")], 0).await.unwrap();
            files += 1;
        }
        assert!((32..200).contains(&files), "{files} files have begun");
        assert_eq!(spool.bytes(), files * 10, "their room is free when they are closed");
        assert_eq!(spool.closing(), files);
        assert_eq!(spool.threads.run_here(testkit::PATIENCE, || 1), Some(1), "a thread is free");
        disk.thaw();
        while spool.bytes() > 0 {
            tokio::task::yield_now().await;
        }
        assert!(SpoolFile::new(spool).reserve(10));
    }
}
