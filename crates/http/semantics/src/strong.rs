//! Strong validators (RFC 9110 section 8.8). They prove that two messages carry bytes of the same
//! representation, so that their parts may be combined.
//!
//! Invariant: if in doubt a validator is weak. The comparison of validators for a 304 is in
//! `conditions`.

use crate::dates::parse_date;
use clock::Timestamp;
use message::{Fields, names};
use std::time::Duration;

/// The entity tag with its quotes, if there is exactly one and it is well-formed and strong.
pub(crate) fn strong_tag(fields: &Fields) -> Option<&[u8]> {
    fields.only(names::ETAG).map(|tag| &**tag).filter(|tag| is_strong_tag(tag))
}

/// Whether `tag` is a strong entity tag (RFC 9110 section 8.8.3).
pub(crate) fn is_strong_tag(tag: &[u8]) -> bool {
    let inside = tag.strip_prefix(b"\"").and_then(|tag| tag.strip_suffix(b"\""));
    inside.is_some_and(|inside| inside.iter().all(|&byte| byte != b'"' && byte != 0x7f && byte > b' '))
}

/// The `Last-Modified` of the representation, if it is a strong validator. The response must have
/// been made at least a second later, so that a second change within that second would have shown
/// (RFC 9110 section 8.8.2.2).
pub(crate) fn strong_date(fields: &Fields) -> Option<Timestamp> {
    let date = |name| fields.only(name).and_then(|value| parse_date(value));
    let changed = date(names::LAST_MODIFIED)?;
    let made = date(names::DATE)?;
    (made.since(changed) >= Duration::from_secs(1)).then_some(changed)
}

/// Whether both responses have the same strong validator. A date counts only if neither response
/// has an entity tag.
pub(crate) fn shares_strong_validator(one: &Fields, other: &Fields) -> bool {
    if one.has(names::ETAG) || other.has(names::ETAG) {
        return strong_tag(one).is_some_and(|tag| strong_tag(other) == Some(tag));
    }
    strong_date(one).is_some_and(|date| strong_date(other) == Some(date))
}
