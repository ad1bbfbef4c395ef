//! Sends writes, such as comments or edits, at a constant rate while a load is measured.
//!
//! Invariants:
//!
//! * There is one write at a time. Each is due a fixed time after the preceding one was due.
//! * After a late write, the overdue ones follow immediately. A slow site thus receives as many
//!   writes as a fast one, unless the load ends first.
//! * A write that has begun is waited for, because its change must be complete before pages are
//!   compared.

use crate::client::HttpClient;
use crate::interrupt::StopFlag;
use crate::traffic::Write;
use crate::visitor::{LoggedInVisitor, SiteAddress};
use clock::Clock;
use report::results::WriteRecord;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Sends the writes of one kind.
pub(crate) struct WriteSender<'a> {
    pub(crate) write: &'a Write,
    pub(crate) visitor: LoggedInVisitor,
    pub(crate) site_address: SiteAddress,
    /// Counter for unique values, shared by all requests of a ladder.
    pub(crate) unique: &'a AtomicU64,
}

impl WriteSender<'_> {
    /// Sends writes until `over` is set. Returns their durations and failures.
    pub(crate) fn write_until(
        mut self,
        over: &StopFlag,
        clock: &dyn Clock,
        client: HttpClient<'_>,
    ) -> WriteRecord {
        let mut record = WriteRecord { name: self.write.name.clone(), ..WriteRecord::default() };
        let every = interval(self.write.per_s);
        let begun = clock.monotonic();
        for number in 1_u32.. {
            let due = every.saturating_mul(number);
            over.wait(due.saturating_sub(clock.monotonic().since(begun)));
            if over.is_requested() {
                break;
            }
            // Relaxed is enough: only the number has to be unique, and it orders nothing else.
            let unique = self.unique.fetch_add(1, Ordering::Relaxed);
            match self.visitor.exchange(&self.write.exchange, &self.site_address, unique, client) {
                Ok(answer) => record.took_ms.push(answer.elapsed.as_micros() as f64 / 1000.0),
                Err(reason) => {
                    record.failed += 1;
                    record.first_failure.get_or_insert(reason);
                }
            }
        }
        record
    }
}

/// Time between two writes. A rate too low for a [`Duration`] gives the longest one, so that no
/// write is made.
fn interval(per_s: f64) -> Duration {
    Duration::try_from_secs_f64(1.0 / per_s).unwrap_or(Duration::MAX)
}

#[cfg(test)]
mod tests {
    use super::interval;
    use std::time::Duration;

    #[test]
    fn very_low_rate_makes_no_write() {
        assert_eq!(interval(4.0), Duration::from_millis(250));
        assert_eq!([1e-20, f64::MIN_POSITIVE, 5e-324].map(interval), [Duration::MAX; 3]);
    }
}
