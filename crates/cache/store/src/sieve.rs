//! A prefilter for bans: the needs of several bans, compiled into one automaton for each part of a
//! response.
//!
//! Invariant: a ban that the sieve rejects does not match the response. A ban that passes may still
//! not match and must be evaluated.

use crate::selector::StoredView;
use crate::subject::InvalidationSubject;
use crate::tags::Tags;
use invalidation::{Haystack, Need, ResponseView};
use regex::bytes::{RegexSet, RegexSetBuilder};
use semantics::canonical_target;
use std::cell::OnceCell;

/// The most bans of a sieve. Each has one bit.
pub(crate) const BANS_MAX: usize = u64::BITS as usize;

/// Limits in bytes for one automaton: its compiled form, and its cache for each thread that
/// searches. The bans of an automaton that exceeds the first limit always pass.
const COMPILED_BYTES_MAX: usize = 2 << 20;
const SEARCH_BYTES_MAX: usize = 256 << 10;

/// The nesting limit of one expression. It is the same when several are compiled together.
const NESTING_MAX: u32 = 64;

/// A sieve. Bans are identified by their index in the slice that the sieve was made from.
#[derive(Debug)]
pub(crate) struct Sieve {
    meshes: Vec<NeedGroup>,
    /// The bans that always pass, as bits.
    passes: u64,
}

/// The needs that search the same part of a response.
#[derive(Debug)]
struct NeedGroup {
    haystack: Haystack,
    set: RegexSet,
    /// The ban of each expression in the set.
    bans: Vec<u32>,
    all: u64,
}

/// A response that sieves search. The searchable forms of its tags are built on first use.
pub(crate) struct SearchedResponse<'a> {
    subject: InvalidationSubject<'a>,
    stored: StoredView<'a>,
    tags: OnceCell<Vec<Box<[u8]>>>,
}

impl Sieve {
    /// A sieve of at most [`BANS_MAX`] needs.
    pub(crate) fn of(needs: &[Need]) -> Self {
        let mut sieve = Self { meshes: Vec::new(), passes: 0 };
        let mut left: Vec<(u32, &Need)> = (0..).zip(needs.iter().take(BANS_MAX)).collect();
        while let Some((_, Need { haystack, .. })) = left.first() {
            let haystack = haystack.clone();
            let (these, others) = left.into_iter().partition(|(_, need)| need.haystack == haystack);
            left = others;
            sieve.add(haystack, &these);
        }
        sieve
    }

    fn add(&mut self, haystack: Haystack, needs: &[(u32, &Need)]) {
        let bans: Vec<u32> = needs.iter().map(|(ban, _)| *ban).collect();
        let all = bans.iter().fold(0, |bits, ban| bits | 1 << ban);
        let set = RegexSetBuilder::new(needs.iter().map(|(_, need)| &need.pattern))
            .unicode(false)
            .size_limit(COMPILED_BYTES_MAX)
            .dfa_size_limit(SEARCH_BYTES_MAX)
            .nest_limit(NESTING_MAX)
            .build();
        match set {
            Ok(set) => self.meshes.push(NeedGroup { haystack, set, bans, all }),
            Err(_) => self.passes |= all,
        }
    }

    /// The bans that may match a response, as bits.
    pub(crate) fn passing(&self, searched: &SearchedResponse<'_>) -> u64 {
        self.meshes.iter().fold(self.passes, |bits, mesh| bits | mesh.passing(searched))
    }

    /// The number of searches that one response takes.
    pub(crate) const fn searches(&self) -> usize {
        self.meshes.len()
    }
}

impl NeedGroup {
    fn passing(&self, searched: &SearchedResponse<'_>) -> u64 {
        let is_unknown = matches!(self.haystack, Haystack::Field(_)) && !searched.stored.response.is_known();
        let may_be_another = self.haystack == Haystack::Target && searched.subject.has_equivalents;
        if is_unknown || may_be_another {
            return self.all;
        }
        match &self.haystack {
            Haystack::Target => {
                // A ban applies to all percent-encodings of a target.
                let target = searched.stored.target;
                let canonical = canonical_target(target);
                self.found(target) | if *canonical == *target { 0 } else { self.found(&canonical) }
            }
            Haystack::Field(name) => {
                let values = searched.stored.response.values(name);
                values.into_iter().fold(0, |bits, value| bits | self.found(value))
            }
            Haystack::Tags => searched.tags().iter().fold(0, |bits, value| bits | self.found(value)),
        }
    }

    /// The bans whose expressions match a text, as bits.
    fn found(&self, text: &[u8]) -> u64 {
        // Most texts match nothing. `is_match` finds that out faster than `matches`.
        if !self.set.is_match(text) {
            return 0;
        }
        let bans = self.set.matches(text).into_iter().map(|found| self.ban(found));
        bans.fold(0, |bits, ban| bits | 1 << ban)
    }

    /// The ban of an expression.
    #[expect(clippy::expect_used, reason = "the set was built from as many expressions as bans")]
    fn ban(&self, expression: usize) -> u32 {
        *self.bans.get(expression).expect("each expression has a ban")
    }
}

impl<'a> SearchedResponse<'a> {
    /// A response to search. `known` holds the tags that its tag numbers refer to.
    pub(crate) const fn new(subject: InvalidationSubject<'a>, known: &'a Tags) -> Self {
        let InvalidationSubject { host, target, response, tags, .. } = subject;
        Self { subject, stored: StoredView { host, target, response, tags, known }, tags: OnceCell::new() }
    }

    pub(crate) const fn subject(&self) -> &InvalidationSubject<'a> {
        &self.subject
    }

    pub(crate) const fn stored(&self) -> &StoredView<'a> {
        &self.stored
    }

    fn tags(&self) -> &[Box<[u8]>] {
        self.tags.get_or_init(|| {
            let mut tags = self.stored.tags();
            tags.sort_unstable();
            let joined = (tags.len() > 1).then(|| tags.join(&b","[..]).into_boxed_slice());
            tags.into_iter().map(Box::from).chain(joined).collect()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{SearchedResponse, Sieve};
    use crate::SiteId;
    use crate::hash::TextHasher;
    use crate::selector::IndexedResponse;
    use crate::subject::{InvalidationSubject, TagIds};
    use crate::tags::Tags;
    use bytes::Bytes;
    use invalidation::{Haystack, Need};
    use message::{ResponseHead, Status};

    fn need(haystack: Haystack, pattern: &str) -> Need {
        Need { haystack, pattern: pattern.to_owned() }
    }

    fn needs() -> Vec<Need> {
        let field = || Haystack::Field(Bytes::from_static(b"color"));
        vec![
            need(Haystack::Target, "^/news"),
            need(field(), "red"),
            need(Haystack::Target, "(?i)NEWS/1"),
            need(Haystack::Tags, "^a,b$"),
            need(Haystack::Target, "(a{900}){900}"),
            need(field(), "blue"),
        ]
    }

    #[test]
    fn only_bans_whose_need_is_found_pass() {
        let mut known = Tags::new(TextHasher::new(1));
        let ids: Vec<u8> =
            ["b", "a"].iter().flat_map(|tag| known.intern(SiteId(0), tag.as_bytes()).to_le_bytes()).collect();
        let mut head = ResponseHead::new(Status::OK);
        head.fields.push("Color", "red");
        let subject = |response| InvalidationSubject {
            site: SiteId(0),
            https: false,
            host: b"a.test",
            target: b"/news/1",
            hash: 0,
            tags: TagIds(&ids),
            has_equivalents: false,
            response,
        };
        let mut needs = needs();
        let all = Sieve::of(&needs);
        let of = |sieve: &Sieve, subject| sieve.passing(&SearchedResponse::new(subject, &known));
        assert_eq!(of(&all, subject(&head)), 0b01_1111, "a set that is too large rejects no ban");
        needs.remove(4);
        let sieve = Sieve::of(&needs);
        assert_eq!(of(&sieve, subject(&head)), 0b0_1111);
        let unknown = IndexedResponse::new(false);
        assert_eq!(of(&sieve, subject(&unknown)), 0b1_1111, "unknown fields reject no ban");
        let elsewhere = InvalidationSubject { target: b"/old", ..subject(&head) };
        assert_eq!(of(&sieve, elsewhere), 0b0_1010);
        let equivalent = InvalidationSubject { has_equivalents: true, ..elsewhere };
        assert_eq!(of(&sieve, equivalent), 0b0_1111, "the target may be another");
        let sieve = Sieve::of(&[need(Haystack::Target, "^/caf%C3%A9$")]);
        let spelled = InvalidationSubject { target: b"/caf%c3%a9", ..elsewhere };
        assert_eq!(of(&sieve, spelled), 1, "another spelling of the same target");
    }
}
