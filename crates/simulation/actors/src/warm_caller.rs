//! A client of the admin address that fills the cache: it begins and ends runs, and looks how far
//! they are.
//!
//! Invariant: all of its runs have the rate of the site's plan, so that the origin can judge it.

use crate::exchange::{Ending, Reply};
use crate::ledger::SharedLedger;
use crate::listed::ListedPlan;
use crate::moment::Timeline;
use crate::read::{Reading, ask};
use crate::site::{SitePlan, lock};
use crate::visit::Manner;
use message::Method;
use serde_json::{Value, json};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Instant;
use world::Random;

/// The longest time until the whole answer. No call waits for an origin or a disk.
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// Largest number of calls of a random plan.
const CALLS_MAX: u64 = 8;

/// The longest pause before a call in milliseconds.
const PAUSE_MS_MAX: u64 = 12_000;

/// The longest time of a run when nothing is wrong.
const RUN_MAX: Duration = Duration::from_secs(600);

/// How often the client looks whether a run has ended.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// A call of the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WarmRequest {
    /// Begins a run with the sitemaps that the site names.
    Start,
    /// Begins a run with this sitemap, and with a list of pages.
    StartNamed,
    /// Begins a run with a list of pages only.
    StartList,
    /// Ends the run.
    Stop,
    /// Looks how far the runs are.
    Show,
    /// A call for no site.
    NoSite,
    /// A call with a wrong rate.
    WrongRate,
    /// A call that names no pages.
    NoPages,
    /// A call that is no JSON.
    Unreadable,
    /// A call without the token.
    WithoutToken,
}

impl WarmRequest {
    /// A call by chance.
    fn random(random: &mut Random) -> Self {
        match random.below(16) {
            0..4 => Self::Start,
            4..6 => Self::StartNamed,
            6..8 => Self::StartList,
            8 => Self::Stop,
            9..11 => Self::Show,
            11 => Self::NoSite,
            12 => Self::WrongRate,
            13 => Self::NoPages,
            14 => Self::Unreadable,
            _ => Self::WithoutToken,
        }
    }

    /// The content of the call for the site at this URL.
    fn content(self, url: &str, listed: &ListedPlan) -> String {
        let start = |sitemaps: Option<Vec<&str>>, pages: Vec<String>| {
            let rate = listed.rate;
            let call =
                json!({ "action": "start", "url": url, "sitemaps": sitemaps, "pages": pages, "rate": rate });
            call.to_string()
        };
        match self {
            Self::Start | Self::WithoutToken => start(Some(Vec::new()), Vec::new()),
            Self::StartNamed => start(Some(vec![listed.sitemap_path(), "/listed/feed"]), listed.listed()),
            Self::StartList => start(None, listed.listed()),
            Self::Stop => json!({ "action": "stop", "url": url }).to_string(),
            Self::Show => String::new(),
            Self::NoSite => json!({ "action": "start", "url": "ftp://a.test/", "sitemaps": [] }).to_string(),
            Self::WrongRate => {
                json!({ "action": "start", "url": url, "sitemaps": [], "rate": 0 }).to_string()
            }
            Self::NoPages => start(None, Vec::new()),
            Self::Unreadable => "{\"action\":".to_owned(),
        }
    }

    /// The status that the answer must have.
    const fn status(self) -> u16 {
        match self {
            Self::Start | Self::StartNamed | Self::StartList | Self::Stop | Self::Show => 200,
            Self::NoSite | Self::WrongRate | Self::NoPages => 422,
            Self::Unreadable => 400,
            Self::WithoutToken => 403,
        }
    }
}

/// The plan of a client that fills the cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WarmCallerPlan {
    /// The number of the client.
    pub number: u64,
    /// Its calls: the pause before each in milliseconds, and whether it is for the other host.
    pub calls: Vec<(u64, WarmRequest, bool)>,
}

impl WarmCallerPlan {
    /// A plan by chance.
    pub fn random(random: &mut Random, number: u64) -> Self {
        let count = random.between(1, CALLS_MAX);
        let call = |_| (random.below(PAUSE_MS_MAX), WarmRequest::random(random), random.percent(30));
        Self { number, calls: (0..count).map(call).collect() }
    }
}

impl fmt::Display for WarmCallerPlan {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(to, "client {} that fills the cache:", self.number)?;
        self.calls.iter().try_for_each(|(pause_ms, call, is_other)| {
            writeln!(to, "  after {pause_ms} ms, {call:?}, other host: {is_other}")
        })
    }
}

/// A client that carries out its plan.
pub struct WarmCaller<A> {
    /// The plan.
    pub plan: WarmCallerPlan,
    /// The site.
    pub site: Arc<SitePlan>,
    /// The secret that runs need, if they need one.
    pub token: Option<String>,
    /// Where answers are judged.
    pub ledger: SharedLedger,
    /// The simulated time.
    pub timeline: Timeline,
    /// Connects to the admin address. `None` means that no connection can be made.
    pub connect: A,
}

impl<S, A> WarmCaller<A>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    A: Fn() -> Option<S> + Send + Sync,
{
    /// Carries out the plan.
    pub async fn run(self) {
        for (pause_ms, call, is_other) in &self.plan.calls {
            tokio::time::sleep(Duration::from_millis(*pause_ms)).await;
            if *call == WarmRequest::WithoutToken && self.token.is_none() {
                continue;
            }
            let begun = self.timeline.now();
            let reply = self.call(*call, *is_other).await;
            let at = self.timeline.now();
            let fault = fault(*call, &reply, at.since(begun));
            let name = format!("{call:?} (filling the cache)");
            lock(&self.ledger).warm_answered(at, &name, fault);
        }
    }

    /// Fills the cache when nothing is wrong and nobody else is there. `is_plain`: no route answers
    /// in the place of the origin.
    ///
    /// # Errors
    /// What is wrong with the run.
    pub async fn fill_in_calm(self, is_plain: bool) -> Result<(), String> {
        let reply = self.call(WarmRequest::Start, false).await;
        if let Some(fault) = fault(WarmRequest::Start, &reply, Duration::ZERO) {
            return Err(format!("a run cannot begin: {fault}"));
        }
        let begun = parsed(&reply);
        let ends = Instant::now() + RUN_MAX;
        while Instant::now() < ends {
            tokio::time::sleep(LOOK_EVERY).await;
            let reply = self.call(WarmRequest::Show, false).await;
            if let Some(fault) = fault(WarmRequest::Show, &reply, Duration::ZERO) {
                return Err(format!("the runs are not shown: {fault}"));
            }
            let shown = parsed(&reply);
            let is_same = |run: &&Value| ["site", "run"].iter().all(|name| run.get(name) == begun.get(name));
            let run = runs_of(&shown).find(is_same);
            let has_ended = |run: &&Value| run.get("is_running") == Some(&Value::Bool(false));
            let Some(run) = run.filter(has_ended) else { continue };
            let is_orderly = self.site.listed.as_ref().is_some_and(ListedPlan::is_orderly);
            let is_complete = run.get("state").is_some_and(|state| state == "complete");
            let is_whole = is_complete && number(run, "failed") == 0 && done(run) == number(run, "found");
            return if is_whole || !is_plain || !is_orderly {
                Ok(())
            } else {
                Err(format!("a run without a fault is not complete: {run}"))
            };
        }
        Err(format!("a run has not ended after {RUN_MAX:?}"))
    }

    async fn call(&self, call: WarmRequest, is_other: bool) -> Reply {
        let Some(listed) = &self.site.listed else { return Reply::default() };
        let Some(stream) = (self.connect)() else {
            return Reply { ending: Ending::NoConnection, ..Reply::default() };
        };
        let url = format!("http://{}/", self.site.host_name(is_other));
        let method = if call == WarmRequest::Show { "GET" } else { "POST" };
        let content = call.content(&url, listed);
        let token = self.token.as_ref().filter(|_| call != WarmRequest::WithoutToken);
        let token = token.map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default();
        let text = format!(
            "{method} /warm HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{token}\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{content}",
            content.len()
        );
        let deadline = Instant::now() + ANSWER_MAX * 2;
        let reading = Reading { timeline: self.timeline, manner: Manner::Plain, deadline };
        let memory = lock(&self.ledger).memory().clone();
        ask(stream, &Method::from_token(method.as_bytes()), &text, reading, memory).await
    }
}

fn parsed(reply: &Reply) -> Value {
    serde_json::from_slice(&reply.body).unwrap_or_default()
}

fn number(run: &Value, name: &str) -> u64 {
    run.get(name).and_then(Value::as_u64).unwrap_or_default()
}

/// The runs of a document.
fn runs_of(shown: &Value) -> impl Iterator<Item = &Value> {
    shown.get("runs").and_then(Value::as_array).into_iter().flatten()
}

/// The pages that a run has looked at.
fn done(run: &Value) -> u64 {
    ["warmed", "fresh", "failed", "not_cacheable"].iter().map(|name| number(run, name)).sum()
}

/// The fault of an answer.
fn fault(call: WarmRequest, reply: &Reply, took: Duration) -> Option<String> {
    let status = reply.status.unwrap_or_default();
    if !reply.is_complete() || status != call.status() {
        return Some(format!("status {status}, {}", reply.ending));
    }
    if took > ANSWER_MAX {
        return Some(format!("it took {} ms", took.as_millis()));
    }
    if call == WarmRequest::WithoutToken {
        return None;
    }
    let shown = parsed(reply);
    match call {
        WarmRequest::Show if !shown.get("runs").is_some_and(Value::is_array) => {
            Some("it shows no list".to_owned())
        }
        WarmRequest::Show => {
            runs_of(&shown).find(|run| done(run) > number(run, "found")).map(|run| format!("{run}"))
        }
        WarmRequest::Start | WarmRequest::StartNamed | WarmRequest::StartList
            if !shown.get("run").is_some_and(Value::is_u64) =>
        {
            Some("it names no run".to_owned())
        }
        _ => (!shown.is_object()).then(|| "its content is no JSON".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::{WarmRequest, fault};
    use crate::exchange::{Ending, Reply};
    use bytes::Bytes;
    use std::time::Duration;

    #[test]
    fn answers_are_judged_by_status_and_counts() {
        let is_right = |call, status, body: &'static str| {
            let body = Bytes::from_static(body.as_bytes());
            let reply = Reply { ending: Ending::Complete, status: Some(status), body, ..Reply::default() };
            fault(call, &reply, Duration::ZERO).is_none()
        };
        assert!(is_right(WarmRequest::Start, 200, "{\"site\":\"any\",\"run\":1}"));
        assert!(!is_right(WarmRequest::Start, 200, "{\"site\":\"any\",\"run\":null}"));
        assert!(
            is_right(WarmRequest::WithoutToken, 403, "no\n") && !is_right(WarmRequest::Stop, 403, "no\n")
        );
        assert!(is_right(WarmRequest::Show, 200, "{\"runs\":[{\"found\":2,\"warmed\":1,\"fresh\":1}]}"));
        assert!(!is_right(WarmRequest::Show, 200, "{\"runs\":[{\"found\":1,\"warmed\":1,\"fresh\":1}]}"));
    }
}
