//! The table of segments: their sizes, their objects, and the notes about objects that are still to
//! be written.
//!
//! Invariants: a segment is in the table exactly while its files have names. The writer learns of
//! every segment that another thread has removed. Lock order: table, then segment.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, RwLock};

use bytes::Bytes;
use platform::{Access, Disk, DiskFile, HashMap, sound};

use crate::figures::of;
use crate::names;

/// A change of an object, to be written into its segment's index.
#[derive(Clone, Debug)]
pub(crate) struct IndexNote {
    pub(crate) offset: u64,
    pub(crate) order: u64,
    pub(crate) change: ObjectChange,
}

#[derive(Clone, Debug)]
pub(crate) enum ObjectChange {
    Removed,
    Refreshed { index: Bytes, sequence: u64 },
}

/// The place of a refreshed object's index entry.
#[derive(Clone, Debug)]
pub(crate) enum RefreshedIndex {
    /// In memory, until it is written.
    Queued { index: Bytes, sequence: u64, order: u64 },
    /// At a position of the index file.
    Written { position: u64, bytes: u32 },
}

/// A segment: a file of records and the file with their index.
pub(crate) struct Segment {
    pub(crate) id: u32,
    pub(crate) data_bytes: AtomicU64,
    pub(crate) index_bytes: AtomicU64,
    /// The number of its known objects.
    pub(crate) objects: AtomicU64,
    /// A lower bound of the invalidation numbers of its objects. Relaxed is enough: a compaction of
    /// the journal that reads it too high raises the journal's floor, and objects below the floor
    /// are unproven.
    pub(crate) sequence_min: AtomicU64,
    /// Whether all its objects are known: it was written in this life, or its recovery has ended.
    pub(crate) is_known: AtomicBool,
    /// Whether the writer may still append to it.
    pub(crate) is_open: AtomicBool,
    state: Mutex<SegmentState>,
}

#[derive(Default)]
pub(crate) struct SegmentState {
    data: Option<Arc<dyn DiskFile>>,
    pub(crate) index: Option<Arc<dyn DiskFile>>,
    pub(crate) refreshed: HashMap<u64, RefreshedIndex>,
    pub(crate) notes: Vec<IndexNote>,
    /// Whether the segment was removed. It gets no more notes, and its size does not count.
    pub(crate) is_gone: bool,
    /// The size of the index when each object had a single entry.
    pub(crate) index_baseline: u64,
    /// Set if a torn entry may follow this many bytes of the index. The writer truncates the file
    /// there before it appends.
    pub(crate) cut_at: Option<u64>,
}

impl Segment {
    pub(crate) fn state(&self) -> MutexGuard<'_, SegmentState> {
        sound(self.state.lock())
    }

    /// The size of its two files, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        of(&self.data_bytes) + of(&self.index_bytes)
    }

    /// Keeps a file that was opened, unless another thread has kept one meanwhile. Returns the kept
    /// one. A surplus file is closed when the lock is free again, because closing may wait for the
    /// disk.
    fn keep(
        &self,
        opened: Arc<dyn DiskFile>,
        place: fn(&mut SegmentState) -> &mut Option<Arc<dyn DiskFile>>,
    ) -> Arc<dyn DiskFile> {
        let mut state = self.state();
        let kept = Arc::clone(place(&mut state).get_or_insert_with(|| Arc::clone(&opened)));
        drop(state);
        kept
    }

    pub(crate) fn lower_sequence_min(&self, sequence: u64) {
        self.sequence_min.fetch_min(sequence, Ordering::Relaxed);
    }
}

/// All segments, oldest first.
pub(crate) struct Segments {
    disk: Arc<dyn Disk>,
    directory: PathBuf,
    table: RwLock<BTreeMap<u32, Arc<Segment>>>,
    /// The size of all segments. Relaxed is enough: each change is one atomic operation, and a
    /// reader only compares the size with the limit.
    bytes: AtomicU64,
    next_id: AtomicU32,
    /// Segments that were removed without the writer, each with the queue space of its notes.
    orphaned: Mutex<Vec<(u32, u64)>>,
    /// The segment that a recovery is reading, which is not evicted; 0 if there is none.
    pub(crate) pinned: AtomicU32,
}

impl Segments {
    pub(crate) fn new(disk: Arc<dyn Disk>, directory: PathBuf) -> Self {
        Self {
            disk,
            directory,
            table: RwLock::default(),
            bytes: AtomicU64::new(0),
            next_id: AtomicU32::new(1),
            orphaned: Mutex::default(),
            pinned: AtomicU32::new(0),
        }
    }

    /// Adds a segment of an earlier life.
    pub(crate) fn adopt(&self, id: u32, data_bytes: u64, index_bytes: u64) {
        self.next_id.fetch_max(id.saturating_add(1), Ordering::Relaxed);
        self.add(Segment {
            id,
            data_bytes: AtomicU64::new(data_bytes),
            index_bytes: AtomicU64::new(index_bytes),
            objects: AtomicU64::new(0),
            sequence_min: AtomicU64::new(0),
            is_known: AtomicBool::new(false),
            is_open: AtomicBool::new(false),
            state: Mutex::default(),
        });
    }

    /// Creates a segment with two empty files.
    pub(crate) fn create(&self) -> io::Result<(Arc<Segment>, Arc<dyn DiskFile>)> {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let index = self.disk.open(&names::index(&self.directory, id), Access::Write)?;
        let data = self.disk.open(&names::data(&self.directory, id), Access::Write).inspect_err(|_| {
            // An error may be ignored: the next start removes an index without its data file.
            let _ = self.disk.remove(&names::index(&self.directory, id));
        })?;
        let state =
            SegmentState { data: Some(Arc::clone(&data)), index: Some(index), ..SegmentState::default() };
        let segment = self.add(Segment {
            id,
            data_bytes: AtomicU64::new(0),
            index_bytes: AtomicU64::new(0),
            objects: AtomicU64::new(0),
            sequence_min: AtomicU64::new(u64::MAX),
            is_known: AtomicBool::new(true),
            is_open: AtomicBool::new(true),
            state: Mutex::new(state),
        });
        Ok((segment, data))
    }

    fn add(&self, segment: Segment) -> Arc<Segment> {
        let segment = Arc::new(segment);
        self.bytes.fetch_add(segment.bytes(), Ordering::Relaxed);
        sound(self.table.write()).insert(segment.id, Arc::clone(&segment));
        segment
    }

    pub(crate) fn of(&self, id: u32) -> Option<Arc<Segment>> {
        sound(self.table.read()).get(&id).cloned()
    }

    pub(crate) fn all(&self) -> Vec<Arc<Segment>> {
        sound(self.table.read()).values().cloned().collect()
    }

    pub(crate) fn count(&self) -> u64 {
        sound(self.table.read()).len() as u64
    }

    /// The number of the newest segment, or 0 if there is none.
    pub(crate) fn newest(&self) -> u32 {
        let table = sound(self.table.read());
        table.last_key_value().map_or(0, |(id, _)| *id)
    }

    /// The size of all segments, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        of(&self.bytes)
    }

    /// The oldest segment neither open for writing nor being recovered.
    pub(crate) fn oldest(&self) -> Option<Arc<Segment>> {
        let pinned = self.pinned.load(Ordering::SeqCst);
        let table = sound(self.table.read());
        let mut free =
            table.values().filter(|segment| segment.id != pinned && !segment.is_open.load(Ordering::SeqCst));
        free.next().cloned()
    }

    /// A lower bound of the invalidation numbers of all objects; 0 until all segments are known.
    pub(crate) fn sequence_min(&self) -> u64 {
        self.all().iter().map(|segment| of(&segment.sequence_min)).min().unwrap_or(u64::MAX)
    }

    /// Sets the sizes of a segment's files.
    pub(crate) fn resize(&self, segment: &Segment, data_bytes: u64, index_bytes: u64) {
        let state = segment.state();
        let before = segment.data_bytes.swap(data_bytes, Ordering::Relaxed)
            + segment.index_bytes.swap(index_bytes, Ordering::Relaxed);
        if !state.is_gone {
            self.bytes.fetch_add((data_bytes + index_bytes).wrapping_sub(before), Ordering::Relaxed);
        }
    }

    /// Removes a segment and its files, and drops its notes. Readers with an open file may
    /// continue. The index is removed first, because a data file without an index is ignored.
    ///
    /// The first returned value is the queue space of the notes, which the caller must release.
    pub(crate) fn forget(&self, id: u32) -> (u64, io::Result<()>) {
        let removed = sound(self.table.write()).remove(&id);
        let Some(segment) = removed else { return (0, Ok(())) };
        let note_bytes = self.end(&segment);
        let index = self.disk.remove(&names::index(&self.directory, id));
        let data = self.disk.remove(&names::data(&self.directory, id));
        let removed = index
            .and(data)
            .or_else(|error| if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) });
        (note_bytes, removed)
    }

    /// Drops the notes of a segment that has left the table. Returns their queue space.
    fn end(&self, segment: &Segment) -> u64 {
        let mut state = segment.state();
        state.is_gone = true;
        self.bytes.fetch_sub(segment.bytes(), Ordering::Relaxed);
        std::mem::take(&mut state.notes).iter().map(IndexNote::index_bytes).sum()
    }

    /// Removes the oldest segment that [`Segments::oldest`] returns, without the writer. Returns
    /// false if there is none, or if its files cannot be removed.
    pub(crate) fn forget_oldest(&self) -> bool {
        // The handle is dropped at once, because its open files would keep the space in use.
        let Some(id) = self.oldest().map(|segment| segment.id) else { return false };
        let (note_bytes, removed) = self.forget(id);
        self.orphaned().push((id, note_bytes));
        removed.is_ok()
    }

    /// The segments that [`Segments::forget_oldest`] has removed since the last call, each with the
    /// queue space of its notes.
    pub(crate) fn take_orphaned(&self) -> Vec<(u32, u64)> {
        std::mem::take(&mut *self.orphaned())
    }

    fn orphaned(&self) -> MutexGuard<'_, Vec<(u32, u64)>> {
        sound(self.orphaned.lock())
    }

    /// The file with the records of a segment, which is opened once.
    ///
    /// No disk operation runs while the segment is locked, because a look-up that removes an object
    /// takes the same lock.
    pub(crate) fn data(&self, segment: &Segment) -> io::Result<Arc<dyn DiskFile>> {
        if let Some(file) = &segment.state().data {
            return Ok(Arc::clone(file));
        }
        let file = self.disk.open(&names::data(&self.directory, segment.id), Access::Read)?;
        Ok(segment.keep(file, |state| &mut state.data))
    }

    /// The file with the records of a segment, opened anew and past the page cache, to be read
    /// once.
    pub(crate) fn data_aside(&self, segment: &Segment) -> io::Result<Arc<dyn DiskFile>> {
        self.disk.open(&names::data(&self.directory, segment.id), Access::Aside)
    }

    /// The index file of a segment, which is opened once.
    pub(crate) fn index(&self, segment: &Segment) -> io::Result<Arc<dyn DiskFile>> {
        if let Some(file) = &segment.state().index {
            return Ok(Arc::clone(file));
        }
        let file = self.disk.open(&names::index(&self.directory, segment.id), Access::Write)?;
        Ok(segment.keep(file, |state| &mut state.index))
    }

    /// The index file of a segment, for the writer. Truncates a torn entry at its end first.
    pub(crate) fn index_to_write(&self, segment: &Segment) -> io::Result<Arc<dyn DiskFile>> {
        let file = self.index(segment)?;
        let cut_at = segment.state().cut_at;
        if let Some(bytes) = cut_at {
            file.truncate(bytes)?;
            segment.state().cut_at = None;
            self.resize(segment, of(&segment.data_bytes), bytes);
        }
        Ok(file)
    }
}

#[cfg(test)]
mod tests {
    use super::Segments;
    use platform::{Access, Disk, DiskFile, SimulatedDisk};
    use std::fs::File;
    use std::io;
    use std::path::Path;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::sync::{Arc, Weak};

    /// A file that counts its closings while its segment is not locked.
    struct ObservedFile {
        segment: Weak<super::Segment>,
        closed_unlocked: Arc<AtomicU64>,
    }

    impl Drop for ObservedFile {
        fn drop(&mut self) {
            let is_free = self.segment.upgrade().is_some_and(|segment| segment.state.try_lock().is_ok());
            self.closed_unlocked.fetch_add(u64::from(is_free), Ordering::SeqCst);
        }
    }

    impl DiskFile for ObservedFile {
        fn read_at(&self, _: &mut [u8], _: u64) -> io::Result<usize> {
            Ok(0)
        }

        fn write_at(&self, content: &[u8], _: u64) -> io::Result<usize> {
            Ok(content.len())
        }

        fn truncate(&self, _: u64) -> io::Result<()> {
            Ok(())
        }

        fn sync(&self) -> io::Result<()> {
            Ok(())
        }

        fn system_file(&self) -> Option<Arc<File>> {
            None
        }
    }

    #[test]
    fn file_that_another_thread_opened_first_is_closed_unlocked() {
        let disk: Arc<dyn Disk> = Arc::new(SimulatedDisk::new(1));
        let segments = Segments::new(Arc::clone(&disk), "/cache".into());
        segments.adopt(7, 0, 0);
        let segment = segments.of(7).unwrap();
        let first = disk.open(Path::new("/cache/data"), Access::Write).unwrap();
        let kept = segment.keep(Arc::clone(&first), |state| &mut state.data);
        let closed_unlocked = Arc::new(AtomicU64::new(0));
        let surplus =
            ObservedFile { segment: Arc::downgrade(&segment), closed_unlocked: Arc::clone(&closed_unlocked) };
        assert!(Arc::ptr_eq(&segment.keep(Arc::new(surplus), |state| &mut state.data), &kept));
        assert_eq!(closed_unlocked.load(Ordering::SeqCst), 1);
    }
}
