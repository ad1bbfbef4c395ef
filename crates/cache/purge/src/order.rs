//! The common form of all dialects: which stored responses are invalidated, and how.
//!
//! Invariant: hosts are spelled as the client spelled them, and targets as they were sent. The
//! caller decides which configured site a host belongs to, and under which other names and ports
//! its pages are stored. It also decides whether the client may purge.

use crate::ban::ConditionBan;
use crate::pattern::BanPattern;
use bytes::Bytes;
use invalidation::Mode;
use std::sync::Arc;

/// The sites that a purge covers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reach {
    /// The site that serves this host, `name [":" port]`.
    ///
    /// If no configured site has the name, all sites are meant. Clients often send the cache's own
    /// address, or no host at all; the host is then empty.
    Site(Bytes),
    /// All sites.
    Everywhere,
}

/// The stored responses that a purge covers. Both schemes and all variants of a page are always
/// included.
#[derive(Clone, Debug, PartialEq)]
pub enum PurgeScope {
    /// One page.
    Target {
        /// The host, as for [`Reach::Site`].
        host: Bytes,
        /// Path and query, in origin-form.
        target: Bytes,
    },
    /// All pages of a host whose target begins with `prefix`.
    Prefix {
        /// The host, as for [`Reach::Site`].
        host: Bytes,
        /// The beginning of the target.
        prefix: Bytes,
    },
    /// All pages of a host in whose target the pattern finds a match.
    Pattern {
        /// The host, as for [`Reach::Site`].
        host: Bytes,
        /// The expression searched for in the target.
        pattern: BanPattern,
    },
    /// All pages of a host.
    Host {
        /// The host, as for [`Reach::Site`].
        host: Bytes,
    },
    /// All responses that have every tag of `all_of` and, unless `any_of` is empty, at least one
    /// tag of `any_of`.
    Tags {
        /// The sites.
        reach: Reach,
        /// One of these tags is enough.
        any_of: Vec<Bytes>,
        /// All of these tags are required.
        all_of: Vec<Bytes>,
    },
    /// All responses that meet every condition of a ban.
    Ban {
        /// The sites.
        reach: Reach,
        /// The conditions.
        ban: Arc<ConditionBan>,
    },
    /// All responses.
    Everything {
        /// The sites.
        reach: Reach,
    },
}

/// One invalidation.
#[derive(Clone, Debug, PartialEq)]
pub struct OrderItem {
    /// The stored responses.
    pub scope: PurgeScope,
    /// Whether they are removed or marked stale.
    pub mode: Mode,
}

/// Everything that one purge request asks for.
#[derive(Clone, Debug, PartialEq)]
pub struct PurgeOrder {
    /// The name of the dialect's row in the table, or of the API, for metrics and logs.
    pub dialect: &'static str,
    /// The invalidations. The request is answered once all of them are in force.
    pub invalidations: Vec<OrderItem>,
    /// Whether the most requested of the purged pages are fetched again before visitors request
    /// them. `None` leaves the choice to the edge's settings.
    pub refill: Option<bool>,
    /// The shape of the reply.
    pub style: Style,
}

/// The shape of the reply that a client expects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Style {
    /// A purge method: the reason phrase says "Purged" or "Not found".
    Purged,
    /// A ban: the reason phrase says "Banned".
    Banned,
    /// PURGEKEYS: the reason phrase states the number of purged and of expired objects.
    Keys,
    /// REFRESH: the reason phrase says "Refreshing".
    Refreshing,
    /// Petasos' own JSON API.
    Native,
    /// Fastly's API, for one key, one URL or everything.
    Fastly,
    /// Fastly's API for a list of keys; the reply names each key.
    FastlyKeys(Vec<String>),
    /// Cloudflare's API, with the zone's identifier.
    Cloudflare(String),
}
