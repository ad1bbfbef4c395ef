//! Validation of stored responses (RFC 9111 section 4.3): what is asked, whom an answer speaks of, and what it
//! changes.
//!
//! Invariant: an answer changes only a response that it can be proven to speak of, and never what describes the
//! stored content: its length, coding, type and range.
//! This file does not say for how long the updated response is fresh: its head is judged anew by `judge`.

use crate::dates::parse_date;
use message::{Field, Fields, ResponseHead, Status, names};

/// The conditional fields that ask the origin whether `stored` is still right (RFC 9111 section 4.3.1); empty if it
/// has no validator.
pub fn validation_fields(stored: &ResponseHead) -> Fields {
    let mut fields = Fields::new();
    if let Some(tag) = stored.fields.only(names::ETAG).filter(|tag| is_entity_tag(tag)) {
        fields.push(names::IF_NONE_MATCH, tag.clone());
    }
    if let Some(date) = stored.fields.only(names::LAST_MODIFIED).filter(|date| parse_date(date).is_some()) {
        fields.push(names::IF_MODIFIED_SINCE, date.clone());
    }
    fields
}

/// Whether a 304 speaks of `stored` (RFC 9111 section 4.3.4): every validator that it has is the stored one.
pub fn not_modified_speaks_of(stored: &ResponseHead, not_modified: &ResponseHead) -> bool {
    let (old, new) = (&stored.fields, &not_modified.fields);
    match new.first(names::ETAG) {
        Some(tag) => old.only(names::ETAG).is_some_and(|known| weakened(known) == weakened(tag)),
        None => match new.first(names::LAST_MODIFIED) {
            Some(date) => {
                old.only(names::LAST_MODIFIED).is_some_and(|known| parse_date(known) == parse_date(date))
            }
            None => true,
        },
    }
}

/// The stored head with the fields of a 304, or of the answer to HEAD, in it (RFC 9111 section 3.2): each replaces
/// the stored field of its name or is added, the others stay, but for `Age`, which told the age of the old answer.
pub fn updated_head(stored: &ResponseHead, answer: &ResponseHead) -> ResponseHead {
    let replaces = |field: &&Field| !KEPT_FIELDS.iter().any(|kept| field.is(kept));
    let replaced = |field: &&Field| {
        field.is(names::AGE)
            || answer.fields.iter().filter(replaces).any(|new| new.name.eq_ignore_ascii_case(&field.name))
    };
    let kept = stored.fields.iter().filter(|field| !replaced(field));
    let fields = kept.chain(answer.fields.iter().filter(replaces)).cloned().collect();
    ResponseHead { fields, ..stored.clone() }
}

/// Fields that describe the stored content or one hop, and are not updated.
const KEPT_FIELDS: &[&str] = &[
    names::CONNECTION,
    names::CONTENT_ENCODING,
    names::CONTENT_LENGTH,
    names::CONTENT_RANGE,
    names::CONTENT_TYPE,
    names::KEEP_ALIVE,
    names::PROXY_AUTHENTICATE,
    "Proxy-Authentication-Info",
    names::PROXY_AUTHORIZATION,
    names::PROXY_CONNECTION,
    names::TE,
    names::TRAILER,
    names::TRANSFER_ENCODING,
    names::UPGRADE,
];

/// What the answer to a HEAD says about the stored response to a GET (RFC 9111 section 4.3.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadSays {
    /// It is the same: update it by [`updated_head`].
    Update,
    /// It is another: the stored one is stale.
    Differs,
}

/// What a 200 answer to a HEAD says about a stored complete response of `stored_bytes` octets of content.
pub fn head_says(stored: &ResponseHead, stored_bytes: u64, answer: &ResponseHead) -> HeadSays {
    let same_length = answer.fields.first(names::CONTENT_LENGTH).is_none_or(|value| {
        std::str::from_utf8(value).ok().and_then(|text| text.parse().ok()) == Some(stored_bytes)
    });
    if same_length && not_modified_speaks_of(stored, answer) { HeadSays::Update } else { HeadSays::Differs }
}

/// Whether an answer is an error that a stale response may stand in for (RFC 5861 section 4).
pub fn is_server_error(status: Status) -> bool {
    matches!(status.code(), 500 | 502 | 503 | 504)
}

/// Whether `tag` is an entity tag, weak or strong (RFC 9110 section 8.8.3).
fn is_entity_tag(tag: &[u8]) -> bool {
    let opaque = weakened(tag);
    opaque.len() >= 2 && opaque.starts_with(b"\"") && opaque.ends_with(b"\"")
}

/// The opaque part of an entity tag.
fn weakened(tag: &[u8]) -> &[u8] {
    tag.strip_prefix(b"W/").unwrap_or(tag)
}
