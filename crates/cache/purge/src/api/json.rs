//! Accessors for JSON content that keep the path at hand, so that a fault names its place.

use crate::malformed::{Malformed, MalformedFault, MalformedPlace};
use serde_json::{Map, Value};

/// The JSON object that is the content of a call.
pub(super) struct JsonObject(Map<String, Value>);

impl JsonObject {
    /// Parses the content, which must be one object.
    pub(super) fn parse(content: &[u8]) -> Result<Self, Malformed> {
        let at_content = |fault| Malformed { place: MalformedPlace::Content, fault };
        if content.trim_ascii().is_empty() {
            return Err(at_content(MalformedFault::Missing("a JSON object")));
        }
        match serde_json::from_slice(content) {
            Ok(Value::Object(members)) => Ok(Self(members)),
            Ok(other) => {
                let found = kind(&other).to_owned();
                Err(at_content(MalformedFault::Expected { expected: "an object", found }))
            }
            Err(error) => Err(at_content(MalformedFault::Json(error.to_string()))),
        }
    }

    /// Whether there is a member of this name that is not `null`.
    pub(super) fn has(&self, name: &str) -> bool {
        self.0.get(name).is_some_and(|value| !value.is_null())
    }

    fn member(&self, name: &str) -> Option<&Value> {
        self.0.get(name).filter(|value| !value.is_null())
    }

    /// The member of this name, which must be a string; `None` if it is missing or `null`.
    pub(super) fn text(&self, name: &str) -> Result<Option<&str>, Malformed> {
        self.member(name).map(|value| text(value, name)).transpose()
    }

    /// The member of this name, which must be true or false; `None` if it is missing or `null`.
    pub(super) fn flag(&self, name: &str) -> Result<Option<bool>, Malformed> {
        let flag = |value: &Value| value.as_bool().ok_or_else(|| unexpected(name, "true or false", value));
        self.member(name).map(flag).transpose()
    }

    /// The elements of an array with at least one and at most `count_max` elements, each with its
    /// path.
    pub(super) fn elements(
        &self,
        name: &'static str,
        count_max: usize,
    ) -> Result<Vec<(String, &Value)>, Malformed> {
        let value = self.member(name).ok_or_else(|| {
            Malformed::json(name, MalformedFault::Missing("an array with at least one element"))
        })?;
        let array = value.as_array().ok_or_else(|| unexpected(name, "an array", value))?;
        if array.is_empty() {
            return Err(Malformed::json(name, MalformedFault::Missing("at least one element")));
        }
        if array.len() > count_max {
            return Err(Malformed::json(name, MalformedFault::TooManyEntries(count_max)));
        }
        let path = |index| format!("{name}[{index}]");
        Ok(array.iter().enumerate().map(|(index, value)| (path(index), value)).collect())
    }

    /// The elements of an array of strings that are not empty, each with its path.
    pub(super) fn texts(
        &self,
        name: &'static str,
        count_max: usize,
    ) -> Result<Vec<(String, &str)>, Malformed> {
        let elements = self.elements(name, count_max)?.into_iter();
        elements
            .map(|(path, value)| {
                let text = text(value, &path)?;
                if text.is_empty() {
                    return Err(Malformed::json(path, MalformedFault::Missing("a text that is not empty")));
                }
                Ok((path, text))
            })
            .collect()
    }
}

/// The string at this path.
pub(super) fn text<'a>(value: &'a Value, path: &str) -> Result<&'a str, Malformed> {
    value.as_str().ok_or_else(|| unexpected(path, "a string", value))
}

/// The fault that a value is of another kind than expected.
pub(super) fn unexpected(path: &str, expected: &'static str, found: &Value) -> Malformed {
    Malformed::json(path, MalformedFault::Expected { expected, found: kind(found).to_owned() })
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}
