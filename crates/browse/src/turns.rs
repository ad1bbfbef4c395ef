//! When the visitors of one thread begin: evenly spread over the ramp, among those of all threads.
//!
//! Invariant: a visitor who has begun stays to the end of the run. With a rate no place is a visitor's own, and none
//! is counted here.

use platform::Monotonic;
use std::time::Duration;

/// The turns of one thread's visitors.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turns {
    /// When the run began.
    pub(crate) began: Monotonic,
    /// Over which time the visitors of all threads begin.
    pub(crate) ramp: Duration,
    /// The visitors of all threads; 0 with a rate.
    pub(crate) users: usize,
    /// Which thread this is, and how many there are.
    pub(crate) place: (usize, usize),
}

impl Turns {
    /// When visitor `index` of this thread begins.
    pub(crate) fn begin(&self, index: usize) -> Monotonic {
        let (thread, threads) = self.place;
        self.begin_of(thread + index * threads)
    }

    /// How many of this thread's visitors have begun at a moment.
    pub(crate) fn begun(&self, at: Monotonic) -> u64 {
        let (thread, threads) = self.place;
        let places = (thread..self.users).step_by(threads.max(1));
        if at >= self.began.plus(self.ramp) {
            return places.len() as u64;
        }
        places.filter(|&place| self.begin_of(place) <= at).count() as u64
    }

    fn begin_of(&self, place: usize) -> Monotonic {
        self.began.plus(self.ramp.mul_f64(place as f64 / self.users.max(1) as f64))
    }
}

#[cfg(test)]
mod tests {
    use super::Turns;
    use platform::Monotonic;
    use std::time::Duration;

    fn turns(users: usize, place: (usize, usize)) -> Turns {
        Turns { began: Monotonic::from_nanos(0), ramp: Duration::from_secs(2), users, place }
    }

    #[test]
    fn visitors_of_all_threads_begin_evenly_over_the_ramp() {
        let begun = |millis: u64| {
            let at = Monotonic::from_nanos(millis * 1_000_000);
            [0, 1].map(|thread| turns(4, (thread, 2)).begun(at))
        };
        assert_eq!([begun(0), begun(500), begun(1_000)], [[1, 0], [1, 1], [2, 1]]);
        assert_eq!([begun(1_500), begun(9_000)], [[2, 2], [2, 2]]);
        assert_eq!(turns(4, (1, 2)).begin(1), Monotonic::from_nanos(1_500_000_000));
    }

    #[test]
    fn open_loop_has_no_visitors_of_its_own() {
        assert_eq!(turns(0, (0, 2)).begun(Monotonic::from_nanos(9_000_000_000)), 0);
    }
}
