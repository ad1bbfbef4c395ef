//! Why a request to invalidate something cannot be carried out: where, and what is wrong there, in words for the
//! person who configures the client.

use crate::ban_expression::BanError;
use crate::pattern::PatternError;
use crate::tags::{TAG_BYTES_MAX, TAGS_MAX};
use std::fmt;

/// A request that cannot be read. It is answered 400, or as [`crate::api::Refused`] says.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {fault}")]
pub struct Malformed {
    /// Where the fault is.
    pub place: Place,
    /// What is wrong.
    pub fault: Fault,
}

/// A place in a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
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

/// What is wrong at a place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// Something has to be there.
    #[error("missing; expected {0}")]
    Missing(&'static str),
    /// Something else has to be there.
    #[error("expected {expected}, found {found}")]
    Expected {
        /// What is possible.
        expected: &'static str,
        /// What is there, quoted or named.
        found: String,
    },
    /// More tags than the limit.
    #[error("more than {TAGS_MAX} tags; send several requests")]
    TooManyTags,
    /// A tag that no response can have.
    #[error("a tag is longer than {TAG_BYTES_MAX} octets")]
    TagTooLong,
    /// More selectors than the limit.
    #[error("more than {0} entries; send several requests")]
    TooManyEntries(usize),
    /// A regular expression that is not accepted.
    #[error(transparent)]
    Pattern(#[from] PatternError),
    /// A ban expression that is not accepted.
    #[error(transparent)]
    Ban(#[from] BanError),
    /// No URL of a page.
    #[error("{0}")]
    Url(String),
    /// No JSON.
    #[error("no JSON: {0}")]
    Json(String),
    /// Something the API's draft knows and Petasos does not.
    #[error("{0} is not supported")]
    Unsupported(String),
}

impl Malformed {
    /// A fault in a header.
    pub(crate) const fn header(name: &'static str, fault: Fault) -> Self {
        Self { place: Place::Header(name), fault }
    }

    /// A fault in a member of the JSON content.
    pub(crate) fn json(path: impl Into<String>, fault: Fault) -> Self {
        Self { place: Place::Json(path.into()), fault }
    }
}

impl Fault {
    /// `found` instead of `expected`; long and unprintable texts are shortened and escaped.
    pub(crate) fn expected(expected: &'static str, found: &[u8]) -> Self {
        Self::Expected { expected, found: excerpt(found) }
    }
}

impl fmt::Display for Place {
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

/// Octets of a text that a message repeats.
const EXCERPT_BYTES_MAX: usize = 40;

/// The beginning of a text, in quotes and printable.
pub(crate) fn excerpt(text: &[u8]) -> String {
    match text.get(..EXCERPT_BYTES_MAX) {
        Some(beginning) => format!("`{}...`", beginning.escape_ascii()),
        None => format!("`{}`", text.escape_ascii()),
    }
}
