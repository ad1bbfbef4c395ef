//! Wagtail behind the edge (`cargo xtask lab wagtail up`): what anonymous visitors share, that editors see their own
//! pages only, that forms keep their tokens apart, and that what is published is seen at once because Wagtail purges.

use super::visitor::{Form, Lab, Owners, Visitor, between, comes_to_share, is_hit, within_two_seconds};
use testkit::{Edge, Response};

/// What nobody has to be known for.
const SHARED: &[&str] =
    &["/", "/articles/", "/articles/?page=2", "/articles/article-5/", "/search/?query=bridge"];
/// What is each visitor's own.
const OWN: &[&str] =
    &["/contact/", "/admin/", "/admin/pages/", "/admin/account/", "/admin/login/", "/admin/pages/3/"];

/// One after the other: they share the edge's address, to which Wagtail sends its purges.
#[test]
fn wagtail_behind_the_edge() {
    let lab = Lab::find("wagtail");
    let edge = lab.edge("nginx_templates", "wagtail");
    anonymous_pages_become_hits(&lab, &edge);
    editors_see_their_own_pages_only(&lab, &edge);
    forms_work_for_everybody(&lab, &edge);
    what_is_published_is_seen(&lab, &edge);
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
    comes_to_share(&mut measured, SHARED);
}

fn editors_see_their_own_pages_only(lab: &Lab, edge: &Edge) {
    let owners = Owners::default();
    let visitor = |name: &str| Visitor::new(name, edge.address, lab.value("host"), &owners);
    let mut visitors = [visitor("nobody"), visitor("alice"), visitor("bob")];
    for user in &mut visitors[1..] {
        log_in(user, lab.value("user_password"));
    }
    // In turns, so that each comes after each other, and with nothing stored at first.
    for (round, target) in SHARED.iter().chain(OWN).enumerate() {
        for turn in [0, 1, 2, 0, 2, 1, 0] {
            let answer = visitors[turn].get(target);
            check(&visitors[turn], target, &answer);
            if turn == 0 {
                visitors[0] = visitor("nobody");
                visitors[0].name = format!("nobody {round}");
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
    let page = user.get("/admin/login/");
    let form = Form::of(page.text(), "csrfmiddlewaretoken").with("username", &user.name);
    let answer = user.post("/admin/login/", &form.with("password", password));
    assert_eq!(answer.status, 302, "{}: {}", user.name, answer.head);
}

/// That a page is this visitor's own, by the name in it and by whether it is shown at all.
fn check(visitor: &Visitor<'_>, target: &str, answer: &Response) {
    let (text, name) = (answer.text(), visitor.name.as_str());
    let is_known = !name.starts_with("nobody");
    let account = || text.split_once("\", \"avatarUrl\"").and_then(|(before, _)| before.rsplit('"').next());
    let shown = between(text, "Logged in as ", "<").or_else(account);
    let is_admin = target.starts_with("/admin/");
    match shown {
        Some(shown) => assert_eq!(shown, name, "{target}: {}", answer.head),
        // Who is known is sent on from the login, who is not known is sent there.
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

/// Two visitors ask for the form before either sends it: each sends the token of the own page.
fn forms_work_for_everybody(lab: &Lab, edge: &Edge) {
    let owners = Owners::default();
    let visitor = |name: &str| Visitor::new(name, edge.address, lab.value("host"), &owners);
    let mut visitors = [visitor("one"), visitor("two")];
    let forms: Vec<Form> = visitors
        .iter_mut()
        .map(|visitor| {
            let form = Form::of(visitor.get("/contact/").text(), "csrfmiddlewaretoken");
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

fn what_is_published_is_seen(lab: &Lab, edge: &Edge) {
    let owners = Owners::default();
    let visitor = |name: &str| Visitor::new(name, edge.address, lab.value("host"), &owners);
    // Alice does not come through the edge, so that it knows of what she publishes by Wagtail's purges only.
    let mut alice = Visitor::new("alice", lab.address("nginx_templates"), lab.value("host"), &owners);
    let mut bob = visitor("bob");
    log_in(&mut alice, lab.value("user_password"));
    log_in(&mut bob, lab.value("user_password"));
    // The newest article: it is shown on the front page and in the index as well.
    let pages = ["/articles/article-100/", "/", "/articles/"];
    // Its number stands in the editors' bar.
    let page = alice.get(pages[0]);
    let before = page.text().split_once("/edit/").map(|(before, _)| before).unwrap();
    let form_target = format!("/admin/pages/{}/edit/", before.rsplit('/').next().unwrap());
    for number in 1..=3 {
        let title = format!("Edition {number} of {}", std::process::id());
        let purges = edge.metric("petasos_purges_total", "");
        for target in pages {
            visitor("nobody").get(target);
            let before = visitor("nobody").get(target);
            assert!(is_hit(&before) && !before.text().contains(&title), "{target}: {}", before.head);
        }
        let form = Form::of(alice.get(&form_target).text(), "name=\"title\"").with("title", &title);
        let answer = alice.post(&form_target, &form.with("action-publish", "action-publish"));
        assert_eq!(answer.status, 302, "{}", answer.text());
        for target in pages {
            let see = |mut visitor: Visitor<'_>| visitor.get(target).text().contains(&title);
            within_two_seconds(&format!("an anonymous visitor sees it at {target}"), || {
                see(visitor("nobody"))
            });
            assert!(bob.get(target).text().contains(&title), "another editor sees it at {target}");
            within_two_seconds("it is shared again", || is_hit(&visitor("nobody").get(target)));
        }
        assert!(edge.metric("petasos_purges_total", "") >= purges + 3.0, "Wagtail did not send three purges");
    }
    let refused = ["petasos_purges_forbidden_total", "petasos_purges_malformed_total"];
    assert!(refused.iter().all(|name| edge.metric(name, "") < 1.0), "a purge was refused");
}
