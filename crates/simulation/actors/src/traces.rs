//! The record of traces in a life: the requests that must have spans, the spans that the origin was
//! told of, and those that the collector has.
//!
//! Invariants: a span has its place below the request that it is a part of, belongs to the trace
//! that its client began, and has only attributes that the documentation names. The collector
//! accepts no span twice. At the end each span is accepted or counted as lost.

use crate::event::Asked;
use crate::exchange::Reply;
use crate::ledger::Ledger;
use crate::moment::Moment;
use crate::rules::Rule;
use crate::site::{NICK_COOKIE, USER_COOKIE};
use crate::spans::{Span, SpanId, SpanKind};
use std::collections::{BTreeMap, BTreeSet};
use world::Random;

/// How many of 100 requests begin with a trace of their client, and how many of these are recorded.
const CLIENT_PERCENT: u64 = 60;
const SAMPLED_PERCENT: u64 = 75;

/// The attributes that docs/observing.md and the conventions of OpenTelemetry name. Spans have no
/// others.
const ATTRIBUTES: [&str; 23] = [
    "client.address",
    "error.type",
    "http.request.method",
    "http.request.method_original",
    "http.response.body.size",
    "http.response.status_code",
    "network.peer.address",
    "network.protocol.version",
    "petasos.fetch.connect_us",
    "petasos.fetch.first_byte_us",
    "petasos.fetch.number",
    "petasos.fetch.queue_us",
    "petasos.reason",
    "petasos.site",
    "petasos.verdict",
    "server.address",
    "server.port",
    "tls.protocol.version",
    "url.full",
    "url.path",
    "url.query",
    "url.scheme",
    "user_agent.original",
];

/// The names of the phases of a request.
const PHASES: [&str; 3] = ["disk", "wait", "pass"];

/// A trace that a client began.
#[derive(Clone, Copy, Debug)]
struct ClientTrace {
    /// The span of the client.
    span: u64,
    /// Whether the client records it.
    is_sampled: bool,
}

/// The traces of a life.
#[derive(Debug)]
pub(crate) struct TraceRecord {
    random: Random,
    /// Whether the collector does everything as it should.
    is_sound: bool,
    /// Whether a response without a trace can be that of a fragment, whose request has no record if
    /// it is given up.
    has_fragments: bool,
    clients: BTreeMap<u128, ClientTrace>,
    /// The traces of clients whose requests were answered, and must have a span.
    answered: BTreeSet<u128>,
    /// The spans that the origin was told to be the parents of its own.
    told: BTreeSet<SpanId>,
    accepted: BTreeSet<SpanId>,
    /// The traces of accepted requests.
    requests: BTreeSet<u128>,
    /// The spans that the processes that ended call exported and lost.
    exported: u64,
    dropped: u64,
}

impl TraceRecord {
    fn new(seed: u64, is_sound: bool, has_fragments: bool) -> Self {
        Self {
            random: Random::new(seed),
            is_sound,
            has_fragments,
            clients: BTreeMap::new(),
            answered: BTreeSet::new(),
            told: BTreeSet::new(),
            accepted: BTreeSet::new(),
            requests: BTreeSet::new(),
            exported: 0,
            dropped: 0,
        }
    }

    /// The trace that the next request begins, with the line that names it.
    fn begin(&mut self) -> Option<(u128, String)> {
        if !self.random.percent(CLIENT_PERCENT) {
            return None;
        }
        let mut number = || self.random.number().max(1);
        let (trace, span) = (u128::from(number()) << 64 | u128::from(number()), number());
        let is_sampled = self.random.percent(SAMPLED_PERCENT);
        self.clients.insert(trace, ClientTrace { span, is_sampled });
        Some((trace, format!("traceparent: 00-{trace:032x}-{span:016x}-0{}\r\n", u8::from(is_sampled))))
    }

    /// The origin received a request with this `traceparent`.
    fn told(&mut self, traceparent: &str) {
        let parts: Vec<_> = traceparent.split('-').collect();
        let [_, trace, span, "01" | "03"] = parts.as_slice() else { return };
        let Ok(trace) = u128::from_str_radix(trace, 16) else { return };
        let Ok(span) = u64::from_str_radix(span, 16) else { return };
        let client = self.clients.get(&trace);
        // A request whose spans are not exported passes on the client's own span.
        if client.is_some_and(|client| client.span == span) || client.is_none() && self.has_fragments {
            return;
        }
        self.told.insert((trace, span));
    }

    /// The first fault of the spans in a message.
    fn fault_of(&self, spans: &[Span]) -> Option<String> {
        let by_id: BTreeMap<_, _> = spans.iter().map(|span| (span.id, span)).collect();
        if by_id.len() < spans.len() {
            return Some("has the same span twice".to_owned());
        }
        spans.iter().find_map(|span| {
            let fault = self.place_fault(span, &by_id).or_else(|| content_fault(span))?;
            Some(format!("{fault}: {span:?}"))
        })
    }

    /// A wrong place of a span in its trace.
    fn place_fault(&self, span: &Span, all: &BTreeMap<SpanId, &Span>) -> Option<&'static str> {
        let client = self.clients.get(&span.id.0);
        let parent = span.parent.and_then(|parent| all.get(&(span.id.0, parent)));
        let is_within = |parent: &Span| parent.times.0 <= span.times.0 && span.times.1 <= parent.times.1;
        match span.kind {
            SpanKind::Server if client.is_some_and(|client| !client.is_sampled) => {
                Some("is of a trace that its client does not record")
            }
            SpanKind::Server if span.parent != client.map(|client| client.span) => {
                Some("is not below the span of its client")
            }
            SpanKind::Server => None,
            SpanKind::Internal => match parent {
                Some(parent) if parent.kind == SpanKind::Server => {
                    (!is_within(parent)).then_some("is longer than its request")
                }
                _ => Some("is a phase of no request"),
            },
            SpanKind::Client => match (span.parent, parent) {
                // A shared fetch.
                (None, _) => client.is_some().then_some("is a shared fetch in the trace of a client"),
                (Some(_), None) => Some("is a fetch for no request"),
                // The request may have joined a fetch that had begun.
                (Some(_), Some(parent)) => {
                    (span.times.1 > parent.times.1).then_some("ends after its request")
                }
            },
        }
    }

    /// The collector accepts these spans. Returns one that it has already.
    fn accept(&mut self, spans: &[Span]) -> Option<SpanId> {
        let servers = spans.iter().filter(|span| span.kind == SpanKind::Server);
        self.requests.extend(servers.map(|span| span.id.0));
        let mut twice = None;
        for span in spans {
            if !self.accepted.insert(span.id) {
                twice = Some(span.id);
            }
        }
        twice
    }

    /// A wrong count of the processes that ended. `is_whole`: no request was cut off, and all
    /// processes have ended.
    fn balance_fault(&self, is_whole: bool) -> Option<String> {
        let (exported, dropped, accepted) = (self.exported, self.dropped, self.accepted.len());
        if exported > accepted as u64 {
            return Some(format!("{exported} spans are called exported, but the collector has {accepted}"));
        }
        if !is_whole {
            return None;
        }
        let requests: Vec<_> = self.answered.difference(&self.requests).collect();
        let told: Vec<_> = self.told.difference(&self.accepted).collect();
        let missing = requests.len() + told.len();
        if missing as u64 > dropped {
            return Some(format!(
                "{missing} spans are missing and {dropped} counted as lost, among them those of the requests \
                 {requests:x?} and those that the origin knows, {told:x?}"
            ));
        }
        (self.is_sound && dropped > 0).then(|| format!("{dropped} spans are lost, but the collector is well"))
    }
}

/// A wrong content of a span.
fn content_fault(span: &Span) -> Option<&'static str> {
    if span.kind == SpanKind::Internal && !PHASES.contains(&&span.name[..]) {
        return Some("is no phase that the documentation names");
    }
    if span.attributes.keys().any(|name| !ATTRIBUTES.contains(&&name[..])) {
        return Some("has an attribute that the documentation does not name");
    }
    let is_secret = |text: &String| [USER_COOKIE, NICK_COOKIE].iter().any(|name| text.contains(name));
    span.attributes.values().any(is_secret).then_some("shows a cookie")
}

impl Ledger {
    /// Begins to record traces in a life whose edge exports them to a collector. `is_sound`: the
    /// collector accepts everything at once. `has_fragments`: pages may be assembled.
    pub fn watch_traces(&mut self, seed: u64, is_sound: bool, has_fragments: bool) {
        self.traces = Some(TraceRecord::new(seed, is_sound, has_fragments));
    }

    /// The trace that the next request of a visitor begins, with the line of its head; `None` if it
    /// begins none.
    pub(crate) fn trace_begins(&mut self) -> Option<(u128, String)> {
        self.traces.as_mut()?.begin()
    }

    /// Records the `traceparent` of a request that the origin received.
    pub(crate) fn origin_is_told(&mut self, traceparent: Option<&str>) {
        if let Some((traces, value)) = self.traces.as_mut().zip(traceparent) {
            traces.told(value);
        }
    }

    /// Records that a request was answered, which must have a span if its client records it.
    pub(crate) fn trace_ends(&mut self, asked: &Asked, reply: &Reply) {
        let Some((traces, trace)) = self.traces.as_mut().zip(asked.ask.trace) else { return };
        let is_sampled = traces.clients.get(&trace).is_some_and(|client| client.is_sampled);
        // A request whose head never ended is none.
        let is_request = reply.status != Some(408) && !reply.reason().is_empty();
        if is_sampled && is_request && reply.is_complete() {
            traces.answered.insert(trace);
        }
    }

    /// Judges the spans of a message that the collector received.
    pub(crate) fn spans_arrive(&mut self, at: Moment, spans: &[Span]) {
        self.note(at, || format!("the collector receives {} spans", spans.len()));
        let fault = self.traces.as_ref().and_then(|traces| traces.fault_of(spans));
        if let Some(fault) = fault {
            self.violate(Rule::Tracing, at, format!("a message to the collector {fault}"));
        }
    }

    /// Records that the collector accepts these spans.
    pub(crate) fn spans_accepted(&mut self, at: Moment, spans: &[Span]) {
        if let Some((trace, span)) = self.traces.as_mut().and_then(|traces| traces.accept(spans)) {
            let text = format!("the collector has got the span {span:x} of the trace {trace:x} twice");
            self.violate(Rule::Tracing, at, text);
        }
    }

    /// Records the numbers of spans that a process which has ended calls exported and lost. Judges
    /// their sums after the last one.
    pub fn spans_counted(&mut self, at: Moment, (exported, dropped): (u64, u64), is_last: bool) {
        let is_whole = is_last && !self.is_dead();
        let Some(traces) = &mut self.traces else { return };
        traces.exported += exported;
        traces.dropped += dropped;
        let fault = traces.balance_fault(is_whole);
        let (accepted, told) = (traces.accepted.len(), traces.told.len());
        self.note(at, || {
            format!("a process has exported {exported} spans and lost {dropped}; {accepted} are accepted, {told} told")
        });
        if let Some(fault) = fault {
            self.violate(Rule::Tracing, at, fault);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::TraceRecord;
    use crate::spans::{Span, SpanKind};
    use std::collections::BTreeMap;

    fn span(trace: u128, id: u64, parent: Option<u64>, kind: SpanKind) -> Span {
        let name = if kind == SpanKind::Internal { "pass" } else { "GET" };
        let attributes = BTreeMap::new();
        Span { id: (trace, id), parent, name: name.to_owned(), kind, times: (10, 20), attributes }
    }

    /// A record with a trace that a client records, and the spans of its request.
    fn traced() -> (TraceRecord, u128, Vec<Span>) {
        let mut record = TraceRecord::new(1, true, false);
        let (trace, client) = loop {
            let begun = record.begin().map(|(trace, _)| trace);
            let sampled = begun.filter(|trace| record.clients[trace].is_sampled);
            if let Some(trace) = sampled {
                break (trace, record.clients[&trace].span);
            }
        };
        record.answered.insert(trace);
        record.told(&format!("00-{trace:032x}-{:016x}-01", 3));
        let request = span(trace, 1, Some(client), SpanKind::Server);
        let phase = span(trace, 2, Some(1), SpanKind::Internal);
        let fetch = span(trace, 3, Some(2), SpanKind::Client);
        (record, trace, vec![request, phase, fetch])
    }

    #[test]
    fn span_has_its_place_below_its_request() {
        let (record, trace, spans) = traced();
        let fault = |change: &dyn Fn(&mut Vec<Span>)| {
            let mut spans = spans.clone();
            change(&mut spans);
            record.fault_of(&spans).unwrap_or_default()
        };
        assert_eq!(fault(&|_| {}), "");
        assert!(fault(&|spans| spans[0].parent = None).contains("not below"));
        assert!(fault(&|spans| drop(spans.remove(1))).contains("a fetch for no request"));
        assert!(fault(&|spans| spans[2].parent = None).contains("shared fetch"));
        assert!(fault(&|spans| spans[1].times.1 = 21).contains("longer than"));
        assert!(fault(&|spans| spans.push(spans[0].clone())).contains("twice"));
        let own = |spans: &mut Vec<Span>| spans.push(span(trace + 1, 9, None, SpanKind::Client));
        assert_eq!(fault(&own), "", "a shared fetch has a trace of its own");
    }

    #[test]
    fn span_shows_no_cookie_and_nothing_else_that_is_not_named() {
        let (record, _, spans) = traced();
        let fault = |name: &str, text: &str| {
            let mut spans = spans.clone();
            spans[0].attributes.insert(name.to_owned(), text.to_owned());
            record.fault_of(&spans).unwrap_or_default()
        };
        assert_eq!(fault("url.path", "/a"), "");
        assert!(fault("url.path", "/a?session=u1").contains("a cookie"));
        assert!(fault("http.request.header.accept", "*/*").contains("does not name"));
    }

    #[test]
    fn each_span_is_accepted_once_or_counted_as_lost() {
        let (mut record, _, spans) = traced();
        assert!(record.balance_fault(true).unwrap().contains("2 spans are missing"));
        assert_eq!(record.balance_fault(false), None, "more processes may end");
        record.is_sound = false;
        record.dropped = 2;
        assert_eq!(record.balance_fault(true), None);
        record.dropped = 0;
        assert_eq!(record.accept(&spans), None);
        assert_eq!(record.balance_fault(true), None);
        assert_eq!(record.accept(&spans[..1]), Some(spans[0].id));
        record.exported = 4;
        assert!(record.balance_fault(false).unwrap().contains("4 spans"));
    }
}
