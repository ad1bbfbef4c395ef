//! Names that may occur only once.

use crate::ladder::is_id;
use document::Keys;
use std::collections::BTreeSet;
use toml::Spanned;

/// Names of one kind, each of which may occur only once.
pub(crate) struct Unique {
    kind: &'static str,
    seen: BTreeSet<String>,
}

impl Unique {
    pub(crate) fn new(kind: &'static str) -> Self {
        Self { kind, seen: BTreeSet::new() }
    }

    /// Reports a name that is invalid or was used before. An empty name is skipped because it has
    /// already been reported.
    pub(crate) fn check(&mut self, keys: &Keys<'_, '_>, name: &Spanned<String>) {
        let (kind, text) = (self.kind, name.get_ref());
        if text.is_empty() {
            return;
        }
        if !is_id(text) {
            let help = "use letters, digits, `-` and `_`";
            keys.reader.problem(name.span(), format!("`{text}` cannot name a {kind}"), help);
        } else if !self.seen.insert(text.clone()) {
            let message = format!("another {kind} has the name `{text}`");
            keys.reader.problem(name.span(), message, "use a different name");
        }
    }
}
