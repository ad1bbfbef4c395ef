//! Loads configurations for the tests of plans.

use crate::{EdgePlan, Machine, Overrides};
use std::io;

/// The plan of a configuration, or its faults as text. `files` are the files that it can name, with
/// their contents.
pub(super) fn load(text: &str, files: &[(&str, &str)]) -> Result<EdgePlan, String> {
    let read = |path: &str| {
        let content =
            files.iter().find(|(known, _)| *known == path).map(|(_, content)| (*content).to_owned());
        content.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))
    };
    crate::load("petasos.toml", text, &Overrides::new(), &Machine::of_size(3, 4 << 30), &read)
        .map_err(|problems| problems.iter().map(|problem| format!("{problem}\n\n")).collect())
}
