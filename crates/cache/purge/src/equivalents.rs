//! The targets under which visitors may receive one stored page, according to its `No-Vary-Search`.
//!
//! Invariant: if it cannot be decided whether a purge means one of these targets, it does. A page
//! that is fetched again needlessly is better than one served after its purge. All of them have the
//! path of the stored target, with any of an unlimited number of query strings.

use crate::pattern::BanPattern;
use bytes::Bytes;
use message::{Fields, names};
use semantics::{NoVarySearch, canonical_target};

/// The targets equivalent to a stored one.
pub(crate) struct EquivalentTargets<'a> {
    rule: NoVarySearch,
    target: &'a [u8],
}

impl<'a> EquivalentTargets<'a> {
    /// The equivalents of `target` for a stored response with these `No-Vary-Search` lines. `None`
    /// without lines, or if they give no rule.
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

    /// Whether the pattern could match one of them: the path alone, or the path with any query.
    /// Both the stored spelling of the path and the canonical one are tried.
    pub(crate) fn may_meet(&self, pattern: &BanPattern) -> bool {
        let path = self.target.split(|&octet| octet == b'?').next().unwrap_or_default();
        let meets = |path: &[u8]| pattern.is_match(path) || pattern.may_match_after(&[path, b"?"].concat());
        let canonical = canonical_target(path);
        meets(path) || *canonical != *path && meets(&canonical)
    }
}
