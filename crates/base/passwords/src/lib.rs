//! Password files as Apache's `htpasswd` writes them, and the credentials of basic authentication
//! (RFC 7617).
//!
//! ```text
//!   file -> PasswordFile::parse -> PasswordFile     (at the start, complete or not at all)
//!   Authorization -> Credentials::read -> PasswordFile::admits     (slow on purpose)
//! ```
//!
//! Invariants: nothing here prints a hash or a password. The time of a check does not tell whether
//! the user exists.

mod credentials;
mod file;
mod hash;

pub use credentials::Credentials;
pub use file::{BadLine, LineError, PasswordFile};
pub use hash::HashError;
