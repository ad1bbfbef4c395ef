//! What is to be invalidated, and how: the common form of all dialects.
//!
//! Invariant: hosts are spelled as the client spelled them, targets as they stand on the wire. Which configured site
//! a host belongs to, under which other names and ports its pages are stored, and who may ask, is not decided here.

use crate::ban::Ban;
use crate::pattern::Pattern;
use bytes::Bytes;
use std::sync::Arc;
use store::Mode;

/// Which sites are meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reach {
    /// The site that answers to this host, `name [":" port]`. Clients often name the cache itself by its address, or
    /// nobody (an empty host): where no configured site has the name, all sites are meant.
    Site(Bytes),
    /// All sites.
    Everywhere,
}

/// Which stored responses are meant. Both schemes and all variants of a page always are.
#[derive(Clone, Debug, PartialEq)]
pub enum Want {
    /// One page.
    Target {
        /// The host, as for [`Reach::Site`].
        host: Bytes,
        /// Path and query, in origin-form.
        target: Bytes,
    },
    /// All pages of a host whose target begins so.
    Prefix {
        /// The host, as for [`Reach::Site`].
        host: Bytes,
        /// What the target begins with.
        prefix: Bytes,
    },
    /// All pages of a host whose target the pattern finds something in.
    Pattern {
        /// The host, as for [`Reach::Site`].
        host: Bytes,
        /// What is searched for in the target.
        pattern: Pattern,
    },
    /// All pages of a host.
    Host {
        /// The host, as for [`Reach::Site`].
        host: Bytes,
    },
    /// What has the tags: every one of `all_of`, and at least one of `any_of` unless that is empty.
    Tags {
        /// Whose.
        reach: Reach,
        /// One of these is enough.
        any_of: Vec<Bytes>,
        /// All of these are needed.
        all_of: Vec<Bytes>,
    },
    /// What meets all conditions of a ban.
    Ban {
        /// Whose.
        reach: Reach,
        /// The conditions.
        ban: Arc<Ban>,
    },
    /// Everything.
    Everything {
        /// Whose.
        reach: Reach,
    },
}

/// One invalidation.
#[derive(Clone, Debug, PartialEq)]
pub struct Invalidation {
    /// What is meant.
    pub want: Want,
    /// What happens to it.
    pub mode: Mode,
}

/// Everything one request asks for.
#[derive(Clone, Debug, PartialEq)]
pub struct Order {
    /// The row of the table of dialects, or the route of the API, by which the request was read; for metrics and logs.
    pub dialect: &'static str,
    /// What to invalidate; the request counts as answered when all of it is done.
    pub invalidations: Vec<Invalidation>,
    /// Whether the most requested of the purged pages shall be fetched again before visitors ask for them; `None`
    /// leaves it to the edge's settings.
    pub refill: Option<bool>,
    /// How the client wants to be answered.
    pub style: Style,
}

/// The shape of the answer that a client expects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Style {
    /// A purge method: the reason phrase says "Purged" or "Not found".
    Purged,
    /// A ban: the reason phrase says "Banned".
    Banned,
    /// PURGEKEYS: the reason phrase gives both numbers.
    Keys,
    /// REFRESH: the reason phrase says "Refreshing".
    Refreshing,
    /// The JSON API.
    Native,
    /// Fastly's API, for one key, one URL or everything.
    Fastly,
    /// Fastly's API, for a list of keys: each is answered by name.
    FastlyKeys(Vec<String>),
    /// Cloudflare's API, with the zone's identifier.
    Cloudflare(String),
}
