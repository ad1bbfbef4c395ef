//! Requests as the origin receives them.
//!
//! Invariants: a fetch whose response may be shared carries the cache key, constants, and the
//! fields that a known `Vary` put into the variant's key. It carries nothing else from its client.
//! A fetch for one client carries everything that this client sent, except fields that only the
//! edge may set. Framing and hop-by-hop fields are regenerated.
//!
//! A shared fetch names a constant client address, the *placeholder address*, unless the profile
//! wants that of the leader. The default is 192.0.2.1, which belongs to no client (RFC 5737).

use crate::fetch::base::Base;
use crate::request::guard::{CDN_LOOP, RequestSubject, forwards_left};
use crate::shared::Shared;
use bytes::{Bytes, BytesMut};
use config::FieldRules;
use h1::{BodyFraming, Request, WriteError};
use message::{Fields, Method, RequestHead, Version, names};
use net::Peer;
use origin::{FetchClient, FetchRequest, Urgency};
use profiles::{ClientAddress, NOBODYS_ADDRESS, Policy};
use request_log::{SAMPLED, SpanContext, trace_of};
use semantics::{Doubt, VaryRule, confirming_fields, missing_part_fields, passed_fields, shared_fields};
use std::net::IpAddr;
use store::Key;

/// The edge's name in `Via` (RFC 9110 section 7.6.3).
pub(crate) const VIA: &str = "1.1 petasos";

/// What Petasos can do for the origin (Edge Architecture Specification).
const ESI_CAPABILITY: &str = "petasos=\"ESI/1.0\"";

/// Fields of a request that refer to bytes which its client has or wants.
const OF_KNOWN_BYTES: [&str; 6] = [
    names::RANGE,
    names::IF_RANGE,
    names::IF_NONE_MATCH,
    names::IF_MODIFIED_SINCE,
    names::IF_MATCH,
    names::IF_UNMODIFIED_SINCE,
];

/// The head of a request whose response may be shared. `method` is GET or HEAD; `known` is the rule
/// by which responses of this key are known to vary.
pub(crate) fn shared_head(
    subject: &RequestSubject<'_>,
    loop_mark: &Bytes,
    key: &Key,
    method: Method,
    visitor: &Fields,
    known: &VaryRule,
) -> RequestHead {
    let mut visitor = visitor.clone();
    h1::strip_hop_by_hop(&mut visitor);
    let mut fields = shared_fields(&visitor, known, subject.site.policy());
    let host = Bytes::copy_from_slice(key.host());
    fields.set(names::HOST, host.clone());
    fields.push(names::X_FORWARDED_HOST, host);
    fields.push(names::X_FORWARDED_PROTO, scheme(subject));
    fields.push(names::X_FORWARDED_FOR, shared_address(subject, &visitor));
    push_marks(&mut fields, subject, loop_mark);
    change_fields(&mut fields, &subject.site.plan.request_fields);
    let target = Bytes::copy_from_slice(key.target());
    RequestHead { method, target, version: Version::Http11, fields }
}

/// Adds the fields by which later servers see that the request passed through this edge.
fn push_marks(fields: &mut Fields, subject: &RequestSubject<'_>, loop_mark: &Bytes) {
    if subject.site.plan.via_to_origin {
        fields.push(names::VIA, VIA);
    }
    fields.push(CDN_LOOP, loop_mark.clone());
    if subject.site.plan.esi {
        fields.set(names::SURROGATE_CAPABILITY, ESI_CAPABILITY);
        // Templates are parsed, and may be in any response.
        fields.set(names::ACCEPT_ENCODING, "identity");
    }
}

/// Changes the fields of a request as the settings of its site say.
fn change_fields(fields: &mut Fields, rules: &FieldRules) {
    for name in &rules.remove {
        fields.remove(name);
    }
    for (name, value) in &rules.set {
        fields.remove(name);
        fields.push(name.clone(), value.clone());
    }
}

/// Whether a fetch whose response may be shared carries the placeholder address, which belongs to
/// no client.
pub(crate) fn is_impersonal(subject: &RequestSubject<'_>) -> bool {
    subject.peer.is_none() || matches!(subject.site.policy().client_address, ClientAddress::Constant(_))
}

/// The client address on a fetch whose response may be shared. It is never missing, because an
/// origin takes a request without the field for a local one.
fn shared_address(subject: &RequestSubject<'_>, visitor: &Fields) -> Bytes {
    match subject.site.policy().client_address {
        ClientAddress::Constant(address) => Bytes::from(address.to_string()),
        ClientAddress::Leader => own_address(subject, visitor),
    }
}

/// The client's address, after those that a trusted proxy reported. The placeholder address if none
/// is known.
fn own_address(subject: &RequestSubject<'_>, visitor: &Fields) -> Bytes {
    let before = if subject.trusted { visitor.list(names::X_FORWARDED_FOR).collect() } else { Vec::new() };
    let own = subject.peer.and_then(|peer| peer.ip()).map(|ip| ip.to_string());
    let chain: Vec<&[u8]> = before.into_iter().chain(own.as_deref().map(str::as_bytes)).collect();
    if chain.is_empty() {
        Bytes::from(NOBODYS_ADDRESS.to_string())
    } else {
        Bytes::from(chain.join(&b", "[..]))
    }
}

/// The fields by which a fetch requests a part, the missing part of `base`, or a confirmation of
/// `base`.
pub(crate) fn fetch_fields(
    range: Option<&[u8]>,
    base: Option<&Base>,
    visitor: &Fields,
    policy: &Policy,
) -> Fields {
    let confirming = |base: &Base| confirming_fields(&base.object.head(), base.doubt, policy);
    match (range, base) {
        (Some(range), base) => {
            // Conditions are evaluated before ranges: if the whole is still current, the origin
            // sends 304 and no part.
            let whole = base.filter(|base| base.object.part().is_none());
            let mut fields = whole.map(confirming).unwrap_or_default();
            fields.push(names::RANGE, Bytes::copy_from_slice(range));
            if let Some(validator) = visitor.first(names::IF_RANGE) {
                fields.push(names::IF_RANGE, validator.clone());
            }
            fields
        }
        (None, Some(base)) => match base.object.part() {
            // After an invalidation one validator may belong to two contents, whose parts must not
            // be joined.
            Some(_) if base.doubt == Doubt::Invalidated => Fields::new(),
            Some(part) => missing_part_fields(&base.object.head(), part.extent)
                .filter(|fields| fields.has(names::IF_RANGE))
                .unwrap_or_default(),
            None => confirming(base),
        },
        (None, None) => Fields::new(),
    }
}

/// Begins a trace for a shared fetch with these fields, if the settings say so. Its number and its
/// sampling follow from no client.
pub(crate) fn begin_trace(shared: &Shared, asks: &mut Fields) -> Option<SpanContext> {
    if !shared.plan.log_terms.traces_fetches {
        return None;
    }
    let export = shared.traces.as_ref().zip(shared.plan.traces.as_ref());
    let is_sampled = export.is_none_or(|(export, plan)| export.draws(plan.every) && export.has_room());
    let (trace, span) = shared.new_trace();
    let context = SpanContext { trace, span, flags: if is_sampled { SAMPLED } else { 0 } };
    asks.push(names::TRACEPARENT, context.to_traceparent());
    Some(context)
}

/// Puts the span of the edge in the place of the client's. The state of the trace is kept only if
/// the trace is (W3C Trace Context, section 3.4).
pub(crate) fn continue_trace(fields: &mut Fields, traceparent: String) {
    let trace = |value: &[u8]| trace_of(value);
    let client = fields.first(names::TRACEPARENT).and_then(|value| trace(value));
    if client != trace(traceparent.as_bytes()) {
        fields.remove(names::TRACESTATE);
    }
    fields.set(names::TRACEPARENT, traceparent);
}

/// Returns the head with these fields added.
pub(crate) fn with_fields(head: &RequestHead, fields: Fields) -> RequestHead {
    let mut head = head.clone();
    for field in &fields {
        head.fields.push(field.name.clone(), field.value.clone());
    }
    head
}

/// A request without content, ready to be sent.
///
/// # Errors
/// [`WriteError`] for a head with illegal bytes. A head that was parsed strictly has none.
pub(crate) fn without_content(head: &RequestHead) -> Result<FetchRequest, WriteError> {
    Ok(FetchRequest {
        head: written(head)?,
        method: head.method.clone(),
        framing: BodyFraming::Empty,
        expect_continue: false,
        is_conditional: is_conditional(head),
        urgency: Urgency::default(),
        client: FetchClient::Any(last_address(head)),
        page: None,
        probe: None,
    })
}

/// The last address in X-Forwarded-For: that of the client, or the placeholder address.
fn last_address(head: &RequestHead) -> IpAddr {
    let last = head.fields.list(names::X_FORWARDED_FOR).last();
    let address = last.and_then(|last| std::str::from_utf8(last).ok()?.parse().ok());
    address.unwrap_or(NOBODYS_ADDRESS)
}

/// A client's own request, ready to be sent, with its content in this framing.
///
/// # Errors
/// As [`without_content`].
pub(crate) fn passed(
    subject: &RequestSubject<'_>,
    loop_mark: &Bytes,
    request: &Request,
    framing: BodyFraming,
) -> Result<FetchRequest, WriteError> {
    let visitor = &request.head.fields;
    let mut fields = passed_fields(visitor, subject.trusted, subject.site.policy());
    h1::strip_hop_by_hop(&mut fields);
    fields.remove(names::EXPECT);
    if subject.site.plan.esi && matches!(request.head.method, Method::Get | Method::Head) {
        // They would speak of a template, of which no visitor has bytes or validators.
        for name in OF_KNOWN_BYTES {
            fields.remove(name);
        }
    }
    if let Some(left) = forwards_left(&request.head) {
        fields.set(names::MAX_FORWARDS, left.saturating_sub(1).to_string());
    }
    fields.set(names::HOST, subject.host.clone());
    for (name, value) in forwarding_fields(subject, visitor) {
        fields.push(name, value);
    }
    push_marks(&mut fields, subject, loop_mark);
    change_fields(&mut fields, &subject.site.plan.request_fields);
    framing.announce(&mut fields);
    if framing == BodyFraming::Empty && visitor.has(names::CONTENT_LENGTH) {
        fields.push(names::CONTENT_LENGTH, "0");
    }
    if request.expect_continue {
        fields.push(names::EXPECT, "100-continue");
    }
    let protocols: Vec<&[u8]> = tunnelled_protocols(request).collect();
    if !protocols.is_empty() {
        fields.push(names::CONNECTION, "upgrade");
        fields.push(names::UPGRADE, Bytes::from(protocols.join(&b", "[..])));
    }
    let head = RequestHead {
        method: request.head.method.clone(),
        target: subject.target.clone(),
        version: Version::Http11,
        fields,
    };
    let client = match subject.peer {
        Some(Peer::Ip(address)) => FetchClient::One(address),
        _ => FetchClient::Any(last_address(&head)),
    };
    Ok(FetchRequest {
        head: written(&head)?,
        is_conditional: is_conditional(&head),
        method: head.method,
        framing,
        expect_continue: request.expect_continue,
        urgency: Urgency::default(),
        client,
        page: None,
        probe: None,
    })
}

/// Whether the response to a request may be 304 (RFC 9110 section 15.4.5).
fn is_conditional(head: &RequestHead) -> bool {
    head.fields.has(names::IF_NONE_MATCH) || head.fields.has(names::IF_MODIFIED_SINCE)
}

/// The protocols that a request asks to switch to and that the edge permits. Other versions of HTTP
/// and TLS are not permitted: requests inside such a tunnel would bypass every check of the edge.
pub(crate) fn tunnelled_protocols(request: &Request) -> impl Iterator<Item = &[u8]> {
    let asked = request.head.fields.list(names::UPGRADE).filter(|_| request.upgrade);
    asked.filter(|protocol| {
        let starts = |prefix: &str| {
            protocol.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix.as_bytes()))
        };
        !["h2", "h3", "http", "tls"].into_iter().any(starts)
    })
}

/// The forwarding fields that the edge vouches for. Fields of a trusted proxy are kept and
/// extended.
fn forwarding_fields(subject: &RequestSubject<'_>, visitor: &Fields) -> [(&'static str, Bytes); 3] {
    let host = match visitor.first(names::X_FORWARDED_HOST) {
        Some(host) if subject.trusted => host.clone(),
        _ => subject.host.clone(),
    };
    [
        (names::X_FORWARDED_HOST, host),
        (names::X_FORWARDED_PROTO, Bytes::from_static(scheme(subject).as_bytes())),
        (names::X_FORWARDED_FOR, own_address(subject, visitor)),
    ]
}

fn scheme(subject: &RequestSubject<'_>) -> &'static str {
    if subject.https { "https" } else { "http" }
}

fn written(head: &RequestHead) -> Result<Bytes, WriteError> {
    let mut octets = BytesMut::with_capacity(head.fields.wire_bytes() + head.target.len() + 32);
    h1::write_request_head(&mut octets, head)?;
    Ok(octets.freeze())
}

#[cfg(test)]
mod tests {
    use super::{passed, shared_head, without_content};
    use crate::request::guard::guard;
    use crate::shared::Shared;
    use crate::system::System;
    use bytes::{Bytes, BytesMut};
    use config::EdgePlan;
    use h1::{Limits, Request, Strictness, parse_request};
    use message::Method;
    use net::Peer;
    use semantics::VaryRule;

    const MARK: Bytes = Bytes::from_static(b"petasos; id=7");

    fn peer() -> Peer {
        Peer::Ip("10.0.0.1:5".parse().unwrap())
    }

    fn request(head: &str) -> Request {
        let mut octets = BytesMut::from(format!("{head}\r\n\r\n").as_bytes());
        parse_request(&mut octets, &Limits::DEFAULT, Strictness::Strict).unwrap().unwrap()
    }

    fn shared(trusted: bool) -> Shared {
        let mut plan = EdgePlan::for_origin("http://127.0.0.1:9000".parse().unwrap());
        plan.trusted_proxies = trusted.then(|| peer().ip().unwrap()).into_iter().collect();
        Shared::new(plan, None, System::of_machine())
    }

    fn passed_text(head: &str, trusted: bool) -> String {
        let (shared, request) = (shared(trusted), request(head));
        let subject = guard(&shared, peer(), &request).unwrap();
        String::from_utf8(passed(&subject, &MARK, &request, request.framing).unwrap().head.to_vec()).unwrap()
    }

    #[test]
    fn shared_fetch_carries_nothing_of_its_client() {
        let text = |head: &str| {
            let (shared, request) = (shared(false), request(head));
            let subject = guard(&shared, peer(), &request).unwrap();
            let (key, visitor) = (subject.key(), &request.head.fields);
            let head = shared_head(&subject, &MARK, &key, Method::Get, visitor, &VaryRule::default());
            without_content(&head).unwrap().head
        };
        let plain = text("GET /a HTTP/1.1\r\nHost: a.test\r\nAccept-Encoding: gzip");
        let chatty = text(
            "GET /a HTTP/1.1\r\nHost: A.test:80\r\nAccept-Encoding: gzip;q=0.5, x\r\nUser-Agent: me\r\nCookie: _ga=1\r\n\
             Referer: http://a.test/\r\nX-Forwarded-For: 1.2.3.4\r\nX-Forwarded-Host: evil.test\r\nVia: 1.1 x\r\n\
             Accept-Language: fr\r\nCache-Control: no-cache\r\nIf-None-Match: \"a\"",
        );
        assert_eq!(plain, chatty);
        let plain = String::from_utf8(plain.to_vec()).unwrap();
        assert!(plain.contains("Host: a.test\r\n"), "{plain}");
        assert!(plain.contains("X-Forwarded-For: 192.0.2.1\r\n"), "{plain}");
    }

    #[test]
    fn pass_keeps_client_fields_and_adds_forwarding_fields() {
        let text = passed_text(
            "POST /form HTTP/1.1\r\nHost: A.test:80\r\nCookie: session=1\r\nContent-Length: 3\r\nX-Rewrite-URL: /admin\r\n\
             X-Forwarded-For: 1.2.3.4\r\nX-Forwarded-Proto: https\r\nConnection: keep-alive, X-Hop\r\nX-Hop: 1\r\n\
             Expect: 100-continue\r\nTE: trailers",
            false,
        );
        for line in [
            "POST /form HTTP/1.1",
            "Host: A.test:80",
            "Cookie: session=1",
            "Content-Length: 3",
            "Expect: 100-continue",
            "X-Forwarded-For: 10.0.0.1",
            "X-Forwarded-Proto: http",
            "X-Forwarded-Host: A.test:80",
            "Via: 1.1 petasos",
            "CDN-Loop: petasos; id=7",
        ] {
            assert_eq!(text.lines().filter(|found| *found == line).count(), 1, "{line} in\n{text}");
        }
        for gone in ["1.2.3.4", "X-Rewrite-URL", "Connection", "X-Hop", "TE:"] {
            assert!(!text.contains(gone), "{gone} in\n{text}");
        }
    }

    #[test]
    fn forwarding_fields_of_a_trusted_proxy_are_continued() {
        let text = passed_text(
            "GET / HTTP/1.1\r\nHost: a.test\r\nX-Forwarded-For: 1.2.3.4, 5.6.7.8\r\nX-Forwarded-Proto: https\r\n\
             X-Forwarded-Host: b.test",
            true,
        );
        for line in [
            "X-Forwarded-For: 1.2.3.4, 5.6.7.8, 10.0.0.1",
            "X-Forwarded-Proto: https",
            "X-Forwarded-Host: b.test",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
        }
    }

    #[test]
    fn max_forwards_is_decremented_for_options_only() {
        let text = passed_text("OPTIONS / HTTP/1.1\r\nHost: a\r\nMax-Forwards: 10", false);
        assert!(text.contains("Max-Forwards: 9\r\n"), "{text}");
        let text = passed_text("DELETE / HTTP/1.1\r\nHost: a\r\nMax-Forwards: 10", false);
        assert!(text.contains("Max-Forwards: 10\r\n"), "{text}");
    }

    #[test]
    fn permitted_upgrade_is_requested_from_the_origin() {
        let text = passed_text(
            "GET /ws HTTP/1.1\r\nHost: a.test\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Key: x",
            false,
        );
        for line in ["Connection: upgrade", "Upgrade: websocket", "Sec-WebSocket-Key: x"] {
            assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
        }
    }

    #[test]
    fn upgrades_to_other_http_versions_and_tls_are_dropped() {
        for protocols in ["h2c", "HTTP/2.0", "TLS/1.0", "H2C"] {
            let head = format!("GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: {protocols}");
            let text = passed_text(&head, false);
            assert!(!text.contains("Upgrade") && !text.contains("Connection"), "{text}");
        }
        let text =
            passed_text("GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: h2c, websocket", false);
        assert!(text.contains("Upgrade: websocket\r\n"), "{text}");
    }

    #[test]
    fn framing_is_announced_once() {
        let chunked = passed_text("PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked", false);
        assert!(chunked.contains("Transfer-Encoding: chunked\r\n") && !chunked.contains("Content-Length"));
        let empty = passed_text("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0", false);
        assert_eq!(empty.matches("Content-Length: 0\r\n").count(), 1);
    }
}
