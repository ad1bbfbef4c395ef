//! When the visitors of a closed loop begin: evenly spread over the ramp-up.
//!
//! Invariant: a visitor's place stays in use to the end of the run. An open loop has no such
//! places, and its visitors are not counted here.

use clock::Monotonic;
use std::time::Duration;

/// The ramp-up of a run's visitors.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RampUp {
    /// When the run began.
    pub(crate) began: Monotonic,
    /// The ramp-up time.
    pub(crate) ramp: Duration,
    /// The visitors of all threads; 0 in an open loop.
    pub(crate) users: usize,
}

impl RampUp {
    /// When the visitor at `place` begins.
    pub(crate) fn begin(&self, place: usize) -> Monotonic {
        self.began.plus(self.ramp.mul_f64(place as f64 / self.users.max(1) as f64))
    }

    /// How many visitors have begun by `at`.
    pub(crate) fn begun(&self, at: Monotonic) -> u64 {
        if at >= self.began.plus(self.ramp) {
            return self.users as u64;
        }
        (0..self.users).filter(|&place| self.begin(place) <= at).count() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::RampUp;
    use clock::Monotonic;
    use std::time::Duration;

    fn ramp_up(users: usize) -> RampUp {
        RampUp { began: Monotonic::from_nanos(0), ramp: Duration::from_secs(2), users }
    }

    #[test]
    fn visitors_begin_evenly_over_the_ramp() {
        let begun = |millis: u64| ramp_up(4).begun(Monotonic::from_nanos(millis * 1_000_000));
        assert_eq!([begun(0), begun(500), begun(1_000), begun(1_500), begun(9_000)], [1, 2, 3, 4, 4]);
        assert_eq!(ramp_up(4).begin(3), Monotonic::from_nanos(1_500_000_000));
    }

    #[test]
    fn open_loop_has_no_visitors_of_its_own() {
        assert_eq!(ramp_up(0).begun(Monotonic::from_nanos(9_000_000_000)), 0);
    }
}
