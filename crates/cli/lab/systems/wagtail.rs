//! Wagtail behind the edge (`cargo xtask lab wagtail up`). Anonymous visitors share pages, editors
//! see only their own pages, and forms keep their tokens apart. Published changes are visible at
//! once, because Wagtail sends purges.

use super::running_lab::{Cms, LoginForm, RunningLab, is_known, sees};
use super::visitor::{FormFields, LabVisitor, between};
use testkit::Response;

const WAGTAIL: Cms = Cms {
    lab: "wagtail",
    origin: "nginx_templates",
    profile: "wagtail",
    shared: SHARED,
    own: OWN,
    users: ["alice", "bob"],
    login: LOGIN,
    check,
    idle_cookies: &[("_ga", "GA1.2.3")],
};
pub(crate) const LOGIN: LoginForm = LoginForm {
    target: "/admin/login/",
    sign: "csrfmiddlewaretoken",
    name: "username",
    password: "password",
    more: &[],
};
/// Pages without personal content.
const SHARED: &[&str] =
    &["/", "/articles/", "/articles/?page=2", "/articles/article-5/", "/search/?query=bridge"];
/// Pages that are private to each visitor.
const OWN: &[&str] =
    &["/contact/", "/admin/", "/admin/pages/", "/admin/account/", "/admin/login/", "/admin/pages/3/"];

/// The checks run one after the other, because they share the edge's address, the target of
/// Wagtail's purges.
#[test]
fn wagtail_behind_the_edge() {
    let running = RunningLab::of(&WAGTAIL);
    running.anonymous_pages_become_hits();
    running.users_see_their_own_pages_only();
    forms_work_for_everybody(&running);
    what_is_published_is_seen(&running);
    running.cookies_that_mean_nothing_do_not_matter();
}

/// Checks that a page belongs to this visitor, by the name in it and by whether it is shown at all.
fn check(visitor: &LabVisitor<'_>, target: &str, answer: &Response) {
    let text = answer.text();
    let name = visitor.name.as_str();
    let is_known = is_known(visitor);
    let account = || text.split_once("\", \"avatarUrl\"").and_then(|(before, _)| before.rsplit('"').next());
    let shown = between(text, "Logged in as ", "<").or_else(account);
    let is_admin = target.starts_with("/admin/");
    match shown {
        Some(shown) => assert_eq!(shown, name, "{target}: {}", answer.head),
        // A logged-in user is redirected away from the login, an anonymous visitor to the login.
        None if is_known && target == "/admin/login/" => assert_eq!(answer.status, 302, "{name}"),
        None if is_admin && target != "/admin/login/" => {
            assert!(!is_known && answer.status == 302, "{name} {target}: {}", answer.head);
        }
        None => assert!(!is_known && answer.status == 200, "{name} {target}: {}", answer.head),
    }
    assert!(is_known || !text.contains("w-userbar"), "{name} {target}: the editors' bar");
    if let Some(token) = between(text, "name=\"csrfmiddlewaretoken\" value=\"", "\"") {
        visitor.own(token);
    }
}

/// Two visitors request the form before either sends it. Each sends the token of their page.
fn forms_work_for_everybody(running: &RunningLab) {
    let mut visitors = [running.visitor("one"), running.visitor("two")];
    let forms: Vec<FormFields> = visitors
        .iter_mut()
        .map(|visitor| {
            let form = FormFields::of(visitor.get("/contact/").text(), "csrfmiddlewaretoken");
            visitor.own(form.value("csrfmiddlewaretoken"));
            form.with("name", &visitor.name).with("message", "words")
        })
        .collect();
    for (visitor, form) in visitors.iter_mut().zip(&forms) {
        let answer = visitor.post("/contact/", form);
        assert!(answer.status == 200 && answer.text().contains("Thank you."), "{}", answer.head);
        let answer = visitor.post("/contact/", &form.clone().with("csrfmiddlewaretoken", "of somebody else"));
        assert_eq!(answer.status, 403, "Django looks at the token");
    }
}

fn what_is_published_is_seen(running: &RunningLab) {
    // Alice bypasses the edge, so only Wagtail's purges tell the edge of her changes.
    let mut alice = running.user_behind_the_edge("alice");
    let mut bob = running.user("bob");
    // The newest article, which the front page and the index also show.
    let pages = ["/articles/article-100/", "/", "/articles/"];
    // The article's number is in the editors' bar.
    let page = alice.get(pages[0]);
    let before = page.text().split_once("/edit/").map(|(before, _)| before).unwrap();
    let form_target = format!("/admin/pages/{}/edit/", before.rsplit('/').next().unwrap());
    for number in 1..=3 {
        let title = format!("Edition {number} of {}", std::process::id());
        running.are_stored_without(&pages, &title);
        let purges = running.purges();
        let form = FormFields::of(alice.get(&form_target).text(), "name=\"title\"").with("title", &title);
        let answer = alice.post(&form_target, &form.with("action-publish", "action-publish"));
        assert_eq!(answer.status, 302, "{}", answer.text());
        for target in pages {
            running.nobody_misses(target, &title);
            assert!(sees(&mut bob, target, &title), "another editor sees it at {target}");
            running.is_shared_again(target);
        }
        assert!(running.purges() >= purges + 3.0, "Wagtail did not send three purges");
    }
    running.no_purge_was_refused();
}
