//! No visitor receives another visitor's page. The visitors are two users, a commenter, one with a
//! post's password, and anonymous ones. They request every kind of page, in turns and concurrently,
//! with and without the plugin.
//!
//! Each response of the edge is compared with WordPress' own response to the same visitor. So any
//! page that belongs to another visitor is found, whatever is wrong with it.

use crate::cast::{Cast, CastVisitor, PageKind};
use crate::personal_parts::PersonalParts;
use crate::site::{WordPressLab, ask, get_with, is_hit};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Mutex;
use testkit::{Edge, Response};

/// Orders in which visitors request an unstored page. Visitors without a personal version of the
/// page skip it, unless they are anonymous.
const TURNS: &[&[&str]] = &[
    &["anonymous", "anonymous", "editor", "measured", "subscriber", "commenter", "knower", "anonymous"],
    &["editor", "subscriber", "anonymous"],
    &["subscriber", "editor", "anonymous"],
    &["commenter", "knower", "anonymous"],
    &["knower", "commenter", "anonymous"],
];
/// Kinds of pages that all visitors request concurrently.
const CROWDED: &[&str] = &["the front page", "a post with its form for comments", "a post behind a password"];
/// Number of kinds of pages that are tested concurrently.
const THREADS: usize = 3;

/// WordPress' own responses by target and visitor name.
type Own<'a> = BTreeMap<(&'a str, &'a str), PersonalParts>;

fn visit(address: SocketAddr, visitor: &CastVisitor, target: &str) -> Response {
    let cookie: Vec<&str> = visitor.cookie.iter().map(String::as_str).collect();
    get_with(address, target, &cookie)
}

/// Calls `each` for all `items`, several concurrently.
fn at_once<'a, T: Sync>(items: &'a [T], each: impl Fn(&'a T) + Sync) {
    let rest = Mutex::new(items.iter());
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                while let Some(item) = { rest.lock().unwrap().next() } {
                    each(item)
                }
            });
        }
    });
}

fn ask_wordpress<'a>(site: &WordPressLab, cast: &'a Cast) -> Own<'a> {
    let own = Mutex::new(Own::new());
    at_once(&cast.kinds, |kind| {
        for visitor in &cast.visitors {
            let answer = PersonalParts::of(&visit(site.origin, visitor, &kind.target));
            own.lock().unwrap().insert((&kind.target, visitor.name), answer);
        }
    });
    own.into_inner().unwrap()
}

/// Checks that the marks are effective: without an edge, each mark's owner sees it, and no visitor
/// without permission does.
fn check_marks(cast: &Cast, own: &Own<'_>) {
    for mark in &cast.marks {
        let finders: Vec<_> =
            own.iter().filter(|(_, answer)| answer.content.contains(&mark.text)).map(|(at, _)| *at).collect();
        assert!(
            finders.iter().any(|(_, name)| *name == mark.owner),
            "{} never sees {}",
            mark.owner,
            mark.text
        );
        let others = finders.iter().filter(|(_, name)| *name != mark.owner && !mark.others.contains(name));
        assert_eq!(others.count(), 0, "{}'s {} by WordPress itself: {finders:?}", mark.owner, mark.text);
    }
}

/// Visits through an edge.
struct LeakWalk<'a> {
    site: &'a WordPressLab,
    cast: &'a Cast,
    own: &'a Own<'a>,
    edge: &'a Edge,
    /// Descriptions of all faults.
    faults: Mutex<Vec<String>>,
}

impl LeakWalk<'_> {
    /// Sends all visitors to all kinds of pages and returns the faults.
    fn go(self) -> Vec<String> {
        at_once(&self.cast.kinds, |kind| {
            for turns in TURNS.iter().filter(|turns| turns[0] == "anonymous" || self.has_own(kind, turns[0]))
            {
                self.purge(kind);
                for (place, name) in turns.iter().enumerate() {
                    let visitor = self.cast.visitor(name);
                    if !visitor.is_anybody && !self.has_own(kind, name) {
                        continue;
                    }
                    let answer = self.check(kind, visitor, &format!("after {:?}", &turns[..place]));
                    let must_hit = kind.is_shared && place > 0 && turns[..place] == ["anonymous"];
                    if must_hit && !is_hit(&answer) {
                        self.fault(format!("{} is not shared: {}", kind.target, answer.head));
                    }
                }
            }
        });
        for kind in self.cast.kinds.iter().filter(|kind| CROWDED.contains(&kind.name)) {
            self.purge(kind);
            std::thread::scope(|scope| {
                for visitor in self.cast.visitors.iter().chain(&self.cast.visitors) {
                    let walk = &self;
                    scope.spawn(move || walk.check(kind, visitor, "in a crowd"));
                }
            });
        }
        self.faults.into_inner().unwrap()
    }

    /// Whether WordPress responds to this visitor differently than to an anonymous one.
    fn has_own(&self, kind: &PageKind, name: &str) -> bool {
        let own = |name| &self.own[&(kind.target.as_str(), name)];
        own(name) != own("anonymous")
    }

    fn purge(&self, kind: &PageKind) {
        let answer = ask(self.edge.address, "PURGE", &kind.target, &[], "");
        assert_eq!(answer.status, 200, "{}", answer.head);
    }

    /// Sends a request as this visitor. The response must equal WordPress' own, either from before
    /// the walk or from now.
    fn check(&self, kind: &PageKind, visitor: &CastVisitor, when: &str) -> Response {
        let answer = visit(self.edge.address, visitor, &kind.target);
        let got = PersonalParts::of(&answer);
        let before = &self.own[&(kind.target.as_str(), visitor.name)];
        let place = format!("{} ({}), {} {when}", kind.target, kind.name, visitor.name);
        if !got.is_as(before) {
            let now = PersonalParts::of(&visit(self.site.origin, visitor, &kind.target));
            if !got.is_as(&now) {
                self.fault(format!("{place}: {}\n{}", answer.head, got.difference(&now)));
            }
        }
        if is_hit(&answer) && (!visitor.is_anybody || !got.cookies.is_empty()) {
            self.fault(format!("{place}: from the store: {}", answer.head));
        }
        answer
    }

    fn fault(&self, text: String) {
        self.faults.lock().unwrap().push(text);
    }
}

#[test]
fn no_visitor_gets_personal_content_of_another() {
    let site = WordPressLab::with("");
    let cast = Cast::gather(&site);
    let own = ask_wordpress(&site, &cast);
    check_marks(&cast, &own);
    for layers in ["", "plugin=on"] {
        let edge = site.edge(layers);
        let faults =
            LeakWalk { site: &site, cast: &cast, own: &own, edge: &edge, faults: Mutex::default() }.go();
        assert!(faults.is_empty(), "with layers {layers:?}:\n{}", faults.join("\n"));
    }
    cast.leave();
}

/// Proves that the previous test can fail.
#[test]
fn profile_that_ignores_a_session_cookie_is_detected() {
    let site = WordPressLab::with("");
    let mut cast = Cast::gather(&site);
    cast.kinds.retain(|kind| CROWDED.contains(&kind.name));
    let own = ask_wordpress(&site, &cast);
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("forgetful.toml");
    for (cookie, victim) in
        [("wordpress_*", "editor"), ("comment_author_*", "commenter"), ("wp-postpass_*", "knower")]
    {
        let profile = format!(
            "title = \"Forgetful\"\nabout = \"For a test.\"\nextends = \"wordpress\"\n\
             [[cookie]]\nmeans = \"noise\"\nnames = [\"{cookie}\"]\nsource = \"a mistake\"\n"
        );
        std::fs::write(&file, profile).unwrap();
        // The leak guard would notice the leak and give each visitor its own page, so it is off.
        let unguarded = "[limits]\nleak_guard_every = 0\n";
        let profile = ["--profile", file.to_str().unwrap()];
        let edge = Edge::configured(&format!("http://{}", site.origin), unguarded, &profile);
        let faults =
            LeakWalk { site: &site, cast: &cast, own: &own, edge: &edge, faults: Mutex::default() }.go();
        assert!(faults.iter().any(|fault| fault.contains(victim)), "without {cookie}: {faults:?}");
    }
    cast.leave();
}
