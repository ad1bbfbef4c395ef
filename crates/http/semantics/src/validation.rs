//! Validation of stored responses (RFC 9111 section 4.3): the request to the origin, the stored
//! response that its response concerns, and the update that follows.
//!
//! Invariant: a response updates a stored response only if it provably concerns it. It never
//! changes the fields that describe the stored content: its length, coding, type and range. The new
//! freshness is not computed here: `judge` judges the updated head again.

use crate::dates::parse_date;
use bytes::Bytes;
use defects::{Defect, is_planted};
use message::{Field, Fields, ResponseHead, Status, names};
use profiles::Policy;
use std::time::Duration;

/// The conditional fields that ask the origin whether `stored` is still valid (RFC 9111 section
/// 4.3.1); empty if it has no validator that can be read.
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

/// Why a stored response cannot be used without asking the origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doubt {
    /// The response is no longer fresh.
    Expired,
    /// The response was invalidated: its content is said to have changed.
    Invalidated,
}

/// Minimum time between the last change and the response. `Last-Modified` counts whole seconds, so
/// a second change within one second keeps the date (RFC 9110 section 8.8.2.2). One more second
/// allows for rounding.
const SETTLED: Duration = Duration::from_secs(2);

/// The [`validation_fields`] whose confirmation by a 304 proves that `stored` is still valid.
///
/// A date counts only if the response was made at least two seconds after it. An entity tag always
/// counts for an expired response. For an invalidated response it needs the same two seconds or a
/// policy with exact tags, because the origin may derive the tag from the date.
pub fn confirming_fields(stored: &ResponseHead, doubt: Doubt, policy: &Policy) -> Fields {
    let mut fields = validation_fields(stored);
    if !is_settled(&stored.fields) {
        fields.remove(names::IF_MODIFIED_SINCE);
        if doubt == Doubt::Invalidated && !policy.exact_etags {
            fields.remove(names::IF_NONE_MATCH);
        }
    }
    fields
}

/// Whether the response was made so long after its last change that a later change has another
/// date.
fn is_settled(stored: &Fields) -> bool {
    let date = |name| stored.only(name).and_then(|value| parse_date(value));
    let changed = date(names::LAST_MODIFIED);
    let made = date(names::DATE);
    let settled = if is_planted(Defect::OneSecondValidator) { Duration::ZERO } else { SETTLED };
    changed.zip(made).is_some_and(|(changed, made)| made.since(changed) >= settled)
}

/// Whether a 304 to [`validation_fields`] of `stored` concerns it (RFC 9111 section 4.3.4).
///
/// The validators in the 304 must agree with the stored ones. The date counts only if the 304 has
/// no entity tag.
///
/// Entity tags are compared weakly. A web server that adds a content coding weakens the stored tag,
/// but adds nothing to a 304. The request named only this tag.
pub fn not_modified_speaks_of(stored: &ResponseHead, not_modified: &ResponseHead) -> bool {
    match same_tag(stored, not_modified) {
        Some(same) => same,
        None => same_date(stored, not_modified).unwrap_or(true),
    }
}

/// Whether the entity tag of `answer` is the stored one; `None` if `answer` has none.
fn same_tag(stored: &ResponseHead, answer: &ResponseHead) -> Option<bool> {
    let tag = weakened(answer.fields.first(names::ETAG)?);
    Some(stored.fields.only(names::ETAG).is_some_and(|known| weakened(known) == tag))
}

/// Whether the `Last-Modified` of `answer` is the stored one; `None` if `answer` has none.
fn same_date(stored: &ResponseHead, answer: &ResponseHead) -> Option<bool> {
    let date = answer.fields.first(names::LAST_MODIFIED)?;
    let known = stored.fields.only(names::LAST_MODIFIED);
    let same =
        |known: &Bytes| known == date || parse_date(known).is_some_and(|time| parse_date(date) == Some(time));
    Some(known.is_some_and(same))
}

/// The stored head, updated with the fields of a 304 or of the response to a HEAD (RFC 9111 section
/// 3.2). The new fields replace stored fields of the same name or are added. The other stored
/// fields stay, in their order.
///
/// `Age` and `Date` always come from `answer`, because they tell when it was made. The recipient of
/// a response without `Date` adds one (RFC 9110 section 6.6.1).
pub fn updated_head(stored: &ResponseHead, answer: &ResponseHead) -> ResponseHead {
    let hop: Vec<&[u8]> = answer.fields.list(names::CONNECTION).collect();
    let updates = |field: &&Field| {
        !KEPT_FIELDS.iter().chain(names::HOP_BY_HOP).any(|kept| field.is(kept))
            && !hop.iter().any(|name| field.name.eq_ignore_ascii_case(name))
    };
    let is_replaced = |field: &Field| {
        field.is(names::AGE)
            || field.is(names::DATE)
            || answer.fields.iter().filter(updates).any(|new| new.name.eq_ignore_ascii_case(&field.name))
    };
    let kept = stored.fields.iter().filter(|field| !is_replaced(field));
    let fields = kept.chain(answer.fields.iter().filter(updates)).cloned().collect();
    ResponseHead { fields, ..stored.clone() }
}

/// Fields that are not updated, in addition to hop-by-hop fields. They describe the stored content,
/// and the response has none. Some origins send the `Content-Type` of an empty page with every 304.
const KEPT_FIELDS: &[&str] =
    &[names::CONTENT_ENCODING, names::CONTENT_LENGTH, names::CONTENT_RANGE, names::CONTENT_TYPE];

/// The relation between the response to a HEAD and the stored response to a GET (RFC 9111 section
/// 4.3.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadComparison {
    /// They are the same: update the stored response with [`updated_head`].
    Update,
    /// They differ: the stored response is stale.
    Differs,
}

/// Compares a 200 response to a HEAD with a stored complete response of `stored_bytes` bytes of
/// content. Each validator, the length and the coding that `answer` names must equal the stored
/// ones.
pub fn head_says(stored: &ResponseHead, stored_bytes: u64, answer: &ResponseHead) -> HeadComparison {
    let length = answer.fields.first(names::CONTENT_LENGTH);
    let same_length = length.is_none_or(|value| value[..] == *stored_bytes.to_string().as_bytes());
    let coding = |head: &ResponseHead| head.fields.first(names::CONTENT_ENCODING).cloned();
    let same = stored.status == answer.status
        && same_length
        && same_tag(stored, answer).unwrap_or(true)
        && same_date(stored, answer).unwrap_or(true)
        && coding(stored) == coding(answer);
    if same { HeadComparison::Update } else { HeadComparison::Differs }
}

/// Whether a response to a HEAD that agrees with `stored` proves that the stored content is still
/// valid. It must name a validator that would prove it in a 304 to a GET: see
/// [`confirming_fields`].
///
/// A response without validators confirms a merely expired stored response, because RFC 9111
/// section 4.3.5 compares only the fields that are present.
pub fn head_confirms(stored: &ResponseHead, answer: &ResponseHead, doubt: Doubt, policy: &Policy) -> bool {
    let proving = confirming_fields(stored, doubt, policy);
    let tag = same_tag(stored, answer);
    let date = same_date(stored, answer);
    proving.has(names::IF_NONE_MATCH) && tag == Some(true)
        || proving.has(names::IF_MODIFIED_SINCE) && date == Some(true)
        || doubt == Doubt::Expired && tag.is_none() && date.is_none()
}

/// Whether a response is an error that a stale response may replace (RFC 5861 section 4).
pub fn is_server_error(status: Status) -> bool {
    matches!(status.code(), 500 | 502 | 503 | 504)
}

/// Whether `tag` is an entity tag, weak or strong (RFC 9110 section 8.8.3).
fn is_entity_tag(tag: &[u8]) -> bool {
    let opaque = weakened(tag);
    opaque.len() >= 2 && opaque.starts_with(b"\"") && opaque.ends_with(b"\"")
}

/// An entity tag without the mark `W/`, for weak comparison.
fn weakened(tag: &[u8]) -> &[u8] {
    tag.strip_prefix(b"W/").unwrap_or(tag)
}

#[cfg(test)]
mod tests {
    use super::{
        Doubt, HeadComparison, confirming_fields, head_says, is_server_error, not_modified_speaks_of,
        updated_head, validation_fields,
    };
    use crate::tests::FieldLines;
    use message::{Fields, ResponseHead, Status};
    use profiles::Policy;

    const CHANGED: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
    fn head(fields: &FieldLines) -> ResponseHead {
        let mut head = ResponseHead::new(Status::OK);
        fields.iter().for_each(|(name, value)| head.fields.push(*name, *value));
        head
    }

    fn fields(lines: &FieldLines) -> Fields {
        head(lines).fields
    }

    #[test]
    fn readable_validators_become_conditions() {
        let stored = head(&[("ETag", "W/\"a\""), ("Last-Modified", CHANGED)]);
        let expected = fields(&[("If-None-Match", "W/\"a\""), ("If-Modified-Since", CHANGED)]);
        assert_eq!(validation_fields(&stored), expected);
        for unreadable in [
            &[("ETag", "a")][..],
            &[("ETag", "\"")],
            &[("ETag", "w/\"a\"")],
            &[("ETag", "\"a\""), ("ETag", "\"b\"")],
            &[("Last-Modified", "yesterday")],
            &[],
        ] {
            assert!(validation_fields(&head(unreadable)).is_empty(), "{unreadable:?}");
        }
    }

    #[test]
    fn date_confirms_only_a_response_made_two_seconds_later() {
        let date = |second: u32| format!("Sun, 06 Nov 1994 08:49:{second:02} GMT");
        let asked = |tag: bool, made: Option<u32>, doubt, exact_etags| {
            let mut stored = head(&[("Last-Modified", CHANGED)]);
            if tag {
                stored.fields.push("ETag", "\"a\"");
            }
            if let Some(second) = made {
                stored.fields.push("Date", date(second));
            }
            let policy = Policy { exact_etags, ..Policy::default_profile() };
            let fields = confirming_fields(&stored, doubt, &policy);
            (fields.has("If-None-Match"), fields.has("If-Modified-Since"))
        };
        for doubt in [Doubt::Expired, Doubt::Invalidated] {
            assert_eq!(asked(true, Some(39), doubt, false), (true, true));
            for made in [None, Some(36), Some(37), Some(38)] {
                assert_eq!(asked(false, made, doubt, true), (false, false), "{made:?}");
                assert_eq!(asked(true, made, doubt, true), (true, false), "{made:?}");
                let by_tag = doubt == Doubt::Expired;
                assert_eq!(asked(true, made, doubt, false), (by_tag, false), "{made:?}");
            }
        }
    }

    #[test]
    fn not_modified_concerns_the_response_it_names() {
        let stored = head(&[("ETag", "\"a\""), ("Last-Modified", CHANGED)]);
        for (answer, expected) in [
            (&[][..], true),
            (&[("ETag", "\"a\"")], true),
            (&[("ETag", "W/\"a\"")], true),
            (&[("ETag", "\"b\"")], false),
            (&[("ETag", "\"a\""), ("Last-Modified", "Sun, 06 Nov 1994 09:00:00 GMT")], true),
            (&[("Last-Modified", "Sunday, 06-Nov-94 08:49:37 GMT")], true),
            (&[("Last-Modified", "Sun, 06 Nov 1994 09:00:00 GMT")], false),
            (&[("Last-Modified", "0")], false),
        ] {
            assert_eq!(not_modified_speaks_of(&stored, &head(answer)), expected, "{answer:?}");
        }
        assert!(!not_modified_speaks_of(&head(&[]), &head(&[("ETag", "\"a\"")])));
        assert!(!not_modified_speaks_of(&head(&[("ETag", "\"a\"")]), &head(&[("Last-Modified", CHANGED)])));
    }

    #[test]
    fn update_replaces_adds_and_keeps_fields() {
        let mut stored = head(&[
            ("A", "1"),
            ("Link", "<1>"),
            ("Link", "<2>"),
            ("Content-Type", "text/html"),
            ("Content-Length", "9"),
            ("Age", "100"),
            ("Date", CHANGED),
        ]);
        stored.reason = "Fine".into();
        let answer = head(&[
            ("link", "<3>"),
            ("Link", "<4>"),
            ("B", "2"),
            ("Content-Type", "text/plain"),
            ("Content-Length", "0"),
            ("Connection", "C"),
            ("C", "3"),
            ("Content-Foo", "4"),
        ]);
        let updated = updated_head(&stored, &answer);
        let expected = fields(&[
            ("A", "1"),
            ("Content-Type", "text/html"),
            ("Content-Length", "9"),
            ("link", "<3>"),
            ("Link", "<4>"),
            ("B", "2"),
            ("Content-Foo", "4"),
        ]);
        assert_eq!(updated.fields, expected);
        assert_eq!((updated.status, &updated.reason[..]), (Status::OK, &b"Fine"[..]));
        let later = head(&[("Age", "7"), ("Date", "Sun, 06 Nov 1994 09:00:00 GMT")]);
        let expected = fields(&[("A", "1"), ("Age", "7"), ("Date", "Sun, 06 Nov 1994 09:00:00 GMT")]);
        assert_eq!(
            updated_head(&head(&[("A", "1"), ("Age", "100"), ("Date", CHANGED)]), &later).fields,
            expected
        );
    }

    #[test]
    fn head_updates_a_response_that_it_agrees_with() {
        let stored = head(&[("ETag", "\"a\""), ("Last-Modified", CHANGED), ("Content-Encoding", "gzip")]);
        let says = |answer: &FieldLines| head_says(&stored, 9, &head(answer));
        let gzip = ("Content-Encoding", "gzip");
        for same in [
            &[gzip][..],
            &[gzip, ("Content-Length", "9")],
            &[gzip, ("ETag", "\"a\""), ("Last-Modified", CHANGED)],
        ] {
            assert_eq!(says(same), HeadComparison::Update, "{same:?}");
        }
        for other in [
            &[][..],
            &[gzip, ("Content-Length", "10")],
            &[gzip, ("Content-Length", "x")],
            &[gzip, ("ETag", "\"b\"")],
            &[gzip, ("ETag", "\"a\""), ("Last-Modified", "Sun, 06 Nov 1994 09:00:00 GMT")],
        ] {
            assert_eq!(says(other), HeadComparison::Differs, "{other:?}");
        }
        let mut gone = head(&[gzip]);
        gone.status = Status::from_code(410).unwrap();
        assert_eq!(head_says(&stored, 9, &gone), HeadComparison::Differs);
    }

    #[test]
    fn only_four_server_errors_are_replaced_by_stale_responses() {
        let codes: Vec<u16> =
            (100..600).filter(|code| is_server_error(Status::from_code(*code).unwrap())).collect();
        assert_eq!(codes, [500, 502, 503, 504]);
    }
}
