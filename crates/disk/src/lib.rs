//! The disk tier: opaque records in segment files that are written one after the other and survive the process.
//!
//! Invariant: what is given back is what was written, octet for octet, or an error; and whatever was removed or
//! invalidated before the durable number stays so. It knows no HTTP and no keys: the store above keeps the index.

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
mod piece;
mod queue;
mod record;
mod recovery;
mod segment;
mod settings;
mod shared;
mod status;
mod stored;
mod tier;
mod watch;
mod watched_disk;
mod witness;
mod writer;

pub use error::{OffReason, OpenError, ReadError};
pub use fill::{Fill, FillView};
pub use foreign::foreign;
pub use opening::{Opened, open};
pub use record::{
    Figures, HEAD_BYTES_MAX, INDEX_BYTES_MAX, INVALIDATION_BYTES_MAX, Keeper, Location, Progress, Record,
    Recovered,
};
pub use recovery::Recovery;
pub use settings::{Durability, Settings};
pub use stored::{DiskBody, FileRange, Stored};
pub use tier::Tier;
pub use watch::Stuck;
pub use witness::{DistrustPlace, distrust};
pub use writer::Writer;
