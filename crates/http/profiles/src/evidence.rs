//! Evidence in a response that a write happened: parts of a `[[write]]` row.
//!
//! Invariant: a text that cannot be read as evidence is an error of the profile. It never becomes a
//! rule that requires less.

use crate::Pattern;

/// The redirect that a response must have.
///
/// A match of the query proves nothing if the request's own query matches too. A redirect to https
/// or to another host name, for example, repeats the request's query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocationPattern {
    /// The pattern of the path. `None`: the path must be that of the request without its last
    /// segment. The request must then have no query, because a query could choose the redirect.
    pub path: Option<Pattern>,
    /// The pattern of the query. The request's own query must not match it.
    pub query: Option<Pattern>,
}

/// A field that a response must have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldPattern {
    /// The field's name.
    pub name: String,
    /// One line of the field must match one of these.
    pub values: Vec<Pattern>,
    /// That line must match none of these.
    pub unless: Vec<Pattern>,
}

/// A value that a JSON response must contain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonFact {
    /// Member names from the root; `*` means any member or element.
    pub path: Vec<String>,
    /// The pattern of the value's text.
    pub value: Pattern,
}

impl LocationPattern {
    /// Reads `PATH` or `PATH?QUERY`; `..` is the request's path without its last segment.
    pub(crate) fn parse(text: &str) -> Self {
        if text == ".." {
            return Self { path: None, query: None };
        }
        let (path, query) = match text.split_once('?') {
            Some((path, query)) => (path, Some(Pattern::new(query))),
            None => (text, None),
        };
        Self { path: Some(Pattern::new(path)), query }
    }
}

impl FieldPattern {
    /// Reads `NAME: PATTERN | PATTERN`; a pattern behind `!` must not match.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let fault = || format!("`fields` has `{text}`; write it as `Name: pattern`");
        let (name, values) = text.split_once(": ").ok_or_else(fault)?;
        let values: Vec<_> = values.split(" | ").map(str::trim).collect();
        if name.is_empty() || values.iter().any(|value| value.is_empty()) {
            return Err(fault());
        }
        let unless = values.iter().filter_map(|value| value.strip_prefix('!')).map(Pattern::new).collect();
        let values: Vec<_> =
            values.iter().filter(|value| !value.starts_with('!')).map(|value| Pattern::new(value)).collect();
        if values.is_empty() {
            return Err(fault());
        }
        Ok(Self { name: name.to_owned(), values, unless })
    }

    /// Whether a line of the field is evidence.
    pub fn matches(&self, line: &[u8]) -> bool {
        self.values.iter().any(|pattern| pattern.matches(line))
            && !self.unless.iter().any(|pattern| pattern.matches(line))
    }
}

impl JsonFact {
    /// Reads `PATH=PATTERN, PATH=PATTERN`, a list of conditions that must all hold.
    pub(crate) fn parse_all(text: &str) -> Result<Vec<Self>, String> {
        let fault = || format!("a [[write]] has the JSON value `{text}`; write it as `path=pattern`");
        let read = |fact: &str| {
            let (path, value) = fact.trim().split_once('=').ok_or_else(fault)?;
            if path.split('.').any(str::is_empty) {
                return Err(fault());
            }
            Ok(Self { path: path.split('.').map(str::to_owned).collect(), value: Pattern::new(value) })
        };
        text.split(',').map(read).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{FieldPattern, JsonFact, LocationPattern};

    #[test]
    fn unreadable_evidence_is_an_error() {
        for text in ["Set-Cookie", ": x", "A: ", "A: b | ", "A: !b"] {
            assert!(FieldPattern::parse(text).is_err(), "{text}");
        }
        for text in ["status", "a..b=1", "a=1,", "=1"] {
            assert!(JsonFact::parse_all(text).is_err(), "{text}");
        }
    }

    #[test]
    fn evidence_is_read_part_by_part() {
        let field = FieldPattern::parse("Set-Cookie: a=* | b=*").unwrap();
        assert_eq!((field.name.as_str(), field.values.len()), ("Set-Cookie", 2));
        let field = FieldPattern::parse("Set-Cookie: messages=* | !messages=\"\"*").unwrap();
        assert!(field.matches(b"messages=W1s; Path=/") && !field.matches(b"messages=\"\"; Max-Age=0"));
        let facts = JsonFact::parse_all("status=draft, slug=").unwrap();
        assert_eq!((facts.len(), facts[1].value.matches(b"")), (2, true));
        let location = LocationPattern::parse("*/wp-admin/*?*message=*");
        assert!(location.path.unwrap().matches(b"/wp-admin/post.php"));
        assert_eq!(LocationPattern::parse("..").path, None);
        assert!(location.query.unwrap().matches(b"post=1&message=6"));
    }
}
