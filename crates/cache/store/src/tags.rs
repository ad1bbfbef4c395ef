//! The tags of stored objects. Each tag is kept once. It has a number that objects refer to, and a
//! mark of its last invalidation.
//!
//! Invariant: a tag exists exactly while an object has it or something else holds it. Its number
//! may then be reused. `live` counts the objects with the tag that were stored, or checked, after
//! its last hard invalidation.

use crate::SiteId;
use crate::growth::push_by_eighths;
use crate::hash::TextHasher;
use crate::mark::InvalidationMark;
use crate::weight::allocated;
use hashbrown::HashTable;
use invalidation::Mode;

/// All tags.
#[derive(Debug)]
pub(crate) struct Tags {
    entries: Vec<Option<Tag>>,
    ids: HashTable<u32>,
    free: Vec<u32>,
    hasher: TextHasher,
    text_bytes: usize,
}

/// The bytes that a tag costs beside its text: its entry and its places in the table and the list
/// of free numbers, including the space that these keep free.
const TAG_BYTES: usize = 96;

#[derive(Debug)]
struct Tag {
    hash: u64,
    text: Box<[u8]>,
    site: SiteId,
    /// The number of objects that have the tag.
    members: u32,
    live: u32,
    /// The number of other holders: a set mark, listed invalidations and objects being admitted.
    holds: u32,
    mark: InvalidationMark,
}

impl Tags {
    pub(crate) fn new(hasher: TextHasher) -> Self {
        Self { entries: Vec::new(), ids: HashTable::new(), free: Vec::new(), hasher, text_bytes: 0 }
    }

    /// The number of a tag, or `None` if it does not exist.
    pub(crate) fn find(&self, site: SiteId, text: &[u8]) -> Option<u32> {
        let hash = self.hasher.hash(site, text);
        let is_same = |id: &u32| {
            let tag = entry(&self.entries, *id);
            tag.hash == hash && tag.site == site && *tag.text == *text
        };
        self.ids.find(hash, is_same).copied()
    }

    /// The number of a tag, which is created if it does not exist. The caller must join or hold it,
    /// or it is never removed.
    pub(crate) fn intern(&mut self, site: SiteId, text: &[u8]) -> u32 {
        if let Some(id) = self.find(site, text) {
            return id;
        }
        let hash = self.hasher.hash(site, text);
        let tag = Tag {
            hash,
            text: text.into(),
            site,
            members: 0,
            live: 0,
            holds: 0,
            mark: InvalidationMark::default(),
        };
        self.text_bytes += allocated(text.len());
        let id = self.free.pop().unwrap_or_else(|| {
            push_by_eighths(&mut self.entries, None);
            // 32 bits suffice: each entry costs far more than a byte, so fewer than 2^32 fit into
            // memory.
            (self.entries.len() - 1) as u32
        });
        let before = self.entries.get_mut(id as usize).and_then(|place| place.replace(tag));
        assert!(before.is_none(), "a free number has no tag");
        let entries = &self.entries;
        self.ids.insert_unique(hash, id, |id| entry(entries, *id).hash);
        id
    }

    pub(crate) fn text(&self, id: u32) -> &[u8] {
        &entry(&self.entries, id).text
    }

    pub(crate) fn mark(&self, id: u32) -> InvalidationMark {
        entry(&self.entries, id).mark
    }

    /// Adds an object to the tag. The object is known to be valid up to `checked`.
    pub(crate) fn join(&mut self, id: u32, checked: u64) {
        let tag = entry_mut(&mut self.entries, id);
        tag.members += 1;
        tag.live += u32::from(checked >= tag.mark.hard());
    }

    /// Removes an object from the tag. The object was known to be valid up to `checked`.
    pub(crate) fn leave(&mut self, id: u32, checked: u64) {
        let tag = entry_mut(&mut self.entries, id);
        tag.members -= 1;
        tag.live -= u32::from(checked >= tag.mark.hard());
        self.drop_unused(id);
    }

    pub(crate) fn hold(&mut self, id: u32) {
        entry_mut(&mut self.entries, id).holds += 1;
    }

    pub(crate) fn release(&mut self, id: u32) {
        entry_mut(&mut self.entries, id).holds -= 1;
        self.drop_unused(id);
    }

    /// Records an invalidation. Returns the number of matching objects that no earlier hard
    /// invalidation matches.
    pub(crate) fn invalidate(&mut self, id: u32, mode: Mode, sequence: u64) -> u64 {
        let tag = entry_mut(&mut self.entries, id);
        tag.mark.set(mode, sequence);
        let met = u64::from(tag.live);
        if mode == Mode::Hard {
            tag.live = 0;
        }
        met
    }

    /// Clears the tag's mark. Its last invalidation now holds in a wider form, so every remaining
    /// object counts as live until it leaves.
    pub(crate) fn clear_mark(&mut self, id: u32) {
        let tag = entry_mut(&mut self.entries, id);
        tag.mark = InvalidationMark::default();
        tag.live = tag.members;
    }

    /// The bytes in use.
    pub(crate) fn bytes(&self) -> usize {
        self.entries.len() * TAG_BYTES + self.text_bytes
    }

    /// The number of tags.
    pub(crate) fn len(&self) -> usize {
        self.ids.len()
    }

    fn drop_unused(&mut self, id: u32) {
        let Some(place) = self.entries.get_mut(id as usize) else { return };
        let Some(tag) = place.take_if(|tag| tag.members == 0 && tag.holds == 0) else { return };
        self.text_bytes -= allocated(tag.text.len());
        let found = self.ids.find_entry(tag.hash, |known| *known == id).map(|found| found.remove());
        assert!(found.is_ok(), "the table has each tag");
        if self.ids.is_empty() {
            self.entries = Vec::new();
            self.ids = HashTable::new();
            self.free = Vec::new();
        } else {
            push_by_eighths(&mut self.free, id);
        }
    }
}

/// The tag of a number. A missing tag must not read as "not invalidated".
#[expect(clippy::expect_used, reason = "a tag exists while an object has it or something holds it")]
fn entry(entries: &[Option<Tag>], id: u32) -> &Tag {
    entries.get(id as usize).and_then(Option::as_ref).expect("a tag exists while its number is used")
}

#[expect(clippy::expect_used, reason = "a tag exists while an object has it or something holds it")]
fn entry_mut(entries: &mut [Option<Tag>], id: u32) -> &mut Tag {
    entries.get_mut(id as usize).and_then(Option::as_mut).expect("a tag exists while its number is used")
}

#[cfg(test)]
mod tests {
    use super::Tags;
    use crate::SiteId;
    use crate::hash::TextHasher;
    use invalidation::Mode;

    #[test]
    fn tag_exists_while_an_object_or_hold_uses_it() {
        let mut tags = Tags::new(TextHasher::new(1));
        let a = tags.intern(SiteId(0), b"a");
        tags.join(a, 0);
        assert_eq!(tags.intern(SiteId(0), b"a"), a);
        let other = tags.intern(SiteId(1), b"a");
        assert_ne!(other, a, "another site");
        tags.hold(other);
        tags.join(a, 0);
        tags.leave(a, 0);
        assert_eq!((tags.find(SiteId(0), b"a"), tags.text(a)), (Some(a), &b"a"[..]));
        tags.leave(a, 0);
        assert_eq!(tags.find(SiteId(0), b"a"), None);
        assert_eq!(tags.intern(SiteId(0), b"b"), a, "numbers are used again");
        tags.hold(a);
        tags.release(a);
        tags.release(other);
        assert_eq!((tags.len(), tags.bytes()), (0, 0));
    }

    #[test]
    #[should_panic(expected = "a tag exists while its number is used")]
    fn missing_tag_is_a_broken_invariant() {
        let mut tags = Tags::new(TextHasher::new(1));
        let a = tags.intern(SiteId(0), b"a");
        tags.hold(a);
        tags.release(a);
        tags.mark(a);
    }

    #[test]
    fn object_is_counted_by_one_hard_invalidation() {
        let mut tags = Tags::new(TextHasher::new(1));
        let a = tags.intern(SiteId(0), b"a");
        tags.join(a, 0);
        tags.join(a, 0);
        assert_eq!(tags.invalidate(a, Mode::Soft, 1), 2);
        assert_eq!(tags.invalidate(a, Mode::Hard, 2), 2);
        assert_eq!(tags.invalidate(a, Mode::Hard, 3), 0);
        tags.join(a, 3);
        tags.leave(a, 0);
        assert_eq!(tags.invalidate(a, Mode::Hard, 4), 1);
        tags.leave(a, 0);
        tags.leave(a, 3);
        assert_eq!(tags.len(), 0);
    }
}
