//! What is known about the system that a site runs on, and which rules follow from it.
//!
//! Invariant: the rules change only under the lock of the state. `detection` in `upkeep`
//! inspects responses and changes them.

use bytes::Bytes;
use clock::{Monotonic, Timestamp};
use message::{Method, RequestHead, names};
use semantics::{Moment, format_date};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A detection that no sign has confirmed for this long is dropped.
pub(crate) const UNCONFIRMED_MAX: Duration = Duration::from_secs(7 * 24 * 3600);

/// Maximum number of documents per site and minute whose heads are parsed.
const DOCUMENTS_PER_MINUTE_MAX: u32 = 60;

/// The detection state of a site.
#[derive(Debug, Default)]
pub(crate) struct Detection {
    /// The rules in force, encoded as [`RulesInForce`]. Changed under the lock of the state.
    /// Relaxed is enough for readers: the rules change before the site is invalidated, and the
    /// number of that invalidation is read with `SeqCst`. A fetch with this number therefore sees
    /// the new rules, and the response to an earlier fetch is not stored.
    rules: AtomicU64,
    /// Time of the next inspection, in nanoseconds of the monotonic clock. Relaxed is enough: a
    /// request that reads the previous time inspects a response too many or too few.
    next_look: AtomicU64,
    state: Mutex<DetectionState>,
}

/// The rules in force and the number of changes so far. The same rules after a change are a
/// different value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RulesInForce(u64);

/// The detection and its circumstances.
#[derive(Debug, Default)]
pub(crate) struct DetectionState {
    pub(crate) found: Option<Detected>,
    /// Whether an operator has switched off detection.
    pub(crate) is_off: bool,
    /// The target that the start page redirects to.
    pub(crate) start: Option<Bytes>,
    /// The minute of the monotonic clock in which documents were last parsed, and their number.
    parsed: (u64, u32),
}

/// A detected system.
#[derive(Clone, Debug)]
pub(crate) struct Detected {
    /// Index of its rules in the plan's `recognisable`.
    pub(crate) place: usize,
    /// The name of the detected system.
    pub(crate) software: String,
    /// The signs that it was detected by.
    pub(crate) signs: Vec<String>,
    /// When it was detected.
    pub(crate) since: Timestamp,
    /// When a sign of the same profile was last seen.
    pub(crate) confirmed: Moment,
}

/// The request of a response, as the origin received it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InspectedRequest<'a> {
    pub(crate) method: &'a Method,
    pub(crate) target: &'a [u8],
    pub(crate) host: &'a [u8],
    /// Whether the request has fields by which the origin can tell visitors apart.
    pub(crate) is_personal: bool,
}

impl Detected {
    /// The signs in one line.
    pub(crate) fn evidence(&self) -> String {
        self.signs.join(" and ")
    }

    /// When it was detected, as an HTTP date.
    pub(crate) fn since_text(&self) -> String {
        date_text(self.since)
    }

    /// When a sign was last seen, as an HTTP date.
    pub(crate) fn confirmed_text(&self) -> String {
        date_text(self.confirmed.wall)
    }
}

fn date_text(moment: Timestamp) -> String {
    String::from_utf8_lossy(&format_date(moment)).into_owned()
}

impl RulesInForce {
    /// Index of these rules in the plan's `recognisable`; `None` for the first rules.
    pub(crate) fn place(self) -> Option<usize> {
        usize::from(self.0 as u8).checked_sub(1)
    }

    /// The value after one more change.
    fn changed(self, place: Option<usize>) -> Self {
        // Fewer than 255 profiles are shipped. A larger index would select the first rules, which
        // is safe.
        let place = place.and_then(|place| u8::try_from(place + 1).ok()).unwrap_or_default();
        Self(((self.0 >> 8) + 1) << 8 | u64::from(place))
    }
}

impl<'a> InspectedRequest<'a> {
    /// The request `head`, sent for this target and host.
    pub(crate) fn new(head: &'a RequestHead, target: &'a [u8], host: &'a [u8]) -> Self {
        let is_personal = head.fields.has(names::COOKIE) || head.fields.has(names::AUTHORIZATION);
        Self { method: &head.method, target, host, is_personal }
    }
}

impl Detection {
    /// The detection in force.
    pub(crate) fn found(&self) -> Option<Detected> {
        self.state().found.clone()
    }

    /// Whether an operator has switched off detection.
    pub(crate) fn is_off(&self) -> bool {
        self.state().is_off
    }

    /// Takes over a detection of the previous process at the start.
    pub(crate) fn restore(&self, found: Detected) {
        let mut state = self.state();
        self.set_rules(Some(found.place));
        state.found = Some(found);
    }

    /// Switches off detection.
    pub(crate) fn switch_off(&self) {
        self.set_off(&mut self.state(), true);
    }

    /// The rules in force.
    pub(crate) fn rules(&self) -> RulesInForce {
        RulesInForce(self.rules.load(Ordering::Relaxed))
    }

    /// Must be called with the lock of the state held.
    pub(crate) fn set_rules(&self, place: Option<usize>) {
        self.rules.store(self.rules().changed(place).0, Ordering::Relaxed);
    }

    /// Responses are inspected again from this time on.
    pub(crate) fn look_from(&self, from: Monotonic) {
        self.next_look.store(from.as_nanos(), Ordering::Relaxed);
    }

    /// Whether responses are inspected at this time.
    pub(crate) fn is_due(&self, now: Monotonic) -> bool {
        now.as_nanos() >= self.next_look.load(Ordering::Relaxed)
    }

    /// Switches detection off or on. It then looks for signs at once.
    pub(crate) fn set_off(&self, state: &mut DetectionState, is_off: bool) {
        state.is_off = is_off;
        self.next_look.store(if is_off { u64::MAX } else { 0 }, Ordering::Relaxed);
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, DetectionState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl DetectionState {
    /// Whether one more document may be parsed in this minute.
    pub(crate) fn take_document(&mut self, now: Monotonic) -> bool {
        let minute = now.as_nanos() / 60_000_000_000;
        if self.parsed.0 != minute {
            self.parsed = (minute, 0);
        }
        self.parsed.1 += 1;
        self.parsed.1 <= DOCUMENTS_PER_MINUTE_MAX
    }

    /// Whether a request is for the start page and does not identify its visitor.
    pub(crate) fn is_start(&self, sent: &InspectedRequest<'_>) -> bool {
        !sent.is_personal && (sent.target == b"/" || self.start.as_deref() == Some(sent.target))
    }
}

#[cfg(test)]
mod tests {
    use super::{DOCUMENTS_PER_MINUTE_MAX, DetectionState, RulesInForce};
    use clock::Monotonic;
    use std::time::Duration;

    #[test]
    fn same_rules_after_a_change_are_a_different_value() {
        let first = RulesInForce::default();
        let found = first.changed(Some(3));
        let dropped = found.changed(None);
        assert_eq!([first.place(), found.place(), dropped.place()], [None, Some(3), None]);
        assert_ne!(first, dropped);
        assert_ne!(found, dropped.changed(Some(3)));
        assert_eq!(first.changed(Some(1_000)).place(), None);
    }

    #[test]
    fn documents_are_parsed_at_a_bounded_rate() {
        let (mut state, now) = (DetectionState::default(), Monotonic::from_nanos(1));
        for _ in 0..DOCUMENTS_PER_MINUTE_MAX {
            assert!(state.take_document(now));
        }
        assert!(!state.take_document(now));
        assert!(state.take_document(now.plus(Duration::from_secs(60))));
    }
}
