//! Invalidations: the pages, hosts, tags and conditions that a purge can select.
//!
//! Invariant: a selector matches all variants under both schemes. This module does not decide which
//! site a purge is for, whether its sender is authorised, or under which other names a page is
//! stored.

use crate::ledger::TagIds;
use crate::tags::Tags;
use crate::{Object, SiteId};
use bytes::Bytes;
use message::{ResponseHead, Status, names};
use std::cell::Cell;
use std::fmt;
use std::sync::Arc;

/// The effect of an invalidation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mode {
    /// The response stays stored and becomes stale at once.
    Soft,
    /// The response is removed.
    Hard,
}

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

/// The result of an invalidation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Invalidated {
    /// Its number. It applies to responses whose fetch began with a lower number.
    pub sequence: u64,
    /// The number of stored objects that it matches. An object with several of the tags counts once
    /// for each. `None` for prefixes, bans and tags that are required together, because only the
    /// sweep finds their objects, and for more tags than the store can mark.
    pub objects: Option<u64>,
}

/// Conditions on stored responses.
///
/// The store evaluates each ban once for every object while it holds a lock. So a ban must be fast
/// and must not call the store.
pub trait Ban: fmt::Debug + Send + Sync {
    /// Whether all conditions hold for the response.
    fn matches(&self, stored: &Stored<'_>) -> bool;

    /// A condition that every matching response fulfils, if the ban has one. The store searches for
    /// the needs of many bans at once, and evaluates only the bans whose need was found.
    fn need(&self) -> Option<Need> {
        None
    }

    /// The text of the ban. Bans with equal texts are treated as one.
    fn text(&self) -> &str;
}

/// A necessary condition of a ban. It holds for responses without `No-Vary-Search` only: with that
/// field, a ban may match a response because of another target.
#[derive(Clone, Debug)]
pub struct Need {
    /// The part of the response to search.
    pub haystack: Haystack,
    /// A regular expression over bytes, without Unicode, that finds a match there.
    pub pattern: String,
}

/// A part of a response that bans search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Haystack {
    /// Path and query.
    Target,
    /// Each tag by itself, and all tags in alphabetical order joined by commas.
    Tags,
    /// Each value of the field with this name.
    Field(Bytes),
}

/// The view that a ban has of a response, already stored or about to be.
#[derive(Clone, Copy)]
pub struct Stored<'a> {
    pub(crate) host: &'a [u8],
    pub(crate) target: &'a [u8],
    pub(crate) response: &'a dyn Response,
    pub(crate) tags: TagIds<'a>,
    pub(crate) known: &'a Tags,
}

/// The attributes of a response that bans depend on.
pub(crate) trait Response {
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
pub(crate) struct Unknown {
    was_asked: Cell<bool>,
    is_undecided: Cell<bool>,
    /// Whether it has `No-Vary-Search`. Every ban on targets asks for this field, and few responses
    /// have it.
    has_equivalents: bool,
}

impl Unknown {
    pub(crate) const fn new(has_equivalents: bool) -> Self {
        Self { was_asked: Cell::new(false), is_undecided: Cell::new(false), has_equivalents }
    }

    /// Whether a ban could not be decided.
    pub(crate) const fn is_undecided(&self) -> bool {
        self.is_undecided.get()
    }
}

impl Response for Unknown {
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

impl<'a> Stored<'a> {
    /// The host, in lower case, with its port unless that is the default.
    pub const fn host(&self) -> &'a [u8] {
        self.host
    }

    /// Path and query.
    pub const fn target(&self) -> &'a [u8] {
        self.target
    }

    /// The status of the response.
    pub fn status(&self) -> Status {
        self.response.status()
    }

    /// The values of the response's fields with this name.
    pub fn values(&self, name: &[u8]) -> Vec<&'a [u8]> {
        self.response.values(name)
    }

    /// The tags of the response. The edge's internal tags are left out: they begin with a NUL byte,
    /// which no field value can contain.
    pub fn tags(&self) -> Vec<&'a [u8]> {
        self.tags.iter().map(|id| self.known.text(id)).filter(|text| !text.starts_with(b"\0")).collect()
    }
}

impl Response for ResponseHead {
    fn status(&self) -> Status {
        self.status
    }

    fn values<'a>(&'a self, name: &[u8]) -> Vec<&'a [u8]> {
        let named = self.fields.iter().filter(|field| field.name.eq_ignore_ascii_case(name));
        named.map(|field| &field.value[..]).collect()
    }
}

impl Response for Object {
    fn status(&self) -> Status {
        Self::status(self)
    }

    fn values<'a>(&'a self, name: &[u8]) -> Vec<&'a [u8]> {
        self.fields().filter(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value).collect()
    }
}

impl fmt::Debug for Stored<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |octets: &[u8]| octets.escape_ascii().to_string();
        f.debug_struct("Stored")
            .field("host", &text(self.host))
            .field("target", &text(self.target))
            .field("status", &self.status())
            .finish_non_exhaustive()
    }
}
