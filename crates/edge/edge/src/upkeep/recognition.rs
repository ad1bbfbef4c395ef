//! Detection: recognises the CMS of a site from its responses and switches to the matching profile.
//!
//! A detection lasts while signs confirm it. It is dropped if no sign has confirmed it for
//! [`UNCONFIRMED_MAX`] or if an operator rejects it. The site then returns to its first rules.
//!
//! Invariant: a response that was judged by the rules before a change is never used after it. Under
//! the lock of the site's state, the rules change first and then everything of the site is
//! invalidated. An old response is therefore removed, or, if it is still being fetched, neither
//! stored nor shared. A request that was read with the old rules and would start a fetch after the
//! change is read again.
//!
//! For a hit, detection costs only atomic loads. Responses are inspected until something is
//! detected, and once an hour afterwards.

use crate::control::counters::Metric;
use crate::shared::Shared;
use crate::sites::Site;
use crate::upkeep::detections_file;
use crate::upkeep::disk_threads;
use bytes::Bytes;
use clock::{Monotonic, Timestamp};
use flate2::bufread::GzDecoder;
use invalidation::Mode;
use message::{Fields, Method, RequestHead, ResponseHead, names};
use page::{HEAD_BYTES_MAX, document_head, target_on_host};
use profiles::{DocumentHead, Policy, Shown};
use semantics::{Moment, format_date};
use std::io::Read;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use store::{Invalidation, Selector};

/// A detection that no sign has confirmed for this long is dropped.
pub(crate) const UNCONFIRMED_MAX: Duration = Duration::from_secs(7 * 24 * 3600);

/// Time from one confirmation until responses are inspected again.
const CONFIRMED_FOR: Duration = Duration::from_secs(3600);

/// Maximum number of documents per site and minute whose heads are parsed.
const DOCUMENTS_PER_MINUTE_MAX: u32 = 60;

/// The detection state of a site.
#[derive(Debug, Default)]
pub(crate) struct Recognition {
    /// The rules in force, encoded as [`Rules`]. Changed under the lock of the state. Relaxed is
    /// enough for readers: the rules change before the site is invalidated, and the number of that
    /// invalidation is read with `SeqCst`. A fetch with this number therefore sees the new rules,
    /// and the response to an earlier fetch is not stored.
    rules: AtomicU64,
    /// Time of the next inspection, in nanoseconds of the monotonic clock. Relaxed is enough: a
    /// request that reads the previous time inspects a response too many or too few.
    next_look: AtomicU64,
    state: Mutex<State>,
}

/// The rules in force and the number of changes so far. The same rules after a change are a
/// different value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rules(u64);

#[derive(Debug, Default)]
struct State {
    found: Option<Found>,
    /// Whether an operator has switched off detection.
    is_off: bool,
    /// The target that the start page redirects to.
    start: Option<Bytes>,
    /// The minute of the monotonic clock in which documents were last parsed, and their number.
    parsed: (u64, u32),
}

/// A detected system.
#[derive(Clone, Debug)]
pub(crate) struct Found {
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

/// Why a detection is dropped.
#[derive(Clone, Copy, Debug)]
enum Dropped {
    Unconfirmed,
    ByOperator,
}

/// The request of a response, as the origin received it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent<'a> {
    pub(crate) method: &'a Method,
    pub(crate) target: &'a [u8],
    pub(crate) host: &'a [u8],
    /// Whether the request has fields by which the origin can tell visitors apart.
    pub(crate) is_personal: bool,
}

impl Found {
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

impl Rules {
    /// Index of these rules in the plan's `recognisable`; `None` for the first rules.
    fn place(self) -> Option<usize> {
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

impl<'a> Sent<'a> {
    /// The request `head`, sent for this target and host.
    pub(crate) fn new(head: &'a RequestHead, target: &'a [u8], host: &'a [u8]) -> Self {
        let is_personal = head.fields.has(names::COOKIE) || head.fields.has(names::AUTHORIZATION);
        Self { method: &head.method, target, host, is_personal }
    }
}

impl Recognition {
    /// The detection in force.
    pub(crate) fn found(&self) -> Option<Found> {
        self.state().found.clone()
    }

    /// Whether an operator has switched off detection.
    pub(crate) fn is_off(&self) -> bool {
        self.state().is_off
    }

    /// Takes over a detection of the previous process at the start.
    pub(crate) fn recall(&self, found: Found) {
        let mut state = self.state();
        self.set_rules(Some(found.place));
        state.found = Some(found);
    }

    /// Switches off detection.
    pub(crate) fn switch_off(&self) {
        self.state().is_off = true;
        self.next_look.store(u64::MAX, Ordering::Relaxed);
    }

    fn rules(&self) -> Rules {
        Rules(self.rules.load(Ordering::Relaxed))
    }

    /// Must be called with the lock of the state held.
    fn set_rules(&self, place: Option<usize>) {
        self.rules.store(self.rules().changed(place).0, Ordering::Relaxed);
    }

    fn look_from(&self, from: Monotonic) {
        self.next_look.store(from.as_nanos(), Ordering::Relaxed);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Whether one more document may be parsed in this minute.
    fn take_document(&mut self, now: Monotonic) -> bool {
        let minute = now.as_nanos() / 60_000_000_000;
        if self.parsed.0 != minute {
            self.parsed = (minute, 0);
        }
        self.parsed.1 += 1;
        self.parsed.1 <= DOCUMENTS_PER_MINUTE_MAX
    }

    /// Whether a request is for the start page and does not identify its visitor.
    fn is_start(&self, sent: &Sent<'_>) -> bool {
        !sent.is_personal && (sent.target == b"/" || self.start.as_deref() == Some(sent.target))
    }
}

impl Site {
    /// The rules in force.
    pub(crate) fn policy(&self) -> &Policy {
        let found = self.recognised().and_then(|place| self.plan.recognisable.get(place));
        found.unwrap_or(&self.plan.policy)
    }

    /// Identifies the rules in force, for a later comparison.
    pub(crate) fn rules(&self) -> Rules {
        self.recognition.rules()
    }

    /// Index of the rules in force in the plan's `recognisable`; `None` for the first rules.
    pub(crate) fn recognised(&self) -> Option<usize> {
        self.rules().place()
    }

    /// Whether the site's responses are inspected now.
    pub(crate) fn is_looked_at(&self, now: Monotonic) -> bool {
        !self.plan.recognisable.is_empty()
            && now.as_nanos() >= self.recognition.next_look.load(Ordering::Relaxed)
    }
}

impl Shared {
    /// Inspects the head of a site's response.
    pub(crate) fn look(self: &Arc<Self>, site: &Arc<Site>, sent: Sent<'_>, head: &ResponseHead) {
        let now = Moment::read(&*self.clock);
        if !site.is_looked_at(now.monotonic) {
            return;
        }
        let mut state = site.recognition.state();
        if let Some(start) = redirected(&sent, head).filter(|_| state.is_start(&sent)) {
            state.start = Some(start);
        }
        self.recognise(site, &mut state, &sent, head, None, now);
        if let Some(found) = &state.found
            && now.since(found.confirmed) >= UNCONFIRMED_MAX
        {
            self.drop_detection(site, &mut state, Dropped::Unconfirmed);
        }
    }

    /// Inspects the beginning of the document in a response.
    pub(crate) fn look_into(
        self: &Arc<Self>,
        site: &Arc<Site>,
        sent: Sent<'_>,
        head: &ResponseHead,
        octets: &[u8],
    ) {
        let now = Moment::read(&*self.clock);
        if !site.is_looked_at(now.monotonic) {
            return;
        }
        let mut state = site.recognition.state();
        // Unless it is the start page, a document counts only together with a cookie that the
        // response sets.
        let is_start = state.is_start(&sent);
        let matters = is_start || head.fields.has(names::SET_COOKIE);
        if !matters || !shown(&sent, head, None, is_start).counts() || !state.take_document(now.monotonic) {
            return;
        }
        drop(state);
        let Some(beginning) = beginning(&head.fields, octets) else { return };
        self.cells(0).count(Metric::DetectionDocuments);
        let media_type = head.fields.first(names::CONTENT_TYPE).map_or(&[][..], |value| &value[..]);
        let document = document_head(&beginning, media_type, sent.host);
        let mut state = site.recognition.state();
        self.recognise(site, &mut state, &sent, head, Some(&document), now);
    }

    fn recognise(
        self: &Arc<Self>,
        site: &Arc<Site>,
        state: &mut State,
        sent: &Sent<'_>,
        head: &ResponseHead,
        document: Option<&DocumentHead>,
        now: Moment,
    ) {
        if state.is_off {
            return;
        }
        let shown = shown(sent, head, document, state.is_start(sent));
        let Some(recognised) = shown.recognised() else { return };
        let name = &recognised.profile.name;
        let Some(place) = site.plan.recognisable.iter().position(|policy| policy.name == *name) else {
            return;
        };
        match &mut state.found {
            Some(found) if found.place == place => found.confirmed = now,
            // Another system on the same site neither confirms nor replaces the first one.
            Some(_) => return,
            None => {
                let (software, signs) = (recognised.software.to_owned(), recognised.signs);
                tracing::info!(
                    "{} runs on {software} ({}): profile {name} from now on",
                    site.label(),
                    signs.join(" and ")
                );
                let found = Found { place, software, signs, since: now.wall, confirmed: now };
                self.change(site, state, Some(found));
                self.cells(0).count(Metric::SitesRecognised);
            }
        }
        site.recognition.look_from(now.monotonic.plus(CONFIRMED_FOR));
        self.note_aside(site);
    }

    /// Returns a site to its first rules.
    fn drop_detection(self: &Arc<Self>, site: &Arc<Site>, state: &mut State, why: Dropped) {
        let Some(found) = &state.found else { return };
        let why = match why {
            Dropped::Unconfirmed => "no response has shown a sign of it for seven days",
            Dropped::ByOperator => "an operator dropped the detection",
        };
        tracing::info!(
            "{} no longer counts as {}, because {why}: profile {} from now on",
            site.label(),
            found.software,
            site.plan.policy.name
        );
        self.change(site, state, None);
        site.recognition.look_from(Monotonic::default());
        self.cells(0).count(Metric::DetectionsDropped);
        self.note_aside(site);
    }

    /// Changes the rules of a site and invalidates everything of it.
    fn change(&self, site: &Site, state: &mut State, found: Option<Found>) {
        site.recognition.set_rules(found.as_ref().map(|found| found.place));
        state.found = found;
        let selector = Selector::Everything { site: Some(site.id) };
        self.tell(Invalidation { selector, mode: Mode::Hard });
        // Responses that could not be shared by the old rules may be shareable by the new ones.
        self.hit_for_miss.forget_all();
        self.sweeper.wake();
    }

    /// Drops the detection of a site, if there is one. With `detects` it then looks for signs anew;
    /// otherwise detection stays off until it is switched on again. Returns whether the disk
    /// confirmed in time that the next process will know.
    pub(crate) async fn set_detection(self: &Arc<Self>, site: &Arc<Site>, detects: bool) -> bool {
        {
            let mut state = site.recognition.state();
            self.drop_detection(site, &mut state, Dropped::ByOperator);
            state.is_off = !detects;
            site.recognition.next_look.store(if detects { 0 } else { u64::MAX }, Ordering::Relaxed);
        }
        let (shared, site) = (Arc::clone(self), Arc::clone(site));
        disk_threads::run(self.limits.disk_timeout, move || shared.note(&site)).await.unwrap_or(false)
    }

    fn note_aside(self: &Arc<Self>, site: &Arc<Site>) {
        let (shared, site) = (Arc::clone(self), Arc::clone(site));
        // No caller waits for the result.
        drop(disk_threads::begin(move || shared.note(&site)));
    }

    /// Records the detections for the next process, after the invalidation that came with the
    /// change is durable. Returns false on failure.
    fn note(&self, site: &Site) -> bool {
        self.static_tree.lose(&self.store);
        if !self.persist() {
            return false;
        }
        let Some(disk) = &self.plan.disk else { return true };
        if self.persistence.is_off() {
            return false;
        }
        let _writing = self.detections_file.lock().unwrap_or_else(PoisonError::into_inner);
        let written = detections_file::write(&disk.directory, self.sites.iter());
        if let Err(error) = &written {
            tracing::warn!(
                "a restart will lose the detection of {}, because {} cannot be written: {error}",
                site.label(),
                disk.directory.display()
            );
        }
        written.is_ok()
    }
}

fn shown<'a>(
    sent: &Sent<'a>,
    head: &'a ResponseHead,
    document: Option<&'a DocumentHead>,
    is_start: bool,
) -> Shown<'a> {
    Shown {
        method: sent.method,
        target: sent.target,
        status: head.status,
        fields: &head.fields,
        head: document,
        is_start,
    }
}

/// The target on the same host that a response redirects to.
fn redirected(sent: &Sent<'_>, head: &ResponseHead) -> Option<Bytes> {
    if *sent.method != Method::Get || !matches!(head.status.code(), 301 | 302 | 303 | 307 | 308) {
        return None;
    }
    let location = std::str::from_utf8(head.fields.only(names::LOCATION)?).ok()?;
    let target = target_on_host(location, sent.host)?;
    let target = target.split('#').next().filter(|target| target.starts_with('/'))?;
    Some(Bytes::copy_from_slice(target.as_bytes()))
}

/// The first bytes of a content without its coding; `None` for codings other than gzip.
fn beginning(fields: &Fields, octets: &[u8]) -> Option<Vec<u8>> {
    let octets = octets.get(..HEAD_BYTES_MAX).unwrap_or(octets);
    let Some(coding) = fields.first(names::CONTENT_ENCODING) else { return Some(octets.to_vec()) };
    if !coding.eq_ignore_ascii_case(b"gzip") {
        return None;
    }
    let mut beginning = Vec::new();
    // The compressed content ends midway. That is an error only after the bytes that could be read.
    let _ = GzDecoder::new(octets).take(HEAD_BYTES_MAX as u64).read_to_end(&mut beginning);
    Some(beginning)
}

#[cfg(test)]
mod tests {
    use super::{DOCUMENTS_PER_MINUTE_MAX, Rules, State};
    use clock::Monotonic;
    use std::time::Duration;

    #[test]
    fn same_rules_after_a_change_are_a_different_value() {
        let first = Rules::default();
        let found = first.changed(Some(3));
        let dropped = found.changed(None);
        assert_eq!([first.place(), found.place(), dropped.place()], [None, Some(3), None]);
        assert_ne!(first, dropped);
        assert_ne!(found, dropped.changed(Some(3)));
        assert_eq!(first.changed(Some(1_000)).place(), None);
    }

    #[test]
    fn documents_are_parsed_at_a_bounded_rate() {
        let (mut state, now) = (State::default(), Monotonic::from_nanos(1));
        for _ in 0..DOCUMENTS_PER_MINUTE_MAX {
            assert!(state.take_document(now));
        }
        assert!(!state.take_document(now));
        assert!(state.take_document(now.plus(Duration::from_secs(60))));
    }
}
