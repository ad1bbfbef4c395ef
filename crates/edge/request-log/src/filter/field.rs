//! The fields that conditions test.
//!
//! Invariant: a field is one row of the table. Names, errors and the documentation come from it.

use crate::record::{ClientName, FetchPhases, PageKey, RequestRecord};
use document::nearest;
use semantics::{Reason, Verdict};
use std::borrow::Cow;
use std::net::IpAddr;
use std::time::Duration;

/// One field of the language.
#[derive(Debug)]
pub struct FieldRow {
    /// Its name.
    pub name: &'static str,
    /// Its description, for the documentation.
    pub help: &'static str,
    pub(super) value: FieldValue,
}

/// How a field is read from a record. A member that the request does not have is an empty text or
/// zero.
#[derive(Clone, Copy, Debug)]
pub(super) enum FieldValue {
    /// Any text.
    Text(for<'a> fn(&RequestRecord<'a>) -> Cow<'a, [u8]>),
    /// One of some words.
    Word(fn(&RequestRecord<'_>) -> &'static str, fn() -> Vec<&'static str>),
    /// An address.
    Address(fn(&RequestRecord<'_>) -> Option<IpAddr>),
    /// A number.
    Number(fn(&RequestRecord<'_>) -> u64),
    /// A size in bytes.
    Size(fn(&RequestRecord<'_>) -> u64),
    /// A time.
    Time(fn(&RequestRecord<'_>) -> Duration),
}

const fn row(name: &'static str, value: FieldValue, help: &'static str) -> FieldRow {
    FieldRow { name, help, value }
}

/// All fields.
pub const FIELDS: &[FieldRow] = &[
    row(
        "verdict",
        FieldValue::Word(|record| record.verdict().name(), verdicts),
        "the verdict, such as `miss`",
    ),
    row(
        "reason",
        FieldValue::Word(|record| record.reason.name(), reasons),
        "the reason, such as `miss-absent`",
    ),
    row("status", FieldValue::Number(|record| record.status.into()), "the status of the response"),
    row("method", FieldValue::Text(method), "the method"),
    row("host", FieldValue::Text(|record| optional(record.host)), "the host that the client sent"),
    row("path", FieldValue::Text(path), "the target up to its question mark"),
    row("query", FieldValue::Text(query), "the target after its question mark"),
    row("target", FieldValue::Text(|record| Cow::Borrowed(record.target)), "path and query"),
    row("key", FieldValue::Text(key), "the cache key as a URL"),
    row("site", FieldValue::Text(site), "the site, as in metrics"),
    row(
        "client",
        FieldValue::Address(|record| ip(record.client)),
        "the client's address, or a prefix such as 10.0.0.0/8",
    ),
    row(
        "peer",
        FieldValue::Address(|record| ip(record.peer)),
        "the address of the connection, which may be a proxy's",
    ),
    row("protocol", FieldValue::Text(protocol), "`HTTP/1.0`, `HTTP/1.1` or `HTTP/2.0`"),
    row("tls", FieldValue::Text(tls), "the version of TLS, such as `1.3`; empty for a plain connection"),
    row("referer", FieldValue::Text(|record| optional(record.referer)), "the request's Referer"),
    row("agent", FieldValue::Text(|record| optional(record.agent)), "the request's User-Agent"),
    row("trace", FieldValue::Text(trace), "the trace of `traceparent`, as 32 digits"),
    row("bytes", FieldValue::Size(|record| record.content_bytes), "bytes of content that were sent"),
    row("received", FieldValue::Size(|record| record.received_bytes), "bytes of the request"),
    row("sent", FieldValue::Size(|record| record.sent_bytes), "bytes sent, heads included"),
    row("time", FieldValue::Time(|record| record.time), "the time of the request"),
    row("disk", FieldValue::Time(|record| record.phases.disk), "the time of waiting for the disk"),
    row("wait", FieldValue::Time(|record| record.phases.wait), "the time of waiting for a shared fetch"),
    row(
        "pass",
        FieldValue::Time(|record| record.phases.pass),
        "the time of the client's own request to the origin, until its head",
    ),
    row(
        "send",
        FieldValue::Time(|record| record.send_time()),
        "the rest of the time: choosing and sending the response",
    ),
    row(
        "fetch",
        FieldValue::Number(|record| fetch(record).number),
        "the number of the request to the origin; 0 without one",
    ),
    row(
        "queue",
        FieldValue::Time(|record| fetch(record).queue),
        "how long this request waited for a turn at the origin",
    ),
    row("connect", FieldValue::Time(|record| fetch(record).connect), "how long its connection took"),
    row(
        "first_byte",
        FieldValue::Time(|record| fetch(record).first_byte),
        "how long the origin took to respond",
    ),
];

impl FieldRow {
    /// The field with this name.
    pub(super) fn by_name(name: &str) -> Option<&'static Self> {
        FIELDS.iter().find(|row| row.name == name)
    }

    /// The operators of the field.
    pub(super) const fn operators(&self) -> &'static str {
        match self.value {
            FieldValue::Text(_) | FieldValue::Word(..) => "=, !=, ~ and !~",
            FieldValue::Address(_) => "= and !=",
            FieldValue::Number(_) | FieldValue::Size(_) | FieldValue::Time(_) => "=, !=, <, <=, > and >=",
        }
    }
}

/// The end of a sentence with the known name nearest to `name`, or nothing.
pub(super) fn hint<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> String {
    nearest(name, known).map(|nearest| format!(" (did you mean `{nearest}`?)")).unwrap_or_default()
}

fn verdicts() -> Vec<&'static str> {
    Verdict::ALL.iter().map(|verdict| verdict.name()).collect()
}

fn reasons() -> Vec<&'static str> {
    Reason::ALL.iter().map(|reason| reason.name()).collect()
}

fn optional(text: Option<&[u8]>) -> Cow<'_, [u8]> {
    Cow::Borrowed(text.unwrap_or_default())
}

fn method<'a>(record: &RequestRecord<'a>) -> Cow<'a, [u8]> {
    Cow::Borrowed(record.method.as_bytes())
}

fn path<'a>(record: &RequestRecord<'a>) -> Cow<'a, [u8]> {
    Cow::Borrowed(record.path())
}

fn query<'a>(record: &RequestRecord<'a>) -> Cow<'a, [u8]> {
    Cow::Borrowed(record.query())
}

fn key<'a>(record: &RequestRecord<'a>) -> Cow<'a, [u8]> {
    record.key.as_ref().map(PageKey::parts).map(|parts| parts.concat()).unwrap_or_default().into()
}

fn site<'a>(record: &RequestRecord<'a>) -> Cow<'a, [u8]> {
    optional(record.site.map(str::as_bytes))
}

fn protocol<'a>(record: &RequestRecord<'a>) -> Cow<'a, [u8]> {
    Cow::Borrowed(record.protocol.name().as_bytes())
}

fn tls<'a>(record: &RequestRecord<'a>) -> Cow<'a, [u8]> {
    optional(record.tls.map(str::as_bytes))
}

fn trace<'a>(record: &RequestRecord<'a>) -> Cow<'a, [u8]> {
    record.trace.map(|trace| trace.as_str().as_bytes().to_vec()).unwrap_or_default().into()
}

fn fetch(record: &RequestRecord<'_>) -> FetchPhases {
    record.fetch.unwrap_or_default()
}

fn ip(client: ClientName) -> Option<IpAddr> {
    match client {
        ClientName::Ip(address) => Some(address.to_canonical()),
        _ => None,
    }
}
