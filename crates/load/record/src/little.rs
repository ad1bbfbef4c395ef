//! Little's law: the average number of requests in flight is their rate times the time each takes.
//!
//! Invariant: the two sides come from independent sources, so that each can refute the other. The
//! times of requests come from the moments of each request. The account of the users' time
//! contributes only the two terms that belong to no request: thinking and processing.

use crate::account::Account;
use std::time::Duration;

/// Both sides of the law.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LittlesLaw {
    /// The sum of the times of single requests and, in a closed loop, of the users' states between
    /// them.
    accounted: Duration,
    /// The value that `accounted` should have.
    expected: Duration,
    /// How long users of a closed loop were late, according to the account.
    late: Duration,
}

impl LittlesLaw {
    /// For a closed loop. `requests` is the time of all requests that ended, from the moment their
    /// users wanted them. `paused` is the time of pauses after failed connections. `users` is the
    /// time for which the plan had users.
    ///
    /// The time of late users and of unfinished requests is left out, so it shows up as missing.
    /// See [`LittlesLaw::unexplained`].
    pub fn closed(requests: Duration, paused: Duration, account: &Account, users: Duration) -> Self {
        let accounted = requests + paused + account.thinking + account.processing;
        Self { accounted, expected: users, late: account.late }
    }

    /// For an open loop. `requests` is the time of all requests, from their start to their end or
    /// that of the run. `in_flight` is the number in flight, integrated over time.
    pub fn open(requests: Duration, in_flight: Duration) -> Self {
        Self { accounted: requests, expected: in_flight, late: Duration::ZERO }
    }

    /// The missing share of the expected time, negative if there is too much. `None` if none is
    /// expected.
    pub fn residual(self) -> Option<f64> {
        (!self.expected.is_zero()).then(|| 1.0 - self.accounted.as_secs_f64() / self.expected.as_secs_f64())
    }

    /// The residual without the time of late users. The account reports that time, and the
    /// self-check judges it separately.
    pub fn unexplained(self) -> Option<f64> {
        self.residual().map(|residual| residual - self.late.as_secs_f64() / self.expected.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::LittlesLaw;
    use crate::account::Account;
    use std::time::Duration;

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// Ten users over ten seconds: requests took `requests` seconds in total, and users thought for
    /// `thinking` seconds.
    fn residual(requests: u64, thinking: u64, users: u64) -> f64 {
        let account = Account {
            connecting: s(10),
            thinking: s(thinking),
            server: s(45),
            unread: s(5),
            processing: s(3),
            ..Account::default()
        };
        LittlesLaw::closed(s(requests), s(1), &account, s(users)).residual().unwrap()
    }

    #[test]
    fn wrong_figure_on_either_side_leaves_a_residual() {
        assert!(residual(60, 36, 100).abs() < 1e-9);
        assert!((residual(50, 36, 100) - 0.1).abs() < 1e-9, "requests lost time");
        assert!((residual(70, 36, 100) + 0.1).abs() < 1e-9, "requests gained time");
        assert!((residual(60, 26, 100) - 0.1).abs() < 1e-9, "the account lost thinking");
        assert!((residual(60, 36, 80) + 0.25).abs() < 1e-9, "there were fewer users");
    }

    #[test]
    fn lateness_is_subtracted_from_the_residual() {
        let unexplained = |requests, late| {
            let account = Account { late: s(late), ..Account::default() };
            let little = LittlesLaw::closed(s(requests), s(0), &account, s(100));
            [little.residual(), little.unexplained()].map(|share| (share.unwrap() * 100.0).round())
        };
        assert_eq!(unexplained(90, 10), [10.0, 0.0]);
        assert_eq!(unexplained(90, 0), [10.0, 10.0]);
        assert_eq!(unexplained(100, 10), [0.0, -10.0], "late users who are not missing make it negative");
    }

    #[test]
    fn server_terms_of_the_account_do_not_count() {
        let both = [s(1), s(9)].map(|server| {
            let account = Account { server, connecting: server, unread: server, ..Account::default() };
            LittlesLaw::closed(s(90), s(0), &account, s(100))
        });
        assert_eq!(both[0], both[1]);
    }

    #[test]
    fn open_loop_compares_request_times_with_requests_in_flight() {
        assert_eq!(LittlesLaw::open(s(9), s(10)).residual().map(|of| (of * 100.0).round()), Some(10.0));
        assert_eq!(LittlesLaw::open(s(9), s(0)).residual(), None);
    }
}
