//! Files of a directory as responses: which file answers a request, its representation with type,
//! validators and content coding, and a table of open files.
//!
//! Invariant: no request opens a file outside of the directory, nor one that the request names by a
//! hidden segment or a refused name. The first is the kernel's promise (openat2 with
//! `RESOLVE_BENEATH`), and holds while others rename directories; the second is a rule of the path
//! ([`PathRefusal`]). Only regular files are opened for reading. A look-up never waits for a disk:
//! it returns [`Outcome::Cold`] instead.
//!
//! A caller ([`StaticFiles::find`] says more) evaluates conditions and ranges, sends the content,
//! and closes the connection abruptly if a file turns out to be shorter than it was. This crate
//! sends nothing and knows neither hosts nor routes.

mod directory;
mod entity_tag;
mod identity;
mod location;
mod media_type;
mod open_files;
mod opening;
mod representation;
mod request_path;
mod residency;
mod rules;
mod search;
mod static_files;
mod table;

pub use open_files::OpenFiles;
pub use opening::{NotFoundReason, SearchFailure};
pub use representation::{Content, Representation};
pub use request_path::PathRefusal;
pub use residency::CHUNK_BYTES;
pub use rules::{Fallback, FileRules, FileSettings, RuleFault};
pub use static_files::{CacheLimits, ColdSearch, Outcome, StaticFiles};
