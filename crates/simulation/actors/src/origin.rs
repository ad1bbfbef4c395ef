//! The origin: an HTTP/1.1 server that misbehaves as its faults say.
//!
//! Invariant: every response with content of the site is recorded before its first byte is sent,
//! with the moment at which its request arrived. Each lie and each failure is recorded too.

use crate::answer::{Answer, Conditions, answer, recognised};
use crate::application::{SAVE_FIELD, SaveForm};
use crate::body::CountedBody;
use crate::content::{ContentId, NONE, verify};
use crate::event::{FaultId, FaultPlace, Stamp};
use crate::fault::{OriginFault, OriginFaults};
use crate::judge_listed::ListedRequest;
use crate::ledger::SharedLedger;
use crate::member;
use crate::moment::{Moment, Timeline};
use crate::ordered::{self, ORDER_FIELD};
use crate::page::{Framing, PagePlan};
use crate::routing::{REALM_FIELD, realm};
use crate::rules::Rule;
use crate::send::{Connection, ConnectionEnd, Failure};
use crate::site::{SharedSite, SitePlan, lock};
use crate::tunnel::echo;
use bytes::BytesMut;
use h1::{BodyDecoder, Decoded, Limits, Request, Strictness, parse_request};
use message::{Fields, Method};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use world::{CountedMemory, MemoryMeter, Random};

/// Longest time for which an origin that never answers keeps its connection.
const HANG_MAX: Duration = Duration::from_secs(900);

/// The field of an upload that names its content.
pub(crate) const UPLOAD_FIELD: &str = "X-Sim-Upload";

/// An origin. Clones are the same origin.
#[derive(Clone, Debug)]
pub struct Origin {
    shared: Arc<OriginState>,
    /// Whether it is the other origin of the site.
    is_second: bool,
}

#[derive(Debug)]
struct OriginState {
    site: SharedSite,
    ledger: SharedLedger,
    timeline: Timeline,
    seed: u64,
    faults: OriginFaults,
    connections: AtomicU64,
    memory: MemoryMeter,
}

/// What the origin decided when a request arrived.
struct Decision {
    received: Stamp,
    answer: Answer,
    /// Counts the body of the answer.
    _memory: CountedMemory,
    page: Option<PagePlan>,
    tags: Vec<String>,
    modified_secs: u64,
    /// The request, if it comes from a run that fills the cache.
    listed: Option<ListedRequest>,
}

impl Origin {
    /// An origin of this site. Its random decisions follow from `seed` and the number of the
    /// connection.
    pub fn new(site: SharedSite, ledger: SharedLedger, timeline: Timeline, seed: u64) -> Self {
        let (faults, connections) = (OriginFaults::new(), AtomicU64::new(0));
        let memory = lock(&ledger).memory().clone();
        let shared = OriginState { site, ledger, timeline, seed, faults, connections, memory };
        Self { shared: Arc::new(shared), is_second: false }
    }

    /// The other origin of the site, with the same paths and pages of its own. Its faults are those
    /// of the first one.
    #[must_use]
    pub fn second(&self) -> Self {
        Self { is_second: true, ..self.clone() }
    }

    /// The switch of its faults.
    pub fn faults(&self) -> &OriginFaults {
        &self.shared.faults
    }

    /// Serves one connection until it ends. `reset` ends a connection in a disorderly way; for
    /// streams that cannot do this, it is `drop`.
    pub async fn serve<S>(&self, stream: S, reset: fn(S))
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let number = self.shared.connections.fetch_add(1, Ordering::Relaxed);
        let random = Random::fork(self.shared.seed, "origin connection", number);
        let mut connection = Connection { stream, input: BytesMut::new(), random };
        let end = loop {
            match self.exchange(&mut connection).await {
                Ok(()) => {}
                Err(Failure::Ends(end)) => break end,
                Err(Failure::Stream(_)) => break ConnectionEnd::Close,
            }
        };
        match end {
            ConnectionEnd::Reset => reset(connection.stream),
            ConnectionEnd::Close => connection.close().await,
        }
    }

    /// Answers one request.
    async fn exchange<S>(&self, connection: &mut Connection<S>) -> Result<(), Failure>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let request = self.read_head(connection).await?;
        if request.upgrade && request.head.fields.has("Upgrade") {
            return echo(connection).await;
        }
        let is_write = !request.head.method.is_safe() || request.head.fields.has(SAVE_FIELD);
        let is_body = !request.framing.is_empty();
        let faults = &self.shared.faults;
        if is_write && faults.draw(&mut connection.random, |fault| fault == OriginFault::EmptyOk).is_some() {
            let _fault = self.fault(OriginFault::EmptyOk);
            connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").await?;
            return Err(Failure::Ends(ConnectionEnd::Close));
        }
        if request.expect_continue {
            connection.send(b"HTTP/1.1 100 Continue\r\n\r\n").await?;
        }
        if is_body {
            self.read_body(connection, &request).await?;
        }
        let wrong_tags = |fault| fault == OriginFault::WrongTags;
        let has_wrong_tags = faults.draw(&mut connection.random, wrong_tags).is_some();
        let decision = self.decide(&request, has_wrong_tags, &mut connection.random);
        let is_head = request.head.method == Method::Head;
        let applies = |fault| applies(fault, &decision.answer, is_head, is_write);
        let fault = faults.draw(&mut connection.random, applies);
        if let Some(listed) = decision.listed.as_ref().filter(|_| fault.is_none()) {
            lock(&self.shared.ledger).listed_meets_no_fault(self.shared.timeline.now(), listed);
        }
        self.send(connection, &decision, is_head, fault).await?;
        if request.persistent { Ok(()) } else { Err(Failure::Ends(ConnectionEnd::Close)) }
    }

    async fn read_head<S>(&self, connection: &mut Connection<S>) -> Result<Request, Failure>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        loop {
            match parse_request(&mut connection.input, &Limits::DEFAULT, Strictness::Strict) {
                Ok(Some(request)) => return Ok(request),
                Ok(None) => connection.receive().await?,
                Err(error) => {
                    self.complain(format!("the origin received a malformed request: {error}"));
                    connection.send(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n").await?;
                    return Err(Failure::Ends(ConnectionEnd::Close));
                }
            }
        }
    }

    /// Reads the body of a request, and compares it with what its visitor sent.
    async fn read_body<S>(&self, connection: &mut Connection<S>, request: &Request) -> Result<(), Failure>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let mut decoder = BodyDecoder::new(request.framing);
        let mut body = CountedBody::new(&self.shared.memory);
        loop {
            match decoder.decode(&mut connection.input) {
                Ok(Decoded::NeedMore) => connection.receive().await?,
                Ok(Decoded::Data(octets)) => body.push(&octets),
                Ok(Decoded::End(_)) => break,
                Err(error) => {
                    self.complain(format!("the origin received a malformed body: {error}"));
                    return Err(Failure::Ends(ConnectionEnd::Close));
                }
            }
        }
        let named = request.head.fields.first(UPLOAD_FIELD).and_then(|value| std::str::from_utf8(value).ok());
        let named = named.and_then(|text| text.rsplit_once(' '));
        let Some((id, bytes)) = named.and_then(|(id, bytes)| Some((ContentId::parse(id)?, bytes))) else {
            return Ok(());
        };
        let body = body.octets();
        if bytes != body.len().to_string() {
            self.complain(format!("an upload \"{id}\" of {bytes} bytes arrived with {} bytes", body.len()));
        }
        if let Err(fault) = verify(&id, 0, body) {
            self.complain(format!("an upload \"{id}\" arrived changed: {fault}"));
        }
        Ok(())
    }

    fn complain(&self, text: String) {
        let at = self.shared.timeline.now();
        lock(&self.shared.ledger).violate(Rule::Integrity, at, text);
    }

    /// Edits the page if the request is a write, and makes the response.
    fn decide(&self, request: &Request, has_wrong_tags: bool, random: &mut Random) -> Decision {
        let now = self.shared.timeline.now();
        let fields = &request.head.fields;
        let target = String::from_utf8_lossy(&request.head.target).into_owned();
        if let Some(fault) = member::fault_at_origin(&target, fields) {
            lock(&self.shared.ledger).violate(Rule::Privacy, now, fault);
        }
        let accepted = text_of(fields, "Accept-Language");
        let saved = text_of(fields, SAVE_FIELD);
        let is_write = !request.head.method.is_safe() || saved.is_some();
        let mut site = lock(&self.shared.site);
        let name = text_of(fields, "Host").unwrap_or_default().split(':').next();
        let is_other = name.is_some() && name == site.plan().other_host.as_deref();
        let plan = Arc::clone(site.plan());
        let asked = Conditions::of(fields, request.head.method == Method::Head);
        let start = plan.application.and_then(|application| application.start(&target, asked.accepts_gzip));
        let form = SaveForm::of(&target);
        let asked_target = target;
        let target = plan.named(is_other, saved.unwrap_or(&asked_target));
        let path = target.split('?').next().unwrap_or_default();
        let edited = if is_write { site.edit(path, now, None) } else { None };
        let found = site.find(&target, recognised(fields), accepted);
        let realm = realm(text_of(fields, REALM_FIELD), self.is_second);
        let found = found.map(|(page, state, id)| (page.clone(), state.clone(), ContentId { realm, ..id }));
        drop(site);
        let mut ledger = lock(&self.shared.ledger);
        if let Some(version) = edited {
            ledger.edited(now, path, version);
        }
        let received = ledger.stamp(now);
        ledger.origin_is_told(text_of(fields, "traceparent"));
        drop(ledger);
        let Some((page, state, id)) = found else {
            let request = ListedRequest::of(&plan, is_other, asked_target);
            let of_run = |request| self.listed(&plan, request, asked.accepts_gzip, now);
            let listed = request.as_ref().and_then(of_run);
            let answer = start.or(listed).unwrap_or_else(nothing);
            let _memory = self.counted(&answer);
            let (page, tags, modified_secs) = (None, Vec::new(), 0);
            return Decision { received, answer, _memory, page, tags, modified_secs, listed: request };
        };
        let tags = if has_wrong_tags {
            self.shared.faults.count(OriginFault::WrongTags);
            vec!["of-no-page".to_owned()]
        } else {
            state.tags
        };
        let modified_secs = self.shared.timeline.unix_secs(state.edited);
        let host = plan.host_name(is_other);
        let answer = match form.filter(|_| saved.is_some()) {
            Some(form) => form.answer(host, &page, &id),
            None if is_write => {
                write_answer(&id, random, text_of(fields, ORDER_FIELD).and_then(ordered::read))
            }
            None => {
                let mut answer = answer(asked, &page, &id, &tags, modified_secs);
                if let Some(application) = plan.application {
                    application.sign(&mut answer.fields, host, &page);
                }
                answer
            }
        };
        let _memory = self.counted(&answer);
        Decision { received, answer, _memory, page: Some(page), tags, modified_secs, listed: None }
    }

    /// The answer to a request of a run that fills the cache, if there is a page or document.
    fn listed(
        &self,
        plan: &SitePlan,
        request: &ListedRequest,
        accepts_gzip: bool,
        now: Moment,
    ) -> Option<Answer> {
        let earlier = lock(&self.shared.ledger).listed_arrives(now, request);
        plan.listed.as_ref()?.answer(plan, &request.host, &request.target, accepts_gzip, earlier)
    }

    fn counted(&self, answer: &Answer) -> CountedMemory {
        let mut memory = self.shared.memory.holder();
        memory.set(answer.body.capacity());
        memory
    }

    /// Sends the response, with a fault.
    async fn send<S>(
        &self,
        connection: &mut Connection<S>,
        decision: &Decision,
        is_head: bool,
        fault: Option<OriginFault>,
    ) -> Result<(), Failure>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let _guard = fault.map(|fault| self.fault(fault));
        match fault {
            Some(OriginFault::SlowHead) => {
                tokio::time::sleep(connection.random.millis(200, 20_000)).await;
            }
            Some(OriginFault::Hang) => return connection.hang(HANG_MAX).await,
            Some(OriginFault::Garbage) => return connection.send_garbage().await,
            Some(OriginFault::Error500) => return connection.send_error(500).await,
            Some(OriginFault::Error503) => return connection.send_error(503).await,
            Some(OriginFault::Reset) if connection.random.percent(50) => {
                return Err(Failure::Ends(ConnectionEnd::Reset));
            }
            _ => {}
        }
        let _open = self.begin(decision);
        let date = self.shared.timeline.http_date(self.shared.timeline.now());
        let lie = connection.send_answer(&decision.answer, is_head, fault, &date, |lie| {
            if let Some(id) = &decision.answer.id {
                let at = self.shared.timeline.now();
                lock(&self.shared.ledger).origin_lies(at, id, lie);
            }
        });
        lie.await
    }

    /// Records that the response begins, until the returned value is dropped.
    fn begin(&self, decision: &Decision) -> Option<OpenAnswer> {
        let id = decision.answer.id.clone()?;
        decision.page.as_ref()?;
        let is_confirmation = decision.answer.status == 304;
        let (tags, modified_secs) = (&decision.tags, decision.modified_secs);
        lock(&self.shared.ledger).origin_begins(decision.received, &id, tags, modified_secs, is_confirmation);
        Some(OpenAnswer { id, origin: self.clone() })
    }

    /// Records a fault, until the returned value is dropped.
    fn fault(&self, fault: OriginFault) -> OpenFault {
        self.shared.faults.count(fault);
        let at = self.shared.timeline.now();
        let id = lock(&self.shared.ledger).fault_begins(at, FaultPlace::Origin, &fault.to_string());
        OpenFault { id, origin: self.clone() }
    }
}

/// The value of a request's field, if it is text.
fn text_of<'a>(fields: &'a Fields, name: &str) -> Option<&'a str> {
    fields.first(name).and_then(|value| std::str::from_utf8(value).ok())
}

/// The response to a request for no page of the site.
fn nothing() -> Answer {
    Answer { status: 404, fields: Fields::new(), body: Vec::new(), framing: Framing::Length, id: None }
}

/// The response to a write. It names the version that the write made, and orders a purge.
fn write_answer(id: &ContentId, random: &mut Random, orders: Option<(&'static str, String)>) -> Answer {
    let id = ContentId { user: NONE.into(), language: NONE.into(), ..id.clone() };
    let mut fields = Fields::new();
    fields.push("X-Sim", id.to_string());
    fields.push("Cache-Control", "no-store");
    if let Some((field, value)) = orders {
        fields.push(field, value);
    }
    let status = match random.below(10) {
        0 => 204,
        1 | 2 => {
            fields.push("Location", id.target);
            303
        }
        _ => 200,
    };
    let body = if status == 204 { Vec::new() } else { b"edited\n".to_vec() };
    Answer { status, fields, body, framing: Framing::Length, id: None }
}

/// Whether a fault can happen to this response.
fn applies(fault: OriginFault, answer: &Answer, is_head: bool, is_write: bool) -> bool {
    let has_body = !answer.body.is_empty() && !is_head;
    let is_whole = has_body && answer.status == 200 && answer.id.is_some();
    let is_coded = answer.fields.has("Content-Encoding");
    match fault {
        OriginFault::SlowBody | OriginFault::LateEnd | OriginFault::HangInBody => has_body,
        OriginFault::Truncate => has_body && answer.framing != Framing::Close,
        // A coded content shows its end, so that these lies about it would be noticed.
        OriginFault::EarlyEnd => is_whole && answer.framing == Framing::Close && !is_coded,
        OriginFault::ShortLength => is_whole && answer.framing == Framing::Length && !is_coded,
        OriginFault::LongLength => is_whole && answer.framing == Framing::Length,
        OriginFault::EmptyOk => is_whole && !is_write,
        OriginFault::WrongTags => false,
        _ => true,
    }
}

/// A response that is being sent.
struct OpenAnswer {
    id: ContentId,
    origin: Origin,
}

impl Drop for OpenAnswer {
    fn drop(&mut self) {
        let at = self.origin.shared.timeline.now();
        lock(&self.origin.shared.ledger).origin_ends(at, &self.id);
    }
}

/// A fault that lasts.
struct OpenFault {
    id: FaultId,
    origin: Origin,
}

impl Drop for OpenFault {
    fn drop(&mut self) {
        let at = self.origin.shared.timeline.now();
        lock(&self.origin.shared.ledger).fault_ends(at, self.id);
    }
}
