//! Drupal 7 or Pressflow 7 behind the edge (`cargo xtask lab drupal --source DIR up`): that it is recognised, what
//! anonymous visitors share, that users see their own pages only, and that an edit made through the edge is seen at
//! once, although Drupal itself sends no purge. Not in the test command, which has no Drupal.

use super::stand::{Cms, Login, Stand, is_known, sees};
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
const LOGIN: Login = Login {
    target: "/user/login",
    sign: "id=\"edit-pass\"",
    name: "name",
    password: "pass",
    more: &[("op", "Log in")],
};
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
    let stand = Stand::of(&DRUPAL);
    drupal_is_recognised(&stand);
    stand.anonymous_pages_become_hits();
    stand.users_see_their_own_pages_only();
    an_edit_is_seen_by_everybody(&stand);
    stand.cookies_that_mean_nothing_do_not_matter();
}

/// By its first answer already, in the log and for `petasos why`.
fn drupal_is_recognised(stand: &Stand) {
    stand.nobody().get("/node/1");
    let status = Edge::status(stand.edge.admin).unwrap();
    assert_eq!(status["sites"][0]["rules"], "drupal", "{status}");
    testkit::eventually("the log says so", || stand.edge.stderr().contains("runs on Drupal"));
}

/// That a page is this visitor's own, by the name that the lab's module puts into each and by the tokens of its forms.
fn check(visitor: &Visitor<'_>, target: &str, answer: &Response) {
    let (text, name, is_known) = (answer.text(), visitor.name.as_str(), is_known(visitor));
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

fn an_edit_is_seen_by_everybody(stand: &Stand) {
    let (mut alice, mut bob) = (stand.user("alice"), stand.user("bob"));
    // The newest article: it is the first on the front page and in the feed as well.
    let pages = ["/node/100", "/", "/node", "/rss.xml"];
    for number in 1..=3 {
        let title = format!("Edition {number} of {}", std::process::id());
        stand.are_stored_without(&pages, &title);
        edit(&mut alice, &title);
        for target in pages {
            assert!(sees(&mut alice, target, &title), "{target}: the editor does not see the edit");
            stand.nobody_misses(target, &title);
            within_two_seconds("another user sees it", || sees(&mut bob, target, &title));
            stand.is_shared_again(target);
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
