//! The life of a request, as named steps with explicit outcomes.
//!
//! ```text
//!   receive -> guard -> key -> lookup -> { deliver | wait for a fetch | pass | refuse }
//!                               ^  |                           (`lookup`, `wait`, `pass`)
//!                               |  '-> load from the disk -.   (`loads`)
//!                               '--------------------------'
//!              fetch -> judge -> { store and stream | stream only }              (`fly`)
//!              deliver -> send -> record                                         (`conclude`)
//!                          '--> damage on the disk: the rest comes from the origin (`mender`)
//!
//! ```
//!
//! Invariant: every request passes through these steps once and ends in exactly one recorded
//! outcome. A step returns the next step and does not run it. A request that passes shares its
//! fetch with no other request, so it carries everything that its client sent.

use crate::control::counters::{Cells, Metric};
use crate::fetch::disk_reads::{self, Loaded};
use crate::fetch::flight::{Asked, Flight, Progress, SharedAnswer};
use crate::fetch::flights::Joined;
use crate::fetch::fly::{self, Departure};
use crate::fetch::table_entry::TableEntry;
use crate::memory::distrust::Kept;
use crate::memory::popular::Page;
use crate::request::asking::Asking;
use crate::request::client::Client;
use crate::request::client_address::client_of;
use crate::request::delivery::{Content, Delivery};
use crate::request::forward;
use crate::request::guard::{Subject, guard};
use crate::request::leak_check::{LeakCheck, WouldBeHit};
use crate::request::lookup::{Base, Decision, Found, LOADS_MAX, Touch, Wanted};
use crate::request::pass::Passing;
use crate::request::refusal::Refusal;
use crate::request::respond::{self, Asker};
use crate::shared::Shared;
use crate::sites::Site;
use bytes::BytesMut;
use h1::{BodyFraming, Request};
use message::{Fields, Method, RequestHead, ResponseHead, Version};
use net::Stream;
use origin::{FetchRequest, ProbeTurn};
use semantics::{Moment, Reason, Reuse, VaryRule, is_robot, reuse, selecting_rule};
use std::sync::Arc;
use store::{ContentPart, Object, Shelved};
use tokio::sync::watch;

/// The next state of the connection after a response.
#[derive(Debug)]
pub(crate) enum After {
    /// It is kept for the next request.
    Keep,
    /// It is closed: the response is complete and announced that it is the last one.
    Close,
    /// It is closed after lingering: the response is complete, but the client may still be sending.
    Linger,
    /// It is dropped: the response is incomplete, or the client is gone.
    Gone,
    /// It becomes a tunnel for another protocol, with the bytes that the origin sent early.
    Tunnel(Stream, BytesMut),
}

/// A step and the results of earlier steps that it needs.
pub(crate) enum Step<'a> {
    Guard,
    Key(Subject<'a>),
    Purge,
    Lookup(Wanted<'a>),
    Load(Wanted<'a>, Shelved),
    Wait(Waiting<'a>),
    Pass(Passing<'a>),
    Deliver(Delivery),
    Refuse(Refusal),
}

/// A request that waits for a coalesced fetch.
pub(crate) struct Waiting<'a> {
    pub(crate) wanted: Wanted<'a>,
    /// Why it was not answered from the store.
    pub(crate) reason: Reason,
    pub(crate) receiver: watch::Receiver<Progress>,
    /// Whether the request is the leader of the fetch.
    pub(crate) leads: bool,
}

/// One request on its way through the steps.
pub(crate) struct Visit<'a> {
    pub(crate) shared: &'a Arc<Shared>,
    pub(crate) worker: usize,
    pub(crate) client: &'a mut Client,
    pub(crate) request: &'a Request,
    pub(crate) begun: Moment,
    pub(crate) asker: Asker,
    /// Whether the page is fetched even if it is stored.
    fetches: bool,
    /// The request as the look-up sees it, if that differs from the request that was sent.
    looked_up: Option<Box<RequestHead>>,
    /// The site, once it is known.
    pub(crate) site: Option<&'a Arc<Site>>,
}

impl<'a> Visit<'a> {
    /// A request that was just received.
    pub(crate) fn new(
        shared: &'a Arc<Shared>,
        worker: usize,
        client: &'a mut Client,
        request: &'a Request,
    ) -> Self {
        let persistent = request.persistent && !shared.is_draining();
        let asker = Asker::new(&request.head.method, request.head.version, persistent);
        let begun = Moment::read(&*shared.clock);
        Self { shared, worker, client, request, begun, asker, fetches: false, looked_up: None, site: None }
    }

    /// Makes the request fetch its page even if it is stored, if `fetches` is true.
    pub(crate) fn fetching(self, fetches: bool) -> Self {
        Self { fetches, ..self }
    }

    /// Runs the request through its steps and returns the next state of the connection.
    pub(crate) async fn run(mut self) -> After {
        let mut step = Step::Guard;
        let outcome = loop {
            step = match step {
                Step::Guard => self.guard(),
                Step::Key(subject) => self.key(subject),
                Step::Purge => break self.purge().await,
                Step::Lookup(wanted) => self.lookup(wanted),
                Step::Load(wanted, shelved) => self.load(wanted, shelved).await,
                Step::Wait(waiting) => self.wait(waiting).await,
                Step::Pass(passing) => self.pass(passing).await,
                Step::Deliver(delivery) => break self.deliver(delivery).await,
                Step::Refuse(refusal) => break self.refuse(refusal).await,
            };
        };
        self.record(&outcome);
        outcome.after
    }

    /// The request as it is looked up and as its shared fetch sends it. Its only cookies are those
    /// in the cache key.
    pub(crate) fn head(&self) -> &RequestHead {
        self.looked_up.as_deref().unwrap_or(&self.request.head)
    }

    pub(crate) fn cells(&self) -> &'a Cells {
        self.shared.cells(self.worker)
    }

    pub(crate) fn now(&self) -> Moment {
        Moment::read(&*self.shared.clock)
    }

    /// *guard*: checks limits, method and host.
    fn guard(&mut self) -> Step<'a> {
        if purge::is_purge_method(&self.request.head.method) {
            return Step::Purge;
        }
        match guard(self.shared, self.client.peer(), self.request) {
            Ok(subject) => {
                self.site = Some(subject.site);
                Step::Key(subject)
            }
            Err(refusal) => Step::Refuse(refusal),
        }
    }

    /// *key*: computes the cache key, if the request may share a response at all.
    fn key(&mut self, subject: Subject<'a>) -> Step<'a> {
        let has_content = self.request.framing != BodyFraming::Empty;
        match Asking::new(self.shared, subject, &self.request.head, has_content) {
            Asking::Pass(subject, reason) => {
                Step::Pass(Passing { subject, reason, wanted: None, check: None })
            }
            Asking::LookUp(mut wanted, head) => {
                self.looked_up = head;
                wanted.fetches = self.fetches;
                Step::Lookup(wanted)
            }
        }
    }

    /// *lookup*: finds a stored response that this request may receive, or decides on a fetch.
    fn lookup(&self, mut wanted: Wanted<'a>) -> Step<'a> {
        if let Some(kept) = wanted.kept_back(self.shared, &self.request.head, self.begun) {
            return alone(&wanted, self.look_again(&wanted, &kept));
        }
        let decision = wanted.decide(self.shared, self.head(), Touch::Yes, self.begun);
        if matches!(decision, Decision::Alone(_) | Decision::Fly { .. })
            && let Some(step) = self.flooded(&wanted)
        {
            return step;
        }
        if matches!(decision, Decision::Fly { .. }) && self.is_beyond_foreign_ports(&wanted) {
            return wanted.pass(Reason::PassForeignPort);
        }
        match decision {
            Decision::Deliver(delivery) => {
                self.note(&wanted);
                match self.check(&wanted, &delivery) {
                    // The origin does not answer, so it is not asked for a comparison.
                    Some(check) if !wanted.subject.site.origin.is_open() => alone(&wanted, Some(check)),
                    Some(_) | None => Step::Deliver(delivery),
                }
            }
            Decision::StandIn(delivery, base) => {
                self.note(&wanted);
                if delivery.account.reason == Reason::StaleBreakerOpen {
                    self.cells().count(Metric::BreakerStale);
                }
                self.refresh(&wanted, base);
                Step::Deliver(delivery)
            }
            Decision::Refresh(delivery, base) => {
                self.note(&wanted);
                self.refresh(&wanted, base);
                Step::Deliver(delivery)
            }
            Decision::Load(shelved) => Step::Load(wanted, shelved),
            Decision::OnlyIfCached => Step::Refuse(Refusal::only_if_cached()),
            Decision::Alone(reason) => wanted.pass(reason),
            Decision::Fly { reason, solo } => {
                wanted.solo |= solo;
                self.join(wanted, reason)
            }
        }
    }

    /// The check of a response that the leak guard withholds from this client, if one is due.
    fn look_again(&self, wanted: &Wanted<'a>, kept: &Kept) -> Option<Arc<LeakCheck>> {
        if !kept.may_look || wanted.subject.site.origin.is_open() {
            return None;
        }
        let Found::Deliver(delivery) = self.find(wanted, Touch::No, self.begun) else { return None };
        LeakCheck::again(self.shared, self.would_be_hit(wanted, &delivery)?, self.begun)
    }

    /// The leak guard's check of a hit, if the hit is sampled.
    fn check(&self, wanted: &Wanted<'a>, delivery: &Delivery) -> Option<Arc<LeakCheck>> {
        LeakCheck::draw(self.shared, self.worker, self.would_be_hit(wanted, delivery)?, delivery.account)
    }

    fn would_be_hit<'v>(&'v self, wanted: &'v Wanted<'a>, delivery: &'v Delivery) -> Option<WouldBeHit<'v>> {
        let Content::Stored(stored) = &delivery.content else { return None };
        let (site, key) = (wanted.subject.site, &wanted.key);
        let is_file = wanted.left_out.has_cookies();
        Some(WouldBeHit { site, key, sent: &self.request.head, looked_up: self.head(), stored, is_file })
    }

    /// *load*: reads the object from disk; then the request is looked up again.
    async fn load(&self, mut wanted: Wanted<'a>, shelved: Shelved) -> Step<'a> {
        self.cells().count(Metric::DiskReads);
        wanted.loads += 1;
        match disk_reads::load(self.shared, &wanted.key, shelved).await {
            Loaded::Ended => {}
            Loaded::Late => wanted.loads = LOADS_MAX,
            Loaded::Refused => {
                self.cells().count(Metric::DiskReadsRefused);
                wanted.loads = LOADS_MAX;
            }
        }
        Step::Lookup(wanted)
    }

    /// Counts a request for a stored page towards its popularity. Only plain GET requests for a
    /// whole page count, because any visitor may have sent them.
    fn note(&self, wanted: &Wanted<'_>) {
        let head = self.head();
        if wanted.solo || wanted.range.is_some() || head.method != Method::Get {
            return;
        }
        let policy = wanted.subject.site.policy();
        let page = || Page::of(&wanted.key, &head.fields, self.shared.store.known_rule(&wanted.key), policy);
        self.shared.popular.note(self.worker, page);
    }

    pub(crate) fn find(&self, wanted: &Wanted<'_>, touch: Touch, now: Moment) -> Found {
        wanted.find(self.shared, self.head(), touch, now)
    }

    /// Joins the fetch for the wanted page, or starts it.
    pub(crate) fn join(&self, mut wanted: Wanted<'a>, reason: Reason) -> Step<'a> {
        let mut base = None;
        let find = || match self.find(&wanted, Touch::No, self.now()) {
            Found::Deliver(delivery) | Found::Refresh(delivery, _) => Some(delivery),
            // It was in memory a moment ago, and was evicted or replaced since.
            Found::Load(_) | Found::Unfit | Found::Unusable => None,
            Found::Fetch(_, stored) => {
                base = stored;
                None
            }
        };
        let joined =
            wanted.ask_flights(self.shared, self.head(), &self.request.head.fields, self.now(), find);
        match joined {
            Joined::Found(delivery) => Step::Deliver(delivery),
            Joined::Filling(answer, _) if !wanted.is_answered_by_head(&answer.head, self.head()) => {
                wanted.pass(reason)
            }
            Joined::Filling(answer, _) if wanted.cannot_use(&answer.head.fields) => {
                wanted.pass(Reason::MissVariant)
            }
            Joined::Filling(answer, reader) => {
                self.cells().count(Metric::FlightWaits);
                Step::Deliver(self.shared_delivery(answer, reader, Reason::MissCollapsed, false))
            }
            Joined::Waiter(receiver) => {
                self.cells().count(Metric::FlightWaits);
                wanted.flights += 1;
                Step::Wait(Waiting { wanted, reason, receiver, leads: false })
            }
            Joined::Leader(flight) => {
                // Checked after the fetch has its sequence number: a later change of the site's
                // rules then invalidates the response.
                if wanted.is_outdated() {
                    self.shared.flights.remove(&wanted.key, &flight);
                    return Step::Guard;
                }
                wanted.flights += 1;
                let receiver = flight.subscribe();
                match self.depart(&wanted, flight, base, None) {
                    Ok(()) => Step::Wait(Waiting { wanted, reason, receiver, leads: true }),
                    Err(refusal) => Step::Refuse(refusal),
                }
            }
        }
    }

    /// Starts a background fetch that replaces a stale response, unless one is under way. While the
    /// origin's breaker is open, only the next probe is sent.
    pub(crate) fn refresh(&self, wanted: &Wanted<'_>, stale: Base) {
        let origin = &wanted.subject.site.origin;
        let is_probe = origin.is_open();
        let is_paused = if is_probe {
            !origin.is_probe_due()
        } else {
            self.shared.ailing.reason(&wanted.key, self.begun.monotonic).is_some()
        };
        if is_paused {
            self.cells().count(Metric::RefreshesPaused);
            return;
        }
        let Some(flight) = wanted.renew(self.shared, self.head(), &stale.object, self.now()) else { return };
        // The probe is claimed only now: a page that is already being fetched would waste it.
        let probe = if is_probe { origin.claim_probe() } else { None };
        if is_probe && probe.is_none() {
            self.shared.flights.remove(&wanted.key, &flight);
            return;
        }
        self.cells().count(Metric::BackgroundRefreshes);
        // A request that cannot be written was refused to clients before its response was ever
        // stored.
        let _ = self.depart(wanted, flight, Some(stale), probe);
    }

    /// Starts a fetch as a separate task. `base` is the stored response that the origin may
    /// confirm.
    fn depart(
        &self,
        wanted: &Wanted<'_>,
        flight: Arc<Flight>,
        base: Option<Base>,
        probe: Option<Arc<ProbeTurn>>,
    ) -> Result<(), Refusal> {
        let (subject, key) = (&wanted.subject, &wanted.key);
        let completable = |part: &ContentPart| {
            part.extent.complete.is_none_or(|bytes| bytes <= self.shared.limits.object_bytes_max)
        };
        // A stored part is not completed if the whole is too large to be stored.
        let base = base.filter(|base| flight.range().is_some() || base.object.part().is_none_or(completable));
        let head = forward::shared_head(
            subject,
            &self.shared.loop_mark,
            key,
            Method::Get,
            &self.head().fields,
            flight.known(),
        );
        let policy = subject.site.policy();
        let asks = forward::flight_fields(flight.range(), base.as_ref(), &self.head().fields, policy);
        let Ok(request) = forward::without_content(&forward::with_fields(&head, asks)) else {
            self.shared.flights.remove(key, &flight);
            return Err(Refusal::unwritable());
        };
        fly::depart(Departure {
            shared: Arc::clone(self.shared),
            worker: self.worker,
            site: Arc::clone(subject.site),
            key: key.clone(),
            head,
            request: FetchRequest { probe, ..request },
            entry: TableEntry::of(self.shared, key, &flight),
            flight,
            base: base.map(|base| base.object),
            impersonal: forward::is_impersonal(subject),
        });
        Ok(())
    }

    /// Passes an informational response on to clients that speak HTTP/1.1. A write error is ignored
    /// because the final response will meet it too.
    pub(crate) async fn inform(&mut self, head: ResponseHead) {
        if self.request.head.version == Version::Http11 {
            self.client.push(respond::write_informational(head));
            let _ = self.client.flush().await;
        }
    }
}

/// Sends the request to the origin on behalf of the leak guard.
fn alone<'a>(wanted: &Wanted<'a>, check: Option<Arc<LeakCheck>>) -> Step<'a> {
    let subject = wanted.subject.clone();
    Step::Pass(Passing { subject, reason: Reason::PassLeakGuard, wanted: None, check })
}

impl Wanted<'_> {
    /// The fields that stored responses for the key vary on, and those by which the request itself
    /// selects.
    fn known_rule(&self, shared: &Shared, head: &RequestHead) -> VaryRule {
        shared.store.known_rule(&self.key).union(&selecting_rule(&head.fields, self.subject.site.policy()))
    }

    /// Asks the table of coalesced fetches for one that serves the request, unless `find` now finds
    /// a stored response. Otherwise returns a new fetch, which the caller must start. `head` is the
    /// request as it was looked up, `sent` are the client's own fields.
    pub(crate) fn ask_flights<T>(
        &self,
        shared: &Shared,
        head: &RequestHead,
        sent: &Fields,
        now: Moment,
        find: impl FnOnce() -> Option<T>,
    ) -> Joined<T> {
        let usable = |answer: &SharedAnswer| {
            let reused = reuse(&answer.freshness, &self.directives, self.subject.site.policy(), now);
            let current = shared.store.may_join(answer.begun, &self.key, &answer.tags, &answer.head);
            current && !matches!(reused, Reuse::Revalidate(_))
        };
        let client = client_of(shared, &self.subject, &head.fields);
        let (range, solo, is_robot) = (self.range.as_deref(), self.solo, is_robot(sent));
        let asked = Asked { fields: &head.fields, range, solo, is_robot, client };
        let (known, begun) = (|| self.known_rule(shared, head), || shared.store.sequence());
        shared.flights.join(&self.key, asked, known, begun, find, usable)
    }

    /// A fetch that renews a stale response, or `None` if one is under way or the stored response
    /// is fresh again. A response that is stored whole is renewed whole, even if the client wanted
    /// a part.
    pub(crate) fn renew(
        &self,
        shared: &Shared,
        head: &RequestHead,
        stale: &Object,
        now: Moment,
    ) -> Option<Arc<Flight>> {
        let range = self.range.as_deref().filter(|_| stale.part().is_some());
        let asked = Asked { fields: &head.fields, range, solo: self.solo, is_robot: true, client: None };
        let (known, begun) = (|| self.known_rule(shared, head), || shared.store.sequence());
        let is_renewed = || matches!(self.find(shared, head, Touch::No, now), Found::Deliver(_));
        shared.flights.renew(&self.key, asked, known, begun, is_renewed)
    }
}
