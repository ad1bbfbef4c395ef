//! A body that waits between a client and an origin: a queue in memory whose later part may be in a
//! file.
//!
//! ```text
//!   pop <--- front <--- file (written earlier, read back in order) <--- back <--- push
//! ```
//!
//! Invariant: pieces come out in the order in which they were pushed, each byte once. Pieces that
//! are being written stay in memory until the file has them, so a failing disk costs only capacity.
//! If bytes cannot be read back, the buffer is lost and nothing more comes out.

use crate::memory::budget::MemoryShare;
use crate::memory::grant::Grant;
use crate::memory::spool::SpoolFile;
use bytes::{Bytes, BytesMut};
use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

/// Bytes of one write to the file.
const WRITE_BYTES: u64 = 256 * 1024;

/// The most that a write exceeds [`WRITE_BYTES`] by: its last piece.
const PIECE_BYTES_MAX: u64 = 64 * 1024;

/// Bytes of one read from the file. They are not counted in the memory budget, so a read is short
/// when the budget has no memory left.
const READ_BYTES: u64 = 64 * 1024;
const SHORT_READ_BYTES: u64 = 16 * 1024;

/// A queue of bytes.
pub(crate) struct Buffer {
    grant: Grant,
    front: PieceQueue,
    back: PieceQueue,
    file: SpoolFile,
    /// Bytes written to and read from the file; equal when the file is empty.
    written: u64,
    read: u64,
    transfer: Option<Transfer>,
    bytes_max: u64,
    /// Nothing more is written to the file.
    is_file_closed: bool,
    is_lost: bool,
}

/// Pieces in memory.
#[derive(Debug, Default)]
struct PieceQueue {
    pieces: VecDeque<Bytes>,
    /// The last small pieces, copied together.
    tail: BytesMut,
    bytes: u64,
}

type PendingOperation<T> = Pin<Box<dyn Future<Output = Option<T>> + Send + Sync>>;

/// Pieces below this size are copied together, because each would keep alive the whole buffer that
/// it was read into.
const SMALL_BYTES: usize = 32 * 1024;

/// An operation under way between memory and file.
enum Transfer {
    /// Holds the pieces until the file has them.
    Write(PendingOperation<()>, PieceQueue),
    Read(PendingOperation<Bytes>, u64),
}

/// Bytes in the file could not be read back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lost;

impl Buffer {
    /// A buffer that holds `bytes_max` bytes at most. Bytes that `grant` has no memory for go to
    /// the file.
    pub(crate) fn new(grant: Grant, file: SpoolFile, bytes_max: u64) -> Self {
        Self {
            grant,
            front: PieceQueue::default(),
            back: PieceQueue::default(),
            file,
            written: 0,
            read: 0,
            transfer: None,
            bytes_max,
            is_file_closed: false,
            is_lost: false,
        }
    }

    /// Whether another piece may be pushed now. If not, and no transfer is under way, only `pop`
    /// makes room.
    pub(crate) fn has_room(&mut self) -> bool {
        self.grant.has_room(self.held_bytes())
    }

    /// Whether `bytes` more bytes may be pushed in memory of the budget.
    pub(crate) fn has_room_for(&mut self, bytes: u64) -> bool {
        self.grant.has_room(self.held_bytes() + bytes.saturating_sub(1))
    }

    /// The share that its memory is taken from.
    pub(crate) const fn share(&self) -> &Arc<MemoryShare> {
        self.grant.share()
    }

    /// Whether a transfer is under way that may make room without `pop`.
    pub(crate) const fn is_moving(&self) -> bool {
        self.transfer.is_some()
    }

    /// Adds a piece at the end. Call it only after [`Buffer::has_room`] returned true.
    pub(crate) fn push(&mut self, piece: Bytes) {
        let is_first = self.is_file_empty() && self.back.bytes == 0;
        let queue = if is_first { &mut self.front } else { &mut self.back };
        queue.push(piece);
    }

    /// The next piece in memory; `None` if there is none.
    pub(crate) fn pop(&mut self) -> Option<Bytes> {
        let piece = self.front.pop()?;
        self.grant.shrink(self.held_bytes());
        Some(piece)
    }

    /// Like [`Buffer::pop`], but waits for bytes in the file; `None` when the buffer is empty.
    ///
    /// # Errors
    /// [`Lost`] if bytes cannot be read back.
    pub(crate) fn poll_pop(&mut self, context: &mut Context<'_>) -> Poll<Result<Option<Bytes>, Lost>> {
        loop {
            if let Some(piece) = self.pop() {
                return Poll::Ready(Ok(Some(piece)));
            }
            if self.is_lost {
                return Poll::Ready(Err(Lost));
            }
            if self.is_empty() {
                return Poll::Ready(Ok(None));
            }
            ready!(self.poll_move(context, true));
        }
    }

    /// Whether no bytes are left in memory or file.
    pub(crate) fn is_empty(&self) -> bool {
        self.front.bytes == 0 && self.back.bytes == 0 && self.is_file_empty()
    }

    /// Whether bytes in the file could not be read back.
    pub(crate) const fn is_lost(&self) -> bool {
        self.is_lost
    }

    /// Moves bytes between memory and file; back into memory only if `is_wanted`. Ready after a
    /// change. Pending while the disk works, and also if there is nothing to move.
    pub(crate) fn poll_move(&mut self, context: &mut Context<'_>, is_wanted: bool) -> Poll<()> {
        if self.is_lost {
            return Poll::Pending;
        }
        if self.transfer.is_none() {
            if self.is_file_empty() && self.back.bytes > 0 {
                self.front.append(&mut self.back);
                return Poll::Ready(());
            }
            self.transfer = if is_wanted { self.begin_read() } else { None };
            if self.transfer.is_none() && !self.has_room() {
                self.transfer = self.begin_write();
            }
        }
        match &mut self.transfer {
            None => return Poll::Pending,
            Some(Transfer::Write(operation, _)) => {
                let written = ready!(operation.as_mut().poll(context));
                self.end_write(written);
            }
            Some(Transfer::Read(operation, bytes)) => {
                let (content, bytes) = (ready!(operation.as_mut().poll(context)), *bytes);
                self.end_read(content, bytes);
            }
        }
        Poll::Ready(())
    }

    /// Starts to read the file if no bytes before it are left in memory.
    fn begin_read(&mut self) -> Option<Transfer> {
        if self.is_file_empty() || self.front.bytes > 0 {
            return None;
        }
        let bytes_max = if self.has_room_for(READ_BYTES) { READ_BYTES } else { SHORT_READ_BYTES };
        let bytes = (self.written - self.read).min(bytes_max);
        let operation = Box::pin(self.file.read(self.read, usize::try_from(bytes).ok()?));
        Some(Transfer::Read(operation, bytes))
    }

    /// Starts to write the bytes that follow the file, or all bytes in memory if the file is empty.
    fn begin_write(&mut self) -> Option<Transfer> {
        if self.is_file_closed {
            return None;
        }
        let is_first = self.is_file_empty();
        if is_first {
            (self.written, self.read) = (0, 0);
        }
        let queue = if is_first { &mut self.front } else { &mut self.back };
        let after = self.written + queue.bytes.min(WRITE_BYTES + PIECE_BYTES_MAX);
        if queue.bytes == 0 || after > self.bytes_max || !self.file.reserve(after) {
            return None;
        }
        let moved = queue.split_off(WRITE_BYTES);
        let operation = Box::pin(self.file.write(moved.pieces.iter().cloned().collect(), self.written));
        if is_first {
            // The rest in memory follows the bytes that are being written.
            std::mem::swap(&mut self.front, &mut self.back);
        }
        Some(Transfer::Write(operation, moved))
    }

    fn end_write(&mut self, written: Option<()>) {
        let Some(Transfer::Write(_, mut moved)) = self.transfer.take() else { return };
        match written {
            Some(()) => self.written += moved.bytes,
            None => {
                self.is_file_closed = true;
                moved.append(&mut self.back);
                self.back = moved;
            }
        }
    }

    fn end_read(&mut self, content: Option<Bytes>, bytes: u64) {
        self.transfer = None;
        match content {
            Some(content) => {
                self.read += bytes;
                self.front.push(content);
            }
            None => self.is_lost = true,
        }
    }

    fn is_file_empty(&self) -> bool {
        self.read == self.written && !matches!(self.transfer, Some(Transfer::Write(..)))
    }

    fn held_bytes(&self) -> u64 {
        let moving = match &self.transfer {
            Some(Transfer::Write(_, moved)) => moved.bytes,
            Some(Transfer::Read(..)) | None => 0,
        };
        self.front.bytes + self.back.bytes + moving
    }
}

impl PieceQueue {
    fn push(&mut self, piece: Bytes) {
        let is_small = self.bytes > 0 && piece.len() < SMALL_BYTES;
        self.bytes += piece.len() as u64;
        if is_small {
            self.tail.extend_from_slice(&piece);
        }
        if !is_small || self.tail.len() >= SMALL_BYTES {
            self.close_tail();
        }
        if !is_small {
            self.pieces.push_back(piece);
        }
    }

    fn pop(&mut self) -> Option<Bytes> {
        if self.pieces.is_empty() {
            self.close_tail();
        }
        let piece = self.pieces.pop_front()?;
        self.bytes -= piece.len() as u64;
        Some(piece)
    }

    /// Moves all pieces of another queue to the end of this one.
    fn append(&mut self, other: &mut Self) {
        self.close_tail();
        self.pieces.append(&mut other.pieces);
        self.tail = std::mem::take(&mut other.tail);
        self.bytes += std::mem::take(&mut other.bytes);
    }

    fn close_tail(&mut self) {
        if !self.tail.is_empty() {
            self.pieces.push_back(std::mem::take(&mut self.tail).freeze());
        }
    }

    /// Takes out the first pieces until they have `bytes` or more.
    fn split_off(&mut self, bytes: u64) -> Self {
        let mut first = Self::default();
        while first.bytes < bytes
            && let Some(piece) = self.pop()
        {
            first.bytes += piece.len() as u64;
            first.pieces.push_back(piece);
        }
        first
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // Dropped before `file`, because a transfer that has not started must not be the last owner
        // of the file.
        self.transfer = None;
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Buffer")
            .field("memory_bytes", &self.held_bytes())
            .field("file_bytes", &(self.written - self.read))
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::Buffer;
    use crate::memory::buffers::Buffers;
    use crate::upkeep::disk_threads::DiskThreads;
    use bytes::Bytes;
    use config::EdgePlan;
    use platform::{Disk, FaultyDisk, HangingDisk, SystemDisk};
    use std::future::poll_fn;
    use std::sync::Arc;
    use std::task::Poll;
    use std::time::Duration;

    /// Buffers with so little memory that each has only its allowance and the spool.
    fn buffers(directory: &tempfile::TempDir, disk: impl Disk + 'static, spool_bytes: u64) -> Arc<Buffers> {
        let mut plan = EdgePlan::for_origin("http://127.0.0.1:9".parse().unwrap());
        plan.memory_bytes = 1 << 20;
        plan.spool.directory = Some(directory.path().to_owned());
        plan.spool.bytes_max = spool_bytes;
        plan.limits.disk_timeout = Duration::from_millis(20);
        Arc::new(Buffers::new(&plan, Arc::new(disk), DiskThreads::default()))
    }

    /// Pieces of many sizes, and all their bytes.
    fn pieces() -> (Vec<Bytes>, Vec<u8>) {
        let sizes = [1, 40_000, 3, 5, 65_536, 9_000, 9_000, 9_000, 9_000, 33_000, 64_000, 2, 60_000];
        let bytes = |(index, size): (usize, &usize)| vec![u8::try_from(index % 251).unwrap(); *size];
        let pieces: Vec<Vec<u8>> = sizes.iter().cycle().take(60).enumerate().map(bytes).collect();
        (pieces.iter().cloned().map(Bytes::from).collect(), pieces.concat())
    }

    /// Pushes pieces while there is room or a transfer may make room; returns the rest.
    async fn fill(buffer: &mut Buffer, pieces: Vec<Bytes>) -> Vec<Bytes> {
        let mut pieces = pieces.into_iter();
        while let Some(piece) = pieces.as_slice().first().cloned() {
            let has_room = poll_fn(|context| {
                while buffer.poll_move(context, false).is_ready() {}
                let has_room = buffer.has_room();
                if has_room || !buffer.is_moving() { Poll::Ready(has_room) } else { Poll::Pending }
            });
            if !has_room.await {
                break;
            }
            buffer.push(piece);
            pieces.next();
        }
        pieces.collect()
    }

    async fn drain(buffer: &mut Buffer) -> Option<Vec<u8>> {
        let mut content = Vec::new();
        loop {
            match poll_fn(|context| buffer.poll_pop(context)).await {
                Ok(Some(piece)) => content.extend_from_slice(&piece),
                Ok(None) => return Some(content),
                Err(_) => return None,
            }
        }
    }

    #[tokio::test]
    async fn bytes_come_out_in_order_through_the_file() {
        let directory = tempfile::tempdir().unwrap();
        let buffers = buffers(&directory, SystemDisk, 1 << 30);
        let (pieces, content) = pieces();
        let mut buffer = buffers.for_response();
        for _ in 0..2 {
            assert_eq!(fill(&mut buffer, pieces.clone()).await.len(), 0);
            assert!(buffers.spool.bytes() > content.len() as u64 / 2, "most of it is in the file");
            assert!(drain(&mut buffer).await.unwrap() == content, "the content is different");
        }
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0, "the file still has a name");
        drop(buffer);
        while buffers.spool.bytes() > 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!((buffers.memory().taken(), buffers.spool.errors()), (0, 0));
    }

    #[tokio::test]
    async fn bytes_come_out_in_order_while_more_go_in() {
        let directory = tempfile::tempdir().unwrap();
        let buffers = buffers(&directory, SystemDisk, 1 << 30);
        let (pieces, content) = pieces();
        let (mut buffer, mut taken) = (buffers.for_response(), Vec::new());
        for (turn, piece) in pieces.into_iter().enumerate() {
            assert_eq!(fill(&mut buffer, vec![piece]).await.len(), 0);
            // Takes out up to two pieces, from memory or the file.
            for _ in 0..turn % 3 {
                if let Ok(Some(piece)) = poll_fn(|context| buffer.poll_pop(context)).await {
                    taken.extend_from_slice(&piece);
                }
            }
        }
        taken.extend(drain(&mut buffer).await.unwrap());
        assert!(taken == content, "the content is different");
    }

    #[tokio::test]
    async fn full_spool_limits_the_capacity_and_loses_nothing() {
        let directory = tempfile::tempdir().unwrap();
        for (disk_room, spool_bytes) in [(300_000, 1 << 30), (0, 1 << 30), (1 << 30, 300_000), (1 << 30, 0)] {
            let buffers = buffers(&directory, FaultyDisk::with_room(disk_room), spool_bytes);
            let (pieces, content) = pieces();
            let mut buffer = buffers.for_response();
            let mut taken = Vec::new();
            let mut left = fill(&mut buffer, pieces).await;
            assert!(!left.is_empty() && buffers.spool.bytes() <= spool_bytes);
            while !left.is_empty() {
                taken.extend_from_slice(&poll_fn(|context| buffer.poll_pop(context)).await.unwrap().unwrap());
                left = fill(&mut buffer, left).await;
            }
            taken.extend(drain(&mut buffer).await.unwrap());
            assert!(taken == content, "the content is different");
        }
    }

    #[tokio::test]
    async fn hanging_disk_is_not_used_until_it_answers() {
        let directory = tempfile::tempdir().unwrap();
        let disk = HangingDisk::new(SystemDisk);
        let buffers = buffers(&directory, disk.clone(), 1 << 30);
        let (pieces, content) = pieces();
        disk.freeze();
        let mut buffer = buffers.for_response();
        let left = fill(&mut buffer, pieces.clone()).await;
        assert!(!left.is_empty());
        let kept = drain(&mut buffer).await.unwrap();
        assert!(content.starts_with(&kept), "pieces handed to the hung disk are not lost");
        // The next body does not even try the disk.
        let mut other = buffers.for_response();
        fill(&mut other, pieces.clone()).await;
        assert_eq!(buffers.spool.errors(), 1);
        disk.thaw();
        let mut third = buffers.for_response();
        while !fill(&mut third, pieces.clone()).await.is_empty() {
            drop(std::mem::replace(&mut third, buffers.for_response()));
            tokio::task::yield_now().await;
        }
        assert!(drain(&mut third).await.unwrap() == content, "the content is different");
    }

    #[tokio::test]
    async fn buffer_is_lost_if_the_file_cannot_be_read_back() {
        let directory = tempfile::tempdir().unwrap();
        let disk = HangingDisk::new(SystemDisk);
        let buffers = buffers(&directory, disk.clone(), 1 << 30);
        let mut buffer = buffers.for_response();
        fill(&mut buffer, pieces().0).await;
        disk.freeze();
        assert_eq!(drain(&mut buffer).await, None);
        assert!(buffer.is_lost());
        disk.thaw();
    }

    #[tokio::test]
    async fn small_pieces_are_copied_together() {
        let directory = tempfile::tempdir().unwrap();
        let buffers = buffers(&directory, SystemDisk, 0);
        let (mut buffer, _) = buffers.for_request();
        let whole = Bytes::from(vec![7; 64 * 1024]);
        (0..1000).for_each(|at| buffer.push(whole.slice(at..=at)));
        let mut pieces = 0;
        while buffer.pop().is_some() {
            pieces += 1;
        }
        assert_eq!(pieces, 2, "the first, and the others copied together");
    }
}
