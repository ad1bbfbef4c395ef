//! The account of the users' time: how long users were in each state, and which part of it the
//! generator took away from the server.
//!
//! Invariant: every moment of a user is in exactly one term, so the terms add up to the users'
//! total time.

use std::time::Duration;

/// The users' time by state. The terms add up to the users' total time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// Waiting for a connection, or establishing it.
    pub connecting: Duration,
    /// Thinking.
    pub thinking: Duration,
    /// Late to send: a request was due and not started.
    pub late: Duration,
    /// At the server, until the kernel's timestamp of the last byte of a good response.
    pub server: Duration,
    /// At the server, for requests that failed or got a wrong response.
    pub failed: Duration,
    /// Responses that had arrived but were not read.
    pub unread: Duration,
    /// Responses that were read but whose users had not continued.
    pub processing: Duration,
    /// Requests in flight when the measured part began or ended.
    pub unfinished: Duration,
}

impl Account {
    /// The sum of all terms.
    pub fn total(&self) -> Duration {
        self.connecting
            + self.thinking
            + self.late
            + self.server
            + self.failed
            + self.unread
            + self.processing
            + self.unfinished
    }

    /// The time that the generator took: late, unread and being processed.
    pub fn lost(&self) -> Duration {
        self.late + self.unread + self.processing
    }

    /// The generator's share of the users' time; `None` if there were no users.
    pub fn lost_share(&self) -> Option<f64> {
        let total = self.total().as_secs_f64();
        (total > 0.0).then(|| self.lost().as_secs_f64() / total)
    }

    /// The generator's terms with their names, largest first.
    pub fn lost_terms(&self) -> [(&'static str, Duration); 3] {
        let mut terms =
            [("late to send", self.late), ("unread", self.unread), ("being processed", self.processing)];
        terms.sort_by(|(_, a), (_, b)| b.cmp(a));
        terms
    }
}
