//! The bounds that the oracle grants, and the rules that it checks.
//!
//! Invariant: each number here is a bound that the documentation of the edge states, or a slack
//! with a reason.

use crate::moment::Moment;
use crate::routing::Routing;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// The bounds of a run.
#[derive(Clone, Debug)]
pub struct Rules {
    /// Whether responses come through the edge, so that they have `Cache-Status`.
    pub through_edge: bool,
    /// Longest lifetime of a static file that states none. The default profile has 5 minutes.
    pub heuristic_max: Duration,
    /// Lifetime of a 404 that states none. The default profile has 30 s.
    pub missing_max: Duration,
    /// Longest lifetime that the site's settings give to pages that state none. Zero in the default
    /// profile.
    pub assumed_max: Duration,
    /// The same for the pages of realms whose routes have a lifetime of their own.
    pub assumed_of_realms: BTreeMap<String, Duration>,
    /// The routes in force. While they change, there are several.
    pub routings: Vec<Arc<Routing>>,
    /// Time after the lifetime for which a page may replace an error (`stale_on_error_max`).
    pub stale_on_error_max: Duration,
    /// Slack of ages: rounding to seconds, latency of the network and jumps of the clock.
    pub age_slack: Duration,
    /// Longest time until the first byte of a response, without the visitor's own delays.
    pub first_byte_max: Duration,
    /// Longest time until the first byte of a response that says it is stale and that the origin
    /// sent before the request: nobody waits longer for an origin if a stale response is stored.
    pub stale_first_byte_max: Duration,
    /// Largest content that is stored as soon as it has arrived, in bytes. A larger one may go to
    /// the disk only, and is stored when its last byte is written.
    pub stored_at_once_max: usize,
    /// Longest time until a larger content is stored, if the disk is well.
    pub storing_max: Duration,
    /// Longest time until the end of a response, without the visitor's own delays.
    pub end_max: Duration,
    /// Time after a fault for which an error is still explained by it.
    pub grace: Duration,
    /// Whether a write makes its page stale at once. It does not if the edge may postpone that.
    pub writes_count: bool,
    /// Whether a save makes its page stale because the profile of the site says so. It does not
    /// if the profile is another one, or if the edge may leave that to purges.
    pub saves_count: bool,
    /// Whether the ledger keeps a log of all events.
    pub trace: bool,
    /// Whether templates get the values of cookies.
    pub shows_cookies: bool,
    /// Whether the fragments of a page may be too many for the limits of the origin.
    pub fragments_may_fail: bool,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            through_edge: true,
            heuristic_max: Duration::from_secs(300),
            missing_max: Duration::from_secs(30),
            assumed_max: Duration::ZERO,
            assumed_of_realms: BTreeMap::new(),
            routings: vec![Arc::default()],
            stale_on_error_max: Duration::from_secs(24 * 3600),
            age_slack: Duration::from_secs(3),
            first_byte_max: Duration::from_secs(75),
            stale_first_byte_max: Duration::from_secs(75),
            stored_at_once_max: usize::MAX,
            storing_max: Duration::from_secs(1),
            end_max: Duration::from_secs(600),
            grace: Duration::from_secs(15),
            writes_count: true,
            saves_count: false,
            trace: false,
            shows_cookies: false,
            fragments_may_fail: false,
        }
    }
}

impl Rules {
    /// The longest lifetime that pages of a realm have if they state none.
    pub fn assumed_in(&self, realm: &str) -> Duration {
        self.assumed_of_realms.get(realm).copied().unwrap_or(self.assumed_max)
    }

    /// Whether the site may be under maintenance.
    pub(crate) fn is_maintained(&self) -> bool {
        self.routings.iter().any(|routing| routing.is_maintained)
    }

    /// These rules, with lifetimes as long as those of `other` too.
    #[must_use]
    pub(crate) fn lasting_as(self, other: &Self) -> Self {
        let realms: BTreeSet<_> =
            self.assumed_of_realms.keys().chain(other.assumed_of_realms.keys()).collect();
        let longer = |realm: &String| self.assumed_in(realm).max(other.assumed_in(realm));
        let assumed_of_realms = realms.into_iter().map(|realm| (realm.clone(), longer(realm))).collect();
        Self { assumed_max: self.assumed_max.max(other.assumed_max), assumed_of_realms, ..self }
    }
}

/// A rule that a response or a reply can violate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// A purged page was served.
    Staleness,
    /// A page was served that is older than its lifetime and permitted staleness.
    Age,
    /// A body, a range or a head does not belong to exactly one content.
    Integrity,
    /// A visitor received what belongs to another one.
    Privacy,
    /// A request took too long.
    Promptness,
    /// An error without a cause.
    Errors,
    /// A field of the edge is missing or wrong.
    Fields,
    /// A response is not that of the request's route.
    Routing,
    /// A purge was not carried out.
    Purging,
    /// The admin address answered wrongly or too late.
    Administration,
    /// A run that fills the cache requested what it may not, or too much.
    Crawling,
    /// A span is wrong, or missing without being counted.
    Tracing,
    /// A client got more than its share, or was refused within it.
    Guarding,
    /// A line of the access log is wrong, or missing without being counted.
    Logging,
}

impl fmt::Display for Rule {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(match self {
            Self::Staleness => "staleness",
            Self::Age => "age",
            Self::Integrity => "integrity",
            Self::Privacy => "privacy",
            Self::Promptness => "promptness",
            Self::Errors => "unexplained error",
            Self::Fields => "fields",
            Self::Routing => "routing",
            Self::Purging => "purging",
            Self::Administration => "administration",
            Self::Crawling => "crawling",
            Self::Tracing => "tracing",
            Self::Guarding => "guarding",
            Self::Logging => "logging",
        })
    }
}

/// A violated rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The rule.
    pub rule: Rule,
    /// The time when it was found.
    pub at: Moment,
    /// A sentence that names request, page, versions, times and purge.
    pub text: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{} at {}: {}", self.rule, self.at, self.text)
    }
}
