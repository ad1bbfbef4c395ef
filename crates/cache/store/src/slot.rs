//! One variant in a shard: its place in the index and its object.
//!
//! Invariant: beside its object, a slot owns one allocation. It holds everything that distinguishes
//! the slot from others in its scope.

use crate::Object;
use crate::log::AdmittedObject;
use crate::octets::{length, put_short, take_short};
use crate::s3fifo::Hits;
use crate::scopes::MarkScope;
use crate::selector::{IndexedResponse, ResponseAttributes};
use crate::subject::{InvalidationSubject, TagIds};
use crate::weight::allocated;
use std::sync::Arc;

/// The number of no slot.
pub(crate) const NONE: u32 = u32::MAX;

/// The bytes that one slot costs: the slot itself, its node in the eviction order and its entry in
/// the index, including the space that these keep free.
pub(crate) const SLOT_BYTES: usize = 88;

// Every object pays for the size of a slot, so growth must be deliberate.
const _: () = assert!(size_of::<Option<Slot>>() == 56);

/// The most tags of an object. One with more tags is not stored.
pub(crate) const TAGS_MAX: usize = 4_096;

/// One variant.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) hash: u64,
    /// `None` while the object is on the disk only, or has been evicted from memory before its
    /// write has ended.
    pub(crate) object: Option<Arc<Object>>,
    /// The number of the write that brings it to the disk, or 0 if none is pending.
    pub(crate) writing: u32,
    /// The number of the last invalidation that the object was checked against.
    pub(crate) checked: u64,
    /// The lengths of the first two parts; then the numbers of the tags, the variant key and the
    /// target.
    text: Box<[u8]>,
    pub(crate) scope: u32,
    /// The next older slot whose key has the same hash.
    pub(crate) next: u32,
    /// The hits that the eviction order counts.
    pub(crate) hits: Hits,
    /// Whether a soft invalidation reached the object.
    pub(crate) softened: bool,
    /// Whether it must be validated before it is used. This is so for an object from the disk that
    /// an invalidation may have matched which was lost.
    pub(crate) unproven: bool,
    /// Whether it has `No-Vary-Search`.
    pub(crate) has_equivalents: bool,
}

impl Slot {
    /// A slot at the end of its chain, with the result of its admission.
    pub(crate) fn new(
        (hash, scope): (u64, u32),
        target: &[u8],
        variant: &[u8],
        object: Option<Arc<Object>>,
        admitted: &AdmittedObject,
    ) -> Self {
        let AdmittedObject { tags, checked, softened } = admitted;
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

    /// The variant key: the request's values of the fields that the scope's rule names.
    pub(crate) fn variant(&self) -> &[u8] {
        self.parts().1
    }

    pub(crate) fn target(&self) -> &[u8] {
        self.parts().2
    }

    /// The variant key and the target. Cheaper than both calls, because the text is split once.
    pub(crate) fn variant_and_target(&self) -> (&[u8], &[u8]) {
        let (_, variant, target) = self.parts();
        (variant, target)
    }

    /// The numbers of the tags, the variant key and the target.
    #[inline]
    #[expect(clippy::expect_used, reason = "the text comes from `text`, which `split` reverses")]
    fn parts(&self) -> (&[u8], &[u8], &[u8]) {
        // Without its tags an object would escape their invalidations.
        split(&self.text).expect("the text comes from `text`")
    }

    /// The object in the form that invalidations are checked against. `scope` must be its scope.
    /// `unknown` takes the place of an object on the disk only.
    pub(crate) fn subject<'a>(
        &'a self,
        scope: &'a MarkScope,
        unknown: &'a IndexedResponse,
    ) -> InvalidationSubject<'a> {
        let response: &dyn ResponseAttributes = match &self.object {
            Some(object) => &**object,
            None => unknown,
        };
        InvalidationSubject {
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

    /// The bytes of memory that it occupies beside the slot itself and the object.
    pub(crate) fn text_bytes(&self) -> usize {
        allocated(self.text.len())
    }

    /// The bytes of memory that the coded forms of its object occupy.
    pub(crate) fn form_bytes(&self) -> u64 {
        self.object.as_ref().map_or(0, |object| object.form_bytes() as u64)
    }

    /// The bytes of memory that it occupies beside the slot itself.
    pub(crate) fn bytes(&self) -> usize {
        self.text_bytes() + self.object.as_ref().map_or(0, |object| object.bytes())
    }
}

/// Joins the parts in one allocation of exactly their length.
fn text(tags: &[u8], variant: &[u8], target: &[u8]) -> Box<[u8]> {
    let mut lengths = Vec::with_capacity(LENGTHS_BYTES_MAX);
    put_short(&mut lengths, length(tags.len()));
    put_short(&mut lengths, length(variant.len()));
    [&lengths, tags, variant, target].concat().into_boxed_slice()
}

// Each look-up does this; as a call it costs 3% of the look-up.
#[inline(always)]
fn split(mut text: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let tags = take_short(&mut text)?;
    let variant = take_short(&mut text)?;
    let (tags, rest) = text.split_at_checked(tags as usize)?;
    let (variant, target) = rest.split_at_checked(variant as usize)?;
    Some((tags, variant, target))
}

/// Two 32-bit numbers with seven bits in each byte.
const LENGTHS_BYTES_MAX: usize = 10;
