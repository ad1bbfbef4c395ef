//! What goes in and comes out, and who is asked when room is needed.

use bytes::Bytes;

/// The most that a record's index may take, in bytes.
pub const INDEX_BYTES_MAX: usize = 64 << 10;

/// The most that a record's head may take, in bytes.
pub const HEAD_BYTES_MAX: usize = 1 << 20;

/// The most that one invalidation may take, in bytes.
pub const INVALIDATION_BYTES_MAX: usize = 64 << 10;

/// Where an object is kept. It means something to the tier that gave it, and in its life only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Location {
    pub(crate) segment: u32,
    /// What can be read at `offset` in one go: the head of the record, and the body if that follows.
    pub(crate) span: u32,
    pub(crate) offset: u64,
}

/// An object to write. Its parts are octets that the tier does not look into.
#[derive(Clone, Debug)]
pub struct Record {
    /// What a restart needs, given back by [`crate::Recovery`]; at most [`INDEX_BYTES_MAX`].
    pub index: Bytes,
    /// What is read together with it; at most [`HEAD_BYTES_MAX`].
    pub head: Bytes,
    /// The body, in pieces of any size.
    pub body: Vec<Bytes>,
    /// The number up to which invalidations have been checked against the object.
    pub sequence: u64,
}

/// Who knows which objects are worth keeping. Called by the writer, which waits for the answer.
pub trait Keeper: Send + Sync {
    /// The segment of this object goes. `true`: it is written again elsewhere, and [`Keeper::moved`] follows;
    /// `false`: it is forgotten. Asked for each object that was written and not removed.
    fn evicts(&self, location: Location) -> bool;

    /// An object that was to be kept is now at `to`. If it was removed or replaced meanwhile, `to` is to be removed.
    fn moved(&self, from: Location, to: Location);

    /// An object that was to be kept could not be: too much was kept, or it could not be read or written.
    /// Whoever does not listen finds out when it reads as [`crate::ReadError::Gone`].
    fn lost(&self, location: Location) {
        let _ = location;
    }
}

/// What the writer did in a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// There was something to do.
    Worked,
    /// There was nothing to do.
    Idle,
    /// The tier is closed: everything is written and the writer has nothing to do any more.
    Closed,
}

/// An object that was found when the tier was opened.
#[derive(Clone, Debug)]
pub struct Recovered {
    /// Where it is.
    pub location: Location,
    /// The index it was written or last refreshed with: a slice of a larger buffer, to be copied if it is kept.
    pub index: Bytes,
    /// The number it was written or last refreshed with.
    pub sequence: u64,
    /// Greater means written (or refreshed) later; of two objects under one key the greater one stands.
    pub order: u64,
    /// Whether it is certain that no invalidation was lost that could concern it. If not, it must be validated
    /// before it is used; [`crate::Tier::refresh`] then proves it.
    pub proven: bool,
}

/// How a tier stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// What the files of the directory take, in bytes.
    pub bytes: u64,
    /// Files in the directory.
    pub files: u64,
    /// Segments.
    pub segments: u64,
    /// Objects that were written or recovered, and neither removed nor evicted.
    pub objects: u64,
    /// What waits for the writer, in bytes.
    pub queue_bytes: u64,
    /// The number of the last operation (write, refresh, finished fill) that was accepted.
    pub accepted: u64,
    /// Everything up to this operation survives the end of the process. At most a second behind `accepted`.
    pub durable: u64,
    /// Everything up to this operation survives a power cut.
    pub synced: u64,
    /// Objects written since the start.
    pub written: u64,
    /// Writes, refreshes and fills refused since the start: off, full queue, too large.
    pub refused: u64,
    /// Objects evicted since the start.
    pub evicted: u64,
    /// Objects written again because the keeper kept them, since the start.
    pub kept: u64,
    /// Records and entries dropped since the start because they were torn or damaged.
    pub torn: u64,
    /// Invalidations written since the start.
    pub invalidations: u64,
    /// What the journal of invalidations takes, in bytes.
    pub invalidation_bytes: u64,
    /// Reads since the start that failed, or whose result does not match its checksum.
    pub damaged: u64,
    /// Operations that the system refused since the start, other than for want of room.
    pub io_errors: u64,
    /// Times that the disk was full since the start.
    pub full: u64,
    /// What bodies that are streaming in have reserved now, in bytes.
    pub fill_bytes: u64,
    /// Bodies that were not written because others that streamed in took the whole share, since the start.
    pub fills_unshared: u64,
    /// Times that the disk hung since the start.
    pub hangs: u64,
    /// Operations that the disk has not answered in time and that threads wait for now.
    pub stuck: u64,
}
