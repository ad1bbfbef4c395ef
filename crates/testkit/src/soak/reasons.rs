//! Rules for the reasons of responses: which occur in a soak, and their necessary causes.
//!
//! Invariant: a reason without a rule is reported as a problem.

/// Reasons of ordinary responses to the visitors of a soak.
pub(super) const ORDINARY: [&str; 35] = [
    "hit-fresh",
    "hit-revalidated",
    "stale-while-revalidate",
    "miss-absent",
    "miss-expired",
    "miss-no-cache",
    "miss-no-lifetime",
    "miss-part",
    "miss-invalidated",
    "miss-variant",
    "miss-collapsed",
    "store-refused-method",
    "store-refused-status",
    "store-refused-private",
    "store-refused-no-store",
    "store-refused-no-cache",
    "store-refused-no-freshness",
    "store-refused-expired",
    "store-refused-partial",
    "store-refused-too-large",
    "pass-method",
    "pass-request-body",
    "pass-upgrade",
    "pass-cookie",
    "pass-unknown-cookie",
    "pass-unknown-field",
    "pass-accept",
    "pass-leak-guard",
    "purged",
    "fixed-answer",
    "static-file",
    // A slow origin is one of the failures, and a purged page may wait for it.
    "stale-origin-slow",
    "stale-origin-busy",
    "stale-on-error",
    "stale-breaker-open",
];

/// Reasons of responses while an origin fails. Nothing else may cause them.
pub(super) const FAILING: [&str; 10] = [
    "store-refused-maintenance",
    "origin-bad-response",
    "origin-refused-connection",
    "origin-unreachable",
    "origin-timeout",
    "origin-truncated",
    "origin-failing",
    "origin-breaker-open",
    "queue-full",
    "queue-timeout",
];

/// Reasons of requests whose client left.
pub(super) const LEFT: [&str; 1] = ["visitor-gone"];

/// Reasons of refusals by guards.
pub(super) const GUARDED: [&str; 3] = ["client-rate", "client-origin-rate", "parameter-flood"];
