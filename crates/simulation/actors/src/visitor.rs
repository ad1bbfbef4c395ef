//! A visitor: carries out its plan over connections that it is given, and reports to the ledger.
//!
//! Invariant: every request that is sent is reported with its beginning and its end. A visitor
//! repeats a request only as RFC 9112 section 9.3.1 permits: a GET or HEAD that got no byte of a
//! response, on a connection that carried others.

use crate::answer::accepts;
use crate::content::ContentId;
use crate::event::RequestId;
use crate::exchange::{Ask, Ending, HeldCopy, Reply};
use crate::ledger::SharedLedger;
use crate::moment::{Moment, Timeline, parse_http_date};
use crate::multiplexed::Multiplexed;
use crate::read::{Reader, Reading};
use crate::routing::MAINTAINER;
use crate::site::{Recognised, SitePlan, lock};
use crate::visit::{Condition, Manner, ONLY_IF_CACHED, Step, Visit, VisitMethod};
use bytes::BytesMut;
use message::Method;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fmt::Write as _;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::task::JoinSet;
use tokio::time::Instant;
use world::Random;

/// Longest time that a visitor waits for anything. It is longer than the bounds of the rules.
const PATIENCE: Duration = Duration::from_secs(1200);

/// Largest number of visits of a random plan.
const VISITS_MAX: u64 = 30;

/// How many of 100 visitors speak HTTP/2.
const MULTIPLEXED_PERCENT: u64 = 25;

/// The plan of a visitor. Visits can be removed from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VisitorPlan {
    /// The number of the visitor.
    pub number: u64,
    /// The user that it is logged in as.
    pub user: Option<String>,
    /// The addresses that a trusted proxy reports for it; `None` if it comes without a proxy.
    pub forwarded_for: Option<String>,
    /// Its visits.
    pub visits: Vec<Visit>,
    /// Whether it speaks HTTP/2.
    pub is_multiplexed: bool,
}

impl VisitorPlan {
    /// A plan by chance. Each visit follows from one number of `random` and its own number.
    pub fn random(random: &mut Random, number: u64, site: &SitePlan) -> Self {
        let seed = random.number();
        let user = random.percent(55).then(|| format!("u{number}"));
        let count = random.between(1, VISITS_MAX);
        let visit = |visit| Visit::random(&mut Random::fork(seed, "visit", visit), visit, site);
        let address = format!("192.0.2.{}, 198.51.100.{}", number % 250, random.between(1, 9));
        let forwarded_for = random.percent(15).then_some(address);
        let visits = (0..count).filter_map(visit).collect();
        let is_multiplexed = random.percent(MULTIPLEXED_PERCENT);
        Self { number, user, forwarded_for, visits, is_multiplexed }
    }
}

impl fmt::Display for VisitorPlan {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let user = self.user.as_deref().unwrap_or("nobody");
        let proxy = if self.forwarded_for.is_some() { " behind a proxy" } else { "" };
        let protocol = if self.is_multiplexed { " with HTTP/2" } else { "" };
        writeln!(to, "visitor {} as {user}{proxy}{protocol}:", self.number)?;
        self.visits.iter().try_for_each(|visit| writeln!(to, "  {visit}"))
    }
}

/// A visitor that carries out its plan.
pub struct Visitor<S, C> {
    plan: VisitorPlan,
    site: Arc<SitePlan>,
    ledger: SharedLedger,
    timeline: Timeline,
    connect: C,
    connection: Option<Connected<S>>,
    multiplexed: Option<Multiplexed>,
    held: BTreeMap<(String, bool, Option<&'static str>), Held>,
}

/// A connection, and how many responses it has carried.
struct Connected<S> {
    reader: Reader<ReadHalf<S>>,
    writer: WriteHalf<S>,
    carried: usize,
    since: Moment,
}

/// A copy that the visitor holds, with its validators.
#[derive(Clone)]
struct Held {
    id: ContentId,
    etag: Option<String>,
    date: Option<String>,
}

/// A request that is sent or about to be sent.
struct Pending {
    visit: Visit,
    id: RequestId,
    head: String,
    begun: Moment,
    log_number: Option<u64>,
}

impl<S, C> Visitor<S, C>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    C: Fn() -> Option<S> + Send,
{
    /// A visitor that makes its connections with `connect`; `None` means that none can be made.
    pub fn new(
        plan: VisitorPlan,
        site: Arc<SitePlan>,
        ledger: SharedLedger,
        timeline: Timeline,
        connect: C,
    ) -> Self {
        Self {
            plan,
            site,
            ledger,
            timeline,
            connect,
            connection: None,
            multiplexed: None,
            held: BTreeMap::new(),
        }
    }

    /// Carries out the plan.
    pub async fn run(mut self) {
        // Visits to pages that were removed from the site are left out.
        let site = Arc::clone(&self.site);
        let visits = std::mem::take(&mut self.plan.visits).into_iter();
        let mut visits = visits.filter(|visit| site.page(&visit.target).is_some()).peekable();
        while let Some(visit) = visits.next() {
            tokio::time::sleep(Duration::from_millis(visit.think_ms)).await;
            let may_be_first = visit.manner == Manner::Plain && visit.method != VisitMethod::Post;
            let mut group = vec![visit];
            while let Some(next) = visits.next_if(|next| may_be_first && next.is_pipelined) {
                group.push(next);
            }
            if self.plan.is_multiplexed {
                self.visit_at_once(group).await;
            } else {
                self.visit(group).await;
            }
        }
    }

    /// Sends several requests at once with HTTP/2. Those that got nothing on a connection that
    /// carried others are repeated on another one.
    async fn visit_at_once(&mut self, group: Vec<Visit>) {
        if group.iter().any(|visit| visit.is_fresh) {
            self.multiplexed = None;
        }
        let mut pending: Vec<_> = group.into_iter().map(|visit| self.begin(visit)).collect();
        while !pending.is_empty() {
            let Some(mut connection) = self.take_multiplexed().await else {
                let nothing = Reply { ending: Ending::NoConnection, ..Reply::default() };
                pending.iter().for_each(|request| self.end(request, &nothing));
                return;
            };
            let memory = lock(&self.ledger).memory().clone();
            let mut exchanges = JoinSet::new();
            for (place, request) in pending.iter().enumerate() {
                let exchange =
                    connection.exchange(&request.visit, &request.head, self.timeline, PATIENCE, &memory);
                exchanges.spawn(async move {
                    match exchange {
                        Some(exchange) => (place, exchange.run().await),
                        None => (place, Reply::default()),
                    }
                });
            }
            let mut again = BTreeSet::new();
            while let Some(ended) = exchanges.join_next().await {
                let Ok((place, reply)) = ended else { continue };
                let Some(request) = pending.get(place) else { continue };
                let has_nothing = reply.first_byte.is_none() && reply.ending == Ending::Closed;
                if has_nothing && connection.carried > 0 && request.visit.method != VisitMethod::Post {
                    lock(&self.ledger).is_repeated(request.log_number);
                    again.insert(place);
                } else {
                    self.end(request, &reply);
                }
            }
            connection.carried += pending.len() - again.len();
            if again.is_empty() {
                self.multiplexed = Some(connection);
            }
            let mut place = 0;
            pending.retain(|_| {
                place += 1;
                again.contains(&(place - 1))
            });
        }
    }

    async fn take_multiplexed(&mut self) -> Option<Multiplexed> {
        if let Some(connection) = self.multiplexed.take().filter(Multiplexed::is_open) {
            return Some(connection);
        }
        let stream = (self.connect)()?;
        Multiplexed::begin(stream, self.timeline.now(), self.plan.number.is_multiple_of(2)).await
    }

    /// Sends several requests at once, and reads their responses.
    async fn visit(&mut self, group: Vec<Visit>) {
        if group.iter().any(|visit| visit.is_fresh) {
            self.connection = None;
        }
        let mut pending: std::collections::VecDeque<_> =
            group.into_iter().map(|visit| self.begin(visit)).collect();
        while !pending.is_empty() {
            let Some(mut connection) = self.take_connection() else {
                let nothing = Reply { ending: Ending::NoConnection, ..Reply::default() };
                pending.iter().for_each(|request| self.end(request, &nothing));
                return;
            };
            let mut steps = Vec::new();
            pending.iter().for_each(|request| steps.extend(request.visit.steps(&request.head)));
            let delay = pauses(&steps);
            let mut writing = Some(steps);
            while let Some(request) = pending.front() {
                let asked = self.timeline.now();
                let (mut reply, persists) =
                    exchange(&mut connection, &mut writing, request, self.timeline).await;
                let has_nothing = reply.first_byte.is_none() && reply.ending == Ending::Closed;
                if has_nothing && connection.carried > 0 && request.visit.method != VisitMethod::Post {
                    pending.iter().for_each(|sent| lock(&self.ledger).is_repeated(sent.log_number));
                    break;
                }
                reply.own_delay += delay + asked.since(request.begun);
                connection.carried += 1;
                self.end(request, &reply);
                pending.pop_front();
                if !persists {
                    break;
                }
                if pending.is_empty() {
                    self.connection = Some(connection);
                    return;
                }
            }
        }
    }

    fn take_connection(&mut self) -> Option<Connected<S>> {
        if let Some(connection) = self.connection.take() {
            return Some(connection);
        }
        let (reader, writer) = tokio::io::split((self.connect)()?);
        let memory = lock(&self.ledger).memory().clone();
        let reader = Reader { stream: reader, input: BytesMut::new(), memory };
        Some(Connected { reader, writer, carried: 0, since: self.timeline.now() })
    }

    /// Writes the head of a visit, and reports its beginning.
    fn begin(&self, visit: Visit) -> Pending {
        let user = self.plan.user.as_deref().filter(|_| visit.has_cookie);
        let nick = visit.has_nick.then(|| format!("nick-{}", self.plan.number));
        let held = self.held.get(&key(&self.site, &visit, user.is_some()));
        let mut fields = String::new();
        let etag = held.and_then(|held| Some((held.etag.as_ref()?, held)));
        // A date names each form of a page. A greeted visitor may hold another one than the edge.
        let has_one_form = |held: &&Held| !held.id.user.starts_with("nick-") && nick.is_none();
        let date = held.filter(has_one_form).and_then(|held| Some((held.date.as_ref()?, held)));
        let of_etag = |(_, held): (&String, &Held)| HeldCopy { id: held.id.clone(), date_secs: None };
        let of_date = |(date, held): (&String, &Held)| {
            let date_secs = parse_http_date(date);
            HeldCopy { id: held.id.clone(), date_secs }
        };
        let condition = match visit.condition {
            Condition::Etag => etag.map(|copy| (format!("If-None-Match: {}\r\n", copy.0), of_etag(copy))),
            Condition::Date => date.map(|copy| (format!("If-Modified-Since: {}\r\n", copy.0), of_date(copy))),
            Condition::None => None,
        };
        // A weak tag cannot tell whether a part fits (RFC 9110 section 13.1.5).
        let if_range = etag
            .filter(|(etag, _)| !etag.starts_with("W/"))
            .map(|copy| (format!("If-Range: {}\r\n", copy.0), of_etag(copy)))
            .or_else(|| date.map(|copy| (format!("If-Range: {}\r\n", copy.0), of_date(copy))))
            .filter(|_| visit.has_if_range && !visit.ranges.is_empty());
        condition.iter().chain(&if_range).for_each(|(line, _)| fields.push_str(line));
        if let Some(address) = &self.plan.forwarded_for {
            // Writing to a String cannot fail.
            let _ = write!(fields, "X-Forwarded-For: {address}\r\nX-Forwarded-Proto: http\r\n");
        }
        let trace = lock(&self.ledger).trace_begins();
        let (log_number, of_log) = lock(&self.ledger).log_number().unzip();
        let lines = trace.iter().map(|(_, line)| line).chain(&of_log);
        lines.for_each(|line| fields.push_str(line));
        let name = self.site.host_name(visit.is_other_host);
        let host = visit.port.map_or_else(|| name.to_owned(), |port| format!("{name}:{port}"));
        let head = visit.head(&host, Recognised { user, nick: nick.as_deref() }, &fields);
        let ask = Ask {
            who: format!("visitor {} visit {}", self.plan.number, visit.number),
            method: visit.method.token().to_owned(),
            target: self.site.named(visit.is_other_host, &visit.target),
            user: user.map(str::to_owned),
            nick,
            connected: self.connected(),
            has_noise: visit.has_noise,
            is_maintainer: self.is_maintainer(),
            language: visit.language.map(str::to_owned),
            accepts_gzip: visit.coding.is_some_and(|coding| accepts(coding, "gzip")),
            codings: visit.coding.map(str::to_owned),
            ranges: visit.ranges.clone(),
            held: condition.map(|(_, held)| held),
            if_range: if_range.map(|(_, held)| held),
            is_write: visit.method == VisitMethod::Post,
            orders: visit.orders.clone().map(|orders| orders.at(&self.site, visit.is_other_host)),
            only_if_cached: visit.extra == Some(ONLY_IF_CACHED),
            misbehaves: visit.misbehaves(),
            trace: trace.map(|(trace, _)| trace),
            log_number,
        };
        let begun = self.timeline.now();
        let id = lock(&self.ledger).request_begins(begun, ask);
        Pending { visit, id, head, begun, log_number }
    }

    /// When the connection began that the next request may use.
    fn connected(&self) -> Option<Moment> {
        let plain = self.connection.as_ref().map(|connection| connection.since);
        plain.or_else(|| self.multiplexed.as_ref().map(|connection| connection.since))
    }

    /// Whether a proxy reports an address that uses the site during maintenance.
    fn is_maintainer(&self) -> bool {
        let reported = self.plan.forwarded_for.as_deref().and_then(|reported| reported.rsplit(", ").next());
        reported == Some(MAINTAINER)
    }

    /// Reports the end of a request, and keeps a copy of a whole page.
    fn end(&mut self, request: &Pending, reply: &Reply) {
        lock(&self.ledger).request_ends(self.timeline.now(), request.id, reply);
        let is_whole = reply.is_complete() && reply.status == Some(200);
        let id = reply.field("X-Sim").and_then(ContentId::parse);
        let Some(id) = id.filter(|_| is_whole && request.visit.method == VisitMethod::Get) else { return };
        let text = |name| reply.field(name).map(str::to_owned);
        let has_cookie = self.plan.user.is_some() && request.visit.has_cookie;
        let held = Held { id, etag: text("ETag"), date: text("Last-Modified") };
        self.held.insert(key(&self.site, &request.visit, has_cookie), held);
    }
}

/// The copies of a visit's page that can be validated together.
fn key(site: &SitePlan, visit: &Visit, has_cookie: bool) -> (String, bool, Option<&'static str>) {
    let target = site.named(visit.is_other_host, &site.content_target(&visit.target));
    (target, has_cookie, visit.language)
}

fn pauses(steps: &[Step]) -> Duration {
    let pauses = steps.iter().map(|step| if let Step::Pause(pause) = step { *pause } else { Duration::ZERO });
    pauses.sum()
}

/// Reads one response, while what is left of the requests is written.
async fn exchange<S>(
    connection: &mut Connected<S>,
    writing: &mut Option<Vec<Step>>,
    request: &Pending,
    timeline: Timeline,
) -> (Reply, bool)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let Connected { reader, writer, .. } = connection;
    let method = Method::from_token(request.visit.method.token().as_bytes());
    let reading = Reading { timeline, manner: request.visit.manner, deadline: Instant::now() + PATIENCE };
    let mut read = pin!(reader.response(&method, reading));
    let steps = writing.take().unwrap_or_default();
    let mut is_writing = true;
    let mut write = pin!(carry_out(writer, steps));
    let (reply, persists) = loop {
        tokio::select! {
            biased;
            read = &mut read => break read,
            gives_up = &mut write, if is_writing => {
                is_writing = false;
                if gives_up {
                    break (Reply { ending: Ending::GivenUp, ..Reply::default() }, false);
                }
            }
        }
    };
    // The connection is of no use if the response came before the end of the request.
    (reply, persists && !is_writing)
}

/// Writes a request step by step. Returns whether the visitor gives up. An error of the stream is
/// left to the reader.
async fn carry_out<W: AsyncWrite + Unpin>(writer: &mut W, steps: Vec<Step>) -> bool {
    for step in steps {
        match step {
            Step::Bytes(octets) => {
                if writer.write_all(&octets).await.is_err() || writer.flush().await.is_err() {
                    return false;
                }
            }
            Step::Pause(pause) => tokio::time::sleep(pause).await,
            Step::GiveUp => return true,
        }
    }
    false
}
