//! Pages that visitors with the same rights share (`logged_in = "context"`).
//!
//! Each page names the role of the visitor whose request the origin answered, so a page of another
//! context shows at once.

use crate::esi::TEMPLATE;
use crate::support::{Stage, behind, connect, reason};
use crate::why::asked;
use api::why::Question;
use config::{ContextKey, ContextPlan, ContextSource, EdgePlan, LoggedIn};
use hmac::{Hmac, KeyInit, Mac};
use profiles::Policy;
use semantics::ContextNames;
use sha2::Sha256;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use testkit::{Action, Client, Gate, Response, Seen, eventually, response};

const PATH: &str = "/_fos_user_context_hash";
const FIELD: &str = "X-User-Context-Hash";
const TYPE: &str = "application/vnd.fos.user-context-hash";
const KEY: &[u8] = b"0123456789abcdef0123456789abcdef";
const FRESH: &str = "Cache-Control: public, max-age=600";
const VARY: &str = "Vary: X-User-Context-Hash";

/// The second at which every stage begins.
const START_SECS: u64 = 1_700_000_000;

fn names() -> ContextNames {
    ContextNames { field: FIELD.to_owned(), media_type: TYPE.to_owned() }
}

fn context(source: ContextSource, is_declared: bool) -> impl FnOnce(&mut EdgePlan) {
    move |plan| {
        let site = &mut plan.sites[0];
        site.policy = Policy::wordpress();
        site.logged_in = LoggedIn::Context;
        site.context = Some(Arc::new(ContextPlan { names: names(), source, is_declared }));
        site.refused_claims = vec![names()];
    }
}

fn asking() -> impl FnOnce(&mut EdgePlan) {
    context(ContextSource::Answer(PATH.to_owned()), false)
}

fn signed() -> ContextSource {
    ContextSource::Cookie("group".to_owned(), ContextKey::new(KEY))
}

/// The roles of sessions at the origin.
#[derive(Clone, Default)]
struct Roles(Arc<Mutex<HashMap<String, &'static str>>>);

impl Roles {
    fn of(sessions: &[(&str, &'static str)]) -> Self {
        let roles = Self::default();
        sessions.iter().for_each(|(session, role)| roles.set(session, role));
        roles
    }

    fn set(&self, session: &str, role: &'static str) {
        self.0.lock().unwrap().insert(session.to_owned(), role);
    }

    fn end(&self, session: &str) {
        self.0.lock().unwrap().remove(session);
    }

    fn role(&self, seen: &Seen) -> &'static str {
        let session = session_of(seen);
        session.and_then(|session| self.0.lock().unwrap().get(session).copied()).unwrap_or("nobody")
    }

    /// The origin's answer: the context, or a page with these fields that names the role. Pages
    /// below `/stated` name their context.
    fn answer(&self, seen: &Seen, fields: &[&str]) -> Vec<Action> {
        let role = self.role(seen);
        let stated = format!("{FIELD}: hash-of-{role}");
        if seen.target() == PATH && seen.field("Accept") == Some(TYPE) {
            let media_type = format!("Content-Type: {TYPE}");
            return response("200 OK", &[&media_type, &stated, "Cache-Control: max-age=600"], b"");
        }
        let mut fields = fields.to_vec();
        if seen.target().starts_with("/stated") {
            fields.push(&stated);
        }
        response("200 OK", &fields, format!("<{role}> {}", seen.target()).as_bytes())
    }
}

fn session_of(seen: &Seen) -> Option<&str> {
    let mut cookies = seen.field("Cookie")?.split("; ");
    cookies.find_map(|pair| pair.strip_prefix("wordpress_logged_in_1="))
}

fn cookie(session: &str) -> String {
    format!("Cookie: _ga=7; wordpress_logged_in_1={session}")
}

fn usual() -> Roles {
    Roles::of(&[("ann", "editor"), ("ben", "editor"), ("eve", "admin")])
}

fn stage_of(roles: &Roles, change: impl FnOnce(&mut EdgePlan), fields: &'static [&'static str]) -> Stage {
    let roles = roles.clone();
    Stage::with(change, move |seen| roles.answer(seen, fields))
}

fn stage(roles: &Roles) -> Stage {
    stage_of(roles, asking(), &[FRESH, VARY])
}

/// The response to a request without content on this connection.
fn ask(client: &mut Client, method: &str, target: &str, cookies: &str) -> Response {
    client.send(format!(
        "{method} {target} HTTP/1.1\r\nHost: example.test\r\n{cookies}\r\nContent-Length: 0\r\n\r\n"
    ));
    client.read()
}

/// Checks reason and content of the response to a session.
fn gets(stage: &Stage, session: &str, target: &str, expected: (&str, &str)) {
    let answer = stage.get(target, &[&cookie(session)]);
    let content = format!("<{}> {target}", expected.1);
    assert_eq!((reason(&answer), answer.text()), (expected.0, content.as_str()), "{session} {target}");
    assert_eq!(answer.field("Cache-Control"), Some("private, no-store"));
    assert_eq!(answer.field(FIELD), None);
}

fn await_stored(stage: &Stage, count: u64) {
    let stored = || stage.metric("petasos_context_copies_stored_total", "");
    eventually("the copies are stored", || stored() >= count);
    assert_eq!(stored(), count);
}

#[test]
fn visitors_with_the_same_rights_share_a_page() {
    let roles = usual();
    let stage = stage(&roles);
    gets(&stage, "ann", "/", ("pass-context", "editor"));
    await_stored(&stage, 1);
    let sent = stage.origin.seen().into_iter().find(|seen| seen.target() == "/").unwrap();
    assert_eq!(sent.field(FIELD), Some("hash-of-editor"));
    gets(&stage, "ben", "/", ("hit-context", "editor"));
    gets(&stage, "eve", "/", ("pass-context", "admin"));
    await_stored(&stage, 2);
    gets(&stage, "eve", "/", ("hit-context", "admin"));
    gets(&stage, "ann", "/", ("hit-context", "editor"));
    assert_eq!(stage.get("/", &[]).text(), "<nobody> /");
    let themed = stage.get("/", &["Cookie: wordpress_logged_in_1=ann; theme=dark"]);
    assert_eq!(reason(&themed), "pass-context", "another cookie may change the page");
    assert_eq!(reason(&stage.get("/", &[&cookie("ann"), "Cache-Control: no-cache"])), "pass-context");
    assert_eq!(reason(&stage.get("/", &[&cookie("ann"), "Authorization: Basic eA=="])), "pass-authorization");
    let head = stage.ask("HEAD", "/", &[&cookie("ben")]);
    assert_eq!(reason(&head), "hit-context");
    stage.pass(601);
    gets(&stage, "ben", "/", ("pass-context", "editor"));
}

#[test]
fn claims_of_clients_are_refused() {
    let stage = stage(&usual());
    for claim in [
        "X-User-Context-Hash: hash-of-admin",
        "x_user_context_hash: hash-of-admin",
        "Accept: application/vnd.fos.user-context-hash",
    ] {
        for fields in [vec![claim], vec![claim, "Cookie: wordpress_logged_in_1=ann"]] {
            for (method, target) in [("GET", "/"), ("GET", PATH), ("POST", "/"), ("GET", "/wp-admin/")] {
                let answer = stage.ask(method, target, &fields);
                assert_eq!((answer.status, reason(&answer)), (400, "context-claimed"), "{fields:?} {target}");
            }
        }
    }
    stage.await_seen(0);
}

#[test]
fn unusable_answer_about_a_context_means_pass() {
    let (typed, hash) = (&format!("Content-Type: {TYPE}")[..], &format!("{FIELD}: hash-of-editor")[..]);
    let long = &format!("{FIELD}: {}", "a".repeat(200 * 1024))[..];
    let answer = |status: &str, fields: &[&str]| response(status, fields, b"");
    let answers = [
        answer("500 Internal Server Error", &[typed, hash]),
        answer("403 Forbidden", &[typed, hash]),
        answer("200 OK", &[typed]),
        answer("200 OK", &["Content-Type: text/html", hash]),
        answer("200 OK", &[typed, hash, "Set-Cookie: PHPSESSID=9"]),
        answer("200 OK", &[typed, hash, hash]),
        answer("200 OK", &[typed, long]),
        vec![Action::Close],
        vec![Action::Reset],
    ];
    for (shown, answer) in answers.into_iter().enumerate() {
        let roles = usual();
        let stage = Stage::with(asking(), move |seen| match seen.target() {
            PATH => answer.clone(),
            _ => roles.answer(seen, &[FRESH, VARY]),
        });
        for _ in 0..2 {
            let page = stage.get("/", &[&cookie("ann")]);
            assert_eq!((reason(&page), page.text()), ("pass-context-failed", "<editor> /"), "{shown}");
            assert_eq!(page.field("Cache-Control"), Some("private, no-store"));
        }
        assert_eq!(
            stage.metric("petasos_context_requests_total", ""),
            1,
            "the failure is remembered: {shown}"
        );
        stage.pass(1);
        stage.get("/", &[&cookie("ann")]);
        assert_eq!(stage.metric("petasos_context_requests_total", ""), 2);
        assert_eq!(stage.metric("petasos_context_copies", ""), 0);
    }
}

#[test]
fn late_answer_about_a_context_means_pass() {
    let (roles, gate) = (usual(), Gate::default());
    let held = gate.clone();
    let hurried = |plan: &mut EdgePlan| {
        asking()(plan);
        plan.limits.context_timeout = Duration::from_millis(50);
    };
    let stage = Stage::with(hurried, move |seen| match seen.target() {
        PATH => behind(&held, roles.answer(seen, &[])),
        _ => roles.answer(seen, &[FRESH, VARY]),
    });
    let page = stage.get("/", &[&cookie("ann")]);
    assert_eq!((reason(&page), page.text()), ("pass-context-late", "<editor> /"));
    gate.open();
}

#[test]
fn one_request_asks_for_the_context_of_a_session() {
    let (roles, gate) = (usual(), Gate::default());
    let held = gate.clone();
    let stage = Stage::with(asking(), move |seen| match seen.target() {
        PATH => behind(&held, roles.answer(seen, &[])),
        _ => roles.answer(seen, &[FRESH]),
    });
    let own = cookie("ann");
    let mut clients: Vec<_> = (0..8).map(|_| stage.begin("GET", "/stated", &[&own])).collect();
    stage.await_seen(1);
    gate.open();
    clients.iter_mut().for_each(|client| assert_eq!(client.read().text(), "<editor> /stated"));
    assert_eq!(stage.origin.count(PATH), 1);
}

#[test]
fn write_pauses_the_session_and_drops_its_context() {
    let roles = usual();
    let stage = stage(&roles);
    gets(&stage, "ann", "/stated", ("pass-context", "editor"));
    await_stored(&stage, 1);
    gets(&stage, "ben", "/stated", ("hit-context", "editor"));
    let mut client = connect(&stage.edge);
    // The request of a write often has further cookies, which have other paths.
    ask(&mut client, "POST", "/save", &format!("{}; wordpress_sec_1=x", cookie("ann")));
    roles.set("ann", "admin");
    let paused = client.get("/stated", &[&cookie("ann")]);
    assert_eq!((reason(&paused), paused.text()), ("pass-context-paused", "<admin> /stated"));
    gets(&stage, "ben", "/stated", ("hit-context", "editor"));
    stage.pass(5);
    gets(&stage, "ann", "/stated", ("pass-context", "admin"));
    gets(&stage, "ben", "/stated", ("hit-context", "editor"));
}

#[test]
fn page_from_during_a_write_is_not_kept() {
    let (roles, gate) = (usual(), Gate::default());
    let held = gate.clone();
    let stage = Stage::with(asking(), move |seen| match seen.target() {
        "/stated/slow" => behind(&held, roles.answer(seen, &[FRESH])),
        _ => roles.answer(seen, &[FRESH]),
    });
    let own = cookie("ann");
    let mut slow = stage.begin("GET", "/stated/slow", &[&own]);
    eventually("the page was requested", || stage.origin.count("/stated/slow") == 1);
    let mut client = connect(&stage.edge);
    ask(&mut client, "POST", "/save", &own);
    client.get("/other", &[]);
    stage.pass(60);
    gate.open();
    assert_eq!(reason(&slow.read()), "pass-context");
    slow.get("/other", &[]);
    assert_eq!(stage.metric("petasos_context_copies_stored_total", ""), 0);
    gets(&stage, "ben", "/stated/slow", ("pass-context", "editor"));
}

#[test]
fn cookie_that_was_replaced_does_not_come_back() {
    let own = usual();
    let stage = Stage::with(asking(), move |seen| match seen.target() {
        "/logout" => response("200 OK", &["Set-Cookie: wordpress_logged_in_1=; Max-Age=0"], b"bye"),
        "/renew" => response("200 OK", &["Set-Cookie: wordpress_logged_in_1=ben; Path=/"], b"go on"),
        _ => own.answer(seen, &[FRESH]),
    });
    gets(&stage, "ann", "/stated", ("pass-context", "editor"));
    await_stored(&stage, 1);
    gets(&stage, "ben", "/stated", ("hit-context", "editor"));
    stage.get("/logout", &[&cookie("ann")]);
    stage.get("/renew", &[&cookie("ben")]);
    gets(&stage, "ann", "/stated", ("pass-context-paused", "editor"));
    gets(&stage, "ben", "/stated", ("pass-context-paused", "editor"));
    stage.pass(5);
    gets(&stage, "ben", "/stated", ("hit-context", "editor"));
    stage.pass(590);
    gets(&stage, "ann", "/stated", ("pass-context-paused", "editor"));
}

#[test]
fn page_of_changed_rights_is_not_kept_for_the_old_ones() {
    let roles = usual();
    let stage = stage(&roles);
    for (target, dropped) in [("/varied", 1), ("/stated", 2)] {
        roles.set("ann", "editor");
        stage.pass(601);
        gets(&stage, "ann", "/other", ("pass-context", "editor"));
        await_stored(&stage, 2 * dropped - 1);
        // Somebody else gives ann more rights, and no request of ann's session shows it.
        roles.set("ann", "admin");
        let answer = stage.get(target, &[&cookie("ann")]);
        assert_eq!(answer.text(), format!("<admin> {target}"));
        let count = || stage.metric("petasos_context_copies_dropped_total", "");
        eventually("the change was seen", || count() == dropped);
        gets(&stage, "ben", target, ("pass-context", "editor"));
        await_stored(&stage, 2 * dropped);
    }
}

#[test]
fn only_pages_of_the_context_alone_are_kept() {
    const DECLARED: bool = true;
    let cases: [(&[&str], bool, &str); 8] = [
        (&[FRESH], false, "store-refused-context"),
        (&[FRESH], DECLARED, ""),
        (&[FRESH, VARY], false, ""),
        (&["Cache-Control: private, max-age=60", VARY], DECLARED, "store-refused-private"),
        (&["Cache-Control: no-store", VARY], DECLARED, "store-refused-no-store"),
        (&[FRESH, VARY, "Set-Cookie: a=1"], DECLARED, "store-refused-set-cookie"),
        (&[FRESH, VARY, "Vary: Cookie"], false, "store-refused-vary-star"),
        (&[VARY], DECLARED, "store-refused-no-freshness"),
    ];
    for (fields, is_declared, refusal) in cases {
        let (roles, fields) = (usual(), fields.iter().map(ToString::to_string).collect::<Vec<_>>());
        let shown = format!("{fields:?} {is_declared}");
        let change = context(ContextSource::Answer(PATH.to_owned()), is_declared);
        let stage = Stage::with(change, move |seen| {
            roles.answer(seen, &fields.iter().map(String::as_str).collect::<Vec<_>>())
        });
        let answer = stage.get("/", &[&cookie("ann")]);
        if refusal.is_empty() {
            assert_eq!(reason(&answer), "pass-context", "{shown}");
            await_stored(&stage, 1);
            gets(&stage, "ben", "/", ("hit-context", "editor"));
        } else {
            assert_eq!(reason(&answer), refusal, "{shown}");
            assert_eq!(reason(&stage.get("/", &[&cookie("ben")])), refusal, "{shown}");
        }
        assert_eq!(reason(&stage.get("/wp-admin/", &[&cookie("ann")])), "pass-path");
    }
}

#[test]
fn purges_reach_the_pages_of_all_contexts() {
    let stage = stage_of(&usual(), asking(), &[FRESH, "Surrogate-Key: news"]);
    let sessions = [("ann", "editor"), ("eve", "admin")];
    for purge in ["page", "tag", "everything"] {
        let targets = ["/stated/a", "/stated/b"];
        for (session, role) in sessions {
            let mut client = connect(&stage.edge);
            for target in targets {
                client.get(target, &[&cookie(session)]);
                assert_eq!(reason(&client.get(target, &[&cookie(session)])), "hit-context", "{role}");
            }
        }
        let purged = match purge {
            "page" => stage.ask("PURGE", "/stated/a", &[]),
            "tag" => stage.ask("PURGE", "/", &["Surrogate-Key: news"]),
            _ => {
                let everything = r#"{"purge_everything":true}"#;
                stage.call_admin("POST", "/client/v4/zones/any/purge_cache", everything)
            }
        };
        assert_eq!(purged.status, 200, "{}", purged.text());
        for (session, role) in sessions {
            let other = if purge == "page" { "hit-context" } else { "pass-context" };
            gets(&stage, session, "/stated/b", (other, role));
            gets(&stage, session, "/stated/a", ("pass-context", role));
        }
    }
}

#[test]
fn write_of_a_visitor_invalidates_its_page_for_all_contexts() {
    let stage = stage(&usual());
    let mut client = connect(&stage.edge);
    for session in ["ben", "eve"] {
        client.get("/stated", &[&cookie(session)]);
        assert_eq!(reason(&client.get("/stated", &[&cookie(session)])), "hit-context");
    }
    ask(&mut client, "POST", "/stated", &cookie("ann"));
    gets(&stage, "ben", "/stated", ("pass-context", "editor"));
    gets(&stage, "eve", "/stated", ("pass-context", "admin"));
}

/// The signed cookie of a session.
fn group(role: &str, expires_secs: u64, session: &str, key: &[u8]) -> String {
    let text = format!("v1.{expires_secs}.hash-of-{role}.wordpress_logged_in_1");
    let mut mac = Hmac::<Sha256>::new_from_slice(key).unwrap();
    mac.update(format!("{text}={session}").as_bytes());
    let mac: String = mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{}; group={text}.{mac}", cookie(session))
}

#[test]
fn context_comes_from_a_signed_cookie() {
    let stage = stage_of(&usual(), context(signed(), false), &[FRESH, "Vary: Cookie"]);
    let mut client = connect(&stage.edge);
    let soon = START_SECS + 60;
    let mut gets = |cookies: &str, expected: (&str, &str)| {
        let answer = client.get("/stated", &[cookies]);
        let content = format!("<{}> /stated", expected.1);
        assert_eq!((reason(&answer), answer.text()), (expected.0, content.as_str()), "{cookies}");
        assert_eq!(answer.field("Cache-Control"), Some("private, no-store"));
    };
    let (ann, ben) = (group("editor", soon, "ann", KEY), group("editor", soon, "ben", KEY));
    gets(&ann, ("pass-context", "editor"));
    gets(&ben, ("hit-context", "editor"));
    gets(&group("editor", soon + 1, "ann", KEY), ("hit-context", "editor"));
    gets(&group("admin", soon, "eve", KEY), ("pass-context", "admin"));
    gets(&group("admin", soon, "eve", KEY), ("hit-context", "admin"));
    for (cookies, refused) in [
        (cookie("ann"), "pass-context-missing"),
        (group("admin", soon, "ann", &[b'x'; 32]), "pass-context-invalid"),
        (ann.replace("editor", "admin"), "pass-context-invalid"),
        (ann.replace(&soon.to_string(), &(soon + 9).to_string()), "pass-context-invalid"),
        (group("admin", soon, "eve", KEY).replace("_1=eve", "_1=ann"), "pass-context-invalid"),
        (format!("{ann}; group=v1"), "pass-context-invalid"),
        (group("editor", START_SECS + 601, "ann", KEY), "pass-context-invalid"),
        (group("editor", START_SECS, "ann", KEY), "pass-context-expired"),
    ] {
        gets(&cookies, (refused, "editor"));
    }
    // The rights of ben have changed, but not the cookie: the response says so.
    assert_eq!(stage.metric("petasos_context_copies_dropped_total", ""), 0);
    gets(&group("admin", soon, "ben", KEY), ("hit-context", "admin"));
    let other = client.get("/stated/new", &[&group("admin", soon, "ben", KEY)]);
    assert_eq!((reason(&other), other.text()), ("store-refused-context-changed", "<editor> /stated/new"));
    assert_eq!(stage.metric("petasos_context_copies_dropped_total", ""), 1);
    stage.pass(60);
    assert_eq!(reason(&stage.get("/stated", &[&ann])), "pass-context-expired");
    assert_eq!(stage.metric("petasos_context_requests_total", ""), 0, "the origin is not asked");
}

#[test]
fn why_shows_a_short_form_of_the_context() {
    let stage = stage(&usual());
    let ask_why = |session: &str| {
        let cookies = format!("wordpress_logged_in_1={session}");
        let address = ("X-Forwarded-For".to_owned(), "127.0.0.1".to_owned());
        let headers = vec![("Cookie".to_owned(), cookies), address];
        let (url, method) = ("http://example.test/stated".to_owned(), "GET".to_owned());
        let reply = asked(&stage.edge, &Question { url, method, headers });
        (reply.reason, reply.context.unwrap())
    };
    let (before, context) = ask_why("ann");
    assert_eq!((&before[..], context.name, context.is_asked), ("pass-context", None, true));
    stage.await_seen(0);
    let mut client = connect(&stage.edge);
    for session in ["ann", "ben", "eve"] {
        client.get("/stated", &[&cookie(session)]);
    }
    client.get("/other", &[]);
    let name = |session: &str| {
        let (reason, context) = ask_why(session);
        assert_eq!((&reason[..], context.is_asked), ("hit-context", false));
        context.name.unwrap()
    };
    assert_eq!(name("ann"), name("ben"));
    assert_ne!(name("ann"), name("eve"));
    assert!(name("ann").len() == 8 && !name("ann").contains("hash"));
    ask(&mut client, "POST", "/save", &cookie("ann"));
    assert_eq!(ask_why("ann").0, "pass-context-paused");
}

#[test]
fn template_is_shared_and_its_fragments_are_private() {
    let roles = usual();
    let assembling = |plan: &mut EdgePlan| {
        asking()(plan);
        plan.sites[0].esi = true;
    };
    let stage = Stage::with(assembling, move |seen| match seen.target() {
        "/page" => {
            let role = roles.role(seen);
            let text = format!("<{role}> <esi:include src=\"/me\"/>");
            let stated = format!("{FIELD}: hash-of-{role}");
            response("200 OK", &[FRESH, TEMPLATE, &stated], text.as_bytes())
        }
        "/me" => response("200 OK", &["Cache-Control: private"], session_of(seen).unwrap().as_bytes()),
        _ => roles.answer(seen, &[]),
    });
    let mut client = connect(&stage.edge);
    for (session, expected, text) in [
        ("ann", "pass-context", "<editor> ann"),
        ("ben", "hit-context", "<editor> ben"),
        ("eve", "pass-context", "<admin> eve"),
        ("ann", "hit-context", "<editor> ann"),
        ("eve", "hit-context", "<admin> eve"),
    ] {
        let page = client.get("/page", &[&cookie(session)]);
        assert_eq!((reason(&page), page.text()), (expected, text), "{session}");
        assert_eq!(page.field("Cache-Control"), Some("private, no-store"));
    }
    assert_eq!((stage.origin.count("/page"), stage.origin.count("/me")), (2, 5));
}

const ROLES: [&str; 3] = ["reader", "editor", "admin"];

/// Users of three roles read, write, log in and out, and get other roles, by a request of their own
/// or from somebody else, at the same time and with purges in between. Returns the number of pages
/// of a role that the user did not have, and the number of hits.
fn mix_users(users: usize, rounds: usize) -> (u64, u64) {
    let roles = Roles::default();
    let own = roles.clone();
    let impatient = |plan: &mut EdgePlan| {
        asking()(plan);
        plan.limits.context_pause = Duration::ZERO;
    };
    let stage = Stage::with(impatient, move |seen| match seen.target() {
        "/logout" => response("200 OK", &["Set-Cookie: wordpress_logged_in_1=; Max-Age=0"], b"bye"),
        _ => own.answer(seen, &[FRESH, VARY]),
    });
    let (wrong, hits) = (AtomicU64::new(0), AtomicU64::new(0));
    let visit = |user: usize| {
        let mut client = connect(&stage.edge);
        let mut session = format!("{user}.0");
        let mut has = vec![ROLES[user % 3]];
        roles.set(&session, has[0]);
        for round in 0..rounds {
            for target in ["/", "/stated/a", "/b", "/"] {
                let answer = client.get(target, &[&cookie(&session)]);
                let is_own = has.iter().any(|role| answer.text() == format!("<{role}> {target}"));
                wrong.fetch_add(u64::from(!is_own), Ordering::Relaxed);
                hits.fetch_add(u64::from(reason(&answer) == "hit-context"), Ordering::Relaxed);
            }
            let other = ROLES[(user + round) % 3];
            match round % 6 {
                1 => {
                    // By the user's own request: from then on the user sees the new role only.
                    roles.set(&session, other);
                    ask(&mut client, "POST", "/save", &cookie(&session));
                    has = vec![other];
                }
                // By somebody else: the user sees either role until the context is asked again.
                2 => {
                    roles.set(&session, other);
                    has.push(other);
                }
                3 if user == 0 => drop(stage.ask("PURGE", "/stated/a", &[])),
                4 => {
                    client.get("/logout", &[&cookie(&session)]);
                    roles.end(&session);
                    let late = client.get("/b", &[&cookie(&session)]);
                    wrong.fetch_add(u64::from(late.text() != "<nobody> /b"), Ordering::Relaxed);
                    session = format!("{user}.{round}");
                    roles.set(&session, other);
                    has = vec![other];
                }
                _ => {}
            }
            let public = client.get("/", &[]);
            wrong.fetch_add(u64::from(public.text() != "<nobody> /"), Ordering::Relaxed);
        }
    };
    std::thread::scope(|scope| {
        for user in 0..users {
            let visit = &visit;
            scope.spawn(move || visit(user));
        }
    });
    (wrong.load(Ordering::Relaxed), hits.load(Ordering::Relaxed))
}

#[test]
fn two_users_never_see_a_foreign_context() {
    let (wrong, hits) = mix_users(2, 40);
    assert_eq!(wrong, 0);
    assert!(hits >= 40, "{hits}");
}

#[test]
fn fifty_users_never_see_a_foreign_context() {
    let (wrong, hits) = mix_users(50, 12);
    assert_eq!(wrong, 0);
    assert!(hits >= 50 * 12, "{hits}");
}
