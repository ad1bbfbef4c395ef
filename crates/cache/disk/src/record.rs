//! The types that callers exchange with the tier, and the trait through which it asks them which
//! objects to keep.

use bytes::Bytes;

/// The largest index entry of a record, in bytes.
pub const INDEX_BYTES_MAX: usize = 64 << 10;

/// The largest head of a record, in bytes.
pub const HEAD_BYTES_MAX: usize = 1 << 20;

/// The largest invalidation, in bytes.
pub const INVALIDATION_BYTES_MAX: usize = 64 << 10;

/// The place of an object. It is valid only for the tier that returned it, and only in the same
/// life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Location {
    pub(crate) segment: u32,
    /// The number of bytes that one read at `offset` may cover: the record up to its body, and the
    /// body if it follows.
    pub(crate) span: u32,
    pub(crate) offset: u64,
}

impl Location {
    /// The number of the segment that holds the object.
    pub const fn segment(&self) -> u32 {
        self.segment
    }
}

/// An object to write. The tier does not interpret its parts.
#[derive(Clone, Debug)]
pub struct Record {
    /// The data that identifies the object after a restart, returned by [`crate::Recovery`]. At
    /// most [`INDEX_BYTES_MAX`] bytes.
    pub index: Bytes,
    /// Data read together with the index entry. At most [`HEAD_BYTES_MAX`] bytes.
    pub head: Bytes,
    /// The body, in chunks of any size.
    pub body: Vec<Bytes>,
    /// The number of the last invalidation that the object was checked against.
    pub sequence: u64,
}

/// Decides which objects are worth keeping. The writer calls it and waits for the answer.
pub trait RetentionPolicy: Send + Sync {
    /// The segment of this object is about to be evicted. Called for each object in it that was not
    /// removed.
    ///
    /// Returns true to have the object written again elsewhere; [`RetentionPolicy::moved`] or
    /// [`RetentionPolicy::lost`] follows. Returns false to let it go.
    fn evicts(&self, location: Location) -> bool;

    /// An object to be kept has a copy at `to`.
    ///
    /// The keeper calls `renew` at most once, while no other thread can refresh the object at
    /// `from`, and refreshes it at `to` from then on. `renew` gives the copy what the object was
    /// refreshed with since it was read, and returns false if that fails. In this case, and if the
    /// object was removed or replaced meanwhile, the keeper must remove `to`.
    fn moved(&self, from: Location, to: Location, renew: &mut dyn FnMut() -> bool);

    /// An object to be kept could not be kept: too much was kept already, or it could not be read
    /// or written.
    ///
    /// A keeper that ignores this call notices the loss when a read fails with
    /// [`crate::ReadError::Gone`].
    fn lost(&self, location: Location) {
        let _ = location;
    }

    /// All objects of a segment that the keeper still knows were lost with it. Their list could not
    /// be read, or the disk was so full that the segment was removed for an invalidation.
    ///
    /// A keeper that ignores this call notices the losses as those of [`RetentionPolicy::lost`].
    fn lost_all(&self, segment: u32) {
        let _ = segment;
    }
}

/// The result of a step of the writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriterProgress {
    /// The step did some work.
    Worked,
    /// There was nothing to do.
    Idle,
    /// The tier is closed. Everything is written, and the writer has nothing more to do.
    Closed,
}

/// An object found by the recovery.
#[derive(Clone, Debug)]
pub struct RecoveredObject {
    /// Its location.
    pub location: Location,
    /// The index entry it was written or last refreshed with. It is a slice of a larger buffer, so
    /// copy it to keep it.
    pub index: Bytes,
    /// The invalidation number it was written or last refreshed with.
    pub sequence: u64,
    /// Rises with every write and refresh, across lives. Of two objects under one key, the greater
    /// one is current.
    pub order: u64,
    /// Whether no invalidation that applies to the object can have been lost. If false, the object
    /// must be validated before it is used; [`crate::Tier::refresh`] then makes it proven.
    pub proven: bool,
}

/// Statistics of a tier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TierFigures {
    /// Bytes of the files in the directory.
    pub bytes: u64,
    /// Files in the directory.
    pub files: u64,
    /// Segments.
    pub segments: u64,
    /// Objects that were written or recovered, and neither removed nor evicted.
    pub objects: u64,
    /// Bytes that wait for the writer.
    pub queue_bytes: u64,
    /// The number of the last accepted operation (write, refresh, removal or finished fill).
    pub accepted: u64,
    /// Operations up to this number survive the end of the process. Normally at most a second
    /// behind `accepted`.
    pub durable: u64,
    /// Operations up to this number survive a power cut.
    pub synced: u64,
    /// Objects written since the start.
    pub written: u64,
    /// Writes, refreshes and fills refused since the start, because the tier was off, the queue was
    /// full or the object was too large.
    pub refused: u64,
    /// Objects evicted since the start.
    pub evicted: u64,
    /// Objects written again since the start, because the keeper wanted to keep them.
    pub kept: u64,
    /// Records and index entries found torn or damaged since the start.
    pub torn: u64,
    /// Invalidations written since the start.
    pub invalidations: u64,
    /// Bytes of the journal of invalidations.
    pub invalidation_bytes: u64,
    /// Reads since the start that failed or returned bytes that do not match their checksum.
    pub damaged: u64,
    /// Operations that the system refused since the start, except when the disk was full.
    pub io_errors: u64,
    /// Times that the disk was full since the start.
    pub full: u64,
    /// Bytes that running fills have reserved now.
    pub fill_bytes: u64,
    /// Bytes of running fills that are received and wait for the writer. At most half of the queue
    /// and one push, because [`Fill::poll_ready`](crate::Fill::poll_ready) then makes them wait.
    pub fill_waiting_bytes: u64,
    /// Fills refused or ended since the start because the other fills took the whole share.
    pub fills_unshared: u64,
    /// Times that the disk hung since the start.
    pub hangs: u64,
    /// Operations that the disk has not answered in time. Each blocks a thread now.
    pub stuck: u64,
}
