//! One thread's record of one stage. A run without stages has one record.
//!
//! Invariant: a response is in the histograms of exactly one stage, the one in which it was meant
//! to start. Recording allocates only when something occurs for the first time.

use crate::exchange::ExchangeTimes;
use crate::recorder::micros;
use clock::Monotonic;
use record::{CacheVerdict, FailureKind, Failures, LateResponses, Times, VerdictTimes};
use stats::Histogram;

/// Counters and histograms of one stage.
#[derive(Debug, Default)]
pub(crate) struct StageRecord {
    end: Option<Monotonic>,
    pub(crate) complete: u64,
    pub(crate) good: u64,
    pub(crate) failures: Failures,
    pub(crate) not_started: u64,
    pub(crate) late: LateResponses,
    tells_latency: bool,
    has_tls: bool,
    /// Times of good responses. Their total times are only in `totals`, by verdict; the histogram
    /// for them stays empty here.
    phases: Option<Box<Times>>,
    wrong: Option<Box<Times>>,
    totals: [Option<Box<Histogram>>; VERDICTS],
}

/// Number of verdicts, plus one for responses without a verdict.
const VERDICTS: usize = CacheVerdict::ALL.len() + 1;

impl StageRecord {
    /// An empty record of a stage that ends at `end`, if its end is known.
    pub(crate) fn new(end: Option<Monotonic>, tells_latency: bool, has_tls: bool) -> Self {
        Self { end, tells_latency, has_tls, ..Self::default() }
    }

    /// Records a complete response. Returns whether it came after the end of the stage.
    pub(crate) fn answer(
        &mut self,
        exchange: &ExchangeTimes,
        verdict: Option<CacheVerdict>,
        wrong: Option<FailureKind>,
    ) -> bool {
        let end = exchange.last_octet;
        self.complete += 1;
        let is_late = self.end.is_some_and(|stage_end| end >= stage_end);
        self.late.complete += u64::from(is_late);
        let connect_us = micros(exchange.started, exchange.connected);
        let total_us = micros(exchange.started, end);
        let phases = match wrong {
            None => {
                self.good += 1;
                self.late.good += u64::from(is_late);
                self.total(verdict).record(total_us);
                self.phases.get_or_insert_default()
            }
            Some(kind) => {
                self.failures.add(kind);
                let wrong = self.wrong.get_or_insert_default();
                wrong.total.record(total_us);
                wrong
            }
        };
        phases.connect.record(connect_us);
        if self.has_tls {
            phases.tls.record(micros(exchange.established, exchange.connected));
        }
        // Both parts are cut to whole microseconds. Only this difference makes them add up to the
        // total.
        phases.processing.record(total_us.saturating_sub(connect_us));
        phases.waiting.record(micros(exchange.sent, exchange.first_octet));
        phases.transfer.record(micros(exchange.first_octet, end));
        if self.tells_latency {
            phases.from_intended.get_or_insert_default().record(micros(exchange.intended, end));
        }
        is_late
    }

    /// Adds another thread's record of the stage, or the record of another stage.
    pub(crate) fn merge(&mut self, other: Self) {
        self.complete += other.complete;
        self.good += other.good;
        self.failures.merge(&other.failures);
        self.not_started += other.not_started;
        self.late.good += other.late.good;
        self.late.complete += other.late.complete;
        for (ours, theirs) in [(&mut self.phases, other.phases), (&mut self.wrong, other.wrong)] {
            if let Some(theirs) = theirs {
                ours.get_or_insert_default().merge(&theirs);
            }
        }
        for (ours, theirs) in self.totals.iter_mut().zip(other.totals) {
            if let Some(theirs) = theirs {
                ours.get_or_insert_default().merge(&theirs);
            }
        }
    }

    /// The times of good responses, of wrong responses, and of good responses by verdict.
    pub(crate) fn times(&self) -> (Times, Times, Vec<VerdictTimes>) {
        let owned = |times: &Option<Box<Times>>| times.as_deref().cloned().unwrap_or_default();
        let (mut good, mut verdicts) = (owned(&self.phases), Vec::new());
        let names = std::iter::once(None).chain(CacheVerdict::ALL.into_iter().map(Some));
        for (verdict, total) in names.zip(&self.totals) {
            let Some(total) = total else { continue };
            good.total.merge(total);
            if let Some(verdict) = verdict {
                verdicts.push(VerdictTimes { verdict, total: (**total).clone() });
            }
        }
        (good, owned(&self.wrong), verdicts)
    }

    fn total(&mut self, verdict: Option<CacheVerdict>) -> &mut Histogram {
        let place = verdict.map_or(0, |verdict| verdict as usize + 1);
        #[expect(
            clippy::indexing_slicing,
            reason = "VERDICTS is one more than the greatest verdict plus one"
        )]
        self.totals[place].get_or_insert_default()
    }
}
