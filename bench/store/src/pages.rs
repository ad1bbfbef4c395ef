//! Pages as a content management system generates them.

use bytes::{Bytes, BytesMut};
use message::{Fields, ResponseHead, Status};
use semantics::{Freshness, Moment, VariantKey, VaryRule};
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;
use store::{Body, Key, Object, Publication, PublishResult, SiteId, Store};

/// Number of different tags.
pub(crate) const TAGS: u64 = 50_000;
/// Number of tags on a page.
pub(crate) const TAGS_OF_PAGE: u64 = 4;

pub(crate) const SITE: SiteId = SiteId(0);

pub(crate) fn key(number: u64) -> Key {
    Key::new(SITE, true, b"www.example.org", Bytes::from(format!("/articles/{number:07}/some-title")))
}

pub(crate) fn tag(number: u64) -> Bytes {
    Bytes::from(format!("node:{number}"))
}

/// Tags of a page. All tags are used equally often.
pub(crate) fn tags_of(number: u64) -> Vec<Bytes> {
    (0..TAGS_OF_PAGE)
        .map(|place| tag(number.wrapping_mul(2_654_435_761).wrapping_add(place * 12_347) % TAGS))
        .collect()
}

pub(crate) fn head(number: u64) -> ResponseHead {
    let mut head = ResponseHead::new(Status::OK);
    for (name, value) in [
        ("Date", "Sun, 06 Nov 1994 08:49:37 GMT".to_owned()),
        ("Server", "Apache/2.4.62 (Debian)".to_owned()),
        ("Cache-Control", "public, max-age=3600, s-maxage=86400".to_owned()),
        ("ETag", format!("\"{number:x}-5b4cd3\"")),
        ("Last-Modified", "Sun, 06 Nov 1994 08:00:00 GMT".to_owned()),
        ("Content-Type", "text/html; charset=UTF-8".to_owned()),
        ("Content-Language", "en".to_owned()),
        ("X-Content-Type-Options", "nosniff".to_owned()),
        ("X-Frame-Options", "SAMEORIGIN".to_owned()),
        ("Link", format!("<https://www.example.org/?p={number}>; rel=shortlink")),
        ("Via", "1.1 petasos".to_owned()),
    ] {
        head.fields.push(name, value);
    }
    head
}

/// A head in the form that the store keeps and sends on a hit.
pub(crate) fn prebuilt(head: &ResponseHead, content_bytes: u64) -> BytesMut {
    let mut octets = BytesMut::from("HTTP/1.1 200 OK\r\n");
    for field in &head.fields {
        for part in [&field.name[..], b": ", &field.value, b"\r\n"] {
            octets.extend_from_slice(part);
        }
    }
    // Writing to memory cannot fail.
    let _ = write!(octets, "Content-Length: {content_bytes}\r\n");
    octets
}

/// Stores a page. Returns the bytes of its head and body, or `None` if it was not stored.
pub(crate) fn publish(store: &Store, number: u64, body: Body) -> Option<u64> {
    let head = head(number);
    let prebuilt = prebuilt(&head, body.len());
    let octets = prebuilt.len() as u64 + body.len();
    let freshness = Freshness::lasting(Duration::from_secs(3_600), Moment::default());
    let published = store.publish(Publication {
        key: &key(number),
        rule: VaryRule::default(),
        variant: VariantKey::default(),
        object: Arc::new(Object::new(&head, &prebuilt, body, freshness)),
        tags: &tags_of(number),
        begun: store.sequence(),
    });
    (published == PublishResult::Stored).then_some(octets)
}

/// Header fields of a browser's request.
pub(crate) fn request_fields() -> Fields {
    let mut fields = Fields::new();
    fields.push("Host", "www.example.org");
    fields.push("Accept", "text/html,application/xhtml+xml");
    fields.push("Accept-Encoding", "gzip, deflate, br");
    fields
}
