//! Values of each minute of the last 30 days: their file, views of them with the usual range of an
//! hour, and a summary of a week.
//!
//! Invariants: the file has a fixed size, and a record depends on no other record. A damaged record
//! therefore costs its own minute and nothing else.
//!
//! This crate computes from bytes and minutes. `edge` samples the values, reads and writes the
//! file.

mod figure;
mod file;
mod row;
mod summary;
mod usual;
mod view;

pub use figure::Figure;
pub use file::{FILE_BYTES, ForeignFile, HEADER_BYTES, header, offset_of, read, updated};
pub use row::{RECORD_BYTES, Row};
pub use summary::{SummaryFacts, WeekFigures, WorstMiss, iso_week, summary};
pub use view::{Table, VALUES_MAX};

/// Number of minutes that the file holds: 30 days.
pub const MINUTES: u64 = 30 * MINUTES_OF_DAY;

/// Minutes of a day.
pub const MINUTES_OF_DAY: u64 = 24 * 60;
