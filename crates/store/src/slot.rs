//! One variant in a shard: where it belongs, and its object.
//!
//! Invariant: a slot owns one allocation beside its object, which has what tells it from others in its scope.

use crate::Object;
use crate::invalidation::{Response, Unknown};
use crate::ledger::{Subject, TagIds};
use crate::log::Admitted;
use crate::octets::{length, put_short, take_short};
use crate::s3fifo::Hits;
use crate::scopes::Scope;
use crate::weight::allocated;
use std::sync::Arc;

/// No slot.
pub(crate) const NONE: u32 = u32::MAX;

/// What a place for a slot costs: the place, its node in the eviction order, its entry in the index, with the
/// room that these keep free.
pub(crate) const SLOT_BYTES: usize = 88;

// Slots stand side by side in one list: what is added to one is paid for every object.
const _: () = assert!(size_of::<Option<Slot>>() == 56);

/// An object with more tags is not stored.
pub(crate) const TAGS_MAX: usize = 4_096;

/// One variant.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) hash: u64,
    /// `None` while it is on the disk only, or on its way there.
    pub(crate) object: Option<Arc<Object>>,
    /// The number of the write that takes it to the disk; 0 when none is under way.
    pub(crate) writing: u32,
    /// Up to which invalidation the object has been checked.
    pub(crate) checked: u64,
    /// How long the parts are; numbers of tags, variant key, target.
    text: Box<[u8]>,
    pub(crate) scope: u32,
    /// The next older slot whose key has the same hash.
    pub(crate) next: u32,
    /// How often the object was looked up, as the eviction order counts.
    pub(crate) hits: Hits,
    /// Whether it was invalidated softly.
    pub(crate) softened: bool,
    /// Whether it must be validated before it is used: it came from the disk, and whether it was invalidated is not
    /// known for sure.
    pub(crate) unproven: bool,
    /// Whether it has `No-Vary-Search`.
    pub(crate) has_equivalents: bool,
}

impl Slot {
    /// A slot that is the last of its chain, with what it has been admitted with.
    pub(crate) fn new(
        (hash, scope): (u64, u32),
        target: &[u8],
        variant: &[u8],
        object: Option<Arc<Object>>,
        admitted: &Admitted,
    ) -> Self {
        let Admitted { tags, checked, softened } = admitted;
        Self {
            hash,
            object,
            writing: 0,
            checked: *checked,
            text: text(tags, variant, target),
            scope,
            next: NONE,
            hits: Hits::default(),
            softened: *softened,
            unproven: false,
            has_equivalents: false,
        }
    }

    pub(crate) fn tags(&self) -> TagIds<'_> {
        TagIds(self.parts().0)
    }

    /// What the request said in the fields that the scope's rule names.
    pub(crate) fn variant(&self) -> &[u8] {
        self.parts().1
    }

    pub(crate) fn target(&self) -> &[u8] {
        self.parts().2
    }

    /// The numbers of tags, the variant key, the target.
    fn parts(&self) -> (&[u8], &[u8], &[u8]) {
        split(&self.text).unwrap_or_default()
    }

    /// The object as invalidations see it; `scope` is its scope, and `unknown` stands in for what is on the disk.
    pub(crate) fn subject<'a>(&'a self, scope: &'a Scope, unknown: &'a Unknown) -> Subject<'a> {
        let response: &dyn Response = match &self.object {
            Some(object) => &**object,
            None => unknown,
        };
        Subject {
            site: scope.site,
            https: scope.https,
            host: scope.host(),
            target: self.target(),
            hash: self.hash,
            tags: self.tags(),
            has_equivalents: self.has_equivalents,
            response,
        }
    }

    /// The octets of memory it occupies beside its place and its object.
    pub(crate) fn text_bytes(&self) -> usize {
        allocated(self.text.len())
    }

    /// The octets of memory it occupies beside its place.
    pub(crate) fn bytes(&self) -> usize {
        self.text_bytes() + self.object.as_ref().map_or(0, |object| object.bytes())
    }
}

/// The parts in one allocation that is exactly as long as they are.
fn text(tags: &[u8], variant: &[u8], target: &[u8]) -> Box<[u8]> {
    let mut lengths = Vec::with_capacity(LENGTHS_BYTES_MAX);
    put_short(&mut lengths, length(tags.len()));
    put_short(&mut lengths, length(variant.len()));
    [&lengths, tags, variant, target].concat().into_boxed_slice()
}

fn split(mut text: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let (tags, variant) = (take_short(&mut text)?, take_short(&mut text)?);
    let (tags, rest) = text.split_at_checked(tags as usize)?;
    let (variant, target) = rest.split_at_checked(variant as usize)?;
    Some((tags, variant, target))
}

/// Two numbers of 32 bits, seven bits to an octet.
const LENGTHS_BYTES_MAX: usize = 10;
