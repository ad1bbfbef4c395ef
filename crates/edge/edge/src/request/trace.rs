//! The spans of a request that is exported: the request itself, its phases, and the requests to
//! origins that were sent for it alone or that it led.
//!
//! Invariants: a request has at most [`SPANS_MAX`] parts. All times follow from one reading of the
//! wall clock, so a part lies within its request. A fetch whose origin was told a parent has a span
//! with that identifier, even if the fetch fails or is given up.

use crate::memory::trace_export::{Sampled, SamplingTerms, TraceExport};
use crate::shared::Shared;
use address::OriginUrl;
use bytes::Bytes;
use clock::Monotonic;
use message::{Fields, Method, names};
use origin::{FetchError, OriginExchange};
use request_log::otlp::{FetchSpan, Phase, SpanTimes, push_fetch, push_phase, push_request};
use request_log::{FetchPhases, RequestRecord, SpanContext};
use semantics::Moment;
use std::net::IpAddr;

/// Largest number of parts of a request that have spans. Further ones are left out.
const SPANS_MAX: usize = 16;

/// Initial capacity for the spans of a request, in bytes.
const SPANS_BYTES: usize = 2048;

/// The failure of a fetch that was given up, for example because a stale response was sent.
const GIVEN_UP: &str = "cancelled";

/// The trace of a request whose spans are exported.
#[derive(Debug)]
pub(crate) struct RequestTrace {
    own: Sampled,
    last_span: u64,
    phase: Option<OpenSpan>,
    fetch: Option<OpenSpan>,
    phases: Vec<(Phase, SpanNote)>,
    fetches: Vec<FetchNote>,
}

/// A part that has begun.
#[derive(Clone, Copy, Debug)]
struct OpenSpan {
    span: u64,
    parent: u64,
    begun: Monotonic,
}

/// A part that has ended.
#[derive(Clone, Copy, Debug)]
struct SpanNote {
    open: OpenSpan,
    ended: Monotonic,
}

#[derive(Debug)]
struct FetchNote {
    span: SpanNote,
    /// The method and target as they were sent; `None`: those of the client.
    sent: Option<(Method, Bytes)>,
    origin: Option<OriginUrl>,
    outcome: Result<u16, &'static str>,
    phases: Option<FetchPhases>,
}

impl RequestTrace {
    /// The trace of a request, if its spans are exported.
    pub(crate) fn begin(
        shared: &Shared,
        peer: Option<IpAddr>,
        fields: &Fields,
        now: Monotonic,
    ) -> Option<Box<Self>> {
        let (export, plan) = shared.traces.as_ref().zip(shared.plan.traces.as_ref())?;
        let parent = fields.first(names::TRACEPARENT).and_then(|value| SpanContext::of(value));
        let is_trusted = peer.is_some_and(|ip| shared.plan.trusted_proxies.contains(ip));
        let clients_max = (!is_trusted).then_some(shared.limits.client_traces_max);
        let terms = SamplingTerms { every: plan.every, clients_max };
        let own = export.sample(parent, terms, now, || shared.new_trace())?;
        Some(Box::new(Self {
            own,
            last_span: own.context.span,
            phase: None,
            fetch: None,
            phases: Vec::new(),
            fetches: Vec::new(),
        }))
    }

    /// The next identifier of a part. The sequence returns to its begin only after all numbers.
    fn next_span(&mut self) -> u64 {
        let next =
            self.last_span.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.last_span = next;
        next.max(1)
    }

    fn open(&mut self, parent: u64, now: Monotonic) -> OpenSpan {
        OpenSpan { span: self.next_span(), parent, begun: now }
    }

    pub(crate) fn begin_phase(&mut self, now: Monotonic) {
        self.phase = Some(self.open(self.own.context.span, now));
    }

    pub(crate) fn end_phase(&mut self, phase: Phase, now: Monotonic) {
        self.close_fetch(now);
        if let Some(open) = self.phase.take().filter(|_| self.phases.len() < SPANS_MAX) {
            self.phases.push((phase, SpanNote { open, ended: now }));
        }
    }

    /// The fetch that begins, as its origin is told. One that was announced goes on.
    pub(crate) fn begin_fetch(&mut self, now: Monotonic) -> SpanContext {
        let parent = self.phase.map_or(self.own.context.span, |phase| phase.span);
        let open = match self.fetch {
            Some(open) => open,
            None => self.open(parent, now),
        };
        self.fetch = Some(open);
        SpanContext { span: open.span, ..self.own.context }
    }

    fn end_fetch(&mut self, now: Monotonic, note: impl FnOnce(SpanNote) -> FetchNote) {
        if let Some(open) = self.fetch.take().filter(|_| self.fetches.len() < SPANS_MAX) {
            self.fetches.push(note(SpanNote { open, ended: now }));
        }
    }

    /// Notes the end of a request of this client alone, by the head of its response or a failure.
    pub(crate) fn end_own_fetch(
        &mut self,
        now: Monotonic,
        outcome: Result<(&OriginExchange, u16), &FetchError>,
        phases: Option<FetchPhases>,
    ) {
        self.end_fetch(now, |span| FetchNote {
            span,
            sent: None,
            origin: outcome.ok().map(|(exchange, _)| exchange.origin_url().clone()),
            outcome: outcome.map(|(_, status)| status).map_err(failure_name),
            phases,
        });
    }

    /// Notes a shared fetch from `origin` that this request led and that has ended. It is left out
    /// if it has a trace of its own.
    pub(crate) fn note_led_fetch(
        &mut self,
        now: Monotonic,
        (target, origin): (&[u8], Option<OriginUrl>),
        outcome: Result<u16, &'static str>,
        phases: Option<FetchPhases>,
    ) {
        let Some(phase) = self.phase else { return };
        if phases.is_some_and(|phases| phases.trace.is_some()) || self.fetches.len() >= SPANS_MAX {
            return;
        }
        let begun = phases.as_ref().map_or(phase.begun, begin_of);
        // It began before the request waits for it.
        let open = OpenSpan { begun, ..self.open(self.own.context.span, now) };
        self.fetches.push(FetchNote {
            span: SpanNote { open, ended: phases.map_or(now, |phases| phases.received) },
            sent: Some((Method::Get, Bytes::copy_from_slice(target))),
            origin,
            outcome,
            phases,
        });
    }

    /// Ends a fetch that was given up.
    fn close_fetch(&mut self, now: Monotonic) {
        self.end_fetch(now, |span| FetchNote {
            span,
            sent: None,
            origin: None,
            outcome: Err(GIVEN_UP),
            phases: None,
        });
    }

    /// Queues the spans of the request.
    pub(crate) fn export(&mut self, export: &TraceExport, record: &RequestRecord<'_>, begun: Moment) {
        self.close_fetch(begun.monotonic.plus(record.time));
        let times = |from: Monotonic, to: Monotonic| times_of(begun, from, to);
        let own = self.own.context;
        let context = |span: u64| SpanContext { span, ..own };
        let mut out = Vec::with_capacity(SPANS_BYTES);
        let all = times(begun.monotonic, begun.monotonic.plus(record.time));
        push_request(&mut out, record, own, self.own.parent, all);
        for (phase, SpanNote { open, ended }) in &self.phases {
            push_phase(&mut out, *phase, context(open.span), open.parent, times(open.begun, *ended));
        }
        for fetch in &self.fetches {
            let SpanNote { open, ended } = fetch.span;
            let (method, target) = match &fetch.sent {
                Some((method, target)) => (method, &target[..]),
                None => (record.method, record.target),
            };
            let span = FetchSpan {
                context: context(open.span),
                parent: Some(open.parent),
                times: times(open.begun, ended),
                method,
                origin: fetch.origin.as_ref(),
                target,
                outcome: fetch.outcome,
                phases: fetch.phases,
            };
            push_fetch(&mut out, &span);
        }
        export.push(&out, 1 + (self.phases.len() + self.fetches.len()) as u64);
    }
}

/// The times of something that began and ended at these moments. `known` relates them to the wall.
pub(crate) fn times_of(known: Moment, begun: Monotonic, ended: Monotonic) -> SpanTimes {
    let wall = |at: Monotonic| {
        let base = known.wall.as_micros().saturating_mul(1000);
        // What began before is a fetch that a request joined.
        let before = known.monotonic.as_nanos().saturating_sub(at.as_nanos());
        let after = at.as_nanos().saturating_sub(known.monotonic.as_nanos());
        base.saturating_add(after).saturating_sub(before)
    };
    SpanTimes { begun: wall(begun), ended: wall(ended) }
}

/// When a fetch with these times began to wait for its turn.
pub(crate) fn begin_of(phases: &FetchPhases) -> Monotonic {
    let before = phases.queue + phases.connect + phases.first_byte;
    let nanos = u64::try_from(before.as_nanos()).unwrap_or(u64::MAX);
    Monotonic::from_nanos(phases.received.as_nanos().saturating_sub(nanos))
}

/// The kind of a failure, for `error.type`.
pub(crate) const fn failure_name(error: &FetchError) -> &'static str {
    match error {
        FetchError::Busy(_) => "busy",
        FetchError::BreakerOpen => "breaker_open",
        FetchError::Refused => "refused",
        FetchError::Unreachable(_) => "unreachable",
        FetchError::Tls(_) => "tls",
        FetchError::ConnectTimeout | FetchError::FirstByteTimeout | FetchError::BetweenBytesTimeout => {
            "timeout"
        }
        FetchError::Closed => "closed",
        FetchError::BadHead(_)
        | FetchError::BadBody(_)
        | FetchError::TooManyInformational
        | FetchError::UnaskedSwitch
        | FetchError::UnaskedNotModified => "malformed",
        FetchError::Upload(_) => "upload",
    }
}
