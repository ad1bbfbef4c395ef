//! The static tree: pages that any anonymous visitor may get, also written as files, so that a web server serves them
//! by itself while the edge and the application are down.
//!
//! ```text
//!   offer (stored)  --> queue --> encode --> still valid? --> rename .gz, .br, page --> index
//!   withdraw (gone) ------------------------------------------------> remove page, .gz, .br
//!   hear, lose (purged) --> pages that it may mean: still valid? ----> remove
//! ```
//!
//! Invariant: after [`Tree::lose`] has returned, the tree has nothing that an invalidation of the store means which
//! came before; what expires goes, too, while the process lives. Nothing is removed that the tree did not write.
//! Serving waits for nothing here: [`Tree::offer`] and [`Tree::withdraw`] touch no file. Whether a response may be
//! shared is decided in `semantics`; which server serves the tree, by which rules, is [`rules`].

mod candidate;
mod coding;
mod content;
mod desk;
mod files;
mod layout;
mod manifest;
mod path;
mod refusal;
pub mod rules;
mod tree;
mod written;

pub use candidate::Candidate;
pub use coding::Coding;
pub use files::OpenError;
pub use layout::Layout;
pub use refusal::Refusal;
pub use tree::{Figures, Limits, Tree};
