//! Judges from a response whether a layer was on. Pure functions.
//!
//! Invariant: a missing field or value never proves that a layer is on. Only [`HeaderTest::Absent`]
//! expects one to be missing.

use crate::ladder::{HeaderTest, JsonTest};
use crate::template::Variables;
use difference::text_of;
use message::Fields;
use serde_json::Value;

/// Judges a header field. `Ok` describes the field that was found; `Err` gives the reason why it
/// proves nothing.
pub(crate) fn header(
    name: &str,
    test: &HeaderTest,
    fields: &Fields,
    variables: &Variables,
) -> Result<String, String> {
    let values: Vec<String> =
        fields.all(name).map(|value| String::from_utf8_lossy(value).into_owned()).collect();
    let seen = text_of(values.join(", ").as_bytes());
    let seen = if values.is_empty() { format!("no field {name}") } else { format!("{name}: {seen}") };
    let (holds, wanted) = match test {
        HeaderTest::Absent => (values.is_empty(), "none was expected".to_owned()),
        HeaderTest::Is(text) => {
            let text = text.expand(variables);
            (values == [text.as_str()], format!("expected “{text}”"))
        }
        HeaderTest::Matches(pattern) => {
            let holds = values.iter().any(|value| pattern.0.is_match(value.as_bytes()));
            (holds, format!("expected a match of “{}”", pattern.0.as_str()))
        }
    };
    if holds { Ok(seen) } else { Err(format!("the layer is not proven: found {seen}; {wanted}")) }
}

/// Judges a value of the JSON document that was fetched from `url`. The result is like that of
/// [`header`].
pub(crate) fn json(url: &str, pointer: &str, test: &JsonTest, document: &[u8]) -> Result<String, String> {
    let document: Value = serde_json::from_slice(document)
        .map_err(|error| format!("the response of {url} is not JSON: {error}"))?;
    let value = document.pointer(pointer);
    let seen = value.map_or_else(|| "missing".to_owned(), Value::to_string);
    let seen = format!("{pointer} is {}", text_of(seen.as_bytes()));
    let (holds, wanted) = match test {
        JsonTest::Is(wanted) => {
            (value.is_some_and(|value| equal(value, wanted)), format!("expected {wanted}"))
        }
        JsonTest::Min(least) => {
            let holds = value.and_then(Value::as_f64).is_some_and(|number| number >= *least);
            (holds, format!("expected at least {least}"))
        }
    };
    if holds { Ok(seen) } else { Err(format!("the layer is not proven: {seen} at {url}; {wanted}")) }
}

/// Whether two values are equal. Numbers compare by value: 1 equals 1.0.
fn equal(a: &Value, b: &Value) -> bool {
    a == b || a.as_f64().zip(b.as_f64()).is_some_and(|(a, b)| a == b)
}

#[cfg(test)]
mod tests {
    use super::{header, json};
    use crate::ladder::{BytesPattern, HeaderTest, JsonTest};
    use crate::template::{Template, Variables};
    use message::Fields;

    fn fields() -> Fields {
        let mut fields = Fields::new();
        fields.push("X-Cache", "HIT");
        fields.push("Via", "one");
        fields.push("Via", "two");
        fields
    }

    fn judged(name: &str, test: &HeaderTest) -> Result<String, String> {
        header(name, test, &fields(), &Variables::default())
    }

    #[test]
    fn header_tests_accept_and_refuse_values() {
        let is = |text| HeaderTest::Is(Template::parse(text));
        let matches = |text| HeaderTest::Matches(BytesPattern::parse(text).unwrap());
        assert_eq!(judged("x-cache", &is("HIT")).unwrap(), "x-cache: HIT");
        assert_eq!(judged("Via", &matches("^t")).unwrap(), "Via: one, two");
        assert_eq!(judged("Age", &HeaderTest::Absent).unwrap(), "no field Age");
        assert_eq!(
            judged("X-Cache", &is("MISS")).unwrap_err(),
            "the layer is not proven: found X-Cache: HIT; expected “MISS”"
        );
        assert!(judged("Via", &is("one")).is_err(), "two values are not one");
        assert!(judged("Age", &matches(".*")).is_err(), "an absent field must match nothing");
        assert!(judged("Via", &HeaderTest::Absent).is_err());
    }

    #[test]
    fn found_values_have_no_commands_for_a_terminal() {
        let mut fields = Fields::new();
        fields.push("Via", "\u{9b}2J\u{202e}");
        let refused = header("Via", &HeaderTest::Absent, &fields, &Variables::default()).unwrap_err();
        let document = "{\"a\":\"\u{9b}2J\"}";
        let proven = json("http://s/", "/a", &JsonTest::Is("\u{9b}2J".into()), document.as_bytes()).unwrap();
        assert!(![refused, proven].concat().chars().any(difference::is_hidden));
    }

    #[test]
    fn json_tests_accept_and_refuse_values() {
        let judged = |pointer, test| json("http://s/", pointer, &test, br#"{"a":{"b":3},"c":true,"d":"x"}"#);
        assert_eq!(judged("/a/b", JsonTest::Is(3.into())).unwrap(), "/a/b is 3");
        assert!(judged("/a/b", JsonTest::Is(3.0.into())).is_ok());
        assert!(judged("/c", JsonTest::Is(true.into())).is_ok());
        assert!(judged("/d", JsonTest::Is("x".into())).is_ok());
        assert!(judged("/a/b", JsonTest::Min(3.0)).is_ok());
        assert!(judged("/a/b", JsonTest::Min(3.5)).is_err());
        assert!(judged("/d", JsonTest::Min(0.0)).is_err());
        assert_eq!(
            judged("/e", JsonTest::Is(1.into())).unwrap_err(),
            "the layer is not proven: /e is missing at http://s/; expected 1"
        );
        assert!(json("http://s/", "/a", &JsonTest::Min(0.0), b"<html>").unwrap_err().contains("JSON"));
    }
}
