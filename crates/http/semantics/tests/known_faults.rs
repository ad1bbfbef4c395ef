//! One test for each fault that was found in another library for these decisions
//! (http-cache-semantics 3.0.0). This crate must not have them.

use bytes::Bytes;
use clock::{Monotonic, Timestamp};
use message::{Fields, Method, RequestHead, ResponseHead, Status, Version};
use petasos_semantics::{
    ByteRange, Directives, Freshness, Judgement, Moment, Policy, RangeAnswer, Reason, Reuse, Storable,
    answer_range, format_date, invalidated_targets, judge_response, not_modified_fields, reuse,
    reuse_on_error, updated_head,
};

type FieldLines = [(&'static str, &'static str)];

/// Sun, 06 Nov 1994 08:49:37 GMT.
const NOW_SECS: u64 = 784_111_777;
const NOW_DATE: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
const DAY_LATER_DATE: &str = "Mon, 07 Nov 1994 08:49:37 GMT";

fn at(later_secs: u64) -> Moment {
    Moment {
        wall: Timestamp::from_secs(NOW_SECS + later_secs),
        monotonic: Monotonic::from_nanos(later_secs * 1_000_000_000),
    }
}

fn head(status: u16, fields: &FieldLines) -> ResponseHead {
    let mut head = ResponseHead::new(Status::from_code(status).unwrap_or(Status::OK));
    fields.iter().for_each(|(name, value)| head.fields.push(*name, *value));
    head
}

fn judged(status: u16, fields: &FieldLines, policy: &Policy) -> Result<Storable, Reason> {
    let request = RequestHead {
        method: Method::Get,
        target: "/".into(),
        version: Version::Http11,
        fields: Fields::new(),
    };
    match judge_response(&request, &head(status, fields), at(0), at(0), policy) {
        Judgement::Store(storable) => Ok(storable),
        Judgement::DoNotStore(reason) => Err(reason),
    }
}

fn lifetime_secs(fields: &FieldLines) -> Result<u64, Reason> {
    judged(200, fields, &Policy::rfc()).map(|storable| storable.freshness.lifetime.as_secs())
}

fn values(fields: &Fields, name: &str) -> Vec<Bytes> {
    fields.all(name).cloned().collect()
}

/// 1. RFC 9111 section 5.2: names of directives ignore case.
#[test]
fn directives_are_read_in_any_case() {
    assert_eq!(lifetime_secs(&[("Cache-Control", "Max-Age=60")]), Ok(60));
    assert_eq!(lifetime_secs(&[("Cache-Control", "max-age=60, No-Store")]), Err(Reason::StoreRefusedNoStore));
}

/// 2. RFC 9110 section 5.6.4: a comma in a quoted string does not separate.
#[test]
fn comma_in_quotes_does_not_separate() {
    let fields = [("Cache-Control", "max-age=60, private=\"A, no-store\", x=\"max-age=1\"")];
    let storable = judged(200, &fields, &Policy::rfc());
    assert!(
        matches!(&storable, Ok(Storable { withheld, .. }) if withheld == &["A", "no-store"]),
        "{storable:?}"
    );
    assert_eq!(lifetime_secs(&fields), Ok(60));
}

/// 3. RFC 9110 section 5.3: all lines of a field are kept when a response is stored, updated and
///    sent.
#[test]
fn every_line_of_a_field_is_kept() {
    let stored = head(200, &[("Link", "<a>"), ("Set-Cookie", "a=1"), ("Link", "<b>"), ("Set-Cookie", "b=2")]);
    let untouched = updated_head(&stored, &head(304, &[("ETag", "\"a\"")]));
    assert_eq!(values(&untouched.fields, "Link"), ["<a>", "<b>"]);
    assert_eq!(values(&untouched.fields, "Set-Cookie"), ["a=1", "b=2"]);
    let updated = updated_head(&stored, &head(304, &[("Link", "<c>"), ("Link", "<d>")]));
    assert_eq!(values(&updated.fields, "Link"), ["<c>", "<d>"]);
    let confirmed = not_modified_fields(&head(200, &[("Vary", "a"), ("Vary", "b")]));
    assert_eq!(values(&confirmed, "Vary"), ["a", "b"]);
}

/// 4. RFC 9111 section 3.2: a 304 adds fields that were not stored.
#[test]
fn not_modified_adds_new_fields() {
    let updated =
        updated_head(&head(200, &[("A", "1")]), &head(304, &[("B", "2"), ("Cache-Control", "max-age=9")]));
    assert_eq!(updated.fields, head(200, &[("A", "1"), ("B", "2"), ("Cache-Control", "max-age=9")]).fields);
}

/// 5. RFC 9110 sections 5.6.7 and 6.6.1: a stored `Date` is kept, and a written one is an
///    IMF-fixdate in GMT.
#[test]
fn dates_are_kept_and_written_as_imf_fixdates() {
    let confirmed = not_modified_fields(&head(200, &[("Date", "Sunday, 06-Nov-94 08:49:37 GMT")]));
    assert_eq!(values(&confirmed, "Date"), ["Sunday, 06-Nov-94 08:49:37 GMT"]);
    assert_eq!(format_date(at(0).wall), NOW_DATE);
}

/// 6. RFC 9110 section 5.6.7: dates are read in the two obsolete forms too.
#[test]
fn obsolete_dates_are_read() {
    for expires in [DAY_LATER_DATE, "Monday, 07-Nov-94 08:49:37 GMT", "Mon Nov  7 08:49:37 1994"] {
        assert_eq!(lifetime_secs(&[("Expires", expires), ("Date", NOW_DATE)]), Ok(24 * 3600), "{expires}");
    }
}

/// 7. RFC 9111 section 4.2.3: the age includes the age that `Date` shows and the response delay.
#[test]
fn age_includes_date_and_delay() {
    let fresh = ("Cache-Control", "max-age=60");
    let late = head(200, &[fresh, ("Date", "Sun, 06 Nov 1994 08:49:07 GMT")]);
    let request = RequestHead {
        method: Method::Get,
        target: "/".into(),
        version: Version::Http11,
        fields: Fields::new(),
    };
    let age_secs = |head: &ResponseHead| match judge_response(&request, head, at(0), at(4), &Policy::rfc()) {
        Judgement::Store(storable) => storable.freshness.age(at(5)).as_secs(),
        Judgement::DoNotStore(_) => 0,
    };
    assert_eq!(age_secs(&late), 35);
    assert_eq!(age_secs(&head(200, &[fresh, ("Age", "10")])), 15);
    assert_eq!(age_secs(&head(200, &[fresh])), 5);
}

/// 8. RFC 9111 sections 4.2.4 and 5.2.2.4: `max-stale` does not permit stale use that the response
///    forbids.
#[test]
fn max_stale_does_not_override_the_response() {
    let patient = Directives { max_stale_secs: Some(1 << 31), ..Directives::default() };
    let tag = ("ETag", "\"a\"");
    for control in
        ["max-age=1, no-cache", "max-age=1, proxy-revalidate", "max-age=1, must-revalidate", "s-maxage=1"]
    {
        for policy in [Policy::default_profile(), Policy::rfc()] {
            let storable = judged(200, &[("Cache-Control", control), tag], &policy);
            let revived =
                storable.map(|Storable { freshness, .. }| reuse(&freshness, &patient, &policy, at(10)));
            assert!(matches!(revived, Ok(Reuse::Revalidate(_))), "{control}: {revived:?}");
        }
    }
    let cookie = [("Cache-Control", "max-age=0"), tag, ("Set-Cookie", "a=b")];
    assert_eq!(judged(200, &cookie, &Policy::default_profile()), Err(Reason::StoreRefusedSetCookie));
}

/// 9. RFC 9111 section 5.2.2.8: `proxy-revalidate` does not affect a fresh response.
#[test]
fn proxy_revalidate_does_not_affect_fresh_responses() {
    let storable =
        judged(200, &[("Cache-Control", "max-age=60, proxy-revalidate")], &Policy::default_profile());
    let policy = Policy::default_profile();
    let reused =
        storable.map(|Storable { freshness, .. }| reuse(&freshness, &Directives::default(), &policy, at(10)));
    assert_eq!(reused, Ok(Reuse::Fresh { age_secs: 10, ttl_secs: 50 }));
}

/// 10. RFC 5861, RFC 9213, RFC 9110 section 14, RFC 9111 sections 4.4 and 5.2.2.3: features that
///     the other library lacks.
#[test]
fn stale_use_ranges_targeting_and_invalidation_work() {
    let policy = Policy::rfc();
    let control = ("Cache-Control", "max-age=1, stale-while-revalidate=60, stale-if-error=60");
    let usable = |freshness: &Freshness| {
        let directives = Directives::default();
        let meanwhile = reuse(freshness, &directives, &policy, at(10));
        let instead = reuse_on_error(freshness, &directives, &policy, at(10));
        matches!((meanwhile, instead), (Reuse::Stale { refresh: true, .. }, Some(Reuse::Stale { .. })))
    };
    assert!(judged(200, &[control], &policy).is_ok_and(|storable| usable(&storable.freshness)));
    assert_eq!(lifetime_secs(&[("Cache-Control", "no-store, must-understand, max-age=60")]), Ok(60));
    assert_eq!(lifetime_secs(&[("Cache-Control", "no-store"), ("CDN-Cache-Control", "max-age=60")]), Ok(60));
    let mut fields = Fields::new();
    fields.push("Range", "bytes=1-2");
    let part = RangeAnswer::Parts(vec![ByteRange { first: 1, last: 2 }]);
    assert_eq!(answer_range(&Method::Get, &fields, &head(200, &[]), 9), part);
    let targets =
        invalidated_targets(&Method::Post, true, b"example.org", b"/a", &head(201, &[("Location", "/b")]));
    assert_eq!(targets, ["/a", "/b"]);
}

/// 11. RFC 9111 section 3: any final status may be stored when the response states a lifetime.
#[test]
fn final_statuses_are_stored_with_a_stated_lifetime() {
    for status in [500, 503, 299, 599] {
        for policy in [Policy::default_profile(), Policy::rfc()] {
            assert!(
                judged(status, &[("Cache-Control", "max-age=60")], &policy).is_ok(),
                "{status} {}",
                policy.name
            );
        }
    }
}
