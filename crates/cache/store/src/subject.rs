//! A response as invalidations see it.

use crate::selector::ResponseAttributes;
use crate::{Key, SiteId};
use bytes::Bytes;

/// A response with all the attributes that an invalidation can select by.
#[derive(Clone, Copy)]
pub(crate) struct InvalidationSubject<'a> {
    pub(crate) site: SiteId,
    pub(crate) https: bool,
    pub(crate) host: &'a [u8],
    pub(crate) target: &'a [u8],
    /// The hash of its cache key.
    pub(crate) hash: u64,
    pub(crate) tags: TagIds<'a>,
    /// Whether it has `No-Vary-Search`.
    pub(crate) has_equivalents: bool,
    pub(crate) response: &'a dyn ResponseAttributes,
}

/// The numbers of tags, four bytes each.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TagIds<'a>(pub(crate) &'a [u8]);

impl TagIds<'_> {
    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> {
        self.0.as_chunks::<4>().0.iter().map(|octets| u32::from_le_bytes(*octets))
    }

    pub(crate) fn has(&self, id: u32) -> bool {
        self.iter().any(|known| known == id)
    }
}

/// The canonical host under a scheme, in the form of cache keys.
pub(crate) fn spelled(site: SiteId, https: bool, host: &[u8]) -> Bytes {
    Key::new(site, https, host, Bytes::new()).host_octets()
}
