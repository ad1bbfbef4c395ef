//! Whether an origin is slow at present: its last responses came late.
//!
//! Invariant: one page proves nothing, however often it is late. A response in time clears all
//! evidence. The memory is constant.

use clock::Monotonic;
use std::time::Duration;

/// Late responses of this many different pages show that the origin is slow.
const LATE_PAGES: usize = 3;

/// A late response is evidence for this long. A slow origin renews it with each response, and any
/// response in time ends it sooner.
const EVIDENCE_LASTS: Duration = Duration::from_secs(60);

/// The last late responses.
#[derive(Clone, Debug)]
pub(crate) struct Slowness {
    /// A response is late after this wait.
    late: Duration,
    /// The pages of late responses since the last one in time, latest last, each once.
    pages: [Option<(u64, Monotonic)>; LATE_PAGES],
}

impl Slowness {
    pub(crate) const fn new(late: Duration) -> Self {
        Self { late, pages: [None; LATE_PAGES] }
    }

    /// Records the wait for the first byte of a response for a page.
    pub(crate) fn record(&mut self, page: u64, wait: Duration, now: Monotonic) {
        if wait < self.late {
            self.pages = [None; LATE_PAGES];
            return;
        }
        // The page itself, or else the oldest one, makes room.
        let position = self.pages.iter().position(|late| late.is_some_and(|(other, _)| other == page));
        if let Some(rest) = self.pages.get_mut(position.unwrap_or(0)..) {
            rest.rotate_left(1);
        }
        if let Some(last) = self.pages.last_mut() {
            *last = Some((page, now));
        }
    }

    /// Whether the last responses were late.
    pub(crate) fn is_slow(&self, now: Monotonic) -> bool {
        self.pages.iter().all(|late| late.is_some_and(|(_, at)| now.since(at) < EVIDENCE_LASTS))
    }
}

#[cfg(test)]
mod tests {
    use super::Slowness;
    use clock::Monotonic;
    use std::time::Duration;

    const LATE: Duration = Duration::from_secs(1);

    fn at(millis: u64) -> Monotonic {
        Monotonic::from_nanos(millis * 1_000_000)
    }

    fn after(responses: &[(u64, u64)]) -> Slowness {
        let mut slowness = Slowness::new(LATE);
        for (page, millis) in responses {
            slowness.record(*page, Duration::from_millis(*millis), at(0));
        }
        slowness
    }

    #[test]
    fn three_late_pages_in_a_row_show_a_slow_origin() {
        let late = after(&[(1, 1000), (2, 5000), (1, 1000), (3, 1001)]);
        assert!(late.is_slow(at(59_999)) && !late.is_slow(at(60_000)));
        assert!(!after(&[(1, 1000), (2, 1000), (1, 1000), (2, 1000)]).is_slow(at(0)), "two pages");
        assert!(!after(&[(1, 1000), (2, 1000), (4, 999), (3, 1000)]).is_slow(at(0)), "one came in time");
        assert!(!after(&[(1, 2000), (2, 2000), (3, 2000), (1, 10)]).is_slow(at(0)));
    }

    #[test]
    fn page_that_is_late_again_renews_its_evidence() {
        let mut slowness = after(&[(1, 1000), (2, 1000), (3, 1000)]);
        for page in [2, 1, 3] {
            slowness.record(page, LATE, at(50_000));
        }
        assert!(slowness.is_slow(at(100_000)));
    }
}
