//! The account of the users' time: how long users were in each state.
//!
//! At every moment a user of a closed loop is in exactly one state. So is a request of an open
//! loop, from the moment it falls due until its response is read. [`UserTimeLedger`] adds up the
//! time at each transition. [`Account::lost`] is the time that the generator took away from the
//! server.
//!
//! Invariant: each transition leaves one state and enters another, so the terms always add up to
//! the users' total time. Time outside the measured part is in no term.

use clock::Monotonic;
use record::Account;
use std::time::Duration;

/// The activity of a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(usize)]
pub(crate) enum UserState {
    /// The request waits for a connection or establishes one, or the user pauses after a failed
    /// connection.
    Connecting,
    /// The user thinks.
    Thinking,
    /// The request is due but not yet sent.
    Late,
    /// The server has a request whose response turns out to be good.
    Server,
    /// The server has a request that fails or gets a wrong response.
    Failed,
    /// The response has arrived but was not read yet.
    Unread,
    /// The response was read, but the user has not continued yet.
    Processing,
    /// The request was in flight when the measured part began or ended.
    Unfinished,
}

const STATES: usize = 8;

/// The account of one thread while the run goes on.
///
/// Entering a state subtracts the current time from its term, and leaving adds it. The sums may
/// wrap, but the final value is right because each term is far below 2^64 ns.
#[derive(Debug, Default)]
pub(crate) struct UserTimeLedger {
    since: Monotonic,
    until: Option<Monotonic>,
    nanos: [u64; STATES],
    users: [u64; STATES],
}

impl UserTimeLedger {
    /// The ledger of a measured part that begins at `since` and ends at `until`, if the end is
    /// known.
    pub(crate) fn new(since: Monotonic, until: Option<Monotonic>) -> Self {
        Self { since, until, ..Self::default() }
    }

    /// Adds a user in `state`.
    pub(crate) fn enter(&mut self, state: UserState, at: Monotonic) {
        let nanos = self.within(at);
        self.enter_nanos(state, nanos);
    }

    /// Removes a user from `state`.
    pub(crate) fn leave(&mut self, state: UserState, at: Monotonic) {
        let nanos = self.within(at);
        self.leave_nanos(state, nanos);
    }

    /// Moves a user from one state to another.
    #[inline]
    pub(crate) fn pass(&mut self, from: UserState, to: UserState, at: Monotonic) {
        let nanos = self.within(at);
        self.leave_nanos(from, nanos);
        self.enter_nanos(to, nanos);
    }

    /// Adds another thread's ledger.
    pub(crate) fn merge(&mut self, other: &Self) {
        for (ours, theirs) in self.nanos.iter_mut().zip(other.nanos) {
            *ours = ours.wrapping_add(theirs);
        }
        self.users.iter_mut().zip(other.users).for_each(|(ours, theirs)| *ours += theirs);
    }

    /// Removes all users, at the end of the run.
    pub(crate) fn close(&mut self, at: Monotonic) {
        let nanos = self.within(at);
        for (term, users) in self.nanos.iter_mut().zip(&mut self.users) {
            *term = term.wrapping_add(nanos.wrapping_mul(std::mem::take(users)));
        }
    }

    /// The account. The ledger must be closed.
    pub(crate) fn account(&self) -> Account {
        let [connecting, thinking, late, server, failed, unread, processing, unfinished] =
            self.nanos.map(Duration::from_nanos);
        Account { connecting, thinking, late, server, failed, unread, processing, unfinished }
    }

    /// `at` in nanoseconds, limited to the measured part.
    #[inline]
    fn within(&self, at: Monotonic) -> u64 {
        let at = at.max(self.since);
        self.until.map_or(at, |until| at.min(until.max(self.since))).as_nanos()
    }

    #[inline]
    fn enter_nanos(&mut self, state: UserState, nanos: u64) {
        if let Some((term, users)) = self.place(state) {
            *term = term.wrapping_sub(nanos);
            *users += 1;
        }
    }

    #[inline]
    fn leave_nanos(&mut self, state: UserState, nanos: u64) {
        if let Some((term, users)) = self.place(state) {
            *term = term.wrapping_add(nanos);
            *users = users.saturating_sub(1);
        }
    }

    #[inline]
    fn place(&mut self, state: UserState) -> Option<(&mut u64, &mut u64)> {
        self.nanos.get_mut(state as usize).zip(self.users.get_mut(state as usize))
    }
}

#[cfg(test)]
mod tests {
    use super::{UserState, UserTimeLedger};
    use clock::Monotonic;
    use record::Account;
    use std::time::Duration;

    fn at(micros: u64) -> Monotonic {
        Monotonic::from_nanos(micros * 1_000)
    }

    const fn us(micros: u64) -> Duration {
        Duration::from_micros(micros)
    }

    #[test]
    fn terms_are_the_times_between_transitions() {
        let mut ledger = UserTimeLedger::new(at(100), Some(at(1_000)));
        ledger.enter(UserState::Late, at(100));
        ledger.pass(UserState::Late, UserState::Connecting, at(110));
        ledger.pass(UserState::Connecting, UserState::Server, at(130));
        // The kernel's timestamp is known only when the response is read.
        ledger.pass(UserState::Server, UserState::Unread, at(530));
        ledger.pass(UserState::Unread, UserState::Processing, at(600));
        ledger.pass(UserState::Processing, UserState::Thinking, at(605));
        ledger.close(at(1_000));
        let expected = Account {
            connecting: us(20),
            thinking: us(395),
            late: us(10),
            server: us(400),
            unread: us(70),
            processing: us(5),
            ..Account::default()
        };
        assert_eq!(ledger.account(), expected);
        assert_eq!((expected.total(), expected.lost()), (us(900), us(85)));
        assert_eq!(
            expected.lost_terms().map(|(name, _)| name),
            ["unread", "late to send", "being processed"]
        );
    }

    #[test]
    fn time_outside_the_measured_part_is_in_no_term() {
        let mut ledger = UserTimeLedger::new(at(100), Some(at(200)));
        ledger.enter(UserState::Server, at(20));
        ledger.pass(UserState::Server, UserState::Unread, at(90));
        ledger.pass(UserState::Unread, UserState::Server, at(150));
        // A user whose turn comes after the end.
        ledger.enter(UserState::Thinking, at(500));
        ledger.close(at(700));
        let account = ledger.account();
        assert_eq!((account.unread, account.server, account.total()), (us(50), us(50), us(100)));
    }

    #[test]
    fn merged_ledgers_add_up_and_give_shares_of_all_users() {
        let mut one = UserTimeLedger::new(at(0), None);
        one.enter(UserState::Server, at(0));
        one.close(at(90));
        let mut other = UserTimeLedger::new(at(0), None);
        other.enter(UserState::Late, at(0));
        other.leave(UserState::Late, at(10));
        one.merge(&other);
        let account = one.account();
        assert_eq!((account.total(), account.lost_share()), (us(100), Some(0.1)));
        assert_eq!(Account::default().lost_share(), None);
    }
}
