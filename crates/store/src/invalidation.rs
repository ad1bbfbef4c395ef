//! What is invalidated: the pages, hosts, tags and conditions that a purge can name.
//!
//! Invariant: a selector means all variants under both schemes. Which site a purge is for, who may ask, and under
//! which other names a page is stored are not decided here.

use crate::ledger::TagIds;
use crate::tags::Tags;
use crate::{Object, SiteId};
use bytes::Bytes;
use message::{ResponseHead, Status, names};
use std::cell::Cell;
use std::fmt;
use std::sync::Arc;

/// What happens to what is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mode {
    /// It is kept, to be used as if its lifetime was over.
    Soft,
    /// It is removed.
    Hard,
}

/// An order to forget.
#[derive(Clone, Debug)]
pub struct Invalidation {
    /// What is meant.
    pub selector: Selector,
    /// What happens to it.
    pub mode: Mode,
}

/// What an invalidation means. A host is one as in `Host`, with its port where that is not the default.
#[derive(Clone, Debug)]
pub enum Selector {
    /// One page.
    Target {
        /// Whose.
        site: SiteId,
        /// The host.
        host: Bytes,
        /// Path and query.
        target: Bytes,
    },
    /// The pages of a host whose target begins so.
    Prefix {
        /// Whose.
        site: SiteId,
        /// The host.
        host: Bytes,
        /// What the target begins with.
        prefix: Bytes,
    },
    /// All pages of a host.
    Host {
        /// Whose.
        site: SiteId,
        /// The host.
        host: Bytes,
    },
    /// What has all tags of `all_of`, and at least one of `any_of` unless that is empty. Without any tag it means
    /// nothing.
    Tags {
        /// Whose; tags of different sites have nothing to do with one another.
        site: SiteId,
        /// One of these is enough.
        any_of: Vec<Bytes>,
        /// All of these are needed.
        all_of: Vec<Bytes>,
    },
    /// Everything.
    Everything {
        /// Whose; all sites' with `None`.
        site: Option<SiteId>,
    },
    /// What a ban says.
    Ban {
        /// Whose.
        site: SiteId,
        /// The ban.
        ban: Arc<dyn Ban>,
    },
}

/// What has become of an invalidation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Invalidated {
    /// Its number: what was fetched by a request that began with a lower one is meant by it.
    pub sequence: u64,
    /// How many stored objects it met. An object that has several of the tags counts for each. `None` where that is
    /// known only when the last object has been looked at: for prefixes, bans, and tags that are needed together.
    pub objects: Option<u64>,
}

/// Conditions on stored responses.
///
/// They are asked while a part of the store is locked, of every object once: they must be quick, and must not call
/// the store.
pub trait Ban: fmt::Debug + Send + Sync {
    /// Whether all conditions hold.
    fn matches(&self, stored: &Stored<'_>) -> bool;

    /// What must be found in a response that the ban means, if there is something of the kind. The store asks many
    /// bans at once for it, and then only those bans whose need was found.
    fn need(&self) -> Option<Need> {
        None
    }

    /// What the ban says; two bans that say the same are one.
    fn text(&self) -> &str;
}

/// A necessary condition of a ban, for responses without `No-Vary-Search`: with that field a ban may mean a response
/// because of another target.
#[derive(Clone, Debug)]
pub struct Need {
    /// Where it is searched for.
    pub haystack: Haystack,
    /// A regular expression over bytes, without Unicode, that finds something there.
    pub pattern: String,
}

/// A part of a response in which bans search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Haystack {
    /// Path and query.
    Target,
    /// One of the tags, or all of them in alphabetical order joined by commas.
    Tags,
    /// One of the values of the field of this name.
    Field(Bytes),
}

/// A stored response, or one that is about to be, as a ban sees it.
#[derive(Clone, Copy)]
pub struct Stored<'a> {
    pub(crate) host: &'a [u8],
    pub(crate) target: &'a [u8],
    pub(crate) response: &'a dyn Response,
    pub(crate) tags: TagIds<'a>,
    pub(crate) known: &'a Tags,
}

/// What may be asked of a response.
pub(crate) trait Response {
    fn status(&self) -> Status;

    /// The values of the fields of this name.
    fn values<'a>(&'a self, name: &[u8]) -> Vec<&'a [u8]>;

    /// Whether something was asked, since this was last asked, that cannot be known without the response.
    fn was_asked_in_vain(&self) -> bool {
        false
    }

    /// Whether the status and the fields are known.
    fn is_known(&self) -> bool {
        true
    }
}

/// A response of which nothing is in memory but where it belongs. What depends on more is left undecided.
#[derive(Debug)]
pub(crate) struct Unknown {
    was_asked: Cell<bool>,
    is_undecided: Cell<bool>,
    /// Whether it has `No-Vary-Search`, about which every ban of pages asks and which few have.
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
    /// The page's host, lower-case, with its port where that is not the default.
    pub const fn host(&self) -> &'a [u8] {
        self.host
    }

    /// The page's path and query.
    pub const fn target(&self) -> &'a [u8] {
        self.target
    }

    /// The response's status.
    pub fn status(&self) -> Status {
        self.response.status()
    }

    /// The values of the response's fields of this name.
    pub fn values(&self, name: &[u8]) -> Vec<&'a [u8]> {
        self.response.values(name)
    }

    /// The response's tags, without those that begin with a byte that no field has: they are the edge's own.
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
