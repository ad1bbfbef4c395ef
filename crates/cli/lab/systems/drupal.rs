//! Drupal 7 or Pressflow 7 behind the edge (`cargo xtask lab drupal --source DIR up`): that it is recognised, what
//! anonymous visitors share, that users see their own pages only, and that an edit made through the edge is seen at
//! once, although Drupal itself sends no purge. Not in the test command, which has no Drupal.

use super::visitor::{Form, Lab, Owners, Visitor, between, comes_to_share, is_hit, within_two_seconds};
use testkit::{Edge, Response};

/// What nobody has to be known for.
const SHARED: &[&str] = &["/", "/node", "/node?page=2", "/node/5", "/node/100", "/rss.xml"];
/// What is each visitor's own, or nobody's.
const OWN: &[&str] = &[
    "/user",
    "/user/login",
    "/user/register",
    "/user/password",
    "/node/5/edit",
    "/node/add/article",
    "/admin",
];

/// One after the other: they share the edge's address.
#[test]
fn drupal_behind_the_edge() {
    let lab = Lab::find("drupal");
    let edge = lab.edge("nginx_objects", "auto");
    drupal_is_recognised(&lab, &edge);
    anonymous_pages_become_hits(&lab, &edge);
    users_see_their_own_pages_only(&lab, &edge);
    an_edit_is_seen_by_everybody(&lab, &edge);
    cookies_that_mean_nothing_do_not_matter(&lab, &edge);
}

/// By its first answer already, in the log and for `petasos why`.
fn drupal_is_recognised(lab: &Lab, edge: &Edge) {
    let owners = Owners::default();
    Visitor::new("first", edge.address, lab.value("host"), &owners).get("/node/1");
    let status = Edge::status(edge.admin).unwrap();
    assert_eq!(status["sites"][0]["rules"], "drupal", "{status}");
    testkit::eventually("the log says so", || edge.stderr().contains("runs on Drupal"));
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
    measured.keep("has_js", "1");
    comes_to_share(&mut measured, SHARED);
}

fn users_see_their_own_pages_only(lab: &Lab, edge: &Edge) {
    let owners = Owners::default();
    let visitor = |name: &str| Visitor::new(name, edge.address, lab.value("host"), &owners);
    let mut visitors = [visitor("nobody"), visitor("alice"), visitor("bob")];
    for user in &mut visitors[1..] {
        log_in(user, lab.value("user_password"));
    }
    // In turns, so that each comes after each other.
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
fn log_in(user: &mut Visitor<'_>, password: &str) {
    let page = user.get("/user/login");
    let form = Form::of(page.text(), "id=\"edit-pass\"").with("name", &user.name).with("pass", password);
    let answer = user.post("/user/login", &form.with("op", "Log in"));
    assert_eq!(answer.status, 302, "{}: {}", user.name, answer.head);
}

/// That a page is this visitor's own, by the name that the lab's module puts into each and by the tokens of its forms.
fn check(visitor: &Visitor<'_>, target: &str, answer: &Response) {
    let (text, name) = (answer.text(), visitor.name.as_str());
    let is_known = name != "nobody";
    let has_name = is_known && text.contains("</html>");
    let shown = between(text, "<p id=\"lab-visitor\">", "</p>");
    assert_eq!(shown, has_name.then_some(name), "{name} {target}: {}", answer.head);
    assert!(!is_known || !is_hit(answer) || !has_name, "{name} {target}: {}", answer.head);
    // Forms of those who are not known have no token.
    if let Some(token) = between(text, "name=\"form_token\" value=\"", "\"") {
        assert!(is_known, "{target}: a token for nobody");
        // The same form has another token for everybody else.
        visitor.own(token);
    }
}

fn an_edit_is_seen_by_everybody(lab: &Lab, edge: &Edge) {
    let owners = Owners::default();
    let visitor = |name: &str| Visitor::new(name, edge.address, lab.value("host"), &owners);
    let (mut alice, mut bob) = (visitor("alice"), visitor("bob"));
    log_in(&mut alice, lab.value("user_password"));
    log_in(&mut bob, lab.value("user_password"));
    // The newest article: it is the first on the front page and in the feed as well.
    let pages = ["/node/100", "/", "/node", "/rss.xml"];
    for number in 1..=3 {
        let title = format!("Edition {number} of {}", std::process::id());
        for target in pages {
            visitor("nobody").get(target);
            let before = visitor("nobody").get(target);
            assert!(is_hit(&before) && !before.text().contains(&title), "{target}: {}", before.head);
        }
        edit(&mut alice, &title);
        for target in pages {
            let see = |visitor: &mut Visitor<'_>| visitor.get(target).text().contains(&title);
            assert!(see(&mut alice), "{target}: the editor does not see the edit");
            within_two_seconds("an anonymous visitor sees the edit", || see(&mut visitor("nobody")));
            within_two_seconds("another user sees it", || see(&mut bob));
            within_two_seconds("it is shared again", || is_hit(&visitor("nobody").get(target)));
        }
    }
}

/// Gives the newest article another title, by Drupal's own form.
fn edit(user: &mut Visitor<'_>, title: &str) {
    let target = "/node/100/edit";
    let form = Form::of(user.get(target).text(), "value=\"article_node_form\"");
    let form = form.with("title", title).with("body[und][0][format]", "filtered_html").with("op", "Save");
    let answer = user.post(target, &form);
    assert_eq!(answer.status, 302, "{}", answer.text());
}
