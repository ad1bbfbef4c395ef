//! The meaning of each request field for sharing: one table for classification, forwarding and
//! Vary.
//!
//! Invariant: a field outside the table is [`FieldRole::Unknown`]. A request with such a field is
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
pub(crate) enum FieldRole {
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
    /// Belongs to one hop, is written by the edge, or is absent from every request for a look-up.
    /// Never forwarded, and constant as far as Vary is concerned.
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
pub(crate) fn role(name: &[u8], policy: &Policy) -> FieldRole {
    if is_selecting(name) {
        return FieldRole::Selecting;
    }
    if let Some(role) = known_role(name) {
        return role;
    }
    if is_forged(name) {
        return FieldRole::Override;
    }
    if starts(name, "X-Forwarded-") {
        return FieldRole::ProxyClaim;
    }
    let variable = VARIABLE_PREFIXES.iter().any(|prefix| starts(name, prefix));
    if variable || is_listed(name, &policy.noise_fields) || is_listed(name, &policy.forwarded_fields) {
        return FieldRole::Variable;
    }
    FieldRole::Unknown
}

/// Whether the operator declared that the field is forwarded as sent. `Accept-Encoding` cannot be,
/// because it is reduced to two values.
pub(crate) fn is_forwarded(name: &[u8], policy: &Policy) -> bool {
    is_listed(name, &policy.forwarded_fields)
        && role(name, policy) == FieldRole::Variable
        && !name.eq_ignore_ascii_case(names::ACCEPT_ENCODING.as_bytes())
}

/// Whether the operator's declaration of the field called `name` as noise, or as `forwarded`, would
/// have no effect.
///
/// The declaration has none if the field has a fixed meaning. A declaration that repeats the
/// field's meaning is harmless and gives `false`.
pub fn is_void_declaration(name: &str, forwarded: bool) -> bool {
    let is = |known: &str| name.eq_ignore_ascii_case(known);
    match role(name.as_bytes(), &Policy::default_profile()) {
        FieldRole::Unknown => false,
        FieldRole::Variable if forwarded => is(names::ACCEPT_ENCODING),
        FieldRole::Variable => is("Accept"),
        FieldRole::Selecting => is(ORIGIN),
        FieldRole::Address => forwarded,
        FieldRole::Keyed
        | FieldRole::Constant
        | FieldRole::MethodOverride
        | FieldRole::ProxyClaim
        | FieldRole::Override => true,
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
    let claims = |role| {
        matches!(
            role,
            FieldRole::Override | FieldRole::Address | FieldRole::MethodOverride | FieldRole::ProxyClaim
        )
    };
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
    starts(name, "X-") && known_role(name) == Some(FieldRole::MethodOverride)
}

/// Whether this field alone makes it doubtful that the response can be shared.
pub(crate) fn is_doubtful(field: &Field, policy: &Policy) -> bool {
    role(&field.name, policy) == FieldRole::Unknown
}

/// The row of the table for `name`. Rows are grouped by length, because every field of every
/// request is looked up here.
fn known_role(name: &[u8]) -> Option<FieldRole> {
    static BY_LENGTH: LazyLock<Vec<Vec<(&str, FieldRole)>>> = LazyLock::new(|| {
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
const ROLES: &[(&str, FieldRole)] = &[
    (names::HOST, FieldRole::Keyed),
    ("A-IM", FieldRole::Variable),
    ("Accept", FieldRole::Variable),
    ("Accept-Charset", FieldRole::Variable),
    (names::ACCEPT_ENCODING, FieldRole::Variable),
    ("Accept-Language", FieldRole::Variable),
    ("Alt-Used", FieldRole::Variable),
    ("Amp-Cache-Transform", FieldRole::Variable),
    ("B3", FieldRole::Variable),
    ("Baggage", FieldRole::Variable),
    ("Correlation-Context", FieldRole::Variable),
    ("Device-Memory", FieldRole::Variable),
    ("DNT", FieldRole::Variable),
    ("Downlink", FieldRole::Variable),
    ("DPR", FieldRole::Variable),
    ("ECT", FieldRole::Variable),
    ("Newrelic", FieldRole::Variable),
    ("Priority", FieldRole::Variable),
    ("Purpose", FieldRole::Variable),
    ("Referer", FieldRole::Variable),
    ("Request-Context", FieldRole::Variable),
    ("Request-Id", FieldRole::Variable),
    ("RTT", FieldRole::Variable),
    ("Save-Data", FieldRole::Variable),
    ("Sentry-Trace", FieldRole::Variable),
    ("Service-Worker", FieldRole::Variable),
    ("SingularityHeader", FieldRole::Variable),
    ("SW8", FieldRole::Variable),
    ("Traceparent", FieldRole::Variable),
    ("Tracestate", FieldRole::Variable),
    ("Uber-Trace-Id", FieldRole::Variable),
    ("Upgrade-Insecure-Requests", FieldRole::Variable),
    (names::USER_AGENT, FieldRole::Variable),
    ("Viewport-Width", FieldRole::Variable),
    ("Width", FieldRole::Variable),
    ("X-Abuse-Info", FieldRole::Variable),
    ("X-Cloud-Trace-Context", FieldRole::Variable),
    ("X-Correlation-Id", FieldRole::Variable),
    ("X-DynaTrace", FieldRole::Variable),
    ("X-Moz", FieldRole::Variable),
    ("X-Purpose", FieldRole::Variable),
    ("X-Request-Id", FieldRole::Variable),
    ("X-Request-Start", FieldRole::Variable),
    ("X-Timer", FieldRole::Variable),
    ("X-Trace-Id", FieldRole::Variable),
    ("X-Turbo-Request-Id", FieldRole::Variable),
    ("X-Varnish", FieldRole::Variable),
    ("X-Wap-Profile", FieldRole::Variable),
    ("CF-Connecting-IP", FieldRole::Address),
    ("CF-Connecting-IPv6", FieldRole::Address),
    ("CF-IPCountry", FieldRole::Address),
    ("Fastly-Client-IP", FieldRole::Address),
    (names::FORWARDED, FieldRole::Address),
    ("From", FieldRole::Address),
    ("True-Client-IP", FieldRole::Address),
    ("X-Client-IP", FieldRole::Address),
    ("X-Client-Geo-Location", FieldRole::Address),
    ("X-Cluster-Client-IP", FieldRole::Address),
    (names::X_FORWARDED_FOR, FieldRole::Address),
    ("X-Real-IP", FieldRole::Address),
    (names::AUTHORIZATION, FieldRole::Constant),
    (names::CACHE_CONTROL, FieldRole::Constant),
    ("CDN-Loop", FieldRole::Constant),
    (names::CONNECTION, FieldRole::Constant),
    (names::CONTENT_LENGTH, FieldRole::Constant),
    (names::CONTENT_TYPE, FieldRole::Constant),
    (names::COOKIE, FieldRole::Constant),
    (names::DATE, FieldRole::Constant),
    (names::EXPECT, FieldRole::Constant),
    ("HTTP2-Settings", FieldRole::Constant),
    (names::IF_MATCH, FieldRole::Constant),
    (names::IF_MODIFIED_SINCE, FieldRole::Constant),
    (names::IF_NONE_MATCH, FieldRole::Constant),
    (names::IF_RANGE, FieldRole::Constant),
    (names::IF_UNMODIFIED_SINCE, FieldRole::Constant),
    (names::KEEP_ALIVE, FieldRole::Constant),
    (names::MAX_FORWARDS, FieldRole::Constant),
    (names::PRAGMA, FieldRole::Constant),
    (names::PROXY_AUTHORIZATION, FieldRole::Constant),
    (names::PROXY_CONNECTION, FieldRole::Constant),
    (names::RANGE, FieldRole::Constant),
    (names::TE, FieldRole::Constant),
    (names::TRAILER, FieldRole::Constant),
    (names::TRANSFER_ENCODING, FieldRole::Constant),
    (names::UPGRADE, FieldRole::Constant),
    (names::VIA, FieldRole::Constant),
    (names::X_FORWARDED_HOST, FieldRole::Constant),
    (names::X_FORWARDED_PROTO, FieldRole::Constant),
    ("X-HTTP-Method", FieldRole::MethodOverride),
    ("X-HTTP-Method-Override", FieldRole::MethodOverride),
    ("X-Method-Override", FieldRole::MethodOverride),
    ("Front-End-Https", FieldRole::ProxyClaim),
    ("X-Scheme", FieldRole::ProxyClaim),
    ("X-Url-Scheme", FieldRole::ProxyClaim),
    ("Proxy", FieldRole::Override),
    ("Surrogate-Capability", FieldRole::Override),
    (names::SURROGATE_CONTROL, FieldRole::Override),
    (names::SURROGATE_KEY, FieldRole::Override),
    ("X-Host", FieldRole::Override),
    ("X-Http-Host-Override", FieldRole::Override),
    ("X-Original-Host", FieldRole::Override),
    ("X-Original-URL", FieldRole::Override),
    ("X-Rewrite-URL", FieldRole::Override),
];

#[cfg(test)]
mod tests {
    use super::{FieldRole, ROLES, is_method_override, is_void_declaration, role};
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
            let overrides = *expected == FieldRole::MethodOverride;
            assert_eq!(is_method_override(name.to_ascii_lowercase().as_bytes()), overrides, "{name}");
        }
    }

    #[test]
    fn unlisted_field_is_unknown_unless_declared() {
        let mut policy = Policy::default_profile();
        assert_eq!(role(b"X-Api-Key", &policy), FieldRole::Unknown);
        assert_eq!(role(b"sec-ch-ua-platform", &policy), FieldRole::Variable);
        assert_eq!(role(b"X-Forwarded-Prefix", &policy), FieldRole::ProxyClaim);
        policy.noise_fields.push(Pattern::new("x-api-*"));
        assert_eq!(role(b"X-Api-Key", &policy), FieldRole::Variable);
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
            assert_eq!(role(forged.as_bytes(), &policy), FieldRole::Override, "{forged}");
        }
        for own in ["api_key", "Accept_Language", "X_Request_Id", "_"] {
            assert_eq!(role(own.as_bytes(), &policy), FieldRole::Unknown, "{own}");
        }
    }
}
