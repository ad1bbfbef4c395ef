//! The history of an origin since it was configured: its counts, its last health check, and how
//! long it was not well.
//!
//! Invariant: nothing here decides anything. The state changes with the breaker, and otherwise with
//! the first sweep after it changed, so it may be a second late.

use crate::balance::Standing;
use crate::error::FetchError;
use clock::Monotonic;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The history of an origin. Counts are since the start, or since the origin was configured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OriginRecord {
    /// Requests, health checks excluded.
    pub requests: u64,
    /// Requests that were sent again because an idle connection had ended.
    pub retries: u64,
    /// Requests without a connection.
    pub connect_errors: u64,
    /// Requests whose response did not arrive in time, was incomplete, or was not correct HTTP.
    pub response_errors: u64,
    /// Responses with a status from 500 on.
    pub server_errors: u64,
    /// Bytes of responses, those of health checks included.
    pub received_bytes: u64,
    /// Bytes of requests, those of health checks included.
    pub sent_bytes: u64,
    /// Health checks that failed.
    pub failed_checks: u64,
    /// The last health check that has ended.
    pub last_check: Option<LastCheck>,
    /// The present state, and since when.
    pub standing: Option<(Standing, Monotonic)>,
    /// How often the origin stopped being well.
    pub downs: u64,
    /// How long it was not well altogether.
    pub down: Duration,
}

/// A health check that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LastCheck {
    /// When it ended.
    pub at: Monotonic,
    /// How long it took.
    pub took: Duration,
    /// The result.
    pub result: CheckResult,
}

/// The result of a health check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckResult {
    /// A response with this status.
    Status(u16),
    /// No connection could be made.
    Unreachable,
    /// The connection ended without a response.
    NoResponse,
    /// It took too long.
    TimedOut,
}

/// The counts of an origin. Relaxed is enough for all of them: no other memory depends on a count.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    requests: AtomicU64,
    retries: AtomicU64,
    connect_errors: AtomicU64,
    response_errors: AtomicU64,
    server_errors: AtomicU64,
    received_bytes: AtomicU64,
    sent_bytes: AtomicU64,
    /// The other members; the counts in it are not used.
    rest: Mutex<OriginRecord>,
}

fn add(count: &AtomicU64, more: u64) {
    if more > 0 {
        count.fetch_add(more, Ordering::Relaxed);
    }
}

impl Tally {
    pub(crate) fn request(&self) {
        add(&self.requests, 1);
    }

    pub(crate) fn retry(&self) {
        add(&self.retries, 1);
    }

    pub(crate) fn response(&self, status: u16) {
        add(&self.server_errors, u64::from(status >= 500));
    }

    pub(crate) fn received(&self, bytes: usize) {
        add(&self.received_bytes, bytes as u64);
    }

    pub(crate) fn sent(&self, bytes: usize) {
        add(&self.sent_bytes, bytes as u64);
    }

    /// Counts a request that failed, unless the origin has seen nothing of it because Petasos sent
    /// none, or the client is at fault.
    pub(crate) fn failed(&self, error: &FetchError) {
        match error {
            FetchError::Busy(_) | FetchError::BreakerOpen | FetchError::Upload(_) => {}
            FetchError::Refused
            | FetchError::Unreachable(_)
            | FetchError::ConnectTimeout
            | FetchError::Tls(_) => add(&self.connect_errors, 1),
            FetchError::FirstByteTimeout
            | FetchError::BetweenBytesTimeout
            | FetchError::Closed
            | FetchError::BadHead(_)
            | FetchError::TooManyInformational
            | FetchError::UnaskedSwitch
            | FetchError::UnaskedNotModified
            | FetchError::BadBody(_) => add(&self.response_errors, 1),
        }
    }

    pub(crate) fn checked(&self, check: LastCheck, is_failure: bool) {
        let mut rest = self.rest();
        rest.last_check = Some(check);
        rest.failed_checks += u64::from(is_failure);
    }

    /// Notes the state that the origin has `now`.
    pub(crate) fn stands(&self, standing: Standing, now: Monotonic) {
        let mut rest = self.rest();
        let (before, since) = *rest.standing.get_or_insert((Standing::Well, now));
        if before == standing {
            return;
        }
        if before == Standing::Well {
            rest.downs += 1;
        } else {
            rest.down += now.since(since);
        }
        rest.standing = Some((standing, now));
    }

    /// The history of the origin up to `now`.
    pub(crate) fn record(&self, now: Monotonic) -> OriginRecord {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let mut record = OriginRecord {
            requests: read(&self.requests),
            retries: read(&self.retries),
            connect_errors: read(&self.connect_errors),
            response_errors: read(&self.response_errors),
            server_errors: read(&self.server_errors),
            received_bytes: read(&self.received_bytes),
            sent_bytes: read(&self.sent_bytes),
            ..self.rest().clone()
        };
        if let Some((standing, since)) = record.standing
            && standing != Standing::Well
        {
            record.down += now.since(since);
        }
        record
    }

    fn rest(&self) -> MutexGuard<'_, OriginRecord> {
        // Poison is ignored: the record is consistent after each assignment.
        self.rest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::{CheckResult, LastCheck, OriginRecord, Tally};
    use crate::balance::Standing;
    use crate::error::FetchError;
    use clock::Monotonic;
    use std::time::Duration;

    fn at(seconds: u64) -> Monotonic {
        Monotonic::default().plus(Duration::from_secs(seconds))
    }

    #[test]
    fn time_that_an_origin_was_not_well_is_summed() {
        let tally = Tally::default();
        for (standing, seconds) in [
            (Standing::Well, 1),
            (Standing::Unreachable, 10),
            (Standing::Unreachable, 11),
            (Standing::Failing, 14),
            (Standing::Well, 20),
            (Standing::Silent, 30),
        ] {
            tally.stands(standing, at(seconds));
        }
        let record = tally.record(at(35));
        assert_eq!((record.downs, record.down), (2, Duration::from_secs(15)));
        assert_eq!(record.standing, Some((Standing::Silent, at(30))));
    }

    #[test]
    fn errors_are_counted_by_their_kind() {
        let tally = Tally::default();
        for error in
            [FetchError::BreakerOpen, FetchError::Refused, FetchError::Closed, FetchError::ConnectTimeout]
        {
            tally.failed(&error);
        }
        [200, 500, 503, 404].into_iter().for_each(|status| tally.response(status));
        let check = LastCheck { at: at(5), took: Duration::from_millis(3), result: CheckResult::Status(503) };
        tally.checked(check, true);
        let expected = OriginRecord {
            connect_errors: 2,
            response_errors: 1,
            server_errors: 2,
            failed_checks: 1,
            last_check: Some(check),
            ..OriginRecord::default()
        };
        assert_eq!(tally.record(at(9)), expected);
    }
}
