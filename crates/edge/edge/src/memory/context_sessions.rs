//! What the edge knows of sessions whose visitors share pages by their rights
//! (`logged_in = "context"`): the context of each, and which sessions wrote a moment ago.
//!
//! Invariants: an answer is used only for the session that the request was sent for, and not after
//! the end of that session. One request for a session is under way at most. A page that was fetched
//! while its session wrote, or before that, is not kept. The table holds no cookie, only keyed
//! digests, and is bounded.

use crate::memory::private_copies::Digest;
use crate::memory::sync::{Mutex, MutexGuard, PoisonError};
use bytes::Bytes;
use clock::{Clock, Monotonic};
use config::EdgeLimits;
use platform::HashMap;
use semantics::Reason;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The context of a session, or the reason why it has none.
pub(crate) type ContextOutcome = Result<Bytes, Reason>;

/// A session, by everything that its context may depend on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ContextSession {
    pub(crate) id: Digest,
    /// Its session cookies.
    pub(crate) cookies: Vec<Digest>,
}

/// All sessions.
pub(crate) struct ContextSessions {
    /// Whether any session was asked about. Until then no request has a session to end.
    is_used: AtomicBool,
    clock: Arc<dyn Clock>,
    table: Mutex<Table>,
}

/// The answer of the table about a session.
#[derive(Debug)]
pub(crate) enum KnownContext {
    /// The session has this context, or none.
    Here(ContextOutcome),
    /// The origin was asked.
    Asked(watch::Receiver<Option<ContextOutcome>>),
    /// The caller must ask the origin.
    Ask(AskTurn, watch::Receiver<Option<ContextOutcome>>),
}

/// The right to ask the origin about a session. Dropping it without an answer lets another request
/// ask.
pub(crate) struct AskTurn {
    sessions: Arc<ContextSessions>,
    id: Digest,
    /// The number of the session's entry. One that was made after the end of the session has
    /// another number.
    number: u64,
    sender: watch::Sender<Option<ContextOutcome>>,
}

/// The number of the last write of any session when a fetch began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WriteNumber(u64);

/// Why a session pauses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PauseCause {
    /// It has begun a request that may write.
    WriteBegun,
    /// A request that may write has ended.
    WriteEnded,
    /// Its cookie was changed or deleted, so that it should not come back.
    Ended,
    /// Its cookie was set again with the same value.
    Renewed,
}

#[derive(Default)]
struct Table {
    sessions: HashMap<Digest, Entry>,
    /// The sessions that have a cookie.
    by_cookie: HashMap<Digest, Vec<Digest>>,
    /// The sessions by their last use.
    order: BTreeMap<u64, Digest>,
    /// Session cookies whose sessions wrote or ended.
    pauses: HashMap<Digest, Pause>,
    /// The pauses by the last event.
    pause_order: BTreeMap<u64, Digest>,
    /// The number of the last use, entry or event.
    number: u64,
    /// The last event of a pause that was forgotten.
    forgotten: u64,
}

struct Entry {
    number: u64,
    cookies: Vec<Digest>,
    known: Option<(ContextOutcome, Monotonic)>,
    asking: Option<watch::Receiver<Option<ContextOutcome>>>,
    used: u64,
}

struct Pause {
    /// Requests under way that may write.
    writes: u32,
    until: Monotonic,
    /// The number of the last event.
    last: u64,
}

/// The limits of the table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ContextSessionLimits {
    pub(crate) sessions_max: usize,
    pub(crate) lifetime_max: Duration,
    pub(crate) pause: Duration,
}

impl ContextSessionLimits {
    /// The limits of the edge.
    pub(crate) fn of(limits: &EdgeLimits) -> Self {
        Self {
            sessions_max: limits.context_sessions_max,
            lifetime_max: limits.context_lifetime_max,
            pause: limits.context_pause,
        }
    }
}

impl std::fmt::Debug for AskTurn {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("AskTurn").field("number", &self.number).finish_non_exhaustive()
    }
}

impl ContextSessions {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        Self { is_used: AtomicBool::new(false), clock, table: Mutex::default() }
    }

    /// Whether there may be a session to end.
    pub(crate) fn is_used(&self) -> bool {
        self.is_used.load(Ordering::SeqCst)
    }

    /// Notes that sessions have contexts from now on.
    pub(crate) fn begin_use(&self) {
        self.is_used.store(true, Ordering::SeqCst);
    }

    /// The context of a session, or the right to ask the origin.
    pub(crate) fn find(
        self: &Arc<Self>,
        session: &ContextSession,
        limits: ContextSessionLimits,
    ) -> KnownContext {
        let now = self.clock.monotonic();
        let mut table = self.table();
        table.touch(session, limits.sessions_max);
        let Some(entry) = table.sessions.get_mut(&session.id) else {
            return KnownContext::Here(Err(Reason::PassContextFailed));
        };
        if let Some((outcome, _)) = entry.known.as_ref().filter(|(_, until)| now < *until) {
            return KnownContext::Here(outcome.clone());
        }
        // A turn that was dropped without an answer has closed its channel.
        if let Some(asking) = entry.asking.as_ref().filter(|asking| !asking.is_closed()) {
            return KnownContext::Asked(asking.clone());
        }
        let (sender, receiver) = watch::channel(None);
        entry.asking = Some(receiver.clone());
        let turn = AskTurn { sessions: Arc::clone(self), id: session.id, number: entry.number, sender };
        KnownContext::Ask(turn, receiver)
    }

    /// The context that a session has now, if that is known. Changes nothing.
    pub(crate) fn peek(&self, session: &ContextSession) -> Option<ContextOutcome> {
        let now = self.clock.monotonic();
        let table = self.table();
        let (outcome, until) = table.sessions.get(&session.id)?.known.as_ref()?;
        (now < *until).then(|| outcome.clone())
    }

    /// The right to ask again about a session whose context is known. `None` while another request
    /// asks.
    pub(crate) fn confirm(
        self: &Arc<Self>,
        session: &ContextSession,
        limits: ContextSessionLimits,
    ) -> Option<AskTurn> {
        let mut table = self.table();
        table.touch(session, limits.sessions_max);
        let entry = table.sessions.get_mut(&session.id)?;
        if entry.asking.as_ref().is_some_and(|asking| !asking.is_closed()) {
            return None;
        }
        let (sender, receiver) = watch::channel(None);
        entry.asking = Some(receiver);
        Some(AskTurn { sessions: Arc::clone(self), id: session.id, number: entry.number, sender })
    }

    /// Forgets the context of every session that has one of these cookies, and lets these sessions
    /// pass for a time.
    pub(crate) fn pause(&self, cookies: &[Digest], cause: PauseCause, limits: ContextSessionLimits) {
        let now = self.clock.monotonic();
        let mut table = self.table();
        for cookie in cookies {
            let sessions = table.by_cookie.get(cookie).cloned().unwrap_or_default();
            sessions.iter().for_each(|session| table.forget(session));
            table.pause(*cookie, cause, now, limits);
        }
    }

    /// Whether a session with these cookies passes because it wrote or ended a short while ago.
    pub(crate) fn is_paused(&self, cookies: &[Digest]) -> bool {
        let now = self.clock.monotonic();
        let table = self.table();
        let is_active = |pause: &Pause| pause.writes > 0 || now < pause.until;
        cookies.iter().any(|cookie| table.pauses.get(cookie).is_some_and(is_active))
    }

    /// The number of the last write, for a fetch that begins.
    pub(crate) fn write_number(&self) -> WriteNumber {
        WriteNumber(self.table().number)
    }

    /// Whether no session with these cookies has written or ended since the fetch began.
    pub(crate) fn is_unchanged(&self, cookies: &[Digest], since: WriteNumber) -> bool {
        let table = self.table();
        let is_before = |pause: &Pause| pause.writes == 0 && pause.last <= since.0;
        table.forgotten <= since.0
            && cookies.iter().all(|cookie| table.pauses.get(cookie).is_none_or(is_before))
    }

    /// The number of sessions that are known.
    pub(crate) fn len(&self) -> usize {
        self.table().sessions.len()
    }

    /// Poison is ignored because no code that can panic runs under the lock.
    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AskTurn {
    /// Notes the answer of the origin, which is valid for `lifetime`, and tells it to all who wait.
    pub(crate) fn finish(self, outcome: &ContextOutcome, lifetime: Duration) {
        let until = self.sessions.clock.monotonic().plus(lifetime);
        if let Some(entry) = self.sessions.table().own(&self.id, self.number) {
            entry.known = Some((outcome.clone(), until));
            entry.asking = None;
        }
        self.sender.send_replace(Some(outcome.clone()));
    }
}

impl Table {
    fn next(&mut self) -> u64 {
        self.number += 1;
        self.number
    }

    /// The entry of a session, if it is still the one with this number.
    fn own(&mut self, id: &Digest, number: u64) -> Option<&mut Entry> {
        self.sessions.get_mut(id).filter(|entry| entry.number == number)
    }

    /// Makes or renews the entry of a session, and forgets others if there are too many.
    fn touch(&mut self, session: &ContextSession, sessions_max: usize) {
        let now = self.next();
        if let Some(entry) = self.sessions.get_mut(&session.id) {
            self.order.remove(&entry.used);
            entry.used = now;
        } else {
            for cookie in &session.cookies {
                self.by_cookie.entry(*cookie).or_default().push(session.id);
            }
            let cookies = session.cookies.clone();
            let entry = Entry { number: now, cookies, known: None, asking: None, used: now };
            self.sessions.insert(session.id, entry);
        }
        self.order.insert(now, session.id);
        while self.sessions.len() > sessions_max
            && let Some(oldest) = self.order.first_key_value().map(|(_, session)| *session)
        {
            self.forget(&oldest);
        }
    }

    fn forget(&mut self, session: &Digest) {
        let Some(entry) = self.sessions.remove(session) else { return };
        self.order.remove(&entry.used);
        for cookie in &entry.cookies {
            if let Some(sessions) = self.by_cookie.get_mut(cookie) {
                sessions.retain(|other| other != session);
                if sessions.is_empty() {
                    self.by_cookie.remove(cookie);
                }
            }
        }
    }

    fn pause(&mut self, cookie: Digest, cause: PauseCause, now: Monotonic, limits: ContextSessionLimits) {
        let number = self.next();
        let pause = self.pauses.entry(cookie).or_insert(Pause { writes: 0, until: now, last: number });
        self.pause_order.remove(&pause.last);
        self.pause_order.insert(number, cookie);
        pause.last = number;
        let length = match cause {
            PauseCause::WriteBegun => {
                pause.writes += 1;
                Duration::ZERO
            }
            PauseCause::WriteEnded => {
                pause.writes = pause.writes.saturating_sub(1);
                limits.pause
            }
            PauseCause::Renewed => limits.pause,
            PauseCause::Ended => limits.lifetime_max,
        };
        pause.until = pause.until.max(now.plus(length));
        while self.pauses.len() > limits.sessions_max
            && let Some((last, oldest)) = self.pause_order.pop_first()
        {
            self.pauses.remove(&oldest);
            self.forgotten = last;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{
        AskTurn, ContextOutcome, ContextSession, ContextSessionLimits, ContextSessions, KnownContext,
        PauseCause,
    };
    use bytes::Bytes;
    use clock::ManualClock;
    use semantics::Reason;
    use std::sync::Arc;
    use std::time::Duration;

    const LIMITS: ContextSessionLimits = ContextSessionLimits {
        sessions_max: 3,
        lifetime_max: Duration::from_secs(600),
        pause: Duration::from_secs(5),
    };
    const MINUTE: Duration = Duration::from_secs(60);

    fn stage() -> (Arc<ContextSessions>, Arc<ManualClock>) {
        let clock = Arc::new(ManualClock::default());
        (Arc::new(ContextSessions::new(clock.clone())), clock)
    }

    fn session(id: u8, cookies: &[u8]) -> ContextSession {
        ContextSession { id: [id; 32], cookies: cookies.iter().map(|cookie| [*cookie; 32]).collect() }
    }

    fn editor() -> ContextOutcome {
        Ok(Bytes::from_static(b"editor"))
    }

    fn turn(sessions: &Arc<ContextSessions>, of: &ContextSession) -> AskTurn {
        match sessions.find(of, LIMITS) {
            KnownContext::Ask(turn, _) => turn,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn one_request_asks_and_all_get_its_answer() {
        let (sessions, clock) = stage();
        let ann = session(1, &[1]);
        let asking = turn(&sessions, &ann);
        let KnownContext::Asked(waiting) = sessions.find(&ann, LIMITS) else { panic!() };
        assert!(sessions.confirm(&ann, LIMITS).is_none(), "one request at a time");
        asking.finish(&editor(), MINUTE);
        assert_eq!(*waiting.borrow(), Some(editor()));
        assert_eq!(sessions.peek(&ann), Some(editor()));
        assert!(matches!(sessions.find(&ann, LIMITS), KnownContext::Here(Ok(_))));
        clock.advance(MINUTE);
        assert_eq!(sessions.peek(&ann), None);
        drop(turn(&sessions, &ann));
        turn(&sessions, &ann).finish(&Err(Reason::PassContextFailed), MINUTE);
        assert_eq!(sessions.peek(&ann), Some(Err(Reason::PassContextFailed)));
    }

    #[test]
    fn answer_of_an_ended_session_is_not_kept() {
        let (sessions, _) = stage();
        let ann = session(1, &[1, 2]);
        let asking = turn(&sessions, &ann);
        sessions.pause(&[[2; 32]], PauseCause::WriteBegun, LIMITS);
        let newer = turn(&sessions, &ann);
        asking.finish(&editor(), MINUTE);
        assert_eq!(sessions.peek(&ann), None);
        newer.finish(&editor(), MINUTE);
        assert_eq!(sessions.peek(&ann), Some(editor()));
    }

    #[test]
    fn session_pauses_during_and_after_a_write() {
        let (sessions, clock) = stage();
        let (own, other) = ([[1; 32], [2; 32]], [[3; 32]]);
        let before = sessions.write_number();
        sessions.pause(&own[..1], PauseCause::WriteBegun, LIMITS);
        clock.advance(MINUTE);
        assert!(sessions.is_paused(&own) && !sessions.is_paused(&other));
        let during = sessions.write_number();
        assert!(!sessions.is_unchanged(&own, during) && sessions.is_unchanged(&other, before));
        sessions.pause(&own[..1], PauseCause::WriteEnded, LIMITS);
        assert!(sessions.is_paused(&own));
        clock.advance(Duration::from_secs(5));
        assert!(!sessions.is_paused(&own));
        assert!(!sessions.is_unchanged(&own, before) && !sessions.is_unchanged(&own, during));
        assert!(sessions.is_unchanged(&own, sessions.write_number()));
        sessions.pause(&own[1..], PauseCause::Ended, LIMITS);
        clock.advance(Duration::from_secs(599));
        assert!(sessions.is_paused(&own), "its cookies should not come back");
    }

    #[test]
    fn sessions_and_pauses_are_bounded() {
        let (sessions, _) = stage();
        let before = sessions.write_number();
        for number in 1..=9 {
            let own = session(number, &[number]);
            turn(&sessions, &own).finish(&editor(), MINUTE);
            assert!(sessions.len() <= LIMITS.sessions_max);
        }
        assert_eq!(sessions.peek(&session(6, &[6])), None);
        assert_eq!(sessions.peek(&session(7, &[7])), Some(editor()));
        assert_eq!(sessions.table().by_cookie.len(), 3);
        for number in 1..=9 {
            sessions.pause(&[[number; 32]], PauseCause::Renewed, LIMITS);
        }
        assert_eq!(sessions.table().pauses.len(), 3);
        assert_eq!(sessions.table().pause_order.len(), 3);
        assert_eq!(sessions.len(), 0);
        assert!(!sessions.is_unchanged(&[[1; 32]], before), "it may have been forgotten");
        assert!(sessions.is_unchanged(&[[1; 32]], sessions.write_number()));
    }
}
