//! Excerpts of clients' texts in messages.

/// Longest excerpt of a client's text that a message repeats, in bytes.
const EXCERPT_BYTES_MAX: usize = 40;

/// The beginning of a text, escaped and in quotes.
pub(crate) fn excerpt(text: &[u8]) -> String {
    match text.get(..EXCERPT_BYTES_MAX) {
        Some(beginning) => format!("`{}...`", beginning.escape_ascii()),
        None => format!("`{}`", text.escape_ascii()),
    }
}
