//! A visitor of the dashboard: reads its pages and streams, logs in, and sends its forms.
//!
//! Invariant: who may not read sees nothing of the edge, and who may not change changes nothing. A
//! purge by a form counts like any other. No process takes over, and nobody else reads the
//! configuration again, while a form is on its way.

use crate::dashboard_call::{DashboardAccess, DashboardCall, FORM, Rights, encoded};
use crate::dashboard_judge::{ANSWER_MAX, EVENT_EVERY, EVENTS_MAX, events_of, fault_of_form, form_token};
use crate::event::{PurgeAnswer, Scope};
use crate::exchange::{Ending, Reply};
use crate::ledger::SharedLedger;
use crate::moment::{Moment, Timeline};
use crate::page::PagePlan;
use crate::read::{Reading, ask};
use crate::site::{SharedSite, SitePlan, lock};
use crate::visit::Manner;
use message::Method;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinSet;
use tokio::time::Instant;
use world::Random;

/// Largest number of steps of a random plan, and the longest pause before one in milliseconds.
const STEPS_MAX: u64 = 12;
const PAUSE_MS_MAX: u64 = 6000;

/// The largest number of events that are read of a stream that goes on.
const EVENTS_READ_MAX: u64 = 10;

/// The longest time of a stream until its end.
const ALL_EVENTS_WITHIN: Duration = Duration::from_secs(360);

/// The longest time until a stream ends whose process has handed over. An event may wait for the
/// disk.
const STREAM_END_MAX: Duration = Duration::from_secs(8);

/// Attempts after which the edge may refuse a client that shows tokens.
const ATTEMPTS_MAX: u32 = 5;

/// Streams that the edge serves at the same time.
const STREAMS_MAX: usize = 8;

/// Time for which all streams are read at once.
const ALL_STREAMS_READ: Duration = Duration::from_secs(5);

/// A word that no page may have, because only forged forms have it.
const FORGED: &str = "forged-by-nobody";

/// One step of a visitor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DashboardStep {
    /// The pause before it in milliseconds.
    pub pause_ms: u64,
    /// Its request.
    pub call: DashboardCall,
    /// As whom it comes.
    pub access: DashboardAccess,
    /// The path of the page that it is about.
    pub path: String,
    /// Whether this page is at the other host of the site.
    pub is_other_host: bool,
    /// Whether a purge is soft.
    pub is_soft: bool,
    /// How many events of a stream it waits for.
    pub events: u64,
}

/// The plan of a visitor of the dashboard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DashboardPlan {
    /// The number of the visitor.
    pub number: u64,
    /// Its steps.
    pub steps: Vec<DashboardStep>,
}

impl DashboardPlan {
    /// A plan by chance.
    pub fn random(random: &mut Random, number: u64, site: &SitePlan) -> Self {
        let count = random.between(1, STEPS_MAX);
        let step = |_| {
            let page = random.choice(&site.pages).map(|page: &PagePlan| page.path.clone());
            DashboardStep {
                pause_ms: random.below(PAUSE_MS_MAX),
                call: DashboardCall::random(random),
                access: DashboardAccess::random(random),
                path: page.unwrap_or_else(|| "/".to_owned()),
                is_other_host: random.percent(30) && site.other_host.is_some(),
                is_soft: random.percent(30),
                events: random.between(1, EVENTS_READ_MAX),
            }
        };
        Self { number, steps: (0..count).map(step).collect() }
    }
}

impl fmt::Display for DashboardPlan {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(to, "visitor {} of the dashboard:", self.number)?;
        self.steps.iter().try_for_each(|step| {
            let DashboardStep { pause_ms, call, access, path, .. } = step;
            writeln!(
                to,
                "  after {pause_ms} ms, {call:?} of {path} as {access:?}, other host: {}, soft: {}, {} events",
                step.is_other_host, step.is_soft, step.events
            )
        })
    }
}

/// A visitor that carries out its plan.
pub struct DashboardVisitor<A> {
    /// The plan.
    pub plan: DashboardPlan,
    /// The site.
    pub site: SharedSite,
    /// Where answers are judged.
    pub ledger: SharedLedger,
    /// The simulated time.
    pub timeline: Timeline,
    /// The token of the edge, if it has one.
    pub token: Option<String>,
    /// Whoever has it may change the configuration or the process.
    pub turn: Arc<tokio::sync::Mutex<()>>,
    /// Connects to the admin address from the edge's own machine. `None` means that no connection
    /// can be made.
    pub connect_here: A,
    /// The same, from another machine.
    pub connect_afar: A,
}

/// One request.
struct Sent<'a> {
    method: &'a str,
    target: &'a str,
    host: &'a str,
    fields: &'a str,
    /// Media type and content.
    content: Option<(&'a str, &'a str)>,
    /// How long the visitor reads.
    within: Duration,
}

/// A step with what its visitor has.
struct Turn<'a> {
    step: &'a DashboardStep,
    rights: Rights,
    session: Option<String>,
    /// Attempts with a token since the last right one.
    attempts: u32,
}

impl<'a> Sent<'a> {
    const fn get(target: &'a str) -> Self {
        Self { method: "GET", target, host: "localhost", fields: "", content: None, within: ANSWER_MAX }
    }

    const fn post(target: &'a str, content: &'a str) -> Self {
        Self { method: "POST", content: Some((FORM, content)), ..Self::get(target) }
    }

    fn text(&self, fields: &str) -> String {
        let Self { method, target, host, .. } = self;
        let more = self.fields;
        let head =
            format!("{method} {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{fields}{more}");
        match self.content {
            Some((media_type, content)) => {
                let bytes = content.len();
                format!("{head}Content-Type: {media_type}\r\nContent-Length: {bytes}\r\n\r\n{content}")
            }
            None => format!("{head}\r\n"),
        }
    }
}

impl<S, A> DashboardVisitor<A>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    A: Fn() -> Option<S> + Send,
{
    /// Carries out the plan.
    pub async fn run(self) {
        let mut attempts = 0;
        for step in &self.plan.steps {
            tokio::time::sleep(Duration::from_millis(step.pause_ms)).await;
            let needs_turn = step.call.has_forms() || step.access == DashboardAccess::LoggedIn;
            let held = if needs_turn { Some(Arc::clone(&self.turn).lock_owned().await) } else { None };
            let mut turn = Turn { step, rights: Rights::default(), session: None, attempts };
            if step.access == DashboardAccess::LoggedIn {
                self.log_in(&mut turn).await;
            }
            turn.rights = step.access.rights(self.token.is_some(), turn.session.is_some());
            if step.call.is_stream() {
                drop(held);
                self.watch(&mut turn).await;
            } else {
                self.carry_out(&mut turn).await;
                drop(held);
            }
            attempts = turn.attempts;
        }
    }

    async fn carry_out(&self, turn: &mut Turn<'_>) {
        match turn.step.call {
            call if call.is_purge() || call.is_forgery() => self.purge(turn).await,
            DashboardCall::Reload => self.reload(turn).await,
            DashboardCall::LogOut => self.log_out(turn).await,
            call if call.has_forms() => {
                let (path, media_type, content, statuses) = call.form(turn.rights);
                let target = format!("/dashboard{path}");
                let sent = Sent { content: Some((media_type, &content)), ..Sent::post(&target, "") };
                turn.attempts += u32::from(call == DashboardCall::WrongLogIn);
                self.exchange(turn, &sent, statuses).await;
            }
            call => {
                let site = Arc::clone(lock(&self.site).plan());
                let url = format!("http://{}{}", site.host_name(turn.step.is_other_host), turn.step.path);
                let plain = call.plain(&url);
                let host = if call == DashboardCall::ForeignHost { "evil.test" } else { "localhost" };
                let content = plain.content.as_ref().map(|(media_type, content)| (*media_type, &content[..]));
                let get = Sent::get(&plain.target);
                let sent = Sent { method: plain.method, host, fields: plain.fields, content, ..get };
                let statuses = call.statuses(turn.rights);
                self.exchange(turn, &sent, statuses).await;
            }
        }
    }

    /// Begins a session.
    async fn log_in(&self, turn: &mut Turn<'_>) {
        turn.attempts += 1;
        let content = format!("token={}", encoded(self.token.as_deref().unwrap_or("any")));
        let statuses: &[u16] = match &self.token {
            None => &[403],
            Some(_) if turn.attempts > ATTEMPTS_MAX => &[303, 429],
            Some(_) => &[303],
        };
        let reply = self.exchange(turn, &Sent::post("/dashboard/login", &content), statuses).await;
        let cookie = reply.field("Set-Cookie").unwrap_or_default();
        if reply.status != Some(303) {
            return;
        }
        if !["Path=/dashboard", "HttpOnly", "SameSite=Strict"].iter().all(|part| cookie.contains(part)) {
            self.tell(turn, Some(format!("the cookie of the session is {cookie:?}")));
        }
        turn.session = cookie.split(';').next().map(str::to_owned);
        turn.attempts = 0;
    }

    /// Ends a session, which then permits nothing.
    async fn log_out(&self, turn: &mut Turn<'_>) {
        let Some(token) = self.token_of_forms(turn, "/dashboard").await else { return };
        let content = format!("form_token={token}");
        self.exchange(turn, &Sent::post("/dashboard/logout", &content), &[303]).await;
        if turn.session.is_some() {
            self.exchange(turn, &Sent::get("/dashboard"), &[303]).await;
        }
    }

    async fn reload(&self, turn: &mut Turn<'_>) {
        let Some(token) = self.token_of_forms(turn, "/dashboard").await else { return };
        let content = format!("form_token={token}");
        let reply = self.exchange(turn, &Sent::post("/dashboard/reload", &content), &[303]).await;
        self.result(turn, &reply).await;
    }

    /// The token of the forms in a page. Without the right to change there is no such page, and the
    /// form of a purge is refused.
    async fn token_of_forms(&self, turn: &mut Turn<'_>, target: &str) -> Option<String> {
        if !turn.rights.changes {
            let content = format!("form_token=&kind=tag&value={FORGED}");
            let refusals = turn.rights.refusals();
            self.exchange(turn, &Sent::post("/dashboard/purge", &content), refusals).await;
            return None;
        }
        let page = self.exchange(turn, &Sent::get(target), &[200]).await;
        let token = form_token(&page);
        if token.is_none() && page.status == Some(200) {
            self.tell(turn, Some("the page has no form, although its reader may change".to_owned()));
        }
        token
    }

    /// The page with the result of a change.
    async fn result(&self, turn: &mut Turn<'_>, reply: &Reply) -> Reply {
        match reply.field("Location").filter(|_| reply.status == Some(303)) {
            Some(location) => self.exchange(turn, &Sent::get(location), &[200]).await,
            None => Reply::default(),
        }
    }

    /// Edits a page and purges it, or tries to forge a purge.
    async fn purge(&self, turn: &mut Turn<'_>) {
        let site = Arc::clone(lock(&self.site).plan());
        let Some((kind, value, scope)) = meant(turn.step, &site) else { return };
        let soft = if turn.step.is_soft { "&soft=yes" } else { "" };
        let order = format!("kind={kind}&value={}{soft}", encoded(&value));
        if turn.step.call.is_purge() && turn.rights.changes {
            self.edit(turn.step, &site);
        }
        let target = format!("/dashboard/purge?{order}");
        let Some(token) = self.token_of_forms(turn, &target).await else { return };
        if turn.step.call.is_forgery() {
            return self.forge(turn, &token).await;
        }
        let name = format!("visitor {} of the dashboard: {:?}", self.plan.number, turn.step.call);
        let id = lock(&self.ledger).purge_sent(self.timeline.now(), &name, scope, turn.step.is_soft);
        let content = format!("form_token={token}&{order}");
        let reply = self.exchange(turn, &Sent::post("/dashboard/purge", &content), &[303]).await;
        let result = self.result(turn, &reply).await;
        let answer = answer_of(&reply, &result);
        lock(&self.ledger).purge_answered(self.timeline.now(), id, answer, false);
    }

    /// Sends a purge that must be refused, and looks whether it has happened.
    async fn forge(&self, turn: &mut Turn<'_>, token: &str) {
        let (token, fields) = match turn.step.call {
            DashboardCall::PurgeOfForeignOrigin if turn.step.is_soft => (token, "Origin: null\r\n"),
            DashboardCall::PurgeOfForeignOrigin => (token, "Origin: http://elsewhere.test\r\n"),
            DashboardCall::PurgeOfForeignSite if turn.step.is_soft => {
                (token, "Sec-Fetch-Site: same-site\r\n")
            }
            DashboardCall::PurgeOfForeignSite => (token, "Sec-Fetch-Site: cross-site\r\n"),
            _ => ("0000", ""),
        };
        let content = format!("form_token={token}&kind=tag&value={FORGED}");
        let sent = Sent { fields, ..Sent::post("/dashboard/purge", &content) };
        self.exchange(turn, &sent, &[403]).await;
        self.exchange(turn, &Sent::get("/dashboard"), &[200]).await;
    }

    fn edit(&self, step: &DashboardStep, site: &SitePlan) {
        let (at, named) = (self.timeline.now(), site.named(step.is_other_host, &step.path));
        let version = lock(&self.site).edit(&named, at, None);
        if let Some(version) = version {
            lock(&self.ledger).edited(at, &named, version);
        }
    }

    /// Reads a stream for a while, or to its end.
    async fn watch(&self, turn: &mut Turn<'_>) {
        let call = turn.step.call;
        let plain = call.plain("");
        let is_all = call == DashboardCall::AllEvents;
        let wanted = EVENT_EVERY * turn.step.events as u32;
        let within = if is_all { ALL_EVENTS_WITHIN } else { wanted };
        let sent = Sent { within, ..Sent::get(&plain.target) };
        let (begun, reply) = self.send(turn, &sent).await;
        let took = self.timeline.now().since(begun);
        if reply.status != Some(200) {
            // A process that has taken over knows no session of the old one.
            let is_lost = turn.session.is_some() && reply.status == Some(403);
            let statuses: &[u16] = if is_lost { &[403] } else { call.statuses(turn.rights) };
            return self.tell(turn, self.fault(turn, &reply, took, statuses, false));
        }
        let form = fault_of_form(&reply, call.media_type(), false);
        let fault = match (form, events_of(&reply, took, reply.is_complete())) {
            (Some(fault), _) | (None, Err(fault)) => Some(fault),
            (None, Ok(events)) => {
                let is_right = match &reply.ending {
                    Ending::Complete => events == EVENTS_MAX || self.has_handed_over(begun).await,
                    Ending::TimedOut => !is_all && !self.outlives_its_process(begun, took),
                    _ => false,
                };
                (!is_right).then(|| format!("after {events} events the stream is {}", reply.ending))
            }
        };
        self.tell(turn, fault);
    }

    /// Whether another process has taken over since `begun`. Waits until one that is about to has
    /// done it.
    async fn has_handed_over(&self, begun: Moment) -> bool {
        let _turn = Arc::clone(&self.turn).lock_owned().await;
        lock(&self.ledger).has_handed_over(begun, self.timeline.now())
    }

    /// Whether a stream that still goes on after `took` belongs to a process that has handed over
    /// long ago. At the moment of its beginning, it may already be one of the new process.
    fn outlives_its_process(&self, begun: Moment, took: Duration) -> bool {
        let until = begun.plus(took.saturating_sub(STREAM_END_MAX));
        lock(&self.ledger).has_handed_over(begun.plus(Duration::from_millis(1)), until)
    }

    /// Reads as many streams as the edge serves, at the same time, and one more, which it refuses.
    /// Nobody else may read one. So it shows that all streams before have given back their places.
    pub async fn take_all_streams(self) {
        let begun = self.timeline.now();
        let mut streams = JoinSet::new();
        for _ in 0..=STREAMS_MAX {
            let Some(stream) = (self.connect_here)() else { return };
            let (timeline, memory) = (self.timeline, lock(&self.ledger).memory().clone());
            let text = Sent::get("/dashboard/events").text("");
            streams.spawn(async move {
                let deadline = Instant::now() + ALL_STREAMS_READ;
                let reading = Reading { timeline, manner: Manner::Plain, deadline };
                ask(stream, &Method::Get, &text, reading, memory).await
            });
        }
        let replies = streams.join_all().await;
        let at = self.timeline.now();
        let served = |reply: &&Reply| {
            reply.status == Some(200)
                && events_of(reply, at.since(begun), false).is_ok_and(|events| events > 0)
        };
        let refused = replies.iter().filter(|reply| reply.status == Some(503)).count();
        let served = replies.iter().filter(served).count();
        let is_right = (served, refused) == (STREAMS_MAX, 1);
        let fault = (!is_right).then(|| format!("of {} streams {served} are served", replies.len()));
        lock(&self.ledger).dashboard_answered(at, "all streams", fault);
    }

    /// Sends a request, reads the answer, and judges it.
    async fn exchange(&self, turn: &mut Turn<'_>, sent: &Sent<'_>, statuses: &[u16]) -> Reply {
        let (begun, reply) = self.send(turn, sent).await;
        let took = self.timeline.now().since(begun);
        self.tell(turn, self.fault(turn, &reply, took, statuses, sent.method == "HEAD"));
        reply
    }

    async fn send(&self, turn: &mut Turn<'_>, sent: &Sent<'_>) -> (Moment, Reply) {
        let access = turn.step.access;
        turn.attempts += u32::from(access.guesses());
        let fields = access.fields(self.token.as_deref(), turn.session.as_deref());
        let begun = self.timeline.now();
        let stream = if access.is_here() { (self.connect_here)() } else { (self.connect_afar)() };
        let Some(stream) = stream else {
            return (begun, Reply { ending: Ending::NoConnection, ..Reply::default() });
        };
        let method = Method::from_token(sent.method.as_bytes());
        let deadline = Instant::now() + sent.within;
        let reading = Reading { timeline: self.timeline, manner: Manner::Plain, deadline };
        let memory = lock(&self.ledger).memory().clone();
        (begun, ask(stream, &method, &sent.text(&fields), reading, memory).await)
    }

    /// The fault of a whole answer.
    fn fault(
        &self,
        turn: &Turn<'_>,
        reply: &Reply,
        took: Duration,
        statuses: &[u16],
        is_head: bool,
    ) -> Option<String> {
        let status = reply.status.unwrap_or_default();
        let text = String::from_utf8_lossy(&reply.body);
        // Clients of other machines that have guessed are not heard, whatever they show then.
        let is_blocked = status == 429
            && self.token.is_some()
            && !turn.step.access.is_here()
            && turn.attempts >= ATTEMPTS_MAX;
        if !reply.is_complete() || !(is_blocked || statuses.contains(&status)) {
            return Some(format!("status {status} and not {statuses:?}, {}", reply.ending));
        }
        if took > ANSWER_MAX {
            return Some(format!("it took {} ms", took.as_millis()));
        }
        if text.contains(FORGED) {
            return Some("a forged form has changed something".to_owned());
        }
        fault_of_form(reply, turn.step.call.media_type(), is_head)
    }

    fn tell(&self, turn: &Turn<'_>, fault: Option<String>) {
        let DashboardStep { call, access, .. } = turn.step;
        let name = format!("{call:?} as {access:?}");
        lock(&self.ledger).dashboard_answered(self.timeline.now(), &name, fault);
    }
}

/// The purge that a step means: its kind, its value and its scope.
fn meant(step: &DashboardStep, site: &SitePlan) -> Option<(&'static str, String, Scope)> {
    let page = site.page(&step.path)?;
    let host = site.host_name(step.is_other_host);
    let section = page.path.split('/').nth(1).unwrap_or_default();
    let prefix = format!("/{section}/");
    Some(match step.call {
        DashboardCall::PurgeOfPrefix => {
            let value = format!("http://{host}{prefix}");
            ("prefix", value, Scope::Prefix(prefix).at(site, step.is_other_host))
        }
        DashboardCall::PurgeOfTag => {
            let tag = format!("page-{}", page.number);
            ("tag", tag.clone(), Scope::AnyTag(vec![tag]))
        }
        DashboardCall::PurgeOfHost => {
            ("host", host.to_owned(), Scope::Everything.at(site, step.is_other_host))
        }
        DashboardCall::PurgeOfAll => ("everything", String::new(), Scope::Everything),
        _ => {
            let value = format!("http://{host}{}", page.path);
            ("url", value, Scope::Target(page.path.clone()).at(site, step.is_other_host))
        }
    })
}

/// The result of a purge by the edge: by its answer to the form, and by the page that it leads to.
fn answer_of(reply: &Reply, result: &Reply) -> PurgeAnswer {
    let text = String::from_utf8_lossy(&result.body);
    match (reply.status.filter(|_| reply.is_complete()), result.is_complete()) {
        (Some(303), true) if text.contains("A restart would undo this") => PurgeAnswer::Undurable,
        (Some(303), true) if text.contains("<h1>Done</h1>") => PurgeAnswer::Done,
        (Some(303), true) => PurgeAnswer::Failed(result.status.unwrap_or_default()),
        (None, _) | (Some(303), false) => PurgeAnswer::Lost,
        (Some(status), _) => PurgeAnswer::Refused(status),
    }
}

#[cfg(test)]
mod tests {
    use super::{DashboardPlan, answer_of, meant};
    use crate::dashboard_call::DashboardCall;
    use crate::event::{PurgeAnswer, Scope};
    use crate::exchange::{Ending, Reply};
    use crate::site::SitePlan;
    use std::collections::BTreeSet;
    use world::Random;

    #[test]
    fn plans_follow_from_their_seed_and_have_all_calls() {
        let site = SitePlan::random(&mut Random::new(1), "a.test");
        let plan = |seed| DashboardPlan::random(&mut Random::new(seed), 0, &site);
        assert_eq!(plan(3), plan(3));
        let calls: BTreeSet<_> = (0..500).flat_map(|seed| plan(seed).steps).map(|step| step.call).collect();
        assert_eq!(calls.len(), DashboardCall::ALL.len());
        assert_eq!(plan(3).to_string().lines().count(), 1 + plan(3).steps.len());
    }

    #[test]
    fn purge_means_the_pages_that_its_form_names() {
        let site = SitePlan::random(&mut Random::new(1), "a.test");
        let mut step = DashboardPlan::random(&mut Random::new(1), 0, &site).steps.remove(0);
        step.call = DashboardCall::PurgeOfUrl;
        let (kind, value, scope) = meant(&step, &site).unwrap();
        assert_eq!((kind, value), ("url", format!("http://a.test{}", step.path)));
        assert_eq!(scope, Scope::Target(step.path.clone()));
        step.path = "/none".to_owned();
        assert_eq!(meant(&step, &site), None);
    }

    #[test]
    fn answer_is_read_from_the_page_of_the_change() {
        let reply = |status, body: &'static str| Reply {
            ending: Ending::Complete,
            status: Some(status),
            body: body.into(),
            ..Reply::default()
        };
        let (led, done) = (reply(303, ""), reply(200, "<h1>Done</h1>"));
        assert_eq!(answer_of(&led, &done), PurgeAnswer::Done);
        let undurable = reply(200, "<h1>Not done</h1> A restart would undo this");
        assert_eq!(answer_of(&led, &undurable), PurgeAnswer::Undurable);
        assert_eq!(answer_of(&led, &reply(404, "")), PurgeAnswer::Failed(404));
        assert_eq!(answer_of(&led, &Reply::default()), PurgeAnswer::Lost);
        assert_eq!(answer_of(&reply(403, ""), &Reply::default()), PurgeAnswer::Refused(403));
    }
}
