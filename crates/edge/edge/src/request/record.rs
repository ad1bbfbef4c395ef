//! *record*: counts the verdict of a request, and gives its record to the access log, to the
//! followers of the log and to the export of traces.
//!
//! Invariants: every request is recorded once. The steps note nothing that only records need unless
//! a record is wanted, so that a request without one pays for no memory, and for one reading of the
//! clock at its end.

use crate::control::access_log::AccessLog;
use crate::control::counters::Metric;
use crate::fetch::task::phases_of;
use crate::request::client::ClientConnection;
use crate::request::client_address::address_of;
use crate::request::trace::RequestTrace;
use crate::request::visit::{RequestOutcome, Visit};
use crate::shared::Shared;
use clock::{Monotonic, Timestamp};
use config::{LogFormat, LogTerms};
use h1::Request;
use message::{Status, Version, names};
use net::Peer;
use origin::{FetchError, OriginExchange};
use request_log::otlp::Phase;
use request_log::{
    ClientName, FetchPhases, PageKey, Phases, Protocol, RequestRecord, SpanContext, TraceId, trace_of,
    without_last_bits,
};
use std::time::Duration;
use store::Key;

/// How much of a request is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Detail {
    /// Nothing but the counters.
    Counters,
    /// What a line in the combined format has.
    Line,
    /// Everything.
    Full,
}

/// What the record of a request needs of its steps.
#[derive(Debug)]
pub(crate) struct Notes {
    detail: Detail,
    key: Option<Key>,
    phases: Phases,
    /// The request to the origin that the response came from.
    pub(crate) fetch: Option<FetchPhases>,
    /// Whether that request was made for this one, and not for another one that this one joined.
    pub(crate) leads: bool,
    /// The spans of the request, if they are exported. The detail is then full.
    pub(crate) trace: Option<Box<RequestTrace>>,
}

impl Notes {
    /// The notes of a request that this client sent just now.
    pub(crate) fn for_request(
        shared: &Shared,
        client: &ClientConnection,
        request: &Request,
        now: Monotonic,
    ) -> Self {
        let detail = match &shared.log {
            _ if shared.followers.is_any() => return Self::for_watched(shared, client, request, now),
            None => Detail::Counters,
            Some(log) if is_full(log, &shared.plan.log_terms) => Detail::Full,
            Some(_) => Detail::Line,
        };
        Self { detail, key: None, phases: Phases::default(), fetch: None, leads: false, trace: None }
    }

    /// As [`Notes::for_request`], if the log has followers or traces are exported.
    #[cold]
    fn for_watched(shared: &Shared, client: &ClientConnection, request: &Request, now: Monotonic) -> Self {
        let trace = RequestTrace::begin(shared, client.peer().ip(), &request.head.fields, now);
        let detail = match &shared.log {
            _ if trace.is_some() || shared.followers.len() > 0 => Detail::Full,
            None => Detail::Counters,
            Some(log) if is_full(log, &shared.plan.log_terms) => Detail::Full,
            Some(_) => Detail::Line,
        };
        Self { detail, key: None, phases: Phases::default(), fetch: None, leads: false, trace }
    }
}

/// Whether lines need more than the combined format has.
fn is_full(log: &AccessLog, terms: &LogTerms) -> bool {
    log.is_journal() || terms.format == LogFormat::Json || terms.filter.is_some()
}

impl Visit<'_> {
    /// The beginning of a phase; `None` if the record does not need it.
    pub(crate) fn begin_phase(&mut self) -> Option<Monotonic> {
        if self.notes.detail != Detail::Full {
            return None;
        }
        let now = self.shared.clock.monotonic();
        if let Some(trace) = &mut self.notes.trace {
            trace.begin_phase(now);
        }
        Some(now)
    }

    /// Adds the time since the beginning of a phase to its total.
    pub(crate) fn end_phase(&mut self, begun: Option<Monotonic>, phase: Phase) {
        let Some(begun) = begun else { return };
        let now = self.shared.clock.monotonic();
        let phases = &mut self.notes.phases;
        let total = match phase {
            Phase::Disk => &mut phases.disk,
            Phase::Wait => &mut phases.wait,
            Phase::Pass => &mut phases.pass,
        };
        *total += now.since(begun);
        if let Some(trace) = &mut self.notes.trace {
            trace.end_phase(phase, now);
        }
    }

    /// Keeps the cache key for the record.
    pub(crate) fn note_key(&mut self, key: &Key) {
        if self.notes.detail == Detail::Full {
            self.notes.key = Some(key.clone());
        }
    }

    /// Keeps the times of the client's own request, when the head of the response has arrived.
    pub(crate) fn note_own_fetch(&mut self, exchange: &OriginExchange, status: Status) {
        let phases = phases_of(self.shared.next_fetch(), exchange.timing(), self.shared.clock.monotonic());
        self.shared.origin_work.count(self.worker, phases.connect + phases.first_byte);
        (self.notes.fetch, self.notes.leads) = (Some(phases), true);
        if self.notes.detail == Detail::Full {
            self.end_own_fetch(Ok((exchange, status.code())), Some(phases));
        }
    }

    /// Announces a request of this client alone to its origin. Returns the value of its
    /// `traceparent`, if the request is exported.
    pub(crate) fn begin_own_fetch(&mut self) -> Option<String> {
        let now = self.shared.clock.monotonic();
        Some(self.notes.trace.as_mut()?.begin_fetch(now).to_traceparent())
    }

    /// Notes the end of a request of this client alone, by the head of its response or a failure.
    pub(crate) fn end_own_fetch(
        &mut self,
        outcome: Result<(&OriginExchange, u16), &FetchError>,
        phases: Option<FetchPhases>,
    ) {
        let now = self.shared.clock.monotonic();
        if let Some(trace) = self.notes.trace.as_mut() {
            trace.end_own_fetch(now, outcome, phases);
        }
    }

    /// Notes a shared fetch that this request led and that has ended.
    pub(crate) fn note_led_fetch(
        &mut self,
        target: &[u8],
        outcome: Result<u16, &'static str>,
        phases: Option<FetchPhases>,
    ) {
        let now = self.shared.clock.monotonic();
        let Some(trace) = self.notes.trace.as_mut() else { return };
        let single = self.site.filter(|site| !site.origin.is_plural());
        trace.note_led_fetch(now, (target, single.map(|site| site.plan.origin.clone())), outcome, phases);
    }

    /// *record*: updates counters, and gives the record to all who want it.
    pub(crate) fn record(&mut self, outcome: &RequestOutcome) {
        let time = self.shared.clock.monotonic().since(self.begun.monotonic);
        let measures = match self.site {
            Some(site) => &site.measures,
            None => self.shared.sites.measures().no_site(),
        };
        measures.note(self.worker, outcome.reason, time, self.exemplar());
        measures.note_path(self.worker, &self.request.head.target, outcome.reason);
        if let Some(fetch) = self.notes.fetch.filter(|_| self.notes.leads) {
            self.note_origin_request(outcome.reason, fetch);
        }
        let cells = self.cells();
        let (received, sent) = self.client.take_octet_counts();
        // A connection with HTTP/2 counts the bytes of all its streams itself, and those of a
        // fragment are sent with its page.
        if !self.client.is_http2() && self.client.fragment_of().is_none() {
            cells.add(Metric::BytesReceived, received);
            cells.add(Metric::BytesSent, sent);
        }
        if self.notes.detail > Detail::Counters {
            self.write_record(outcome, time, (received, sent));
        }
    }

    /// The trace that the client records, and when the request began.
    fn exemplar(&self) -> Option<(TraceId, Timestamp)> {
        let value = self.request.head.fields.first(names::TRACEPARENT)?;
        let context = SpanContext::of(value).filter(SpanContext::is_sampled)?;
        Some((context.trace, self.begun.wall))
    }

    /// Gives the record to all who want it.
    fn write_record(&mut self, outcome: &RequestOutcome, time: Duration, bytes: (u64, u64)) {
        let terms = &self.shared.plan.log_terms;
        let trace = self.notes.trace.take();
        let record = self.record_of(outcome, time, bytes, terms.is_anonymous);
        if self.shared.followers.len() > 0 {
            self.shared.followers.offer(&record);
        }
        if let Some((mut trace, export)) = trace.zip(self.shared.traces.as_ref()) {
            trace.export(export, &record, self.begun);
        }
        let Some(log) = &self.shared.log else { return };
        if !log.record(&record, terms) {
            self.cells().count(Metric::AccessLogDropped);
        }
    }

    fn record_of(
        &self,
        outcome: &RequestOutcome,
        time: Duration,
        (received_bytes, sent_bytes): (u64, u64),
        is_anonymous: bool,
    ) -> RequestRecord<'_> {
        let (head, arrival) = (&self.request.head, self.client.arrival());
        let is_full = self.notes.detail == Detail::Full;
        let shown = |name| if is_anonymous { without_last_bits(name) } else { name };
        let peer = name_of(arrival.peer);
        let client = if is_full { self.client_name(arrival.peer) } else { peer };
        let field = |name| head.fields.first(name).map(|value| &value[..]);
        RequestRecord {
            at: self.begun.wall,
            peer: shown(peer),
            client: shown(client),
            method: &head.method,
            target: &head.target,
            protocol: match head.version {
                _ if self.client.is_http2() => Protocol::Http2,
                Version::Http10 => Protocol::Http10,
                Version::Http11 => Protocol::Http11,
            },
            tls: arrival.tls.map(|version| version.name()),
            host: field(names::HOST),
            site: self.site.map(|site| site.label()),
            status: outcome.status.code(),
            content_bytes: outcome.content_bytes,
            received_bytes,
            sent_bytes,
            reason: outcome.reason,
            key: self.notes.key.as_ref().map(|key| PageKey {
                is_https: key.is_https(),
                host: key.host(),
                target: key.target(),
            }),
            referer: field("Referer"),
            agent: field(names::USER_AGENT),
            trace: if is_full { field(names::TRACEPARENT).and_then(trace_of) } else { None },
            time,
            phases: self.notes.phases,
            fetch: self.notes.fetch,
        }
    }

    /// The client, as a trusted proxy reports it.
    fn client_name(&self, peer: Peer) -> ClientName {
        let is_trusted = peer.ip().is_some_and(|ip| self.shared.plan.trusted_proxies.contains(ip));
        if !is_trusted {
            return name_of(peer);
        }
        let address = address_of(self.shared, peer, true, &self.request.head.fields);
        address.map_or(ClientName::Unknown, ClientName::Ip)
    }
}

fn name_of(peer: Peer) -> ClientName {
    match peer {
        Peer::Ip(address) => ClientName::Ip(address.ip()),
        Peer::Unix => ClientName::Unix,
        Peer::Unknown => ClientName::Unknown,
    }
}
