//! JSON form of the account of the users' time, for runs and for the cells of a ladder.

use record::RunOutcome;
use serde::{Deserialize, Serialize};

/// The users' time by state, in seconds. In an open loop it is the time of the requests since they
/// were due.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct UserTime {
    /// Time spent on waiting for a connection or opening it.
    pub connecting_s: f64,
    /// Think time between requests.
    pub thinking_s: f64,
    /// Delay of requests behind their due time.
    pub late_s: f64,
    /// Time at the server, until the kernel's timestamp of the last byte of a good response.
    pub server_s: f64,
    /// Time at the server for requests that failed or received a wrong response.
    pub failed_s: f64,
    /// Time for which complete responses had arrived but were not read.
    pub unread_s: f64,
    /// Time from reading a response until its user went on.
    pub processing_s: f64,
    /// Time of requests that were in flight at the begin or end of the measured part.
    pub unfinished_s: f64,
    /// Sum of all states.
    pub total_s: f64,
    /// Share of the total that the generator took: late, unread and processing; null without users.
    pub lost_share: Option<f64>,
    /// Difference between `server_s` and the published times of good responses without connecting,
    /// as a share of `server_s`. Null without good responses.
    pub gap: Option<f64>,
    /// Time that generator threads waited for a core; null if the system does not report it. It
    /// explains `late_s` and `unread_s` and is in no sum.
    pub core_wait_s: Option<f64>,
    /// Time for which earlier bytes of a response, or bytes of a handshake, had arrived but were
    /// not read. The server may have waited meanwhile. It is in no sum.
    pub held_back_s: f64,
    /// Part of `held_back_s` that waking up does not explain: of each piece, the time above 100
    /// microseconds.
    pub held_back_excess_s: f64,
    /// Mean number of users at the server: `server_s`, `failed_s` and `unfinished_s` divided by the
    /// measured time. Null if that time is zero. A request in flight at the end counts as at the
    /// server; the wait of a response that had already arrived is in `unread_s`.
    pub effective_users: Option<f64>,
    /// Mean time from the start of a request until its good response had arrived; null without good
    /// responses.
    pub mean_until_received_us: Option<f64>,
    /// Mean time until the user went on: the same with the unread and processing times. Null
    /// without good responses.
    pub mean_until_processed_us: Option<f64>,
}

impl From<&RunOutcome> for UserTime {
    fn from(outcome: &RunOutcome) -> Self {
        let check = &outcome.check;
        let account = &outcome.check.account;
        let elapsed_s = outcome.elapsed.as_secs_f64();
        let at_server = (account.server + account.failed + account.unfinished).as_secs_f64();
        let of_generator_us = (account.unread + account.processing).as_secs_f64() * 1e6;
        let total = &outcome.good_times.total;
        let mean_us = (!total.is_empty()).then(|| total.mean_us());
        Self {
            connecting_s: account.connecting.as_secs_f64(),
            thinking_s: account.thinking.as_secs_f64(),
            late_s: account.late.as_secs_f64(),
            server_s: account.server.as_secs_f64(),
            failed_s: account.failed.as_secs_f64(),
            unread_s: account.unread.as_secs_f64(),
            processing_s: account.processing.as_secs_f64(),
            unfinished_s: account.unfinished.as_secs_f64(),
            total_s: account.total().as_secs_f64(),
            lost_share: account.lost_share(),
            gap: check.account_gap,
            core_wait_s: check.core_wait.map(|wait| wait.as_secs_f64()),
            held_back_s: check.held_back.as_secs_f64(),
            held_back_excess_s: check.held_back_excess.as_secs_f64(),
            effective_users: (elapsed_s > 0.0).then(|| at_server / elapsed_s),
            mean_until_received_us: mean_us,
            mean_until_processed_us: mean_us
                .map(|mean_us| mean_us + of_generator_us / outcome.complete.max(1) as f64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::UserTime;
    use address::HttpUrl;
    use record::{Plan, RunOutcome, SelfCheck};
    use std::time::Duration;

    #[test]
    fn users_of_failed_and_unfinished_requests_are_at_the_server() {
        let [server, failed, unfinished, unread] = [10, 2, 3, 5].map(Duration::from_secs);
        let account = record::Account { server, failed, unfinished, unread, ..record::Account::default() };
        let check = SelfCheck { account, ..SelfCheck::default() };
        let plan = Plan::new(HttpUrl::parse("http://127.0.0.1:1/").unwrap());
        let outcome = RunOutcome::of(plan, "127.0.0.1:1".parse().unwrap());
        let outcome = RunOutcome { check, elapsed: Duration::from_secs(10), ..outcome };
        assert_eq!(UserTime::from(&outcome).effective_users, Some(1.5));
    }
}
