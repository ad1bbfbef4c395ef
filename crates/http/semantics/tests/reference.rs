//! Parts of the decisions compared with slow and readable models from the text of the RFCs: list
//! syntax and directives, patterns, Vary and forwarding. Whole decisions are compared in `sharing`.

use clock::{Monotonic, Timestamp};
use message::{Fields, Method, RequestHead, ResponseHead, Status, Version};
use petasos_semantics::{
    Directives, Forwarding, Judgement, Moment, Pattern, Policy, RequestClass, VaryRule, classify_request,
    explain_refusal, explain_request, invalidated_targets, judge_response, selecting_rule, shared_fields,
    updated_head, validation_fields,
};
use proptest::prelude::*;

/// RFC 9110 sections 5.6.1 and 5.6.4, one byte after the other: the members of a list, and whether
/// the last one is an unclosed quoted string.
fn model_members(value: &str) -> Vec<(String, bool)> {
    let mut members = Vec::new();
    let mut member = String::new();
    let mut quoted = false;
    let mut escaped = false;
    for char in value.chars() {
        if escaped {
            escaped = false;
        } else if quoted && char == '\\' {
            escaped = true;
        } else if char == '"' {
            quoted = !quoted;
        } else if char == ',' && !quoted {
            members.push((std::mem::take(&mut member), false));
            continue;
        }
        member.push(char);
    }
    members.push((member, quoted));
    members.retain(|(member, _)| !member.trim().is_empty());
    members.into_iter().map(|(member, open)| (member.trim().to_owned(), open)).collect()
}

/// The lifetime that `max-age` gives and whether storing is forbidden, by RFC 9111 section 5.2 and
/// the stricter rules of the crate.
fn model_max_age_and_no_store(lines: &[String]) -> (Option<u64>, bool) {
    let mut max_age: Option<u64> = None;
    let mut no_store = false;
    for (member, open) in lines.iter().flat_map(|line| model_members(line)) {
        if open {
            no_store = true;
            continue;
        }
        let (name, argument) = match member.split_once('=') {
            Some((name, argument)) => (name, Some(argument)),
            None => (member.as_str(), None),
        };
        if name.trim().eq_ignore_ascii_case("no-store") {
            no_store = true;
        }
        if name.trim().eq_ignore_ascii_case("max-age") {
            let unquoted =
                argument.map(|text| match text.strip_prefix('"').and_then(|text| text.strip_suffix('"')) {
                    Some(inside) if text.len() > 1 => inside,
                    _ => text,
                });
            let digits = unquoted.filter(|text| {
                name == name.trim() && !text.is_empty() && text.chars().all(|char| char.is_ascii_digit())
            });
            let secs =
                digits.map_or(0, |digits| digits.parse::<u128>().unwrap_or(u128::MAX).min(1 << 31) as u64);
            max_age = Some(max_age.map_or(secs, |before| before.min(secs)));
        }
    }
    (max_age, no_store)
}

/// Field values made of the tokens that matter.
fn control_lines() -> impl Strategy<Value = Vec<String>> {
    let piece = prop::sample::select(vec![
        "max-age",
        "MAX-AGE",
        "no-store",
        "ext",
        "=",
        "=",
        "\"",
        "\"",
        "\\",
        ",",
        ",",
        " ",
        "\t",
        "10",
        "7",
        "99999999999",
        "a",
        "-",
    ]);
    let line = prop::collection::vec(piece, 0..14).prop_map(|pieces| pieces.concat());
    prop::collection::vec(line, 0..4)
}

fn fields_of(name: &'static str, lines: &[String]) -> Fields {
    let mut fields = Fields::new();
    lines.iter().for_each(|line| fields.push(name, line.clone()));
    fields
}

const EPOCH_SECS: u64 = 1_700_000_000;

fn moment(secs: u64) -> Moment {
    Moment {
        wall: Timestamp::from_secs(EPOCH_SECS + secs),
        monotonic: Monotonic::from_nanos(secs * 1_000_000_000),
    }
}

fn get(fields: Fields) -> RequestHead {
    RequestHead { method: Method::Get, target: "/".into(), version: Version::Http11, fields }
}

/// Values that clients send in the fields that may select a variant.
fn client_fields() -> impl Strategy<Value = Fields> {
    let name = prop::sample::select(vec![
        "Accept",
        "Accept-Encoding",
        "Accept-Language",
        "User-Agent",
        "Save-Data",
        "Cookie",
        "X-Forwarded-Host",
        "X-Api-Key",
        "Referer",
        "Sec-Fetch-Mode",
    ]);
    let value = prop::sample::select(vec![
        "",
        "a",
        "b",
        "a, b",
        "a,b",
        "gzip",
        "gzip, br",
        "*/*",
        "de,en;q=0.5",
        "en;q=0.5,de",
        "en",
        "de",
    ]);
    prop::collection::vec((name, value), 0..8).prop_map(|lines| {
        let mut fields = Fields::new();
        fields.push("Host", "example.org");
        lines.into_iter().for_each(|(name, value)| fields.push(name, value));
        fields
    })
}

/// Names that may select a variant.
const NAMES: &[&str] =
    &["Accept", "Accept-Encoding", "Accept-Language", "Cookie", "X-Forwarded-Host", "X-Api-Key"];

/// RFC 9111 section 4.1: the meaning of a field, for comparison. A list of preferences is a set of
/// names with weights, and any other list is its members in order.
fn model_meaning(fields: &Fields, name: &str) -> Option<Vec<String>> {
    if !fields.has(name) {
        return None;
    }
    let lines: Vec<_> = fields.all(name).map(|value| value.escape_ascii().to_string()).collect();
    let joined = lines.join(",");
    let mut members: Vec<_> = joined.split(',').map(|member| member.trim().to_owned()).collect();
    if name == "Cookie" {
        return Some(vec![joined]);
    }
    if name == "Accept-Encoding" || name == "Accept-Language" {
        members.retain(|member| !member.is_empty());
        members.sort();
        members.dedup();
    }
    Some(members)
}

/// Whether the page is in one language that the first request named and that the second request
/// prefers.
fn model_favours(one: &Fields, other: &Fields, language: &str) -> bool {
    let weights = |fields: &Fields| -> Vec<(String, bool)> {
        let members = model_meaning(fields, "Accept-Language").unwrap_or_default();
        members
            .into_iter()
            .map(|member| match member.split_once(';') {
                // The only weight in these tests is below 1.
                Some((name, _)) => (name.to_owned(), false),
                None => (member, true),
            })
            .collect()
    };
    let best: Vec<_> =
        weights(other).into_iter().filter(|(_, is_best)| *is_best).map(|(name, _)| name).collect();
    weights(one).iter().any(|(name, _)| name == language) && best == [language]
}

fn rules() -> impl Strategy<Value = VaryRule> {
    let name = prop::sample::select(vec![
        "accept",
        "Accept-Encoding",
        "Accept-Language",
        "User-Agent",
        "save-data",
        "Cookie",
    ]);
    prop::collection::vec(name, 0..5).prop_map(|names| {
        let mut response = Fields::new();
        response.push("Vary", names.join(", "));
        VaryRule::from_response(&response, &Policy::default_profile()).unwrap_or_default()
    })
}

proptest! {
    #[test]
    fn directives_agree_with_the_model(lines in control_lines()) {
        let directives = Directives::of_response(&fields_of("Cache-Control", &lines));
        let (max_age, no_store) = model_max_age_and_no_store(&lines);
        prop_assert_eq!(directives.max_age_secs.map(u64::from), max_age);
        prop_assert_eq!(directives.no_store, no_store);
    }

    #[test]
    fn patterns_agree_with_the_model(pattern in "[ab*]{0,8}", text in "[abAB]{0,10}") {
        fn model(pattern: &[u8], text: &[u8]) -> bool {
            match (pattern.split_first(), text.split_first()) {
                (None, None) => true,
                (Some((b'*', after)), _) => (0..=text.len()).any(|taken| model(after, &text[taken..])),
                (Some((one, after)), Some((other, rest))) => one == other && model(after, rest),
                _ => false,
            }
        }
        let expected = model(pattern.as_bytes(), text.to_ascii_lowercase().as_bytes());
        prop_assert_eq!(Pattern::new(&pattern).matches(text.as_bytes()), expected);
    }

    /// The origin sees nothing outside the key: two clients that select one variant cause exactly
    /// the same fetch. `Accept-Encoding` is an exception, which the rule of a coded response
    /// handles.
    #[test]
    fn clients_of_one_variant_cause_one_fetch(one in client_fields(), other in client_fields(), rule in rules()) {
        let policy = Policy::default_profile();
        let without_coding = |fields: &Fields| {
            let mut forwarded = shared_fields(fields, &rule, &policy);
            if !rule.selects_on(b"accept-encoding") {
                forwarded.remove("Accept-Encoding");
            }
            forwarded
        };
        let same_variant = rule.key(&one) == rule.key(&other);
        prop_assert_eq!(same_variant, rule.matches(&one, &rule.key(&other)));
        prop_assert_eq!(same_variant, without_coding(&one) == without_coding(&other));
        prop_assert_eq!(rule.key(&shared_fields(&one, &rule, &policy)), rule.key(&one));
    }

    /// If everything is forwarded, a variant matches the request that it was fetched for. It
    /// matches other requests only if they mean the same, or prefer the language of the variant.
    #[test]
    fn rfc_profile_variant_matches_requests_of_one_meaning(
        one in client_fields(),
        other in client_fields(),
        names in prop::collection::vec(prop::sample::select(NAMES), 0..4),
        language in prop::sample::select(vec!["", "de", "en", "de, en"]),
    ) {
        let policy = Policy::rfc();
        let mut response = Fields::new();
        response.push("Vary", names.join(","));
        response.push("Content-Language", language);
        let rule = VaryRule::from_response(&response, &policy).unwrap_or_default();
        let forwarded = shared_fields(&one, &VaryRule::default(), &policy);
        prop_assert_eq!(rule.key(&forwarded), rule.key(&one));
        let key = rule.stored_key(&forwarded, &response);
        prop_assert!(rule.matches(&one, &key));
        let means_the_same = |name: &&str| model_meaning(&one, name) == model_meaning(&other, name);
        let same = names.iter().filter(|name| **name != "X-Forwarded-Host").all(|name| {
            let favoured = *name == "Accept-Language" && rule.matches(&other, &key);
            means_the_same(name) || favoured && model_favours(&one, &other, language)
        });
        prop_assert_eq!(rule.matches(&other, &key), same, "{:?} {:?}", one, other);
    }

    #[test]
    fn explanation_has_the_reason_of_the_decision(
        fields in client_fields(),
        cookie in "[a-z_]{1,4}=1(; (_ga|theme|sid)=[0-9])?",
        target in prop::sample::select(vec!["/", "/wp-admin/", "/?preview=1", "/a?b=c&_wpnonce=1"]),
        has_content in prop::bool::weighted(0.1),
    ) {
        let mut request = RequestHead { target: target.into(), ..get(fields) };
        request.fields.push("Cookie", cookie);
        for policy in [Policy::default_profile(), Policy::wordpress(), Policy::rfc()] {
            let explained = explain_request(&request, has_content, &policy);
            match classify_request(&request, has_content, &policy) {
                RequestClass::Lookup(_) => prop_assert_eq!(explained, None),
                RequestClass::LookupStatic { otherwise: reason, .. } | RequestClass::Pass(reason) => {
                    prop_assert_eq!(explained.map(|(reason, _)| reason), Some(reason));
                }
            }
        }
    }

    #[test]
    fn arbitrary_field_values_break_no_decision(
        target in prop::collection::vec(any::<u8>(), 0..40),
        value in prop::collection::vec(any::<u8>(), 0..60),
        name in prop::sample::select(vec![
            "Cookie", "Accept", "Accept-Encoding", "Accept-Language", "Cache-Control", "Origin", "Pragma",
            "CDN-Cache-Control", "Surrogate-Control", "Vary", "Age", "Expires", "Date", "ETag", "Last-Modified",
            "Location", "Content-Location", "Content-Range", "Set-Cookie",
        ]),
    ) {
        let mut fields = Fields::new();
        fields.push(name, value);
        let request = RequestHead { target: target.into(), ..get(fields.clone()) };
        let mut response = ResponseHead::new(Status::OK);
        response.fields = fields.clone();
        let _ = (validation_fields(&response), updated_head(&response, &response));
        let _ = invalidated_targets(&Method::Post, true, b"a", &request.target, &response);
        for policy in [Policy::wordpress(), Policy::rfc()] {
            let class = classify_request(&request, false, &policy);
            let is_shared = policy.forwarding == Forwarding::Keyed && matches!(class, RequestClass::Lookup(_));
            if name == "Cookie" && is_shared {
                prop_assert!(!shared_fields(&fields, &VaryRule::default(), &policy).has("Cookie"));
            }
            let judgement = judge_response(&request, &response, moment(0), moment(0), &policy);
            if let Judgement::DoNotStore(reason) = judgement {
                let _ = explain_refusal(reason, &response.fields, &policy);
            }
            if let Ok(rule) = VaryRule::from_response(&response.fields, &policy) {
                let rule = rule.union(&selecting_rule(&fields, &policy));
                prop_assert!(rule.matches(&fields, &rule.stored_key(&fields, &response.fields)));
            }
        }
    }
}
