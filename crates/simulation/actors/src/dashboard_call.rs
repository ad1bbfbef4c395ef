//! Requests of visitors to the dashboard, with their rights and the statuses of the answers.
//!
//! Invariant: the expected statuses follow from docs/dashboard.md alone: from who may read and who
//! may change. They do not depend on what the edge does otherwise.

use world::Random;

/// How often a stream is read to its own end, which takes five simulated minutes, and how often a
/// purge means everything, which hides what narrower ones miss.
const TO_THE_END_PERCENT: u64 = 50;
const PURGE_OF_ALL_PERCENT: u64 = 10;

/// A token that is not the right one, and a session that nobody has begun.
const WRONG_TOKEN: &str = "simulated-tokens";
const MADE_UP_SESSION: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

/// The media type of forms.
pub(crate) const FORM: &str = "application/x-www-form-urlencoded";

/// More bytes than a form may have.
const LONG_FORM_BYTES: usize = 20_000;

/// As whom a visitor comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DashboardAccess {
    /// On the edge's own machine.
    Here,
    /// On the edge's own machine, with the token.
    TokenHere,
    /// On the edge's own machine, with a wrong token.
    WrongTokenHere,
    /// Through a proxy on the edge's own machine that states its client.
    Forwarded,
    /// On another machine.
    Afar,
    /// On another machine, with the token.
    TokenAfar,
    /// On another machine, with a wrong token.
    WrongTokenAfar,
    /// On another machine, with the cookie of a session that nobody has begun.
    MadeUpSession,
    /// On another machine, after logging in.
    LoggedIn,
}

/// A request of a visitor to the dashboard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DashboardCall {
    /// The main page.
    Main,
    /// The main page with charts of a week.
    Week,
    /// Only the head of the main page.
    Head,
    /// The main page, by a link on another site.
    Link,
    /// The main page, embedded in another site.
    Embedded,
    /// The main page, by a name of another site that leads to the edge.
    ForeignHost,
    /// The main page, by a method that the dashboard does not serve.
    WrongMethod,
    /// The path that leads to the main page.
    Root,
    /// A search for a page.
    Search,
    /// A search for a text that is no URL.
    SearchOfNothing,
    /// Requests as they end.
    Requests,
    /// Those with a verdict and a status.
    RequestsOfVerdict,
    /// Those with a condition that cannot be read.
    RequestsOfNothing,
    /// The values of the origins.
    Origins,
    /// A change that has not happened.
    NoChange,
    /// A report, although there is no directory of them.
    NoReport,
    /// A missing page.
    Unknown,
    /// The style sheet.
    Style,
    /// The script.
    Script,
    /// The icon.
    Icon,
    /// The page for logging in.
    LogInPage,
    /// The figures of the dashboard.
    Data,
    /// The values of the minutes.
    History,
    /// The values of no minute.
    HistoryOfNothing,
    /// The summary of the week.
    Summary,
    /// Whether the edge takes connections.
    Ready,
    /// How far the cache is filled.
    Warm,
    /// An order to fill the cache, in a form's media type.
    WarmOfForm,
    /// An order to fill the cache that is no JSON.
    UnreadableWarm,
    /// An order to fill the cache of a missing site.
    ForeignWarm,
    /// Newer sections of the main page.
    Events,
    /// Newer sections, until the stream ends by itself.
    AllEvents,
    /// Live requests.
    RequestEvents,
    /// Live requests with a condition that cannot be read.
    EventsOfNothing,
    /// Only the head of a stream.
    EventsHead,
    /// A stream, by a link on another site.
    EventsLink,
    /// A purge that names nothing.
    PurgeOfNothing,
    /// A purge of a page.
    PurgeOfUrl,
    /// A purge of the pages of a directory.
    PurgeOfPrefix,
    /// A purge by a tag.
    PurgeOfTag,
    /// A purge of a host.
    PurgeOfHost,
    /// A purge of everything.
    PurgeOfAll,
    /// The form of a purge, sent by a page of another origin.
    PurgeOfForeignOrigin,
    /// The form of a purge, sent by a browser for a page of another site.
    PurgeOfForeignSite,
    /// The form of a purge with a wrong token of forms.
    PurgeOfWrongForm,
    /// The order to read the configuration again.
    Reload,
    /// A missing form.
    UnknownForm,
    /// A form in another media type.
    FormOfJson,
    /// A form beyond the limit.
    LongForm,
    /// Logging in with a wrong token.
    WrongLogIn,
    /// Logging out.
    LogOut,
}

/// The rights of a visitor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rights {
    /// Whether it may read the figures beside the dashboard, for which a session does not count.
    pub(crate) reads_figures: bool,
    /// Whether it may change something beside the dashboard.
    pub(crate) orders: bool,
    /// Whether it may read the dashboard.
    pub(crate) reads: bool,
    /// Whether it may send the forms of the dashboard.
    pub(crate) changes: bool,
    /// Whether it could log in.
    pub(crate) may_log_in: bool,
}

/// A request without a change that the dashboard keeps: method, target, fields and content.
pub(crate) struct PlainCall {
    pub(crate) method: &'static str,
    pub(crate) target: String,
    pub(crate) fields: &'static str,
    /// Media type and content.
    pub(crate) content: Option<(&'static str, String)>,
}

impl DashboardAccess {
    /// As whom a visitor comes by chance. Those that may do something come more often.
    pub(crate) fn random(random: &mut Random) -> Self {
        *random
            .choice(&[
                Self::Here,
                Self::Here,
                Self::Here,
                Self::TokenHere,
                Self::TokenAfar,
                Self::TokenAfar,
                Self::LoggedIn,
                Self::LoggedIn,
                Self::WrongTokenHere,
                Self::Forwarded,
                Self::Afar,
                Self::WrongTokenAfar,
                Self::MadeUpSession,
            ])
            .unwrap_or(&Self::Here)
    }

    /// Whether its address is the edge's own machine.
    pub(crate) const fn is_here(self) -> bool {
        matches!(self, Self::Here | Self::TokenHere | Self::WrongTokenHere | Self::Forwarded)
    }

    /// Whether it shows the token in each request.
    const fn shows_token(self) -> bool {
        matches!(self, Self::TokenHere | Self::TokenAfar)
    }

    /// Whether it shows a wrong token in each request.
    pub(crate) const fn guesses(self) -> bool {
        matches!(self, Self::WrongTokenHere | Self::WrongTokenAfar)
    }

    /// The fields of its requests. `session` is the cookie of its session, if it has one.
    pub(crate) fn fields(self, token: Option<&str>, session: Option<&str>) -> String {
        let bearer = match token {
            Some(token) if self.shows_token() => Some(token),
            _ => self.guesses().then_some(WRONG_TOKEN),
        };
        let mut fields = bearer.map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default();
        match (self, session) {
            (Self::Forwarded, _) => fields.push_str("X-Forwarded-For: 192.0.2.77\r\n"),
            (Self::MadeUpSession, _) => {
                fields.push_str(&format!("Cookie: petasos_session={MADE_UP_SESSION}\r\n"));
            }
            (_, Some(session)) => fields.push_str(&format!("Cookie: a=b; {session}\r\n")),
            _ => {}
        }
        fields
    }

    /// Its rights at an edge with a token or without one. `has_session`: it has logged in.
    pub(crate) const fn rights(self, has_token: bool, has_session: bool) -> Rights {
        let is_known = self.is_here() && !matches!(self, Self::Forwarded);
        let orders = if has_token { self.shows_token() } else { is_known };
        let reads_figures = orders || is_known;
        Rights {
            reads_figures,
            orders,
            reads: reads_figures || has_session,
            changes: orders || has_session,
            may_log_in: has_token,
        }
    }
}

impl DashboardCall {
    /// All calls.
    pub const ALL: [Self; 51] = [
        Self::Main,
        Self::Week,
        Self::Head,
        Self::Link,
        Self::Embedded,
        Self::ForeignHost,
        Self::WrongMethod,
        Self::Root,
        Self::Search,
        Self::SearchOfNothing,
        Self::Requests,
        Self::RequestsOfVerdict,
        Self::RequestsOfNothing,
        Self::Origins,
        Self::NoChange,
        Self::NoReport,
        Self::Unknown,
        Self::Style,
        Self::Script,
        Self::Icon,
        Self::LogInPage,
        Self::Data,
        Self::History,
        Self::HistoryOfNothing,
        Self::Summary,
        Self::Ready,
        Self::Warm,
        Self::WarmOfForm,
        Self::UnreadableWarm,
        Self::ForeignWarm,
        Self::Events,
        Self::AllEvents,
        Self::RequestEvents,
        Self::EventsOfNothing,
        Self::EventsHead,
        Self::EventsLink,
        Self::PurgeOfNothing,
        Self::PurgeOfUrl,
        Self::PurgeOfPrefix,
        Self::PurgeOfTag,
        Self::PurgeOfHost,
        Self::PurgeOfAll,
        Self::PurgeOfForeignOrigin,
        Self::PurgeOfForeignSite,
        Self::PurgeOfWrongForm,
        Self::Reload,
        Self::UnknownForm,
        Self::FormOfJson,
        Self::LongForm,
        Self::WrongLogIn,
        Self::LogOut,
    ];

    /// A call by chance.
    pub(crate) fn random(random: &mut Random) -> Self {
        let call = *random.choice(&Self::ALL).unwrap_or(&Self::Main);
        let chance = random.below(100);
        match call {
            Self::AllEvents if chance >= TO_THE_END_PERCENT => Self::Events,
            Self::PurgeOfAll if chance >= PURGE_OF_ALL_PERCENT => Self::PurgeOfUrl,
            call => call,
        }
    }

    /// Whether it is a stream, which the visitor reads for a while.
    pub(crate) const fn is_stream(self) -> bool {
        matches!(self, Self::Events | Self::AllEvents | Self::RequestEvents)
    }

    /// Whether its session and its forms must be those of the process that answers at last.
    pub(crate) const fn has_forms(self) -> bool {
        self.is_purge()
            || self.is_forgery()
            || matches!(
                self,
                Self::Reload
                    | Self::UnknownForm
                    | Self::FormOfJson
                    | Self::LongForm
                    | Self::WrongLogIn
                    | Self::LogOut
            )
    }

    /// Whether it is an intended purge.
    pub(crate) const fn is_purge(self) -> bool {
        matches!(
            self,
            Self::PurgeOfUrl | Self::PurgeOfPrefix | Self::PurgeOfTag | Self::PurgeOfHost | Self::PurgeOfAll
        )
    }

    /// Whether it is a purge that must change nothing.
    pub(crate) const fn is_forgery(self) -> bool {
        matches!(self, Self::PurgeOfForeignOrigin | Self::PurgeOfForeignSite | Self::PurgeOfWrongForm)
    }

    /// Whether the dashboard answers it, and no other part of the admin address.
    const fn is_of_dashboard(self) -> bool {
        !matches!(
            self,
            Self::Data
                | Self::History
                | Self::HistoryOfNothing
                | Self::Summary
                | Self::Ready
                | Self::Warm
                | Self::WarmOfForm
                | Self::UnreadableWarm
                | Self::ForeignWarm
        )
    }

    /// The request about the page at `url`.
    pub(crate) fn plain(self, url: &str) -> PlainCall {
        let (media_type, content) = ("application/json", "{\"stop\":".to_owned());
        let content = match self {
            Self::WarmOfForm => Some((FORM, "url=x".to_owned())),
            Self::UnreadableWarm => Some((media_type, content)),
            Self::ForeignWarm => {
                let call = "{\"start\":{\"url\":\"ftp://nobody.test/\",\"pages\":[\"/\"]}}";
                Some((media_type, call.to_owned()))
            }
            _ => None,
        };
        let method = match self {
            Self::Head | Self::EventsHead => "HEAD",
            Self::WrongMethod => "PUT",
            _ if content.is_some() => "POST",
            _ => "GET",
        };
        let fields = match self {
            Self::Link | Self::EventsLink => {
                "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: document\r\n"
            }
            Self::Embedded => {
                "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: iframe\r\n"
            }
            _ => "",
        };
        PlainCall { method, target: self.target(url), fields, content }
    }

    fn target(self, url: &str) -> String {
        let target = match self {
            Self::Root => "/",
            Self::Week => "/dashboard?range=7d",
            Self::Search => return format!("/dashboard/search?url={}", encoded(url)),
            Self::SearchOfNothing => "/dashboard/search?url=%3Cscript%3E",
            Self::Requests => "/dashboard/requests",
            Self::RequestsOfVerdict => "/dashboard/requests?verdict=hit&where=status+%3D+200",
            Self::RequestsOfNothing => "/dashboard/requests?where=%3Cscript%3E+%3D",
            Self::Origins => "/dashboard/origins.csv",
            Self::NoChange => "/dashboard/change?number=99999",
            Self::NoReport => "/dashboard/reports/a.html",
            Self::Unknown => "/dashboard/nothing",
            Self::Style => "/dashboard/style.css",
            Self::Script => "/dashboard/script.js",
            Self::Icon => "/dashboard/icon.svg",
            Self::LogInPage => "/dashboard/login",
            Self::Data => "/dashboard/data",
            Self::History => "/dashboard/history?minutes=180",
            Self::HistoryOfNothing => "/dashboard/history?minutes=0",
            Self::Summary => "/dashboard/summary",
            Self::Ready => "/readyz",
            Self::Warm | Self::WarmOfForm | Self::UnreadableWarm | Self::ForeignWarm => "/warm",
            Self::Events | Self::AllEvents | Self::EventsHead | Self::EventsLink => "/dashboard/events",
            Self::RequestEvents => "/dashboard/requests/events",
            Self::EventsOfNothing => "/dashboard/requests/events?where=%3D",
            Self::PurgeOfNothing => "/dashboard/purge?kind=tag&value=",
            _ => "/dashboard",
        };
        target.to_owned()
    }

    /// The media type of an answer with status 200.
    pub(crate) const fn media_type(self) -> &'static str {
        match self {
            Self::Origins => "text/csv",
            Self::Style => "text/css",
            Self::Script => "text/javascript",
            Self::Icon => "image/svg+xml",
            Self::Data | Self::History | Self::Warm => "application/json",
            Self::Summary => "text/markdown",
            Self::Ready => "text/plain",
            Self::Events | Self::AllEvents | Self::RequestEvents | Self::EventsHead => "text/event-stream",
            _ => "text/html",
        }
    }

    /// The statuses that the answer to its plain request may have.
    pub(crate) const fn statuses(self, rights: Rights) -> &'static [u16] {
        match self {
            Self::Embedded | Self::ForeignHost | Self::EventsLink => &[403],
            Self::WrongMethod => &[405],
            Self::Root => &[303],
            Self::Style | Self::Script | Self::Icon | Self::LogInPage => &[200],
            // A draining edge takes no connections.
            Self::Ready => &[200, 503],
            Self::WarmOfForm | Self::UnreadableWarm | Self::ForeignWarm if !rights.orders => &[403],
            Self::WarmOfForm => &[415],
            Self::UnreadableWarm => &[400],
            Self::ForeignWarm => &[400, 404, 422],
            _ if !self.is_of_dashboard() && !rights.reads_figures => &[403],
            Self::HistoryOfNothing => &[400],
            Self::Events | Self::AllEvents | Self::EventsHead if rights.reads => &[200],
            // Other clients may follow the log already, as many as may.
            Self::RequestEvents if rights.reads => &[200, 503],
            Self::EventsOfNothing if rights.reads => &[400],
            _ if self.is_stream() || matches!(self, Self::EventsHead | Self::EventsOfNothing) => &[403],
            _ if self.is_of_dashboard() && !rights.reads => &[303],
            Self::SearchOfNothing | Self::RequestsOfNothing => &[400],
            Self::Requests | Self::RequestsOfVerdict => &[200, 503],
            Self::NoChange | Self::NoReport | Self::Unknown => &[404],
            Self::PurgeOfNothing if !rights.changes => rights.refusals(),
            Self::PurgeOfNothing => &[400],
            _ => &[200],
        }
    }

    /// The form of the calls that are forms and change nothing: the path below the dashboard's own,
    /// the media type, the content and the statuses of the answer.
    pub(crate) fn form(self, rights: Rights) -> (&'static str, &'static str, String, &'static [u16]) {
        let (path, media_type, content, statuses): (_, _, _, &[u16]) = match self {
            Self::WrongLogIn if rights.may_log_in => {
                return ("/login", FORM, format!("token={WRONG_TOKEN}"), &[403, 429]);
            }
            Self::WrongLogIn => return ("/login", FORM, format!("token={WRONG_TOKEN}"), &[403]),
            Self::FormOfJson => ("/purge", "application/json", "{}".to_owned(), &[415]),
            Self::LongForm => ("/purge", FORM, format!("value={}", "x".repeat(LONG_FORM_BYTES)), &[413]),
            _ => ("/nothing", FORM, "a=b".to_owned(), &[404]),
        };
        (path, media_type, content, if rights.changes { statuses } else { rights.refusals() })
    }
}

impl Rights {
    /// The statuses of an answer to a form whose sender may change nothing.
    pub(crate) const fn refusals(self) -> &'static [u16] {
        if self.may_log_in { &[303] } else { &[403] }
    }
}

/// A text as a value in a form or a query.
pub(crate) fn encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::{DashboardAccess, DashboardCall};

    #[test]
    fn rights_are_those_of_the_documentation() {
        for (access, has_token, has_session, expected) in [
            (DashboardAccess::Here, false, false, (true, true)),
            (DashboardAccess::Here, true, false, (true, false)),
            (DashboardAccess::TokenHere, true, false, (true, true)),
            (DashboardAccess::WrongTokenHere, true, false, (true, false)),
            (DashboardAccess::Forwarded, false, false, (false, false)),
            (DashboardAccess::Afar, false, false, (false, false)),
            (DashboardAccess::TokenAfar, false, false, (false, false)),
            (DashboardAccess::TokenAfar, true, false, (true, true)),
            (DashboardAccess::WrongTokenAfar, true, false, (false, false)),
            (DashboardAccess::MadeUpSession, true, false, (false, false)),
            (DashboardAccess::LoggedIn, true, true, (true, true)),
        ] {
            let rights = access.rights(has_token, has_session);
            assert_eq!((rights.reads, rights.changes), expected, "{access:?}, token: {has_token}");
        }
        assert!(
            !DashboardAccess::LoggedIn.rights(true, true).reads_figures,
            "a session is for the dashboard"
        );
    }

    #[test]
    fn nothing_of_the_edge_is_shown_without_rights() {
        let nobody = DashboardAccess::Afar.rights(true, false);
        for call in DashboardCall::ALL.into_iter().filter(|call| !call.has_forms()) {
            let is_public = matches!(
                call,
                DashboardCall::Style
                    | DashboardCall::Script
                    | DashboardCall::Icon
                    | DashboardCall::LogInPage
                    | DashboardCall::Ready
            );
            assert_eq!(call.statuses(nobody).contains(&200), is_public, "{call:?}");
        }
    }
}
