//! Drupal 7 or Pressflow 7 behind the edge (`cargo xtask lab drupal --source DIR up`). The edge
//! detects Drupal, anonymous visitors share pages, and users see only their own pages. An edit made
//! through the edge is visible at once, although Drupal itself sends no purge. The test command
//! leaves this test out, because it has no Drupal.

use super::running_lab::{Cms, LoginForm, RunningLab, is_known, sees};
use super::visitor::{Form, Visitor, between, is_hit, within_two_seconds};
use testkit::{Edge, Response};

const DRUPAL: Cms = Cms {
    lab: "drupal",
    origin: "nginx_objects",
    profile: "auto",
    shared: SHARED,
    own: OWN,
    users: ["alice", "bob"],
    login: LOGIN,
    check,
    idle_cookies: &[("_ga", "GA1.2.3"), ("has_js", "1")],
};
const LOGIN: LoginForm = LoginForm {
    target: "/user/login",
    sign: "id=\"edit-pass\"",
    name: "name",
    password: "pass",
    more: &[("op", "Log in")],
};
/// Pages without personal content.
const SHARED: &[&str] = &["/", "/node", "/node?page=2", "/node/5", "/node/100", "/rss.xml"];
/// Pages that are private to each visitor, or not accessible.
const OWN: &[&str] = &[
    "/user",
    "/user/login",
    "/user/register",
    "/user/password",
    "/node/5/edit",
    "/node/add/article",
    "/admin",
];

/// The checks run one after the other, because they share the edge's address.
#[test]
fn drupal_behind_the_edge() {
    let running = RunningLab::of(&DRUPAL);
    drupal_is_recognised(&running);
    running.anonymous_pages_become_hits();
    running.users_see_their_own_pages_only();
    an_edit_is_seen_by_everybody(&running);
    running.cookies_that_mean_nothing_do_not_matter();
}

/// Checks that the first response already identifies Drupal, in the status and in the log.
fn drupal_is_recognised(running: &RunningLab) {
    running.nobody().get("/node/1");
    let status = Edge::status(running.edge.admin).unwrap();
    assert_eq!(status["sites"][0]["rules"], "drupal", "{status}");
    testkit::eventually("the log says so", || running.edge.stderr().contains("runs on Drupal"));
}

/// Checks that a page belongs to this visitor. The lab's module adds the visitor's name to each
/// page, and forms have tokens.
fn check(visitor: &Visitor<'_>, target: &str, answer: &Response) {
    let text = answer.text();
    let name = visitor.name.as_str();
    let is_known = is_known(visitor);
    let has_name = is_known && text.contains("</html>");
    let shown = between(text, "<p id=\"lab-visitor\">", "</p>");
    assert_eq!(shown, has_name.then_some(name), "{name} {target}: {}", answer.head);
    assert!(!is_known || !is_hit(answer) || !has_name, "{name} {target}: {}", answer.head);
    // Forms for anonymous visitors have no token.
    if let Some(token) = between(text, "name=\"form_token\" value=\"", "\"") {
        assert!(is_known, "{target}: a token for nobody");
        // The same form has another token for every user.
        visitor.own(token);
    }
}

fn an_edit_is_seen_by_everybody(running: &RunningLab) {
    let mut alice = running.user("alice");
    let mut bob = running.user("bob");
    // The newest article, which is also the first on the front page and in the feed.
    let pages = ["/node/100", "/", "/node", "/rss.xml"];
    for number in 1..=3 {
        let title = format!("Edition {number} of {}", std::process::id());
        running.are_stored_without(&pages, &title);
        edit(&mut alice, &title);
        for target in pages {
            assert!(sees(&mut alice, target, &title), "{target}: the editor does not see the edit");
            running.nobody_misses(target, &title);
            within_two_seconds("another user sees it", || sees(&mut bob, target, &title));
            running.is_shared_again(target);
        }
    }
}

/// Changes the title of the newest article through Drupal's own form.
fn edit(user: &mut Visitor<'_>, title: &str) {
    let target = "/node/100/edit";
    let form = Form::of(user.get(target).text(), "value=\"article_node_form\"");
    let form = form.with("title", title).with("body[und][0][format]", "filtered_html").with("op", "Save");
    let answer = user.post(target, &form);
    assert_eq!(answer.status, 302, "{}", answer.text());
}
