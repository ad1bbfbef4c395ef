//! The configuration files of `examples/`, and the changes that a test makes to one.
//!
//! Invariant: a test changes a file only by the listed replacements. Each of them must match, so a
//! changed example cannot silently escape its test.

use std::path::PathBuf;

/// The directory with all examples.
pub(crate) fn examples() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples"))
}

/// The file of an example with the replacements made in their order: each text, and the text in its
/// place.
///
/// # Panics
/// If a text does not occur.
pub(crate) fn replaced(example: &str, replacements: &[(&str, &str)]) -> String {
    let file = examples().join(example).join("petasos.toml");
    let text = std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    replacements.iter().fold(text, |text, (from, to)| {
        assert!(text.contains(from), "{} has no {from}: change the test's replacements", file.display());
        text.replace(from, to)
    })
}
