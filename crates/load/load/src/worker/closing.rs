//! Closes the users' account at the end of a run.
//!
//! Invariant: a response that had arrived when the measured part ended counts as unread from its
//! arrival on, even if it was never read. Otherwise a generator without a core would make the
//! server look slow, more so the fewer responses it reads.

use super::LoadWorker;
use crate::account::UserState;
use crate::script::Script;
use crate::transport::Transport;
use clock::Monotonic;

impl<T: Transport, S: Script> LoadWorker<'_, T, S> {
    /// Closes the account of all users.
    pub(super) fn close_account(&mut self, now: Monotonic) {
        let ledger = &mut self.tools.recorder.ledger;
        while let Some((moment, paused, _)) = self.users.wake(now) {
            ledger.pass(paused, UserState::Late, moment);
        }
        for exchange in &self.meter.too_late {
            ledger.pass(UserState::Connecting, UserState::Unfinished, exchange.connected);
            ledger.pass(
                UserState::Unfinished,
                UserState::Unread,
                exchange.last_octet.max(exchange.connected),
            );
        }
        for slot in 0..self.pool.slots.len() {
            let Some(place) = self.pool.slots.get_mut(slot) else { continue };
            let mut unread = Vec::new();
            place.connection.last_look(now, &mut self.tools, |exchange, came| unread.push((*exchange, came)));
            let ledger = &mut self.tools.recorder.ledger;
            for (exchange, came) in unread {
                ledger.pass(UserState::Connecting, UserState::Unfinished, exchange.connected);
                if let Some(came) = came {
                    ledger.pass(UserState::Unfinished, UserState::Unread, came.max(exchange.connected));
                }
            }
        }
        self.tools.recorder.ledger.close(now);
    }
}
