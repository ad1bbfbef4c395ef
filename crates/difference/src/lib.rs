//! Where two contents of one page differ, and what the differing parts look like: a token, a time, a name, a number.
//!
//! Invariant: pure, and bounded in work and in what it gives back, whatever the contents are. What something looks
//! like is a guess from the text itself and what stands around it; nothing may depend on it but words for people.

mod compare;
mod nature;
mod snippet;

pub use compare::{Difference, SPOTS_MAX, Spot, compare};
pub use nature::{Nature, nature};
pub use snippet::{Snippet, TEXT_CHARS_MAX, snippet, text_of};
