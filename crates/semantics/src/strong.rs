//! Strong validators (RFC 9110 section 8.8): what proves that two messages carry octets of the very same
//! representation, so that their parts may stand side by side.
//!
//! Invariant: in doubt a validator is weak. Validators for answering 304 are compared in `conditions`.

use crate::dates::parse_date;
use message::{Fields, names};
use platform::Timestamp;
use std::time::Duration;

/// The entity tag, quotes included, if there is one, well-formed and strong.
pub(crate) fn strong_tag(fields: &Fields) -> Option<&[u8]> {
    fields.only(names::ETAG).map(|tag| &**tag).filter(|tag| is_strong_tag(tag))
}

/// Whether these octets are one strong entity tag (RFC 9110 section 8.8.3).
pub(crate) fn is_strong_tag(tag: &[u8]) -> bool {
    let inside = tag.strip_prefix(b"\"").and_then(|tag| tag.strip_suffix(b"\""));
    inside.is_some_and(|inside| inside.iter().all(|&byte| byte != b'"' && byte != 0x7f && byte > b' '))
}

/// When the representation last changed, if a second change within that second would show: the response was made
/// at least a second later (RFC 9110 section 8.8.2.2).
pub(crate) fn strong_date(fields: &Fields) -> Option<Timestamp> {
    let date = |name| fields.only(name).and_then(|value| parse_date(value));
    let (changed, made) = (date(names::LAST_MODIFIED)?, date(names::DATE)?);
    (made.since(changed) >= Duration::from_secs(1)).then_some(changed)
}

/// Whether both responses have the same strong validator. A date counts only where neither has an entity tag.
pub(crate) fn shares_strong_validator(one: &Fields, other: &Fields) -> bool {
    if one.has(names::ETAG) || other.has(names::ETAG) {
        return strong_tag(one).is_some_and(|tag| strong_tag(other) == Some(tag));
    }
    strong_date(one).is_some_and(|date| strong_date(other) == Some(date))
}
