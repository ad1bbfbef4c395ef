//! Counts the requests in flight, and publishes the progress.
//!
//! Invariant: a request is in flight from its start to its end, once. Counts of the measured part
//! and of all requests are kept apart, because a warm-up ends without a gap.

use crate::exchange::ExchangeTimes;
use crate::recorder::Recorder;
use crate::shared::LoadContext;
use clock::Monotonic;

#[derive(Debug, Default)]
pub(super) struct InFlightMeter {
    /// Requests in flight, including those of the warm-up; then only measured ones.
    pub(super) in_flight: usize,
    in_flight_measured: usize,
    /// Whether requests in flight are summed up over time. A closed loop is checked against its
    /// number of users instead.
    counts_in_flight: bool,
    /// Requests in flight up to this moment are part of the recorder's sum over time.
    counted_until: Monotonic,
    /// Requests whose response came or was read after the end of the run.
    pub(super) too_late: Vec<ExchangeTimes>,
    /// Requests ended and failed when progress was last published: measured requests, then all
    /// requests.
    published: [(u64, u64); 2],
}

impl InFlightMeter {
    pub(super) fn new(counts_in_flight: bool) -> Self {
        Self { counts_in_flight, ..Self::default() }
    }

    /// Records that a request is in flight.
    #[inline]
    pub(super) fn start(&mut self, exchange: &ExchangeTimes, recorder: &mut Recorder) {
        self.count_in_flight(exchange.started, recorder);
        self.in_flight += 1;
        if exchange.measured {
            self.in_flight_measured += 1;
            recorder.counters.started += u64::from(!exchange.is_returned);
        }
    }

    /// Records that a request is no longer in flight from `now` on.
    #[inline]
    pub(super) fn end(&mut self, exchange: &ExchangeTimes, now: Monotonic, recorder: &mut Recorder) {
        self.count_in_flight(now, recorder);
        self.in_flight -= 1;
        self.in_flight_measured -= usize::from(exchange.measured);
    }

    /// Updates the integral of requests in flight over time, which is checked against the times of
    /// the requests.
    #[inline]
    pub(super) fn count_in_flight(&mut self, now: Monotonic, recorder: &mut Recorder) {
        if !self.counts_in_flight {
            return;
        }
        let time = now.since(self.counted_until);
        self.counted_until = self.counted_until.max(now);
        recorder.in_flight_area_ns += self.in_flight_measured as u128 * time.as_nanos();
    }

    /// Publishes how many requests this thread has finished.
    pub(super) fn publish(&mut self, now: Monotonic, recorder: &Recorder, shared: &LoadContext<'_>) {
        let measured = (recorder.requests(), recorder.counters.failures.total());
        let all = (measured.0 + recorder.warmup.0, measured.1 + recorder.warmup.1);
        let [measured_before, all_before] = std::mem::replace(&mut self.published, [measured, all]);
        if all.0 > all_before.0 {
            shared.control.add(measured.0 - measured_before.0, measured.1 - measured_before.1);
            shared.count_ends(all.0 - all_before.0, all.1 - all_before.1);
            if all.0 - all_before.0 > all.1 - all_before.1 {
                shared.alive(now);
            }
        }
    }
}
