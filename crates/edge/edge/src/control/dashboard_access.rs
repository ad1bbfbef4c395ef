//! Who sends a request for the dashboard, and what they may do.
//!
//! Invariants: a session counts below [`dashboard::PATH`] only. A form that changes something needs
//! a token that only a page of this address has. A request that a page of another site made a
//! browser send is refused, unless it opens the dashboard in a tab.

use crate::control::counters::Metric;
use crate::control::purge_access::Entrance;
use crate::control::token;
use crate::memory::dashboard::{ATTEMPTS_MAX, is_same_secret};
use crate::request::arrival::Arrival;
use crate::shared::Shared;
use dashboard::Viewer;
use h1::Request;
use message::{Fields, Method, RequestHead, names};
use net::Peer;
use purge::presented_tokens;
use semantics::cookies;

/// The cookie of a session over plain HTTP. It is for the dashboard's paths alone, so that a site
/// on the same host does not receive it with its own requests.
const COOKIE: &str = "petasos_session";

/// The cookie of a session over TLS.
const SECURE_COOKIE: &str = "__Secure-petasos_session";

/// The field in which a browser states which site made it send a request.
const FETCH_SITE: &str = "Sec-Fetch-Site";

/// Who sends a request for the dashboard.
#[derive(Debug)]
pub(crate) struct Caller {
    pub(crate) viewer: Viewer,
    /// Whether it may read.
    pub(crate) may_read: bool,
    /// Its name in the audit log.
    pub(crate) who: String,
}

impl Caller {
    pub(crate) fn of(shared: &Shared, arrival: Arrival, is_certified: bool, head: &RequestHead) -> Self {
        let access = &shared.purge_access;
        let session = session_ids(&head.fields, arrival.is_secured).find_map(|id| {
            shared.dashboard.sessions.form_token_of(id, access.token(), shared.clock.monotonic())
        });
        let may_change =
            is_certified || access.may_purge(Entrance::Admin, arrival.peer, &head.fields).is_ok();
        let may_read = may_change || session.is_some() || access.may_read(arrival.peer, &head.fields);
        let who = name_of(shared, arrival, is_certified, &head.fields);
        Self {
            may_read,
            who: if session.is_some() && !may_change { format!("{who}, logged in") } else { who },
            viewer: Viewer {
                is_logged_in: session.is_some(),
                form_token: session.or_else(|| {
                    let sessions = &shared.dashboard.sessions;
                    may_change.then(|| sessions.common_form_token(|| token::random().ok())).flatten()
                }),
                may_log_in: access.has_token(),
            },
        }
    }

    /// Whether a form with this token may change something.
    pub(crate) fn may_change(&self, form_token: &str) -> bool {
        let own = self.viewer.form_token.as_ref();
        own.is_some_and(|own| is_same_secret(own.as_bytes(), form_token.as_bytes()))
    }
}

/// The name of a client in the audit log: its address, and what it has shown.
pub(crate) fn name_of(shared: &Shared, arrival: Arrival, is_certified: bool, fields: &Fields) -> String {
    let address = peer_name(arrival.peer);
    if is_certified {
        format!("{address} with a certificate")
    } else if shared.purge_access.shows_token(fields) {
        format!("{address} with the token")
    } else {
        address
    }
}

fn peer_name(peer: Peer) -> String {
    match peer {
        Peer::Ip(address) => address.ip().to_canonical().to_string(),
        Peer::Unix => "this machine".to_owned(),
        Peer::Unknown => "an unknown client".to_owned(),
    }
}

/// Whether a client shows a token after too many wrong ones, so that this one is not compared. A
/// wrong token is counted.
///
/// No guess uses up the attempts of this machine: a proxy on it may forward requests of strangers,
/// who could then stop the purges of the application.
pub(crate) fn guesses_too_often(
    shared: &Shared,
    arrival: Arrival,
    is_certified: bool,
    fields: &Fields,
) -> bool {
    let (access, peer) = (&shared.purge_access, arrival.peer);
    let tokens = presented_tokens(fields).count();
    if is_certified || !access.has_token() || tokens == 0 {
        return false;
    }
    let (sessions, now) = (&shared.dashboard.sessions, shared.clock.monotonic());
    // One request could try a thousand.
    let is_exhausted = || tokens > ATTEMPTS_MAX as usize || sessions.is_exhausted(peer.ip(), now);
    let is_blocked = !peer.is_loopback() && is_exhausted();
    if !is_blocked && access.shows_token(fields) {
        return false;
    }
    shared.cells(0).count(Metric::AdminTokensRefused);
    if !is_blocked {
        if !peer.is_loopback() {
            sessions.may_attempt(peer.ip(), now);
        }
        let who = peer_name(peer);
        shared.complaints.tell(&format!("{who}: a request with a wrong token at the admin address"), now);
    }
    is_blocked
}

/// The identifiers of sessions in the cookies of a request. Another server of the same host may
/// have set a cookie of the same name, so there may be several.
pub(crate) fn session_ids(fields: &Fields, is_secured: bool) -> impl Iterator<Item = &[u8]> {
    let name = cookie_name(is_secured).as_bytes();
    cookies(fields).filter(move |(found, value)| *found == name && !value.is_empty()).map(|(_, value)| value)
}

/// The request without cookies of the dashboard's sessions; `None` if it has none. A browser sends
/// a cookie to all ports of its host, so a site's application would learn the session of an
/// operator who opens a page below [`dashboard::PATH`] there.
pub(crate) fn without_session(request: &Request) -> Option<Request> {
    let is_session = |name: &[u8]| name == COOKIE.as_bytes() || name == SECURE_COOKIE.as_bytes();
    let fields = &request.head.fields;
    if !request.head.target.starts_with(dashboard::PATH.as_bytes())
        || !cookies(fields).any(|(name, _)| is_session(name))
    {
        return None;
    }
    let mut rest = Fields::with_capacity(fields.len());
    for field in fields.iter() {
        if !field.is(names::COOKIE) {
            rest.push(field.name.clone(), field.value.clone());
            continue;
        }
        let pairs = field.value.split(|byte| *byte == b';').filter(|pair| {
            let name = pair.split(|byte| *byte == b'=').next().unwrap_or_default();
            !is_session(name.trim_ascii())
        });
        let kept = pairs.map(<[u8]>::trim_ascii).collect::<Vec<_>>().join(&b"; "[..]);
        if !kept.is_empty() {
            rest.push(field.name.clone(), kept);
        }
    }
    let mut request = request.clone();
    request.head.fields = rest;
    Some(request)
}

/// The value of `Set-Cookie` that gives a client the session `id`; an empty one takes it away.
pub(crate) fn session_cookie(id: &str, life_secs: u64, is_secured: bool) -> String {
    let name = cookie_name(is_secured);
    let secure = if is_secured { "; Secure" } else { "" };
    format!("{name}={id}; Path={}; Max-Age={life_secs}; HttpOnly; SameSite=Strict{secure}", dashboard::PATH)
}

const fn cookie_name(is_secured: bool) -> &'static str {
    if is_secured { SECURE_COOKIE } else { COOKIE }
}

/// Whether a page of another site made a browser send the request, by the fields that browsers add
/// (Fetch Metadata). Programs send no such fields.
pub(crate) fn is_from_elsewhere(head: &RequestHead) -> bool {
    head.fields.has(FETCH_SITE)
        && !has_value(head, FETCH_SITE, b"same-origin")
        && !has_value(head, FETCH_SITE, b"none")
}

/// Whether the request opens a page in a tab. A link on another site may lead to the dashboard.
pub(crate) fn opens_tab(head: &RequestHead) -> bool {
    head.method == Method::Get
        && has_value(head, "Sec-Fetch-Mode", b"navigate")
        && has_value(head, "Sec-Fetch-Dest", b"document")
}

fn has_value(head: &RequestHead, name: &str, value: &[u8]) -> bool {
    head.fields.first(name).is_some_and(|found| **found == *value)
}

#[cfg(test)]
mod tests {
    use super::{
        guesses_too_often, is_from_elsewhere, opens_tab, session_cookie, session_ids, without_session,
    };
    use crate::control::counters::Metric;
    use crate::control::metrics;
    use crate::memory::dashboard::{ATTEMPTS_MAX, ATTEMPTS_PERIOD};
    use crate::shared::Shared;
    use crate::system::System;
    use clock::{ManualClock, Timestamp};
    use config::EdgePlan;
    use h1::{Limits, Strictness, parse_request};
    use message::{Fields, Method, RequestHead, Version};
    use net::Peer;
    use std::sync::Arc;

    fn head(method: Method, fields: &[(&'static str, &'static str)]) -> RequestHead {
        let mut head = RequestHead {
            method,
            target: "/dashboard".into(),
            version: Version::Http11,
            fields: Fields::new(),
        };
        fields.iter().for_each(|(name, value)| head.fields.push(*name, *value));
        head
    }

    #[test]
    fn cookie_is_hidden_from_scripts_and_other_sites() {
        assert_eq!(
            session_cookie("x", 60, false),
            "petasos_session=x; Path=/dashboard; Max-Age=60; HttpOnly; SameSite=Strict"
        );
        assert!(session_cookie("x", 60, true).starts_with("__Secure-petasos_session=x;"));
        assert!(session_cookie("x", 60, true).ends_with("; Secure"));
        let head =
            head(Method::Get, &[("Cookie", "a=b; petasos_session=x"), ("Cookie", "petasos_session=y")]);
        assert_eq!(session_ids(&head.fields, false).collect::<Vec<_>>(), [b"x", b"y"]);
        assert_eq!(session_ids(&head.fields, true).count(), 0, "a cookie of a plain page proves nothing");
    }

    #[test]
    fn application_does_not_learn_the_session() {
        let wire = |target: &str, cookies: &str| {
            let text = format!("GET {target} HTTP/1.1\r\nHost: a\r\n{cookies}\r\n");
            let mut octets = text.as_bytes().into();
            parse_request(&mut octets, &Limits::DEFAULT, Strictness::Strict).unwrap().unwrap()
        };
        let ours = "Cookie: a=b;petasos_session=x; c=d\r\nX: 1\r\nCookie: __Secure-petasos_session=y\r\n";
        let rest = without_session(&wire("/dashboard/x", ours)).unwrap();
        assert_eq!(rest, wire("/dashboard/x", "Cookie: a=b; c=d\r\nX: 1\r\n"));
        assert_eq!(without_session(&wire("/dashboard", "Cookie: a=petasos_session\r\n")), None);
        assert_eq!(without_session(&wire("/shop", ours)), None, "browsers do not send it there");
    }

    #[test]
    fn guesses_of_the_token_in_calls_are_limited() {
        let plan = EdgePlan::for_origin("http://127.0.0.1:9".parse().unwrap());
        let clock = Arc::new(ManualClock::at(Timestamp::from_secs(9)));
        let system = System { clock: clock.clone(), ..System::of_machine() };
        let shared = Shared::new(plan, None, system).with_token(Some("secret".to_owned()));
        let is_refused = |peer: &str, token: &'static str| {
            let peer = Peer::Ip(peer.parse().unwrap());
            let head = head(Method::Get, &[("Authorization", token)]);
            guesses_too_often(&shared, peer.into(), false, &head.fields)
        };
        let (right, wrong) = ("Bearer secret", "Bearer guess");
        for _ in 0..100 {
            assert!(!is_refused("192.0.2.1:5", right), "right tokens are not counted");
        }
        for _ in 0..ATTEMPTS_MAX {
            assert!(!is_refused("192.0.2.1:5", right) && !is_refused("192.0.2.1:5", wrong));
        }
        assert!(is_refused("192.0.2.1:5", wrong) && is_refused("192.0.2.1:5", right), "not compared");
        assert!(!is_refused("192.0.2.1:5", "Basic YTpi"), "no token");
        assert!(!is_refused("192.0.2.2:5", right), "another client");
        let many = head(Method::Get, &[("Authorization", right); ATTEMPTS_MAX as usize + 1]);
        let other = Peer::Ip("192.0.2.3:5".parse().unwrap());
        assert!(guesses_too_often(&shared, other.into(), false, &many.fields), "many in one request");
        for _ in 0..100 {
            assert!(!is_refused("127.0.0.1:5", wrong) && !is_refused("127.0.0.1:5", right));
        }
        clock.advance(ATTEMPTS_PERIOD);
        assert!(!is_refused("192.0.2.1:5", right));
        assert_eq!(metrics::sum(&shared, Metric::AdminTokensRefused), u64::from(ATTEMPTS_MAX) + 103);
    }

    #[test]
    fn page_of_another_site_may_only_open_the_dashboard() {
        let is_refused = |head: RequestHead| is_from_elsewhere(&head) && !opens_tab(&head);
        let navigation = [("Sec-Fetch-Mode", "navigate"), ("Sec-Fetch-Dest", "document")];
        for site in ["cross-site", "same-site"] {
            let from = ("Sec-Fetch-Site", site);
            assert!(is_refused(head(Method::Get, &[from])));
            assert!(is_refused(head(Method::Get, &[from, navigation[0], ("Sec-Fetch-Dest", "iframe")])));
            assert!(!is_refused(head(Method::Get, &[from, navigation[0], navigation[1]])));
            assert!(is_refused(head(Method::Post, &[from, navigation[0], navigation[1]])));
        }
        for site in ["same-origin", "none"] {
            assert!(!is_refused(head(Method::Post, &[("Sec-Fetch-Site", site)])));
        }
        assert!(!is_refused(head(Method::Post, &[])), "an old browser, or curl");
    }
}
