//! Runs a request through its steps.
//!
//! ```text
//!   receive -> [guard] -> [key] -> [lookup] -> [leak guard] -> { [deliver] | [wait] | [pass] }
//!               |   ^                ^  |
//!               |   |                |  '-> [read] (from the disk) -.
//!               |   |          |     '------------------------------'
//!               |   |          '-> [context] -> { [deliver] | [pass] }  (of a session)
//!               |---|----> [files] -> { [deliver] | [key] }  (a file of a directory)
//!               |   '- [refresh]  (an order to purge the page and to fetch it again)
//!               |   '- [authorise]  (checks the password of the site or route)
//!               '----> [purge] -> [reply]
//!
//!   every step may [refuse]; [wait] may join the next fetch, [pass] or look for a stale response
//!   [deliver], [refuse], [reply] -> send -> record                              (`conclude`)
//!          '--> damage on the disk: the rest comes from the origin              (`body_repair`),
//!               a template is looked up again without its stored response       (`assembly`)
//!   the fetch of [wait]: fetch -> judge -> { store and stream | stream only }   (`task`)
//! ```
//!
//! Invariant: every request passes through these steps once and ends in exactly one recorded
//! outcome. A step returns the next step and does not run it. A request that passes shares its
//! fetch with no other request, so it carries everything that its client sent.

use crate::control::counters::Metric;
use crate::control::dashboard_access;
use crate::control::purge_access::Entrance;
use crate::control::purge_orders;
use crate::fetch::disk_reads::{self, ReadOutcome};
use crate::memory::hot_pages::PageVariant;
use crate::memory::leak_guard::is_guarded;
use crate::request::assembly::Unread;
use crate::request::authorise::credentials_of;
use crate::request::client::ClientConnection;
use crate::request::delivery::{ContentSource, Delivery};
use crate::request::files::FileRequest;
use crate::request::guard::{Admitted, RequestSubject, admit, is_silenced};
use crate::request::key::KeyOutcome;
use crate::request::lookup::{DISK_READS_MAX, Decision, PageRequest, Touch};
use crate::request::redirect::redirected;
use crate::request::refusal::Refusal;
use crate::request::step::{PassRequest, Step};
use crate::request::visit::{AfterResponse, Changed, RunningRequest, Visit};
use crate::shared::Shared;
use h1::{BodyFraming, Request};
use message::Method;
use request_log::otlp::Phase;
use semantics::{Coding, Reason};
use std::sync::Arc;
use store::ShelvedObject;

/// Runs a request that was just received through its steps. Returns the next state of the
/// connection.
pub(crate) async fn run(
    shared: &Arc<Shared>,
    worker: usize,
    client: &mut ClientConnection,
    request: &Request,
) -> AfterResponse {
    let without_session = dashboard_access::without_session(request);
    let request = without_session.as_ref().unwrap_or(request);
    let changed = Changed::default();
    let mut visit = Visit::new(shared, worker, client, request, &changed, run_within);
    let mut step = Step::Guard;
    // Large steps of requests that are no hits are boxed, so that a hit needs no memory for them.
    let outcome = loop {
        step = match step {
            Step::Guard => visit.guard(),
            Step::Purge => visit.purge().await,
            Step::Refresh(order) => visit.refresh(order).await,
            Step::Authorise(plan, given) => Box::pin(visit.authorise(plan, given)).await,
            Step::Files(wanted) => visit.files(wanted).await,
            Step::Key(subject) => visit.key(subject),
            Step::Context(request) => Box::pin(visit.context(*request)).await,
            Step::Lookup(page_request) => visit.lookup(page_request),
            Step::LeakGuard(page_request) => Box::pin(visit.leak_guard(page_request)).await,
            Step::Read(page_request, shelved) => {
                let begun = visit.begin_phase();
                let next = visit.read(page_request, shelved).await;
                visit.end_phase(begun, Phase::Disk);
                next
            }
            Step::Wait(waiting) => {
                let begun = visit.begin_phase();
                let next = visit.wait(waiting).await;
                visit.end_phase(begun, Phase::Wait);
                next
            }
            Step::Pass(passing) => {
                let begun = visit.begin_phase();
                let next = Box::pin(visit.pass(passing)).await;
                visit.end_phase(begun, Phase::Pass);
                next
            }
            // A site without ESI pays for one comparison here.
            Step::Deliver(delivery) if visit.is_assembled(&delivery.content) => {
                match Box::pin(visit.assemble(delivery)).await {
                    Ok(outcome) => break outcome,
                    Err(Unread) => Step::Guard,
                }
            }
            Step::Deliver(delivery) => break visit.deliver(delivery).await,
            Step::Refuse(refusal) => break visit.refuse(refusal).await,
            Step::Reply(reply, reason) => break visit.reply(reply, reason).await,
        };
    };
    visit.record(&outcome);
    outcome.after
}

/// As [`run`], for a request of the edge itself.
fn run_within(
    shared: Arc<Shared>,
    worker: usize,
    mut client: ClientConnection,
    request: Box<Request>,
) -> RunningRequest {
    Box::pin(async move { run(&shared, worker, &mut client, &request).await })
}

impl<'a> Visit<'a> {
    /// *guard*: checks limits, method and host, and redirects plain requests to https.
    fn guard(&mut self) -> Step<'a> {
        if let Some(refusal) = self.refused_client() {
            return Step::Refuse(refusal);
        }
        let peer = self.client.peer();
        if purge::is_purge_method(&self.request.head.method) {
            let may_purge =
                self.shared.purge_access.may_purge(Entrance::Visitors, peer, &self.request.head.fields);
            // An order may name the cache itself by any host.
            if may_purge.is_err() && is_silenced(self.shared, &self.request.head) {
                return Step::Refuse(Refusal::unknown_site(true));
            }
            return Step::Purge;
        }
        if let Some(order) = purge_orders::read_refresh(self.shared, peer, &self.request.head) {
            return Step::Refresh(order);
        }
        if matches!(self.request.head.method, Method::Get | Method::Head)
            && let Some(reply) = self.shared.listeners.issuance.reply(&self.request.head.target)
        {
            return Step::Reply(reply, Reason::AcmeChallenge);
        }
        let head = &self.request.head;
        let admitted = match admit(self.shared, self.client.arrival(), self.request) {
            Ok(admitted) => admitted,
            Err(refusal) => return Step::Refuse(refusal),
        };
        self.recipient.fields = admitted.response_fields();
        self.recipient.vary =
            admitted.vary.as_deref().map(|vary| &**self.changed.vary.get_or_init(|| vary.into()));
        self.client.set_content_bytes_max(admitted.content_bytes_max(self.shared));
        if let Some(redirect) = redirected(self.shared, self.client.arrival(), &admitted, head) {
            return Step::Refuse(redirect);
        }
        self.recipient.hsts_secs = admitted.hsts_secs(head);
        if let Some(plan) = admitted.password() {
            self.recipient.is_private = true;
            match credentials_of(head) {
                _ if self.is_authorised => {}
                Some(given) => return Step::Authorise(plan, given),
                None => return Step::Refuse(Refusal::unauthorised(&plan.realm)),
            }
        }
        if let Some(answer) = admitted.answer(self.shared, head) {
            return Step::Refuse(answer);
        }
        match admitted.directory() {
            Some(directory) => Step::Files(FileRequest { admitted, directory }),
            None => self.enter(admitted),
        }
    }

    /// Leads a request to the pages of its site.
    pub(crate) fn enter(&mut self, admitted: Admitted<'a>) -> Step<'a> {
        match admitted.subject(self.shared, &self.request.head) {
            Ok(subject) => {
                self.site = Some(subject.site);
                Step::Key(subject)
            }
            Err(refusal) => Step::Refuse(refusal),
        }
    }

    /// *key*: computes the cache key, if the request may share a response at all.
    fn key(&mut self, subject: RequestSubject<'a>) -> Step<'a> {
        let has_content = self.request.framing != BodyFraming::Empty;
        match KeyOutcome::new(self.shared, subject, &self.request.head, has_content) {
            KeyOutcome::Pass(subject, reason) => self.pass_or_private(subject, reason),
            KeyOutcome::LookUp(mut page_request, head) => {
                self.note_key(&page_request.key);
                self.looked_up = head;
                page_request.must_fetch = self.must_fetch;
                Step::Lookup(page_request)
            }
        }
    }

    /// *lookup*: finds a stored response that this request may receive, or decides on a fetch.
    /// Leaves requests that the leak guard watches to it.
    fn lookup(&self, page_request: PageRequest<'a>) -> Step<'a> {
        if self.shared.is_handed_over() {
            return match page_request.directives.only_if_cached {
                true => Step::Refuse(Refusal::only_if_cached()),
                false => Step::Pass(PassRequest::alone(page_request.subject, Reason::PassHandedOver)),
            };
        }
        if is_guarded(&self.request.head.fields, page_request.subject.site.policy()) {
            return Step::LeakGuard(page_request);
        }
        let decision = page_request.decide(self.shared, self.head(), Touch::Yes, self.begun);
        self.follow(page_request, decision)
    }

    /// The step that a look-up has decided on.
    pub(crate) fn follow(&self, mut page_request: PageRequest<'a>, decision: Decision) -> Step<'a> {
        if matches!(decision, Decision::Pass(_) | Decision::Fetch { .. })
            && let Some(step) = self.flooded(&page_request)
        {
            return step;
        }
        if matches!(decision, Decision::Fetch { .. }) && self.is_beyond_foreign_ports(&page_request) {
            return page_request.pass(Reason::PassForeignPort);
        }
        match decision {
            Decision::Deliver(delivery) => {
                self.note(&page_request);
                self.order_forms(&page_request, &delivery);
                Step::Deliver(delivery)
            }
            Decision::StaleInstead(delivery, base) => {
                self.note(&page_request);
                if delivery.account.reason == Reason::StaleBreakerOpen {
                    self.cells().count(Metric::BreakerStale);
                }
                self.refresh_in_background(&page_request, base);
                Step::Deliver(delivery)
            }
            Decision::Refresh(delivery, base) => {
                self.note(&page_request);
                self.order_forms(&page_request, &delivery);
                self.refresh_in_background(&page_request, base);
                Step::Deliver(delivery)
            }
            Decision::Read(shelved) => Step::Read(page_request, shelved),
            Decision::OnlyIfCached => Step::Refuse(Refusal::only_if_cached()),
            Decision::Pass(reason) => page_request.pass(reason),
            Decision::Fetch { reason, exclusive } => {
                page_request.exclusive |= exclusive;
                self.join(page_request, reason)
            }
        }
    }

    /// *read*: reads the object from disk; then the request is looked up again.
    async fn read(&self, mut page_request: PageRequest<'a>, shelved: ShelvedObject) -> Step<'a> {
        self.cells().count(Metric::DiskReads);
        page_request.disk_reads += 1;
        match disk_reads::read(self.shared, &page_request.key, shelved).await {
            ReadOutcome::Ended => {}
            ReadOutcome::Late => page_request.disk_reads = DISK_READS_MAX,
            ReadOutcome::Refused => {
                self.cells().count(Metric::DiskReadsRefused);
                page_request.disk_reads = DISK_READS_MAX;
            }
        }
        Step::Lookup(page_request)
    }

    /// Orders the coded forms of a stored response when a client uses it for the second time that
    /// would get one of them.
    fn order_forms(&self, page_request: &PageRequest<'_>, delivery: &Delivery) {
        let ContentSource::Stored(object) = &delivery.content else { return };
        // A page takes the gzip form of its template, and of no template within it.
        let is_accepted = || match object.template() {
            Some(_) => page_request.accepted.has(Coding::Gzip) && !self.is_selected_by_cookie(),
            None => !self.accepted_forms(page_request.accepted).is_empty(),
        };
        let is_concerned = || is_accepted() && page_request.range.is_none();
        if !object.is_encodable() || !is_concerned() || !object.counts_for_forms() {
            return;
        }
        if !self.shared.encodings.order(&page_request.key, object) {
            object.order_failed();
            self.cells().count(Metric::EncodingsDropped);
        }
    }

    /// Counts a request for a stored page towards its popularity. Only plain GET requests for a
    /// whole page count, because any visitor may have sent them.
    pub(crate) fn note(&self, page_request: &PageRequest<'_>) {
        let head = self.head();
        if page_request.exclusive || page_request.range.is_some() || head.method != Method::Get {
            return;
        }
        let policy = page_request.subject.site.policy();
        let page = || {
            PageVariant::of(
                &page_request.key,
                &head.fields,
                self.shared.store.known_rule(&page_request.key),
                policy,
            )
        };
        self.shared.hot_pages.note(self.worker, page);
    }
}
