//! TOML files that people write (settings, profiles, ladders): the one reader for all of them.
//!
//! [`Reader`] has the text and collects its problems, and [`Keys`] reads one table key by key. A
//! [`Diagnostic`] shows a problem with file, line, column, a picture of the place, and the fix.
//!
//! Invariants:
//!
//! * A key that no code asked for is a problem (see [`Keys::finish`]), so a misspelt key is never
//!   ignored.
//! * A problem does not stop the reading, so that one run reports all of them. The value returned
//!   for a faulty key is only a placeholder.
//! * This crate opens no file. Its callers know the meaning of the values.

mod diagnostic;
mod keys;
mod nearest;
pub mod quantity;
mod reader;

pub use diagnostic::{Diagnostic, Place, Severity};
pub use keys::{Keys, Places, Scalar};
pub use nearest::nearest;
pub use reader::{NotUtf8, Reader, decimal, decode};
