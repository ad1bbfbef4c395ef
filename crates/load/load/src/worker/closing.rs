//! Closes the users' account at the end of a run.
//!
//! Invariant: a response that had arrived when the measured part ended counts as unread from its
//! arrival on, even if it was never read. Otherwise a generator without a core would make the
//! server look slow, more so the fewer responses it reads.

use super::Worker;
use crate::account::State;
use crate::slots::Role;
use clock::Monotonic;
use std::cmp::Reverse;

impl Worker<'_> {
    /// Closes the account of all users.
    pub(super) fn close_account(&mut self, now: Monotonic) {
        while let Some(Reverse((moment, paused, _))) = self.wakes.pop().filter(|Reverse((at, ..))| *at <= now)
        {
            self.tools.recorder.ledger.pass(paused, State::Late, moment);
        }
        for exchange in &self.too_late {
            let ledger = &mut self.tools.recorder.ledger;
            ledger.pass(State::Connecting, State::Unfinished, exchange.connected);
            ledger.pass(State::Unfinished, State::Unread, exchange.last_octet.max(exchange.connected));
        }
        self.account_for_connections(now);
        self.account_for_carriers();
        self.tools.recorder.ledger.close(now);
    }

    fn account_for_connections(&mut self, now: Monotonic) {
        for slot in 0..self.slots.len() {
            let Some(place) = self.slots.get_mut(slot).filter(|place| place.role == Role::Busy) else {
                continue;
            };
            let exchange = *place.connection.exchange();
            let unread_since = place.connection.unread_since(now, &mut self.tools);
            let ledger = &mut self.tools.recorder.ledger;
            ledger.pass(State::Connecting, State::Unfinished, exchange.connected);
            if let Some(came) = unread_since {
                ledger.pass(State::Unfinished, State::Unread, came.max(exchange.connected));
            }
        }
    }

    fn account_for_carriers(&mut self) {
        for slot in 0..self.carriers.len() {
            let Some(place) = self.carriers.get_mut(slot) else { continue };
            // An error is ignored: requests that cannot be read any more stay unfinished.
            let _ = place.connection.turn(&mut self.tools);
            let ledger = &mut self.tools.recorder.ledger;
            for exchange in place.connection.under_way() {
                ledger.pass(State::Connecting, State::Unfinished, exchange.connected);
            }
            for exchange in place.connection.with_answers() {
                let came = exchange.last_octet.max(exchange.connected);
                ledger.pass(State::Unfinished, State::Unread, came);
            }
        }
    }
}
