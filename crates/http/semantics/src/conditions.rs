//! Conditional requests against a stored response (RFC 9110 section 13).
//!
//! Invariant: conditions are evaluated in the order of RFC 9110 section 13.2.2, and a weaker one
//! only if the stronger one is absent. A date that cannot be read counts as absent. An entity tag
//! that cannot be read matches nothing: the client then receives the whole response, or a 412 for
//! `If-Match`.

use crate::dates::parse_date;
use clock::Timestamp;
use message::{Fields, ResponseHead, list_members, names};

/// The result of a request's conditions for a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConditionOutcome {
    /// Send the response.
    Proceed,
    /// The client has the response: send 304 with [`not_modified_fields`].
    NotModified,
    /// The client wants another state of the resource: send 412.
    PreconditionFailed,
}

/// Evaluates the conditional fields of a GET or HEAD request against the response that would be
/// sent.
pub fn evaluate_conditions(request: &Fields, response: &ResponseHead) -> ConditionOutcome {
    // Conditions apply only to responses that would be successful without them (RFC 9110 section
    // 13.2.1).
    if !response.status.is_success() {
        return ConditionOutcome::Proceed;
    }
    if !may_proceed(request, &response.fields) {
        return ConditionOutcome::PreconditionFailed;
    }
    if request.has(names::IF_NONE_MATCH) {
        let tag = response.fields.first(names::ETAG);
        let known = any_tag(request, names::IF_NONE_MATCH, |listed| {
            listed == b"*" || tag.is_some_and(|tag| opaque(listed).is_some() && opaque(listed) == opaque(tag))
        });
        return if known { ConditionOutcome::NotModified } else { ConditionOutcome::Proceed };
    }
    // Most requests have no condition and parsing dates is slow, so the request's date is read
    // first.
    let unchanged = single_date(request, names::IF_MODIFIED_SINCE)
        .is_some_and(|since| last_change(&response.fields).is_some_and(|changed| changed <= since));
    if unchanged { ConditionOutcome::NotModified } else { ConditionOutcome::Proceed }
}

/// Whether `If-Match`, or else `If-Unmodified-Since`, lets the request proceed.
fn may_proceed(request: &Fields, response: &Fields) -> bool {
    if request.has(names::IF_MATCH) {
        let tag = response.first(names::ETAG).filter(|tag| tag.starts_with(b"\""));
        // Strong comparison: a weak tag matches nothing (RFC 9110 section 8.8.3.2).
        return any_tag(request, names::IF_MATCH, |listed| {
            listed == b"*" || tag.is_some_and(|tag| opaque(tag).is_some() && tag == listed)
        });
    }
    single_date(request, names::IF_UNMODIFIED_SINCE).is_none_or(|since| {
        single_date(response, names::LAST_MODIFIED).is_none_or(|changed| changed <= since)
    })
}

/// Whether a request has a condition that [`evaluate_conditions`] looks at.
pub fn has_conditions(request: &Fields) -> bool {
    let conditions =
        [names::IF_MATCH, names::IF_UNMODIFIED_SINCE, names::IF_NONE_MATCH, names::IF_MODIFIED_SINCE];
    request.iter().any(|field| conditions.iter().any(|name| field.is(name)))
}

/// Whether a response field of this name matters to conditions or is part of a 304.
pub fn concerns_conditions(name: &[u8]) -> bool {
    NOT_MODIFIED_FIELDS.iter().any(|kept| name.eq_ignore_ascii_case(kept.as_bytes()))
}

/// The fields of the 304 that replaces `response` (RFC 9110 section 15.4.5): those that guide
/// caches, and the validators.
pub fn not_modified_fields(response: &ResponseHead) -> Fields {
    response.fields.iter().filter(|field| concerns_conditions(&field.name)).cloned().collect()
}

const NOT_MODIFIED_FIELDS: [&str; 8] = [
    names::CACHE_CONTROL,
    names::CDN_CACHE_CONTROL,
    names::CONTENT_LOCATION,
    names::DATE,
    names::ETAG,
    names::EXPIRES,
    names::LAST_MODIFIED,
    names::VARY,
];

/// The last change of the response; if it has no `Last-Modified`, its `Date` (RFC 9111 section
/// 4.3.2).
fn last_change(response: &Fields) -> Option<Timestamp> {
    let name = if response.has(names::LAST_MODIFIED) { names::LAST_MODIFIED } else { names::DATE };
    single_date(response, name)
}

fn single_date(fields: &Fields, name: &str) -> Option<Timestamp> {
    fields.only(name).and_then(|value| parse_date(value))
}

/// Whether any entity tag in the list, or `*`, satisfies `accept`.
fn any_tag(request: &Fields, name: &str, accept: impl Fn(&[u8]) -> bool) -> bool {
    request.all(name).any(|value| list_members(value).any(&accept))
}

/// An entity tag without the mark `W/` and with its quotes, for weak comparison; `None` if `tag` is
/// no entity tag.
fn opaque(tag: &[u8]) -> Option<&[u8]> {
    let tag = tag.strip_prefix(b"W/").unwrap_or(tag);
    (tag.len() >= 2 && tag.starts_with(b"\"") && tag.ends_with(b"\"")).then_some(tag)
}

#[cfg(test)]
mod tests {
    use super::{ConditionOutcome, evaluate_conditions, not_modified_fields};
    use message::{Fields, ResponseHead, Status};

    const CHANGED: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
    const BEFORE: &str = "Sunday, 06-Nov-94 08:49:36 GMT";
    const AFTER: &str = "Sun Nov  6 08:49:38 1994";

    fn fields(lines: &[(&'static str, &'static str)]) -> Fields {
        lines.iter().copied().collect()
    }

    fn evaluate(
        request: &[(&'static str, &'static str)],
        response: &[(&'static str, &'static str)],
    ) -> ConditionOutcome {
        let mut head = ResponseHead::new(Status::OK);
        head.fields = fields(response);
        evaluate_conditions(&fields(request), &head)
    }

    #[test]
    fn if_none_match_compares_weakly() {
        let stored = [("ETag", "\"a,b\"")];
        for listed in ["\"a,b\"", "W/\"a,b\"", "\"x\", \"a,b\"", "*"] {
            assert_eq!(
                evaluate(&[("If-None-Match", listed)], &stored),
                ConditionOutcome::NotModified,
                "{listed}"
            );
        }
        for listed in ["\"a\"", "a,b", "\"A,B\"", "w/\"a,b\"", ""] {
            assert_eq!(
                evaluate(&[("If-None-Match", listed)], &stored),
                ConditionOutcome::Proceed,
                "{listed}"
            );
        }
        assert_eq!(
            evaluate(&[("If-None-Match", "\"x\"")], &[("ETag", "W/\"x\"")]),
            ConditionOutcome::NotModified
        );
        assert_eq!(evaluate(&[("If-None-Match", "x")], &[("ETag", "x")]), ConditionOutcome::Proceed);
        assert_eq!(evaluate(&[("If-None-Match", "*")], &[]), ConditionOutcome::NotModified);
    }

    #[test]
    fn if_modified_since_is_read_in_all_three_date_forms() {
        let stored = [("Last-Modified", CHANGED)];
        for (since, expected) in [
            (CHANGED, ConditionOutcome::NotModified),
            (AFTER, ConditionOutcome::NotModified),
            (BEFORE, ConditionOutcome::Proceed),
            ("0", ConditionOutcome::Proceed),
        ] {
            assert_eq!(evaluate(&[("If-Modified-Since", since)], &stored), expected, "{since}");
        }
        assert_eq!(
            evaluate(&[("If-Modified-Since", AFTER)], &[("Date", CHANGED)]),
            ConditionOutcome::NotModified
        );
        assert_eq!(evaluate(&[("If-Modified-Since", AFTER)], &[]), ConditionOutcome::Proceed);
    }

    #[test]
    fn if_none_match_overrides_if_modified_since() {
        let request = [("If-None-Match", "\"x\""), ("If-Modified-Since", AFTER)];
        assert_eq!(
            evaluate(&request, &[("ETag", "\"y\""), ("Last-Modified", CHANGED)]),
            ConditionOutcome::Proceed
        );
    }

    #[test]
    fn preconditions_are_evaluated_first() {
        let stored = [("ETag", "\"x\""), ("Last-Modified", CHANGED)];
        let failed = ConditionOutcome::PreconditionFailed;
        assert_eq!(evaluate(&[("If-Match", "\"y\""), ("If-None-Match", "\"x\"")], &stored), failed);
        assert_eq!(evaluate(&[("If-Match", "\"y\", \"x\"")], &stored), ConditionOutcome::Proceed);
        assert_eq!(evaluate(&[("If-Match", "*")], &stored), ConditionOutcome::Proceed);
        assert_eq!(evaluate(&[("If-Match", "W/\"x\"")], &[("ETag", "W/\"x\"")]), failed);
        assert_eq!(evaluate(&[("If-Unmodified-Since", BEFORE)], &stored), failed);
        assert_eq!(evaluate(&[("If-Unmodified-Since", CHANGED)], &stored), ConditionOutcome::Proceed);
        assert_eq!(
            evaluate(&[("If-Match", "\"x\""), ("If-Unmodified-Since", BEFORE)], &stored),
            ConditionOutcome::Proceed
        );
    }

    #[test]
    fn conditions_apply_only_to_success() {
        let mut head = ResponseHead::new(Status::NOT_FOUND);
        head.fields = fields(&[("ETag", "\"x\"")]);
        let request = fields(&[("If-None-Match", "\"x\""), ("If-Match", "\"y\"")]);
        assert_eq!(evaluate_conditions(&request, &head), ConditionOutcome::Proceed);
    }

    #[test]
    fn not_modified_carries_validators_and_cache_fields() {
        let mut head = ResponseHead::new(Status::OK);
        head.fields = fields(&[
            ("Content-Type", "text/html"),
            ("etag", "\"x\""),
            ("Vary", "a"),
            ("Content-Length", "3"),
            ("Vary", "b"),
        ]);
        assert_eq!(not_modified_fields(&head), fields(&[("etag", "\"x\""), ("Vary", "a"), ("Vary", "b")]));
    }
}
