//! Records of requests as spans of OpenTelemetry, in the messages of OTLP 1.x.
//!
//! Invariants: every text is UTF-8 and at most [`TEXT_BYTES_MAX`] long, whatever a client sent.
//! Names of spans come from a small set, and attributes have the names of OpenTelemetry's semantic
//! conventions for HTTP; other attributes begin with `petasos.`.
//!
//! A function appends one span to others. [`export_message`] puts a message for a collector around
//! them.

use crate::protobuf::{
    FieldValue, MessageFields, push_bytes, push_fixed32, push_fixed64, push_message, push_number,
};
use crate::record::{ClientName, FetchPhases, Protocol, RequestRecord, micros};
use crate::trace::{SpanContext, TraceId};
use address::OriginUrl;
use message::Method;
use std::borrow::Cow;
use std::net::IpAddr;

/// Where a collector receives traces over HTTP, below its URL.
pub const TRACES_PATH: &str = "/v1/traces";

/// The media type of a message.
pub const MEDIA_TYPE: &str = "application/x-protobuf";

/// Longest text in a span, in bytes. Longer ones are cut.
pub const TEXT_BYTES_MAX: usize = 2048;

/// Bit of a span's flags: the next bit is known.
const KNOWS_REMOTE: u32 = 1 << 8;

/// Bit of a span's flags: the parent is in another process.
const IS_REMOTE: u32 = 1 << 9;

/// When something began and ended, in nanoseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpanTimes {
    /// The begin.
    pub begun: u64,
    /// The end.
    pub ended: u64,
}

/// A part of a request's time with a separate span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Waiting for a read of the response from the disk.
    Disk,
    /// Waiting for the head of a shared fetch.
    Wait,
    /// Sending the client's own request, until the head of the response.
    Pass,
}

impl Phase {
    /// The name of the phase, as in a line of JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Disk => "disk",
            Self::Wait => "wait",
            Self::Pass => "pass",
        }
    }
}

/// A request to an origin.
#[derive(Clone, Copy, Debug)]
pub struct FetchSpan<'a> {
    /// The span itself, which is the parent of the origin's spans.
    pub context: SpanContext,
    /// The span that it is a part of. `None`: it begins its trace.
    pub parent: Option<u64>,
    /// When it began to wait for its turn, and when the head of the response was complete.
    pub times: SpanTimes,
    /// The method.
    pub method: &'a Method,
    /// The origin. `None` if the site has several and it is not known which was asked.
    pub origin: Option<&'a OriginUrl>,
    /// The target.
    pub target: &'a [u8],
    /// The status of the response, or the kind of failure.
    pub outcome: Result<u16, &'static str>,
    /// Its number and its times. `None` without a response.
    pub phases: Option<FetchPhases>,
}

/// The edge, as its spans name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource {
    /// The name of the service.
    pub service: String,
    /// The version of Petasos.
    pub version: String,
    /// An identifier that distinguishes this process from others with the same name.
    pub instance: String,
    /// The name of the machine.
    pub host: String,
    /// The identifier of the process.
    pub pid: u32,
}

/// The common fields of all spans.
struct SpanHead<'a> {
    context: SpanContext,
    parent: Option<u64>,
    is_parent_remote: bool,
    name: &'a str,
    kind: SpanKind,
    times: SpanTimes,
}

#[derive(Clone, Copy)]
enum SpanKind {
    Internal = 1,
    Server = 2,
    Client = 3,
}

/// Appends the span of a request. `parent` is the client's span, if it sent one.
pub fn push_request(
    out: &mut Vec<u8>,
    record: &RequestRecord<'_>,
    context: SpanContext,
    parent: Option<u64>,
    times: SpanTimes,
) {
    let head = SpanHead {
        context,
        parent,
        is_parent_remote: parent.is_some(),
        name: method_name(record.method),
        kind: SpanKind::Server,
        times,
    };
    push_span(out, &head, |out| {
        push_request_attributes(out, record);
        if let Some(link) = record.fetch.and_then(|fetch| fetch.trace) {
            push_link(out, &link);
        }
        if record.status >= 500 {
            push_error(out, &record.status.to_string());
        }
    });
}

fn push_request_attributes(out: &mut Vec<u8>, record: &RequestRecord<'_>) {
    push_method(out, record.method);
    let is_https = record.key.map_or_else(|| record.tls.is_some(), |key| key.is_https);
    push_text(out, "url.scheme", if is_https { b"https" } else { b"http" });
    push_text(out, "url.path", record.path());
    if !record.query().is_empty() {
        push_text(out, "url.query", record.query());
    }
    if let Some(host) = record.host {
        let (name, port) = split_host(host);
        push_text(out, "server.address", name);
        if let Some(port) = port {
            push_int(out, "server.port", port.into());
        }
    }
    push_client(out, "client.address", record.client);
    push_client(out, "network.peer.address", record.peer);
    let version = match record.protocol {
        Protocol::Http10 => "1.0",
        Protocol::Http11 => "1.1",
        Protocol::Http2 => "2",
    };
    push_text(out, "network.protocol.version", version.as_bytes());
    if let Some(version) = record.tls {
        push_text(out, "tls.protocol.version", version.as_bytes());
    }
    if let Some(agent) = record.agent {
        push_text(out, "user_agent.original", agent);
    }
    push_int(out, "http.response.status_code", record.status.into());
    push_int(out, "http.response.body.size", record.content_bytes);
    push_text(out, "petasos.verdict", record.verdict().name().as_bytes());
    push_text(out, "petasos.reason", record.reason.name().as_bytes());
    if let Some(site) = record.site {
        push_text(out, "petasos.site", site.as_bytes());
    }
    if let Some(fetch) = record.fetch {
        push_int(out, "petasos.fetch.number", fetch.number);
    }
}

/// Appends the span of a phase. `context` is the phase itself, `parent` its request.
pub fn push_phase(out: &mut Vec<u8>, phase: Phase, context: SpanContext, parent: u64, times: SpanTimes) {
    let head = SpanHead {
        context,
        parent: Some(parent),
        is_parent_remote: false,
        name: phase.name(),
        kind: SpanKind::Internal,
        times,
    };
    push_span(out, &head, |_| {});
}

/// Appends the span of a request to an origin.
pub fn push_fetch(out: &mut Vec<u8>, fetch: &FetchSpan<'_>) {
    let head = SpanHead {
        context: fetch.context,
        parent: fetch.parent,
        is_parent_remote: false,
        name: method_name(fetch.method),
        kind: SpanKind::Client,
        times: fetch.times,
    };
    push_span(out, &head, |out| {
        push_method(out, fetch.method);
        if let Some(origin) = fetch.origin {
            let scheme = if origin.is_https() { "https://" } else { "http://" };
            let url = [scheme.as_bytes(), origin.authority().as_bytes(), fetch.target].concat();
            push_text(out, "url.full", &url);
            push_text(out, "server.address", origin.host().as_bytes());
            if let Some(port) = origin.address().port() {
                push_int(out, "server.port", port.into());
            }
        }
        if let Ok(status) = fetch.outcome {
            push_int(out, "http.response.status_code", status.into());
        }
        if let Some(phases) = &fetch.phases {
            push_int(out, "petasos.fetch.number", phases.number);
            push_int(out, "petasos.fetch.queue_us", micros(phases.queue));
            push_int(out, "petasos.fetch.connect_us", micros(phases.connect));
            push_int(out, "petasos.fetch.first_byte_us", micros(phases.first_byte));
        }
        match fetch.outcome {
            Ok(status @ 400..) => push_error(out, &status.to_string()),
            Ok(_) => {}
            Err(failure) => push_error(out, failure),
        }
    });
}

/// The message that exports these spans: an `ExportTraceServiceRequest`.
pub fn export_message(resource: &Resource, spans: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(spans.len() + TEXT_BYTES_MAX);
    push_message(&mut out, 1, |out| {
        push_message(out, 1, |out| {
            push_text_in(out, 1, "service.name", resource.service.as_bytes());
            push_text_in(out, 1, "service.version", resource.version.as_bytes());
            push_text_in(out, 1, "service.instance.id", resource.instance.as_bytes());
            push_text_in(out, 1, "host.name", resource.host.as_bytes());
            push_int_in(out, 1, "process.pid", resource.pid.into());
        });
        push_message(out, 2, |out| {
            push_message(out, 1, |out| {
                push_bytes(out, 1, b"petasos");
                push_bytes(out, 2, resource.version.as_bytes());
            });
            out.extend_from_slice(spans);
        });
    });
    out
}

/// The number of spans that a collector rejected, as the content of its response to a message says:
/// an `ExportTraceServiceResponse`. Zero if it says nothing.
pub fn rejected_spans(content: &[u8]) -> u64 {
    let parts = MessageFields(content).filter_map(|(field, value)| match value {
        FieldValue::Bytes(partial) if field == 1 => Some(partial),
        _ => None,
    });
    let counts = parts.flat_map(MessageFields).filter_map(|(field, value)| match value {
        FieldValue::Number(count) if field == 1 => Some(count),
        _ => None,
    });
    counts.last().unwrap_or(0)
}

fn push_span(out: &mut Vec<u8>, head: &SpanHead<'_>, more: impl FnOnce(&mut Vec<u8>)) {
    push_message(out, 2, |out| {
        push_bytes(out, 1, &TraceId::to_bytes(head.context.trace));
        push_bytes(out, 2, &head.context.span.to_be_bytes());
        if let Some(parent) = head.parent {
            push_bytes(out, 4, &parent.to_be_bytes());
        }
        push_bytes(out, 5, head.name.as_bytes());
        push_number(out, 6, head.kind as u64);
        push_fixed64(out, 7, head.times.begun);
        push_fixed64(out, 8, head.times.ended.max(head.times.begun));
        let remote = if head.is_parent_remote { IS_REMOTE } else { 0 };
        push_fixed32(out, 16, u32::from(head.context.flags) | KNOWS_REMOTE | remote);
        more(out);
    });
}

/// Appends a link to a span of another trace.
fn push_link(out: &mut Vec<u8>, to: &SpanContext) {
    push_message(out, 13, |out| {
        push_bytes(out, 1, &to.trace.to_bytes());
        push_bytes(out, 2, &to.span.to_be_bytes());
        push_fixed32(out, 6, u32::from(to.flags) | KNOWS_REMOTE);
    });
}

/// Marks the span as failed.
fn push_error(out: &mut Vec<u8>, kind: &str) {
    /// The word for an error in the enumeration of a status.
    const ERROR: u64 = 2;
    push_text(out, "error.type", kind.as_bytes());
    push_message(out, 15, |out| push_number(out, 3, ERROR));
}

/// The name of a span: the method, unless a client made it up.
fn method_name(method: &Method) -> &str {
    match method {
        Method::Other(_) => "HTTP",
        known => std::str::from_utf8(known.as_bytes()).unwrap_or("HTTP"),
    }
}

fn push_method(out: &mut Vec<u8>, method: &Method) {
    match method {
        Method::Other(token) => {
            push_text(out, "http.request.method", b"_OTHER");
            push_text(out, "http.request.method_original", token);
        }
        known => push_text(out, "http.request.method", known.as_bytes()),
    }
}

fn push_client(out: &mut Vec<u8>, name: &str, client: ClientName) {
    if let ClientName::Ip(address) = client {
        push_text(out, name, IpAddr::to_string(&address).as_bytes());
    }
}

/// The name and the port of a host, without the brackets of an IPv6 address.
fn split_host(host: &[u8]) -> (&[u8], Option<u16>) {
    let colon = host.iter().rposition(|&byte| byte == b':');
    let split = colon.and_then(|colon| host.split_at_checked(colon)).and_then(|(name, port)| {
        let port = std::str::from_utf8(port.get(1..)?).ok()?.parse().ok()?;
        (!name.contains(&b':') || name.ends_with(b"]")).then_some((name, Some(port)))
    });
    let (name, port) = split.unwrap_or((host, None));
    let inner = name.strip_prefix(b"[").and_then(|name| name.strip_suffix(b"]"));
    (inner.unwrap_or(name), port)
}

/// Appends an attribute of a span.
fn push_text(out: &mut Vec<u8>, name: &str, text: &[u8]) {
    push_text_in(out, 9, name, text);
}

fn push_int(out: &mut Vec<u8>, name: &str, number: u64) {
    push_int_in(out, 9, name, number);
}

fn push_text_in(out: &mut Vec<u8>, field: u64, name: &str, text: &[u8]) {
    let text = shortened(text);
    push_message(out, field, |out| {
        push_bytes(out, 1, name.as_bytes());
        push_message(out, 2, |out| push_bytes(out, 1, text.as_bytes()));
    });
}

/// Appends a number. The form of numbers is signed, so larger ones become the largest of it.
fn push_int_in(out: &mut Vec<u8>, field: u64, name: &str, number: u64) {
    push_message(out, field, |out| {
        push_bytes(out, 1, name.as_bytes());
        push_message(out, 2, |out| push_number(out, 3, number.min(i64::MAX as u64)));
    });
}

/// The beginning of a text as UTF-8, without half a character.
fn shortened(text: &[u8]) -> Cow<'_, str> {
    let text = String::from_utf8_lossy(text.get(..TEXT_BYTES_MAX).unwrap_or(text));
    if text.len() <= TEXT_BYTES_MAX {
        return text;
    }
    // Each byte outside UTF-8 has become three.
    let end = text.floor_char_boundary(TEXT_BYTES_MAX);
    Cow::Owned(text.get(..end).unwrap_or_default().to_owned())
}

#[cfg(test)]
mod tests;
