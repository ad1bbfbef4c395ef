//! The breaker of one origin: a state machine that concludes from fetches whether the origin
//! answers.
//!
//! ```text
//!            a connection is refused                        a connection, or a first byte
//!   Closed ──────────────────────────────> Unreachable ─────────────────────────────────> Closed
//!     │                                        ^ connecting fails
//!     └─ three pages without a first byte ─> Silent ───── a first byte ─────────────────> Closed
//! ```
//!
//! Invariant: the state machine uses no socket, clock or lock. Events and `now` go in, decisions
//! come out.
//!
//! A first byte clears all evidence, so slow pages never open the breaker while the origin answers
//! other fetches. A pass is never evidence of silence, because its client decides how long it
//! takes: it may be a long poll. The memory is bounded by the number of concurrent fetches.

use crate::error::FetchError;
use crate::slowness::Slowness;
use crate::usual::UsualWait;
use clock::Monotonic;
use net::TlsError;
use std::collections::VecDeque;
use std::io::ErrorKind;
use std::time::Duration;

/// The breaker opens when fetches of this many different pages are silent.
const SILENT_PAGES: usize = 3;

/// A fetch counts as silent after this many times the origin's usual wait (its 99th percentile).
const USUAL_TIMES: u32 = 3;

/// A fetch that ended without a first byte is evidence for this long.
const EVIDENCE_LASTS: Duration = Duration::from_secs(10);

/// Resets become evidence when the first is this old and no fetch was answered since. A working
/// origin answers another fetch in less time, even if a client requests three pages that crash
/// their workers.
const RESETS_LAST: Duration = Duration::from_millis(100);

/// The pause before the first probe of an origin that refuses connections. Each failed probe
/// doubles it.
const REFUSED_PAUSE_MIN: Duration = Duration::from_millis(100);

/// The longest pause between probes of an origin that refuses connections. It is short because a
/// refused connection costs both sides little.
const REFUSED_PAUSE_MAX: Duration = Duration::from_secs(1);

/// The pause before the first probe of a silent origin; each failed probe doubles it.
const SILENT_PAUSE_MIN: Duration = Duration::from_secs(1);

/// Changes that are kept for the log, which takes them every second. Older ones are dropped.
const UNTOLD_MAX: usize = 64;

/// The settings of a breaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BreakerLimits {
    /// The shortest time without a first byte after which a fetch counts as silent.
    pub silence_min: Duration,
    /// The upper limit of this time, however slow the origin usually is.
    pub silence_max: Duration,
    /// The longest wait for a probe's response, and the longest pause between probes.
    pub probe_pause_max: Duration,
}

/// The breaker's view of the origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BreakerState {
    /// The origin answers.
    Closed,
    /// The origin accepts connections and does not answer.
    Silent,
    /// No connection to the origin can be made.
    Unreachable,
}

/// One change of the breaker's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BreakerChange {
    /// The previous state.
    pub from: BreakerState,
    /// The new state.
    pub to: BreakerState,
    /// The time that the previous state lasted.
    pub lasted: Duration,
    /// The time without a first byte after which a fetch counted as silent, at the change.
    pub silence: Duration,
}

/// A fetch that has begun and is known to the breaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BegunFetch {
    number: u64,
    /// A digest of the page's cache key; `None` for a pass.
    page: Option<u64>,
    at: Monotonic,
    is_probe: bool,
}

/// How a fetch ended before its first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OriginFailure {
    /// No connection could be made.
    Unreachable,
    /// The connection was not accepted in time.
    ConnectTimeout,
    /// The connection ended.
    Reset,
    /// No first byte came in time.
    Timeout,
    /// The fetch failed for a reason that says nothing about the origin.
    Other,
}

impl OriginFailure {
    pub(crate) fn of(error: &FetchError) -> Self {
        match error {
            FetchError::Refused => Self::Unreachable,
            // The origin's accept queue is full (Unix sockets), or this machine has no port left.
            // The origin may be healthy and busy.
            FetchError::Unreachable(ErrorKind::WouldBlock | ErrorKind::AddrNotAvailable) => Self::Other,
            FetchError::Unreachable(_) => Self::Unreachable,
            // An origin that accepts the connection and then ends or refuses it may be busy, and
            // may refuse one request only. An invalid certificate fails all requests.
            FetchError::Tls(TlsError::Broken(_) | TlsError::Refused(_)) => Self::Reset,
            FetchError::Tls(_) => Self::Unreachable,
            FetchError::ConnectTimeout => Self::ConnectTimeout,
            FetchError::FirstByteTimeout => Self::Timeout,
            FetchError::Closed => Self::Reset,
            _ => Self::Other,
        }
    }
}

/// A fetch that ended without a first byte.
#[derive(Clone, Copy, Debug)]
struct UnansweredFetch {
    /// The page's digest. For a reset fetch the fetch's number, so that three resets of one page
    /// count as three: the connection itself has failed.
    page: u64,
    at: Monotonic,
    was_reset: bool,
}

/// The breaker's state machine.
#[derive(Clone, Debug)]
pub(crate) struct Breaker {
    limits: BreakerLimits,
    state: BreakerState,
    changed: Monotonic,
    changes: u64,
    /// Changes that were not taken for the log yet.
    untold: VecDeque<BreakerChange>,
    next_number: u64,
    usual: UsualWait,
    slowness: Slowness,
    /// Shared fetches without a first byte that began after the last first byte of any fetch, in
    /// order of their begin.
    pending: VecDeque<BegunFetch>,
    /// Fetches that ended without a first byte since the last first byte of any fetch, in order of
    /// their end. Of reset fetches only the earliest [`SILENT_PAGES`] are kept.
    unanswered: Vec<UnansweredFetch>,
    /// The current pause between probes.
    pause: Duration,
    next_probe: Monotonic,
    /// The number of the last probe whose turn was claimed.
    last_probe: u64,
    /// The current probe, from its claim to its end.
    probe: Option<BreakerProbe>,
}

/// A probe, from the moment when its turn is claimed.
#[derive(Clone, Copy, Debug)]
struct BreakerProbe {
    number: u64,
    since: Monotonic,
    /// Whether its fetch has begun. The end of that fetch then ends the turn.
    is_sent: bool,
}

impl Breaker {
    pub(crate) fn new(limits: BreakerLimits, now: Monotonic) -> Self {
        Self {
            limits,
            state: BreakerState::Closed,
            changed: now,
            changes: 0,
            untold: VecDeque::new(),
            next_number: 0,
            usual: UsualWait::new(),
            slowness: Slowness::new(limits.silence_min),
            pending: VecDeque::new(),
            unanswered: Vec::new(),
            pause: Duration::ZERO,
            next_probe: now,
            last_probe: 0,
            probe: None,
        }
    }

    /// The state at `now`. Silence is not an event, so this call can open the breaker.
    pub(crate) fn state(&mut self, now: Monotonic) -> BreakerState {
        self.open_if_silent(BreakerState::Silent, now);
        self.state
    }

    /// The number of changes of the state so far.
    pub(crate) fn changes(&self) -> u64 {
        self.changes
    }

    /// Takes the changes since the last call, oldest first; at most the latest [`UNTOLD_MAX`].
    pub(crate) fn take_changes(&mut self) -> Vec<BreakerChange> {
        self.untold.drain(..).collect()
    }

    /// The time without a first byte after which a fetch counts as silent at present.
    pub(crate) fn silence(&self) -> Duration {
        let BreakerLimits { silence_min, silence_max, .. } = self.limits;
        let usual = self.usual.p99().unwrap_or_default().saturating_mul(USUAL_TIMES);
        usual.min(silence_max).max(silence_min)
    }

    /// Whether the last responses came so late that no request with a stale response should wait
    /// for the next one.
    pub(crate) fn is_slow(&self, now: Monotonic) -> bool {
        self.slowness.is_slow(now)
    }

    /// Whether the next request may be a probe: the breaker is open, the pause is over, and no
    /// other probe may still be answered.
    pub(crate) fn is_probe_due(&self, now: Monotonic) -> bool {
        let waits = self.probe.is_some_and(|probe| now.since(probe.since) < self.limits.probe_pause_max);
        self.state != BreakerState::Closed && now >= self.next_probe && !waits
    }

    /// Claims the turn of the next probe, if one is due, and returns its number. The caller then
    /// begins a fetch with this number or releases it.
    pub(crate) fn claim_probe(&mut self, now: Monotonic) -> Option<u64> {
        if !self.is_probe_due(now) {
            return None;
        }
        self.last_probe += 1;
        self.probe = Some(BreakerProbe { number: self.last_probe, since: now, is_sent: false });
        Some(self.last_probe)
    }

    /// Releases a claimed turn whose fetch has not begun. Once the fetch has begun, this has no
    /// effect.
    pub(crate) fn release_probe(&mut self, number: u64) {
        self.probe = self.probe.filter(|probe| probe.number != number || probe.is_sent);
    }

    /// Records that a fetch is sent to the origin. `page` is a digest of its cache key if the
    /// response may be shared; `probe` is the number of its turn if it is a probe.
    pub(crate) fn begin(&mut self, page: Option<u64>, probe: Option<u64>, now: Monotonic) -> BegunFetch {
        if let Some(own) = self.probe.as_mut().filter(|own| probe == Some(own.number)) {
            own.is_sent = true;
        }
        let begun = BegunFetch { number: self.next_number, page, at: now, is_probe: probe.is_some() };
        self.next_number += 1;
        if page.is_some() && self.state == BreakerState::Closed {
            self.pending.push_back(begun);
        }
        begun
    }

    /// Records that the origin accepted a connection.
    pub(crate) fn connected(&mut self, now: Monotonic) {
        if self.state == BreakerState::Unreachable {
            self.change(BreakerState::Closed, now);
        }
    }

    /// Records the first byte of a response.
    pub(crate) fn answered(&mut self, begun: &BegunFetch, now: Monotonic) {
        // A hung origin that recovers answers all held fetches at once; their waits are not usual.
        // Only the first is recorded, so that an origin that became slow is soon known as slow. It
        // changes the state, and the other fetches began before that change.
        if begun.page.is_some() && (begun.at >= self.changed || self.state != BreakerState::Closed) {
            self.usual.record(now.since(begun.at).min(self.silence()));
        }
        // The held fetches of a hung origin say nothing of how quick it is now.
        if let Some(page) = begun.page.filter(|_| begun.at >= self.changed) {
            self.slowness.record(page, now.since(begun.at), now);
        }
        self.pending.clear();
        self.unanswered.clear();
        if self.state != BreakerState::Closed {
            self.change(BreakerState::Closed, now);
        }
    }

    /// Records that a fetch ended without a first byte.
    pub(crate) fn failed(&mut self, begun: &BegunFetch, failure: OriginFailure, now: Monotonic) {
        let was_pending = self.forget(begun);
        if begun.is_probe {
            self.probe_ended(now);
        }
        match failure {
            OriginFailure::Unreachable => self.connecting_failed(now),
            OriginFailure::ConnectTimeout if self.state != BreakerState::Closed => {
                self.connecting_failed(now)
            }
            OriginFailure::ConnectTimeout | OriginFailure::Timeout if was_pending => {
                self.note(begun.page, false, now)
            }
            OriginFailure::Reset => self.note(begun.page.map(|_| begun.number), true, now),
            OriginFailure::ConnectTimeout | OriginFailure::Timeout | OriginFailure::Other => {}
        }
        let is_connecting = failure == OriginFailure::ConnectTimeout;
        let opened = if is_connecting { BreakerState::Unreachable } else { BreakerState::Silent };
        self.open_if_silent(opened, now);
    }

    /// Records that the edge gave up a fetch before its first byte, which says nothing about the
    /// origin.
    pub(crate) fn dropped(&mut self, begun: &BegunFetch, now: Monotonic) {
        self.forget(begun);
        if begun.is_probe {
            self.probe_ended(now);
        }
    }

    fn open_if_silent(&mut self, opened: BreakerState, now: Monotonic) {
        if self.state == BreakerState::Closed && self.has_silent_pages(now) {
            self.change(opened, now);
        }
    }

    fn forget(&mut self, begun: &BegunFetch) -> bool {
        let position = self.pending.iter().position(|pending| pending.number == begun.number);
        position.and_then(|position| self.pending.remove(position)).is_some()
    }

    fn probe_ended(&mut self, now: Monotonic) {
        self.probe = None;
        self.next_probe = now.plus(self.pause);
        self.pause = self.pause.saturating_mul(2).min(self.pause_max());
    }

    fn pause_max(&self) -> Duration {
        match self.state {
            BreakerState::Unreachable => REFUSED_PAUSE_MAX.min(self.limits.probe_pause_max),
            BreakerState::Closed | BreakerState::Silent => self.limits.probe_pause_max,
        }
    }

    fn connecting_failed(&mut self, now: Monotonic) {
        if self.state != BreakerState::Unreachable {
            self.change(BreakerState::Unreachable, now);
        }
    }

    /// Adds a fetch that ended without a first byte to the evidence. `page` is `None` for a pass.
    fn note(&mut self, page: Option<u64>, was_reset: bool, now: Monotonic) {
        let Some(page) = page.filter(|_| self.state == BreakerState::Closed) else { return };
        self.unanswered.retain(|old| old.page != page && now.since(old.at) < EVIDENCE_LASTS);
        let resets = self.unanswered.iter().filter(|old| old.was_reset).count();
        if !was_reset || resets < SILENT_PAGES {
            self.unanswered.push(UnansweredFetch { page, at: now, was_reset });
        }
    }

    /// Whether fetches of [`SILENT_PAGES`] different pages are silent, counting late and ended
    /// ones.
    fn has_silent_pages(&self, now: Monotonic) -> bool {
        let silence = self.silence();
        let is_late = |begun: &&BegunFetch| now.since(begun.at) >= silence;
        // The fetches are in order of their begin, so the late ones come first.
        let late = self.pending.iter().take_while(is_late).filter_map(|begun| begun.page);
        let recent = |old: &&UnansweredFetch| now.since(old.at) < EVIDENCE_LASTS;
        let resets_last = |old: &UnansweredFetch| old.was_reset && now.since(old.at) >= RESETS_LAST;
        let counts_resets = self.unanswered.iter().filter(recent).any(resets_last);
        let ended = self.unanswered.iter().filter(recent).filter(|old| counts_resets || !old.was_reset);
        let mut pages = [None; SILENT_PAGES];
        for page in late.chain(ended.map(|old| old.page)) {
            if pages.contains(&Some(page)) {
                continue;
            }
            match pages.iter_mut().find(|slot| slot.is_none()) {
                Some(slot) => *slot = Some(page),
                None => break,
            }
        }
        pages.iter().all(Option::is_some)
    }

    fn change(&mut self, state: BreakerState, now: Monotonic) {
        if self.untold.len() >= UNTOLD_MAX {
            self.untold.pop_front();
        }
        let (lasted, silence) = (now.since(self.changed), self.silence());
        self.untold.push_back(BreakerChange { from: self.state, to: state, lasted, silence });
        self.state = state;
        self.changed = now;
        self.changes += 1;
        self.pending.clear();
        self.unanswered.clear();
        let pause = match state {
            BreakerState::Unreachable => REFUSED_PAUSE_MIN,
            BreakerState::Closed | BreakerState::Silent => SILENT_PAUSE_MIN,
        };
        self.pause = pause.min(self.limits.probe_pause_max);
        self.next_probe = now.plus(self.pause);
        self.probe = None;
    }
}

#[cfg(test)]
mod tests {
    use super::{BegunFetch, Breaker, BreakerLimits, BreakerState, OriginFailure};
    use clock::Monotonic;
    use proptest::prelude::*;
    use std::collections::HashSet;
    use std::time::Duration;

    const LIMITS: BreakerLimits = BreakerLimits {
        silence_min: Duration::from_secs(1),
        silence_max: Duration::from_secs(10),
        probe_pause_max: Duration::from_secs(5),
    };

    fn at(millis: u64) -> Monotonic {
        Monotonic::from_nanos(millis * 1_000_000)
    }

    fn breaker() -> Breaker {
        Breaker::new(LIMITS, at(0))
    }

    /// A breaker with a fetch of each of these pages, begun at the start.
    fn asking(pages: &[u64]) -> (Breaker, Vec<BegunFetch>) {
        let mut breaker = breaker();
        let begun = pages.iter().map(|page| breaker.begin(Some(*page), None, at(0))).collect();
        (breaker, begun)
    }

    #[test]
    fn three_silent_pages_open_and_a_first_byte_closes() {
        let (mut breaker, begun) = asking(&[1, 2, 3]);
        assert_eq!(breaker.state(at(999)), BreakerState::Closed);
        assert_eq!(breaker.state(at(1000)), BreakerState::Silent);
        breaker.answered(&begun[0], at(1500));
        assert_eq!((breaker.state(at(1500)), breaker.changes()), (BreakerState::Closed, 2));
    }

    #[test]
    fn many_fetches_of_two_pages_do_not_open() {
        let (mut breaker, _) = asking(&[1, 2, 1, 2, 1, 2]);
        assert_eq!(breaker.state(at(60_000)), BreakerState::Closed);
    }

    #[test]
    fn passes_are_no_evidence_of_silence() {
        let mut breaker = breaker();
        let passes: Vec<_> = (0..9).map(|_| breaker.begin(None, None, at(0))).collect();
        for pass in &passes {
            breaker.failed(pass, OriginFailure::Timeout, at(60_000));
            breaker.failed(pass, OriginFailure::Reset, at(60_000));
        }
        assert_eq!(breaker.state(at(60_000)), BreakerState::Closed);
    }

    #[test]
    fn slow_pages_do_not_open_while_another_fetch_is_answered() {
        let (mut breaker, slow) = asking(&[1, 2, 3]);
        let pass = breaker.begin(None, None, at(100));
        breaker.answered(&pass, at(200));
        assert_eq!(breaker.state(at(60_000)), BreakerState::Closed);
        slow.iter().for_each(|begun| breaker.failed(begun, OriginFailure::Timeout, at(60_000)));
        assert_eq!(breaker.state(at(60_000)), BreakerState::Closed);
    }

    #[test]
    fn silence_of_a_slow_origin_is_three_times_its_usual_wait() {
        let mut breaker = breaker();
        for second in 0..10 {
            let begun = breaker.begin(Some(0), None, at(second * 1000));
            breaker.answered(&begun, at(second * 1000 + 700));
        }
        let silence = breaker.silence();
        assert!(
            silence > Duration::from_millis(2100) && silence < Duration::from_millis(2700),
            "{silence:?}"
        );
        for page in 1..=3 {
            breaker.begin(Some(page), None, at(20_000));
        }
        assert_eq!(breaker.state(at(22_000)), BreakerState::Closed);
        assert_eq!(breaker.state(at(22_700)), BreakerState::Silent);
    }

    #[test]
    fn slow_pages_raise_the_silence_only_to_its_limit() {
        let mut breaker = breaker();
        for minute in 0..99 {
            let begun = breaker.begin(Some(minute), None, at(minute * 60_000));
            breaker.answered(&begun, at(minute * 60_000 + 59_000));
        }
        assert_eq!(breaker.silence(), LIMITS.silence_max);
    }

    #[test]
    fn responses_held_by_a_hang_do_not_count_as_usual() {
        let mut breaker = breaker();
        let pages: Vec<u64> = (0..64).collect();
        let held: Vec<_> = pages.iter().map(|page| breaker.begin(Some(*page), None, at(0))).collect();
        for number in 0..200 {
            let begun = breaker.begin(Some(number), None, at(0));
            breaker.answered(&begun, at(10));
        }
        for page in pages {
            breaker.begin(Some(page), None, at(10));
        }
        assert_eq!(breaker.state(at(1010)), BreakerState::Silent);
        held.iter().for_each(|begun| breaker.answered(begun, at(30_000)));
        assert_eq!(breaker.silence(), LIMITS.silence_min);
    }

    #[test]
    fn one_refused_connection_opens_and_a_connection_closes() {
        let mut breaker = breaker();
        let begun = breaker.begin(None, None, at(0));
        breaker.failed(&begun, OriginFailure::Unreachable, at(0));
        assert_eq!(breaker.state(at(0)), BreakerState::Unreachable);
        breaker.connected(at(1));
        assert_eq!(breaker.state(at(1)), BreakerState::Closed);
    }

    #[test]
    fn three_resets_open_unless_a_first_byte_comes_between() {
        for is_answered in [false, true] {
            let mut breaker = breaker();
            for number in 0..3 {
                let begun = breaker.begin(Some(7), None, at(number));
                breaker.failed(&begun, OriginFailure::Reset, at(number));
                if is_answered && number == 1 {
                    let begun = breaker.begin(Some(8), None, at(number));
                    breaker.answered(&begun, at(number));
                }
            }
            let expected = if is_answered { BreakerState::Closed } else { BreakerState::Silent };
            assert_eq!(breaker.state(at(99)), BreakerState::Closed);
            assert_eq!(breaker.state(at(100)), expected);
        }
    }

    #[test]
    fn resets_far_apart_do_not_open() {
        let mut breaker = breaker();
        for minute in 0..9 {
            let begun = breaker.begin(Some(minute), None, at(minute * 60_000));
            breaker.failed(&begun, OriginFailure::Reset, at(minute * 60_000));
        }
        assert_eq!(breaker.state(at(600_000)), BreakerState::Closed);
    }

    #[test]
    fn connect_timeouts_make_a_silent_origin_unreachable() {
        let (mut breaker, begun) = asking(&[1, 2, 3]);
        assert_eq!(breaker.state(at(1000)), BreakerState::Silent);
        breaker.failed(&begun[0], OriginFailure::ConnectTimeout, at(3000));
        assert_eq!((breaker.state(at(3000)), breaker.changes()), (BreakerState::Unreachable, 2));
        let (mut breaker, begun) = asking(&[1, 2, 3]);
        begun.iter().for_each(|begun| breaker.failed(begun, OriginFailure::ConnectTimeout, at(500)));
        assert_eq!((breaker.state(at(500)), breaker.changes()), (BreakerState::Unreachable, 1));
    }

    #[test]
    fn probes_of_a_refusing_origin_come_at_growing_pauses() {
        let mut breaker = breaker();
        let begun = breaker.begin(Some(1), None, at(0));
        breaker.failed(&begun, OriginFailure::Unreachable, at(0));
        let mut probes = Vec::new();
        for millis in 0..6000 {
            if let Some(turn) = breaker.claim_probe(at(millis)) {
                let probe = breaker.begin(Some(1), Some(turn), at(millis));
                breaker.failed(&probe, OriginFailure::Unreachable, at(millis));
                probes.push(millis);
            }
        }
        assert_eq!(probes, [100, 200, 400, 800, 1600, 2600, 3600, 4600, 5600]);
    }

    #[test]
    fn next_probe_waits_for_the_first_or_the_longest_pause() {
        let (mut breaker, _) = asking(&[1, 2, 3]);
        assert_eq!(breaker.state(at(1000)), BreakerState::Silent);
        assert_eq!(breaker.claim_probe(at(1999)), None);
        let turn = breaker.claim_probe(at(2000));
        assert!(turn.is_some());
        let probe = breaker.begin(Some(1), turn, at(2000));
        assert_eq!(breaker.claim_probe(at(6999)), None, "the first is under way");
        assert!(breaker.claim_probe(at(7000)).is_some(), "the first may never be answered");
        breaker.dropped(&probe, at(7100));
        assert_eq!(breaker.claim_probe(at(8099)), None);
        assert!(breaker.claim_probe(at(8100)).is_some(), "it was given up");
    }

    #[test]
    fn turn_of_an_unsent_probe_goes_to_the_next_request() {
        let (mut breaker, _) = asking(&[1, 2, 3]);
        assert_eq!(breaker.state(at(1000)), BreakerState::Silent);
        let first = breaker.claim_probe(at(2000)).unwrap();
        breaker.release_probe(first);
        let second = breaker.claim_probe(at(2000)).unwrap();
        breaker.release_probe(first);
        assert_eq!(breaker.claim_probe(at(2001)), None, "the first gives back its own turn only");
        breaker.begin(Some(1), Some(second), at(2001));
        breaker.release_probe(second);
        assert_eq!(breaker.claim_probe(at(2002)), None, "it is sent");
    }

    /// An event of the property test.
    #[derive(Clone, Copy, Debug)]
    enum Happens {
        Begin(Option<u64>),
        Answer(usize),
        Fail(usize, OriginFailure),
        Drop(usize),
        Pass(u64),
        Probe,
    }

    fn failure() -> impl Strategy<Value = OriginFailure> {
        prop_oneof![
            1 => Just(OriginFailure::Unreachable),
            3 => Just(OriginFailure::ConnectTimeout),
            3 => Just(OriginFailure::Reset),
            3 => Just(OriginFailure::Timeout),
            3 => Just(OriginFailure::Other),
        ]
    }

    fn happens() -> impl Strategy<Value = Happens> {
        prop_oneof![
            6 => prop::option::weighted(0.8, 0..5_u64).prop_map(|page| Happens::Begin(page.map(|page| page + 1000))),
            1 => any::<usize>().prop_map(Happens::Answer),
            2 => (any::<usize>(), failure()).prop_map(|(which, failure)| Happens::Fail(which, failure)),
            1 => any::<usize>().prop_map(Happens::Drop),
            4 => (1..2000_u64).prop_map(Happens::Pass),
            2 => Just(Happens::Probe),
        ]
    }

    /// All events since the last first byte or change of state, in plain lists.
    #[derive(Default)]
    struct Model {
        open: Vec<BegunFetch>,
        /// Shared fetches that began while the breaker was closed and have not ended.
        waiting: Vec<BegunFetch>,
        /// Fetches that ended without a first byte: the page, or the number of a reset fetch; the
        /// time; whether it was reset.
        ended: Vec<(u64, u64, bool)>,
    }

    impl Model {
        fn is_silent(&self, now: u64, silence: Duration) -> bool {
            let late = self.waiting.iter().filter(|begun| at(now).since(begun.at) >= silence);
            let recent = || self.ended.iter().filter(|(_, when, _)| now - when < 10_000);
            let reset_long_ago = recent().any(|(_, when, was_reset)| *was_reset && now - when >= 100);
            let ended =
                recent().filter(|(.., was_reset)| reset_long_ago || !was_reset).map(|(page, ..)| *page);
            let pages: HashSet<u64> = late.filter_map(|begun| begun.page).chain(ended).collect();
            pages.len() >= 3
        }

        fn forget_evidence(&mut self) {
            self.waiting.clear();
            self.ended.clear();
        }
    }

    proptest! {
        #[test]
        fn state_agrees_with_a_model_of_the_whole_history(story in prop::collection::vec(happens(), 1..200)) {
            let (mut breaker, mut model) = (breaker(), Model::default());
            let (mut now, mut state, mut last_probe) = (0, BreakerState::Closed, None);
            for happening in story {
                match happening {
                    Happens::Begin(page) => {
                        let begun = breaker.begin(page, None, at(now));
                        model.open.push(begun);
                        if page.is_some() && state == BreakerState::Closed {
                            model.waiting.push(begun);
                        }
                    }
                    Happens::Probe => {
                        let turn = breaker.claim_probe(at(now));
                        prop_assert!(turn.is_none() || state != BreakerState::Closed);
                        if turn.is_some() {
                            prop_assert!(last_probe.is_none_or(|last| now > last), "one probe at a time");
                            last_probe = Some(now);
                            model.open.push(breaker.begin(Some(1), turn, at(now)));
                        }
                    }
                    Happens::Pass(millis) => now += millis,
                    Happens::Answer(which) if !model.open.is_empty() => {
                        let begun = model.open.remove(which % model.open.len());
                        breaker.answered(&begun, at(now));
                        model.forget_evidence();
                        state = BreakerState::Closed;
                    }
                    Happens::Drop(which) if !model.open.is_empty() => {
                        let begun = model.open.remove(which % model.open.len());
                        breaker.dropped(&begun, at(now));
                        model.waiting.retain(|waiting| *waiting != begun);
                    }
                    Happens::Fail(which, failure) if !model.open.is_empty() => {
                        let begun = model.open.remove(which % model.open.len());
                        breaker.failed(&begun, failure, at(now));
                        let was_waiting = model.waiting.contains(&begun);
                        model.waiting.retain(|waiting| *waiting != begun);
                        let is_open = state != BreakerState::Closed;
                        match failure {
                            OriginFailure::Unreachable => state = BreakerState::Unreachable,
                            OriginFailure::ConnectTimeout if is_open => state = BreakerState::Unreachable,
                            OriginFailure::ConnectTimeout | OriginFailure::Timeout if was_waiting => {
                                model.ended.extend(begun.page.map(|page| (page, now, false)));
                            }
                            OriginFailure::Reset if begun.page.is_some() && !is_open => {
                                model.ended.push((begun.number, now, true));
                            }
                            _ => {}
                        }
                        let is_silent = model.is_silent(now, breaker.silence());
                        if state == BreakerState::Closed && is_silent && failure == OriginFailure::ConnectTimeout {
                            state = BreakerState::Unreachable;
                        }
                    }
                    Happens::Answer(_) | Happens::Drop(_) | Happens::Fail(..) => {}
                }
                if state == BreakerState::Closed && model.is_silent(now, breaker.silence()) {
                    state = BreakerState::Silent;
                }
                prop_assert_eq!(breaker.state(at(now)), state);
                if state != BreakerState::Closed {
                    model.forget_evidence();
                }
                prop_assert!(breaker.pending.len() <= model.open.len() && breaker.unanswered.len() < 6);
            }
        }
    }
}
