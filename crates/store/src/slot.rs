//! One variant in a shard: where it belongs, and its object.
//!
//! Invariant: a slot owns one allocation beside its object, which has what tells it from others in its scope.

use crate::Object;
use crate::weight::allocated;
use std::sync::Arc;

/// No slot.
pub(crate) const NONE: u32 = u32::MAX;

/// What a place for a slot costs: the place, its node in the eviction order, its entry in the index, with the
/// room that these keep free.
pub(crate) const SLOT_BYTES: usize = 96;

/// One variant.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) hash: u64,
    pub(crate) object: Arc<Object>,
    /// Variant key, then target.
    text: Box<[u8]>,
    variant_bytes: u32,
    pub(crate) scope: u32,
    /// The next older slot whose key has the same hash.
    pub(crate) next: u32,
}

impl Slot {
    /// A slot that is the last of its chain.
    pub(crate) fn new(hash: u64, scope: u32, target: &[u8], variant: &[u8], object: Arc<Object>) -> Self {
        let mut text = Vec::with_capacity(variant.len() + target.len());
        text.extend_from_slice(variant);
        text.extend_from_slice(target);
        // A variant key is made of fields of one head.
        let variant_bytes = variant.len() as u32;
        Self { hash, object, text: text.into_boxed_slice(), variant_bytes, scope, next: NONE }
    }

    /// What the request said in the fields that the scope's rule names.
    pub(crate) fn variant(&self) -> &[u8] {
        self.text.get(..self.variant_bytes as usize).unwrap_or_default()
    }

    pub(crate) fn target(&self) -> &[u8] {
        self.text.get(self.variant_bytes as usize..).unwrap_or_default()
    }

    /// The octets of memory it occupies beside its place.
    pub(crate) fn bytes(&self) -> usize {
        allocated(self.text.len()) + self.object.bytes()
    }
}
