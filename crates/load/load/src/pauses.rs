//! The pauses of users after failed connections.
//!
//! Invariant: a pause counts only until the run ends. If a number of requests or a stop from
//! outside ends the run, its end is known only afterwards.

use clock::Monotonic;
use std::collections::VecDeque;
use std::time::Duration;

/// Pauses after measured requests.
#[derive(Debug, Default)]
pub(crate) struct Pauses {
    /// The sum of the pauses that ended before a later failure, and so before the end of the run.
    over: Duration,
    /// Begin and end of the other pauses: at most one for each user.
    last: VecDeque<(Monotonic, Monotonic)>,
}

impl Pauses {
    /// Adds a pause from `now`, when a measured request has failed, until `until`. All pauses are
    /// equally long.
    pub(crate) fn add(&mut self, now: Monotonic, until: Monotonic) {
        while let Some((from, until)) = self.last.pop_front_if(|(_, until)| *until <= now) {
            self.over += until.since(from);
        }
        self.last.push_back((now, until));
    }

    /// Adds another thread's pauses.
    pub(crate) fn merge(&mut self, other: Self) {
        self.over += other.over;
        self.last.extend(other.last);
    }

    /// The sum of all pauses, in a run that ended at `end`.
    pub(crate) fn until(&self, end: Monotonic) -> Duration {
        let last = self.last.iter().map(|&(from, until)| until.min(end).since(from));
        self.over + last.sum::<Duration>()
    }
}

#[cfg(test)]
mod tests {
    use super::Pauses;
    use clock::Monotonic;
    use std::time::Duration;

    #[test]
    fn pauses_end_with_the_run() {
        let at = |millis: u64| Monotonic::from_nanos(millis * 1_000_000);
        let mut pauses = Pauses::default();
        [0, 10, 100, 980].into_iter().for_each(|now| pauses.add(at(now), at(now + 50)));
        assert_eq!(pauses.last.len(), 1, "only pauses that the end may cut are kept");
        let mut other = Pauses::default();
        [960, 1_000].into_iter().for_each(|now| other.add(at(now), at(now + 50)));
        pauses.merge(other);
        assert_eq!(pauses.until(at(2_000)), Duration::from_millis(6 * 50));
        assert_eq!(pauses.until(at(1_000)), Duration::from_millis(3 * 50 + 20 + 40));
    }
}
