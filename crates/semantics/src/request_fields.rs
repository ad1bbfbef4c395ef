//! What each request field means for sharing: one table for classification, forwarding and Vary.
//!
//! Invariant: a field that is not in the table is [`Role::Unknown`], and a request that carries one is not
//! shared unless the site's policy declares it noise. So whatever may change an answer is either in the key
//! or not forwarded.

use crate::Policy;
use message::names;

/// What a request field means for a fetch whose answer may be shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// In the key: forwarded unchanged.
    Keyed,
    /// Negotiates or informs. Forwarded only where a known Vary names it, because only then is it in the key.
    Variable,
    /// Tells who the client is or where it sits. Never forwarded; a response that varies on it is for one client.
    Address,
    /// Belongs to one hop, is written by the edge, or is absent from every request that is looked up: never
    /// forwarded, and constant as far as Vary is concerned.
    Constant,
    /// Overrides what is in the key behind the key's back. Never forwarded, not even on a pass.
    Override,
    /// Not in the table.
    Unknown,
}

/// The role of the field called `name` under `policy`.
pub(crate) fn role(name: &[u8], policy: &Policy) -> Role {
    let known = ROLES.iter().find(|(known, _)| name.eq_ignore_ascii_case(known.as_bytes()));
    if let Some((_, role)) = known {
        return *role;
    }
    let starts = |prefix: &str| {
        name.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix.as_bytes()))
    };
    if starts("X-Forwarded-") {
        return Role::Override;
    }
    let variable = VARIABLE_PREFIXES.iter().any(|prefix| starts(prefix));
    if variable || policy.noise_fields.iter().any(|pattern| pattern.matches(name)) {
        return Role::Variable;
    }
    Role::Unknown
}

/// Families of fields that browsers, proxies and tracers add and that name no resource.
const VARIABLE_PREFIXES: &[&str] = &["Sec-", "CF-", "X-B3-", "X-Amzn-Trace-", "X-Datadog-"];

/// Ordered by frequency in browsers' requests, because the scan stops at the first match.
const ROLES: &[(&str, Role)] = &[
    (names::HOST, Role::Keyed),
    (names::USER_AGENT, Role::Variable),
    ("Accept", Role::Variable),
    (names::ACCEPT_ENCODING, Role::Variable),
    ("Accept-Language", Role::Variable),
    (names::COOKIE, Role::Constant),
    (names::CONNECTION, Role::Constant),
    (names::CACHE_CONTROL, Role::Constant),
    (names::PRAGMA, Role::Constant),
    ("Referer", Role::Variable),
    ("Upgrade-Insecure-Requests", Role::Variable),
    ("Priority", Role::Variable),
    ("DNT", Role::Variable),
    (names::IF_NONE_MATCH, Role::Constant),
    (names::IF_MODIFIED_SINCE, Role::Constant),
    (names::IF_MATCH, Role::Constant),
    (names::IF_UNMODIFIED_SINCE, Role::Constant),
    (names::IF_RANGE, Role::Constant),
    (names::RANGE, Role::Constant),
    (names::AUTHORIZATION, Role::Constant),
    (names::PROXY_AUTHORIZATION, Role::Constant),
    (names::CONTENT_LENGTH, Role::Constant),
    (names::CONTENT_TYPE, Role::Constant),
    (names::EXPECT, Role::Constant),
    (names::KEEP_ALIVE, Role::Constant),
    (names::MAX_FORWARDS, Role::Constant),
    (names::PROXY_CONNECTION, Role::Constant),
    (names::TE, Role::Constant),
    (names::TRAILER, Role::Constant),
    (names::TRANSFER_ENCODING, Role::Constant),
    (names::UPGRADE, Role::Constant),
    ("HTTP2-Settings", Role::Constant),
    (names::VIA, Role::Constant),
    ("CDN-Loop", Role::Constant),
    ("Origin", Role::Constant),
    ("Date", Role::Constant),
    ("Accept-Charset", Role::Variable),
    ("Alt-Used", Role::Variable),
    ("Device-Memory", Role::Variable),
    ("Downlink", Role::Variable),
    ("DPR", Role::Variable),
    ("ECT", Role::Variable),
    ("RTT", Role::Variable),
    ("Save-Data", Role::Variable),
    ("Viewport-Width", Role::Variable),
    ("Width", Role::Variable),
    ("Purpose", Role::Variable),
    ("X-Purpose", Role::Variable),
    ("X-Moz", Role::Variable),
    ("Service-Worker", Role::Variable),
    ("Traceparent", Role::Variable),
    ("Tracestate", Role::Variable),
    ("Baggage", Role::Variable),
    ("B3", Role::Variable),
    ("X-Request-Id", Role::Variable),
    ("X-Correlation-Id", Role::Variable),
    ("X-Cloud-Trace-Context", Role::Variable),
    (names::X_FORWARDED_HOST, Role::Constant),
    (names::X_FORWARDED_PROTO, Role::Constant),
    (names::X_FORWARDED_FOR, Role::Address),
    (names::FORWARDED, Role::Address),
    ("X-Real-IP", Role::Address),
    ("X-Client-IP", Role::Address),
    ("True-Client-IP", Role::Address),
    ("CF-Connecting-IP", Role::Address),
    ("CF-Connecting-IPv6", Role::Address),
    ("CF-IPCountry", Role::Address),
    ("Fastly-Client-IP", Role::Address),
    ("X-Cluster-Client-IP", Role::Address),
    ("From", Role::Address),
    ("X-Original-URL", Role::Override),
    ("X-Rewrite-URL", Role::Override),
    ("X-Original-Host", Role::Override),
    ("X-Host", Role::Override),
    ("X-Http-Host-Override", Role::Override),
    ("X-HTTP-Method-Override", Role::Override),
    ("X-HTTP-Method", Role::Override),
    ("X-Method-Override", Role::Override),
    ("X-Scheme", Role::Override),
    ("X-Url-Scheme", Role::Override),
    ("Front-End-Https", Role::Override),
    ("Proxy", Role::Override),
];
