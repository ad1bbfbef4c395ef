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
use crate::memory::detection::{Detected, DetectionState, InspectedRequest, UNCONFIRMED_MAX};
use crate::shared::Shared;
use crate::sites::Site;
use crate::upkeep::detections_file::DetectionsFile;
use bytes::Bytes;
use clock::Monotonic;
use flate2::bufread::GzDecoder;
use invalidation::Mode;
use message::{Fields, Method, ResponseHead, names};
use page::{HEAD_BYTES_MAX, document_head, target_on_host};
use profiles::{DocumentHead, ResponseEvidence};
use semantics::Moment;
use std::io::Read;
use std::sync::{Arc, PoisonError};
use std::time::Duration;
use store::{Invalidation, Selector};

/// Time from one confirmation until responses are inspected again.
const CONFIRMED_FOR: Duration = Duration::from_secs(3600);

/// Why a detection is dropped.
#[derive(Clone, Copy, Debug)]
enum DropReason {
    Unconfirmed,
    ByOperator,
}

/// Inspects the head of a site's response.
pub(crate) fn inspect_head(
    shared: &Arc<Shared>,
    site: &Arc<Site>,
    sent: InspectedRequest<'_>,
    head: &ResponseHead,
) {
    let now = Moment::read(&*shared.clock);
    if !site.is_inspected(now.monotonic) {
        return;
    }
    let mut state = site.detection.state();
    if let Some(start) = redirected(&sent, head).filter(|_| state.is_start(&sent)) {
        state.start = Some(start);
    }
    detect(shared, site, &mut state, &sent, head, None, now);
    if let Some(found) = &state.found
        && now.since(found.confirmed) >= UNCONFIRMED_MAX
    {
        drop_detection(shared, site, &mut state, DropReason::Unconfirmed);
    }
}

/// Inspects the beginning of the document in a response.
pub(crate) fn inspect_document(
    shared: &Arc<Shared>,
    site: &Arc<Site>,
    sent: InspectedRequest<'_>,
    head: &ResponseHead,
    octets: &[u8],
) {
    let now = Moment::read(&*shared.clock);
    if !site.is_inspected(now.monotonic) {
        return;
    }
    let mut state = site.detection.state();
    // Unless it is the start page, a document counts only together with a cookie that the
    // response sets.
    let is_start = state.is_start(&sent);
    let matters = is_start || head.fields.has(names::SET_COOKIE);
    if !matters || !shown(&sent, head, None, is_start).counts() || !state.take_document(now.monotonic) {
        return;
    }
    drop(state);
    let Some(beginning) = beginning(&head.fields, octets) else { return };
    shared.cells(0).count(Metric::DetectionDocuments);
    let media_type = head.fields.first(names::CONTENT_TYPE).map_or(&[][..], |value| &value[..]);
    let document = document_head(&beginning, media_type, sent.host);
    let mut state = site.detection.state();
    detect(shared, site, &mut state, &sent, head, Some(&document), now);
}

fn detect(
    shared: &Arc<Shared>,
    site: &Arc<Site>,
    state: &mut DetectionState,
    sent: &InspectedRequest<'_>,
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
            let found = Detected { place, software, signs, since: now.wall, confirmed: now };
            change(shared, site, state, Some(found));
            shared.cells(0).count(Metric::SitesRecognised);
        }
    }
    site.detection.look_from(now.monotonic.plus(CONFIRMED_FOR));
    note_aside(shared, site);
}

/// Returns a site to its first rules.
fn drop_detection(shared: &Arc<Shared>, site: &Arc<Site>, state: &mut DetectionState, why: DropReason) {
    let Some(found) = &state.found else { return };
    let why = match why {
        DropReason::Unconfirmed => "no response has shown a sign of it for seven days",
        DropReason::ByOperator => "an operator dropped the detection",
    };
    tracing::info!(
        "{} no longer counts as {}, because {why}: profile {} from now on",
        site.label(),
        found.software,
        site.plan.policy.name
    );
    change(shared, site, state, None);
    site.detection.look_from(Monotonic::default());
    shared.cells(0).count(Metric::DetectionsDropped);
    note_aside(shared, site);
}

/// Changes the rules of a site and invalidates everything of it.
fn change(shared: &Shared, site: &Site, state: &mut DetectionState, found: Option<Detected>) {
    site.detection.set_rules(found.as_ref().map(|found| found.place));
    state.found = found;
    // Routes with the same detection change their rules too.
    for other in shared.sites.iter().filter(|other| Arc::ptr_eq(&other.state, &site.state)) {
        let selector = Selector::Everything { site: Some(other.id) };
        shared.tell(Invalidation { selector, mode: Mode::Hard });
    }
    // Responses that could not be shared by the old rules may be shareable by the new ones.
    shared.hit_for_miss.forget_all();
    shared.sweeper.wake();
}

/// Drops the detection of a site, if there is one. With `detects` it then looks for signs anew;
/// otherwise detection stays off until it is switched on again. Returns whether the disk
/// confirmed in time that the next process will know.
pub(crate) async fn set_detection(shared: &Arc<Shared>, site: &Arc<Site>, detects: bool) -> bool {
    {
        let mut state = site.detection.state();
        drop_detection(shared, site, &mut state, DropReason::ByOperator);
        site.detection.set_off(&mut state, !detects);
    }
    let (own, site) = (Arc::clone(shared), Arc::clone(site));
    let within = shared.limits.disk_timeout;
    shared.disk_threads.run(within, move || note(&own, &site)).await.unwrap_or(false)
}

fn note_aside(shared: &Arc<Shared>, site: &Arc<Site>) {
    let (own, site) = (Arc::clone(shared), Arc::clone(site));
    // No caller waits for the result.
    drop(shared.disk_threads.begin(move || note(&own, &site)));
}

/// Records the detections for the next process, after the invalidation that came with the
/// change is durable. Returns false on failure.
fn note(shared: &Shared, site: &Site) -> bool {
    shared.static_tree.lose(&shared.store);
    if !shared.persist() {
        return false;
    }
    let Some(disk) = &shared.plan.disk else { return true };
    let _writing = shared.detections_file.lock().unwrap_or_else(PoisonError::into_inner);
    // Under the lock, because a process that takes over has the directory after it was released.
    if shared.persistence.is_off() {
        return false;
    }
    let file = DetectionsFile { directory: &disk.directory, disk: &shared.system.disk };
    let newest = shared.newest();
    let sites = newest.as_deref().map_or(&shared.sites, |newest| &newest.sites);
    let written = file.write(sites.iter());
    if let Err(error) = &written {
        tracing::warn!(
            "a restart will lose the detection of {}, because {} cannot be written: {error}",
            site.label(),
            disk.directory.display()
        );
    }
    written.is_ok()
}

fn shown<'a>(
    sent: &InspectedRequest<'a>,
    head: &'a ResponseHead,
    document: Option<&'a DocumentHead>,
    is_start: bool,
) -> ResponseEvidence<'a> {
    ResponseEvidence {
        method: sent.method,
        target: sent.target,
        status: head.status,
        fields: &head.fields,
        head: document,
        is_start,
    }
}

/// The target on the same host that a response redirects to.
fn redirected(sent: &InspectedRequest<'_>, head: &ResponseHead) -> Option<Bytes> {
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
