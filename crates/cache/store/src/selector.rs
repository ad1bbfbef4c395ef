//! Invalidations: the pages, hosts, tags and conditions that a purge can select.
//!
//! Invariant: a selector matches all variants under both schemes. This module does not decide which
//! site a purge is for, whether its sender is authorised, or under which other names a page is
//! stored.

use crate::subject::TagIds;
use crate::tags::Tags;
use crate::{Object, SiteId};
use bytes::Bytes;
use invalidation::{Ban, Mode, ResponseView};
use message::{ResponseHead, Status, names};
use std::cell::Cell;
use std::sync::Arc;

/// An order to invalidate responses.
#[derive(Clone, Debug)]
pub struct Invalidation {
    /// The responses that it applies to.
    pub selector: Selector,
    /// Its effect on them.
    pub mode: Mode,
}

/// The responses that an invalidation applies to. A host is written as in `Host`, with its port
/// unless that is the default.
#[derive(Clone, Debug)]
pub enum Selector {
    /// One page, in all percent-encodings of its target.
    Target {
        /// The site of the page.
        site: SiteId,
        /// The host.
        host: Bytes,
        /// Path and query.
        target: Bytes,
    },
    /// The pages of a host whose target begins with a prefix.
    Prefix {
        /// The site of the pages.
        site: SiteId,
        /// The host.
        host: Bytes,
        /// The beginning of their targets.
        prefix: Bytes,
    },
    /// All pages of a host.
    Host {
        /// The site of the pages.
        site: SiteId,
        /// The host.
        host: Bytes,
    },
    /// Responses that have all tags of `all_of` and, unless `any_of` is empty, at least one tag of
    /// `any_of`. If both are empty it matches nothing.
    Tags {
        /// The site of the tags. Equal tags of different sites are unrelated.
        site: SiteId,
        /// One of these tags is required.
        any_of: Vec<Bytes>,
        /// All of these tags are required.
        all_of: Vec<Bytes>,
    },
    /// All responses of a site or of all sites.
    Everything {
        /// The site, or `None` for all sites.
        site: Option<SiteId>,
    },
    /// Responses that fulfil the conditions of a ban.
    Ban {
        /// The site of the responses.
        site: SiteId,
        /// The ban.
        ban: Arc<dyn Ban>,
    },
}

impl Selector {
    /// The site whose responses it selects; `None` for all sites.
    pub const fn site(&self) -> Option<SiteId> {
        match self {
            Self::Target { site, .. }
            | Self::Prefix { site, .. }
            | Self::Host { site, .. }
            | Self::Tags { site, .. }
            | Self::Ban { site, .. } => Some(*site),
            Self::Everything { site } => *site,
        }
    }
}

/// The result of an invalidation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidationResult {
    /// Its number. It applies to responses whose fetch began with a lower number.
    pub sequence: u64,
    /// The number of stored objects that it matches. An object with several of the tags counts once
    /// for each. `None` for prefixes, bans and tags that are required together, because only the
    /// sweep finds their objects, and for more tags than the store can mark.
    pub objects: Option<u64>,
}

/// The view that bans have of a response of this store.
#[derive(Clone, Copy)]
pub(crate) struct StoredView<'a> {
    pub(crate) host: &'a [u8],
    pub(crate) target: &'a [u8],
    pub(crate) response: &'a dyn ResponseAttributes,
    pub(crate) tags: TagIds<'a>,
    pub(crate) known: &'a Tags,
}

/// The attributes of a response that bans depend on.
pub(crate) trait ResponseAttributes {
    fn status(&self) -> Status;

    /// The values of the fields with this name.
    fn values<'a>(&'a self, name: &[u8]) -> Vec<&'a [u8]>;

    /// Whether a ban has requested, since the last call, an attribute that only reading the
    /// response can tell.
    fn was_asked_in_vain(&self) -> bool {
        false
    }

    /// Whether the status and the fields are in memory.
    fn is_known(&self) -> bool {
        true
    }
}

/// A response on the disk only: in memory, only its place in the index is known. A ban that depends
/// on more stays undecided.
#[derive(Debug)]
pub(crate) struct IndexedResponse {
    was_asked: Cell<bool>,
    is_undecided: Cell<bool>,
    /// Whether it has `No-Vary-Search`. Every ban on targets asks for this field, and few responses
    /// have it.
    has_equivalents: bool,
}

impl IndexedResponse {
    pub(crate) const fn new(has_equivalents: bool) -> Self {
        Self { was_asked: Cell::new(false), is_undecided: Cell::new(false), has_equivalents }
    }

    /// Whether a ban could not be decided.
    pub(crate) const fn is_undecided(&self) -> bool {
        self.is_undecided.get()
    }
}

impl ResponseAttributes for IndexedResponse {
    fn status(&self) -> Status {
        self.was_asked.set(true);
        Status::OK
    }

    fn values<'a>(&'a self, name: &[u8]) -> Vec<&'a [u8]> {
        if self.has_equivalents || !name.eq_ignore_ascii_case(names::NO_VARY_SEARCH.as_bytes()) {
            self.was_asked.set(true);
        }
        Vec::new()
    }

    fn was_asked_in_vain(&self) -> bool {
        let was_asked = self.was_asked.replace(false);
        self.is_undecided.set(self.is_undecided.get() || was_asked);
        was_asked
    }

    fn is_known(&self) -> bool {
        false
    }
}

impl ResponseView for StoredView<'_> {
    fn host(&self) -> &[u8] {
        self.host
    }

    fn target(&self) -> &[u8] {
        self.target
    }

    fn status(&self) -> Status {
        self.response.status()
    }

    fn values(&self, name: &[u8]) -> Vec<&[u8]> {
        self.response.values(name)
    }

    /// The edge's internal tags begin with a NUL byte, which no field value can contain.
    fn tags(&self) -> Vec<&[u8]> {
        self.tags.iter().map(|id| self.known.text(id)).filter(|text| !text.starts_with(b"\0")).collect()
    }
}

impl ResponseAttributes for ResponseHead {
    fn status(&self) -> Status {
        self.status
    }

    fn values<'a>(&'a self, name: &[u8]) -> Vec<&'a [u8]> {
        let named = self.fields.iter().filter(|field| field.name.eq_ignore_ascii_case(name));
        named.map(|field| &field.value[..]).collect()
    }
}

impl ResponseAttributes for Object {
    fn status(&self) -> Status {
        Self::status(self)
    }

    fn values<'a>(&'a self, name: &[u8]) -> Vec<&'a [u8]> {
        self.fields().filter(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value).collect()
    }
}
