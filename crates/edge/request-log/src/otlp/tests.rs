//! Spans as a decoder generated from OpenTelemetry's definitions reads them.

use super::{
    FetchSpan, Phase, Resource, SpanTimes, TEXT_BYTES_MAX, export_message, push_fetch, push_phase,
    push_request, rejected_spans,
};
use crate::record::examples::{bare, miss};
use crate::record::{FetchPhases, RequestRecord};
use crate::trace::{SpanContext, TraceId};
use address::OriginUrl;
use message::Method;
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTracePartialSuccess, ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use proptest::prelude::*;
use prost::Message as _;
use std::collections::BTreeMap;

const TIMES: SpanTimes = SpanTimes { begun: 5_000_000_000, ended: 5_000_000_042 };

fn context(span: u64) -> SpanContext {
    SpanContext { trace: TraceId::from_bits(0xa0b0), span, flags: 1 }
}

fn resource() -> Resource {
    let text = |text: &str| text.to_owned();
    Resource { service: text("shop"), version: text("1.2"), instance: text("i"), host: text("h"), pid: 7 }
}

fn texts(attributes: &[KeyValue]) -> BTreeMap<String, String> {
    let text = |value: &Value| match value {
        Value::StringValue(text) => text.clone(),
        Value::IntValue(number) => number.to_string(),
        other => panic!("{other:?}"),
    };
    let value = |pair: &KeyValue| text(pair.value.as_ref().unwrap().value.as_ref().unwrap());
    attributes.iter().map(|pair| (pair.key.clone(), value(pair))).collect()
}

fn decoded(spans: &[u8]) -> ExportTraceServiceRequest {
    ExportTraceServiceRequest::decode(&export_message(&resource(), spans)[..]).unwrap()
}

fn spans(push: impl FnOnce(&mut Vec<u8>)) -> Vec<Span> {
    let mut out = Vec::new();
    push(&mut out);
    decoded(&out).resource_spans.remove(0).scope_spans.remove(0).spans
}

fn request_span(record: &RequestRecord<'_>) -> Span {
    spans(|out| push_request(out, record, context(2), Some(3), TIMES)).remove(0)
}

#[test]
fn message_names_the_edge_and_has_all_spans() {
    let mut out = Vec::new();
    for id in 1..=300 {
        push_phase(&mut out, Phase::Disk, context(id), 9, TIMES);
    }
    let mut message = decoded(&out);
    let mut group = message.resource_spans.remove(0);
    let named = texts(&group.resource.take().unwrap().attributes);
    let expected = [
        ("service.name", "shop"),
        ("service.version", "1.2"),
        ("service.instance.id", "i"),
        ("host.name", "h"),
        ("process.pid", "7"),
    ];
    assert_eq!(named, expected.map(|(key, value)| (key.to_owned(), value.to_owned())).into());
    let scope = group.scope_spans.remove(0);
    assert_eq!(scope.scope.unwrap().name, "petasos");
    assert!(message.resource_spans.is_empty() && group.scope_spans.is_empty());
    let ids: Vec<_> =
        scope.spans.iter().map(|span| u64::from_be_bytes(span.span_id[..].try_into().unwrap())).collect();
    assert_eq!(ids, (1..=300).collect::<Vec<_>>());
    let span = &scope.spans[0];
    assert_eq!((&*span.name, span.kind, &span.parent_span_id[..]), ("disk", 1, &9_u64.to_be_bytes()[..]));
    assert_eq!((span.flags, span.attributes.len()), (0x101, 0));
}

#[test]
fn request_has_the_attributes_of_the_conventions() {
    let span = request_span(&miss());
    assert_eq!(span.trace_id, 0xa0b0_u128.to_be_bytes());
    assert_eq!(
        (&span.span_id[..], &span.parent_span_id[..]),
        (&2_u64.to_be_bytes()[..], &3_u64.to_be_bytes()[..])
    );
    assert_eq!((&*span.name, span.kind, span.flags), ("GET", 2, 0x301));
    assert_eq!((span.start_time_unix_nano, span.end_time_unix_nano), (TIMES.begun, TIMES.ended));
    let expected = [
        ("http.request.method", "GET"),
        ("url.scheme", "https"),
        ("url.path", "/shop/a"),
        ("url.query", "x=1"),
        ("server.address", "Example.test"),
        ("client.address", "192.0.2.77"),
        ("network.peer.address", "127.0.0.1"),
        ("network.protocol.version", "1.1"),
        ("tls.protocol.version", "1.3"),
        ("user_agent.original", "probe/1"),
        ("http.response.status_code", "200"),
        ("http.response.body.size", "12972"),
        ("petasos.verdict", "miss"),
        ("petasos.reason", "miss-absent"),
        ("petasos.site", "example.test"),
        ("petasos.fetch.number", "17"),
    ];
    let expected = expected.map(|(key, value)| (key.to_owned(), value.to_owned()));
    assert_eq!(texts(&span.attributes), expected.into());
    assert!(span.status.is_none() && span.links.is_empty());
}

#[test]
fn failure_is_an_error_and_a_made_up_method_no_name() {
    let method = Method::from_token(b"FROB");
    let span = request_span(&RequestRecord { status: 502, method: &method, ..bare() });
    let attributes = texts(&span.attributes);
    assert_eq!((&*span.name, span.status.unwrap().code), ("HTTP", 2));
    assert_eq!(attributes["error.type"], "502");
    assert_eq!(attributes["http.request.method"], "_OTHER");
    assert_eq!(attributes["http.request.method_original"], "FROB");
    assert!(!attributes.contains_key("client.address"), "{attributes:?}");
    assert!(request_span(&RequestRecord { status: 404, ..bare() }).status.is_none(), "the client's fault");
}

#[test]
fn host_is_split_into_name_and_port() {
    for (host, name, port) in [
        ("a.test", "a.test", None),
        ("a.test:81", "a.test", Some("81")),
        ("[::1]:81", "::1", Some("81")),
        ("[::1]", "::1", None),
        ("::1", "::1", None),
        ("a:b", "a:b", None),
        ("", "", None),
    ] {
        let span = request_span(&RequestRecord { host: Some(host.as_bytes()), ..bare() });
        let attributes = texts(&span.attributes);
        assert_eq!(attributes["server.address"], name);
        assert_eq!(attributes.get("server.port").map(String::as_str), port, "{host}");
    }
}

#[test]
fn fetch_is_a_client_span_with_origin_times_and_failure() {
    let (method, origin) = (Method::Get, "https://app.test:8443".parse::<OriginUrl>().unwrap());
    let fetch = FetchSpan {
        context: context(4),
        parent: Some(5),
        times: TIMES,
        method: &method,
        origin: Some(&origin),
        target: b"/a?b",
        outcome: Ok(200),
        phases: miss().fetch,
    };
    let mut spans = spans(|out| {
        push_fetch(out, &fetch);
        push_fetch(
            out,
            &FetchSpan { outcome: Err("refused"), phases: None, origin: None, parent: None, ..fetch },
        );
        push_fetch(out, &FetchSpan { outcome: Ok(404), ..fetch });
    });
    let [good, failed, missing] = [spans.remove(0), spans.remove(0), spans.remove(0)];
    assert_eq!((&*good.name, good.kind, good.flags, good.status), ("GET", 3, 0x101, None));
    let attributes = texts(&good.attributes);
    for (key, value) in [
        ("url.full", "https://app.test:8443/a?b"),
        ("server.address", "app.test"),
        ("server.port", "8443"),
        ("http.response.status_code", "200"),
        ("petasos.fetch.queue_us", "1000"),
        ("petasos.fetch.connect_us", "200"),
        ("petasos.fetch.first_byte_us", "102800"),
    ] {
        assert_eq!(attributes[key], value, "{key}");
    }
    assert_eq!((failed.status.unwrap().code, &*texts(&failed.attributes)["error.type"]), (2, "refused"));
    assert!(failed.parent_span_id.is_empty());
    assert_eq!(missing.status.unwrap().code, 2, "an error for the client of the origin");
}

#[test]
fn request_is_linked_to_the_trace_of_its_fetch() {
    let fetch = miss().fetch.map(|fetch| FetchPhases { trace: Some(context(8)), ..fetch });
    let link = request_span(&RequestRecord { fetch, ..miss() }).links.remove(0);
    assert_eq!((link.trace_id, link.span_id), (0xa0b0_u128.to_be_bytes().into(), 8_u64.to_be_bytes().into()));
}

#[test]
fn rejected_spans_are_read_from_the_response() {
    let partial = ExportTracePartialSuccess { rejected_spans: 300, error_message: "no".to_owned() };
    let response = ExportTraceServiceResponse { partial_success: Some(partial) };
    assert_eq!(rejected_spans(&response.encode_to_vec()), 300);
    assert_eq!((rejected_spans(b""), rejected_spans(b"<html>")), (0, 0));
}

proptest! {
    #[test]
    fn any_bytes_of_clients_give_short_texts(
        target in prop::collection::vec(any::<u8>(), 0..5000),
        host: Vec<u8>,
        agent in prop::collection::vec(128_u8.., 0..5000),
    ) {
        let record = RequestRecord { target: &target, host: Some(&host), agent: Some(&agent), ..miss() };
        for text in texts(&request_span(&record).attributes).values() {
            prop_assert!(text.len() <= TEXT_BYTES_MAX);
        }
    }
}
