//! Routes: which page, answer and fields each request gets.

use crate::history::{History, ask, bare, content, reply};
use petasos_actors::{
    Ask, ContentId, HeldCopy, Reply, RouteAnswer, RoutePages, Routing, Rule, Rules, Scope, SiteRoute,
};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// A route for `/a` with pages of its own.
fn route() -> SiteRoute {
    SiteRoute {
        number: 0,
        only_other: None,
        path: Some("/a*".to_owned()),
        method: None,
        is_for_noise: false,
        language: None,
        is_told: true,
        is_stored: false,
        adds: false,
        answer: RouteAnswer::Pages(RoutePages { is_own: true, ..RoutePages::default() }),
    }
}

fn routing(route: SiteRoute) -> Routing {
    Routing { routes: vec![route], is_told: true, is_maintained: false }
}

fn rules(routing: Routing) -> Rules {
    let assumed_of_realms = routing.lifetimes().collect();
    let routings = vec![Arc::new(routing)];
    Rules { routings, assumed_of_realms, age_slack: Duration::from_secs(1), ..Rules::default() }
}

fn history(routing: Routing) -> History {
    let mut history = History::new();
    *history.ledger.rules_mut() = rules(routing);
    history
}

/// The content of the first version of a page in this realm.
fn of_realm(path: &str, realm: &str) -> ContentId {
    ContentId { realm: realm.to_owned(), ..content(path, 1) }
}

fn with(mut reply: Reply, name: &'static str, value: &str) -> Reply {
    reply.fields.push(name, value.to_owned());
    reply
}

/// A hit with the content of a realm that names this route.
fn hit(id: &ContentId, told: &str) -> Reply {
    with(reply(id, "hit-fresh"), "X-Sim-Route", told)
}

#[test]
fn page_of_another_route_is_wrong() {
    for (path, realm, told, violated) in [
        ("/a", "r0", "r0", None),
        ("/b", "-", "site", None),
        ("/a", "-", "r0", Some(Rule::Integrity)),
        ("/b", "r0", "site", Some(Rule::Integrity)),
        ("/a", "r0", "site", Some(Rule::Routing)),
        ("/b", "-", "r0", Some(Rule::Routing)),
    ] {
        let mut history = history(routing(route()));
        let id = of_realm(path, realm);
        history.origin(&id);
        history.visit(ask(path), &hit(&id, told));
        assert_eq!(history.violated(), Vec::from_iter(violated), "{path} {realm} {told}");
    }
}

#[test]
fn confirmation_is_right_for_a_page_of_either_routing() {
    for (realm, violated) in [("-", None), ("r0", None), ("r1", Some(Rule::Integrity))] {
        let untold = SiteRoute { is_told: false, ..route() };
        let mut history = history(Routing { is_told: false, ..routing(untold) });
        history.ledger.rules_mut().routings.push(Arc::default());
        let id = of_realm("/a", realm);
        history.origin(&id);
        let held = Some(HeldCopy { id, date_secs: None });
        history.visit(Ask { held, ..ask("/a") }, &bare(304, "hit-fresh"));
        assert_eq!(history.violated(), Vec::from_iter(violated), "{realm}");
    }
}

#[test]
fn purge_covers_the_pages_of_all_routes() {
    let mut history = history(routing(route()));
    let id = of_realm("/a", "r0");
    history.origin(&id);
    history.purge(Scope::Target("/a".to_owned()), false);
    history.visit(ask("/a"), &hit(&id, "r0"));
    history.violates(Rule::Staleness);
}

#[test]
fn purge_beyond_a_realm_leaves_its_pages() {
    for (beyond, is_right) in [("r0", true), ("r1", false)] {
        let mut history = history(routing(route()));
        let id = of_realm("/a", "r0");
        history.origin(&id);
        let realms = BTreeSet::from([beyond.to_owned()]);
        history.purge(Scope::TargetBeyond("/a".to_owned(), realms), false);
        history.visit(ask("/a"), &hit(&id, "r0"));
        assert_eq!(history.violated().is_empty(), is_right, "{beyond}");
    }
}

#[test]
fn cookie_that_chooses_the_route_is_named_in_vary() {
    let with_cookie = SiteRoute { is_for_noise: true, ..route() };
    let (own, of_site) = (of_realm("/a", "r0"), of_realm("/a", "-"));
    for (has_noise, reply, is_right) in [
        (true, with(hit(&own, "r0"), "Vary", "Accept, Cookie"), true),
        (true, hit(&own, "r0"), false),
        (false, with(hit(&of_site, "site"), "Vary", "cookie"), true),
        (false, hit(&of_site, "site"), false),
    ] {
        let mut history = history(routing(with_cookie.clone()));
        history.origin(&own);
        history.origin(&of_site);
        history.visit(Ask { has_noise, ..ask("/a") }, &reply);
        let expected: &[Rule] = if is_right { &[] } else { &[Rule::Routing] };
        assert_eq!(history.violated(), expected, "{has_noise} {reply:?}");
    }
}

#[test]
fn answers_without_origin_are_those_of_the_configuration() {
    let named = |reply| with(reply, "X-Sim-Route", "r0");
    let moved = |url| with(named(bare(307, "redirected")), "Location", url);
    let page = of_realm("/a", "-");
    let redirect = RouteAnswer::Redirect(307);
    let gone = Reply { body: "the answer of r0".into(), ..named(bare(410, "fixed-answer")) };
    for (answer, reply, is_right) in [
        (&redirect, moved("https://moved.test/a?page=1"), true),
        (&redirect, moved("https://moved.test/"), false),
        (&redirect, hit(&page, "r0"), false),
        (&RouteAnswer::Fixed(410), gone.clone(), true),
        (&RouteAnswer::Fixed(403), gone.clone(), false),
        (&RouteAnswer::Fixed(410), named(bare(410, "fixed-answer")), false),
        (&route().answer, gone, false),
    ] {
        let mut history = history(routing(SiteRoute { answer: answer.clone(), ..route() }));
        history.origin(&page);
        history.visit(ask("/a?page=1"), &reply);
        let is_found = history.violated().contains(&Rule::Routing);
        assert_eq!(is_found, !is_right, "{answer:?} {:#?}", history.ledger.violations());
    }
}

#[test]
fn only_maintainers_use_a_site_under_maintenance() {
    let maintained = Routing { is_maintained: true, ..routing(route()) };
    let page = of_realm("/b", "-");
    let told = with(bare(503, "maintenance"), "X-Sim-Route", "site");
    let told = with(Reply { body: petasos_actors::MAINTENANCE_PAGE.into(), ..told }, "Retry-After", "300");
    for (is_maintainer, reply, is_right) in [
        (false, &told, true),
        (true, &told, false),
        (true, &hit(&page, "site"), true),
        (false, &hit(&page, "site"), false),
    ] {
        let mut history = history(maintained.clone());
        history.origin(&page);
        history.visit(Ask { is_maintainer, ..ask("/b") }, reply);
        let is_found = history.violated().contains(&Rule::Routing);
        assert_eq!(is_found, !is_right, "{is_maintainer} {reply:?}");
    }
}

#[test]
fn old_process_keeps_its_routes_on_its_connections() {
    let mut history = history(routing(route()));
    let (own, of_site) = (of_realm("/a", "r0"), of_realm("/a", "-"));
    history.origin(&own);
    history.origin(&of_site);
    let before = history.now();
    let at = history.now();
    history.ledger.handed_over(at, true);
    let none = Routing { is_told: true, ..Routing::default() };
    let id = history.ledger.reload_sent(at, "reload 1", rules(none), None);
    let at = history.now();
    history.ledger.reload_answered(at, id);
    history.visit(ask("/a"), &hit(&of_site, "site"));
    history.visit(Ask { connected: Some(before), ..ask("/a") }, &hit(&own, "r0"));
    history.is_right();
    history.visit(Ask { connected: Some(at), ..ask("/a") }, &hit(&own, "r0"));
    assert!(history.violated().contains(&Rule::Routing));
}

#[test]
fn reload_drops_the_pages_of_its_realms_only() {
    let mut history = history(routing(route()));
    let (own, of_site) = (of_realm("/a", "r0"), of_realm("/b", "-"));
    history.origin(&own);
    history.origin(&of_site);
    let at = history.now();
    let drops = Some(Scope::Realms(BTreeSet::from(["r0".to_owned()])));
    let id = history.ledger.reload_sent(at, "reload 1", rules(routing(route())), drops);
    let at = history.now();
    history.ledger.reload_answered(at, id);
    history.visit(ask("/b"), &hit(&of_site, "site"));
    history.is_right();
    history.visit(ask("/a"), &hit(&own, "r0"));
    history.violates(Rule::Staleness);
}

#[test]
fn page_lives_as_long_as_its_own_route_says() {
    let pages = RoutePages { is_own: true, lifetime_secs: Some(20), ..RoutePages::default() };
    let unstated =
        SiteRoute { path: Some("/unstated".to_owned()), answer: RouteAnswer::Pages(pages), ..route() };
    let mut history = history(routing(unstated));
    history.ledger.rules_mut().assumed_max = Duration::from_secs(90);
    let id = of_realm("/unstated", "r0");
    history.origin(&id);
    history.pass(15);
    history.visit(ask("/unstated"), &hit(&id, "r0"));
    history.is_right();
    history.pass(15);
    history.visit(ask("/unstated"), &hit(&id, "r0"));
    history.violates(Rule::Age);
}
