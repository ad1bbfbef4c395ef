//! Tests of the filter language, also against a slow model of it.

use super::{DEPTH_MAX, FIELDS, Filter, FilterFault, PATTERNS_MAX};
use crate::record::examples::{bare, miss};
use crate::record::{ClientName, RequestRecord};
use proptest::prelude::*;
use std::time::Duration;

fn holds(text: &str, record: &RequestRecord<'_>) -> bool {
    Filter::parse(text).unwrap_or_else(|error| panic!("{text}: {error}")).holds(record)
}

#[test]
fn conditions_hold_for_the_records_that_they_describe() {
    for text in [
        "verdict = miss and path ~ \"^/shop\"",
        "verdict==miss&&path~'^/shop'",
        "reason = miss-absent",
        "status >= 200 and status < 300 and not status = 404",
        "verdict = hit or status = 200",
        "not (verdict = hit or status = 404)",
        "! verdict = hit",
        "method = GET and host = Example.test and query = 'x=1' and target = '/shop/a?x=1'",
        "key = 'https://example.test/shop/a?x=1'",
        "site = example.test and protocol = HTTP/1.1 and tls = 1.3",
        "client = 192.0.2.0/24 and client != 10.0.0.0/8 and peer = 127.0.0.1",
        "referer ~ example and agent !~ bot",
        "trace ~ ^0af7",
        "bytes > 4096 and bytes < 1MiB and received = 80 and sent = 13200",
        "time > 100ms and time < 1s and wait = 104ms and send = 1ms and disk = 0ms and pass = 0s",
        "fetch = 17 and queue >= 1ms and connect < 1ms and first_byte > 100ms",
    ] {
        assert!(holds(text, &miss()), "{text}");
        assert!(!holds(&format!("not ({text})"), &miss()), "{text}");
    }
}

#[test]
fn missing_members_are_empty_or_zero() {
    for text in ["host = ''", "tls = \"\"", "site = ''", "key = ''", "trace = ''", "fetch = 0", "client = -"]
    {
        assert!(holds(text, &bare()) && !holds(text, &miss()), "{text}");
    }
}

#[test]
fn and_binds_more_tightly_than_or() {
    let record = miss();
    assert!(holds("status = 200 or status = 1 and status = 2", &record));
    assert!(!holds("(status = 200 or status = 1) and status = 2", &record));
}

#[test]
fn backslashes_reach_the_regular_expression() {
    let record = RequestRecord { agent: Some(b"a\"b\\"), target: b"/a.css", ..miss() };
    assert!(holds(r#"path ~ "\.css$""#, &record));
    assert!(holds(r#"agent ~ "\"b\\""#, &record));
    assert!(holds(r#"agent ~ 'a"b\\'"#, &record));
}

#[test]
fn faults_name_the_column_and_the_known_names() {
    for (text, words) in [
        ("", "at column 1: expected a field, `not` or `(`, found the end"),
        (
            "verdikt = miss",
            "at column 1: there is no field `verdikt` (did you mean `verdict`?); the fields are verdict, reason",
        ),
        (
            "verdict = mis",
            "at column 11: `verdict` is never `mis` (did you mean `miss`?); it is one of hit, stale",
        ),
        ("verdict", "at column 8: expected an operator after `verdict`: =, !=, ~ and !~, found the end"),
        ("verdict > miss", "at column 9: `verdict` has no operator >; it has =, !=, ~ and !~"),
        ("status ~ 2", "at column 8: `status` has no operator ~"),
        ("status =", "at column 9: expected a value: a word, or a text in quotes, found the end"),
        ("status = x", "at column 10: `status` needs a whole number: `x` is none"),
        ("time > 200", "at column 8: `time` needs a time with its unit, such as 200ms"),
        ("bytes > 1x", "at column 9: `bytes` needs a size, such as 4096 or 1MiB"),
        ("client = 10.0.0.1/8", "at column 10: `client` needs an address or a prefix"),
        ("path ~ '('", "at column 8: the regular expression cannot be used: unclosed group"),
        ("path ~ 'a{1000}{1000}'", "at column 8: the regular expression cannot be used: "),
        ("path = 'a", "at column 8: the quote is not closed"),
        ("(status = 1", "at column 12: expected `and`, `or` or `)`, found the end"),
        ("status = 1)", "at column 11: expected `and`, `or` or the end, found `)`"),
        ("status = 1 status = 2", "at column 12: expected `and`, `or` or the end, found `status`"),
        ("host = ä & path = b", "at column 10: expected a word, an operator or a text in quotes, found `&`"),
    ] {
        let fault = Filter::parse(text).unwrap_err().to_string();
        assert!(fault.contains(words), "{text}: {fault}");
    }
    let deep = format!("{}status = 1{}", "(".repeat(DEPTH_MAX), ")".repeat(DEPTH_MAX));
    assert!(Filter::parse(&deep).unwrap_err().to_string().contains("more than 32 levels"));
    assert!(Filter::parse(&"x".repeat(5000)).unwrap_err().to_string().contains("longer than 4096 bytes"));
    assert!(Filter::parse(&"not ".repeat(1000)).is_err());
}

#[test]
fn names_of_fields_are_unique_words() {
    for (index, row) in FIELDS.iter().enumerate() {
        assert!(row.name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'), "{}", row.name);
        assert!(!FIELDS[..index].iter().any(|other| other.name == row.name), "{}", row.name);
        assert!(!["and", "or", "not"].contains(&row.name));
    }
}

/// An expression as the slow model evaluates it: its text and its value for a record.
#[derive(Clone, Debug)]
enum Model {
    Status(&'static str, u16),
    Time(&'static str, u64),
    PathPrefix(String),
    IsGet(bool),
    Not(Box<Self>),
    And(Box<Self>, Box<Self>),
    Or(Box<Self>, Box<Self>),
}

impl Model {
    fn text(&self) -> String {
        match self {
            Self::Status(operator, value) => format!("status {operator} {value}"),
            Self::Time(operator, millis) => format!("time{operator}{millis}ms"),
            Self::PathPrefix(prefix) => format!("path ~ \"^/{prefix}\""),
            Self::IsGet(true) => "method = GET".to_owned(),
            Self::IsGet(false) => "method != GET".to_owned(),
            Self::Not(inner) => format!("not ({})", inner.text()),
            // Without parentheses where the precedence gives the same.
            Self::And(left, right) => format!("{} and {}", left.factor(), right.factor()),
            Self::Or(left, right) => format!("{} or {}", left.text(), right.text()),
        }
    }

    fn factor(&self) -> String {
        if matches!(self, Self::Or(..)) { format!("({})", self.text()) } else { self.text() }
    }

    fn holds(&self, status: u16, millis: u64, path: &str) -> bool {
        let compare = |operator: &str, left: u64, right: u64| match operator {
            "=" => left == right,
            "!=" => left != right,
            "<" => left < right,
            "<=" => left <= right,
            ">" => left > right,
            _ => left >= right,
        };
        match self {
            Self::Status(operator, value) => compare(operator, status.into(), (*value).into()),
            Self::Time(operator, value) => compare(operator, millis, *value),
            Self::PathPrefix(prefix) => path.starts_with(&format!("/{prefix}")),
            Self::IsGet(is_get) => *is_get,
            Self::Not(inner) => !inner.holds(status, millis, path),
            Self::And(left, right) => left.holds(status, millis, path) && right.holds(status, millis, path),
            Self::Or(left, right) => left.holds(status, millis, path) || right.holds(status, millis, path),
        }
    }
}

fn model() -> impl Strategy<Value = Model> {
    let operator = || prop::sample::select(vec!["=", "!=", "<", "<=", ">", ">="]);
    let leaf = prop_oneof![
        (operator(), 200u16..206).prop_map(|(operator, value)| Model::Status(operator, value)),
        (operator(), 0u64..6).prop_map(|(operator, value)| Model::Time(operator, value)),
        "[ab]{0,3}".prop_map(Model::PathPrefix),
        any::<bool>().prop_map(Model::IsGet),
    ];
    leaf.prop_recursive(5, 24, 2, |inner| {
        prop_oneof![
            inner.clone().prop_map(|inner| Model::Not(Box::new(inner))),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| Model::And(Box::new(a), Box::new(b))),
            (inner.clone(), inner).prop_map(|(a, b)| Model::Or(Box::new(a), Box::new(b))),
        ]
    })
}

#[test]
fn regular_expressions_share_their_memory() {
    let joined = |pattern: &str, count| vec![format!("path ~ \"{pattern}\""); count].join(" or ");
    assert!(Filter::parse(&joined("^/shop", PATTERNS_MAX)).is_ok());
    let error = Filter::parse(&joined("^/shop", PATTERNS_MAX + 1)).unwrap_err();
    assert_eq!(error.fault, FilterFault::TooManyPatterns);
    assert!(Filter::parse(&joined(r"\w{10}", 1)).is_ok());
    let error = Filter::parse(&joined(r"\w{10}", PATTERNS_MAX)).unwrap_err();
    assert!(matches!(error.fault, FilterFault::Pattern(_)), "{error}");
}

proptest! {
    #[test]
    fn filters_agree_with_the_slow_model(
        model in model(), status in 200u16..206, millis in 0u64..6, path in "[ab]{0,4}",
    ) {
        let target = format!("/{path}?a");
        let record = RequestRecord {
            status,
            time: Duration::from_millis(millis),
            target: target.as_bytes(),
            ..miss()
        };
        let text = model.text();
        prop_assert_eq!(holds(&text, &record), model.holds(status, millis, &format!("/{path}")), "{}", text);
    }

    #[test]
    fn any_text_is_read_or_refused_with_a_column(text in "\\PC{0,60}") {
        if let Err(error) = Filter::parse(&text) {
            prop_assert!((1..=text.chars().count() + 1).contains(&error.column));
        }
    }

    #[test]
    fn any_address_is_within_its_own_prefix(bits: u32, length in 0u32..=32) {
        let address = std::net::Ipv4Addr::from_bits(bits);
        let mask = u32::MAX.checked_shl(32 - length).unwrap_or(0);
        let network = std::net::Ipv4Addr::from_bits(bits & mask);
        let record = RequestRecord { client: ClientName::Ip(address.into()), ..miss() };
        let text = format!("client = {network}/{length}");
        prop_assert!(holds(&text, &record));
    }
}
