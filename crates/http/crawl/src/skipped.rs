//! Links that were not visited, counted by their causes.
//!
//! Invariant: each URL counts once while there is room to remember it, and each cause keeps a few
//! examples, so that a report can say "not visited: add-to-cart link (12)".

use crate::link_rules::LinkRule;
use crate::scope::OutOfScope;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// URLs that are kept as examples of a cause.
const EXAMPLES_MAX: usize = 3;

/// Why a link is not visited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum SkipCause {
    /// robots.txt forbids it.
    Robots,
    /// The document or the link says `nofollow`.
    Nofollow,
    /// It leads to another scheme, host or port.
    Foreign,
    /// It is longer than [`crate::URL_BYTES_MAX`].
    TooLong,
    /// It is no http URL.
    Malformed,
    /// Its attributes say that it does more than show a page.
    Scripted,
    /// A rule of [`crate::RULES`] refuses it.
    Rule(LinkRule),
    /// Enough pages of its path were visited that differ in order or filters only.
    Sorted,
    /// Enough pages of its calendar were visited.
    Calendar,
    /// It is more links away from the start than the limit.
    Depth,
    /// The queue is full, and its part of the site has the most pages in it.
    QueueFull,
}

impl SkipCause {
    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Robots => "forbidden by robots.txt",
            Self::Nofollow => "nofollow link",
            Self::Foreign => "link to another site",
            Self::TooLong => "very long link",
            Self::Malformed => "link that is no http URL",
            Self::Scripted => "link that a script handles",
            Self::Rule(rule) => rule.row().name,
            Self::Sorted => "sorted or filtered list",
            Self::Calendar => "page of a calendar",
            Self::Depth => "page far from the start",
            Self::QueueFull => "page beyond the limit of the queue",
        }
    }

    /// Why such links are not visited: a sentence.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Robots => "The site asks robots not to request it.",
            Self::Nofollow => "The page asks robots not to follow the link.",
            Self::Foreign => "Only the given scheme, host and port are visited.",
            Self::TooLong => "Pages of a site have shorter URLs.",
            Self::Malformed => "It cannot be requested by HTTP.",
            Self::Scripted => {
                "A script sends it with another method, asks for confirmation, or stores a file."
            }
            Self::Rule(rule) => rule.row().reason,
            Self::Sorted => "Combinations of filters are endless, and show the same things in another order.",
            Self::Calendar => "A calendar has a page for each day, without an end.",
            Self::Depth => "Visitors rarely come there.",
            Self::QueueFull => "Other parts of the site would find no room in the queue.",
        }
    }
}

impl From<OutOfScope> for SkipCause {
    fn from(reason: OutOfScope) -> Self {
        match reason {
            OutOfScope::Foreign => Self::Foreign,
            OutOfScope::TooLong => Self::TooLong,
            OutOfScope::Malformed => Self::Malformed,
        }
    }
}

/// Links with one cause.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkipCount {
    /// Number of links.
    pub links: u64,
    /// The first few of them.
    pub examples: Vec<String>,
}

/// All links that were not visited.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Skipped(BTreeMap<SkipCause, SkipCount>);

impl Skipped {
    /// Counts a link.
    pub fn add(&mut self, cause: SkipCause, example: &str) {
        let count = self.0.entry(cause).or_default();
        count.links += 1;
        if count.examples.len() < EXAMPLES_MAX {
            count.examples.push(example.chars().take(crate::URL_BYTES_MAX).collect());
        }
    }

    /// The causes with their counts, the most frequent first.
    pub fn by_count(&self) -> Vec<(SkipCause, &SkipCount)> {
        let mut counts: Vec<_> = self.0.iter().map(|(cause, count)| (*cause, count)).collect();
        counts.sort_by_key(|(cause, count)| (std::cmp::Reverse(count.links), *cause));
        counts
    }

    /// Links with this cause.
    pub fn of(&self, cause: SkipCause) -> u64 {
        self.0.get(&cause).map_or(0, |count| count.links)
    }
}

impl FromIterator<(SkipCause, SkipCount)> for Skipped {
    fn from_iter<T: IntoIterator<Item = (SkipCause, SkipCount)>>(counts: T) -> Self {
        Self(counts.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::{SkipCause, Skipped};
    use crate::LinkRule;

    #[test]
    fn causes_are_counted_with_few_examples() {
        let mut skipped = Skipped::default();
        for number in 0..5 {
            skipped.add(SkipCause::Rule(LinkRule::Cart), &format!("/?add-to-cart={number}"));
        }
        skipped.add(SkipCause::Robots, "/a");
        let counts = skipped.by_count();
        assert_eq!(counts[0].0.name(), "add-to-cart link");
        assert_eq!((counts[0].1.links, counts[0].1.examples.len(), counts[1].1.links), (5, 3, 1));
        assert_eq!(skipped.of(SkipCause::Foreign), 0);
    }
}
