//! Compares two contents of one page, and guesses the nature of the differing parts: a token, a
//! time, a name, a number.
//!
//! Invariant: all functions are pure, and their work and results are bounded for all contents. The
//! nature is a guess from the text and its surroundings. Use it only in texts for people.

mod compare;
mod nature;
mod snippet;

pub use compare::{Difference, SPOTS_MAX, Spot, compare};
pub use nature::{Nature, nature};
pub use snippet::{Snippet, TEXT_CHARS_MAX, is_hidden, snippet, text_of};
