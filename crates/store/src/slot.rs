//! One variant in a shard: where it belongs, and its object.
//!
//! Invariant: a slot owns one allocation beside its object, which has what tells it from others in its scope.

use crate::Object;
use crate::ledger::{Subject, TagIds};
use crate::log::Admitted;
use crate::scopes::Scope;
use crate::weight::allocated;
use std::sync::Arc;

/// No slot.
pub(crate) const NONE: u32 = u32::MAX;

/// What a place for a slot costs: the place, its node in the eviction order, its entry in the index, with the
/// room that these keep free.
pub(crate) const SLOT_BYTES: usize = 96;

/// An object with more tags is not stored.
pub(crate) const TAGS_MAX: usize = 4_096;

const TAG_ID_BYTES: usize = size_of::<u32>();

/// One variant.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) hash: u64,
    pub(crate) object: Arc<Object>,
    /// Up to which invalidation the object has been checked.
    pub(crate) checked: u64,
    /// Numbers of tags, variant key, target.
    text: Box<[u8]>,
    variant_bytes: u32,
    pub(crate) scope: u32,
    /// The next older slot whose key has the same hash.
    pub(crate) next: u32,
    tags: u16,
    /// Whether it was invalidated softly.
    pub(crate) softened: bool,
}

impl Slot {
    /// A slot that is the last of its chain, and has never been checked.
    pub(crate) fn new(hash: u64, scope: u32, target: &[u8], variant: &[u8], object: Arc<Object>) -> Self {
        let text = [variant, target].concat().into_boxed_slice();
        // A variant key is made of fields of one head.
        let variant_bytes = variant.len() as u32;
        Self { hash, object, checked: 0, text, variant_bytes, scope, next: NONE, tags: 0, softened: false }
    }

    /// The same slot with what it has been admitted with.
    pub(crate) fn admitted(self, admitted: &Admitted) -> Self {
        let Admitted { tags, checked, softened } = admitted;
        let text = if tags.is_empty() { self.text } else { [tags, &*self.text].concat().into_boxed_slice() };
        let tags = (tags.len() / TAG_ID_BYTES) as u16;
        Self { text, tags, checked: *checked, softened: *softened, ..self }
    }

    pub(crate) fn tags(&self) -> TagIds<'_> {
        TagIds(self.text.get(..self.tags_bytes()).unwrap_or_default())
    }

    /// What the request said in the fields that the scope's rule names.
    pub(crate) fn variant(&self) -> &[u8] {
        self.text.get(self.tags_bytes()..self.target_at()).unwrap_or_default()
    }

    pub(crate) fn target(&self) -> &[u8] {
        self.text.get(self.target_at()..).unwrap_or_default()
    }

    /// The object as invalidations see it; `scope` is its scope.
    pub(crate) fn subject<'a>(&'a self, scope: &'a Scope) -> Subject<'a> {
        Subject {
            site: scope.site,
            https: scope.https,
            host: scope.host(),
            target: self.target(),
            hash: self.hash,
            tags: self.tags(),
            response: &*self.object,
        }
    }

    fn tags_bytes(&self) -> usize {
        usize::from(self.tags) * TAG_ID_BYTES
    }

    fn target_at(&self) -> usize {
        self.tags_bytes() + self.variant_bytes as usize
    }

    /// The octets of memory it occupies beside its place.
    pub(crate) fn bytes(&self) -> usize {
        allocated(self.text.len()) + self.object.bytes()
    }
}
