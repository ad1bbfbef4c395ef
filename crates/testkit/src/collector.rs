//! A collector of OpenTelemetry that records the spans it receives by OTLP over HTTP, or fails to.
//!
//! Invariant: a message is read by the code generated from OpenTelemetry's definitions. A message
//! that it cannot read fails the test.

use crate::{Action, Origin, Seen, eventually, response};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message as _;
use std::collections::BTreeMap;

/// A running collector. It stops when it is dropped.
pub struct Collector {
    server: Origin,
}

/// A span as it was received.
#[derive(Clone, Debug)]
pub struct ReceivedSpan {
    /// The trace, as 32 digits.
    pub trace: String,
    /// The span, as 16 digits.
    pub span: String,
    /// The parent, as 16 digits; empty for a span that begins its trace.
    pub parent: String,
    /// The name.
    pub name: String,
    /// `server`, `client` or `internal`.
    pub kind: &'static str,
    /// When it began, in nanoseconds since 1970.
    pub begun: u64,
    /// When it ended.
    pub ended: u64,
    /// The attributes of the span, and those of the edge. Numbers are in decimal.
    pub attributes: BTreeMap<String, String>,
    /// The traces and spans that it links to.
    pub links: Vec<(String, String)>,
    /// Whether it is marked as failed.
    pub is_error: bool,
    /// The flags of W3C Trace Context.
    pub flags: u32,
}

impl ReceivedSpan {
    /// The value of an attribute; empty if the span does not have it.
    pub fn value(&self, name: &str) -> &str {
        self.attributes.get(name).map_or("", String::as_str)
    }

    /// Whether the other span lies within the time of this one.
    pub fn encloses(&self, inner: &Self) -> bool {
        self.begun <= inner.begun && inner.begun <= inner.ended && inner.ended <= self.ended
    }
}

impl Collector {
    /// Starts a collector that accepts everything.
    pub fn start() -> Self {
        Self::answering(|_| response("200 OK", &["Content-Type: application/x-protobuf"], b""))
    }

    /// Starts a collector that answers a message as `script` says.
    pub fn answering(script: impl Fn(&Seen) -> Vec<Action> + Send + Sync + 'static) -> Self {
        Self { server: Origin::start(script) }
    }

    /// The server below.
    pub const fn server(&self) -> &Origin {
        &self.server
    }

    /// The configuration of an edge that sends the spans of every request here.
    pub fn configuration(&self) -> String {
        format!("trace_export = '{}'\ntrace_export_every = 1\n", self.server.url())
    }

    /// All spans so far, in the order of their arrival.
    pub fn spans(&self) -> Vec<ReceivedSpan> {
        self.server.seen().iter().flat_map(spans_of).collect()
    }

    /// The spans, once there are `count`.
    pub fn wait_for(&self, count: usize) -> Vec<ReceivedSpan> {
        eventually("the spans arrive", || self.spans().len() >= count);
        let spans = self.spans();
        assert_eq!(spans.len(), count, "{spans:#?}");
        spans
    }
}

/// The spans of a message.
fn spans_of(message: &Seen) -> Vec<ReceivedSpan> {
    assert!(message.head.starts_with("POST /v1/traces HTTP/1.1\r\n"), "{}", message.head);
    assert_eq!(message.field("Content-Type"), Some("application/x-protobuf"));
    let request = ExportTraceServiceRequest::decode(&message.body[..]).unwrap();
    let mut all = Vec::new();
    for group in request.resource_spans {
        let resource = texts(&group.resource.unwrap_or_default().attributes);
        for span in group.scope_spans.into_iter().flat_map(|scope| scope.spans) {
            all.push(received(&span, &resource));
        }
    }
    all
}

fn received(span: &Span, resource: &BTreeMap<String, String>) -> ReceivedSpan {
    let mut attributes = texts(&span.attributes);
    attributes.extend(resource.clone());
    ReceivedSpan {
        trace: digits(&span.trace_id),
        span: digits(&span.span_id),
        parent: digits(&span.parent_span_id),
        name: span.name.clone(),
        kind: match span.kind {
            1 => "internal",
            2 => "server",
            3 => "client",
            other => panic!("a span has the kind {other}"),
        },
        begun: span.start_time_unix_nano,
        ended: span.end_time_unix_nano,
        attributes,
        links: span.links.iter().map(|link| (digits(&link.trace_id), digits(&link.span_id))).collect(),
        is_error: span.status.as_ref().is_some_and(|status| status.code == 2),
        flags: span.flags & 0xff,
    }
}

fn digits(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn texts(attributes: &[KeyValue]) -> BTreeMap<String, String> {
    let text = |pair: &KeyValue| match pair.value.as_ref().and_then(|value| value.value.as_ref()) {
        Some(Value::StringValue(text)) => text.clone(),
        Some(Value::IntValue(number)) => number.to_string(),
        other => panic!("the attribute {} is {other:?}", pair.key),
    };
    attributes.iter().map(|pair| (pair.key.clone(), text(pair))).collect()
}
