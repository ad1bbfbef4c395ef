//! The schedule of an open loop: when requests fall due.
//!
//! Invariant: the schedule depends only on the part's rates, its beginning and the seed. The
//! target's speed and the number of threads do not change it. Every thread walks the same sequence
//! and takes its own share.
//!
//! Consider the *expected number* of requests since the part's beginning. Requests fall due at
//! equal or exponentially distributed steps of this number. The inverse of the rate's integral
//! turns it into time. One rule thus covers constant rates, Poisson arrivals and ramps of both.

use crate::arrival::OpenPart;
use clock::Monotonic;
use stats::Random;
use std::time::Duration;

/// A request that falls due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DueRequest {
    /// When it falls due.
    pub(crate) at: Monotonic,
    /// Its number in the part, over all threads, starting from 0.
    pub(crate) number: u64,
}

/// One thread's view of the schedule of one part.
#[derive(Clone, Debug)]
pub(crate) struct Schedule {
    part: OpenPart,
    begin: Monotonic,
    /// The part's length in seconds.
    seconds: Option<f64>,
    /// Source of exponential gaps; `None` for equal gaps.
    random: Option<Random>,
    /// The expected number of requests when the next one falls due.
    expected: f64,
    /// The number of the next request.
    number: u64,
    thread: u64,
    threads: u64,
}

impl Schedule {
    /// The share of thread `thread` of `threads` in a part that begins at `begin`.
    pub(crate) fn new(
        part: OpenPart,
        begin: Monotonic,
        length: Option<Duration>,
        seed: u64,
        (thread, threads): (usize, usize),
    ) -> Self {
        let mut schedule = Self {
            part,
            begin,
            seconds: length.map(|length| length.as_secs_f64()),
            random: part.is_poisson.then(|| Random::from_seed(seed)),
            expected: 0.0,
            number: 0,
            thread: thread as u64,
            threads: threads as u64,
        };
        if part.is_poisson {
            schedule.expected = schedule.step();
        }
        schedule
    }

    /// The next request of this thread; `None` when the part is over, or if the request would fall
    /// due in a time that no clock shows.
    pub(crate) fn next(&mut self) -> Option<DueRequest> {
        loop {
            let seconds = self.part.seconds_until(self.expected, self.seconds)?;
            if self.seconds.is_some_and(|length| seconds >= length) {
                return None;
            }
            let after = Duration::try_from_secs_f64(seconds).ok()?;
            let number = self.number;
            self.number += 1;
            self.expected += self.step();
            if number % self.threads == self.thread {
                return Some(DueRequest { at: self.begin.plus(after), number });
            }
        }
    }

    fn step(&mut self) -> f64 {
        let Some(random) = &mut self.random else { return 1.0 };
        // 53 random bits make a number from 0 to just below 1.
        let uniform = (random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
        -(1.0 - uniform).ln()
    }
}

impl OpenPart {
    /// The time in seconds after which `expected` requests are expected; `None` if the rate falls
    /// to zero before that.
    fn seconds_until(&self, expected: f64, length: Option<f64>) -> Option<f64> {
        if expected <= 0.0 {
            return Some(0.0);
        }
        let slope = length.map_or(0.0, |length| (self.to - self.from) / length);
        let square = self.from * self.from + 2.0 * slope * expected;
        // The root of from * t + slope * t^2 / 2 = expected, in the form that also holds for a
        // slope of zero.
        (square >= 0.0)
            .then(|| 2.0 * expected / (self.from + square.sqrt()))
            .filter(|seconds| seconds.is_finite())
    }
}

#[cfg(test)]
mod tests {
    use super::{DueRequest, Schedule};
    use crate::arrival::OpenPart;
    use clock::Monotonic;
    use proptest::prelude::{ProptestConfig, prop_assert, prop_assert_eq, proptest};
    use std::time::Duration;

    fn schedule(
        from: f64,
        to: f64,
        is_poisson: bool,
        seconds: u64,
        place: (usize, usize),
    ) -> Vec<DueRequest> {
        let part = OpenPart { from, to, is_poisson };
        let length = Some(Duration::from_secs(seconds));
        let mut schedule = Schedule::new(part, Monotonic::default(), length, 42, place);
        std::iter::from_fn(|| schedule.next()).collect()
    }

    fn seconds(due: &DueRequest) -> f64 {
        due.at.as_nanos() as f64 / 1e9
    }

    #[test]
    fn constant_rate_has_equal_gaps_and_the_exact_number() {
        let all = schedule(250.0, 250.0, false, 4, (0, 1));
        assert_eq!(all.len(), 1_000);
        for (index, due) in all.iter().enumerate() {
            assert!((seconds(due) - index as f64 / 250.0).abs() < 1e-6, "{due:?}");
        }
    }

    #[test]
    fn ramp_follows_its_rates() {
        // 100 to 300 a second over ten seconds: 2,000 requests, 110 of them in the first second.
        let all = schedule(100.0, 300.0, false, 10, (0, 1));
        assert_eq!(all.len(), 2_000);
        let before = |limit: f64| all.iter().filter(|due| seconds(due) < limit).count();
        assert_eq!((before(1.0), before(5.0)), (110, 750));
        let down = schedule(300.0, 100.0, false, 10, (0, 1));
        let count = down.iter().filter(|due| seconds(due) < 5.0).count();
        assert_eq!((down.len(), count), (2_000, 1_250));
        assert_eq!(schedule(0.0, 100.0, false, 10, (0, 1)).len(), 500);
        assert_eq!(schedule(100.0, 0.0, false, 10, (0, 1)).len(), 500);
    }

    #[test]
    fn request_due_beyond_all_time_never_comes() {
        let part = OpenPart { from: 1e-20, to: 1e-20, is_poisson: false };
        let mut schedule = Schedule::new(part, Monotonic::default(), None, 42, (0, 1));
        assert_eq!(schedule.next(), Some(DueRequest { at: Monotonic::default(), number: 0 }));
        assert_eq!(schedule.next(), None);
    }

    #[test]
    fn poisson_arrivals_have_exponential_gaps() {
        let all = schedule(1_000.0, 1_000.0, true, 50, (0, 1));
        assert!((49_000..51_000).contains(&all.len()), "{}", all.len());
        let gaps: Vec<f64> = all.windows(2).map(|pair| seconds(&pair[1]) - seconds(&pair[0])).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        // The deviation of exponential gaps equals their mean; a share of e^-1 is longer than it.
        assert!((variance.sqrt() / mean - 1.0).abs() < 0.02, "{}", variance.sqrt() / mean);
        let longer = gaps.iter().filter(|&&gap| gap > mean).count() as f64 / gaps.len() as f64;
        assert!((longer - (-1.0_f64).exp()).abs() < 0.01, "{longer}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn threads_share_one_sequence(
            from in 1.0_f64..500.0, to in 1.0_f64..500.0, is_poisson: bool, threads in 1_usize..5,
        ) {
            let whole = schedule(from, to, is_poisson, 2, (0, 1));
            let mut parts: Vec<DueRequest> =
                (0..threads).flat_map(|thread| schedule(from, to, is_poisson, 2, (thread, threads))).collect();
            parts.sort_by_key(|due| due.number);
            prop_assert_eq!(&parts, &whole);
            prop_assert!(whole.is_sorted_by_key(|due| due.at));
            prop_assert!(whole.iter().zip(0..).all(|(due, number)| due.number == number));
        }
    }
}
