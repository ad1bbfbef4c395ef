//! Looks at a page of a run that fills the cache, and fetches it if it is not stored.
//!
//! Invariants: the steps of the pipeline decide, so that an object is stored under the key, tags
//! and variant that a visitor's request finds. The fetch is that of a refill: it contains nothing
//! of any visitor, requests join it, and a purge revokes it. The end of the run does not end it,
//! because visitors may wait for it.

use crate::control::counters::Metric;
use crate::control::simulated_request::SimulatedRequest;
use crate::fetch::base::Base;
use crate::fetch::coalesced_fetch::FetchState;
use crate::fetch::{refetch, task};
use crate::memory::hot_pages::PageVariant;
use crate::request::files;
use crate::request::foreign_ports::is_beyond_foreign_ports;
use crate::request::guard::{RequestSubject, admit};
use crate::request::key::KeyOutcome;
use crate::request::lookup::{Decision, Touch};
use crate::request::redirect::redirected;
use crate::request::refusal::Refusal;
use crate::shared::Shared;
use crate::sites::Site;
use api::why::Question;
use crawl::PageOutcome;
use h1::Request;
use message::{Fields, Status, names};
use profiles::DeviceClass;
use semantics::{Moment, Reason, SHARED_MOBILE_USER_AGENT, SHARED_USER_AGENT, is_server_error};
use std::panic::resume_unwind;
use std::sync::Arc;
use std::time::Duration;

/// What browsers accept over https and over http. A page is fetched with the second one too, if its
/// responses vary by it.
const ACCEPTED: [&str; 2] = ["gzip, deflate, br, zstd", "gzip, deflate"];

/// Maximum number of fetches for one page: two for each combination of coding and device, because
/// the first may show that the page varies on more fields than was known.
const FETCHES_MAX: u32 = 8;

/// A visitor for whom a page is looked up.
#[derive(Clone, Copy, Debug)]
struct Viewer {
    accepted: &'static str,
    agent: &'static str,
}

/// A fetch that a page needs.
pub(super) struct PageFetch {
    site: Arc<Site>,
    page: PageVariant,
    base: Option<Base>,
    /// Why the page is not stored for its viewer.
    reason: Reason,
}

/// What a page needs.
pub(super) enum PageNeed {
    /// It is stored and fresh for all viewers.
    Nothing,
    /// It cannot be stored, for this reason.
    Never(&'static str),
    /// It must be fetched.
    Fetch(Box<PageFetch>),
}

impl PageFetch {
    /// Whether the origin of the page, which may be that of a route, has time for the fetch.
    pub(super) fn has_time(&self) -> bool {
        self.site.origin.has_time()
    }
}

/// The outcome of one fetch.
enum Fetched {
    Stored(Duration),
    Refused(String, Duration),
    Failed { took: Duration, retry_after: Option<Duration> },
    Postponed,
}

/// Looks a page up as the pipeline does for each kind of visitor, without side effects.
pub(super) async fn need(shared: &Arc<Shared>, url: &str) -> PageNeed {
    let mut has_devices = false;
    for agent in [SHARED_USER_AGENT, SHARED_MOBILE_USER_AGENT] {
        for accepted in ACCEPTED {
            match need_of(shared, url, Viewer { accepted, agent }, &mut has_devices).await {
                PageNeed::Nothing => {}
                other => return other,
            }
        }
        if !has_devices {
            break;
        }
    }
    PageNeed::Nothing
}

/// Fetches a page in all variants that its visitors need.
pub(super) async fn fetch(shared: Arc<Shared>, url: String, first: Box<PageFetch>) -> PageOutcome {
    let (mut slowest, mut next) = (Duration::ZERO, first);
    for _ in 0..FETCHES_MAX {
        match fetch_once(&shared, &next).await {
            Fetched::Stored(took) => slowest = slowest.max(took),
            Fetched::Refused(reason, took) => return PageOutcome::NotCacheable(reason, Some(took)),
            Fetched::Failed { took, retry_after } => return PageOutcome::Failed { took, retry_after },
            Fetched::Postponed => return PageOutcome::Postponed,
        }
        let shared = shared.current();
        match need(&shared, &url).await {
            PageNeed::Nothing => break,
            PageNeed::Never(reason) => return PageOutcome::NotCacheable(reason.to_owned(), Some(slowest)),
            PageNeed::Fetch(more) if more.reason == Reason::MissVariant => {
                // A page of which visitors need another variant is not lost: it is looked at again.
                if !more.site.origin.has_time() {
                    return PageOutcome::Postponed;
                }
                next = more;
            }
            // Its response was not stored, or is stale at once.
            PageNeed::Fetch(more) => {
                return PageOutcome::NotCacheable(more.reason.name().to_owned(), Some(slowest));
            }
        }
    }
    PageOutcome::Warmed(slowest)
}

/// The request for a URL as the edge makes it.
pub(super) fn question(url: &str, headers: &[(&str, &str)]) -> Question {
    let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Question { url: url.to_owned(), method: "GET".to_owned(), headers }
}

/// The time that a response asks its client to wait. A date is not read: an origin in trouble
/// states seconds.
pub(super) fn retry_after(fields: &Fields) -> Option<Duration> {
    let text = std::str::from_utf8(fields.only(names::RETRY_AFTER)?).ok()?;
    text.trim().parse().ok().map(Duration::from_secs)
}

async fn need_of(shared: &Arc<Shared>, url: &str, viewer: Viewer, has_devices: &mut bool) -> PageNeed {
    let question =
        question(url, &[(names::ACCEPT_ENCODING, viewer.accepted), (names::USER_AGENT, viewer.agent)]);
    let Ok(SimulatedRequest { request, arrival }) = SimulatedRequest::new(shared, &question) else {
        return PageNeed::Never(Reason::BadRequest.name());
    };
    let refused = |refusal: Refusal| PageNeed::Never(refusal.reason.name());
    let request = match request {
        Ok(request) => request,
        Err(refusal) => return refused(refusal),
    };
    let admitted = match admit(shared, arrival, &request) {
        Ok(admitted) => admitted,
        Err(refusal) => return refused(refusal),
    };
    if admitted.password().is_some() {
        return PageNeed::Never(Reason::PasswordRequired.name());
    }
    if let Some(redirect) = redirected(shared, arrival, &admitted, &request.head) {
        return refused(redirect);
    }
    if let Some(answer) = admitted.answer(shared, &request.head) {
        return refused(answer);
    }
    if let Some(directory) = admitted.directory() {
        let head = &request.head;
        let found = files::explain(shared, directory, (&head.method, &admitted.target, &head.fields)).await;
        if found.is_some() {
            return PageNeed::Nothing;
        }
    }
    match admitted.subject(shared, &request.head) {
        Ok(subject) => {
            *has_devices = subject.site.policy().device_class != DeviceClass::None;
            looked_up(shared, subject, &request)
        }
        Err(refusal) => refused(refusal),
    }
}

/// *key* and *lookup*, as the pipeline does them.
fn looked_up(shared: &Shared, subject: RequestSubject<'_>, request: &Request) -> PageNeed {
    let (site, now) = (Arc::clone(subject.site), Moment::read(&*shared.clock));
    let (page_request, reduced) = match KeyOutcome::new(shared, subject, &request.head, false) {
        KeyOutcome::LookUp(page_request, reduced) => (page_request, reduced),
        KeyOutcome::Pass(_, reason) => return PageNeed::Never(reason.name()),
    };
    let (head, key) = (reduced.as_deref().unwrap_or(&request.head), &page_request.key);
    let remembered = shared.hit_for_miss.reason(key, now.monotonic);
    let reason = match page_request.decide(shared, head, Touch::No, now) {
        // An object that is only on the disk is read when a visitor wants it.
        Decision::Deliver(_) | Decision::Read(_) => return PageNeed::Nothing,
        Decision::OnlyIfCached => return PageNeed::Never(Reason::OnlyIfCached.name()),
        Decision::Pass(reason) => return PageNeed::Never(remembered.unwrap_or(reason).name()),
        Decision::Fetch { reason, exclusive: true } => {
            return PageNeed::Never(remembered.unwrap_or(reason).name());
        }
        Decision::Fetch { .. }
            if is_beyond_foreign_ports(shared, &page_request, &head.fields, now.monotonic) =>
        {
            return PageNeed::Never(Reason::PassForeignPort.name());
        }
        Decision::Fetch { reason, .. } => reason,
        Decision::Refresh(delivery, _) | Decision::StaleInstead(delivery, _) => delivery.account.reason,
    };
    let known = shared.store.known_rule(key);
    let Some(page) = PageVariant::of(key, &head.fields, known, site.policy()) else {
        // Its responses depend on more of a visitor than a fetch may contain.
        return PageNeed::Never(Reason::MissVariant.name());
    };
    let base = refetch::stored_base(shared, &page, false);
    PageNeed::Fetch(Box::new(PageFetch { site, page, base, reason }))
}

/// Carries out one fetch.
async fn fetch_once(shared: &Arc<Shared>, wanted: &PageFetch) -> Fetched {
    let PageFetch { site, page, base, .. } = wanted;
    let begun = shared.clock.monotonic();
    let Some((fetch, mut task)) = refetch::task(shared, 0, site, page, base.clone(), || false) else {
        // A visitor's request fetches the page.
        return Fetched::Postponed;
    };
    task.request.probe = site.origin.claim_probe();
    let is_probe = task.request.probe.is_some();
    shared.cells(0).count(Metric::WarmFetches);
    if let Err(error) = tokio::spawn(task::run(task)).await
        && let Ok(panic) = error.try_into_panic()
    {
        resume_unwind(panic);
    }
    // Reading the content may take long because of its size, and says little of the origin.
    let took = fetch.phases().map_or_else(
        || shared.clock.monotonic().since(begun),
        |phases| phases.queue + phases.connect + phases.first_byte,
    );
    let state = fetch.subscribe().borrow().state.clone();
    match state {
        FetchState::Shared(response) => ended(took, response.head.status, &response.head.fields),
        FetchState::Private(response) => {
            let claimed = response.claim();
            let no_fields = Fields::new();
            let fields = claimed.as_ref().map_or(&no_fields, |response| &response.head.fields);
            match ended(took, response.status, fields) {
                Fetched::Stored(_) => Fetched::Refused(response.reason.name().to_owned(), took),
                other => other,
            }
        }
        FetchState::Denied => Fetched::Refused(Reason::StoreRefusedDenied.name().to_owned(), took),
        // The next look says what is stored.
        FetchState::Confirmed(_) | FetchState::Void => Fetched::Stored(took),
        // The breaker opens before a run would end because of failures, and the page waits. A page
        // that fails as the probe counts, or the same page could be the probe for ever.
        FetchState::Failed(_) if site.origin.is_open() && !is_probe => Fetched::Postponed,
        FetchState::Failed(_) | FetchState::Waiting => Fetched::Failed { took, retry_after: None },
    }
}

/// The outcome of a response that may be stored.
fn ended(took: Duration, status: Status, fields: &Fields) -> Fetched {
    if is_server_error(status) || status.code() == 429 {
        return Fetched::Failed { took, retry_after: retry_after(fields) };
    }
    match status.code() {
        code @ 400.. => Fetched::Refused(format!("status {code}"), took),
        _ => Fetched::Stored(took),
    }
}
