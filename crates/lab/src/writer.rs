//! Something written at a constant rate while a load is measured: comments, edits.
//!
//! Invariant: one write at a time, each due a fixed time after the one before was due; one that is late makes the next
//! ones begin at once, so that a slow site gets as many as a fast one until the load ends. A write that has begun is
//! waited for, since what it changes must be over before anything is compared.

use crate::client::Client;
use crate::interrupt::Stop;
use crate::traffic::Write;
use crate::visitor::{Place, Visitor};
use platform::Clock;
use report::results::WriteRecord;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Writes.
pub(crate) struct Writer<'a> {
    pub(crate) write: &'a Write,
    pub(crate) visitor: Visitor,
    pub(crate) place: Place,
    /// A number never used before; shared by all of a ladder.
    pub(crate) unique: &'a AtomicU64,
}

impl Writer<'_> {
    /// Writes until `over` is set.
    pub(crate) fn write_until(mut self, over: &Stop, clock: &dyn Clock, client: Client<'_>) -> WriteRecord {
        let mut record = WriteRecord { name: self.write.name.clone(), ..WriteRecord::default() };
        let every = Duration::from_secs_f64(1.0 / self.write.per_s);
        let begun = clock.monotonic();
        for number in 1_u32.. {
            let due = every.saturating_mul(number);
            over.wait(due.saturating_sub(clock.monotonic().since(begun)));
            if over.is_requested() {
                break;
            }
            let unique = self.unique.fetch_add(1, Ordering::Relaxed);
            match self.visitor.exchange(&self.write.exchange, &self.place, unique, client) {
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
