//! A client of pages behind a password (`basic_auth`).
//!
//! Invariants: without the password of a user, a request is answered by the edge and never reaches
//! the origin. With it, the request is let through, and the origin does not see the password.

use crate::exchange::{Ending, Reply};
use crate::ledger::{Ledger, SharedLedger};
use crate::moment::{Moment, Timeline};
use crate::read::{Reading, ask};
use crate::rules::Rule;
use crate::site::lock;
use crate::visit::Manner;
use message::{Fields, Method};
use std::fmt;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, sleep};
use world::Random;

/// The file with the password of the only user.
pub const MEMBERS_FILE: &str = "members.txt";

/// Its content: the user is `ann`, the password `secret`.
pub const MEMBERS: &str = "ann:$5$abcdefgh$gruCpC7VkOTspMQTTSAR8mtlO9Upms.fwqE5y16JVM.\n";

/// The table of the route whose pages need the password.
pub const MEMBERS_ROUTE: &str =
    "[[site.route]]\npath = [\"/members/*\"]\nbasic_auth = \"members.txt\"\nbasic_auth_realm = \"Members\"\n";

/// The beginning of the paths of these pages, and the names of those that are asked for with the
/// password and without it.
const PATH: &str = "/members/";
const INSIDE: &str = "inside";
const OUTSIDE: &str = "outside";

/// The challenge of the edge.
const CHALLENGE: &str = "Basic realm=\"Members\", charset=\"UTF-8\"";

/// The longest time until an answer. The origin may be slow.
const ANSWER_MAX: Duration = Duration::from_secs(150);

/// The largest number of requests of a random plan, and the longest pause before one in
/// milliseconds.
const REQUESTS_MAX: u64 = 8;
const PAUSE_MS_MAX: u64 = 4000;

/// What a client shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Shown {
    /// Nothing.
    Nothing,
    /// Credentials of another kind.
    OtherScheme,
    /// No colon between name and password.
    Malformed,
    /// A user that does not exist.
    UnknownUser,
    /// Another password.
    WrongPassword,
    /// Name and password, twice.
    Twice,
    /// Name and password.
    Password,
}

impl Shown {
    /// All of them.
    const ALL: [Self; 7] = [
        Self::Nothing,
        Self::OtherScheme,
        Self::Malformed,
        Self::UnknownUser,
        Self::WrongPassword,
        Self::Twice,
        Self::Password,
    ];

    const fn fields(self) -> &'static str {
        match self {
            Self::Nothing => "",
            Self::OtherScheme => "Authorization: Bearer YW5uOnNlY3JldA==\r\n",
            Self::Malformed => "Authorization: Basic YW5u\r\n",
            Self::UnknownUser => "Authorization: Basic Ym9iOnNlY3JldA==\r\n",
            Self::WrongPassword => "Authorization: Basic YW5uOnNlY3JlVA==\r\n",
            Self::Twice => {
                "Authorization: Basic YW5uOnNlY3JldA==\r\nAuthorization: Basic YW5uOnNlY3JldA==\r\n"
            }
            Self::Password => "Authorization: Basic YW5uOnNlY3JldA==\r\n",
        }
    }

    const fn is_right(self) -> bool {
        matches!(self, Self::Password)
    }
}

/// The plan of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberPlan {
    /// The number of the client.
    pub number: u64,
    /// Its requests, and the pause before each in milliseconds.
    pub requests: Vec<(u64, Shown)>,
}

impl MemberPlan {
    /// A plan by chance.
    pub fn random(random: &mut Random, number: u64) -> Self {
        let count = random.between(1, REQUESTS_MAX);
        let request = |_| {
            let shown = *random.choice(&Shown::ALL).unwrap_or(&Shown::Nothing);
            let is_right = random.percent(30);
            (random.below(PAUSE_MS_MAX), if is_right { Shown::Password } else { shown })
        };
        Self { number, requests: (0..count).map(request).collect() }
    }
}

impl fmt::Display for MemberPlan {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(to, "client {} of pages with a password:", self.number)?;
        self.requests
            .iter()
            .try_for_each(|(pause_ms, shown)| writeln!(to, "  after {pause_ms} ms, {shown:?}"))
    }
}

/// A client that carries out its plan.
pub struct Member<C> {
    /// The plan.
    pub plan: MemberPlan,
    /// The host name of the site.
    pub host: String,
    /// Where answers are judged.
    pub ledger: SharedLedger,
    /// The simulated time.
    pub timeline: Timeline,
    /// Connects to the visitors' address. `None` means that no connection can be made.
    pub connect: C,
}

impl<S, C> Member<C>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    C: Fn() -> Option<S> + Send,
{
    /// Carries out the plan.
    pub async fn run(self) {
        for (pause_ms, shown) in &self.plan.requests {
            sleep(Duration::from_millis(*pause_ms)).await;
            let Some(stream) = (self.connect)() else { return };
            let name = if shown.is_right() { INSIDE } else { OUTSIDE };
            let (host, fields) = (&self.host, shown.fields());
            let text =
                format!("GET {PATH}{name} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{fields}\r\n");
            let begun = self.timeline.now();
            let deadline = Instant::now() + ANSWER_MAX;
            let reading = Reading { timeline: self.timeline, manner: Manner::Plain, deadline };
            let memory = lock(&self.ledger).memory().clone();
            let reply = ask(stream, &Method::Get, &text, reading, memory).await;
            let name = format!("{shown:?} by client {}", self.plan.number);
            lock(&self.ledger).member_answered(begun, self.timeline.now(), &name, *shown, &reply);
        }
    }
}

/// What is wrong with an answer. `is_explained`: a fault explains that there is none.
fn fault(shown: Shown, reply: &Reply, is_explained: bool) -> Option<(Rule, String)> {
    let told = || format!("status {:?}, {}, {}", reply.status, reply.reason(), reply.ending);
    if matches!(reply.ending, Ending::Closed | Ending::Cut | Ending::TimedOut) && is_explained {
        return None;
    }
    let is_challenge = reply.status == Some(401)
        && reply.reason() == "password-required"
        && reply.field("WWW-Authenticate") == Some(CHALLENGE);
    let is_let_through =
        reply.status.is_some_and(|status| status != 401) && reply.reason() != "password-queue-full";
    let is_right = if shown.is_right() { is_let_through } else { is_challenge };
    (!is_right || !reply.is_complete()).then(|| (Rule::Privacy, told()))
}

impl Ledger {
    /// Records the answer to a request for a page with a password.
    fn member_answered(&mut self, begun: Moment, at: Moment, name: &str, shown: Shown, reply: &Reply) {
        let fault = fault(shown, reply, self.explains(begun, at));
        self.count_reason(reply.reason());
        self.attempt_answered(at, name, fault);
    }
}

/// The fault of a request that the origin receives, if it is for a page with a password.
pub(crate) fn fault_at_origin(target: &str, fields: &Fields) -> Option<String> {
    let name = target.strip_prefix(PATH)?;
    if name != INSIDE {
        return Some(format!("the origin received a request for {target} without a password"));
    }
    fields.has("Authorization").then(|| format!("the origin received the password for {target}"))
}

#[cfg(test)]
mod tests {
    use super::{CHALLENGE, MemberPlan, Shown, fault, fault_at_origin};
    use crate::exchange::{Ending, Reply};
    use message::Fields;
    use std::collections::BTreeSet;
    use world::Random;

    #[test]
    fn plans_follow_from_their_seed_and_show_everything() {
        let plan = |seed| MemberPlan::random(&mut Random::new(seed), 1);
        assert_eq!(plan(4), plan(4));
        assert_eq!(plan(4).to_string().lines().count(), 1 + plan(4).requests.len());
        let shown: BTreeSet<_> =
            (0..100).flat_map(|seed| plan(seed).requests).map(|(_, shown)| shown).collect();
        assert_eq!(shown.len(), Shown::ALL.len());
    }

    #[test]
    fn only_the_password_is_let_through() {
        let reply = |status, reason: &str| {
            let mut reply = Reply { ending: Ending::Complete, status: Some(status), ..Reply::default() };
            reply.fields.push("Cache-Status", format!("Petasos; detail={reason}"));
            reply.fields.push("WWW-Authenticate", CHALLENGE);
            reply
        };
        let (refusal, page) = (reply(401, "password-required"), reply(404, "miss-absent"));
        for shown in Shown::ALL {
            assert_eq!(fault(shown, &refusal, false).is_some(), shown.is_right());
            assert_eq!(fault(shown, &page, false).is_none(), shown.is_right());
            assert!(fault(shown, &Reply::default(), false).is_some());
            assert!(fault(shown, &Reply::default(), true).is_none());
        }
        assert!(fault(Shown::Password, &reply(503, "password-queue-full"), false).is_some());
    }

    #[test]
    fn origin_receives_neither_strangers_nor_passwords() {
        let mut fields = Fields::new();
        assert_eq!(fault_at_origin("/a", &fields), None);
        assert_eq!(fault_at_origin("/members/inside", &fields), None);
        assert!(fault_at_origin("/members/outside", &fields).is_some());
        fields.push("Authorization", "Basic YW5uOnNlY3JldA==");
        assert!(fault_at_origin("/members/inside", &fields).is_some());
    }
}
