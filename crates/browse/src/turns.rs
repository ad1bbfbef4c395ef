//! When the visitors of one thread begin: evenly spread over the ramp-up, among those of all
//! threads.
//!
//! Invariant: a visitor's place stays in use to the end of the run. An open loop has no such
//! places, and its visitors are not counted here.

use clock::Monotonic;
use std::time::Duration;

/// The ramp-up of one thread's visitors.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turns {
    /// When the run began.
    pub(crate) began: Monotonic,
    /// The ramp-up time of the visitors of all threads.
    pub(crate) ramp: Duration,
    /// The visitors of all threads; 0 in an open loop.
    pub(crate) users: usize,
    /// The index of this thread, and the number of threads.
    pub(crate) place: (usize, usize),
}

impl Turns {
    /// When visitor `index` of this thread begins.
    pub(crate) fn begin(&self, index: usize) -> Monotonic {
        let (thread, threads) = self.place;
        self.begin_of(thread + index * threads)
    }

    /// How many of this thread's visitors have begun by `at`.
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
    use clock::Monotonic;
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
