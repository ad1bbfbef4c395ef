//! Validation of stored responses (RFC 9111 section 4.3): what is asked, whom an answer speaks of, and what it
//! changes.
//!
//! Invariant: an answer changes only a response that it can be proven to speak of, and never what describes the
//! stored content: its length, coding, type and range.
//! This file does not say for how long the updated response is fresh: its head is judged anew by `judge`.

use crate::Policy;
use crate::dates::parse_date;
use bytes::Bytes;
use message::{Field, Fields, ResponseHead, Status, names};
use std::time::Duration;

/// The conditional fields that ask the origin whether `stored` is still right (RFC 9111 section 4.3.1); empty if it
/// has no validator that can be read.
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

/// Why a stored response cannot be used as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doubt {
    /// It is no longer fresh.
    Expired,
    /// It was invalidated: somebody says that the content has changed.
    Invalidated,
}

/// How much older than the response its last change must be. `Last-Modified` counts whole seconds, so a second change
/// within the second of the first keeps the date (RFC 9110 section 8.8.2.2); one more second is for rounding.
const SETTLED: Duration = Duration::from_secs(2);

/// Those of [`validation_fields`] whose confirmation by a 304 proves that `stored` is still right.
///
/// A date counts only if the response was made well after it. An entity tag counts as long as nobody says that the
/// content has changed; then it may have been made from the same date, unless the policy vouches for it.
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

/// Whether the response was made so long after its last change that a later change has another date.
fn is_settled(stored: &Fields) -> bool {
    let date = |name| stored.only(name).and_then(|value| parse_date(value));
    let (changed, made) = (date(names::LAST_MODIFIED), date(names::DATE));
    changed.zip(made).is_some_and(|(changed, made)| made.since(changed) >= SETTLED)
}

/// Whether a 304 that answers [`validation_fields`] of `stored` speaks of it (RFC 9111 section 4.3.4): its
/// validators, where present, agree; the date counts only where there is no entity tag.
///
/// Entity tags are compared weakly: a coding that the origin's web server adds weakens the stored tag, and is not
/// there in a 304. The origin was asked about this one tag.
pub fn not_modified_speaks_of(stored: &ResponseHead, not_modified: &ResponseHead) -> bool {
    match same_tag(stored, not_modified) {
        Some(same) => same,
        None => same_date(stored, not_modified).unwrap_or(true),
    }
}

/// Whether the entity tag of `answer`, if it has one, is the stored one.
fn same_tag(stored: &ResponseHead, answer: &ResponseHead) -> Option<bool> {
    let tag = weakened(answer.fields.first(names::ETAG)?);
    Some(stored.fields.only(names::ETAG).is_some_and(|known| weakened(known) == tag))
}

/// Whether the last change that `answer` names, if it does, is the stored one.
fn same_date(stored: &ResponseHead, answer: &ResponseHead) -> Option<bool> {
    let date = answer.fields.first(names::LAST_MODIFIED)?;
    let known = stored.fields.only(names::LAST_MODIFIED);
    let same =
        |known: &Bytes| known == date || parse_date(known).is_some_and(|time| parse_date(date) == Some(time));
    Some(known.is_some_and(same))
}

/// The stored head with the fields of a 304, or of the answer to a HEAD, in it (RFC 9111 section 3.2): they replace
/// the stored fields of their names or are added; the others stay, in their order.
///
/// `Age` and `Date` always come from the answer, as they tell when it was made; whoever receives one without `Date`
/// adds it (RFC 9110 section 6.6.1).
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

/// Fields that are not updated, beside those of one hop: they describe the stored content, which an answer without
/// content does not have. Some origins send the `Content-Type` of an empty page with every 304.
const KEPT_FIELDS: &[&str] =
    &[names::CONTENT_ENCODING, names::CONTENT_LENGTH, names::CONTENT_RANGE, names::CONTENT_TYPE];

/// What the answer to a HEAD says about the stored response to a GET (RFC 9111 section 4.3.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadSays {
    /// It is the same: update it by [`updated_head`].
    Update,
    /// It is another: the stored one is stale.
    Differs,
}

/// What a 200 answer to a HEAD says about a stored complete response of `stored_bytes` octets of content: each
/// validator, the length and the coding that it names must be the stored ones.
pub fn head_says(stored: &ResponseHead, stored_bytes: u64, answer: &ResponseHead) -> HeadSays {
    let length = answer.fields.first(names::CONTENT_LENGTH);
    let same_length = length.is_none_or(|value| value[..] == *stored_bytes.to_string().as_bytes());
    let coding = |head: &ResponseHead| head.fields.first(names::CONTENT_ENCODING).cloned();
    let same = stored.status == answer.status
        && same_length
        && same_tag(stored, answer).unwrap_or(true)
        && same_date(stored, answer).unwrap_or(true)
        && coding(stored) == coding(answer);
    if same { HeadSays::Update } else { HeadSays::Differs }
}

/// Whether an answer to a HEAD that agrees with `stored` proves that its content is still the same: by a validator that
/// the answer names, and that would prove it in a 304 to a GET ([`confirming_fields`]).
///
/// An answer that names no validator confirms a response of which nothing is doubted but its age: RFC 9111 section
/// 4.3.5 compares what an answer has.
pub fn head_confirms(stored: &ResponseHead, answer: &ResponseHead, doubt: Doubt, policy: &Policy) -> bool {
    let proving = confirming_fields(stored, doubt, policy);
    let (tag, date) = (same_tag(stored, answer), same_date(stored, answer));
    proving.has(names::IF_NONE_MATCH) && tag == Some(true)
        || proving.has(names::IF_MODIFIED_SINCE) && date == Some(true)
        || doubt == Doubt::Expired && tag.is_none() && date.is_none()
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

#[cfg(test)]
mod tests {
    use super::{
        Doubt, HeadSays, confirming_fields, head_says, is_server_error, not_modified_speaks_of, updated_head,
        validation_fields,
    };
    use crate::Policy;
    use message::{Fields, ResponseHead, Status};

    const CHANGED: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
    type Lines = [(&'static str, &'static str)];

    fn head(fields: &Lines) -> ResponseHead {
        let mut head = ResponseHead::new(Status::OK);
        fields.iter().for_each(|(name, value)| head.fields.push(*name, *value));
        head
    }

    fn fields(lines: &Lines) -> Fields {
        head(lines).fields
    }

    #[test]
    fn validators_that_can_be_read_are_asked_about() {
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
    fn a_date_confirms_only_if_the_response_is_two_seconds_younger() {
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
    fn a_304_speaks_of_what_its_validators_name() {
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
    fn an_update_replaces_adds_and_keeps() {
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
    fn a_head_updates_what_it_agrees_with() {
        let stored = head(&[("ETag", "\"a\""), ("Last-Modified", CHANGED), ("Content-Encoding", "gzip")]);
        let says = |answer: &Lines| head_says(&stored, 9, &head(answer));
        let gzip = ("Content-Encoding", "gzip");
        for same in [
            &[gzip][..],
            &[gzip, ("Content-Length", "9")],
            &[gzip, ("ETag", "\"a\""), ("Last-Modified", CHANGED)],
        ] {
            assert_eq!(says(same), HeadSays::Update, "{same:?}");
        }
        for other in [
            &[][..],
            &[gzip, ("Content-Length", "10")],
            &[gzip, ("Content-Length", "x")],
            &[gzip, ("ETag", "\"b\"")],
            &[gzip, ("ETag", "\"a\""), ("Last-Modified", "Sun, 06 Nov 1994 09:00:00 GMT")],
        ] {
            assert_eq!(says(other), HeadSays::Differs, "{other:?}");
        }
        let mut gone = head(&[gzip]);
        gone.status = Status::from_code(410).unwrap();
        assert_eq!(head_says(&stored, 9, &gone), HeadSays::Differs);
    }

    #[test]
    fn errors_a_stale_response_stands_in_for() {
        let codes: Vec<u16> =
            (100..600).filter(|code| is_server_error(Status::from_code(*code).unwrap())).collect();
        assert_eq!(codes, [500, 502, 503, 504]);
    }
}
