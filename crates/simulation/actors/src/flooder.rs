//! A client that asks for more than its share, with a neighbour in its network that does not, and
//! clients that the operator denies.
//!
//! Invariants: a client gets its burst and its rate, and no more. A refused client learns how long
//! to wait, and is served again after that. Only a client that goes on is banned, and its neighbour
//! is never refused. A denied client gets nothing. The edge counts each refusal.

use crate::exchange::{Ending, Reply};
use crate::guard_model::{GuardTerms, Share, Span, Verdict};
use crate::ledger::SharedLedger;
use crate::moment::Timeline;
use crate::read::{Reader, Reading};
use crate::rules::Rule;
use crate::site::lock;
use crate::visit::Manner;
use bytes::BytesMut;
use message::Method;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::time::{Instant, sleep, timeout};
use world::Random;

/// The largest number of steps of a random plan, and the longest pause before one in milliseconds.
const STEPS_MAX: u64 = 6;
const PAUSE_MS_MAX: u64 = 5000;

/// The largest number of requests beyond its burst that a client sends at once, and how many of
/// them it sends before it reads.
const FLOOD_MAX: u64 = 160;
const BATCH: u64 = 8;

/// The largest number of requests for the origin.
const ORIGIN_FLOOD_MAX: u64 = 30;

/// The longest time until an answer that needs no origin, and until one that does.
const ANSWER_MAX: Duration = Duration::from_secs(15);
const ORIGIN_ANSWER_MAX: Duration = Duration::from_secs(150);

/// Connections beyond the limit of an address.
const CONNECTIONS_BEYOND: usize = 3;

/// Time in which the edge takes or closes a connection, or learns that its client has left.
const ACCEPTED_WITHIN: Duration = Duration::from_secs(2);

/// A path that the site does not have, so that no page depends on requests for it.
const NO_PAGE: &str = "/of-a-flood";

/// A client of the guard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum GuardedClient {
    /// The one that floods the edge.
    Flooder,
    /// Another address of its network.
    Neighbour,
    /// An address that the operator denies.
    Denied,
    /// Another address of its network, with many connections.
    Holder,
}

/// What a client does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FloodStep {
    /// So many requests that need no origin, beyond the burst, and then one of the neighbour.
    Flood(u64),
    /// So many requests that need the origin.
    OriginFlood(u64),
    /// A request after the time that the edge has stated.
    Return,
    /// A request of the neighbour.
    Neighbour,
    /// A request of a denied address.
    Denied,
    /// More connections of one address than it may have.
    Connections,
}

/// The plan of a flood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlooderPlan {
    /// Its number.
    pub number: u64,
    /// Its steps: the pause before each in milliseconds, and whether a proxy that the edge believes
    /// states the address.
    pub steps: Vec<(u64, FloodStep, bool)>,
}

/// Refusals as the clients have seen them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FloodCounts {
    /// Requests and connections of denied clients.
    pub denied: u64,
    /// Those of a client beyond its limit of requests, banned or not.
    pub fast: u64,
    /// Requests beyond the limit for the origin.
    pub costly: u64,
    /// Connections beyond the limit of an address.
    pub connections: u64,
}

/// Clients that carry out a plan.
pub struct Flooder<C> {
    /// The plan.
    pub plan: FlooderPlan,
    /// The limits in force.
    pub terms: GuardTerms,
    /// The host name of the site.
    pub host: String,
    /// Where answers are judged.
    pub ledger: SharedLedger,
    /// The simulated time.
    pub timeline: Timeline,
    /// Connects one of the clients, or the proxy that states its address. `None` means that no
    /// connection can be made.
    pub connect: C,
    /// The address that the proxy states.
    pub address_of: fn(u64, GuardedClient) -> std::net::IpAddr,
    /// What the clients have seen.
    pub counts: Arc<Mutex<FloodCounts>>,
}

impl FlooderPlan {
    /// A plan by chance.
    pub fn random(random: &mut Random, number: u64) -> Self {
        let count = random.between(2, STEPS_MAX);
        let step = |_| {
            let step = match random.below(12) {
                0..4 => FloodStep::Flood(random.between(1, FLOOD_MAX)),
                4..6 => FloodStep::OriginFlood(random.between(1, ORIGIN_FLOOD_MAX)),
                6..8 => FloodStep::Return,
                8 | 9 => FloodStep::Neighbour,
                10 => FloodStep::Denied,
                _ => FloodStep::Connections,
            };
            (random.below(PAUSE_MS_MAX), step, random.percent(25))
        };
        Self { number, steps: (0..count).map(step).collect() }
    }
}

impl fmt::Display for FlooderPlan {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(to, "flood {}:", self.number)?;
        self.steps.iter().try_for_each(|(pause_ms, step, is_stated)| {
            writeln!(to, "  after {pause_ms} ms, {step:?}, behind a proxy: {is_stated}")
        })
    }
}

/// A connection of a client.
struct Link<S> {
    reader: Reader<S>,
    /// The lines that state the address of the client, if a proxy does.
    stated: String,
    is_used: bool,
}

impl<S, C> Flooder<C>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    C: Fn(GuardedClient, bool) -> Option<S> + Send,
{
    /// Carries out the plan.
    pub async fn run(self) {
        let mut share = Share::new(&self.terms);
        for (pause_ms, step, is_stated) in &self.plan.steps {
            sleep(Duration::from_millis(*pause_ms)).await;
            let burst = u64::from(self.terms.requests.burst);
            let done = match step {
                FloodStep::Flood(beyond) => match self.flood(&mut share, burst + beyond, *is_stated).await {
                    // The client may be banned at this moment.
                    Some(Ok(())) => self.live_beside(*is_stated).await,
                    other => other,
                },
                FloodStep::OriginFlood(count) => self.flood_origin(&mut share, *count, *is_stated).await,
                FloodStep::Return => self.come_back(&mut share, *is_stated).await,
                FloodStep::Neighbour => self.live_beside(*is_stated).await,
                FloodStep::Denied => self.be_denied(*is_stated).await,
                FloodStep::Connections => self.hold().await,
            };
            let fault = match done {
                Some(Ok(())) => None,
                Some(Err(fault)) => Some((Rule::Guarding, fault)),
                // No connection can be made.
                None => return,
            };
            let name = format!("{step:?} of flood {}, behind a proxy: {is_stated}", self.plan.number);
            lock(&self.ledger).attempt_answered(self.timeline.now(), &name, fault);
        }
    }

    fn link(&self, client: GuardedClient, is_stated: bool) -> Option<Link<S>> {
        let stream = (self.connect)(client, is_stated)?;
        let memory = lock(&self.ledger).memory().clone();
        let address = (self.address_of)(self.plan.number, client);
        let stated = if is_stated { format!("X-Forwarded-For: {address}\r\n") } else { String::new() };
        let reader = Reader { stream, input: BytesMut::new(), memory };
        Some(Link { reader, stated, is_used: false })
    }

    /// A request that the edge answers by itself, after its guard.
    fn plain(&self, stated: &str) -> String {
        format!("OPTIONS * HTTP/1.1\r\nHost: {}\r\nMax-Forwards: 0\r\n{stated}\r\n", self.host)
    }

    /// A request that the edge passes on.
    fn costly(&self, stated: &str) -> String {
        format!("HEAD {NO_PAGE} HTTP/1.1\r\nHost: {}\r\nCache-Control: no-store\r\n{stated}\r\n", self.host)
    }

    /// Sends `count` requests at once, and reads their answers.
    async fn send(&self, link: &mut Link<S>, count: u64) -> Vec<(Span, Reply)> {
        let text = self.plain(&link.stated).repeat(count as usize);
        self.exchange(link, &text, count, (&Method::Options, ANSWER_MAX)).await
    }

    async fn exchange(
        &self,
        link: &mut Link<S>,
        text: &str,
        count: u64,
        (method, within): (&Method, Duration),
    ) -> Vec<(Span, Reply)> {
        let sent = self.timeline.now();
        let deadline = Instant::now() + within;
        // A connection that the edge has closed takes nothing.
        let _ = link.reader.stream.write_all(text.as_bytes()).await;
        let _ = link.reader.stream.flush().await;
        let mut replies = Vec::new();
        for _ in 0..count {
            let reading = Reading { timeline: self.timeline, manner: Manner::Plain, deadline };
            let (reply, is_persistent) = link.reader.response(method, reading).await;
            replies.push((Span { sent, received: self.timeline.now() }, reply));
            if !is_persistent {
                break;
            }
        }
        replies
    }

    /// Sends more requests than a client may.
    async fn flood(&self, share: &mut Share, count: u64, is_stated: bool) -> Option<Result<(), String>> {
        let mut link = self.link(GuardedClient::Flooder, is_stated)?;
        let mut left = count;
        while left > 0 {
            let batch = left.min(BATCH);
            left -= batch;
            let replies = self.send(&mut link, batch).await;
            let is_whole = replies.len() as u64 == batch;
            for (span, reply) in replies {
                let judged = self.judge(share, &mut link, span, &reply);
                if judged != Ok(true) {
                    return Some(judged.map(drop));
                }
            }
            if !is_whole {
                return Some(Err("the connection ends early".to_owned()));
            }
        }
        Some(Ok(()))
    }

    /// Judges an answer to a plain request of the flooder. Returns whether the connection goes on.
    fn judge(
        &self,
        share: &mut Share,
        link: &mut Link<S>,
        span: Span,
        reply: &Reply,
    ) -> Result<bool, String> {
        let is_first = !std::mem::replace(&mut link.is_used, true);
        let may_close = is_first && link.stated.is_empty();
        let verdict = verdict_of(reply, "client-rate", may_close)?;
        if matches!(verdict, Verdict::Closed | Verdict::Refused(_)) {
            lock(&self.counts).fast += 1;
        } else if reply.status != Some(200) || reply.reason() != "last-hop" {
            return Err(told(reply));
        }
        share.request(span, verdict)?;
        Ok(verdict != Verdict::Closed)
    }

    /// Sends requests that the edge must pass on, one after the other.
    async fn flood_origin(
        &self,
        share: &mut Share,
        count: u64,
        is_stated: bool,
    ) -> Option<Result<(), String>> {
        let mut link = self.link(GuardedClient::Flooder, is_stated)?;
        let text = self.costly(&link.stated);
        for _ in 0..count {
            let within = (&Method::Head, ORIGIN_ANSWER_MAX);
            let Some((span, reply)) = self.exchange(&mut link, &text, 1, within).await.pop() else { break };
            let may_close = !link.is_used && link.stated.is_empty();
            link.is_used = true;
            match self.judge_costly(share, may_close, span, &reply) {
                // After an error of the origin the edge may close the connection.
                Ok(true) if reply.status.is_some_and(|status| status < 500) => {}
                judged => return Some(judged.map(drop)),
            }
        }
        Some(Ok(()))
    }

    /// Judges an answer to a request that needs the origin, unless a route answers it.
    fn judge_costly(
        &self,
        share: &mut Share,
        may_close: bool,
        span: Span,
        reply: &Reply,
    ) -> Result<bool, String> {
        if reply.ending == Ending::TimedOut {
            return Ok(false);
        }
        let verdict = verdict_of(reply, "client-rate", may_close);
        if let Ok(Verdict::Closed | Verdict::Refused(_)) = verdict {
            lock(&self.counts).fast += 1;
            let verdict = verdict?;
            share.request(span, verdict)?;
            return Ok(verdict != Verdict::Closed);
        }
        share.request(span, Verdict::Granted)?;
        let verdict = match verdict_of(reply, "client-origin-rate", false)? {
            Verdict::Refused(secs) => {
                lock(&self.counts).costly += 1;
                Verdict::Refused(secs)
            }
            _ if reply.reason() == "pass-request-no-store" => Verdict::Granted,
            _ => Verdict::Unknown,
        };
        share.origin_request(span, verdict)?;
        Ok(reply.is_complete())
    }

    /// Comes back when the client is not banned any more, and has waited as long as the edge said.
    async fn come_back(&self, share: &mut Share, is_stated: bool) -> Option<Result<(), String>> {
        // No wait of the limit is longer than a second.
        let free = share.free_at().since(self.timeline.now());
        sleep(free + Duration::from_millis(1001)).await;
        let mut link = self.link(GuardedClient::Flooder, is_stated)?;
        let replies = self.send(&mut link, 1).await;
        let (span, reply) = replies.into_iter().next()?;
        let judged = self.judge(share, &mut link, span, &reply);
        Some(judged.and_then(|_| granted(&reply)))
    }

    /// Sends a request of a client that has done nothing wrong.
    async fn live_beside(&self, is_stated: bool) -> Option<Result<(), String>> {
        let mut link = self.link(GuardedClient::Neighbour, is_stated)?;
        let (_, reply) = self.send(&mut link, 1).await.into_iter().next()?;
        Some(granted(&reply))
    }

    /// Sends a request of a client that is denied.
    async fn be_denied(&self, is_stated: bool) -> Option<Result<(), String>> {
        let mut link = self.link(GuardedClient::Denied, is_stated)?;
        let (_, reply) = self.send(&mut link, 1).await.into_iter().next()?;
        let is_right = match is_stated {
            true => reply.status == Some(403) && reply.reason() == "client-denied" && reply.is_complete(),
            false => reply.status.is_none() && reply.ending == Ending::Closed,
        };
        lock(&self.counts).denied += 1;
        Some(if is_right { Ok(()) } else { Err(told(&reply)) })
    }

    /// Opens more connections than an address may have. Those beyond the limit are closed, and the
    /// address is served again when it has closed the others.
    async fn hold(&self) -> Option<Result<(), String>> {
        let mut held = Vec::new();
        for _ in 0..self.terms.connections_max {
            held.push(self.link(GuardedClient::Holder, false)?);
        }
        sleep(ACCEPTED_WITHIN).await;
        for _ in 0..CONNECTIONS_BEYOND {
            let mut beyond = self.link(GuardedClient::Holder, false)?;
            if !is_closed(&mut beyond).await {
                return Some(Err("a connection beyond the limit stays open".to_owned()));
            }
            lock(&self.counts).connections += 1;
        }
        for link in &mut held {
            if is_closed(link).await {
                return Some(Err("a connection within the limit is closed".to_owned()));
            }
        }
        drop(held);
        sleep(ACCEPTED_WITHIN).await;
        let mut link = self.link(GuardedClient::Holder, false)?;
        let (_, reply) = self.send(&mut link, 1).await.into_iter().next()?;
        Some(granted(&reply))
    }
}

/// Whether the edge closes a connection on which nothing is sent.
async fn is_closed<S: AsyncRead + Unpin>(link: &mut Link<S>) -> bool {
    use tokio::io::AsyncReadExt as _;
    let read = link.reader.stream.read_u8();
    timeout(ACCEPTED_WITHIN / 4, read).await.is_ok_and(|read| read.is_err())
}

/// The verdict of a limit with this reason. `may_close`: the edge may have closed the connection at
/// once.
fn verdict_of(reply: &Reply, reason: &str, may_close: bool) -> Result<Verdict, String> {
    match reply.status {
        None if reply.ending == Ending::Closed && may_close => Ok(Verdict::Closed),
        Some(429) if reply.reason() == reason => {
            let stated = reply.field("Retry-After").and_then(|secs| secs.parse().ok());
            stated.map(Verdict::Refused).ok_or_else(|| "429 without Retry-After".to_owned())
        }
        Some(_) if reply.is_complete() => Ok(Verdict::Granted),
        _ => Err(told(reply)),
    }
}

/// Whether a request was served.
fn granted(reply: &Reply) -> Result<(), String> {
    let is_served = reply.status == Some(200) && reply.reason() == "last-hop" && reply.is_complete();
    if is_served { Ok(()) } else { Err(told(reply)) }
}

fn told(reply: &Reply) -> String {
    let status = reply.status.map_or_else(|| "no response".to_owned(), |status| format!("status {status}"));
    format!("{status}, {}, {}", reply.reason(), reply.ending)
}

#[cfg(test)]
mod tests {
    use super::{FloodStep, FlooderPlan, granted, verdict_of};
    use crate::exchange::{Ending, Reply};
    use crate::guard_model::Verdict;
    use std::collections::BTreeSet;
    use world::Random;

    fn reply(status: u16, reason: &str) -> Reply {
        let mut reply = Reply { ending: Ending::Complete, status: Some(status), ..Reply::default() };
        reply.fields.push("Cache-Status", format!("Petasos; detail={reason}"));
        reply
    }

    #[test]
    fn plans_follow_from_their_seed_and_have_all_steps() {
        let plan = |seed| FlooderPlan::random(&mut Random::new(seed), 1);
        assert_eq!(plan(4), plan(4));
        assert_eq!(plan(4).to_string().lines().count(), 1 + plan(4).steps.len());
        let steps: BTreeSet<_> = (0..200)
            .flat_map(|seed| plan(seed).steps)
            .map(|(_, step, _)| match step {
                FloodStep::Flood(_) => FloodStep::Flood(0),
                FloodStep::OriginFlood(_) => FloodStep::OriginFlood(0),
                other => other,
            })
            .collect();
        assert_eq!(steps.len(), 6);
    }

    #[test]
    fn refusal_has_its_reason_and_states_the_wait() {
        let mut refusal = reply(429, "client-rate");
        assert!(verdict_of(&refusal, "client-rate", false).is_err(), "no Retry-After");
        refusal.fields.push("Retry-After", "7");
        assert_eq!(verdict_of(&refusal, "client-rate", false), Ok(Verdict::Refused(7)));
        assert_eq!(verdict_of(&refusal, "client-origin-rate", false), Ok(Verdict::Granted));
        assert!(granted(&refusal).is_err() && granted(&reply(200, "last-hop")).is_ok());
        assert_eq!(verdict_of(&Reply::default(), "client-rate", true), Ok(Verdict::Closed));
        assert!(verdict_of(&Reply::default(), "client-rate", false).is_err());
    }
}
