//! Sends writes, such as comments or edits, at a constant rate while a load is measured.
//!
//! Invariants:
//!
//! * There is one write at a time. Each is due a fixed time after the preceding one was due.
//! * After a late write, the overdue ones follow immediately. A slow site thus receives as many
//!   writes as a fast one, unless the load ends first.
//! * A write that has begun is waited for, because its change must be complete before pages are
//!   compared.

use crate::client::Client;
use crate::interrupt::Stop;
use crate::traffic::Write;
use crate::visitor::{Place, Visitor};
use clock::Clock;
use report::results::WriteRecord;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Sends the writes of one kind.
pub(crate) struct Writer<'a> {
    pub(crate) write: &'a Write,
    pub(crate) visitor: Visitor,
    pub(crate) place: Place,
    /// Counter for unique values, shared by all requests of a ladder.
    pub(crate) unique: &'a AtomicU64,
}

impl Writer<'_> {
    /// Sends writes until `over` is set. Returns their durations and failures.
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
            // Relaxed is enough: only the number has to be unique, and it orders nothing else.
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
