//! The decisions against slow models, written for reading and from the text of the RFCs: list syntax and
//! directives, age and freshness, patterns, Vary and forwarding.

use message::{Fields, Method, RequestHead, ResponseHead, Status, Version};
use petasos_semantics::{
    Directives, FreshnessState, Judgement, Moment, Pattern, Policy, RequestClass, Reuse, Storable, VaryRule,
    classify_request, format_date, judge_response, reuse, shared_fields,
};
use platform::{Monotonic, Timestamp};
use proptest::prelude::*;
use std::time::Duration;

/// RFC 9110 section 5.6.1 and 5.6.4, one octet after the other: the members of a list, and whether the last one
/// is an unclosed quoted string.
fn model_members(value: &str) -> Vec<(String, bool)> {
    let mut members = Vec::new();
    let mut member = String::new();
    let (mut quoted, mut escaped) = (false, false);
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

/// The lifetime `max-age` gives, and whether storing is forbidden, as RFC 9111 section 5.2 and the strict rules of
/// the crate say it.
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

/// Field values made of the pieces that matter.
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

/// RFC 9111 section 4.2.3 in whole seconds, with the terms of the RFC.
struct ModelAge {
    date_value: Option<i128>,
    age_value: i128,
    request_time: i128,
    response_time: i128,
}

impl ModelAge {
    fn current_age(&self, now: i128) -> i128 {
        let apparent_age = self.date_value.map_or(0, |date| (self.response_time - date).max(0));
        let response_delay = self.response_time - self.request_time;
        let corrected_age_value = self.age_value + response_delay;
        let corrected_initial_age = apparent_age.max(corrected_age_value);
        let resident_time = now - self.response_time;
        corrected_initial_age + resident_time
    }
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

/// What clients send in the fields that may select a variant.
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
    let value =
        prop::sample::select(vec!["", "a", "b", "a, b", "a,b", "gzip", "gzip, br", "*/*", "de,en;q=0.5"]);
    prop::collection::vec((name, value), 0..8).prop_map(|lines| {
        let mut fields = Fields::new();
        fields.push("Host", "example.org");
        lines.into_iter().for_each(|(name, value)| fields.push(name, value));
        fields
    })
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
    fn age_and_freshness_agree_with_the_model(
        lifetime in 0u64..400,
        age_value in 0u64..200,
        date_offset in prop::option::of(-300i64..300),
        delay in 0u64..50,
        later in 0u64..600,
    ) {
        let (request_time, response_time) = (1_000, 1_000 + delay);
        let date = date_offset.map(|offset| (response_time as i64 + offset) as u64);
        let mut response = ResponseHead::new(Status::OK);
        response.fields.push("Cache-Control", format!("max-age={lifetime}"));
        response.fields.push("Age", age_value.to_string());
        if let Some(date) = date {
            response.fields.push("Date", format_date(moment(date).wall));
        }
        let model = ModelAge {
            date_value: date.map(i128::from),
            age_value: i128::from(age_value),
            request_time,
            response_time: i128::from(response_time),
        };
        let policy = Policy::default_profile();
        let judged = judge_response(
            &get(Fields::new()), &response, moment(request_time as u64), moment(response_time), &policy,
        );
        let fresh_at = |now: u64| i128::from(lifetime) > model.current_age(i128::from(now));
        let Judgement::Store(Storable { freshness, .. }) = judged else {
            prop_assert!(!fresh_at(response_time));
            return Ok(());
        };
        prop_assert!(fresh_at(response_time));
        let now = response_time + later;
        let age = model.current_age(i128::from(now));
        prop_assert_eq!(freshness.age(moment(now)), Duration::from_secs(age as u64));
        let is_fresh = matches!(freshness.state(moment(now)), FreshnessState::Fresh(_));
        prop_assert_eq!(is_fresh, fresh_at(now));
        prop_assert_eq!(i128::from(freshness.ttl_secs(moment(now))), i128::from(lifetime) - age);
    }

    #[test]
    fn whatever_the_wall_clock_does_nothing_is_fresh_past_its_lifetime(
        lifetime in 1u64..100,
        steps in prop::collection::vec((0u64..40, 0u64..4_000), 1..10),
    ) {
        let mut response = ResponseHead::new(Status::OK);
        response.fields.push("Cache-Control", format!("max-age={lifetime}"));
        let policy = Policy::default_profile();
        let start = moment(2_000);
        let Judgement::Store(Storable { freshness, .. }) = judge_response(&get(Fields::new()), &response, start, start, &policy) else {
            return Err(TestCaseError::fail("a fresh response is stored"));
        };
        let mut elapsed = 0;
        for (passed, wall) in steps {
            elapsed += passed;
            let now = Moment { wall: moment(wall).wall, monotonic: moment(2_000 + elapsed).monotonic };
            let reused = reuse(&freshness, &Directives::default(), &policy, now);
            if elapsed >= lifetime {
                prop_assert!(matches!(reused, Reuse::Revalidate(_)), "{:?} after {}", reused, elapsed);
            }
        }
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

    /// What the origin sees depends on nothing but the key: two clients that select one variant cause the very
    /// same fetch. `Accept-Encoding` is the exception that a coded response's rule takes care of.
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

    #[test]
    fn no_octets_of_a_request_break_a_decision(
        target in prop::collection::vec(any::<u8>(), 0..40),
        value in prop::collection::vec(any::<u8>(), 0..60),
        name in prop::sample::select(vec![
            "Cookie", "Accept", "Accept-Encoding", "Cache-Control", "Origin", "Pragma", "CDN-Cache-Control",
            "Surrogate-Control", "Vary", "Age", "Expires", "Date",
        ]),
    ) {
        let policy = Policy::wordpress();
        let mut fields = Fields::new();
        fields.push(name, value);
        let request = RequestHead { target: target.into(), ..get(fields.clone()) };
        let class = classify_request(&request, false, &policy);
        if name == "Cookie" && matches!(class, RequestClass::Lookup(_)) {
            prop_assert!(!shared_fields(&fields, &VaryRule::default(), &policy).has("Cookie"));
        }
        let mut response = ResponseHead::new(Status::OK);
        response.fields = fields;
        let _ = judge_response(&request, &response, moment(0), moment(0), &policy);
        let _ = VaryRule::from_response(&response.fields, &policy);
    }
}
