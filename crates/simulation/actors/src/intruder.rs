//! A client that asks for what it may not have: purges without the token, requests that two readers
//! could understand in two ways, breaches of HTTP/2, connections of a proxy without its header, and
//! plain requests where only https is served.
//!
//! Invariant: each attempt is refused with an error status or redirected, and nothing of it reaches
//! the store or another visitor's connection.

use crate::exchange::{Ending, Reply};
use crate::frames::Breach;
use crate::ledger::SharedLedger;
use crate::moment::Timeline;
use crate::page::PagePlan;
use crate::read::{Reading, ask};
use crate::rules::Rule;
use crate::site::{SitePlan, lock};
use crate::visit::Manner;
use message::Method;
use std::fmt;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, timeout};
use world::Random;

/// The longest time until the refusal. It needs no origin and no disk.
const REFUSAL_MAX: Duration = Duration::from_secs(15);

/// Largest number of attempts of a random plan.
const ATTEMPTS_MAX: u64 = 8;

/// The longest pause before an attempt in milliseconds.
const PAUSE_MS_MAX: u64 = 8000;

/// The attempt of the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Attempt {
    /// A purge without the token.
    Purge,
    /// A purge with another token.
    PurgeWithWrongToken,
    /// A ban of everything without the token.
    Ban,
    /// A purge by the tag of all pages, without the token.
    PurgeOfTag,
    /// Two different lengths.
    TwoLengths,
    /// A length and chunks.
    LengthAndChunks,
    /// Two hosts.
    TwoHosts,
    /// No host.
    NoHost,
    /// A head beyond the limit.
    LongHead,
    /// A version that no server knows.
    FutureVersion,
    /// A space before the colon of a field.
    SpaceBeforeColon,
    /// CONNECT, as to a forward proxy.
    Connect,
    /// TRACE, whose answer would show the request.
    Trace,
    /// A URL of another scheme.
    ForeignScheme,
    /// A content beyond the limit.
    LongContent,
    /// A head that is never completed.
    HalfHead,
    /// A coding of the transfer that no server must know.
    UnknownCoding,
    /// A breach of HTTP/2.
    Frames(Breach),
    /// A request in place of the header of a proxy.
    NoHeader,
    /// The header of a proxy that is never completed.
    HalfHeader,
    /// A plain request at a listener that redirects to https.
    Plain,
    /// The same by an old client that names no host.
    PlainOfNobody,
    /// The same about the whole server.
    PlainOptions,
    /// A request that the edge must not forward any further.
    LastHop,
    /// A host that belongs to no site.
    UnknownHost,
}

/// How often an attempt is of one of the later kinds.
const LATER_KINDS_PERCENT: u64 = 40;

/// The plan of a client that is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IntruderPlan {
    /// The number of the client.
    pub number: u64,
    /// Its attempts: the pause before each in milliseconds, and the path of the page that it means.
    pub attempts: Vec<(u64, Attempt, String)>,
}

impl Attempt {
    /// The attempts with HTTP/1.
    pub const WITH_HTTP1: [Self; 17] = [
        Self::Purge,
        Self::PurgeWithWrongToken,
        Self::Ban,
        Self::PurgeOfTag,
        Self::TwoLengths,
        Self::LengthAndChunks,
        Self::TwoHosts,
        Self::NoHost,
        Self::LongHead,
        Self::FutureVersion,
        Self::SpaceBeforeColon,
        Self::Connect,
        Self::Trace,
        Self::ForeignScheme,
        Self::LongContent,
        Self::HalfHead,
        Self::UnknownCoding,
    ];

    /// An attempt by chance.
    fn random(random: &mut Random) -> Self {
        let usual = *random.choice(&Self::WITH_HTTP1).unwrap_or(&Self::Purge);
        if !random.percent(LATER_KINDS_PERCENT) {
            return usual;
        }
        match random.below(14) {
            0 => Self::NoHeader,
            1 => Self::HalfHeader,
            2 => Self::Plain,
            3 => Self::PlainOfNobody,
            4 => Self::PlainOptions,
            5 => Self::LastHop,
            6 => Self::UnknownHost,
            _ => Self::Frames(*random.choice(&Breach::ALL).unwrap_or(&Breach::Garbage)),
        }
    }

    fn text(self, host: &str, path: &str) -> String {
        let with = |line: &str, fields: &str| format!("{line}\r\nHost: {host}\r\n{fields}\r\n");
        let get = format!("GET {path} HTTP/1.1");
        let post = format!("POST {path} HTTP/1.1");
        match self {
            Self::Purge => with(&format!("PURGE {path} HTTP/1.1"), ""),
            Self::PurgeWithWrongToken => {
                with(&format!("PURGE {path} HTTP/1.1"), "Authorization: Bearer simulated-tokem\r\n")
            }
            Self::Ban => with("BAN /.* HTTP/1.1", ""),
            Self::PurgeOfTag => with("PURGE / HTTP/1.1", "Surrogate-Key: all\r\n"),
            Self::TwoLengths => with(&post, "Content-Length: 1\r\nContent-Length: 2\r\n") + "ab",
            Self::LengthAndChunks => {
                with(&post, "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n") + "0\r\n\r\n"
            }
            Self::TwoHosts => with(&get, "Host: elsewhere.test\r\n"),
            Self::NoHost => format!("{get}\r\n\r\n"),
            // The edge discards up to 256 KiB after its response. A client that sends more may lose
            // the end of the response.
            Self::LongHead => with(&get, &format!("X-Long: {}\r\n", "x".repeat(200_000))),
            Self::FutureVersion => with(&format!("GET {path} HTTP/7.0"), ""),
            Self::SpaceBeforeColon => with(&get, "Transfer-Encoding : chunked\r\n"),
            Self::Connect => with(&format!("CONNECT {host}:443 HTTP/1.1"), ""),
            Self::Trace => with(&format!("TRACE {path} HTTP/1.1"), ""),
            Self::ForeignScheme => with(&format!("GET ftp://{host}{path} HTTP/1.1"), ""),
            Self::LongContent => with(&post, "Content-Length: 999999999999\r\n"),
            Self::HalfHead => format!("{get}\r\nHost: {host}\r\n"),
            Self::NoHeader | Self::Frames(_) | Self::Plain => with(&get, ""),
            Self::PlainOfNobody => format!("GET {path} HTTP/1.0\r\n\r\n"),
            Self::PlainOptions => with("OPTIONS * HTTP/1.1", ""),
            Self::LastHop => with("OPTIONS * HTTP/1.1", "Max-Forwards: 0\r\n"),
            Self::UnknownHost => format!("{get}\r\nHost: nobody.test\r\n\r\n"),
            Self::HalfHeader => "PROXY TCP4 203.0.113.1".to_owned(),
            Self::UnknownCoding => with(&post, "Transfer-Encoding: lzma, chunked\r\n") + "0\r\n\r\n",
        }
    }

    /// The fault of the answer.
    fn fault(self, host: &str, reply: &Reply) -> Option<(Rule, String)> {
        let location = reply.field("Location").unwrap_or_default();
        let is_redirect = reply.status == Some(308) && reply.is_complete();
        match self {
            Self::Plain | Self::PlainOptions => {
                let is_right = is_redirect && location.starts_with(&format!("https://{host}/"));
                (!is_right).then(|| (Rule::Privacy, format!("status {:?} to {location}", reply.status)))
            }
            // The only name of a site stands for the one that is missing.
            Self::PlainOfNobody if is_redirect && location.starts_with("https://") => None,
            Self::LastHop if reply.status == Some(200) && reply.reason() == "last-hop" => None,
            _ => fault(reply),
        }
    }

    /// The method by which the refusal is framed.
    const fn method(self) -> &'static str {
        match self {
            Self::Purge | Self::PurgeWithWrongToken | Self::PurgeOfTag => "PURGE",
            Self::Ban => "BAN",
            Self::Connect => "CONNECT",
            Self::Trace => "TRACE",
            Self::PlainOptions | Self::LastHop => "OPTIONS",
            Self::TwoLengths | Self::LengthAndChunks | Self::LongContent | Self::UnknownCoding => "POST",
            _ => "GET",
        }
    }
}

impl IntruderPlan {
    /// A plan by chance.
    pub fn random(random: &mut Random, number: u64, site: &SitePlan) -> Self {
        let count = random.between(1, ATTEMPTS_MAX);
        let attempt = |_| {
            let page = random.choice(&site.pages).map(|page: &PagePlan| page.path.clone());
            let attempt = Attempt::random(random);
            (random.below(PAUSE_MS_MAX), attempt, page.unwrap_or_else(|| "/".to_owned()))
        };
        Self { number, attempts: (0..count).map(attempt).collect() }
    }
}

impl fmt::Display for IntruderPlan {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(to, "client {} that is refused:", self.number)?;
        self.attempts.iter().try_for_each(|(pause_ms, attempt, path)| {
            writeln!(to, "  after {pause_ms} ms, {attempt:?} of {path}")
        })
    }
}

/// A client that carries out its plan.
pub struct Intruder<C> {
    /// The plan.
    pub plan: IntruderPlan,
    /// The host name of the site.
    pub host: String,
    /// Where refusals are judged.
    pub ledger: SharedLedger,
    /// The simulated time.
    pub timeline: Timeline,
    /// Connects to the visitors' address. `None` means that no connection can be made.
    pub connect: C,
    /// The same, as a proxy that begins its connections with a header.
    pub connect_as_proxy: C,
    /// Connects to a listener that redirects to https.
    pub connect_to_redirect: C,
    /// Whether a site answers to every host.
    pub has_any_host: bool,
}

impl<S, C> Intruder<C>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    C: Fn() -> Option<S> + Send,
{
    /// Carries out the plan.
    pub async fn run(self) {
        for (pause_ms, attempt, path) in &self.plan.attempts {
            tokio::time::sleep(Duration::from_millis(*pause_ms)).await;
            if *attempt == Attempt::UnknownHost && self.has_any_host {
                continue;
            }
            let connect = match attempt {
                Attempt::NoHeader | Attempt::HalfHeader => &self.connect_as_proxy,
                Attempt::Plain | Attempt::PlainOfNobody | Attempt::PlainOptions => &self.connect_to_redirect,
                _ => &self.connect,
            };
            let Some(stream) = connect() else { return };
            let reply = match attempt {
                Attempt::Frames(breach) => {
                    let committed = breach.commit(stream, &self.host, path);
                    let late = Reply { ending: Ending::TimedOut, ..Reply::default() };
                    timeout(REFUSAL_MAX, committed).await.unwrap_or(late)
                }
                _ => self.exchange(stream, *attempt, &attempt.text(&self.host, path)).await,
            };
            let at = self.timeline.now();
            let name = format!("{attempt:?} of {path} by client {}", self.plan.number);
            lock(&self.ledger).attempt_answered(at, &name, attempt.fault(&self.host, &reply));
        }
    }

    async fn exchange(&self, stream: S, attempt: Attempt, text: &str) -> Reply {
        let method = Method::from_token(attempt.method().as_bytes());
        let deadline = Instant::now() + REFUSAL_MAX;
        let reading = Reading { timeline: self.timeline, manner: Manner::Plain, deadline };
        let memory = lock(&self.ledger).memory().clone();
        ask(stream, &method, text, reading, memory).await
    }
}

/// What is wrong with a refusal: the rule and the text.
fn fault(reply: &Reply) -> Option<(Rule, String)> {
    match reply.status {
        Some(400..=499 | 501 | 505) if reply.is_complete() => None,
        Some(status) => Some((Rule::Privacy, format!("status {status}, {}", reply.ending))),
        // A head that is not read to its end may cost the connection without an answer.
        None if reply.ending == Ending::Closed => None,
        None => Some((Rule::Promptness, format!("no answer, {}", reply.ending))),
    }
}

#[cfg(test)]
mod tests {
    use super::{Attempt, fault};
    use crate::exchange::{Ending, Reply};
    use crate::rules::Rule;
    use bytes::BytesMut;
    use h1::{Limits, Strictness, parse_request};

    #[test]
    fn only_refusals_are_right() {
        let rule = |status, ending| {
            let reply = Reply { ending, status, ..Reply::default() };
            fault(&reply).map(|(rule, _)| rule)
        };
        assert_eq!(rule(Some(403), Ending::Complete), None);
        assert_eq!(rule(None, Ending::Closed), None);
        assert_eq!(rule(Some(200), Ending::Complete), Some(Rule::Privacy));
        assert_eq!(rule(Some(502), Ending::Complete), Some(Rule::Privacy));
        assert_eq!(rule(None, Ending::TimedOut), Some(Rule::Promptness));
    }

    #[test]
    fn each_attempt_is_a_purge_or_malformed() {
        for attempt in Attempt::WITH_HTTP1 {
            let mut octets = BytesMut::from(attempt.text("a.test", "/p").as_bytes());
            let parsed = parse_request(&mut octets, &Limits::DEFAULT, Strictness::Strict);
            let is_purge =
                parsed.is_ok_and(|request| request.is_some_and(|request| purge::read(&request.head).is_ok()));
            assert_eq!(is_purge, matches!(attempt.method(), "PURGE" | "BAN"), "{attempt:?}");
        }
    }
}
