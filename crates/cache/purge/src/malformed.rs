//! Faults in purge requests: the place and what is wrong there, in words for the person who
//! configures the client.

use crate::ban_expression::BanError;
use crate::excerpt::excerpt;
use crate::pattern::PatternError;
use crate::tag_headers::{TAG_BYTES_MAX, TAGS_MAX};
use std::fmt;

/// A purge request that cannot be read. With a purge method it is answered 400; for a call of the
/// API see [`crate::api::CallRefusal`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {fault}")]
pub struct Malformed {
    /// The place of the fault.
    pub place: MalformedPlace,
    /// The fault.
    pub fault: MalformedFault,
}

/// A place in a purge request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MalformedPlace {
    /// The method.
    Method,
    /// The request target.
    Target,
    /// The header of this name.
    Header(&'static str),
    /// The content as a whole.
    Content,
    /// A member of the JSON content, such as `selectors[2]`.
    Json(String),
}

/// A fault at a place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MalformedFault {
    /// Something is missing.
    #[error("missing; expected {0}")]
    Missing(&'static str),
    /// Something else is expected.
    #[error("expected {expected}, found {found}")]
    Expected {
        /// The texts that are possible.
        expected: &'static str,
        /// The text, or the kind of value, in that place.
        found: String,
    },
    /// More tags than [`TAGS_MAX`].
    #[error("more than {TAGS_MAX} tags; send several requests")]
    TooManyTags,
    /// A tag longer than [`TAG_BYTES_MAX`], which no stored response can have.
    #[error("a tag is longer than {TAG_BYTES_MAX} octets")]
    TagTooLong,
    /// More elements of an array than the limit.
    #[error("more than {0} entries; send several requests")]
    TooManyEntries(usize),
    /// An invalid regular expression.
    #[error(transparent)]
    Pattern(#[from] PatternError),
    /// An invalid ban expression.
    #[error(transparent)]
    Ban(#[from] BanError),
    /// A text other than the URL of a page.
    #[error("{0}")]
    Url(String),
    /// Content other than JSON.
    #[error("no JSON: {0}")]
    Json(String),
    /// A type of selectors that Petasos does not support.
    #[error("{0} is not supported")]
    Unsupported(String),
}

impl Malformed {
    /// A fault in a header field.
    pub(crate) const fn header(name: &'static str, fault: MalformedFault) -> Self {
        Self { place: MalformedPlace::Header(name), fault }
    }

    /// A fault in a member of the JSON content.
    pub(crate) fn json(path: impl Into<String>, fault: MalformedFault) -> Self {
        Self { place: MalformedPlace::Json(path.into()), fault }
    }
}

impl MalformedFault {
    /// Another text than expected. Long and unprintable texts are shortened and escaped.
    pub(crate) fn expected(expected: &'static str, found: &[u8]) -> Self {
        Self::Expected { expected, found: excerpt(found) }
    }
}

impl fmt::Display for MalformedPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Method => f.write_str("the method"),
            Self::Target => f.write_str("the target"),
            Self::Header(name) => write!(f, "the header {name}"),
            Self::Content => f.write_str("the content"),
            Self::Json(path) => f.write_str(path),
        }
    }
}
