//! A representation: a file with the head of its response.
//!
//! Invariant: the head states no length, which is framing. Content in memory was read while the
//! file did not change, so it belongs to the entity tag. The content of a larger file stays in the
//! file, and may change or become shorter while it is sent.

use crate::entity_tag::entity_tag;
use crate::identity::{FileIdentity, Kind};
use crate::open_files::{OpenFiles, OpenSlot};
use crate::opening::{Mode, OpenedFile, Stop};
use crate::residency::Residency;
use bytes::{Bytes, BytesMut};
use clock::{Monotonic, Timestamp};
use message::{ResponseHead, Status, names};
use platform::is_in_memory;
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::{Errno, ReadWriteFlags, preadv2};
use semantics::{Coding, format_date};
use std::fs::File;
use std::io::IoSliceMut;
use std::sync::OnceLock;

/// Files of at most this length are kept in memory, in bytes.
pub(crate) const MEMORY_BYTES_MAX: u64 = 16 * 1024;

/// A file with the head of its response.
#[derive(Debug)]
pub struct Representation {
    head: ResponseHead,
    bytes: u64,
    coding: Option<Coding>,
    content: Content,
    identity: FileIdentity,
    is_settled: bool,
    serialised: OnceLock<Bytes>,
    /// The parts of [`Content::File`] that are known to be in memory.
    residency: Residency,
    /// Counts the descriptor of [`Content::File`].
    _slot: Option<OpenSlot>,
}

/// The circumstances in which a file was opened.
pub(crate) struct Seen<'a> {
    pub(crate) mode: Mode,
    pub(crate) wall: Timestamp,
    pub(crate) open_files: &'a OpenFiles,
}

/// Where the content is.
#[derive(Debug)]
pub enum Content {
    /// Here.
    Memory(Bytes),
    /// In this file, from its beginning. Others may read it at the same time, so reads must state
    /// their offset. A read may return less than the stated length: someone has truncated the file.
    File(File),
}

impl Representation {
    /// The head of a 200: `Content-Type`, `ETag`, `Last-Modified`, `Accept-Ranges`, and if needed
    /// `Content-Encoding` and `Vary`.
    pub const fn head(&self) -> &ResponseHead {
        &self.head
    }

    /// The length of the content in bytes.
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The content.
    pub const fn content(&self) -> &Content {
        &self.content
    }

    /// The head as bytes, which `make` makes once.
    pub fn serialised(&self, make: impl FnOnce(&ResponseHead) -> Bytes) -> &Bytes {
        self.serialised.get_or_init(|| make(&self.head))
    }

    pub(crate) const fn coding(&self) -> Option<Coding> {
        self.coding
    }

    /// Whether the open file still has the content with which it was opened. Other names, another
    /// mode and the removal of its name make no difference. Content in memory does not depend on
    /// it.
    pub fn has_same_content(&self) -> bool {
        match &self.content {
            Content::Memory(_) => true,
            Content::File(file) => match Kind::of(file) {
                Ok(Kind::Regular(now)) => self.identity.has_same_content(&now),
                Ok(Kind::Directory | Kind::Other) | Err(_) => false,
            },
        }
    }

    /// Whether the file still has the state in which it was opened. Content in memory does not
    /// depend on it.
    pub(crate) fn is_current(&self) -> bool {
        match &self.content {
            Content::Memory(_) => true,
            Content::File(file) => Kind::of(file) == Ok(Kind::Regular(self.identity)),
        }
    }

    /// Whether `bytes` bytes from `at` can be read without waiting for the disk. It is cheapest for
    /// a whole chunk of [`CHUNK_BYTES`](crate::CHUNK_BYTES).
    pub fn is_resident(&self, at: u64, bytes: u64, now: Monotonic) -> bool {
        match &self.content {
            Content::Memory(_) => true,
            Content::File(file) => self.residency.has(at, bytes, now, || is_in_memory(file, at, bytes)),
        }
    }

    /// Whether this representation also is the one of `file`.
    pub(crate) fn is_of(&self, file: &OpenedFile, coding: Option<Coding>, varies: bool) -> bool {
        self.is_settled
            && self.identity == file.identity
            && self.coding == coding
            && self.head.fields.has(names::VARY) == varies
    }

    /// Whether the content is in memory.
    pub(crate) const fn is_in_memory(&self) -> bool {
        matches!(self.content, Content::Memory(_))
    }

    /// The bytes in memory besides the head, and the number of descriptors.
    pub(crate) const fn cost(&self) -> (usize, usize) {
        match &self.content {
            Content::Memory(content) => (content.len(), 0),
            Content::File(_) => (self.residency.cost_bytes(), 1),
        }
    }

    /// The representation of a file that was just opened. `varies`: there are others, in other
    /// codings.
    pub(crate) fn of(
        file: OpenedFile,
        media_type: &Bytes,
        coding: Option<Coding>,
        varies: bool,
        seen: &Seen<'_>,
    ) -> Result<Self, Stop> {
        let OpenedFile { descriptor, identity } = file;
        let now = seen.wall;
        let (content, slot) = match content(&descriptor, &identity, seen.mode)? {
            Some(content) => (Content::Memory(content), None),
            None => {
                let slot = seen.open_files.take().ok_or(Stop::Failed(Errno::MFILE))?;
                (Content::File(descriptor.into()), Some(slot))
            }
        };
        let mut head = ResponseHead::new(Status::OK);
        let fields = &mut head.fields;
        fields.push(names::CONTENT_TYPE, media_type.clone());
        if let Some(coding) = coding {
            fields.push(names::CONTENT_ENCODING, coding.name());
        }
        if varies {
            fields.push(names::VARY, names::ACCEPT_ENCODING);
        }
        fields.push(names::ETAG, entity_tag(&identity, coding, now));
        // RFC 9110 section 8.8.2.1: never later than the time of the response.
        fields.push(names::LAST_MODIFIED, format_date(identity.modified.timestamp().min(now)));
        fields.push(names::ACCEPT_RANGES, "bytes");
        let is_settled = identity.is_settled(now);
        let serialised = OnceLock::new();
        let residency = Residency::of(if slot.is_some() { identity.bytes } else { 0 });
        Ok(Self {
            head,
            bytes: identity.bytes,
            coding,
            content,
            identity,
            is_settled,
            serialised,
            residency,
            _slot: slot,
        })
    }
}

/// The content of a small file; `None` if it is large, or changes while it is read.
fn content(descriptor: &OwnedFd, identity: &FileIdentity, mode: Mode) -> Result<Option<Bytes>, Stop> {
    if identity.bytes > MEMORY_BYTES_MAX {
        return Ok(None);
    }
    let mut content = BytesMut::zeroed(identity.bytes as usize);
    let mut read = 0;
    while let Some(rest) = content.get_mut(read..).filter(|rest| !rest.is_empty()) {
        match read_at(descriptor, rest, read as u64, mode) {
            Ok(0) => return Ok(None),
            Ok(count) => read += count,
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN | Errno::OPNOTSUPP) if mode == Mode::Cached => return Err(Stop::WouldWait),
            Err(error) => return Err(Stop::Failed(error)),
        }
    }
    let is_same = Kind::of(descriptor).map_err(Stop::Failed)? == Kind::Regular(*identity);
    Ok(is_same.then(|| content.freeze()))
}

fn read_at(descriptor: impl AsFd, into: &mut [u8], offset: u64, mode: Mode) -> Result<usize, Errno> {
    let flags = match mode {
        Mode::Cached => ReadWriteFlags::NOWAIT,
        Mode::Waiting => ReadWriteFlags::empty(),
    };
    preadv2(descriptor, &mut [IoSliceMut::new(into)], offset, flags)
}
