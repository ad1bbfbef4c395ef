//! The targets by which visitors may get one stored page, as its `No-Vary-Search` says.
//!
//! Invariant: where it cannot be told whether a target among them is meant, it is: a page is fetched again without need
//! rather than served after a purge. All of them have the path of the stored target; their query strings are without
//! number.

use crate::pattern::Pattern;
use bytes::Bytes;
use message::{Fields, names};
use semantics::{NoVarySearch, canonical_target};

/// The targets that are equivalent to a stored one.
pub(crate) struct Equivalents<'a> {
    rule: NoVarySearch,
    target: &'a [u8],
}

impl<'a> Equivalents<'a> {
    /// Of a response with these lines of `No-Vary-Search` that is stored under `target`; `None` if there are none.
    pub(crate) fn of(lines: &[&[u8]], target: &'a [u8]) -> Option<Self> {
        if lines.is_empty() {
            return None;
        }
        let mut fields = Fields::new();
        for line in lines {
            fields.push(names::NO_VARY_SEARCH, Bytes::copy_from_slice(line));
        }
        NoVarySearch::of(&fields).map(|rule| Self { rule, target })
    }

    /// Whether `target`, in any percent-encoding, is one of them.
    pub(crate) fn contain(&self, target: &[u8]) -> bool {
        self.rule.canonical_spelling(target) == self.rule.canonical_spelling(self.target)
    }

    /// Whether the pattern may find something in one of them: in the path alone, or in the path with some query, by
    /// the stored spelling of the path or the canonical one.
    pub(crate) fn may_meet(&self, pattern: &Pattern) -> bool {
        let path = self.target.split(|&octet| octet == b'?').next().unwrap_or_default();
        let meets = |path: &[u8]| pattern.is_match(path) || pattern.may_match_after(&[path, b"?"].concat());
        let canonical = canonical_target(path);
        meets(path) || *canonical != *path && meets(&canonical)
    }
}
