//! Decides which request fields are forwarded. A shared fetch carries only the key, constants and
//! fields that the operator vouched for.
//!
//! A shared response must not depend on anything that only one client sent. Otherwise that client
//! would choose the response for all others. The origin's `Vary` is not enough protection, because
//! origins often read fields that their `Vary` does not name. These rules hold for a fetch whose
//! response may be shared:
//!
//! 1. `Host` is forwarded, because it is in the key, as is the target.
//! 2. `Accept-Encoding` is forwarded as one of two constants; both offer gzip. A response with
//!    another coding varies on it.
//! 3. `Accept` and `User-Agent` are sent as constants.
//! 4. Any other field, and the client's own `Accept` and `User-Agent`, are forwarded only if a
//!    known Vary of this key names them. They are then part of the variant key, in the same
//!    normalised form.
//! 5. A field that the operator declared forwarded is forwarded as the client sent it. The operator
//!    vouches that the application names it in Vary if it changes a page.
//! 6. Cookies that the policy has in the key are forwarded as one line: see `keyed_cookies`.
//! 7. A field that changes pages whatever `Vary` says is forwarded, and is in the key of the
//!    response: see `selecting`. If pages differ by device class, `User-Agent` is the constant of
//!    the client's class: see `devices`.
//! 8. All other fields are dropped.
//!
//! The first response for a key is therefore fetched without negotiation. It may turn out to vary
//! on a field that the client sent. Then `rule.key` of the client's fields differs from that of the
//! forwarded fields, so the response is another variant than the client's. The client's own variant
//! is fetched next, with the rule known. A field outside the table makes the request pass, so no
//! application misses it.

use crate::VaryRule;
use crate::accepted_codings::AcceptedCodings;
use crate::coded_tags::restore_tags;
use crate::devices::{has_classes, shared_user_agent};
use crate::keyed_cookies::keyed_cookies;
use crate::request_fields::{FieldRole, is_forwarded, is_known, role};
use crate::selecting::is_selecting;
use crate::vary::normalised_value;
use message::{Field, Fields, names};
use profiles::{Forwarding, Policy};

/// The fields of a fetch whose response may be shared.
///
/// `known` is the rule that the responses of this key are known to have; the default rule if none
/// is known. The edge adds the fields that it writes itself. These must be the same for every
/// client, to keep the invariant.
pub fn shared_fields(fields: &Fields, known: &VaryRule, policy: &Policy) -> Fields {
    if policy.forwarding == Forwarding::Everything {
        return end_to_end_fields(fields, policy);
    }
    let mut forwarded: Fields =
        fields.iter().filter(|field| role(&field.name, policy) == FieldRole::Keyed).cloned().collect();
    forwarded.push(names::ACCEPT_ENCODING, AcceptedCodings::of(fields).offer());
    let declared = |name: &[u8]| is_forwarded(name, policy) && !known.selects_on(name);
    for field in fields.iter().filter(|field| declared(&field.name)) {
        forwarded.push(field.name.clone(), field.value.clone());
    }
    let agent = shared_user_agent(fields, policy);
    if has_classes(policy) {
        // The class replaces a User-Agent that was declared forwarded, because only the class is in
        // the key.
        forwarded.set(names::USER_AGENT, agent);
    }
    for (name, constant) in [("Accept", "*/*"), (names::USER_AGENT, agent)] {
        if !known.selects_on(name.as_bytes()) && !forwarded.has(name) {
            forwarded.push(name, constant);
        }
    }
    if let Some(cookies) = keyed_cookies(fields, policy) {
        forwarded.push(names::COOKIE, cookies);
    }
    for field in fields.iter().filter(|field| is_selecting(&field.name) && !known.selects_on(&field.name)) {
        if !forwarded.iter().any(|sent| sent.name.eq_ignore_ascii_case(&field.name))
            && let Some(value) = normalised_value(fields, &field.name)
        {
            forwarded.push(field.name.clone(), value);
        }
    }
    let elsewhere: [&[u8]; 2] = [b"accept-encoding", b"cookie"];
    let is_elsewhere = |name: &[u8]| {
        elsewhere.contains(&name) || has_classes(policy) && name.eq_ignore_ascii_case(b"user-agent")
    };
    for name in known.names().iter().filter(|name| !is_elsewhere(name)) {
        if let Some(value) = normalised_value(fields, name) {
            forwarded.push(name.clone(), value);
        }
    }
    forwarded
}

/// All fields that the client sent and that may be forwarded on a fetch whose response may be
/// stored.
fn end_to_end_fields(fields: &Fields, policy: &Policy) -> Fields {
    fields.iter().filter(|field| is_sent_on(&field.name, policy)).cloned().collect()
}

/// Whether the field called `name` is forwarded as sent under a policy that forwards everything.
/// The exceptions are fields that only the edge may write, fields of one hop, and fields that ask
/// for less than the whole content.
pub(crate) fn is_sent_on(name: &[u8], policy: &Policy) -> bool {
    let listed = |list: &[&str]| list.iter().any(|known| name.eq_ignore_ascii_case(known.as_bytes()));
    let role = role(name, policy);
    let for_passes_only =
        matches!(role, FieldRole::Override | FieldRole::MethodOverride | FieldRole::ProxyClaim);
    !for_passes_only && !listed(CLAIMS) && !listed(NOT_SHARED)
}

/// Fields that are not forwarded on a fetch whose response may be stored.
const NOT_SHARED: &[&str] = &[
    "CDN-Loop",
    names::CONNECTION,
    names::CONTENT_LENGTH,
    names::EXPECT,
    "HTTP2-Settings",
    names::IF_MATCH,
    names::IF_MODIFIED_SINCE,
    names::IF_NONE_MATCH,
    names::IF_RANGE,
    names::IF_UNMODIFIED_SINCE,
    names::KEEP_ALIVE,
    names::MAX_FORWARDS,
    names::PROXY_AUTHORIZATION,
    names::PROXY_CONNECTION,
    names::RANGE,
    names::TE,
    names::TRAILER,
    names::TRANSFER_ENCODING,
    names::UPGRADE,
    names::VIA,
];

/// The fields of a request forwarded for its client alone.
///
/// Fields are dropped if they claim another URL, host, scheme or client address than the
/// connection's own. Fields about the client's connection from a proxy in front are kept if the
/// proxy is `trusted`. Hop-by-hop fields are kept here; the connection's writer handles them.
/// Entity tags that Petasos has made are replaced by the origin's.
pub fn passed_fields(fields: &Fields, trusted: bool, policy: &Policy) -> Fields {
    let is_claim = |field: &Field| CLAIMS.iter().any(|name| field.is(name));
    let keep = |field: &&Field| match role(&field.name, policy) {
        FieldRole::Override => false,
        FieldRole::ProxyClaim => trusted,
        _ => !is_claim(field),
    };
    let mut passed: Fields = fields.iter().filter(keep).cloned().collect();
    restore_tags(&mut passed);
    passed
}

/// The fields of a trailer section, of a request or a response, that are forwarded.
///
/// Fields are dropped if a recipient could take them for fields of the head. Fields that frame,
/// route, authenticate or guide caches may not be in a trailer section (RFC 9110 section 6.5.1).
/// Some recipients merge both sections, and such a field would then escape every check of the head.
pub fn trailer_fields(fields: &Fields) -> Fields {
    let keep = |field: &&Field| {
        let starts = |prefix: &str| {
            field.name.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix.as_bytes()))
        };
        let of_a_head = is_known(&field.name)
            || HEAD_ONLY.iter().any(|name| field.is(name))
            || HEAD_ONLY_PREFIXES.iter().any(|prefix| starts(prefix));
        !of_a_head
    };
    fields.iter().filter(keep).cloned().collect()
}

/// Fields of response heads, in addition to those of requests, that no trailer section may repeat.
const HEAD_ONLY: &[&str] = &[
    names::ACCEPT_RANGES,
    names::AGE,
    names::CACHE_STATUS,
    names::CDN_CACHE_CONTROL,
    names::ETAG,
    names::EXPIRES,
    names::LAST_MODIFIED,
    names::LOCATION,
    names::PROXY_AUTHENTICATE,
    "Proxy-Authentication-Info",
    "Refresh",
    names::RETRY_AFTER,
    names::SERVER,
    names::SET_COOKIE,
    "Strict-Transport-Security",
    names::VARY,
    "WWW-Authenticate",
];

/// Families of fields that no trailer section may repeat.
const HEAD_ONLY_PREFIXES: &[&str] = &["Access-Control-", "Content-", "Cross-Origin-", "X-Accel-"];

/// Fields that only the edge, or a proxy that it trusts, may write.
const CLAIMS: &[&str] = &[
    names::X_FORWARDED_FOR,
    names::X_FORWARDED_HOST,
    names::X_FORWARDED_PROTO,
    names::FORWARDED,
    "X-Real-IP",
];

#[cfg(test)]
mod tests {
    use super::{passed_fields, shared_fields, trailer_fields};
    use crate::VaryRule;
    use crate::devices::SHARED_USER_AGENT;
    use message::Fields;
    use profiles::{Pattern, Policy};

    fn fields(lines: &[(&'static str, &'static str)]) -> Fields {
        lines.iter().copied().collect()
    }

    const SENT: &[(&str, &str)] = &[
        ("Host", "example.org"),
        ("User-Agent", "attacker/1"),
        ("Accept", "text/html,*/*"),
        ("Accept-Language", "de,en"),
        ("Accept-Encoding", "gzip, x-payload"),
        ("Cookie", "_ga=1"),
        ("Referer", "http://evil.example/"),
        ("If-None-Match", "\"1\""),
        ("Range", "bytes=0-1"),
        ("X-Forwarded-Host", "evil.example"),
        ("X-Forwarded-Scheme", "http"),
        ("Forwarded", "host=evil.example"),
        ("X-Original-URL", "/admin"),
        ("X-Rewrite-URL", "/admin"),
        ("X-HTTP-Method-Override", "POST"),
        ("X-Api-Key", "1"),
    ];

    #[test]
    fn shared_fetch_carries_only_constants_and_the_key() {
        let policy = Policy::default_profile();
        let forwarded = shared_fields(&fields(SENT), &VaryRule::default(), &policy);
        let expected = fields(&[
            ("Host", "example.org"),
            ("Accept-Encoding", "gzip"),
            ("Accept", "*/*"),
            ("User-Agent", SHARED_USER_AGENT),
        ]);
        assert_eq!(forwarded, expected);
    }

    #[test]
    fn field_of_a_known_vary_is_forwarded_normalised() {
        let policy = Policy::default_profile();
        let vary = fields(&[("Vary", "Accept-Language, User-Agent, Accept-Encoding, Save-Data")]);
        let rule = VaryRule::from_response(&vary, &policy).unwrap();
        let sent = fields(SENT);
        let forwarded = shared_fields(&sent, &rule, &policy);
        let expected = fields(&[
            ("Host", "example.org"),
            ("Accept-Encoding", "gzip"),
            ("Accept", "*/*"),
            ("accept-language", "de, en"),
            ("user-agent", "attacker/1"),
        ]);
        assert_eq!(forwarded, expected);
        assert_eq!(rule.key(&forwarded), rule.key(&sent));
    }

    #[test]
    fn declared_field_is_forwarded_as_sent_unless_it_is_keyed() {
        let mut policy = Policy::default_profile();
        let declared = ["X-*", "Accept", "Accept-*", "Cookie", "Forwarded", "Range"];
        policy.forwarded_fields = declared.map(Pattern::new).to_vec();
        let sent = fields(SENT);
        let forwarded = shared_fields(&sent, &VaryRule::default(), &policy);
        let mut expected = fields(&[
            ("Host", "example.org"),
            ("Accept-Encoding", "gzip"),
            ("Accept", "text/html,*/*"),
            ("Accept-Language", "de,en"),
            ("X-Api-Key", "1"),
            ("User-Agent", SHARED_USER_AGENT),
        ]);
        assert_eq!(forwarded, expected);
        let vary = fields(&[("Vary", "Accept-Language, X-Api-Key")]);
        let rule = VaryRule::from_response(&vary, &policy).unwrap();
        assert_eq!(
            rule.key(&forwarded),
            rule.key(&sent),
            "the first answer is already the client's own variant"
        );
        expected = fields(&[
            ("Host", "example.org"),
            ("Accept-Encoding", "gzip"),
            ("Accept", "text/html,*/*"),
            ("User-Agent", SHARED_USER_AGENT),
            ("accept-language", "de, en"),
            ("x-api-key", "1"),
        ]);
        assert_eq!(shared_fields(&sent, &rule, &policy), expected);
    }

    #[test]
    fn rfc_profile_forwards_all_but_hop_and_partial_fields() {
        let policy = Policy::rfc();
        let mut sent = fields(SENT);
        for (name, value) in
            [("Cookie", "a=b"), ("Authorization", "x"), ("Pragma", "foo"), ("X_Real_IP", "192.0.2.1")]
        {
            sent.push(name, value);
        }
        for name in super::NOT_SHARED {
            sent.push(*name, "1");
        }
        let vary = fields(&[("Vary", "Accept-Language, Accept-Encoding, Cookie")]);
        let rule = VaryRule::from_response(&vary, &policy).unwrap();
        let forwarded = shared_fields(&sent, &rule, &policy);
        let expected = fields(&[
            ("Host", "example.org"),
            ("User-Agent", "attacker/1"),
            ("Accept", "text/html,*/*"),
            ("Accept-Language", "de,en"),
            ("Accept-Encoding", "gzip, x-payload"),
            ("Cookie", "_ga=1"),
            ("Referer", "http://evil.example/"),
            ("X-Api-Key", "1"),
            ("Cookie", "a=b"),
            ("Authorization", "x"),
            ("Pragma", "foo"),
        ]);
        assert_eq!(forwarded, expected);
        assert_eq!(rule.key(&forwarded), rule.key(&sent));
    }

    #[test]
    fn pass_drops_only_false_claims() {
        let passed = passed_fields(&fields(SENT), false, &Policy::default_profile());
        let names: Vec<_> = passed.iter().map(|field| field.name.escape_ascii().to_string()).collect();
        assert_eq!(
            names,
            [
                "Host",
                "User-Agent",
                "Accept",
                "Accept-Language",
                "Accept-Encoding",
                "Cookie",
                "Referer",
                "If-None-Match",
                "Range",
                "X-HTTP-Method-Override",
                "X-Api-Key"
            ]
        );
    }

    #[test]
    fn trailer_section_loses_fields_known_in_heads() {
        let sent = fields(&[
            ("Content-Length", "5"),
            ("transfer-encoding", "chunked"),
            ("Set-Cookie", "a=b"),
            ("Content-Type", "text/html"),
            ("X-Forwarded-For", "192.0.2.1"),
            ("X_Real_IP", "192.0.2.1"),
            ("Cookie", "a=b"),
            ("X-Rewrite-URL", "/admin"),
            ("Access-Control-Allow-Origin", "*"),
            ("X-Checksum", "1"),
            ("Server-Timing", "db;dur=1"),
        ]);
        assert_eq!(trailer_fields(&sent), fields(&[("X-Checksum", "1"), ("Server-Timing", "db;dur=1")]));
    }
}
