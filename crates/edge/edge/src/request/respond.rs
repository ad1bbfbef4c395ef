//! Response heads as clients receive them.
//!
//! Invariants: the edge writes framing, connection and hop-by-hop fields itself, and removes the
//! fields that the origin meant for the edge alone. Every response has `Date`, `Via` and a
//! `Cache-Status` member with the reason. Every response that may have been made for another
//! request has an `Age`.

use crate::request::date::http_date;
use crate::request::forward::VIA;
use crate::request::refusal::Refusal;
use bytes::{Bytes, BytesMut};
use clock::Timestamp;
use config::{FieldRules, is_about_storing};
use h1::BodyFraming;
use message::{Field, Fields, Method, ResponseHead, Status, Version, names};
use semantics::{CacheStatusFacts, Directives, Reason, cache_status_value, known_lifetime};
use store::Object;

/// The properties of a request that decide the framing of its response.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Recipient<'a> {
    pub(crate) version: Version,
    pub(crate) head_only: bool,
    /// Whether the connection stays open after the response, if its framing allows it.
    pub(crate) persistent: bool,
    /// The time in seconds for which the client shall use https only; see the setting `hsts`.
    pub(crate) hsts_secs: Option<u64>,
    /// Changes to the header fields of the response, if its route orders some.
    pub(crate) fields: Option<&'a FieldRules>,
    /// Whether other caches may not store the response, because the client had to know a password.
    pub(crate) is_private: bool,
    /// Whether browsers may not store a private response either.
    pub(crate) is_unstored: bool,
    /// The names of request fields by which the route of the request was chosen.
    pub(crate) vary: Option<&'a str>,
}

/// The fields that differ between responses made from the same head.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ResponseAccount {
    pub(crate) reason: Reason,
    pub(crate) facts: CacheStatusFacts,
    pub(crate) age_secs: Option<u64>,
}

/// A serialised head and the framing of its content.
#[derive(Clone, Debug)]
pub(crate) struct SerialisedHead {
    pub(crate) octets: Bytes,
    pub(crate) framing: BodyFraming,
    /// Whether the connection stays open, as the head announces.
    pub(crate) persistent: bool,
}

impl Recipient<'_> {
    pub(crate) fn new(method: &Method, version: Version, persistent: bool) -> Self {
        Self {
            version,
            head_only: *method == Method::Head,
            persistent,
            hsts_secs: None,
            fields: None,
            is_private: false,
            is_unstored: false,
            vary: None,
        }
    }

    /// The framing for this client of a response with this status and source framing.
    fn framing(self, status: Status, source: BodyFraming) -> BodyFraming {
        if self.head_only || status.has_no_content() {
            return BodyFraming::Empty;
        }
        match source {
            BodyFraming::Empty => BodyFraming::Length(0),
            BodyFraming::Length(bytes) => BodyFraming::Length(bytes),
            BodyFraming::Chunked | BodyFraming::UntilClose if self.version == Version::Http11 => {
                BodyFraming::Chunked
            }
            BodyFraming::Chunked | BodyFraming::UntilClose => BodyFraming::UntilClose,
        }
    }
}

/// Prepares an origin's head for storing and sending: removes hop-by-hop fields and adds `Date` and
/// `Via`. `Content-Length` stays, for responses without content.
pub(crate) fn tidy(head: &mut ResponseHead, now: Timestamp) {
    h1::strip_hop_by_hop(&mut head.fields);
    head.version = Version::Http11;
    if !head.fields.has(names::DATE) {
        head.fields.push(names::DATE, http_date(now));
    }
    head.fields.push(names::VIA, VIA);
}

/// The bytes of a tidy head that are the same for every hit: all except age, Cache-Status and
/// connection fields.
pub(crate) fn prebuilt(head: &ResponseHead, content_bytes: u64) -> Bytes {
    let mut octets = BytesMut::with_capacity(head.fields.wire_bytes() + 64);
    put_start(&mut octets, head, |name| !is_for_storage(name));
    if !head.status.has_no_content() {
        // A decimal field with a known name cannot fail.
        let _ = h1::write_decimal_field(&mut octets, names::CONTENT_LENGTH, content_bytes);
    }
    octets.freeze()
}

/// The rest of a hit's head after the prebuilt bytes: the fields added for this request.
pub(crate) fn write_hit(
    object: &Object,
    account: &ResponseAccount,
    recipient: Recipient<'_>,
) -> SerialisedHead {
    let mut octets = BytesMut::with_capacity(192);
    put_account(&mut octets, account);
    put_added(&mut octets, recipient);
    put_connection(&mut octets, recipient.version, recipient.persistent);
    h1::write_head_end(&mut octets);
    let framing = recipient.framing(object.status(), BodyFraming::Length(object.content_bytes()));
    SerialisedHead { octets: octets.freeze(), framing, persistent: recipient.persistent }
}

/// Whether the route of the request changes fields of the stored head, or may change others than
/// usual because the response is an error. [`write_hit`] can then not use the prebuilt bytes.
pub(crate) fn changes_stored_head(object: &Object, recipient: Recipient<'_>) -> bool {
    if recipient.is_private {
        return true;
    }
    let Some(rules) = recipient.fields else { return false };
    if object.status().code() >= 400 {
        return true;
    }
    changes_prebuilt(object.prebuilt(), rules)
}

/// Whether the rules drop a field of these prebuilt bytes.
pub(crate) fn changes_prebuilt(prebuilt: &[u8], rules: &FieldRules) -> bool {
    let lines = prebuilt.split(|byte| *byte == b'\n');
    lines.filter_map(|line| line.split(|byte| *byte == b':').next()).any(|name| rules.drops(name))
}

/// The lifetime in browsers that the prebuilt head of a stored response gives it.
pub(crate) fn lifetime_of(object: &Object) -> Option<&'static str> {
    let value = |line: &[u8]| {
        let (name, value) = line.split_at_checked(names::CACHE_CONTROL.len())?;
        let is_named = name.eq_ignore_ascii_case(names::CACHE_CONTROL.as_bytes());
        let value = value.strip_prefix(b":").filter(|_| is_named)?;
        known_lifetime(value.trim_ascii())
    };
    object.prebuilt().split(|byte| *byte == b'\n').find_map(value)
}

/// Whether the head of a stored response, as it is sent, says that its content depends on the
/// codings that the client accepts.
pub(crate) fn varies_by_coding(object: &Object) -> bool {
    let mut vary = Fields::new();
    for line in object.prebuilt().split(|byte| *byte == b'\n') {
        let Some((name, value)) = line.split_at_checked(names::VARY.len()) else { continue };
        if let Some(value) = value.strip_prefix(b":")
            && name.eq_ignore_ascii_case(names::VARY.as_bytes())
        {
            vary.push(names::VARY, Bytes::copy_from_slice(value.trim_ascii()));
        }
    }
    semantics::names_coding(&vary)
}

/// The rest of the head of a whole file of `bytes` bytes after its prebuilt bytes.
pub(crate) fn write_file(
    bytes: u64,
    account: &ResponseAccount,
    recipient: Recipient<'_>,
    now: Timestamp,
) -> SerialisedHead {
    let mut octets = BytesMut::with_capacity(192);
    // Cannot fail: the name and the value are valid.
    let _ = h1::write_field(&mut octets, names::DATE, &http_date(now));
    put_account(&mut octets, account);
    put_added(&mut octets, recipient);
    put_connection(&mut octets, recipient.version, recipient.persistent);
    h1::write_head_end(&mut octets);
    let framing = recipient.framing(Status::OK, BodyFraming::Length(bytes));
    SerialisedHead { octets: octets.freeze(), framing, persistent: recipient.persistent }
}

/// The head of any other response: a tidy head and its source's framing. Only responses about the
/// edge itself have no `account`.
pub(crate) fn write_head(
    head: &ResponseHead,
    source: BodyFraming,
    account: Option<&ResponseAccount>,
    recipient: Recipient<'_>,
) -> SerialisedHead {
    let rules = recipient.fields.filter(|_| head.status.code() >= 400).map(FieldRules::for_errors);
    let recipient = Recipient { fields: rules.as_ref().or(recipient.fields), ..recipient };
    let framing = recipient.framing(head.status, source);
    let persistent = recipient.persistent && framing != BodyFraming::UntilClose;
    let mut octets = BytesMut::with_capacity(head.fields.wire_bytes() + 256);
    // In a response to HEAD and in a 304, Content-Length describes the content that a GET would
    // have received.
    let keeps_length =
        framing == BodyFraming::Empty && (recipient.head_only || head.status == Status::NOT_MODIFIED);
    let has_age = account.is_some_and(|account| account.age_secs.is_some());
    put_start(&mut octets, head, |name| {
        let length = name.eq_ignore_ascii_case(names::CONTENT_LENGTH.as_bytes());
        let age = name.eq_ignore_ascii_case(names::AGE.as_bytes());
        let is_dropped = recipient.fields.is_some_and(|rules| rules.drops(name));
        let is_for_caches = recipient.is_private && is_about_storing(name);
        !(length && !keeps_length || age && has_age || is_dropped || is_for_caches)
    });
    if recipient.is_private {
        let stays_unstored = recipient.is_unstored || Directives::of_response(&head.fields).no_store;
        let value = if stays_unstored { "private, no-store" } else { "private, no-cache" };
        // Cannot fail: the name and the value are valid.
        let _ = h1::write_field(&mut octets, names::CACHE_CONTROL, value.as_bytes());
    }
    // Cannot fail: names and values are valid constants or numbers.
    let _ = match framing {
        BodyFraming::Length(bytes) => h1::write_decimal_field(&mut octets, names::CONTENT_LENGTH, bytes),
        BodyFraming::Chunked => h1::write_field(&mut octets, names::TRANSFER_ENCODING, b"chunked"),
        BodyFraming::Empty | BodyFraming::UntilClose => Ok(()),
    };
    if let Some(account) = account {
        put_account(&mut octets, account);
    }
    put_added(&mut octets, recipient);
    put_connection(&mut octets, recipient.version, persistent);
    h1::write_head_end(&mut octets);
    SerialisedHead { octets: octets.freeze(), framing, persistent }
}

/// The bytes of an informational response (RFC 9110 section 15.2) for the client.
pub(crate) fn write_informational(mut head: ResponseHead) -> Bytes {
    h1::strip_hop_by_hop(&mut head.fields);
    head.version = Version::Http11;
    let mut octets = BytesMut::with_capacity(head.fields.wire_bytes() + 64);
    put_start(&mut octets, &head, |_| true);
    h1::write_head_end(&mut octets);
    octets.freeze()
}

/// The head that switches protocols (RFC 9110 section 15.2.2).
pub(crate) fn write_switch(mut head: ResponseHead) -> Bytes {
    let protocols: Vec<_> = head.fields.all(names::UPGRADE).cloned().collect();
    h1::strip_hop_by_hop(&mut head.fields);
    head.version = Version::Http11;
    head.fields.push(names::CONNECTION, "upgrade");
    for protocol in protocols {
        head.fields.push(names::UPGRADE, protocol);
    }
    let mut octets = BytesMut::with_capacity(head.fields.wire_bytes() + 64);
    put_start(&mut octets, &head, |_| true);
    h1::write_head_end(&mut octets);
    octets.freeze()
}

/// A response made by the edge: its head and its content.
pub(crate) fn write_refusal(
    refusal: &Refusal,
    now: Timestamp,
    recipient: Recipient<'_>,
) -> (SerialisedHead, Bytes) {
    let (content_type, page) = refusal.page();
    let mut head = ResponseHead::new(refusal.status);
    head.fields.push(names::DATE, http_date(now));
    head.fields.push(names::VIA, VIA);
    head.fields.push(names::CONTENT_TYPE, content_type.into_owned());
    // Caches may keep what the configuration states, as the status permits.
    if !matches!(refusal.reason, Reason::Redirected | Reason::Fixed | Reason::StaticFile) {
        head.fields.push(names::CACHE_CONTROL, "no-store");
    }
    // For HEAD; a response with content has it by its framing.
    head.fields.push(names::CONTENT_LENGTH, page.len().to_string());
    if let Some(challenge) = &refusal.challenge {
        head.fields.push("WWW-Authenticate", challenge.to_string());
    }
    if let Some(url) = &refusal.location {
        head.fields.push(names::LOCATION, url.to_string());
    }
    if refusal.reason == Reason::FileMethod {
        head.fields.push("Allow", "GET, HEAD");
    }
    if let Some(secs) = refusal.retry_after_secs {
        head.fields.push(names::RETRY_AFTER, secs.to_string());
    }
    let account =
        ResponseAccount { reason: refusal.reason, facts: CacheStatusFacts::default(), age_secs: None };
    let recipient = Recipient { persistent: recipient.persistent && !refusal.close, ..recipient };
    (write_head(&head, BodyFraming::Length(page.len() as u64), Some(&account), recipient), Bytes::from(page))
}

/// The 304 response for a stored response.
pub(crate) fn not_modified(head: &ResponseHead) -> ResponseHead {
    with_fields(Status::NOT_MODIFIED, semantics::not_modified_fields(head))
}

/// The 412 response for a condition that does not hold.
pub(crate) fn precondition_failed(head: &ResponseHead) -> ResponseHead {
    with_fields(Status::from_code(412).unwrap_or(Status::BAD_REQUEST), date_and_tag(head))
}

/// The 416 response for a range that begins after the end of a stored response of `bytes` bytes.
pub(crate) fn unsatisfiable(head: &ResponseHead, bytes: u64) -> ResponseHead {
    let ResponseHead { status, mut fields, .. } = semantics::unsatisfiable_head(bytes);
    date_and_tag(head).iter().for_each(|field| fields.push(field.name.clone(), field.value.clone()));
    with_fields(status, fields)
}

fn date_and_tag(head: &ResponseHead) -> Fields {
    let mut fields = semantics::not_modified_fields(head);
    fields.retain(|field| field.is(names::DATE) || field.is(names::ETAG));
    fields
}

fn with_fields(status: Status, mut fields: Fields) -> ResponseHead {
    fields.push(names::VIA, VIA);
    ResponseHead { fields, ..ResponseHead::new(status) }
}

/// Fields of a stored head that a hit replaces with its own.
fn is_for_storage(name: &[u8]) -> bool {
    [names::AGE, names::CONTENT_LENGTH].iter().any(|kept| name.eq_ignore_ascii_case(kept.as_bytes()))
}

/// Fields that the origin sends to its surrogate, the edge: those of the Edge Architecture
/// Specification, tags, and purge orders.
fn is_for_the_edge(field: &Field) -> bool {
    field.is(names::SURROGATE_CONTROL) || purge::is_hidden(&field.name)
}

/// Writes the status line and the fields that `keep` accepts, except those for the edge alone. A
/// field that cannot be written is left out; there is none, because heads are parsed as strictly as
/// they are written.
fn put_start(octets: &mut BytesMut, head: &ResponseHead, keep: impl Fn(&[u8]) -> bool) {
    if h1::write_status_line(octets, head.version, head.status, &head.reason).is_err() {
        let _ = h1::write_status_line(octets, head.version, head.status, head.status.reason().as_bytes());
    }
    for field in head.fields.iter().filter(|field| keep(&field.name) && !is_for_the_edge(field)) {
        if let Ok(name) = std::str::from_utf8(&field.name) {
            let _ = h1::write_field(octets, name, &field.value);
        }
    }
}

fn put_account(octets: &mut BytesMut, account: &ResponseAccount) {
    if let Some(age_secs) = account.age_secs {
        // Cannot fail, as for all fields that the edge makes: names and values are valid.
        let _ = h1::write_decimal_field(octets, names::AGE, age_secs);
    }
    let _ = h1::write_field(octets, names::CACHE_STATUS, &cache_status_value(account.reason, account.facts));
}

/// Writes the fields that the settings of the site and the route add.
fn put_added(octets: &mut BytesMut, recipient: Recipient<'_>) {
    put_transport_security(octets, recipient);
    if let Some(fields) = recipient.vary {
        // Cannot fail: the configuration accepts only legal names.
        let _ = h1::write_field(octets, names::VARY, fields.as_bytes());
    }
    let added = recipient.fields.into_iter().flat_map(FieldRules::added);
    for (name, value) in added.filter(|(name, _)| !recipient.is_private || !is_about_storing(name.as_bytes()))
    {
        // Cannot fail: the configuration accepts only legal names and values.
        let _ = h1::write_field(octets, name, value.as_bytes());
    }
}

/// Tells the client to use https only (RFC 6797). A client obeys the first such field, so one of
/// the origin counts more.
fn put_transport_security(octets: &mut BytesMut, recipient: Recipient<'_>) {
    if let Some(secs) = recipient.hsts_secs {
        let value = format!("max-age={secs}");
        // Cannot fail: the name and the value are valid.
        let _ = h1::write_field(octets, "Strict-Transport-Security", value.as_bytes());
    }
}

/// Writes the Connection option if it differs from the default of the version (RFC 9112 section
/// 9.3).
fn put_connection(octets: &mut BytesMut, version: Version, persistent: bool) {
    let option: &[u8] = match (version, persistent) {
        (_, false) => b"close",
        (Version::Http10, true) => b"keep-alive",
        (Version::Http11, true) => return,
    };
    // Cannot fail: the name and both values are valid.
    let _ = h1::write_field(octets, names::CONNECTION, option);
}

#[cfg(test)]
mod tests {
    use super::{
        Recipient, ResponseAccount, prebuilt, tidy, write_head, write_hit, write_informational,
        write_refusal, write_switch,
    };
    use crate::request::refusal::Refusal;
    use clock::Timestamp;
    use h1::BodyFraming;
    use message::{Method, ResponseHead, Status, Version};
    use semantics::{CacheStatusFacts, Freshness, Moment, Reason};
    use std::time::Duration;
    use store::{Body, Object};

    const NOW: Timestamp = Timestamp::from_secs(784_111_777);

    fn head(code: u16, fields: &[(&'static str, &'static str)]) -> ResponseHead {
        let mut head = ResponseHead::new(Status::from_code(code).unwrap());
        for (name, value) in fields {
            head.fields.push(*name, *value);
        }
        head
    }

    fn account(age_secs: Option<u64>) -> ResponseAccount {
        ResponseAccount { reason: Reason::PassCookie, facts: CacheStatusFacts::default(), age_secs }
    }

    fn recipient(method: &Method, version: Version) -> Recipient<'static> {
        Recipient::new(method, version, true)
    }

    fn text(octets: &[u8]) -> String {
        String::from_utf8(octets.to_vec()).unwrap()
    }

    #[test]
    fn framing_depends_on_the_client_and_is_announced_once() {
        use BodyFraming::{Chunked, Empty, Length, UntilClose};
        let (get, new, old) = (Method::Get, Version::Http11, Version::Http10);
        for (source, version, framing, line, persistent) in [
            (Length(5), new, Length(5), "Content-Length: 5", true),
            (Empty, new, Length(0), "Content-Length: 0", true),
            (Chunked, new, Chunked, "Transfer-Encoding: chunked", true),
            (UntilClose, new, Chunked, "Transfer-Encoding: chunked", true),
            (Length(5), old, Length(5), "Connection: keep-alive", true),
            (Chunked, old, UntilClose, "Connection: close", false),
        ] {
            let head = head(200, &[("Content-Length", "7"), ("X", "y")]);
            let written = write_head(&head, source, Some(&account(None)), recipient(&get, version));
            let text = text(&written.octets);
            assert_eq!(
                (written.framing, written.persistent),
                (framing, persistent),
                "{source:?} {version:?}"
            );
            assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
            assert!(!text.contains("Content-Length: 7") && text.contains("X: y\r\n"), "{text}");
        }
    }

    #[test]
    fn content_length_stays_in_responses_to_head_and_304() {
        for (method, code, stays) in [
            (Method::Head, 200, true),
            (Method::Get, 304, true),
            (Method::Get, 204, false),
            (Method::Head, 204, true),
        ] {
            let head = head(code, &[("Content-Length", "7")]);
            let written = write_head(
                &head,
                BodyFraming::Empty,
                Some(&account(None)),
                recipient(&method, Version::Http11),
            );
            assert_eq!(written.framing, BodyFraming::Empty);
            assert_eq!(text(&written.octets).contains("Content-Length: 7\r\n"), stays, "{method} {code}");
        }
    }

    #[test]
    fn tidy_removes_hop_by_hop_fields_and_adds_date_and_via() {
        let mut head =
            head(200, &[("Connection", "close, X-Hop"), ("X-Hop", "1"), ("Keep-Alive", "5"), ("A", "b")]);
        tidy(&mut head, NOW);
        let names: Vec<_> = head.fields.iter().map(|field| text(&field.name)).collect();
        assert_eq!(names, ["A", "Date", "Via"]);
        assert_eq!(head.fields.first("date").unwrap(), "Sun, 06 Nov 1994 08:49:37 GMT");
    }

    #[test]
    fn hit_adds_its_fields_to_the_prebuilt_head() {
        let mut head = head(200, &[("Age", "100"), ("Content-Length", "9"), ("A", "b")]);
        tidy(&mut head, NOW);
        let body = Body::copy_of(b"hello");
        let freshness = Freshness::lasting(Duration::from_secs(60), Moment::default());
        let object = Object::new(&head, &prebuilt(&head, body.len()), body, freshness);
        let facts = CacheStatusFacts { ttl_secs: Some(50), ..CacheStatusFacts::default() };
        let account = ResponseAccount { reason: Reason::HitFresh, facts, age_secs: Some(10) };
        let written = write_hit(&object, &account, recipient(&Method::Get, Version::Http11));
        assert_eq!(
            text(&[object.prebuilt(), &written.octets].concat()),
            "HTTP/1.1 200 OK\r\nA: b\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\nVia: 1.1 petasos\r\nContent-Length: 5\r\n\
             Age: 10\r\nCache-Status: Petasos; hit; ttl=50; detail=hit-fresh\r\n\r\n"
        );
        let closing = Recipient { persistent: false, ..recipient(&Method::Get, Version::Http11) };
        assert!(
            text(&write_hit(&object, &account, closing).octets).contains("\r\nConnection: close\r\n\r\n")
        );
    }

    #[test]
    fn age_of_the_edge_replaces_the_age_of_the_origin() {
        let head = head(200, &[("Age", "100")]);
        let ages = |age_secs| {
            let written = write_head(
                &head,
                BodyFraming::Empty,
                Some(&account(age_secs)),
                recipient(&Method::Get, Version::Http11),
            );
            text(&written.octets).lines().filter(|line| line.starts_with("Age")).collect::<Vec<_>>().join(";")
        };
        assert_eq!((ages(Some(3)), ages(None)), ("Age: 3".to_owned(), "Age: 100".to_owned()));
    }

    #[test]
    fn informational_and_switch_heads_lose_hop_by_hop_fields() {
        let hints = head(103, &[("Link", "</a>"), ("Connection", "close")]);
        assert_eq!(text(&write_informational(hints)), "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n");
        let switch =
            head(101, &[("Upgrade", "websocket"), ("Connection", "Upgrade"), ("Sec-WebSocket-Accept", "x")]);
        assert_eq!(
            text(&write_switch(switch)),
            "HTTP/1.1 101 Switching Protocols\r\nSec-WebSocket-Accept: x\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n"
        );
    }

    #[test]
    fn refusal_explains_itself_and_has_no_store() {
        let (written, page) =
            write_refusal(&Refusal::unknown_site(false), NOW, recipient(&Method::Get, Version::Http11));
        let head = text(&written.octets);
        assert!(head.starts_with("HTTP/1.1 421 ") && head.contains("Cache-Control: no-store\r\n"), "{head}");
        assert!(written.persistent && text(&page).ends_with("is served here.\n"));
        let (written, _) = write_refusal(&Refusal::connect(), NOW, recipient(&Method::Get, Version::Http11));
        assert!(!written.persistent);
    }
}
