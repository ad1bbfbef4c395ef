//! The static tree: pages that any anonymous visitor may receive are also written as files. A web
//! server can then serve them while the edge and the origin are down.
//!
//! ```text
//!   offer (stored)  --> queue --> encode --> still valid? --> rename .gz, .br, page --> index
//!   withdraw (gone) ------------------------------------------------> remove page, .gz, .br
//!   hear, lose (purged) --> pages that may match: still valid? -------> remove
//! ```
//!
//! Invariants:
//!
//! - After [`Tree::lose`] has returned, the tree contains no page that an earlier invalidation of
//!   the store matches.
//! - Expired pages are removed while the process lives.
//! - No file is removed that the tree did not write.
//! - Serving waits for no file: [`Tree::offer`] and [`Tree::withdraw`] only change a queue.
//!
//! `semantics` decides whether a response may be shared. [`rules`] renders the configuration with
//! which a web server serves the tree.

mod candidate;
mod coding;
mod content;
mod files;
mod layout;
mod manifest;
mod page_index;
mod page_queue;
mod path;
mod refusal;
pub mod rules;
mod tree;

pub use candidate::Candidate;
pub use coding::Coding;
pub use files::DirectoryError;
pub use layout::Layout;
pub use refusal::TreeRefusal;
pub use tree::{Tree, TreeFigures, TreeLimits};
