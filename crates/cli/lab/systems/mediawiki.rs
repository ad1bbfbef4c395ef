//! MediaWiki behind the edge (`cargo xtask lab mediawiki up`): what anonymous visitors share, that users see their own
//! pages only, and that an edit is seen at once because MediaWiki purges it.

use super::visitor::{Form, Lab, Owners, Visitor, between, comes_to_share, is_hit, within_two_seconds};
use testkit::{Edge, Response};

/// What MediaWiki says may be shared.
const SHARED: &[&str] = &[
    "/wiki/Welcome",
    "/wiki/Bridge_of_Amberg",
    "/wiki/Talk:Bridge_of_Amberg",
    "/wiki/Category:Villages",
    "/index.php?title=Bridge_of_Amberg&action=history",
    "/index.php?title=Bridge_of_Amberg&diff=2&oldid=3",
    "/load.php?lang=en&modules=startup&only=scripts&raw=1&skin=vector",
];
/// What is each visitor's own.
const OWN: &[&str] = &[
    "/index.php?title=Bridge_of_Amberg&action=edit",
    "/index.php?title=Bridge_of_Amberg&action=info",
    "/index.php?title=Bridge_of_Amberg&printable=yes",
    "/wiki/Special:RecentChanges",
    "/wiki/Special:Preferences",
    "/wiki/Special:Watchlist",
    "/wiki/Special:Search?search=bridge",
    "/index.php?title=Special:Search&search=bridge",
    "/index.php?search=bridge",
    "/wiki/Special:UserLogin",
    "/api.php?action=query&meta=userinfo&format=json",
    "/api.php?action=query&meta=tokens&format=json",
];

/// One after the other: they share the edge's address, to which MediaWiki sends its purges.
#[test]
fn mediawiki_behind_the_edge() {
    let lab = Lab::find("mediawiki");
    let edge = lab.edge("nginx_objects", "mediawiki");
    anonymous_pages_become_hits(&lab, &edge);
    users_see_their_own_pages_only(&lab, &edge);
    an_edit_is_seen_by_everybody(&lab, &edge);
    cookies_that_mean_nothing_do_not_matter(&lab, &edge);
}

fn anonymous_pages_become_hits(lab: &Lab, edge: &Edge) {
    let owners = Owners::default();
    for target in SHARED {
        Visitor::new("first", edge.address, lab.value("host"), &owners).get(target);
        let answer = Visitor::new("second", edge.address, lab.value("host"), &owners).get(target);
        assert!(answer.status == 200 && is_hit(&answer), "{target}: {}", answer.head);
    }
    for target in OWN {
        let mut visitor = Visitor::new("third", edge.address, lab.value("host"), &owners);
        visitor.get(target);
        let answer = visitor.get(target);
        assert!(!is_hit(&answer), "{target}: {}", answer.head);
    }
}

fn cookies_that_mean_nothing_do_not_matter(lab: &Lab, edge: &Edge) {
    let owners = Owners::default();
    let mut measured = Visitor::new("measured", edge.address, lab.value("host"), &owners);
    measured.keep("_ga", "GA1.2.3");
    // It stays after the logout, and MediaWiki does not look at it.
    measured.keep("wikiUserName", "Alice");
    comes_to_share(&mut measured, SHARED);
}

fn users_see_their_own_pages_only(lab: &Lab, edge: &Edge) {
    let owners = Owners::default();
    let visitor = |name: &str| Visitor::new(name, edge.address, lab.value("host"), &owners);
    let mut visitors = [visitor("nobody"), visitor("Alice"), visitor("Bob")];
    for user in &mut visitors[1..] {
        log_in(user, lab.value("user_password"));
    }
    // In turns, so that each comes after each other, and with nothing stored at first.
    for target in SHARED.iter().chain(OWN) {
        for turn in [0, 1, 2, 0, 2, 1, 0] {
            let answer = visitors[turn].get(target);
            check(&visitors[turn], target, &answer);
            if turn == 0 {
                visitors[0] = visitor("nobody");
            }
        }
    }
    // All at once, while others are on their way.
    std::thread::scope(|scope| {
        for visitor in &mut visitors {
            scope.spawn(move || {
                for target in SHARED.iter().chain(OWN) {
                    let answer = visitor.get(target);
                    check(visitor, target, &answer);
                }
            });
        }
    });
}

/// Logs in by the form that visitors are shown.
pub(crate) fn log_in(user: &mut Visitor<'_>, password: &str) {
    let page = user.get("/wiki/Special:UserLogin");
    let form = Form::of(page.text(), "wpLoginToken").with("wpName", &user.name).with("wpPassword", password);
    let answer = user.post("/wiki/Special:UserLogin", &form);
    assert_eq!(answer.status, 302, "{}: {}", user.name, answer.head);
}

/// That a page is this visitor's own, by the name in it and by the tokens in it.
fn check(visitor: &Visitor<'_>, target: &str, answer: &Response) {
    let text = answer.text();
    let name = &visitor.name;
    let known = if name == "nobody" { "null".to_owned() } else { format!("\"{name}\"") };
    if let Some(user) = between(text, "\"wgUserName\":", ",") {
        assert_eq!(user, known, "{name} {target}: {}", answer.head);
        let bar = between(text, "id=\"pt-userpage\"", "</li>").unwrap_or("nobody");
        assert!(bar.contains(name.as_str()), "{name} {target}: {bar}");
    } else if target.contains("userinfo") {
        let user = between(text, "\"name\":\"", "\"").unwrap();
        assert!(user == name || name == "nobody" && user == "127.0.0.1", "{name}: {text}");
    }
    // The token of those who are not known is the same for all, or as new as their session.
    for token in tokens(text).iter().filter(|_| name != "nobody") {
        visitor.own(token);
    }
}

/// What the forms and answers of a page hold for their visitor to send back.
fn tokens(text: &str) -> Vec<String> {
    let names = ["wpEditToken", "wpLoginToken"].into_iter().filter(|name| text.contains(name));
    let in_forms = names.map(|name| Form::of(text, name).value(name).to_owned());
    in_forms.chain(between(text, "\"csrftoken\":\"", "\"").map(str::to_owned)).collect()
}

fn an_edit_is_seen_by_everybody(lab: &Lab, edge: &Edge) {
    let owners = Owners::default();
    let visitor = |name: &str| Visitor::new(name, edge.address, lab.value("host"), &owners);
    // Alice does not come through the edge, so that it knows of her edits by MediaWiki's purges only.
    let mut alice = Visitor::new("Alice", lab.address("nginx_objects"), lab.value("host"), &owners);
    let mut bob = visitor("Bob");
    log_in(&mut alice, lab.value("user_password"));
    log_in(&mut bob, lab.value("user_password"));
    let history = "/index.php?title=Lab_test&action=history";
    for number in 1..=3 {
        let text = format!("edit-{number}-of-{}", std::process::id());
        let see = |visitor: &mut Visitor<'_>, target: &str| visitor.get(target).text().contains(&text);
        visitor("nobody").get("/wiki/Lab_test");
        visitor("nobody").get(history);
        let (before, purges) =
            (visitor("nobody").get("/wiki/Lab_test"), edge.metric("petasos_purges_total", ""));
        assert!(is_hit(&before) && !before.text().contains(&text), "edit {number}: {}", before.head);
        edit(&mut alice, "Lab_test", &text);
        within_two_seconds("an anonymous visitor sees the edit", || {
            see(&mut visitor("nobody"), "/wiki/Lab_test")
        });
        within_two_seconds("and in the history", || see(&mut visitor("nobody"), history));
        within_two_seconds("another user sees it", || see(&mut bob, "/wiki/Lab_test"));
        assert!(edge.metric("petasos_purges_total", "") > purges, "MediaWiki sent no purge");
        within_two_seconds("it is shared again", || is_hit(&visitor("nobody").get("/wiki/Lab_test")));
    }
    assert_eq!(
        edge.metric("petasos_purges_forbidden_total", "") + edge.metric("petasos_purges_malformed_total", ""),
        0.0
    );
}

/// Edits a page, the text being its summary as well, which the history shows.
fn edit(user: &mut Visitor<'_>, title: &str, text: &str) {
    let tokens = user.get("/api.php?action=query&meta=tokens&format=json");
    let tokens: serde_json::Value = serde_json::from_slice(&tokens.body).unwrap();
    let token = tokens.pointer("/query/tokens/csrftoken").unwrap().as_str().unwrap().to_owned();
    let form = Form::new().with("action", "edit").with("format", "json").with("title", title);
    let form = form.with("text", text).with("summary", text).with("token", &token);
    let answer = user.post("/api.php", &form);
    assert!(answer.text().contains("\"result\":\"Success\""), "{}", answer.text());
}
