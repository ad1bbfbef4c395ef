//! Which requests and fetches have spans, and the queue of spans on their way to the collector.
//!
//! Invariants: nobody waits for the collector. The queue is limited in bytes; what finds it full is
//! not recorded, so that a hanging collector costs one comparison a request. Clients choose at most
//! `limits.client_traces_max` requests a second.

use clock::Monotonic;
use request_log::{SAMPLED, SpanContext, TraceId};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Largest size of the spans that wait. As many more may be on their way.
const BYTES_MAX: usize = 4 << 20;

/// Spans in the form in which they are sent.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct SpanBatch {
    pub(crate) bytes: Vec<u8>,
    /// Their number.
    pub(crate) spans: u64,
}

/// How many requests have spans.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SamplingTerms {
    /// One of this many requests without a trace, at least 1.
    pub(crate) every: u64,
    /// Requests a second whose client asks for it; `None`: there is no limit.
    pub(crate) clients_max: Option<u64>,
}

/// A span that will be exported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sampled {
    pub(crate) context: SpanContext,
    /// The client's span, if it sent one.
    pub(crate) parent: Option<u64>,
}

/// The workers' side of the export.
#[derive(Debug, Default)]
pub(crate) struct TraceExport {
    waiting: Mutex<SpanBatch>,
    /// Bytes in `waiting`, which workers read without its lock.
    waiting_bytes: AtomicUsize,
    /// Number of requests that were drawn.
    drawn: AtomicU64,
    /// When the permits that clients have used would be used up at their rate, in nanoseconds.
    clients_until: AtomicU64,
    exported: AtomicU64,
    dropped: AtomicU64,
    failures: AtomicU64,
}

impl TraceExport {
    /// The span of a request, if it has one. `parent` is what its client sent; `new` makes a trace
    /// and a span.
    pub(crate) fn sample(
        &self,
        parent: Option<SpanContext>,
        terms: SamplingTerms,
        now: Monotonic,
        new: impl FnOnce() -> (TraceId, u64),
    ) -> Option<Sampled> {
        let is_wanted = parent.map_or_else(|| self.draws(terms.every), |parent| parent.is_sampled());
        if !is_wanted {
            return None;
        }
        let is_permitted = parent.is_none() || terms.clients_max.is_none_or(|max| self.permits(max, now));
        if !is_permitted || !self.has_room() {
            self.drop_spans(1);
            return None;
        }
        let (trace, span) = new();
        Some(match parent {
            Some(parent) => Sampled { context: SpanContext { span, ..parent }, parent: Some(parent.span) },
            None => Sampled { context: SpanContext { trace, span, flags: SAMPLED }, parent: None },
        })
    }

    /// Whether the next of many is one of the sample, of which each has one in `every`.
    pub(crate) fn draws(&self, every: u64) -> bool {
        // Multiples of the golden ratio spread evenly, and are in step with no period of visits.
        const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
        // Relaxed is enough: no other memory depends on the count.
        self.drawn.fetch_add(1, Ordering::Relaxed).wrapping_mul(GOLDEN) <= u64::MAX / every.max(1)
    }

    /// Whether one more client may choose its request. Up to a second's permits may be used at
    /// once.
    fn permits(&self, a_second: u64, now: Monotonic) -> bool {
        let Some(interval) = NANOS_A_SECOND.checked_div(a_second) else { return false };
        let now = now.as_nanos();
        let next = |until: u64| {
            let next = until.max(now) + interval;
            (next <= now + NANOS_A_SECOND).then_some(next)
        };
        self.clients_until.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).is_ok()
    }

    /// Whether more spans may wait.
    pub(crate) fn has_room(&self) -> bool {
        self.waiting_bytes.load(Ordering::Relaxed) < BYTES_MAX
    }

    /// Queues encoded spans of this number. Spans that found room at their begin are queued even
    /// beyond the limit, which so many requests under way may exceed, but not beyond twice the
    /// limit.
    pub(crate) fn push(&self, bytes: &[u8], spans: u64) {
        let mut waiting = self.lock();
        if waiting.bytes.len() + bytes.len() > 2 * BYTES_MAX {
            drop(waiting);
            return self.drop_spans(spans);
        }
        waiting.bytes.extend_from_slice(bytes);
        waiting.spans += spans;
        self.waiting_bytes.store(waiting.bytes.len(), Ordering::Relaxed);
    }

    /// Takes all spans that wait.
    pub(crate) fn take(&self) -> SpanBatch {
        let mut waiting = self.lock();
        self.waiting_bytes.store(0, Ordering::Relaxed);
        std::mem::take(&mut *waiting)
    }

    /// Size of the spans that wait, in bytes.
    pub(crate) fn waiting_bytes(&self) -> usize {
        self.waiting_bytes.load(Ordering::Relaxed)
    }

    /// Counts spans that the collector has accepted.
    pub(crate) fn count_exported(&self, spans: u64) {
        self.exported.fetch_add(spans, Ordering::Relaxed);
    }

    /// Counts spans that are lost.
    pub(crate) fn drop_spans(&self, spans: u64) {
        self.dropped.fetch_add(spans, Ordering::Relaxed);
    }

    /// Counts an attempt that failed.
    pub(crate) fn count_failure(&self) {
        self.failures.fetch_add(1, Ordering::Relaxed);
    }

    /// Spans that the collector has accepted.
    pub(crate) fn exported(&self) -> u64 {
        self.exported.load(Ordering::Relaxed)
    }

    /// Spans that were lost.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Attempts that failed.
    pub(crate) fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }

    /// Poison is ignored: nothing panics while it is locked.
    fn lock(&self) -> MutexGuard<'_, SpanBatch> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Nanoseconds of a second.
const NANOS_A_SECOND: u64 = Duration::from_secs(1).as_nanos() as u64;

#[cfg(test)]
mod tests {
    use super::{BYTES_MAX, SamplingTerms, TraceExport};
    use clock::Monotonic;
    use proptest::prelude::*;
    use request_log::{SpanContext, TraceId};

    fn at(millis: u64) -> Monotonic {
        Monotonic::from_nanos(millis * 1_000_000)
    }

    fn context(flags: u8) -> SpanContext {
        SpanContext { trace: TraceId::from_bits(5), span: 6, flags }
    }

    const ALL: SamplingTerms = SamplingTerms { every: 1, clients_max: None };

    fn new() -> (TraceId, u64) {
        (TraceId::from_bits(7), 8)
    }

    #[test]
    fn client_decides_for_its_trace_and_the_ratio_for_others() {
        let export = TraceExport::default();
        let never = SamplingTerms { every: u64::MAX, ..ALL };
        export.draws(1);
        let sampled = export.sample(Some(context(0b11)), never, at(0), new).unwrap();
        assert_eq!((sampled.context.trace, sampled.context.span), (TraceId::from_bits(5), 8));
        assert_eq!((sampled.context.flags, sampled.parent), (0b11, Some(6)));
        assert_eq!(export.sample(Some(context(0)), ALL, at(0), new), None);
        assert_eq!(export.sample(None, never, at(0), new), None);
        let own = export.sample(None, ALL, at(0), new).unwrap();
        assert_eq!((own.context.trace, own.context.flags, own.parent), (TraceId::from_bits(7), 1, None));
        assert_eq!(export.dropped(), 0, "what nobody wanted is not lost");
    }

    #[test]
    fn one_of_many_requests_is_drawn() {
        let export = TraceExport::default();
        let drawn = (0..10_000).filter(|_| export.draws(100)).count();
        assert!((95..=105).contains(&drawn), "{drawn}");
    }

    #[test]
    fn full_queue_takes_nothing_and_counts_it() {
        let export = TraceExport::default();
        export.push(&vec![1; BYTES_MAX], 9);
        assert_eq!(export.sample(None, ALL, at(0), new), None);
        assert_eq!(export.dropped(), 1);
        let batch = export.take();
        assert_eq!((batch.bytes.len(), batch.spans), (BYTES_MAX, 9));
        assert!(export.sample(None, ALL, at(0), new).is_some() && export.waiting_bytes() == 0);
    }

    #[test]
    fn requests_under_way_cannot_fill_the_memory() {
        let export = TraceExport::default();
        for _ in 0..9 {
            export.push(&vec![1; BYTES_MAX], 1);
        }
        let batch = export.take();
        assert!(batch.bytes.len() <= 2 * BYTES_MAX);
        assert_eq!(batch.spans + export.dropped(), 9);
    }

    proptest! {
        #[test]
        fn clients_choose_no_more_than_their_rate(pauses in prop::collection::vec(0_u64..400, 1..200)) {
            let export = TraceExport::default();
            let terms = SamplingTerms { clients_max: Some(10), ..ALL };
            // The slow model: a bucket with ten tokens, one more every 100 ms.
            let (mut now, mut tokens_millis) = (0, 1000_u64);
            for pause in pauses {
                now += pause;
                tokens_millis = (tokens_millis + pause).min(1000);
                let is_permitted = tokens_millis >= 100;
                tokens_millis -= if is_permitted { 100 } else { 0 };
                let sampled = export.sample(Some(context(1)), terms, at(now), new);
                prop_assert_eq!(sampled.is_some(), is_permitted);
            }
        }
    }

    #[test]
    fn limit_of_zero_lets_no_client_choose() {
        let terms = SamplingTerms { clients_max: Some(0), ..ALL };
        assert_eq!(TraceExport::default().sample(Some(context(1)), terms, at(9), new), None);
    }
}
