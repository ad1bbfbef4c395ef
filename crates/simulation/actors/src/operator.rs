//! A client of the admin address: it watches the edge and asks why, as monitoring and operators do.
//!
//! Invariant: whatever visitors, origins and disks do, each answer is complete, prompt, and has the
//! status and form that docs/observing.md and docs/why.md promise.

use crate::exchange::{Ending, Reply};
use crate::ledger::SharedLedger;
use crate::moment::Timeline;
use crate::page::PagePlan;
use crate::read::{Reading, ask};
use crate::site::{SitePlan, lock};
use crate::visit::Manner;
use message::Method;
use std::fmt;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Instant;
use world::Random;

/// The longest time until the whole answer. Nothing here waits for an origin, and only a change of
/// a profile waits for the disk.
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// Largest number of calls of a random plan.
const CALLS_MAX: u64 = 12;

/// The longest pause before a call in milliseconds.
const PAUSE_MS_MAX: u64 = 8000;

/// The call of the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AdminCall {
    /// Whether the edge lives.
    Health,
    /// All metrics.
    Metrics,
    /// The status of sites, memory and disk.
    Status,
    /// What would happen to a request of a visitor.
    Why,
    /// The same for a request with a cookie, a query and conditions.
    WhyOfUser,
    /// The same for a purge.
    WhyOfPurge,
    /// The same for a write.
    WhyOfPost,
    /// The same for a visitor behind a proxy that speaks TLS.
    WhyOfHttps,
    /// The same for a part of the page, which refuses codings and takes stored responses only.
    WhyOfPart,
    /// The same for a request that the edge cannot read.
    WhyOfTwoHosts,
    /// A question about a request with content.
    WhyOfContent,
    /// A question about no URL.
    WhyOfNoUrl,
    /// A question by a method that has no content.
    QuestionByGet,
    /// A question that is no JSON.
    UnreadableQuestion,
    /// A question in a form's media type.
    QuestionOfForm,
    /// A question beyond the limit.
    LongQuestion,
    /// Drops a detected profile, and detects it anew.
    Profile,
    /// Drops a detected profile for good.
    ProfileOff,
    /// The profile of a site that is not there.
    ForeignProfile,
    /// A call about a profile by a method that has no content.
    ProfileByGet,
    /// A call about a profile in a form's media type.
    ProfileOfForm,
    /// A call about a profile that is no JSON.
    UnreadableProfile,
    /// A call about a profile beyond the limit.
    LongProfile,
    /// A purge without the token.
    PurgeWithoutToken,
    /// A purge that is no JSON.
    UnreadablePurge,
    /// A page that is not there.
    Unknown,
    /// A method that is not served.
    WrongMethod,
    /// A request from a page of another site.
    ForeignOrigin,
}

/// The form of an answer's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Text,
    Json,
    Metrics,
}

/// A call with its pause, and the path that it is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedCall {
    /// The pause before it in milliseconds.
    pub pause_ms: u64,
    /// What is called.
    pub call: AdminCall,
    /// The path of a page.
    pub path: String,
}

/// The plan of a client of the admin address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperatorPlan {
    /// The number of the client.
    pub number: u64,
    /// Its calls.
    pub calls: Vec<PlannedCall>,
}

impl AdminCall {
    /// All calls.
    pub const ALL: [Self; 28] = [
        Self::Health,
        Self::Metrics,
        Self::Status,
        Self::Why,
        Self::WhyOfUser,
        Self::WhyOfPurge,
        Self::WhyOfPost,
        Self::WhyOfHttps,
        Self::WhyOfPart,
        Self::WhyOfTwoHosts,
        Self::WhyOfContent,
        Self::WhyOfNoUrl,
        Self::QuestionByGet,
        Self::UnreadableQuestion,
        Self::QuestionOfForm,
        Self::LongQuestion,
        Self::Profile,
        Self::ProfileOff,
        Self::ForeignProfile,
        Self::ProfileByGet,
        Self::ProfileOfForm,
        Self::UnreadableProfile,
        Self::LongProfile,
        Self::PurgeWithoutToken,
        Self::UnreadablePurge,
        Self::Unknown,
        Self::WrongMethod,
        Self::ForeignOrigin,
    ];

    /// The request line's method and target.
    const fn line(self) -> (&'static str, &'static str) {
        match self {
            Self::Health => ("GET", "/healthz"),
            Self::Metrics => ("GET", "/metrics"),
            Self::Status | Self::ForeignOrigin => ("GET", "/status"),
            Self::QuestionByGet => ("GET", "/why"),
            Self::ProfileByGet => ("GET", "/profile"),
            Self::Profile | Self::ProfileOff | Self::ForeignProfile => ("POST", "/profile"),
            Self::ProfileOfForm | Self::UnreadableProfile | Self::LongProfile => ("POST", "/profile"),
            Self::PurgeWithoutToken | Self::UnreadablePurge => ("POST", "/purge"),
            Self::Unknown => ("GET", "/nothing"),
            Self::WrongMethod => ("PUT", "/metrics"),
            // All others are questions.
            _ => ("POST", "/why"),
        }
    }

    /// The content and its media type.
    fn content(self, host: &str, label: &str, path: &str) -> Option<(&'static str, String)> {
        let json = |text| Some(("application/json", text));
        let question = format!("{{\"url\":\"http://{host}{path}\"}}");
        let of = |method: &str, scheme: &str, fields: &str| {
            format!("{{\"url\":\"{scheme}://{host}{path}\",\"method\":\"{method}\",\"headers\":[{fields}]}}")
        };
        match self {
            Self::Why => json(question),
            Self::WhyOfUser => json(format!(
                "{{\"url\":\"http://{host}{path}?page=2&utm_source=x\",\"method\":\"GET\",\"headers\":\
                 [[\"Cookie\",\"session=u1; _ga=2\"],[\"If-None-Match\",\"\\\"v1\\\"\"],\
                 [\"Accept-Language\",\"de\"],[\"Range\",\"bytes=0-9\"]]}}"
            )),
            Self::WhyOfPurge => json(of("PURGE", "http", "")),
            Self::WhyOfPost => json(of("POST", "http", "")),
            Self::WhyOfHttps => json(of("GET", "https", "[\"Cookie\",\"_ga=2\"]")),
            Self::WhyOfPart => json(of(
                "GET",
                "http",
                "[\"Range\",\"bytes=0-9\"],[\"Accept-Encoding\",\"identity\"],\
                 [\"Cache-Control\",\"only-if-cached\"]",
            )),
            Self::WhyOfTwoHosts => json(of("GET", "http", "[\"Host\",\"a.test\"],[\"Host\",\"b.test\"]")),
            Self::WhyOfContent => json(of("POST", "http", "[\"Content-Length\",\"3\"]")),
            Self::WhyOfNoUrl => json("{\"url\":\"ftp://a.test/\"}".to_owned()),
            Self::UnreadableQuestion | Self::UnreadableProfile | Self::UnreadablePurge => {
                json("{\"url\":".to_owned())
            }
            Self::ProfileOfForm => Some(("application/x-www-form-urlencoded", question)),
            Self::LongProfile => json(format!("{{\"site\":\"{}\"}}", "x".repeat(10_000))),
            Self::PurgeWithoutToken => {
                json(format!("{{\"type\":\"uri\",\"selectors\":[\"http://{host}{path}\"]}}"))
            }
            Self::QuestionOfForm => Some(("application/x-www-form-urlencoded", question)),
            Self::LongQuestion => json(format!("{{\"url\":\"http://{host}/{}\"}}", "x".repeat(300_000))),
            Self::Profile => json(format!("{{\"site\":\"{label}\",\"detect\":true}}")),
            Self::ProfileOff => json(format!("{{\"site\":\"{label}\",\"detect\":false}}")),
            Self::ForeignProfile => json("{\"site\":\"nobody.test\",\"detect\":true}".to_owned()),
            _ => None,
        }
    }

    /// The statuses that the answer may have, and its form.
    const fn expected(self) -> (&'static [u16], Form) {
        match self {
            Self::Health => (&[200], Form::Text),
            Self::Metrics => (&[200], Form::Metrics),
            Self::Status | Self::Why | Self::WhyOfUser | Self::WhyOfPurge => (&[200], Form::Json),
            Self::WhyOfPost | Self::WhyOfHttps => (&[200], Form::Json),
            Self::WhyOfPart | Self::WhyOfTwoHosts => (&[200], Form::Json),
            Self::UnreadableQuestion | Self::WhyOfContent | Self::WhyOfNoUrl => (&[400], Form::Text),
            Self::UnreadableProfile | Self::UnreadablePurge => (&[400], Form::Json),
            Self::QuestionOfForm | Self::ProfileOfForm => (&[415], Form::Text),
            Self::LongQuestion | Self::LongProfile => (&[413], Form::Text),
            Self::QuestionByGet | Self::ProfileByGet => (&[405], Form::Text),
            Self::PurgeWithoutToken => (&[403], Form::Text),
            // A site without detection, and a disk that does not keep the change.
            Self::Profile | Self::ProfileOff => (&[200, 409, 503], Form::Json),
            Self::ForeignProfile => (&[404], Form::Json),
            Self::Unknown => (&[404], Form::Text),
            Self::WrongMethod => (&[405], Form::Text),
            Self::ForeignOrigin => (&[403], Form::Text),
        }
    }

    fn text(self, host: &str, label: &str, path: &str, token: Option<&str>) -> String {
        let (method, target) = self.line();
        let mut text = format!("{method} {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n");
        if let Some(token) = token.filter(|_| self != Self::PurgeWithoutToken) {
            text.push_str(&format!("Authorization: Bearer {token}\r\n"));
        }
        if self == Self::ForeignOrigin {
            text.push_str("Origin: http://elsewhere.test\r\n");
        }
        if let Some((media_type, content)) = self.content(host, label, path) {
            let bytes = content.len();
            text.push_str(&format!("Content-Type: {media_type}\r\nContent-Length: {bytes}\r\n\r\n{content}"));
        } else {
            text.push_str("\r\n");
        }
        text
    }

    /// The fault of an answer.
    fn fault(self, reply: &Reply, took: Duration) -> Option<String> {
        let (statuses, form) = self.expected();
        let status = reply.status.unwrap_or_default();
        if !reply.is_complete() || !statuses.contains(&status) {
            return Some(format!("status {status}, {}", reply.ending));
        }
        if took > ANSWER_MAX {
            return Some(format!("it took {} ms", took.as_millis()));
        }
        let is_well_formed = match form {
            Form::Text => !reply.body.is_empty() && reply.body.ends_with(b"\n"),
            Form::Json => serde_json::from_slice::<serde_json::Value>(&reply.body).is_ok(),
            Form::Metrics => reply.body.ends_with(b"# EOF\n"),
        };
        (!is_well_formed).then(|| format!("its content is not {form:?}"))
    }
}

impl OperatorPlan {
    /// A plan by chance.
    pub fn random(random: &mut Random, number: u64, site: &SitePlan) -> Self {
        let count = random.between(1, CALLS_MAX);
        let call = |_| {
            let page = random.choice(&site.pages).map(|page: &PagePlan| page.path.clone());
            PlannedCall {
                pause_ms: random.below(PAUSE_MS_MAX),
                call: *random.choice(&AdminCall::ALL).unwrap_or(&AdminCall::Health),
                path: page.unwrap_or_else(|| "/".to_owned()),
            }
        };
        Self { number, calls: (0..count).map(call).collect() }
    }
}

impl fmt::Display for OperatorPlan {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(to, "client {} of the admin address:", self.number)?;
        self.calls.iter().try_for_each(|planned| {
            writeln!(to, "  after {} ms, {:?} of {}", planned.pause_ms, planned.call, planned.path)
        })
    }
}

/// A client that carries out its plan.
pub struct Operator<A> {
    /// The plan.
    pub plan: OperatorPlan,
    /// The host name of the site.
    pub host: String,
    /// The name by which the edge calls the site.
    pub label: String,
    /// The secret that changes need, if they need one.
    pub token: Option<String>,
    /// Where answers are judged.
    pub ledger: SharedLedger,
    /// The simulated time.
    pub timeline: Timeline,
    /// Connects to the admin address. `None` means that no connection can be made.
    pub connect: A,
}

impl<S, A> Operator<A>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    A: Fn() -> Option<S> + Send,
{
    /// Carries out the plan.
    pub async fn run(self) {
        for planned in &self.plan.calls {
            if planned.call == AdminCall::PurgeWithoutToken && self.token.is_none() {
                continue;
            }
            tokio::time::sleep(Duration::from_millis(planned.pause_ms)).await;
            let begun = self.timeline.now();
            let text = planned.call.text(&self.host, &self.label, &planned.path, self.token.as_deref());
            let reply = match (self.connect)() {
                Some(stream) => self.exchange(stream, planned.call, &text).await,
                None => Reply { ending: Ending::NoConnection, ..Reply::default() },
            };
            let at = self.timeline.now();
            let fault = planned.call.fault(&reply, at.since(begun));
            lock(&self.ledger).call_answered(at, planned.call, &planned.path, fault);
        }
    }

    async fn exchange(&self, stream: S, call: AdminCall, text: &str) -> Reply {
        let method = Method::from_token(call.line().0.as_bytes());
        let deadline = Instant::now() + ANSWER_MAX * 2;
        let reading = Reading { timeline: self.timeline, manner: Manner::Plain, deadline };
        let memory = lock(&self.ledger).memory().clone();
        ask(stream, &method, text, reading, memory).await
    }
}

#[cfg(test)]
mod tests {
    use super::{ANSWER_MAX, AdminCall};
    use crate::exchange::{Ending, Reply};
    use bytes::Bytes;
    use std::time::Duration;

    fn reply(status: u16, body: &'static str) -> Reply {
        let body = Bytes::from_static(body.as_bytes());
        Reply { ending: Ending::Complete, status: Some(status), body, ..Reply::default() }
    }

    #[test]
    fn answers_are_judged_by_status_form_and_time() {
        let is_right = |call: AdminCall, answer: &Reply| call.fault(answer, Duration::ZERO).is_none();
        assert!(is_right(AdminCall::Health, &reply(200, "ok\n")));
        assert!(!is_right(AdminCall::Health, &reply(503, "ok\n")));
        assert!(!is_right(AdminCall::Health, &Reply { ending: Ending::Cut, ..reply(200, "ok\n") }));
        assert!(AdminCall::Health.fault(&reply(200, "ok\n"), ANSWER_MAX * 2).is_some());
        assert!(is_right(AdminCall::Metrics, &reply(200, "a 1\n# EOF\n")));
        assert!(!is_right(AdminCall::Metrics, &reply(200, "a 1\n")));
        assert!(is_right(AdminCall::Why, &reply(200, "{\"format\":1}")));
        assert!(!is_right(AdminCall::Why, &reply(200, "{\"format\":")));
    }

    #[test]
    fn content_has_the_stated_length() {
        for call in AdminCall::ALL {
            let text = call.text("a.test", "any", "/p", Some("secret"));
            let (head, content) = text.split_once("\r\n\r\n").unwrap();
            let stated = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
            assert_eq!(stated.map_or(0, |bytes| bytes.parse().unwrap()), content.len(), "{call:?}");
        }
    }
}
