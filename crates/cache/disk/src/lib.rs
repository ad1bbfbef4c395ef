//! The disk tier: opaque records in segment files, which are only appended to and survive the
//! process.
//!
//! Invariant: a read returns exactly the bytes that were written, or an error. A record that was
//! removed, or that a durable invalidation applies to, is not used again after a restart. The tier
//! knows neither HTTP nor cache keys: the store above it keeps the index.
//!
//! Terms:
//!
//! - A *record* (or object) consists of an index entry, a head and a body. The tier interprets none
//!   of them. The store uses the index entry to find the record again after a restart.
//! - A *segment* is a file of records with an index file beside it. Whole segments are evicted, the
//!   oldest first.
//! - A *fill* is a body written while it is still being received.
//! - A *life* is the time in which one process has the directory open. Lives are numbered.
//! - A record is *proven* if no invalidation can have been lost that would apply to it. An unproven
//!   record must be validated before it is used.
//! - The *mark* is a file that says whether the directory's contents may be used. *Witnesses* are
//!   files outside of the directory that must agree with it.

mod error;
mod figures;
mod fill;
mod fill_share;
mod fill_shared;
mod foreign;
mod frame;
mod index_file;
mod journal;
mod journal_file;
mod mark;
mod names;
mod open_segment;
mod opening;
mod operation_watch;
mod piece;
mod queue;
mod record;
mod recovery;
mod segment;
mod settings;
mod status;
mod stored;
mod tier;
mod tier_state;
mod watched_disk;
mod witness;
mod writer;

pub use error::{OffReason, OpenError, ReadError};
pub use fill::{Fill, FillView};
pub use foreign::{ForeignEntry, foreign};
pub use opening::{OpenedTier, open};
pub use operation_watch::StuckOperation;
pub use record::{
    HEAD_BYTES_MAX, INDEX_BYTES_MAX, INVALIDATION_BYTES_MAX, Location, Record, RecoveredObject,
    RetentionPolicy, TierFigures, WriterProgress,
};
pub use recovery::Recovery;
pub use settings::{Durability, TierSettings};
pub use stored::{DiskBody, FileRange, StoredObject};
pub use tier::Tier;
pub use witness::{DistrustPlace, distrust};
pub use writer::DiskWriter;
