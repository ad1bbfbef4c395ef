//! The events in the ledger as values.
//!
//! Invariant: plain data. Only the ledger gives numbers to events.

use crate::exchange::Ask;
use crate::moment::Moment;
use crate::site::SitePlan;
use std::collections::BTreeSet;
use std::fmt;

/// The place of an event in time and in the order of all events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamp {
    /// The simulated time.
    pub at: Moment,
    /// The number of the event. Later events have larger numbers.
    pub number: u64,
}

/// A request in the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestId(pub(crate) usize);

/// A purge in the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PurgeId(pub(crate) usize);

/// A fault in the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaultId(pub(crate) usize);

/// The pages that a purge means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The page with exactly this target, in all variants.
    Target(String),
    /// The same, without the pages of these realms.
    TargetBeyond(String, BTreeSet<String>),
    /// The pages whose target begins with this text.
    Prefix(String),
    /// The responses that had one of these tags.
    AnyTag(Vec<String>),
    /// The responses that had all of these tags.
    AllTags(Vec<String>),
    /// All pages of the site.
    Everything,
    /// All pages of these realms.
    Realms(BTreeSet<String>),
    /// Those of the pages that are at one host, named by the host part of their targets.
    AtHost(String, Box<Self>),
}

impl Scope {
    /// The pages at one host of the site that this scope of the first host means.
    #[must_use]
    pub fn at(self, site: &SitePlan, is_other: bool) -> Self {
        match self {
            Self::Target(target) => Self::Target(site.named(is_other, &target)),
            Self::Prefix(prefix) => Self::Prefix(site.named(is_other, &prefix)),
            scope if site.other_host.is_some() => Self::AtHost(site.named(is_other, ""), Box::new(scope)),
            scope => scope,
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Target(target) => to.write_str(target),
            Self::TargetBeyond(target, realms) => write!(to, "{target} beyond the realms {realms:?}"),
            Self::Prefix(prefix) => write!(to, "prefix {prefix}"),
            Self::AnyTag(tags) => write!(to, "any tag of {}", tags.join(" ")),
            Self::AllTags(tags) => write!(to, "all tags of {}", tags.join(" ")),
            Self::Everything => to.write_str("everything"),
            Self::Realms(realms) => write!(to, "all pages of the realms {realms:?}"),
            Self::AtHost(host, scope) if host.is_empty() => write!(to, "{scope} at the first host"),
            Self::AtHost(host, scope) => write!(to, "{scope} at {host}"),
        }
    }
}

/// What the edge said about a purge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PurgeAnswer {
    /// In force and durable.
    Done,
    /// In force, but a restart would forget it.
    Undurable,
    /// Not in force everywhere, or answered with an error of the edge or origin.
    Failed(u16),
    /// Refused with this status, which is a fault of the edge or of the simulation.
    Refused(u16),
    /// There was no whole answer.
    Lost,
}

/// The place of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FaultPlace {
    /// The origin fails, lies or is slow.
    Origin,
    /// Connections are refused or break.
    Network,
    /// The disk is full, hung, failing, or so slow that the edge does not use it.
    Disk,
    /// The disk is slow, but ends each operation within the edge's limit.
    SlowDisk,
    /// Stored bytes have changed. This is over at once, but what it has damaged stays.
    Medium,
    /// The edge was killed, is stopped, or starts.
    Edge,
}

/// A lie of the origin in one response, as far as a recipient could believe it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lie {
    /// The response looks complete with this many bytes of the content: a `Content-Length` that is
    /// too short, an empty body, or a close-delimited body that ends early in an orderly way.
    /// Nobody can notice it.
    LooksWhole(usize),
    /// The head announces this many bytes, and the connection ends before them.
    Announces(usize),
}

/// What the origin did with one content.
#[derive(Clone, Debug, Default)]
pub(crate) struct Begun {
    /// The last time when it received a request that it answered with this content, or confirmed.
    pub(crate) last: Stamp,
    /// Responses with this content that it is sending.
    pub(crate) open: usize,
    /// When it ended the last such response.
    pub(crate) ended: Moment,
    /// Tags that all of these responses had.
    pub(crate) tags: BTreeSet<String>,
    /// The second of the edit, in seconds since 1970.
    pub(crate) modified_secs: u64,
    /// Lengths with which a response looked complete.
    pub(crate) whole_bytes: BTreeSet<usize>,
    /// Lengths that were announced.
    pub(crate) announced_bytes: BTreeSet<usize>,
}

/// A request as it was recorded.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) ask: Ask,
    pub(crate) begun: Stamp,
    pub(crate) ended: bool,
    /// When its response was complete.
    pub(crate) completed: Option<Moment>,
}

/// A purge or a write.
#[derive(Clone, Debug)]
pub(crate) struct Purge {
    pub(crate) order: String,
    pub(crate) scope: Scope,
    pub(crate) is_soft: bool,
    pub(crate) is_write: bool,
    pub(crate) sent: Stamp,
    /// When it was answered, unless it does not count.
    pub(crate) answered: Option<Stamp>,
    pub(crate) is_durable: bool,
}

/// A fault that explains errors.
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    pub(crate) place: FaultPlace,
    pub(crate) begun: Moment,
    pub(crate) ended: Option<Moment>,
    /// Whether it was in an earlier life of the edge, which has forgotten it.
    pub(crate) is_past: bool,
}
