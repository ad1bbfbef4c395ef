//! Which responses count as good. Any other complete response is a failure of kind *status*,
//! *length* or *body*, and its times are kept apart.
//!
//! Invariant: a response fails for one reason only. A wrong status takes precedence over a wrong
//! length, and a wrong length over wrong content.

use regex::bytes::Regex;
use std::fmt;
use std::str::FromStr;

/// The expected properties of a good response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expect {
    /// The status codes of good responses.
    pub status: StatusSet,
    /// The length of good responses.
    pub length: Length,
    /// A pattern that the content of good responses contains; `None` if the content is not checked.
    pub body: Option<BodyPattern>,
    /// A pattern that the content of good responses does not contain, for instance text meant for
    /// another visitor.
    pub never: Option<BodyPattern>,
}

impl Expect {
    /// Whether the content of every response is checked.
    pub fn looks_at_content(&self) -> bool {
        self.body.is_some() || self.never.is_some()
    }

    /// Whether `content` is that of a good response.
    pub fn is_content(&self, content: &[u8]) -> bool {
        self.body.as_ref().is_none_or(|pattern| pattern.is_match(content))
            && !self.never.as_ref().is_some_and(|pattern| pattern.is_match(content))
    }
}

/// A regular expression searched for in the content of a response. It is applied to the bytes
/// as received, with any content coding, up to `load::CONTENT_BYTES_MAX`.
#[derive(Clone, Debug)]
pub struct BodyPattern(Regex);

impl BodyPattern {
    /// Whether `content` matches.
    pub fn is_match(&self, content: &[u8]) -> bool {
        self.0.is_match(content)
    }
}

impl PartialEq for BodyPattern {
    fn eq(&self, other: &Self) -> bool {
        self.0.as_str() == other.0.as_str()
    }
}

impl Eq for BodyPattern {}

impl FromStr for BodyPattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Regex::new(text).map(Self).map_err(|error| error.to_string())
    }
}

impl fmt::Display for BodyPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.as_str())
    }
}

/// How long the content of a good response may be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Length {
    /// As long as the first response with a good status, in content bytes without transfer coding.
    #[default]
    Constant,
    /// Any length. Responses whose length differs from the first one's are still counted.
    Variable,
}

/// A set of status codes, as inclusive ranges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusSet(Vec<(u16, u16)>);

/// A text with an invalid set of status codes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is neither a status code such as 200 nor a class such as 2xx; separate several by commas")]
pub struct StatusSetError(String);

impl StatusSet {
    /// Whether `code` is in the set.
    #[inline]
    pub fn contains(&self, code: u16) -> bool {
        self.0.iter().any(|&(low, high)| low <= code && code <= high)
    }
}

impl Default for StatusSet {
    /// 200 to 299.
    fn default() -> Self {
        Self(vec![(200, 299)])
    }
}

impl FromStr for StatusSet {
    type Err = StatusSetError;

    /// Parses codes and classes separated by commas: `200,304` or `2xx,3xx`.
    fn from_str(text: &str) -> Result<Self, StatusSetError> {
        let bad = || StatusSetError(text.to_owned());
        let ranges = text.split(',').map(|part| range(part.trim()).ok_or_else(bad));
        ranges.collect::<Result<_, _>>().map(Self)
    }
}

impl fmt::Display for StatusSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, &(low, high)) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { "," };
            if low == high {
                write!(f, "{separator}{low}")?;
            } else {
                write!(f, "{separator}{}xx", low / 100)?;
            }
        }
        Ok(())
    }
}

/// Parses one code or one class.
fn range(part: &str) -> Option<(u16, u16)> {
    if let Some(class) = part.strip_suffix("xx") {
        let class: u16 = class.parse().ok().filter(|class| (1..=9).contains(class))?;
        return Some((class * 100, class * 100 + 99));
    }
    let code: u16 = part.parse().ok().filter(|code| (100..=999).contains(code))?;
    Some((code, code))
}

#[cfg(test)]
mod tests {
    use super::StatusSet;

    #[test]
    fn codes_and_classes_are_parsed() {
        let set: StatusSet = "200, 3xx".parse().unwrap();
        assert!(set.contains(200) && set.contains(300) && set.contains(399));
        assert!(!set.contains(201) && !set.contains(400));
        assert_eq!(set.to_string(), "200,3xx");
    }

    #[test]
    fn default_is_the_success_class() {
        let set = StatusSet::default();
        assert!(set.contains(204) && !set.contains(304) && !set.contains(199));
        assert_eq!(set.to_string(), "2xx");
    }

    #[test]
    fn malformed_status_sets_are_refused() {
        for text in ["", "2", "20x", "99", "1000", "0xx", "200;300", "-200"] {
            assert!(text.parse::<StatusSet>().is_err(), "{text:?} was accepted");
        }
    }
}
