//! Processes that want to take over from the edge while it runs, as `petasos serve --upgrade` does.
//!
//! Invariants: no request fails because of a hand-over. The process that takes over knows all
//! purges, and the old one answers nothing from its store from then on; the ledger judges the
//! responses of both. A process that fails on the way leaves the old one serving.

use crate::life::{ACTORS_MAX, Life, START_MAX};
use crate::reload::NextPlan;
use actors::{Moment, lock};
use edge::{EmbeddedEdge, Metric};
use net::MessageChannel;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use world::Random;

/// How often processes want to take over in a life, and their largest number.
const HANDOVERS_PERCENT: u64 = 35;
const HANDOVERS_MAX: u64 = 3;

/// How often such a process does everything as it should.
const TAKES_OVER_PERCENT: u64 = 60;

/// How often the edge is looked at until its last connection has ended.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The longest time for which a failing process keeps the directory, in milliseconds.
const KEEPS_MS_MAX: u64 = 5000;

/// The longest time until a reply. The edge may empty the queue of its disk first.
const REPLY_MAX: Duration = Duration::from_secs(60);

const HELLO: &str = r#"{"Hello":{"version":2}}"#;
const OTHER_HELLO: &str = r#"{"Hello":{"version":0}}"#;
const RELEASE: &str = r#""Release""#;
const TAKE_OVER: &str = r#""TakeOver""#;

/// The reply that another one follows.
const DURABILITY: &[u8] = br#""Durability""#;

/// A process that wants to take over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlannedHandover {
    /// Its number in the life.
    pub number: u64,
    /// When it starts, in simulated milliseconds after the start of the edge.
    pub at_ms: u64,
    /// What it does.
    pub conduct: Conduct,
}

/// What such a process does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conduct {
    /// It takes over.
    TakesOver,
    /// It ends without a word.
    SaysNothing,
    /// It sends what no process sends.
    Babbles,
    /// It speaks another version.
    OtherVersion,
    /// It ends after it has received the sockets.
    LeavesEarly,
    /// It sends its first message twice.
    GreetsTwice,
    /// It wants to take over before it has the directory.
    IsRash,
    /// It asks for the directory twice.
    AsksTwice,
    /// It receives the directory, and ends after this time in milliseconds.
    LeavesWithDirectory(u64),
    /// It receives the directory and no purges, and wants to take over.
    IsDeaf,
}

impl Conduct {
    fn random(random: &mut Random) -> Self {
        if random.percent(TAKES_OVER_PERCENT) {
            return Self::TakesOver;
        }
        match random.below(12) {
            0 => Self::SaysNothing,
            1 => Self::Babbles,
            2 => Self::OtherVersion,
            3 => Self::LeavesEarly,
            4 => Self::GreetsTwice,
            5 => Self::IsRash,
            6 => Self::AsksTwice,
            7 => Self::IsDeaf,
            _ => Self::LeavesWithDirectory(random.below(KEEPS_MS_MAX)),
        }
    }

    /// The messages of a process that does not take over.
    const fn messages(self) -> &'static [&'static str] {
        match self {
            Self::TakesOver | Self::SaysNothing => &[],
            Self::Babbles => &["?"],
            Self::OtherVersion => &[OTHER_HELLO],
            Self::LeavesEarly => &[HELLO],
            Self::GreetsTwice => &[HELLO, HELLO],
            Self::IsRash => &[HELLO, TAKE_OVER],
            Self::AsksTwice => &[HELLO, RELEASE, RELEASE],
            Self::LeavesWithDirectory(_) => &[HELLO, RELEASE],
            Self::IsDeaf => &[HELLO, RELEASE, TAKE_OVER],
        }
    }

    /// How the reply to its last message begins. `None`: the edge closes the channel, or there is
    /// no message.
    const fn last_reply(self) -> Option<&'static str> {
        match self {
            Self::TakesOver | Self::SaysNothing | Self::Babbles => None,
            Self::GreetsTwice | Self::AsksTwice => None,
            Self::OtherVersion | Self::IsRash | Self::IsDeaf => Some("{\"Refused\""),
            Self::LeavesEarly => Some("\"Link\""),
            Self::LeavesWithDirectory(_) => Some("\"Released\""),
        }
    }

    /// Whether the process may receive the directory.
    const fn has_directory(self) -> bool {
        matches!(self, Self::TakesOver | Self::AsksTwice | Self::LeavesWithDirectory(_) | Self::IsDeaf)
    }

    /// The kind of this conduct.
    pub const fn name(self) -> &'static str {
        match self {
            Self::TakesOver => "takes over",
            Self::SaysNothing => "says nothing",
            Self::Babbles => "babbles",
            Self::OtherVersion => "other version",
            Self::LeavesEarly => "leaves early",
            Self::GreetsTwice => "greets twice",
            Self::IsRash => "is rash",
            Self::AsksTwice => "asks twice",
            Self::LeavesWithDirectory(_) => "leaves with the directory",
            Self::IsDeaf => "is deaf",
        }
    }

    /// Carries out what a process does that does not take over. Blocks. Returns the last reply.
    fn fail(self, channel: &MessageChannel) -> Option<String> {
        let mut last = None;
        let mut links = Vec::new();
        // What the system reports shows in the missing reply.
        let _ = channel.limit_time(REPLY_MAX);
        for message in self.messages() {
            // The edge may have closed the channel after the message before.
            let _ = channel.send(message.as_bytes(), None);
            let reply = loop {
                let (reply, passed) = channel.receive().ok().flatten().unzip();
                links.extend(passed.flatten());
                if reply.as_deref() != Some(DURABILITY) {
                    break reply;
                }
            };
            if self == Self::IsDeaf {
                links.clear();
            }
            last = reply.map(|reply| String::from_utf8_lossy(&reply).into_owned());
        }
        if let Self::LeavesWithDirectory(keeps_ms) = self {
            threads::sleep(Duration::from_millis(keeps_ms));
        }
        drop(links);
        last
    }
}

impl PlannedHandover {
    /// The processes of a life, in the order of their times.
    pub fn random_list(random: &mut Random, at_ms_max: u64) -> Vec<Self> {
        let is_wanted = random.percent(HANDOVERS_PERCENT);
        let count = random.between(1, HANDOVERS_MAX);
        let seed = random.number();
        let handover = |number| {
            let mut own = Random::fork(seed, "hand-over", number);
            Self { number, at_ms: own.below(at_ms_max), conduct: Conduct::random(&mut own) }
        };
        let mut all: Vec<_> = (0..if is_wanted { count } else { 0 }).map(handover).collect();
        all.sort_by_key(|handover| (handover.at_ms, handover.number));
        all
    }
}

impl Life {
    /// Starts the processes one after the other. Returns when those that handed over have ended.
    pub(crate) async fn hand_over(&self, plans: &[PlannedHandover]) {
        let (mut passed_ms, mut leaving) = (0, JoinSet::new());
        for planned in plans {
            sleep(Duration::from_millis(planned.at_ms.saturating_sub(passed_ms))).await;
            passed_ms = passed_ms.max(planned.at_ms);
            let turn = Arc::clone(&self.society.upkeep.turn).lock_owned().await;
            match planned.conduct {
                Conduct::TakesOver => {
                    let old = self.be_succeeded().await;
                    leaving.extend(old.map(|old| self.retire(old)));
                }
                conduct => self.suffer_failing(conduct).await,
            }
            drop(turn);
        }
        while leaving.join_next().await.is_some() {}
    }

    /// Lets another process take over. Returns the edge that ends now.
    async fn be_succeeded(&self) -> Option<EmbeddedEdge> {
        let begun = self.timeline.now();
        self.note("a process wants to take over");
        let plan = lock(&self.society.file).plan().ok()?;
        let source = self.next.as_ref().map(NextPlan::source);
        let (system, token) = (self.system(), self.society.settings.token());
        let (ours, theirs) = MessageChannel::simulated_pair();
        let attends = self.attend(ours)?;
        self.society.upkeep.processes.fetch_add(1, Ordering::Relaxed);
        let succeed = move || EmbeddedEdge::succeed(plan, source, system, token, theirs);
        let succeeded = timeout(START_MAX, self.world.threads().run("successor", succeed)).await;
        let _ = attends.await;
        let at = self.timeline.now();
        match succeeded {
            Ok(Ok(mut new)) => {
                new.start_tasks();
                let old = lock(&self.edge).replace(new);
                let is_off = lock(&self.edge).as_ref().is_some_and(|new| new.metric(Metric::DiskOff) > 0);
                lock(&self.society.ledger).handed_over(at, !is_off);
                if is_off {
                    // Until the next start, also if only a fault has prevented the opening.
                    self.tell_lost(begun, Conduct::TakesOver);
                    lock(&self.society.ledger).directory_is_back(at);
                    self.tell_failed(begun, at, "the new process does not use the disk".to_owned());
                }
                lock(&self.society.ledger).count_handover(Conduct::TakesOver.name());
                if !old.as_ref().is_some_and(EmbeddedEdge::is_handed_over) {
                    self.violate("the old process does not know that another one serves".to_owned());
                }
                return old;
            }
            Ok(Err(error)) => {
                self.tell_lost(begun, Conduct::TakesOver);
                lock(&self.society.ledger).directory_is_back(at);
                self.tell_failed(begun, at, format!("a process did not take over: {error}"));
            }
            Err(_) => self.violate(format!("a hand-over takes more than {START_MAX:?}")),
        }
        self.society.upkeep.processes.fetch_sub(1, Ordering::Relaxed);
        None
    }

    /// Starts a process that does not take over.
    async fn suffer_failing(&self, conduct: Conduct) {
        let begun = self.timeline.now();
        let (ours, theirs) = MessageChannel::simulated_pair();
        let Some(attends) = self.attend(ours) else { return };
        self.tell_lost(begun, conduct);
        let fail = move || conduct.fail(&theirs);
        let last = self.world.threads().run("failing successor", fail).await;
        let _ = attends.await;
        let at = self.timeline.now();
        lock(&self.society.ledger).directory_is_back(at);
        let is_right = match (&last, conduct.last_reply()) {
            (Some(last), Some(expected)) => last.starts_with(expected),
            (None, None) => true,
            _ => false,
        };
        if !is_right {
            let text = format!("a process that {}: the last reply is {last:?}", conduct.name());
            return self.tell_failed(begun, at, text);
        }
        lock(&self.society.ledger).count_handover(conduct.name());
        if lock(&self.edge).as_ref().is_some_and(EmbeddedEdge::is_handed_over) {
            self.violate(format!("the edge has handed over to a process that {}", conduct.name()));
        }
    }

    /// Lets the edge serve a process that wants to take over. The result is ready at its end.
    fn attend(&self, channel: MessageChannel) -> Option<impl Future<Output = Option<()>> + Send + use<>> {
        let edge = lock(&self.edge);
        Some(self.world.threads().try_run("attend", edge.as_ref()?.attend(channel)))
    }

    /// Tells the ledger of a process that fails and may have the directory. Purges wait for it as
    /// long as it lives. After that, nothing is left to record on a disk without a state directory
    /// that the next start must not use it.
    fn tell_lost(&self, begun: Moment, conduct: Conduct) {
        if !conduct.has_directory() {
            return;
        }
        let settings = &self.society.settings;
        let mut ledger = lock(&self.society.ledger);
        if settings.disk_bytes.is_some() && !settings.has_state_directory {
            ledger.directory_is_lost(begun);
        } else {
            ledger.directory_is_away(begun);
        }
    }

    fn tell_failed(&self, begun: Moment, at: Moment, text: String) {
        lock(&self.society.ledger).handover_failed(begun, at, text);
    }

    /// Waits for the last connection of the old process, and for the end of the process before it,
    /// then ends it.
    fn retire(&self, old: EmbeddedEdge) -> impl Future<Output = ()> + Send + use<> {
        let life = self.of_edge(old);
        async move {
            let open = || lock(&life.edge).as_ref().map_or(0, |edge| edge.metric(Metric::ConnectionsOpen));
            let relays = || lock(&life.edge).as_ref().is_some_and(EmbeddedEdge::has_predecessor);
            let idle = async {
                while open() > 0 || relays() {
                    sleep(LOOK_EVERY).await;
                }
            };
            if timeout(ACTORS_MAX, idle).await.is_err() {
                return life.violate(format!("{} connections of an old process do not end", open()));
            }
            life.check_balance().await;
            life.close().await;
            life.society.upkeep.processes.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl fmt::Display for PlannedHandover {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {} after {} ms: {:?}", self.number, self.at_ms, self.conduct)
    }
}

#[cfg(test)]
mod tests {
    use super::PlannedHandover;
    use std::collections::BTreeSet;
    use world::Random;

    #[test]
    fn plans_have_all_conducts_in_the_order_of_time() {
        let mut met = BTreeSet::new();
        for seed in 0..400 {
            let plans = PlannedHandover::random_list(&mut Random::new(seed), 1000);
            assert!(plans.is_sorted_by_key(|plan| plan.at_ms));
            met.extend(plans.iter().map(|plan| plan.conduct.name()));
        }
        assert_eq!(met.len(), 10, "{met:?}");
    }
}
