//! A client that edits pages and purges them in every dialect.
//!
//! Invariant: a page is edited before its purge is sent, and the purge is recorded before its first
//! byte is sent. When the client looks at an edited page itself, the ledger records an ordinary
//! request.

use crate::event::PurgeAnswer;
use crate::exchange::{Ask, Ending, Reply};
use crate::ledger::SharedLedger;
use crate::moment::Timeline;
use crate::order::{PlannedPurge, WrittenPurge};
use crate::read::{Reader, Reading};
use crate::routing::is_own_reason;
use crate::site::{SharedSite, SitePlan, lock};
use crate::visit::Manner;
use bytes::BytesMut;
use message::Method;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::time::Instant;
use world::Random;

/// Longest time that a client waits for the answer to a purge.
const PATIENCE: Duration = Duration::from_secs(600);

/// Largest number of purges of a random plan.
const PURGES_MAX: u64 = 16;

/// The plan of a client that purges. Purges can be removed from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PurgePlan {
    /// The number of the client.
    pub number: u64,
    /// Its edits and purges.
    pub purges: Vec<PlannedPurge>,
}

impl PurgePlan {
    /// A random plan. Each purge depends only on the site, on one seed from `random` and on its own
    /// number.
    pub fn random(random: &mut Random, number: u64, site: &SitePlan) -> Self {
        let seed = random.number();
        let count = random.between(1, PURGES_MAX);
        let purge = |purge| PlannedPurge::random(&mut Random::fork(seed, "purge", purge), purge, site);
        Self { number, purges: (0..count).filter_map(purge).collect() }
    }
}

impl fmt::Display for PurgePlan {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(to, "client {} that purges:", self.number)?;
        self.purges.iter().try_for_each(|purge| writeln!(to, "  {purge}"))
    }
}

/// A client that carries out its plan.
pub struct Purger<C, A> {
    plan: PurgePlan,
    site: SharedSite,
    ledger: SharedLedger,
    timeline: Timeline,
    token: Option<String>,
    visitors: C,
    admin: A,
}

impl<S, C, A> Purger<C, A>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    C: Fn() -> Option<S> + Send,
    A: Fn() -> Option<S> + Send,
{
    /// A client that connects to the visitors' address with `visitors`, and to the admin address
    /// with `admin`. It sends `token` if there is one; otherwise the edge must trust its address.
    pub const fn new(
        plan: PurgePlan,
        site: SharedSite,
        ledger: SharedLedger,
        timeline: Timeline,
        token: Option<String>,
        visitors: C,
        admin: A,
    ) -> Self {
        Self { plan, site, ledger, timeline, token, visitors, admin }
    }

    /// Carries out the plan.
    pub async fn run(mut self) {
        for purge in std::mem::take(&mut self.plan.purges) {
            tokio::time::sleep(Duration::from_millis(purge.pause_ms)).await;
            if let Some(pause_ms) = purge.retags_ms {
                self.retag(&purge, Duration::from_millis(pause_ms)).await;
            }
            self.edit(&purge);
            tokio::time::sleep(Duration::from_millis(purge.after_edit_ms)).await;
            let site = Arc::clone(lock(&self.site).plan());
            if let Some(written) = purge.write(&site, self.token.as_deref()) {
                self.send(&purge, written).await;
            }
            if let Some(pause_ms) = purge.looks_after_ms {
                tokio::time::sleep(Duration::from_millis(pause_ms)).await;
                self.look(&purge, &site).await;
            }
            if let Some(pause_ms) = purge.again_after_ms {
                self.do_again(&purge, &site, pause_ms).await;
            }
        }
    }

    /// Gives the page a tag that only a confirmation brings, and purges a new version by it.
    async fn retag(&self, purge: &PlannedPurge, pause: Duration) {
        let site = Arc::clone(lock(&self.site).plan());
        self.look(purge, &site).await;
        for step in purge.retagging() {
            self.edit(&step);
            if let Some(written) = step.write(&site, self.token.as_deref()) {
                self.send(&step, written).await;
            }
            self.look(&step, &site).await;
            tokio::time::sleep(pause).await;
            self.look(&step, &site).await;
        }
    }

    /// Edits the page again soon after its last version has been fetched, and repeats the purge.
    async fn do_again(&self, purge: &PlannedPurge, site: &SitePlan, pause_ms: u64) {
        self.look(purge, site).await;
        tokio::time::sleep(Duration::from_millis(pause_ms)).await;
        self.edit(purge);
        if let Some(written) = purge.write(site, self.token.as_deref()) {
            self.send(purge, written).await;
        }
        self.look(purge, site).await;
    }

    fn edit(&self, purge: &PlannedPurge) {
        let Some(path) = &purge.edits else { return };
        let at = self.timeline.now();
        let mut site = lock(&self.site);
        let tags = purge.new_tag.as_ref().and_then(|tag| {
            let mut tags = site.plan().page(path)?.tags.clone();
            tags.push(tag.clone());
            Some(tags)
        });
        let named = site.plan().named(purge.is_other_host, path);
        if let Some(tags) = tags.clone().filter(|_| purge.only_retags) {
            site.retag(&named, tags);
            return;
        }
        let version = site.edit(&named, at, tags);
        drop(site);
        if let Some(version) = version {
            lock(&self.ledger).edited(at, &named, version);
        }
    }

    async fn send(&self, purge: &PlannedPurge, written: WrittenPurge) {
        let stream = if written.is_admin { (self.admin)() } else { (self.visitors)() };
        let name = format!("client {} purge {}", self.plan.number, purge.number);
        let order = format!("{name} ({})", written.text.lines().next().unwrap_or_default());
        if let Some(dialect) = purge.dialect {
            lock(&self.ledger).count_dialect(format!("{dialect:?}"));
        }
        let sent = self.timeline.now();
        let id = lock(&self.ledger).purge_sent(sent, &order, written.scope, written.is_soft);
        let reply = match stream {
            Some(stream) => self.exchange(stream, purge.is_abandoned, &written.method, &written.text).await,
            None => Reply { ending: Ending::NoConnection, ..Reply::default() },
        };
        let answer = answer_of(&reply, &written.method);
        lock(&self.ledger).count_reason(reply.reason());
        lock(&self.ledger).purge_answered(self.timeline.now(), id, answer, purge.is_abandoned);
    }

    /// Requests the page, as an author does who wants to see the edit.
    async fn look(&self, purge: &PlannedPurge, site: &SitePlan) {
        if site.page(&purge.path).is_none() {
            return;
        }
        let who = format!("client {} after purge {}", self.plan.number, purge.number);
        let (method, target) = ("GET".to_owned(), site.named(purge.is_other_host, &purge.path));
        let host = site.host_name(purge.is_other_host);
        let text = format!("GET {} HTTP/1.1\r\nHost: {host}\r\n\r\n", purge.path);
        let begun = self.timeline.now();
        let ask = Ask { who, method, target, is_maintainer: true, ..Ask::default() };
        let id = lock(&self.ledger).request_begins(begun, ask);
        let reply = match (self.visitors)() {
            Some(stream) => self.exchange(stream, false, "GET", &text).await,
            None => Reply { ending: Ending::NoConnection, ..Reply::default() },
        };
        lock(&self.ledger).request_ends(self.timeline.now(), id, &reply);
    }

    async fn exchange(&self, mut stream: S, is_abandoned: bool, method: &str, text: &str) -> Reply {
        let is_sent = stream.write_all(text.as_bytes()).await.is_ok() && stream.flush().await.is_ok();
        if is_abandoned {
            return Reply { ending: Ending::GivenUp, ..Reply::default() };
        }
        let _ = is_sent; // The edge may have answered although it did not read everything.
        let method = Method::from_token(method.as_bytes());
        let deadline = Instant::now() + PATIENCE;
        let reading = Reading { timeline: self.timeline, manner: Manner::Plain, deadline };
        let memory = lock(&self.ledger).memory().clone();
        let mut reader = Reader { stream, input: BytesMut::new(), memory };
        reader.response(&method, reading).await.0
    }
}

/// Reads the answer to a purge.
fn answer_of(reply: &Reply, method: &str) -> PurgeAnswer {
    let Some(status) = reply.status.filter(|_| reply.is_complete()) else { return PurgeAnswer::Lost };
    let mut content = String::from_utf8_lossy(&reply.body).into_owned();
    content.retain(|letter| letter != ' ');
    let is_in_force = content.contains("\"in_force\":true") && content.contains("\"durable\":false");
    match status {
        202 | 503 if is_in_force => PurgeAnswer::Undurable,
        // The answer to a GET with X-Refresh is that of the route.
        _ if method == "GET" && is_own_reason(reply.reason()) => PurgeAnswer::Done,
        500.. => PurgeAnswer::Failed(status),
        200 => PurgeAnswer::Done,
        // Or the page.
        300..=404 if method == "GET" => PurgeAnswer::Done,
        _ => PurgeAnswer::Refused(status),
    }
}

#[cfg(test)]
mod tests {
    use super::{PurgePlan, answer_of};
    use crate::event::PurgeAnswer;
    use crate::exchange::{Ending, Reply};
    use crate::site::SitePlan;
    use bytes::Bytes;
    use world::Random;

    #[test]
    fn answers_are_read_from_status_and_content() {
        let reply = |status, body: &'static str| Reply {
            ending: Ending::Complete,
            status: Some(status),
            body: Bytes::from_static(body.as_bytes()),
            ..Reply::default()
        };
        let undurable = r#"{"purged":1,"in_force":true,"durable":false}"#;
        assert_eq!(answer_of(&reply(200, "{}"), "PURGE"), PurgeAnswer::Done);
        assert_eq!(answer_of(&reply(503, undurable), "PURGE"), PurgeAnswer::Undurable);
        assert_eq!(answer_of(&reply(202, undurable), "PURGE"), PurgeAnswer::Undurable);
        assert_eq!(answer_of(&reply(503, "busy"), "PURGE"), PurgeAnswer::Failed(503));
        assert_eq!(answer_of(&reply(403, "no"), "PURGE"), PurgeAnswer::Refused(403));
        assert_eq!(answer_of(&Reply::default(), "PURGE"), PurgeAnswer::Lost);
    }

    #[test]
    fn each_purge_depends_only_on_its_number() {
        let site = SitePlan::random(&mut Random::new(1), "a.test");
        let plan = PurgePlan::random(&mut Random::new(4), 0, &site);
        assert_eq!(plan, PurgePlan::random(&mut Random::new(4), 0, &site));
        assert_eq!(plan.to_string().lines().count(), 1 + plan.purges.len());
    }
}
