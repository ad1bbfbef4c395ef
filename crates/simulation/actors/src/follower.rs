//! A client that follows the log of requests at the admin address, and comes back when another
//! process takes over.
//!
//! Invariants: each line is whole JSON. Of the requests that end while a prompt client follows,
//! each has a line or is among the records that the stream calls skipped. Eight clients follow at
//! most, and a ninth is refused. A stream ends only with its client or its process.

use crate::exchange::{Ending, Reply};
use crate::ledger::{Ledger, SharedLedger};
use crate::moment::{Moment, Timeline};
use crate::read::{Reading, ask};
use crate::site::lock;
use crate::visit::Manner;
use message::Method;
use serde_json::Value;
use std::fmt;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};
use world::Random;

/// Number of clients that can follow (docs/observing.md).
const FOLLOWERS_MAX: u64 = 8;

/// How often a plan opens one stream more than that.
const CROWD_PERCENT: u64 = 10;

/// How often a client reads nothing, and how often it reads slowly.
const UNREAD_PERCENT: u64 = 20;
const SLOW_PERCENT: u64 = 20;

/// The longest pause before a slow read, and the longest stay, in milliseconds.
const PAUSE_MS_MAX: u64 = 4000;
const STAY_MS: (u64, u64) = (5000, 60_000);

/// Time that the records and the bytes of the stream take at most.
const DELIVERY_MAX: Duration = Duration::from_secs(2);

/// The pause before a client connects again.
const PAUSE: Duration = Duration::from_millis(100);

/// The records that a client follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Followed {
    /// All requests.
    All,
    /// The requests of a condition.
    Errors,
    /// A condition that cannot be read. It is refused.
    Unreadable,
    /// An unknown parameter. The edge refuses it.
    UnknownParameter,
}

/// The plan of a client that follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FollowerPlan {
    /// The number of the client.
    pub number: u64,
    /// Its streams at the same time.
    pub streams: u64,
    /// The records that it follows.
    pub followed: Followed,
    /// The pause before each read in milliseconds; 0 for none. `None`: it reads nothing.
    pub pause_ms: Option<u64>,
    /// How long it stays, in milliseconds.
    pub stays_ms: u64,
}

/// A client that carries out its plan.
#[derive(Clone)]
pub struct Follower<A> {
    /// The plan.
    pub plan: FollowerPlan,
    /// The secret of the admin address, if there is one.
    pub token: Option<String>,
    /// Whether no other process may take over.
    pub is_sole_process: bool,
    /// Where streams are judged.
    pub ledger: SharedLedger,
    /// The simulated time.
    pub timeline: Timeline,
    /// Connects to the admin address. `None` means that no connection can be made.
    pub connect: A,
}

/// The records and skipped numbers in the lines of a stream.
#[derive(Debug, Default, PartialEq, Eq)]
struct Lines {
    records: u64,
    skipped: u64,
}

impl Followed {
    const fn target(self) -> &'static str {
        match self {
            Self::All => "/log",
            Self::Errors => "/log?where=status%20%3E%3D%20500",
            Self::Unreadable => "/log?where=status%20%3E%3D",
            Self::UnknownParameter => "/log?when=now",
        }
    }

    const fn is_refused(self) -> bool {
        matches!(self, Self::Unreadable | Self::UnknownParameter)
    }

    /// Whether the stream may have this record.
    fn holds(self, record: &Value) -> bool {
        let status = record.get("status").and_then(Value::as_u64);
        status.is_some_and(|status| self != Self::Errors || status >= 500)
    }
}

impl FollowerPlan {
    /// A plan by chance.
    pub fn random(random: &mut Random, number: u64) -> Self {
        let is_crowd = random.percent(CROWD_PERCENT);
        let followed = match random.below(10) {
            0 => Followed::Unreadable,
            1 => Followed::UnknownParameter,
            2..4 => Followed::Errors,
            _ => Followed::All,
        };
        let is_unread = random.percent(UNREAD_PERCENT);
        let pause_ms = if random.percent(SLOW_PERCENT) { random.between(1, PAUSE_MS_MAX) } else { 0 };
        let stays_ms = random.between(STAY_MS.0, STAY_MS.1);
        if is_crowd {
            let (streams, followed) = (FOLLOWERS_MAX + 1, Followed::All);
            return Self { number, streams, followed, pause_ms: Some(0), stays_ms };
        }
        Self { number, streams: 1, followed, pause_ms: (!is_unread).then_some(pause_ms), stays_ms }
    }

    fn is_prompt(&self) -> bool {
        self.pause_ms == Some(0)
    }
}

/// Reads the lines of a stream. A stream that its client has left may end in the middle of one.
fn lines(body: &[u8], followed: Followed, is_ended: bool) -> Result<Lines, String> {
    let whole = body.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    if is_ended && whole < body.len() {
        return Err("it ends in the middle of a line".to_owned());
    }
    let mut read = Lines::default();
    let text = body.get(..whole).unwrap_or_default();
    for line in text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let told = || String::from_utf8_lossy(line).into_owned();
        let record: Value = serde_json::from_slice(line).map_err(|_| format!("no JSON: {}", told()))?;
        match record.get("skipped").map(Value::as_u64) {
            Some(Some(skipped @ 1..)) => read.skipped += skipped,
            Some(_) => return Err(format!("no number of skipped records: {}", told())),
            None if followed.holds(&record) => read.records += 1,
            None => return Err(format!("a record that nobody wants: {}", told())),
        }
    }
    Ok(read)
}

impl<S, A> Follower<A>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    A: Fn() -> Option<S> + Clone + Send + Sync + 'static,
{
    /// Carries out the plan.
    pub async fn run(self) {
        let deadline = Instant::now() + Duration::from_millis(self.plan.stays_ms);
        if self.plan.pause_ms.is_none() {
            return self.stay_unread(deadline).await;
        }
        let mut streams = JoinSet::new();
        for _ in 0..self.plan.streams {
            let follower = self.clone();
            streams.spawn(async move { follower.follow(deadline).await });
        }
        let mut refusals = 0;
        while let Some(joined) = streams.join_next().await {
            refusals += joined.unwrap_or_default();
        }
        let expected = self.plan.streams.saturating_sub(FOLLOWERS_MAX);
        if self.is_sole_process && !self.plan.followed.is_refused() && refusals != expected {
            self.judge(format!("{refusals} of {} streams are refused", self.plan.streams));
        }
    }

    fn judge(&self, fault: String) {
        let at = self.timeline.now();
        lock(&self.ledger).following_fails(at, self.plan.number, fault);
    }

    fn text(&self) -> String {
        let token = self.token.as_ref().map(|token| format!("Authorization: Bearer {token}\r\n"));
        let (target, token) = (self.plan.followed.target(), token.unwrap_or_default());
        format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n{token}\r\n")
    }

    /// Reads nothing until the deadline.
    async fn stay_unread(&self, deadline: Instant) {
        let Some(mut stream) = (self.connect)() else { return };
        // If the edge is gone, so is the stream.
        let _ = stream.write_all(self.text().as_bytes()).await;
        let _ = stream.flush().await;
        sleep_until(deadline).await;
    }

    /// Follows until the deadline, with a stream of each process. Returns whether the first one was
    /// refused because there are too many.
    async fn follow(&self, deadline: Instant) -> u64 {
        let mut is_first = true;
        while let Some(stream) = (self.connect)().filter(|_| Instant::now() < deadline) {
            let begun = self.timeline.now();
            let reply = self.exchange(stream, deadline).await;
            let at = self.timeline.now();
            if reply.status == Some(503) && reply.is_complete() {
                return u64::from(is_first);
            }
            let fault = self.fault(&reply, begun, at);
            lock(&self.ledger).followed(at, self.plan.number, self.plan.followed, fault);
            if !reply.is_complete() || self.plan.followed.is_refused() {
                return 0;
            }
            is_first = false;
            sleep(PAUSE).await;
        }
        0
    }

    async fn exchange(&self, stream: S, deadline: Instant) -> Reply {
        let manner = match self.plan.pause_ms {
            Some(pause_ms @ 1..) => Manner::SlowRead { pause_ms },
            _ => Manner::Plain,
        };
        let reading = Reading { timeline: self.timeline, manner, deadline };
        let memory = lock(&self.ledger).memory().clone();
        ask(stream, &Method::Get, &self.text(), reading, memory).await
    }

    /// The fault of a stream.
    fn fault(&self, reply: &Reply, begun: Moment, ended: Moment) -> Option<String> {
        if self.plan.followed.is_refused() {
            let is_right = reply.status == Some(400) && reply.is_complete();
            return (!is_right).then(|| format!("status {:?}, {}", reply.status, reply.ending));
        }
        let is_left = reply.ending == Ending::TimedOut;
        if reply.status != Some(200) {
            // The client may leave before it has read the head.
            let is_early = is_left && reply.status.is_none() && !self.plan.is_prompt();
            return (!is_early).then(|| format!("status {:?}, {}", reply.status, reply.ending));
        }
        if !is_left && self.is_sole_process {
            return Some(format!("the stream is {} although its process goes on", reply.ending));
        }
        let lines = match lines(&reply.body, self.plan.followed, reply.is_complete()) {
            Ok(lines) => lines,
            Err(fault) => return Some(fault),
        };
        let is_whole = self.plan.is_prompt() && self.plan.followed == Followed::All && self.is_sole_process;
        let from = reply.first_byte.filter(|_| is_whole).unwrap_or(ended);
        let answered = lock(&self.ledger).answered_between(from.max(begun), ended, DELIVERY_MAX);
        let told = lines.records + lines.skipped;
        (told < answered).then(|| format!("{told} records of {answered} requests"))
    }
}

impl Ledger {
    /// Records the result of a stream of the log.
    pub(crate) fn followed(&mut self, at: Moment, number: u64, followed: Followed, fault: Option<String>) {
        self.count_call(format!("follow {followed:?}"));
        self.note(at, || format!("follower {number} leaves a stream of {followed:?}"));
        fault.into_iter().for_each(|fault| self.following_fails(at, number, fault));
    }
}

impl fmt::Display for FollowerPlan {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { number, streams, followed, pause_ms, stays_ms } = self;
        writeln!(
            to,
            "follower {number}: {streams} streams of {followed:?} for {stays_ms} ms, pause {pause_ms:?} ms"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::{FOLLOWERS_MAX, Followed, FollowerPlan, Lines, lines};
    use std::collections::BTreeSet;
    use world::Random;

    #[test]
    fn lines_are_records_and_numbers_of_skipped_ones() {
        let body = b"{\"status\":200}\n\n{\"skipped\":7}\n{\"status\":502}\n{\"sta";
        let read = lines(body, Followed::All, false);
        assert_eq!(read, Ok(Lines { records: 2, skipped: 7 }));
        assert!(lines(body, Followed::All, true).is_err(), "a stream that has ended ends with a line");
        assert!(lines(body, Followed::Errors, false).is_err(), "200 is no error");
        for wrong in [&b"{\"status\":200\n"[..], b"{\"skipped\":0}\n", b"{\"skipped\":\"7\"}\n", b"{}\n"] {
            assert!(lines(wrong, Followed::All, false).is_err());
        }
    }

    #[test]
    fn plans_have_all_kinds() {
        let mut kinds = BTreeSet::new();
        for seed in 0..400 {
            let plan = FollowerPlan::random(&mut Random::new(seed), 1);
            kinds.insert((plan.followed, plan.streams > FOLLOWERS_MAX, plan.pause_ms.map(|ms| ms > 0)));
        }
        assert_eq!(kinds.len(), 4 * 3 + 1, "{kinds:?}");
    }
}
