//! The meaning of each request field for sharing: one table for classification, forwarding and
//! Vary.
//!
//! Invariant: a field that is not in the table is [`Role::Unknown`]. A request with such a field is
//! not shared unless the site's policy declares the field noise or forwarded. A field that may
//! change a response is therefore in the key, or not forwarded, or declared. With the declaration
//! the operator vouches that the application names the field in `Vary`. A name with underscores has
//! no more power than the same name with hyphens.

use crate::selecting::{ORIGIN, is_selecting};
use message::{Field, names};
use profiles::{Pattern, Policy};
use std::borrow::Cow;
use std::sync::LazyLock;

/// The meaning of a request field for a fetch whose response may be shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// In the key, and forwarded unchanged.
    Keyed,
    /// Negotiates or informs. Forwarded only if a known Vary names it, because only then is it in
    /// the key.
    Variable,
    /// Changes the page even if no Vary names it. Forwarded whenever a request has it, and in the
    /// key.
    Selecting,
    /// Identifies or locates the client. Never forwarded; a response that varies on it is for one
    /// client.
    Address,
    /// Belongs to one hop, is written by the edge, or is absent from every request that is looked
    /// up. Never forwarded, and constant as far as Vary is concerned.
    Constant,
    /// Names another method than the request line. Forwarded on a pass only. A GET or HEAD with it
    /// passes.
    MethodOverride,
    /// Describes the client's connection to a proxy in front. Forwarded on a pass, and only from a
    /// trusted proxy.
    ProxyClaim,
    /// Overrides a part of the key without changing the key. Never forwarded, not even on a pass.
    Override,
    /// Not in the table.
    Unknown,
}

/// The role of the field called `name` under `policy`.
pub(crate) fn role(name: &[u8], policy: &Policy) -> Role {
    if is_selecting(name) {
        return Role::Selecting;
    }
    if let Some(role) = known_role(name) {
        return role;
    }
    if is_forged(name) {
        return Role::Override;
    }
    if starts(name, "X-Forwarded-") {
        return Role::ProxyClaim;
    }
    let variable = VARIABLE_PREFIXES.iter().any(|prefix| starts(name, prefix));
    if variable || is_listed(name, &policy.noise_fields) || is_listed(name, &policy.forwarded_fields) {
        return Role::Variable;
    }
    Role::Unknown
}

/// Whether the operator declared that the field is forwarded as sent. `Accept-Encoding` cannot be,
/// because it is reduced to two values.
pub(crate) fn is_forwarded(name: &[u8], policy: &Policy) -> bool {
    is_listed(name, &policy.forwarded_fields)
        && role(name, policy) == Role::Variable
        && !name.eq_ignore_ascii_case(names::ACCEPT_ENCODING.as_bytes())
}

/// Whether the operator's declaration of the field called `name` as noise, or as `forwarded`, would
/// have no effect.
///
/// That is so if the field has a fixed meaning that a declaration cannot change. A redundant
/// declaration of what is true anyway is harmless and gives `false`.
pub fn is_void_declaration(name: &str, forwarded: bool) -> bool {
    let is = |known: &str| name.eq_ignore_ascii_case(known);
    match role(name.as_bytes(), &Policy::default_profile()) {
        Role::Unknown => false,
        Role::Variable if forwarded => is(names::ACCEPT_ENCODING),
        Role::Variable => is("Accept"),
        Role::Selecting => is(ORIGIN),
        Role::Address => forwarded,
        Role::Keyed | Role::Constant | Role::MethodOverride | Role::ProxyClaim | Role::Override => true,
    }
}

fn is_listed(name: &[u8], patterns: &[Pattern]) -> bool {
    patterns.iter().any(|pattern| pattern.matches(name))
}

/// Whether the name is in the table or belongs to one of its families, independent of any policy.
pub(crate) fn is_known(name: &[u8]) -> bool {
    known_role(name).is_some() || is_selecting(name) || is_forged(name) || starts(name, "X-Forwarded-")
}

/// Whether the name has underscores where a sensitive field has hyphens. Sensitive fields override
/// the key, claim an address or a method, or frame the message. CGI and its successors (PHP, WSGI,
/// Rack) map both names to one variable, so the application takes it for that field.
fn is_forged(name: &[u8]) -> bool {
    let Cow::Owned(hyphened) = hyphened(name) else { return false };
    let claims =
        |role| matches!(role, Role::Override | Role::Address | Role::MethodOverride | Role::ProxyClaim);
    let frames = |name: &&str| hyphened.eq_ignore_ascii_case(name.as_bytes());
    [names::CONTENT_LENGTH, names::TRANSFER_ENCODING].iter().any(frames)
        || starts(&hyphened, "X-Forwarded-")
        || known_role(&hyphened).is_some_and(claims)
}

fn hyphened(name: &[u8]) -> Cow<'_, [u8]> {
    if !name.contains(&b'_') {
        return Cow::Borrowed(name);
    }
    name.iter().map(|&octet| if octet == b'_' { b'-' } else { octet }).collect::<Vec<_>>().into()
}

fn starts(name: &[u8], prefix: &str) -> bool {
    name.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix.as_bytes()))
}

/// Whether the field called `name` names another method than the request line. A variant of the
/// name with underscores is never forwarded, so it does not count.
pub(crate) fn is_method_override(name: &[u8]) -> bool {
    // This check is cheap and runs first, because it is made for every field of every request.
    starts(name, "X-") && known_role(name) == Some(Role::MethodOverride)
}

/// Whether this field alone makes it doubtful that the response can be shared.
pub(crate) fn is_doubtful(field: &Field, policy: &Policy) -> bool {
    role(&field.name, policy) == Role::Unknown
}

/// The row of the table for `name`. Rows are grouped by length, because every field of every
/// request is looked up here.
fn known_role(name: &[u8]) -> Option<Role> {
    static BY_LENGTH: LazyLock<Vec<Vec<(&str, Role)>>> = LazyLock::new(|| {
        let longest = ROLES.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
        (0..=longest)
            .map(|length| ROLES.iter().filter(|(name, _)| name.len() == length).copied().collect())
            .collect()
    });
    let rows = BY_LENGTH.get(name.len())?;
    rows.iter().find(|(known, _)| name.eq_ignore_ascii_case(known.as_bytes())).map(|(_, role)| *role)
}

/// Families of fields that browsers, proxies and tracing tools add and that do not select a
/// resource.
const VARIABLE_PREFIXES: &[&str] = &[
    "Sec-",
    "CF-",
    "CloudFront-",
    "Fastly-",
    "Akamai-",
    "Elastic-Apm-",
    "Fly-",
    "SW8-",
    "X-Akamai-",
    "X-Amz-Cf-",
    "X-Amzn-Trace-",
    "X-Azure-",
    "X-B3-",
    "X-Datadog-",
    "X-FD-",
    "X-Instana-",
    "X-NewRelic-",
    "X-OperaMini-",
];

/// The table: one row a field, sorted by role.
const ROLES: &[(&str, Role)] = &[
    (names::HOST, Role::Keyed),
    ("A-IM", Role::Variable),
    ("Accept", Role::Variable),
    ("Accept-Charset", Role::Variable),
    (names::ACCEPT_ENCODING, Role::Variable),
    ("Accept-Language", Role::Variable),
    ("Alt-Used", Role::Variable),
    ("Amp-Cache-Transform", Role::Variable),
    ("B3", Role::Variable),
    ("Baggage", Role::Variable),
    ("Correlation-Context", Role::Variable),
    ("Device-Memory", Role::Variable),
    ("DNT", Role::Variable),
    ("Downlink", Role::Variable),
    ("DPR", Role::Variable),
    ("ECT", Role::Variable),
    ("Newrelic", Role::Variable),
    ("Priority", Role::Variable),
    ("Purpose", Role::Variable),
    ("Referer", Role::Variable),
    ("Request-Context", Role::Variable),
    ("Request-Id", Role::Variable),
    ("RTT", Role::Variable),
    ("Save-Data", Role::Variable),
    ("Sentry-Trace", Role::Variable),
    ("Service-Worker", Role::Variable),
    ("SingularityHeader", Role::Variable),
    ("SW8", Role::Variable),
    ("Traceparent", Role::Variable),
    ("Tracestate", Role::Variable),
    ("Uber-Trace-Id", Role::Variable),
    ("Upgrade-Insecure-Requests", Role::Variable),
    (names::USER_AGENT, Role::Variable),
    ("Viewport-Width", Role::Variable),
    ("Width", Role::Variable),
    ("X-Abuse-Info", Role::Variable),
    ("X-Cloud-Trace-Context", Role::Variable),
    ("X-Correlation-Id", Role::Variable),
    ("X-DynaTrace", Role::Variable),
    ("X-Moz", Role::Variable),
    ("X-Purpose", Role::Variable),
    ("X-Request-Id", Role::Variable),
    ("X-Request-Start", Role::Variable),
    ("X-Timer", Role::Variable),
    ("X-Trace-Id", Role::Variable),
    ("X-Turbo-Request-Id", Role::Variable),
    ("X-Varnish", Role::Variable),
    ("X-Wap-Profile", Role::Variable),
    ("CF-Connecting-IP", Role::Address),
    ("CF-Connecting-IPv6", Role::Address),
    ("CF-IPCountry", Role::Address),
    ("Fastly-Client-IP", Role::Address),
    (names::FORWARDED, Role::Address),
    ("From", Role::Address),
    ("True-Client-IP", Role::Address),
    ("X-Client-IP", Role::Address),
    ("X-Client-Geo-Location", Role::Address),
    ("X-Cluster-Client-IP", Role::Address),
    (names::X_FORWARDED_FOR, Role::Address),
    ("X-Real-IP", Role::Address),
    (names::AUTHORIZATION, Role::Constant),
    (names::CACHE_CONTROL, Role::Constant),
    ("CDN-Loop", Role::Constant),
    (names::CONNECTION, Role::Constant),
    (names::CONTENT_LENGTH, Role::Constant),
    (names::CONTENT_TYPE, Role::Constant),
    (names::COOKIE, Role::Constant),
    (names::DATE, Role::Constant),
    (names::EXPECT, Role::Constant),
    ("HTTP2-Settings", Role::Constant),
    (names::IF_MATCH, Role::Constant),
    (names::IF_MODIFIED_SINCE, Role::Constant),
    (names::IF_NONE_MATCH, Role::Constant),
    (names::IF_RANGE, Role::Constant),
    (names::IF_UNMODIFIED_SINCE, Role::Constant),
    (names::KEEP_ALIVE, Role::Constant),
    (names::MAX_FORWARDS, Role::Constant),
    (names::PRAGMA, Role::Constant),
    (names::PROXY_AUTHORIZATION, Role::Constant),
    (names::PROXY_CONNECTION, Role::Constant),
    (names::RANGE, Role::Constant),
    (names::TE, Role::Constant),
    (names::TRAILER, Role::Constant),
    (names::TRANSFER_ENCODING, Role::Constant),
    (names::UPGRADE, Role::Constant),
    (names::VIA, Role::Constant),
    (names::X_FORWARDED_HOST, Role::Constant),
    (names::X_FORWARDED_PROTO, Role::Constant),
    ("X-HTTP-Method", Role::MethodOverride),
    ("X-HTTP-Method-Override", Role::MethodOverride),
    ("X-Method-Override", Role::MethodOverride),
    ("Front-End-Https", Role::ProxyClaim),
    ("X-Scheme", Role::ProxyClaim),
    ("X-Url-Scheme", Role::ProxyClaim),
    ("Proxy", Role::Override),
    ("Surrogate-Capability", Role::Override),
    (names::SURROGATE_CONTROL, Role::Override),
    (names::SURROGATE_KEY, Role::Override),
    ("X-Host", Role::Override),
    ("X-Http-Host-Override", Role::Override),
    ("X-Original-Host", Role::Override),
    ("X-Original-URL", Role::Override),
    ("X-Rewrite-URL", Role::Override),
];

#[cfg(test)]
mod tests {
    use super::{ROLES, Role, is_method_override, is_void_declaration, role};
    use profiles::{Pattern, Policy};

    #[test]
    fn no_field_has_two_rows() {
        for (index, (name, _)) in ROLES.iter().enumerate() {
            assert!(
                !ROLES.iter().skip(index + 1).any(|(other, _)| name.eq_ignore_ascii_case(other)),
                "{name}"
            );
        }
    }

    #[test]
    fn every_row_is_found_in_any_case() {
        let policy = Policy::default_profile();
        for (name, expected) in ROLES {
            assert_eq!(role(name.to_ascii_uppercase().as_bytes(), &policy), *expected, "{name}");
            let overrides = *expected == Role::MethodOverride;
            assert_eq!(is_method_override(name.to_ascii_lowercase().as_bytes()), overrides, "{name}");
        }
    }

    #[test]
    fn unlisted_field_is_unknown_unless_declared() {
        let mut policy = Policy::default_profile();
        assert_eq!(role(b"X-Api-Key", &policy), Role::Unknown);
        assert_eq!(role(b"sec-ch-ua-platform", &policy), Role::Variable);
        assert_eq!(role(b"X-Forwarded-Prefix", &policy), Role::ProxyClaim);
        policy.noise_fields.push(Pattern::new("x-api-*"));
        assert_eq!(role(b"X-Api-Key", &policy), Role::Variable);
    }

    #[test]
    fn declarations_without_effect_are_recognised() {
        for name in
            ["Origin", "authorization", "Cookie", "Host", "Accept", "X-Rewrite-URL", "X_Forwarded_For"]
        {
            assert!(is_void_declaration(name, false), "{name}");
        }
        for name in ["X-Own", "HX-Request", "DNT", "CF-Connecting-IP", "sentry-trace"] {
            assert!(!is_void_declaration(name, false), "{name}");
        }
        assert!(is_void_declaration("Accept-Encoding", true) && is_void_declaration("True-Client-IP", true));
        assert!(!is_void_declaration("Accept", true) && !is_void_declaration("X-Own", true));
    }

    #[test]
    fn names_with_underscores_are_not_forwarded() {
        let policy = Policy::default_profile();
        for forged in [
            "X_Forwarded_For",
            "x-forwarded_host",
            "X_FORWARDED_PREFIX",
            "X_Real-IP",
            "x_rewrite_url",
            "X_HTTP_METHOD",
            "Content_Length",
            "TRANSFER_ENCODING",
        ] {
            assert_eq!(role(forged.as_bytes(), &policy), Role::Override, "{forged}");
        }
        for own in ["api_key", "Accept_Language", "X_Request_Id", "_"] {
            assert_eq!(role(own.as_bytes(), &policy), Role::Unknown, "{own}");
        }
    }
}
