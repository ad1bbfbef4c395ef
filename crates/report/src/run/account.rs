//! The account of the users' time in JSON, for runs and for the cells of a ladder.

use load::Outcome;
use serde::{Deserialize, Serialize};

/// The users' time by state, in seconds. Of an open loop, the time of its requests since they were due.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Account {
    /// Waiting for a connection, or making it.
    pub connecting_s: f64,
    /// Thinking.
    pub thinking_s: f64,
    /// Late to send: a request was due and not started.
    pub late_s: f64,
    /// At the server, until the kernel's stamp of the last byte of a good response.
    pub server_s: f64,
    /// The same for requests that failed or were answered wrongly.
    pub failed_s: f64,
    /// Responses that had come and were not read.
    pub unread_s: f64,
    /// Responses that were read and whose users had not gone on.
    pub processing_s: f64,
    /// Requests in flight when the measured part began or ended.
    pub unfinished_s: f64,
    /// All of these together.
    pub total_s: f64,
    /// The generator's share of it: late, unread and being processed; null without users.
    pub lost_share: Option<f64>,
    /// How far good responses times their published mean are from `server_s`, as a share of it; null without any.
    pub gap: Option<f64>,
    /// How long generator threads waited for a core; null where the system does not tell. It explains `late_s` and
    /// `unread_s` and is in no sum.
    pub core_wait_s: Option<f64>,
    /// For how long octets before the last ones of a response, or those of a handshake, had come and were not read. The
    /// server may have waited for that; it is in no sum.
    pub held_back_s: f64,
    /// The part of it that waking does not explain: of each piece, what is above 100 microseconds.
    pub held_back_excess_s: f64,
    /// Users at the server on average: `server_s`, `failed_s` and `unfinished_s` over the measured time; null without
    /// any time. A request that was in flight at the end was at the server, too: what had come of it is in `unread_s`.
    pub effective_users: Option<f64>,
    /// Mean time from the start of a request until its good response had come; null without good responses.
    pub mean_until_received_us: Option<f64>,
    /// The same until the user had gone on: with the times unread and being processed; null without good responses.
    pub mean_until_processed_us: Option<f64>,
}

impl From<&Outcome> for Account {
    fn from(outcome: &Outcome) -> Self {
        let (check, account) = (&outcome.check, &outcome.check.account);
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
    use super::Account;
    use load::{Outcome, Plan, SelfCheck, Target};
    use std::time::Duration;

    #[test]
    fn users_of_failed_and_unfinished_requests_are_at_the_server() {
        let [server, failed, unfinished, unread] = [10, 2, 3, 5].map(Duration::from_secs);
        let account = load::Account { server, failed, unfinished, unread, ..load::Account::default() };
        let check = SelfCheck { account, ..SelfCheck::default() };
        let plan = Plan::new(Target::parse("http://127.0.0.1:1/").unwrap());
        let outcome = Outcome::of(plan, "127.0.0.1:1".parse().unwrap());
        let outcome = Outcome { check, elapsed: Duration::from_secs(10), ..outcome };
        assert_eq!(Account::from(&outcome).effective_users, Some(1.5));
    }
}
