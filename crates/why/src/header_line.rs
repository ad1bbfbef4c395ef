//! A header line that the user adds to the requests, such as `Cookie: theme=dark`.
//!
//! Invariant: name and value conform to RFC 9110 section 5, so one line cannot become two.
//! [`HeaderLine::refuse_ours`] refuses fields that frame the request or that the probes set
//! themselves.

use message::{Field, names};
use std::str::FromStr;

/// One header field that is added to every request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderLine(Field);

/// Reasons why a text is not a [`HeaderLine`]. The messages say what to write.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeaderLineError {
    /// The text has no colon.
    #[error("`{0}` is not a header line; write 'Name: value'")]
    NoColon(String),
    /// The text before the colon is not a field name.
    #[error("`{0}` is not the name of a header field")]
    Name(String),
    /// The value contains control characters.
    #[error("the value of `{0}` has control characters; remove them")]
    Value(String),
    /// The field is one that the probes or the connection set.
    #[error("Petasos itself sets the field `{0}`; leave it out")]
    Ours(&'static str),
}

/// Fields that only the probes or the connection may set.
const OURS: &[&str] = &[
    names::ACCEPT_ENCODING,
    names::CONNECTION,
    names::CONTENT_LENGTH,
    names::EXPECT,
    names::IF_MATCH,
    names::IF_MODIFIED_SINCE,
    names::IF_NONE_MATCH,
    names::IF_RANGE,
    names::IF_UNMODIFIED_SINCE,
    names::KEEP_ALIVE,
    names::PROXY_CONNECTION,
    names::RANGE,
    names::TE,
    names::TRAILER,
    names::TRANSFER_ENCODING,
    names::UPGRADE,
];

impl HeaderLine {
    /// The field.
    pub fn field(&self) -> &Field {
        &self.0
    }

    /// Name and value as text. Invalid UTF-8 is replaced.
    pub(crate) fn to_pair(&self) -> (String, String) {
        let text = |octets: &[u8]| String::from_utf8_lossy(octets).into_owned();
        (text(&self.0.name), text(&self.0.value))
    }

    /// Refuses a field that the probes or the connection set.
    ///
    /// # Errors
    /// [`HeaderLineError::Ours`].
    pub fn refuse_ours(&self) -> Result<(), HeaderLineError> {
        OURS.iter().find(|name| self.0.is(name)).map_or(Ok(()), |name| Err(HeaderLineError::Ours(name)))
    }
}

impl FromStr for HeaderLine {
    type Err = HeaderLineError;

    fn from_str(text: &str) -> Result<Self, HeaderLineError> {
        let (name, value) = text.split_once(':').ok_or_else(|| HeaderLineError::NoColon(text.to_owned()))?;
        let name = name.trim();
        let value = value.trim();
        if name.is_empty() || !name.bytes().all(is_token_octet) {
            return Err(HeaderLineError::Name(name.to_owned()));
        }
        if value.bytes().any(|octet| octet.is_ascii_control() && octet != b'\t') {
            return Err(HeaderLineError::Value(name.to_owned()));
        }
        Ok(Self(Field { name: name.to_owned().into(), value: value.to_owned().into() }))
    }
}

/// Whether a byte may be part of a token (RFC 9110 section 5.6.2).
fn is_token_octet(octet: u8) -> bool {
    octet.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&octet)
}

#[cfg(test)]
mod tests {
    use super::{HeaderLine, HeaderLineError};

    #[test]
    fn a_line_is_a_name_and_a_value() {
        let line: HeaderLine = "cookie:a=b; c=d:e ".parse().unwrap();
        assert!(line.field().is("Cookie"));
        assert_eq!(line.field().value, "a=b; c=d:e");
        assert_eq!(line.refuse_ours(), Ok(()));
    }

    #[test]
    fn malformed_and_reserved_header_lines_are_refused() {
        let error = |text: &str| text.parse::<HeaderLine>().unwrap_err();
        assert!(matches!(error("cookie"), HeaderLineError::NoColon(_)));
        assert!(matches!(error(": x"), HeaderLineError::Name(_)));
        assert!(matches!(error("a b: x"), HeaderLineError::Name(_)));
        assert!(matches!(error("a: x\r\nb: y"), HeaderLineError::Value(_)));
        let range: HeaderLine = "RANGE: bytes=0-1".parse().unwrap();
        assert_eq!(range.refuse_ours(), Err(HeaderLineError::Ours("Range")));
    }
}
