//! The record of an origin's responses and health checks: whether it works, and since when.
//!
//! Invariant: the record uses no clock. It is one of several origins' or of one; only a choice
//! among several uses it.

use clock::Monotonic;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// This many server errors in a row take an origin out of the choice.
const ERRORS_MAX: u32 = 5;

/// The errors must be for this many different pages. Otherwise a client with one broken URL could
/// take out one origin after the other.
const ERROR_PAGES: usize = 3;

/// The time for which they do.
const OUT_FOR: Duration = Duration::from_secs(10);

/// This many health checks in a row with another result change the verdict.
const CHECKS: u32 = 2;

/// The time in which an origin that has come back gets its full share of requests again.
const WARM_UP: Duration = Duration::from_secs(10);

/// The parts of a full share. An origin that comes back begins with one tenth.
pub(crate) const FULL_SHARE: u64 = 10;

/// The record of an origin's service.
#[derive(Debug, Default)]
pub(crate) struct Service {
    record: Mutex<ServiceRecord>,
}

#[derive(Debug, Default)]
struct ServiceRecord {
    /// Server errors since the last other response.
    errors: u32,
    /// The first different pages of these errors.
    error_pages: [Option<u64>; ERROR_PAGES],
    /// Until when these errors keep the origin out of the choice.
    out_until: Option<Monotonic>,
    /// Whether the health checks fail.
    is_ill: bool,
    /// Health checks in a row whose result is not `is_ill`'s.
    other_results: u32,
    /// When the origin came back.
    back_at: Option<Monotonic>,
    /// When the last health check began, and whether it is still under way.
    checked_at: Option<Monotonic>,
    is_being_checked: bool,
}

impl Service {
    fn record(&self) -> MutexGuard<'_, ServiceRecord> {
        // Poison is ignored: the record is consistent after each assignment.
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes the status of a response for the page with this digest. Server errors are 500 to 504:
    /// others depend on the request (501, 505) or on its storage (507).
    pub(crate) fn responded(&self, status: u16, page: impl FnOnce() -> u64, now: Monotonic) {
        if matches!(status, 500 | 502..=504) {
            self.failed(page(), now);
        } else {
            self.record().forget_errors();
        }
    }

    /// Notes that a request for a page had no response because its connection could not be made or
    /// ended.
    pub(crate) fn failed(&self, page: u64, now: Monotonic) {
        let mut record = self.record();
        record.errors = record.errors.saturating_add(1);
        if !record.error_pages.contains(&Some(page))
            && let Some(slot) = record.error_pages.iter_mut().find(|slot| slot.is_none())
        {
            *slot = Some(page);
        }
        if record.errors >= ERRORS_MAX && record.error_pages.iter().all(Option::is_some) {
            record.forget_errors();
            record.out_until = Some(now.plus(OUT_FOR));
            record.back_at = Some(now.plus(OUT_FOR));
        }
    }

    /// Notes the result of a health check that ended `now`. Returns the new verdict if it changes.
    pub(crate) fn checked(&self, is_well: bool, now: Monotonic) -> Option<bool> {
        let mut record = self.record();
        record.is_being_checked = false;
        if is_well != record.is_ill {
            record.other_results = 0;
            return None;
        }
        record.other_results += 1;
        if record.other_results < CHECKS {
            return None;
        }
        record.other_results = 0;
        record.is_ill = !is_well;
        if is_well {
            record.out_until = None;
            record.back_at = Some(now);
        }
        Some(is_well)
    }

    /// Begins a health check unless one is under way, or the last one began less than `interval`
    /// ago.
    pub(crate) fn begin_check(&self, interval: Duration, now: Monotonic) -> bool {
        let mut record = self.record();
        let is_early = record.checked_at.is_some_and(|at| now.since(at) < interval);
        if record.is_being_checked || is_early {
            return false;
        }
        record.checked_at = Some(now);
        record.is_being_checked = true;
        true
    }

    /// Ends a health check without a result.
    pub(crate) fn give_up_check(&self) {
        self.record().is_being_checked = false;
    }

    /// Notes that the origin can be used again.
    pub(crate) fn is_back(&self, now: Monotonic) {
        self.record().back_at = Some(now);
    }

    /// Whether the origin answers with errors, or fails its health checks.
    pub(crate) fn is_failing(&self, now: Monotonic) -> bool {
        let record = self.record();
        record.is_ill || record.out_until.is_some_and(|until| now < until)
    }

    /// The part of its share that the origin gets, of [`FULL_SHARE`].
    pub(crate) fn share(&self, now: Monotonic) -> u64 {
        let Some(at) = self.record().back_at else { return FULL_SHARE };
        let parts = now.since(at).as_millis() * u128::from(FULL_SHARE) / WARM_UP.as_millis();
        u64::try_from(parts).unwrap_or(FULL_SHARE).clamp(1, FULL_SHARE)
    }
}

impl ServiceRecord {
    const fn forget_errors(&mut self) {
        self.errors = 0;
        self.error_pages = [None; ERROR_PAGES];
    }
}

#[cfg(test)]
mod tests {
    use super::{FULL_SHARE, Service};
    use clock::Monotonic;
    use std::time::Duration;

    fn at(seconds: u64) -> Monotonic {
        Monotonic::from_nanos(0).plus(Duration::from_secs(seconds))
    }

    #[test]
    fn five_errors_in_a_row_count_for_ten_seconds() {
        let service = Service::default();
        let statuses = [500, 502, 503, 504, 200, 500, 500, 500, 500, 404, 501, 507, 500];
        for (page, status) in (0..).zip(statuses) {
            service.responded(status, || page, at(1));
            assert!(!service.is_failing(at(1)));
        }
        (0..2).for_each(|page| service.responded(503, || page, at(2)));
        (0..2).for_each(|page| service.failed(page, at(2)));
        assert!(service.is_failing(at(2)) && service.is_failing(at(11)));
        assert!(!service.is_failing(at(12)));
    }

    #[test]
    fn errors_of_two_pages_prove_nothing() {
        let service = Service::default();
        for page in 0..100 {
            service.responded(500, || page % 2, at(1));
            service.failed(page % 2, at(1));
        }
        assert!(!service.is_failing(at(1)));
        service.responded(500, || 2, at(1));
        assert!(service.is_failing(at(1)), "a third page");
    }

    #[test]
    fn origin_that_comes_back_gets_its_share_step_by_step() {
        let service = Service::default();
        assert_eq!(service.share(at(0)), FULL_SHARE);
        service.is_back(at(100));
        let shares = [100, 101, 105, 109, 110, 1000].map(|seconds| service.share(at(seconds)));
        assert_eq!(shares, [1, 1, 5, 9, 10, 10]);
        (0..5).for_each(|page| service.responded(500, || page, at(1000)));
        assert_eq!((service.share(at(1010)), service.share(at(1015))), (1, 5));
    }

    #[test]
    fn two_checks_in_a_row_change_the_verdict() {
        let service = Service::default();
        let results = [(true, None), (false, None), (true, None), (false, None), (false, Some(false))];
        for (is_well, change) in results {
            assert_eq!(service.checked(is_well, at(1)), change);
        }
        assert!(service.is_failing(at(1)));
        assert_eq!(service.checked(true, at(2)), None);
        assert_eq!(service.checked(true, at(3)), Some(true));
        assert!(!service.is_failing(at(3)));
        assert_eq!(service.share(at(3)), 1);
    }

    #[test]
    fn one_check_is_under_way_at_a_time() {
        let service = Service::default();
        let interval = Duration::from_secs(5);
        assert!(service.begin_check(interval, at(10)));
        assert!(!service.begin_check(interval, at(20)));
        service.give_up_check();
        assert!(!service.begin_check(interval, at(14)));
        assert!(service.begin_check(interval, at(15)));
    }
}
